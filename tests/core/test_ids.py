"""Ids: what counts as one, what day it stands for, and that derived ones depend on the words alone."""

import re
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core import ids
from ralph.core.errors import Conflict, NotFound


@pytest.mark.parametrize(
    "text",
    ["mem-1705751400-a3f8", "fix-1-a", "decision-22-ZZZZ9", "Übung-3-x", "a_b-1-2", "m2-1-0"],
)
def test_word_digits_and_alphanumerics_are_an_id(text: str) -> None:
    assert ids.ID.fullmatch(text)


@pytest.mark.parametrize(
    "text",
    ["mem", "mem-1", "mem-1-", "mem--a", "-1-a", "1-1-a", "mem-x-a", "a-b-1-c", "mem-1-a-b", "mem-1-é",
     "mem-1-a ", "mem-1-a\n"],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert not ids.ID.fullmatch(text)


@pytest.mark.parametrize("prefix", ["mem", "fix", "pattern"])
def test_a_minted_id_is_an_id_of_today(prefix: str) -> None:
    before = ids.today()
    minted = ids.mint(prefix)
    assert re.fullmatch(rf"{prefix}-\d+-[0-9a-f]{{4}}", minted)
    assert before <= ids.date_of(minted) <= ids.today()


def test_an_id_minted_like_another_keeps_its_prefix_and_day() -> None:
    minted = ids.mint_like("decision-1705751400-zz")
    assert re.fullmatch(r"decision-1705751400-[0-9a-f]{4}", minted)
    assert ids.date_of(minted) == "2024-01-20"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("mem-1705751400-a3f8", "2024-01-20"), ("mem-0-a", ""), ("mem-99999999999999-a", ""), ("sign-x", ""),
        ("mem-" + "9" * 10_000 + "-a", ""), ("", ""), ("mem-1705751400123-a", "2024-01-20"), ("mem-99999999-a", ""),
        ("mem-100000000-a", "1973-03-03"),
    ],
    ids=range(9),
)  # fmt: skip
def test_an_id_gives_the_day_of_its_number_or_none(text: str, day: str) -> None:
    assert ids.date_of(text) == day


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_the_day_of_an_id_fail(text: str) -> None:
    assert ids.date_of(text) == "" or ids.ID.fullmatch(text)


def test_the_moment_is_written_in_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", ids.timestamp())
    assert ids.now().utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Use the Pool!", "use-the-pool"), ("  --a__b--  ", "a-b"), ("C++ & C#", "c-c"), ("인증 먼저", "인증-먼저"),
        ("???", ""),
        ("a" * 100, "a" * 80), ("word " * 20, "-".join(["word"] * 16)), ("x" * 79 + " y", "x" * 79),
        ("x" * 80 + " y", "x" * 80),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_slug_is_lowercase_words_cut_at_a_hyphen(text: str, slug: str) -> None:
    assert ids.slug(text) == slug


@settings(deadline=None)
@given(st.text(), st.integers(1, 40))
def test_a_slug_is_short_and_stays_the_same_when_made_again(text: str, limit: int) -> None:
    made = ids.slug(text, limit)
    assert len(made) <= limit
    assert not made.startswith("-")
    assert not made.endswith("-")
    assert ids.slug(made, limit) == made


@settings(deadline=None)
@given(st.text(st.characters()))
def test_a_derived_id_depends_on_the_words_alone(words: str) -> None:
    assert ids.derived("pat", words) == ids.derived("pat", words)
    assert ids.derived("pat", words) != ids.derived("pat", words + "x")
    assert re.fullmatch(r"pat-[0-9a-f]{8}", ids.derived("pat", words))


def test_short_form_is_the_kind_and_the_shortest_unique_tail() -> None:
    known = [
        "mem-1705751400-a3f8",
        "mem-1705751401-a3f8",
        "mem-1705751401-b000",
        "t-1a2b3c",
        "know-release-steps",
    ]
    assert ids.short_ids(known) == {
        "mem-1705751400-a3f8": "mem-0-a3f8",
        "mem-1705751401-a3f8": "mem-1-a3f8",
        "mem-1705751401-b000": "mem-b000",
        "t-1a2b3c": "t-2b3c",
    }


def test_short_form_finds_its_id_and_an_ambiguous_one_lists_the_candidates() -> None:
    known = ["mem-1705751400-a3f8", "mem-1705751401-a3f8", "fix-1705751400-a3f8", "know-ownership"]
    assert ids.resolve("fix-a3f8", known) == "fix-1705751400-a3f8"
    assert ids.resolve("mem-1705751400-a3f8", known) == "mem-1705751400-a3f8"
    with pytest.raises(Conflict, match="mem-1705751400-a3f8, mem-1705751401-a3f8"):
        ids.resolve("mem-a3f8", known)
    for name in ("mem-3f8", "know-ship", "obs-a3f8", ""):
        with pytest.raises(NotFound):
            ids.resolve(name, known)


@given(
    st.sets(st.from_regex(r"(mem|fix|t)-([0-9]{1,3}-)?[0-9a-f]{4,6}", fullmatch=True), max_size=40)
)
def test_every_short_form_means_its_own_id(known: set[str]) -> None:
    for full, short in ids.short_ids(known).items():
        assert ids.resolve(short, known) == full
