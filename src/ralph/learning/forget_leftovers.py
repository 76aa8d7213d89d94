"""Find forgotten text outside memory files and logs.

Files that Ralph can rebuild or does not need are deleted. Everything else, such as a backup or a
note that quotes a forgotten memory, is reported as a leftover, because only its owner knows what
should happen to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.learning.forget_matching import MIN_NEEDLE_CHARACTERS, escaped_forms, normalise_words
from ralph.learning.forget_plan import (
    EDIT_ADVICE,
    FileChange,
    ForgetRequest,
    ForgottenRecord,
    Leftover,
)
from ralph.storage import files

_DATABASE_NAMES = ("ralph.db", "graph.db", "team.db", "vectors.")
_BACKUP_ADVICE = "a backup; delete it when it is no longer needed"


def injected_files(root: Path, session: str) -> Iterator[FileChange]:
    """Yield the file that lists which records a session has seen."""
    if not session:
        return
    for path in paths.injected_folder(root).glob("*"):
        # Compare the id instead of building a path from it, because a client chose it.
        if path.name == session and path.is_file():
            yield FileChange(path)


def subagent_files(root: Path) -> Iterator[FileChange]:
    """Yield the task files of all subagents, because any of them may quote forgotten text."""
    for path in paths.subagents_folder(root).glob("*"):
        if path.is_file():
            yield FileChange(path)


def quoting_outputs(
    root: Path, request: ForgetRequest, record_ids: set[str]
) -> Iterator[FileChange]:
    """Yield the outputs of runs that quote a forgotten record or mention its id."""
    logs = set(paths.log_files(paths.log_folder(root)))
    wanted = replace(request, quotes=(*request.quotes, *map(normalise_words, record_ids)))
    for path in sorted(paths.runs_folder(root).rglob("*.*")):
        if path in logs or not path.is_file():
            continue
        if wanted.is_quoted([path.read_text("utf-8", "replace")]):
            yield FileChange(path)


def find_leftovers(
    root: Path,
    request: ForgetRequest,
    removed: Sequence[ForgottenRecord],
    texts_after: Mapping[Path, str],
) -> Iterator[Leftover]:
    """Yield the lines in other files that contain forgotten text.

    `texts_after` maps files that the plan changes to their text after the change. Only the first
    line of a backup is reported.
    """
    needles = _leftover_needles(request, removed)
    for path in _files_to_search(root):
        try:
            text = texts_after.get(path)
            if text is None:
                text = files.read(path) or ""
        except RalphError:
            continue
        is_backup = ".bak" in path.name
        for number, line in enumerate(text.casefold().split("\n"), 1):
            if request.matching or is_backup:
                is_left = any(needle in line for needle in needles)
            else:
                is_left = request.is_quoted([line])
            if not is_left:
                continue
            if is_backup:
                yield Leftover(path, number, _BACKUP_ADVICE)
                break
            yield Leftover(path, number, EDIT_ADVICE)


def _leftover_needles(request: ForgetRequest, removed: Iterable[ForgottenRecord]) -> set[str]:
    if request.matching:
        return escaped_forms(request.matching)
    needles = set[str]()
    for record in removed:
        if record.id:
            needles.add(record.id.casefold())
        for line in record.text.casefold().splitlines():
            if len(line) >= MIN_NEEDLE_CHARACTERS:
                needles.add(line)
    return needles


def _files_to_search(root: Path) -> Iterator[Path]:
    """Yield Ralph's files that are neither logs nor databases."""
    folders = {
        paths.ralph_folder(root),
        paths.ralph_folder(paths.main_checkout(root)),
        paths.state_folder(root),
        paths.memories_files(root)[0].parent,
    }
    found = {*root.glob("guardrails.md*"), *paths.progress_files(root)}
    for folder in folders:
        found.update(folder.rglob("*"))
    for path in sorted(found):
        is_log = path.name.endswith(paths.LOG_SUFFIXES)
        is_database = path.name.startswith(_DATABASE_NAMES)
        if not is_log and not is_database and path.is_file():
            yield path
