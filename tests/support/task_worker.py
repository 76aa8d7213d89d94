"""The program that the tests of claims start and kill: it works on tasks as a loop would.

`claim` waits for the word and then claims; `every-line` repeats one change in child processes and kills the
n-th at the n-th line of the store's code, and says so after each.
"""

import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ralph.core.work import TaskStatus
from ralph.storage import files
from ralph.tasks import claims, task

STEP = 1 if os.environ.get("RALPH_SOAK") == "1" else 4
"""`every-line` kills at each line in soak tests, else at every fourth."""


def say(*words: object) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def claim(root: Path, run: str, *names: str) -> None:
    """Claim each of these tasks at the word, and say which we got; stay alive until told to go."""
    say("ready")
    sys.stdin.readline()
    for name in names:
        if claims.acquire(root, name, claims.make_claim(run)) is not None:
            say("won", name)
    say("over")
    sys.stdin.readline()


def work(root: Path, run: str) -> None:
    """Do what is ready until nothing is left, and say what we did."""
    say("ready")
    sys.stdin.readline()
    while found := task.ready(root):
        for each in found:
            if claims.acquire(root, each.id, claims.make_claim(run)) is not None:
                claims.finish(root, each.id, TaskStatus.DONE, run=run)
                say("did", each.id)
                break
        else:  # others were faster with all of them
            continue
    say("over")


def adds(root: Path, count: str) -> None:
    """Add so many tasks at the word."""
    say("ready")
    sys.stdin.readline()
    for number in range(int(count)):
        say("added", task.add(root, f"task {number}").task.id)
    say("over")


def waits(root: Path, name: str, other: str) -> None:
    """Let one task wait for another at the word, unless that is refused."""
    from ralph.core.errors import Refused

    say("ready")
    sys.stdin.readline()
    try:
        task.block(root, name, by=[other])
        say("waits")
    except Refused:
        say("refused")
    say("over")


def every_line(root: Path, verb: str, name: str) -> None:
    """Repeat a change in child processes, the n-th of which dies at the n-th line of the store's code."""
    change: dict[str, Callable[[], object]] = {
        "add": lambda: task.add(root, "new"),
        "claim": lambda: claims.acquire(root, name, claims.make_claim("run-1")),
        "finish": lambda: claims.finish(root, name, TaskStatus.DONE, run="run-1"),
    }
    with tempfile.TemporaryDirectory() as elsewhere:
        task.add(Path(elsewhere), "first")  # imports what the children would each import again
    for number in itertools.count(1, STEP):
        child = os.fork()
        if child == 0:
            _die_at_line(number)
            change[verb]()
            os._exit(0)
        if os.WIFEXITED(os.waitpid(child, 0)[1]):
            say("finished", number)
            return
        say("killed", number)
        sys.stdin.readline()


def _die_at_line(number: int) -> None:
    passed = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and next(passed) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]  # a trace function that returns itself has no finite type


PARTS: dict[str, Callable[..., None]] = {
    "claim": claim, "work": work, "adds": adds, "waits": waits, "every-line": every_line,
}  # fmt: skip

if __name__ == "__main__":
    part, place, *words = sys.argv[1:]
    PARTS[part](Path(place), *words)
