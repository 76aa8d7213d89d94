"""The types of the tools' arguments, from which the SDK derives the JSON schemas.

Models often send numbers as text, and lists as comma-separated text. Both are accepted: the list
`["a", "b"]` may arrive as `"a, b"`, or as the JSON text of the list.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

_MAX_TEXT_CHARACTERS = 100_000
_MAX_WORD_CHARACTERS = 500
_MAX_WORDS = 100
_MAX_NUMBER = 1_000_000  # a higher limit has the same effect


def _check_length(value: object) -> object:
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARACTERS:
        raise ValueError(f"has {len(value)} characters; at most {_MAX_TEXT_CHARACTERS} are allowed")
    return value


def _number_to_text(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def to_words(value: object) -> object:
    """Convert an argument to a list of words. Raises ValueError if it is not such a list."""
    if isinstance(value, str):
        _check_length(value)
        value = _split_words(value)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts such as ["a", "b"]')
    words = [word.strip() for word in value if word.strip()]
    if len(words) > _MAX_WORDS or any(len(word) > _MAX_WORD_CHARACTERS for word in words):
        raise ValueError(
            f"can have at most {_MAX_WORDS} words of at most {_MAX_WORD_CHARACTERS} characters"
        )
    return words


def _split_words(text: str) -> object:
    """Parse a list that was sent as text, either as JSON or separated by commas."""
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text.split(",")


_AS_WORDS = BeforeValidator(to_words)
_LIST_OR_TEXT = WithJsonSchema(
    {
        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
        "description": "a list, or text such as A,B",
    }
)
Text = Annotated[str, BeforeValidator(_check_length), BeforeValidator(_number_to_text)]
Name = Annotated[Text, StringConstraints(strip_whitespace=True)]
Number = Annotated[int, Field(ge=1), AfterValidator(lambda number: min(number, _MAX_NUMBER))]
Words = Annotated[list[str], _AS_WORDS, _LIST_OR_TEXT]
KindName = Literal["pattern", "decision", "fix", "context"]
KindNames = Annotated[list[KindName], _AS_WORDS]
When = Annotated[Text, Field(description="a date, or an age such as 7d or 24h")]
Layer = Annotated[
    int, Field(ge=1, le=3, description="1: one line, 2: with what is around it, 3: in full")
]
Hops = Annotated[int, Field(ge=1, le=6)]
FileName = Literal["memories", "guardrails", "patterns", "knowledge", "personal"]
FileNames = Annotated[
    list[Literal["memories", "guardrails", "patterns", "knowledge", "personal", "all"]], _AS_WORDS
]
RecordNames = Annotated[list[Literal["memories", "sessions", "journal"]], _AS_WORDS]
OutcomeName = Literal["", "done", "failed", "retried", "blocked", "interrupted"]
StateName = Literal["", "pending", "in_progress", "blocked", "done", "failed"]
