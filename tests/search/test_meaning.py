"""Vectors of texts: nearness, chunks, packing, and the way through the cache."""

import math
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.search import meaning
from ralph.search.embedders import ProviderFailed
from ralph.store.vectors import VectorCache
from ralph.testing import HashEmbedder

np = pytest.importorskip("numpy", reason="the local extra is not installed")

TEXTS = [
    "the session lock is taken on the folder",
    "bananas are yellow",
    "a lock on the folder of the session",
]


def embedded(*texts: str) -> meaning.Matrix:
    return HashEmbedder().embed(texts)


def test_importing_the_modules_imports_nothing_slow() -> None:
    slow = "{'numpy', 'ssl', 'http'} & set(sys.modules)"
    code = f"import sys, ralph.search.embedders, ralph.testing; sys.exit(bool({slow}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_texts_with_the_same_words_are_nearer_than_others() -> None:
    near = meaning.cosines(embedded("session lock folder"), embedded(*TEXTS))
    assert near[1] < near[0]
    assert near[1] < near[2]
    assert all(-1.0001 <= value <= 1.0001 for value in near)


def test_a_text_is_as_near_as_can_be_to_itself() -> None:
    assert meaning.cosines(embedded(TEXTS[0])[0], embedded(*TEXTS))[0] == pytest.approx(1, abs=1e-5)


def test_a_text_without_words_is_near_to_nothing() -> None:
    assert meaning.cosines(embedded(""), embedded(*TEXTS)) == [0, 0, 0]


def test_nothing_is_near_when_there_are_no_rows() -> None:
    assert meaning.cosines(embedded("x"), embedded()) == []
    assert meaning.nearest(embedded("x"), embedded(), 3) == []


def test_the_nearest_come_first_and_equals_in_row_order() -> None:
    rows = embedded("x", "lock", "y", "lock")
    found = meaning.nearest(embedded("lock"), rows, 2)
    assert [row for row, _ in found] == [1, 3]
    assert meaning.nearest(embedded("lock"), rows, 0) == []


def test_a_document_counts_as_much_as_its_best_chunk() -> None:
    assert meaning.best([0.1, 0.9, 0.3], [0, 0, 2], 3) == [0.9, None, 0.3]


def test_a_short_text_is_one_chunk_and_a_blank_one_is_none() -> None:
    assert meaning.chunks(" short ", 10) == ("short",)
    assert meaning.chunks(" \n ", 10) == ()


def test_a_long_text_is_cut_at_the_coarsest_break_that_fits() -> None:
    assert meaning.chunks("One para here.\n\nAnother line\nand more", 22) == (
        "One para here.",
        "Another line\nand more",
    )
    assert meaning.chunks("First one here. Second one", 20) == ("First one here.", "Second one")
    assert meaning.chunks("abcdefghij" * 2, 8) == ("abcdefgh", "ijabcdef", "ghij")


@given(st.text(alphabet=st.sampled_from("ab .\n。é🔥"), max_size=200), st.integers(min_value=1, max_value=30))
def test_chunks_lose_nothing_but_blanks_and_keep_the_limit(text: str, limit: int) -> None:
    pieces = meaning.chunks(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_packing_quarters_the_size_and_keeps_direction_and_length() -> None:
    rows = meaning.unit(np.random.default_rng(7).normal(size=(50, 384)))
    packed = meaning.pack(rows)
    assert {len(row) for row in packed} == {384 + 4}
    again = meaning.unpack(packed)
    assert again.dtype == np.float32
    assert np.linalg.norm(again, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    assert (again * rows).sum(axis=1).min() > 0.9995


def test_packing_survives_zeros_and_no_rows() -> None:
    assert meaning.unpack(meaning.pack(np.zeros((2, 8), dtype=np.float32))).tolist() == [[0] * 8] * 2
    assert meaning.unpack(meaning.pack(embedded())).size == 0


def test_packed_bytes_are_the_same_on_every_machine() -> None:
    packed = meaning.pack(np.array([[0.6, -0.8]], dtype=np.float32))
    assert packed == [struct.pack("<fbb", 1 / math.hypot(95, 127), 95, -127)]


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "vectors.db")


def test_a_text_is_embedded_once(cache: VectorCache) -> None:
    embedder = HashEmbedder()
    first = meaning.remembered(embedder, cache, [*TEXTS, TEXTS[0]])
    second = meaning.remembered(embedder, cache, [TEXTS[0], "new", *TEXTS[1:]])
    assert embedder.texts == [*TEXTS, "new"]
    assert first[3].tolist() == first[0].tolist() == second[0].tolist()
    assert cache.count("hash:64") == 4


def test_no_texts_need_no_embedder(cache: VectorCache) -> None:
    embedder = HashEmbedder()
    assert meaning.remembered(embedder, cache, []).size == 0
    assert embedder.texts == []


def test_kept_vectors_of_another_size_are_embedded_again(cache: VectorCache) -> None:
    embedder = HashEmbedder()
    cache.put(embedder.name, {meaning.digest_of(TEXTS[0]): b"\0" * 12, meaning.digest_of(TEXTS[1]): b""})
    assert meaning.remembered(embedder, cache, TEXTS).shape == (3, 64)
    assert embedder.texts == TEXTS


class LateEmbedder(HashEmbedder):
    """It learns its size from its first answer, as servers' embedders do, and can break down after a few texts."""

    def __init__(self, breaks_after: int = 10**6) -> None:
        super().__init__(32)
        self.size, self.dimensions, self.breaks_after = 32, 0, breaks_after

    def embed(self, texts: Sequence[str]) -> meaning.Matrix:
        if len(self.texts) >= self.breaks_after:
            raise ProviderFailed("broken")
        self.dimensions = self.size
        return super().embed(texts)


def test_a_size_that_turns_out_different_replaces_the_kept_vectors(cache: VectorCache) -> None:
    cache.put("hash:32", {meaning.digest_of(text): b"\0" * 12 for text in TEXTS[:2]})
    assert meaning.remembered(LateEmbedder(), cache, TEXTS).shape == (3, 32)


def test_kept_vectors_are_enough_for_an_embedder_that_does_not_know_its_size(cache: VectorCache) -> None:
    meaning.remembered(LateEmbedder(), cache, TEXTS)
    embedder = LateEmbedder(breaks_after=0)
    assert meaning.remembered(embedder, cache, TEXTS).shape == (3, 32)


def test_what_was_embedded_before_a_failure_is_kept(cache: VectorCache) -> None:
    texts = [f"text {number}" for number in range(meaning.BATCH + 10)]
    with pytest.raises(ProviderFailed):
        meaning.remembered(LateEmbedder(breaks_after=1), cache, texts)
    embedder = LateEmbedder()
    assert meaning.remembered(embedder, cache, texts).shape == (meaning.BATCH + 10, 32)
    assert embedder.texts == texts[meaning.BATCH :]


def test_the_fake_embedder_is_the_same_everywhere() -> None:
    row = HashEmbedder(8).embed(["Lock the folder, lock!"])[0]
    assert HashEmbedder(8).embed(["lock THE folder lock"]).shape == (1, 8)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)
    assert row.tolist() == HashEmbedder(8).embed(["Lock the folder, lock!"])[0].tolist()
