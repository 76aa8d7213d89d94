"""Compute results in a second process, so that they are computed on another core.

This process sends a function to the other one and takes its results in order. What the other one
computes in advance has to fit into the pipe between them, so memory stays bounded. It ends after
the last result, or when this process ends.

It computes nothing if it has loaded other code than this process. Ralph may have been upgraded
since this process started, or this process may have found Ralph in the current folder.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import IO, Generic, TypeVar

from ralph import __version__
from ralph.core.process import this_python

if sys.platform == "linux":
    import fcntl

T = TypeVar("T")

_PIPE_BYTES = 1 << 20  # the most that Linux grants every user; the default is 64 KB
_FIRST_LINE = b"results of a side process\n"  # what is printed before it is not a result


class SideProcess(Generic[T]):
    """A process that computes the results of `produce`, which must be picklable."""

    def __init__(self, produce: Callable[[], Iterable[T]]) -> None:
        """Start the process. Raises OSError if it cannot be started."""
        self._process = subprocess.Popen(
            this_python("-m", __name__, _describe_code()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._requests = _opened(self._process.stdin)
        self._results = _opened(self._process.stdout)
        self._has_begun = False
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._results, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with contextlib.suppress(OSError):  # it has ended, which `take` notices
            pickle.dump(produce, self._requests)
            self._requests.flush()  # it stays open: when it closes, the other process ends

    def take(self) -> T:
        """Return the next result. Raises EOFError if the process has ended."""
        try:
            if not self._has_begun:
                self._skip_printed()
            result: T = pickle.load(self._results)  # noqa: S301 - from a process of our own
        except (OSError, pickle.UnpicklingError) as error:
            raise EOFError from error
        return result

    def _skip_printed(self) -> None:
        """Skip what a user's `sitecustomize` printed when the process started."""
        line = self._results.readline()
        while line not in (_FIRST_LINE, b""):
            line = self._results.readline()
        self._has_begun = True

    def __enter__(self) -> SideProcess[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._requests.close()
        self._results.close()


def choose_for_helper(items: Iterable[T], size: Callable[[T], int], helper_share: float) -> list[T]:
    """Choose the items that a side process works on, which has to be ahead of this process.

    The helper gets the first item, and then `helper_share` times as much as this process.
    """
    chosen: list[T] = []
    own_size = 0
    helper_size = 0
    for item in items:
        if helper_size <= own_size * helper_share:
            chosen.append(item)
            helper_size += size(item)
        else:
            own_size += size(item)
    return chosen


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


def _describe_code() -> str:
    """Return the version of this code and where it is."""
    return f"{__version__} {os.path.realpath(__file__)}"


def _take_stdout() -> IO[bytes]:
    """Return the pipe to the other process. From now on, whatever is printed is dropped."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def _end_with_other_process() -> None:
    """End this process when the one that started it has ended.

    Between two results, nothing else would notice that.
    """
    while os.read(sys.stdin.fileno(), 1):  # nothing more is sent
        pass
    os._exit(1)


def _main() -> None:
    """Send the results of the function that comes through standard input."""
    if sys.argv[1:] != [_describe_code()]:
        return
    results = _take_stdout()
    results.write(b"\n" + _FIRST_LINE)
    produce = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    threading.Thread(target=_end_with_other_process, daemon=True).start()
    for result in produce():
        pickle.dump(result, results, pickle.HIGHEST_PROTOCOL)
        results.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _main()
