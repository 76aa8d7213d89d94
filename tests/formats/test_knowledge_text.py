"""The titles, tags, file names and bodies of knowledge entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.knowledge_text import links_in, same_entry, shorten, slug_for


def test_links_stand_outside_code() -> None:
    assert links_in("[[A b]] [[ a  B ]] [[C]]") == ("A b", "C")
    assert links_in("`[[A]]` ``[[B]] ` [[C]]`` `[[D]] [[E]]") == ("D", "E")
    assert links_in("```\n[[A]]\n```\n[[B]]\n<!-- [[C]] -->") == ("B",)
    assert links_in("[[]] [[ ]] [[open [x] [[a\nb]]") == ()


def test_slugs_are_words_of_any_script_joined_by_hyphens() -> None:
    assert slug_for("Cargo bench: needs nightly!", {}) == "cargo-bench-needs-nightly"
    assert slug_for("캐시 무효화", {}) == "캐시-무효화"
    assert slug_for("e\u0301t\u00e9", {}) == "\u00e9t\u00e9"
    assert slug_for("!!!", {}).startswith("entry-")
    assert slug_for("!!!", {}) != slug_for("???", {})
    assert len(slug_for("word " * 40, {})) <= 80
    assert len(slug_for("\U00020000" * 100, {}).encode("utf-8")) <= 240


def test_a_slug_of_another_title_gets_a_number() -> None:
    taken = {"a-b": "A b", "a-b-2": "a/b"}
    assert slug_for("a B", taken) == "a-b"
    assert slug_for("a/b", taken) == "a-b-2"
    assert slug_for("a, b", taken) == "a-b-3"
    long = "x" * 100
    assert slug_for(long, {"x" * 80: "other"}) == "x" * 78 + "-2"


@pytest.mark.parametrize(
    ("one", "tags_one", "other", "tags_other", "same"),
    [
        ("Cache keys", "", "cache  KEYS", "", True),
        ("Cache keys", "a b c", "The cache key", "A b", True),
        ("Cache keys:", "a", "cache keys!", "a", True),
        ("Cache keys", "a b", "The cache key", "a c", False),
        ("Cache keys", "", "The cache key", "", False),
        ("Redis cache", "redis cache", "Redis cache eviction", "redis cache", False),
        ("Cache keys", "a", "Keys", "a", False),
        ("Cache in tests", "a", "Do not cache in tests", "a", False),
        ("SQLite to Postgres", "a", "Postgres to SQLite", "a", False),
        ("C build", "a", "C# build", "a", False),
        ("캐시 키", "a", "캐시 키 만료", "a", False),
        ("!!!", "a", "???", "a", False),
    ],
)
def test_entries_are_the_same_by_title_or_by_its_words_and_tags(
    one: str, tags_one: str, other: str, tags_other: str, same: bool
) -> None:
    assert same_entry(one, tags_one.split(), other, tags_other.split()) is same
    assert same_entry(other, tags_other.split(), one, tags_one.split()) is same


def test_a_long_body_is_cut_between_blocks() -> None:
    first, second = "a " * 299 + "a", "b " * 299 + "b"
    assert shorten(f"{first}\n\n{second}") == f"{first}\n\n[truncated]"
    code = "```\n" + "x\n\n" * 300 + "```"
    assert shorten(f"{first}\n\n{code}\n\nend") == f"{first}\n\n[truncated]"
    assert shorten(first) == first


def test_a_first_block_that_is_too_long_is_cut_at_a_line_else_at_a_word() -> None:
    assert shorten("a b\nc d\ne", 4) == "a b\nc d\n\n[truncated]"
    assert shorten("a b c d e", 3) == "a b c\n\n[truncated]"
    assert shorten("\n\n  a  b c", 2) == "\n\n  a  b\n\n[truncated]"
    assert shorten("```sh\na\nb\nc\n```", 4) == "```sh\na\nb\n```\n\n[truncated]"


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
line = plain.map(lambda text: " ".join(text.split())).filter(bool)
blocks = st.lists(
    st.one_of(line, st.just(""), st.sampled_from(["```", "- a b", "<!--", "-->", "    x  y"])),
    max_size=20,
)


@given(blocks.map("\n".join), st.integers(1, 12))
def test_cutting_twice_is_cutting_once_and_never_invents_words(body: str, words: int) -> None:
    short = shorten(body, words)
    assert shorten(short, words) == short
    if short != body:
        kept = short.removesuffix("\n\n[truncated]")
        assert short.endswith("\n\n[truncated]")
        assert len(kept.split()) <= words
        assert body.startswith(kept) or body.startswith(kept.rpartition("\n")[0])
