"""Run programs to completion, and find, signal and reap the processes that they started.

Each program gets its own session, so that a signal reaches its whole process group. Coding agents
start shells in groups of their own, so descendants are looked up as well, in `/proc` or with `ps`.
The system reuses process ids, so a process is identified by its id together with its start time.

A program can be tied to this process: if this process is killed, even with SIGKILL, a guard kills
the program's group. The guard is a shell that waits for the end of a pipe, so this works wherever
there is a shell. Processes that have left the group survive.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ralph.core import pipes
from ralph.core.work import ProcessResult, ignore_text, never_stop

if sys.platform == "win32":
    from ralph.core import windows_processes

if TYPE_CHECKING:
    import asyncio

# Seconds between SIGTERM and SIGKILL. A client needs this time to stop its own children and to
# save its session.
GRACE = 3.0
# The same for processes left over from a loop that is gone. Nobody is waiting for what they save.
ORPHAN_GRACE = 1.0
LINGER = 1.0  # seconds that a child may keep a pipe open after the program has exited
LIMIT = 4_000_000  # characters kept from each stream

_TICK_SECONDS = 0.05
_STOP_CHECK_SECONDS = 0.2
_PS_SECONDS = 5
_READ_BYTES = 1 << 16
_ENDED = b"the program has ended"  # compared by identity
_LINE_LIMIT = 1 << 26  # bytes of one line that asyncio buffers; the ACP SDK joins longer lines
# Reads a line when the program has ended. Without one, whoever started the guard has died.
_GUARD_SCRIPT = 'read -r ended || kill -s KILL -- "-$1"'
_PROC = Path("/proc")
_BOOT_ID_CHARACTERS = 8

_NEW_GROUP: dict[str, Any]
"""Options of `subprocess` that start a program for a `_ProcessGroup`."""
_DETACHED: dict[str, Any]
"""Options of `subprocess` that start a program that outlives this process."""
if sys.platform == "win32":
    _NEW_GROUP = {"creationflags": windows_processes.JOB_FLAGS}
    _DETACHED = {"creationflags": windows_processes.DETACHED_FLAGS}
    _LEAVING_JOB: dict[str, Any] = {"creationflags": windows_processes.LEAVING_JOB_FLAGS}
    FORCE = signal.SIGTERM  # ends a process at once on Windows
else:
    _NEW_GROUP = {"start_new_session": True}
    _DETACHED = _NEW_GROUP
    FORCE = signal.SIGKILL

ProcessId = tuple[int, str]
"""A process id, and when the process started."""


# --- running a program ----------------------------------------------------------------------------


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 0.0,
    limit: int = LIMIT,
    on_output: Callable[[str], None] = ignore_text,
    stopped: Callable[[], bool] = never_stop,
    dies_with_us: bool = False,
) -> ProcessResult:
    """Run a program until it exits, the timeout expires, or `stopped` returns True.

    Without `env`, the program inherits our environment. A `timeout` of 0 means no timeout. The
    result contains the last `limit` characters of each output stream. With `dies_with_us`, the
    program's process group is killed if this process is killed.
    """
    environment = None
    if env is not None:
        environment = dict(env)
    try:
        process = subprocess.Popen(
            _command_line(argv, cwd, environment),
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **_NEW_GROUP,
        )
    except (OSError, ValueError, IndexError) as error:
        return ProcessResult(None, "", describe_start_error(argv, cwd, error), missing=True)
    out = _BoundedText(limit, on_output)
    err = _BoundedText(limit, ignore_text)
    program = _RunningProgram(process, stdin, out, err)
    if not dies_with_us:
        return program.finish(timeout, stopped)
    with _guarding(process.pid):
        return program.finish(timeout, stopped)


@contextlib.contextmanager
def _guarding(group: int) -> Iterator[None]:
    """Kill a process group if this process dies inside the block."""
    if sys.platform == "win32":
        yield  # the program's job ends with this process
        return
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD_SCRIPT, "sh", str(group)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            guard.communicate(b"ended\n", timeout=GRACE)


def split_words(command: str) -> list[str]:
    """Split a command into words, as a shell does. On Windows, a backslash is an ordinary letter.

    Raises ValueError if a quote is not closed.
    """
    words = shlex.shlex(command, posix=True)
    words.whitespace_split = True
    words.commenters = ""
    if sys.platform == "win32":
        words.escape = ""
    return list(words)


def shell_words(command: str) -> tuple[str, ...]:
    """Return the words that pass a command to the system's shell unchanged."""
    if sys.platform == "win32":
        return (*windows_processes.SHELL, command)
    return ("/bin/sh", "-c", command)


def _command_line(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None) -> list[str] | str:
    """Return what `subprocess` needs to start a program."""
    if sys.platform == "win32":
        return windows_processes.command_line(argv, cwd, env)
    return list(argv)


def this_python(*words: str) -> list[str]:
    """Return the command that runs this Python with some words.

    It imports nothing from the current folder, where a project may have a folder named `ralph`.
    """
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, *words]


def start_detached(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: int
) -> subprocess.Popen[bytes]:
    """Start a program that outlives this process, and whose output goes to an open file.

    Raises OSError if it cannot be started.
    """
    options: dict[str, Any] = {
        "cwd": cwd,
        "env": dict(env),
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": output,
    }
    if sys.platform == "win32":
        with contextlib.suppress(PermissionError):  # our job does not let anybody leave it
            return subprocess.Popen(list(argv), **options, **_LEAVING_JOB)
    return subprocess.Popen(list(argv), **options, **_DETACHED)


def describe_start_error(argv: Sequence[str], cwd: Path, error: Exception) -> str:
    """Describe why a program could not be started."""
    if not argv or not argv[0]:
        return "no program was named"
    program = argv[0]
    if not cwd.is_dir():
        return f"{program}: cannot be started in {cwd}, which is not a folder"
    if isinstance(error, FileNotFoundError):
        return f"{program}: there is no such program"
    reason = getattr(error, "strerror", None) or error
    return f"{program}: cannot be started: {reason}"


def deadline_after(seconds: float) -> float:
    """Return the monotonic time at which a timeout expires. A timeout of 0 never does."""
    if seconds > 0:
        return time.monotonic() + seconds
    return float("inf")


class _BoundedText:
    """Decodes a stream and keeps its last `limit` characters."""

    def __init__(self, limit: int, on_text: Callable[[str], None]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._limit = max(limit, 1)
        self._on_text = on_text
        self._pieces: list[str] = []
        self._size = 0
        self.dropped = 0  # characters

    def add(self, raw: bytes) -> None:
        """Append bytes. An empty value marks the end of the stream."""
        text = self._decoder.decode(raw, final=not raw)
        self._pieces.append(text)
        self._size += len(text)
        if self._size > 2 * self._limit:
            self._trim()
        if text:
            self._on_text(text)

    def _trim(self) -> str:
        text = "".join(self._pieces)[-self._limit :]
        self.dropped += self._size - len(text)
        self._pieces = [text]
        self._size = len(text)
        return text

    def text(self) -> str:
        text = self._trim()
        if self.dropped:
            return f"[... {self.dropped} characters left out ...]\n{text}"
        return text


class _ProcessGroup:
    """A program that was started with `_NEW_GROUP`, and the processes that it started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        if sys.platform == "win32":
            self._job = windows_processes.Job(pid)

    def ask_to_end(self) -> None:
        """Ask all processes of the group to end. On Windows, end them."""
        if sys.platform == "win32":
            self._job.end()
        else:
            _signal_group(self._pid, signal.SIGTERM)

    def kill(self) -> None:
        """End all processes of the group."""
        if sys.platform == "win32":
            self._job.end()
        else:
            _signal_group(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Forget the group."""
        if sys.platform == "win32":
            self._job.close()


class _RunningProgram:
    """A running program and its pipes.

    The program is reaped last, so that the system cannot reuse its process id before that.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: str, out: _BoundedText, err: _BoundedText
    ) -> None:
        self._process = process
        self._group = _ProcessGroup(process.pid)
        self._out = out
        self._err = err
        self._pipes = pipes.connect(process, stdin.encode("utf-8", "replace"), out.add, err.add)

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> ProcessResult:
        """Pass data until the program exits or has to be stopped, then end all its processes."""
        deadline = deadline_after(timeout)
        next_stop_check = 0.0
        timed_out = False
        was_stopped = False
        is_over = False
        try:
            while not (timed_out or was_stopped or self._ended()):
                self._pipes.move_bytes(_TICK_SECONDS)
                now = time.monotonic()
                timed_out = now >= deadline
                if not timed_out and now >= next_stop_check:
                    next_stop_check = now + _STOP_CHECK_SECONDS
                    was_stopped = stopped()
            if not (timed_out or was_stopped):
                # Read the rest of the output, and kill whatever is left of the process group.
                self._move_bytes_until(self._pipes.are_outputs_closed, LINGER)
                self._group.kill()
                is_over = True
                self._move_bytes_until(self._pipes.are_outputs_closed, LINGER)
        finally:
            try:
                if not is_over:
                    self._terminate()
            finally:
                self._reap()
        out = self._out.text()
        err = self._err.text()
        cut = bool(self._out.dropped or self._err.dropped)
        return ProcessResult(self._process.returncode, out, err, timed_out, was_stopped, cut)

    def _ended(self) -> bool:
        """Return whether the program has exited, if possible without reaping it."""
        if self._process.returncode is not None:
            return True
        if sys.platform != "win32" and hasattr(os, "waitid"):
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, options) is not None
        return self._process.poll() is not None

    def _ended_and_closed(self) -> bool:
        return self._ended() and self._pipes.are_outputs_closed()

    def _move_bytes_until(self, is_done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_done() and time.monotonic() < deadline:
            self._pipes.move_bytes(_TICK_SECONDS)

    def _terminate(self) -> None:
        """End the program and its descendants, first politely and then by force."""
        pid = self._process.pid
        members = find_descendants(pid)
        try:
            self._group.ask_to_end()
            self._move_bytes_until(self._ended, GRACE)
        finally:
            members |= find_descendants(pid)
            self._group.kill()
            kill_processes(members)
        self._move_bytes_until(self._ended_and_closed, LINGER)

    def _reap(self) -> None:
        self._pipes.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside the kernel
            self._process.wait(GRACE)
        self._group.close()


class LineProgram:
    """A program that answers each line that it gets with a line.

    On Windows, it ends with this process at the latest.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        """Start the program. Raises OSError if it cannot be started."""
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a thread that waits for a buffered pipe would abort the interpreter's end
            **_NEW_GROUP,
        )
        self._group = _ProcessGroup(self._process.pid)
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        unfinished = b""
        while piece := os.read(self._process.stdout.fileno(), _READ_BYTES):
            *lines, unfinished = (unfinished + piece).split(b"\n")
            for line in lines:
                self._answers.put(line)
        self._answers.put(_ENDED)

    def ask(self, line: bytes) -> bytes:
        """Return the answer to a line without its newline.

        A signal handler can interrupt this, also on Windows. Raises OSError if the program has
        ended.
        """
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        unsent = memoryview(line + b"\n")
        while unsent:
            unsent = unsent[self._process.stdin.write(unsent) :]
        while True:
            with contextlib.suppress(queue.Empty):
                answer = self._answers.get(timeout=_TICK_SECONDS)
                if answer is _ENDED:
                    raise OSError("the program has ended")
                return answer

    def end(self) -> None:
        """End the program."""
        self._group.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(OSError):
            self._process.communicate()
        self._group.close()


@contextlib.asynccontextmanager
async def start_async(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], errors: IO[str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program with asyncio streams. Raises ValueError for an argument that it cannot get.

    On leaving the context, the program and all processes that it started are ended.
    """
    import asyncio

    program = await _start_with_streams(
        argv,
        folder,
        env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        limit=_LINE_LIMIT,
        **_NEW_GROUP,
    )
    group = _ProcessGroup(program.pid)
    try:
        yield program
    finally:
        members = find_descendants(program.pid)
        try:
            if program.returncode is None:
                group.ask_to_end()
            deadline = time.monotonic() + GRACE
            while program.returncode is None and time.monotonic() < deadline:
                await asyncio.sleep(_TICK_SECONDS)
        finally:  # does not use the event loop, which an interrupt may have stopped
            members |= find_descendants(program.pid)
            if program.returncode is None:  # otherwise its id may belong to another process
                group.kill()
            kill_processes(members)
            group.close()
        with contextlib.suppress(TimeoutError):  # it hangs inside the kernel
            await asyncio.wait_for(program.wait(), GRACE)


async def _start_with_streams(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], **options: Any
) -> asyncio.subprocess.Process:
    import asyncio

    name = argv[0]
    if sys.platform == "win32":
        name = windows_processes.find_program(name, folder, env)
        if windows_processes.is_batch_file(name):
            # asyncio quotes words as programs expect them, not as cmd does, but passes a line on.
            line = windows_processes.batch_file_line(name, argv[1:])
            return await asyncio.create_subprocess_shell(line, cwd=folder, env=env, **options)
    return await asyncio.create_subprocess_exec(name, *argv[1:], cwd=folder, env=env, **options)


# --- identifying processes ------------------------------------------------------------------------


class _ProcessEntry(NamedTuple):
    pid: int
    parent: int
    group: int
    started: str
    zombie: bool


def started_at(pid: int) -> str:
    """Return when a process started, or "" if it does not exist or is a zombie."""
    if pid <= 0:
        return ""
    if sys.platform == "win32":
        return windows_processes.started_at(pid)
    if _has_proc():
        entry = _read_proc(pid)
    else:
        entry = next(_read_ps("-p", str(pid)), None)
    if entry is None or entry.zombie:
        return ""
    return entry.started


def is_alive(pid: int, started: str) -> bool:
    """Return whether the process with this id and start time is still alive."""
    return bool(started) and started_at(pid) == started


def process_host() -> str:
    """Return the names of the machine and PID namespace within which process ids are unique."""
    if sys.platform == "win32":
        return os.environ.get("COMPUTERNAME", "")
    try:
        return f"{os.uname().nodename} {(_PROC / 'self' / 'ns' / 'pid').readlink()}"
    except OSError:
        return os.uname().nodename


def find_descendants(pid: int) -> set[ProcessId]:
    """Return all descendants of a process, and the other members of its group."""
    children: dict[int, list[_ProcessEntry]] = {}
    members: set[_ProcessEntry] = set()
    for entry in _list_processes():
        children.setdefault(entry.parent, []).append(entry)
        if entry.group == pid and entry.pid != pid:
            members.add(entry)
    pending = [pid]
    pending += [entry.pid for entry in members]
    while pending:
        for entry in children.get(pending.pop(), ()):
            if entry not in members:
                members.add(entry)
                pending.append(entry.pid)
    return {(entry.pid, entry.started) for entry in members}


def find_by_variable(name: str, value: str) -> set[ProcessId]:
    """Return this user's processes that have an environment variable set to this value.

    This process and its ancestors are left out. Without `/proc`, the result is empty.
    """
    if not _has_proc():
        return set()
    variable = os.fsencode(f"{name}={value}")
    parents = {entry.pid: entry.parent for entry in _list_processes()}
    members: set[ProcessId] = set()
    for pid in parents.keys() - _ancestors(os.getpid(), parents):
        with contextlib.suppress(OSError):
            environment = (_PROC / str(pid) / "environ").read_bytes()
            if variable in environment.split(b"\0"):
                started = started_at(pid)
                if started:
                    members.add((pid, started))
    return members


def _ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    """Return the ids of a process and all its ancestors, up to 0."""
    ancestors = {0}
    while pid not in ancestors:
        ancestors.add(pid)
        pid = parents.get(pid, 0)
    return ancestors


# --- ending processes -----------------------------------------------------------------------------


def kill_processes(members: Iterable[ProcessId], number: signal.Signals = FORCE) -> None:
    """Send a signal, by default the strongest one, to those processes that are still alive."""
    for pid, started in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(pid, started):
                os.kill(pid, number)


def end_processes(members: Iterable[ProcessId]) -> None:
    """End processes that are not our children.

    They get SIGTERM, and SIGKILL after a short grace period.
    """
    members = set(members)
    kill_processes(members, signal.SIGTERM)
    deadline = time.monotonic() + ORPHAN_GRACE
    while time.monotonic() < deadline and any(is_alive(*member) for member in members):
        time.sleep(_TICK_SECONDS)  # there is nothing to wait on for a process that is not a child
    kill_processes(members)


def _signal_group(pid: int, number: signal.Signals) -> None:
    if sys.platform == "win32":
        return
    # macOS forbids signalling a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


# --- reading the process table --------------------------------------------------------------------


def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


@cache
def _boot_id() -> str:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return boot_id.strip()[:_BOOT_ID_CHARACTERS]


def _list_processes() -> Iterator[_ProcessEntry]:
    if sys.platform == "win32":
        for pid, parent in windows_processes.list_parents():
            started = windows_processes.started_at(pid)
            yield _ProcessEntry(pid, parent, group=0, started=started, zombie=not started)
        return
    if not _has_proc():
        yield from _read_ps("-A")
        return
    for folder in _PROC.glob("[0-9]*"):
        entry = _read_proc(int(folder.name))
        if entry is not None:
            yield entry


# Fields of `/proc/<pid>/stat`, counted from the one after the program's name.
_STATE_FIELD = 0
_PARENT_FIELD = 1
_GROUP_FIELD = 2
_START_TIME_FIELD = 19


def _read_proc(pid: int) -> _ProcessEntry | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
        # The name is in parentheses and may contain anything, even parentheses and spaces.
        fields = stat.rpartition(b")")[2].split()
        return _ProcessEntry(
            pid,
            parent=int(fields[_PARENT_FIELD]),
            group=int(fields[_GROUP_FIELD]),
            started=f"{_boot_id()}-{fields[_START_TIME_FIELD].decode()}",
            zombie=fields[_STATE_FIELD] in (b"Z", b"X"),
        )
    except (OSError, IndexError):
        return None


def _read_ps(*selection: str) -> Iterator[_ProcessEntry]:
    argv = ["ps", *selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    # A start time is compared with one that another process has read, perhaps in another locale.
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        ended = subprocess.run(
            argv, capture_output=True, check=False, timeout=_PS_SECONDS, encoding="utf-8", env=env
        )
    except (OSError, subprocess.SubprocessError):
        return
    for line in ended.stdout.splitlines():
        pid, parent, group, state, *started = line.split()
        yield _ProcessEntry(
            int(pid),
            parent=int(parent),
            group=int(group),
            started="-".join(started),
            zombie=state.startswith("Z"),
        )
