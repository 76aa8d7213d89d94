"""Measure Ralph's own cost per iteration of the loop, and whether a long run gets slower or larger.

`python bench/loop.py [iterations]`. The scripted agent only changes a file; there are no criteria, no verifier and no
cooldown. Ralph's cost is the time from the end of one turn to the beginning of the next. In each turn, the agent does
the work that this is compared with: one search, three git calls and five fsyncs. Both are therefore measured on the
same disk at the same time, whatever else the machine is doing. Growth is measured in processor time, including that of
git, because the first and the last iterations are minutes apart, and the load of the machine changes in between. The
first iterations also have less to put into the prompt.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.sessions import Words
from bench.timing import processor_time

from bench import speed
from ralph.core.record import MemoryKind, Outcome, Query
from ralph.core.settings import Config
from ralph.core.work import Ask, JournalEntry, Reply
from ralph.loop import loop
from ralph.loop.printer import LoopPrinter
from ralph.loop.request import LoopRequest
from ralph.memory import memory
from ralph.recall import journal, search
from ralph.search import index
from ralph.storage import files

RECORDS, ENTRIES, MEMORIES = 10_000, 1_000, 200
SHORT = 40
LONG = 200
"""Iterations of the two runs. A thousand show slow growth better, and take ten minutes."""
MAX_OVERHEAD = 10.0
"""An iteration relative to what it is compared with."""
MAX_GROWTH = 1.2
"""A late iteration relative to an early one."""
_GROWTH_BEFORE = 2.7
"""The growth when each iteration read the whole log of the run and progress.txt several times."""
MAX_MEMORY_GROWTH = 1.1
_A_RUN = 50


@dataclass
class Clock:
    """An agent that measures its caller."""

    questions: list[str]
    name: str = "clock"
    enforces_read_only: bool = False
    ours: list[float] = field(default_factory=list)
    our_processor_time: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    _left: float = 0.0
    _left_processor_time: float = 0.0

    def run(self, ask: Ask) -> Reply:
        """Record how long Ralph took since the last turn, and do the work that it is compared with."""
        came = time.perf_counter()
        if self._left:
            self.ours.append(came - self._left)
            self.our_processor_time.append(processor_time() - self._left_processor_time)
        number = len(self.theirs) + 1
        self._compared(ask.folder, number)
        self.theirs.append(time.perf_counter() - came)
        self.sizes.append(_size())
        (ask.folder / "work.txt").write_text(f"{number}\n", encoding="utf-8")
        said = f"<journal>Step {number}: {self.questions[number % len(self.questions)]}.</journal>"
        self._left = time.perf_counter()
        self._left_processor_time = processor_time()
        return Reply(said, model="clock")

    def _compared(self, folder: Path, number: int) -> None:
        search.search(folder, Query(text=self.questions[number % len(self.questions)]))
        for _ in range(3):
            subprocess.run(
                ["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True
            )
        with (folder / ".git" / "synced").open("ab", buffering=0) as file:
            for _ in range(5):
                file.write(b"x" * 200)
                os.fsync(file.fileno())


def figures(long: int = LONG) -> list[Figure]:
    """Measure a short run in a large project, and a long run."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
        short = _measured(Path(folder) / "full", SHORT, RECORDS, ENTRIES)
        grown = _measured(Path(folder) / "long", long, 0, 0)
    part = max(10, len(grown.ours) // 10)
    times = grown.our_processor_time
    growth = median(times[-part:]) / median(times[:part])
    return [
        Figure(
            "an iteration / one search, three git calls, five fsyncs",
            median(short.ours) / median(short.theirs),
            target=MAX_OVERHEAD,
        ),
        Figure(
            f"the last of {long:,} iterations / the first",
            growth,
            baseline=_GROWTH_BEFORE,
            target=MAX_GROWTH,
        ),
        Figure(
            f"memory after {long:,} iterations / after a tenth",
            grown.sizes[-1] / grown.sizes[part],
            target=MAX_MEMORY_GROWTH,
        ),
    ]


def _measured(root: Path, iterations: int, records: int, entries: int) -> Clock:
    """Run this number of iterations in a project of this size."""
    words = Words(7)
    _made(root, records, entries, words)
    clock = Clock([words.prose(8) for _ in range(_A_RUN)])
    config = replace(
        Config(), loop=replace(Config().loop, max_iterations=iterations, cooldown_ms=0)
    )
    printer = LoopPrinter(
        lambda line: None, lambda text: None, lambda: False, lambda: "", lambda: None
    )
    ended = loop.start(
        root, config, LoopRequest(goal=words.prose(8), criteria=("none",)), printer, agent=clock
    )
    if ended.reason != "max_iterations":
        raise SystemExit(f"the run ended otherwise: {ended.reason}: {ended.words}")
    return clock


def _made(root: Path, records: int, entries: int, words: Words) -> None:
    """Create a project with a repository, sessions, memories and the journals of earlier runs."""
    files.make_folder(root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    if not records:
        return
    speed.write(root, records, words)
    for _ in range(MEMORIES):
        memory.add(root, words.prose(25), MemoryKind.FIX, force=True)
    for number in range(entries):
        entry = JournalEntry(
            f"run-{number // _A_RUN:08x}", number % _A_RUN + 1, Outcome.BLOCKED, task="t-000000",
            title=words.question(), notes=words.prose(40), created_at="2026-01-01T00:00:00Z",
        )  # fmt: skip
        journal.append(root, entry)
    index.sync(root)


def _size() -> int:
    """Return the memory of this process in pages; its peak if the system does not report the current value."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if sys.argv[1:] else LONG
    sys.exit(show("The loop", figures(iterations)))
