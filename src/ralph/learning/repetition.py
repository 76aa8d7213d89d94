"""Find what a person had to say more than once.

A correction that is typed in two sessions, or a question that is asked in two sessions, is worth a
memory. What was said is not judged by its words but by its form: it must be short, it must mention
something specific, and nearly the same text must occur in another session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ralph.capture.short_text import first_line
from ralph.capture.summary import is_message, is_prompt
from ralph.core.record import Record
from ralph.core.similarity import similarity, term_weights
from ralph.learning.candidates import Candidate, InsightSource
from ralph.learning.labels import is_substantial

_MAX_PROMPT_CHARACTERS = 400  # a longer prompt describes a task
_MAX_ANSWER_CHARACTERS = 300
_QUESTION_MARKS = ("?", "？")


class _Prompt(NamedTuple):
    """A prompt that may be repeated, and the text to propose for it."""

    record: Record
    lesson: str


def find_repetitions(
    session: Sequence[Record], earlier_prompts: Sequence[Record]
) -> Iterator[Candidate]:
    """Yield a candidate for each sighting of a prompt that occurs in several sessions.

    `session` holds the records of one session, and `earlier_prompts` the prompts of others.
    """
    prompts = list(_repeatable_prompts(session))
    if not prompts:
        return
    earlier = [record for record in earlier_prompts if _may_repeat(record)]
    for prompt in prompts:
        nearest = _find_nearest(prompt.record, earlier)
        if nearest is None:
            continue
        for record in (nearest, prompt.record):
            yield Candidate(
                prompt.lesson,
                "context",
                InsightSource.REPEATED,
                (record,),
                compared=prompt.record.text,
            )


def _find_nearest(prompt: Record, earlier: Sequence[Record]) -> Record | None:
    """Return the earlier prompt that is most similar, or None if none is similar.

    People repeat a correction in other words ("no, use X", "please use X"), so a single differing
    word does not matter here.
    """
    weights = term_weights(prompt.text)
    best_score = 0.0
    nearest = None
    for record in earlier:
        score = similarity(weights, term_weights(record.text))
        if score > best_score:
            best_score = score
            nearest = record
    return nearest


def _repeatable_prompts(session: Sequence[Record]) -> Iterator[_Prompt]:
    """Yield the corrections and answered questions of a session.

    The first prompt is a request rather than a correction, unless it is a question.
    """
    is_first = True
    for number, record in enumerate(session):
        if not is_prompt(record):
            continue
        if _may_repeat(record):
            text = " ".join(record.text.split())
            answer = _answer_after(session[number + 1 :])
            if text.endswith(_QUESTION_MARKS):
                if answer:
                    yield _Prompt(record, f"{text} {answer}")
            elif not is_first:
                yield _Prompt(record, text)
        is_first = False


def _may_repeat(record: Record) -> bool:
    text = record.text.strip()
    if len(text) > _MAX_PROMPT_CHARACTERS or text.startswith("/"):
        return False
    return is_substantial(text)


def _answer_after(records: Sequence[Record]) -> str:
    """Return the beginning of the agent's answer before the next prompt, or ""."""
    answer = ""
    for record in records:
        if is_prompt(record):
            break
        if is_message(record):
            answer = record.text
    for paragraph in answer.split("\n\n"):
        if paragraph.strip():
            return first_line(" ".join(paragraph.split()), _MAX_ANSWER_CHARACTERS)
    return ""
