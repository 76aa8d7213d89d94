"""A journal entry and its record: every entry comes back from its line."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.test_log import lists, names, values, words

from ralph.formats.log import decode_record, encode_record, is_journal_entry, journal_entry, journal_id, journal_record
from ralph.model.record import Family, MemoryKind, Origin, Outcome, Record, Scope
from ralph.model.work import JournalEntry

OURS = ("feature", "model", "duration_secs", "cost_usd")
numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
further = st.dictionaries(words.filter(lambda word: word not in OURS), values, max_size=3)
entries = st.builds(
    JournalEntry, run=names, iteration=st.integers(min_value=0), outcome=st.sampled_from(Outcome), task=words,
    title=words, feature=words, agent=words, model=words, duration=numbers, cost=numbers, files=lists, notes=words,
    created_at=words, session=words, extra=further,
)  # fmt: skip

WHOLE = JournalEntry(
    "run-1a2b3c4d", 3, Outcome.RETRIED, "t-abc123", "Parse headers", "f-00ff00", "claude", "opus", 198.3, 1.1155,
    ("src/parser.rs", "tests/parser.rs"), "Fails on an empty header.\nNext: `None`.", "2026-11-10T10:00:00Z", "s-1",
    {"criteria": [{"kind": "test_pass", "passed": False}]},
)  # fmt: skip


@given(entries)
def test_every_entry_comes_back_from_its_line(entry: JournalEntry) -> None:
    record = decode_record(encode_record(journal_record(entry)))
    assert journal_entry(record) == entry
    assert is_journal_entry(record)


@given(entries)
def test_an_entry_without_a_line_comes_back_too(entry: JournalEntry) -> None:
    assert journal_entry(journal_record(entry)) == entry


def test_no_field_is_at_its_default_in_the_entry_that_has_all() -> None:
    empty = JournalEntry("", 0, Outcome.DONE)
    assert all(getattr(WHOLE, field.name) != getattr(empty, field.name) for field in fields(JournalEntry))
    assert journal_entry(decode_record(encode_record(journal_record(WHOLE)))) == WHOLE


def test_the_record_holds_what_the_index_has_columns_for() -> None:
    record = journal_record(WHOLE)
    assert (record.id, record.kind, record.family) == ("jrn-run-1a2b3c4d-3", Outcome.RETRIED, Family.JOURNAL)
    assert (record.text, record.title, record.scope) == (WHOLE.notes, "Parse headers", Scope.RUN)
    assert record.origin == Origin("agent", "s-1", "run-1a2b3c4d", 3, "t-abc123", "claude", WHOLE.files)
    assert {name: record.extra[name] for name in OURS} == {
        "feature": "f-00ff00", "model": "opus", "duration_secs": 198.3, "cost_usd": 1.1155,
    }  # fmt: skip


def test_the_id_is_made_of_run_and_iteration_alone() -> None:
    other = replace(WHOLE, outcome=Outcome.DONE, notes="", created_at="2030-01-01")
    assert journal_record(other).id == journal_record(WHOLE).id == journal_id("run-1a2b3c4d", 3)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_kept_also_without_notes(outcome: Outcome) -> None:
    entry = JournalEntry("run-1", 1, outcome)
    assert journal_entry(decode_record(encode_record(journal_record(entry)))) == entry


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_counts_as_none(number: float) -> None:
    entry = replace(WHOLE, duration=number, cost=number)
    found = journal_entry(decode_record(encode_record(journal_record(entry))))
    assert (found.duration, found.cost) == (0.0, 0.0)


def test_a_further_member_with_one_of_our_names_does_not_change_the_entry() -> None:
    entry = JournalEntry("run-1", 1, Outcome.DONE, extra={"model": "another", "cost_usd": 9.0, "kept": 1})
    assert journal_entry(journal_record(entry)) == replace(entry, extra={"kept": 1})


@pytest.mark.parametrize("odd", [None, "12", [1], {"a": 1}, True, 10**400])
def test_somebody_elses_values_are_read_as_far_as_they_make_sense(odd: object) -> None:
    origin = Origin(run="run-1", iteration=1)
    extra = dict.fromkeys(OURS, odd)
    entry = journal_entry(Record("x", Outcome.DONE, "", Family.JOURNAL, origin=origin, extra=extra))
    assert entry.duration in (0.0, 1.0)
    assert entry.model in ("", odd)


def test_what_sums_up_a_run_or_has_no_iteration_is_no_entry() -> None:
    record = journal_record(WHOLE)
    assert not is_journal_entry(replace(record, label="run"))
    assert not is_journal_entry(replace(record, origin=replace(record.origin, iteration=None)))
    assert not is_journal_entry(replace(record, origin=replace(record.origin, run="")))
    assert not is_journal_entry(replace(record, family=Family.MEMORY))
    with pytest.raises(TypeError, match="no record of the journal"):
        journal_entry(Record("mem-1", MemoryKind.FIX, "x"))
