"""Decide which suspicious entries agents may see.

An entry is suspicious if it reads like an instruction to an agent. If an agent or an import adds
one, it is held until a person decides (`held_memories`). An entry in a file of the repository may
come from anybody, and so may the commit that contains it. A suspicious one is therefore injected
only after a person has accepted it on this machine, and so is one by an agent that names a package,
a host or a command that the project does not know. Accepted texts are stored as hashes in the
user's state folder, which hooks read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record, is_confirmed
from ralph.privacy import injection
from ralph.search.unknown_names import names_unknown
from ralph.storage import files, gitignore
from ralph.storage.write_observers import WriteObserver

IMPORT = "import"  # the author of memories proposed by `ralph import`


def accepted_keys() -> frozenset[str]:
    """Return the hashes of the texts that a person has accepted on this machine."""
    path = paths.accepted_texts()
    if path is None:
        return frozenset()
    return frozenset((files.read(path) or "").split())


def remember_accepted(record: Record, observer: WriteObserver | None = None) -> None:
    """Remember that a person has accepted an entry.

    Raises Refused if the user has no folder for it.
    """
    key = text_key(record)
    if key in accepted_keys():
        return
    path = paths.accepted_texts()
    if path is None:
        raise Refused(
            "there is no folder to remember what you accepted",
            hint=paths.user_folder_hint("STATE"),
        )
    files.append(path, f"{key}\n", durable=True, observer=observer)


def accept_titles(by: str, *titles: str) -> None:
    """Remember that a person chose the title of a task or the goal of a run.

    A title that is remembered is shown even if it reads like an instruction.
    """
    if by != "human":
        return
    for title in titles:
        record = Record("", MemoryKind.CONTEXT, title)
        if is_suspicious(record):
            remember_accepted(record)


def kept_keys(root: Path) -> frozenset[str]:
    """Return the hashes of the review items that a person has let stay in this project."""
    return frozenset((files.read(paths.kept_items(root)) or "").split())


def remember_kept(root: Path, keys: Sequence[str], observer: WriteObserver | None = None) -> None:
    """Remember the hashes of review items that a person has let stay in this project."""
    if keys and (observer is None or observer.writes_to_disk):
        gitignore.ensure_gitignore(root)
    boundary = paths.state_boundary(root)
    for key in keys:
        files.append(
            paths.kept_items(root), f"{key}\n", root=boundary, durable=True, observer=observer
        )


def text_key(record: Record) -> str:
    """Return the hash under which the acceptance of an entry is stored."""
    return injection.text_key(record.title, record.text, record.tags)


def is_suspicious(record: Record) -> bool:
    """Return whether an entry reads like an instruction to an agent."""
    return injection.looks_like_instructions(
        injection.guarded_text(record.title, record.text, record.tags)
    )


def needs_acceptance(
    root: Path, record: Record, judge: Callable[[Record], bool] = is_suspicious
) -> bool:
    """Return whether a confirmed entry is injected only after a person has accepted its text.

    `judge` decides whether the entry is suspicious.
    """
    return judge(record) or names_unknown(root, record)


def injection_filter(
    root: Path,
    stored: Sequence[Record] = (),
    judge: Callable[[Record], bool] = is_suspicious,
) -> Callable[[Record], bool]:
    """Return a function that decides whether an entry from a file may be injected.

    If the entries to be tested have notes added to their texts, pass the same entries without the
    notes as `stored`. `judge` decides whether an entry is suspicious; the one in
    `harmless_texts` judges a text only once.
    """
    accepted: frozenset[str] | None = None
    by_id = {record.id: record for record in stored}

    def may_inject(record: Record) -> bool:
        nonlocal accepted
        record = by_id.get(record.id, record)
        if not is_confirmed(record):
            return False
        if not needs_acceptance(root, record, judge):
            return True
        if accepted is None:
            accepted = accepted_keys()
        return text_key(record) in accepted

    return may_inject
