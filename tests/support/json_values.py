"""Hypothesis strategies for the text and JSON values that a log can store."""

from hypothesis import strategies as st

# All characters except high surrogates. Low surrogates stand for undecodable bytes, and a pair of
# surrogates would be one character.
letters = st.characters(exclude_categories=["Cs"]) | st.characters(
    min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"]
)
words = st.text(letters, max_size=8)
names = words.filter(bool)
lists = st.lists(words, max_size=3).map(tuple)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        words,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
