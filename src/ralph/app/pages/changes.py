"""A change that a person sees before it is made, and can take back: plan, apply, undo.

Each action is the verb of the command with the same name, called once. `plan` calls it in a rehearsal
(`store/dry_run.py`), so that what is shown is what that very call would write, to the byte, and nothing is written.
`apply` calls it for real, with a witness that stops it when a file is not the one that was shown. What stood in the
files is kept for as long as the process lives, and `undo` puts it back if nobody has touched those lines since;
otherwise nothing is touched. A change that fails half-way is taken back at once. `tests/app/pages/test_change.py`
proves it.
"""

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import memory, promote, review
from ralph.app.memory import SavedMemory, kinds_named
from ralph.app.pages import detail
from ralph.app.pages.detail import Action
from ralph.app.promote import Target, unified_diff
from ralph.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.model import ids
from ralph.model.record import MemoryKind
from ralph.store import files
from ralph.store.dry_run import DryRun, FileChange, GuardedWrite, WriteObserver, changed_meanwhile, text_digest
from ralph.store.library import Stored
from ralph.store.sources import Format, source_name

# NOTE: Which verb an action of the pages means, for a record wherever it stands.

BY = "human"
"""Who speaks through the pages."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """What a person wants to be done; None leaves something as it is."""

    action: str
    id: str = ""
    noun: str = "memory"
    text: str | None = None
    title: str | None = None
    tags: tuple[str, ...] | None = None
    kind: str = ""
    to: str = ""
    page: str = ""
    force: bool = False
    allow_secret: bool = False


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What was done, in a sentence; the record's id, and what its person should know."""

    record: str
    summary: str
    warnings: tuple[str, ...] = ()


def apply_action(
    root: Path, wanted: ChangeRequest, patterns: Sequence[str] = (), observer: WriteObserver | None = None
) -> ChangeResult:
    """Do what is wanted, with one call of its verb."""
    if wanted.action == "add":
        return _add(root, wanted, patterns, observer)
    if wanted.action not in set(Action):
        raise UsageError(f"{wanted.action[:40]!r} is nothing that can be done", hint=f"one of {', '.join(Action)}")
    action = Action(wanted.action)
    record, _, form = detail.locate_record(root, wanted.id)
    possible = detail.possible_actions(record, form)
    if action not in possible:
        can = f"what can be done: {', '.join(possible)}" if possible else "it can only be read"
        raise Refused(f"{record.id} cannot be changed like that ({action})", hint=can)
    return _ACTIONS[action](root, wanted, form, patterns, observer)


_COLLECTIONS = {"memory": "memories", "guardrail": "guardrails", "knowledge": "knowledge", "pattern": "patterns"}


def _add(root: Path, wanted: ChangeRequest, patterns: Sequence[str], observer: WriteObserver | None) -> ChangeResult:
    if wanted.noun not in _COLLECTIONS:
        raise UsageError(f"{wanted.noun[:40]!r} cannot be added", hint=f"one of {', '.join(_COLLECTIONS)}")
    saved = memory.add(
        root,
        wanted.text or "",
        _parse_kind(wanted),
        wanted.tags or (),
        in_=_COLLECTIONS[wanted.noun],
        title=wanted.title or "",
        by=BY,
        force=wanted.force,
        allow_secret=wanted.allow_secret,
        patterns=patterns,
        observer=observer,
    )
    words = {memory.Change.NEW: "Added", memory.Change.UPDATED: "Changed", memory.Change.UNCHANGED: "Already there:"}
    return _saved(root, words[saved.change], saved)


def _edit(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    edited = memory.edit(
        root,
        wanted.id,
        text=wanted.text,
        title=wanted.title if form is Format.KNOWLEDGE else None,
        kind=_parse_kind(wanted),
        tags=wanted.tags,
        allow_secret=wanted.allow_secret,
        patterns=patterns,
        observer=observer,
    )
    return _saved(root, "Changed" if edited.changed else "Nothing changed in", edited)


def _archive(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    saved = memory.archive(root, wanted.id, observer)
    return _saved(root, "Archived" if saved.changed else "Nothing changed in", saved)


def _unarchive(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    saved = memory.unarchive(root, wanted.id, observer)
    return _saved(root, "Unarchived" if saved.changed else "Nothing changed in", saved)


def _delete(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    return _stored_result(root, "Deleted", memory.delete(root, wanted.id, observer=observer))


def _promote(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    if wanted.to not in set(Target):
        raise UsageError("say where to promote it to", hint=f"one of {', '.join(Target)}")
    done = promote.promote(
        root,
        wanted.id,
        Target(wanted.to),
        text=wanted.text or "",
        kind=_parse_kind(wanted),
        page=wanted.page,
        force=wanted.force,
        patterns=patterns,
        observer=observer,
    )
    where = paths.shown(done.path, root)
    return ChangeResult(wanted.id, f"Promoted {wanted.id} to {where}" if done.changed else f"Already said in {where}")


def _accept(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    return _stored_result(root, "Accepted", review.accept(root, wanted.id, observer).stored)


def _reject(
    root: Path, wanted: ChangeRequest, form: Format, patterns: Sequence[str], observer: WriteObserver | None
) -> ChangeResult:
    done = review.reject(root, wanted.id, observer)
    told = _stored_result(root, "Rejected", done.stored)
    return ChangeResult(
        told.record, told.summary, tuple(each.describe(root) for each in promote.copies(root, done.record))
    )


_ACTIONS: Mapping[
    Action, Callable[[Path, ChangeRequest, Format, Sequence[str], WriteObserver | None], ChangeResult]
] = {
    Action.EDIT: _edit,
    Action.RETAG: lambda root, wanted, form, patterns, observer: _edit(
        root,
        ChangeRequest(wanted.action, wanted.id, tags=wanted.tags or (), allow_secret=wanted.allow_secret),
        form,
        patterns,
        observer,
    ),
    Action.RETIRE: _archive,
    Action.RESTORE: _unarchive,
    Action.DELETE: _delete,
    Action.PROMOTE: _promote,
    Action.ACCEPT: _accept,
    Action.REJECT: _reject,
}


def _parse_kind(wanted: ChangeRequest) -> MemoryKind | None:
    return kinds_named([wanted.kind])[0] if wanted.kind else None


def _saved(root: Path, word: str, saved: SavedMemory) -> ChangeResult:
    told = _stored_result(root, word, saved.stored)
    same = (f"{saved.same_as} already says the same",) if saved.same_as else ()
    short = ("it is longer than about 500 words, and is cut there",) if saved.shortened else ()
    return ChangeResult(told.record, told.summary, (*same, *short, *_private_note(saved.private_parts)))


def _stored_result(root: Path, word: str, stored: Stored) -> ChangeResult:
    return ChangeResult(stored.record.id, f"{word} {stored.record.id} ({paths.shown(stored.path, root)})")


def _private_note(parts: int) -> tuple[str, ...]:
    return (f"left out {parts} private part(s)",) if parts else ()


MAX_UNDO = 50
"""Changes that can be taken back, the last ones."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that would change: how, and what it says now."""

    name: str
    diff: str
    before: str


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What an action would do: the files, a sentence, and what to think about before saying yes."""

    files: tuple[PlannedFile, ...]
    summary: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileBackup:
    """What stood in a file before a change, and what the change left there, both packed, with the stamp of that."""

    path: Path
    packed: bytes | None
    left: bytes | None
    after: str
    appended: bool

    @property
    def before(self) -> str | None:
        """The text that stood there; None when there was no file."""
        return _decompress(self.packed)

    def instead(self, now: str | None) -> tuple[bool, str | None]:
        """Whether the change can be taken out of what stands there now, and what is left then.

        Where nobody touched the file that is what stood there before. Where somebody did, only the lines of the change
        are put back, and only while they stand there once, as the change left them, with their neighbours.
        """
        if text_digest(now) == self.after:
            return True, self.before
        left = _decompress(self.left)
        if now is None or left is None or self.before is None:
            return False, None
        text = revert_lines(self.before, left, now)
        return text is not None, text


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was made, and what stood in the files before; `undone` once it was taken back."""

    undo: str
    at: str
    summary: str
    record: str
    kept: tuple[FileBackup, ...]
    undone: bool = False


@dataclass(frozen=True, slots=True)
class UndoResult:
    """A change that was taken back, and what that changed in the files."""

    summary: str
    files: tuple[PlannedFile, ...]


def plan_change(root: Path, wanted: ChangeRequest, patterns: Sequence[str] = ()) -> ChangePlan:
    """What an action would do; nothing is written."""
    rehearsal = DryRun()
    done = apply_action(root, wanted, patterns, rehearsal)
    shown = tuple(_describe_file(root, each) for each in rehearsal.changes)
    if wanted.action == "add" and shown:
        names = ", ".join(each.name for each in shown)
        told = "its id is given when it is kept, so it will be another one than shown here"
        return ChangePlan(shown, f"Added to {names}", (*done.warnings, told))
    return ChangePlan(shown, done.summary if shown else f"Nothing would change. {done.summary}", done.warnings)


def _describe_file(root: Path, change: FileChange) -> PlannedFile:
    name = source_name(change.path, root)
    return PlannedFile(name, unified_diff(name, change.before or "", change.after or ""), text_digest(change.before))


class ChangeHistory:
    """The changes of one server's run, which can be taken back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[str, AppliedChange] = {}
        self._lock = threading.Lock()

    def apply(
        self, wanted: ChangeRequest, stamps: Mapping[str, str], patterns: Sequence[str] = ()
    ) -> tuple[ChangeResult, AppliedChange]:
        """Do it; Conflict when a file is not as it was shown, and then nothing is changed.

        It is rehearsed once more, so that no file is touched when one of several is another by now.
        """
        with self._lock:
            for each in plan_change(self.root, wanted, patterns).files:
                if stamps.get(each.name) != each.before and not each.name.endswith(_LOG):
                    raise changed_meanwhile(Path(each.name))
            witness = GuardedWrite(lambda path: stamps.get(source_name(path, self.root)))
            try:
                done = apply_action(self.root, wanted, patterns, witness)
            except BaseException:
                with suppress(RalphError):
                    _restore_files(self.root, _backups(witness.changes))
                raise
            made = AppliedChange(ids.short("u"), ids.timestamp(), done.summary, done.record, _backups(witness.changes))
            self._made[made.undo] = made
            while len(self._made) > MAX_UNDO:
                del self._made[next(iter(self._made))]
            return done, made

    def list_(self) -> list[tuple[AppliedChange, bool]]:
        """What was changed, the newest first, and whether it can be taken back."""
        with self._lock:
            return [
                (made, not made.undone and all(map(_can_delete, made.kept))) for made in reversed(self._made.values())
            ]

    def undo(self, name: str) -> UndoResult:
        """Take a change back; Conflict when somebody has changed its lines since, and then nothing is touched."""
        with self._lock:
            made = self._made.get(name)
            if made is None:
                raise NotFound("that change is not known any more", hint="git or the file itself can take it back")
            if made.undone:
                raise Conflict("that change was taken back already", hint="look at the list of changes")
            done = _restore_files(self.root, made.kept)
            self._made[name] = replace(made, undone=True)
            return UndoResult(f"Taken back: {made.summary}", tuple(_describe_file(self.root, each) for each in done))


_NEIGHBOURS = 2
"""Lines around a change that must be as they were, where its file was changed elsewhere."""
_LOG = ".jsonl"
"""Logs only grow: a line of somebody else's between ours and the next takes nothing away."""


def _backups(changes: Sequence[FileChange]) -> tuple[FileBackup, ...]:
    """What stood in the files that were changed; of several changes to one file, before the first."""
    found: dict[Path, FileChange] = {}
    for each in changes:
        first = found.get(each.path, each)
        found[each.path] = FileChange(each.path, first.before, each.after, first.appended and each.appended)
    return tuple(
        FileBackup(each.path, _compress(each.before), _compress(each.after), text_digest(each.after), each.appended)
        for each in found.values()
        if each.before != each.after
    )


def _compress(text: str | None) -> bytes | None:
    return None if text is None else zlib.compress(text.encode("utf-8", "surrogateescape"), 1)


def _decompress(packed: bytes | None) -> str | None:
    return None if packed is None else zlib.decompress(packed).decode("utf-8", "surrogateescape")


def revert_lines(before: str, after: str, now: str) -> str | None:
    """A text without a change that was made to an earlier state of it; None where that is not plain."""
    old, new, there = (text.splitlines(keepends=True) for text in (before, after, now))
    first = next(
        (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    rest = min(len(old), len(new)) - first
    last = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    front, behind = new[max(0, first - _NEIGHBOURS) : first], new[len(new) - last :][:_NEIGHBOURS]
    wanted = [*front, *new[first : len(new) - last], *behind]
    places = [n for n in range(len(there) - len(wanted) + 1) if there[n : n + len(wanted)] == wanted]
    if len(places) != 1 or not wanted:
        return None
    place = places[0]
    return "".join([*there[:place], *front, *old[first : len(old) - last], *behind, *there[place + len(wanted) :]])


def _can_delete(kept: FileBackup) -> bool:
    """Whether a change could be taken out of its file now."""
    with suppress(RalphError):
        return kept.appended or kept.instead(files.read(kept.path))[0]
    return False


def _restore_files(root: Path, kept: Sequence[FileBackup]) -> list[FileChange]:
    """Take changes out of files, each only if its lines are as we left them; Conflict when some are not.

    All are looked at first, so that as a rule nothing is touched then; whoever comes between is let be. What was put
    back by then, or before the disk refused another one, is put forward again.
    """
    there = [(each, files.read(each.path)) for each in kept]
    wanted: list[tuple[FileBackup, str | None, str | None]] = []
    for each, text in there:
        can, after = each.instead(text)
        if can:
            wanted.append((each, text, after))
        elif not each.appended:
            name = source_name(each.path, root)
            raise Conflict(
                f"{name}: somebody has changed the same lines since, so this cannot be taken back",
                hint="look at the file; what you want to have back can be written by hand",
            )
    done: list[FileChange] = []
    for each, text, after in reversed(wanted):
        try:
            _replace(root, FileChange(each.path, text, after))
        except (RalphError, OSError):
            for back in reversed(done):
                with suppress(RalphError):
                    _replace(root, FileChange(back.path, back.after, back.before))
            raise
        done.append(FileChange(each.path, text, after))
    return done


def _replace(root: Path, change: FileChange) -> None:
    """Compare and replace, under the lock; None is no file."""
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
