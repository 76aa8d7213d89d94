"""Redact payloads that nobody has judged yet, most of which contain nothing to redact.

A hook runs the pre-filter on a whole payload before it loads the rules. An import has the payload
as an object, with strings that are not escaped. Here the pre-filter judges its short texts
together, and only a payload in which it finds something goes through `redact_payload`, which judges
each text by itself.

The pre-filter errs in one direction only, and the same must hold for short texts that are joined:
if it finds something in one of them, it must find something in all of them together. Whatever it
searches ends at a blank line, except for a patch and for string literals, so these are not joined.
"""

from __future__ import annotations

from functools import lru_cache

from ralph.lean import TYPE_CHECKING
from ralph.lean.secret_prefilter import PATCH_MARKS, index_keywords, needs_rules, prints_secret
from ralph.privacy.hook_payloads import command_of, redact_payload, without_private_edit
from ralph.privacy.patches import sides_of_hunk
from ralph.privacy.secret_names import secret_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Json = dict[str, Any]

# `redact_payload` shortens only what exceeds these limits, some of which are lower than its own.
_MAX_DEPTH = 8  # levels of nested members
_MAX_MEMBERS = 800  # in all lists and objects together; a longer hunk is shortened
_MAX_TEXT = 12_000  # characters
_MAX_CHARACTERS = 48_000  # in all texts together
_MAX_JOINED = 300  # characters; the pre-filter looks up to 400 back for the start of a line
_GAP = "\n\n"
_PATCH_MEMBER = "structuredPatch"
_SIGNS = ("+", "-", " ")
_BLANKS = (" ", "\t", "")
_TITLED_VALUE = "value"  # the member of an object whose `name` may name a secret
_MAX_NAMES = 1_000


class _Unusual(Exception):
    """Raised for a payload whose texts may have to be shortened or dropped."""


def redact_unjudged(payload: Json, patterns: Sequence[str] = ()) -> Json:
    """Return what `redact_payload` returns, faster if there is nothing to redact."""
    if not patterns:
        public = without_private_edit(payload)
        if _is_harmless(public):
            return public
    return redact_payload(payload, patterns)


def _is_harmless(payload: Json) -> bool:
    """Return whether neither the rules nor a limit could change a payload."""
    collector = _Collector()
    try:
        collector.add(payload)
    except _Unusual:
        return False
    index_keywords()
    command = command_of(payload)
    if command and prints_secret(command):
        return False
    return not any(map(needs_rules, _joined(collector.texts)))


class _Collector:
    """Collects the texts in a payload, and both sides of each hunk of a patch."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._characters = 0
        self._members = 0

    def add(self, value: object, depth: int = 0) -> None:
        """Add the texts in a value. Raises _Unusual if it is too large, or names a secret."""
        if isinstance(value, str):
            self._add_text(value)
        elif isinstance(value, dict):
            self._add_members(value, depth)
        elif isinstance(value, list):
            self._count(len(value), depth)
            for item in value:
                self.add(item, depth + 1)
        elif value is not None and not isinstance(value, bool | int | float):
            raise _Unusual

    def _add_members(self, members: Json, depth: int) -> None:
        self._count(len(members), depth)
        for name, value in members.items():
            if name == _TITLED_VALUE or not _is_harmless_name(name):
                raise _Unusual
            if name == _PATCH_MEMBER and isinstance(value, list):
                self._add_hunks(value, depth + 1)
            else:
                self.add(value, depth + 1)

    def _add_hunks(self, hunks: list[object], depth: int) -> None:
        self._count(len(hunks), depth)
        for hunk in hunks:
            if isinstance(hunk, dict) and _is_list_of_texts(hunk.get("lines")):
                self._add_hunk(hunk, depth)
            else:
                self.add(hunk, depth)

    def _add_hunk(self, hunk: Json, depth: int) -> None:
        members = dict(hunk)
        lines: list[str] = members.pop("lines")
        self.add(members, depth)
        self._count(len(lines), depth)
        self.add([line for line in lines if not _has_separate_sign(line)], depth)
        for side in sides_of_hunk(lines):
            self._add_text(side)

    def _add_text(self, text: str) -> None:
        self._characters += len(text)
        self.texts.append(text)
        if self._characters > _MAX_CHARACTERS or len(text) > _MAX_TEXT:
            raise _Unusual

    def _count(self, members: int, depth: int) -> None:
        self._members += members
        if self._members > _MAX_MEMBERS or depth >= _MAX_DEPTH:
            raise _Unusual


@lru_cache(_MAX_NAMES)
def _is_harmless_name(name: str) -> bool:
    return not secret_name(name) and not needs_rules(name)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _has_separate_sign(line: str) -> bool:
    """Return whether a blank follows the sign of a line, so that its side says as much about it."""
    return line[:1] in _SIGNS and line[1:2] in _BLANKS


def _joined(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts, with the short ones joined."""
    short = []
    for text in texts:
        if _can_be_joined(text):
            short.append(text)
        else:
            yield text
    yield _GAP.join(short)


def _can_be_joined(text: str) -> bool:
    if len(text) > _MAX_JOINED or "\\" in text or _PATCH_MEMBER in text:
        return False
    return not any(mark in text for mark in PATCH_MARKS)
