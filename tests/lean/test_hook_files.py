"""The light append takes turns with the file store, and leaves a log as it was when it cannot write."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.lean import hook_files
from ralph.storage import files


def put(top: Path, line: bytes = b"new\n") -> None:
    hook_files.append(str(top), ("log", "sessions"), "s.jsonl", line)


def test_lines_are_appended_after_each_other(tmp_path: Path) -> None:
    put(tmp_path, b"one\n")
    put(tmp_path, b"two\n")
    assert (tmp_path / "log" / "sessions" / "s.jsonl").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("what", ["folder", "dangling", "file", "fifo", "read-only"])
def test_whatever_is_not_plain_is_left_to_the_file_store(tmp_path: Path, what: str) -> None:
    sessions = tmp_path / "log" / "sessions"
    sessions.mkdir(parents=True)
    path = sessions / "s.jsonl"
    if what == "folder":
        path.mkdir()
    elif what == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif what == "file":
        (tmp_path / "real").touch()
        path.symlink_to(tmp_path / "real")
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.touch(0o400)
    if what == "read-only" and os.geteuid() != 0:
        with pytest.raises(OSError, match="denied"):
            put(tmp_path)
    else:
        with pytest.raises(hook_files.Unsure):
            put(tmp_path)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("part", ["log", "log/sessions"])
def test_a_folder_that_is_a_link_is_left_to_the_file_store(tmp_path: Path, part: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / part).parent.mkdir(exist_ok=True)
    (tmp_path / part).symlink_to(tmp_path / "other")
    with pytest.raises(hook_files.Unsure):
        put(tmp_path)
    assert list((tmp_path / "other").iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from ralph.storage import files
with files.lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
    Path(sys.argv[1]).write_bytes(b"rewritten\\n")
"""


APPEND = """
import sys
from ralph.lean import hook_files
print("up", flush=True)
hook_files.append(sys.argv[1], ("log", "sessions"), "s.jsonl", b"new\\n")
"""


def test_an_append_waits_for_a_rewrite_under_way(tmp_path: Path) -> None:
    path = tmp_path / "log" / "sessions" / "s.jsonl"
    put(tmp_path, b"old\n")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], **pipes) as holder:  # type: ignore[call-overload]  # one dict for both
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"  # noqa: PT018 - a pipe is there
        with subprocess.Popen(
            [sys.executable, "-c", APPEND, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == b"up\n"  # noqa: PT018 - a pipe is there
            assert path.read_bytes() == b"old\n"
            holder.communicate(b"\n")
    assert path.read_bytes() == b"rewritten\nnew\n"


def test_a_count_is_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "log" / "hook-failures"
    path.parent.mkdir()
    assert not hook_files.count_failure(str(tmp_path), "Stop", "gone")
    files.write(path, " " * (hook_files.FAILURES_SIZE - 1) + "\n")
    number = path.stat().st_ino
    for count in (1, 2, 3):
        assert hook_files.count_failure(str(tmp_path), "Stop", f"number {count}")
    assert path.read_bytes().startswith(b"000000000003 20")
    assert path.read_bytes().rstrip().endswith(b"Z Stop: number 3")
    assert (path.stat().st_size, path.stat().st_ino) == (hook_files.FAILURES_SIZE, number)


def test_a_line_that_cannot_be_spilled_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            hook_files.spill(str(tmp_path), "s.jsonl", b"new\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert list((tmp_path / "log" / "spill").iterdir()) == []


def test_without_a_home_folder_nobody_is_told_anything(tmp_path: Path) -> None:
    assert hook_files.tell_daily(str(tmp_path), "news") is True
    assert hook_files.tell_daily("", "news") is False
