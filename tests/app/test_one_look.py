"""Several questions, one look at the files."""

from pathlib import Path

from ralph import paths
from ralph.app import index, memory


def count(root: Path) -> int:
    return index.ask(root, lambda connection: int(connection.execute("SELECT count(*) FROM records").fetchone()[0]))


def test_within_one_look_every_question_has_the_same_answer(tmp_path: Path) -> None:
    memory.add(tmp_path, "one")
    with index.one_look():
        assert count(tmp_path) == 1
        memory.add(tmp_path, "two")
        assert count(tmp_path) == 1
    assert count(tmp_path) == 2


def test_a_look_within_a_look_is_the_same_one(tmp_path: Path) -> None:
    memory.add(tmp_path, "one")
    with index.one_look():
        with index.one_look():
            assert count(tmp_path) == 1
        memory.add(tmp_path, "two")
        with index.one_look():
            assert count(tmp_path) == 1
    assert count(tmp_path) == 2


def test_another_project_is_looked_at_for_itself(tmp_path: Path) -> None:
    for name in ("a", "b"):
        memory.add(tmp_path / name, "one")
    with index.one_look():
        assert (count(tmp_path / "a"), count(tmp_path / "b")) == (1, 1)


def test_a_damaged_index_is_made_again_within_a_look(tmp_path: Path) -> None:
    memory.add(tmp_path, "one")
    with index.one_look():
        assert count(tmp_path) == 1
        (paths.index_file(tmp_path)).write_bytes(b"no database" * 1000)
        assert count(tmp_path) == 1
