"""A program whose pipes are asyncio's streams, for as long as an event loop lives; afterwards it is gone for certain.

asyncio's own subprocesses leave their pipes open when a grandchild holds them, and reap in a thread of their own; so
the program is started here in the plain way, in a session of its own, and only its pipes are handed to the loop.
`close` is polite first: end of input and SIGTERM, a grace, then SIGKILL for it and all of its family. `kill` needs no
event loop, for the case that an interrupt has torn one apart. Proof: `tests/agents/test_acp.py`.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ralph.agents import family, process, trouble

LINE = 1 << 26
"""Characters of a line that are read in one go; longer ones are put together by the SDK."""

_TICK = 0.02


class Program:
    """A running program and its pipes."""

    def __init__(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.popen = subprocess.Popen(
            list(words),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._transports: list[asyncio.BaseTransport] = []
        self._complaints = b""
        self._listening: asyncio.Task[None] | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Hand its pipes to the running event loop."""
        reader = await self._reads(self.popen.stdout)
        self._listening = asyncio.create_task(self._listen(await self._reads(self.popen.stderr)))
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self.popen.stdin
        )
        self._transports.append(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _reads(self, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=LINE)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(1 << 16):
            self._complaints = (self._complaints + piece)[-trouble.TAIL :]

    async def complaints(self) -> str:
        """The end of what it wrote to standard error, once it has said all or a moment has passed."""
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=process.LINGER)
        return self._complaints.decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End it and all that it started, and let its pipes go."""
        known = family.below(self.popen.pid)
        try:
            for transport in self._transports:
                transport.close()
            self._signal(signal.SIGTERM)
            ends = asyncio.get_running_loop().time() + process.GRACE
            while self.popen.poll() is None and asyncio.get_running_loop().time() < ends:
                await asyncio.sleep(_TICK)
        finally:
            self.kill(known)
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
        await asyncio.sleep(0)  # the loop closes the pipes in its next round

    def kill(self, known: Iterable[family.Member] = ()) -> None:
        """Make sure that it is gone, with those who are known to belong to it."""
        everybody = {*known, *family.below(self.popen.pid)}
        self._signal(signal.SIGKILL)
        family.kill(everybody)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs inside of the kernel
            self.popen.wait(process.GRACE)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None and not self._transports:
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        """To its whole group, while it is not reaped yet."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.popen.returncode is None:
                os.killpg(self.popen.pid, number)
