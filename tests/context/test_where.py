"""Where each kind of knowledge belongs."""

import pytest

from ralph.context import skill
from ralph.context.where import ANSWERS, Answer, Topic, answer
from ralph.errors import UsageError


@pytest.mark.parametrize("topic", Topic)
def test_every_topic_has_one_complete_answer(topic: Topic) -> None:
    found = answer(topic)
    assert found is ANSWERS[topic]
    assert found.topic is topic
    assert found.question.endswith("?")
    assert all((found.place, found.command, found.why))


@pytest.mark.parametrize(
    ("word", "place", "command"),
    [
        ("error", "guardrails.md, section Fixes", "ralph memory add --in guardrails"),
        ("decision", "guardrails.md, section Decisions", "ralph memory add --in guardrails"),
        ("pattern", "guardrails.md, section Patterns", "ralph memory add --in guardrails"),
        ("state", "scratchpad.md", "ralph scratchpad append"),
        ("permanent", "AGENTS.md", "person"),
    ],
)
def test_each_topic_leads_to_its_file_and_command(word: str, place: str, command: str) -> None:
    found = answer(word)
    assert place in found.place
    assert command in found.command


def test_a_permanent_decision_goes_to_the_design_folder() -> None:
    assert "specs/design/" in answer(Topic.DECISION).place


def test_the_topics_are_asked_in_one_order_and_cannot_be_changed() -> None:
    assert list(ANSWERS) == list(Topic)
    with pytest.raises(TypeError):
        ANSWERS[Topic.ERROR] = answer(Topic.STATE)  # type: ignore[index]  # that it is refused is the point


def test_a_topic_is_found_in_any_case() -> None:
    assert answer(" Error ") is ANSWERS[Topic.ERROR]


def test_an_unknown_topic_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="error, decision, pattern, state, permanent"):
        answer("elsewhere")


@pytest.mark.parametrize("found", ANSWERS.values(), ids=lambda found: found.topic.value)
def test_the_skill_sends_people_to_the_same_places(found: Answer) -> None:
    section = skill.text().partition("## Where does it belong?")[2]
    words = found.command.partition('"')[0].strip()
    assert (words if words.startswith("ralph") else "AGENTS.md") in section
    if "section" in found.place:
        assert found.place.partition("section ")[2].partition(";")[0].partition(",")[0] in section
