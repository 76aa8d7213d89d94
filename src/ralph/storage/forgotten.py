"""Keyed hashes of everything that `ralph forget` removed.

They keep imports, pulls, restored backups and old logs from bringing forgotten text back. All
projects share one file: its first line is a random key, and every other line is one hash. Events
are hashed by id, because many events have the same text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.record import Family, Record
from ralph.core.text import normalise_text
from ralph.storage import files

_HASH_CHARACTERS = 20
_KEY_CHARACTERS = 64
_HEX_DIGITS = frozenset("0123456789abcdef")
_EVENT_PREFIX = "id:"
_SESSION_PREFIX = "session:"


class ForgottenTexts:
    """The hashes of forgotten texts and events. It is empty if the file has no valid key."""

    def __init__(self, text: str) -> None:
        key, *hashes = text.split("\n")
        self.key = b""
        self.hashes: frozenset[str] = frozenset()
        if len(key) == _KEY_CHARACTERS and _HEX_DIGITS.issuperset(key):
            self.key = bytes.fromhex(key)
            self.hashes = frozenset(line for line in hashes if line)

    def hash(self, text: str) -> str:
        """Return the hash of a string."""
        import hmac  # only for people who have forgotten something

        normalised = normalise_text(text).encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, normalised, "sha256").hex()[:_HASH_CHARACTERS]

    def has(self, text: object) -> bool:
        """Return whether this string was forgotten."""
        return bool(self.hashes) and isinstance(text, str) and self.hash(text) in self.hashes

    def hides(self, record: Record) -> bool:
        """Return whether a record was forgotten, by its text or (for an event) by its id."""
        if not self.hashes:
            return False
        if self.has(record.text):
            return True
        return record.family is not Family.MEMORY and self.has(event_key(record.id))


def event_key(record_id: str) -> str:
    """Return the string that is hashed for a recorded event."""
    return _EVENT_PREFIX + record_id


def session_key(session: str, text: str = "", call: str = "") -> str:
    """Return the string that is hashed for a session, or for a message or tool call in it.

    It contains no record ids or times, because a transcript imported later has different ones.
    """
    return f"{_SESSION_PREFIX}{session}:{call or text}"


def load() -> ForgottenTexts:
    """Load the hashes of everything that this user has forgotten."""
    path = paths.forgotten_file()
    if path is None:
        return ForgottenTexts("")
    return _load(path, mark())


def mark() -> str:
    """Return a string that changes whenever the file does, or "" if there is no file."""
    path = paths.forgotten_file()
    if path is None:
        return ""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}"


@lru_cache(maxsize=2)
def _load(path: Path, _mark: str) -> ForgottenTexts:
    try:
        return ForgottenTexts(files.read(path) or "")
    except RalphError:
        return ForgottenTexts("")


def remember(texts: Iterable[str]) -> None:
    """Add the hashes of forgotten texts and events."""
    path = paths.forgotten_file()
    new_texts = [text for text in texts if text.strip()]
    if path is None or not new_texts:
        return

    def edit(text: str) -> str:
        forgotten = ForgottenTexts(text)
        if not forgotten.key:
            forgotten = ForgottenTexts(os.urandom(_KEY_CHARACTERS // 2).hex())
        hashes = forgotten.hashes.union(map(forgotten.hash, new_texts))
        return "\n".join([forgotten.key.hex(), *sorted(hashes), ""])

    files.make_folder(path.parent, 0o700)
    files.update(path, edit, mode=files.PRIVATE)


def lift(text: str) -> None:
    """Remove the hash of forgotten text, because a person has added it again."""
    path = paths.forgotten_file()
    if path is None or not load().has(text):
        return
    line = load().hash(text)
    files.update(path, lambda lines: lines.replace(f"\n{line}\n", "\n"), mode=files.PRIVATE)
