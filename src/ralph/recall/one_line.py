"""Render a record on one line that can be read alone: its date, subject, outcome and id.

    Oct 8: alembic heads: rebase the migration, never merge heads [obs-3f2a]

The *subject* says what a record is about, and the *outcome* what came of it:

- a memory: its title, if it has one, and its text;
- a failed command: the command, and the line that it printed about the error, as a quotation;
- a journal entry: its title, and how it ended;
- a turn of a chat: what was asked, and the sentence of the reply that says most. Only the speaker,
  the position and the length of a sentence are considered, never the words of a language.

Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.family import Family
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.storage import index_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ralph.storage.lookup import RecordRow

_SUBJECT_SHARE = 0.4  # of the room for words, at most, if there is also an outcome
_MIN_TOKENS_FOR_BOTH = 22  # with less room, only one of them is shown
_ELLIPSIS = "…"
_CLAUSE_ENDS = (", ", "; ", ": ", " (", " – ", " — ", " - ", "，", "、", "；")
_MIN_CLAUSE_SHARE = 0.6  # of what fits, for a cut at the end of a clause
_LINE_START = "-*#>| \t"  # marks of Markdown at the beginning of a line
_MAX_ABBREVIATION = 2  # characters before the period
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？")
_MIN_SENTENCE_BYTES = 12  # of its letters; a shorter one ("Done.", "ok passt") says nothing alone
_MAX_READ_CHARACTERS = 1_200  # of a turn
_DETAIL_WEIGHT = 0.1  # of a sentence with a number, a name or a path, which a reader cannot guess
_MIN_REPLY_SHARE = 0.5  # of the question's weight, from which a reply is the outcome


@record
class Gist:
    """What a record is about, and what came of it. Either may be empty.

    `is_about_subject` says that the subject has more to do with the matter at hand, and is what a
    short line shows.
    """

    subject: str
    outcome: str
    is_about_subject: bool = False


def render_line(record_id: str, created_at: str, gist: Gist, tokens: int, today: str = "") -> str:
    """Render a line of at most this number of tokens. The year is shown unless it is today's."""
    head = render.short_day(created_at, today)
    if head:
        head += ": "
    tail = f" [{short_id(record_id)}]"
    room = max(tokens - estimate(f"{head}{tail}"), 1)
    subject = render.one_line(gist.subject).rstrip(":")
    outcome = render.one_line(gist.outcome)
    if not subject or outcome.startswith(subject):
        return f"{head}{_cut(outcome, room)}{tail}"
    if not outcome:
        return f"{head}{_cut(subject, room)}{tail}"
    if estimate(f"{subject}: {outcome}") > room:
        if room < _MIN_TOKENS_FOR_BOTH:
            best = subject if gist.is_about_subject else outcome
            return f"{head}{_cut(best, room)}{tail}"
        subject_room = max(int(room * _SUBJECT_SHARE), room - estimate(outcome) - 2)
        subject = _cut(subject, subject_room)
    return f"{head}{_cut(f'{subject}: {outcome}', room)}{tail}"


def short_id(record_id: str) -> str:
    """Return the kind and the last part of an id, such as obs-0170bc for obs-1794984262-0170bc."""
    kind, _, rest = record_id.partition("-")
    time, _, tail = rest.rpartition("-")
    if time.isdigit() and tail:
        return f"{kind}-{tail}"
    return render.one_line(record_id)


def _cut(text: str, tokens: int) -> str:
    """Cut a text to a number of tokens, at the end of a clause if there is one."""
    cut = render.cut(text, max(tokens, 1), _ELLIPSIS)
    if cut == text:
        return text
    kept = cut.removesuffix(_ELLIPSIS)
    end = max(text.rfind(mark, 0, len(kept) + 1) for mark in _CLAUSE_ENDS)
    if end < _MIN_CLAUSE_SHARE * len(kept):
        return cut
    return f"{kept[:end]}{_ELLIPSIS}"


# --- the gist of a record ------------------------------------------------------------------------


def gist_of(row: RecordRow) -> Gist:
    """Return what a single record is about, and what came of it."""
    if row.error and row.title not in render.SPEECH_TITLES:
        from ralph.recall.command_lines import quote_output  # few records are failures

        return Gist(row.title, quote_output(row.title, row.error))
    text = row.authored_text
    sentences = split_sentences(text)
    first = sentences[0] if sentences else ""
    if row.title in render.SPEECH_TITLES:
        return Gist("", first)
    if index_schema.family_of(row.key) is Family.JOURNAL:
        if not first:
            return Gist(row.title, row.kind, is_about_subject=True)
        return Gist(row.title, f"{row.kind}: {first}")
    if index_schema.is_observation(row.key):
        return Gist(row.title, "")
    return Gist(row.title, text)


def gist_of_exchange(asked: str, replies: Iterable[str], weigh: Callable[[str], float]) -> Gist:
    """Return what a person asked in a chat, and the sentence of the replies that says most.

    `weigh` returns how much a sentence says about the subject at hand. If the question says more
    than the replies, it is a statement itself, and the outcome is its best sentence.
    """
    subject, subject_weight = _best_sentence([asked], weigh)
    outcome, outcome_weight = _best_sentence(replies, weigh)
    if not outcome or outcome_weight < _MIN_REPLY_SHARE * subject_weight:
        return Gist("", subject or asked)
    return Gist(subject, outcome, is_about_subject=subject_weight > outcome_weight)


def _best_sentence(texts: Iterable[str], weigh: Callable[[str], float]) -> tuple[str, float]:
    """Return the sentence that says most, with its weight. Of equal ones, the first counts."""
    best = ""
    best_weight = -1.0
    for text in texts:
        for sentence in split_sentences(text):
            weight = weigh(sentence)
            if render.has_digits_or_code(sentence):
                weight += _DETAIL_WEIGHT
            if weight > best_weight:
                best_weight = weight
                best = sentence
    return best, max(best_weight, 0.0)


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text that say something, without code blocks."""
    sentences = []
    for block in text[:_MAX_READ_CHARACTERS].split("```")[::2]:
        for line in block.split("\n"):
            for part in _split_line(line.strip().lstrip(_LINE_START)):
                if _says_something(part):
                    sentences.append(part)
    return sentences


def _says_something(sentence: str) -> bool:
    """Return whether a sentence is long enough. In UTF-8, a syllable of Hangul has three bytes."""
    letters = "".join(filter(str.isalpha, sentence))
    return len(letters.encode("utf-8", "ignore")) >= _MIN_SENTENCE_BYTES


def _split_line(line: str) -> Sequence[str]:
    parts = []
    start = 0
    for end in _sentence_ends(line):
        if not _ends_in_abbreviation(line[start : end - 1]):
            parts.append(line[start:end].strip())
            start = end
    parts.append(line[start:].strip())
    return parts


def _sentence_ends(line: str) -> list[int]:
    """Return the positions after the marks within a line that end a sentence, in order."""
    ends = []
    for mark in _SENTENCE_ENDS:
        position = line.find(mark)
        while position >= 0:
            ends.append(position + 1)
            position = line.find(mark, position + 1)
    return sorted(end for end in ends if end < len(line))


def _ends_in_abbreviation(text: str) -> bool:
    """Return whether a text ends in a short word with a capital, such as "Dr"."""
    word = text.rpartition(" ")[2]
    return word[:1].isupper() and word[1:].islower() and len(word) <= _MAX_ABBREVIATION
