"""The window's shares and the four ways of trimming, as properties."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.context.shares import (
    KEY_POINTS,
    RELATED,
    SHARES,
    STRATEGIES,
    Allowance,
    Area,
    Item,
    Situation,
    Strategy,
    Trimmed,
    allowance,
    choose,
    compression,
    recency,
    relevance,
    selective,
    trim,
)

Trim = Callable[[Sequence[Item], int], Trimmed]

COSTS = st.lists(st.integers(1, 60), min_size=1, max_size=3).map(lambda costs: tuple(sorted(costs)))
DATES = st.sampled_from(["", "2025-01-20", "2025-01-21", "2026-02-03T08:15:00Z"])
KINDS = st.sampled_from(["error", "success", "note", "tool_use", "fix", "context"])
ITEMS = st.lists(st.builds(Item, COSTS, DATES, st.floats(0, 1), KINDS), max_size=12)
BUDGETS = st.integers(1, 400)
ALL = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


class TestShares:
    def test_the_shares_fill_the_window(self) -> None:
        assert sum(SHARES.values()) == pytest.approx(1)
        assert allowance(Area.MEMORY, 200_000) == Allowance(30_000, 0)
        assert allowance(Area.RESPONSE, 1_000).tokens == 400

    def test_the_smaller_of_share_and_budget_counts_and_the_cap_stands_beside_it(self) -> None:
        assert allowance(Area.MEMORY, 200_000, budget=2_000, most_characters=9_500) == Allowance(2_000, 9_500)
        assert allowance(Area.MEMORY, 8_000, budget=2_000).tokens == 1_200

    def test_an_unlimited_budget_leaves_the_share_and_a_tiny_window_is_not_unlimited(self) -> None:
        assert allowance(Area.MEMORY, 10_000, budget=0).tokens == 1_500
        assert allowance(Area.SYSTEM, 1).tokens == 1
        assert allowance(Area.SYSTEM, 0).tokens == 0

    def test_the_config_may_share_otherwise(self) -> None:
        assert allowance(Area.MEMORY, 1_000, shares={**SHARES, Area.MEMORY: 0.5}).tokens == 500

    @given(st.sampled_from(list(Area)), st.integers(1, 10**7), st.integers(0, 10**6))
    def test_no_area_gets_more_than_its_share_or_its_budget(self, area: Area, window: int, budget: int) -> None:
        got = allowance(area, window, budget=budget).tokens
        assert 1 <= got <= max(1, window * SHARES[area])
        assert not budget or got <= budget


class TestChoice:
    @pytest.mark.parametrize(
        ("situation", "strategy"),
        [
            (Situation(), Strategy.RECENCY),
            (Situation(searching=True), Strategy.RELEVANCE),
            (Situation(filled=0.6), Strategy.COMPRESSION),
            (Situation(filled=0.59), Strategy.RECENCY),
            (Situation(searching=True, filled=0.9), Strategy.COMPRESSION),
            (Situation(filled=0.5, threshold=0.5), Strategy.COMPRESSION),
            (Situation(looping=True, searching=True, filled=0.9), Strategy.SELECTIVE),
            (Situation(looping=True, wanted=Strategy.RECENCY), Strategy.RECENCY),
        ],
    )
    def test_the_situation_decides_unless_the_config_does(self, situation: Situation, strategy: Strategy) -> None:
        assert choose(situation) is strategy
        items = [Item((3, 9), "2026-01-01", 0.5, "error"), Item((2,), "2025-01-01", 0.1, "note")]
        assert trim(items, 5, situation) == STRATEGIES[strategy](items, 5)


class TestEveryStrategy:
    @ALL
    @given(items=ITEMS, budget=BUDGETS)
    def test_whole_items_within_the_budget_each_once(self, strategy: Trim, items: list[Item], budget: int) -> None:
        done = strategy(items, budget)
        assert done.tokens <= budget
        assert all(each.tokens == items[each.index].costs[each.layer - 1] for each in done.kept)
        assert sorted([*(each.index for each in done.kept), *done.left_out]) == list(range(len(items)))

    @ALL
    @given(items=ITEMS, budget=BUDGETS, more=st.integers(1, 200))
    def test_a_larger_budget_never_keeps_fewer_tokens(
        self, strategy: Trim, items: list[Item], budget: int, more: int
    ) -> None:
        assert strategy(items, budget + more).tokens >= strategy(items, budget).tokens

    @ALL
    @given(items=ITEMS)
    def test_no_limit_is_as_good_as_a_very_large_one(self, strategy: Trim, items: list[Item]) -> None:
        assert strategy(items, 0) == strategy(items, 10**6)

    @ALL
    def test_nothing_gives_nothing(self, strategy: Trim) -> None:
        assert strategy([], 10) == Trimmed((), ())


class TestRecency:
    @given(ITEMS, BUDGETS)
    def test_what_is_left_out_would_not_fit_beside_what_is_newer(self, items: list[Item], budget: int) -> None:
        done = recency(items, budget)
        for index in done.left_out:
            newer = [e.tokens for e in done.kept if (items[e.index].date, e.index) > (items[index].date, index)]
            assert sum(newer) + items[index].costs[-1] > budget

    def test_the_newest_comes_first_and_the_unknown_date_last(self) -> None:
        items = [Item((1,), ""), Item((1,), "2025-01-01"), Item((1,), "2026-01-01"), Item((1,), "2026-01-01")]
        assert [each.index for each in recency(items, 10).kept] == [3, 2, 1, 0]


class TestRelevance:
    @given(ITEMS, BUDGETS)
    def test_what_hardly_relates_is_never_shown_and_the_best_comes_first(self, items: list[Item], budget: int) -> None:
        scores = [items[each.index].score for each in relevance(items, budget).kept]
        best = max((item.score for item in items), default=0)
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 and score >= RELATED * best for score in scores)

    def test_detail_is_given_to_the_best_first_and_lines_to_all(self) -> None:
        items = [Item((10, 50, 90), score=0.5), Item((10, 50, 90), score=0.9), Item((10,), score=0.8)]
        assert [(each.index, each.layer) for each in relevance(items, 150).kept] == [(1, 3), (2, 1), (0, 2)]
        assert [each.layer for each in relevance(items, 30).kept] == [1, 1, 1]


class TestCompression:
    @given(ITEMS, BUDGETS)
    def test_an_item_goes_only_when_all_that_stay_are_on_one_line(self, items: list[Item], budget: int) -> None:
        done = compression(items, budget)
        if done.left_out:
            assert all(each.layer == 1 for each in done.kept)

    def test_the_oldest_is_shortened_first(self) -> None:
        items = [Item((5, 20), "2026-01-01"), Item((5, 20), "2024-01-01"), Item((5, 20), "2025-01-01")]
        assert [(each.index, each.layer) for each in compression(items, 45).kept] == [(0, 2), (2, 2), (1, 1)]
        assert [(each.index, each.layer) for each in compression(items, 10).kept] == [(0, 1), (2, 1)]


class TestSelective:
    @given(ITEMS, BUDGETS)
    def test_only_how_things_ended_is_kept_and_in_short(self, items: list[Item], budget: int) -> None:
        done = selective(items, budget)
        assert all(items[each.index].kind in KEY_POINTS for each in done.kept)
        assert all(each.layer <= 2 for each in done.kept)
