"""A change that a person sees before it is made, and can take back: plan, apply, undo.

Each action is the verb of the command with the same name, called once. `plan` calls it in a rehearsal
(`store/watching.py`), so that what is shown is what that very call would write, to the byte, and nothing is written.
`apply` calls it for real, with a witness that stops it when a file is not the one that was shown. What stood in the
files is kept for as long as the process lives, and `undo` puts it back if nobody has touched those lines since;
otherwise nothing is touched. A change that fails half-way is taken back at once. `tests/app/pages/test_change.py`
proves it.
"""

import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index
from ralph.app.pages import change_verbs
from ralph.app.pages.change_verbs import Done, Wanted
from ralph.app.promote import difference
from ralph.errors import Conflict, NotFound, RalphError
from ralph.model import ids
from ralph.store import files, watching
from ralph.store.sources import name_of
from ralph.store.watching import Change, Rehearsal, Takes, Witness, stamp

KEPT = 50
"""Changes that can be taken back, the last ones."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One file that would change: how, and what it says now."""

    name: str
    diff: str
    before: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action would do: the files, a sentence, and what to think about before saying yes."""

    files: tuple[Planned, ...]
    summary: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What stood in a file before a change, and what the change left there, both packed, with the stamp of that."""

    path: Path
    packed: bytes | None
    left: bytes | None
    after: str
    appended: bool

    @property
    def before(self) -> str | None:
        """The text that stood there; None when there was no file."""
        return _unpacked(self.packed)

    def instead(self, now: str | None) -> tuple[bool, str | None]:
        """Whether the change can be taken out of what stands there now, and what is left then.

        Where nobody touched the file that is what stood there before. Where somebody did, only the lines of the change
        are put back, and only while they stand there once, as the change left them, with their neighbours.
        """
        if stamp(now) == self.after:
            return True, self.before
        left = _unpacked(self.left)
        if now is None or left is None or self.before is None:
            return False, None
        text = taken_out(self.before, left, now)
        return text is not None, text


@dataclass(frozen=True, slots=True)
class Made:
    """A change that was made, and what stood in the files before; `undone` once it was taken back."""

    undo: str
    at: str
    summary: str
    record: str
    kept: tuple[Kept, ...]
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """A change that was taken back, and what that changed in the files."""

    summary: str
    files: tuple[Planned, ...]


def plan(root: Path, wanted: Wanted, patterns: Sequence[str] = ()) -> Plan:
    """What an action would do; nothing is written."""
    with suppress(RalphError, OSError):
        index.sync(root)  # what is derived may be written at any time, but its seal must not fall into the rehearsal
    rehearsal = Rehearsal(_looked_at(root))
    with watching.by(rehearsal):
        done = change_verbs.call(root, wanted, patterns)
    shown = tuple(_planned(root, each) for each in rehearsal.changes)
    if wanted.action == "add" and shown:
        names = ", ".join(each.name for each in shown)
        told = "its id is given when it is kept, so it will be another one than shown here"
        return Plan(shown, f"Added to {names}", (*done.warnings, told))
    return Plan(shown, done.summary if shown else f"Nothing would change. {done.summary}", done.warnings)


def _planned(root: Path, change: Change) -> Planned:
    name = name_of(change.path, root)
    return Planned(name, difference(name, change.before or "", change.after or ""), stamp(change.before))


def _looked_at(root: Path) -> Takes:
    """Whether a path is one that people care for: the index, the caches and what hides them are derived."""
    own = {Path(os.path.realpath(paths.ralph_folder(each))) for each in (root, paths.state_root(root))}

    def takes(path: Path) -> bool:
        real = Path(os.path.realpath(path))
        inside = next((folder for folder in own if real.is_relative_to(folder)), None)
        first = real.relative_to(inside).parts[:1] if inside is not None else ()
        return not (first and (first[0] in ("cache", ".gitignore") or first[0].startswith("ralph.db")))

    return takes


class Changes:
    """The changes of one server's run, which can be taken back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[str, Made] = {}
        self._lock = threading.Lock()

    def apply(self, wanted: Wanted, stamps: Mapping[str, str], patterns: Sequence[str] = ()) -> tuple[Done, Made]:
        """Do it; Conflict when a file is not as it was shown, and then nothing is changed.

        It is rehearsed once more, so that no file is touched when one of several is another by now.
        """
        with self._lock:
            for each in plan(self.root, wanted, patterns).files:
                if stamps.get(each.name) != each.before and not each.name.endswith(_LOG):
                    raise watching.changed(Path(each.name))
            witness = Witness(_looked_at(self.root), lambda path: stamps.get(name_of(path, self.root)))
            try:
                with watching.by(witness):
                    done = change_verbs.call(self.root, wanted, patterns)
            except BaseException:
                with suppress(RalphError):
                    _put_back(self.root, _kept(witness.changes))
                raise
            made = Made(ids.short("u"), ids.timestamp(), done.summary, done.record, _kept(witness.changes))
            self._made[made.undo] = made
            while len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
            return done, made

    def list_(self) -> list[tuple[Made, bool]]:
        """What was changed, the newest first, and whether it can be taken back."""
        with self._lock:
            return [(made, not made.undone and all(map(_can_go, made.kept))) for made in reversed(self._made.values())]

    def undo(self, name: str) -> Undone:
        """Take a change back; Conflict when somebody has changed its lines since, and then nothing is touched."""
        with self._lock:
            made = self._made.get(name)
            if made is None:
                raise NotFound("that change is not known any more", hint="git or the file itself can take it back")
            if made.undone:
                raise Conflict("that change was taken back already", hint="look at the list of changes")
            done = _put_back(self.root, made.kept)
            self._made[name] = replace(made, undone=True)
            return Undone(f"Taken back: {made.summary}", tuple(_planned(self.root, each) for each in done))


_NEIGHBOURS = 2
"""Lines around a change that must be as they were, where its file was changed elsewhere."""
_LOG = ".jsonl"
"""Logs only grow: a line of somebody else's between ours and the next takes nothing away."""


def _kept(changes: Sequence[Change]) -> tuple[Kept, ...]:
    """What stood in the files that were changed; of several changes to one file, before the first."""
    found: dict[Path, Change] = {}
    for each in changes:
        first = found.get(each.path, each)
        found[each.path] = Change(each.path, first.before, each.after, first.appended and each.appended)
    return tuple(
        Kept(each.path, _packed(each.before), _packed(each.after), stamp(each.after), each.appended)
        for each in found.values()
        if each.before != each.after
    )


def _packed(text: str | None) -> bytes | None:
    return None if text is None else zlib.compress(text.encode("utf-8", "surrogateescape"), 1)


def _unpacked(packed: bytes | None) -> str | None:
    return None if packed is None else zlib.decompress(packed).decode("utf-8", "surrogateescape")


def taken_out(before: str, after: str, now: str) -> str | None:
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


def _can_go(kept: Kept) -> bool:
    """Whether a change could be taken out of its file now."""
    with suppress(RalphError):
        return kept.appended or kept.instead(files.read(kept.path))[0]
    return False


def _put_back(root: Path, kept: Sequence[Kept]) -> list[Change]:
    """Take changes out of files, each only if its lines are as we left them; Conflict when some are not.

    All are looked at first, so that as a rule nothing is touched then; whoever comes between is let be. What was put
    back by then, or before the disk refused another one, is put forward again.
    """
    there = [(each, files.read(each.path)) for each in kept]
    wanted: list[tuple[Kept, str | None, str | None]] = []
    for each, text in there:
        can, after = each.instead(text)
        if can:
            wanted.append((each, text, after))
        elif not each.appended:
            name = name_of(each.path, root)
            raise Conflict(
                f"{name}: somebody has changed the same lines since, so this cannot be taken back",
                hint="look at the file; what you want to have back can be written by hand",
            )
    done: list[Change] = []
    for each, text, after in reversed(wanted):
        try:
            _replace(root, Change(each.path, text, after))
        except (RalphError, OSError):
            for back in reversed(done):
                with suppress(RalphError):
                    _replace(root, Change(back.path, back.after, back.before))
            raise
        done.append(Change(each.path, text, after))
    return done


def _replace(root: Path, change: Change) -> None:
    """Compare and replace, under the lock; None is no file."""
    path = change.path
    within = root if path.is_relative_to(root) else paths.state_root(root)
    if change.after is not None:
        files.write(path, change.after, root=within, expect=change.before or "")
        return
    with files.lock(path):
        if files.read(path) != change.before:
            raise watching.changed(path)
        files.delete(path)
