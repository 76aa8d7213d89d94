"""Parse the text of a source into records, tasks and other lines.

A *raw line* of a log is an event as a hook received it. Callers pass `interpret`, which turns one
raw line into records. Each line is interpreted separately, so a log yields the same records whether
it is read whole or in portions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ralph.core.documents import Document, EditableDocument
from ralph.core.record import Family, ObservationKind, Record
from ralph.formats.memories import GUARDRAILS, MEMORIES, parse_memories
from ralph.formats.memories_reader import MemoryEntries
from ralph.storage import files
from ralph.storage.sources import OUTSIDE_SCOPES, Format, Source

if TYPE_CHECKING:
    from ralph.core.work import Task
    from ralph.formats.log import LogDocument

Interpret = Callable[[Mapping[str, object]], tuple[Sequence[Record], Mapping[str, object] | None]]
"""Returns the records in a raw line, and the members of the `session` line that it implies.

The latter is None if the raw line contains nothing about its session.
"""
IsRalphCall = Callable[[Record], bool]
"""Returns whether an observation is a call to Ralph itself. Such calls are not indexed."""
EVENT = "event"  # the type of a raw line
_FINGERPRINT_BYTES = 8  # among a million entries, two share one with a probability of 1 in 10^7


class PlacedRecord(NamedTuple):
    """A record and the number of its line, and the fingerprint of its entry unless in a log."""

    record: Record
    line: int
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one source: records, tasks, and a log's other lines with their types."""

    records: tuple[PlacedRecord, ...] = ()
    tasks: tuple[Task, ...] = ()
    lines: Sequence[tuple[str, Mapping[str, object]]] = ()
    in_ralph_turn: bool = False  # ends in a turn in which the agent only called Ralph
    problems: int = 0
    events: int = 0  # lines that hooks wrote
    hosts: frozenset[str] = frozenset()  # the agents whose hooks wrote them


def read_source(
    source: Source, interpret: Interpret | None = None, is_ralph_call: IsRalphCall | None = None
) -> Contents:
    """Read a source. An unfinished last line of a log is left out."""
    text = files.read(source.path) or ""
    if source.format is Format.LOG:
        text = text[: text.rfind("\n") + 1]
    return parse_contents(source, text, interpret, is_ralph_call)


def parse_contents(
    source: Source,
    text: str,
    interpret: Interpret | None = None,
    is_ralph_call: IsRalphCall | None = None,
    *,
    in_ralph_turn: bool = False,
) -> Contents:
    """Parse a source's text, or a portion of a log.

    For a portion of a log, `in_ralph_turn` is the value from the portion before it.
    """
    if source.format is Format.LOG:
        log = _log_contents(text, interpret)
        if is_ralph_call is None:
            return log
        return _without_ralph_calls(log, is_ralph_call, in_ralph_turn)
    if source.format is Format.TASK:
        from ralph.formats.task_files import parse_task

        task = parse_task(text).task
        return Contents(tasks=() if task is None else (task,))
    entries = CuratedEntries(source, text)
    return Contents(tuple(map(entries.placed, range(len(entries.lines)))))


class CuratedEntries:
    """The entries of a source that is not a log. Their records are built only if they are needed.

    `lines` are the lines where the entries begin. Two entries with the same fingerprint, in sources
    of the same format, have the same record.
    """

    def __init__(self, source: Source, text: str) -> None:
        document = parse_source(source, text)
        self._form = source.format
        self._entries = document.entries
        if source.format is Format.PROGRESS:
            from ralph.formats.progress import searchable_entries

            self._entries = searchable_entries(document)

    @cached_property
    def lines(self) -> Sequence[int]:
        """The line of each entry."""
        if isinstance(self._entries, MemoryEntries):
            return [header.line for header in self._entries.headers]
        return [entry.line for entry in self._entries]

    @cached_property
    def fingerprints(self) -> Sequence[bytes]:
        """The fingerprint of each entry."""
        if isinstance(self._entries, MemoryEntries):
            return [_digest(self._entries.content_of(number)) for number in range(len(self.lines))]
        return [_digest(repr(entry.record)) for entry in self._entries]

    def placed(self, number: int) -> PlacedRecord:
        """Build the record of an entry."""
        record = with_file_scope(self._entries[number].record, self._form)
        return PlacedRecord(record, self.lines[number], self.fingerprints[number])


def _digest(content: str) -> bytes:
    import hashlib  # loads OpenSSL

    encoded = content.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=_FINGERPRINT_BYTES).digest()


def with_file_scope(record: Record, form: Format) -> Record:
    """Return a record with the scope implied by its file."""
    if form not in OUTSIDE_SCOPES:
        return record
    return replace(record, scope=OUTSIDE_SCOPES[form])


def parse_source(source: Source, text: str) -> Document:
    """Parse a curated file."""
    if source.format is Format.PROGRESS:
        from ralph.formats.progress import parse_progress

        return parse_progress(text)
    return parse_editable(source.format, text, source.path.stem)


def parse_editable(form: Format, text: str, slug: str = "") -> EditableDocument:
    """Parse a memory file. `slug` is the name of a knowledge file without its suffix."""
    if form is Format.KNOWLEDGE:
        return _parse_knowledge(text, slug)
    if form in (Format.PATTERNS, Format.INSIGHTS):
        return _parse_list(form, text)
    if form in (Format.GUARDRAILS, Format.ENCLOSING_GUARDRAILS):
        return parse_memories(text, GUARDRAILS)
    return parse_memories(text, MEMORIES)


# Codecs are imported when needed, because hooks only read logs.


@lru_cache(maxsize=4096)  # the loop reads the same files again and again
def _parse_knowledge(text: str, slug: str) -> EditableDocument:
    from ralph.formats.knowledge import parse_knowledge

    return parse_knowledge(text, slug)


@lru_cache(maxsize=8)  # a command or a session's start needs the same file several times
def _parse_list(form: Format, text: str) -> EditableDocument:
    if form is Format.PATTERNS:
        from ralph.formats.patterns import parse_patterns

        return parse_patterns(text)
    from ralph.formats.insight_files import parse_insights

    return parse_insights(text)


def _log_contents(text: str, interpret: Interpret | None) -> Contents:
    from ralph.formats.log import parse_log

    document = parse_log(text)
    placed: list[tuple[int, PlacedRecord]] = []  # each with its position in the text
    for entry in document.entries:
        placed.append((entry.start, PlacedRecord(entry.record, entry.line)))
    lines: list[tuple[str, Mapping[str, object]]] = []
    for line in document.lines:
        if line.type != EVENT or interpret is None:
            lines.append((line.type, line.value))
            continue
        records, session = interpret(line.value)
        for record in records:
            placed.append((line.start, PlacedRecord(record, line.line)))
        if session is not None:
            lines.append(("session", session))
    placed.sort(key=itemgetter(0))  # raw lines and records together, in file order
    return Contents(
        records=tuple(record for _, record in placed),
        lines=lines,
        problems=len(document.problems),
        events=_count_events(document),
        hosts=_event_hosts(document),
    )


def _count_events(document: LogDocument) -> int:
    """Count the lines that hooks wrote: raw lines and observations."""
    events = [line.type for line in document.lines].count(EVENT)
    for entry in document.entries:
        if entry.record.family is Family.OBSERVATION:
            events += 1
    return events


def _event_hosts(document: LogDocument) -> frozenset[str]:
    """Return the agents whose hooks wrote raw lines."""
    hosts: set[str] = set()
    for line in document.lines:
        if line.type == EVENT:
            host = line.value.get("host")
            if isinstance(host, str) and host.isidentifier():
                hosts.add(host)
    return frozenset(hosts)


def _without_ralph_calls(
    log: Contents, is_ralph_call: IsRalphCall, in_ralph_turn: bool
) -> Contents:
    """Drop calls to Ralph itself, and the agent's answers in turns that only called Ralph."""
    kept: list[PlacedRecord] = []
    for placed in log.records:
        record = placed.record
        if record.family is not Family.OBSERVATION:
            kept.append(placed)
            continue
        is_note = record.kind is ObservationKind.NOTE
        if is_ralph_call(record):
            in_ralph_turn = in_ralph_turn or is_note
            continue
        is_answer = is_note and record.origin.by == "agent"
        if in_ralph_turn and is_answer:
            continue
        kept.append(placed)
        in_ralph_turn = False
    return replace(log, records=tuple(kept), in_ralph_turn=in_ralph_turn)
