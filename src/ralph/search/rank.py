"""Words in, keys and scores out: how well each record of an index answers a question, and why.

The full-text index gives candidates by BM25 over title, tags, text and file paths; pairs of words that
stand side by side count extra; an observation also counts what matched in its session's neighbours. Of many
common terms only the rarest choose candidates; all of them are judged. The best candidates are then judged by
what they hold: how much of the question they cover, tags, how recent they are, and, when similarities are
given, how near they are in meaning. The parts are a weighted sum of normalised scores, never of ranks. What
covers too little of the question is no answer: a miss is a miss.

This is the same for a search, a benchmark and a hook. A hook has milliseconds, so nothing is decoded here: a
word is looked for in a record's columns as they are, and only what looks like it is brought to its terms.
"""

from ralph.search import asked as question
from ralph.search import terms
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from ralph.search.asked import Asked
    from ralph.search.engine import Meaning, Related
    from ralph.store.lookup import Filter, Row


class Recipe:
    """The numbers behind the ranking; one set of them for every question and every kind of record."""

    fields: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)
    pairs: float = 0.5
    near: tuple[float, ...] = (0.45, 0.25)
    link: float = 0.7
    nearby: float = 0.15
    recency: float = 0.15
    half_life_days: float = 30.0
    tags: float = 0.15
    kept: float = 0.2
    cover: float = 0.5
    beside: float = 0.8
    everyday: float = 0.5
    named: float = 0.5
    subject: float = 0.8
    meaning: float = 0.5
    faraway: float = 0.7
    close: float = 0.45
    floor: float = 0.45
    evidence: float = 0.7
    gate: float = 0.6
    handed: int = 5
    candidates: int = 300
    spreading: int = 150
    judged: int = 20
    common: int = 40_000
    thorough: bool = True

    def __init__(self, **other: float | tuple[float, ...]) -> None:
        for name, value in other.items():
            if not hasattr(Recipe, name):
                raise TypeError(f"a recipe has no number {name!r}")
            setattr(self, name, value)


STANDARD = Recipe()
QUICK = Recipe(candidates=60, spreading=30, judged=10, common=1_500, thorough=False)
"""For a hook: the same numbers over fewer candidates, chosen by rarer words; for unknown words little is tried."""

_MOST_PAIRS = 12
_MEMORIES = 5
_LINKING = 3
"""So many of the best records lead to what they name as related."""
_FIRST = 5
"""One of so many best records that hold anything of the question must be an answer, or there is none."""


class Judged:
    """A record that was judged: its score, and what the question and it have in common.

    `matched` are the words of the question that it holds; `cover` is how much of the question that is, `evidence`
    how much in all; `subject` is how telling the best word is that is one of its tags, or 1 when it has an
    identifier of the question that few have; `close` is how near it is in meaning; `link` names the record that
    led to it.
    """

    __slots__ = ("close", "cover", "evidence", "link", "matched", "row", "score", "subject")

    def __init__(self, row: "Row", score: float = 0.0) -> None:
        self.row = row
        self.score = score
        self.matched: Mapping[str, float] = {}
        self.cover = self.evidence = self.subject = self.close = 0.0
        self.link = ""


class Ranked:
    """The answer: the best records, how many there are in all, and the words that were asked for."""

    __slots__ = ("best", "total", "words")

    def __init__(self, best: "Sequence[Judged]", total: int, words: "Sequence[Asked]") -> None:
        self.best = best
        self.total = total
        self.words = words


def rank(
    connection: "sqlite3.Connection",
    text: str,
    *,
    today: str,
    keep: "Filter" = lookup.EVERYTHING,
    limit: int | None = 10,
    recipe: Recipe = STANDARD,
    meaning: "Meaning | None" = None,
    related: "Related | None" = None,
    hurried: bool = False,
    crowded: Recipe | None = None,
) -> Ranked:
    """The records that answer a question, best first.

    When `hurried`, the filter is tested on the best candidates only and nobody counts how many there are in all:
    for a filter that lets most records through. Where it leaves too few of them, `crowded` is the recipe instead.
    """
    words = question.asked(connection, text, everyday=recipe.everyday, named=recipe.named, hurried=not recipe.thorough)
    if not words:
        return Ranked((), 0, ())
    while True:
        found, total = _candidates(connection, words, None if hurried else keep, limit, recipe)
        scores, around = _with_neighbours(connection, found, recipe)
        near = meaning(text, list(scores)) if meaning is not None else {}
        share = _share(connection, words, scores, recipe) if near else 0.0
        fused = _fused(scores, near, share)
        most = None if limit is None else max(recipe.judged, limit)
        order = _ordered(connection, fused, keep, most)
        if crowded is None or most is None or len(order) >= most or len(found) < max(recipe.candidates, most):
            break
        recipe, crowded = crowded, None
    order += _kept(connection, fused, keep, order)
    judged = _judge(connection, words, order, fused, near, around, today, recipe, share)
    holding = [each for each in judged if each.matched or each.close]
    if not any(answers(each, recipe) for each in holding[:_FIRST]):
        return Ranked((), 0, words)
    _follow_links(connection, judged, keep, recipe, related)
    return Ranked(judged[:limit], max(total, len(order), len(judged)), words)


def answers(judged: Judged, recipe: Recipe = STANDARD) -> bool:
    """Whether a record is an answer: it holds much of the question, enough telling words, has a tag that is
    named outright, or is near in meaning."""
    return (
        judged.cover >= recipe.floor
        or judged.evidence >= recipe.evidence
        or judged.subject >= recipe.subject
        or judged.close >= recipe.close
    )


def gate(best: "Sequence[Judged]", recipe: Recipe = STANDARD) -> "list[Judged]":
    """What is good enough to be handed over unasked: near the best, or on a subject that the question names; few.

    What only stands beside something that fits is not.
    """
    first = best[: recipe.handed]
    least = recipe.gate * first[0].score if first else 0.0
    fit = [each for each in first if each.matched or each.link or each.close >= recipe.close]
    return [each for each in fit if each.score >= least or each.subject >= recipe.subject]


def _ordered(
    connection: "sqlite3.Connection", fused: "Mapping[int, float]", keep: "Filter", most: int | None
) -> list[int]:
    """The best keys that pass the filters, best first; equal ones by time and place, as in any index of these files."""
    order = sorted(fused, key=lambda key: fused[key], reverse=True)
    found: list[int] = []
    size = most or 0
    while order and (most is None or len(found) < most):
        size = len(order) if most is None else size
        while size < len(order) and fused[order[size]] == fused[order[size - 1]]:  # equal ones stay together
            size += 1
        first, order = order[:size], order[size:]
        passing = lookup.passing(connection, first, keep)
        first = [key for key in first if key in passing]
        if len({fused[key] for key in first}) < len(first):
            stand = lookup.standing(connection, first)
            first.sort(key=lambda key: (fused[key], stand.get(key, ("", "", key))), reverse=True)
        found += first
        if 2 * len(first) < size:  # where few pass, few questions are better than short ones
            size *= 2
    return found[:most]


def _kept(
    connection: "sqlite3.Connection", fused: "Mapping[int, float]", keep: "Filter", order: "Sequence[int]"
) -> list[int]:
    """The best few memories that are not among those to be judged: many lines of a log must not crowd them out."""
    there = {key for key in order if key % len(lookup.TABLES) == 0}
    if len(there) >= _MEMORIES:
        return []
    others = {key: fused[key] for key in fused if key % len(lookup.TABLES) == 0 and key not in there}
    return _ordered(connection, others, keep, _MEMORIES - len(there)) if others else []


# --- candidates --------------------------------------------------------------------------------


def _candidates(
    connection: "sqlite3.Connection", words: "Sequence[Asked]", keep: "Filter | None", limit: int | None, recipe: Recipe
) -> tuple[dict[int, float], int]:
    """Keys and text scores by BM25, and how many match: of all terms, or of the rarest when all would be too many."""
    chosen = question.rarest(words, recipe.common)
    if not chosen:
        return {}, 0
    match = " OR ".join(f'"{term}"' for term in chosen)
    most = -1 if limit is None else max(recipe.candidates, limit)
    scores = dict(lookup.matching(connection, match, recipe.fields, most, keep))
    counted = keep is not None and len(scores) == most
    total = lookup.count_matching(connection, match, keep) if counted and keep is not None else len(scores)
    for key, score in _side_by_side(connection, words, most, recipe):
        if key in scores:
            scores[key] += recipe.pairs * score
    return scores, total


def _side_by_side(
    connection: "sqlite3.Connection", words: "Sequence[Asked]", most: int, recipe: Recipe
) -> list[tuple[int, float]]:
    """The scores of candidates in which two words of the question stand next to each other."""
    pairs = [
        f'"{list(left.counts)[-1]} {next(iter(right.counts))}"'
        for left, right in zip(words, words[1:])  # noqa: B905, RUF007  (itertools is one import more)
        if left.counts and right.counts and not (left.replaced or right.replaced)
    ]
    if not pairs:
        return []
    return lookup.matching(connection, " OR ".join(pairs[:_MOST_PAIRS]), recipe.fields, most)


def _with_neighbours(
    connection: "sqlite3.Connection", scores: dict[int, float], recipe: Recipe
) -> tuple[dict[int, float], dict[int, list[int]]]:
    """What was said just before and after in the same session counts too, less with each step."""
    total = dict(scores)
    around: dict[int, list[int]] = {}
    first = sorted(scores, key=lambda key: scores[key], reverse=True)[: recipe.spreading]
    for key, other, step in lookup.neighbours(connection, first, len(recipe.near)):
        total[other] = total.get(other, 0.0) + recipe.near[abs(step) - 1] * scores[key]
        around.setdefault(other, []).append(key)
    return total, around


def _share(
    connection: "sqlite3.Connection", words: "Sequence[Asked]", scores: "Mapping[int, float]", recipe: Recipe
) -> float:
    """How much meaning counts: the more, the less of the question's words the best match has.

    The best of bad matches has a text score of 1 as well; without this, a chance word would outdo a paraphrase.
    """
    first = sorted(scores, key=lambda key: scores[key], reverse=True)[:_FIRST]
    found = lookup.judged(connection, first).values()
    cover = max((question.holds(words, _matched(row, words))[0] for row in found), default=0.0)
    return recipe.meaning + (recipe.faraway - recipe.meaning) * (1 - cover)


def _fused(scores: "Mapping[int, float]", near: "Mapping[int, float]", share: float) -> dict[int, float]:
    """Text and meaning in one number from 0 to 1; what has no vector yet counts by its text alone."""
    top = max(scores.values(), default=0.0) or 1.0
    low, high = min(near.values(), default=0.0), max(near.values(), default=0.0)
    fused = {key: score / top for key, score in scores.items()}
    for key, value in near.items():
        close = (value - low) / (high - low) if high > low else 1.0
        fused[key] = (1 - share) * fused.get(key, 0.0) + share * close
    return {key: round(value, 9) for key, value in fused.items()}  # sums in another order are no other scores


# --- judgement ---------------------------------------------------------------------------------


def _judge(
    connection: "sqlite3.Connection",
    words: "Sequence[Asked]",
    order: "Sequence[int]",
    fused: "Mapping[int, float]",
    near: "Mapping[int, float]",
    around: "Mapping[int, Sequence[int]]",
    today: str,
    recipe: Recipe,
    share: float,
) -> list[Judged]:
    """Read the best candidates and score what they hold; words count for less where meaning counts for more."""
    textual = min(1.0, (1 - share) / (1 - recipe.meaning))
    beside = {other for key in order for other in around.get(key, ())}
    found = lookup.judged(connection, list({*order, *beside}))
    held = {key: _matched(row, words) for key, row in found.items()}
    whole = 1 + recipe.tags + recipe.cover
    judged = []
    for key in order:
        if key not in found:
            continue
        each = Judged(found[key])
        each.matched = held[key]
        each.cover, each.evidence = question.holds(words, each.matched)
        each.close = near.get(key, 0.0)
        tagged = _tagged(each.row, words, each.matched)
        each.subject = max((word.weight * each.matched[word.word] for word in tagged if word.sure), default=0.0)
        if any(word.singular and each.matched.get(word.word) == 1.0 for word in words):
            each.subject = 1.0
        together = _together(each.matched, [held[other] for other in around.get(key, ()) if other in held], recipe)
        score = fused[key] * freshness(each.row.created_at, today, recipe)
        score += textual * (recipe.tags * min(len(tagged), 2) / 2 + recipe.cover * question.holds(words, together)[0])
        if each.matched and key % len(lookup.TABLES) == 0:
            score *= 1 + recipe.kept
        each.score = score / whole
        judged.append(each)
    place = {key: -at for at, key in enumerate(order)}
    judged.sort(key=lambda each: (round(each.score, 9), each.row.created_at, place[each.row.key]), reverse=True)
    return judged


def _follow_links(
    connection: "sqlite3.Connection", judged: list[Judged], keep: "Filter", recipe: Recipe, related: "Related | None"
) -> None:
    """What one of the best records names as related, or is near to in the graph, is related to the question too."""
    best = {each.row.key: each for each in judged[:_LINKING] if answers(each, recipe)}
    place = {key: at for at, key in enumerate(best)}
    found = [(*pair, 1.0) for pair in lookup.linked(connection, list(best))]
    if related is not None:
        found += (each for each in related(list(best)) if each[2] >= recipe.nearby)
    pairs = sorted(found, key=lambda pair: place[pair[0]])  # keys tell no order
    if not pairs:
        return
    known = {each.row.key: each for each in judged}
    new = lookup.passing(connection, [key for _, key, _ in pairs if key not in known], keep)
    rows = lookup.judged(connection, list(new))
    for _, key, _ in pairs:
        if key in rows and key not in known:
            known[key] = Judged(rows[key])
            judged.append(known[key])
    for naming, named, share in pairs:
        score = recipe.link * share * best[naming].score
        if named in known and known[named].score < score:
            known[named].score = score
            known[named].link = best[naming].row.id
    judged.sort(key=lambda each: -round(each.score, 9))


def _together(own: "Mapping[str, float]", others: "Sequence[Mapping[str, float]]", recipe: Recipe) -> dict[str, float]:
    """The words that a record and its neighbours hold between them; the neighbours' count less."""
    words = {word: recipe.beside * share for held in others for word, share in held.items()}
    return {word: max(own.get(word, 0.0), words.get(word, 0.0)) for word in {*own, *words}}


def _matched(row: "Row", words: "Sequence[Asked]") -> dict[str, float]:
    """Which words of the question a record holds, and how well."""
    text = terms.Text(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
    return {each.word: held for each in words if (held := each.held(text))}


def _tagged(row: "Row", words: "Sequence[Asked]", matched: "Mapping[str, float]") -> "list[Asked]":
    """The words of the question that are tags of a record."""
    if not row.tags:
        return []
    text = terms.Text(row.tags)
    return [each for each in words if each.word in matched and each.held(text)]


def why(judged: Judged, words: "Sequence[Asked]", today: str, recipe: Recipe = STANDARD) -> list[str]:
    """Why a record ranks: where the words that it holds stand, what led to it, how near it is, how new."""
    row = judged.row
    fields = [("tag", row.tags), ("title", row.title), ("path", f"{row.files} {row.id}")]
    texts = [(name, terms.Text(text)) for name, text in fields]
    reasons = []
    for each in words:
        if each.word in judged.matched:
            place = next((name for name, text in texts if each.held(text)), "text")
            reasons.append(f"{place}: {each.word}")
    if judged.link:
        reasons.append(f"link: {judged.link}")
    if judged.close >= recipe.close:
        reasons.append(f"meaning: {judged.close:.2f}")
    if freshness(row.created_at, today, recipe) > 1 - recipe.recency / 2:
        reasons.append(f"recent: {row.created_at[:10]}")
    return reasons


def freshness(created_at: str, today: str, recipe: Recipe = STANDARD) -> float:
    """1 for what is of today, less for what is older, never less than the part that does not age."""
    then, now = _day(created_at), _day(today)
    if then is None or now is None:
        return 1 - recipe.recency
    return float(1 - recipe.recency + recipe.recency * 2 ** (-max(now - then, 0) / recipe.half_life_days))


def _day(text: str) -> int | None:
    """The number of a day, counted through, of a time that begins with a date; the calendar costs a hook too much."""
    year, month, day = text[:4], text[5:7], text[8:10]
    if not (len(text) >= 10 and year.isdecimal() and month.isdecimal() and day.isdecimal()):
        return None
    years, months = int(year) - (int(month) < 3), (int(month) + 9) % 12
    return 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + int(day)
