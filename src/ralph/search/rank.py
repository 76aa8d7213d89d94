"""Search: how well each record of an index answers a query, and why.

BM25 over title, tags, text and file paths gives candidates, chosen by the rarest terms; an observation also counts what
matched in its session's neighbours. The best are judged by what they contain: coverage of the query, tags, age and
meaning. The score is a weighted sum of normalised parts, never of ranks. Hooks load this module.
"""

from __future__ import annotations

from itertools import pairwise

from ralph.lean import TYPE_CHECKING
from ralph.search import question, terms
from ralph.store import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date
    from sqlite3 import Connection

    from ralph.model.record import Hit, Query, Record, SearchResult
    from ralph.search.question import WeightedWord
    from ralph.store.lookup import Filter, RankingStore, RecordRow

    Meaning = Callable[[str, Sequence[int]], Mapping[int, float]]
    """The similarity in meaning (cosine) of records to a text, by key: for these keys and for the nearest of all."""


class Recipe:
    """The numbers behind the ranking, the same for every query and every kind of record."""

    fields: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)
    pairs: float = 0.5
    near: tuple[float, ...] = (0.45, 0.25)
    link: float = 0.7
    recency: float = 0.08
    half_life_days: float = 30.0
    tags: float = 0.15
    only_tag: float = 0.6
    same: float = 0.8
    memory: float = 0.2
    cover: float = 0.3
    paragraph: float = 1.0
    beside: float = 0.8
    everyday: float = 0.5
    named: float = 0.5
    meaning: float = 0.5
    faraway: float = 0.7
    alone: float = 0.9
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
QUICK = Recipe(candidates=60, spreading=30, judged=10, common=800, thorough=False)
"""For a hook: fewer candidates, chosen by rarer words, and little effort for unknown words."""

# above weak hits, alone and below others
WEAK = "nothing certain; nearest:"
LESS_CERTAIN = "less certain:"
_FAMILIES = len(lookup.TABLES)
# pairs of words, and how much commoner than other words the other one may be
_MOST_PAIRS = 12
_PAIRED = 10
_DECISION = "decision"
_STEP = 1e-6
_MEMORIES = 5
_PRINTED = 3  # candidates by what a tool printed, beside those by what a person wrote
_LINKING = 3  # links of so many of the best records are followed
_FIRST = 5  # one of so many best records must be an answer, or there is none
_MARGIN = 0.08  # of a cosine to the next: no question of own-dev without an answer has it
_FEW_MARGIN = (
    0.2  # where there is no crowd: among few, the best of unrelated texts is often 0.08 ahead
)
# in so many cosines, one that is so many standard deviations above the median stands out
_CROWD = 30
_SPREADS = 5
_READ = 20_000  # characters of a text in which a written word is looked for


class RankedRow:
    """A row with its score, and what it has in common with the query.

    `matched` are the words of the query in it; `cover` is their share by weight, `evidence` their sum; `subject`
    says that the query names it, by its title, a tag, or a distinctive identifier that it has; `close` is
    the similarity in meaning, and `outstanding` says that it is far above that of other records; `link` is the id of
    the record that led to it, `amends` that of an older decision with the same words of the query. `weak` says that it
    is no answer, only among the nearest.
    """

    __slots__ = (
        "amends", "close", "cover", "evidence", "link", "matched", "outstanding", "row", "score", "subject", "weak",
    )  # fmt: skip

    def __init__(self, row: RecordRow, score: float = 0.0) -> None:
        self.row = row
        self.score = score
        self.matched: Mapping[str, float] = {}
        self.cover = self.evidence = self.close = 0.0
        self.link = self.amends = ""
        self.outstanding = self.subject = self.weak = False


class Nearness(dict[int, float]):
    """Similarities in meaning by key, and the `level` from which one stands out among those of all records."""

    level = 2.0  # no cosine is that high


class SlowMeaning:
    """A Meaning whose model is not loaded yet, which takes longer than a search: asked only where words fail."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning

    def __call__(self, text: str, keys: Sequence[int]) -> Mapping[int, float]:
        """Return how near records are to a text."""
        return self._meaning(text, keys)


def outstanding_level(cosines: Sequence[float]) -> float:
    """Return from which similarity on a record stands out: from the next one, or from the crowd of all records."""
    best, second = [*sorted(cosines, reverse=True)[:2], 0.0, 0.0][:2]
    margin = _MARGIN if len(cosines) >= _CROWD else _FEW_MARGIN
    level = best if best - max(second, 0.0) >= margin else Nearness.level
    if len(cosines) >= _CROWD:
        mean = sum(cosines) / len(cosines)
        spread = (sum((value - mean) ** 2 for value in cosines) / len(cosines)) ** 0.5
        level = min(level, sorted(cosines)[len(cosines) // 2] + _SPREADS * spread)
    return level


class Ranking:
    """The best rows, how many there are in all, the words of the query, and whether none of the first answers it."""

    __slots__ = ("best", "total", "weak", "words")

    def __init__(
        self,
        best: Sequence[RankedRow],
        total: int,
        words: Sequence[WeightedWord],
        *,
        weak: bool = False,
    ) -> None:
        self.best = best
        self.total = total
        self.words = words
        self.weak = weak


def search(
    connection: Connection,
    query: Query,
    *,
    today: date,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
) -> SearchResult:
    """Return the records that answer a query, best first.

    An id as the query gives the records that have it; an empty text gives the newest that pass the filters. Where no
    word matches, those that contain the text letter for letter are the answer, the newest first.
    """
    from ralph.model import ids
    from ralph.model.record import Hit, SearchResult
    from ralph.store import queries

    text = query.text.strip()
    if not text:
        keys = queries.newest_keys(connection, query, query.limit)
        records = queries.records(connection, keys)
        total = len(keys) if query.limit is None else queries.count(connection, query)
        return SearchResult(tuple(Hit(record, 0.0) for record in records.values()), total)
    if queries.key_of(connection, text) is not None or ids.date_of(text):
        keys = queries.keys_of(connection, text, query)
        records = queries.records(connection, keys[: query.limit])
        return SearchResult(
            tuple(Hit(record, 1.0, ("id",)) for record in records.values()), len(keys)
        )
    day = today.isoformat()
    keep = queries.filter_of(query)
    ranked = rank(
        connection,
        query.text,
        today=day,
        keep=keep,
        limit=query.limit,
        recipe=recipe,
        meaning=meaning,
    )
    if not ranked.best and (
        keys := lookup.containing(connection, queries.safe(text).split(), keep)
    ):
        records = queries.records(connection, keys[: query.limit])
        letters = dict.fromkeys(text.lower().split(), 1.0)
        return SearchResult(
            tuple(Hit(each, 0.0, ("letters",)) for each in records.values()), len(keys), (), letters
        )
    hits = make_hits(
        ranked,
        queries.records(connection, [each.row.key for each in ranked.best]),
        query,
        day,
        recipe,
    )
    instead = replacements(connection, ranked.words, keep)
    return SearchResult(hits, ranked.total, instead, matched_terms(ranked.words))


def make_hits(
    ranked: Ranking,
    records: Mapping[int, Record],
    query: Query,
    day: str,
    recipe: Recipe = STANDARD,
) -> tuple[Hit, ...]:
    """Return the hits of a ranking, of those records that the query accepts."""
    from ralph.model.record import Hit

    injectable = [] if ranked.weak else gate(ranked.best, recipe)
    hits = []
    for each in ranked.best:
        record = records.get(each.row.key)
        if record is not None and query.accepts(record):
            why = explain(each, ranked.words, day, recipe)
            hits.append(
                Hit(record, round(each.score, 4), tuple(why), each in injectable, each.weak)
            )
    return tuple(hits)


def matched_terms(words: Sequence[WeightedWord]) -> dict[str, float]:
    """Return the indexed terms that a query looked for, with the weights of their words."""
    return {term: each.weight for each in words for term in (*each.counts, *each.longer)}


def replacements(
    connection: Connection | None,
    words: Sequence[WeightedWord],
    keep: Filter = lookup.EVERYTHING,
    store: RankingStore = lookup,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the words of a query that were replaced, each with the words of texts that were looked for instead.

    Of each term that is the shortest word with it, as texts have it within a sentence: a stem is no word.
    """
    replaced: dict[str, dict[str, str]] = {each.word: {} for each in words if each.replaced}
    for name, term in (
        (each.word, term) for each in words if each.replaced for term in each.counts
    ):
        written = replaced[name]
        keys = [
            key for key, _ in store.matching(connection, f'"{term}"', STANDARD.fields, _FIRST, keep)
        ]
        for row in store.fetch_rows(connection, keys).values():
            for word in terms.split_words(
                " ".join((row.title, row.tags, row.text[:_READ], row.files))
            ):
                if len(word) < len(written.get(term, word + ".")) and term in terms.word_terms(
                    word
                ):
                    written[term] = word.lower() if word.istitle() else word
    return tuple(
        (word, tuple(dict.fromkeys(others.values()))) for word, others in replaced.items() if others
    )


def describe_replacements(instead: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return a note for each replacement of one word or several."""
    words: dict[str, list[str]] = {}
    for word, others in instead:
        words.setdefault(", ".join(others[:5]), []).append(repr(word))
    return [
        f"nothing has {' or '.join(replaced)}; looked for {others} instead"
        for others, replaced in words.items()
    ]


def rank(
    connection: Connection | None,
    text: str,
    *,
    today: str,
    keep: Filter = lookup.EVERYTHING,
    limit: int | None = 10,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
    hurried: bool = False,
    crowded: Recipe | None = None,
    words: Sequence[WeightedWord] | None = None,
    store: RankingStore = lookup,
) -> Ranking:
    """Return the rows that answer a query, best first; `words` are its words where they are known already.

    When `hurried`, the filter is tested on the best candidates only and the total is not counted: for a filter that
    most records pass. Where it leaves too few of them, `crowded` is the recipe instead.
    """
    if words is None:
        words = question.weigh_words(
            connection,
            text,
            everyday=recipe.everyday,
            named=recipe.named,
            hurried=not recipe.thorough,
            store=store,
        )
    if not words:
        return Ranking((), 0, ())
    ranker = _Ranker(connection, words, keep, recipe, store)
    while True:
        matches, total = ranker.find_candidates(limit, hurried)
        scores, around = ranker.add_neighbours(matches)
        share = ranker.share_of_meaning(scores) if meaning is not None else 0.0
        is_needed = share == ranker.recipe.alone or not isinstance(meaning, SlowMeaning)
        near = meaning(text, list(scores)) if meaning is not None and is_needed else {}
        share = share if near else 0.0
        fused = _fuse(scores, near, share)
        most = None if limit is None else max(ranker.recipe.judged, limit)
        order = ranker.filter_best(fused, most)
        if (
            crowded is None
            or most is None
            or len(order) >= most
            or len(matches) < max(ranker.recipe.candidates, most)
        ):
            break
        ranker.recipe = crowded
        crowded = None
    present = {key for key in order if key % _FAMILIES == 0}
    if len(present) < _MEMORIES:  # many lines of a log must not crowd out the best memories
        others = {key: fused[key] for key in fused if key % _FAMILIES == 0 and key not in present}
        order += ranker.filter_best(others, _MEMORIES - len(present))
    judged = ranker.judge(order, fused, near, around, today, share)
    level = near.level if isinstance(near, Nearness) else outstanding_level(list(near.values()))
    for each in judged:
        each.outstanding = each.close >= level
    matching = [each for each in judged if each.matched or each.close > 0]
    is_weak = not any(is_answer(each, ranker.recipe) for each in matching[:_FIRST])
    if not is_weak:
        ranker.follow_links(judged)
    best, total = (
        (matching, len(matching)) if is_weak else (judged, max(total, len(order), len(judged)))
    )
    for each in best:
        each.weak = is_weak or not (is_answer(each, ranker.recipe) or each.link)
    return Ranking(best[:limit], total, words, weak=is_weak)


def is_answer(judged: RankedRow, recipe: Recipe = STANDARD) -> bool:
    """Whether a record covers much of the query, has enough evidence, a tag that is named, or is near in meaning."""
    return (
        judged.cover >= recipe.floor
        or judged.evidence >= recipe.evidence
        or judged.subject
        or judged.outstanding
    )


def gate(best: Sequence[RankedRow], recipe: Recipe = STANDARD) -> list[RankedRow]:
    """Return the few that may be injected: near the best, or on a subject of the query, with a match of their own."""
    first = best[: recipe.injected]
    least = recipe.gate * first[0].score if first else 0.0
    fit = [
        each
        for each in first
        if each.matched.keys() - terms.EVERYDAY_WORDS or each.link or each.outstanding
    ]
    return [each for each in fit if each.score >= least or each.subject]


class _Ranker:
    """The steps of one ranking, which share a connection, the words of the query, a filter and a recipe."""

    def __init__(
        self,
        connection: Connection | None,
        words: Sequence[WeightedWord],
        keep: Filter,
        recipe: Recipe,
        store: RankingStore = lookup,
    ) -> None:
        self.connection = connection
        self.store = store
        self.words = words
        self.keep = keep
        self.recipe = recipe

    def filter_best(self, fused: Mapping[int, float], most: int | None) -> list[int]:
        """Return the best keys that pass the filter, best first; equal ones by time and place, never by key."""
        order = sorted(fused, key=lambda key: fused[key], reverse=True)
        passing: list[int] = []
        size = len(order) if most is None else most
        while order and (most is None or len(passing) < most):
            while (
                size < len(order) and fused[order[size]] == fused[order[size - 1]]
            ):  # equal ones stay together
                size += 1
            first = order[:size]
            order = order[size:]
            allowed = self.store.filter_keys(self.connection, first, self.keep)
            first = [key for key in first if key in allowed]
            if len({fused[key] for key in first}) < len(first):
                places = self.store.sort_values(self.connection, first)
                first.sort(
                    key=lambda key: (fused[key], places.get(key, ("", "", key))), reverse=True
                )
            passing += first
            if 2 * len(first) < size:  # where few pass, few queries are better than short ones
                size *= 2
        return passing[:most]

    def find_candidates(self, limit: int | None, hurried: bool) -> tuple[dict[int, float], int]:
        """Return keys with BM25 scores, and how many match; two words of the query that are adjacent count extra."""
        paragraphs = question.split_words(self.words)
        if len(paragraphs) == 1:
            return self._match(paragraphs[0], limit, hurried)
        scores: dict[int, float] = {}
        for words in paragraphs:
            found, _ = self._match(words, limit, hurried)
            best = sorted(found, key=lambda key: found[key], reverse=True)
            for key in best[:_PRINTED] if words[0].paragraph == question.PRINTED else best:
                scores[key] = max(scores.get(key, 0.0), found[key] / found[best[0]])
        return scores, len(scores)

    def _match(
        self, words: Sequence[WeightedWord], limit: int | None, hurried: bool
    ) -> tuple[dict[int, float], int]:
        recipe = self.recipe
        keep = None if hurried else self.keep
        chosen = question.rarest_terms(words, recipe.common)
        if not chosen:
            return {}, 0
        match = " OR ".join(f'"{term}"' for term in chosen)
        rare = set(chosen)
        most = -1 if limit is None else max(recipe.candidates, limit)
        scores = dict(self.store.matching(self.connection, match, recipe.fields, most, keep))
        total = len(scores)
        if keep is not None and total == most:
            total = self.store.count_matching(self.connection, match, keep)
        pairs = []
        for left, right in pairwise(words):
            if left.counts and right.counts and not (left.replaced or right.replaced):
                ends = list(left.counts.items())[-1], next(iter(right.counts.items()))
                counts = [count for _, count in ends]
                # two common words take long to look for
                if (
                    not rare.isdisjoint(term for term, _ in ends)
                    and max(counts) <= _PAIRED * recipe.common
                ):
                    pairs.append(f'"{ends[0][0]} {ends[1][0]}"')
        if pairs:
            for key, score in self.store.matching(
                self.connection, " OR ".join(pairs[:_MOST_PAIRS]), recipe.fields, most
            ):
                if key in scores:
                    scores[key] += recipe.pairs * score
        return scores, total

    def add_neighbours(
        self, scores: dict[int, float]
    ) -> tuple[dict[int, float], dict[int, list[int]]]:
        """Add what matched just before and after in the same session, less with each step."""
        total = dict(scores)
        around: dict[int, list[int]] = {}
        first = sorted(scores, key=lambda key: scores[key], reverse=True)[: self.recipe.spreading]
        for key, other, step in self.store.neighbours(
            self.connection, first, len(self.recipe.near)
        ):
            total[other] = total.get(other, 0.0) + self.recipe.near[abs(step) - 1] * scores[key]
            around.setdefault(other, []).append(key)
        return total, around

    def share_of_meaning(self, scores: Mapping[int, float]) -> float:
        """Return how much meaning counts: the more, the fewer words of the query the best match has.

        The best of bad matches has a text score of 1 as well; without this, a chance word would outdo a paraphrase.
        Where no match covers enough of the query to be an answer, meaning counts almost alone.
        """
        first = sorted(scores, key=lambda key: scores[key], reverse=True)[:_FIRST]
        found = self.store.fetch_rows(self.connection, first).values()
        cover = max(
            (question.coverage(self.words, match_words(row, self.words))[0] for row in found),
            default=0.0,
        )
        total = max(
            sum(word.weight for word in words) for words in question.split_words(self.words)
        )
        if cover < self.recipe.floor and cover * total < 2 * self.recipe.evidence:
            return self.recipe.alone
        return self.recipe.meaning + (self.recipe.faraway - self.recipe.meaning) * (1 - cover)

    def judge(
        self,
        order: Sequence[int],
        fused: Mapping[int, float],
        near: Mapping[int, float],
        around: Mapping[int, Sequence[int]],
        today: str,
        share: float,
    ) -> list[RankedRow]:
        """Read the best candidates and score what they contain; words count less where meaning counts more."""
        words = self.words
        recipe = self.recipe
        textual = min(1.0, (1 - share) / (1 - recipe.meaning))
        beside = {other for key in order for other in around.get(key, ())}
        rows = self.store.fetch_rows(self.connection, list({*order, *beside}))
        matches = {key: match_words(row, words) for key, row in rows.items()}
        is_short = words[0].paragraph == words[-1].paragraph
        judged = []
        for key in order:
            if key not in rows:
                continue
            each = RankedRow(rows[key])
            # of a turn in a session, as of a paragraph, it says most how much is said together
            covering = recipe.cover if is_short and key % _FAMILIES != 1 else recipe.paragraph
            each.matched = matches[key]
            each.cover, each.evidence = question.coverage(words, each.matched)
            each.close = near.get(key, 0.0)
            tags = terms.TermMatcher(each.row.tags) if each.row.tags and each.matched else None
            tagged = [
                word for word in words if tags and word.word in each.matched and word.match(tags)
            ]
            # a single word that only a tag has counts less than the same word in a text
            only_tag = len(each.matched) == 1 and bool(tagged)
            only_tag = only_tag and not tagged[0].match(
                terms.TermMatcher(f"{each.row.title} {each.row.text}")
            )
            each.subject = any(
                word.distinctive and each.matched.get(word.word) == 1.0 for word in words
            ) or (key % _FAMILIES == 0 and _is_named(each, words))
            nearby = [matches[other].items() for other in around.get(key, ()) if other in matches]
            together = {word: recipe.beside * part for match in nearby for word, part in match}
            for word, part in each.matched.items():
                together[word] = max(part, together.get(word, 0.0))
            covered = question.coverage(words, together)[0] if nearby else each.cover
            score = fused[key] * freshness(each.row.created_at, today, recipe)
            score += textual * (recipe.tags * min(len(tagged), 2) / 2 + covering * covered)
            if only_tag:
                score *= recipe.only_tag
                if len(words) > 1:
                    each.cover = each.evidence = 0.0  # it does not break silence, either
            if key % _FAMILIES == 0 and (each.matched or each.close > 0):
                score *= 1 + recipe.memory
            each.score = score / (1 + recipe.tags + covering)
            judged.append(each)
        position = {key: -at for at, key in enumerate(order)}
        judged.sort(
            key=lambda each: (round(each.score, 9), each.row.created_at, position[each.row.key]),
            reverse=True,
        )
        _order_equals(judged, recipe)
        return judged

    def follow_links(self, judged: list[RankedRow]) -> None:
        """Add what one of the best records links to."""
        best = {each.row.key: each for each in judged[:_LINKING] if is_answer(each, self.recipe)}
        links = list(self.store.linked_keys(self.connection, list(best)))
        position = {key: at for at, key in enumerate(best)}
        links.sort(key=lambda link: position[link[0]])  # keys have no order
        known = {each.row.key: each for each in judged}
        new = self.store.filter_keys(
            self.connection, [key for _, key in links if key not in known], self.keep
        )
        rows = self.store.fetch_rows(self.connection, list(new))
        for source, target in links:
            if target in rows and target not in known:
                known[target] = RankedRow(rows[target])
                judged.append(known[target])
            score = self.recipe.link * best[source].score
            if target in known and known[target].score < score:
                known[target].score = score
                known[target].link = best[source].row.id
        judged.sort(key=lambda each: -round(each.score, 9))


def _fuse(scores: Mapping[int, float], near: Mapping[int, float], share: float) -> dict[int, float]:
    """Text and meaning as one number from 0 to 1; a record without a vector counts by its text alone."""
    top = max(scores.values(), default=0.0) or 1.0
    low = min(near.values(), default=0.0)
    high = max(near.values(), default=0.0)
    fused = {key: score / top for key, score in scores.items()}
    for key, value in near.items():
        close = (value - low) / (high - low) if high > low else 1.0
        fused[key] = (1 - share) * fused.get(key, 0.0) + share * close
    return {
        key: round(value, 9) for key, value in fused.items()
    }  # the order of a sum must not matter


def _decision_time(row: RecordRow) -> tuple[str, str]:
    """The day of a decision and, since memories have a date only, the seconds in the id of a memory."""
    return row.created_at[:10], row.id.rpartition("-")[0] if row.id.startswith("mem-") else "mem-"


def _order_equals(judged: list[RankedRow], recipe: Recipe) -> None:
    """Put the newer of two decisions with the same words of the query first, and a memory before a log with its words.

    The older decision must not be much better.
    """
    decisions = [each for each in judged if each.row.kind == _DECISION and len(each.matched) > 1]
    for newer in decisions:
        for older in decisions:
            if (
                _decision_time(newer.row) > _decision_time(older.row)
                and newer.matched.keys() >= older.matched.keys()
                and newer.score >= recipe.same * older.score
            ):
                newer.amends = newer.amends or older.row.id
                if newer.score <= older.score:
                    newer.score = older.score + _STEP
    for memory in judged:
        if memory.row.key % _FAMILIES == 0 and memory.matched:
            equal = (
                each.score
                for each in judged
                if each.row.key % _FAMILIES and each.matched == memory.matched
            )
            memory.score = max(memory.score, max(equal, default=0.0) + _STEP)
    judged.sort(key=lambda each: -round(each.score, 9))


def _is_named(judged: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Whether the query has all words of a record's title or of one of its tags; a single tag written as a name."""
    present = [
        word
        for word in words
        if word.certain and judged.matched.get(word.word, 0.0) > question.HALF
    ]
    names = {term for word in present if word.named for term in word.whole_terms}
    known = {term for word in present if not word.replaced for term in word.whole_terms} | names
    for name in (judged.row.title, *judged.row.tags.strip('[]"').split('","')):
        found = terms.query_terms(name.replace("_", " "))
        whole = (
            word.terms if terms.is_cjk(word.text) else (max(word.terms, key=len),) for word in found
        )
        wanted = {term for group in whole for term in group}
        if (
            wanted
            and wanted <= known
            and (len(wanted) > 1 or name == judged.row.title or wanted <= names)
        ):
            return True
    return False


def match_words(row: RecordRow, words: Sequence[WeightedWord]) -> dict[str, float]:
    """Return the words of the query in a record, and how much of each."""
    text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
    return {each.word: share for each in words if (share := each.match(text))}


def explain(
    judged: RankedRow, words: Sequence[WeightedWord], today: str, recipe: Recipe = STANDARD
) -> list[str]:
    """Return the reasons for a rank: which words are where, what led to the record, how near and how new it is."""
    row = judged.row
    fields = [("tag", row.tags), ("title", row.title), ("path", f"{row.files} {row.id}")]
    texts = [(name, terms.TermMatcher(text)) for name, text in fields]
    reasons = []
    for each in words:
        if each.word in judged.matched:
            field = next((name for name, text in texts if each.match(text)), "text")
            reasons.append(f"{field}: {each.word}")
    if judged.amends:
        reasons.append(f"amends: {judged.amends}")
    if judged.link:
        reasons.append(f"link: {judged.link}")
    if judged.outstanding or (judged.close > 0 and not (judged.matched or judged.link)):
        reasons.append(f"meaning: {judged.close:.2f}")
    if freshness(row.created_at, today, recipe) > 1 - recipe.recency / 2:
        reasons.append(f"recent: {row.created_at[:10]}")
    return reasons


def freshness(created_at: str, today: str, recipe: Recipe = STANDARD) -> float:
    """Return 1 for a record of today, less for older ones, never less than the part that does not age."""
    then = _day(created_at)
    now = _day(today)
    if then is None or now is None:
        return 1 - recipe.recency
    return float(
        1 - recipe.recency + recipe.recency * 2 ** (-max(now - then, 0) / recipe.half_life_days)
    )


def _day(text: str) -> int | None:
    """The ordinal of a time's date; importing datetime costs a hook too much."""
    year = text[:4]
    month = text[5:7]
    day = text[8:10]
    if not (len(text) >= 10 and year.isdecimal() and month.isdecimal() and day.isdecimal()):
        return None
    years = int(year) - (int(month) < 3)
    months = (int(month) + 9) % 12
    return (
        365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + int(day)
    )
