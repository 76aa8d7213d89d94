"""`ralph skill` and `ralph context --where`: the texts that teach an agent."""

import pytest
from tests.cli.runner import Project

from ralph.context import brief
from ralph.context.brief import ANSWERS, TopicAnswer


@pytest.mark.parametrize("words", [[], ["memories"]])
def test_skill_prints_the_skill_and_nothing_else(ralph: Project, words: list[str]) -> None:
    said = ralph("skill", *words)
    assert (said.code, said.err) == (0, "")
    assert said.out == brief.skill_text().rstrip("\n") + "\n"


def test_an_unknown_skill_is_wrong_usage_and_names_the_known_ones(ralph: Project) -> None:
    said = ralph("skill", "../secrets")
    assert (said.code, said.out) == (2, "")
    assert "memories" in said.err


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.topic)
def test_where_answers_each_topic_in_any_case(ralph: Project, answer: TopicAnswer) -> None:
    said = ralph("context", "--where", answer.topic.upper())
    assert said.code == 0
    for part in (answer.question, answer.place, answer.command, answer.why):
        assert part in said.out


def test_where_alone_answers_everything(ralph: Project) -> None:
    out = ralph("context", "--where").out
    assert all(answer.place in out for answer in ANSWERS)


def test_where_as_json_is_a_list_with_the_same_shape_for_one_and_for_all(ralph: Project) -> None:
    everything = ralph("context", "--where", "--format", "json").json
    assert [each["topic"] for each in everything] == [answer.topic for answer in ANSWERS]
    assert ralph("context", "--where", "state", "--format", "json").json == [
        each for each in everything if each["topic"] == "state"
    ]


def test_an_unknown_topic_is_wrong_usage_and_names_the_valid_ones(ralph: Project) -> None:
    said = ralph("context", "--where", "nowhere")
    assert said.code == 2
    assert all(answer.topic in said.err for answer in ANSWERS)


def test_neither_needs_or_makes_a_project(ralph: Project) -> None:
    ralph("context", "--where")
    ralph("skill")
    assert ralph.files() == []
