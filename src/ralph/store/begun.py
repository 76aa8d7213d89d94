"""What a worktree began with: the memory that stood in the commit where its branch and the main checkout's parted.

A worktree reads the main checkout's memory beneath its own. What it began with, and has no more, was taken out there,
and is not shown there although the main checkout still has it; what it never had is shown. Only git knows that commit,
and this layer asks no git: the layer above writes the list (`app/worktrees/begun.py`), by id, with a mark of the words
that each had. A list that is not there, or is no list, hides nothing. `tests/app/worktrees/test_begun.py` proves it
with real git.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from ralph.errors import RalphError
from ralph.store import files

NOTHING: Mapping[str, str] = {}


def read(path: Path) -> Mapping[str, str]:
    """The ids of what a worktree began with, each with a mark of its words."""
    try:
        said = json.loads(files.read(path) or "{}")
    except (ValueError, RalphError):
        return NOTHING
    held = said.get("records") if isinstance(said, dict) else None
    return {str(name): str(mark) for name, mark in held.items()} if isinstance(held, dict) else NOTHING
