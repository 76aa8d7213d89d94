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
import selectors
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ralph.core.work import ProcessResult, ignore_text, never_stop

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
_CLOSED_PIPES_TICK_SECONDS = 0.001
_STOP_CHECK_SECONDS = 0.2
_PS_SECONDS = 5
_CHUNK_BYTES = 1 << 16
_LINE_LIMIT = 1 << 26  # bytes of one line that asyncio buffers; the ACP SDK joins longer lines
# Reads a line when the program has ended. Without one, whoever started the guard has died.
_GUARD_SCRIPT = 'read -r ended || kill -s KILL -- "-$1"'
_PROC = Path("/proc")
_BOOT_ID_CHARACTERS = 8

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
            list(argv),
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
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


class _RunningProgram:
    """A running program and its non-blocking pipes.

    The program is reaped last, so that the system cannot reuse its process id before that.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: str, out: _BoundedText, err: _BoundedText
    ) -> None:
        self._process = process
        self._out = out
        self._err = err
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._selector = selectors.DefaultSelector()
        self._open_streams = 2  # standard output and standard error
        self._register(process.stdout, selectors.EVENT_READ, out)
        self._register(process.stderr, selectors.EVENT_READ, err)
        self._register(process.stdin, selectors.EVENT_WRITE, None)

    def _register(self, pipe: IO[bytes] | None, event: int, text: _BoundedText | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, (pipe, text))

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> ProcessResult:
        """Pass data until the program exits or has to be stopped, then end all its processes."""
        deadline = deadline_after(timeout)
        next_stop_check = 0.0
        timed_out = False
        was_stopped = False
        is_over = False
        try:
            while not (timed_out or was_stopped or self._ended()):
                self._move_bytes(_TICK_SECONDS)
                now = time.monotonic()
                timed_out = now >= deadline
                if not timed_out and now >= next_stop_check:
                    next_stop_check = now + _STOP_CHECK_SECONDS
                    was_stopped = stopped()
            if not (timed_out or was_stopped):
                # Read the rest of the output, and kill whatever is left of the process group.
                self._move_bytes_until(self._streams_closed, LINGER)
                _signal_group(self._process.pid, signal.SIGKILL)
                is_over = True
                self._move_bytes_until(self._streams_closed, LINGER)
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
        if hasattr(os, "waitid"):
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, options) is not None
        return self._process.poll() is not None

    def _streams_closed(self) -> bool:
        return self._open_streams == 0

    def _ended_and_closed(self) -> bool:
        return self._ended() and self._streams_closed()

    def _move_bytes(self, wait: float) -> None:
        """Read output and write input, waiting at most `wait` seconds for a pipe to be ready."""
        if not self._selector.get_map():
            # All pipes are closed, so the program has exited or will soon.
            time.sleep(_CLOSED_PIPES_TICK_SECONDS)
            return
        for key, _ in self._selector.select(wait):
            pipe, text = key.data
            if text is None:
                is_over = self._write_input(pipe)
            else:
                is_over = self._read_output(pipe, text)
            if is_over:
                self._selector.unregister(pipe)
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read_output(self, pipe: IO[bytes], text: _BoundedText) -> bool:
        """Read what is available from a pipe, and return whether it is closed."""
        raw: bytes | None = pipe.read(_CHUNK_BYTES)
        if raw is None:  # nothing to read yet
            return False
        text.add(raw)
        if raw:
            return False
        self._open_streams -= 1
        return True

    def _write_input(self, pipe: IO[bytes]) -> bool:
        """Write as much as a pipe accepts, and return whether there is nothing left to write."""
        try:
            written = pipe.write(self._unsent[:_CHUNK_BYTES]) or 0
        except BrokenPipeError:
            self._unsent = memoryview(b"")
            return True
        self._unsent = self._unsent[written:]
        return not self._unsent

    def _move_bytes_until(self, is_done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_done() and time.monotonic() < deadline:
            self._move_bytes(_TICK_SECONDS)

    def _terminate(self) -> None:
        """End the program and its descendants, first with SIGTERM and then with SIGKILL."""
        pid = self._process.pid
        members = find_descendants(pid)
        try:
            _signal_group(pid, signal.SIGTERM)
            self._move_bytes_until(self._ended, GRACE)
        finally:
            members |= find_descendants(pid)
            _signal_group(pid, signal.SIGKILL)
            kill_processes(members)
        self._move_bytes_until(self._ended_and_closed, LINGER)

    def _reap(self) -> None:
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside the kernel
            self._process.wait(GRACE)


@contextlib.asynccontextmanager
async def start_async(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], errors: IO[str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program with asyncio streams.

    On leaving the context, the program and all processes that it started are ended.
    """
    import asyncio

    program = await asyncio.create_subprocess_exec(
        argv[0],
        *argv[1:],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
        limit=_LINE_LIMIT,
    )
    try:
        yield program
    finally:
        members = find_descendants(program.pid)
        try:
            if program.returncode is None:
                _signal_group(program.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE
            while program.returncode is None and time.monotonic() < deadline:
                await asyncio.sleep(_TICK_SECONDS)
        finally:  # does not use the event loop, which an interrupt may have stopped
            members |= find_descendants(program.pid)
            if program.returncode is None:  # otherwise its id may belong to another process
                _signal_group(program.pid, signal.SIGKILL)
            kill_processes(members)
        with contextlib.suppress(TimeoutError):  # it hangs inside the kernel
            await asyncio.wait_for(program.wait(), GRACE)


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


def kill_processes(members: Iterable[ProcessId], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal, by default SIGKILL, to those processes that are still alive."""
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
    try:
        ended = subprocess.run(
            argv, capture_output=True, check=False, timeout=_PS_SECONDS, encoding="utf-8"
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
