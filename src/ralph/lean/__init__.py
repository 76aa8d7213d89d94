"""What recording a hook event loads, and stand-ins for `typing` and `dataclasses`.

The modules in this folder find the project, decide whether an event needs the secret rules, and
append it to a log. Every event pays for them, so they import next to nothing.

A hook starts a new interpreter for every event. Importing `typing` takes longer than recording the
event, and importing `dataclasses` takes twice as long again. Modules that hooks load therefore
import two names from here instead: `TYPE_CHECKING`, which type checkers recognise by name, and
`record`, a decorator for value classes.
"""

from __future__ import annotations

TYPE_CHECKING: bool = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def record(cls: type[T]) -> type[T]:
        """Turn a class into a value type with one field per annotation, compared by its fields."""
        raise NotImplementedError

else:

    def record(cls):
        """Turn a class into a value type with one field per annotation, compared by its fields."""
        names = tuple(cls.__annotations__)
        defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
        cls.__init__ = _make_init(cls.__name__, names, defaults)
        cls.__eq__ = _equal_fields
        cls.__hash__ = _hash_fields
        cls.__repr__ = _show_fields
        return cls


def replace(value: T, **changes: Any) -> T:
    """Return a copy of a record with some fields changed."""
    return type(value)(**{**vars(value), **changes})


def _make_init(
    class_name: str, names: tuple[str, ...], defaults: dict[str, object]
) -> Callable[..., None]:
    expected = frozenset(names)

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807
        fields = {**defaults, **dict(zip(names, values, strict=False)), **named}
        if len(values) > len(names) or fields.keys() != expected:
            wrong = ", ".join(sorted(fields.keys() ^ expected)) or "too many"
            raise TypeError(f"{class_name}() got the wrong fields: {wrong}")
        vars(self).update(fields)

    return __init__


def _equal_fields(self: object, other: object) -> bool:
    return type(self) is type(other) and vars(self) == vars(other)


def _hash_fields(self: object) -> int:
    # In annotation order, because equal values may have been given their fields in another order.
    return hash(tuple(getattr(self, name) for name in type(self).__annotations__))


def _show_fields(self: object) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__annotations__)
    return f"{type(self).__name__}({fields})"
