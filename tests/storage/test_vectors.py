"""The vector cache: what is put is got, and a broken file is made again."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.storage import db
from ralph.storage.vectors import VERSION, VectorCache


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "vectors.db"


@pytest.fixture
def cache(path: Path) -> Iterator[VectorCache]:
    with VectorCache(path) as opened:
        yield opened


def test_what_is_put_is_got_and_the_rest_is_left_out(cache: VectorCache) -> None:
    cache.put("m", {"a": b"\x00\xff", "b": b"2"})
    assert cache.get("m", ["b", "a", "c", "a"]) == {"a": b"\x00\xff", "b": b"2"}
    assert cache.get("m", []) == {}


def test_models_do_not_share_vectors(cache: VectorCache) -> None:
    cache.put("one", {"a": b"1"})
    cache.put("two", {"a": b"2", "b": b"3"})
    assert cache.get("one", ["a", "b"]) == {"a": b"1"}
    assert (cache.all("one"), cache.all("three")) == ({"a": b"1"}, {})
    assert cache.all("two") == {"a": b"2", "b": b"3"}


def test_the_newer_vector_wins(cache: VectorCache) -> None:
    cache.put("m", {"a": b"old"})
    cache.put("m", {"a": b"new"})
    assert cache.get("m", ["a"]) == {"a": b"new"}
    assert len(cache.all("m")) == 1


def test_more_digests_than_one_statement_takes_are_got(cache: VectorCache) -> None:
    vectors = {f"{number:04}": number.to_bytes(2, "big") for number in range(1700)}
    cache.put("m", vectors)
    assert cache.get("m", vectors) == vectors


def test_forgotten_digests_are_gone_for_every_model(cache: VectorCache) -> None:
    cache.put("one", {"a": b"1", "b": b"1"})
    cache.put("two", {"a": b"2"})
    cache.forget(["a", "unknown"])
    cache.forget([])
    assert cache.all("two") == {}
    assert cache.get("one", ["a", "b"]) == {"b": b"1"}


def test_pruning_keeps_what_is_named_and_counts_what_went(cache: VectorCache) -> None:
    cache.put("one", {"a": b"1", "b": b"1", "c": b"1"})
    cache.put("two", {"a": b"2"})
    assert cache.prune({"b", "unknown"}) == 2
    assert cache.get("one", ["a", "b", "c"]) == {"b": b"1"}
    assert cache.prune({"b"}) == 0


def test_vectors_outlive_the_process(path: Path) -> None:
    with VectorCache(path) as first:
        first.put("m", {"a": b"1"})
    with VectorCache(path) as second:
        assert second.get("m", ["a"]) == {"a": b"1"}


def test_two_open_caches_see_each_other(path: Path) -> None:
    with VectorCache(path) as one, VectorCache(path) as two:
        one.put("m", {"a": b"1"})
        two.put("m", {"b": b"2"})
        assert one.get("m", ["a", "b"]) == two.get("m", ["a", "b"]) == {"a": b"1", "b": b"2"}


def test_only_the_owner_may_read_the_file(cache: VectorCache, path: Path) -> None:
    cache.put("m", {"a": b"1"})
    files = list(path.parent.iterdir())
    assert path in files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def another_version(path: Path) -> None:
    connection = db.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def no_table(path: Path) -> None:
    connection = db.connect(path)
    connection.execute("DROP TABLE vectors")
    connection.close()


def overwritten_middle(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(b"this is not a database" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        overwritten_middle,
        another_version,
        no_table,
    ],
    ids=["not a database", "cut off", "overwritten", "another version", "no table"],
)
def test_a_damaged_file_is_made_again_without_a_word(
    path: Path, harm: Callable[[Path], object]
) -> None:
    with VectorCache(path) as cache:
        cache.put("m", {f"{number}": bytes(400) for number in range(100)})
    harm(path)
    with VectorCache(path) as cache:
        assert cache.get("m", ["1"]) == {}
        cache.put("m", {"a": b"1"})
        assert cache.get("m", ["a"]) == {"a": b"1"}
        assert len(cache.all("m")) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_table_that_vanishes_while_open_is_made_again(cache: VectorCache, path: Path) -> None:
    cache.put("m", {"a": b"1"})
    no_table(path)
    cache.put("m", {"b": b"2"})
    assert cache.get("m", ["a", "b"]) == {"b": b"2"}
