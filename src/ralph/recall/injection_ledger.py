"""Keep the ledger of the records that were injected into sessions and referred to in them.

The ledger is a log in the state folder with one line per injection or use:

    {"v": 1, "type": "injection", "at": "...", "session": "s-1", "record": "mem-...", "tokens": 40}
    {"v": 1, "type": "used", "at": "...", "session": "s-1", "record": "mem-..."}

In addition, each session has a file that lists the records it has seen, so that nothing is injected
twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import Unreadable
from ralph.formats.log import encode_line, parse_log
from ralph.storage import files

LEDGER_BYTES = 1_000_000  # read by a hook from the end of the ledger, about 7,000 injections
WHOLE_LEDGER = 1 << 28
ledger_file = paths.ledger_file
_PLAIN_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


class Injection(NamedTuple):
    """The injection of one record into a session."""

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


def seen_file(root: Path, session: str) -> Path:
    """Return the path of the file that lists the records a session has seen.

    An unsafe session id is never used as a path.
    """
    return paths.injected_folder(root) / paths.session_log(root, session).stem


def mark_seen(root: Path, session: str, names: Sequence[str]) -> None:
    """Add record ids, and marks of other lines, to the list of what a session has seen."""
    lines = "".join(f"{name}\n" for name in names if "\n" not in name)
    if lines:
        files.append(seen_file(root, session), lines, root=paths.state_boundary(root))


def seen_records(root: Path, session: str) -> set[str]:
    """Return the ids and marks of what a session has seen since it began or was compacted."""
    return {line for line in _tail(seen_file(root, session), LEDGER_BYTES) if line}


def forget_session(root: Path, session: str) -> None:
    """Clear the list of what a session has seen, because its context was compacted."""
    files.delete(seen_file(root, session))


def record_injections(
    root: Path, session: str, event: str, items: Sequence[Injection], at: str, *, skill: int = 0
) -> None:
    """Add injections to the ledger, and mark their records as seen by the session.

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
    """Record the ids that a session referred to, once per session. Return the new ones."""
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
    """Parse the lines of the ledger. A torn line is recovered as far as possible."""
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
        raise unreadable_file(path, error) from error
    if start:
        return lines[1:]
    return lines


def unreadable_file(path: Path | str, error: OSError) -> Unreadable:
    """Return the error to raise if a log cannot be read."""
    return Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions")


def count_uses(ledger: Ledger) -> Mapping[str, tuple[int, int]]:
    """Map each record to the number of sessions that received it, and of those that used it."""
    pairs = {(injection.session, injection.record) for injection in ledger.injections}
    injected = Counter(record for _, record in pairs)
    used = Counter(record for _, record in pairs & ledger.uses)
    return {record: (count, used[record]) for record, count in injected.items()}
