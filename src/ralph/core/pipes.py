"""Exchange bytes with a running program through its standard streams.

POSIX can wait for several pipes at once. Windows cannot, so there a thread waits for each pipe.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Protocol

_CHUNK_BYTES = 1 << 16
_MAX_WAITING_CHUNKS = 16
_CLOSED_PIPES_TICK_SECONDS = 0.001

TakeBytes = Callable[[bytes], None]
"""Called with what a program printed, and with nothing at the end of the stream."""


class Pipes(Protocol):
    """The pipes to a running program."""

    def move_bytes(self, wait: float) -> None:
        """Read output and write input, waiting at most `wait` seconds for a pipe to be ready."""

    def are_outputs_closed(self) -> bool:
        """Return whether the program and its children have closed their output."""

    def close(self) -> None:
        """Close all pipes."""


def connect(
    program: subprocess.Popen[bytes], text: bytes, take_output: TakeBytes, take_errors: TakeBytes
) -> Pipes:
    """Send `text` to a program that was started with three pipes, and read what it prints."""
    if sys.platform == "win32":
        return ThreadedPipes(program, text, take_output, take_errors)
    return SelectedPipes(program, text, take_output, take_errors)


def _close_quietly(program: subprocess.Popen[bytes]) -> None:
    for pipe in (program.stdin, program.stdout, program.stderr):
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):
                pipe.close()


class SelectedPipes:
    """Pipes that do not block. The selector tells which of them are ready."""

    def __init__(
        self,
        program: subprocess.Popen[bytes],
        text: bytes,
        take_output: TakeBytes,
        take_errors: TakeBytes,
    ) -> None:
        self._program = program
        self._unsent = memoryview(text)
        self._selector = selectors.DefaultSelector()
        self._open_outputs = 2
        self._register(program.stdout, selectors.EVENT_READ, take_output)
        self._register(program.stderr, selectors.EVENT_READ, take_errors)
        self._register(program.stdin, selectors.EVENT_WRITE, None)

    def _register(self, pipe: IO[bytes] | None, event: int, take: TakeBytes | None) -> None:
        if pipe is not None:
            if sys.platform != "win32":
                os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, (pipe, take))

    def move_bytes(self, wait: float) -> None:
        """Read output and write input, waiting at most `wait` seconds for a pipe to be ready."""
        if not self._selector.get_map():
            # All pipes are closed, so the program has exited or will soon.
            time.sleep(_CLOSED_PIPES_TICK_SECONDS)
            return
        for key, _ in self._selector.select(wait):
            pipe, take = key.data
            if take is None:
                is_over = self._write_input(pipe)
            else:
                is_over = self._read_output(pipe, take)
            if is_over:
                self._selector.unregister(pipe)
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read_output(self, pipe: IO[bytes], take: TakeBytes) -> bool:
        """Read what is available from a pipe, and return whether it is closed."""
        raw: bytes | None = pipe.read(_CHUNK_BYTES)
        if raw is None:  # nothing to read yet
            return False
        take(raw)
        if raw:
            return False
        self._open_outputs -= 1
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

    def are_outputs_closed(self) -> bool:
        """Return whether the program and its children have closed their output."""
        return self._open_outputs == 0

    def close(self) -> None:
        """Close all pipes."""
        self._selector.close()
        _close_quietly(self._program)


class ThreadedPipes:
    """Pipes that block, each of them in a thread of its own."""

    def __init__(
        self,
        program: subprocess.Popen[bytes],
        text: bytes,
        take_output: TakeBytes,
        take_errors: TakeBytes,
    ) -> None:
        self._program = program
        # Bounded, so that a program that prints fast has to wait for us.
        self._arrived: queue.Queue[tuple[TakeBytes, bytes]] = queue.Queue(_MAX_WAITING_CHUNKS)
        self._open_outputs = 2
        self._start(self._read, program.stdout, take_output)
        self._start(self._read, program.stderr, take_errors)
        self._start(self._write, program.stdin, text)

    @staticmethod
    def _start(target: Callable[..., None], *args: object) -> None:
        # A program that keeps a pipe open forever must not keep this process alive.
        threading.Thread(target=target, args=args, daemon=True).start()

    def _read(self, pipe: IO[bytes], take: TakeBytes) -> None:
        raw = b"begin"
        while raw:
            try:
                raw = os.read(pipe.fileno(), _CHUNK_BYTES)
            except (OSError, ValueError):  # closed while it was being read
                raw = b""
            self._arrived.put((take, raw))

    @staticmethod
    def _write(pipe: IO[bytes], text: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            pipe.write(text)
        with contextlib.suppress(OSError, ValueError):
            pipe.close()

    def move_bytes(self, wait: float) -> None:
        """Take over what has been read, waiting at most `wait` seconds for the first of it."""
        if self.are_outputs_closed():
            time.sleep(_CLOSED_PIPES_TICK_SECONDS)
            return
        with contextlib.suppress(queue.Empty):
            self._take(*self._arrived.get(timeout=wait))
            for _ in range(_MAX_WAITING_CHUNKS):
                self._take(*self._arrived.get_nowait())

    def _take(self, take: TakeBytes, raw: bytes) -> None:
        take(raw)
        if not raw:
            self._open_outputs -= 1

    def are_outputs_closed(self) -> bool:
        """Return whether the program and its children have closed their output."""
        return self._open_outputs == 0

    def close(self) -> None:
        """Close all pipes, unless a thread still waits for one."""
        if self.are_outputs_closed():
            _close_quietly(self._program)
