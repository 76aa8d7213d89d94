"""Query in, hits out: how well each record answers, and why.

The full-text index gives candidates by BM25 over title, tags, text and file paths; pairs of words
that stand side by side count extra; an observation also counts what matched in its session's
neighbours. Of many common words only the rarest choose candidates; all of them are judged. The
best candidates are then read and judged by what they hold: how much of the question they cover,
tags, links, how recent they are, and, when vectors are given, how near they are in meaning. The
parts are a weighted sum of normalised scores, never of ranks. What covers too little of the
question is no answer: a miss is a miss. The numbers are one named recipe, set by measurement
(`bench/retrieval.py`), for every question and every kind of record.
"""

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from ralph.model import ids
from ralph.model.query import Found, Hit, Query
from ralph.model.record import Record
from ralph.search import fuzzy, terms
from ralph.store import rows
from ralph.store.index import search_columns

Meaning = Callable[[str, Sequence[int]], Mapping[int, float]]
"""How near records are to a text in meaning (cosine), by key: for these keys and for the nearest of all."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The numbers behind the ranking."""

    fields: tuple[float, float, float, float] = (1.2, 1.5, 1.0, 0.8)
    pairs: float = 0.5
    near: tuple[float, ...] = (0.45, 0.25)
    recency: float = 0.15
    half_life_days: float = 30.0
    tags: float = 0.15
    cover: float = 0.4
    beside: float = 0.8
    meaning: float = 0.5
    close: float = 0.45
    floor: float = 0.4
    evidence: float = 0.7
    candidates: int = 300
    judged: int = 60
    common: int = 40_000


STANDARD = Recipe()
_MOST_PAIRS = 12
_MOST_REPLACED = 8
"""Looking for the nearest terms takes time: somebody's whole log as a question must not take for ever."""
_FEW_WORDS = 3
"""A question of so few words also finds longer words that begin with one of them."""
_LONGER = 0.5
"""How much such a word, or one that stands in for a word that occurs nowhere, counts as an answer."""
_PAIR = 0.5
"""A pair of Chinese, Japanese or Korean characters is about half a word."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of the question: the terms that stand for it, and how telling it is."""

    word: str
    terms: tuple[str, ...]
    weight: float
    postings: int
    replaced: bool = False
    longer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Judged:
    key: int
    record: Record
    score: float
    cover: float
    evidence: float
    close: float
    why: tuple[str, ...]


def search(
    connection: sqlite3.Connection,
    query: Query,
    *,
    today: date,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
) -> Found:
    """The records that answer the query, best first; with an empty text the newest that pass the filters."""
    text = query.text.strip()
    if text and (rows.key_of(connection, text) is not None or ids.date_of(text)):
        return _named(connection, query)
    asked = _asked(connection, query.text)
    if not asked:
        return _newest(connection, query) if not query.text.strip() else Found((), 0)
    scores, total = _candidates(connection, query, asked, recipe)
    near = meaning(query.text, list(scores)) if meaning is not None else {}
    fused = _fused(scores, near, recipe)
    order = _ordered(connection, query, fused)
    judged = _judge(connection, query, asked, order, fused, near, today, recipe)
    kept = judged if any(_answers(each, recipe) for each in judged[:5]) else []
    hits = tuple(Hit(each.record, round(each.score, 4), each.why) for each in kept[: query.limit])
    instead = tuple((each.word, _spoken(each.terms, hits)) for each in asked if each.replaced and each.terms)
    return Found(hits, max(total, len(order)) if kept else 0, instead)


def _answers(judged: "_Judged", recipe: Recipe) -> bool:
    """Whether a record is an answer: it holds much of the question, enough telling words, or is near in meaning."""
    return judged.cover >= recipe.floor or judged.evidence >= recipe.evidence or judged.close >= recipe.close


def _named(connection: sqlite3.Connection, query: Query) -> Found:
    """Whoever asks by an id gets the record that has it, and every other one that has it, too."""
    keys = rows.keys_of(connection, query.text.strip(), query)
    found = rows.records(connection, keys[: query.limit])
    return Found(tuple(Hit(found[key], 1.0, ("id",)) for key in keys[: query.limit] if key in found), len(keys))


def _ordered(connection: sqlite3.Connection, query: Query, fused: dict[int, float]) -> list[int]:
    """The keys that pass the filters, best first; equal ones by time and place, as in any index of these files."""
    for key in fused.keys() - rows.passing(connection, list(fused), query):
        del fused[key]
    stand = rows.standing(connection, list(fused)) if len(set(fused.values())) < len(fused) else {}
    return sorted(fused, key=lambda key: (fused[key], stand.get(key, ("", "", key))), reverse=True)


def _spoken(found: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
    """Terms as people write them: the shortest word of the hits for each; the bare terms when no hit has one."""
    words: dict[str, str] = {}
    for hit in hits[:5]:
        record = hit.record
        for word in terms.words(" ".join((record.title, *record.tags, record.text[:20_000]))):
            for term in terms.word_terms(word):
                if term in found and len(word) < len(words.get(term, word + ".")):
                    words[term] = word.lower()
    return tuple(dict.fromkeys(words[term] for term in found if term in words)) or tuple(found)


def _newest(connection: sqlite3.Connection, query: Query) -> Found:
    keys = rows.newest(connection, query, query.limit)
    found = rows.records(connection, keys)
    total = len(keys) if query.limit is None else rows.count(connection, query)
    return Found(tuple(Hit(found[key], 0.0) for key in keys if key in found), total)


def _asked(connection: sqlite3.Connection, text: str) -> list[Asked]:
    """The words of a question with their weights; one that occurs nowhere is replaced by the nearest terms."""
    words = terms.query_terms(text)
    known = rows.frequencies(connection, list(dict.fromkeys(term for word in words for term in word.terms)))
    count = max(rows.size(connection), 2)
    asked: list[Asked] = []
    replaced = 0
    for word in words:
        if terms.is_cjk(word.text):
            asked += [_pair(connection, term, count, known.get(term, 0)) for term in word.terms]
            continue
        there = tuple(term for term in word.terms if term in known)
        if there:
            rarest = min(known[term] for term in there)
            more = fuzzy.beginning_with(connection, there[0]) if len(words) <= _FEW_WORDS else {}
            postings = sum(known[term] for term in there) + sum(more.values())
            asked.append(Asked(word.text, there, _weight(count, rarest), postings, longer=tuple(more)))
            continue
        replaced += 1
        near = fuzzy.nearest(connection, word) if replaced <= _MOST_REPLACED else {}
        weight = _weight(count, min(near.values(), default=0))
        asked.append(Asked(word.text, tuple(near), weight, sum(near.values()), replaced=True))
    return asked


def _pair(connection: sqlite3.Connection, term: str, count: int, holding: int) -> Asked:
    """Two characters, as the index has them; a character of its own is also looked for inside of pairs."""
    if len(term) > 1 or holding:
        return Asked(term, (term,), _PAIR * _weight(count, holding), holding)
    around = fuzzy.around(connection, term)
    weight = _PAIR * _weight(count, min(around.values(), default=0))
    return Asked(term, (), weight, sum(around.values()), longer=tuple(around))


def _weight(count: int, holding: int) -> float:
    """How telling a word is: 1 for one that a single record holds, towards 0 for one that all hold."""
    return math.log(1 + count / (max(holding, 1) + 0.5)) / math.log(1 + count / 1.5)


def _candidates(
    connection: sqlite3.Connection, query: Query, asked: Sequence[Asked], recipe: Recipe
) -> tuple[dict[int, float], int]:
    """Keys and text scores by BM25, and how many match: of all terms, or of the rarest when all would be too many."""
    if not any(each.postings for each in asked):
        return {}, 0
    match = " OR ".join(f'"{term}"' for term in _rarest(asked, recipe.common))
    most = -1 if query.limit is None else max(recipe.candidates, query.limit)
    scores = dict(rows.matching(connection, match, recipe.fields, most, query))
    total = rows.count_matching(connection, match, query) if len(scores) == most else len(scores)
    for key, score in _side_by_side(connection, asked, most, recipe):
        if key in scores:
            scores[key] += recipe.pairs * score
    return _with_neighbours(connection, scores, recipe), total


def _rarest(asked: Sequence[Asked], most: int) -> list[str]:
    """The terms that choose candidates: the rarest words, as long as they hold few enough records."""
    if sum(each.postings for each in asked) <= most:
        return list(dict.fromkeys(term for each in asked for term in (*each.terms, *each.longer) if each.postings))
    chosen: dict[str, None] = {}
    spent = 0
    for each in sorted((each for each in asked if each.postings), key=lambda each: each.postings):
        if chosen and spent + each.postings > most:
            break
        spent += each.postings
        chosen.update(dict.fromkeys(each.terms))
    return list(chosen)


def _side_by_side(
    connection: sqlite3.Connection, asked: Sequence[Asked], most: int, recipe: Recipe
) -> list[tuple[int, float]]:
    """The scores of candidates in which two words of the question stand next to each other."""
    pairs = [
        f'"{left.terms[-1]} {right.terms[0]}"'
        for left, right in pairwise(asked)
        if left.terms and right.terms and not (left.replaced or right.replaced)
    ]
    if not pairs:
        return []
    return rows.matching(connection, " OR ".join(pairs[:_MOST_PAIRS]), recipe.fields, most)


def _with_neighbours(connection: sqlite3.Connection, scores: dict[int, float], recipe: Recipe) -> dict[int, float]:
    """What was said just before and after in the same session counts too, less with each step."""
    total = dict(scores)
    for key, other, step in rows.neighbours(connection, list(scores), len(recipe.near)):
        total[other] = total.get(other, 0.0) + recipe.near[abs(step) - 1] * scores[key]
    return total


def _fused(scores: Mapping[int, float], near: Mapping[int, float], recipe: Recipe) -> dict[int, float]:
    """Text and meaning in one number from 0 to 1; what has no vector yet counts by its text alone."""
    top = max(scores.values(), default=0.0) or 1.0
    low, high = min(near.values(), default=0.0), max(near.values(), default=0.0)
    share = recipe.meaning
    fused = {key: score / top for key, score in scores.items()}
    for key, value in near.items():
        close = (value - low) / (high - low) if high > low else 1.0
        fused[key] = (1 - share) * fused.get(key, 0.0) + share * close
    return {key: round(value, 9) for key, value in fused.items()}  # sums in another order are no other scores


def _judge(
    connection: sqlite3.Connection,
    query: Query,
    asked: Sequence[Asked],
    order: Sequence[int],
    fused: Mapping[int, float],
    near: Mapping[int, float],
    today: date,
    recipe: Recipe,
) -> list[_Judged]:
    """Read the best candidates and score what they hold."""
    wanted = order if query.limit is None else order[: max(recipe.judged, query.limit)]
    around: dict[int, list[int]] = {}
    for key, other, _ in rows.neighbours(connection, wanted, len(recipe.near)):
        around.setdefault(key, []).append(other)
    beside = {other for others in around.values() for other in others}
    found = rows.records(connection, list({*wanted, *beside}))
    held = {key: _matched(record, asked) for key, record in found.items()}
    whole = 1 + recipe.tags + recipe.cover
    judged = []
    for key in wanted:
        record = found.get(key)
        if record is None or not query.accepts(record):
            continue
        matched, why = held[key]
        cover, evidence = _holds(asked, matched)
        tagged = sum(1 for reason in why if reason.startswith("tag"))
        score = fused[key] * _freshness(record, today, recipe) + recipe.tags * min(tagged, 2) / 2
        others = [held[other][0] for other in around.get(key, ()) if other in held]
        score += recipe.cover * _holds(asked, _together(matched, others, recipe))[0]
        if near.get(key, 0.0) >= recipe.close:
            why = (*why, f"meaning: {near[key]:.2f}")
        judged.append(_Judged(key, record, score / whole, cover, evidence, near.get(key, 0.0), why))
    place = {key: -at for at, key in enumerate(wanted)}
    return sorted(
        judged, key=lambda each: (round(each.score, 9), each.record.created_at, place[each.key]), reverse=True
    )


def _together(own: Mapping[str, float], others: Sequence[Mapping[str, float]], recipe: Recipe) -> dict[str, float]:
    """The words that a record and its neighbours hold between them; the neighbours' count less."""
    words = {word: recipe.beside * share for held in others for word, share in held.items()}
    return {word: max(own.get(word, 0.0), words.get(word, 0.0)) for word in {*own, *words}}


def _matched(record: Record, asked: Sequence[Asked]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Which words of the question a record holds and how well, and where."""
    title, tags, text, paths = (set(column.split()) for column in search_columns(record, terms.index_terms))
    fields = {"tag": tags, "title": title, "path": paths, "text": text}
    words: dict[str, float] = {}
    why = []
    for each in asked:
        for share, wanted in ((_LONGER if each.replaced else 1.0, each.terms), (_LONGER, each.longer)):
            place = next((name for name, held in fields.items() if not held.isdisjoint(wanted)), "")
            if place:
                words[each.word] = share
                why.append(f"{place}: {each.word}")
                break
    return words, tuple(why)


def _holds(asked: Sequence[Asked], matched: Mapping[str, float]) -> tuple[float, float]:
    """How much of the question a record holds, weighted by how telling its words are: as a share, and in all.

    A word that was only found by its nearest terms is no evidence.
    """
    whole = sum(each.weight for each in asked)
    held = [each for each in asked if each.word in matched]
    share = sum(each.weight * matched[each.word] for each in held) / whole if whole else 0.0
    sure = [each.weight * matched[each.word] for each in held if not each.replaced]
    return share, sum(sure) if len(sure) > 1 else 0.0


def _freshness(record: Record, today: date, recipe: Recipe) -> float:
    """1 for what is of today, less for what is older, never less than the part that does not age."""
    try:
        age = max((today - date.fromisoformat(record.created_at[:10])).days, 0)
    except ValueError:
        return 1 - recipe.recency
    return float(1 - recipe.recency + recipe.recency * 2 ** (-age / recipe.half_life_days))
