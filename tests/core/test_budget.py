"""Budgets: what fits, the tail of a text, and the four strategies, as properties."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.support.laws import messy

from ralph.core.budget import (
    KEY_POINTS,
    RELATED,
    STRATEGIES,
    TURNS,
    BudgetItem,
    Render,
    ShownItem,
    compression,
    fill,
    fit,
    fit_tail,
    guardrails_budget,
    recency,
    relevance,
    selective,
    useful_order,
)
from ralph.core.record import SECTIONS, MemoryKind, Record
from ralph.core.tokens import estimate

DATES = st.sampled_from(["", "2025-01-20", "2025-01-21", "2026-02-03T08:15:00Z", "2026-02-03"])
KINDS = st.sampled_from(list(MemoryKind))
WORDS = st.text(st.sampled_from("abcde  xyz\n인증🔥0189.-"), min_size=1, max_size=200)
RECORDS = st.lists(
    st.builds(
        lambda k, t, d: Record(id="mem-1-a", kind=k, text=t, created_at=d), KINDS, WORDS, DATES
    ),
    max_size=25,
)


def _record(kind: MemoryKind, text: str = "x", created: str = "") -> Record:
    return Record(id=f"{kind.value}-1769300000-ab12", kind=kind, text=text, created_at=created)


def _renderer(records: Sequence[Record], calls: list[int] | None = None) -> Render:
    """Sections by kind, one block an entry, and a notice when something is left out."""

    def render(kept: tuple[int, ...], left_out: int) -> str:
        if calls is not None:
            calls.append(len(kept))
        parts = []
        for kind in MemoryKind:
            blocks = [
                f"### entry {i}\n> {records[i].text}\n" for i in kept if records[i].kind is kind
            ]
            parts += [f"## {SECTIONS[kind]}\n", *blocks] if blocks else []
        if left_out:
            parts.append(f"<!-- {len(kept)} of {len(kept) + left_out} shown -->\n")
        return "\n".join(parts)

    return render


class TestOrder:
    def test_kinds_take_turns_and_the_newest_of_each_comes_first(self) -> None:
        records = [
            _record(MemoryKind.CONTEXT, created="2026-01-09"),
            _record(MemoryKind.FIX, created="2025-01-01"),
            _record(MemoryKind.FIX, created="2026-01-01"),
            _record(MemoryKind.FIX, created=""),
            _record(MemoryKind.PATTERN, created="2026-01-02"),
            _record(MemoryKind.PATTERN, created="2026-01-02"),
            _record(MemoryKind.DECISION, created="2024-01-01"),
        ]
        assert useful_order(records) == [2, 6, 5, 0, 1, 4, 3]

    @given(RECORDS)
    def test_every_record_has_one_place(self, records: list[Record]) -> None:
        order = useful_order(records)
        assert sorted(order) == list(range(len(records)))
        first = [records[i].kind for i in order[: len({record.kind for record in records})]]
        assert first == [kind for kind in TURNS if kind in first]


class TestFill:
    @given(RECORDS, st.data())
    def test_only_what_does_not_fit_is_left_out(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        costs = [data.draw(st.integers(1, 60)) for _ in records]
        budget = data.draw(st.integers(1, 400))
        shown = fill(records, costs, budget)
        spent = sum(costs[index] for index in shown)
        assert list(shown) == sorted(set(shown))
        assert spent <= budget
        assert all(
            spent + costs[index] > budget for index in range(len(records)) if index not in shown
        )

    @given(RECORDS, st.data())
    def test_no_kind_starves_when_the_smallest_of_each_would_fit(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        costs = [data.draw(st.integers(1, 60)) for _ in records]
        kinds = {record.kind for record in records}
        budget = sum(
            min(c for c, r in zip(costs, records, strict=True) if r.kind is kind) for kind in kinds
        )
        assume(budget)
        kept = fill(records, costs, budget + data.draw(st.integers(0, 100)))
        assert {records[i].kind for i in kept} == kinds

    @pytest.mark.parametrize("budget", [0, None])
    def test_no_budget_keeps_everything(self, budget: int | None) -> None:
        records = [_record(MemoryKind.FIX)] * 3
        assert fill(records, [10**6] * 3, budget) == (0, 1, 2)

    def test_an_entry_that_does_not_fit_is_skipped_and_smaller_ones_still_go_in(self) -> None:
        records = [_record(MemoryKind.FIX, created=f"2026-01-0{day}") for day in (1, 2, 3, 4)]
        assert fill(records, [5, 500, 6, 7], 20) == (0, 2, 3)


class TestFit:
    @given(RECORDS, st.integers(1, 600))
    def test_the_text_never_estimates_above_the_budget(
        self, records: list[Record], budget: int
    ) -> None:
        render = _renderer(records)
        text, shown = fit(records, budget, render)
        assert estimate(text) <= budget
        assert (text, shown) == fit(records, budget, render)
        if text or len(shown) == len(records):
            assert text == render(shown, len(records) - len(shown))
        else:
            assert estimate(render((), len(records))) > budget
            assert shown == ()

    @given(RECORDS)
    def test_what_fits_is_unchanged(self, records: list[Record]) -> None:
        render = _renderer(records)
        whole = render(tuple(range(len(records))), 0)
        everything = tuple(range(len(records)))
        assert fit(records, 0, render) == (whole, everything)
        assert fit(records, None, render) == (whole, everything)
        assert fit(records, max(1, estimate(whole)), render) == (whole, everything)

    def test_nothing_is_shown_when_not_even_the_notice_fits(self) -> None:
        records = [_record(MemoryKind.FIX, "a long story " * 50)] * 2
        assert fit(records, 3, _renderer(records)) == ("", ())

    def test_only_the_notice_is_shown_when_no_entry_fits(self) -> None:
        records = [_record(MemoryKind.FIX, "a long story " * 50)] * 2
        assert fit(records, 30, _renderer(records)) == ("<!-- 0 of 2 shown -->\n", ())

    def test_twenty_thousand_records_take_a_handful_of_small_renderings(self) -> None:
        records = [
            _record(
                kind,
                f"entry {n} says why the queue in src/q{n}.py must be drained first " * (1 + n % 5),
            )
            for n, kind in enumerate(list(MemoryKind) * 5_000)
        ]
        calls: list[int] = []
        text, shown = fit(records, 2_000, _renderer(records, calls))
        assert 1_800 <= estimate(text) <= 2_000
        assert {records[i].kind for i in shown} == set(MemoryKind)
        assert len(calls) <= 12
        assert max(calls) <= 200

    def test_a_renderer_that_adds_more_than_expected_is_cut_down_in_few_steps(self) -> None:
        records = [_record(MemoryKind.FIX, f"short {n}") for n in range(3_000)]
        calls: list[int] = []

        def render(kept: tuple[int, ...], left_out: int) -> str:
            calls.append(len(kept))
            return "word " * len(kept) ** 2 + f"({left_out} more)" * bool(left_out)

        text, shown = fit(records, 5_000, render)
        assert estimate(text) <= 5_000
        assert shown
        assert len(calls) <= 25


class TestShare:
    @pytest.mark.parametrize(
        ("budget", "cost", "others", "expected"),
        [(2000, 300, 9000, 300), (2000, 5000, 9000, 1000), (2000, 5000, 500, 1500), (2000, 5000, 0, 2000),
         (0, 300, 5, 0)],
    )  # fmt: skip
    def test_guardrails_have_half_and_what_others_leave(
        self, budget: int, cost: int, others: int, expected: int
    ) -> None:
        assert guardrails_budget(budget, cost, others) == expected

    @given(st.integers(1, 5000), st.integers(0, 5000), st.integers(0, 5000))
    def test_a_share_of_a_limit_is_never_unlimited(
        self, budget: int, cost: int, others: int
    ) -> None:
        assert 1 <= guardrails_budget(budget, cost, others) <= budget


PAD = """# Scratchpad

## Done ##

- wrote the parser, it reads every sample
- checked the line ends

## Next

Run the slow tests tonight.

```sh
# not a heading
make soak
```

Then ask about the name.
"""


class TestTail:
    @given(
        st.one_of(messy("# Plan\n", "## Next\n", "- done\n", "\n\n"), st.text()), st.integers(0, 60)
    )
    @example("```" + "x" * 500 + "\n" + "a\n" * 50, 30)
    def test_the_tail_is_within_the_budget_and_made_of_whole_lines_where_one_fits(
        self, text: str, budget: int
    ) -> None:
        kept, _ = fit_tail(text, budget)
        assert (kept, _) == fit_tail(text, budget)
        if not budget or estimate(text) <= budget:
            assert kept == text
            return
        assert estimate(kept) <= budget
        if "\n" not in kept and text.rstrip().endswith(kept):
            return  # the end of a last line that is too long
        assert text.endswith(kept)
        assert not kept or text[: len(text) - len(kept)].endswith("\n")

    def test_it_begins_at_a_heading_and_names_what_is_missing(self) -> None:
        kept, missing = fit_tail(PAD, estimate(PAD) - 12)
        assert kept == PAD[PAD.index("## Next") :]
        assert missing == ("Scratchpad", "Done")

    def test_it_begins_after_a_blank_line_where_there_is_no_heading(self) -> None:
        text = "one line\n" * 5 + "\n" + "another line\n" * 5
        kept, missing = fit_tail(text, estimate(text) - 5)
        assert kept == "another line\n" * 5
        assert missing == ()

    def test_it_does_not_begin_inside_a_fence_when_enough_comes_after_it(self) -> None:
        text = "```\n" + "code\n" * 10 + "```\n" + "words after the fence\n" * 12
        assert fit_tail(text, estimate(text) - 8)[0] == "words after the fence\n" * 12

    def test_a_comment_in_a_fence_is_not_a_heading(self) -> None:
        assert "not a heading" not in fit_tail(PAD, 8)[1]

    @pytest.mark.parametrize(
        "text", ["word " * 500, "# Title\n" + "word " * 500, "word " * 500 + "\n\n\n"]
    )
    def test_of_a_last_line_that_is_too_long_the_last_words_are_kept(self, text: str) -> None:
        kept = fit_tail(text, 20)[0]
        assert kept.startswith("word")
        assert text.rstrip().endswith(kept)
        assert 10 <= estimate(kept) <= 20


Trim = Callable[[Sequence[BudgetItem], int], tuple[ShownItem, ...]]

COSTS = st.lists(st.integers(1, 60), min_size=1, max_size=3).map(lambda costs: tuple(sorted(costs)))
ITEM_DATES = st.sampled_from(["", "2025-01-20", "2025-01-21", "2026-02-03T08:15:00Z"])
ITEM_KINDS = st.sampled_from(["error", "success", "note", "tool_use", "fix", "context"])
ITEMS = st.lists(st.builds(BudgetItem, COSTS, ITEM_DATES, st.floats(0, 1), ITEM_KINDS), max_size=12)
BUDGETS = st.integers(1, 400)
ALL = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


class TestEveryStrategy:
    @ALL
    @given(items=ITEMS, budget=BUDGETS)
    def test_whole_items_within_the_budget_each_once(
        self, strategy: Trim, items: list[BudgetItem], budget: int
    ) -> None:
        done = strategy(items, budget)
        assert sum(item.tokens for item in done) <= budget
        assert all(each.tokens == items[each.index].costs[each.layer - 1] for each in done)
        assert len({each.index for each in done}) == len(done)

    @ALL
    @given(items=ITEMS, budget=BUDGETS, more=st.integers(1, 200))
    def test_a_larger_budget_never_keeps_fewer_tokens(
        self, strategy: Trim, items: list[BudgetItem], budget: int, more: int
    ) -> None:
        kept, fewer = (
            sum(item.tokens for item in strategy(items, size)) for size in (budget + more, budget)
        )
        assert kept >= fewer

    @ALL
    @given(items=ITEMS)
    def test_no_limit_is_as_good_as_a_very_large_one(
        self, strategy: Trim, items: list[BudgetItem]
    ) -> None:
        assert strategy(items, 0) == strategy(items, 10**6)

    @ALL
    def test_nothing_gives_nothing(self, strategy: Trim) -> None:
        assert strategy([], 10) == ()


class TestRecency:
    @given(ITEMS, BUDGETS)
    def test_what_is_left_out_would_not_fit_beside_what_is_newer(
        self, items: list[BudgetItem], budget: int
    ) -> None:
        done = recency(items, budget)
        for index in {*range(len(items))} - {item.index for item in done}:
            newer = [
                e.tokens
                for e in done
                if (items[e.index].date, e.index) > (items[index].date, index)
            ]
            assert sum(newer) + items[index].costs[-1] > budget

    def test_the_newest_comes_first_and_the_unknown_date_last(self) -> None:
        items = [
            BudgetItem((1,), ""),
            BudgetItem((1,), "2025-01-01"),
            BudgetItem((1,), "2026-01-01"),
            BudgetItem((1,), "2026-01-01"),
        ]
        assert [each.index for each in recency(items, 10)] == [3, 2, 1, 0]


class TestRelevance:
    @given(ITEMS, BUDGETS)
    def test_what_hardly_relates_is_never_shown_and_the_best_comes_first(
        self, items: list[BudgetItem], budget: int
    ) -> None:
        scores = [items[each.index].score for each in relevance(items, budget)]
        best = max((item.score for item in items), default=0)
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 and score >= RELATED * best for score in scores)

    def test_detail_is_given_to_the_best_first_and_lines_to_all(self) -> None:
        items = [
            BudgetItem((10, 50, 90), score=0.5),
            BudgetItem((10, 50, 90), score=0.9),
            BudgetItem((10,), score=0.8),
        ]
        assert [(each.index, each.layer) for each in relevance(items, 150)] == [
            (1, 3),
            (2, 1),
            (0, 2),
        ]
        assert [each.layer for each in relevance(items, 30)] == [1, 1, 1]


class TestCompression:
    @given(ITEMS, BUDGETS)
    def test_an_item_goes_only_when_all_that_stay_are_on_one_line(
        self, items: list[BudgetItem], budget: int
    ) -> None:
        done = compression(items, budget)
        if len(done) < len(items):
            assert all(each.layer == 1 for each in done)

    def test_the_oldest_is_shortened_first(self) -> None:
        items = [
            BudgetItem((5, 20), "2026-01-01"),
            BudgetItem((5, 20), "2024-01-01"),
            BudgetItem((5, 20), "2025-01-01"),
        ]
        assert [(each.index, each.layer) for each in compression(items, 45)] == [
            (0, 2),
            (2, 2),
            (1, 1),
        ]
        assert [(each.index, each.layer) for each in compression(items, 10)] == [(0, 1), (2, 1)]


class TestSelective:
    @given(ITEMS, BUDGETS)
    def test_only_how_things_ended_is_kept_and_in_short(
        self, items: list[BudgetItem], budget: int
    ) -> None:
        done = selective(items, budget)
        assert all(items[each.index].kind in KEY_POINTS for each in done)
        assert all(each.layer <= 2 for each in done)
