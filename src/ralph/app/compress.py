"""`ralph session compress`: replace the observations of an old session by its summary and the important ones.

Kept are the first prompt, each error once, what resolved it, decisions, and the last answer, and one line about the
session. Everything else in the log stays: other sessions, journal entries, torn lines, lines of a newer version. A
session that would not get smaller stays, and so does one with activity within a day.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app import index
from ralph.app.sessions import ImprovedSummary
from ralph.capture import summary as summaries
from ralph.context.tokens import estimate
from ralph.errors import Conflict
from ralph.formats.log import LOG_VERSION, encode_line, encode_record, parse_log
from ralph.model import ids
from ralph.model.record import Family, ObservationKind, Record
from ralph.store import files
from ralph.store.sources import EVENT, Interpret

SUMMARY = 600  # tokens of a summary that is made now
YOUNG = timedelta(days=1)  # a session in which something happened within this time is never compressed
MAX_KEPT = 60  # observations that are kept of one session; of more, both ends

_EARLIEST = ("started_at", "created_at")
_SUMMARY_FIELDS = ("summary", "summary_by", "summarized_at", "tags")
_COMPRESSION_FIELDS = ("compressed_at", "compressed_from")
_LAST_EDITS = 3
# Parts of texts about a decision or a cause, in lowercase.
_DECISIONS = tuple(
    (
        "decid|decision|instead of|rather than|we chose|i chose|root cause|turned out|turns out|workaround|convention|"
        "from now on|agreed|trade-off|gotcha|결정|대신|원인은|앞으로|决定|改用|原因是|決め|決定|代わりに|原因は|"
        "entschieden|entscheidung|stattdessen|décid|plutôt que|au lieu d|decidi|decisión|en lugar de|en vez de"
    ).split("|")
)


@dataclass(frozen=True, slots=True)
class _LogPiece:
    """A part of a log: its text, its session ("" for none), its records, and the fields about its session."""

    text: str
    session: str = ""
    records: tuple[Record, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    at: str = ""


Improve = Callable[[str], ImprovedSummary]  # writes a better summary of a session
Sessions = list[dict[str, Any]]  # as `ralph session compress --format json` prints them


def compress(
    root: Path, before: str, *, really: bool = False, improve: Improve | None = None
) -> tuple[Sessions, Sessions]:
    """Compress the sessions that ended before a time, with improved summaries; a dry run unless `really`.

    Return the sessions that were compressed, or would be, with their bytes, and those that could not, with why.
    """
    index.of(root)  # Refused, where the logs are of another machine
    read = index.interpreter(root)
    latest = ids.now() - YOUNG
    limit = min(ids.parse_time(f"{before}-01" if len(before) == len("2026-01") else before) or latest, latest)
    compressed: Sessions = []
    uncompressed: Sessions = []
    for path in sorted((paths.log_folder(root) / "sessions").glob("*.jsonl")):
        sessions = _shrink(path, files.read(path) or "", limit, read, "")[1]
        if really and sessions:
            improved = [improve(session["id"]) for session in sessions] if improve is not None else []
            failed = [{"id": result.session, "why": result.why} for result in improved if result.why]
            sessions, failed = ([], failed) if failed else replace_log(root, path, limit, read)
            uncompressed += failed
        compressed += sessions
    if really and compressed:
        index.sync(root)
    return compressed, uncompressed


def replace_log(root: Path, path: Path, limit: datetime, read: Interpret) -> tuple[Sessions, Sessions]:
    """Compress a log on disk, unless somebody writes to it meanwhile; return what was compressed and what was not."""
    text = files.read(path) or ""
    after, sessions = _shrink(path, text, limit, read, ids.timestamp())
    try:
        files.write(path, after, root=paths.state_boundary(root), expect=text)
    except Conflict:
        return [], [{"id": session["id"], "why": "somebody wrote to its log meanwhile"} for session in sessions]
    return sessions, []


# --- the text of a log ---------------------------------------------------------------------------


def _shrink(path: Path, text: str, limit: datetime, read: Interpret, at: str) -> tuple[str, Sessions]:
    """Return a log with its old sessions compressed, and which these are."""
    pieces = _split_log(text, read)
    blocks: dict[str, list[str]] = {}
    sessions: Sessions = []
    for name in dict.fromkeys(piece.session for piece in pieces if piece.session):
        result = _shrink_session(name, [piece for piece in pieces if piece.session == name], limit, at)
        if result is not None:
            blocks[name] = result[0]
            sessions.append({"id": name, "file": str(path), **result[1]})
    if not sessions:
        return text, []
    names = set(blocks)
    lines: list[str] = []
    for piece in pieces:
        lines += blocks.pop(piece.session, ()) if piece.session in names else [piece.text]
    ended = text.endswith("\n") or bool(pieces[-1].session)
    return "\n".join(lines) + ("\n" if ended else ""), sessions


def _split_log(text: str, read: Interpret) -> list[_LogPiece]:
    """Return everything in a log, in its order."""
    document = parse_log(text)
    pieces = {start: _LogPiece(text[start:end]) for start, end in document.torn}
    for entry in document.entries:
        record = entry.record
        session = record.origin.session if record.family is Family.OBSERVATION else ""
        observations = (record,) if session else ()
        pieces[entry.start] = _LogPiece(text[entry.start : entry.end], session, observations, {}, record.created_at)
    for line in document.lines:
        records: tuple[Record, ...] = ()
        fields, at = dict[str, object](), ""
        version = line.value.get("v", 0)
        known = type(version) is int and version <= LOG_VERSION
        if known and line.type == "session":
            fields = {key: value for key, value in line.value.items() if key not in ("v", "type")}
            at = max(_string(fields, "updated_at"), _string(fields, "ended_at"))
        elif known and line.type == EVENT:
            interpreted, about = read(line.value)
            records, fields, at = tuple(interpreted), dict(about or {}), _string(line.value, "at")
        piece = _LogPiece(text[line.start : line.end], _string(fields, "id"), records, fields, at)
        pieces[line.start] = piece
    return [pieces[start] for start in sorted(pieces)]


def _shrink_session(
    name: str, pieces: Sequence[_LogPiece], limit: datetime, at: str
) -> tuple[list[str], dict[str, Any]] | None:
    """Return the lines that replace a session, and what that changes; None when it stays as it is."""
    times = {moment: piece.at for piece in pieces if (moment := ids.parse_time(piece.at)) is not None}
    records = [record for piece in pieces for record in piece.records]
    marks = [number for number, piece in enumerate(pieces) if "compressed_at" in piece.fields]
    unchanged = bool(marks) and not any(piece.records for piece in pieces[marks[-1] :])
    if not times or max(times) >= limit or not records or unchanged:
        return None
    last = times[max(times)]
    chosen = choose_observations(records)
    fields = _session_fields(name, pieces, records, last)
    lines = [encode_record(record).removesuffix("\n") for record in chosen]
    lines.append(encode_line("session", {**fields, "compressed_at": at}).removesuffix("\n"))
    before, after = _count_bytes(piece.text for piece in pieces), _count_bytes(lines)
    if after + len(ids.timestamp()) >= before:
        return None
    return lines, {
        "last": last,
        "observations": len(records),
        "kept": len(chosen),
        "bytes_before": before,
        "bytes_after": after,
        "summary": str(fields.get("summary") or ""),
    }


def _count_bytes(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogateescape")) + 1 for line in lines)


def _session_fields(name: str, pieces: Sequence[_LogPiece], records: Sequence[Record], last: str) -> dict[str, object]:
    """Merge the fields of all lines about a session; add its summary and how many observations there were."""
    fields: dict[str, object] = {"id": name}
    count = 0
    for piece in pieces:
        earlier = piece.fields.get("compressed_from")
        count = earlier if type(earlier) is int and earlier > 0 else count + len(piece.records)
        for key, value in piece.fields.items():
            if key not in (*_SUMMARY_FIELDS, *_COMPRESSION_FIELDS) and value is not None:
                other = fields.get(key) if key in _EARLIEST else None
                fields[key] = min(other, value) if isinstance(other, str) and isinstance(value, str) else value
    times = sorted(record.created_at for record in records if record.created_at)
    fields.setdefault("started_at", times[0] if times else last)
    fields.setdefault("ended_at", last)
    summary = summaries.summary(records)
    fresh: dict[str, object] = {"summary": summaries.text(summary, SUMMARY, estimate), "tags": list(summary.tags)}
    for piece in reversed(pieces):
        if piece.records:
            break
        if piece.fields.get("summary"):  # nothing happened after it
            fresh = {"tags": fresh["tags"]}
            fresh |= {key: value for key, value in piece.fields.items() if key in _SUMMARY_FIELDS}
            break
    fields |= {"updated_at": last, "compressed_from": count}
    return fields | {key: value for key, value in fresh.items() if value}


def _string(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def choose_observations(records: Sequence[Record]) -> list[Record]:
    """Return the observations to keep, in their order: the first prompt, decisions, errors, fixes, the last answer."""
    prompts = [number for number, record in enumerate(records) if summaries.is_prompt(record)]
    tasks = [number for number in prompts if not records[number].text.lstrip().startswith("/")]
    answers = [number for number, record in enumerate(records) if summaries.is_message(record)]
    chosen = {*(tasks or prompts)[:1], *answers[-1:]}
    open_errors: dict[str, int] = {}
    known: set[tuple[str, str]] = set()
    for number, record in enumerate(records):
        text = record.text.lower()
        key = ("", text)
        if record.kind is ObservationKind.ERROR:
            open_errors.setdefault(record.title, number)
            key = (record.title, str(record.extra.get("error") or record.text[:200]))
        elif record.kind is ObservationKind.NOTE:
            if not any(mark in text for mark in _DECISIONS):
                continue
        else:
            first = open_errors.pop(record.title, None)
            if first is not None:
                edits = [at for at in range(first, number) if summaries.is_edit(records[at])]
                chosen |= {*edits[-_LAST_EDITS:], number}
            continue
        if key not in known:
            known.add(key)
            chosen.add(number)
    order = sorted(chosen)
    if len(order) > MAX_KEPT:
        order = order[: MAX_KEPT // 4] + order[-(MAX_KEPT - MAX_KEPT // 4) :]
    return [records[number] for number in order]
