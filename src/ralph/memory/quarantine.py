"""Decide which suspicious entries agents may see.

An entry is suspicious if it reads like an instruction to an agent. If an agent or an import adds
one, it is held until a person decides (`held_memories`). An entry in a memory file may have been
edited by anybody, so a suspicious one is injected only after it was committed to git or accepted by
a person. Accepted texts are stored as hashes, which hooks read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.record import MemoryKind, Record, Scope
from ralph.privacy import injection
from ralph.storage import files, gitignore
from ralph.storage.library import NAMES, Library, Stored
from ralph.storage.write_observers import WriteObserver

_GIT_SECONDS = 2.0
_LINE_MARKUP = "> \t#-*"  # characters that may surround a line of text in Markdown

IMPORT = "import"  # the author of memories proposed by `ralph import`


def accepted_keys(root: Path) -> frozenset[str]:
    """Return the hashes of the texts that a person has accepted, here or for all projects."""
    keys = set[str]()
    for path in (paths.accepted_texts(root), paths.personal_accepted()):
        if path is not None:
            keys.update((files.read(path) or "").split())
    return frozenset(keys)


def remember_accepted(root: Path, record: Record, observer: WriteObserver | None = None) -> None:
    """Remember that a person has accepted an entry, if it would otherwise be held."""
    key = _key_of(record)
    if not is_suspicious(record) or key in accepted_keys(root):
        return
    personal = paths.personal_accepted()
    if record.scope is Scope.PERSONAL and personal is not None:
        files.append(personal, f"{key}\n", durable=True, observer=observer)
    else:
        remember_keys(root, [key], observer)


def accept_titles(root: Path, by: str, *titles: str) -> None:
    """Remember that a person chose the title of a task or the goal of a run.

    A title that is remembered is shown even if it reads like an instruction.
    """
    if by != "human":
        return
    for title in titles:
        remember_accepted(root, Record("", MemoryKind.CONTEXT, title))


def remember_keys(root: Path, keys: Sequence[str], observer: WriteObserver | None = None) -> None:
    """Remember the hashes of what a person has accepted in this project."""
    if keys and (observer is None or observer.writes_to_disk):
        gitignore.ensure_gitignore(root)
    boundary = paths.state_boundary(root)
    for key in keys:
        files.append(
            paths.accepted_texts(root), f"{key}\n", root=boundary, durable=True, observer=observer
        )


def _key_of(record: Record) -> str:
    return injection.text_key(record.title, record.text, record.tags)


def is_suspicious(record: Record) -> bool:
    """Return whether an entry reads like an instruction to an agent."""
    return injection.looks_like_instructions(
        injection.guarded_text(record.title, record.text, record.tags)
    )


def injection_filter(root: Path, stored: Sequence[Record] = ()) -> Callable[[Record], bool]:
    """Return a function that decides whether an entry from a memory file may be injected.

    The function remembers committed entries as accepted. If the entries to be tested have notes
    added to their texts, pass the same entries without the notes as `stored`.
    """
    accepted: set[str] | None = None
    library = Library(root)
    by_id = {record.id: record for record in stored}

    def may_inject(record: Record) -> bool:
        nonlocal accepted
        record = by_id.get(record.id, record)
        if not is_suspicious(record):
            return True
        if accepted is None:
            accepted = set(accepted_keys(root))
        key = _key_of(record)
        if key not in accepted and _is_committed(library, record):
            remember_accepted(root, record)
            accepted.add(key)
        return key in accepted

    return may_inject


def _is_committed(library: Library, record: Record) -> bool:
    """Return whether the committed version of its file contains every line of an entry."""
    try:
        path = library.find(record.id)[1].path
    except NotFound:
        return False
    from ralph.core.repository import Repository  # needed only for suspicious entries

    committed = Repository(path.parent, _GIT_SECONDS).text(f"HEAD:./{path.name}")
    if committed is None:
        return False
    lines = {line.strip(_LINE_MARKUP) for line in committed.splitlines()}
    names = (record.title, *record.tags)
    for line in (*record.text.splitlines(), *names):
        is_whole_line = line.strip(_LINE_MARKUP) in lines
        is_name = line in names and line in committed  # it shares its line with others
        if not is_whole_line and not is_name:
            return False
    return True


def unaccepted_entries(root: Path) -> list[Stored]:
    """Return the suspicious entries in memory files that nobody has committed or accepted."""
    library = Library(root)
    may_inject = injection_filter(root)
    found = []
    for name in NAMES:
        for stored in library.read(library.collection(name)):
            if not may_inject(stored.record):
                found.append(stored)
    return found
