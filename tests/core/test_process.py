"""A program is run to its end, whatever it does, and nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.living import children, is_alive, living

from ralph.core import pipes, process
from ralph.core.process import run
from ralph.core.work import ProcessResult

PYTHON = sys.executable


def python(code: str) -> list[str]:
    return [PYTHON, "-I", "-S", "-c", code]


def open_descriptors() -> set[str]:
    folder = Path("/proc/self/fd")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.fixture(autouse=True)
def _leaves_nothing_open() -> Iterator[None]:
    """No descriptor, thread or unreaped child may remain after any of these tests."""
    descriptors = len(open_descriptors())
    threads = threading.active_count()
    others = children()  # such as a database that later tests need
    yield
    assert len(open_descriptors()) == descriptors
    assert threading.active_count() == threads
    assert children() <= others


class Family:
    """Programs that write down who they are, so that a test can ask whether they still live."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def code(
        self, *, escape: bool = False, ignore: bool = True, then: str = "time.sleep(600)"
    ) -> list[str]:
        """A program with a child that holds its pipes; both sleep, and ignore SIGTERM when told to."""
        ignoring = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" if ignore else ""
        child = f"import signal, time;{ignoring} print('born', flush=True); time.sleep(600)"
        return python(
            f"import os, signal, subprocess, sys, time;{ignoring}"
            f"p = subprocess.Popen([sys.executable, '-I', '-S', '-c', {child!r}], start_new_session={escape});"
            f"open('pids', 'w', encoding='utf-8').write(f'{{os.getpid()}} {{p.pid}}');"
            f"{then}"
        )

    @property
    def pids(self) -> list[int]:
        return [int(word) for word in (self.folder / "pids").read_text(encoding="utf-8").split()]

    def born(self) -> bool:
        """Whether both have begun."""
        path = self.folder / "pids"
        return path.exists() and len(path.read_text(encoding="utf-8").split()) == 2


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Family]:
    monkeypatch.setattr(process, "GRACE", 0.2)
    monkeypatch.setattr(process, "LINGER", 0.2)
    found = Family(tmp_path)
    yield found
    if found.born():
        for pid in found.pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_output_and_exit_code_are_returned(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert run(python(code), cwd=tmp_path) == ProcessResult(3, "out\n", "err\n")


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    assert run(python("import os; os.kill(os.getpid(), 9)"), cwd=tmp_path).code == -9


def test_it_runs_in_the_folder_it_was_given(tmp_path: Path) -> None:
    assert run(python("import os; print(os.getcwd())"), cwd=tmp_path).out.strip() == str(
        tmp_path.resolve()
    )


def test_the_environment_is_ours_unless_a_whole_one_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEN", "ours")
    code = python("import os; print(os.environ.get('SEEN'))")
    assert run(code, cwd=tmp_path).out == "ours\n"
    assert run(code, cwd=tmp_path, env={"OTHER": "1"}).out == "None\n"


def test_a_large_prompt_and_a_large_answer_pass_each_other(tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stderr.write(line)"
    prompt = "".join(f"line {number} äöü 한국어\n" for number in range(60_000))
    done = run(
        python(code),
        cwd=tmp_path,
        stdin=prompt,
        env={"PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"},
    )
    assert (done.code, done.cut) == (0, False)
    assert len(done.out) > 1_000_000


def test_text_comes_back_byte_for_byte(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    prompt = "한국어 \r\n tab\t \x00 emoji 🙂 " * 30_000
    assert run(python(code), cwd=tmp_path, stdin=prompt).out == prompt


@pytest.mark.parametrize(
    "code", ["pass", "import sys; sys.stdin.close(); print('closed')", "import os; os.close(0)"]
)
def test_a_program_that_does_not_read_is_no_error(tmp_path: Path, code: str) -> None:
    assert run(python(code), cwd=tmp_path, stdin="x" * 5_000_000).code == 0


def test_an_empty_standard_input_ends_at_once(tmp_path: Path) -> None:
    assert run(python("import sys; print(repr(sys.stdin.read()))"), cwd=tmp_path).out == "''\n"


def test_a_lone_surrogate_in_the_prompt_is_no_crash(tmp_path: Path) -> None:
    assert (
        run(python("import sys; print(sys.stdin.read())"), cwd=tmp_path, stdin="a\ud800b").out
        == "a?b\n"
    )


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xffb\\xf0\\x9f')"
    assert run(python(code), cwd=tmp_path).out == "a\ufffdb\ufffd"


def test_output_is_heard_as_it_comes_and_a_character_is_never_torn(tmp_path: Path) -> None:
    heard: list[str] = []
    asked: list[str] = []

    def stop_after_the_first() -> bool:
        asked.append("".join(heard))
        return "ü" in asked[-1]

    code = (
        "import sys, time; w = sys.stdout.buffer; w.write(b'gr\\xc3'); w.flush();"
        "sys.stdin.read(); w.write(b'\\xbcn'); w.flush(); time.sleep(600)"
    )
    done = run(python(code), cwd=tmp_path, on_output=heard.append, stopped=stop_after_the_first)
    assert done.stopped
    assert "".join(heard) == done.out == "grün"
    assert heard[0] in ("gr", "grün")


def test_of_long_output_the_end_is_kept(tmp_path: Path) -> None:
    heard: list[int] = []
    code = "import sys; sys.stdout.write('a' * 500_000 + 'b' * 500_000)"
    done = run(
        python(code), cwd=tmp_path, limit=1000, on_output=lambda text: heard.append(len(text))
    )
    assert done.cut
    assert done.out == "[... 999000 characters left out ...]\n" + "b" * 1000
    assert sum(heard) == 1_000_000


def test_what_just_fits_is_not_cut(tmp_path: Path) -> None:
    done = run(python("print('x' * 999)"), cwd=tmp_path, limit=1000)
    assert (done.cut, len(done.out)) == (False, 1000)


class TestWhatCannotBeStarted:
    def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        done = run(["no-such-program-at-all"], cwd=tmp_path)
        assert (done.code, done.missing, done.err) == (
            None,
            True,
            "no-such-program-at-all: there is no such program",
        )

    def test_a_file_that_is_not_executable(self, tmp_path: Path) -> None:
        path = tmp_path / "tool"
        path.write_text("hello", encoding="utf-8")
        done = run([str(path)], cwd=tmp_path)
        assert done.missing
        assert "Permission denied" in done.err

    def test_a_file_that_is_no_program(self, tmp_path: Path) -> None:
        path = tmp_path / "tool"
        path.write_bytes(b"\x00\x01\x02")
        path.chmod(0o755)
        done = run([str(path)], cwd=tmp_path)
        assert done.missing
        assert "cannot be started" in done.err

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        done = run(python("pass"), cwd=tmp_path / "gone")
        assert done.missing
        assert "is not a folder" in done.err

    @pytest.mark.parametrize("argv", [[], [""], ["a\0b"], [PYTHON, "x" * 10_000_000]])
    def test_words_that_are_no_command(self, tmp_path: Path, argv: list[str]) -> None:
        done = run(argv, cwd=tmp_path)
        assert done.missing
        assert done.err


class TestNothingIsLeftBehind:
    def test_a_hanging_program_and_its_child_are_gone_after_a_timeout(self, people: Family) -> None:
        done = run(people.code(), cwd=people.folder, timeout=1.0)
        assert (done.timed_out, done.stopped, done.code) == (True, False, -signal.SIGKILL)
        assert not living(*people.pids)

    def test_they_are_gone_after_a_stop(self, people: Family) -> None:
        done = run(people.code(), cwd=people.folder, stopped=people.born)
        assert (done.timed_out, done.stopped) == (False, True)
        assert not living(*people.pids)

    def test_a_child_in_a_session_of_its_own_is_gone_as_well(self, people: Family) -> None:
        assert run(people.code(escape=True), cwd=people.folder, stopped=people.born).stopped
        assert not living(*people.pids)

    def test_a_polite_program_ends_at_sigterm_and_may_say_so(self, people: Family) -> None:
        then = "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(7))); time.sleep(600)"
        done = run(
            people.code(ignore=False, then=f"print('here', flush=True); {then}"),
            cwd=people.folder,
            stopped=people.born,
        )
        assert done.code in (7, -signal.SIGTERM)  # the signal may come before the handler
        assert not living(*people.pids)

    def test_a_child_that_holds_the_pipes_is_ended_with_its_parent(self, people: Family) -> None:
        done = run(people.code(then="print('done')"), cwd=people.folder)
        assert (done.code, done.timed_out) == (0, False)
        assert "done" in done.out
        assert not living(*people.pids)

    def test_a_detached_program_outlives_an_ordinary_end(self, people: Family) -> None:
        done = run(people.code(escape=True, then="print('done')"), cwd=people.folder)
        assert done.code == 0
        assert is_alive(people.pids[1])

    def test_ctrl_c_ends_them_and_is_raised_again(self, people: Family) -> None:
        def interrupt() -> bool:
            if people.born():
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt):
            run(people.code(), cwd=people.folder, stopped=interrupt)
        assert not living(*people.pids)

    def test_a_listener_that_fails_ends_them_too(self, people: Family) -> None:
        def fail(text: str) -> None:
            raise BrokenPipeError(text)

        with pytest.raises(BrokenPipeError):
            run(people.code(), cwd=people.folder, on_output=fail)
        assert not living(*people.pids)


@pytest.mark.soak
def test_many_programs_at_once_do_not_mix_up_their_ends(tmp_path: Path) -> None:
    found: dict[int, int | None] = {}

    def one(number: int) -> None:
        found[number] = run(python(f"import sys; sys.exit({number})"), cwd=tmp_path).code

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(8)}


def test_the_family_is_found_with_ps_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = subprocess.Popen(python("input()"), stdin=subprocess.PIPE, cwd=tmp_path)
    try:
        by_proc = {pid for pid, _ in process.find_descendants(os.getpid())}
        monkeypatch.setattr(process, "_PROC", tmp_path)
        members = process.find_descendants(os.getpid())
        assert child.pid in {pid for pid, _ in members}
        assert child.pid in by_proc
        process.kill_processes({(child.pid, "another moment")})
        assert child.poll() is None
        process.kill_processes({member for member in members if member[0] == child.pid})
        assert child.wait() == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()


def test_ps_tells_the_same_start_time_in_every_locale_and_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path)  # as on macOS
    times = set()
    for zone in ("UTC", "Asia/Seoul", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        times.add(process.started_at(os.getpid()))
    assert len(times) == 1
    assert process.is_alive(os.getpid(), times.pop())


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
WAITING = "print('up', flush=True); input()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITING}"


def start_program(code: str, **variables: str) -> "subprocess.Popen[bytes]":
    """Start a program that prints a word and then waits."""
    env = {**os.environ, **variables}
    program = subprocess.Popen(python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert program.stdout is not None
    assert program.stdout.readline() == b"up\n"
    return program


def wait_for(program: "subprocess.Popen[bytes]") -> int:
    """Return its exit code; its pipes are closed."""
    with program:
        return program.wait(10)


def test_process_is_identified_by_number_and_start_time() -> None:
    pid, started = os.getpid(), process.started_at(os.getpid())
    assert process.is_alive(pid, started)
    assert not process.is_alive(pid, f"{started}0")
    assert not process.is_alive(pid, "")
    assert [process.started_at(number) for number in (0, -1, 2**30)] == ["", "", ""]


def test_zombie_counts_as_dead() -> None:
    program = start_program(WAITING)
    started = process.started_at(program.pid)
    assert process.is_alive(program.pid, started)
    program.kill()
    if sys.platform != "linux":
        pytest.skip("needs waitid")
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive(program.pid, started)
    wait_for(program)


def test_a_pid_namespace_is_another_host() -> None:
    argv = [sys.executable, "-c", "from ralph.core import process; print(process.process_host())"]
    same = run(argv, cwd=Path.cwd()).out.strip()
    assert same == process.process_host()
    sandboxed = run(["unshare", "--pid", "--fork", "--mount-proc", *argv], cwd=Path.cwd())
    if sandboxed.code != 0:
        pytest.skip("no sandbox can be made here")
    assert sandboxed.out.strip() not in ("", same)


@needs_proc
def test_processes_with_a_variable_are_ended_and_no_others() -> None:
    polite, other, stubborn = (
        start_program(WAITING, RALPH_RUN="run-1"),
        start_program(WAITING, RALPH_RUN="run-12"),
        start_program(STUBBORN, RALPH_RUN="run-1"),
    )
    members = process.find_by_variable("RALPH_RUN", "run-1")
    assert {pid for pid, _ in members} == {polite.pid, stubborn.pid}
    process.end_processes(members)
    assert wait_for(polite) == -signal.SIGTERM
    assert wait_for(stubborn) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    wait_for(other)


@needs_proc
def test_we_and_our_ancestors_are_never_among_them(tmp_path: Path) -> None:
    code = (
        "import os\nfrom ralph.core import process\n"
        "pids = {pid for pid, _ in process.find_by_variable('RALPH_RUN', 'run-1')}\n"
        "print(pids & {os.getpid(), os.getppid()})"
    )
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}], check=True)"
    assert (
        run([PYTHON, "-c", outer], cwd=tmp_path, env={**os.environ, "RALPH_RUN": "run-1"}).out
        == "set()\n"
    )


def test_a_reused_number_is_not_signalled() -> None:
    process.end_processes([])
    process.end_processes([(os.getpid(), "another start")])


@pytest.mark.parametrize("kind", [pipes.SelectedPipes, pipes.ThreadedPipes])
def test_both_kinds_of_pipes_pass_all_bytes(
    kind: Callable[..., pipes.Pipes], tmp_path: Path
) -> None:
    code = "import sys; text = sys.stdin.buffer.read(); sys.stdout.buffer.write(text); sys.stderr.write('x' * 70_000)"
    program = subprocess.Popen(
        python(code),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    sent = bytes(range(256)) * 1_000
    output: list[bytes] = []
    errors: list[bytes] = []
    connected = kind(program, sent, output.append, errors.append)
    while not connected.are_outputs_closed():
        connected.move_bytes(0.1)
    connected.close()
    program.wait(10)
    assert b"".join(output) == sent
    assert b"".join(errors) == b"x" * 70_000
