"""Memories that wait until a person accepts or rejects them.

They are stored as JSON lines in the state folder. A line that cannot be read, for example because a
newer version wrote it, is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.storage import files, gitignore
from ralph.storage.write_observers import WriteObserver


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A memory that somebody tried to add, and who it was."""

    id: str
    at: str
    text: str
    in_: str = "memories"
    kind: str = ""
    title: str = ""
    feature: str = ""
    tags: tuple[str, ...] = ()
    by: str = ""
    via: str = ""
    who: str = ""
    session: str = ""
    reason: str = ""  # why it waits, unless it reads like an instruction


def hold(root: Path, memory: HeldMemory) -> Refused:
    """Hold a memory unless it is already held, and return the error to raise."""
    name = _find_same(root, memory)
    if not name:
        name = ids.mint("held")
        hold_all(root, [replace(memory, id=name)])
    reason = memory.reason or "it reads like an instruction to an agent"
    return Refused(
        f"{reason}, so it is not a memory yet: {name} waits for a person",
        hint=f"a person decides: ralph review accept {name}, or ralph review reject {name}",
    )


def _find_same(root: Path, memory: HeldMemory) -> str:
    wanted = (memory.in_, memory.title, memory.text)
    for other in list_held(root):
        if (other.in_, other.title, other.text) == wanted:
            return other.id
    return ""


def hold_all(root: Path, memories: Sequence[HeldMemory]) -> None:
    """Hold memories until a person has decided about each of them.

    A memory without an id gets one derived from its text.
    """
    from ralph.formats.log import encode_line  # adding a memory does not need it

    text = ""
    for memory in memories:
        name = memory.id or ids.derived("held", f"{memory.via}\n{memory.text}")
        text += encode_line("held", asdict(replace(memory, id=name, at=ids.timestamp())))
    gitignore.ensure_gitignore(root)
    files.append(paths.held_memories(root), text, root=paths.state_boundary(root), durable=True)


def list_held(root: Path) -> list[HeldMemory]:
    """Return the memories that are waiting for a person."""
    lines = _read_lines(files.read(paths.held_memories(root)) or "")
    return [line.memory for line in lines if line.memory is not None]


def find_held(root: Path, name: str) -> HeldMemory | None:
    """Return the held memory with this full or short id, or None."""
    by_id = {memory.id: memory for memory in list_held(root)}
    matches = ids.match_ids(name, list(by_id))
    if matches:
        name = ids.resolve(name, matches)
    return by_id.get(name)


def release(root: Path, record_id: str, observer: WriteObserver | None = None) -> None:
    """Remove a memory from the held ones, after a person has decided."""

    def without(text: str) -> str:
        kept = ""
        for line in _read_lines(text):
            if line.memory is None or line.memory.id != record_id:
                kept += f"{line.text}\n"
        return kept

    boundary = paths.state_boundary(root)
    files.update(
        paths.held_memories(root), without, root=boundary, mode=files.PRIVATE, observer=observer
    )


class _HeldLine(NamedTuple):
    """A line in the file of held memories.

    `memory` is None if the line comes from another version or a torn write.
    """

    text: str
    memory: HeldMemory | None


def _read_lines(text: str) -> list[_HeldLine]:
    return [_HeldLine(line, _read_memory(line)) for line in text.split("\n") if line]


def _read_memory(line: str) -> HeldMemory | None:
    try:
        value = json.loads(line)
        members: dict[str, Any] = {
            name: str(value[name]) for name in HeldMemory.__slots__ if name in value
        }
        members["tags"] = tuple(map(str, value.get("tags", ())))
        return HeldMemory(**members)
    except (ValueError, TypeError, AttributeError):
        return None
