"""The sentences with which the loop itself explains an iteration in the journal.

They are the same for every task, so an entry does not match another task because of them.
"""

from __future__ import annotations

SAID_NOTHING = "the agent did not say that the task is done"
SAID_NOTHING_THAT_COUNTS = f"so {SAID_NOTHING}"
TOO_LONG_ANSWER = "the agent reached its token limit"
TOO_MANY_TURNS = "the agent reached its turn limit"
CRITERIA_DISAGREE = "it was called done, but the criteria do not agree"

SENTENCES = (
    SAID_NOTHING,
    SAID_NOTHING_THAT_COUNTS,
    TOO_LONG_ANSWER,
    TOO_MANY_TURNS,
    CRITERIA_DISAGREE,
)


def without_sentences(notes: str) -> str:
    """Return the notes of an entry without the lines that are the loop's own sentences."""
    lines = [line for line in notes.splitlines() if not is_sentence(line)]
    return "\n".join(lines).strip()


def is_sentence(line: str) -> bool:
    """Return whether a line is one of the loop's own sentences."""
    return line.strip() in SENTENCES
