"""`ralph forget`: take what must not be remembered out of every file, log, index and vector.

What is forgotten may be a secret, so there is no tombstone and no backup. First a plan: what of each file
would go, worked out on its text by the same function that later runs under the file's lock. Entries go
through their codecs, with an iteration's entry in the journal also its block in the task's progress.txt; lines of a
log are cut out one by one, raw events whole, with the summary of the session (it may quote them) and what the ledger
says of them. Then the index is made anew from the files, since a deleted row's bytes stay in a database that is only
brought up to date, and vectors without a record go. Whatever Ralph cannot or must not change (prose, tasks, backups)
is told with file and line. `--before` and `--session` mean what happened, never what somebody decided to keep.
`tests/app/test_forget.py` looks for the forgotten bytes in everything that is left.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index, session
from ralph.app.forgetting import Logs, Vanishing, Wanted, contents_of, shapes, shown
from ralph.app.worktrees import indexes
from ralph.errors import NotFound, RalphError, Refused, UsageError
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.memories import GUARDRAILS, parse_memories
from ralph.formats.pages import parse_patterns
from ralph.formats.progress import JOURNAL_KEY, parse_progress
from ralph.formats.text import Document
from ralph.formats.work import parse_insights
from ralph.model.record import Family, Record
from ralph.store import db, files, rows
from ralph.store.index import Progress
from ralph.store.sources import Format, Source, sources
from ralph.store.vectors import VectorCache

_SMALL = 12
"""Characters: a shorter line of a forgotten text proves nothing about a backup."""
_BY_HAND = "edit it by hand"
_BACKUP = "a backup; delete it when it is no longer needed"


@dataclass(frozen=True, slots=True)
class Left:
    """What Ralph does not remove by itself: where it is, and what to do."""

    path: Path
    line: int
    why: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """One file that changes: the edit, the text that it gives now, and whether it goes when nothing is left in it."""

    path: Path
    edit: Callable[[str], str]
    after: str
    goes: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """Exactly what goes, in which files, and what stays to be done by hand."""

    vanishing: tuple[Vanishing, ...]
    left: tuple[Left, ...]
    changes: tuple[_Change, ...]

    @property
    def whole_files(self) -> tuple[Path, ...]:
        """The files that go as a whole."""
        return tuple(change.path for change in self.changes if change.goes and not _words(change.after))


def plan(root: Path, wanted: Wanted) -> Plan:
    """What would be forgotten; nothing is changed. NotFound when there is nothing."""
    ways = [bool(wanted.ids), bool(wanted.session), bool(wanted.before), bool(wanted.matching.strip())]
    if sum(ways) != 1:
        what = "more than one way to choose was given" if any(ways) else "nothing to forget was named"
        raise UsageError(what, hint="give ids, or one of --session ID, --before WHEN, --matching TEXT")
    if wanted.session:
        wanted = replace(wanted, session=session.find(root, wanted.session).id)
    made = index.ask(root, lambda connection: _planned(root, wanted, connection))
    if not made.changes and not made.left:
        raise NotFound("not found: nothing here matches", hint="`ralph search` and `ralph session list` show the ids")
    return made


def forget(root: Path, made: Plan, progress: Progress | None = None) -> None:
    """Do what was planned, on the files as they are now; then the index and the vectors follow.

    The index goes first: whoever is killed in the middle leaves none that still holds what its files do not.
    """
    before = set(index.ask(root, rows.digests).values())
    _without_index(root)
    for change in made.changes:
        after = files.update(change.path, change.edit, root=_top(change.path, root))
        if change.goes and not _words(after):
            with files.lock(change.path):
                if not _words(files.read(change.path) or ""):
                    files.delete(change.path)
    _index_anew(root, progress)
    _drop_vectors(root, before - set(index.ask(root, rows.digests).values()))


def _planned(root: Path, wanted: Wanted, connection: sqlite3.Connection) -> Plan:
    logs = Logs(root, wanted, connection)
    vanishing, left, changes = _entries(root, logs.wanted)
    missing = set(wanted.ids) - logs.found - {each.id for each in vanishing} - {each.id for each in left}
    if missing:
        names = ", ".join(name for name in wanted.ids if name in missing)
        raise NotFound(f"not found: {names}", hint='`ralph search "words"` shows the ids')
    for path in logs.paths():
        done = logs.cut(path, files.read(path) or "")
        if done.changed:
            vanishing += logs.told(path, done)
            changes.append(_Change(path, logs.edit(path), done.text))
    if wanted.session:
        changes += [_Change(path, lambda _: "", "") for path in _injected(root, wanted.session)]
    if wanted.ids or wanted.matching:
        left += _leftovers(root, wanted, vanishing, {change.path: change.after for change in changes})
    return Plan(tuple(vanishing), tuple(left), tuple(changes))


# --- entries, through their codecs -------------------------------------------------------------


def _entries(root: Path, wanted: Wanted) -> tuple[list[Vanishing], list[Left], list[_Change]]:
    """What goes of memories, guardrails, knowledge, patterns, insights and progress files."""
    vanishing: list[Vanishing] = []
    left: list[Left] = []
    changes: list[_Change] = []
    needle = wanted.matching.casefold()
    for source in sources(root) if wanted.ids or needle else ():
        if source.format in (Format.LOG, Format.TASK):
            continue
        text = files.read(source.path) or ""
        chosen = [each for each in _parsed(source, text).entries if _is_meant(each.record, wanted.ids, needle)]
        if not chosen:
            continue
        names = tuple(dict.fromkeys(each.record.id for each in chosen))
        try:
            files.target(source.path, _top(source.path, root))
            after, refused = _without(source, text, names)
        except Refused as error:
            after, refused = text, dict.fromkeys(names, error.message)
        for each in chosen:
            record = each.record
            name = _known_as(record, wanted.ids)
            if record.id in refused:
                left.append(Left(source.path, each.line, f"{refused[record.id]}; {_BY_HAND}", name))
            else:
                what = f"{source.format.value} {record.kind.value}"
                vanishing.append(Vanishing(source.path, each.line, name, what, shown(record)))
        if after != text:
            changes.append(_Change(source.path, _edit_of(source, names), after, source.format is Format.KNOWLEDGE))
    return vanishing, left, changes


def _is_meant(record: Record, names: Sequence[str], needle: str) -> bool:
    if needle:
        return any(needle in text.casefold() for text in contents_of(record))
    return record.id in names or _known_as(record, names) in names


def _known_as(record: Record, names: Sequence[str]) -> str:
    """The id by which a record is meant: a block of a task's progress says what the journal's entry says."""
    entry = str(record.extra.get(JOURNAL_KEY, "")) if record.family is Family.JOURNAL else ""
    return entry if entry and entry in names else record.id


def _edit_of(source: Source, names: Sequence[str]) -> Callable[[str], str]:
    return lambda text: _without(source, text, names)[0]


def _without(source: Source, text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A file without these entries, and why some of them cannot be taken out."""
    document = _parsed(source, text)
    refused: dict[str, str] = {}
    for name in names:
        try:
            document = document.remove(name)
        except NotFound:  # it went with another one, or somebody was faster
            continue
        except RalphError as error:
            refused[name] = error.message
    return document.text, refused


def _parsed(source: Source, text: str) -> Document:
    if source.format is Format.KNOWLEDGE:
        return parse_knowledge(text, source.path.stem)
    if source.format is Format.GUARDRAILS:
        return parse_memories(text, GUARDRAILS)
    parsers: dict[Format, Callable[[str], Document]] = {
        Format.MEMORIES: parse_memories, Format.PATTERNS: parse_patterns,
        Format.PROGRESS: parse_progress, Format.INSIGHTS: parse_insights,
    }  # fmt: skip
    return parsers[source.format](text)


# --- what is left ------------------------------------------------------------------------------


def _leftovers(
    root: Path, wanted: Wanted, vanishing: Sequence[Vanishing], changed: Mapping[Path, str]
) -> Iterator[Left]:
    """Where forgotten words still stand: in backups, and, for a text, in whatever Ralph does not change."""
    words = shapes(wanted.matching)
    if not words:
        lines = {line for each in vanishing for line in each.text.casefold().splitlines() if len(line) >= _SMALL}
        words = {each.id.casefold() for each in vanishing if each.id} | lines
    for path in _files(root):
        is_backup = ".bak" in path.name
        if path.suffix == ".jsonl" or not (wanted.matching or is_backup):
            continue
        text = changed[path] if path in changed else _text(path)
        for number, line in enumerate(text.casefold().split("\n"), 1):
            if any(each in line for each in words):
                yield Left(path, number, _BACKUP if is_backup else _BY_HAND)
                if is_backup:
                    break


def _files(root: Path) -> Iterator[Path]:
    """Every file that Ralph keeps, databases and vectors aside."""
    folders = {
        paths.ralph_folder(root),
        paths.ralph_folder(paths.main_checkout(root)),
        paths.state_folder(root),
        paths.memories_files(root)[0].parent,
    }
    beside = [*root.glob("guardrails.md*"), *paths.progress_files(root)]
    found = {path for folder in folders for path in folder.rglob("*")} | set(beside)
    for path in sorted(found):
        if path.is_file() and not path.name.startswith(("ralph.db", "vectors.")):
            yield path


def _text(path: Path) -> str:
    try:
        return files.read(path) or ""
    except RalphError:
        return ""


def _injected(root: Path, name: str) -> list[Path]:
    """The list of what a session was handed; its name is checked, for it comes from a host."""
    folder = paths.cache_folder(root) / "injected"
    return [path for path in folder.glob("*") if path.name == name and path.is_file()]


# --- index and vectors -------------------------------------------------------------------------


def _without_index(root: Path) -> None:
    """Delete the index of every checkout; what is deleted from a database would stay in its free pages."""
    index.of(root)  # Refused, where it is somebody else's
    indexes.discard_all(root, index.PATIENCE)


def _index_anew(root: Path, progress: Progress | None) -> None:
    """Make the index from the files, also when somebody made one while they were changed."""
    try:
        _without_index(root)
        index.sync(root, progress)
    except db.Busy as error:
        hint = "the files are clean; run `ralph index rebuild` when the other process has ended"
        what = f"{paths.index_file(root)}: another process keeps writing, so it may hold what was forgotten"
        raise db.Busy(what, hint=hint) from error


def _drop_vectors(root: Path, digests: set[str]) -> None:
    """Drop the vectors that no record has any more, also out of the file's free pages."""
    folder = paths.cache_folder(root)
    database = folder / "vectors.db"
    if not digests or not database.exists():
        return
    with VectorCache(database) as cache:
        cache.forget(digests)
    with db.explained(database), closing(db.connect(database)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for piece in folder.glob("vectors.*"):
        if not piece.name.startswith(database.name):  # the same vectors in one piece; made again with the next ones
            files.delete(piece)


def _words(text: str) -> str:
    return text.strip("\ufeff \t\r\n")


def _top(path: Path, root: Path) -> Path:
    """The folder that a file must not lead out of."""
    tops = (paths.state_folder(root), root, paths.main_checkout(root))
    top = next((top for top in tops if path.is_relative_to(top)), root)
    return paths.state_boundary(root) if top == tops[0] else top
