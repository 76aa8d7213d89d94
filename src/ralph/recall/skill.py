"""Load the skill, a short text that teaches an agent to use Ralph.

The text is in `skill.md`. Lines that start with `cli: ` or `mcp: ` are only for agents that run
commands or call MCP tools.
"""

from __future__ import annotations

from pathlib import Path


def skill_text(program: str = "ralph", *, has_tools: bool = False) -> str:
    """Return the text that teaches an agent to use Ralph.

    It describes Ralph's MCP tools if `has_tools` is set, and its commands otherwise. `program` is
    how the agent starts Ralph.
    """
    wanted = "cli: "
    unwanted = "mcp: "
    if has_tools:
        wanted = "mcp: "
        unwanted = "cli: "
    lines: list[str] = []
    with Path(__file__).with_name("skill.md").open(encoding="utf-8", newline="") as file:
        for line in file:
            if not line.startswith(unwanted):
                lines.append(line.removeprefix(wanted))
    text = "".join(lines)
    if has_tools or program == "ralph":
        return text
    return f"{text}- `ralph` is `{program}` here\n"
