"""The words of a question, as the command line and the MCP server read them."""

from datetime import date

import pytest

from ralph.core import ids
from ralph.core.errors import UsageError
from ralph.core.graph import NodeType, Relation
from ralph.core.record import MemoryKind, ObservationKind
from ralph.search import filters


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("", ""),
        (" 2026-01-31 ", "2026-01-31"),
        ("2026-01", "2026-01"),
        ("2026-01-31T10:00:00", "2026-01-31T10:00:00"),
        ("2026-01-31T10:00:00+02:00", "2026-01-31T08:00:00"),
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00"),
    ],
)
def test_a_time_is_as_files_hold_it(words: str, time: str) -> None:
    assert filters.parse_time(words) == time


def test_a_span_counts_back_from_now() -> None:
    assert filters.parse_time("0d") == ids.today()
    assert len(filters.parse_time("24H")) == len("2026-01-31T10:00:00")
    assert filters.parse_time("99999999m") < "1950"


@pytest.mark.parametrize(
    ("words", "span"),
    [
        ("today", "0d"),
        ("Yesterday", "1d"),
        ("last week", "7d"),
        ("2 days ago", "2d"),
        ("3 weeks ago", "3w"),
        ("1 month ago", "1m"),
        ("7days", "7d"),
        ("7 days", "7d"),
        ("2 weeks", "2w"),
    ],
)
def test_a_time_may_be_said_as_people_say_it(words: str, span: str) -> None:
    assert filters.parse_time(words) == filters.parse_time(span)


def test_a_weekday_is_the_last_one_before_today() -> None:
    day = date.fromisoformat(filters.parse_time("monday"))
    assert day.weekday() == 0
    assert 1 <= (date.fromisoformat(ids.today()) - day).days <= 7
    assert filters.parse_time("last monday") == day.isoformat()


def test_a_time_with_a_typing_error_is_suggested() -> None:
    with pytest.raises(UsageError, match=r"did you mean yesterday\?"):
        filters.parse_time("yesterdey")


@pytest.mark.parametrize(
    "words", ["soon", "2026-13", "2026-02-30", "7x", "2026-01-31 10:00", "-3d"]
)
def test_what_is_no_time_is_refused_with_examples(words: str) -> None:
    with pytest.raises(UsageError, match="is not a date or time") as caught:
        filters.parse_time(words)
    assert "2026-01-31" in caught.value.hint


def test_names_come_one_by_one_or_with_commas_in_any_case() -> None:
    assert filters.parse_kinds(["Fix, error", "fix"]) == (
        MemoryKind.FIX,
        ObservationKind.ERROR,
        MemoryKind.FIX,
    )
    assert filters.parse_node_types(("file,TAG",)) == (NodeType.FILE, NodeType.TAG)
    assert filters.parse_relations(["supersedes"]) == (Relation.SUPERSEDES,)
    assert [
        filters.parse_kinds([]),
        filters.parse_node_types([]),
        filters.parse_relations([" "]),
    ] == [(), (), ()]


@pytest.mark.parametrize(
    "read", [filters.parse_kinds, filters.parse_node_types, filters.parse_relations]
)
def test_a_name_that_is_none_is_refused_with_those_there_are(read: object) -> None:
    assert callable(read)
    with pytest.raises(UsageError, match="'zebra' is not a") as caught:
        read(["zebra"])
    assert ", " in caught.value.hint
