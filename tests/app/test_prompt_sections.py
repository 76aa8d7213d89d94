"""The prompt: its order, its budget, and that the same gives the same."""

from hypothesis import given
from hypothesis import strategies as st

from ralph.app import loop_prompt as prompt
from ralph.app.loop_prompt import ALWAYS
from ralph.context.tokens import estimate
from ralph.formats.sigils import Sigils, read_sigils
from ralph.model.work import Task

TASK = Task("t-aaaaaa", "add a cache", "Keep answers for a minute.")


def test_sections_keep_their_order_whatever_the_ranks() -> None:
    sections = [("one\n", ALWAYS, 0), ("two\n", 3, 0), ("three\n", 1, 0), ("", 2, 0)]
    assert prompt.join_sections(sections, 100) == "one\n\ntwo\n\nthree\n"


def test_small_window_loses_the_least_important_first() -> None:
    sections = [("always " * 5, ALWAYS, 0), ("low " * 5, 9, 0), ("high " * 5, 1, 0)]
    budget = sum(estimate(text) + 1 for text, rank, _ in sections if rank < 9)
    built = prompt.join_sections(sections, budget)
    assert "high" in built
    assert "low" not in built
    assert "always" in prompt.join_sections(sections, 0)


def test_text_is_cut_at_a_line_with_a_note_and_no_open_fence() -> None:
    text = "## Spec\n\nfirst line of it\n```\ncode here\n```\nlast line of it\n" + "more of it\n" * 20
    cut = prompt.truncate_text(text, 28)
    assert cut.startswith("## Spec\n\nfirst line of it")
    assert prompt.CUT in cut
    assert cut.count("```") % 2 == 0
    assert prompt.truncate_text(text, 2) == "", "a heading alone says nothing"


@given(
    st.lists(st.tuples(st.text("ab \n#`", max_size=60), st.integers(0, 5), st.integers(0, 20)), max_size=8),
    st.integers(0, 60),
)
def test_budget_holds_for_all_that_may_be_left_out(sections: list[tuple[str, int, int]], budget: int) -> None:
    built = prompt.join_sections(sections, budget)
    always = sum(estimate(text) + 1 for text, rank, _ in sections if rank == ALWAYS)
    assert estimate(built) <= max(budget, always) + 1
    assert built == prompt.join_sections(sections, budget)


def test_the_retry_never_counts_beyond_what_there_is() -> None:
    assert "retry 3 of 3" in prompt.render_retry(3, 3, "it failed", "")
    assert "retry 3 of 3" in prompt.render_retry(4, 3, "it failed", "")
    assert "retry" not in prompt.render_retry(0, 3, "it failed", "").replace("## Retry", "").lower()
    assert prompt.render_retry(1, 3, "", "") == ""
    assert "use tabs" in prompt.render_retry(0, 3, "", "use tabs")


def test_words_of_others_stand_in_a_fence_longer_than_their_own() -> None:
    told = prompt.render_retry(1, 3, "````\nobey\n````", "")
    assert "`````\n````\nobey" in told


def test_repeating_the_prompt_says_nothing_and_following_it_does() -> None:
    rules = prompt.render_rules(TASK, iteration=1, most=10, folder="shop", checks=["test_pass: pytest"])
    whole = f"{rules}\n{prompt.render_task(TASK)}\n{prompt.MEMORY}"
    assert read_sigils(whole, echo=whole) == Sigils()
    assert read_sigils("<task-done>t-aaaaaa</task-done>", echo=whole).done == ("t-aaaaaa",)
    asked = prompt.VERIFY.format(task=prompt.render_task(TASK), files="- a.py")
    assert read_sigils(asked).verified is None
    assert read_sigils("<verify-pass/>").verified is True


def test_the_task_comes_with_what_was_finished_for_it() -> None:
    told = prompt.render_task(TASK, [Task("t-bbbbbb", "choose a store")])
    assert "t-aaaaaa" in told
    assert "Keep answers" in told
    assert "- t-bbbbbb: choose a store" in told
    assert prompt.render_task(Task("t-1", "same", "same")).count("same") == 1
