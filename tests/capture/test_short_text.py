"""A long text keeps its two ends and says what is missing; a short one stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.secret_samples import TOKENS

from ralph.capture.short_text import LIMIT, first_line, trim
from ralph.privacy.privacy import find_secrets, redact

TEXTS = st.lists(
    st.sampled_from(["a", "word ", "\n", "[redacted: api key]", "x" * 90, "é", "line of text\n"])
).map("".join)


@given(TEXTS, st.integers(0, 400))
def test_a_text_is_never_longer_than_its_limit_and_a_short_one_is_untouched(
    text: str, limit: int
) -> None:
    cut = trim(text, limit)
    assert len(cut) <= limit or cut == text[:limit]
    assert cut == text or len(text) > limit


@given(TEXTS.map(lambda text: text * 40), st.integers(200, 400))
def test_what_is_left_are_the_two_ends_and_the_note_counts_the_rest(text: str, limit: int) -> None:
    cut = trim(text, limit)
    if cut == text:
        return
    head, _, rest = cut.partition("[... ")
    count, _, tail = rest.partition(" characters left out ...]")
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail.removeprefix("\n"))
    missing = len(text) - int(count.replace(",", ""))
    assert missing - 2 <= len(head.removesuffix("\n")) + len(tail.removeprefix("\n")) <= missing


@given(TEXTS.map(lambda text: text * 40), st.integers(200, 400))
def test_a_marker_is_never_cut_in_two(text: str, limit: int) -> None:
    cut = trim(text, limit)
    assert cut.replace("[redacted: api key]", "").count("redacted") == 0


def test_lines_stay_whole_where_they_are_not_too_long() -> None:
    lines = [f"line {number} of the log" for number in range(1000)]
    cut = trim("\n".join(lines))
    assert set(cut.split("\n")) - set(lines) == {
        line for line in cut.split("\n") if line.startswith("[... ")
    }
    assert cut.startswith("line 0 of")
    assert cut.endswith("line 999 of the log")
    assert LIMIT * 0.9 < len(cut) <= LIMIT


@pytest.mark.parametrize("token", [TOKENS["github token"][0], TOKENS["private key"][0]])
def test_a_secret_at_the_cut_is_gone_because_redaction_comes_first(token: str) -> None:
    for at in range(1000, 1200, 7):
        text = "a " * (at // 2) + token + " b" * 2000
        assert find_secrets(text)
        assert token[:12] not in trim(redact(text).text)


def test_the_first_line_that_says_something_is_cut_with_dots() -> None:
    assert first_line("\n  \n  a   b\nc", 20) == "a b"
    assert first_line("x" * 50, 20) == "x" * 17 + "..."
    assert first_line("", 20) == ""
    assert first_line("key is [redacted: api key] and more", 20) == "key is..."
