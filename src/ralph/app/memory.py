"""`ralph memory ...`: what was learned, in `.agent/memories.md`.

Each function is the command, the MCP tool and the web call of the same name.
"""

from collections.abc import Sequence
from pathlib import Path

from ralph.app import entries
from ralph.app import retire as retiring
from ralph.app.entries import Added, Edited, Primed
from ralph.model.query import Query, SearchResult
from ralph.model.record import MemoryKind
from ralph.store.library import Library, Stored


def init(root: Path, *, force: bool = False) -> str:
    """Make memories.md."""
    library = Library(root)
    return entries.init(library, library.memories, force=force)


def add(
    root: Path,
    text: str,
    kind: MemoryKind = MemoryKind.PATTERN,
    tags: Sequence[str] = (),
    *,
    by: str = "",
    via: str = "",
    force: bool = False,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Added:
    """Keep a new memory."""
    library = Library(root)
    return entries.add(
        library, library.memories, text, kind, tags,
        by=by, via=via, force=force, allow_secret=allow_secret, patterns=patterns,
    )  # fmt: skip


def edit(
    root: Path,
    memory_id: str,
    *,
    text: str | None = None,
    kind: MemoryKind | None = None,
    tags: Sequence[str] | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
    expect: str | None = None,
    by: str = "",
    via: str = "",
) -> Edited:
    """Correct a memory; with `expect`, only if its text is still that one."""
    library = Library(root)
    return entries.edit(
        library, library.memories, memory_id,
        text=text, kind=kind, tags=tags, allow_secret=allow_secret, patterns=patterns, expect=expect, by=by, via=via,
    )  # fmt: skip


def search(root: Path, query: Query) -> tuple[SearchResult, list[Stored]]:
    """Find memories by their words."""
    library = Library(root)
    return entries.search(library, library.memories, query)


def list_(
    root: Path, *, kinds: Sequence[MemoryKind] = (), tags: Sequence[str] = (), last: int | None = None
) -> list[Stored]:
    """Every memory, or the newest few."""
    library = Library(root)
    return entries.list_(library, library.memories, kinds=kinds, tags=tags, last=last)


def show(root: Path, memory_id: str) -> Stored:
    """One memory."""
    library = Library(root)
    return library.find(library.memories, memory_id)


def delete(root: Path, memory_id: str, *, expect: str | None = None) -> Stored:
    """Take a memory out of its file; with `expect`, only if its text is still that one."""
    library = Library(root)
    return library.remove(library.memories, memory_id, expect=expect)


def retire(root: Path, memory_id: str) -> Edited:
    """Offer a memory to nobody any more; it stays in its file."""
    library = Library(root)
    return retiring.retire(library, library.memories, memory_id)


def restore(root: Path, memory_id: str) -> Edited:
    """Offer a retired memory again."""
    library = Library(root)
    return retiring.restore(library, library.memories, memory_id)


def prime(
    root: Path,
    *,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
    with_guardrails: bool = False,
) -> Primed:
    """Memories for an agent within a budget; with guardrails, these come first and take at most half of it."""
    library = Library(root)
    if not with_guardrails:
        return entries.prime(library, library.memories, budget=budget, kinds=kinds, tags=tags, recent=recent, form=form)
    guards = library.guardrails
    whole = entries.prime(library, guards, kinds=kinds, tags=tags, recent=recent, form=form)
    theirs, _ = entries.shared(budget, whole)
    first = entries.prime(library, guards, budget=theirs, kinds=kinds, tags=tags, recent=recent, form=form)
    return entries.prime(
        library, library.memories, budget=budget, kinds=kinds, tags=tags, recent=recent, form=form, after=first
    )
