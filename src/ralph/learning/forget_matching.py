"""Search text for what is to be forgotten.

There are two ways to search. A needle is a string that must occur literally, apart from its case. A
quote is the beginning of a forgotten text, reduced to its words. It also finds texts that repeat
these words with different punctuation:

    "Use Redis 7, not 6!"   ->   "use redis 7 not 6"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

# Members of a log line that never contain user content. A search for words skips their values.
_PLAIN_LINE_MEMBERS = frozenset(
    (
        "v",
        "type",
        "id",
        "kind",
        "status",
        "scope",
        "at",
        "created_at",
        "updated_at",
        "event",
        "host",
        "mode",
        "session",
        "record",
        "layer",
    )
)
_PLAIN_NESTED_MEMBERS: Mapping[str, frozenset[str]] = {
    "payload": frozenset(
        (
            "hook_event_name",
            "permission_mode",
            "session_id",
            "prompt_id",
            "turn_id",
            "tool_use_id",
        )
    ),
    "origin": frozenset(("by", "session", "agent")),
}
_NO_MEMBERS = frozenset[str]()
_MEMBER_NAME = re.compile(r"[^\W\d]{1,24}")  # any other key may be user content
MIN_NEEDLE_CHARACTERS = 12  # a shorter string may occur in a log or a backup by chance
MAX_QUOTE_CHARACTERS = 200  # enough to recognise a quoted text


def normalise_words(text: str) -> str:
    """Return the words of a text in lower case, separated by single spaces."""
    return re.sub(r"\W+", " ", text.casefold()).strip()


def has_quote(words: str, quote: str) -> bool:
    """Return whether normalised words contain a quote that does not start or end within a word."""
    if quote not in words:
        return False
    if len(quote) == MAX_QUOTE_CHARACTERS:  # it was cut, perhaps in the middle of a word
        return True
    return re.search(rf"(?<![a-z\d]){quote}(?![a-z\d])", words) is not None


def text_values(piece: str) -> Iterator[str]:
    """Yield the strings in a JSON object that may be user content, including keys."""
    line: object = json.loads(piece, object_pairs_hook=tuple)  # objects become tuples of pairs
    pending: list[tuple[object, frozenset[str]]] = [(line, _PLAIN_LINE_MEMBERS)]
    while pending:
        value, skipped = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += ((item, _NO_MEMBERS) for item in value)
        elif isinstance(value, tuple):
            for key, member in value:
                if not _MEMBER_NAME.fullmatch(key):
                    yield key
                if key in skipped and isinstance(member, str):
                    continue
                if value is line:
                    pending.append((member, _PLAIN_NESTED_MEMBERS.get(key, _NO_MEMBERS)))
                else:
                    pending.append((member, _NO_MEMBERS))


def escaped_forms(text: str) -> set[str]:
    """Return the forms that a string can have in a JSON file, in lower case.

    Returns an empty set for an empty string.
    """
    if not text:
        return set()
    forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return {form.casefold() for form in forms}
