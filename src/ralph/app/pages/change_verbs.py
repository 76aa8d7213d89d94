"""Which verb an action of the pages means, for a record wherever it stands.

One function call for each action, the same as the command's: nothing is edited here. What cannot be done with a record
is refused with the actions that can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import insight, memory, promote, standing
from ralph.app.memory import SavedMemory, kinds_named
from ralph.app.pages import detail
from ralph.app.pages.detail import Action
from ralph.app.promote import Target
from ralph.errors import Refused, UsageError
from ralph.model.record import MemoryKind
from ralph.store.library import Stored
from ralph.store.sources import Format

BY = "human"
"""Who speaks through the pages."""


@dataclass(frozen=True, slots=True)
class Wanted:
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
class Done:
    """What was done, in a sentence; the record's id, and what its person should know."""

    record: str
    summary: str
    warnings: tuple[str, ...] = ()


def call(root: Path, wanted: Wanted, patterns: Sequence[str] = ()) -> Done:
    """Do what is wanted, with one call of its verb."""
    if wanted.action == "add":
        return _add(root, wanted, patterns)
    if wanted.action not in set(Action):
        raise UsageError(f"{wanted.action[:40]!r} is nothing that can be done", hint=f"one of {', '.join(Action)}")
    action = Action(wanted.action)
    record, _, form = detail.place(root, wanted.id)
    possible = detail.actions(record, form)
    if action not in possible:
        can = f"what can be done: {', '.join(possible)}" if possible else "it can only be read"
        raise Refused(f"{record.id} cannot be changed like that ({action})", hint=can)
    return _ACTIONS[action](root, wanted, form, patterns)


_COLLECTIONS = {"memory": "memories", "guardrail": "guardrails", "knowledge": "knowledge", "pattern": "patterns"}


def _add(root: Path, wanted: Wanted, patterns: Sequence[str]) -> Done:
    if wanted.noun not in _COLLECTIONS:
        raise UsageError(f"{wanted.noun[:40]!r} cannot be added", hint=f"one of {', '.join(_COLLECTIONS)}")
    saved = memory.add(
        root, wanted.text or "", _kind(wanted), wanted.tags or (), in_=_COLLECTIONS[wanted.noun],
        title=wanted.title or "", by=BY, force=wanted.force, allow_secret=wanted.allow_secret, patterns=patterns,
    )  # fmt: skip
    words = {memory.Change.NEW: "Added", memory.Change.UPDATED: "Changed", memory.Change.UNCHANGED: "Already there:"}
    return _saved(root, words[saved.change], saved)


def _edit(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    edited = memory.edit(
        root, wanted.id, text=wanted.text, title=wanted.title if form is Format.KNOWLEDGE else None,
        kind=_kind(wanted), tags=wanted.tags, allow_secret=wanted.allow_secret, patterns=patterns,
    )  # fmt: skip
    return _saved(root, "Changed" if edited.changed else "Nothing changed in", edited)


def _archive(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    saved = memory.archive(root, wanted.id)
    return _saved(root, "Archived" if saved.changed else "Nothing changed in", saved)


def _unarchive(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    saved = memory.unarchive(root, wanted.id)
    return _saved(root, "Unarchived" if saved.changed else "Nothing changed in", saved)


def _delete(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    return _told(root, "Deleted", memory.delete(root, wanted.id))


def _promote(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    if wanted.to not in set(Target):
        raise UsageError("say where to promote it to", hint=f"one of {', '.join(Target)}")
    done = promote.promote(
        root, wanted.id, Target(wanted.to), text=wanted.text or "", kind=_kind(wanted), page=wanted.page,
        force=wanted.force, patterns=patterns,
    )  # fmt: skip
    where = paths.shown(done.path, root)
    return Done(wanted.id, f"Promoted {wanted.id} to {where}" if done.changed else f"Already said in {where}")


def _accept(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    return _told(root, "Accepted", insight.accept(root, wanted.id).stored)


def _reject(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    done = insight.reject(root, wanted.id)
    told = _told(root, "Rejected", done.stored)
    return Done(told.record, told.summary, tuple(each.told(root) for each in standing.standings(root, done.record)))


_ACTIONS: Mapping[Action, Callable[[Path, Wanted, Format, Sequence[str]], Done]] = {
    Action.EDIT: _edit,
    Action.RETAG: lambda root, wanted, form, patterns: _edit(
        root, Wanted(wanted.action, wanted.id, tags=wanted.tags or (), allow_secret=wanted.allow_secret), form, patterns
    ),
    Action.RETIRE: _archive,
    Action.RESTORE: _unarchive,
    Action.DELETE: _delete,
    Action.PROMOTE: _promote,
    Action.ACCEPT: _accept,
    Action.REJECT: _reject,
}


def _kind(wanted: Wanted) -> MemoryKind | None:
    return kinds_named([wanted.kind])[0] if wanted.kind else None


def _saved(root: Path, word: str, saved: SavedMemory) -> Done:
    told = _told(root, word, saved.stored)
    same = (f"{saved.same_as} already says the same",) if saved.same_as else ()
    short = ("it is longer than about 500 words, and is cut there",) if saved.shortened else ()
    return Done(told.record, told.summary, (*same, *short, *_private(saved.private_parts)))


def _told(root: Path, word: str, stored: Stored) -> Done:
    return Done(stored.record.id, f"{word} {stored.record.id} ({paths.shown(stored.path, root)})")


def _private(parts: int) -> tuple[str, ...]:
    return (f"left out {parts} private part(s)",) if parts else ()
