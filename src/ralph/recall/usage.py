"""Keep the ledger of what was injected into sessions and whether it was used, with statistics.

A record counts as used if something after its injection contains its id, words that only this
record has, its file or its command. Tool output does not count, because printing a memory file is
not using it. A session's messages and commands are called its utterances.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import recorder
from ralph.core import ids, paths, terms
from ralph.core.errors import RalphError, Unreadable
from ralph.core.record import ObservationKind, Record
from ralph.core.terms import EVERYDAY_WORDS, stem
from ralph.core.work import RunStatus
from ralph.formats.log import encode_line, parse_log
from ralph.search import index
from ralph.storage import db, files, queries
from ralph.storage.library import Library
from ralph.storage.sources import log_folders

LEDGER_BYTES = 1_000_000  # read by a hook from the end of the ledger, about 7,000 injections
ALL_BYTES = 1 << 28
ledger_file = paths.ledger_file

_WEEK_DAYS = 7
_PLAIN_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_EVENT = re.compile(
    rb'\s*\{"v": ?\d+, ?"type": ?"(?:observation|event"(?:, ?"at": ?"[^"]*", ?"host": ?"(\w+))?)"'
)

# Limits on the terms that show a record was used.
_USED_WEIGHT = 2  # total weight that shared terms unique to a record must reach
_NAME_WEIGHT = 2
_WORD_WEIGHT = 1
_MIN_WORD_CHARACTERS = 6
_MIN_CJK_CHARACTERS = 3
_MIN_NAME_CHARACTERS = 4
_COMMAND = re.compile(r"`([^`\n]{4,200})`")
_NAME = re.compile(r"[a-z][A-Z]|[_./:\\]|\w-\w|[A-Za-z]\d|\d[A-Za-z]")
_FILE = re.compile(r"[\w.@~/-]*[\w-]\.[A-Za-z][\w]{0,9}")
_CODE_WORDS = (
    "branch",
    "client",
    "command",
    "commit",
    "config",
    "configuration",
    "create",
    "default",
    "delete",
    "directory",
    "error",
    "failed",
    "failure",
    "fields",
    "folder",
    "function",
    "handle",
    "import",
    "install",
    "library",
    "method",
    "missing",
    "module",
    "object",
    "option",
    "output",
    "package",
    "passed",
    "process",
    "remove",
    "replace",
    "request",
    "require",
    "response",
    "result",
    "return",
    "running",
    "script",
    "server",
    "service",
    "source",
    "statement",
    "string",
    "support",
    "system",
    "target",
    "tested",
    "update",
    "values",
    "variable",
    "version",
    "warning",
    "working",
    "written",
)
"""Words that may occur in any text about code. They are compared by stem."""


class Injection(NamedTuple):
    """One record that was injected once."""

    record: str
    tokens: int = 0
    layer: int = 3
    at: str = ""
    session: str = ""
    event: str = ""


class Ledger(NamedTuple):
    """The injections, the (session, record) pairs that were used, and the skill's injections."""

    injections: tuple[Injection, ...] = ()
    uses: frozenset[tuple[str, str]] = frozenset()
    skill: tuple[Injection, ...] = ()


# --- what a session has seen ---------------------------------------------------------------------


def seen_file(root: Path, session: str) -> Path:
    """Return the path of the file that lists what a session has seen.

    An unsafe session id is never used as a path.
    """
    return paths.injected_folder(root) / paths.session_log(root, session).stem


def mark_seen(root: Path, session: str, names: Sequence[str]) -> None:
    """Append names to the list of what a session has seen: record ids, and marks of other lines."""
    lines = "".join(f"{name}\n" for name in names if "\n" not in name)
    if lines:
        files.append(seen_file(root, session), lines, root=paths.state_boundary(root))


def seen_records(root: Path, session: str) -> set[str]:
    """Return what was injected into this session since it began or was compacted."""
    return {line for line in _tail(seen_file(root, session), LEDGER_BYTES) if line}


def forget_session(root: Path, session: str) -> None:
    """Allow everything to be injected again, because the session's context was compacted."""
    files.delete(seen_file(root, session))


# --- the ledger ----------------------------------------------------------------------------------


def record_injections(
    root: Path, session: str, event: str, items: Sequence[Injection], at: str, *, skill: int = 0
) -> None:
    """Record what was injected, and that the session has seen it.

    `skill` is the number of tokens in the skill text, if it was injected.
    """
    shared = {"at": at, "session": session, "event": event}
    lines = [
        {**shared, "record": item.record, "tokens": item.tokens, "layer": item.layer}
        for item in items
    ]
    _append(root, "injection", lines)
    if skill:
        _append(root, "skill", [{**shared, "record": "", "tokens": skill}])
    mark_seen(root, session, [item.record for item in items])


def record_uses(root: Path, session: str, record_ids: Sequence[str], at: str) -> list[str]:
    """Record what a session referred to, and return the ids that are new.

    Each record is recorded only once per session.
    """
    if not record_ids:
        return []
    known = read_ledger(root, session_id=session).uses
    new = [name for name in dict.fromkeys(record_ids) if (session, name) not in known]
    _append(root, "used", [{"at": at, "session": session, "record": name} for name in new])
    return new


def _append(root: Path, line_type: str, lines: Sequence[Mapping[str, object]]) -> None:
    if lines:
        text = "".join(encode_line(line_type, line) for line in lines)
        files.append(ledger_file(root), text, root=paths.state_boundary(root))


def read_ledger(root: Path, most: int = LEDGER_BYTES, *, session_id: str = "") -> Ledger:
    """Read the last `most` bytes of the ledger.

    With a session id, lines from other sessions may be left out. Raises Unreadable if the file
    cannot be read.
    """
    needle = ""
    if _PLAIN_SESSION_ID.fullmatch(session_id):  # an id like this is written unescaped
        needle = session_id
    lines = [line for line in _tail(ledger_file(root), most) if line and needle in line]
    injections: list[Injection] = []
    skill: list[Injection] = []
    uses: set[tuple[str, str]] = set()
    for value in _parse_lines(lines):
        if not isinstance(value, Mapping):
            continue
        record_id = value.get("record")
        session = value.get("session")
        if not (isinstance(record_id, str) and isinstance(session, str)):
            continue
        line_type = value.get("type")
        if line_type == "injection":
            injections.append(_parse_injection(value, record_id, session))
        elif line_type == "skill":
            skill.append(_parse_injection(value, record_id, session))
        elif line_type == "used":
            uses.add((session, record_id))
    return Ledger(tuple(injections), frozenset(uses), tuple(skill))


def _parse_lines(lines: Sequence[str]) -> Sequence[object]:
    """Parse the lines of the ledger, recovering what can still be read from torn lines."""
    try:  # parsing all lines at once is much faster
        values = json.loads(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        values = []
    if len(values) == len(lines):
        return list(values)
    values = []
    for line in lines:
        values += [entry.value for entry in parse_log(line).lines]
    return values


def _parse_injection(value: Mapping[str, object], record_id: str, session: str) -> Injection:
    return Injection(
        record_id,
        _number(value.get("tokens")),
        _number(value.get("layer")),
        _text(value.get("at")),
        session,
        _text(value.get("event")),
    )


def _number(value: object) -> int:
    if type(value) is int and value >= 0:  # not a bool
        return value
    return 0


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return ""


def _tail(path: Path, most: int) -> list[str]:
    """Return the complete lines in the last `most` bytes of a file.

    Returns an empty list if the file does not exist.
    """
    try:
        if not path.is_file():
            return []
        with files.open_regular(path) as file:
            start = max(0, path.stat().st_size - most)
            file.seek(start)
            lines = file.read(most).decode("utf-8", "replace").split("\n")
    except OSError as error:
        raise _unreadable(path, error) from error
    if start:
        return lines[1:]
    return lines


def _unreadable(path: Path | str, error: OSError) -> Unreadable:
    return Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions")


def count_uses(ledger: Ledger) -> Mapping[str, tuple[int, int]]:
    """Return, for each record, how many sessions received it and how many of those used it."""
    pairs = {(injection.session, injection.record) for injection in ledger.injections}
    injected = Counter(record for _, record in pairs)
    used = Counter(record for _, record in pairs & ledger.uses)
    return {record: (count, used[record]) for record, count in injected.items()}


# --- which records were used ---------------------------------------------------------------------


class _Marks(NamedTuple):
    """What identifies a record, or what a session said or ran at one time."""

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
    """Return the ids of the injected records that a session has since referred to.

    `records` are the injected records, if the caller already has them.
    """
    injected_at: dict[str, datetime | None] = {}
    for injection in read_ledger(root, session_id=session).injections:
        if injection.session == session:
            injected_at.setdefault(injection.record, ids.parse_time(injection.at))
    if not injected_at:
        return []
    if records is None:
        records = _find_records(root, list(injected_at))
    marks = {name: _Marks(at) for name, at in injected_at.items()}
    for record in records:
        marks[record.id] = _record_marks(record, injected_at.get(record.id))
    utterances = [_utterance_marks(observation) for observation in observations]
    return [name for name in marks if _is_referenced(name, marks, utterances)]


def _record_marks(record: Record, injected_at: datetime | None) -> _Marks:
    text = f"{record.title}\n{record.text}"
    record_files = set(record.origin.files)
    for name in _FILE.findall(text):
        if "/" in name or _NAME.search(name):
            record_files.add(name)
    commands = []
    for command in _COMMAND.findall(text):
        if " " in command.strip():
            commands.append(" ".join(command.split()))
    return _Marks(injected_at, text, _weigh_terms(text), record_files, commands)


def _utterance_marks(observation: Record) -> _Marks:
    command = observation.extra.get("command")
    run = ""
    if isinstance(command, str):
        run = " ".join(command.split())
    text = run
    if observation.kind is ObservationKind.NOTE:
        text = observation.text
    at = ids.parse_time(observation.created_at)
    return _Marks(at, text, _weigh_terms(text), observation.origin.files, [run])


def _is_referenced(name: str, marks: Mapping[str, _Marks], utterances: Sequence[_Marks]) -> bool:
    """Return whether anything after a record's injection refers to it."""
    record = marks[name]
    if record.at is None:
        return False
    later: list[_Marks] = []
    not_rare: set[str] = set()  # terms used before the injection, or found in another record
    for utterance in utterances:
        if utterance.at is not None and utterance.at > record.at:
            later.append(utterance)
        else:
            not_rare.update(utterance.terms)
    for other_name, other in marks.items():
        if other_name != name:
            not_rare.update(other.terms)
    rare = record.terms.keys() - not_rare
    id_in_text = re.compile(rf"{re.escape(name)}(?![^\W_])")  # not the start of a longer id
    for utterance in later:
        if id_in_text.search(utterance.text) or _shares(record, rare, utterance):
            return True
    return False


def _shares(record: _Marks, rare: Collection[str], utterance: _Marks) -> bool:
    """Return whether an utterance contains a record's rare terms, its file or its command."""
    shared_weight = sum(record.terms[term] for term in rare if term in utterance.terms)
    if shared_weight >= _USED_WEIGHT:
        return True
    if any(command in utterance.commands[0] for command in record.commands):
        return True
    for path in utterance.files:
        if any(_is_same_file(path, own_path) for own_path in record.files):
            return True
    return False


def _is_same_file(one: str, other: str) -> bool:
    """Return whether one of two paths ends with the other."""
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


@cache
def _common_terms() -> frozenset[str]:
    return frozenset(map(stem, (*EVERYDAY_WORDS, *_CODE_WORDS)))


def _weigh_terms(text: str) -> dict[str, int]:
    """Return the terms that may identify `text`, with their weights."""
    weights: dict[str, int] = {}
    for word in terms.split_words(text):
        folded = terms.fold(word)
        if terms.is_cjk(word):
            if len(folded) < _MIN_CJK_CHARACTERS:
                continue
            term = folded[:_MIN_CJK_CHARACTERS]
        elif _NAME.search(word) and len(word) >= _MIN_NAME_CHARACTERS:
            weights[folded] = _NAME_WEIGHT
            continue
        else:
            word_terms = terms.word_terms(folded)
            if len(word) < _MIN_WORD_CHARACTERS or not word_terms:
                continue
            term = word_terms[0]
        if term not in _common_terms():
            weights[term] = _WORD_WEIGHT
    return weights


def _find_records(root: Path, names: Sequence[str]) -> list[Record]:
    """Return the records with these ids, from the memory files and the index."""
    by_id = {record.id: record for record in _curated(root)}
    database = paths.index_file(root)
    if not by_id.keys() >= {*names} and database.exists():
        with (
            suppress(RalphError, sqlite3.Error),  # the index may still be being built
            db.explained(database),
            closing(db.connect(database, read_only=True)) as connection,
        ):
            keys = []
            for name in names:
                key = queries.key_of(connection, name)
                if key is not None:
                    keys.append(key)
            for record in queries.records(connection, keys).values():
                by_id[record.id] = record
    return [by_id[name] for name in names if name in by_id]


def _curated(root: Path) -> list[Record]:
    library = Library(root)
    records = []
    for shelf in (library.guardrails, library.memories):
        records += [stored.record for stored in library.read(shelf)]
    return records


# --- statistics ----------------------------------------------------------------------------------


def usage_stats(root: Path) -> dict[str, Any]:
    """Count what was injected, used, recorded and run. A rate is None if there is no data yet."""
    ledger = read_ledger(root, ALL_BYTES)
    total = _count(ledger)
    injected = {injection.record for injection in ledger.injections}
    never_injected = [record for record in _curated(root) if record.id not in injected]
    return {
        "reference_rate": _rate(total["referenced"], total["injected"]),
        **total,
        "week": count_week(ledger),
        "hooks": hook_usage(root),
        "loop": loop_usage(root),
        "never_injected": len(never_injected),
    }


def count_week(ledger: Ledger) -> dict[str, Any]:
    """Count what was injected and used in the last seven days.

    `since` in the result is the first of these days.
    """
    since = ids.first_day(_WEEK_DAYS)
    return {"since": since, **_count(ledger, since=since)}


def _count(ledger: Ledger, *, since: str = "") -> dict[str, int]:
    """Count the injections, and the (session, record) pairs that were injected and referred to."""
    injections = _injected_since(ledger.injections, since)
    skill_tokens = sum(item.tokens for item in _injected_since(ledger.skill, since))
    pairs = {(injection.session, injection.record) for injection in injections}
    used_pairs = pairs & ledger.uses
    return {
        "injections": len(injections),
        "sessions": len({session for session, _ in pairs}),
        "sessions_used": len({session for session, _ in used_pairs}),
        "tokens": sum(injection.tokens for injection in injections) + skill_tokens,
        "skill_tokens": skill_tokens,
        "referenced": len(used_pairs),
        "injected": len(pairs),
    }


def _injected_since(injections: Iterable[Injection], since: str) -> list[Injection]:
    return [injection for injection in injections if injection.at >= since]


def hook_usage(root: Path) -> dict[str, Any]:
    """Count what the hooks recorded and how often they failed, from the index where possible.

    Raises Unreadable if a log cannot be read.
    """
    recorded = 0
    failures = recorder.Failures(0, "", "")
    hosts: set[str] = set()
    if index.outside(root) is None:  # do not follow a link out of the project
        sessions_folder = f"{log_folders(root)[0]}/"
        for path, (read, size) in index.read_logs(root).items():
            if not path.startswith(sessions_folder):
                continue
            recorded += read.events
            hosts.update(read.hosts.split())
            if read.offset < size:
                new_events = _count_events(path, read.offset)
                recorded += new_events.total()
                hosts.update(new_events)
        failures = recorder.read_failures(root) or failures
    return {
        "recorded": recorded,
        "hosts": sorted(filter(None, hosts)),
        "failures": failures.count,
        "success_rate": _rate(recorded, recorded + failures.count),
        "last_failure_at": failures.at,
        "last_failure": failures.what,
    }


def _count_events(path: str, offset: int) -> Counter[str]:
    """Count the events after an offset in a log by host. The host of an observation is ""."""
    events: Counter[str] = Counter()
    try:
        with files.open_unpacked(Path(path)) as file:
            file.seek(offset)
            for line in file:
                match = _EVENT.match(line)
                if match is not None:
                    host = match[1] or b""
                    events[host.decode()] += 1
    except OSError as error:
        raise _unreadable(path, error) from error
    return events


def loop_usage(root: Path) -> dict[str, Any]:
    """Count how loop runs ended. If there are no runs, the index is not read."""
    counts: Mapping[str, tuple[int, int]] = {}
    if any(paths.runs_folder(root).glob("*.jsonl")):
        counts = index.ask(root, queries.count_loops)
    nothing = (0, 0)
    succeeded, iterations = counts.get(RunStatus.SUCCESS.value, nothing)
    failed, _ = counts.get(RunStatus.FAILED.value, nothing)
    stopped, _ = counts.get(RunStatus.STOPPED.value, nothing)
    running, _ = counts.get(RunStatus.RUNNING.value, nothing)
    ended = succeeded + failed + stopped
    return {
        "success_rate": _rate(succeeded, ended),
        "mean_iterations": _rate(iterations, succeeded),
        "runs": ended + running,
        "succeeded": succeeded,
        "failed": failed,
        "stopped": stopped,
        "running": running,
    }


def _rate(part: int, total: int) -> float | None:
    if not total:
        return None
    return part / total
