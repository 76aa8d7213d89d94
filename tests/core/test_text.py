"""Lines, fences, comments and bullets: what is markdown, what is an example, what belongs together."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import messy

from ralph.core.bullets import (
    Bullet,
    bullet_marker,
    dedent,
    indentation,
    read_bullets,
    render_bullet,
)
from ralph.core.text import (
    BOM,
    LineRole,
    cut_lines,
    insertion_below,
    is_rule,
    line_problem,
    normalise_text,
    parse_heading,
    scan_lines,
)

texts = messy(
    "- a", "* b", "  c", "```\n", "~~~~\n", "<!-- x", "-->\n", "## H\n", "\t- d\n", "word"
)


def places(text: str) -> str:
    short = {
        LineRole.TEXT: ".",
        LineRole.OPENS: "(",
        LineRole.INSIDE: "i",
        LineRole.UNCLOSED: "u",
        LineRole.CONFLICT: "x",
    }
    return "".join(short[line.role] for line in scan_lines(text))


def found(text: str) -> list[str]:
    return [item.text for item in read_bullets(scan_lines(text))]


@given(texts)
def test_the_lines_are_the_text_cut_at_line_feeds(text: str) -> None:
    all_lines = list(scan_lines(text))
    begin = 1 if text.startswith("\ufeff") else 0
    assert text[:begin] + "".join(text[line.start : line.end] for line in all_lines) == text
    assert [line.number for line in all_lines] == list(range(1, text.count("\n") + 2))
    assert all("\n" not in line.text for line in all_lines)


def test_only_a_line_feed_ends_a_line() -> None:
    assert [line.text for line in scan_lines("a\x0bb\x85c\u2028d\re\r\nf")] == [
        "a\x0bb\x85c\u2028d\re",
        "f",
    ]


def test_a_fence_needs_the_same_mark_and_at_least_its_length_to_close() -> None:
    assert places("````\n```\n~~~~\n`````  \nx") == "(iii."
    assert places("~~~ info ` x\n```\n~~~\nx") == "(ii."
    assert places("```not a fence```\nx") == ".."


def test_a_fence_may_stand_in_a_bullet() -> None:
    assert places("- ```sh\n  - x\n  ```\n- y") == "(ii."
    assert found("- ```sh\n  - x\n  ```\n- y") == ["```sh\n- x\n```", "y"]


def test_what_is_never_closed_hides_nothing_and_is_told() -> None:
    assert places("```\na\n````x\n<!-- b\nc") == "u.uu."
    told = [line_problem(line) for line in scan_lines("a\n```\n<!-- b")]
    assert [(problem.line, problem.code) for problem in told if problem] == [
        (2, "unclosed"),
        (3, "unclosed"),
    ]


def test_comments_begin_at_the_line_and_end_with_the_line_of_their_end() -> None:
    assert places("<!-- a -->\n<!--\n- b\n--> c\nd <!-- e\nf -->") == "((ii.."


def test_conflict_markers_count_only_within_a_conflict() -> None:
    assert (
        places("=======\n<<<<<<< a\nx\n||||||| b\ny\n=======\nz\n>>>>>>> c\n=======\n")
        == ".x.x.x.x.."
    )


def test_headings_are_read_as_markdown_has_them() -> None:
    cases = {
        "# a": (1, "a"),
        "## b ##": (2, "b"),
        "###": (3, ""),
        "## c#": (2, "c#"),
        "##\tx": (2, "x"),
    }
    for text, expected in cases.items():
        assert parse_heading(next(scan_lines(text))) == expected
    for text in ("#a", "####### a", " # a", "a", ""):
        assert parse_heading(next(scan_lines(text))) is None


def test_rules_are_three_marks_of_one_sort() -> None:
    assert all(map(is_rule, ("---", "* * *", "____", "- --")))
    assert not any(map(is_rule, ("--", "--*", "a---", " ---", "***bold***", "")))


def test_bullets_keep_what_is_indented_below_them() -> None:
    assert found("- a\n  b\n\n  c\n    d\n\ne") == ["a\nb\n\nc\n  d"]
    assert found("-   a\n    b\n  - c") == ["a\nb\n- c"]
    assert found("- a\n\t- b\n - c") == ["a\n- b", "c"]


def test_a_line_goes_on_with_a_paragraph_unless_it_begins_something() -> None:
    assert found("- a\nb\n\nc\n- d\n# e") == ["a\nb", "d"]
    assert found("- a\n**B:**\n- c\n1. d\n- e\n| f |\n- g\n---") == ["a", "c", "e", "g"]


def test_an_unindented_fence_ends_a_bullet() -> None:
    assert found("- a\n```\n- b\n```\n- c") == ["a", "c"]


@given(texts)
def test_bullets_are_stretches_of_whole_lines_in_order(text: str) -> None:
    items = list(read_bullets(scan_lines(text)))
    starts = {line.start for line in scan_lines(text)}
    ends = {line.end for line in scan_lines(text)}
    assert all(item.start in starts and item.end in ends and item.text for item in items)
    assert all(one.end <= other.start for one, other in pairwise(items))


words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
bodies = st.lists(
    st.one_of(st.just(""), words, words.map("  {}".format), words.map("- {}".format)), max_size=5
)


@given(
    words,
    bodies,
    words,
    st.sampled_from(["- ", "* ", "  -  ", "-\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_bullet_reads_back_as_it_was_written(
    first: str, body: list[str], last: str, lead: str, newline: str
) -> None:
    text = "\n".join([first, *body, last])
    place = bullet_marker(lead + first)
    assert place is not None
    written = render_bullet(text, newline, lead, place[1])
    assert list(read_bullets(scan_lines(written))) == [
        Bullet(0, len(written), 1, text),
    ]


def test_indentation_counts_tabs_to_the_next_stop() -> None:
    assert [indentation(text) for text in ("a", "  a", "\ta", "  \ta", " \t a")] == [0, 2, 4, 4, 5]
    assert [dedent(text, 2) for text in ("a", "  a", "    a", "\ta", " ", "")] == [
        "a",
        "a",
        "  a",
        "a",
        "",
        "",
    ]


def test_removing_lines_takes_one_of_two_blank_lines_along() -> None:
    assert cut_lines("a\n\nb\n\nc\n", 3, 5) == "a\n\nc\n"
    assert cut_lines("a\r\n\r\nb\r\n\r\nc", 5, 8) == "a\r\n\r\nc"
    assert cut_lines("a\n\nb\n", 3, 5) == "a\n"
    assert cut_lines("a\nb\nc\n", 2, 4) == "a\nc\n"


def test_a_file_that_does_not_end_with_a_line_end_gets_none_by_removing() -> None:
    assert cut_lines("a\nb", 2, 3) == "a"
    assert cut_lines("a\r\n\r\nb", 5, 6) == "a"
    assert cut_lines("\ufeffa\n\nb\n", 1, 3) == "\ufeffb\n"


@given(messy("word\n", "\r\r\n"), st.integers(0, 40), st.sampled_from(["\n", "\r\n"]))
def test_what_is_put_below_words_is_taken_out_without_a_trace(
    text: str, number: int, newline: str
) -> None:
    ends = [
        len(BOM) if text.startswith(BOM) else 0,
        *(line.end for line in scan_lines(text) if not line.blank),
    ]
    place, written = insertion_below(text, ends[number % len(ends)], "- a\n  b", newline)
    if not text.strip(BOM + " \t\r\n"):
        return
    after = text[:place] + written + text[place:]
    start = place + written.index("- a")
    assert after[start - 1 : start] in ("", "\n", BOM)
    assert cut_lines(after, start, start + len("- a\n  b"), apart=True) == text


def test_two_texts_say_the_same_when_only_case_space_ticks_or_a_period_differ() -> None:
    assert normalise_text("Use  `IF`\nnow.") == normalise_text("use if now")
    assert normalise_text("Use it") == normalise_text("Use it!?")
    assert normalise_text("Use it") != normalise_text("Use them")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("One two.", "one  TWO", True),
        ("one\ntwo", "one two!", True),
        ("완료。", "완료", True),
        ("one two", "two one", False),
        ("C++", "C", False),
        ("a-b", "a b", False),
        ("...", "?!", False),
        ("...", "", False),
    ],
)
def test_texts_say_the_same_when_case_spacing_and_final_marks_alone_differ(
    left: str, right: str, same: bool
) -> None:
    assert (normalise_text(left) == normalise_text(right)) is same


@pytest.mark.soak
def test_long_lines_and_many_marks_are_read_in_one_pass() -> None:
    for text in (
        "`" * 1_000_000,
        " " * 1_000_000,
        "```a\n" * 20_000,
        "<!--" * 250_000,
        "- " * 500_000,
        "\n" * 100_000,
    ):
        assert sum(1 for _ in scan_lines(text)) == text.count("\n") + 1
        assert all(item.text for item in read_bullets(scan_lines(text)))
