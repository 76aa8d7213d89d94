"""Rank records: how well each record of an index answers a query, and why.

BM25 over title, tags, text and file paths gives candidates, chosen by the rarest terms; adjacent words count extra,
and an observation also counts what matched in its session's neighbours. The best candidates are then judged by what
they contain: coverage of the query, tags, age and, when similarities are given, meaning. The score is a weighted sum
of normalised parts, never of ranks. What covers too little of the query is no answer. Hooks load this module.
"""

from ralph.search import question, terms
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from ralph.search.engine import Meaning, Related
    from ralph.search.question import WeightedWord
    from ralph.store.lookup import Filter, RecordRow


class Recipe:
    """The numbers behind the ranking, the same for every query and every kind of record."""

    fields: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)
    pairs: float = 0.5
    near: tuple[float, ...] = (0.45, 0.25)
    link: float = 0.7
    nearby: float = 0.15
    recency: float = 0.15
    half_life_days: float = 30.0
    tags: float = 0.15
    memory: float = 0.2
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
    injected: int = 5
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
"""For a hook: fewer candidates, chosen by rarer words, and little effort for unknown words."""

_MOST_PAIRS = 12
_MEMORIES = 5
_LINKING = 3  # links of so many of the best records are followed
_FIRST = 5  # one of so many best records must be an answer, or there is none


class RankedRow:
    """A row with its score, and what it has in common with the query.

    `matched` are the words of the query in it; `cover` is their share by weight, `evidence` their sum; `subject` is
    the weight of the best word among its tags, or 1 when it has a distinctive identifier of the query; `close` is
    the similarity in meaning; `link` is the id of the record that led to it.
    """

    __slots__ = ("close", "cover", "evidence", "link", "matched", "row", "score", "subject")

    def __init__(self, row: "RecordRow", score: float = 0.0) -> None:
        self.row = row
        self.score = score
        self.matched: Mapping[str, float] = {}
        self.cover = self.evidence = self.subject = self.close = 0.0
        self.link = ""


class Ranking:
    """The best rows, how many there are in all, and the words of the query."""

    __slots__ = ("best", "total", "words")

    def __init__(self, best: "Sequence[RankedRow]", total: int, words: "Sequence[WeightedWord]") -> None:
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
) -> Ranking:
    """The records that answer a query, best first.

    When `hurried`, the filter is tested on the best candidates only and the total is not counted: for a filter that
    most records pass. Where it leaves too few of them, `crowded` is the recipe instead.
    """
    words = question.weigh_words(
        connection, text, everyday=recipe.everyday, named=recipe.named, hurried=not recipe.thorough
    )
    if not words:
        return Ranking((), 0, ())
    while True:
        found, total = _candidates(connection, words, None if hurried else keep, limit, recipe)
        scores, around = _with_neighbours(connection, found, recipe)
        near = meaning(text, list(scores)) if meaning is not None else {}
        share = _meaning_share(connection, words, scores, recipe) if near else 0.0
        fused = _fuse(scores, near, share)
        most = None if limit is None else max(recipe.judged, limit)
        order = _filtered(connection, fused, keep, most)
        if crowded is None or most is None or len(order) >= most or len(found) < max(recipe.candidates, most):
            break
        recipe, crowded = crowded, None
    present = {key for key in order if key % len(lookup.TABLES) == 0}
    if len(present) < _MEMORIES:  # many lines of a log must not crowd out the best memories
        others = {key: fused[key] for key in fused if key % len(lookup.TABLES) == 0 and key not in present}
        order += _filtered(connection, others, keep, _MEMORIES - len(present)) if others else []
    judged = _judge(connection, words, order, fused, near, around, today, recipe, share)
    matching = [each for each in judged if each.matched or each.close]
    if not any(is_answer(each, recipe) for each in matching[:_FIRST]):
        return Ranking((), 0, words)
    _follow_links(connection, judged, keep, recipe, related)
    return Ranking(judged[:limit], max(total, len(order), len(judged)), words)


def is_answer(judged: RankedRow, recipe: Recipe = STANDARD) -> bool:
    """Whether a record covers much of the query, has enough evidence, a tag that is named, or is near in meaning."""
    return (
        judged.cover >= recipe.floor
        or judged.evidence >= recipe.evidence
        or judged.subject >= recipe.subject
        or judged.close >= recipe.close
    )


def gate(best: "Sequence[RankedRow]", recipe: Recipe = STANDARD) -> "list[RankedRow]":
    """The few that are good enough to be injected: near the best, or on a subject that the query names.

    A record that only has a matching neighbour is not.
    """
    first = best[: recipe.injected]
    least = recipe.gate * first[0].score if first else 0.0
    fit = [each for each in first if each.matched or each.link or each.close >= recipe.close]
    return [each for each in fit if each.score >= least or each.subject >= recipe.subject]


def _filtered(
    connection: "sqlite3.Connection", fused: "Mapping[int, float]", keep: "Filter", most: int | None
) -> list[int]:
    """The best keys that pass the filter, best first; equal ones by time and place, whatever their keys are."""
    order = sorted(fused, key=lambda key: fused[key], reverse=True)
    found: list[int] = []
    size = most or 0
    while order and (most is None or len(found) < most):
        size = len(order) if most is None else size
        while size < len(order) and fused[order[size]] == fused[order[size - 1]]:  # equal ones stay together
            size += 1
        first, order = order[:size], order[size:]
        passing = lookup.filter_keys(connection, first, keep)
        first = [key for key in first if key in passing]
        if len({fused[key] for key in first}) < len(first):
            stand = lookup.sort_values(connection, first)
            first.sort(key=lambda key: (fused[key], stand.get(key, ("", "", key))), reverse=True)
        found += first
        if 2 * len(first) < size:  # where few pass, few queries are better than short ones
            size *= 2
    return found[:most]


# --- candidates --------------------------------------------------------------------------------


def _candidates(
    connection: "sqlite3.Connection",
    words: "Sequence[WeightedWord]",
    keep: "Filter | None",
    limit: int | None,
    recipe: Recipe,
) -> tuple[dict[int, float], int]:
    """Keys with BM25 scores, and how many match: by all terms, or by the rarest when all would be too many."""
    chosen = question.rarest_terms(words, recipe.common)
    if not chosen:
        return {}, 0
    match = " OR ".join(f'"{term}"' for term in chosen)
    most = -1 if limit is None else max(recipe.candidates, limit)
    scores = dict(lookup.matching(connection, match, recipe.fields, most, keep))
    counted = keep is not None and len(scores) == most
    total = lookup.count_matching(connection, match, keep) if counted and keep is not None else len(scores)
    for key, score in _adjacent(connection, words, most, recipe):
        if key in scores:
            scores[key] += recipe.pairs * score
    return scores, total


def _adjacent(
    connection: "sqlite3.Connection", words: "Sequence[WeightedWord]", most: int, recipe: Recipe
) -> list[tuple[int, float]]:
    """The scores of candidates in which two words of the query are adjacent."""
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
    """Add what matched just before and after in the same session, less with each step."""
    total = dict(scores)
    around: dict[int, list[int]] = {}
    first = sorted(scores, key=lambda key: scores[key], reverse=True)[: recipe.spreading]
    for key, other, step in lookup.neighbours(connection, first, len(recipe.near)):
        total[other] = total.get(other, 0.0) + recipe.near[abs(step) - 1] * scores[key]
        around.setdefault(other, []).append(key)
    return total, around


def _meaning_share(
    connection: "sqlite3.Connection", words: "Sequence[WeightedWord]", scores: "Mapping[int, float]", recipe: Recipe
) -> float:
    """How much meaning counts: the more, the fewer words of the query the best match has.

    The best of bad matches has a text score of 1 as well; without this, a chance word would outdo a paraphrase.
    """
    first = sorted(scores, key=lambda key: scores[key], reverse=True)[:_FIRST]
    found = lookup.fetch_rows(connection, first).values()
    cover = max((question.coverage(words, _match_words(row, words))[0] for row in found), default=0.0)
    return recipe.meaning + (recipe.faraway - recipe.meaning) * (1 - cover)


def _fuse(scores: "Mapping[int, float]", near: "Mapping[int, float]", share: float) -> dict[int, float]:
    """Text and meaning as one number from 0 to 1; a record without a vector counts by its text alone."""
    top = max(scores.values(), default=0.0) or 1.0
    low, high = min(near.values(), default=0.0), max(near.values(), default=0.0)
    fused = {key: score / top for key, score in scores.items()}
    for key, value in near.items():
        close = (value - low) / (high - low) if high > low else 1.0
        fused[key] = (1 - share) * fused.get(key, 0.0) + share * close
    return {key: round(value, 9) for key, value in fused.items()}  # the order of a sum must not matter


# --- judgement ---------------------------------------------------------------------------------


def _judge(
    connection: "sqlite3.Connection",
    words: "Sequence[WeightedWord]",
    order: "Sequence[int]",
    fused: "Mapping[int, float]",
    near: "Mapping[int, float]",
    around: "Mapping[int, Sequence[int]]",
    today: str,
    recipe: Recipe,
    share: float,
) -> list[RankedRow]:
    """Read the best candidates and score what they contain; words count less where meaning counts more."""
    textual = min(1.0, (1 - share) / (1 - recipe.meaning))
    beside = {other for key in order for other in around.get(key, ())}
    rows = lookup.fetch_rows(connection, list({*order, *beside}))
    matches = {key: _match_words(row, words) for key, row in rows.items()}
    highest = 1 + recipe.tags + recipe.cover
    judged = []
    for key in order:
        if key not in rows:
            continue
        each = RankedRow(rows[key])
        each.matched = matches[key]
        each.cover, each.evidence = question.coverage(words, each.matched)
        each.close = near.get(key, 0.0)
        tags = terms.TermMatcher(each.row.tags)
        tagged = [word for word in words if each.row.tags and word.word in each.matched and word.match(tags)]
        each.subject = max((word.weight * each.matched[word.word] for word in tagged if word.certain), default=0.0)
        if any(word.distinctive and each.matched.get(word.word) == 1.0 for word in words):
            each.subject = 1.0
        nearby = [matches[other].items() for other in around.get(key, ()) if other in matches]
        together = {word: recipe.beside * part for match in nearby for word, part in match}
        for word, part in each.matched.items():
            together[word] = max(part, together.get(word, 0.0))
        score = fused[key] * freshness(each.row.created_at, today, recipe)
        score += textual * (
            recipe.tags * min(len(tagged), 2) / 2 + recipe.cover * question.coverage(words, together)[0]
        )
        if each.matched and key % len(lookup.TABLES) == 0:
            score *= 1 + recipe.memory
        each.score = score / highest
        judged.append(each)
    position = {key: -at for at, key in enumerate(order)}
    judged.sort(key=lambda each: (round(each.score, 9), each.row.created_at, position[each.row.key]), reverse=True)
    return judged


def _follow_links(
    connection: "sqlite3.Connection", judged: list[RankedRow], keep: "Filter", recipe: Recipe, related: "Related | None"
) -> None:
    """Add what one of the best records links to, or is near to in the graph."""
    best = {each.row.key: each for each in judged[:_LINKING] if is_answer(each, recipe)}
    position = {key: at for at, key in enumerate(best)}
    links = [(*pair, 1.0) for pair in lookup.linked_keys(connection, list(best))]
    if related is not None:
        links += (each for each in related(list(best)) if each[2] >= recipe.nearby)
    pairs = sorted(links, key=lambda pair: position[pair[0]])  # keys have no order
    if not pairs:
        return
    known = {each.row.key: each for each in judged}
    new = lookup.filter_keys(connection, [key for _, key, _ in pairs if key not in known], keep)
    rows = lookup.fetch_rows(connection, list(new))
    for _, key, _ in pairs:
        if key in rows and key not in known:
            known[key] = RankedRow(rows[key])
            judged.append(known[key])
    for source, target, share in pairs:
        score = recipe.link * share * best[source].score
        if target in known and known[target].score < score:
            known[target].score = score
            known[target].link = best[source].row.id
    judged.sort(key=lambda each: -round(each.score, 9))


def _match_words(row: "RecordRow", words: "Sequence[WeightedWord]") -> dict[str, float]:
    """The words of the query in a record, and how much of each."""
    text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
    return {each.word: share for each in words if (share := each.match(text))}


def explain(judged: RankedRow, words: "Sequence[WeightedWord]", today: str, recipe: Recipe = STANDARD) -> list[str]:
    """The reasons for a rank: which words are where, what led to the record, how near and how new it is."""
    row = judged.row
    fields = [("tag", row.tags), ("title", row.title), ("path", f"{row.files} {row.id}")]
    texts = [(name, terms.TermMatcher(text)) for name, text in fields]
    reasons = []
    for each in words:
        if each.word in judged.matched:
            field = next((name for name, text in texts if each.match(text)), "text")
            reasons.append(f"{field}: {each.word}")
    if judged.link:
        reasons.append(f"link: {judged.link}")
    if judged.close >= recipe.close:
        reasons.append(f"meaning: {judged.close:.2f}")
    if freshness(row.created_at, today, recipe) > 1 - recipe.recency / 2:
        reasons.append(f"recent: {row.created_at[:10]}")
    return reasons


def freshness(created_at: str, today: str, recipe: Recipe = STANDARD) -> float:
    """1 for a record of today, less for older ones, never less than the part that does not age."""
    then, now = _day(created_at), _day(today)
    if then is None or now is None:
        return 1 - recipe.recency
    return float(1 - recipe.recency + recipe.recency * 2 ** (-max(now - then, 0) / recipe.half_life_days))


def _day(text: str) -> int | None:
    """The ordinal of a time's date; importing datetime costs a hook too much."""
    year, month, day = text[:4], text[5:7], text[8:10]
    if not (len(text) >= 10 and year.isdecimal() and month.isdecimal() and day.isdecimal()):
        return None
    years, months = int(year) - (int(month) < 3), (int(month) + 9) % 12
    return 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + int(day)
