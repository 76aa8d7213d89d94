"""Writers that die: killed at random moments, and killed at every single line of the store's code.

After each death, what was acknowledged is there, what was under way is there wholly or not at all,
and every byte that a person wrote is where it was. The ledgers know what may be in a file from
what the writer said before it died; they read the file with a regular expression of their own
besides the codec, so that the store is not its own witness. RALPH_SOAK=1 gives 500 kills each.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Program, Start
from tests.support.human_pages import HUMAN, ODD
from tests.support.ledgers import LogLedger, MemoryLedger, kill_at_random
from tests.support.writer import line_of

from ralph.storage import files

Rounds = Callable[[int, int], int]

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs /proc to see who waits"
)


@pytest.mark.soak
@pytest.mark.parametrize("human", [HUMAN, ODD], ids=["plain", "odd"])
def test_a_killed_writer_loses_nothing_that_it_acknowledged_and_touches_nothing_else(
    tmp_path: Path, start: Start, rounds: Rounds, human: str
) -> None:
    ledger = MemoryLedger(tmp_path, human)
    program = start("spawner", tmp_path, "memories")
    for _ in range(rounds(250, 6)):
        kill_at_random(program, ledger)
        ledger.check()
        if files.leftovers(ledger.path.parent):
            ledger.check_sweep()


@pytest.mark.soak
def test_a_killed_appender_loses_no_acknowledged_line_and_glues_none_to_another(
    tmp_path: Path, start: Start, rounds: Rounds
) -> None:
    ledger = LogLedger(tmp_path / "log" / "session.jsonl")
    program = start("spawner", ledger.path, "log")
    for _ in range(rounds(500, 12)):
        kill_at_random(program, ledger)
        ledger.check()
        if len(ledger.expected) > 6_000_000:
            ledger.path.unlink()
            ledger.expected = b""


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["add", "edit", "remove"])
def test_a_change_killed_at_any_line_of_the_store_is_done_wholly_or_not_at_all(
    in_memory: Path, start: Start, verb: str
) -> None:
    ledger = MemoryLedger(in_memory, ODD)
    program = start("every-line", in_memory, verb)
    killed = left = 0
    while (words := program.read_words())[0] != "finished":
        ledger.book(words)
        if words[0] == "killed":
            killed += 1
            left += bool(files.leftovers(ledger.path.parent))
            ledger.check()
            program.send_line()
    ledger.check()
    assert killed > 30
    assert left > 0
    assert files.leftovers(ledger.path.parent) == []


@pytest.mark.parametrize("verb", ["append", "append without space"])
def test_an_append_killed_at_any_line_of_the_store_glues_no_lines(
    in_memory: Path, start: Start, verb: str
) -> None:
    ledger = LogLedger(in_memory / "log.jsonl")
    program = start("every-line", ledger.path, verb)
    torn = 0
    while (words := program.read_words())[0] != "finished":
        ledger.book(words)
        if words[0] == "killed":
            torn += ledger.check()
            program.send_line()
    ledger.check()
    assert torn == 0 if verb == "append" else torn > 0
    assert ledger.expected
    files.append(ledger.path, "the next\n")
    assert ledger.path.read_bytes().splitlines()[-1] == b"the next"


@pytest.mark.soak
def test_lines_that_many_processes_append_while_others_are_forgotten_all_stay(
    in_memory: Path, start: Start, rounds: Rounds
) -> None:
    path = in_memory / "log.jsonl"
    count = rounds(1000, 30)
    programs = [start("log", path, count, 5, 7) for _ in range(4)]
    assert [program.read_words() for program in programs] == [["ready"]] * 4
    for program in programs:
        program.send_line()
    forgotten = 0
    while any(program.process.poll() is None for program in programs):
        files.append(path, '{"secret": true}\n')
        files.update(path, lambda text: text.replace('{"secret": true}\n', ""), mode=files.PRIVATE)
        forgotten += 1
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for program in programs:
        own = [line_of(words[1]) for words in program.read_rest() if words[0] == "did"]
        lines = set(own)
        assert len(lines) == count
        assert [line for line in kept if line in lines] == own
    assert len(kept) == 4 * count
    assert forgotten > 0


@needs_proc
def test_a_line_appended_while_the_log_is_rewritten_waits_for_the_new_file(
    tmp_path: Path, start: Start
) -> None:
    path = tmp_path / "log" / "session.jsonl"
    files.append(path, "first\n")
    program = start("log", path, 1, 5)
    assert program.read_words() == ["ready"]
    with files.lock(path):
        program.send_line()
        wait_until_open(path.parent, program)
        path.with_name("spare").write_bytes(b"rewritten\n")
        path.with_name("spare").replace(path)
    token = program.read_rest()[0][1]
    assert path.read_text(encoding="utf-8") == "rewritten\n" + line_of(token)


# --- the lock ----------------------------------------------------------------------------------


def test_two_processes_exclude_each_other_also_by_another_path_to_the_folder(
    tmp_path: Path, start: Start
) -> None:
    folder, other, trail = tmp_path / "real", tmp_path / "link", tmp_path / "trail" / "log"
    folder.mkdir()
    other.symlink_to("real")
    first = start("hold", folder / "a.md", trail, "first")
    assert [first.read_words(), first.read_words()] == [["ready"], ["held"]]
    second = start("hold", other / "b.md", trail, "second")
    assert second.read_words() == ["ready"]
    second.send_line()
    assert is_locked(folder)
    first.send_line()
    assert [words for program in (first, second) for words in program.read_rest()] == [
        ["released"],
        ["held"],
        ["released"],
    ]
    assert trail.read_text(encoding="utf-8") == "first\nsecond\n"
    assert not is_locked(folder)
    assert list(folder.iterdir()) == []


def test_whoever_holds_the_lock_and_is_killed_lets_go(tmp_path: Path, start: Start) -> None:
    holder = start("hold", tmp_path / "a.md", tmp_path / "trail", "never")
    assert [holder.read_words(), holder.read_words()] == [["ready"], ["held"]]
    assert is_locked(tmp_path)
    holder.close()
    files.write(tmp_path / "a.md", "free again\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_what_is_done_under_the_lock_is_done_by_one_at_a_time(
    tmp_path: Path, start: Start, rounds: Rounds
) -> None:
    path = tmp_path / "number"
    path.write_bytes(b"0")
    programs = [start("count-up", path, rounds(500, 20)) for _ in range(4)]
    for program in programs:
        assert program.read_words() == ["ready"]
    for program in programs:
        program.send_line()
    assert [program.read_rest() for program in programs] == [[]] * 4
    assert path.read_text(encoding="utf-8") == str(4 * rounds(500, 20))


@needs_proc
def test_a_folder_that_git_replaced_while_somebody_waited_is_locked_anew(
    tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with files.lock(folder / "a.md"):
        waiting = start("hold", folder / "a.md", tmp_path / "trail", "waiting")
        assert waiting.read_words() == ["ready"]
        wait_until_open(folder, waiting)
        folder.rename(tmp_path / "old")
        folder.mkdir()
    assert waiting.read_words() == ["held"]
    assert is_locked(folder)
    waiting.send_line()
    assert waiting.read_rest() == [["released"]]


def wait_until_open(folder: Path, program: Program) -> None:
    """Go on when a program has opened a folder, as whoever waits for its lock does, or has ended."""
    seen: set[Path] = set()
    while folder not in seen and program.process.poll() is None:
        with contextlib.suppress(OSError):
            seen = {link.readlink() for link in Path(f"/proc/{program.process.pid}/fd").iterdir()}


def is_locked(folder: Path) -> bool:
    """Whether somebody holds the lock of a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
