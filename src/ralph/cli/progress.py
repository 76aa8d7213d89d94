"""A progress line on a terminal, and nothing at all elsewhere."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ralph.store.index import Progress

_FEW = 20


@contextmanager
def bar(what: str) -> Iterator[Progress | None]:
    """A function that shows how far something is; None when nobody is watching."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    shown = False

    def progress(done: int, total: int) -> None:
        nonlocal shown
        if total >= _FEW and (done % _FEW == 0 or done == total):
            shown = True
            sys.stderr.write(f"\r{what}: {done} of {total}")
            sys.stderr.flush()

    try:
        yield progress
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
