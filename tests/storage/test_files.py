"""The file store against full and read-only disks, links, special files, editors and other writers.

The laws: a write is done wholly or not at all; what it refuses or cannot do leaves every byte, the
mode and the folder as they were, and says what to do; nobody else's change is lost. Disks, links
and processes are real (`tests/conftest.py`); `tests/soak/test_crash.py` adds writers that die.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Disk, ordinary_user

from ralph.core.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.storage import files

Write = Callable[[Path], object]

WAYS: list[Write] = [
    lambda path: files.write(path, "new\n" * 3000),
    lambda path: files.update(path, lambda text: text + "new\n" * 3000),
    lambda path: files.append(path, "new " * 3000 + "\n"),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=["write", "update", "append"])
OLD = b"\xef\xbb\xbfold \xff\r\nlines\n" * 200


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


# --- full and read-only disks ------------------------------------------------------------------


@each_way
def test_a_full_disk_leaves_every_byte_and_no_temporary_file_and_says_so(
    disk: Disk, way: Write
) -> None:
    path = disk.folder / "notes.md"
    path.write_bytes(OLD)
    disk.fill()
    before = names(disk.folder)
    with pytest.raises(WriteFailed) as caught:
        way(path)
    disk.free()
    assert str(path) in caught.value.message
    assert "unchanged" in caught.value.hint
    assert "free some space" in caught.value.hint
    assert path.read_bytes() == OLD
    assert names(path.parent) == [name for name in before if name != "ballast"]
    way(path)
    assert b"new" in path.read_bytes()


def test_a_full_disk_makes_no_new_file(disk: Disk) -> None:
    disk.fill()
    with pytest.raises(WriteFailed):
        files.write(disk.folder / "notes.md", "new\n" * 3000)
    disk.free()
    assert names(disk.folder) == []


def test_an_append_that_does_not_fit_leaves_no_torn_line(disk: Disk) -> None:
    path = disk.folder / "log.jsonl"
    files.append(path, "first\n")
    disk.fill()
    with pytest.raises(WriteFailed):
        files.append(path, "x" * 200_000 + "\n")
    files.append(path, "small ones still fit in the page\n")
    disk.free()
    files.append(path, "last\n")
    assert path.read_bytes() == b"first\nsmall ones still fit in the page\nlast\n"


@each_way
def test_a_read_only_disk_is_told_and_nothing_changes(
    freezable: tuple[Path, Callable[[], None]], way: Write
) -> None:
    folder, freeze = freezable
    path = folder / "notes.md"
    path.write_bytes(OLD)
    (folder / f".notes.md.1-ab{files.TEMP_SUFFIX}").touch()
    freeze()
    for place in (path, folder / "missing.md", folder / "missing" / "notes.md"):
        with pytest.raises(WriteFailed) as caught:
            way(place)
        assert "writable" in caught.value.hint
    assert path.read_bytes() == OLD


@each_way
def test_a_read_only_folder_is_told_and_nothing_changes(shared: Path, way: Write) -> None:
    folder = shared / "folder"
    folder.mkdir()
    (folder / "notes.md").write_bytes(OLD)
    folder.chmod(0o555)
    places = [folder / "missing.md", folder / "missing" / "notes.md"]
    if way is not WAYS[2]:  # a file that is there can be appended to without changing its folder
        places.append(folder / "notes.md")
    with ordinary_user():
        for place in places:
            with pytest.raises(WriteFailed) as caught:
                way(place)
            assert "writable" in caught.value.hint
    assert (folder / "notes.md").read_bytes() == OLD
    assert names(folder) == ["notes.md"]


@pytest.mark.parametrize("as_root", [True, False])
@each_way
def test_a_read_only_file_is_not_replaced_not_even_by_root(
    shared: Path, way: Write, as_root: bool
) -> None:
    path = shared / "notes.md"
    path.write_bytes(OLD)
    path.chmod(0o444)
    if as_root and os.geteuid() == 0:
        with pytest.raises(WriteFailed, match="read-only"):
            way(path)
    else:
        with ordinary_user(), pytest.raises(WriteFailed) as caught:
            way(path)
        assert "writable" in caught.value.hint
    assert path.read_bytes() == OLD
    assert names(shared) == ["notes.md"]


def test_a_folder_or_file_that_may_not_be_looked_at_is_told_and_never_crashes(shared: Path) -> None:
    closed = shared / "closed"
    closed.mkdir()
    (closed / "notes.md").write_bytes(OLD)
    (shared / "link.md").symlink_to(closed / "notes.md")
    closed.chmod(0)
    if os.geteuid() == 0:
        os.chown(closed, 0, 0)
    with ordinary_user():
        for path in (closed / "notes.md", shared / "link.md"):
            with pytest.raises(Unreadable):
                files.read(path)
            for way in WAYS:
                with pytest.raises((Refused, WriteFailed)):
                    way(path)


@each_way
def test_a_name_that_is_too_long_for_the_disk_is_told(tmp_path: Path, way: Write) -> None:
    with pytest.raises((Refused, WriteFailed), match="name too long"):
        way(tmp_path / ("n" * 300))
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["n" * 252 + ".md", "인증" * 42 + ".md", "[*]?.md"])
def test_a_name_that_just_fits_can_be_written_and_swept(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    files.write(path, "one\n")
    files.update(path, lambda text: text + "two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert names(tmp_path) == [name]


def test_update_returns_the_result_of_the_change(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    assert files.update(path, lambda text: (text + "one\n", len(text)))[1] == 0
    assert files.update(path, lambda text: (text, text.upper()))[1] == "ONE\n"
    assert path.read_bytes() == b"one\n"


# --- editors -----------------------------------------------------------------------------------


def save_in_place(path: Path, text: str) -> None:
    """Save as many editors do."""
    path.write_text(text, encoding="utf-8", newline="")


def save_by_rename(path: Path, text: str) -> None:
    """Save as careful editors do."""
    spare = path.with_name("spare~")
    spare.write_text(text, encoding="utf-8", newline="")
    spare.replace(path)


@pytest.mark.parametrize("save", [save_in_place, save_by_rename])
def test_an_edit_is_applied_again_when_an_editor_saved_meanwhile(
    tmp_path: Path, save: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"one\n")
    seen = []

    def edit(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            save(path, "one\ntwo by hand\n")
        return text + "three by machine\n"

    assert files.update(path, edit) == "one\ntwo by hand\nthree by machine\n"
    assert path.read_bytes() == b"one\ntwo by hand\nthree by machine\n"
    assert seen == ["one\n", "one\ntwo by hand\n"]
    assert names(tmp_path) == ["notes.md"]


def test_a_file_that_was_made_meanwhile_is_edited_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"

    def edit(text: str) -> str:
        if not text:
            path.write_bytes(b"by hand\n")
        return text + "by machine\n"

    files.update(path, edit)
    assert path.read_bytes() == b"by hand\nby machine\n"


def test_a_file_that_changes_every_time_is_given_up_and_left_to_the_other(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    tries = []

    def edit(text: str) -> str:
        tries.append(text)
        path.write_text(f"by hand {len(tries)}\n", encoding="utf-8")
        return text + "by machine\n"

    with pytest.raises(Conflict, match="keeps changing") as caught:
        files.update(path, edit)
    assert caught.value.hint
    assert 2 <= len(tries) <= 100
    assert path.read_text(encoding="utf-8") == f"by hand {len(tries)}\n"
    assert names(tmp_path) == ["notes.md"]


def test_a_write_that_expects_another_text_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"by hand\n")
    for expect in ("", "something else"):
        with pytest.raises(Conflict, match="changed"):
            files.write(path, "by machine\n", expect=expect)
    assert path.read_bytes() == b"by hand\n"
    files.write(path, "by machine\n", expect="by hand\n")
    assert path.read_bytes() == b"by machine\n"


def test_an_edit_that_fails_leaves_the_file_and_the_lock_free(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(OLD)

    def edit(text: str) -> str:
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        files.update(path, edit)
    files.write(path, "the lock is free\n", expect=files.read(path))
    assert names(tmp_path) == ["notes.md"]


def test_a_reader_that_has_the_file_open_keeps_the_old_text_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(OLD)
    with path.open("rb") as reader:
        files.update(path, lambda text: text + "new")
        files.write(path, "new")
        assert reader.read() == OLD


# --- bytes, modes and times --------------------------------------------------------------------


def test_bytes_that_are_not_utf8_a_bom_and_crlf_survive_a_change_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(OLD)
    files.update(path, lambda text: text + "new\r\n")
    assert path.read_bytes() == OLD + b"new\r\n"
    copy = files.backup(path)
    assert copy is not None
    assert copy.read_bytes() == OLD + b"new\r\n"


def test_half_of_a_surrogate_pair_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(OLD)
    for broken in (
        lambda: files.write(path, "\ud83d"),
        lambda: files.update(path, lambda text: text + "\ud83d"),
        lambda: files.append(path, "\ud83d\n"),
    ):
        with pytest.raises(Refused) as caught:
            broken()
        assert caught.value.hint
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664, 0o755])
def test_an_existing_file_keeps_its_mode_and_owner(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"one\n")
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    path.chmod(mode)
    before = path.stat()
    files.update(path, lambda text: text + "two\n")
    files.write(path, "three\n")
    files.append(path, "four\n")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_log_and_its_folder_are_private_and_a_private_write_makes_the_file_private(
    tmp_path: Path,
) -> None:
    log, pad = tmp_path / "log" / "session.jsonl", tmp_path / "pad.md"
    files.append(log, "one\n")
    pad.touch(0o644)
    files.write(pad, "one\n", mode=files.PRIVATE)
    for path, mode in ((log, 0o600), (log.parent, 0o700), (pad, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_update_that_changes_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(OLD)
    os.utime(path, ns=(1, 1))
    before = path.stat()
    files.update(path, lambda text: text)
    files.update(tmp_path / "missing.md", lambda text: text)
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert names(tmp_path) == ["notes.md"]


def test_a_torn_line_is_closed_by_the_next_append(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"whole": 1}\n{"tor')
    files.append(log, '{"next": 2}\n', durable=True)
    assert log.read_bytes() == b'{"whole": 1}\n{"tor\n{"next": 2}\n'


def test_a_backup_never_covers_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    assert files.backup(path) is None
    (tmp_path / "notes.md.bak").symlink_to("nowhere")
    for number, name in ((1, "notes.md.bak2"), (2, "notes.md.bak3")):
        path.write_text(f"{number}\n", encoding="utf-8")
        assert files.backup(path) == tmp_path / name
        assert (tmp_path / name).read_text(encoding="utf-8") == f"{number}\n"


def test_what_a_killed_writer_left_is_known_and_swept_by_the_next_write_in_the_folder(
    tmp_path: Path,
) -> None:
    for name in (f".notes.md.99-ab{files.TEMP_SUFFIX}", f".other.md.99-cd{files.TEMP_SUFFIX}"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / f"folder{files.TEMP_SUFFIX}").mkdir()
    assert len(files.leftovers(tmp_path)) == 3
    files.write(tmp_path / "notes.md", "whole\n")
    assert names(tmp_path) == [f"folder{files.TEMP_SUFFIX}", "notes.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows always locks a file of its own")
def test_a_lock_file_that_was_removed_while_somebody_waited_for_it_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    real, removed = fcntl.flock, iter([tmp_path / files.LOCK_NAME])

    def flock(handle: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EOPNOTSUPP, "this disk locks no folders")
        for path in removed:
            path.unlink()
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with files.lock(tmp_path / "notes.md"):
        assert (tmp_path / files.LOCK_NAME).exists(), (
            "the next writer must find the lock that we hold"
        )
        assert files.leftovers(tmp_path) == []


def test_a_lock_whose_owner_cannot_be_written_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        with (
            pytest.raises(WriteFailed, match="cannot be held"),
            files.process_lock(tmp_path / "lock", "me"),
        ):
            pass
    with files.process_lock(tmp_path / "lock", "me"):
        assert (tmp_path / "lock").read_text(encoding="utf-8") == "me"


def test_a_folder_is_made_and_filled_only_inside_of_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to("../outside")
    (root / "thing").write_text("x", encoding="utf-8")
    with pytest.raises(Refused):
        files.make_folder(root / "link" / "made", root=root)
    with pytest.raises(Refused):
        files.move(root / "thing", root / "link" / "thing", root=root)
    assert names(outside) == []
    assert files.make_folder(root / "made", root=root)
    files.move(root / "thing", root / "made" / "thing", root=root)
    assert names(root / "made") == ["thing"]


def test_a_backup_may_be_of_the_text_that_was_read_before(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"new")
    copy = files.backup(path, text="old")
    assert copy is not None
    assert copy.read_bytes() == b"old"
