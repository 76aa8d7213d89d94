"""`ralph loop journal ...`: how every iteration of every run ended, and what of it the next iteration is told.

An entry is one line of its run's log, written once: a loop that is killed between writing it and noting that it
did writes it again, which is recognised by the entry's id and changes nothing. Only the end of the log is looked
at, however long the run is. What this run did last is read from its own log, so that nothing is missing which was
written a moment ago; what other runs did on something alike is asked of the index, with the words of the task and
the ranking that every search has. The clock takes no part in that: the same files give the same section. For a task
neither has anything of other tasks that are not finished; nor has what an agent in a task asks for.
`tests/app/test_journal.py` proves each of these, and kills writers.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index, sight
from ralph.capture.invisible_characters import clean_text
from ralph.capture.privacy import map_texts, redact, redact_members
from ralph.capture.trim import trim
from ralph.context import brief as rendering
from ralph.errors import Conflict, NotFound, NothingYet, Refused, Unreadable
from ralph.formats.log import (
    JOURNAL_PREFIX,
    encode_record,
    is_journal_entry,
    journal_entry,
    journal_record,
    parse_log,
)
from ralph.model import ids
from ralph.model.record import Family, Outcome, Record
from ralph.model.work import JournalEntry
from ralph.search import rank as ranking
from ralph.search.question import WeightedWord
from ralph.search.terms import EVERYDAY_WORDS as EVERYDAY
from ralph.store import files, lookup, rows, sessions

RECENT = 5
MATCHES = 5
LIMIT = 20
NOTES = 20_000
"""Characters of notes that are kept; of longer ones, both ends."""
FILES = 500
"""Names of files that are kept."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_PIECE = 1 << 14  # bytes of a log's end that are read at first
_ASKED = 2_000  # characters of a task's words that matches are looked for with
_ALIKE = 4  # so many times the wanted matches are looked at, since some say the same
_CANDIDATES = 5
_UNGATED = ranking.Recipe(floor=0.0)  # which entries fit is judged here


@dataclass(frozen=True, slots=True)
class Which:
    """Which entries are meant; a run may be given by the beginning of its id.

    Those of one task have `task`; who asks from `within` a task is meant what it may see.
    """

    run: str = ""
    task: str = ""
    outcome: Outcome | None = None
    since: str = ""
    within: str = ""

    @property
    def condition(self) -> tuple[str, list[object]]:
        """The same for the index."""
        outcome = self.outcome.value if self.outcome is not None else ""
        asked = rows.iterations(run=self.run, task=self.task, outcome=outcome, since=self.since)
        return _seen_from(self.within, asked)


def _seen_from(task: str, condition: tuple[str, list[object]]) -> tuple[str, list[object]]:
    """A condition on the journal's rows, for what a task may see; without a task as it is."""
    test, values = condition
    seen, more = lookup.seen_by(rows.safe(task), rows.FAMILIES.index(Family.JOURNAL))
    return (f"{test} AND {seen}", [*values, *more]) if seen else condition


EVERY = Which()


@dataclass(frozen=True, slots=True)
class JournalMatch:
    """An entry that was found, how well it fits, and why."""

    entry: JournalEntry
    score: float
    why: tuple[str, ...] = ()


# --- writing -----------------------------------------------------------------------------------


def run_file(root: Path, run: str) -> Path:
    """The log of a run; Refused for an id that cannot be the name of a file."""
    if not _RUN.fullmatch(run):
        raise Refused(f"{run!r} cannot be the id of a run", hint="letters, digits, `.`, `_` and `-`, at most 80")
    return paths.log_folder(root) / "runs" / f"{run}.jsonl"


def append(root: Path, entry: JournalEntry, patterns: Sequence[str] = ()) -> bool:
    """Write down how an iteration ended, without secrets; False when that was written before, then nothing changes."""
    path = run_file(root, entry.run)
    line = encode_record(journal_record(_clean(entry, patterns)))
    there = _is_there(path, entry)
    # Nothing as the line makes sure that what a killed writer left has its line end and is on the disk.
    files.append(path, "" if there else line, root=paths.state_boundary(root), durable=True)
    return not there


def _clean(entry: JournalEntry, patterns: Sequence[str]) -> JournalEntry:
    """The entry as it may be kept."""

    def words(text: str) -> str:
        return rows.safe(redact(clean_text(text), patterns).text)

    extra = redact_members(map_texts(dict(entry.extra), words), patterns)
    kept = dict(extra) if isinstance(extra, dict) else {}
    if len(entry.files) > FILES:
        kept["files_in_all"] = len(entry.files)
    return replace(
        entry,
        task=words(entry.task),
        title=words(entry.title),
        feature=words(entry.feature),
        agent=words(entry.agent),
        model=words(entry.model),
        session=words(entry.session),
        notes=words(trim(words(entry.notes).strip(), NOTES)),
        files=tuple(map(words, entry.files[:FILES])),
        created_at=entry.created_at or ids.timestamp(),
        extra=kept,
    )


def _is_there(path: Path, entry: JournalEntry) -> bool:
    """Whether the entry was written; iterations stand in their order, so that an earlier one ends the search."""
    size = _PIECE
    while True:
        text, whole = _end(path, size)
        found = _entries(text, entry.run)
        if any(each.iteration == entry.iteration for each in found):
            return True
        if whole or any(each.iteration < entry.iteration for each in found):
            return False
        size *= 4


def _end(path: Path, most: int) -> tuple[str, bool]:
    """The end of a log from the start of a line, about so many bytes of it, and whether that is all."""
    try:
        if not path.is_file():
            return "", True
        with path.open("rb") as file:
            over = max(0, path.stat().st_size - most)
            file.seek(over)
            text = file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions") from error
    return (text.partition("\n")[2], False) if over else (text, True)


def _entries(log: str, run: str) -> list[JournalEntry]:
    """The entries of a run in a part of its log, each once, in the order of the iterations."""
    records = (entry.record for entry in parse_log(log).entries)
    found = _once(record for record in records if record.origin.run == run)
    return sorted(found, key=lambda entry: entry.iteration)


def _once(records: Iterable[Record]) -> list[JournalEntry]:
    """Those of some records that are entries; of those with one id, the first."""
    found: dict[str, JournalEntry] = {}
    for record in records:
        if is_journal_entry(record) and record.id not in found:
            found[record.id] = journal_entry(record)
    return list(found.values())


# --- for the next iteration --------------------------------------------------------------------


def section(root: Path, run: str, words: str, budget: int = rendering.JOURNAL_BUDGET, *, task: str = "") -> str:
    """`## Run Journal` for a prompt: what this run did last, and what others noted on something alike; "" for none."""
    return rendering.render_journal(recent(root, run, task=task), matches(root, run, words, task=task), budget)


def recent(root: Path, run: str, most: int = RECENT, *, task: str = "") -> tuple[JournalEntry, ...]:
    """The newest entries of a run that a task may see, the oldest of them first."""
    path = run_file(root, run)
    size = _PIECE
    while True:
        text, whole = _end(path, size)
        found = _seen(root, _entries(text, run), task)
        if whole or len(found) >= most:
            return tuple(found[-most:])
        size *= 4


def _seen(root: Path, entries: list[JournalEntry], task: str) -> list[JournalEntry]:
    """The entries without those of other tasks that are not finished; the index is asked only if there are others."""
    if not task or all(entry.task in ("", task) for entry in entries):
        return entries
    hidden = index.ask(root, lambda connection: rows.unfinished(connection, task))
    return [entry for entry in entries if entry.task not in hidden]


def matches(root: Path, run: str, words: str, most: int = MATCHES, *, task: str = "") -> tuple[JournalEntry, ...]:
    """Entries of other runs whose notes, task or files fit the words, best first; what says the same comes once.

    For a task, those that it may see.
    """
    condition = _seen_from(task, rows.iterations(not_of=run, noted=True))

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        day = _newest(connection)
        ranked, found = _ranked(connection, words[:_ASKED], condition, day, _ALIKE * most, _UNGATED)
        said: dict[str, JournalEntry] = {}
        for judged, entry in found:
            if _fits(judged, ranked.words):
                said.setdefault(entry.notes.strip(), entry)
        return tuple(entry for notes, entry in said.items() if notes)[:most]

    return index.ask(root, question) if words.strip() else ()


def _newest(connection: sqlite3.Connection) -> str:
    """The day of the newest entry: how old others are is counted from there, whatever the clock says."""
    return sessions.newest_journal_day(connection)


def _ranked(
    connection: sqlite3.Connection,
    words: str,
    condition: tuple[str, list[object]],
    today: str,
    limit: int | None,
    recipe: ranking.Recipe = ranking.STANDARD,
) -> tuple[ranking.Ranking, list[tuple[ranking.RankedRow, JournalEntry]]]:
    """The ranking of entries by some words, and those that it found, best first, each once."""
    keep = [(rows.FAMILIES.index(Family.JOURNAL), *condition)]
    ranked = ranking.rank(connection, words, today=today, keep=keep, limit=limit, recipe=recipe)
    held = rows.records(connection, [each.row.key for each in ranked.best])
    found: dict[str, tuple[ranking.RankedRow, JournalEntry]] = {}
    for each in ranked.best:
        record = held.get(each.row.key)
        if record is not None and is_journal_entry(record):
            found.setdefault(record.id, (each, journal_entry(record)))
    return ranked, list(found.values())


def _fits(judged: ranking.RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Whether an entry is worth telling to somebody who did not ask: it answers the words as a search would have it,
    or holds much of what of them occurs anywhere. A task's title is no question: its other words are new work."""
    known = [each for each in words if each.counts and each.certain and each.word.lower() not in EVERYDAY]
    whole = sum(each.weight for each in known)
    held = sum(each.weight * judged.matched.get(each.word, 0.0) for each in known)
    return ranking.is_answer(judged) or (whole > 0 and held / whole >= ranking.STANDARD.floor)


# --- for people --------------------------------------------------------------------------------


def list_(root: Path, which: Which = EVERY, *, limit: int | None = LIMIT) -> tuple[tuple[JournalEntry, ...], int]:
    """The entries, newest first, and how many there are in all."""
    found = index.ask(root, lambda connection: _found(connection, which))
    return tuple(found if limit is None else found[:limit]), len(found)


def left_out(root: Path, which: Which, words: str | None = None, *, limit: int | None = LIMIT) -> str:
    """That entries of other tasks would be among these, or among those that fit some words; "" when none would."""
    if not which.within:
        return ""
    every = replace(which, within="")
    told = list_(root, every, limit=None)[0] if words is None else _entries_of(search(root, words, every, limit=limit))
    seen = {(entry.run, entry.iteration) for entry in list_(root, which, limit=None)[0]}
    hidden = [entry for entry in told if (entry.run, entry.iteration) not in seen]
    count = "1 entry" if len(hidden) == 1 else f"{len(hidden)} entries"
    return sight.note(count, filter(None, (entry.task for entry in hidden))) if hidden else ""


def _entries_of(found: tuple[tuple[JournalMatch, ...], int]) -> list[JournalEntry]:
    return [match.entry for match in found[0]]


def show(root: Path, run: str = "", *, within: str = "") -> tuple[JournalEntry, ...]:
    """What a run did, in its order, as far as a task may see it; the beginning of its id is enough, and without one it
    is the newest run."""

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        found = _found(connection, Which(run=run, within=within))
        if not found and within and _found(connection, Which(run=run)):
            what = f"what {run or 'every run'} did belongs to other tasks, which are not finished"
            raise NotFound(what, hint="--all-tasks shows everything")
        name = _meant(run, list(dict.fromkeys(entry.run for entry in found)))
        return tuple(sorted((entry for entry in found if entry.run == name), key=lambda entry: entry.iteration))

    return index.ask(root, question)


def _meant(run: str, runs: Sequence[str]) -> str:
    """Which of the runs that begin so is meant; the newest one, which comes first, when nothing is said."""
    if not runs:
        what = f"no iteration of a run {run} is written down" if run else "the journal is empty"
        hint = "`ralph loop journal` shows what there is; `ralph loop start` begins a run"
        raise (NotFound if run else NothingYet)(what, hint=hint)
    if run and run not in runs and len(runs) > 1:
        more = f" and {len(runs) - _CANDIDATES} more" if len(runs) > _CANDIDATES else ""
        what = f"{len(runs)} runs begin with {run}: {', '.join(runs[:_CANDIDATES])}{more}"
        raise Conflict(what, hint="give more of the id")
    return run if run in runs else runs[0]


def find(root: Path, name: str, iteration: int | None = None, *, within: str = "") -> JournalEntry:
    """One entry that a task may see: by its id, or by its run and iteration."""
    if iteration is None:
        run, _, number = name.removeprefix(f"{JOURNAL_PREFIX}-").rpartition("-")
        if not number.isdecimal():
            raise NotFound(f"there is no entry {name}", hint="`ralph loop journal` shows runs and iterations")
        name, iteration = run, int(number)
    entries = show(root, name, within=within)
    found = next((entry for entry in entries if entry.iteration == iteration), None)
    if found is None and within:
        theirs = next((entry for entry in show(root, entries[0].run) if entry.iteration == iteration), None)
        if theirs is not None:
            raise sight.closed(f"iteration {iteration} of {theirs.run}", filter(None, [theirs.task]))
    if found is None:
        there = f"{entries[0].iteration} to {entries[-1].iteration}"
        raise NotFound(f"the run {entries[0].run} has no iteration {iteration}", hint=f"it has {there}")
    return found


def is_entry_id(name: str) -> bool:
    """Whether a name is meant as the id of an entry, and not of a run."""
    return name.startswith(f"{JOURNAL_PREFIX}-")


def search(
    root: Path, words: str, which: Which = EVERY, *, limit: int | None = LIMIT
) -> tuple[tuple[JournalMatch, ...], int]:
    """The entries that fit some words, best first, and how many there are in all."""

    def question(connection: sqlite3.Connection) -> tuple[tuple[JournalMatch, ...], int]:
        today = ids.today()
        ranked, found = _ranked(connection, words, which.condition, today, limit)
        matched = (
            JournalMatch(entry, round(judged.score, 4), tuple(ranking.explain(judged, ranked.words, today)))
            for judged, entry in found
        )
        return tuple(matched), ranked.total

    return index.ask(root, question)


def _found(connection: sqlite3.Connection, which: Which) -> list[JournalEntry]:
    test, values = which.condition
    newest = f"{test} ORDER BY created_at DESC, run_id, iteration DESC, id"
    return _once(record for _, record in rows.stored(connection, Family.JOURNAL, newest, tuple(values)))
