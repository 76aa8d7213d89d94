"""Vectors: chunks, the stored form, what is near, and damaged files."""

import math
import random
import struct
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.search import vectors
from ralph.testing import HashEmbedder

np = pytest.importorskip("numpy", reason="the local extra is not installed")


def test_importing_the_modules_imports_nothing_slow() -> None:
    slow = "{'numpy', 'ssl', 'http'} & set(sys.modules)"
    code = f"import sys, ralph.search.embeddings, ralph.testing; sys.exit(bool({slow}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_short_text_is_one_chunk_and_a_blank_one_is_none() -> None:
    assert vectors.split_chunks(" short ", 10) == ("short",)
    assert vectors.split_chunks(" \n ", 10) == ()


def test_a_long_text_is_cut_at_the_coarsest_break_that_fits() -> None:
    assert vectors.split_chunks("One para here.\n\nAnother line\nand more", 22) == (
        "One para here.",
        "Another line\nand more",
    )
    assert vectors.split_chunks("First one here. Second one", 20) == (
        "First one here.",
        "Second one",
    )
    assert vectors.split_chunks("abcdefghij" * 2, 8) == ("abcdefgh", "ijabcdef", "ghij")


@given(
    st.text(alphabet=st.sampled_from("ab .\n。é🔥"), max_size=200),
    st.integers(min_value=1, max_value=30),
)
def test_chunks_lose_nothing_but_blanks_and_keep_the_limit(text: str, limit: int) -> None:
    pieces = vectors.split_chunks(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_packing_quarters_the_size_and_keeps_direction_and_length() -> None:
    rows = vectors.normalize_rows(np.random.default_rng(7).normal(size=(50, 384)))
    packed = vectors.quantize(rows)
    assert {len(row) for row in packed} == {384 + 4}
    again = np.stack(
        [np.frombuffer(row, "<f4", 1) * np.frombuffer(row, "i1", offset=4) for row in packed]
    )
    assert np.linalg.norm(again, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    assert (again * rows).sum(axis=1).min() > 0.9995


def test_packing_survives_zeros_and_no_rows() -> None:
    assert [row[4:] for row in vectors.quantize(np.zeros((2, 8), dtype=np.float32))] == [
        b"\0" * 8
    ] * 2
    assert vectors.quantize(HashEmbedder().embed([])) == []


def test_packed_bytes_are_the_same_on_every_machine() -> None:
    packed = vectors.quantize(np.array([[0.6, -0.8]], dtype=np.float32))
    assert packed == [struct.pack("<fbb", 1 / math.hypot(95, 127), 95, -127)]


def test_the_fake_embedder_is_the_same_everywhere() -> None:
    row = HashEmbedder(8).embed(["Lock the folder, lock!"])[0]
    assert HashEmbedder(8).embed(["lock THE folder lock"]).shape == (1, 8)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)
    assert row.tolist() == HashEmbedder(8).embed(["Lock the folder, lock!"])[0].tolist()


TEXTS = {
    "a": ["the session lock is taken on the folder"],
    "b": ["bananas are yellow"],
    "c": ["nothing of the kind", "a lock on the folder of the session"],
    "d": [],
}


def rows(*texts: str) -> list[bytes]:
    return vectors.quantize(HashEmbedder().embed(texts))


STORED = {name: b"".join(rows(*texts)) for name, texts in TEXTS.items()}


def near(text: str, stored: Mapping[str, bytes] = STORED) -> dict[str, float]:
    return vectors.cosines(stored, HashEmbedder().embed([text]))


def test_a_content_is_as_near_as_its_best_row() -> None:
    found = near("lock on the folder of the session")
    assert found["c"] > found["a"] > found.get("b", 0)
    assert "d" not in found
    assert near("bananas are yellow")["b"] == pytest.approx(1, abs=1e-3)
    assert all(-1 <= value <= 1 for value in found.values())


def test_what_is_far_away_has_a_cosine_and_what_the_model_cannot_read_has_none() -> None:
    forward, backward, blank = vectors.quantize(
        np.array([[1, 0], [-1, 0], [0, 0]], dtype=np.float32)
    )
    question = np.array([[1, 0]], dtype=np.float32)
    cosines = vectors.cosines(
        {"same": forward, "far": backward, "blank": blank, "both": blank + backward}, question
    )
    assert cosines == pytest.approx({"same": 1, "far": -1, "both": -1})


def test_a_question_without_words_is_near_to_nothing() -> None:
    assert near("") == {}


def test_nothing_is_near_when_there_are_no_rows() -> None:
    assert near("lock", {}) == near("lock", {"a": b""}) == {}


def test_many_rows_are_compared_as_one_is() -> None:
    texts = [f"word{number} lock" for number in range(5000)]
    cosines = near("word4999 lock", dict(zip(texts, rows(*texts), strict=True)))
    assert cosines["word4999 lock"] == max(cosines.values())
    for name in texts[::500]:
        alone = near("word4999 lock", {"x": rows(name)[0]}).get("x", 0)
        assert cosines.get(name, 0) == pytest.approx(alone, abs=1e-6)


def test_vectors_of_another_size_are_left_out() -> None:
    assert set(near("lock", {"a": rows("lock")[0], "b": b"\0" * 12})) == {"a"}


def test_damaged_numbers_make_no_error_and_no_score_beyond_bounds() -> None:
    chance = random.Random(5)
    for _ in range(300):
        broken = bytearray(STORED["c"])
        for _ in range(20):
            broken[chance.randrange(len(broken))] = chance.choice(
                (0, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        assert all(
            -1 <= value <= 1 for value in near("lock on the folder", {"c": bytes(broken)}).values()
        )
