"""The tool with which an agent hands over what it learned from recorded sessions."""

from pathlib import Path

from tests.support.distilling import (
    LESSON,
    answer,
    proposed,
    record_id,
    record_session,
    state_bytes,
)
from tests.support.talking import Talk, talk

from ralph.learning import insights, learn_progress
from ralph.memory import reading


def test_an_answer_becomes_proposals_by_an_agent_and_no_memory(empty: Path) -> None:
    end = record_session(empty)

    async def apply(talk: Talk) -> None:
        got = await talk.got("memory_learn", answer=answer(), until=end)
        [proposal] = got["proposals"]
        assert proposal["text"] == LESSON
        assert [quote["id"] for quote in proposal["quotes"]] == [record_id()]
        assert got["dropped"] == {}

    talk(empty, apply)
    [insight] = insights.list_(empty)
    assert (insight.record.text, insight.record.origin.by) == (LESSON, "agent")
    assert reading.list_entries(empty) == []
    assert learn_progress.progress(empty) == end


def test_the_text_says_how_many_proposals_wait_and_what_was_dropped(empty: Path) -> None:
    record_session(empty)

    async def apply(talk: Talk) -> tuple[str, str]:
        invented = await talk.read("memory_learn", answer=answer(quote="floats are fine here"))
        return invented, await talk.read("memory_learn", answer=answer())

    invented, valid = talk(empty, apply)
    assert invented == "Nothing new was proposed\ndropped: 1 altered quote"
    assert valid == "1 proposal(s) wait in `ralph review`"


def test_an_answer_that_is_not_json_is_refused_and_changes_nothing(empty: Path) -> None:
    end = record_session(empty)

    async def apply(talk: Talk) -> None:
        assert "is empty" in await talk.refused("memory_learn", answer="", until=end)
        assert "not JSON" in await talk.refused("memory_learn", answer="I found nothing", until=end)
        assert "needs answer" in await talk.refused("memory_learn", until=end)
        said = await talk.refused("memory_learn", answer=answer(), until="2999-01-01T00:00:00Z")
        assert "not the time of a recorded event" in said

    talk(empty, apply)
    assert state_bytes(empty) == {}


def test_a_pattern_of_the_project_makes_a_text_secret(empty: Path) -> None:
    record_session(empty)
    (empty / "ralph.yml").write_text(
        "privacy:\n  patterns: ['integer cents']\n", encoding="utf-8", newline=""
    )

    async def apply(talk: Talk) -> None:
        got = await talk.got("memory_learn", answer=answer())
        assert got["proposals"] == []
        assert got["dropped"] == {"secret": 1}

    talk(empty, apply)
    assert proposed(empty) == []
