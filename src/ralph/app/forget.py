"""`ralph forget`: remove records from every file, log, index and vector.

What is forgotten may be a secret, so there is no backup and nothing readable stays. A plan comes first; the same
functions then run under each file's lock. Entries go through their codecs; lines of logs are cut out one by one, with
the session's summary, which may quote them. The index is rebuilt, because the bytes of deleted rows stay in a
database. What Ralph must not change (prose, tasks, backups) is reported with file and line.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index, sessions
from ralph.app.worktrees import indexes
from ralph.errors import NotFound, RalphError, Refused, UsageError
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.log import encode_line, parse_log
from ralph.formats.memories import GUARDRAILS, parse_memories
from ralph.formats.pages import parse_patterns
from ralph.formats.progress import JOURNAL_KEY, parse_progress
from ralph.formats.text import Document
from ralph.formats.work import parse_insights
from ralph.model.record import Family, Record
from ralph.store import db, files, queries
from ralph.store import sessions as stored_sessions
from ralph.store.index import PATIENCE, Progress
from ralph.store.sources import EVENT, Format, Source, source_name, sources
from ralph.store.vectors import VectorCache

Test = Callable[[Mapping[str, object], str], bool]
"""Whether an object of a log is removed, given its members and its text."""

_BLANK = " \t\r"
_NO_CONTENT = {
    "": frozenset("v type id kind status scope at created_at updated_at event host mode session record layer".split()),
    "payload": frozenset("hook_event_name permission_mode session_id prompt_id turn_id tool_use_id".split()),
    "origin": frozenset("by session agent".split()),
}
"""Members without user content, of a line and of two of its parts."""
_OWNER_MEMBERS = ("session", "run")
_LEDGER = ("injection", "used")
_DERIVED = ("summary", "tags", "messages")
_FAMILIES = frozenset(family.value for family in Family)
_MAX_KEY = 24


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: exactly one of the four."""

    ids: tuple[str, ...] = ()
    session: str = ""
    before: str = ""
    matching: str = ""


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """A record or line that is removed: its location, id, description and beginning."""

    path: Path
    line: int
    id: str
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class RemovedObject:
    """An object of a log: its line, type, members and text."""

    line: int
    type: str
    value: Mapping[str, object]
    text: str


@dataclass(frozen=True, slots=True)
class LogCut:
    """A log after the cut and what was removed; `summaries` are lines that lost their derived members."""

    text: str
    gone: tuple[RemovedObject, ...] = ()
    summaries: tuple[int, ...] = ()
    halves: tuple[int, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything went."""
        return bool(self.gone or self.summaries or self.halves)


def cut_log(text: str, goes: Test, is_part: Callable[[str], bool], *, emptied: bool = False) -> LogCut:
    """Remove objects, and torn lines that may be parts of them; with `emptied`, also a log that has no records left."""
    document = parse_log(text)
    objects = [RemovedObject(each.line, each.type, each.value, text[each.start : each.end]) for each in document.lines]
    places = [(each.start, each.end) for each in document.lines]
    for entry in document.entries:
        piece = text[entry.start : entry.end]
        objects.append(RemovedObject(entry.line, entry.record.family.value, json.loads(piece), piece))
        places.append((entry.start, entry.end))
    gone = {number for number, each in enumerate(objects) if _is_removed(each, goes)}
    halves = [place for place in document.torn if is_part(text[slice(*place)])]
    stripped = {
        number: new
        for number, each in enumerate(objects)
        if number not in gone and (gone or halves or goes(each.value, each.text)) and (new := _without_content(each))
    }
    left = [each for number, each in enumerate(objects) if number not in gone]
    if emptied and gone and all(each.type in _OWNER_MEMBERS for each in left):
        return LogCut("", _select(objects, gone))
    changes = [(*places[number], "") for number in gone] + [(*place, "") for place in halves]
    changes += [(*places[number], new) for number, new in stripped.items()]
    return LogCut(
        _splice(text, sorted(changes)),
        _select(objects, gone),
        tuple(objects[number].line for number in stripped),
        tuple(text.count("\n", 0, start) + 1 for start, _ in halves),
    )


def _select(objects: Sequence[RemovedObject], chosen: Collection[int]) -> tuple[RemovedObject, ...]:
    return tuple(sorted((objects[number] for number in chosen), key=lambda each: each.line))


def _is_removed(each: RemovedObject, goes: Test) -> bool:
    if not goes(each.value, each.text):
        return False
    new = _without_content(each)
    return not new or goes(json.loads(new), new)


def _without_content(each: RemovedObject) -> str:
    """Return a session's line without its derived members; "" for other lines and when it has none."""
    if each.type != "session" or not any(name in each.value for name in _DERIVED):
        return ""
    rest = {name: value for name, value in each.value.items() if name not in (*_DERIVED, "v", "type")}
    return encode_line("session", rest).removesuffix("\n")


def _splice(text: str, changes: list[tuple[int, int, str]]) -> str:
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
    """Return whether an object of a log is a record."""
    return value.get("type") in _FAMILIES


def session_of(value: Mapping[str, object]) -> str:
    """Return the session that an object of a log belongs to."""
    if value.get("type") == "session":
        return _string(value.get("id"))
    if "session" in value:
        return _string(value["session"])
    inner = value.get("origin") if is_record(value) else value.get("payload")
    if not isinstance(inner, Mapping):
        return ""
    return _string(inner.get("session") if is_record(value) else inner.get("session_id"))


def time_of(value: Mapping[str, object]) -> str:
    """Return when an object of a log was written, or ""."""
    return _string(value.get("at")) or _string(value.get("created_at"))


def _string(found: object) -> str:
    return found if isinstance(found, str) else ""


class _Members(list[tuple[str, object]]):
    """A JSON object as a list of members, so that a repeated member is kept."""


def text_values(piece: str) -> Iterator[str]:
    """Yield every text that an object of a log has as content, decoded."""
    waiting: list[tuple[object, frozenset[str]]] = [(json.loads(piece, object_pairs_hook=_Members), _NO_CONTENT[""])]
    none: frozenset[str] = frozenset()
    while waiting:
        found, skipped = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, _Members):
            for key, value in found:
                if not key.isidentifier() or len(key) > _MAX_KEY or any(char.isdigit() for char in key):
                    yield key
                if key not in skipped or not isinstance(value, str):
                    waiting.append((value, _NO_CONTENT.get(key, none) if skipped is _NO_CONTENT[""] else none))
        elif isinstance(found, list):
            waiting += ((item, none) for item in found)


def record_texts(record: Record) -> Iterator[str]:
    """Yield every text that a record has as content."""
    yield from (record.title, record.text, *record.tags, *record.origin.files)
    if record.extra:
        yield from text_values(json.dumps({"extra": dict(record.extra)}, default=str))


class ForgetLogs:
    """Selects objects of logs; the index knows the lines of the records that raw events became."""

    def __init__(self, root: Path, wanted: ForgetRequest, connection: sqlite3.Connection) -> None:
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
        """Yield the ids of the earlier versions of these records."""
        for record in queries.records(self.connection, queries.retired_keys(self.connection)).values():
            if any(link.relation == "superseded_by" and link.target in names for link in record.links):
                yield record.id

    def _look_up(self, name: str) -> None:
        for place, number in queries.locations(self.connection, queries.keys_of(self.connection, name)).values():
            self.found.add(name)
            if place in self.sources:
                self.lines[self.sources[place]].add(number)

    def paths(self) -> list[Path]:
        """Return the logs to look into."""
        everything = sorted(paths.log_folder(self.root).rglob("*.jsonl"))
        if not self.wanted.ids:
            return everything
        return [path for path in everything if path in self.lines or path.name == "injections.jsonl"]

    def edit(self, path: Path) -> Callable[[str], str]:
        """Return the function that cuts a log, whatever its text is by then."""
        return lambda text: self.cut(path, text).text

    def cut(self, path: Path, text: str) -> LogCut:
        """Cut a log."""
        wanted, raw = self.wanted, self.raw.get(path, set())
        whole = bool(wanted.session) and path.stem == wanted.session
        names = [f'"id":{gap}{json.dumps(name, ensure_ascii=False)}' for name in wanted.ids for gap in ("", " ")]
        manners = escaped_forms(wanted.matching)

        def goes(value: Mapping[str, object], piece: str) -> bool:
            if wanted.ids:
                return _has_name(value, wanted.ids) or piece in raw
            if wanted.session:
                return whole or session_of(value) == wanted.session
            if wanted.before:
                return value.get("type") != Family.MEMORY and "" < time_of(value) < wanted.before
            return any(self.needle in words.casefold() for words in text_values(piece))

        def is_part(half: str) -> bool:
            folded = half.casefold()
            return whole or any(name in half for name in names) or any(shape in folded for shape in manners)

        return cut_log(text, goes, is_part, emptied=bool(wanted.session or wanted.before))

    def describe(self, path: Path, done: LogCut) -> Iterator[ForgottenRecord]:
        """Describe what is removed from a log."""
        events = {each.line for each in done.gone if each.type == EVENT}
        held = self._records(path, events) if events else {}
        for each in done.gone:
            for record in held.get(each.line, ()):
                yield ForgottenRecord(path, each.line, record.id, f"raw {record.kind.value}", record_preview(record))
            if each.line not in held:
                words = each.value.get("text") or each.value.get("summary") or each.value.get("record") or ""
                kind = str(each.value.get("kind") or "")
                name = str(each.value.get("id") or "")
                yield ForgottenRecord(path, each.line, name, f"{each.type} {kind}".strip(), text_preview(str(words)))
        for line in done.summaries:
            yield ForgottenRecord(path, line, "", "summary and tags of its session", "")
        for line in done.halves:
            yield ForgottenRecord(path, line, "", "half a line", "")

    def _records(self, path: Path, lines: set[int]) -> dict[int, list[Record]]:
        found = stored_sessions.observation_lines(self.connection, source_name(path, self.root))
        keys = {key: line for key, line in found.items() if line in lines}
        held: dict[int, list[Record]] = defaultdict(list)
        for key, record in queries.records(self.connection, list(keys)).items():
            held[keys[key]].append(record)
        return held


def _has_name(value: Mapping[str, object], names: Sequence[str]) -> bool:
    member = "id" if is_record(value) else "record" if value.get("type") in _LEDGER else ""
    return bool(member) and value.get(member) in names


def escaped_forms(words: str) -> set[str]:
    """Return a text as it may be stored in a file: plain, and in both JSON escapings."""
    found = {words, json.dumps(words)[1:-1], json.dumps(words, ensure_ascii=False)[1:-1]}
    return {shape.casefold() for shape in found} if words else set()


def record_preview(record: Record) -> str:
    """Return the beginning of a record, title first."""
    return text_preview(f"{record.title}: {record.text}" if record.title else record.text)


def text_preview(words: str) -> str:
    """Return as much of a text as a preview needs."""
    return words[:2000]


_MIN_NEEDLE = 12
"""Characters: a shorter line of a forgotten text may be in a backup by chance."""
_BY_HAND = "edit it by hand"
_BACKUP = "a backup; delete it when it is no longer needed"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What Ralph does not remove by itself, and what to do about it."""

    path: Path
    line: int
    why: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class _FileChange:
    """A file to change: the edit, its present result, and whether an empty file is deleted."""

    path: Path
    edit: Callable[[str], str]
    after: str
    goes: bool = True


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What is removed, from which files, and what is left to do by hand."""

    vanishing: tuple[ForgottenRecord, ...]
    left: tuple[Leftover, ...]
    changes: tuple[_FileChange, ...]

    @property
    def whole_files(self) -> tuple[Path, ...]:
        """The files that are deleted."""
        return tuple(change.path for change in self.changes if change.goes and not _normalised(change.after))


def plan_forget(root: Path, wanted: ForgetRequest) -> ForgetPlan:
    """Plan what to forget without changing anything. Raises NotFound when nothing matches."""
    ways = [bool(wanted.ids), bool(wanted.session), bool(wanted.before), bool(wanted.matching.strip())]
    if sum(ways) != 1:
        what = "more than one way to choose was given" if any(ways) else "nothing to forget was named"
        raise UsageError(what, hint="give ids, or one of --session ID, --before WHEN, --matching TEXT")
    if wanted.session:
        wanted = replace(wanted, session=sessions.find(root, wanted.session).id)
    made = index.ask(root, lambda connection: _make_plan(root, wanted, connection))
    if not made.changes and not made.left:
        raise NotFound("not found: nothing here matches", hint="`ralph search` and `ralph session list` show the ids")
    return made


def forget(root: Path, made: ForgetPlan, progress: Progress | None = None) -> None:
    """Carry a plan out on the files as they are now.

    The index is deleted first: a process that is killed half-way leaves none with forgotten text in it.
    """
    before = set(index.ask(root, queries.digests).values())
    _delete_index(root)
    for change in made.changes:
        after = files.update(change.path, change.edit, root=_top_folder(change.path, root))
        if change.goes and not _normalised(after):
            with files.lock(change.path):
                if not _normalised(files.read(change.path) or ""):
                    files.delete(change.path)
    _rebuild_index(root, progress)
    _drop_vectors(root, before - set(index.ask(root, queries.digests).values()))


def _make_plan(root: Path, wanted: ForgetRequest, connection: sqlite3.Connection) -> ForgetPlan:
    logs = ForgetLogs(root, wanted, connection)
    vanishing, left, changes = _curated_entries(root, logs.wanted)
    missing = set(wanted.ids) - logs.found - {each.id for each in vanishing} - {each.id for each in left}
    if missing:
        names = ", ".join(name for name in wanted.ids if name in missing)
        raise NotFound(f"not found: {names}", hint='`ralph search "words"` shows the ids')
    for path in logs.paths():
        done = logs.cut(path, files.read(path) or "")
        if done.changed:
            vanishing += logs.describe(path, done)
            changes.append(_FileChange(path, logs.edit(path), done.text))
    if wanted.session:
        changes += [_FileChange(path, lambda _: "", "") for path in _files_that_mention(root, wanted.session)]
    if wanted.ids or wanted.matching:
        left += _leftovers(root, wanted, vanishing, {change.path: change.after for change in changes})
    return ForgetPlan(tuple(vanishing), tuple(left), tuple(changes))


def _curated_entries(
    root: Path, wanted: ForgetRequest
) -> tuple[list[ForgottenRecord], list[Leftover], list[_FileChange]]:
    vanishing: list[ForgottenRecord] = []
    left: list[Leftover] = []
    changes: list[_FileChange] = []
    needle = wanted.matching.casefold()
    for source in sources(root) if wanted.ids or needle else ():
        if source.format in (Format.LOG, Format.TASK):
            continue
        text = files.read(source.path) or ""
        chosen = [each for each in _parse_source(source, text).entries if _matches(each.record, wanted.ids, needle)]
        if not chosen:
            continue
        names = tuple(dict.fromkeys(each.record.id for each in chosen))
        try:
            files.target(source.path, _top_folder(source.path, root))
            after, refused = _remove_entries(source, text, names)
        except Refused as error:
            after, refused = text, dict.fromkeys(names, error.message)
        for each in chosen:
            record = each.record
            name = _matching_name(record, wanted.ids)
            if record.id in refused:
                left.append(Leftover(source.path, each.line, f"{refused[record.id]}; {_BY_HAND}", name))
            else:
                what = f"{source.format.value} {record.kind.value}"
                vanishing.append(ForgottenRecord(source.path, each.line, name, what, record_preview(record)))
        if after != text:
            changes.append(_FileChange(source.path, _removal(source, names), after, source.format is Format.KNOWLEDGE))
    return vanishing, left, changes


def _matches(record: Record, names: Sequence[str], needle: str) -> bool:
    if needle:
        return any(needle in text.casefold() for text in record_texts(record))
    return record.id in names or _matching_name(record, names) in names


def _matching_name(record: Record, names: Sequence[str]) -> str:
    """Return the id that selects a record: a block of progress.txt belongs to its journal entry."""
    entry = str(record.extra.get(JOURNAL_KEY, "")) if record.family is Family.JOURNAL else ""
    return entry if entry and entry in names else record.id


def _removal(source: Source, names: Sequence[str]) -> Callable[[str], str]:
    return lambda text: _remove_entries(source, text, names)[0]


def _remove_entries(source: Source, text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a file without these entries, and why some could not be removed."""
    document = _parse_source(source, text)
    refused: dict[str, str] = {}
    for name in names:
        try:
            document = document.remove(name)
        except NotFound:  # it went with another one, or somebody was faster
            continue
        except RalphError as error:
            refused[name] = error.message
    return document.text, refused


def _parse_source(source: Source, text: str) -> Document:
    if source.format is Format.KNOWLEDGE:
        return parse_knowledge(text, source.path.stem)
    if source.format is Format.GUARDRAILS:
        return parse_memories(text, GUARDRAILS)
    parsers: dict[Format, Callable[[str], Document]] = {
        Format.MEMORIES: parse_memories,
        Format.PATTERNS: parse_patterns,
        Format.PROGRESS: parse_progress,
        Format.INSIGHTS: parse_insights,
    }
    return parsers[source.format](text)


def _leftovers(
    root: Path, wanted: ForgetRequest, vanishing: Sequence[ForgottenRecord], changed: Mapping[Path, str]
) -> Iterator[Leftover]:
    """Find forgotten text in backups and, for `--matching`, in whatever Ralph does not change."""
    words = escaped_forms(wanted.matching)
    if not words:
        lines = {line for each in vanishing for line in each.text.casefold().splitlines() if len(line) >= _MIN_NEEDLE}
        words = {each.id.casefold() for each in vanishing if each.id} | lines
    for path in _searched_files(root):
        is_backup = ".bak" in path.name
        if path.suffix == ".jsonl" or not (wanted.matching or is_backup):
            continue
        text = changed[path] if path in changed else _read_text(path)
        for number, line in enumerate(text.casefold().split("\n"), 1):
            if any(each in line for each in words):
                yield Leftover(path, number, _BACKUP if is_backup else _BY_HAND)
                if is_backup:
                    break


def _searched_files(root: Path) -> Iterator[Path]:
    folders = {
        paths.ralph_folder(root),
        paths.ralph_folder(paths.main_checkout(root)),
        paths.state_folder(root),
        paths.memories_files(root)[0].parent,
    }
    beside = [*root.glob("guardrails.md*"), *paths.progress_files(root)]
    found = {path for folder in folders for path in folder.rglob("*")} | set(beside)
    for path in sorted(found):
        if path.is_file() and not path.name.startswith(("ralph.db", "graph.db", "vectors.")):
            yield path


def _read_text(path: Path) -> str:
    try:
        return files.read(path) or ""
    except RalphError:
        return ""


def _files_that_mention(root: Path, name: str) -> list[Path]:
    """Return the list of what was injected into a session; compared by name, because a host chose it."""
    folder = paths.cache_folder(root) / "injected"
    return [path for path in folder.glob("*") if path.name == name and path.is_file()]


def _delete_index(root: Path) -> None:
    """Delete the index of every checkout; what is deleted from a database would stay in its free pages."""
    index.of(root)  # Refused, where it is somebody else's
    indexes.discard_all(root, PATIENCE)


def _rebuild_index(root: Path, progress: Progress | None) -> None:
    try:
        _delete_index(root)
        index.sync(root, progress)
    except db.Busy as error:
        hint = "the files are clean; run `ralph index rebuild` when the other process has ended"
        what = f"{paths.index_file(root)}: another process keeps writing, so it may hold what was forgotten"
        raise db.Busy(what, hint=hint) from error


def _drop_vectors(root: Path, digests: set[str]) -> None:
    folder = paths.cache_folder(root)
    database = folder / "vectors.db"
    if not digests or not database.exists():
        return
    with VectorCache(database) as cache:
        cache.forget(digests)
    db.compact(database)
    for piece in folder.glob("vectors.*"):
        if not piece.name.startswith(database.name):  # the same vectors in one piece; made again with the next ones
            files.delete(piece)


def _normalised(text: str) -> str:
    return text.strip("\ufeff \t\r\n")


def _top_folder(path: Path, root: Path) -> Path:
    tops = (paths.state_folder(root), root, paths.main_checkout(root))
    top = next((top for top in tops if path.is_relative_to(top)), root)
    return paths.state_boundary(root) if top == tops[0] else top
