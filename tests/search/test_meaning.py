"""Vectors of texts: chunks, and how rows rest as bytes."""

import math
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.search import meaning
from ralph.testing import HashEmbedder

np = pytest.importorskip("numpy", reason="the local extra is not installed")


def test_importing_the_modules_imports_nothing_slow() -> None:
    slow = "{'numpy', 'ssl', 'http'} & set(sys.modules)"
    code = f"import sys, ralph.search.embedders, ralph.testing; sys.exit(bool({slow}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    again = np.stack([np.frombuffer(row, "<f4", 1) * np.frombuffer(row, "i1", offset=4) for row in packed])
    assert np.linalg.norm(again, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    assert (again * rows).sum(axis=1).min() > 0.9995


def test_packing_survives_zeros_and_no_rows() -> None:
    assert [row[4:] for row in meaning.pack(np.zeros((2, 8), dtype=np.float32))] == [b"\0" * 8] * 2
    assert meaning.pack(HashEmbedder().embed([])) == []


def test_packed_bytes_are_the_same_on_every_machine() -> None:
    packed = meaning.pack(np.array([[0.6, -0.8]], dtype=np.float32))
    assert packed == [struct.pack("<fbb", 1 / math.hypot(95, 127), 95, -127)]


def test_the_fake_embedder_is_the_same_everywhere() -> None:
    row = HashEmbedder(8).embed(["Lock the folder, lock!"])[0]
    assert HashEmbedder(8).embed(["lock THE folder lock"]).shape == (1, 8)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)
    assert row.tolist() == HashEmbedder(8).embed(["Lock the folder, lock!"])[0].tolist()
