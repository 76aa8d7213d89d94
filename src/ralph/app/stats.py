"""`ralph status --usage`: whether memories are used, whether the hooks work, and how runs of the loop ended.

The reference rate is counted over pairs of session and record: of what a session was handed, how much it referred to.
The hooks' success rate compares what stands in the session logs with the failures that the hooks counted in a file
of their own; both are what is still on this disk. The loop's success rate is over the runs that have ended; the index
has them, so it is brought up to date where there are runs. Nothing else is written, and nothing there is an error.
`tests/app/test_stats.py` proves the numbers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import hook_state, index, ledger
from ralph.errors import Unreadable
from ralph.model.work import RunStatus
from ralph.store import rows
from ralph.store.library import Library

_EVENT = re.compile(rb'\s*\{"v": ?\d+, ?"type": ?"(?:event|observation)"')
_LEDGER = 1 << 28  # bytes of the ledger: all of it, within reason
_LINE = 1 << 20  # bytes; a longer line is counted once all the same


@dataclass(frozen=True, slots=True)
class EventStats:
    """What one kind of event handed over: how often, in how many sessions, at what price, and how much was used."""

    event: str
    injections: int
    sessions: int
    tokens: int
    handed: int
    referenced: int


@dataclass(frozen=True, slots=True)
class Hooks:
    """How the hooks fared: what they recorded, how often they failed, and the last failure."""

    recorded: int = 0
    failures: int = 0
    last_at: str = ""
    last: str = ""

    @property
    def success_rate(self) -> float | None:
        """The part that did not fail; None when nothing happened yet."""
        return _rate(self.recorded, self.recorded + self.failures)


@dataclass(frozen=True, slots=True)
class Unused:
    """A memory that was handed over and never referred to."""

    id: str
    kind: str
    text: str
    sessions: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Loops:
    """How runs of the loop ended, and how many iterations the successful ones took together."""

    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    running: int = 0
    iterations: int = 0

    @property
    def runs(self) -> int:
        """How many runs there are, those that are still under way included."""
        return self.succeeded + self.failed + self.stopped + self.running

    @property
    def success_rate(self) -> float | None:
        """The part of the runs that have ended which succeeded; None when none has ended yet."""
        return _rate(self.succeeded, self.runs - self.running)

    @property
    def mean_iterations(self) -> float | None:
        """How many iterations a success took on average; None when there was none yet."""
        return _rate(self.iterations, self.succeeded)


@dataclass(frozen=True, slots=True)
class Stats:
    """Everything that `ralph status --usage` tells."""

    sessions: int
    injections: int
    tokens: int
    handed: int
    referenced: int
    events: tuple[EventStats, ...]
    never_used: tuple[Unused, ...]
    never_handed: int
    hooks: Hooks
    loops: Loops = Loops()

    @property
    def reference_rate(self) -> float | None:
        """The part of what sessions were handed that they referred to; None when nothing was handed over yet."""
        return _rate(self.referenced, self.handed)


def show(root: Path) -> Stats:
    """Count; nothing is changed."""
    book = ledger.read(root, _LEDGER)
    used = {(use.session, use.record) for use in book.uses}
    handed = {(each.session, each.record) for each in book.injections}
    unused, never_handed = _memories(root, book)
    return Stats(
        sessions=len({session for session, _ in handed}),
        injections=len(book.injections),
        tokens=sum(each.tokens for each in book.injections),
        handed=len(handed),
        referenced=len(handed & used),
        events=tuple(_events(book, used)),
        never_used=unused,
        never_handed=never_handed,
        hooks=hooks(root),
        loops=loops(root),
    )


def never_used(root: Path) -> tuple[Unused, ...]:
    """The memories and guardrails that were handed over and never referred to, those of most sessions first."""
    return _memories(root, ledger.read(root, _LEDGER))[0]


def hooks(root: Path) -> Hooks:
    """What the hooks recorded and how often they failed."""
    failed = hook_state.read_failures(root)
    recorded = sum(_recorded(path) for path in sorted((paths.log_folder(root) / "sessions").glob("*.jsonl")))
    return Hooks(recorded) if failed is None else Hooks(recorded, failed.count, failed.at, failed.what)


def loops(root: Path) -> Loops:
    """How runs of the loop ended; without runs, nobody looks at the index."""
    if not any((paths.log_folder(root) / "runs").glob("*.jsonl")):
        return Loops()
    found = index.ask(root, rows.loops)
    count = {status: found.get(status.value, (0, 0)) for status in RunStatus}
    succeeded, iterations = count[RunStatus.SUCCESS]
    failed, stopped, running = (count[each][0] for each in (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.RUNNING))
    return Loops(succeeded, failed, stopped, running, iterations)


def _events(book: ledger.Ledger, used: set[tuple[str, str]]) -> Iterator[EventStats]:
    """By event, the most expensive first; a record counts for each event that handed it to a session."""
    by_event: dict[str, list[ledger.Injection]] = {}
    for injection in book.injections:
        by_event.setdefault(injection.event or "unknown", []).append(injection)
    price = {event: sum(each.tokens for each in found) for event, found in by_event.items()}
    for event in sorted(by_event, key=lambda event: (-price[event], event)):
        handed = {(each.session, each.record) for each in by_event[event]}
        sessions = {session for session, _ in handed}
        yield EventStats(event, len(by_event[event]), len(sessions), price[event], len(handed), len(handed & used))


def _memories(root: Path, book: ledger.Ledger) -> tuple[tuple[Unused, ...], int]:
    """The memories and guardrails that nobody referred to though they were handed over, and how many never were."""
    counts = ledger.counted(book)
    tokens: dict[str, int] = {}
    for injection in book.injections:
        tokens[injection.record] = tokens.get(injection.record, 0) + injection.tokens
    library = Library(root)
    records = [stored.record for shelf in (library.guardrails, library.memories) for stored in library.read(shelf)]
    known = {record.id: record for record in records}
    unused = [
        Unused(name, record.kind.value, record.text, counts[name][0], tokens[name])
        for name, record in known.items()
        if name in counts and not counts[name][1]
    ]
    unused.sort(key=lambda each: (-each.sessions, -each.tokens, each.id))
    return tuple(unused), sum(name not in counts for name in known)


def _recorded(path: Path) -> int:
    """How many events a session's log holds; only the beginning of each line is looked at."""
    found = 0
    try:
        with path.open("rb") as file:
            begins = True
            while line := file.readline(_LINE):
                found += begins and _EVENT.match(line) is not None
                begins = line.endswith(b"\n")
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions") from error
    return found


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
