"""A dry run writes nothing and collects the changes; a guarded write allows only what was shown."""

from pathlib import Path

import pytest

from ralph.core.errors import Conflict, WriteFailed
from ralph.storage import files
from ralph.storage.write_observers import DryRun, FileChange, GuardedWrite, text_digest


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def test_dry_run_writes_nothing_and_reads_back_its_changes(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    before = everything(tmp_path)
    dry_run = DryRun()
    new, log = tmp_path / "new" / "b.md", tmp_path / "log" / "c.jsonl"
    files.update(there, lambda text: text + "two\n", root=tmp_path, observer=dry_run)
    files.update(there, lambda text: text + "three\n", root=tmp_path, observer=dry_run)
    files.update(new, lambda text: text + "b\n", root=tmp_path, observer=dry_run)
    files.append(log, "c\n", root=tmp_path, observer=dry_run)
    files.append(log, "d\n", root=tmp_path, observer=dry_run)
    assert files.read(there, dry_run) == "one\ntwo\nthree\n"
    assert files.read(log, dry_run) == "c\nd\n"
    files.delete(new, dry_run)
    assert files.read(new, dry_run) is None
    assert everything(tmp_path) == before
    assert dry_run.changes == (
        FileChange(there, "one\n", "one\ntwo\nthree\n"),
        FileChange(log, None, "c\nd\n", appended=True),
    )
    assert files.read(there) == "one\n"


def test_dry_run_refuses_a_read_only_file(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    there.chmod(0o444)
    with pytest.raises(WriteFailed):
        files.update(there, lambda text: "two\n", observer=DryRun())


def test_guarded_write_notes_the_old_texts(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    guard = GuardedWrite(
        {"a.md": text_digest("one\n"), "b.md": text_digest(None)}, lambda path: path.name
    )
    files.update(there, lambda text: text + "two\n", observer=guard)
    files.update(there, lambda text: text + "three\n", observer=guard)
    files.update(tmp_path / "b.md", lambda text: "b\n", observer=guard)
    files.append(tmp_path / "c.jsonl", "c\n", observer=guard)
    files.delete(there, guard)
    assert [(each.path.name, each.before, each.after) for each in guard.changes] == [
        ("a.md", "one\n", None),
        ("b.md", None, "b\n"),
        ("c.jsonl", None, "c\n"),
    ]
    assert not there.exists()


@pytest.mark.parametrize("digests", [{}, {"a.md": ""}, {"a.md": text_digest("another\n")}])
def test_guarded_write_stops_what_was_not_shown(tmp_path: Path, digests: dict[str, str]) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    guard = GuardedWrite(digests, lambda path: path.name)
    with pytest.raises(Conflict, match="changed since"):
        files.update(there, lambda text: "two\n", observer=guard)
    with pytest.raises(Conflict, match="changed since"):
        files.delete(there, guard)
    assert there.read_bytes() == b"one\n"


def test_guarded_write_notices_an_editor(tmp_path: Path) -> None:
    there = tmp_path / "a.md"
    there.write_text("one\n", encoding="utf-8")
    times: list[str] = []

    def edit(text: str) -> str:
        times.append(text)
        if len(times) == 1:
            there.write_text("somebody else\n", encoding="utf-8")
        return text + "two\n"

    with pytest.raises(Conflict):
        files.update(
            there,
            edit,
            observer=GuardedWrite({"a.md": text_digest("one\n")}, lambda path: path.name),
        )
    assert there.read_bytes() == b"somebody else\n"
