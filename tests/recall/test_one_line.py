"""The one-line form of a record: date, subject, outcome and id."""

from __future__ import annotations

import pytest

from ralph.core.family import Family
from ralph.core.tokens import estimate
from ralph.recall.one_line import (
    Gist,
    gist_of,
    gist_of_exchange,
    render_line,
    short_id,
    split_sentences,
)
from ralph.storage.index_schema import make_key
from ralph.storage.lookup import RecordRow

RECORD = "obs-1794984262-0170bc"
HEADS = Gist("alembic heads", "rebase the migration, never merge heads")


@pytest.mark.parametrize(
    ("gist", "line"),
    [
        pytest.param(
            HEADS,
            "Oct 8: alembic heads: rebase the migration, never merge heads [obs-0170bc]",
            id="subject and outcome",
        ),
        pytest.param(Gist("alembic heads", ""), "Oct 8: alembic heads [obs-0170bc]", id="subject"),
        pytest.param(
            Gist("Use uv", "Use uv for all scripts"),
            "Oct 8: Use uv for all scripts [obs-0170bc]",
            id="an outcome that repeats the subject",
        ),
        pytest.param(
            Gist("two\nlines", "and ```\x1b[1m code"),
            "Oct 8: two lines: and ``` code [obs-0170bc]",
            id="line breaks and terminal codes",
        ),
    ],
)
def test_a_line_has_date_subject_outcome_and_id(gist: Gist, line: str) -> None:
    assert render_line(RECORD, "2026-10-08T09:00:00Z", gist, 60, "2026-11-18") == line


def test_a_date_of_another_year_names_the_year() -> None:
    assert render_line(RECORD, "2025-10-08", HEADS, 60, "2026-11-18").startswith("Oct 8 2025: ")


def test_a_record_without_a_date_has_none_on_its_line() -> None:
    assert render_line(RECORD, "", HEADS, 60).startswith("alembic heads: ")


@pytest.mark.parametrize("date", ["2026-1²-01", "²026-10-08", "2026-10-8²"])
def test_digits_that_are_not_numbers_are_not_a_date(date: str) -> None:
    assert render_line(RECORD, date, HEADS, 60).startswith("alembic heads: ")


@pytest.mark.parametrize("tokens", [34, 40])
def test_a_long_line_is_cut_but_keeps_both_parts_and_its_id(tokens: int) -> None:
    gist = Gist("why does the login fail " * 20, "because the cookie is not sent " * 20)
    line = render_line(RECORD, "2026-10-08", gist, tokens, "2026-11-18")
    assert estimate(line) <= tokens + 1
    assert line.startswith("Oct 8: why")
    assert "…: bec" in line
    assert line.endswith("… [obs-0170bc]")


@pytest.mark.parametrize(
    ("record_id", "short"),
    [
        pytest.param("mem-1700000000-1a2b", "mem-1a2b", id="a memory"),
        pytest.param("know-deploy-notes", "know-deploy-notes", id="an id without a time"),
    ],
)
def test_an_id_is_shortened_to_its_kind_and_its_last_part(record_id: str, short: str) -> None:
    assert short_id(record_id) == short


def weigh(sentence: str) -> float:
    return sentence.count("heads") + sentence.count("alembic")


def test_the_outcome_of_an_exchange_is_the_reply_that_says_most() -> None:
    asked = "guten morgen. alembic shows two heads. please look"
    replies = [
        "I looked around. The heads differ.",
        "no! never merge heads of alembic, rebase the migration",
    ]
    assert gist_of_exchange(asked, replies, weigh) == Gist(
        "alembic shows two heads.", "never merge heads of alembic, rebase the migration"
    )


def test_a_question_that_says_more_than_its_replies_is_a_statement() -> None:
    asked = "no! never merge heads of alembic. rebase the migration"
    assert gist_of_exchange(asked, ["Done, rebased and pushed."], weigh) == Gist(
        "", "never merge heads of alembic."
    )


def test_with_little_room_a_line_shows_only_the_outcome() -> None:
    line = render_line(RECORD, "2026-10-08", HEADS, 20, "2026-11-18")
    assert line.startswith("Oct 8: rebase the migration")


def test_with_little_room_a_line_shows_what_has_more_to_do_with_the_prompt() -> None:
    gist = Gist("offline check-in at the kiosk", "I queue every tap in a table.", True)
    line = render_line(RECORD, "2026-10-08", gist, 20, "2026-11-18")
    assert line.startswith("Oct 8: offline check-in at the kiosk")


def test_a_line_is_cut_at_the_end_of_a_clause() -> None:
    gist = Gist("", "Refunds are made with the command of the worker, never in the dashboard")
    line = render_line(RECORD, "2026-10-08", gist, 25, "2026-11-18")
    assert "with the command of the worker… [" in line


def test_a_short_line_about_an_iteration_whose_notes_say_nothing_names_its_task() -> None:
    key = make_key(1, Family.JOURNAL)
    title = "remove the trailing comments on all lines with a def, in every module of the parser"
    row = RecordRow(key, "jrn-1", "done", title, "", "ok", "", "", "", "", 0, "", None, "")
    line = render_line(row.id, "2026-10-08", gist_of(row), 25, "2026-11-18")
    assert line.startswith("Oct 8: remove the trailing comments")


def test_sentences_have_no_code_blocks_and_no_filler() -> None:
    text = "Done.\n- The pool was too small.\n```\ncode = 1\n```\n## 풀 크기를 늘렸습니다. ok"
    assert split_sentences(text) == ["The pool was too small.", "풀 크기를 늘렸습니다."]
