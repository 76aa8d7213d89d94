"""Decide how certainly earlier work relates to a prompt: certain, likely, or not at all.

What is injected without being asked for has three levels. If a session or memory certainly relates
to the prompt, its passage or text is given. If it likely does, one line points to it. Otherwise
nothing is given. The ranking orders records. This module alone decides about the level.

What is compared are *units*: sessions, runs and memories. A word counts by its *information*, which
is low if many units contain it or if it is an ordinary word (`search/background.py`). For example,
"nordlys wants a bulk uploader":

    nordlys   in 1 of 40 units, not an ordinary word     1.0
    wants     in no unit                                 -
    bulk      in no unit                                 -
    uploader  in 2 of 40 units                           0.85

The *evidence* for a unit is the summed information of the words that it contains: half of it counts
for the whole unit, and half for the one record that contains most, because words that occur
together mean more. Words that no record has are not counted against a unit, so a prompt that names
something unique finds it, however much else it says. Only the best paragraph of a long prompt
counts, so that a paste does not collect evidence word by word, and what a person asks counts more
than what was pasted next to it.

All numbers are here. They were set with `bench/prompts.py` on weeks 1 to 4 of the written weeks and
on a project of memories, and with `bench/delivery.py` on decisions. Weeks 5 and 6 were only looked
at (ADR 0010). Hooks load this module.
"""

from __future__ import annotations

import math
from enum import Enum

from ralph.core import terms
from ralph.lean import TYPE_CHECKING, record
from ralph.search import background
from ralph.search.question import PRINTED, WeightedWord, split_words
from ralph.storage import index_schema, lookup, supersession

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

# --- thresholds of unasked injection ---

# Evidence from which a unit likely relates to a prompt. One unique word has 1. With 1.15, the right
# session is named or quoted for .78 of the prompts in all written weeks, and .67 of the unrelated
# ones get nothing; with 1.25, .73 and .75 (measured with 800 matches, which reach .80).
MIN_LIKELY_EVIDENCE = 1.15
# Evidence from which a unit certainly relates to a prompt, if it also stands out. Of 100 unrelated
# prompts, one has 2 in two of ten projects.
MIN_CERTAIN_EVIDENCE = 2.0
# The same if the unit contains this share of the information in the prompt, as for a short prompt.
MIN_CERTAIN_EVIDENCE_OF_COVERED = 1.6
MIN_CERTAIN_COVERAGE = 0.4
# A unit that contains much of the information in a prompt is likely with less evidence, as is a
# memory that a prompt names; and with still less if it contains most of it and has a word that is
# not an ordinary one: most sessions cover "run the tests".
MIN_LIKELY_EVIDENCE_OF_COVERED = 0.95
MIN_COMPLETE_COVERAGE = 0.65
MIN_CERTAIN_EVIDENCE_OF_COMPLETE = 0.9
MIN_LIKELY_EVIDENCE_OF_COMPLETE = 0.8
MIN_LIKELY_EVIDENCE_OF_NAMED = 0.35
# A unit that certainly relates to a prompt within a session contains at least this share of its
# information, because such a prompt is mostly about what was just said. Of eleven passages that
# prompts of this kind got with less in two written weeks, a reader called two helpful.
MIN_COVERAGE_WITHIN_SESSION = MIN_CERTAIN_COVERAGE
# A certain unit has at least this many times the evidence of the best unit that is not certain. If
# there are several, they need more, because there is often a gap somewhere between the first few.
# With 1.3 for one, four of twenty decisions are only pointed to; no prompt gets a wrong passage by
# 1.15.
MIN_MARGIN = 1.15
MIN_MARGIN_OF_SEVERAL = 1.3
# Evidence that needs no margin. A long prompt may share that much with several sessions about one
# subject, of which one amends another.
MIN_EVIDENCE_WITHOUT_MARGIN = 3.0
# More units than this never stand out together.
MAX_CERTAIN = 3
# Information, apart from this project, in the words that a unit shares with a prompt, unless it
# names something. "Commit this" has 0.9 and "run the tests" 1.4, and both bring nothing.
MIN_SHARED_INFORMATION = 1.6

# --- weights of evidence ---

# Share of evidence that the best single record of a unit decides. The rest counts for the unit.
_SINGLE_RECORD_SHARE = 0.5
# What a word counts in a command, its output or an edit, compared with a turn of the chat. With 1,
# the right session is among the first three for .88 instead of .93 of the prompts.
_TOOL_RECORD_SHARE = 0.5
# What a word counts in a memory if it is not an ordinary word. A memory is short, so such a word is
# its subject, and a single one that is unique is enough for a pointer.
_SUBJECT_FACTOR = 1.25
# What a pair of CJK characters counts, which is about half a word.
_CJK_PAIR_SHARE = 0.5
# What a word that no record contains counts for the coverage.
_UNKNOWN_WORD_SHARE = 0.5
# What a paragraph of a paste counts, compared with the request. A paste shares up to 2.8 with some
# session by chance. With 0.5, pointers appear for .20 of the unrelated prompts with a paste instead
# of .08, in one of the development projects.
_PASTE_SHARE = 0.4
# A paragraph with more than this many times the words of the other one is from a paste.
_MAX_REQUEST_RATIO = 1.5

# --- effort ---

_SAID = "note"  # the kind of what a person or an agent said
_PROMPT_TITLE = "prompt"
_ANSWER_TITLE = "answer"
_MIN_PATH_PARTS = 4  # words in a path whose parts are looked for on their own
_MAX_WORDS = 40  # rarest words of a long prompt that are looked up
_MAX_MATCHES = 400  # records with a word, summed over the rarest words


class Level(Enum):
    """How certainly a unit relates to a prompt."""

    CERTAIN = "certain"
    LIKELY = "likely"
    NONE = "none"


@record
class Unit:
    """A session, run or memory that contains words of a prompt.

    `keys` are its records with such words, those with most evidence first. `session` is "" for a
    memory. `only_asked` says that all of these records are prompts, and `names_something` that a
    word in them is not an ordinary one. `shared_information` is that of the words of the prompt in
    the unit, apart from this project.
    """

    session: str
    keys: Sequence[int]
    evidence: float
    coverage: float
    only_asked: bool = False
    names_something: bool = False
    shared_information: float = 0.0

    @property
    def is_telling(self) -> bool:
        """Whether it shares more with the prompt than one or two ordinary words."""
        return self.names_something or self.shared_information >= MIN_SHARED_INFORMATION


@record
class Judged:
    """A unit, and how certainly it relates to a prompt."""

    unit: Unit
    level: Level


def judge_units(
    connection: sqlite3.Connection,
    words: Sequence[WeightedWord],
    allowed: Filter,
    *,
    ignored: Collection[int] = (),
    is_crowded: bool = False,
) -> list[Judged]:
    """Return the units that certainly or likely relate to a prompt, those with most evidence first.

    `words` are the weighted words of the prompt, and `allowed` selects the records to consider,
    except those with a key in `ignored`. Set `is_crowded` if many records may not be considered.
    """
    units: list[Unit] = []
    for unit in find_units(connection, words, allowed, ignored=ignored, is_crowded=is_crowded):
        if not _has_likely_evidence(unit) and len(units) > MAX_CERTAIN:
            break
        if not _is_unanswered(connection, unit):
            units.append(unit)
    return judge(units)


def _is_unanswered(connection: sqlite3.Connection, unit: Unit) -> bool:
    """Return whether a session only asked, so that there is nothing to learn from it."""
    if not (unit.session and unit.only_asked):
        return False
    return not lookup.keys_with_titles(connection, unit.session, [_ANSWER_TITLE], 1)


def judge(units: Sequence[Unit]) -> list[Judged]:
    """Assign levels to units, which are sorted by evidence, and leave out those without one."""
    certain = _count_certain(units)
    judged = [Judged(unit, Level.CERTAIN) for unit in units[:certain]]
    for unit in units[certain:]:
        if _has_likely_evidence(unit):
            judged.append(Judged(unit, Level.LIKELY))
    return judged


def _count_certain(units: Sequence[Unit]) -> int:
    """Return how many of the first units are certain."""
    certain = 0
    for position, unit in enumerate(units[:MAX_CERTAIN]):
        if not _has_certain_evidence(unit):
            break
        next_evidence = 0.0
        if position + 1 < len(units):
            next_evidence = units[position + 1].evidence
        margin = MIN_MARGIN if position == 0 else MIN_MARGIN_OF_SEVERAL
        stands_out = unit.evidence >= margin * next_evidence
        if stands_out or unit.evidence >= MIN_EVIDENCE_WITHOUT_MARGIN:
            certain = position + 1
    return certain


def _has_certain_evidence(unit: Unit) -> bool:
    if not unit.is_telling:
        return False
    if unit.coverage >= MIN_COMPLETE_COVERAGE:
        return unit.evidence >= MIN_CERTAIN_EVIDENCE_OF_COMPLETE
    if unit.coverage >= MIN_CERTAIN_COVERAGE:
        return unit.evidence >= MIN_CERTAIN_EVIDENCE_OF_COVERED
    return unit.evidence >= MIN_CERTAIN_EVIDENCE


def is_given_whole(memory: Unit) -> bool:
    """Return whether a likely memory is given, and not only pointed to.

    It is short, so it need not stand out: all memories about the subject of a short prompt are
    given.
    """
    is_subject = memory.is_telling and memory.coverage >= MIN_COMPLETE_COVERAGE
    return is_subject or _has_certain_evidence(memory)


def _has_likely_evidence(unit: Unit) -> bool:
    if unit.coverage >= MIN_COMPLETE_COVERAGE:
        if unit.names_something:
            return unit.evidence >= MIN_LIKELY_EVIDENCE_OF_NAMED
        return unit.is_telling and unit.evidence >= MIN_LIKELY_EVIDENCE_OF_COMPLETE
    is_covered = unit.is_telling and unit.coverage >= MIN_CERTAIN_COVERAGE
    is_named_memory = unit.names_something and not unit.session
    if is_covered or is_named_memory:
        return unit.evidence >= MIN_LIKELY_EVIDENCE_OF_COVERED
    return unit.evidence >= MIN_LIKELY_EVIDENCE


# --- evidence ------------------------------------------------------------------------------------


def find_units(
    connection: sqlite3.Connection,
    words: Sequence[WeightedWord],
    allowed: Filter,
    *,
    ignored: Collection[int] = (),
    is_crowded: bool = False,
) -> Iterator[Unit]:
    """Return the units that contain words of a prompt, those with most evidence first."""
    words = _split_unknown_path(words)
    matches = _find_matches(connection, words, allowed if is_crowded else None)
    keys: dict[int, None] = {}
    for match in matches.values():
        keys.update(dict.fromkeys(key for key in match if key not in ignored))
    places = lookup.sessions_and_kinds(connection, list(keys), allowed)
    excluded = [key for key in keys if index_schema.is_memory(key) and key not in places]
    if excluded:
        for old, new in _find_successors(connection, excluded, allowed).items():
            places[new.key] = ("", new.kind, new.title)
            for match in matches.values():
                if old in match:
                    match[new.key] = max(match[old], match.get(new.key, 0.0))
    unit_count = max(lookup.count_memories_and_sessions(connection), 1)
    evidence = _Evidence(matches, places, unit_count)
    best: dict[str | int, _Weighed] = {}  # in any paragraph
    paragraphs = split_words(words)
    for paragraph, share in zip(paragraphs, _share_of_paragraphs(paragraphs), strict=True):
        for name, weighed in evidence.weigh(paragraph).items():
            weighed.evidence *= share
            if name not in best or weighed.evidence > best[name].evidence:
                best[name] = weighed
    by_evidence = sorted(best.values(), key=lambda unit: (-unit.evidence, -max(unit.records)))
    return map(evidence.describe, by_evidence)


def _split_unknown_path(words: Sequence[WeightedWord]) -> list[WeightedWord]:
    """Replace a long path that no record contains as a whole by its parts.

    Of services/api/internal/ivr, "ivr" may be what everything is about. A prompt with several such
    paths is a list or a stack trace.
    """
    paths = [word for word in words if _is_unknown_path(word)]
    if len(paths) != 1:
        return list(words)
    path = paths[0]
    parts = []
    for term, count in path.counts.items():
        part = WeightedWord(term, {term: count}, path.weight)
        part.paragraph = path.paragraph
        parts.append(part)
    position = words.index(path)
    return [*words[:position], *parts, *words[position + 1 :]]


def _is_unknown_path(word: WeightedWord) -> bool:
    is_known = word.replaced or word.identifier in word.counts
    is_long_path = "/" in word.word and word.parts >= _MIN_PATH_PARTS
    return is_long_path and not is_known and word.paragraph != PRINTED


def _find_successors(
    connection: sqlite3.Connection, keys: Sequence[int], allowed: Filter
) -> dict[int, RecordRow]:
    """Map the keys of superseded memories to the memories that hold now.

    What an old memory says is evidence for the new one, which may use other words.
    """
    successors = supersession.superseded(connection)
    if not successors:
        return {}
    latest: dict[int, str] = {}
    for key, row in lookup.fetch_rows(connection, keys).items():
        name = row.id
        while name in successors:  # there are no cycles
            name = successors[name]
        latest[key] = name
    rows = lookup.memories_with_ids(connection, list(set(latest.values())), allowed)
    return {key: rows[name] for key, name in latest.items() if name in rows}


def _share_of_paragraphs(paragraphs: Sequence[Sequence[WeightedWord]]) -> list[float]:
    """Return what each paragraph of a prompt counts: less if it is from something that was pasted.

    Of a long prompt, the first and the last written paragraph are known. If one of them is much
    shorter, it is the request, and the other one is from a paste.
    """
    shortest = min([len(words) for words in paragraphs if words[0].paragraph != PRINTED], default=0)
    shares = []
    for words in paragraphs:
        is_pasted = words[0].paragraph != PRINTED and len(words) > _MAX_REQUEST_RATIO * shortest
        shares.append(_PASTE_SHARE if is_pasted else 1.0)
    return shares


def _find_matches(
    connection: sqlite3.Connection, words: Sequence[WeightedWord], allowed: Filter | None
) -> dict[str, dict[int, float]]:
    """Map each word to the records that contain it, with the share that each contains.

    The rarest words come first. Those that too many records contain are left out or, with a filter,
    searched for in the records that pass it.
    """
    matches: dict[str, dict[int, float]] = {}
    room = _MAX_MATCHES
    usable = [word for word in words if word.counts and not _is_guess(word)]
    usable.sort(key=lambda word: min(word.counts.values()))
    for word in usable[:_MAX_WORDS]:
        found: dict[int, float] = {}
        for term, share in _shares_of_terms(word).items():
            if word.counts[term] <= room:
                keys = lookup.keys_with_term(connection, term, room)
            elif allowed is not None and room > 0:
                keys = lookup.keys_with_term(connection, term, room, allowed)
            else:
                continue
            room -= len(keys)
            for key in keys:
                found[key] = min(found.get(key, 0.0) + share, word.share)
        if found:
            matches[word.word] = found
    return matches


def _is_guess(word: WeightedWord) -> bool:
    """Return whether the terms of a word may not stand for the word itself.

    A term replaces a word that no record contains if it differs by one typo, and only if the word
    is not an ordinary one: "convert" is not a misspelled "convent".
    """
    if not word.replaced:
        return False
    return not word.certain or is_ordinary(word)


def is_ordinary(word: WeightedWord) -> bool:
    """Return whether a word is in the list of ordinary words. An identifier with parts is not."""
    if word.parts > 1:
        return False
    return any(background.frequency(term) > 0 for term in terms.word_terms(word.word))


def _shares_of_terms(word: WeightedWord) -> dict[str, float]:
    """Return the share of a word that each of its terms stands for, rarest term first.

    A part of an identifier stands for its share of it, and less if it is an ordinary word.
    """
    rarest_first = sorted(word.counts, key=word.counts.__getitem__)
    if word.replaced or word.parts < 2:
        return dict.fromkeys(rarest_first, word.share)
    shares = {}
    for term in rarest_first:
        if term == word.identifier:
            shares[term] = word.share
        else:
            shares[term] = background.information(term) * word.share / word.parts
    return shares


class _Weighed:
    """The evidence for a unit in a paragraph, by word and by record.

    `information` is the summed information of the paragraph. There are many of these, so they are
    simpler to create than a `record`.
    """

    __slots__ = ("evidence", "information", "records", "words")

    def __init__(self) -> None:
        self.words: dict[str, float] = {}
        self.records: dict[int, float] = {}
        self.evidence = 0.0
        self.information = 0.0


class _Evidence:
    """The records that contain words of a prompt, grouped by unit.

    A unit is named by its session or, without one, by its key.
    """

    def __init__(
        self,
        matches: Mapping[str, Mapping[int, float]],
        places: Mapping[int, tuple[str, str, str]],
        unit_count: int,
    ) -> None:
        self._matches = matches
        self._places = places
        self._unit_count = unit_count
        self._names: set[str] = set()  # words that are not ordinary ones
        self._general: dict[str, float] = {}  # the information of words apart from this project
        self._unit_names: dict[int, str | int] = {}
        self._said: set[int] = set()  # records that are not the use of a tool
        for key, (session, kind, _) in places.items():
            self._unit_names[key] = session or key
            if kind == _SAID or not index_schema.is_observation(key):
                self._said.add(key)

    def weigh(self, paragraph: Sequence[WeightedWord]) -> dict[str | int, _Weighed]:
        """Return the evidence for each unit in one paragraph of a prompt."""
        units: dict[str | int, _Weighed] = {}
        information = 0.0
        for word in paragraph:
            is_name = not is_ordinary(word)
            if is_name:
                self._names.add(word.word)
            self._general[word.word] = _information_in_general(word)
            shares = self._shares_by_unit(word)
            unit_count = len(shares)
            if word.parts > 1:
                unit_count = _count_whole(shares, word.share) or unit_count
            weight = self._information(word, unit_count)
            information += weight
            for name, shares_by_key in shares.items():
                if name not in units:
                    units[name] = _Weighed()
                unit = units[name]
                factor = weight
                if is_name and _is_memory(name):
                    factor *= _SUBJECT_FACTOR
                for key, share in shares_by_key.items():
                    unit.records[key] = unit.records.get(key, 0.0) + factor * share
                unit.words[word.word] = factor * max(shares_by_key.values())
        for unit in units.values():
            together = sum(unit.words.values())
            best_record = max(unit.records.values())
            unit.evidence = together + _SINGLE_RECORD_SHARE * (best_record - together)
            unit.information = information
        return units

    def describe(self, weighed: _Weighed) -> Unit:
        """Return a unit with its records in order."""
        records = weighed.records
        keys = sorted(records, key=lambda key: (-records[key], key))
        return Unit(
            session=self._places[keys[0]][0],
            keys=keys,
            evidence=weighed.evidence,
            coverage=weighed.evidence / max(weighed.information, weighed.evidence),
            only_asked=all(self._places[key][2] == _PROMPT_TITLE for key in keys),
            names_something=not self._names.isdisjoint(weighed.words),
            shared_information=sum(self._general[word] for word in weighed.words),
        )

    def _shares_by_unit(self, word: WeightedWord) -> dict[str | int, dict[int, float]]:
        """Return the records that contain a word with what they count, by unit."""
        found: dict[str | int, dict[int, float]] = {}
        for key, share in self._matches.get(word.word, {}).items():
            if key in self._unit_names:
                if key not in self._said:
                    share *= _TOOL_RECORD_SHARE
                found.setdefault(self._unit_names[key], {})[key] = share
        return found

    def _information(self, word: WeightedWord, units_with_word: int) -> float:
        """Return how much a word says: less if many units contain it, or if it is ordinary."""
        general = self._general[word.word]
        if not units_with_word:
            return _UNKNOWN_WORD_SHARE * general
        rarity = math.log(1 + self._unit_count / (units_with_word + 0.5))
        return general * rarity / math.log(1 + self._unit_count / 1.5)


def _is_memory(name: str | int) -> bool:
    """Return whether the name of a unit is the key of a memory."""
    return isinstance(name, int) and index_schema.is_memory(name)


def _count_whole(shares: Mapping[str | int, Mapping[int, float]], whole: float) -> int:
    """Return how many memories contain all of an identifier, and not only a part."""
    count = 0
    for name, shares_by_key in shares.items():
        if isinstance(name, int) and max(shares_by_key.values()) >= whole:
            count += 1
    return count


def _information_in_general(word: WeightedWord) -> float:
    """Return how much a word says apart from this project. An identifier says everything."""
    if word.parts > 1:
        return 1.0
    information = max(map(background.information, terms.word_terms(word.word)), default=1.0)
    if terms.is_cjk(word.word):
        return _CJK_PAIR_SHARE * information
    return information
