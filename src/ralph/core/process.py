"""Run programs to their end, and find, signal and reap the processes that they started.

A program gets its own session, so that a signal reaches its group. Coding agents start shells in further groups, so
descendants are looked up (`/proc`, else `ps`). Numbers are reused: a process is identified by number and start time.
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

GRACE = 3.0  # seconds between SIGTERM and SIGKILL: a client needs some to end its own children and save its session
ORPHAN_GRACE = 1.0  # the same for processes of a loop that is gone: nobody waits for what they save
LINGER = 1.0  # seconds that a child may keep a pipe open after the program has ended
LIMIT = 4_000_000

_TICK = 0.05
_STOP_CHECK = 0.2
_PIECE = 1 << 16
_LINE_LIMIT = 1 << 26  # characters of a line that are read in one go; the SDK joins longer ones
_PROC = Path("/proc")

ProcessId = tuple[int, str]  # the number of a process, and when it started


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
    """Run a program to its end; `env` None is ours, `timeout` 0 is none; of each stream the last `limit` characters."""
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
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
    program = argv[0] if argv else ""
    if not program:
        return "no program was named"
    if not cwd.is_dir():
        return f"{program}: cannot be started in {cwd}, which is no folder"
    if isinstance(error, FileNotFoundError):
        return f"{program}: there is no such program"
    return f"{program}: cannot be started: {getattr(error, 'strerror', None) or error}"


class _BoundedText:
    def __init__(self, limit: int, on_text: Callable[[str], None]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._limit = max(limit, 1)
        self._on_text = on_text
        self._pieces: list[str] = []
        self._size = self.dropped = 0

    def add(self, raw: bytes) -> None:
        """Append bytes, b"" at the end."""
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
        return f"[... {self.dropped} characters left out ...]\n{text}" if self.dropped else text


class _RunningProgram:
    """A program and its non-blocking pipes; reaped last, so that its number is not reused meanwhile."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: str, out: _BoundedText, err: _BoundedText
    ) -> None:
        self._process = process
        self._out = out
        self._err = err
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._selector = selectors.DefaultSelector()
        self._reading = 2
        for pipe, text in ((process.stdout, out), (process.stderr, err), (process.stdin, None)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(
                    pipe, selectors.EVENT_READ if text else selectors.EVENT_WRITE, (pipe, text)
                )

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> ProcessResult:
        """Move bytes until the program has ended or must end; nothing of it is left."""
        deadline = time.monotonic() + timeout if timeout > 0 else float("inf")
        next_check = 0.0
        timed_out = was_stopped = is_over = False
        try:
            while not (timed_out or was_stopped or self._ended()):
                self._move(_TICK)
                now = time.monotonic()
                timed_out = now >= deadline
                if not timed_out and now >= next_check:
                    next_check = now + _STOP_CHECK
                    was_stopped = stopped()
            if not (
                timed_out or was_stopped
            ):  # read the rest of its output and kill what remains of its group
                self._pump(LINGER, lambda: not self._reading)
                _signal_group(self._process.pid, signal.SIGKILL)
                is_over = True
                self._pump(LINGER, lambda: not self._reading)
        finally:
            try:
                if not is_over:
                    self._end()
            finally:
                self._reap()
        out = self._out.text()
        err = self._err.text()
        cut = bool(self._out.dropped or self._err.dropped)
        return ProcessResult(self._process.returncode, out, err, timed_out, was_stopped, cut)

    def _ended(self) -> bool:
        """Whether the program has ended; where possible without reaping it."""
        if self._process.returncode is not None:
            return True
        if hasattr(os, "waitid"):
            return (
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                is not None
            )
        return self._process.poll() is not None

    def _move(self, wait: float) -> None:
        if not self._selector.get_map():
            time.sleep(0.001)  # all pipes are closed: it has ended, or will soon
            return
        for key, _ in self._selector.select(wait):
            pipe, text = key.data
            if text is not None:
                raw = pipe.read(_PIECE)
                is_over = raw == b""
                self._reading -= is_over
                if raw is not None:
                    text.add(raw)
            else:
                try:
                    self._unsent = self._unsent[pipe.write(self._unsent[:_PIECE]) or 0 :]
                except BrokenPipeError:
                    self._unsent = memoryview(b"")
                is_over = not self._unsent
            if is_over:
                self._selector.unregister(pipe)
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _pump(self, seconds: float, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            self._move(_TICK)

    def _end(self) -> None:
        pid = self._process.pid
        members = find_descendants(pid)
        try:
            _signal_group(pid, signal.SIGTERM)
            self._pump(GRACE, self._ended)
        finally:
            members |= find_descendants(pid)
            _signal_group(pid, signal.SIGKILL)
            kill_processes(members)
        self._pump(LINGER, lambda: self._ended() and not self._reading)

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
    """Start a program with asyncio streams; at the end, end it and all that it started."""
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
                await asyncio.sleep(_TICK)
        finally:  # needs no event loop, which an interrupt may have ended
            members |= find_descendants(program.pid)
            if program.returncode is None:  # else its number may be another process's
                _signal_group(program.pid, signal.SIGKILL)
            kill_processes(members)
        with contextlib.suppress(TimeoutError):  # it hangs inside the kernel
            await asyncio.wait_for(program.wait(), GRACE)


class _ProcessEntry(NamedTuple):
    pid: int
    parent: int
    group: int
    started: str
    zombie: bool


def started_at(pid: int) -> str:
    """Return when a process started; "" for none or a zombie."""
    if pid <= 0:
        return ""
    entry = _read_proc(pid) if _has_proc() else next(_read_ps("-p", str(pid)), None)
    return "" if entry is None or entry.zombie else entry.started


def is_alive(pid: int, started: str) -> bool:
    """Whether this very process lives."""
    return bool(started) and started_at(pid) == started


def process_host() -> str:
    """Return where process numbers mean the same: machine and PID namespace."""
    try:
        return f"{os.uname().nodename} {(_PROC / 'self' / 'ns' / 'pid').readlink()}"
    except OSError:
        return os.uname().nodename


def find_descendants(pid: int) -> set[ProcessId]:
    """Return all descendants of a process and members of its group."""
    children: dict[int, list[_ProcessEntry]] = {}
    members: set[_ProcessEntry] = set()
    for entry in _list_processes():
        children.setdefault(entry.parent, []).append(entry)
        if entry.group == pid != entry.pid:
            members.add(entry)
    pending = [pid, *(entry.pid for entry in members)]
    while pending:
        for entry in children.get(pending.pop(), ()):
            if entry not in members:
                members.add(entry)
                pending.append(entry.pid)
    return {(entry.pid, entry.started) for entry in members}


def find_by_variable(name: str, value: str) -> set[ProcessId]:
    """Return this user's processes with a variable, without us and our ancestors (Linux only)."""
    variable = os.fsencode(f"{name}={value}")
    parents = {entry.pid: entry.parent for entry in _list_processes()} if _has_proc() else {}
    ancestor = os.getpid()
    ancestors = {0}
    while ancestor not in ancestors:
        ancestors.add(ancestor)
        ancestor = parents.get(ancestor, 0)
    members: set[ProcessId] = set()
    for pid in parents.keys() - ancestors:
        with contextlib.suppress(OSError):
            if variable in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                members.add((pid, started_at(pid)))
    return {member for member in members if member[1]}


def kill_processes(members: Iterable[ProcessId], number: signal.Signals = signal.SIGKILL) -> None:
    """Kill those processes that still live, or send them another signal."""
    for pid, started in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(pid, started):
                os.kill(pid, number)


def end_processes(members: Iterable[ProcessId]) -> None:
    """End processes that are not our children: SIGTERM, a short grace period, SIGKILL."""
    members = set(members)
    kill_processes(members, signal.SIGTERM)
    deadline = time.monotonic() + ORPHAN_GRACE
    while any(is_alive(*member) for member in members) and time.monotonic() < deadline:
        time.sleep(_TICK)  # the system offers nothing to wait on
    kill_processes(members)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # macOS: a group of zombies is forbidden
        os.killpg(pid, number)


def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]


def _list_processes() -> Iterator[_ProcessEntry]:
    if not _has_proc():
        return _read_ps("-A")
    entries = (_read_proc(int(folder.name)) for folder in _PROC.glob("[0-9]*"))
    return (entry for entry in entries if entry is not None)


def _read_proc(pid: int) -> _ProcessEntry | None:
    try:
        # the name in parentheses may contain anything, so fields are counted from behind it
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        started = f"{_boot_id()}-{fields[19].decode()}"
        return _ProcessEntry(
            pid, int(fields[1]), int(fields[2]), started, fields[0] in (b"Z", b"X")
        )
    except (OSError, IndexError):
        return None


def _read_ps(*selection: str) -> Iterator[_ProcessEntry]:
    argv = ["ps", *selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    try:
        output = subprocess.run(
            argv, capture_output=True, check=False, timeout=5, encoding="utf-8"
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in output.splitlines():
        pid, parent, group, state, *started = line.split()
        yield _ProcessEntry(
            int(pid), int(parent), int(group), "-".join(started), state.startswith("Z")
        )
