"""Tell an agent how to use Ralph: the skill, and one line of instructions.

The skill is the text in `skill.md`. The loop puts it into its prompts, and `ralph install --skill`
prints it. A session gets only the instructions when it starts, because most sessions need no more.
"""

from __future__ import annotations

from pathlib import Path

_ABOUT = "Ralph keeps this project's memory."
_BY_COMMAND = (
    'Search it first: `ralph search "words"`. '
    'Save what will matter again: `ralph memory add "text" -t fix`.'
)
_BY_TOOL = "Search it first: `{0}search`. Save what will matter again: `{0}memory_add`."
_BY_LOADER = "{0} with `select:` and these names loads them."


def skill_text() -> str:
    """Return the text that teaches an agent to use Ralph's memory."""
    with Path(__file__).with_name("skill.md").open(encoding="utf-8", newline="") as file:
        return file.read()


def instructions_for_commands(program: str = "ralph") -> str:
    """Return one line about Ralph for an agent that starts it with the command `program`."""
    line = f"{_ABOUT} {_BY_COMMAND}"
    if program == "ralph":
        return line
    return f"{line} `ralph` is `{program}`."


def instructions_for_tools(prefix: str = "", loader: str = "") -> str:
    """Return one line about Ralph for an agent that calls its MCP tools.

    `prefix` is what the client puts in front of the name of each tool. `loader` is the tool with
    which the agent loads others first, if it must.
    """
    line = f"{_ABOUT} {_BY_TOOL.format(prefix)}"
    if loader:
        line += f" {_BY_LOADER.format(loader)}"
    return line
