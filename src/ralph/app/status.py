"""`ralph status`: what there is in this project, how large it is, and how fresh the index is."""

from dataclasses import dataclass
from pathlib import Path

from ralph.app import index
from ralph.app.index import Size
from ralph.store.library import Library


@dataclass(frozen=True, slots=True)
class Status:
    """The project in numbers."""

    root: Path
    memories: int
    guardrails: int
    size: Size


def show(root: Path) -> Status:
    """Count what is there; nothing is changed."""
    library = Library(root)
    return Status(root, len(library.read(library.memories)), len(library.read(library.guardrails)), index.status(root))
