"""A program whose pipes are asyncio streams, as ACP agents and MCP servers need it.

asyncio's own subprocesses leave pipes open when a grandchild holds them, and reap in a thread of their own; so
the program is started with `subprocess`, in its own session, and only its pipes are connected to the event loop.
"""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ralph.agents import process

LINE_LIMIT = 1 << 26  # characters of a line that are read in one go; the SDK joins longer ones
_ERROR_LENGTH = 2000
_TICK = 0.02


class AsyncProcess:
    """A running program and its pipes."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.popen = subprocess.Popen(
            list(argv),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._transports: list[asyncio.BaseTransport] = []
        self._errors = b""
        self._error_reader: asyncio.Task[None] | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect its pipes to the running event loop."""
        reader = await self._connect_reader(self.popen.stdout)
        errors = await self._connect_reader(self.popen.stderr)

        async def read_errors() -> None:
            while piece := await errors.read(1 << 16):
                self._errors = (self._errors + piece)[-_ERROR_LENGTH:]

        self._error_reader = asyncio.create_task(read_errors())
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self.popen.stdin
        )
        self._transports.append(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _connect_reader(self, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    async def error_output(self) -> str:
        """Return the end of its standard error, once that is closed or a moment has passed."""
        if self._error_reader is not None:
            await asyncio.wait({self._error_reader}, timeout=process.LINGER)
        return self._errors.decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End it and all that it started: end of input and SIGTERM, a grace period, SIGKILL."""
        members = process.find_descendants(self.popen.pid)
        try:
            for transport in self._transports:
                transport.close()
            self._signal(signal.SIGTERM)
            deadline = asyncio.get_running_loop().time() + process.GRACE
            while self.popen.poll() is None and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(_TICK)
        finally:
            self.kill(members)
        if self._error_reader is not None:
            self._error_reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._error_reader
        await asyncio.sleep(0)  # the loop closes the pipes in its next round

    def kill(self, members: Iterable[process.ProcessId] = ()) -> None:
        """Kill it and its descendants; needs no event loop, which an interrupt may have torn down."""
        descendants = {*members, *process.find_descendants(self.popen.pid)}
        self._signal(signal.SIGKILL)
        process.kill_processes(descendants)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside the kernel
            self.popen.wait(process.GRACE)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None and not self._transports:
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.popen.returncode is None:  # reaped: its number may be another process's
            process.signal_group(self.popen.pid, number)
