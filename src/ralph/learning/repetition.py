"""Find what a person had to say more than once.

A correction that is typed in two sessions, or a question that is asked in two sessions, is worth a
memory. People repeat themselves in other words:

    NO. never full-refresh fct_readings. everything before march 2025 was migrated from the old db
    we talked about this!!! NO full refresh on that table. before march 2025 is only there

Two prompts count as the same if they share enough distinctive words. A word is distinctive if it
occurs in the prompts of few sessions, so no list of common words in any language is needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ralph.capture.short_text import first_line
from ralph.capture.summary import is_message, is_prompt
from ralph.core.record import Record
from ralph.core.remember import text_to_remember
from ralph.learning.candidates import Candidate, InsightSource

_MAX_PROMPT_CHARACTERS = 400  # a longer prompt describes a task
_MAX_ANSWER_CHARACTERS = 300
_MAX_CACHED_PROMPTS = 2_000
_QUESTION_MARKS = ("?", "？")
_WORD = re.compile(r"\w{3,}")
_SPECIFIC = re.compile(r"`|\d|\w[./_:]\w|[a-z][A-Z]")
"""Code, a number, a path or an identifier. A name is not enough: "thanks Claude, great work"."""
# Chosen on four written weeks with 64 sessions, in which developers repeated themselves five times:
# four repetitions are found, and one pair of unrelated prompts.
_MIN_SHARED_WORDS = 3
_MIN_SHARED_SHARE = 0.3  # of the distinctive words of the shorter prompt; must be exceeded
_MAX_SESSION_SHARE = 0.25  # a word in the prompts of more sessions is not distinctive
_MIN_COMMON_SESSIONS = 2  # a word in at most this many sessions always is


class _Prompt(NamedTuple):
    """A prompt that may be repeated.

    `answer` is the agent's answer to a question, or "" for any other prompt.
    """

    record: Record
    answer: str = ""

    @property
    def lesson(self) -> str:
        """The text to propose."""
        return f"{' '.join(self.record.text.split())} {self.answer}".strip()


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The number of sessions, and in how many of them each word was typed."""

    session_count: int
    sessions_with_word: Counter[str]

    def distinctive_words(self, text: str) -> set[str]:
        limit = max(_MIN_COMMON_SESSIONS, self.session_count * _MAX_SESSION_SHARE)
        return {word for word in _words(text) if self.sessions_with_word[word] <= limit}


def find_repetitions(
    session: Sequence[Record], earlier_prompts: Sequence[Record]
) -> Iterator[Candidate]:
    """Yield a candidate for each sighting of a prompt that occurs in several sessions.

    `session` holds the records of one session, and `earlier_prompts` the prompts of others.
    """
    prompts = list(_repeatable_prompts(session))
    if not prompts:
        return
    vocabulary = _read_vocabulary([*session, *earlier_prompts])
    earlier = [record for record in earlier_prompts if _may_repeat(record)]
    for prompt in prompts:
        words = vocabulary.distinctive_words(prompt.record.text)
        for record in earlier:
            if _says_the_same(words, record.text, vocabulary):
                yield from _sightings(prompt, _Prompt(record))
                break


def _sightings(prompt: _Prompt, other: _Prompt) -> Iterator[Candidate]:
    """Yield a candidate for each of two prompts, with the wording that says more."""
    lesson = max(prompt.lesson, other.lesson, key=len)
    if prompt.answer:
        lesson = prompt.lesson
    if not _SPECIFIC.search(prompt.answer or f"{prompt.record.text}\n{other.record.text}"):
        return  # people repeat greetings and thanks as well
    for record in (other.record, prompt.record):
        yield Candidate(lesson, "context", InsightSource.REPEATED, (record,))


def _repeatable_prompts(session: Sequence[Record]) -> Iterator[_Prompt]:
    """Yield the corrections and answered questions of a session.

    The first prompt is a request rather than a correction, unless it is a question.
    """
    is_first = True
    for number, record in enumerate(session):
        if not is_prompt(record):
            continue
        if _may_repeat(record):
            if record.text.rstrip().endswith(_QUESTION_MARKS):
                answer = _answer_after(session[number + 1 :])
                if answer:
                    yield _Prompt(record, answer)
            elif not is_first:
                yield _Prompt(record)
        is_first = False


def _may_repeat(record: Record) -> bool:
    text = record.text.strip()
    if len(text) > _MAX_PROMPT_CHARACTERS or text.startswith("/"):
        return False
    return not _asks_to_remember(text)  # the hook has stored it


@lru_cache(_MAX_CACHED_PROMPTS)
def _asks_to_remember(text: str) -> bool:
    """Return whether a prompt asks to remember something.

    After an import, each session is compared with the prompts of all others.
    """
    return bool(text_to_remember(text))


def _says_the_same(words: set[str], other_text: str, vocabulary: _Vocabulary) -> bool:
    """Return whether a text shares enough of a prompt's distinctive words."""
    shared = len(words & _words(other_text))
    if shared < _MIN_SHARED_WORDS:
        return False
    shorter = min(len(words), len(vocabulary.distinctive_words(other_text)))
    return shared > _MIN_SHARED_SHARE * shorter


def _read_vocabulary(records: Iterable[Record]) -> _Vocabulary:
    words_by_session: dict[str, set[str]] = {}
    for record in records:
        if is_prompt(record):
            words_by_session.setdefault(record.origin.session, set()).update(_words(record.text))
    counts: Counter[str] = Counter()
    for words in words_by_session.values():
        counts.update(words)
    return _Vocabulary(len(words_by_session), counts)


@lru_cache(_MAX_CACHED_PROMPTS)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


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
