"""Journal entries as records of the log."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.json_values import lists, names, values, words

from ralph.core.record import (
    Family,
    MemoryKind,
    Origin,
    Outcome,
    Record,
    Scope,
)
from ralph.core.work import JournalEntry
from ralph.formats.journal import is_journal_entry, journal_entry, journal_id, journal_record
from ralph.formats.log import encode_record, parse_log

EXTRA_KEYS = ("feature", "model", "duration_secs", "cost_usd")
numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
further = st.dictionaries(words.filter(lambda word: word not in EXTRA_KEYS), values, max_size=3)
entries = st.builds(
    JournalEntry,
    names,
    st.integers(min_value=0),
    st.sampled_from(Outcome),
    words,
    words,
    words,
    words,
    words,
    numbers,
    numbers,
    lists,
    words,
    words,
    words,
    further,
)
COMPLETE = JournalEntry(
    "run-1a2b3c4d",
    3,
    Outcome.RETRIED,
    "t-abc123",
    "Parse headers",
    "f-00ff00",
    "claude",
    "opus",
    198.3,
    1.1155,
    ("src/parser.rs", "tests/parser.rs"),
    "Fails on an empty header.\nNext: `None`.",
    "2026-11-10T10:00:00Z",
    "s-1",
    {"criteria": [{"kind": "test_pass", "passed": False}]},
)


def decoded(line: str) -> Record:
    (entry,) = parse_log(line).entries
    return entry.record


@given(entries)
def test_every_journal_entry_comes_back_from_its_line(entry: JournalEntry) -> None:
    record = decoded(encode_record(journal_record(entry)))
    assert journal_entry(record) == journal_entry(journal_record(entry)) == entry
    assert is_journal_entry(record)


def test_a_journal_record_holds_what_the_index_has_columns_for() -> None:
    empty = JournalEntry("", 0, Outcome.DONE)
    assert all(
        getattr(COMPLETE, field.name) != getattr(empty, field.name)
        for field in fields(JournalEntry)
    )
    record = journal_record(COMPLETE)
    assert (record.id, record.kind, record.family) == (
        "jrn-run-1a2b3c4d-3",
        Outcome.RETRIED,
        Family.JOURNAL,
    )
    assert (record.text, record.title, record.scope) == (COMPLETE.notes, "Parse headers", Scope.RUN)
    assert record.origin == Origin(
        "agent", "s-1", "run-1a2b3c4d", 3, "t-abc123", "claude", COMPLETE.files
    )
    assert [record.extra[name] for name in EXTRA_KEYS] == ["f-00ff00", "opus", 198.3, 1.1155]


def test_the_id_of_a_journal_entry_is_made_of_run_and_iteration() -> None:
    other = replace(COMPLETE, outcome=Outcome.DONE, notes="", created_at="2030-01-01")
    assert journal_record(other).id == journal_record(COMPLETE).id == journal_id("run-1a2b3c4d", 3)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_is_written_as_absent(number: float) -> None:
    entry = decoded(encode_record(journal_record(replace(COMPLETE, duration=number, cost=number))))
    assert (journal_entry(entry).duration, journal_entry(entry).cost) == (0.0, 0.0)


def test_a_further_member_with_a_name_of_ours_does_not_change_the_entry() -> None:
    entry = JournalEntry(
        "run-1", 1, Outcome.DONE, extra={"model": "another", "cost_usd": 9.0, "other": 1}
    )
    assert journal_entry(journal_record(entry)) == replace(entry, extra={"other": 1})


@pytest.mark.parametrize("value", [None, "12", [1], {"a": 1}, True, 10**400])
def test_values_of_a_wrong_type_are_ignored(value: object) -> None:
    origin = Origin(run="run-1", iteration=1)
    extra = dict.fromkeys(EXTRA_KEYS, value)
    entry = journal_entry(Record("x", Outcome.DONE, "", Family.JOURNAL, origin=origin, extra=extra))
    assert entry.duration in (0.0, 1.0)
    assert entry.model in ("", value)


def test_a_run_summary_or_a_record_without_iteration_is_no_journal_entry() -> None:
    record = journal_record(COMPLETE)
    assert not is_journal_entry(replace(record, label="run"))
    assert not is_journal_entry(replace(record, origin=record.origin._replace(iteration=None)))
    assert not is_journal_entry(replace(record, origin=record.origin._replace(run="")))
    assert not is_journal_entry(replace(record, family=Family.MEMORY))
    with pytest.raises(TypeError, match="record of the journal"):
        journal_entry(Record("mem-1", MemoryKind.FIX, "x"))
