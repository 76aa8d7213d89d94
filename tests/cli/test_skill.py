"""`ralph skill`: the text that teaches an agent."""

import pytest
from tests.support.runner import Project

from ralph.recall import skill


@pytest.mark.parametrize("words", [[], ["memories"]])
def test_skill_prints_the_skill_and_nothing_else(ralph: Project, words: list[str]) -> None:
    said = ralph("skill", *words)
    assert (said.code, said.err) == (0, "")
    assert said.out == skill.skill_text().rstrip("\n") + "\n"


def test_an_unknown_skill_is_wrong_usage_and_names_the_known_ones(ralph: Project) -> None:
    said = ralph("skill", "../secrets")
    assert (said.code, said.out) == (2, "")
    assert "memories" in said.err


def test_it_needs_and_makes_no_project(ralph: Project) -> None:
    ralph("skill")
    assert ralph.files() == []
