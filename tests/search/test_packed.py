"""Vectors in one piece: what is near, and what becomes of a damaged piece."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.search import meaning, packed
from ralph.testing import HashEmbedder

np = pytest.importorskip("numpy", reason="the local extra is not installed")

TEXTS = {
    "a": ["the session lock is taken on the folder"],
    "b": ["bananas are yellow"],
    "c": ["nothing of the kind", "a lock on the folder of the session"],
    "d": [],
}


def rows(*texts: str) -> list[bytes]:
    return meaning.pack(HashEmbedder().embed(texts))


def piece() -> packed.Packed:
    return packed.pack("hash:64", 64, {name: b"".join(rows(*texts)) for name, texts in TEXTS.items()})


def near(text: str, held: packed.Packed | None = None) -> dict[str, float]:
    return packed.cosines(held or piece(), HashEmbedder().embed([text]))


def test_a_content_is_as_near_as_its_best_row() -> None:
    found = near("lock on the folder of the session")
    assert found["c"] > found["a"] > found.get("b", 0)
    assert "d" not in found
    assert near("bananas are yellow")["b"] == pytest.approx(1, abs=1e-3)
    assert all(0 < value <= 1 for value in found.values())


def test_a_question_without_words_is_near_to_nothing() -> None:
    assert near("") == {}


def test_nothing_is_near_when_there_are_no_rows() -> None:
    for vectors in ({}, {"a": b""}):
        empty = packed.pack("hash:64", 64, vectors)
        assert near("lock", empty) == {}
        assert packed.decode(packed.encode(empty)) == empty


def test_many_rows_are_compared_as_one_is() -> None:
    texts = [f"word{number} lock" for number in range(5000)]
    held = packed.pack("hash:64", 64, dict(zip(texts, rows(*texts), strict=True)))
    found = near("word4999 lock", held)
    assert found["word4999 lock"] == max(found.values())
    for name in texts[::500]:
        alone = packed.pack("hash:64", 64, {"x": rows(name)[0]})
        assert found.get(name, 0) == pytest.approx(near("word4999 lock", alone).get("x", 0), abs=1e-6)


def test_vectors_of_another_size_are_left_out() -> None:
    held = packed.pack("hash:64", 64, {"a": rows("lock")[0], "b": b"\0" * 12})
    assert held.digests == ("a",)


def test_a_piece_reads_back_as_it_was() -> None:
    held = piece()
    assert packed.decode(packed.encode(held)) == held


def test_a_part_of_a_piece_is_none() -> None:
    raw = packed.encode(piece())
    assert all(packed.decode(raw[:size]) is None for size in range(len(raw)))
    assert packed.decode(raw + b"\0") is None


@given(st.binary(max_size=300))
def test_other_bytes_are_no_piece(raw: bytes) -> None:
    assert packed.decode(raw) is None


SAID: dict[str, object] = {"format": 1, "model": "m", "dimensions": 64, "names": 0}
OTHER: list[dict[str, object]] = [
    {"format": 2},
    {"dimensions": 0},
    {"dimensions": None},
    {"dimensions": float("inf")},
    {"names": -9},
    {"names": 9},
]


@pytest.mark.parametrize("shape", [[], None, {"format": 1}, *(SAID | other for other in OTHER)])
def test_a_first_line_that_says_something_else_is_no_piece(shape: object) -> None:
    assert packed.decode(json.dumps(shape).encode() + b"\n") is None
    assert packed.decode(json.dumps(SAID).encode() + b"\n") is not None


def test_damaged_numbers_make_no_error_and_no_score_beyond_bounds() -> None:
    raw = packed.encode(piece())
    chance = random.Random(5)
    for _ in range(300):
        broken = bytearray(raw)
        for _ in range(20):
            broken[chance.randrange(len(raw))] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        held = packed.decode(bytes(broken))
        if held is not None:
            assert all(0 < value <= 1 for value in near("lock on the folder", held).values()) or held.dimensions != 64
