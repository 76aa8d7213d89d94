"""Run programs to their end, and find, signal and reap the processes that they started.

A program gets its own session, so that a signal reaches its process group. Coding agents start
shells in further groups, so descendants are looked up as well (in `/proc`, or else with `ps`). The
system reuses process ids, so a process is identified by its id and its start time.
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

# Seconds between SIGTERM and SIGKILL. A client needs some of them to end its own children and to
# save its session.
GRACE = 3.0
# The same for processes of a loop that is gone: nobody waits for what they save.
ORPHAN_GRACE = 1.0
LINGER = 1.0  # seconds that a child may keep a pipe open after the program has ended
LIMIT = 4_000_000  # characters of a stream that are kept

_TICK_SECONDS = 0.05
_CLOSED_PIPES_TICK_SECONDS = 0.001
_STOP_CHECK_SECONDS = 0.2
_PS_SECONDS = 5
_CHUNK_BYTES = 1 << 16
_LINE_LIMIT = 1 << 26  # bytes of a line that asyncio buffers; the ACP SDK joins longer lines
_PROC = Path("/proc")
_BOOT_ID_CHARACTERS = 8

ProcessId = tuple[int, str]
"""The id of a process, and when it started."""


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
) -> ProcessResult:
    """Run a program to its end, or until the timeout or `stopped` ends it.

    Without `env`, it inherits our environment. A `timeout` of 0 means no timeout. The result has
    the last `limit` characters of each stream.
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
    return _RunningProgram(process, stdin, out, err).finish(timeout, stopped)


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
    """Return the monotonic time at which a timeout expires; a timeout of 0 never does."""
    if seconds > 0:
        return time.monotonic() + seconds
    return float("inf")


class _BoundedText:
    """Decodes a stream, and keeps its last characters."""

    def __init__(self, limit: int, on_text: Callable[[str], None]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._limit = max(limit, 1)
        self._on_text = on_text
        self._pieces: list[str] = []
        self._size = 0
        self.dropped = 0  # characters

    def add(self, raw: bytes) -> None:
        """Append bytes; b"" ends the stream."""
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
    """A program and its non-blocking pipes.

    It is reaped last, so that the system does not reuse its process id before that.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: str, out: _BoundedText, err: _BoundedText
    ) -> None:
        self._process = process
        self._out = out
        self._err = err
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._selector = selectors.DefaultSelector()
        self._open_streams = 2  # of standard output and standard error
        self._register(process.stdout, selectors.EVENT_READ, out)
        self._register(process.stderr, selectors.EVENT_READ, err)
        self._register(process.stdin, selectors.EVENT_WRITE, None)

    def _register(self, pipe: IO[bytes] | None, event: int, text: _BoundedText | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, (pipe, text))

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> ProcessResult:
        """Move bytes until the program has ended or must end, and end all its processes."""
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
                # Read the rest of its output, and kill what remains of its group.
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
        """Return whether the program has ended, without reaping it where that is possible."""
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
            # All pipes are closed: the program has ended, or will soon.
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
        """Read what a pipe has, and return whether it is closed."""
        raw: bytes | None = pipe.read(_CHUNK_BYTES)
        if raw is None:  # nothing to read yet
            return False
        text.add(raw)
        if raw:
            return False
        self._open_streams -= 1
        return True

    def _write_input(self, pipe: IO[bytes]) -> bool:
        """Write what a pipe accepts, and return whether all input is written."""
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
    """Start a program with asyncio streams; on exit, end it and all processes that it started."""
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
        finally:  # without the event loop, which an interrupt may have ended
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
    """Return whether the process that started at this time is still alive."""
    return bool(started) and started_at(pid) == started


def process_host() -> str:
    """Return the machine and PID namespace, within which process ids are unique."""
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
    """Return this user's processes that have an environment variable with this value.

    The result does not include this process and its ancestors. On systems other than Linux, it is
    empty.
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
    """Return a process, its parent, and so on up to 0."""
    ancestors = {0}
    while pid not in ancestors:
        ancestors.add(pid)
        pid = parents.get(pid, 0)
    return ancestors


# --- ending processes -----------------------------------------------------------------------------


def kill_processes(members: Iterable[ProcessId], number: signal.Signals = signal.SIGKILL) -> None:
    """Kill those processes that are still alive, or send them another signal."""
    for pid, started in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(pid, started):
                os.kill(pid, number)


def end_processes(members: Iterable[ProcessId]) -> None:
    """End processes that are not our children: SIGTERM, a short grace period, SIGKILL."""
    members = set(members)
    kill_processes(members, signal.SIGTERM)
    deadline = time.monotonic() + ORPHAN_GRACE
    while time.monotonic() < deadline and any(is_alive(*member) for member in members):
        time.sleep(_TICK_SECONDS)  # the system offers nothing to wait on
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
