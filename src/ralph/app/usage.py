"""Usage: the ledger of what was injected into sessions, whether it was used, and the statistics over it.

A record counts as used when something after its injection shows its id, words that only it has, its file or its
command. A tool's output does not count: printing a memory file does not use it.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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
from ralph.store.sources import log_folders

LEDGER_BYTES = 1_000_000  # bytes of the ledger that a hook reads: its end, some 7,000 injections
ledger_file = paths.ledger_file

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_LEAST_LETTERS = 6
_LEAST_CJK = 3
_LEAST_NAME = 4
_LEAST_WEIGHT = 2
_COMMAND = re.compile(r"`([^`\n]{4,200})`")
_NAME = re.compile(r"[a-z][A-Z]|[_./:\\]|\w-\w|[A-Za-z]\d|\d[A-Za-z]")
_FILE = re.compile(r"[\w.@~/-]*[\w-]\.[A-Za-z][\w]{0,9}")
_CODE = """branch client command commit config configuration create default delete directory error failed
    failure fields folder function handle import install library method missing module object option output
    package passed process remove replace request require response result return running script server
    service source statement string support system target tested update values variable version
    warning working written"""
"""Words that any text about code may have; compared by their stems."""
_EVENT = re.compile(
    rb'\s*\{"v": ?\d+, ?"type": ?"(?:observation|event"(?:, ?"at": ?"[^"]*", ?"host": ?"(\w+))?)"'
)
ALL_BYTES = 1 << 28


class Injection(NamedTuple):
    """One record injected once."""

    record: str
    tokens: int = 0
    layer: int = 3
    at: str = ""
    session: str = ""
    event: str = ""


class Ledger(NamedTuple):
    """The injections, the pairs of session and record that were used, and the skill text's cost."""

    injections: tuple[Injection, ...] = ()
    uses: frozenset[tuple[str, str]] = frozenset()
    skill: tuple[Injection, ...] = ()


def seen_file(root: Path, session: str) -> Path:
    """Return the list of what a session has seen; an unsafe session id does not become a path."""
    return paths.cache_folder(root) / "injected" / paths.session_log(root, session).stem


def record_injections(
    root: Path, session: str, event: str, items: Sequence[Injection], at: str, *, skill: int = 0
) -> None:
    """Append what was injected, with the tokens of the skill text, and that this session has seen it."""
    shared = {"at": at, "session": session, "event": event}
    lines = [
        {**shared, "record": item.record, "tokens": item.tokens, "layer": item.layer}
        for item in items
    ]
    _append(root, "injection", lines)
    _append(root, "skill", [{**shared, "record": "", "tokens": skill}] if skill else [])
    mark_seen(root, session, [item.record for item in items])


def _append(root: Path, line_type: str, lines: Sequence[Mapping[str, object]]) -> None:
    if lines:
        text = "".join(encode_line(line_type, line) for line in lines)
        files.append(ledger_file(root), text, root=paths.state_boundary(root))


def mark_seen(root: Path, session: str, names: Sequence[str]) -> None:
    """Append to the list of what a session has seen: ids of records, and marks of other lines."""
    if lines := "".join(f"{name}\n" for name in names if "\n" not in name):
        files.append(seen_file(root, session), lines, root=paths.state_boundary(root))


def seen_records(root: Path, session: str) -> set[str]:
    """Return what was injected into this session since it began or was compacted."""
    return {line for line in _tail(seen_file(root, session), LEDGER_BYTES) if line}


def forget_session(root: Path, session: str) -> None:
    """Let everything be injected again: the session's context was compacted."""
    files.delete(seen_file(root, session))


def read_ledger(root: Path, most: int = LEDGER_BYTES, *, session_id: str = "") -> Ledger:
    """Read the last bytes of the ledger; with a session's id, lines of other sessions may be left out."""
    wanted = (
        session_id if _SAFE_NAME.fullmatch(session_id) else ""
    )  # such an id is written as it is
    lines = [line for line in _tail(ledger_file(root), most) if line and wanted in line]
    try:  # all at once is much faster
        values = json.loads(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        values = []
    if len(values) != len(lines):  # of a torn line, what can still be read
        values = [entry.value for line in lines for entry in parse_log(line).lines]
    injections = list[Injection]()
    skill = list[Injection]()
    uses = set[tuple[str, str]]()
    for value in values:
        record_id, session = (
            (value.get("record"), value.get("session"))
            if isinstance(value, Mapping)
            else ("", None)
        )
        if not (isinstance(record_id, str) and isinstance(session, str)):
            continue
        if value.get("type") in ("injection", "skill"):
            tokens, layer, at, event = map(value.get, ("tokens", "layer", "at", "event"))
            tokens, layer = (
                number if type(number) is int and number >= 0 else 0 for number in (tokens, layer)
            )
            at, event = (text if isinstance(text, str) else "" for text in (at, event))
            into = injections if value["type"] == "injection" else skill
            into.append(Injection(record_id, tokens, layer, at, session, event))
        elif value.get("type") == "used":
            uses.add((session, record_id))
    return Ledger(tuple(injections), frozenset(uses), tuple(skill))


def _tail(path: Path, most: int) -> list[str]:
    try:
        if not path.is_file():
            return []
        with files.open_regular(path) as file:
            start = max(0, path.stat().st_size - most)
            file.seek(start)
            lines = file.read(most).decode("utf-8", "replace").split("\n")
    except OSError as error:
        raise Unreadable(
            f"{path}: cannot be read: {error.strerror}", hint="check its permissions"
        ) from error
    return lines[1:] if start else lines


def count_uses(ledger: Ledger) -> Mapping[str, tuple[int, int]]:
    """Return by record in how many sessions it was injected, and in how many of these it was used."""
    pairs = {(injection.session, injection.record) for injection in ledger.injections}
    injected = Counter(record for _, record in pairs)
    useful = Counter(record for _, record in pairs & ledger.uses)
    return {record: (count, useful[record]) for record, count in injected.items()}


def record_uses(root: Path, session: str, record_ids: Sequence[str], at: str) -> list[str]:
    """Append what a session referenced, each record once a session; return the new ones."""
    if not record_ids:
        return []
    known = read_ledger(root, session_id=session).uses
    new = [name for name in dict.fromkeys(record_ids) if (session, name) not in known]
    _append(root, "used", [{"at": at, "session": session, "record": name} for name in new])
    return new


class _Marks(NamedTuple):
    at: datetime | None = None
    text: str = ""
    terms: Mapping[str, int] = {}
    files: Collection[str] = ()
    commands: Sequence[str] = ()


def references(
    root: Path,
    session: str,
    observations: Sequence[Record],
    records: Sequence[Record] | None = None,
) -> list[str]:
    """Return the injected records that a session refers to since; `records` saves looking them up."""
    marks: dict[str, _Marks] = {}
    for injection in read_ledger(root, session_id=session).injections:
        if injection.session == session:
            marks.setdefault(injection.record, _Marks(ids.parse_time(injection.at)))
    if not marks:
        return []
    for record in _find_records(root, list(marks)) if records is None else records:
        text = f"{record.title}\n{record.text}"
        named = [match for match in _FILE.findall(text) if "/" in match or _NAME.search(match)]
        commands = [
            " ".join(match.split()) for match in _COMMAND.findall(text) if " " in match.strip()
        ]
        at = marks.get(record.id, _Marks()).at
        marks[record.id] = _Marks(
            at, text, _weigh_terms(text), {*record.origin.files, *named}, commands
        )
    utterances = []
    for observation in observations:
        command = observation.extra.get("command")
        run = " ".join(command.split()) if isinstance(command, str) else ""
        text = observation.text if observation.kind is ObservationKind.NOTE else run
        at = ids.parse_time(observation.created_at)
        utterances.append(_Marks(at, text, _weigh_terms(text), observation.origin.files, [run]))
    return [name for name in marks if _is_referenced(name, marks, utterances)]


def _is_referenced(name: str, marks: Mapping[str, _Marks], utterances: Sequence[_Marks]) -> bool:
    record = marks[name]
    since = marks[name].at
    if since is None:
        return False
    after = [each for each in utterances if each.at is not None and each.at > since]
    before = [each for each in utterances if each.at is None or each.at <= since]
    others = [other for other_name, other in marks.items() if other_name != name]
    rare = record.terms.keys() - {term for each in (*before, *others) for term in each.terms}
    files_of = record.files
    id_in_text = re.compile(rf"{re.escape(name)}(?![^\W_])")  # not an id that only begins so
    return any(
        id_in_text.search(each.text)
        or sum(record.terms[term] for term in rare & each.terms.keys()) >= _LEAST_WEIGHT
        or any(
            f"/{one}".endswith(f"/{two}") or f"/{two}".endswith(f"/{one}")
            for one in each.files
            for two in files_of
        )
        or any(command in each.commands[0] for command in record.commands)
        for each in after
    )


@cache
def _common_terms() -> frozenset[str]:
    return frozenset(map(stem, (*EVERYDAY_WORDS, *_CODE.split())))


def _weigh_terms(text: str) -> dict[str, int]:
    weights: dict[str, int] = {}
    for word in terms.split_words(text):
        folded = terms.fold(word)
        if terms.is_cjk(word):
            rare = [folded[:_LEAST_CJK]] if len(folded) >= _LEAST_CJK else []
            weight = 1
        elif _NAME.search(word) and len(word) >= _LEAST_NAME:
            rare = [folded]
            weight = _LEAST_WEIGHT
        else:
            rare = list(terms.word_terms(folded)[:1]) if len(word) >= _LEAST_LETTERS else []
            weight = 1
        weights |= {term: weight for term in rare if weight > 1 or term not in _common_terms()}
    return weights


def _find_records(root: Path, names: Sequence[str]) -> list[Record]:
    by_id = {record.id: record for record in _curated(root)}
    database = paths.index_file(root)
    if not by_id.keys() >= {*names} and database.exists():
        with (
            suppress(RalphError, sqlite3.Error),  # an index that is being built
            db.explained(database),
            closing(db.connect(database, read_only=True)) as connection,
        ):
            keys = [key for name in names if (key := queries.key_of(connection, name)) is not None]
            by_id |= {record.id: record for record in queries.records(connection, keys).values()}
    return [by_id[name] for name in names if name in by_id]


def _curated(root: Path) -> list[Record]:
    library = Library(root)
    return [
        stored.record
        for shelf in (library.guardrails, library.memories)
        for stored in library.read(shelf)
    ]


def usage_stats(root: Path) -> dict[str, Any]:
    """Count what was injected, used, recorded and run; pairs of session and record, a rate may be None."""
    ledger = read_ledger(root, ALL_BYTES)
    total = _count(ledger)
    injected = {each.record for each in ledger.injections}
    return {
        "reference_rate": _rate(total["referenced"], total["injected"]),
        **total,
        "week": count_week(ledger),
        "hooks": hook_usage(root),
        "loop": loop_usage(root),
        "never_injected": sum(record.id not in injected for record in _curated(root)),
    }


def count_week(ledger: Ledger) -> dict[str, Any]:
    """Count what was injected and used in the last seven days; `since` is the first of them."""
    since = ids.first_day(7)
    return {"since": since, **_count(ledger, since=since)}


def _count(ledger: Ledger, *, since: str = "") -> dict[str, int]:
    injections, skill = (
        [each for each in part if each.at >= since] for part in (ledger.injections, ledger.skill)
    )
    pairs = {(each.session, each.record) for each in injections}
    skill_tokens = sum(each.tokens for each in skill)
    return {
        "injections": len(injections),
        "sessions": len({session for session, _ in pairs}),
        "sessions_used": len({session for session, _ in pairs & ledger.uses}),
        "tokens": sum(each.tokens for each in injections) + skill_tokens,
        "skill_tokens": skill_tokens,
        "referenced": len(pairs & ledger.uses),
        "injected": len(pairs),
    }


def hook_usage(root: Path) -> dict[str, Any]:
    """Count what the hooks recorded and how often they failed, as far as possible by the index."""
    recorded = 0
    hosts = set[str]()
    sessions = f"{log_folders(root)[0]}/"
    is_outside = index.outside(root) is not None  # nothing is read behind such a link
    for path, (read, size) in ({} if is_outside else index.read_logs(root)).items():
        if not path.startswith(sessions):
            continue
        recorded += read.events
        hosts.update(read.hosts.split())
        if read.offset >= size:
            continue
        try:
            with files.open_unpacked(Path(path)) as file:
                file.seek(read.offset)
                for match in filter(None, map(_EVENT.match, file)):
                    recorded += 1
                    hosts.add((match[1] or b"").decode())
        except OSError as error:
            raise Unreadable(
                f"{path}: cannot be read: {error.strerror}", hint="check its permissions"
            ) from error
    failed = (None if is_outside else hook_state.read_failures(root)) or hook_state.Failures(
        0, "", ""
    )
    return {
        "recorded": recorded,
        "hosts": sorted(filter(None, hosts)),
        "failures": failed.count,
        "success_rate": _rate(recorded, recorded + failed.count),
        "last_failure_at": failed.at,
        "last_failure": failed.what,
    }


def loop_usage(root: Path) -> dict[str, Any]:
    """Count how runs of the loop ended; without runs, the index is not read."""
    has_runs = any(paths.runs_folder(root).glob("*.jsonl"))
    counts = index.ask(root, queries.count_loops) if has_runs else {}
    statuses = {
        "succeeded": RunStatus.SUCCESS,
        "failed": RunStatus.FAILED,
        "stopped": RunStatus.STOPPED,
    }
    ended = {name: counts.get(status.value, (0, 0))[0] for name, status in statuses.items()}
    total = sum(ended.values())
    running = counts.get(RunStatus.RUNNING.value, (0, 0))[0]
    succeeded, iterations = counts.get(RunStatus.SUCCESS.value, (0, 0))
    rates = {
        "success_rate": _rate(succeeded, total),
        "mean_iterations": _rate(iterations, succeeded),
    }
    return {**rates, "runs": total + running, **ended, "running": running}


def _rate(part: int, total: int) -> float | None:
    return part / total if total else None
