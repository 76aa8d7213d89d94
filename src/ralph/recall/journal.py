"""`ralph loop journal`: how every iteration ended, and what the next iteration gets of it.

A run's own entries are read from its log, so that nothing recent is missing; those of other runs come from the index,
ranked without the clock, so that the same files give the same section.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture.pipeline import trim
from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, NotFound, Refused
from ralph.core.record import Family, Outcome, Record
from ralph.core.terms import EVERYDAY_WORDS as EVERYDAY
from ralph.core.work import JournalEntry
from ralph.formats.log import (
    JOURNAL_PREFIX,
    encode_record,
    is_journal_entry,
    journal_entry,
    journal_record,
    parse_log,
)
from ralph.privacy.invisible_characters import clean_text
from ralph.privacy.privacy import map_texts, redact, redact_members
from ralph.search import filters, index
from ralph.search import rank as ranking
from ralph.storage import files, lookup, queries, sessions

LIMIT = 20
NOTES = 20_000  # characters of notes that are stored; of longer ones, both ends
FILES = 500  # file names that are stored
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_QUERY_LENGTH = 2_000  # characters of a task's text that matches are searched with
_DUPLICATE_FACTOR = 4  # so many times the matches are read, since some have the same text
_MAX_NAMES = 5
_UNGATED = ranking.Recipe(floor=0.0)  # which entries fit is judged here


@dataclass(frozen=True, slots=True)
class JournalFilter:
    """Which entries: of a run (its id's beginning will do), of a `task`, or visible `within` a task."""

    run: str = ""
    task: str = ""
    outcome: Outcome | None = None
    since: str = ""
    within: str = ""

    @property
    def condition(self) -> tuple[str, list[object]]:
        """Return the SQL condition and its values."""
        outcome = self.outcome.value if self.outcome is not None else ""
        condition = queries.iterations(
            run=self.run, task=self.task, outcome=outcome, since=self.since
        )
        return _visible_to(self.within, condition)


def _visible_to(task: str, condition: tuple[str, list[object]]) -> tuple[str, list[object]]:
    test, values = condition
    visible, more = lookup.visibility_test(
        queries.safe(task), queries.FAMILIES.index(Family.JOURNAL)
    )
    return (f"{test} AND {visible}", [*values, *more]) if visible else condition


EVERY = JournalFilter()


class JournalMatch(NamedTuple):
    """An entry, how well it matches, why, and whether it is only the nearest where nothing certain was found."""

    entry: JournalEntry
    score: float
    why: tuple[str, ...] = ()
    weak: bool = False


def run_file(root: Path, run: str) -> Path:
    """Return the log of a run; Refused for an id that cannot be a file name."""
    if not _RUN.fullmatch(run):
        raise Refused(
            f"{run!r} cannot be the id of a run",
            hint="letters, digits, `.`, `_` and `-`, at most 80",
        )
    return paths.run_log(root, run)


def append(root: Path, entry: JournalEntry, patterns: Sequence[str] = ()) -> bool:
    """Append an entry, redacted; False when it is in the log already."""
    path = run_file(root, entry.run)

    def clean(text: str) -> str:
        return queries.safe(redact(clean_text(text), patterns).text)

    extra = redact_members(map_texts(dict(entry.extra), clean), patterns)
    names = ("task", "title", "feature", "agent", "model", "session")
    texts: dict[str, Any] = {name: clean(getattr(entry, name)) for name in names}
    texts |= {
        "notes": clean(trim(clean(entry.notes).strip(), NOTES)),
        "created_at": entry.created_at or ids.timestamp(),
    }
    texts |= {
        "files": tuple(map(clean, entry.files[:FILES])),
        "extra": extra if isinstance(extra, dict) else {},
    }
    line = encode_record(journal_record(replace(entry, **texts)))
    exists = any(written.iteration == entry.iteration for written in _read_log(path, entry.run))
    # An empty append completes the line that a killed writer left and syncs it.
    files.append(path, "" if exists else line, root=paths.state_boundary(root), durable=True)
    return not exists


def _read_log(path: Path, run: str) -> list[JournalEntry]:
    records = (entry.record for entry in parse_log(files.read(path) or "").entries)
    entries = _unique_entries(record for record in records if record.origin.run == run)
    return sorted(entries, key=lambda entry: entry.iteration)


def _unique_entries(records: Iterable[Record]) -> list[JournalEntry]:
    entries: dict[str, JournalEntry] = {}
    for record in filter(is_journal_entry, records):
        entries.setdefault(record.id, journal_entry(record))
    return list(entries.values())


def for_prompt(
    root: Path, run: str, words: str, *, task: str = "", told: Sequence[str] = ()
) -> tuple[list[JournalEntry], tuple[JournalEntry, ...]]:
    """Return this run's last entries without what the prompt says elsewhere, and similar ones."""
    own = []
    for entry in recent(root, run, task=task):
        for text in filter(None, told):
            if entry.notes.endswith(text):
                entry = replace(
                    entry, notes=entry.notes.removesuffix(text).rstrip() or "see Retry Information"
                )
        own.append(entry)
    return own, matches(root, run, words, task=task)


def recent(root: Path, run: str, most: int = 5, *, task: str = "") -> tuple[JournalEntry, ...]:
    """Return the newest entries of a run that a task may see, the oldest of them first."""
    entries = _read_log(run_file(root, run), run)
    if task and any(
        entry.task not in ("", task) for entry in entries
    ):  # only then the index is read
        hidden = index.ask(root, lambda connection: queries.unfinished_tasks(connection, task))
        entries = [entry for entry in entries if entry.task not in hidden]
    return tuple(entries[-most:])


def matches(
    root: Path, run: str, words: str, most: int = 5, *, task: str = ""
) -> tuple[JournalEntry, ...]:
    """Return entries of other runs that match a text, best first, each text once."""
    condition = _visible_to(task, queries.iterations(not_of=run, noted=True))

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        day = sessions.newest_journal_day(
            connection
        )  # ages are counted from it, not from the clock
        limit = _DUPLICATE_FACTOR * most
        ranked, entries = _rank_entries(
            connection, words[:_QUERY_LENGTH], condition, day, limit, _UNGATED
        )
        certain = [
            word
            for word in ranked.words
            if word.counts and word.certain and word.word.lower() not in EVERYDAY
        ]
        total = sum(word.weight for word in certain)
        by_notes: dict[str, JournalEntry] = {}
        for row, entry in entries:
            # a result of a search, or with most of the words that occur anywhere: a title's other words are new work
            weight = sum(word.weight * row.matched.get(word.word, 0.0) for word in certain)
            if ranking.is_answer(row) or (total > 0 and weight / total >= ranking.STANDARD.floor):
                by_notes.setdefault(entry.notes.strip(), entry)
        return tuple(entry for notes, entry in by_notes.items() if notes)[:most]

    return index.ask(root, question) if words.strip() else ()


def _rank_entries(
    connection: sqlite3.Connection,
    words: str,
    condition: tuple[str, list[object]],
    today: str,
    limit: int | None,
    recipe: ranking.Recipe = ranking.STANDARD,
) -> tuple[ranking.Ranking, list[tuple[ranking.RankedRow, JournalEntry]]]:
    keep = [(queries.FAMILIES.index(Family.JOURNAL), *condition)]
    ranked = ranking.rank(connection, words, today=today, keep=keep, limit=limit, recipe=recipe)
    records = queries.records(connection, [row.row.key for row in ranked.best])
    entries: dict[str, tuple[ranking.RankedRow, JournalEntry]] = {}
    for row in ranked.best:
        if (record := records.get(row.row.key)) is not None and is_journal_entry(record):
            entries.setdefault(record.id, (row, journal_entry(record)))
    return ranked, list(entries.values())


def list_(
    root: Path, which: JournalFilter = EVERY, *, limit: int | None = LIMIT
) -> tuple[tuple[JournalEntry, ...], int]:
    """Return the entries, newest first, and how many there are in all."""
    entries = index.ask(root, lambda connection: _select_entries(connection, which))
    return tuple(entries if limit is None else entries[:limit]), len(entries)


def show(root: Path, run: str, *, within: str = "") -> tuple[JournalEntry, ...]:
    """Return the entries of a run, named by the beginning of its id, that a task may see, in order."""

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        entries = _select_entries(connection, JournalFilter(run=run, within=within))
        if not entries and within and _select_entries(connection, JournalFilter(run=run)):
            what = f"what {run} did belongs to other tasks, which are not finished"
            raise NotFound(what, hint=Hint("show-all-tasks", "--all-tasks shows everything"))
        if not (runs := list(dict.fromkeys(entry.run for entry in entries))):
            raise NotFound(
                f"no iteration of a run {run} is written down",
                hint=(
                    Hint("find-run", "`ralph loop journal` shows what there is"),
                    "`ralph loop start` begins a run",
                ),
            )
        if run not in runs and len(runs) > 1:
            what = f"{len(runs)} runs begin with {run}: {', '.join(runs[:_MAX_NAMES])}"
            raise Conflict(what, hint="give more of the id")
        name = run if run in runs else runs[0]
        return tuple(
            sorted(
                (entry for entry in entries if entry.run == name), key=lambda entry: entry.iteration
            )
        )

    return index.ask(root, question)


def find(root: Path, name: str, iteration: int | None = None, *, within: str = "") -> JournalEntry:
    """Return an entry that a task may see, by its id, or by run and iteration."""
    if iteration is None:
        run, _, number = name.removeprefix(f"{JOURNAL_PREFIX}-").rpartition("-")
        if not number.isdecimal():
            raise NotFound(
                f"there is no entry {name}",
                hint=Hint("find-run", "`ralph loop journal` shows runs and iterations"),
            )
        name = run
        iteration = int(number)
    entries = show(root, name, within=within)
    for entry in entries:
        if entry.iteration == iteration:
            return entry
    for entry in show(root, entries[0].run) if within else ():
        if entry.iteration == iteration:
            raise filters.hidden_error(
                f"iteration {iteration} of {entry.run}", filter(None, [entry.task])
            )
    span = f"{entries[0].iteration} to {entries[-1].iteration}"
    raise NotFound(f"the run {entries[0].run} has no iteration {iteration}", hint=f"it has {span}")


def is_entry_id(name: str) -> bool:
    """Whether a name is the id of an entry rather than of a run."""
    return name.startswith(f"{JOURNAL_PREFIX}-")


def search(
    root: Path, words: str, which: JournalFilter = EVERY, *, limit: int | None = LIMIT
) -> tuple[tuple[JournalMatch, ...], int]:
    """Return the entries that match a text, best first, and how many there are in all."""

    def question(connection: sqlite3.Connection) -> tuple[tuple[JournalMatch, ...], int]:
        today = ids.today()
        ranked, ranked_entries = _rank_entries(connection, words, which.condition, today, limit)
        matches = []
        for row, entry in ranked_entries:
            why = tuple(ranking.explain(row, ranked.words, today))
            matches.append(JournalMatch(entry, round(row.score, 4), why, row.weak))
        return tuple(matches), ranked.total

    return index.ask(root, question)


def _select_entries(connection: sqlite3.Connection, which: JournalFilter) -> list[JournalEntry]:
    test, values = which.condition
    newest = f"{test} ORDER BY created_at DESC, run_id, iteration DESC, id"
    rows = queries.select_records(connection, Family.JOURNAL, newest, tuple(values))
    return _unique_entries(record for _, record in rows)
