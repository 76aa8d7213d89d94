"""Salted hashes of what `ralph forget` removed, so that no import, pull, restore or old log brings it back.

One file serves all projects: a random key, then one hash a line. Events are hashed by id: many have the same text.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ralph import paths
from ralph.errors import RalphError
from ralph.formats.text import normalise_text
from ralph.model.record import Family, Record
from ralph.store import files

# characters
_HASH = 20
_KEY = 64
_EVENT = "id:"
_SESSION = "session:"


class ForgottenTexts:
    """The hashes of what was forgotten."""

    def __init__(self, text: str) -> None:
        key, *hashes = text.split("\n")
        is_key = len(key) == _KEY and not set(key) - set("0123456789abcdef")
        self.key = bytes.fromhex(key) if is_key else b""
        self.hashes = frozenset(filter(None, hashes)) if is_key else frozenset[str]()

    def hash(self, text: str) -> str:
        """Return the hash of a text."""
        normal = normalise_text(text).encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, normal, "sha256").hex()[:_HASH]

    def has(self, text: object) -> bool:
        """Whether this text was forgotten."""
        return bool(self.hashes) and isinstance(text, str) and self.hash(text) in self.hashes

    def hides(self, record: Record) -> bool:
        """Whether a record was forgotten, by its text or an event's id."""
        return self.has(record.text) or (
            record.family is not Family.MEMORY and self.has(event_key(record.id))
        )


def event_key(record_id: str) -> str:
    """Return what is hashed for a recorded event."""
    return _EVENT + record_id


def session_key(session: str, text: str = "", call: str = "") -> str:
    """Return what is hashed for a whole session, or for a text or call in it: a transcript has other ids and times."""
    return f"{_SESSION}{session}:{call or text}"


def load() -> ForgottenTexts:
    """Return what this user has forgotten."""
    path = paths.forgotten_file()
    return _load(path, mark()) if path is not None else ForgottenTexts("")


def mark() -> str:
    """Return what changes whenever the list does; "" while there is none."""
    path = paths.forgotten_file()
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}" if status is not None else ""


@lru_cache(maxsize=2)
def _load(path: Path, _mark: str) -> ForgottenTexts:
    try:
        return ForgottenTexts(files.read(path) or "")
    except RalphError:
        return ForgottenTexts("")


def remember(texts: Iterable[str]) -> None:
    """Add the hashes of forgotten texts and events."""
    path = paths.forgotten_file()
    wanted = [text for text in texts if text.strip()]
    if path is None or not wanted:
        return

    def edit(text: str) -> str:
        before = ForgottenTexts(text)
        before = before if before.key else ForgottenTexts(os.urandom(_KEY // 2).hex())
        hashes = dict.fromkeys(map(before.hash, wanted))
        return "\n".join([before.key.hex(), *sorted(before.hashes.union(hashes)), ""])

    files.make_folder(path.parent, 0o700)
    files.update(path, edit, mode=files.PRIVATE)


def lift(text: str) -> None:
    """Remove the hash of a text that a person adds again."""
    if (path := paths.forgotten_file()) is not None and load().has(text):
        number = load().hash(text)
        files.update(path, lambda lines: lines.replace(f"\n{number}\n", "\n"), mode=files.PRIVATE)
