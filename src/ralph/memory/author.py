"""The author of a memory, and the rules that apply to a write.

An adapter (the command line, MCP, the web) builds one `WriteContext` and passes it on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ralph.storage.write_observers import WriteObserver

_PERSON = "human"
_AGENT = "agent"
_RALPH = ""  # a caller inside Ralph that names no author


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a text, and the way it reached Ralph."""

    by: str = _RALPH
    """`human`, `agent`, `import`, or "" for a caller inside Ralph."""
    via: str = ""
    """How it was added, such as `mcp (codex)`; "" on the command line."""
    signed: Mapping[str, str] | None = None
    """The members of the signature; None looks them up when the entry is written."""

    @property
    def is_person(self) -> bool:
        """Whether the author is a person."""
        return self.by == _PERSON

    @property
    def is_trusted(self) -> bool:
        """Whether the author is a person or Ralph itself."""
        return self.by in (_PERSON, _RALPH)

    def signature(self, root: Path) -> Mapping[str, str]:
        """Return the members of `extra` that identify the author."""
        if self.signed is not None:
            return self.signed
        from ralph.memory.caller import signature

        return signature(root, self.by)


PERSON = Author(_PERSON)
AGENT = Author(_AGENT)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The author of a change, the permissions of a person, and the observer of written files."""

    author: Author = Author()
    accepted: bool = False
    """Whether a person has read and accepted what somebody else, the author, wants to add."""
    allow_secret: bool = False
    """Whether a text that looks like a secret is stored anyway."""
    patterns: Sequence[str] = ()
    """The user's own patterns for secrets, as regular expressions."""
    observer: WriteObserver | None = None
    """Records each change, and may keep it from being written; None writes."""

    @property
    def is_decided_by_person(self) -> bool:
        """Whether a person wrote or accepted the text."""
        return self.accepted or self.author.is_person

    @property
    def is_trusted(self) -> bool:
        """Whether the text is stored even if it reads like an instruction to an agent."""
        return self.accepted or self.author.is_trusted

    @property
    def is_real(self) -> bool:
        """Whether changes are written to disk."""
        return self.observer is None or self.observer.writes_to_disk


BY_RALPH = WriteContext()
BY_PERSON = WriteContext(PERSON)
BY_AGENT = WriteContext(AGENT)
