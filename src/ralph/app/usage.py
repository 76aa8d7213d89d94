"""Usage: the ledger of what was injected into sessions, whether it was used, and the statistics over it.

The ledger only grows: a line for each injected record, and at Stop a line for each that was referenced since. Beside
it, a list for each session says what it has seen; compaction removes that list. A record counts as referenced when
something after its injection shows it: its id, words that only it has, its file, or its command; a tool's output does
not count, since printing a memory file does not use it. Rates count pairs of session and record.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import hook_state, index
from ralph.errors import RalphError, Unreadable
from ralph.formats.log import encode_line, parse_log
from ralph.model import ids
from ralph.model.record import ObservationKind, Record
from ralph.model.work import RunStatus
from ralph.search import terms
from ralph.search.terms import EVERYDAY_WORDS, stem
from ralph.store import db, files, queries
from ralph.store.library import Library

LEDGER_BYTES = 1_000_000
"""Bytes of the ledger that a hook reads: its end, some 7,000 injections."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_LEAST_LETTERS, _LEAST_CJK, _LEAST_WORDS = 6, 3, 2
_LEAST_NAME = 4
_COMMAND = re.compile(r"`([^`\n]{4,200})`")
_NAME = re.compile(r"[a-z][A-Z]|[_./:\\]|\w-\w|[A-Za-z]\d|\d[A-Za-z]")
_FILE = re.compile(r"[\w.@~/-]*[\w-]\.[A-Za-z][\w]{0,9}")
_CODE = """branch client command commit config configuration create default delete directory error failed
    failing failure fields folder function handle import install library method missing module object option output
    package passed process remove replace request require response result return returned running script server
    service source statement string support system target tested testing update updated values variable version
    warning working written"""
"""Words that any text about code may have."""
_EVENT = re.compile(rb'\s*\{"v": ?\d+, ?"type": ?"(?:event|observation)"')
_ALL_BYTES = 1 << 28  # bytes of the ledger: all of it, within reason
_LINE = 1 << 20  # bytes; a longer line is counted once all the same


@dataclass(frozen=True, slots=True)
class Injection:
    """One record injected once."""

    record: str
    tokens: int = 0
    layer: int = 3
    at: str = ""
    session: str = ""
    event: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """One record that a session referenced."""

    record: str
    session: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The lines of the ledger, in order."""

    injections: tuple[Injection, ...] = ()
    uses: tuple[Use, ...] = ()


def ledger_file(root: Path) -> Path:
    """The path of the ledger, in the main checkout."""
    return paths.log_folder(root) / "injections.jsonl"


def seen_file(root: Path, session: str) -> Path:
    """The path of the list of what a session has seen; an unsafe session id does not become a path."""
    name = session if _SAFE_NAME.fullmatch(session) else ids.derived("session", session)
    return paths.cache_folder(root) / "injected" / name


def record_injections(root: Path, session: str, event: str, items: Sequence[Injection], at: str) -> None:
    """Append what was injected, and that this session has seen it."""
    if not items:
        return
    shared = {"at": at, "session": session, "event": event}
    lines = [
        encode_line("injection", {**shared, "record": item.record, "tokens": item.tokens, "layer": item.layer})
        for item in items
    ]
    files.append(ledger_file(root), "".join(lines), root=paths.state_boundary(root))
    mark_seen(root, session, [item.record for item in items])


def mark_seen(root: Path, session: str, names: Sequence[str]) -> None:
    """Append to the list of what a session has seen: ids of records, and marks of other lines."""
    lines = "".join(f"{name}\n" for name in names if "\n" not in name)
    if lines:
        files.append(seen_file(root, session), lines, root=paths.state_boundary(root))


def seen_records(root: Path, session: str) -> set[str]:
    """What was injected into this session since it began or was compacted."""
    return {line for line in _tail(seen_file(root, session), LEDGER_BYTES).split("\n") if line}


def forget_session(root: Path, session: str) -> None:
    """Let everything be injected again: the session's context was compacted."""
    files.delete(seen_file(root, session))


def read_ledger(root: Path, most: int = LEDGER_BYTES, *, session_id: str = "") -> Ledger:
    """Read the last bytes of the ledger; torn lines and other kinds are skipped.

    With a session's id, lines of other sessions may be left out.
    """
    injections: list[Injection] = []
    uses: list[Use] = []
    text = _tail(ledger_file(root), most)
    if _SAFE_NAME.fullmatch(session_id):  # such an id is written as it is
        text = "\n".join(line for line in text.split("\n") if session_id in line)
    for value in _values(text):
        record_id, session = value.get("record"), value.get("session")
        if not (isinstance(record_id, str) and isinstance(session, str)):
            continue
        at, event = (found if isinstance(found := value.get(key), str) else "" for key in ("at", "event"))
        tokens, layer = (
            found if type(found := value.get(key)) is int and found >= 0 else 0 for key in ("tokens", "layer")
        )
        if value.get("type") == "injection":
            injections.append(Injection(record_id, tokens, layer, at, session, event))
        elif value.get("type") == "used":
            uses.append(Use(record_id, session, at))
    return Ledger(tuple(injections), tuple(uses))


def usefulness(root: Path) -> Mapping[str, tuple[int, int]]:
    """By record: in how many sessions it was injected, and in how many of these it was used."""
    return count_uses(read_ledger(root))


def count_uses(ledger: Ledger) -> Mapping[str, tuple[int, int]]:
    """By record: in how many sessions it was injected, and in how many of these it was used."""
    injected: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    for injection in ledger.injections:
        injected.setdefault(injection.record, set()).add(injection.session)
    for use in ledger.uses:
        used.setdefault(use.record, set()).add(use.session)
    return {name: (len(sessions), len(sessions & used.get(name, set()))) for name, sessions in injected.items()}


def record_uses(root: Path, session: str, record_ids: Sequence[str], at: str) -> list[str]:
    """Append what a session referenced, each record once a session; return the new ones."""
    if not record_ids:
        return []
    known = {use.record for use in read_ledger(root, session_id=session).uses if use.session == session}
    new = [name for name in dict.fromkeys(record_ids) if name not in known]
    if new:
        lines = [encode_line("used", {"at": at, "session": session, "record": name}) for name in new]
        files.append(ledger_file(root), "".join(lines), root=paths.state_boundary(root))
    return new


def references(
    root: Path, session: str, observations: Sequence[Record], records: Sequence[Record] | None = None
) -> list[str]:
    """The injected records that a session refers to since; `records` saves looking them up."""
    since: dict[str, str] = {}
    for injection in read_ledger(root, session_id=session).injections:
        if injection.session == session:
            since.setdefault(injection.record, injection.at)
    if not since:
        return []
    by_id = {record.id: record for record in (_records(root, list(since)) if records is None else records)}
    marks = {name: _marks_of_record(by_id[name]) if name in by_id else _Marks() for name in since}
    utterances = [(_moment(observation.created_at), *_marks_of_utterance(observation)) for observation in observations]
    return [name for name, at in since.items() if _is_referenced(name, marks, utterances, _moment(at))]


# --- references ----------------------------------------------------------------------------------


class _Marks(NamedTuple):
    """What identifies a record or an utterance: rare words, names of code, files, and commands."""

    words: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()


def _marks_of_record(record: Record) -> _Marks:
    text = f"{record.title}\n{record.text}"
    names = {*record.origin.files, *(match for match in _FILE.findall(text) if "/" in match or _NAME.search(match))}
    commands = (" ".join(match.split()) for match in _COMMAND.findall(text))
    return _Marks(*_marking_words(text), frozenset(names), tuple(command for command in commands if " " in command))


def _marks_of_utterance(observation: Record) -> tuple[str, _Marks]:
    """What the author of an observation said or ran, and its marks."""
    command = observation.extra.get("command")
    run = " ".join(command.split()) if isinstance(command, str) else ""
    text = observation.text if observation.kind is ObservationKind.NOTE else run
    return text, _Marks(*_marking_words(text), frozenset(observation.origin.files), (run,))


def _is_referenced(
    name: str,
    marks: Mapping[str, _Marks],
    utterances: Sequence[tuple[datetime | None, str, _Marks]],
    since: datetime | None,
) -> bool:
    """Whether anything after the injection refers to a record; words of other records or from before do not count."""
    if since is None:
        return False
    after = [(text, other) for at, text, other in utterances if at is not None and at > since]
    for text, _ in after:
        if any(not piece[:1].isalnum() for piece in text.split(name)[1:]):  # not an id that only begins so
            return True
    mine = marks[name]
    common = [other for record, other in marks.items() if record != name]
    common += [other for at, _, other in utterances if at is None or at <= since]
    words = mine.words.difference(*(other.words for other in common))
    names = mine.names.difference(*(other.names for other in common))
    return any(
        len(words & other.words) >= _LEAST_WORDS
        or not names.isdisjoint(other.names)
        or any(_same_file(path, cited) for path in other.files for cited in mine.files)
        or any(command in other.commands[0] for command in mine.commands)
        for _, other in after
    )


@cache
def _common_terms() -> frozenset[str]:
    return frozenset(map(stem, (*EVERYDAY_WORDS, *_CODE.split())))


def _marking_words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The rare words of a text, as terms, and the names of code in it."""
    words: set[str] = set()
    names: set[str] = set()
    for word in terms.split_words(text):
        folded = terms.fold(word)
        if terms.is_cjk(word):
            words.update([folded[:_LEAST_CJK]] if len(folded) >= _LEAST_CJK else [])
        elif _NAME.search(word) and len(word) >= _LEAST_NAME:
            names.add(folded)
        elif len(word) >= _LEAST_LETTERS:
            words.update(terms.word_terms(folded)[:1])
    return frozenset(words - _common_terms()), frozenset(names)


def _same_file(one: str, other: str) -> bool:
    """Whether two paths may mean one file: the same, or one ends with the other."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _moment(at: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# --- reading -------------------------------------------------------------------------------------


def _records(root: Path, names: Sequence[str]) -> list[Record]:
    """The records of these ids: from the index as it is, else from the memory files."""
    by_id: dict[str, Record] = {}
    database = paths.index_file(root)
    if database.exists():
        try:
            with db.explained(database), closing(db.connect(database, read_only=True)) as connection:
                keys = [key for name in names if (key := queries.key_of(connection, name)) is not None]
                by_id = {record.id: record for record in queries.records(connection, keys).values()}
        except (RalphError, sqlite3.Error):  # no index, or one that is being built: the files have the same
            by_id = {}
    if len(by_id) < len(names):
        by_id = {record.id: record for record in _curated(root)} | by_id
    return [by_id[name] for name in names if name in by_id]


def _curated(root: Path) -> Iterator[Record]:
    """The guardrails and memories."""
    library = Library(root)
    for shelf in (library.guardrails, library.memories):
        yield from (stored.record for stored in library.read(shelf))


def _tail(path: Path, most: int) -> str:
    """The end of a file, at most so many bytes, from the start of a line; "" when there is no file."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            over = max(0, path.stat().st_size - most)
            file.seek(over)
            text = file.read(most).decode("utf-8", "replace")
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions") from error
    return text.partition("\n")[2] if over else text


def _values(text: str) -> Iterator[Mapping[str, object]]:
    """The objects of a log, line by line; of a torn line, those that can still be read."""
    lines = [line for line in text.split("\n") if line]
    try:  # all at once is much faster
        values = json.loads(f"[{','.join(lines)}]") if all(line[0] + line[-1] == "{}" for line in lines) else []
    except (ValueError, RecursionError):
        values = []
    if len(values) == len(lines):
        yield from values
        return
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield value
        else:
            yield from (entry.value for entry in parse_log(line).lines)


# --- statistics ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventStats:
    """What one kind of event injected: how often, in how many sessions, its tokens, and how much was used."""

    event: str
    injections: int
    sessions: int
    tokens: int
    handed: int
    referenced: int


@dataclass(frozen=True, slots=True)
class HookUsage:
    """What the hooks recorded, how often they failed, and the last failure."""

    recorded: int = 0
    failures: int = 0
    last_at: str = ""
    last: str = ""

    @property
    def success_rate(self) -> float | None:
        """The part that did not fail; None when nothing happened yet."""
        return _rate(self.recorded, self.recorded + self.failures)


@dataclass(frozen=True, slots=True)
class UnusedMemory:
    """A memory that was injected and never referred to."""

    id: str
    kind: str
    text: str
    sessions: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LoopUsage:
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
class UsageStats:
    """Everything that `ralph status --usage` prints."""

    sessions: int
    injections: int
    tokens: int
    handed: int
    referenced: int
    events: tuple[EventStats, ...]
    never_used: tuple[UnusedMemory, ...]
    never_handed: int
    hooks: HookUsage
    loops: LoopUsage = LoopUsage()

    @property
    def reference_rate(self) -> float | None:
        """The part of what was injected that sessions referred to; None when nothing was injected yet."""
        return _rate(self.referenced, self.handed)


def usage_stats(root: Path) -> UsageStats:
    """Count what was injected, used, recorded and run."""
    ledger = read_ledger(root, _ALL_BYTES)
    used = {(use.session, use.record) for use in ledger.uses}
    handed = {(item.session, item.record) for item in ledger.injections}
    unused, never_handed = _unused_memories(root, ledger)
    return UsageStats(
        sessions=len({session for session, _ in handed}),
        injections=len(ledger.injections),
        tokens=sum(item.tokens for item in ledger.injections),
        handed=len(handed),
        referenced=len(handed & used),
        events=tuple(_event_stats(ledger, used)),
        never_used=unused,
        never_handed=never_handed,
        hooks=hook_usage(root),
        loops=loop_usage(root),
    )


def never_used(root: Path) -> tuple[UnusedMemory, ...]:
    """The memories and guardrails that were injected and never referred to, those of most sessions first."""
    return _unused_memories(root, read_ledger(root, _ALL_BYTES))[0]


def hook_usage(root: Path) -> HookUsage:
    """What the hooks recorded and how often they failed."""
    failed = hook_state.read_failures(root)
    recorded = sum(_count_events(path) for path in sorted((paths.log_folder(root) / "sessions").glob("*.jsonl")))
    return HookUsage(recorded) if failed is None else HookUsage(recorded, failed.count, failed.at, failed.what)


def loop_usage(root: Path) -> LoopUsage:
    """How runs of the loop ended; without runs, the index is not read."""
    if not any((paths.log_folder(root) / "runs").glob("*.jsonl")):
        return LoopUsage()
    found = index.ask(root, queries.count_loops)
    count = {status: found.get(status.value, (0, 0)) for status in RunStatus}
    succeeded, iterations = count[RunStatus.SUCCESS]
    failed, stopped, running = (count[each][0] for each in (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.RUNNING))
    return LoopUsage(succeeded, failed, stopped, running, iterations)


def _event_stats(ledger: Ledger, used: set[tuple[str, str]]) -> Iterator[EventStats]:
    """By event, the most expensive first; a record counts for each event that injected it into a session."""
    by_event: dict[str, list[Injection]] = {}
    for injection in ledger.injections:
        by_event.setdefault(injection.event or "unknown", []).append(injection)
    price = {event: sum(each.tokens for each in found) for event, found in by_event.items()}
    for event in sorted(by_event, key=lambda event: (-price[event], event)):
        handed = {(each.session, each.record) for each in by_event[event]}
        sessions = {session for session, _ in handed}
        yield EventStats(event, len(by_event[event]), len(sessions), price[event], len(handed), len(handed & used))


def _unused_memories(root: Path, ledger: Ledger) -> tuple[tuple[UnusedMemory, ...], int]:
    """The memories and guardrails that were injected and never used, and how many were never injected."""
    counts = count_uses(ledger)
    tokens = Counter[str]()
    for injection in ledger.injections:
        tokens[injection.record] += injection.tokens
    curated = {record.id: record for record in _curated(root)}
    unused = [
        UnusedMemory(name, record.kind.value, record.text, counts[name][0], tokens[name])
        for name, record in curated.items()
        if name in counts and not counts[name][1]
    ]
    unused.sort(key=lambda memory: (-memory.sessions, -memory.tokens, memory.id))
    return tuple(unused), sum(name not in counts for name in curated)


def _count_events(path: Path) -> int:
    """The events in a session's log; only the beginning of each line is read."""
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


def _rate(part: int, total: int) -> float | None:
    return part / total if total else None
