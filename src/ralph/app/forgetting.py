"""Which lines of which logs are forgotten, and cutting them out: the part of `ralph forget` that knows logs.

`cut` is a function of a log's text, `Logs` knows what is wanted of which log. A test says which objects of a
log go. A raw event goes whole. When anything goes, the lines about its session lose what is made of the
observations (summary, tags), for that may quote them; the next Stop writes it anew. A half line that a crash
left goes when it may be a part of what goes. Every other byte stays. The rules see the JSON decoded, so that
no escape hides a word, and every member, also one that stands twice.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.formats.log import encode_line, parse_log
from ralph.model.record import Family, Record, Status
from ralph.store import files, rows
from ralph.store.sources import EVENT, Format, name_of, sources

Test = Callable[[Mapping[str, object], str], bool]
"""Whether an object of a log goes: its members, and its text."""

_BLANK = " \t\r"
_NO_CONTENT = {
    "": frozenset("v type id kind status scope at created_at updated_at event host mode session record layer".split()),
    "payload": frozenset("hook_event_name permission_mode session_id prompt_id turn_id tool_use_id".split()),
    "origin": frozenset("by session agent".split()),
}
"""Members whose values are ours or the host's own words and ids: of a line itself, and of two of its parts."""
_ABOUT = ("session", "run")
_LEDGER = ("injection", "used")
_DERIVED = ("summary", "tags", "messages")
_FAMILIES = frozenset(family.value for family in Family)
_LONG_KEY = 24


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be forgotten; one of the four."""

    ids: tuple[str, ...] = ()
    session: str = ""
    before: str = ""
    matching: str = ""


@dataclass(frozen=True, slots=True)
class Vanishing:
    """One thing that goes: where it stands, its id if it has one, what it is and how it begins."""

    path: Path
    line: int
    id: str
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Gone:
    """One object that was cut out: its line, type, members and text."""

    line: int
    type: str
    value: Mapping[str, object]
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A log without what goes, and what that was; `summaries` are the lines whose derived parts went."""

    text: str
    gone: tuple[Gone, ...] = ()
    summaries: tuple[int, ...] = ()
    halves: tuple[int, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything went."""
        return bool(self.gone or self.summaries or self.halves)


def cut(text: str, goes: Test, is_part: Callable[[str], bool], *, emptied: bool = False) -> Cut:
    """The log without the objects that go, and without the half lines that may be parts of them.

    `emptied`: a log in which nothing but lines about sessions or runs is left goes, too.
    """
    document = parse_log(text)
    objects = [Gone(each.line, each.type, each.value, text[each.start : each.end]) for each in document.lines]
    places = [(each.start, each.end) for each in document.lines]
    for entry in document.entries:
        piece = text[entry.start : entry.end]
        objects.append(Gone(entry.line, entry.record.family.value, json.loads(piece), piece))
        places.append((entry.start, entry.end))
    gone = {number for number, each in enumerate(objects) if _goes(each, goes)}
    halves = [place for place in document.torn if is_part(text[slice(*place)])]
    stripped = {
        number: new
        for number, each in enumerate(objects)
        if number not in gone and (gone or halves or goes(each.value, each.text)) and (new := _bare(each))
    }
    left = [each for number, each in enumerate(objects) if number not in gone]
    if emptied and gone and all(each.type in _ABOUT for each in left):
        return Cut("", _in_order(objects, gone))
    changes = [(*places[number], "") for number in gone] + [(*place, "") for place in halves]
    changes += [(*places[number], new) for number, new in stripped.items()]
    return Cut(
        _spliced(text, sorted(changes)),
        _in_order(objects, gone),
        tuple(objects[number].line for number in stripped),
        tuple(text.count("\n", 0, start) + 1 for start, _ in halves),
    )


def _in_order(objects: Sequence[Gone], chosen: Collection[int]) -> tuple[Gone, ...]:
    return tuple(sorted((objects[number] for number in chosen), key=lambda each: each.line))


def _goes(each: Gone, goes: Test) -> bool:
    """Whether an object goes whole; a session's line only for what it says by itself."""
    if not goes(each.value, each.text):
        return False
    new = _bare(each)
    return not new or goes(json.loads(new), new)


def _bare(each: Gone) -> str:
    """A session's line without what is made of observations; "" when it holds none, or is another line."""
    if each.type != "session" or not any(name in each.value for name in _DERIVED):
        return ""
    rest = {name: value for name, value in each.value.items() if name not in (*_DERIVED, "v", "type")}
    return encode_line("session", rest).removesuffix("\n")


def _spliced(text: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with these places replaced, and without the lines that then hold nothing."""
    pieces: list[str] = []
    kept = 0
    for start, end, new in changes:
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        stop = len(text) if last < 0 else last + 1
        if not new and first >= kept and not (text[first:start] + text[end:stop]).strip(_BLANK + "\n"):
            start, end = first, stop
        pieces += [text[kept:start], new]
        kept = max(end, kept)
    return "".join(pieces) + text[kept:]


def is_record(value: Mapping[str, object]) -> bool:
    """Whether an object of a log is a record."""
    return value.get("type") in _FAMILIES


def session_of(value: Mapping[str, object]) -> str:
    """The session that an object of a log belongs to."""
    if value.get("type") == "session":
        return _word(value.get("id"))
    if "session" in value:
        return _word(value["session"])
    inner = value.get("origin") if is_record(value) else value.get("payload")
    if not isinstance(inner, Mapping):
        return ""
    return _word(inner.get("session") if is_record(value) else inner.get("session_id"))


def time_of(value: Mapping[str, object]) -> str:
    """When an object of a log was written, as far as it says."""
    return _word(value.get("at")) or _word(value.get("created_at"))


def _word(found: object) -> str:
    return found if isinstance(found, str) else ""


class _Members(list[tuple[str, object]]):
    """A JSON object as it is written: a member that stands twice is there twice."""


def contents(piece: str) -> Iterator[str]:
    """Every text that an object of a log holds as content, decoded."""
    waiting: list[tuple[object, frozenset[str]]] = [(json.loads(piece, object_pairs_hook=_Members), _NO_CONTENT[""])]
    none: frozenset[str] = frozenset()
    while waiting:
        found, skipped = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, _Members):
            for key, value in found:
                if not key.isidentifier() or len(key) > _LONG_KEY or any(char.isdigit() for char in key):
                    yield key
                if key not in skipped or not isinstance(value, str):
                    waiting.append((value, _NO_CONTENT.get(key, none) if skipped is _NO_CONTENT[""] else none))
        elif isinstance(found, list):
            waiting += ((item, none) for item in found)


def contents_of(record: Record) -> Iterator[str]:
    """Every text that a record holds as content."""
    yield from (record.title, record.text, *record.tags, *record.origin.files)
    if record.extra:
        yield from contents(json.dumps({"extra": dict(record.extra)}, default=str))


# --- lines of logs -----------------------------------------------------------------------------


class Logs:
    """Which objects of which logs go; the index knows where the records of raw events stand."""

    def __init__(self, root: Path, wanted: Wanted, connection: sqlite3.Connection) -> None:
        self.root, self.connection = root, connection
        self.sources = {source.name: source.path for source in sources(root) if source.format is Format.LOG}
        self.found: set[str] = set()
        self.lines: dict[Path, set[int]] = defaultdict(set)
        self.raw: dict[Path, set[str]] = {}
        if wanted.ids:
            wanted = replace(wanted, ids=(*wanted.ids, *self._retired(wanted.ids)))
        self.wanted = wanted
        self.needle = wanted.matching.casefold()
        for name in wanted.ids:
            self._look_up(name)
        for path, numbers in self.lines.items():
            text = files.read(path) or ""
            raw = (each for each in parse_log(text).lines if each.type == EVENT and each.line in numbers)
            self.raw[path] = {text[each.start : each.end] for each in raw}

    def _retired(self, names: Sequence[str]) -> Iterator[str]:
        """The ids of bodies that were replaced by what these ids mean."""
        sql = "SELECT key FROM records WHERE status = ?"
        keys = [row[0] for row in self.connection.execute(sql, (Status.RETIRED.value,))]
        for record in rows.records(self.connection, keys).values():
            if any(link.relation == "superseded_by" and link.target in names for link in record.links):
                yield record.id

    def _look_up(self, name: str) -> None:
        """Note in which lines of which logs an id's records stand."""
        for place, number in rows.places(self.connection, rows.keys_of(self.connection, name)).values():
            self.found.add(name)
            if place in self.sources:
                self.lines[self.sources[place]].add(number)

    def paths(self) -> list[Path]:
        """The logs in which something may go."""
        everything = sorted(paths.log_folder(self.root).rglob("*.jsonl"))
        if not self.wanted.ids:
            return everything
        return [path for path in everything if path in self.lines or path.name == "injections.jsonl"]

    def edit(self, path: Path) -> Callable[[str], str]:
        """The change of a log, for whatever text it has then."""
        return lambda text: self.cut(path, text).text

    def cut(self, path: Path, text: str) -> Cut:
        """A log without what goes."""
        wanted, raw = self.wanted, self.raw.get(path, set())
        whole = bool(wanted.session) and path.stem == wanted.session
        names = [f'"id":{gap}{json.dumps(name, ensure_ascii=False)}' for name in wanted.ids for gap in ("", " ")]
        manners = shapes(wanted.matching)

        def goes(value: Mapping[str, object], piece: str) -> bool:
            if wanted.ids:
                return _is_named(value, wanted.ids) or piece in raw
            if wanted.session:
                return whole or session_of(value) == wanted.session
            if wanted.before:
                return value.get("type") != Family.MEMORY and "" < time_of(value) < wanted.before
            return any(self.needle in words.casefold() for words in contents(piece))

        def is_part(half: str) -> bool:
            folded = half.casefold()
            return whole or any(name in half for name in names) or any(shape in folded for shape in manners)

        return cut(text, goes, is_part, emptied=bool(wanted.session or wanted.before))

    def told(self, path: Path, done: Cut) -> Iterator[Vanishing]:
        """What goes of a log, in words; what a raw event means, the index knows."""
        events = {each.line for each in done.gone if each.type == EVENT}
        held = self._records(path, events) if events else {}
        for each in done.gone:
            for record in held.get(each.line, ()):
                yield Vanishing(path, each.line, record.id, f"raw {record.kind.value}", shown(record))
            if each.line not in held:
                words = each.value.get("text") or each.value.get("summary") or each.value.get("record") or ""
                kind = str(each.value.get("kind") or "")
                name = str(each.value.get("id") or "")
                yield Vanishing(path, each.line, name, f"{each.type} {kind}".strip(), begin(str(words)))
        for line in done.summaries:
            yield Vanishing(path, line, "", "summary and tags of its session", "")
        for line in done.halves:
            yield Vanishing(path, line, "", "half a line", "")

    def _records(self, path: Path, lines: set[int]) -> dict[int, list[Record]]:
        sql = "SELECT key, line FROM observations WHERE source = (SELECT key FROM sources WHERE path = ?) ORDER BY key"
        found = self.connection.execute(sql, (name_of(path, self.root),)).fetchall()
        keys = {row[0]: row[1] for row in found if row[1] in lines}
        held: dict[int, list[Record]] = defaultdict(list)
        for key, record in rows.records(self.connection, list(keys)).items():
            held[keys[key]].append(record)
        return held


def _is_named(value: Mapping[str, object], names: Sequence[str]) -> bool:
    """Whether an object of a log is one of these records, or what the ledger says of one."""
    member = "id" if is_record(value) else "record" if value.get("type") in _LEDGER else ""
    return bool(member) and value.get(member) in names


def shapes(words: str) -> set[str]:
    """How a text may stand in a file: as it is, and in the two manners of JSON."""
    found = {words, json.dumps(words)[1:-1], json.dumps(words, ensure_ascii=False)[1:-1]}
    return {shape.casefold() for shape in found} if words else set()


def shown(record: Record) -> str:
    """How a record begins, title first."""
    return begin(f"{record.title}: {record.text}" if record.title else record.text)


def begin(words: str) -> str:
    """As much of a text as a preview needs."""
    return words[:2000]
