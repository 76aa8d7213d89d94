"""Which verb an action of the pages means, for a record wherever it stands.

One function call for each action, the same as the command's: nothing is edited here. What cannot be done with a record
is refused with the actions that can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import guardrails, insight, knowledge, knowledge_edit, memory, promote, standing
from ralph.app.entries import Added, Edited, kinds_named
from ralph.app.knowledge import Written
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


def _add(root: Path, wanted: Wanted, patterns: Sequence[str]) -> Done:
    text, tags = wanted.text or "", wanted.tags or ()
    if wanted.noun == "knowledge":
        written = knowledge.add(
            root, wanted.title or "", text, tags, by=BY, allow_secret=wanted.allow_secret, patterns=patterns
        )
        return _written(root, "Added" if written.change is knowledge.Change.NEW else "Changed", written)
    verbs: Mapping[str, tuple[Callable[..., Added], MemoryKind]] = {
        "memory": (memory.add, MemoryKind.PATTERN),
        "guardrail": (guardrails.add, MemoryKind.FIX),
    }
    if wanted.noun not in verbs:
        raise UsageError(f"{wanted.noun[:40]!r} cannot be added", hint=f"one of {', '.join([*verbs, 'knowledge'])}")
    verb, usual = verbs[wanted.noun]
    kind = _kind(wanted) or usual
    added = verb(root, text, kind, tags, by=BY, force=wanted.force, allow_secret=wanted.allow_secret, patterns=patterns)
    told = _told(root, "Added" if added.is_new else "Already there:", added.stored)
    return Done(told.record, told.summary, _private(added.private_parts))


def _edit(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    if form is Format.KNOWLEDGE:
        written = knowledge_edit.edit(
            root, wanted.id, title=wanted.title, text=wanted.text, tags=wanted.tags,
            allow_secret=wanted.allow_secret, patterns=patterns,
        )  # fmt: skip
        return _written(root, "Changed", written)
    edited = _shelf(form).edit(
        root, wanted.id, text=wanted.text, kind=_kind(wanted), tags=wanted.tags,
        allow_secret=wanted.allow_secret, patterns=patterns,
    )  # fmt: skip
    return _edited(root, "Changed", edited)


def _retire(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    if form is Format.KNOWLEDGE:
        return _written(root, "Retired", knowledge_edit.retire(root, wanted.id))
    return _edited(root, "Retired", _shelf(form).retire(root, wanted.id))


def _restore(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    if form is Format.KNOWLEDGE:
        return _written(root, "Restored", knowledge_edit.restore(root, wanted.id))
    return _edited(root, "Restored", _shelf(form).restore(root, wanted.id))


def _delete(root: Path, wanted: Wanted, form: Format, patterns: Sequence[str]) -> Done:
    if form is Format.KNOWLEDGE:
        return _told(root, "Deleted", knowledge.delete(root, wanted.id))
    return _told(root, "Deleted", _shelf(form).delete(root, wanted.id))


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
    Action.RETIRE: _retire,
    Action.RESTORE: _restore,
    Action.DELETE: _delete,
    Action.PROMOTE: _promote,
    Action.ACCEPT: _accept,
    Action.REJECT: _reject,
}


class _Shelf:
    """The verbs of a shelf."""

    def __init__(self, form: Format) -> None:
        self._is_memory = form is Format.MEMORIES
        self.edit: Callable[..., Edited] = memory.edit if self._is_memory else guardrails.edit
        self.retire = memory.retire if self._is_memory else guardrails.retire
        self.restore = memory.restore if self._is_memory else guardrails.restore
        self.delete: Callable[[Path, str], Stored] = memory.delete if self._is_memory else guardrails.delete


def _shelf(form: Format) -> _Shelf:
    return _Shelf(form)


def _kind(wanted: Wanted) -> MemoryKind | None:
    return kinds_named([wanted.kind])[0] if wanted.kind else None


def _edited(root: Path, word: str, edited: Edited) -> Done:
    told = _told(root, word if edited.changed else "Nothing changed in", edited.stored)
    same = (f"{edited.same_as} already says the same",) if edited.same_as else ()
    return Done(told.record, told.summary, (*same, *_private(edited.private_parts)))


def _written(root: Path, word: str, written: Written) -> Done:
    told = _told(
        root, word if written.change is not knowledge.Change.UNCHANGED else "Nothing changed in", written.stored
    )
    short = ("it is longer than about 500 words, and is cut there",) if written.shortened else ()
    return Done(told.record, told.summary, (*short, *_private(written.private_parts)))


def _told(root: Path, word: str, stored: Stored) -> Done:
    return Done(stored.record.id, f"{word} {stored.record.id} ({paths.shown(stored.path, root)})")


def _private(parts: int) -> tuple[str, ...]:
    return (f"left out {parts} private part(s)",) if parts else ()
