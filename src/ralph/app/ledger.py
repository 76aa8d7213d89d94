"""The injection ledger: what was handed to agents, in which session, at what price, and whether it was used.

`log/injections.jsonl` only grows: a line for each record that was handed over, and at Stop a line for each that
was referenced since. Beside it, a list for each session says what that session has already seen; compaction removes
it, since what was compacted away may be handed over again. The ledger holds ids and numbers, no texts.

A record counts as referenced when something after its injection shows it: its id, words that only it has among
what was injected and that nobody had said before, its file, or a command that it names. Only what people and agents
said and the commands they ran count; a tool's output does not, since whoever prints a memory file has not used it.
Usefulness counts sessions, not lines. `tests/app/test_ledger.py` proves it.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from ralph import paths
from ralph.errors import RalphError, Unreadable
from ralph.formats.log import encode_line, parse_log
from ralph.model import ids
from ralph.model.record import ObservationKind, Record
from ralph.search import terms
from ralph.search.terms import EVERYDAY_WORDS, stem
from ralph.store import db, files, rows
from ralph.store.library import Library

LONGEST = 1_000_000
"""Bytes of the ledger that a hook reads: its end, which is some 7,000 injections."""

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


@dataclass(frozen=True, slots=True)
class Injection:
    """One record handed over once."""

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
    """What the ledger says, in its order."""

    injections: tuple[Injection, ...] = ()
    uses: tuple[Use, ...] = ()


def ledger_file(root: Path) -> Path:
    """Where the ledger is, in the main checkout."""
    return paths.log_folder(root) / "injections.jsonl"


def seen_file(root: Path, session: str) -> Path:
    """Where the list of what a session has seen is; an odd session id does not become a path."""
    name = session if _SAFE_NAME.fullmatch(session) else ids.derived("session", session)
    return paths.cache_folder(root) / "injected" / name


def record(root: Path, session: str, event: str, items: Sequence[Injection], at: str) -> None:
    """Write down what was handed over, with one append, and that this session has seen it."""
    if not items:
        return
    lines = [_injection_line(session, event, item, at) for item in items]
    within = paths.state_boundary(root)
    files.append(ledger_file(root), "".join(lines), root=within)
    saw(root, session, [item.record for item in items])


def saw(root: Path, session: str, names: Sequence[str]) -> None:
    """Write down that a session was told something, be it a record or not; what is no record is nowhere else."""
    lines = "".join(f"{name}\n" for name in names if "\n" not in name)
    if lines:
        files.append(seen_file(root, session), lines, root=paths.state_boundary(root))


def _injection_line(session: str, event: str, item: Injection, at: str) -> str:
    shape = {"at": at, "session": session, "event": event, "record": item.record}
    return encode_line("injection", {**shape, "tokens": item.tokens, "layer": item.layer})


def seen(root: Path, session: str) -> set[str]:
    """The records that this session was handed since it began or was compacted."""
    return {line for line in _tail(seen_file(root, session), LONGEST).split("\n") if line}


def forget_session(root: Path, session: str) -> None:
    """Let a session be handed everything again: its context was compacted."""
    files.delete(seen_file(root, session))


def read(root: Path, most: int = LONGEST, *, session_id: str = "") -> Ledger:
    """The ledger, its last bytes; half lines and lines of other kinds are passed over.

    With a session's id lines of other sessions may be left out: the ledger is long, and theirs are most of it.
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
        at = _text(value, "at")
        if value.get("type") == "injection":
            tokens, layer = _number(value, "tokens"), _number(value, "layer")
            injections.append(Injection(record_id, tokens, layer, at, session, _text(value, "event")))
        elif value.get("type") == "used":
            uses.append(Use(record_id, session, at))
    return Ledger(tuple(injections), tuple(uses))


def usefulness(root: Path) -> Mapping[str, tuple[int, int]]:
    """By record: in how many sessions it was handed over, and in how many of these it was used."""
    return counted(read(root))


def counted(ledger: Ledger) -> Mapping[str, tuple[int, int]]:
    """The same, of a ledger that was read already."""
    handed: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    for injection in ledger.injections:
        handed.setdefault(injection.record, set()).add(injection.session)
    for use in ledger.uses:
        used.setdefault(use.record, set()).add(use.session)
    return {name: (len(sessions), len(sessions & used.get(name, set()))) for name, sessions in handed.items()}


def used(root: Path, session: str, record_ids: Sequence[str], at: str) -> list[str]:
    """Write down what a session referenced, each record once a session; gives those that are new."""
    if not record_ids:
        return []
    known = {use.record for use in read(root, session_id=session).uses if use.session == session}
    new = [name for name in dict.fromkeys(record_ids) if name not in known]
    if new:
        lines = [encode_line("used", {"at": at, "session": session, "record": name}) for name in new]
        files.append(ledger_file(root), "".join(lines), root=paths.state_boundary(root))
    return new


def references(
    root: Path, session: str, observations: Sequence[Record], records: Sequence[Record] | None = None
) -> list[str]:
    """Which records that were handed to a session something in it refers to since; `records` saves looking them up."""
    since: dict[str, str] = {}
    for injection in read(root, session_id=session).injections:
        if injection.session == session:
            since.setdefault(injection.record, injection.at)
    if not since:
        return []
    found = _records(root, list(since)) if records is None else records
    known = {each.id: each for each in found if each.id in since}
    marks = {name: _Marks.of(known[name]) if name in known else _Marks() for name in since}
    said = [_Said.of(observation) for observation in observations]
    return [name for name, at in since.items() if _is_referenced(name, marks, said, _moment(at))]


# --- what tells that a record was used -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marks:
    """By what a record is recognised: its telling words, the names in it, its files, the commands that it names."""

    words: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Record) -> "_Marks":
        text = f"{record.title}\n{record.text}"
        found = {*record.origin.files, *(match for match in _FILE.findall(text) if "/" in match or _NAME.search(match))}
        commands = [" ".join(match.split()) for match in _COMMAND.findall(text)]
        return cls(*_words(text), frozenset(found), tuple(command for command in commands if " " in command))


@dataclass(frozen=True, slots=True)
class _Said:
    """What an observation shows of its author: what was said or run, on which files, and when."""

    at: datetime | None
    text: str
    words: frozenset[str]
    names: frozenset[str]
    files: tuple[str, ...]
    command: str

    @classmethod
    def of(cls, observation: Record) -> "_Said":
        command = observation.extra.get("command")
        run = " ".join(command.split()) if isinstance(command, str) else ""
        text = observation.text if observation.kind is ObservationKind.NOTE else run
        return cls(_moment(observation.created_at), text, *_words(text), observation.origin.files, run)


def _is_referenced(name: str, marks: Mapping[str, _Marks], said: Sequence[_Said], since: datetime | None) -> bool:
    """Whether anything later than the injection shows a record; what others have or was said before proves nothing."""
    if since is None:
        return False
    after = [each for each in said if each.at is not None and each.at > since]
    before = [each for each in said if each.at is None or each.at <= since]
    if any(_mentions(each.text, name) for each in after):
        return True
    own = marks[name]
    others = [each for other, each in marks.items() if other != name]
    words = own.words.difference(*(each.words for each in others), *(each.words for each in before))
    names = own.names.difference(*(each.names for each in others), *(each.names for each in before))
    return any(
        len(words & each.words) >= _LEAST_WORDS
        or not names.isdisjoint(each.names)
        or any(_same_file(file, mine) for file in each.files for mine in own.files)
        or any(command in each.command for command in own.commands)
        for each in after
    )


def _mentions(text: str, name: str) -> bool:
    """Whether a text has an id, and not only one that begins with it."""
    return any(not piece[:1].isalnum() for piece in text.split(name)[1:])


@cache
def _usual() -> frozenset[str]:
    """The words that tell nothing, as terms."""
    return frozenset(map(stem, (*EVERYDAY_WORDS, *_CODE.split())))


def _words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The telling words of a text, each in one form, and the names of code in it."""
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
    return frozenset(words - _usual()), frozenset(names)


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
    """The records of these ids: from the index as it stands, else from the memory files."""
    found: dict[str, Record] = {}
    index = paths.index_file(root)
    if index.exists():
        try:
            with db.explained(index), closing(db.connect(index, read_only=True)) as connection:
                found = dict(_indexed(connection, names))
        except (RalphError, sqlite3.Error):  # no index, or one that is being made: the files say the same
            found = {}
    if len(found) < len(names):
        library = Library(root)
        for shelf in (library.guardrails, library.memories):
            found |= {
                stored.record.id: stored.record for stored in library.read(shelf) if stored.record.id not in found
            }
    return [found[name] for name in names if name in found]


def _indexed(connection: sqlite3.Connection, names: Sequence[str]) -> Iterator[tuple[str, Record]]:
    keys = [key for name in names if (key := rows.key_of(connection, name)) is not None]
    for each in rows.records(connection, keys).values():
        yield each.id, each


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
    if all(line[0] == "{" and line[-1] == "}" for line in lines):
        try:  # all at once, which is a great deal faster; where one of them is torn, one by one
            found = json.loads(f"[{','.join(lines)}]")
        except (ValueError, RecursionError):
            found = []
        if len(found) == len(lines):
            yield from found
            return
    for line in lines:
        try:
            value = json.loads(line) if line.startswith("{") else None
        except (ValueError, RecursionError):
            yield from (each.value for each in parse_log(line).lines)
        else:
            if isinstance(value, dict):
                yield value
            elif line.strip():
                yield from (each.value for each in parse_log(line).lines)


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _number(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    return found if type(found) is int and found >= 0 else 0
