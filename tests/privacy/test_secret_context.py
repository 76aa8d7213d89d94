"""Secrets that only the words before them give away, and runs that the nearest word makes public."""

import string

from hypothesis import given
from hypothesis import strategies as st

from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.privacy import redact


@given(
    st.sampled_from(["key", "api token", "secret", "deepgram", "commit", "hash", "x"]),
    st.sampled_from(
        ["{} {}", "{}: {}", "the {} is {}", "{}\n{}", '{} := f("{}")', "NAME  {}\nprod  {}"]
    ),
    st.text(string.ascii_letters + string.digits + "+/_-", min_size=16, max_size=48),
)
def test_the_pre_filter_fires_wherever_the_context_gives_a_secret_away(
    word: str, syntax: str, run: str
) -> None:
    text = syntax.format(word, run)
    assert redact(text).text == text or needs_rules(text)
