"""`ralph session compress`: replace the observations of an old session by its summary and the important ones.

Kept are the first prompt, each error once, what resolved it, decisions, and the last answer, with their ids, and one
line about the session: times, summary, and how many observations there were. Everything else in the log stays: other
sessions, journal entries, torn lines, lines of a newer version. A session that would not get smaller stays, and so does
one with activity within a day. The log is replaced atomically, and only if nobody wrote meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from ralph import paths
from ralph.app import index, logs
from ralph.app.sessions import ImprovedSummary
from ralph.capture import summary as summaries
from ralph.context.tokens import estimate
from ralph.errors import Conflict
from ralph.formats.log import LOG_VERSION, LogLine, encode_line, encode_record, parse_log
from ralph.model import ids
from ralph.model.record import Family, ObservationKind, Record
from ralph.store import files
from ralph.store.sources import EVENT, Interpret

SUMMARY = 600
"""Tokens of a summary that is made now."""
YOUNG = timedelta(days=1)
"""A session in which something happened within this time is never compressed."""

_EARLIEST = ("started_at", "created_at")
_SUMMARY_FIELDS = ("summary", "summary_by", "summarized_at", "tags")
_COMPRESSION_FIELDS = ("compressed_at", "compressed_from")


@dataclass(frozen=True, slots=True)
class CompressedSession:
    """A session that is or would be compressed: its size before and after."""

    id: str
    path: Path
    last: str
    observations: int
    kept: int
    before: int
    """Bytes in its log."""
    after: int
    summary: str


@dataclass(frozen=True, slots=True)
class UncompressedSession:
    """A session that stays as it is, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """The sessions that were compressed, or would be, and those that could not."""

    sessions: tuple[CompressedSession, ...] = ()
    left: tuple[UncompressedSession, ...] = ()


@dataclass(frozen=True, slots=True)
class _LogPiece:
    """A part of a log: its text, its session ("" for none), its records, and the fields about its session."""

    text: str
    session: str = ""
    records: tuple[Record, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    at: str = ""


Improve = Callable[[str], ImprovedSummary]
"""Writes a better summary of a session."""


def compress(root: Path, before: str, *, really: bool = False, improve: Improve | None = None) -> CompressionResult:
    """Compress the sessions that ended before a time, with improved summaries; a dry run unless `really`."""
    index.of(root)  # Refused, where the logs are of another machine
    read = index.interpreter(root)
    latest = ids.now() - YOUNG
    limit = min(logs.moment(f"{before}-01" if len(before) == len("2026-01") else before) or latest, latest)
    compressed: list[CompressedSession] = []
    left: list[UncompressedSession] = []
    for path in sorted((paths.log_folder(root) / "sessions").glob("*.jsonl")):
        sessions = [replace(session, path=path) for session in shrink(files.read(path) or "", limit, read, "")[1]]
        if really and sessions:
            improved = [improve(session.id) for session in sessions] if improve is not None else []
            failed = [UncompressedSession(result.session, result.why) for result in improved if not result.changed]
            if not failed:
                sessions, failed = replace_log(root, path, limit, read)
            else:
                sessions = []
            left += failed
        compressed += sessions
    if really and compressed:
        index.sync(root)
    return CompressionResult(tuple(compressed), tuple(left))


def replace_log(
    root: Path, path: Path, limit: datetime, read: Interpret
) -> tuple[list[CompressedSession], list[UncompressedSession]]:
    """Compress a log on disk, unless somebody writes to it meanwhile; return what was compressed and what was not."""
    text = files.read(path) or ""
    after, sessions = shrink(text, limit, read, ids.timestamp())
    try:
        files.write(path, after, root=paths.state_boundary(root), expect=text)
    except Conflict:
        return [], [UncompressedSession(session.id, "somebody wrote to its log meanwhile") for session in sessions]
    return [replace(session, path=path) for session in sessions], []


# --- the text of a log ---------------------------------------------------------------------------


def shrink(text: str, limit: datetime, read: Interpret, at: str) -> tuple[str, list[CompressedSession]]:
    """A log with its old sessions compressed, and which these are; the text itself when there are none."""
    pieces = _pieces(text, read)
    blocks: dict[str, list[str]] = {}
    sessions: list[CompressedSession] = []
    for name in dict.fromkeys(piece.session for piece in pieces if piece.session):
        result = _shrink_session(name, [piece for piece in pieces if piece.session == name], limit, at)
        if result is not None:
            blocks[name] = result[0]
            sessions.append(result[1])
    if not sessions:
        return text, []
    names = set(blocks)
    lines: list[str] = []
    for piece in pieces:
        lines += blocks.pop(piece.session, ()) if piece.session in names else [piece.text]
    ended = text.endswith("\n") or bool(pieces[-1].session)
    return "\n".join(lines) + ("\n" if ended else ""), sessions


def _pieces(text: str, read: Interpret) -> list[_LogPiece]:
    """Everything in a log, in its order."""
    document = parse_log(text)
    pieces: dict[int, _LogPiece] = {}
    for entry in document.entries:
        record = entry.record
        session = record.origin.session if record.family is Family.OBSERVATION else ""
        records = (record,) if session else ()
        pieces[entry.start] = _LogPiece(text[entry.start : entry.end], session, records, {}, record.created_at)
    for line in document.lines:
        pieces[line.start] = _parse_line(text[line.start : line.end], line, read)
    for start, end in document.torn:
        pieces[start] = _LogPiece(text[start:end])
    return [pieces[start] for start in sorted(pieces)]


def _parse_line(text: str, line: LogLine, read: Interpret) -> _LogPiece:
    """A line that is no record: one about a session, a raw event, or an unknown one."""
    version = line.value.get("v", 0)
    if type(version) is not int or version > LOG_VERSION:
        return _LogPiece(text)
    if line.type == "session":
        fields = {key: value for key, value in line.value.items() if key not in ("v", "type")}
        at = max(_string(fields, "updated_at"), _string(fields, "ended_at"))
        return _LogPiece(text, _string(fields, "id"), (), fields, at)
    if line.type != EVENT:
        return _LogPiece(text)
    records, about = read(line.value)
    return _LogPiece(text, _string(about or {}, "id"), tuple(records), about or {}, _string(line.value, "at"))


def _shrink_session(
    name: str, pieces: Sequence[_LogPiece], limit: datetime, at: str
) -> tuple[list[str], CompressedSession] | None:
    """The lines that replace a session, or None when it stays as it is."""
    times = {moment: piece.at for piece in pieces if (moment := logs.moment(piece.at)) is not None}
    records = [record for piece in pieces for record in piece.records]
    marks = [number for number, piece in enumerate(pieces) if "compressed_at" in piece.fields]
    unchanged = bool(marks) and not any(piece.records for piece in pieces[marks[-1] :])
    if not times or max(times) >= limit or not records or unchanged:
        return None
    last = times[max(times)]
    kept = choose_observations(records)
    fields = _session_fields(name, pieces, records, last)
    lines = [encode_record(record).removesuffix("\n") for record in kept]
    lines.append(encode_line("session", {**fields, "compressed_at": at}).removesuffix("\n"))
    before, after = _bytes(piece.text for piece in pieces), _bytes(lines)
    if after + len(ids.timestamp()) >= before:
        return None
    summary = str(fields.get("summary") or "")
    return lines, CompressedSession(name, Path(), last, len(records), len(kept), before, after, summary)


def _bytes(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogateescape")) + 1 for line in lines)


def _session_fields(name: str, pieces: Sequence[_LogPiece], records: Sequence[Record], last: str) -> dict[str, object]:
    """The fields of all lines about a session together, its summary, and how many observations there were."""
    fields: dict[str, object] = {"id": name}
    count = 0
    for piece in pieces:
        count += len(piece.records)
        earlier = piece.fields.get("compressed_from")
        if type(earlier) is int and earlier > 0:
            count = earlier
        for key, value in piece.fields.items():
            if key in (*_SUMMARY_FIELDS, *_COMPRESSION_FIELDS) or value is None:
                continue
            known = fields.get(key)
            both = isinstance(known, str) and isinstance(value, str)
            fields[key] = min(str(known), str(value)) if key in _EARLIEST and both else value
    times = sorted(record.created_at for record in records if record.created_at)
    fields.setdefault("started_at", times[0] if times else last)
    fields.setdefault("ended_at", last)
    fields |= {"updated_at": last, "compressed_from": count}
    return {**fields, **_summary_fields(pieces, records)}


def _summary_fields(pieces: Sequence[_LogPiece], records: Sequence[Record]) -> dict[str, object]:
    """The stored summary if nothing happened after it, else one that is made now."""
    summary = summaries.summary(records)
    fields: dict[str, object] = {"summary": summaries.text(summary, SUMMARY, estimate), "tags": list(summary.tags)}
    for piece in reversed(pieces):
        if piece.records:
            break
        if piece.fields.get("summary"):
            stored = {key: value for key, value in piece.fields.items() if key in _SUMMARY_FIELDS}
            fields = {"tags": fields["tags"]} | stored
            break
    return {key: value for key, value in fields.items() if value}


def _string(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


# --- which observations are kept -----------------------------------------------------------------

MAX_KEPT = 60
"""Observations that are kept of one session; of more, both ends."""

_EDITS = 3
_CHANGES = frozenset("edit multiedit write notebookedit apply_patch create_file replace str_replace write_file".split())
# Parts of texts about a decision or a cause, in lowercase.
_DECISIONS = tuple(
    (
        "decid|decision|instead of|rather than|we chose|i chose|root cause|turned out|turns out|workaround|convention|"
        "from now on|agreed|trade-off|gotcha|결정|대신|원인은|앞으로|决定|改用|原因是|決め|決定|代わりに|原因は|"
        "entschieden|entscheidung|stattdessen|décid|plutôt que|au lieu d|decidi|decisión|en lugar de|en vez de"
    ).split("|")
)


def choose_observations(records: Sequence[Record]) -> list[Record]:
    """The observations to keep, in their order."""
    chosen = sorted({*_first_and_last(records), *_errors_with_fixes(records)})
    if len(chosen) > MAX_KEPT:
        chosen = chosen[: MAX_KEPT // 4] + chosen[-(MAX_KEPT - MAX_KEPT // 4) :]
    return [records[number] for number in chosen]


def _first_and_last(records: Sequence[Record]) -> Iterator[int]:
    """The first prompt, notes about a decision, and the last answer."""
    prompts = [number for number, record in enumerate(records) if summaries.is_prompt(record)]
    real = [number for number in prompts if not records[number].text.lstrip().startswith("/")]
    yield from (real or prompts)[:1]
    answers = [number for number, record in enumerate(records) if summaries.is_message(record)]
    yield from answers[-1:]
    seen: set[str] = set()
    for number, record in enumerate(records):
        text = record.text.lower()
        if record.kind is ObservationKind.NOTE and text not in seen and any(mark in text for mark in _DECISIONS):
            yield number
            seen.add(text)


def _errors_with_fixes(records: Sequence[Record]) -> Iterator[int]:
    """Each error once, and of a resolved one the last edits before the call that passed, and that call."""
    open_errors: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for number, record in enumerate(records):
        if record.kind is ObservationKind.ERROR:
            open_errors.setdefault(record.title, number)
            same = (record.title, str(record.extra.get("error") or record.text[:200]))
            if same not in seen:
                seen.add(same)
                yield number
        elif record.kind is not ObservationKind.NOTE and record.title in open_errors:
            first = open_errors.pop(record.title)
            edits = [at for at in range(first, number) if _is_edit_call(records[at])]
            yield from (*edits[-_EDITS:], number)


def _is_edit_call(record: Record) -> bool:
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0])
    return record.kind is not ObservationKind.ERROR and tool.lower() in _CHANGES
