"""Where a piece of knowledge belongs: the decision tree behind `ralph context --where`.

Five topics, one answer each, as values, so that the command, the tools and the documentation say the
same. The skill text says it in fewer words; `tests/context/test_where.py` checks that both name the
same places and commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ralph.errors import UsageError


class Topic(StrEnum):
    """What kind of knowledge it is."""

    ERROR = "error"
    DECISION = "decision"
    PATTERN = "pattern"
    STATE = "state"
    PERMANENT = "permanent"


@dataclass(frozen=True, slots=True)
class Answer:
    """Where one topic belongs: the file and section, the command that writes there, and the reason."""

    topic: Topic
    question: str
    place: str
    command: str
    why: str


_ANSWERS = (
    Answer(
        topic=Topic.ERROR,
        question="Did something fail in a way that will come back?",
        place=".ralph/guardrails.md, section Fixes",
        command='ralph memory add --in guardrails "what happens: what to do" -t fix',
        why="Guardrails come first in every brief, so the next iteration sees the fix before it trips. "
        'Use `ralph memory add "..." -t fix` when it is good to know but no rule to watch.',
    ),
    Answer(
        topic=Topic.DECISION,
        question="Did you choose between real alternatives?",
        place=".ralph/guardrails.md, section Decisions; specs/design/ when it is permanent",
        command='ralph memory add --in guardrails "what, and why" -t decision',
        why="A choice without its reason gets reopened. It stands in every brief until somebody removes it; "
        "write it up in specs/design/ once it shapes the architecture.",
    ),
    Answer(
        topic=Topic.PATTERN,
        question="Did you find out how this codebase does things?",
        place=".ralph/guardrails.md, section Patterns; .agent/memories.md, section Patterns, as background",
        command='ralph memory add --in guardrails "how it is done here" -t pattern',
        why="Conventions keep new code like the old. One that is background rather than a rule is a memory: "
        '`ralph memory add "..." -t pattern`.',
    ),
    Answer(
        topic=Topic.STATE,
        question="Is it progress, a blocker or a next step?",
        place=".ralph/scratchpad.md",
        command='ralph scratchpad append "what is done, what is next"',
        why="The next iteration starts with an empty context and reads the scratchpad; nobody needs it later.",
    ),
    Answer(
        topic=Topic.PERMANENT,
        question="Must everybody follow it, in every session?",
        place="AGENTS.md",
        command="propose the line to a person, who edits AGENTS.md",
        why="It is read at every start by every agent, so each line there has a price, and people own that file.",
    ),
)

ANSWERS: Mapping[Topic, Answer] = MappingProxyType({answer.topic: answer for answer in _ANSWERS})
"""Every topic's answer, in the order in which to ask the questions."""


def answer(topic: Topic | str) -> Answer:
    """The answer for a topic or its name; UsageError, with the valid names, for any other word."""
    word = topic.strip().lower()
    if word not in tuple(Topic):
        raise UsageError(f"no topic {topic!r}", hint=f"one of: {', '.join(Topic)}")
    return ANSWERS[Topic(word)]
