"""Plan, apply and undo the changes that people make in the pages.

Each action calls the function behind the command of the same name: first as a dry run for the plan,
then for real. The old contents of the files stay in memory until the server stops, so a change can
be undone unless its files have changed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.core.record import MemoryKind
from ralph.learning import learned, promotion, removal, review
from ralph.learning.promotion import Rewording, Target, unified_diff
from ralph.memory import memory, reading
from ralph.memory.author import Author, WriteContext
from ralph.memory.memory import SavedMemory
from ralph.memory.reading import parse_kinds
from ralph.recall import successors
from ralph.recall.locate import locate_record
from ralph.storage import files
from ralph.storage.library import Stored
from ralph.storage.sources import Format, source_names
from ralph.storage.write_observers import (
    DryRun,
    FileChange,
    GuardedWrite,
    WriteObserver,
    changed_since_shown,
    text_digest,
)
from ralph.web.record_page import ACTIONS, possible_actions

MAX_UNDO = 50  # changes that can be undone
_MAX_SHOWN_CHARACTERS = 40  # of an invalid value quoted in a message
_COLLECTIONS = {
    "memory": "memories",
    "guardrail": "guardrails",
    "knowledge": "knowledge",
    "pattern": "patterns",
}
"""The nouns that can be added, mapped to the names of their collections."""


class ChangeRequest(NamedTuple):
    """An action and its values. A value of None is left as it is."""

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
"""The `id` of the changed record, a one-sentence `summary` of the change, and `warnings`."""


class AppliedChange(NamedTuple):
    """A change, with the contents of its files before and after."""

    undo: str
    result: ChangeResult
    files: tuple[FileChange, ...]


# --- actions ------------------------------------------------------------------------------------


def apply_action(
    root: Path,
    request: ChangeRequest,
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> ChangeResult:
    """Carry out an action by calling its function once.

    Raises UsageError for an unknown action or type, and Refused if the record does not allow the
    action.
    """
    kind = None
    if request.type:
        kind = parse_kinds([request.type])[0]
    context = WriteContext(Author(request.by), patterns=patterns, observer=observer)
    call = _ActionCall(root, request, kind, context)
    if request.action == "add":
        return _add(call)
    if request.action not in ACTIONS:
        raise UsageError(
            f"{request.action[:_MAX_SHOWN_CHARACTERS]!r} is not an action",
            hint=f"one of {', '.join(ACTIONS)}",
        )
    if review.find_proposal(root, request.id) is not None:
        return _decide_proposal(call)
    if _needs_stored_record(root, request):
        call = call._replace(form=_check_possible(root, request))
    return _FUNCTIONS[request.action](call)


class _ActionCall(NamedTuple):
    """An action with everything that its function needs.

    `kind` is the requested type. `form` is the format of the record's file. `context` allows no
    secrets, and only some actions offer that (see `context_with_consent`).
    """

    root: Path
    request: ChangeRequest
    kind: MemoryKind | None
    context: WriteContext
    form: Format = Format.MEMORIES

    @property
    def context_with_consent(self) -> WriteContext:
        """The context that also allows a secret if the request does."""
        return replace(self.context, allow_secret=self.request.allow_secret)


def _needs_stored_record(root: Path, request: ChangeRequest) -> bool:
    """Return whether the record must be in the index. One that is waiting for review may not be."""
    if request.action in ("supersede", "merge"):  # these look up both records themselves
        return False
    is_decision = request.action in ("accept", "reject")
    return not (is_decision and review.is_waiting(root, request.id))


def _decide_proposal(call: _ActionCall) -> ChangeResult:
    """Decide a proposal that belongs to no task. The index does not contain it."""
    request = call.request
    if request.action not in _PROPOSAL_FUNCTIONS:
        raise Refused(
            f"{request.action} is not possible for {request.id}",
            hint=f"possible actions: {', '.join(_PROPOSAL_FUNCTIONS)}",
        )
    return _PROPOSAL_FUNCTIONS[request.action](call)


def _check_possible(root: Path, request: ChangeRequest) -> Format:
    """Return the format of the record's file. Raises Refused if the action is not possible."""
    record, _, form = locate_record(root, request.id)
    possible = possible_actions(record, form)
    if request.action not in possible:
        hint = "it can only be read"
        if possible:
            hint = f"possible actions: {', '.join(possible)}"
        raise Refused(f"{request.action} is not possible for {record.id}", hint=hint)
    return form


def _add(call: _ActionCall) -> ChangeResult:
    request = call.request
    if request.noun not in _COLLECTIONS:
        raise UsageError(
            f"{request.noun[:_MAX_SHOWN_CHARACTERS]!r} cannot be added",
            hint=f"one of {', '.join(_COLLECTIONS)}",
        )
    added = memory.add(
        call.root,
        request.text or "",
        call.kind,
        request.tags or (),
        in_=_COLLECTIONS[request.noun],
        title=request.title or "",
        force=request.force,
        context=call.context_with_consent,
    )
    verb = "Added" if added.is_new else "Changed"
    return _saved_result(call.root, verb, added, "Already there:")


def _edit(call: _ActionCall) -> ChangeResult:
    request = call.request
    title = None
    if call.form is Format.KNOWLEDGE:  # no other file has titles
        title = request.title
    edited = memory.edit(
        call.root,
        request.id,
        text=request.text,
        title=title,
        kind=call.kind,
        tags=request.tags,
        context=call.context_with_consent,
    )
    return _saved_result(call.root, "Changed", edited)


def _retag(call: _ActionCall) -> ChangeResult:
    request = call.request
    edited = memory.edit(
        call.root, request.id, tags=request.tags or (), context=call.context_with_consent
    )
    return _saved_result(call.root, "Changed", edited)


def _archive(call: _ActionCall) -> ChangeResult:
    archived = removal.archive(call.root, call.request.id, call.context.observer)
    return _saved_result(call.root, "Archived", archived)


def _unarchive(call: _ActionCall) -> ChangeResult:
    unarchived = removal.unarchive(call.root, call.request.id, call.context.observer)
    return _saved_result(call.root, "Unarchived", unarchived)


def _delete(call: _ActionCall) -> ChangeResult:
    deleted = removal.delete(call.root, call.request.id, observer=call.context.observer)
    return _stored_result(call.root, "Deleted", deleted)


def _promote(call: _ActionCall) -> ChangeResult:
    request = call.request
    if request.to not in set(Target):
        raise UsageError("the promotion has no target", hint=f"one of {', '.join(Target)}")
    promoted = promotion.promote(
        call.root,
        request.id,
        Target(request.to),
        Rewording(request.text or "", call.kind),
        page=request.page,
        force=request.force,
        context=call.context,
    )
    page = paths.shown(promoted.path, call.root)
    summary = f"Already in {page}"
    if promoted.changed:
        summary = f"Promoted {request.id} to {page}"
    return {"id": request.id, "summary": summary, "warnings": ()}


def _accept(call: _ActionCall) -> ChangeResult:
    request = call.request
    accepted = review.accept(call.root, request.id, kind=request.to, context=call.context)
    return _stored_result(call.root, "Accepted", accepted)


def _reject(call: _ActionCall) -> ChangeResult:
    rejected = review.reject(call.root, call.request.id, context=call.context)
    return _stored_result(call.root, "Rejected", rejected)


def _reword_proposal(call: _ActionCall) -> ChangeResult:
    """Accept a proposal in other words."""
    request = call.request
    if not (request.text or "").strip():
        raise UsageError("the text is empty", hint="write what should be remembered, or reject it")
    accepted = review.accept(
        call.root, request.id, text=request.text or "", context=call.context_with_consent
    )
    return _stored_result(call.root, "Reworded and accepted", accepted)


def _merge_proposal(call: _ActionCall) -> ChangeResult:
    """Merge a proposal into the memory given as `to`, which gets new text."""
    request = call.request
    merged = review.merge(
        call.root, request.id, request.to, text=request.text, context=call.context_with_consent
    )
    return _stored_result(call.root, f"Merged {request.id} into", merged)


def _supersede(call: _ActionCall) -> ChangeResult:
    """Make a memory supersede another one, given as `to`."""
    request = call.request
    successor = successors.supersede(call.root, request.to, request.id, context=call.context)
    return _saved_result(call.root, f"{request.to} is superseded:", successor)


def _merge(call: _ActionCall) -> ChangeResult:
    """Merge a memory into another one, given as `to`, which gets its tags and perhaps new text."""
    request = call.request
    merged = reading.get_entry(call.root, request.id).record
    kept = reading.get_entry(call.root, request.to).record
    tags = tuple(dict.fromkeys((*kept.tags, *merged.tags)))
    edited = memory.edit(call.root, kept.id, text=request.text, tags=tags, context=call.context)
    learned.move_evidence(call.root, merged.id, kept.id, call.context.observer)
    memory.delete(call.root, merged.id, observer=call.context.observer)
    return _stored_result(call.root, f"Merged {merged.id} into", edited.stored)


_FUNCTIONS: Mapping[str, Callable[[_ActionCall], ChangeResult]] = {
    "edit": _edit,
    "retag": _retag,
    "archive": _archive,
    "unarchive": _unarchive,
    "delete": _delete,
    "promote": _promote,
    "accept": _accept,
    "reject": _reject,
    "supersede": _supersede,
    "merge": _merge,
}
_PROPOSAL_FUNCTIONS: Mapping[str, Callable[[_ActionCall], ChangeResult]] = {
    "accept": _accept,
    "edit": _reword_proposal,
    "merge": _merge_proposal,
    "reject": _reject,
    "promote": _promote,
}


def _saved_result(
    root: Path, verb: str, saved: SavedMemory, unchanged: str = "Nothing changed in"
) -> ChangeResult:
    if not saved.changed:
        verb = unchanged
    result = _stored_result(root, verb, saved.stored)
    warnings = []
    if saved.same_as:
        warnings.append(f"{saved.same_as} already says the same")
    if saved.shortened:
        warnings.append("the text was cut to about 500 words")
    if saved.private_parts:
        warnings.append(f"left out {saved.private_parts} private section(s)")
    return {**result, "warnings": warnings}


def _stored_result(root: Path, verb: str, stored: Stored) -> ChangeResult:
    name = stored.record.id
    return {
        "id": name,
        "summary": f"{verb} {name} ({paths.shown(stored.path, root)})",
        "warnings": (),
    }


# --- plans --------------------------------------------------------------------------------------


def plan_change(root: Path, request: ChangeRequest, patterns: Sequence[str] = ()) -> dict[str, Any]:
    """Return the changes that an action would make, without writing anything.

    The result has a `summary`, `warnings`, and `files` with a diff and a digest for each file.
    Raises the same errors as `apply_action`.
    """
    dry_run = DryRun()
    result = apply_action(root, request, patterns, dry_run)
    planned = []
    for change in dry_run.changes:
        planned.append({**_describe_file(root, change), "before": text_digest(change.before)})
    summary = result["summary"]
    warnings = list(result["warnings"])
    if not planned:
        summary = f"Nothing would change. {summary}"
    elif request.action == "add":
        summary = f"Added to {', '.join(file['name'] for file in planned)}"
        warnings.append("the id is assigned when it is saved, and differs from the one shown here")
    return {"files": planned, "summary": summary, "warnings": warnings}


def _describe_file(root: Path, change: FileChange) -> dict[str, str]:
    name = source_names(root)(change.path)
    return {"name": name, "diff": unified_diff(name, change.before or "", change.after or "")}


# --- changes that can be undone -----------------------------------------------------------------


class ChangeHistory:
    """The changes made since the server started, which can be undone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._changes: dict[str, AppliedChange] = {}
        self._lock = threading.Lock()

    def apply(
        self, request: ChangeRequest, stamps: Mapping[str, str], patterns: Sequence[str] = ()
    ) -> AppliedChange:
        """Apply a planned change. `stamps` has the digests of its files from the plan, by name.

        Raises Conflict, without changing anything, if a file has changed since the plan was made.
        """
        with self._lock:
            observer = GuardedWrite(stamps, source_names(self.root))
            try:
                result = apply_action(self.root, request, patterns, observer)
            except BaseException:
                with suppress(RalphError):
                    _revert_files(self.root, observer.changes)
                raise
            change = AppliedChange(ids.short("u"), result, observer.changes)
            self._changes[change.undo] = change
            while len(self._changes) > MAX_UNDO:
                oldest = next(iter(self._changes))
                del self._changes[oldest]
            return change

    def undo(self, name: str) -> dict[str, Any]:
        """Undo a change, and return a summary and a diff of each file.

        Raises NotFound for an unknown change. Raises Conflict, without changing anything, if a file
        has changed since.
        """
        with self._lock:
            change = self._changes.get(name)
            if change is None:
                raise NotFound(
                    "that change can no longer be undone", hint="undo it with git or in the file"
                )
            restored = _revert_files(self.root, change.files)
            del self._changes[name]
            diffs = [_describe_file(self.root, file) for file in restored]
            return {"summary": f"Undone: {change.result['summary']}", "files": diffs}


def apply_planned(
    history: ChangeHistory, request: ChangeRequest, patterns: Sequence[str] = ()
) -> AppliedChange:
    """Plan a change and apply it immediately."""
    plan = plan_change(history.root, request, patterns)
    stamps = {file["name"]: file["before"] for file in plan["files"]}
    return history.apply(request, stamps, patterns)


def _revert_files(root: Path, changes: Sequence[FileChange]) -> list[FileChange]:
    """Restore the old contents of all files, or of none.

    A line in a log is kept if another process has appended to the log since.
    """
    reverts = _plan_reverts(root, changes)
    restored: list[FileChange] = []
    for revert in reversed(reverts):
        try:
            _replace(root, revert)
        except (RalphError, OSError):
            for done in reversed(restored):
                with suppress(RalphError):
                    _replace(root, FileChange(done.path, done.after, done.before))
            raise
        restored.append(revert)
    return restored


def _plan_reverts(root: Path, changes: Sequence[FileChange]) -> list[FileChange]:
    reverts = []
    for change in changes:
        if files.read(change.path) == change.after:
            reverts.append(FileChange(change.path, change.after, change.before))
        elif not change.appended:
            raise Conflict(
                f"{source_names(root)(change.path)} has changed since, so this cannot be undone",
                hint="undo the later change first, or edit the file by hand",
            )
    return reverts


def _replace(root: Path, change: FileChange) -> None:
    """Write the new contents of a file, or delete it. Raises Conflict if the file has changed."""
    path = change.path
    if change.after is not None:
        files.write(
            path, change.after, root=paths.write_boundary(path, root), expect=change.before or ""
        )
        return
    with files.lock(path):
        if files.read(path) != change.before:
            raise changed_since_shown(source_names(root)(path))
        files.delete(path)
