"""Names of cases, so that a failure says which one it was and `-k` reaches it; and a loop over hundreds of cases."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]

_LONGEST = 60
_ROOT = Path(__file__).parents[2]


def case_name(value: object) -> str | None:
    """Return a short name for a value of a parametrised test; None where that of pytest will do.

    A name must be the same in all processes: none is made of an address or of the order of a set.
    """
    if isinstance(value, Path):
        return _shortened(str(value.relative_to(_ROOT) if value.is_relative_to(_ROOT) else value))
    if isinstance(value, str | bytes):
        return None if 0 < len(value) <= _LONGEST else _shortened(_shown(value))
    if isinstance(value, tuple | list | Mapping):
        return _shortened(_shown(value))
    return None


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{_shown(key)}={_shown(each)}" for key, each in value.items()) or "{}"
    if isinstance(value, tuple | list):
        return ",".join(map(_shown, value)) or "[]"
    if isinstance(value, str):
        return value[: _LONGEST + 1] or "''"
    if isinstance(value, bytes):
        return repr(value[: _LONGEST + 1])
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, int | float | Path) or value is None:
        return str(value)[: _LONGEST + 1]
    return type(value).__name__


def _shortened(text: str) -> str:
    text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test once for each of hundreds of values, where a test for each would cost more than it tells.

    All cases run, also after a failure, which names its case. They share the test's fixtures: a test that
    changes one needs `pytest.mark.parametrize`, and so does one with fewer cases.
    """
    parameters = (
        tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    )
    cases = [(value,) if len(parameters) == 1 else tuple(value) for value in values]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run_cases(*args: Any, **kwargs: Any) -> None:
            failures: list[Exception] = []
            for case in cases:
                given = dict(zip(parameters, case, strict=True))
                try:
                    test(*args, **kwargs, **given)
                except pytest.skip.Exception:
                    continue  # this case alone
                except Exception as error:  # noqa: BLE001 - reported below, with the others
                    error.add_note(
                        "case: "
                        + ", ".join(f"{name}={value!r:.500}" for name, value in given.items())
                    )
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases fail", failures)

        signature = inspect.signature(test)
        rest = [value for name, value in signature.parameters.items() if name not in parameters]
        run_cases.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        return run_cases

    return decorate
