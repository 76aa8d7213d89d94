"""A tool as a value: its name, what it takes, what it gives, and where the function behind it stands.

Each parameter is declared once; the schema that clients see and the check of what they send are both made from
it. Models send numbers as texts and lists with commas, as people do on the command line: both are taken. What is
wrong is a UsageError, so that a model reads a sentence and can try again. Nothing here knows the SDK or loads a
verb: a server lists its tools long before it is asked to run one. `tests/mcp_server/test_tool.py` proves it.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from ralph.errors import UsageError

Schema = dict[str, object]
LONGEST = 100_000
"""Characters of one argument."""
WORD, WORDS = 500, 100
"""Characters of one word of a list, and how many words it has at most."""
HIGHEST = 1_000_000
"""No number is higher: nothing holds as much, and the index cannot count on without end."""


class Shape(StrEnum):
    """What a parameter holds, in the words of JSON Schema."""

    TEXT = "string"
    NUMBER = "integer"
    FLAG = "boolean"
    LIST = "array"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter; `least` and `most` bound a number, `choices` a text or the words of a list.

    `also` is another name that is taken, as the command has it; clients are not told of it.
    """

    name: str
    shape: Shape = Shape.TEXT
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    about: str = ""
    also: str = ""

    def schema(self) -> Schema:
        """The parameter as clients see it, in as few words as possible."""
        found: Schema = {"type": self.shape.value}
        words: Schema = {"enum": list(self.choices)} if self.choices else {}
        if self.shape is Shape.LIST:
            found["items"] = {"type": "string", **words}
        else:
            found |= words
        bounds = {"minimum": self.least, "maximum": self.most, "description": self.about or None}
        return found | {key: value for key, value in bounds.items() if value is not None}

    def taken(self, value: object) -> object:
        """The value that was meant; UsageError when there is none."""
        if self.shape is Shape.TEXT:
            return self._one_of(_text(self.name, value))
        if self.shape is Shape.NUMBER:
            return self._within(_number(self.name, value))
        if self.shape is Shape.FLAG:
            return _flag(self.name, value)
        return tuple(self._one_of(word) for word in _list(self.name, value))

    def _one_of(self, word: str) -> str:
        if self.choices and word not in self.choices:
            raise UsageError(f"{word!r} is no {self.name}", hint=f"it is one of {', '.join(self.choices)}")
        return word

    def _within(self, number: int) -> int:
        least, most = self.least or 0, self.most or HIGHEST
        if not least <= number <= most:
            raise UsageError(f"{self.name} cannot be {number}", hint=f"it is a number from {least} to {most}")
        return number


class Arguments:
    """What a client sent, checked: each by its name, the empty value where nothing was said."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """A text; "" when it was not given."""
        value = self._values.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str, default: int) -> int:
        """A number, or the default."""
        value = self._values.get(name)
        return value if isinstance(value, int) else default

    def flag(self, name: str) -> bool:
        """Whether something was wished for."""
        return self._values.get(name) is True

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a list."""
        return self.words_given(name) or ()

    def words_given(self, name: str) -> tuple[str, ...] | None:
        """The words of a list; None when it was not given, which is not the same as an empty one."""
        value = self._values.get(name)
        return value if isinstance(value, tuple) else None

    def text_given(self, name: str) -> str | None:
        """A text; None when it was not given."""
        value = self._values.get(name)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; `run` is `module.function` within this package.

    A server that only reads lacks those that write; of these, one that `asks` lets a person confirm it first.
    """

    name: str
    about: str
    params: tuple[Param, ...]
    output: Schema
    run: str
    writes: bool = False
    asks: bool = False

    def input_schema(self) -> Schema:
        """What the tool takes, as clients see it."""
        found: Schema = {"type": "object", "properties": {each.name: each.schema() for each in self.params}}
        required = [each.name for each in self.params if each.required]
        return found | ({"required": required} if required else {})

    def arguments(self, given: Mapping[str, object] | None) -> Arguments:
        """What was sent, checked; null counts as not given."""
        known = {each.name: each for each in self.params}
        named = {each.also: each.name for each in self.params if each.also}
        sent = {named.get(name, name): value for name, value in (given or {}).items() if value is not None}
        strange = [name for name in sent if name not in known]
        if strange:
            names = ", ".join(known) or "none"
            raise UsageError(f"{self.name} has no argument {strange[0]!r}", hint=f"its arguments: {names}")
        missing = [each.name for each in self.params if each.required and each.name not in sent]
        if missing:
            raise UsageError(f"{self.name} needs {' and '.join(missing)}", hint="say it and call again")
        return Arguments({name: known[name].taken(value) for name, value in sent.items()})


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and len(value) > LONGEST:
        raise UsageError(f"{name} has {len(value)} characters", hint=f"at most {LONGEST} can be sent; say it shorter")
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{name} is no text", hint="send it as a string")


def _number(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < len("1000000000"):
        return int(value)
    raise UsageError(f"{name} is no whole number", hint="send a number such as 5")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    said = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if said is None:
        raise UsageError(f"{name} is neither true nor false", hint="send true or false")
    return said


def _list(name: str, value: object) -> Sequence[str]:
    """The words of a list, of a list that was sent as a text, or of a text with commas between them."""
    sent = _unpacked(_text(name, value)) if isinstance(value, str) else value
    if not isinstance(sent, list | tuple) or not all(isinstance(word, str) for word in sent):
        raise UsageError(f"{name} is no list of texts", hint='send a list such as ["a", "b"]')
    words = [word.strip() for word in sent if word.strip()]
    if len(words) > WORDS or any(len(word) > WORD for word in words):
        hint = f"at most {WORDS} of at most {WORD} characters can be sent"
        raise UsageError(f"{name} has too many words, or too long ones", hint=hint)
    return words


def _unpacked(text: str) -> object:
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text.split(",")
