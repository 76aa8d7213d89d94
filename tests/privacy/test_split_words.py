"""A secret behind a copied colour, or split by what nobody sees, is one all the same, for rules and screen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.sampling import examples
from tests.support.secret_samples import TOKENS

from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.privacy import redact, strip_private
from ralph.privacy.redactor import Redactor
from ralph.privacy.word_splitters import view_text

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6"  # made up
SPLITS = ("\x1b]8;;https://a.example/b\x07", "\x1b]8;;https://a.example/b\x1b\\", "\x1b]8;;\x1b\\", "\x1bP1$r0m\x1b\\",
          "\x1b_x\x1b\\", "\x9d0;title\x9c", "\x1b[>4;2m", "\x1b[?25l", "\x1b[=1h", "\x1b[2 q", "\x1b[38:2::1:2:3m",
          "\x1b(B", "\x1b[0m\x1b[K", "\x9b1m", "\u200b", "\u200c", "\u200d", "\u200e", "\u2060", "\ufeff", "\u00ad",
          "\ufe0f", "\u202e", "\r", "\b", "\x00", "\x7f", "\\\n", "\\\r\n", "\\u200b", "\\033[1m", "\\u001b[1m", "\x1b",
          "\u200b\u200b\x1b[1m\r")  # fmt: skip
"""What may stand inside of a word without being seen."""


@for_each("split", SPLITS)
@for_each("before", ["", "see ", "access"])
def test_a_token_that_is_split_is_found_whole(split: str, before: str) -> None:
    first, second, third = TOKEN[:3], TOKEN[3:20], TOKEN[20:]
    # Right behind a word a token may only begin where something was that split them.
    begin = split if before == "access" else ""
    text = f"{before}{begin}{first}{split}{second}{split}{third} done"
    for told in (redact(text).text, Redactor(())(text)):
        assert second not in told
        assert third not in told
        assert told.endswith(" done")
    assert needs_rules(text)


@pytest.mark.parametrize("split", SPLITS)
def test_a_name_that_is_split_still_tells(split: str) -> None:
    for text in (
        f"PASS{split}WORD=hunter2!x9",
        f"PASSWORD={split}hunter2!x9",
        f"PASSWORD{split}=hun{split}ter2!x9",
    ):
        assert "ter2!x9" not in Redactor(())(text)
        assert needs_rules(text)


@pytest.mark.parametrize("split", SPLITS)
def test_a_tag_that_is_split_still_hides(split: str) -> None:
    for opening in (
        f"<{split}private>",
        f"<pri{split}vate>",
        f"<private{split}>",
        f"<p{split}rivat{split}e a='b'>",
    ):
        text = f"before {opening}marmalade</{split}private> after"
        assert strip_private(text) == ("before  after", 1)
        assert Redactor(())(text) == "before  after"
        assert strip_private(f"before {opening}marmalade") == ("before ", 1)
        assert needs_rules(text)


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;<private>marmalade\x07 more", "\x1b]0;<private>marmalade", "\x1b[<private>marmalade",
     "\x9d<\u200bprivate>marmalade\x07", "\x1b]0;<p\u00adrivate>\x07marmalade",
     "\x9b\\u003cprivate>marmalade", "\x1b[&lt;private>marmalade", "\x1b%3Cprivate>marmalade",
     "\x1b(\\u003cprivate>marmalade", "\x98<ＰＲＩＶＡＴＥ>marmalade\x9c",
     "\x1b(<private>marmalade", "\x1bP<private>\x1b\\marmalade", "\x1b]8;;%3Cprivate%3E\x07marmalade"],
)  # fmt: skip
def test_no_code_of_a_terminal_swallows_a_tag(text: str) -> None:
    assert "marmalade" not in strip_private(text)[0]
    assert "marmalade" not in Redactor(())(text)


@settings(max_examples=examples(300, 25))
@given(
    st.lists(
        st.one_of(
            st.sampled_from(SPLITS), st.text(max_size=5), st.sampled_from(["a", "priv", "\x1b]"])
        )
    )
)
def test_each_place_of_a_view_is_the_same_sign_in_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    seen = view_text(text)
    if seen is None:
        return
    for at, sign in enumerate(seen.text):
        start, end = seen.locate(at, at + 1)
        assert text[start:end] == sign
    assert all(0 <= joint <= len(seen.text) for joint in seen.joints)


@settings(max_examples=examples(300, 25))
@given(
    st.sampled_from([token for tokens in TOKENS.values() for token in tokens]),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(SPLITS)), max_size=4),
)
def test_no_kind_of_token_can_be_split_so_that_it_is_not_found(
    token: str, splits: list[tuple[int, str]]
) -> None:
    text = token
    for at, split in sorted(splits, reverse=True):
        text = text[:at] + split + text[at:] if at < len(token) else text
    if redact(f"got {token} back").text == "got " + redact(token).text + " back":
        assert redact(f"got {text} back").text.startswith("got [redacted: ")
