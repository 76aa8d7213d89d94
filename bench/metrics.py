"""Compute the figures of ranked answers against the right ones.

Names are never mixed: any@k is "at least one right document among the first k", recall@k is the share
of the right documents among the first k. A question without a right answer is a negative control: it
counts only for silence (was nothing returned?) and for one other figure, the precision of what is
injected (the gate). That precision is the share of right records, averaged over all questions that got
something, so anything injected where nothing is right counts as 0. The corresponding recall is
averaged over the questions that have an answer. `tests/bench/test_benchmarks.py` has worked examples.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one question: the ids in order, the right ids, and its cost.

    `given` is what passed the gate, if that is measured.
    """

    ids: tuple[str, ...]
    relevant: frozenset[str]
    category: str = ""
    given: tuple[str, ...] | None = None
    ms: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of many answers; None if no question applies."""

    questions: int
    any5: float | None = None
    recall5: float | None = None
    recall10: float | None = None
    mrr: float | None = None
    ndcg10: float | None = None
    silent: float | None = None
    precision: float | None = None
    gate_recall: float | None = None
    tokens: float | None = None
    p50: float | None = None
    p95: float | None = None


def any_at(answered: Answered, k: int) -> float:
    """Return 1 if a right document is among the first k."""
    return float(not answered.relevant.isdisjoint(answered.ids[:k]))


def recall_at(answered: Answered, k: int) -> float:
    """Return the share of the right documents that are among the first k."""
    return len(answered.relevant.intersection(answered.ids[:k])) / len(answered.relevant)


def reciprocal_rank(answered: Answered) -> float:
    """Return 1 over the rank of the first right document, or 0 if there is none."""
    return next(
        (1 / place for place, name in enumerate(answered.ids, 1) if name in answered.relevant), 0.0
    )


def ndcg_at(answered: Answered, k: int) -> float:
    """Return the discounted gain of the first k relative to a perfect order."""
    seen: set[str] = set()
    gain = 0.0
    for place, name in enumerate(answered.ids[:k], 1):
        if name in answered.relevant and name not in seen:
            seen.add(name)
            gain += 1 / math.log2(place + 1)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(answered.relevant), k) + 1))
    return gain / ideal


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def figures(answers: Iterable[Answered]) -> Figures:
    """Return all figures of some answers."""
    every = list(answers)
    known = [each for each in every if each.relevant]
    unknown = [each for each in every if not each.relevant]
    times = [each.ms for each in every]
    injected = [(each.relevant, each.given) for each in every if each.given is not None]
    return Figures(
        questions=len(every),
        any5=_mean(any_at(each, 5) for each in known),
        recall5=_mean(recall_at(each, 5) for each in known),
        recall10=_mean(recall_at(each, 10) for each in known),
        mrr=_mean(reciprocal_rank(each) for each in known),
        ndcg10=_mean(ndcg_at(each, 10) for each in known),
        silent=_mean(
            float(not (each.ids if each.given is None else each.given)) for each in unknown
        ),
        precision=_mean(
            len(right.intersection(given)) / len(given) for right, given in injected if given
        ),
        gate_recall=_mean(
            len(right.intersection(given)) / len(right) for right, given in injected if right
        ),
        tokens=_mean(each.tokens for each in every),
        p50=percentile(times, 0.5) if times else None,
        p95=percentile(times, 0.95) if times else None,
    )


def by_category(answers: Iterable[Answered]) -> dict[str, Figures]:
    """Return the figures of each named category, in order of first appearance."""
    found: dict[str, list[Answered]] = {}
    for each in answers:
        if each.category:
            found.setdefault(each.category, []).append(each)
    return {name: figures(some) for name, some in found.items()}


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return fmean(every) if every else None
