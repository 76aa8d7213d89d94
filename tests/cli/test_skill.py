"""`ralph install --skill`: the text that teaches an agent."""

from tests.support.runner import Project

from ralph.recall import skill


def test_skill_prints_the_skill_and_nothing_else(ralph: Project) -> None:
    said = ralph("install", "--skill")
    assert (said.code, said.err) == (0, "")
    assert said.out == skill.skill_text().rstrip("\n") + "\n"
    assert ralph.files() == []


def test_the_skill_is_printed_alone(ralph: Project) -> None:
    said = ralph("install", "--skill", "--list")
    assert (said.code, said.out) == (2, "")
    assert "--list does not apply to the guide" in said.err
