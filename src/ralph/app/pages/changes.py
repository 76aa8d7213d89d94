"""Plans, applies and undoes the changes that people make in the pages.

Each action is one call of the verb of the command with the same name. `plan_change` calls it in a dry run, so that the
diff is exactly what that call would write. `apply` calls it for real and stops when a file is not the one in the plan.
The previous contents are kept in memory until the server ends; `undo` restores them unless the same lines were changed
since. A change that fails half-way is undone at once.
"""

import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import memory, review
from ralph.app.memory import SavedMemory, kinds_named
from ralph.app.pages import detail
from ralph.app.pages.detail import Action
from ralph.app.review import Target, unified_diff
from ralph.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.model import ids
from ralph.model.record import MemoryKind
from ralph.store import files
from ralph.store.files import DryRun, FileChange, GuardedWrite, WriteObserver, changed_meanwhile, text_digest
from ralph.store.library import Stored
from ralph.store.sources import Format, source_name

MAX_UNDO = 50
"""The newest changes that can be undone."""
_AUTHOR = "human"
_COLLECTIONS = {"memory": "memories", "guardrail": "guardrails", "knowledge": "knowledge", "pattern": "patterns"}
_CONTEXT_LINES = 2
"""Lines around a change that must be unchanged for an undo in a file that was changed elsewhere."""
_LOG = ".jsonl"
"""Logs only grow: a line appended by another program is no conflict."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
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


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The id of the changed record, what was done in a sentence, and warnings."""

    record: str
    summary: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that would change, its diff, and the digest of its present text."""

    name: str
    diff: str
    before: str


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The files that an action would change, what it would do in a sentence, and warnings."""

    files: tuple[PlannedFile, ...]
    summary: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileBackup:
    """The compressed texts of a file before and after a change, and the digest of the latter."""

    path: Path
    compressed_before: bytes | None
    compressed_after: bytes | None
    digest: str
    appended: bool

    def revert(self, now: str | None) -> tuple[bool, str | None]:
        """Return whether the change can be taken out of the present text, and the text without it.

        In a file that was changed elsewhere only the lines of the change are put back, and only while they occur once,
        unchanged, with their neighbours.
        """
        before = _decompress(self.compressed_before)
        if text_digest(now) == self.digest:
            return True, before
        after = _decompress(self.compressed_after)
        if now is None or after is None or before is None:
            return False, None
        text = revert_lines(before, after, now)
        return text is not None, text


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change, with the backups of its files."""

    undo: str
    at: str
    summary: str
    record: str
    backups: tuple[FileBackup, ...]
    undone: bool = False


# --- actions ---------------------------------------------------------------------------------------


def apply_action(
    root: Path, request: ChangeRequest, patterns: Sequence[str] = (), observer: WriteObserver | None = None
) -> ChangeResult:
    """Carry out an action with one call of its verb; Refused when the record does not allow it."""
    if request.action == "add":
        return _add(root, request, patterns, observer)
    if request.action not in set(Action):
        raise UsageError(f"{request.action[:40]!r} is no action", hint=f"one of {', '.join(Action)}")
    action = Action(request.action)
    record, _, form = detail.locate_record(root, request.id)
    possible = detail.possible_actions(record, form)
    if action not in possible:
        hint = f"possible actions: {', '.join(possible)}" if possible else "it can only be read"
        raise Refused(f"{action} is not possible for {record.id}", hint=hint)
    match action:
        case Action.EDIT:
            return _edit(root, request, form, patterns, observer)
        case Action.RETAG:
            only_tags = ChangeRequest("edit", request.id, tags=request.tags or (), allow_secret=request.allow_secret)
            return _edit(root, only_tags, form, patterns, observer)
        case Action.ARCHIVE:
            return _saved_result(root, "Archived", memory.archive(root, request.id, observer))
        case Action.UNARCHIVE:
            return _saved_result(root, "Unarchived", memory.unarchive(root, request.id, observer))
        case Action.DELETE:
            return _stored_result(root, "Deleted", memory.delete(root, request.id, observer=observer))
        case Action.ACCEPT:
            return _stored_result(root, "Accepted", review.accept(root, request.id, observer).stored)
        case Action.REJECT:
            rejected = review.reject(root, request.id, observer)
            copies = tuple(review.describe_copies(root, rejected.record))
            return replace(_stored_result(root, "Rejected", rejected.stored), warnings=copies)
        case Action.PROMOTE:
            return _promote(root, request, patterns, observer)


def _add(root: Path, request: ChangeRequest, patterns: Sequence[str], observer: WriteObserver | None) -> ChangeResult:
    if request.noun not in _COLLECTIONS:
        raise UsageError(f"{request.noun[:40]!r} cannot be added", hint=f"one of {', '.join(_COLLECTIONS)}")
    added = memory.add(
        root,
        request.text or "",
        _parse_type(request),
        request.tags or (),
        in_=_COLLECTIONS[request.noun],
        title=request.title or "",
        by=_AUTHOR,
        force=request.force,
        allow_secret=request.allow_secret,
        patterns=patterns,
        observer=observer,
    )
    return _saved_result(root, "Added" if added.is_new else "Changed", added, "Already there:")


def _edit(
    root: Path, request: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    edited = memory.edit(
        root,
        request.id,
        text=request.text,
        title=request.title if form is Format.KNOWLEDGE else None,
        kind=_parse_type(request),
        tags=request.tags,
        allow_secret=request.allow_secret,
        patterns=patterns,
        observer=observer,
    )
    return _saved_result(root, "Changed", edited)


def _promote(
    root: Path, request: ChangeRequest, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    if request.to not in set(Target):
        raise UsageError("say where to promote it to", hint=f"one of {', '.join(Target)}")
    promoted = review.promote(
        root,
        request.id,
        Target(request.to),
        text=request.text or "",
        kind=_parse_type(request),
        page=request.page,
        force=request.force,
        patterns=patterns,
        observer=observer,
    )
    name = paths.shown(promoted.path, root)
    return ChangeResult(request.id, f"Promoted {request.id} to {name}" if promoted.changed else f"Already in {name}")


def _parse_type(request: ChangeRequest) -> MemoryKind | None:
    return kinds_named([request.type])[0] if request.type else None


def _saved_result(root: Path, verb: str, saved: SavedMemory, unchanged: str = "Nothing changed in") -> ChangeResult:
    warnings = {
        f"{saved.same_as} already says the same": saved.same_as,
        "it is longer than about 500 words, and is truncated there": saved.shortened,
        f"left out {saved.private_parts} private part(s)": saved.private_parts,
    }
    result = _stored_result(root, verb if saved.changed else unchanged, saved.stored)
    return replace(result, warnings=tuple(text for text, applies in warnings.items() if applies))


def _stored_result(root: Path, verb: str, stored: Stored) -> ChangeResult:
    return ChangeResult(stored.record.id, f"{verb} {stored.record.id} ({paths.shown(stored.path, root)})")


# --- plan, apply, undo -----------------------------------------------------------------------------


def plan_change(root: Path, request: ChangeRequest, patterns: Sequence[str] = ()) -> ChangePlan:
    """Return what an action would do, without writing anything."""
    rehearsal = DryRun()
    result = apply_action(root, request, patterns, rehearsal)
    planned = tuple(_planned_file(root, change) for change in rehearsal.changes)
    if not planned:
        return ChangePlan((), f"Nothing would change. {result.summary}", result.warnings)
    if request.action == "add":
        names = ", ".join(file.name for file in planned)
        note = "its id is assigned when it is saved, and differs from the one shown here"
        return ChangePlan(planned, f"Added to {names}", (*result.warnings, note))
    return ChangePlan(planned, result.summary, result.warnings)


def _planned_file(root: Path, change: FileChange) -> PlannedFile:
    name = source_name(change.path, root)
    return PlannedFile(name, unified_diff(name, change.before or "", change.after or ""), text_digest(change.before))


class ChangeHistory:
    """The changes made since the server started, which can be undone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._changes: dict[str, AppliedChange] = {}
        self._lock = threading.Lock()

    def apply(
        self, request: ChangeRequest, stamps: Mapping[str, str], patterns: Sequence[str] = ()
    ) -> tuple[ChangeResult, AppliedChange]:
        """Apply a change; Conflict, and no change at all, when a file is not the one in the plan."""
        with self._lock:
            for file in plan_change(self.root, request, patterns).files:
                if stamps.get(file.name) != file.before and not file.name.endswith(_LOG):
                    raise changed_meanwhile(Path(file.name))
            witness = GuardedWrite(lambda path: stamps.get(source_name(path, self.root)))
            try:
                result = apply_action(self.root, request, patterns, witness)
            except BaseException:
                with suppress(RalphError):
                    _restore_files(self.root, _backups(witness.changes))
                raise
            change = AppliedChange(
                ids.short("u"), ids.timestamp(), result.summary, result.record, _backups(witness.changes)
            )
            self._changes[change.undo] = change
            while len(self._changes) > MAX_UNDO:
                del self._changes[next(iter(self._changes))]
            return result, change

    def list_(self) -> list[tuple[AppliedChange, bool]]:
        """Return the changes, the newest first, and whether each can be undone."""
        with self._lock:
            return [
                (change, not change.undone and all(map(_can_revert, change.backups)))
                for change in reversed(self._changes.values())
            ]

    def undo(self, name: str) -> tuple[str, tuple[PlannedFile, ...]]:
        """Undo a change; Conflict, and no change at all, when its lines were changed since."""
        with self._lock:
            change = self._changes.get(name)
            if change is None:
                raise NotFound("that change is no longer known", hint="undo it with git or in the file")
            if change.undone:
                raise Conflict("that change was already undone", hint="reload the list of changes")
            restored = _restore_files(self.root, change.backups)
            self._changes[name] = replace(change, undone=True)
            return f"Undone: {change.summary}", tuple(_planned_file(self.root, each) for each in restored)


# --- backups ---------------------------------------------------------------------------------------


def _backups(changes: Sequence[FileChange]) -> tuple[FileBackup, ...]:
    """Return the backups of changed files; several changes of one file count as one."""
    merged: dict[Path, FileChange] = {}
    for change in changes:
        first = merged.get(change.path, change)
        merged[change.path] = FileChange(change.path, first.before, change.after, first.appended and change.appended)
    return tuple(
        FileBackup(
            change.path,
            _compress(change.before),
            _compress(change.after),
            text_digest(change.after),
            change.appended,
        )
        for change in merged.values()
        if change.before != change.after
    )


def _compress(text: str | None) -> bytes | None:
    return None if text is None else zlib.compress(text.encode("utf-8", "surrogateescape"), 1)


def _decompress(compressed: bytes | None) -> str | None:
    return None if compressed is None else zlib.decompress(compressed).decode("utf-8", "surrogateescape")


def revert_lines(before: str, after: str, now: str) -> str | None:
    """Return a text without a change that was made to an earlier version of it; None where that is ambiguous."""
    old, new, present = (text.splitlines(keepends=True) for text in (before, after, now))
    common = min(len(old), len(new))
    first = next((n for n in range(common) if old[n] != new[n]), common)
    last = next((n for n in range(common - first) if old[-1 - n] != new[-1 - n]), common - first)
    head, tail = new[max(0, first - _CONTEXT_LINES) : first], new[len(new) - last :][:_CONTEXT_LINES]
    block = [*head, *new[first : len(new) - last], *tail]
    positions = [n for n in range(len(present) - len(block) + 1) if present[n : n + len(block)] == block]
    if len(positions) != 1 or not block:
        return None
    start = positions[0]
    return "".join([*present[:start], *head, *old[first : len(old) - last], *tail, *present[start + len(block) :]])


def _can_revert(backup: FileBackup) -> bool:
    with suppress(RalphError):
        return backup.appended or backup.revert(files.read(backup.path))[0]
    return False


def _restore_files(root: Path, backups: Sequence[FileBackup]) -> list[FileChange]:
    """Take a change out of its files; Conflict when its lines were changed since.

    All files are checked before the first is written. When a write fails, the files that were already restored get the
    change back.
    """
    wanted: list[FileChange] = []
    for backup in backups:
        now = files.read(backup.path)
        possible, text = backup.revert(now)
        if possible:
            wanted.append(FileChange(backup.path, now, text))
        elif not backup.appended:
            raise Conflict(
                f"{source_name(backup.path, root)}: the same lines were changed since, so this cannot be undone",
                hint="edit the file by hand",
            )
    restored: list[FileChange] = []
    for change in reversed(wanted):
        try:
            _replace(root, change)
        except (RalphError, OSError):
            for back in reversed(restored):
                with suppress(RalphError):
                    _replace(root, FileChange(back.path, back.after, back.before))
            raise
        restored.append(change)
    return restored


def _replace(root: Path, change: FileChange) -> None:
    """Compare and replace under the lock; None is no file."""
    path = change.path
    tops = (root, paths.main_checkout(root), paths.state_boundary(root))
    within = next((top for top in tops if path.is_relative_to(top)), root)
    if change.after is not None:
        files.write(path, change.after, root=within, expect=change.before or "")
        return
    with files.lock(path):
        if files.read(path) != change.before:
            raise changed_meanwhile(path)
        files.delete(path)
