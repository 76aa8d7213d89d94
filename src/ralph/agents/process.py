"""Run a program to its end, whatever it does: the one place that starts agents, criteria and git.

A program gets a session of its own, so that a signal reaches all that it started. One thread moves bytes
through non-blocking pipes in all directions at once: a large prompt, a program that never reads and one that
closes early are all the same to it. Whoever holds a pipe open after the program has ended is given a moment
and then ended with its group. At a timeout, a stop or an interrupt the group gets SIGTERM, a short grace, and
SIGKILL, as do descendants that had left the group (`family`). A detached program that outlives an ordinary end
is its own master and stays. The leader is left unreaped until its group is gone, so that no signal can reach a
stranger with a recycled number. Proof: `tests/agents/test_process.py`, by pid and by open descriptors.
"""

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from ralph.agents import family
from ralph.model.work import ignore_text, never_stop

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL: a client needs some to end its own children and save its session."""

LINGER = 1.0
"""Seconds that somebody may go on holding a pipe after the program has ended."""

LIMIT = 4_000_000

_TICK = 0.05
_ASK = 0.2
_NAP = 0.0002
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended and what it said; `code` is None when it was not started, negative after a signal."""

    code: int | None
    out: str
    err: str
    timed_out: bool = False
    stopped: bool = False
    cut: bool = False
    missing: bool = False


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
) -> Finished:
    """Run a program to its end; `env` is its whole environment (None: ours), a `timeout` of 0 is none.

    Standard output is handed to `on_output` as it comes; of either stream `limit` characters are kept.
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
        return Finished(None, "", not_started(argv, cwd, error), missing=True)
    out, err = _Kept(limit, on_output or ignore_text), _Kept(limit, ignore_text)
    with contextlib.closing(_Conversation(process, stdin, out, err)) as talk:
        return talk.finish(timeout, stopped)


def not_started(argv: Sequence[str], cwd: Path, error: Exception) -> str:
    """Why a program could not be started, in words."""
    program = argv[0] if argv else ""
    if not program:
        return "no program was named"
    if not cwd.is_dir():
        return f"{program}: cannot be started in {cwd}, which is no folder"
    if isinstance(error, FileNotFoundError):
        return f"{program}: there is no such program"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{program}: cannot be started: {reason}"


class _Kept:
    """The text of one stream: its beginning and its end, up to a limit."""

    def __init__(self, limit: int, heard: Callable[[str], None]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._heard = heard
        self._room = limit - limit // 2
        self._tail_room = limit // 2
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._in_tail = self._dropped = 0

    @property
    def cut(self) -> bool:
        """Whether something was left out."""
        return self._dropped > 0

    def add(self, raw: bytes, *, final: bool = False) -> None:
        """The next bytes; a character may be spread over two calls."""
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
            self._shorten()
        self._heard(text)

    def _shorten(self) -> None:
        while (over := self._in_tail - self._tail_room) > 0:
            first = self._tail.popleft()
            gone = min(over, len(first))
            if gone < len(first):
                self._tail.appendleft(first[gone:])
            self._in_tail -= gone
            self._dropped += gone

    def text(self) -> str:
        """What was kept, with a note where something is missing."""
        note = f"\n[... {self._dropped} characters left out ...]\n" if self._dropped else ""
        return "".join([*self._head, note, *self._tail])


class _Conversation:
    """A running program and its three pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: str, out: _Kept, err: _Kept) -> None:
        self._process = process
        self._out, self._err = out, err
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._selector = selectors.DefaultSelector()
        self._reading = 0
        self._nap = _NAP
        self._over = False
        for pipe, kept in ((process.stdout, out), (process.stderr, err)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, partial(self._receive, pipe, kept))
                self._reading += 1
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE, partial(self._send, process.stdin))

    def finish(self, timeout: float, stopped: Callable[[], bool]) -> Finished:
        """Move bytes until the program has ended or must end; gives how it ended."""
        ends = time.monotonic() + timeout if timeout > 0 else float("inf")
        ask = 0.0
        timed_out = was_stopped = False
        while not self._ended():
            now = time.monotonic()
            if now >= ends:
                timed_out = True
                break
            if now >= ask:
                ask = now + _ASK
                if stopped():
                    was_stopped = True
                    break
            self._move(_TICK)
        if timed_out or was_stopped:
            self._end()
        else:
            self._linger()
        code = self._bury()
        cut = self._out.cut or self._err.cut
        return Finished(code, self._out.text(), self._err.text(), timed_out, was_stopped, cut)

    def close(self) -> None:
        """Leave nothing behind, however we got here."""
        try:
            if not self._over:
                self._end()
        finally:
            self._bury()

    def _ended(self) -> bool:
        """Whether the program itself has ended; it is not reaped yet where the system can tell without."""
        if self._process.returncode is not None:
            return True
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def _move(self, wait: float) -> None:
        """Send and receive what can be sent and received; waits at most so long."""
        if not self._selector.get_map():
            time.sleep(min(wait, self._nap))  # all pipes are closed: it has ended, or will soon
            self._nap *= 2
            return
        for key, _ in self._selector.select(wait):
            key.data()

    def _receive(self, pipe: IO[bytes], kept: _Kept) -> None:
        raw = pipe.read(_PIECE)
        if raw is None:
            return
        if not raw:
            self._selector.unregister(pipe)
            pipe.close()
            self._reading -= 1
        kept.add(raw, final=not raw)

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

    def _pump(self, seconds: float, until: Callable[[], bool]) -> bool:
        """Go on moving bytes until something is so; False when it did not come to that in time."""
        ends = time.monotonic() + seconds
        while not until():
            if time.monotonic() >= ends:
                return False
            self._move(_TICK)
        return True

    def _linger(self) -> None:
        """The program has ended: read what is left, and end those of its group who are still there."""
        self._pump(LINGER, lambda: not self._reading)
        self._signal(signal.SIGKILL)
        self._over = True
        self._pump(LINGER, lambda: not self._reading)

    def _end(self) -> None:
        """End the program and all that it started."""
        known = family.below(self._process.pid)
        try:
            self._signal(signal.SIGTERM)
            self._pump(GRACE, self._ended)
        finally:
            known |= family.below(self._process.pid)
            self._signal(signal.SIGKILL)
            family.kill(known)
            self._over = True
        self._pump(LINGER, lambda: self._ended() and not self._reading)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies is forbidden
            os.killpg(self._process.pid, number)

    def _bury(self) -> int | None:
        """Reap the program and close what is open; gives its exit code."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside of the kernel
            self._process.wait(GRACE)
        return self._process.returncode
