"""Plans, applies and undoes the changes that people make in the pages.

Each action is one call of the verb of the command with the same name: in a dry run for the plan, then for real. Old
texts are kept in memory until the server ends, so that a change can be undone unless its files were changed since.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.learning import review
from ralph.learning.review import Target, unified_diff
from ralph.memory import memory
from ralph.memory.memory import SavedMemory, kinds_named
from ralph.recall import outdated
from ralph.storage import files
from ralph.storage.files import (
    DryRun,
    FileChange,
    GuardedWrite,
    WriteObserver,
    changed_meanwhile,
    text_digest,
)
from ralph.storage.library import Stored
from ralph.storage.sources import Format, source_names
from ralph.web.detail import ACTIONS, locate_record, possible_actions

MAX_UNDO = 50
_COLLECTIONS = {
    "memory": "memories",
    "guardrail": "guardrails",
    "knowledge": "knowledge",
    "pattern": "patterns",
}


class ChangeRequest(NamedTuple):
    """An action and its values; None leaves a value as it is."""

    action: str
    id: str = ""
    noun: str = "memory"
    text: str | None = None
    title: str | None = None
    tags: tuple[str, ...] | None = None
    type: str = ""
    to: str = ""
    page: str = ""
    force: bool = False
    allow_secret: bool = False
    by: str = "human"


ChangeResult = dict[str, Any]
"""The `id` of the changed record, a `summary` of what was done in a sentence, and `warnings`."""


class AppliedChange(NamedTuple):
    """A change, with the old and new texts of its files."""

    undo: str
    result: ChangeResult
    files: tuple[FileChange, ...]


def apply_action(
    root: Path,
    request: ChangeRequest,
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> ChangeResult:
    """Carry out an action with one call of its verb; Refused when the record does not allow it."""
    options: dict[str, Any] = {
        "kind": kinds_named([request.type])[0] if request.type else None,
        "by": request.by,
        "patterns": patterns,
        "observer": observer,
    }
    if request.action == "add":
        return _add(root, request, options)
    if request.action not in ACTIONS:
        raise UsageError(
            f"{request.action[:40]!r} is no action", hint=f"one of {', '.join(ACTIONS)}"
        )
    name = request.id
    form = Format.MEMORIES
    if request.action in ("supersede", "merge"):
        return _join(root, request, patterns, observer)
    if request.action not in ("accept", "reject") or not review.is_waiting(root, name):
        record, _, form = locate_record(root, name)
        possible = possible_actions(record, form)
        if request.action not in possible:
            hint = f"possible actions: {', '.join(possible)}" if possible else "it can only be read"
            raise Refused(f"{request.action} is not possible for {record.id}", hint=hint)
    secret = request.allow_secret
    match request.action:
        case "edit":
            title = request.title if form is Format.KNOWLEDGE else None
            edited = memory.edit(
                root,
                name,
                text=request.text,
                title=title,
                tags=request.tags,
                allow_secret=secret,
                **options,
            )
            return _saved_result(root, "Changed", edited)
        case "retag":
            edited = memory.edit(
                root, name, tags=request.tags or (), allow_secret=secret, **options | {"kind": None}
            )
            return _saved_result(root, "Changed", edited)
        case "archive":
            return _saved_result(root, "Archived", memory.archive(root, name, observer))
        case "unarchive":
            return _saved_result(root, "Unarchived", memory.unarchive(root, name, observer))
        case "delete":
            return _stored_result(root, "Deleted", memory.delete(root, name, observer=observer))
        case "accept":
            return _stored_result(
                root, "Accepted", review.accept(root, name, observer, request.by, request.to)
            )
        case "reject":
            return _stored_result(root, "Rejected", review.reject(root, name, observer, request.by))
    if request.to not in set(Target):
        raise UsageError("say where to promote it to", hint=f"one of {', '.join(Target)}")
    to = Target(request.to)
    text = request.text or ""
    promoted = review.promote(
        root, name, to, text=text, page=request.page, force=request.force, **options
    )
    page = paths.shown(promoted.path, root)
    summary = f"Promoted {name} to {page}" if promoted.changed else f"Already in {page}"
    return {"id": name, "summary": summary, "warnings": ()}


def _join(
    root: Path, request: ChangeRequest, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    """Let a memory supersede another one (`to`), or merge it into that one, which gets its tags or a new text."""
    options: dict[str, Any] = {"by": request.by, "patterns": patterns, "observer": observer}
    if request.action == "supersede":
        successor = outdated.supersede(root, request.to, request.id, **options)
        return _saved_result(root, f"{request.to} is superseded:", successor)
    one, other = (memory.show(root, name).record for name in (request.id, request.to))
    tags = tuple(dict.fromkeys((*other.tags, *one.tags)))
    merged = memory.edit(root, other.id, text=request.text, tags=tags, **options)
    memory.delete(root, one.id, observer=observer)
    return _stored_result(root, f"Merged {one.id} into", merged.stored)


def _add(root: Path, request: ChangeRequest, options: dict[str, Any]) -> ChangeResult:
    if request.noun not in _COLLECTIONS:
        raise UsageError(
            f"{request.noun[:40]!r} cannot be added", hint=f"one of {', '.join(_COLLECTIONS)}"
        )
    added = memory.add(
        root,
        request.text or "",
        tags=request.tags or (),
        in_=_COLLECTIONS[request.noun],
        title=request.title or "",
        force=request.force,
        allow_secret=request.allow_secret,
        **options,
    )
    return _saved_result(root, "Added" if added.is_new else "Changed", added, "Already there:")


def _saved_result(
    root: Path, verb: str, saved: SavedMemory, unchanged: str = "Nothing changed in"
) -> ChangeResult:
    warnings = {
        f"{saved.same_as} already says the same": saved.same_as,
        "it is longer than about 500 words, and is truncated there": saved.shortened,
        f"left out {saved.private_parts} private part(s)": saved.private_parts,
    }
    result = _stored_result(root, verb if saved.changed else unchanged, saved.stored)
    return {**result, "warnings": [text for text, applies in warnings.items() if applies]}


def _stored_result(root: Path, verb: str, stored: Stored) -> ChangeResult:
    name = stored.record.id
    return {
        "id": name,
        "summary": f"{verb} {name} ({paths.shown(stored.path, root)})",
        "warnings": (),
    }


def plan_change(root: Path, request: ChangeRequest, patterns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what an action would do, without writing: a diff and a digest for each file, a summary, warnings."""
    rehearsal = DryRun()
    result = apply_action(root, request, patterns, rehearsal)
    planned = [
        {**_describe_file(root, each), "before": text_digest(each.before)}
        for each in rehearsal.changes
    ]
    summary = result["summary"]
    warnings = list(result["warnings"])
    if not planned:
        summary = f"Nothing would change. {summary}"
    elif request.action == "add":
        summary = f"Added to {', '.join(each['name'] for each in planned)}"
        warnings.append("its id is assigned when it is saved, and differs from the one shown here")
    return {"files": planned, "summary": summary, "warnings": warnings}


def _describe_file(root: Path, change: FileChange) -> dict[str, str]:
    name = source_names(root)(change.path)
    return {"name": name, "diff": unified_diff(name, change.before or "", change.after or "")}


class ChangeHistory:
    """The changes made since the server started, which can be undone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._changes: dict[str, AppliedChange] = {}
        self._lock = threading.Lock()

    def apply(
        self, request: ChangeRequest, stamps: Mapping[str, str], patterns: Sequence[str] = ()
    ) -> AppliedChange:
        """Apply a change; Conflict, and no change at all, when a file is not the one in the plan."""
        with self._lock:
            witness = GuardedWrite(stamps, source_names(self.root))
            try:
                result = apply_action(self.root, request, patterns, witness)
            except BaseException:
                with suppress(RalphError):
                    _revert_files(self.root, witness.changes)
                raise
            change = AppliedChange(ids.short("u"), result, witness.changes)
            self._changes[change.undo] = change
            while len(self._changes) > MAX_UNDO:
                del self._changes[next(iter(self._changes))]
            return change

    def undo(self, name: str) -> dict[str, Any]:
        """Undo a change; Conflict, and no change at all, when a file was changed since."""
        with self._lock:
            change = self._changes.get(name)
            if change is None:
                raise NotFound(
                    "that change is no longer known", hint="undo it with git or in the file"
                )
            restored = _revert_files(self.root, change.files)
            del self._changes[name]
            diffs = [_describe_file(self.root, each) for each in restored]
            return {"summary": f"Undone: {change.result['summary']}", "files": diffs}


def apply_planned(
    history: ChangeHistory, request: ChangeRequest, patterns: Sequence[str] = ()
) -> AppliedChange:
    """Plan a change and apply it at once."""
    plan = plan_change(history.root, request, patterns)
    return history.apply(
        request, {file["name"]: file["before"] for file in plan["files"]}, patterns
    )


def _revert_files(root: Path, changes: Sequence[FileChange]) -> list[FileChange]:
    """Put the old texts of all files back, or of none; a line in a log that others appended to stays."""
    reverts: list[FileChange] = []
    for change in changes:
        if files.read(change.path) == change.after:
            reverts.append(FileChange(change.path, change.after, change.before))
        elif not change.appended:
            raise Conflict(
                f"{source_names(root)(change.path)}: it was changed since, so this cannot be undone",
                hint="undo the later change first, or edit the file by hand",
            )
    restored: list[FileChange] = []
    for revert in reversed(reverts):
        try:
            _replace(root, revert)
        except (RalphError, OSError):
            for back in reversed(restored):
                with suppress(RalphError):
                    _replace(root, FileChange(back.path, back.after, back.before))
            raise
        restored.append(revert)
    return restored


def _replace(root: Path, change: FileChange) -> None:
    path = change.path
    if change.after is not None:
        files.write(
            path, change.after, root=paths.write_boundary(path, root), expect=change.before or ""
        )
        return
    with files.lock(path):
        if files.read(path) != change.before:
            raise changed_meanwhile(source_names(root)(path))
        files.delete(path)
