"""Find files that a line-by-line merge has damaged, and compute what they should contain.

Git merges line by line unless Ralph's merge driver is registered. That can leave conflict markers,
duplicate an entry, or bring back one that was deleted. `find_damage` repeats such a merge entry by
entry and yields the files whose result differs:

- An open merge is repeated from the three stages in git's index.
- A committed merge is repeated from its parents. Edits made since then are applied to the result.

Nothing is written here. `doctor.fix` writes the repaired text after backing up the file.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.repository import Repository
from ralph.formats.merge import can_merge, merge
from ralph.memory.merge_driver import merge_lines
from ralph.storage import files

_MERGES_EXAMINED = "20"  # latest merge commits that are searched for damaged knowledge files
_ENTRY_HEADING = re.compile(r"^### (\S+-\d+-\w+)$", re.MULTILINE)
_CONFLICT_START = re.compile("^<<<<<<< ", re.MULTILINE)
_CONFLICT_MARKERS = re.compile(
    r"""
    ^(?:
        [<>]{7}[ ].*                           # <<<<<<< HEAD and >>>>>>> branch
        | \|{7}.*\n (?:(?!={7}$).*\n)* ={7}    # ||||||| base, its lines, and =======
        | ={7}                                 # ======= where no base is shown
    )\n
    """,
    re.MULTILINE | re.VERBOSE,
)
"""Matches the markers of a conflict, but not the lines of its two sides."""
_REPLACEMENT_CHARACTER = "\ufffd"  # stands for bytes that are not UTF-8


class MergeDamage(NamedTuple):
    """A file damaged by a line-by-line merge, and its text when merged entry by entry.

    `is_settled` is true if the file belongs to an open merge and has no conflict left.
    """

    path: Path
    what: str
    text: str
    is_settled: bool


def find_damage(root: Path, repository: Repository | None = None) -> Iterator[MergeDamage]:
    """Yield each file that an entry-by-entry merge would change.

    Pass a `repository` to limit how long git may take.
    """
    if not paths.location(root).common:
        return
    repository = repository or Repository(root)
    unmerged = {line.partition("\t")[2] for line in repository.names("ls-files", "-u", "-z")}
    yield from _find_open_damage(root, repository, unmerged)
    yield from _find_committed_damage(root, repository, unmerged)


def _find_open_damage(
    root: Path, repository: Repository, unmerged: Iterable[str]
) -> Iterator[MergeDamage]:
    for name in filter(can_merge, sorted(unmerged)):
        base = repository.text(f":1:./{name}")
        ours = repository.text(f":2:./{name}")
        theirs = repository.text(f":3:./{name}")
        current = files.read(root / name)
        if ours is None or theirs is None or current is None:
            continue
        if not _CONFLICT_START.search(current):
            continue
        merged = merge(name, base or "", ours, theirs, merge_lines)
        if merged.text != current and _REPLACEMENT_CHARACTER not in merged.text:
            what = "conflict markers of an open merge"
            yield MergeDamage(root / name, what, merged.text, is_settled=not merged.conflicts)


def _find_committed_damage(
    root: Path, repository: Repository, unmerged: Container[str]
) -> Iterator[MergeDamage]:
    candidates = [
        *paths.memories_files(root),
        *paths.guardrails_files(root),
        paths.global_patterns(root),
        root / "AGENTS.md",
        root / "CLAUDE.md",
        *_merged_knowledge_files(root, repository),
    ]
    for path in candidates:
        name = path.relative_to(root).as_posix()
        if name in unmerged or not path.is_file():
            continue
        text = _repair(repository, name, files.read(path))
        if text is not None:
            what = "entries that a line-by-line merge duplicated, damaged or brought back"
            yield MergeDamage(path, what, text, is_settled=False)


def _merged_knowledge_files(root: Path, repository: Repository) -> list[Path]:
    """Return the knowledge files that differ from both parents in a recent merge."""
    names = repository.names(
        "log",
        "--merges",
        "-n",
        _MERGES_EXAMINED,
        "-c",
        "--name-only",
        "--format=",
        "-z",
        "--relative",
        "--",
        str(paths.knowledge_folder(root)),
    )
    return sorted({root / name for name in names if can_merge(name)})


class _CommittedMerge(NamedTuple):
    """The versions of a file in a merge commit and in its parents."""

    base: str
    ours: str
    theirs: str
    result: str


def _repair(repository: Repository, name: str, current: str | None) -> str | None:
    """Return a file as its last merge should have left it, with later edits applied.

    Returns None if nothing is wrong with the file, or if it cannot be repaired.
    """
    if current is None:
        return None
    last_merge = _last_merge(repository, name)
    if last_merge is None:
        return None
    merged = merge(name, last_merge.base, last_merge.ours, last_merge.theirs, merge_lines)
    if merged.conflicts and "/knowledge/" in name:
        merged = merge(
            name, last_merge.base, last_merge.ours, last_merge.theirs, _merge_keeping_both
        )
    if merged.conflicts or merged.text == last_merge.result:
        return None
    if _REPLACEMENT_CHARACTER in f"{last_merge.result}{merged.text}{current}":
        return None
    if not _is_damaged(last_merge):
        return None
    text = _apply_later_edits(name, last_merge.result, current, merged.text)
    if text == current:
        return None
    return text


def _last_merge(repository: Repository, name: str) -> _CommittedMerge | None:
    """Return the last merge of two branches that changed a file, or None."""
    words = ("rev-list", "--merges", "--parents", "-n", "1", "HEAD", "--", name)
    commits = repository.output_or_empty(*words).split()
    if len(commits) != 3:  # the merge and its two parents
        return None
    merge_commit, our_parent, their_parent = commits
    base_commit = repository.output_or_empty("merge-base", our_parent, their_parent)
    base: str | None = ""
    if base_commit:
        base = repository.text(f"{base_commit}:./{name}")
    ours = repository.text(f"{our_parent}:./{name}")
    theirs = repository.text(f"{their_parent}:./{name}")
    result = repository.text(f"{merge_commit}:./{name}")
    if ours is None or theirs is None or result is None:
        return None
    return _CommittedMerge(base or "", ours, theirs, result)


def _merge_keeping_both(base: str, ours: str, theirs: str) -> tuple[str, int]:
    """Merge line by line. In the body of a knowledge file, lines from both sides are kept."""
    is_front_matter = base.startswith("---")
    return merge_lines(base, ours, theirs, union=not is_front_matter)


def _is_damaged(last_merge: _CommittedMerge) -> bool:
    """Return whether a merge left conflict markers or duplicate entries, or was a union."""
    result = last_merge.result
    if _CONFLICT_START.search(result):
        return True
    entries = _ENTRY_HEADING.findall(result)
    if len(entries) != len(set(entries)):
        return True
    union, _ = merge_lines(last_merge.base, last_merge.ours, last_merge.theirs, union=True)
    return result == union


def _apply_later_edits(name: str, result: str, current: str, merged: str) -> str | None:
    """Apply the edits made after the merge to `merged`. Returns None if they conflict."""
    if current == result:
        return merged
    text, conflicts = merge_lines(result, current, merged)
    if conflicts and _CONFLICT_START.search(current):
        without_markers = (_CONFLICT_MARKERS.sub("", result), _CONFLICT_MARKERS.sub("", current))
        text, conflicts, _ = merge(name, *without_markers, merged, merge_lines)
    if conflicts:
        return None
    return text
