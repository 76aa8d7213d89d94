"""`ralph skill` and `ralph where`: the texts that teach, as commands."""

import pytest
from tests.cli.runner import Project

from ralph.app import skill as skills
from ralph.app import where
from ralph.context import skill
from ralph.context.where import ANSWERS


@pytest.mark.parametrize("words", [[], ["--name", "memories"]])
def test_skill_show_prints_the_skill_and_nothing_else(ralph: Project, words: list[str]) -> None:
    said = ralph("skill", "show", *words)
    assert (said.code, said.err) == (0, "")
    assert said.out == skill.text().rstrip("\n") + "\n"


def test_an_unknown_skill_is_exit_1_and_names_the_known_ones(ralph: Project) -> None:
    said = ralph("skill", "show", "--name", "../secrets")
    assert (said.code, said.out) == (1, "")
    assert "memories" in said.err


@pytest.mark.parametrize("topic", ANSWERS)
def test_where_answers_each_topic_in_any_case(ralph: Project, topic: str) -> None:
    said = ralph("where", topic.upper())
    answer = ANSWERS[next(each for each in ANSWERS if each == topic)]
    assert said.code == 0
    for part in (answer.question, answer.place, answer.command, answer.why):
        assert part in said.out


def test_where_alone_answers_everything(ralph: Project) -> None:
    out = ralph("where").out
    assert all(answer.place in out for answer in ANSWERS.values())


def test_where_as_json_is_a_list_with_the_same_shape_for_one_and_for_all(ralph: Project) -> None:
    everything = ralph("where", "--format", "json").json
    assert [each["topic"] for each in everything] == [topic.value for topic in ANSWERS]
    assert ralph("where", "state", "--format", "json").json == [each for each in everything if each["topic"] == "state"]


def test_an_unknown_topic_is_wrong_usage_and_names_the_valid_ones(ralph: Project) -> None:
    said = ralph("where", "nowhere")
    assert said.code == 2
    assert all(topic.value in said.err for topic in ANSWERS)


def test_neither_needs_or_makes_a_project(ralph: Project) -> None:
    ralph("where")
    ralph("skill", "show")
    assert ralph.files() == []


def test_the_verbs_give_what_the_commands_print(ralph: Project) -> None:
    assert ralph("skill", "show").out.rstrip("\n") == skills.show().rstrip("\n")
    assert [each.topic.value for each in where.where()] == list(where.TOPICS)
    assert where.where("ERROR") == where.where()[:1]
