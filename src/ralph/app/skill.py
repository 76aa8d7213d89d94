"""`ralph skill ...`: the texts that teach an agent how to use its memory.

A verb like any other, so that the command, the tools and the web call one function.
"""

from ralph.context import skill


def show(name: str = "memories") -> str:
    """The skill of that name; NotFound names the known ones."""
    return skill.text(name)
