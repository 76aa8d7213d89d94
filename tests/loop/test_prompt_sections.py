"""Sections of a prompt within a budget."""

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.budget import TRUNCATED
from ralph.core.tokens import estimate
from ralph.loop import prompt_sections
from ralph.loop.prompt_sections import Section


def test_sections_keep_their_order_whatever_the_ranks() -> None:
    texts = [("one\n", prompt_sections.ALWAYS), ("two\n", 3), ("three\n", 1), ("", 2)]
    sections = [Section(text, rank) for text, rank in texts]
    assert prompt_sections.join_sections(sections, 100) == "one\n\ntwo\n\nthree\n"


def test_small_window_loses_the_least_important_first() -> None:
    texts = [("always " * 5, prompt_sections.ALWAYS), ("low " * 5, 9), ("high " * 5, 1)]
    sections = [Section(text, rank) for text, rank in texts]
    budget = sum(estimate(text) + 1 for text, rank in sections if rank < 9)
    built = prompt_sections.join_sections(sections, budget)
    assert "high" in built
    assert "low" not in built
    assert "always" in prompt_sections.join_sections(sections, 0)


def test_text_is_cut_at_a_line_with_a_note_and_no_open_fence() -> None:
    text = (
        "## Spec\n\nfirst line of it\n```\ncode here\n```\nlast line of it\n" + "more of it\n" * 20
    )
    cut = prompt_sections.truncate_text(text, 28)
    assert cut.startswith("## Spec\n\nfirst line of it")
    assert TRUNCATED in cut
    assert cut.count("```") % 2 == 0
    assert prompt_sections.truncate_text(text, 2) == "", "a heading alone says nothing"


@given(
    st.lists(st.builds(Section, st.text("ab \n#`", max_size=60), st.integers(0, 5)), max_size=8),
    st.integers(0, 60),
)
def test_budget_holds_for_all_that_may_be_left_out(sections: list[Section], budget: int) -> None:
    built = prompt_sections.join_sections(sections, budget)
    always = sum(estimate(text) + 1 for text, rank in sections if rank == prompt_sections.ALWAYS)
    assert estimate(built) <= max(budget, always) + 2  # a text at a seam may cost one more
    assert built == prompt_sections.join_sections(sections, budget)
