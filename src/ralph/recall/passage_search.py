"""Find the earlier sessions whose turns answer a prompt together.

If several turns of a session match a prompt, the session answers it as a whole, and a person's
words count as much as the agent's. Hooks load this module.
"""

from __future__ import annotations

from ralph.core.terms import EVERYDAY_WORDS, is_cjk
from ralph.lean import TYPE_CHECKING
from ralph.recall.passages import read_passage
from ralph.search.question import coverage, split_words

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ralph.recall.passages import Passage, TurnSource
    from ralph.search.question import WeightedWord
    from ralph.search.scoring import RankedRow
    from ralph.storage.lookup import RecordRow

_MIN_ANSWER_BYTES = 24  # letters of an answer in UTF-8; a shorter one ("ok") explains nothing

# Limits that decide whether a session's turns answer a prompt. For a short prompt, they must cover
# enough of its words.
_MIN_COVER = 0.5
_MIN_COVER_WITH_UNKNOWN_WORDS = 0.6
_MIN_TELLING_WORDS = 2  # in a single turn
# A long prompt may be answered in part, by several telling words with enough weight.
_MIN_PART_COVER = 0.25
_MIN_PART_COVER_OF_PAIRS = 0.2  # for pairs of CJK characters, some of which end in a particle
_MIN_PART_WORDS = 3
_MIN_PART_WEIGHT = 3.0
_MIN_COVER_WITH_SUBJECT = 0.15  # if the prompt names an identifier that few records have


def answers(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    """Return whether the records of a session, taken together, answer enough of a prompt."""
    return any(_answers_paragraph(matches, paragraph) for paragraph in split_words(words))


def _answers_paragraph(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    telling = [word for word in words if word.word.lower() not in EVERYDAY_WORDS]
    certain = [word for word in telling if word.certain]
    most_in_one_turn = _most_in_one_turn(matches, certain)
    if most_in_one_turn < min(_MIN_TELLING_WORDS, len(telling)):
        return False
    together = _matched_together(matches)
    cover, _ = coverage(words, together)
    if cover >= _required_cover(telling, together):
        return True
    if cover >= _MIN_COVER_WITH_SUBJECT and any(match.subject for match in matches):
        return True
    if cover < _required_part(words) or most_in_one_turn < _MIN_PART_WORDS:
        return False
    weights = [word.weight for word in certain if not word.replaced and word.word in together]
    return len(weights) >= _MIN_PART_WORDS and sum(weights) >= _MIN_PART_WEIGHT


def _most_in_one_turn(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> int:
    """Return the largest number of these words that occur in a single turn.

    Words in different turns may match by chance.
    """
    most = 0
    for match in matches:
        in_turn = [word for word in words if word.word in match.matched]
        most = max(most, len(in_turn))
    return most


def _matched_together(matches: Sequence[RankedRow]) -> dict[str, float]:
    """Map each word that occurs in any of the records to its best match."""
    together: dict[str, float] = {}
    for match in matches:
        for word, share in match.matched.items():
            together[word] = max(share, together.get(word, 0.0))
    return together


def _required_cover(telling: Sequence[WeightedWord], together: dict[str, float]) -> float:
    for word in telling:
        if word.replaced and word.word not in together:
            return _MIN_COVER_WITH_UNKNOWN_WORDS
    return _MIN_COVER


def _required_part(words: Sequence[WeightedWord]) -> float:
    pairs = [word for word in words if is_cjk(word.word)]
    if 2 * len(pairs) > len(words):
        return _MIN_PART_COVER_OF_PAIRS
    return _MIN_PART_COVER


def gather(
    source: TurnSource, sessions: Sequence[Sequence[RankedRow]], likely: Collection[str]
) -> list[Passage]:
    """Return passages from the sessions that certainly relate to a prompt, in their order.

    Each session is given by the turns that match the prompt, best first. `likely` has the ids of
    the other sessions that likely relate to it. If two sessions are about the same subject, the
    newer one comes first.
    """
    passages: list[Passage] = []
    texts: set[str] = set()
    for matches in filter(None, sessions):
        passage = read_passage(source, matches)
        text = " ".join(row.text for row in passage.rows.values())
        if text not in texts and any(map(_explains, passage.rows.values())):
            passages.append(passage)  # a question that is asked again and again is one passage
        texts.add(text)
    if not passages:
        return []
    from ralph.recall.amendments import with_amendments  # few prompts have a passage

    return with_amendments(source, passages, likely)


def _explains(row: RecordRow) -> bool:
    """Return whether a turn is an answer that says more than "ok" or "CLI tests fail."."""
    if row.by != "agent":
        return False
    letters = "".join(filter(str.isalpha, row.text))
    has_details = any(char.isdigit() or char in "`_/=" for char in row.text)
    return has_details or len(letters.encode("utf-8", "ignore")) >= _MIN_ANSWER_BYTES
