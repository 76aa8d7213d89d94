"""What is injected before an action and after a failure."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.recalls import TODAY, at_place, fill, ids, wanting
from tests.support.runner import Block

from ralph.core import render
from ralph.recall import action_recall, shown_records
from ralph.storage.lookup import RecordRow


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """Lessons about one file and one command, long and short."""
    fill(
        tmp_path,
        Block("src/pay.ts: amounts are cents.", "mem-1-a", kind="fix"),
        Block(
            "src/pay.ts rounds half up. " + "Because of the tax office. " * 40,
            "mem-2-a",
            kind="decision",
        ),
        Block("src/pay.ts is old.", "mem-3-a", kind="context"),
        Block(
            "`make ship` needs VPN_TOKEN; EVPNDOWN means that it is not set.", "mem-4-a", kind="fix"
        ),
    )
    return tmp_path


def test_a_lesson_is_told_at_its_file_and_nothing_else_is(lessons: Path) -> None:
    assert sorted(ids(at_place(lessons, files=["/p/src/pay.ts"]))) == ["mem-1-a", "mem-2-a"]
    assert at_place(lessons, files=["/p/src/pays.ts"]) is shown_records.NOTHING
    assert at_place(lessons) is shown_records.NOTHING


def test_a_lesson_is_told_with_its_command_and_after_its_error(lessons: Path) -> None:
    assert ids(at_place(lessons, command="make ship")) == ["mem-4-a"]
    assert ids(at_place(lessons, command="./run.sh", error="Exit code 1\nEVPNDOWN")) == ["mem-4-a"]
    assert ids(at_place(lessons, command="make ship", error="Exit code 2")) == ["mem-4-a"]
    assert ids(at_place(lessons, files=["src/pay.ts"], error="File has not been read yet")) == [
        "mem-1-a",
        "mem-2-a",
    ]
    assert ids(at_place(lessons, command="make", error="Exit code 2")) == []


def test_few_characters_are_said_at_a_place(lessons: Path) -> None:
    told = at_place(lessons, files=["src/pay.ts"])
    assert told.layer == 1
    assert render.length(told.text) <= action_recall.ACTION_CHARACTERS
    assert at_place(lessons, files=["src/pay.ts"], wanted=wanting(seen=["mem-2-a"])).layer == 3


@given(
    st.lists(st.text('ab 인증🔥`\n"<>[]', max_size=900), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_at_a_place_the_limit_holds_for_any_text(texts: list[str], budget: int) -> None:
    rows = [_row(f"mem-{number}-a", text) for number, text in enumerate(texts)]
    told = action_recall.render_lessons(rows, wanting(budget=budget))
    assert render.length(told.text) <= action_recall.ACTION_CHARACTERS
    assert bool(told.text) == bool(told.records)


def _row(name: str, text: str) -> RecordRow:
    return RecordRow(0, name, "fix", "", "", text, "", TODAY, "", "", 0, "", None, "")


def test_a_lesson_is_told_once(lessons: Path) -> None:
    assert at_place(lessons, command="make ship", wanted=wanting(seen=["mem-4-a"])).text == ""
    assert (
        at_place(
            lessons, command="make ship", error="EVPNDOWN", wanted=wanting(seen=["mem-4-a"])
        ).text
        == ""
    )


def test_the_settings_count_at_a_place_too(lessons: Path) -> None:
    assert ids(
        at_place(lessons, files=["src/pay.ts"], wanted=wanting(types=("decision", "pattern")))
    ) == ["mem-2-a"]
    assert ids(at_place(lessons, files=["src/pay.ts"], wanted=wanting(types=("context",)))) == []
    assert ids(at_place(lessons, files=["src/pay.ts"], wanted=wanting(tags=("x",)))) == []
    assert ids(at_place(lessons, files=["src/pay.ts"], wanted=wanting(since="2026-01-01"))) == []
    assert ids(at_place(lessons, files=["src/pay.ts"], wanted=wanting(enabled=False))) == []
