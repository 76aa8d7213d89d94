"""Embed records while a server has nothing else to do.

`ralph web` and `ralph mcp serve` tell an `IdleEmbedding` about each request. When there has been
none for a few seconds, a thread embeds records with the local model, one text at a time, until a
request comes or every record has its vector. The thread reads the index as it is, so it holds no
lock that a hook or a command waits for. It ends with the process.

Servers import this module at their start, so it imports the model and the index only when they are
needed.
"""

from __future__ import annotations

import atexit
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ralph.core.errors import RalphError

if TYPE_CHECKING:
    from ralph.core.settings import Embedding
    from ralph.search.meaning import Embedded

QUIET_SECONDS = 3.0  # without a request, after which a server is idle
_STOP_SECONDS = 5.0  # to wait for the text that is being embedded when the process ends

EmbedWhile: TypeAlias = "Callable[[Path, Embedding, Callable[[], bool]], Embedded | None]"
"""Embeds records as long as a function returns true. See `meaning.embed_while`."""


class _Project(NamedTuple):
    root: Path
    settings: Embedding


class IdleEmbedding:
    """Embeds the records of the project that a server was last asked about, while it is idle."""

    def __init__(
        self,
        embed_while: EmbedWhile | None = None,
        *,
        quiet_seconds: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embed_while = embed_while
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        self._lock = Lock()
        self._requests = 0  # that are being answered
        self._quiet_since = clock()
        self._project: _Project | None = None
        self._finished: dict[Path, str] = {}  # projects, with the index in which nothing was left
        self._thread: Thread | None = None
        self._has_work = Event()
        self._is_stopping = Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Keep the server from being idle while a request is answered."""
        with self._lock:
            self._requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._requests -= 1
                self._quiet_since = self._clock()

    def is_idle(self) -> bool:
        """Return whether there is no request, and has been none for a while."""
        with self._lock:
            if self._requests or self._is_stopping.is_set():
                return False
            return self._clock() - self._quiet_since >= self._quiet_seconds

    def offer(self, root: Path, settings: Embedding) -> None:
        """Embed the records of this project as soon as the server is idle."""
        if settings.provider not in ("auto", "local"):
            return
        self._project = _Project(root, settings)
        with self._lock:
            if self._thread is None and not self._is_stopping.is_set():
                self._thread = Thread(target=self._run, name="idle embedding", daemon=True)
                self._thread.start()
                # A thread inside the model's runtime would crash the interpreter when that ends.
                atexit.register(self.stop)
        self._has_work.set()

    def stop(self) -> None:
        """End the thread after the text that it is embedding."""
        self._is_stopping.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._has_work.wait()
            self._has_work.clear()
            while not self.is_idle() and not self._is_stopping.is_set():
                self._is_stopping.wait(self._quiet_seconds)
            if self._project is not None:
                self.work(*self._project)

    def work(self, root: Path, settings: Embedding) -> None:
        """Embed records of a project until a request comes, whose end starts the work again.

        Nothing is done if the index is still the one in which every record had its vector.
        """
        if not self.is_idle():
            return
        from ralph.search import index, meaning

        embed_while = self._embed_while or meaning.embed_while
        # What fails here is reported by the next search.
        with suppress(RalphError, OSError, sqlite3.Error):
            state = index.state_of(root)
            if self._finished.get(root) == state:
                return
            result = embed_while(root, settings, self.is_idle)
            if result is not None and not result.left:
                self._finished[root] = state
