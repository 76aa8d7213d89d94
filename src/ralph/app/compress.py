"""`ralph session compress`: an old session's observations become its summary and what is worth keeping of them.

`shrink` is a function of a log's text: what would be left of it. Of a session that is old enough it keeps the first
prompt, each error once, what resolved it, decisions, and the last answer, as ordinary observations with the
ids they had, and one line that says the rest: when, where, the summary, and how many there were. Everything else in the
log stays: other sessions, journal entries, half lines, what a newer Ralph wrote. A session that would not get
smaller is left as it is, and so is one in which something happened within a day, whatever was asked for. The new
text takes the place of the old one at once, and only if nobody wrote meanwhile: a kill leaves the one or the other.
`tests/app/test_compress.py` proves it, `tests/soak/test_compress.py` kills it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
_SUMMED_UP = ("summary", "summary_by", "summarized_at", "tags")
_MARK = ("compressed_at", "compressed_from")


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
    """One thing in a log: its text, its session ("" for none of ours), and what it says."""

    text: str
    session: str = ""
    records: tuple[Record, ...] = ()
    said: Mapping[str, object] = field(default_factory=dict)
    at: str = ""


Improve = Callable[[str], ImprovedSummary]
"""Lets somebody write a session's summary anew."""


def compress(root: Path, before: str, *, really: bool = False, improve: Improve | None = None) -> CompressionResult:
    """The sessions that ended before a time, compressed if that is meant, after their summaries were improved."""
    index.of(root)  # Refused, where the logs are somebody else's
    wanted, read = _limit(before), index.by_todays_rules(root)
    done: list[CompressedSession] = []
    left: list[UncompressedSession] = []
    for path in sorted((paths.log_folder(root) / "sessions").glob("*.jsonl")):
        made = _shrunk(path, wanted, read)
        if really and made:
            failed = [
                UncompressedSession(each.session, each.why) for each in _improved(made, improve) if not each.changed
            ]
            left += failed
            made = [] if failed else replace_log(root, path, wanted, read, left)
        done += made
    if really and done:
        index.sync(root)
    return CompressionResult(tuple(done), tuple(left))


def _limit(before: str) -> datetime:
    """The moment before which a session must have ended; a day is its beginning, and none is too young."""
    said = logs.moment(f"{before}-01" if len(before) == len("2026-01") else before)
    latest = ids.now() - YOUNG
    return latest if said is None else min(said, latest)


def _shrunk(path: Path, wanted: datetime, read: Interpret) -> list[CompressedSession]:
    return [replace(each, path=path) for each in shrink(files.read(path) or "", wanted, read, "")[1]]


def _improved(made: Sequence[CompressedSession], improve: Improve | None) -> Iterator[ImprovedSummary]:
    yield from (improve(each.id) for each in made) if improve is not None else ()


def replace_log(
    root: Path, path: Path, wanted: datetime, read: Interpret, left: list[UncompressedSession]
) -> list[CompressedSession]:
    """Compress a log on disk; what is worked out without holding the lock counts only if nobody wrote meanwhile."""
    text = files.read(path) or ""
    after, made = shrink(text, wanted, read, ids.timestamp())
    try:
        files.write(path, after, root=paths.state_boundary(root), expect=text)
    except Conflict:
        left += [UncompressedSession(each.id, "somebody wrote to its log meanwhile") for each in made]
        return []
    return [replace(each, path=path) for each in made]


# --- a log's text ------------------------------------------------------------------------------


def shrink(text: str, wanted: datetime, read: Interpret, at: str) -> tuple[str, list[CompressedSession]]:
    """A log with its old sessions compressed, and which these are; the text itself when there are none."""
    pieces = list(_pieces(text, read))
    blocks: dict[str, list[str]] = {}
    made: list[CompressedSession] = []
    for name in dict.fromkeys(piece.session for piece in pieces if piece.session):
        own = [piece for piece in pieces if piece.session == name]
        done = _session(name, own, wanted, at)
        if done is not None:
            blocks[name] = done[0]
            made.append(done[1])
    if not made:
        return text, []
    lines: list[str] = []
    for piece in pieces:
        lines += blocks.pop(piece.session, ()) if piece.session in {each.id for each in made} else [piece.text]
    ended = text.endswith("\n") or bool(pieces[-1].session)
    return "\n".join(lines) + ("\n" if ended else ""), made


def _pieces(text: str, read: Interpret) -> Iterator[_LogPiece]:
    """Everything in a log, in its order."""
    document = parse_log(text)
    places: list[tuple[int, int, _LogPiece]] = []
    for entry in document.entries:
        record, words = entry.record, text[entry.start : entry.end]
        ours = record.family is Family.OBSERVATION
        session = record.origin.session if ours else ""
        places.append(
            (entry.start, entry.end, _LogPiece(words, session, (record,) if session else (), {}, record.created_at))
        )
    for line in document.lines:
        places.append((line.start, line.end, _piece(text[line.start : line.end], line, read)))
    places += ((start, end, _LogPiece(text[start:end])) for start, end in document.torn)
    yield from (piece for _, _, piece in sorted(places, key=lambda place: place[0]))


def _piece(words: str, line: LogLine, read: Interpret) -> _LogPiece:
    """A line that is no record: one about a session, a raw event, or somebody else's."""
    version = line.value.get("v", 0)
    if type(version) is not int or version > LOG_VERSION:
        return _LogPiece(words)
    if line.type == "session":
        said = {key: value for key, value in line.value.items() if key not in ("v", "type")}
        return _LogPiece(words, _word(said, "id"), (), said, max(_word(said, "updated_at"), _word(said, "ended_at")))
    if line.type != EVENT:
        return _LogPiece(words)
    records, told = read(line.value)
    return _LogPiece(words, _word(told or {}, "id"), tuple(records), told or {}, _word(line.value, "at"))


def _session(
    name: str, own: Sequence[_LogPiece], wanted: datetime, at: str
) -> tuple[list[str], CompressedSession] | None:
    """The lines that take a session's place, or None when it stays as it is."""
    times = [moment for piece in own if (moment := logs.moment(piece.at)) is not None]
    records = [record for piece in own for record in piece.records]
    if not times or max(times) >= wanted or not records or _is_compressed(own):
        return None
    last = max(piece.at for piece in own if logs.moment(piece.at) == max(times))
    kept = choose_observations(records)
    said = _session_fields(name, own, records, last)
    lines = [encode_record(record).removesuffix("\n") for record in kept]
    lines.append(encode_line("session", {**said, "compressed_at": at}).removesuffix("\n"))
    before, after = (sum(len(text.encode("utf-8", "surrogateescape")) + 1 for text in texts)
                     for texts in ([piece.text for piece in own], lines))  # fmt: skip
    if after + len(ids.timestamp()) >= before:
        return None
    return lines, CompressedSession(
        name, Path(), last, len(records), len(kept), before, after, str(said.get("summary") or "")
    )


def _is_compressed(own: Sequence[_LogPiece]) -> bool:
    """Whether nothing has happened in a session since it was compressed."""
    marks = [number for number, piece in enumerate(own) if "compressed_at" in piece.said]
    return bool(marks) and not any(piece.records for piece in own[marks[-1] :])


def _session_fields(name: str, own: Sequence[_LogPiece], records: Sequence[Record], last: str) -> dict[str, object]:
    """What all lines of a session say of it together, its summary, and how many observations there were."""
    said: dict[str, object] = {"id": name}
    for key, value in ((key, value) for piece in own for key, value in piece.said.items()):
        known = said.get(key)
        if key in (*_SUMMED_UP, *_MARK) or value is None:
            continue
        said[key] = (
            min(known, value) if key in _EARLIEST and isinstance(known, str) and isinstance(value, str) else value
        )
    times = sorted(record.created_at for record in records if record.created_at)
    said.setdefault("started_at", times[0] if times else last)
    said.setdefault("ended_at", last)
    said |= {"updated_at": last, "compressed_from": _count(own)}
    return {**said, **_summed_up(own, records)}


def _summed_up(own: Sequence[_LogPiece], records: Sequence[Record]) -> dict[str, object]:
    """The stored summary where it stands behind all that happened, else one that is made now."""
    found = summaries.summary(records)
    made: dict[str, object] = {"summary": summaries.text(found, SUMMARY, estimate), "tags": list(found.tags)}
    for piece in reversed(own):
        if piece.records:
            break
        if piece.said.get("summary"):
            made = {"tags": made["tags"]} | {key: value for key, value in piece.said.items() if key in _SUMMED_UP}
            break
    return {key: value for key, value in made.items() if value}


def _count(own: Sequence[_LogPiece]) -> int:
    """How many observations there were: those of now, and those that an earlier compression has replaced."""
    earlier = 0
    count = 0
    for piece in own:
        count += len(piece.records)
        found = piece.said.get("compressed_from")
        if type(found) is int and found > 0:
            earlier, count = found, 0
    return earlier + count


def _word(said: Mapping[str, object], key: str) -> str:
    found = said.get(key)
    return found if isinstance(found, str) else ""


# --- which observations are worth keeping -------------------------------------------------------

MAX_KEPT = 60
"""Observations that are kept of one session; of more, both ends."""

_EDITS = 3
_CHANGES = frozenset("edit multiedit write notebookedit apply_patch create_file replace str_replace write_file".split())
_DECIDED = (
    "decid", "decision", "instead of", "rather than", "we chose", "i chose", "root cause", "turned out", "turns out",
    "workaround", "convention", "from now on", "agreed", "trade-off", "gotcha", "결정", "대신", "원인은", "앞으로",
    "决定", "改用", "原因是", "決め", "決定", "代わりに", "原因は", "entschieden", "entscheidung", "stattdessen",
    "décid", "plutôt que", "au lieu d", "decidi", "decisión", "en lugar de", "en vez de",
)  # fmt: skip
"""What texts have that tell a decision or a cause, in small letters."""


def choose_observations(records: Sequence[Record]) -> list[Record]:
    """The observations to keep, in their order."""
    chosen = sorted({*_first_and_last(records), *_errors_with_fixes(records)})
    if len(chosen) > MAX_KEPT:
        chosen = chosen[: MAX_KEPT // 4] + chosen[-(MAX_KEPT - MAX_KEPT // 4) :]
    return [records[number] for number in chosen]


def _first_and_last(records: Sequence[Record]) -> Iterator[int]:
    """What was asked first, what was said of a decision, and the last answer."""
    asked = [number for number, record in enumerate(records) if summaries.is_prompt(record)]
    real = [number for number in asked if not records[number].text.lstrip().startswith("/")]
    yield from (real or asked)[:1]
    answers = [number for number, record in enumerate(records) if summaries.is_message(record)]
    yield from answers[-1:]
    seen: set[str] = set()
    for number, record in enumerate(records):
        words = record.text.lower()
        if record.kind is ObservationKind.NOTE and words not in seen and any(mark in words for mark in _DECIDED):
            yield number
            seen.add(words)


def _errors_with_fixes(records: Sequence[Record]) -> Iterator[int]:
    """Each error once, and of one that was got over the last edits before and the call that passed."""
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
