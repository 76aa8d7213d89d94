"""A rehearsal writes nothing and tells what would be written; a witness lets only through what was shown."""

from pathlib import Path

import pytest

from ralph.errors import Conflict, Refused, WriteFailed
from ralph.store import dry_run, files
from ralph.store.dry_run import DryRun, FileChange, GuardedWrite, text_digest


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def all_of_it(path: Path) -> bool:
    return True


def test_a_rehearsal_writes_nothing_and_reads_back_what_it_would_have_written(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    before = everything(tmp_path)
    rehearsal = DryRun(all_of_it)
    with dry_run.observe(rehearsal):
        files.update(there, lambda text: text + "two\n", root=tmp_path)
        files.update(there, lambda text: text + "three\n", root=tmp_path)
        files.write(tmp_path / "new" / "b.md", "b\n", root=tmp_path, expect="")
        files.append(tmp_path / "log" / "c.jsonl", "c\n", root=tmp_path)
        files.append(tmp_path / "log" / "c.jsonl", "d\n", root=tmp_path)
        assert files.read(there) == "one\ntwo\nthree\n"
        assert files.read(tmp_path / "log" / "c.jsonl") == "c\nd\n"
        with files.lock(tmp_path / "new" / "b.md"):
            files.delete(tmp_path / "new" / "b.md")
        assert files.read(tmp_path / "new" / "b.md") is None
    assert everything(tmp_path) == before
    assert rehearsal.changes == [
        FileChange(there, "one\n", "one\ntwo\nthree\n"),
        FileChange(tmp_path / "log" / "c.jsonl", None, "c\nd\n", appended=True),
    ]
    assert files.read(there) == "one\n"


def test_a_rehearsal_refuses_what_the_disk_would_refuse(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    there.chmod(0o444)
    with dry_run.observe(DryRun(all_of_it)):
        with pytest.raises(WriteFailed):
            files.write(there, "two\n")
        with pytest.raises(Conflict):
            files.write(tmp_path / "b.md", "x", expect="something else")
        with pytest.raises(Refused):
            files.move(there, tmp_path / "c.md")


def test_what_nobody_looks_at_is_written_in_a_rehearsal_too(tmp_path: Path) -> None:
    with dry_run.observe(DryRun(lambda path: "derived" not in path.parts)):
        files.write(tmp_path / "derived" / "index", "x")
    assert (tmp_path / "derived" / "index").read_bytes() == b"x"


def test_nobody_looks_on_afterwards(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), dry_run.observe(DryRun(all_of_it)):
        raise ZeroDivisionError
    files.write(tmp_path / "a.md", "a\n")
    assert (tmp_path / "a.md").read_bytes() == b"a\n"


def test_a_witness_lets_through_what_was_shown_and_notes_what_stood_there(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    witness = GuardedWrite(all_of_it, {there: text_digest("one\n"), tmp_path / "b.md": text_digest(None)}.get)
    with dry_run.observe(witness):
        files.update(there, lambda text: text + "two\n")
        files.update(there, lambda text: text + "three\n")
        files.write(tmp_path / "b.md", "b\n")
        files.append(tmp_path / "c.jsonl", "c\n")
        files.delete(there)
    assert [(each.path.name, each.before, each.after) for each in witness.changes] == [
        ("a.md", "one\n", "one\ntwo\n"),
        ("a.md", "one\ntwo\n", "one\ntwo\nthree\n"),
        ("b.md", None, "b\n"),
        ("c.jsonl", None, "c\n"),
        ("a.md", "one\ntwo\nthree\n", None),
    ]
    assert not there.exists()


@pytest.mark.parametrize("shown", [None, "", text_digest("another\n")])
def test_a_witness_stops_what_was_not_shown(tmp_path: Path, shown: str | None) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    with dry_run.observe(GuardedWrite(all_of_it, lambda path: shown)):
        with pytest.raises(Conflict, match="changed since"):
            files.write(there, "two\n")
        with pytest.raises(Conflict, match="changed since"):
            files.delete(there)
    assert there.read_bytes() == b"one\n"


def test_an_editor_that_comes_between_is_seen(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    times: list[str] = []

    def edit(text: str) -> str:
        times.append(text)
        if len(times) == 1:
            there.write_text("somebody else\n", encoding="utf-8")
        return text + "two\n"

    with dry_run.observe(GuardedWrite(all_of_it, lambda path: text_digest("one\n"))), pytest.raises(Conflict):
        files.update(there, edit)
    assert there.read_bytes() == b"somebody else\n"
