"""The prompts `recall` and `remember`, which people choose from a menu or as a slash command.

`recall` brings what is known of a topic along, so that no tool call is needed; `remember` says how a memory is
written well. `tests/mcp_server/test_prompts.py` proves it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ralph.errors import UsageError
from ralph.mcp.catalogue import KINDS


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its one argument."""

    name: str
    about: str
    argument: str
    meaning: str
    writes: bool = False

    def said(self, given: Mapping[str, str] | None) -> str:
        """The argument; UsageError when there is none."""
        words = (given or {}).get(self.argument, "").strip()
        if not words:
            raise UsageError(f"{self.name} needs {self.argument}", hint=self.meaning)
        return words


RECALL = Prompt("recall", "Look up what is remembered about a topic", "topic", "what it is about")
REMEMBER = Prompt("remember", "Keep something for later sessions", "what", "what to keep", writes=True)
PROMPTS = (RECALL, REMEMBER)
BY_NAME = {each.name: each for each in PROMPTS}


def recall(topic: str, found: str) -> str:
    """What is asked of the agent, below what was found."""
    return (
        f"What do we remember about this: {topic}\n\n{found}\n\n"
        "Say in a few sentences what of it matters here, with the ids. memory_show shows a memory whole, search with "
        "layer 3 any record, timeline what happened around it."
    )


def remember(what: str) -> str:
    """How the agent is asked to keep something."""
    return (
        f"Keep this for later sessions with memory_add: {what}\n\n"
        f"Write one to three sentences that somebody understands who was not here: what holds, and why. The type is "
        f"one of {', '.join(KINDS)}; give two or three tags. Leave out secrets and what the code says anyway. If "
        "memory_search finds one that says it already, use memory_edit instead."
    )
