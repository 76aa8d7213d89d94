"""Write and read the journal: how each iteration ended, and what the next one learns from it.

A run's own entries are read from its log, so that no recent entry is missing. Entries from other
runs come from the index. Ranking them does not depend on the clock, so the same files always
produce the same section.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import foreign_reading
from ralph.capture.short_text import trim
from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, NotFound, Refused
from ralph.core.record import UNCONFIRMED, Family, Outcome, Record, mark_unconfirmed
from ralph.core.terms import EVERYDAY_WORDS, index_terms, word_terms
from ralph.core.work import JournalEntry
from ralph.formats.journal import (
    JOURNAL_PREFIX,
    is_journal_entry,
    journal_entry,
    journal_record,
)
from ralph.formats.journal_sentences import SENTENCES, without_sentences
from ralph.formats.log import encode_record, parse_log
from ralph.privacy.invisible_characters import clean_text
from ralph.privacy.json_values import map_texts, redact_members
from ralph.privacy.privacy import redact
from ralph.search import explanations, index, rank, scoring, visibility
from ralph.storage import files, queries, query_filters, record_filters, record_rows, sessions

MAX_NOTES_CHARACTERS = 20_000  # longer notes keep only their start and end
MAX_FILES = 500  # file names stored per entry
_DEFAULT_LIMIT = 20  # entries per list
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_MAX_QUERY_CHARACTERS = 2_000  # in the part of a task's text used to search for matches
_DUPLICATE_FACTOR = 4  # read more matches, because some have the same text
_SCORE_DIGITS = 4
_MAX_NAMES = 5  # runs listed in an error
_UNGATED = scoring.Recipe(min_coverage=0.0)  # this module decides which entries fit
_SENTENCE_TERMS = frozenset(index_terms(" ".join(SENTENCES)).split())
_RETRY_NOTE = "see Retry Information"  # the prompt section that contains the notes
_REDACTED_TEXTS = ("task", "title", "feature", "agent", "model", "session")

Condition = tuple[str, list[object]]
"""An SQL condition on journal rows, and its values."""


# --- entries --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JournalFilter:
    """Which entries to select.

    `run` may be a prefix of a run's id. With `within`, only entries that this task may see are
    selected.
    """

    run: str = ""
    task: str = ""
    outcome: Outcome | None = None
    since: str = ""
    within: str = ""

    @property
    def condition(self) -> Condition:
        """The SQL condition and its values."""
        outcome = ""
        if self.outcome is not None:
            outcome = self.outcome.value
        condition = query_filters.iteration_condition(
            run=self.run, task=self.task, outcome=outcome, since=self.since
        )
        return _visible_to(self.within, condition)


def _visible_to(task: str, condition: Condition) -> Condition:
    """Restrict a condition to the entries that a task may see."""
    visible, visible_values = record_filters.visibility_test(
        record_rows.storable_text(task), Family.JOURNAL
    )
    if not visible:
        return condition
    test, values = condition
    return f"{test} AND {visible}", [*values, *visible_values]


EVERY_ENTRY = JournalFilter()


class JournalMatch(NamedTuple):
    """An entry, its score, and the reasons why it matches.

    `weak` means that nothing matches well and that this is only one of the closest entries.
    """

    entry: JournalEntry
    score: float
    why: tuple[str, ...] = ()
    weak: bool = False


# --- writing --------------------------------------------------------------------------------------


def run_file(root: Path, run: str) -> Path:
    """Return the path of a run's log. Raises Refused for an id that cannot be a file name."""
    if not _RUN_ID.fullmatch(run):
        raise Refused(
            f"{run!r} cannot be the id of a run",
            hint="use at most 80 letters, digits, `.`, `_` and `-`",
        )
    return paths.run_log(root, run)


def append(root: Path, entry: JournalEntry, patterns: Sequence[str] = ()) -> bool:
    """Append a redacted entry, unless the log already has one for its iteration.

    The entry is unconfirmed if an agent of the run has read something foreign.
    Returns whether the entry was appended. Raises the same errors as `run_file`.
    """
    path = run_file(root, entry.run)
    record = journal_record(_redacted(entry, patterns))
    taint = foreign_reading.find_taint(root, run=entry.run)
    line = encode_record(mark_unconfirmed(record, taint))
    exists = _has_entry(files.read(path) or "", entry)
    if exists:
        # An empty append still completes and syncs a line that a killed writer left unfinished.
        line = ""
    files.append(path, line, root=paths.state_boundary(root), durable=True)
    return not exists


def _redacted(entry: JournalEntry, patterns: Sequence[str]) -> JournalEntry:
    """Return an entry as it is stored, which is redacted and within the limits."""

    def clean(text: str) -> str:
        return record_rows.storable_text(redact(clean_text(text), patterns).text)

    fields: dict[str, Any] = {name: clean(getattr(entry, name)) for name in _REDACTED_TEXTS}
    fields["notes"] = clean(trim(clean(entry.notes).strip(), MAX_NOTES_CHARACTERS))
    fields["created_at"] = entry.created_at or ids.timestamp()
    fields["files"] = tuple(map(clean, entry.files[:MAX_FILES]))
    extra = redact_members(map_texts(dict(entry.extra), clean), patterns)
    fields["extra"] = extra if isinstance(extra, dict) else {}
    return replace(entry, **fields)


def _has_entry(log: str, entry: JournalEntry) -> bool:
    """Return whether a run's log has an entry for the iteration of `entry`."""
    if not re.search(rf'"iteration":\s*{entry.iteration}\b', log):
        return False  # the usual case, and a long log takes long to parse
    written = _entries_backwards(log, entry.run)
    return any(earlier.iteration == entry.iteration for earlier in written)


def _unique_entries(records: Iterable[Record]) -> list[JournalEntry]:
    """Return the journal entries among the records. If several share an id, the first wins."""
    entries: dict[str, JournalEntry] = {}
    for record in records:
        if is_journal_entry(record):
            entries.setdefault(record.id, journal_entry(record))
    return list(entries.values())


# --- what a prompt gets ---------------------------------------------------------------------------


def for_prompt(
    root: Path, run: str, words: str, *, task: str = "", told: Sequence[str] = ()
) -> tuple[list[JournalEntry], tuple[JournalEntry, ...]]:
    """Return the last entries of this run, and similar entries from other runs.

    Texts in `told` appear elsewhere in the prompt, and are removed from this run's entries.
    """
    entries = [_without_texts(entry, told) for entry in recent(root, run, task=task)]
    return entries, matches(root, run, words, task=task)


def _without_texts(entry: JournalEntry, texts: Sequence[str]) -> JournalEntry:
    """Return an entry with these texts (whole lines) removed from the end of its notes."""
    for text in texts:
        if text and f"\n{entry.notes}".endswith(f"\n{text}"):
            notes = entry.notes.removesuffix(text).rstrip()
            entry = replace(entry, notes=notes or _RETRY_NOTE)
    return entry


def recent(root: Path, run: str, most: int = 5, *, task: str = "") -> tuple[JournalEntry, ...]:
    """Return the newest `most` entries of a run that a task may see, oldest first."""
    hidden: Collection[str] | None = None
    entries: dict[int, JournalEntry] = {}
    for entry in _entries_backwards(files.read(run_file(root, run)) or "", run):
        if task and entry.task not in ("", task):
            if hidden is None:  # read the index only if it makes a difference
                hidden = index.ask(root, partial(queries.unfinished_tasks, except_task=task))
            if entry.task in hidden:
                continue
        entries[entry.iteration] = entry
        if len(entries) == most:
            break
    return tuple(entries[number] for number in sorted(entries))


def _entries_backwards(log: str, run: str) -> Iterator[JournalEntry]:
    """Yield the entries of a run, beginning with the last one in its log.

    Entries are appended as iterations end, so that the newest ones are found without parsing the
    rest of a long log.
    """
    for line in reversed(log.split("\n")):
        for entry in parse_log(line).entries:
            if entry.record.origin.run == run and is_journal_entry(entry.record):
                yield journal_entry(entry.record)


def matches(
    root: Path, run: str, words: str, most: int = 5, *, task: str = ""
) -> tuple[JournalEntry, ...]:
    """Return entries from other runs that share a word with `words`, best first.

    A loop asks for them, so the thresholds for what is injected unasked do not apply. An everyday
    word alone does not count, nor does a word of the loop's own sentences. Entries with the same
    notes are returned only once, and unconfirmed entries not at all.
    """
    if not words.strip():
        return ()
    condition = _visible_to(
        task, query_filters.iteration_condition(except_run=run, except_notes=("", *SENTENCES))
    )

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        newest_day = sessions.newest_journal_day(connection)  # ages count from here, not today
        ranked, entries = _rank_entries(
            connection,
            words[:_MAX_QUERY_CHARACTERS],
            condition,
            today=newest_day,
            limit=_DUPLICATE_FACTOR * most,
            recipe=_UNGATED,
        )
        informative = _informative_words(ranked)
        by_notes: dict[str, JournalEntry] = {}
        for row, entry in entries:
            matched = informative.intersection(row.matched)
            if entry.extra.get(UNCONFIRMED):
                continue
            if any(_is_about(entry, word) for word in matched):
                by_notes.setdefault(entry.notes.strip(), entry)
        return tuple(by_notes.values())[:most]

    return index.ask(root, question)


def _is_about(entry: JournalEntry, word: str) -> bool:
    """Return whether more than the loop's own sentences in an entry's notes contain a word."""
    notes = without_sentences(entry.notes)
    if not notes:
        return False
    terms = set(word_terms(word))
    if terms.isdisjoint(_SENTENCE_TERMS):
        return True
    return not terms.isdisjoint(index_terms(f"{entry.title}\n{notes}").split())


def _informative_words(ranked: rank.Ranking) -> set[str]:
    """Return the words of a query that are more than everyday words, as the ranking has them."""
    informative: set[str] = set()
    for word in ranked.words:
        if word.counts and word.certain and word.word.lower() not in EVERYDAY_WORDS:
            informative.add(word.word)
    return informative


class _RankedEntry(NamedTuple):
    row: scoring.RankedRow
    entry: JournalEntry


def _rank_entries(
    connection: sqlite3.Connection,
    words: str,
    condition: Condition,
    *,
    today: str,
    limit: int | None,
    recipe: scoring.Recipe = scoring.SEARCH,
) -> tuple[rank.Ranking, list[_RankedEntry]]:
    """Rank the entries that meet a condition, without duplicates."""
    matching = [(Family.JOURNAL, *condition)]
    ranked = rank.rank(
        connection, words, today=today, record_filter=matching, limit=limit, recipe=recipe
    )
    records = queries.records(connection, [row.row.key for row in ranked.best])
    entries: dict[str, _RankedEntry] = {}
    for row in ranked.best:
        record = records.get(row.row.key)
        if record is not None and is_journal_entry(record):
            entries.setdefault(record.id, _RankedEntry(row, journal_entry(record)))
    return ranked, list(entries.values())


# --- lists, lookups and search --------------------------------------------------------------------


def list_(
    root: Path, which: JournalFilter = EVERY_ENTRY, *, limit: int | None = _DEFAULT_LIMIT
) -> tuple[tuple[JournalEntry, ...], int]:
    """Return the newest entries, newest first, and the total number of entries."""
    entries = index.ask(root, lambda connection: _select_entries(connection, which))
    return tuple(entries[:limit]), len(entries)


def list_related(
    root: Path, which: JournalFilter, iteration: int, member: str
) -> list[JournalEntry]:
    """Return the entries of one iteration and those that are related to them, newest first.

    An entry is related if it has the same session, or if both have a certain member.
    """

    def question(connection: sqlite3.Connection) -> list[JournalEntry]:
        test, values = which.condition
        entries = _select_where(connection, (f"{test} AND iteration = ?", [*values, iteration]))
        names = {entry.session for entry in entries if entry.session}
        has_member = any(member in entry.extra for entry in entries)
        if not names and not has_member:
            return entries
        related, related_values = query_filters.related_iterations(
            iteration, names, member if has_member else ""
        )
        return _select_where(connection, (f"{test} AND {related}", [*values, *related_values]))

    return index.ask(root, question)


def show(root: Path, run: str, *, within: str = "") -> tuple[JournalEntry, ...]:
    """Return the entries of a run that a task may see, in order.

    `run` may be a prefix of the run's id. Raises NotFound if there is no such entry, and Conflict
    if several runs share the prefix.
    """

    def question(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
        entries = _select_entries(connection, JournalFilter(run=run, within=within))
        if not entries:
            is_hidden = within and _select_entries(connection, JournalFilter(run=run))
            raise _no_entries(run, is_hidden=bool(is_hidden))
        name = _resolve_run(run, entries)
        of_run = [entry for entry in entries if entry.run == name]
        return tuple(sorted(of_run, key=lambda entry: entry.iteration))

    return index.ask(root, question)


def _no_entries(run: str, *, is_hidden: bool) -> NotFound:
    if is_hidden:
        return NotFound(
            f"the entries of {run} belong to other tasks, which are not finished",
            hint=Hint("show-all-tasks", "--all-tasks shows everything"),
        )
    return NotFound(
        f"Run not found in the journal: {run}",
        hint=(
            Hint("find-run", "`ralph loop show --journal` lists the entries"),
            "`ralph loop start` starts a run",
        ),
    )


def _resolve_run(run: str, entries: Sequence[JournalEntry]) -> str:
    """Return the id of the run that a name refers to. Raises Conflict if it refers to several."""
    runs = list(dict.fromkeys(entry.run for entry in entries))
    if run in runs:
        return run
    if len(runs) > 1:
        raise Conflict(
            f"{len(runs)} runs begin with {run}: {', '.join(runs[:_MAX_NAMES])}",
            hint="give more of the id",
        )
    return runs[0]


def find(root: Path, name: str, iteration: int | None = None, *, within: str = "") -> JournalEntry:
    """Return an entry that a task may see, given its id, or its run and iteration.

    Raises NotFound if there is no such entry, and Conflict if several runs share the prefix.
    """
    if iteration is None:
        run, _, number = name.removeprefix(f"{JOURNAL_PREFIX}-").rpartition("-")
        if not number.isdecimal():
            raise NotFound(
                f"Journal entry not found: {name}",
                hint=Hint("find-run", "`ralph loop show --journal` shows runs and iterations"),
            )
        name = run
        iteration = int(number)
    entries = show(root, name, within=within)
    entry = _with_iteration(entries, iteration)
    if entry is not None:
        return entry
    run = entries[0].run
    if within:
        hidden = _with_iteration(show(root, run), iteration)
        if hidden is not None:
            name = f"iteration {iteration} of {run}"
            raise visibility.hidden_error("journal entry", name, filter(None, [hidden.task]))
    first = entries[0].iteration
    last = entries[-1].iteration
    raise NotFound(
        f"Journal entry not found: iteration {iteration} of {run}", hint=f"it has {first} to {last}"
    )


def _with_iteration(entries: Iterable[JournalEntry], iteration: int) -> JournalEntry | None:
    for entry in entries:
        if entry.iteration == iteration:
            return entry
    return None


def search(
    root: Path,
    words: str,
    which: JournalFilter = EVERY_ENTRY,
    *,
    limit: int | None = _DEFAULT_LIMIT,
) -> tuple[tuple[JournalMatch, ...], int]:
    """Return the entries that match `words`, best first, and the total number of matches."""

    def question(connection: sqlite3.Connection) -> tuple[tuple[JournalMatch, ...], int]:
        today = ids.today()
        ranked, ranked_entries = _rank_entries(
            connection, words, which.condition, today=today, limit=limit
        )
        found: list[JournalMatch] = []
        for row, entry in ranked_entries:
            why = tuple(explanations.explain(row, ranked.words, today))
            found.append(JournalMatch(entry, round(row.score, _SCORE_DIGITS), why, row.weak))
        return tuple(found), ranked.total

    return index.ask(root, question)


def _select_entries(connection: sqlite3.Connection, which: JournalFilter) -> list[JournalEntry]:
    """Return entries, newest first.

    If runs have entries of the same second, the run whose log was written later is newer.
    """
    return _select_where(connection, which.condition)


def _select_where(connection: sqlite3.Connection, condition: Condition) -> list[JournalEntry]:
    test, values = condition
    newest = f"{test} {queries.NEWEST_ITERATION_FIRST}"
    rows = queries.select_records(connection, Family.JOURNAL, newest, tuple(values))
    return _unique_entries(record for _, record in rows)
