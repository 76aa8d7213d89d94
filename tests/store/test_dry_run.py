"""A rehearsal writes nothing and tells what would be written; a witness lets only through what was shown."""

from pathlib import Path

import pytest

from ralph.errors import Conflict, WriteFailed
from ralph.store import files
from ralph.store.dry_run import DryRun, FileChange, GuardedWrite, text_digest


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_a_rehearsal_writes_nothing_and_reads_back_what_it_would_have_written(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    before = everything(tmp_path)
    rehearsal = DryRun()
    new, log = tmp_path / "new" / "b.md", tmp_path / "log" / "c.jsonl"
    files.update(there, lambda text: text + "two\n", root=tmp_path, observer=rehearsal)
    files.update(there, lambda text: text + "three\n", root=tmp_path, observer=rehearsal)
    files.update(new, lambda text: text + "b\n", root=tmp_path, observer=rehearsal)
    files.append(log, "c\n", root=tmp_path, observer=rehearsal)
    files.append(log, "d\n", root=tmp_path, observer=rehearsal)
    assert files.read(there, rehearsal) == "one\ntwo\nthree\n"
    assert files.read(log, rehearsal) == "c\nd\n"
    files.delete(new, rehearsal)
    assert files.read(new, rehearsal) is None
    assert everything(tmp_path) == before
    assert rehearsal.changes == [
        FileChange(there, "one\n", "one\ntwo\nthree\n"),
        FileChange(log, None, "c\nd\n", appended=True),
    ]
    assert files.read(there) == "one\n"


def test_a_rehearsal_refuses_what_the_disk_would_refuse(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    there.chmod(0o444)
    with pytest.raises(WriteFailed):
        files.update(there, lambda text: "two\n", observer=DryRun())


def test_a_witness_lets_through_what_was_shown_and_notes_what_stood_there(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    witness = GuardedWrite({there: text_digest("one\n"), tmp_path / "b.md": text_digest(None)}.get)
    files.update(there, lambda text: text + "two\n", observer=witness)
    files.update(there, lambda text: text + "three\n", observer=witness)
    files.update(tmp_path / "b.md", lambda text: "b\n", observer=witness)
    files.append(tmp_path / "c.jsonl", "c\n", observer=witness)
    files.delete(there, witness)
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
    witness = GuardedWrite(lambda path: shown)
    with pytest.raises(Conflict, match="changed since"):
        files.update(there, lambda text: "two\n", observer=witness)
    with pytest.raises(Conflict, match="changed since"):
        files.delete(there, witness)
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

    with pytest.raises(Conflict):
        files.update(there, edit, observer=GuardedWrite(lambda path: text_digest("one\n")))
    assert there.read_bytes() == b"somebody else\n"
