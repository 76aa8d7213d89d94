"""Run programs to their end, and find, signal and reap the processes that they started.

A program gets its own session, so that a signal reaches its whole group. Coding agents start shells in further
groups, so descendants are looked up as well (`/proc` on Linux, `ps` elsewhere) and ended with it. A process is
identified by its number and start time: numbers are reused, and they differ between sandboxes and machines.
"""

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO

from ralph.model.work import ProcessResult, ignore_text, never_stop

GRACE = 3.0  # seconds between SIGTERM and SIGKILL: a client needs some to end its own children and save its session
ORPHAN_GRACE = 1.0  # the same for processes of a loop that is gone: nobody waits for what they save
LINGER = 1.0  # seconds that a child may keep a pipe open after the program has ended
LIMIT = 4_000_000

_TICK = 0.05
_STOP_CHECK = 0.2
_NAP = 0.0002
_PIECE = 1 << 16
_PROC = Path("/proc")

ProcessId = tuple[int, str]  # A process: its number and when it started, as the system says it


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 0.0,
    limit: int = LIMIT,
    on_output: Callable[[str], None] | None = None,
    stopped: Callable[[], bool] = never_stop,
) -> ProcessResult:
    """Run a program to its end; `env` is its whole environment (None: ours), a `timeout` of 0 is none.

    `on_output` receives standard output as it arrives; each result stream is truncated to `limit` characters.
    """
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
    out, err = _BoundedText(limit, on_output or ignore_text), _BoundedText(limit, ignore_text)
    with contextlib.closing(_RunningProgram(process, stdin, out, err)) as program:
        return program.finish(timeout, stopped)


def describe_start_error(argv: Sequence[str], cwd: Path, error: Exception) -> str:
    """Describe why a program could not be started."""
    program = argv[0] if argv else ""
    if not program:
        return "no program was named"
    if not cwd.is_dir():
        return f"{program}: cannot be started in {cwd}, which is no folder"
    if isinstance(error, FileNotFoundError):
        return f"{program}: there is no such program"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{program}: cannot be started: {reason}"


class _BoundedText:
    """The text of one stream: its beginning and its end, up to a limit."""

    def __init__(self, limit: int, on_text: Callable[[str], None]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._on_text = on_text
        self._room = limit - limit // 2
        self._tail_room = limit // 2
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._in_tail = self._dropped = 0

    @property
    def cut(self) -> bool:
        return self._dropped > 0

    def add(self, raw: bytes, *, final: bool = False) -> None:
        """Append bytes; a character may be spread over two calls."""
        text = self._decoder.decode(raw, final)
        if not text:
            return
        head, rest = text[: self._room], text[self._room :]
        if head:
            self._head.append(head)
            self._room -= len(head)
        if rest:
            self._tail.append(rest)
            self._in_tail += len(rest)
        while (excess := self._in_tail - self._tail_room) > 0:
            first = self._tail.popleft()
            dropped = min(excess, len(first))
            if dropped < len(first):
                self._tail.appendleft(first[dropped:])
            self._in_tail -= dropped
            self._dropped += dropped
        self._on_text(text)

    def text(self) -> str:
        """Return the text, with a note where some was dropped."""
        note = f"\n[... {self._dropped} characters left out ...]\n" if self._dropped else ""
        return "".join([*self._head, note, *self._tail])


class _RunningProgram:
    """A running program and its three non-blocking pipes, served by one thread.

    Its process is reaped only when its group is gone, so that no signal can reach a reused number.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: str, out: _BoundedText, err: _BoundedText) -> None:
        self._process = process
        self._out, self._err = out, err
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._selector = selectors.DefaultSelector()
        self._reading = 0
        self._nap = _NAP
        self._over = False
        for pipe, text in ((process.stdout, out), (process.stderr, err)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, partial(self._receive, pipe, text))
                self._reading += 1
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE, partial(self._send, process.stdin))

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> ProcessResult:
        deadline = time.monotonic() + timeout if timeout > 0 else float("inf")
        next_check = 0.0
        timed_out = was_stopped = False
        while not self._ended():
            now = time.monotonic()
            if now >= deadline:
                timed_out = True
                break
            if now >= next_check:
                next_check = now + _STOP_CHECK
                if stopped():
                    was_stopped = True
                    break
            self._move(_TICK)
        if timed_out or was_stopped:
            self._end()
        else:
            self._drain()
        code = self._reap()
        cut = self._out.cut or self._err.cut
        return ProcessResult(code, self._out.text(), self._err.text(), timed_out, was_stopped, cut)

    def close(self) -> None:
        try:
            if not self._over:
                self._end()
        finally:
            self._reap()

    def _ended(self) -> bool:
        """Whether the program itself has ended; where possible it is not reaped yet."""
        if self._process.returncode is not None:
            return True
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def _move(self, wait: float) -> None:
        """Send and receive what is possible now; wait at most `wait` seconds for it."""
        if not self._selector.get_map():
            time.sleep(min(wait, self._nap))  # all pipes are closed: it has ended, or will soon
            self._nap *= 2
            return
        for key, _ in self._selector.select(wait):
            key.data()

    def _receive(self, pipe: IO[bytes], text: _BoundedText) -> None:
        raw = pipe.read(_PIECE)
        if raw is None:
            return
        if not raw:
            self._selector.unregister(pipe)
            pipe.close()
            self._reading -= 1
        text.add(raw, final=not raw)

    def _send(self, pipe: IO[bytes]) -> None:
        try:
            sent = pipe.write(self._unsent[:_PIECE]) if self._unsent else 0
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        else:
            self._unsent = self._unsent[sent or 0 :]
        if not self._unsent:
            self._selector.unregister(pipe)
            pipe.close()

    def _pump(self, seconds: float, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            self._move(_TICK)

    def _drain(self) -> None:
        self._pump(LINGER, lambda: not self._reading)
        self._signal(signal.SIGKILL)
        self._over = True
        self._pump(LINGER, lambda: not self._reading)

    def _end(self) -> None:
        """End the program and all that it started: SIGTERM, a grace period, SIGKILL."""
        members = find_descendants(self._process.pid)
        try:
            self._signal(signal.SIGTERM)
            self._pump(GRACE, self._ended)
        finally:
            members |= find_descendants(self._process.pid)
            self._signal(signal.SIGKILL)
            kill_processes(members)
            self._over = True
        self._pump(LINGER, lambda: self._ended() and not self._reading)

    def _signal(self, number: signal.Signals) -> None:
        signal_group(self._process.pid, number)

    def _reap(self) -> int | None:
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside the kernel
            self._process.wait(GRACE)
        return self._process.returncode


@dataclass(frozen=True, slots=True)
class _ProcessEntry:
    """One row of the system's process table."""

    pid: int
    parent: int
    group: int
    started: str
    zombie: bool


def started_at(pid: int) -> str:
    """Return when a process started; "" when it does not exist or is a zombie."""
    if pid <= 0:
        return ""
    entry = _read_proc(pid) if _has_proc() else next(_read_ps("-p", str(pid)), None)
    return "" if entry is None or entry.zombie else entry.started


def is_alive(pid: int, started: str) -> bool:
    """Whether this very process lives."""
    return bool(started) and started_at(pid) == started


def current_process() -> ProcessId:
    """Return number and start time of this process."""
    return os.getpid(), started_at(os.getpid())


def process_host() -> str:
    """Return where process numbers mean the same: this machine and, on Linux, this PID namespace."""
    try:
        return f"{os.uname().nodename} {(_PROC / 'self' / 'ns' / 'pid').readlink()}"
    except OSError:
        return os.uname().nodename


def find_descendants(pid: int) -> set[ProcessId]:
    """Return every descendant of a process and every member of its group, without itself."""
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
    """Return this user's processes with an environment variable, except us and our ancestors (Linux only)."""
    variable = os.fsencode(f"{name}={value}")
    parents = {entry.pid: entry.parent for entry in _list_processes()} if _has_proc() else {}
    ancestor, ancestors = os.getpid(), {0}
    while ancestor not in ancestors:
        ancestors.add(ancestor)
        ancestor = parents.get(ancestor, 0)
    members: set[ProcessId] = set()
    for pid in parents.keys() - ancestors:
        with contextlib.suppress(OSError):
            if variable in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                members.add((pid, started_at(pid)))
    return {member for member in members if member[1]}


def kill_processes(members: Iterable[ProcessId]) -> None:
    """Kill those processes that still live."""
    _signal_processes(members, signal.SIGKILL)


def end_processes(members: Iterable[ProcessId]) -> None:
    """End processes that are not our children: SIGTERM, a short grace period, SIGKILL."""
    members = set(members)
    _signal_processes(members, signal.SIGTERM)
    deadline = time.monotonic() + ORPHAN_GRACE
    while any(is_alive(*member) for member in members) and time.monotonic() < deadline:
        time.sleep(_TICK)  # the system offers nothing to wait on
    kill_processes(members)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies is forbidden
        os.killpg(pid, number)


def _signal_processes(members: Iterable[ProcessId], number: signal.Signals) -> None:
    for pid, started in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_alive(pid, started):
                os.kill(pid, number)


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
        return _ProcessEntry(pid, int(fields[1]), int(fields[2]), started, fields[0] in (b"Z", b"X"))
    except (OSError, IndexError):
        return None


def _read_ps(*selection: str) -> Iterator[_ProcessEntry]:
    argv = ["ps", *selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    try:
        output = subprocess.run(argv, capture_output=True, check=False, timeout=5, encoding="utf-8").stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in output.splitlines():
        pid, parent, group, state, *started = line.split()
        yield _ProcessEntry(int(pid), int(parent), int(group), "-".join(started), state.startswith("Z"))
