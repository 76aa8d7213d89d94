"""Remove records from every file, log, index and vector, down to the bytes (`ralph forget`).

Forgetting has two steps. `plan_forget` finds everything that has to go and changes nothing.
`forget` then edits each file under its lock and rebuilds the index, because a database keeps the
bytes of deleted rows. Whatever Ralph must not change is reported as a leftover. A quote is the
beginning of a forgotten text, used to find other texts that repeat it. A needle is a string to
search for in lines that cannot be parsed.
"""

from __future__ import annotations

import json
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import Hint, NotFound, RalphError, Refused, UsageError
from ralph.core.record import Family, Record
from ralph.core.text import Entry
from ralph.formats.log import LogDocument, encode_line, parse_log
from ralph.formats.progress import JOURNAL_KEY
from ralph.memory import quarantine
from ralph.recall import sessions
from ralph.search import index
from ralph.storage import db, files, forgotten, queries, team_db
from ralph.storage.forgotten import ForgottenTexts
from ralph.storage.index import PATIENCE, Progress, discard
from ralph.storage.sources import (
    EVENT,
    Format,
    Interpret,
    Source,
    format_of,
    parse_source,
    source_names,
    sources,
)
from ralph.storage.vectors import VectorCache

_WHITESPACE = "\ufeff \t\r\n"

# Members that never hold user content. A search for words skips their values.
_PLAIN_LINE_MEMBERS = frozenset(
    (
        "v",
        "type",
        "id",
        "kind",
        "status",
        "scope",
        "at",
        "created_at",
        "updated_at",
        "event",
        "host",
        "mode",
        "session",
        "record",
        "layer",
    )
)
_PLAIN_NESTED_MEMBERS: Mapping[str, frozenset[str]] = {
    "payload": frozenset(
        (
            "hook_event_name",
            "permission_mode",
            "session_id",
            "prompt_id",
            "turn_id",
            "tool_use_id",
        )
    ),
    "origin": frozenset(("by", "session", "agent")),
}
_NO_MEMBERS = frozenset[str]()
_MEMBER_NAME = re.compile(r"[^\W\d]{1,24}")  # any other key may be user content

_DERIVED_MEMBERS = ("summary", "tags", "messages")
"""Members of a session's line that may quote what is being forgotten."""
_DESCRIBING_TYPES = ("session", "run")
"""Types of lines that only describe others. A log with nothing else left is deleted."""
_LOGS_WITH_IDS = ("injections.jsonl", "held.jsonl")  # logs whose ids are not in the index

_MAX_PREVIEW_CHARACTERS = 2000
_MIN_NEEDLE_CHARACTERS = 12  # a shorter string may occur in a log or a backup by chance
_MAX_QUOTE_CHARACTERS = 200  # enough to recognise a quoted text
_BACKUP_SUFFIX = re.compile(r"\.bak\d*$")
_DATABASE_NAMES = ("ralph.db", "graph.db", "team.db", "vectors.")
_EDIT_ADVICE = "edit it by hand"
_BACKUP_ADVICE = "a backup; delete it when it is no longer needed"


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: exactly one of `ids`, `session`, `before` and `matching`.

    `hidden` holds what was forgotten earlier. `quotes` holds the beginnings of the texts that
    `ids` refer to.
    """

    ids: tuple[str, ...] = ()
    session: str = ""
    before: str = ""
    matching: str = ""
    hidden: ForgottenTexts | None = None
    quotes: tuple[str, ...] = ()

    def is_quoted(self, texts: Iterable[str]) -> bool:
        """Return whether any text contains the words to forget, or quotes a forgotten text.

        Quotes are compared word by word, ignoring case and punctuation.
        """
        needle = self.matching.casefold()
        if needle:
            return any(needle in text.casefold() for text in texts)
        for text in texts:
            words = _normalise_words(text)
            if any(_has_quote(words, quote) for quote in self.quotes):
                return True
        return False


def _normalise_words(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


def _has_quote(words: str, quote: str) -> bool:
    if quote not in words:
        return False
    if len(quote) == _MAX_QUOTE_CHARACTERS:  # it was cut, perhaps in the middle of a word
        return True
    return re.search(rf"(?<![a-z\d]){quote}(?![a-z\d])", words) is not None


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """A record or line to remove.

    Salted hashes of the strings in `hashed` are kept, so that the record does not return.
    """

    path: Path
    line: int
    id: str
    what: str
    text: str = ""
    hashed: tuple[str, ...] = ()


class Leftover(NamedTuple):
    """Something that Ralph does not remove automatically, and what to do about it."""

    path: Path
    line: int
    why: str
    id: str = ""


class _FileChange(NamedTuple):
    path: Path
    edit: Callable[[str], tuple[str, object]] = lambda _: ("", None)
    after: str = ""  # the result of applying the edit to the present text
    deletes: bool = True  # whether to delete the file when the edit leaves it empty


class ForgetPlan(NamedTuple):
    """What is removed, from which files, and what is left to do by hand."""

    vanishing: tuple[ForgottenRecord, ...]
    left: tuple[Leftover, ...]
    changes: tuple[_FileChange, ...]

    @property
    def whole_files(self) -> tuple[Path, ...]:
        """The files that are deleted."""
        return tuple(
            change.path
            for change in self.changes
            if change.deletes and not change.after.strip(_WHITESPACE)
        )


# --- public functions ---------------------------------------------------------------------------


def plan_forget(root: Path, request: ForgetRequest) -> ForgetPlan:
    """Plan what to forget without changing anything.

    Raises UsageError unless the request selects in exactly one way, and NotFound if nothing
    matches.
    """
    _check_request(request)
    if request.session:
        request = replace(request, session=sessions.find(root, request.session).id)
    plan = index.ask(root, lambda connection: _make_plan(root, request, connection))
    if not any(plan):
        raise NotFound(
            "not found: nothing here matches",
            hint=Hint("find-record", "`ralph search` and `ralph session list` show the ids"),
        )
    return plan


def _check_request(request: ForgetRequest) -> None:
    ways = (request.ids, request.session, request.before, request.matching.strip())
    given = [way for way in ways if way]
    hint = "give ids, or one of --session ID, --before WHEN, --matching TEXT"
    if not given:
        raise UsageError("nothing to forget was named", hint=hint)
    if len(given) > 1:
        raise UsageError("more than one way to choose was given", hint=hint)


def forget(root: Path, plan: ForgetPlan, progress: Progress | None = None) -> None:
    """Carry out a plan.

    Hashes are stored first, so that a process killed midway cannot leave an index that contains the
    text. Raises Busy if another process keeps writing to the index.
    """
    digests_before = set(index.ask(root, queries.digests).values())
    team_database = paths.team_database(root)
    own_ids = [record.id for record in plan.vanishing if record.path != team_database]
    team_db.note_forgotten(root, own_ids)
    for_hashing: list[str] = []
    for record in plan.vanishing:
        for_hashing += record.hashed
    forgotten.remember(for_hashing)
    if any(record.path == team_database for record in plan.vanishing):
        # The next pull recreates the database without what was forgotten.
        discard(team_database, PATIENCE)
        files.delete(paths.team_pulled(root))
    index.discard_all(root)
    for change in plan.changes:
        _apply(root, change)
    _rebuild_index(root, progress)
    digests_after = set(index.ask(root, queries.digests).values())
    _forget_vectors(root, digests_before - digests_after)


def _apply(root: Path, change: _FileChange) -> None:
    files.update(change.path, change.edit, root=paths.write_boundary(change.path, root))
    with files.lock(change.path):
        text = files.read(change.path) or ""
        if change.deletes and not text.strip(_WHITESPACE):
            files.delete(change.path)


def _rebuild_index(root: Path, progress: Progress | None) -> None:
    try:
        index.discard_all(root)
        index.sync(root, progress)
    except db.Busy as error:
        raise db.Busy(
            f"{paths.index_file(root)}: another process keeps writing, "
            "so it may hold what was forgotten",
            hint="the files are clean; run `ralph index rebuild` when the other process has ended",
        ) from error


def _forget_vectors(root: Path, digests: set[str]) -> None:
    vectors = paths.vectors_file(root)
    if not digests or not vectors.exists():
        return
    with VectorCache(vectors) as cache:
        cache.forget(digests)
    db.compact(vectors)


def without_forgotten(root: Path, path: Path, text: str) -> tuple[str, int]:
    """Remove what was forgotten from the text of a file or its backup.

    Returns the remaining text and the number of entries removed. Raises Refused if a forgotten
    entry cannot be removed.
    """
    hidden = forgotten.load()
    if not hidden.hashes:
        return text, 0
    original = path.with_name(_BACKUP_SUFFIX.sub("", path.name))
    form = format_of(root, original)
    if form is None or form is Format.TASK:
        return text, 0
    if form is Format.LOG:
        log_filter = _LogFilter(path, ForgetRequest(hidden=hidden), set(), index.interpreter(root))
        after, removed = log_filter.cut(text)
        return after, len(removed)
    source = Source(original, original.name, form)
    entries = parse_source(source, text).entries
    names = {entry.record.id for entry in entries if hidden.hides(entry.record)}
    if not names:
        return text, 0
    after, refused = _remove_entries(source, names, text)
    if refused:
        reason = next(iter(refused.values()))
        raise Refused(f"{path}: has a forgotten entry: {reason}", hint="nothing was written")
    return after, len(names)


# --- planning -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A plan that is still being made."""

    vanishing: list[ForgottenRecord] = field(default_factory=list)
    left: list[Leftover] = field(default_factory=list)
    changes: list[_FileChange] = field(default_factory=list)


def _make_plan(root: Path, request: ForgetRequest, connection: sqlite3.Connection) -> ForgetPlan:
    names = set(request.ids)
    keys: list[int] = []
    if names:
        names |= _earlier_versions(connection, names)
        for name in names:
            keys += queries.keys_of(connection, name)
    draft = _plan_entries(root, names, request.matching.casefold())
    if names:
        held = {memory.id: memory.text for memory in quarantine.held(root)}
        _check_ids(request.ids, connection, draft, held)
        held_texts = [held[name] for name in names if name in held]
        request = replace(request, quotes=_find_quotes(connection, keys, held_texts))
    _plan_logs(root, request, names, _sources_of(connection, keys), draft)
    draft.changes += _injected_files(root, request.session)
    draft.changes += _subagent_files(root)
    if names or request.matching:
        draft.changes += _quoting_outputs(root, request, names)
        draft.vanishing += _pulled_records(root, request, names)
        texts_after = {change.path: change.after for change in draft.changes}
        if names:  # these files are already listed as leftovers
            texts_after |= dict.fromkeys((leftover.path for leftover in draft.left), "")
        draft.left += list(_leftovers(root, request, draft.vanishing, texts_after))
    return ForgetPlan(tuple(draft.vanishing), tuple(draft.left), tuple(draft.changes))


def _earlier_versions(connection: sqlite3.Connection, names: set[str]) -> set[str]:
    """Return the ids of the versions that these records superseded.

    They are forgotten along with the records.
    """
    found = set[str]()
    retired = queries.records(connection, queries.retired_keys(connection))
    for record in retired.values():
        for link in record.links:
            if link.relation == "superseded_by" and link.target in names:
                found.add(record.id)
    return found


def _check_ids(
    names: Sequence[str], connection: sqlite3.Connection, draft: _Draft, held: Mapping[str, str]
) -> None:
    found = {record.id for record in draft.vanishing}
    found.update(leftover.id for leftover in draft.left)
    found.update(held)
    missing = [
        name for name in names if name not in found and not queries.keys_of(connection, name)
    ]
    if missing:
        raise NotFound(
            f"not found: {', '.join(missing)}",
            hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        )


def _find_quotes(
    connection: sqlite3.Connection, keys: Sequence[int], held_texts: Sequence[str]
) -> tuple[str, ...]:
    """Return the beginnings of records and held memories, to find where they are quoted."""
    texts = list(held_texts)
    for record in queries.records(connection, keys).values():
        if record.family is not Family.OBSERVATION:
            texts.append(record.text)
    quotes = (_normalise_words(text)[:_MAX_QUOTE_CHARACTERS] for text in texts)
    return tuple(quote for quote in quotes if len(quote) >= _MIN_NEEDLE_CHARACTERS)


def _sources_of(connection: sqlite3.Connection, keys: Sequence[int]) -> set[str]:
    return {name for name, _ in queries.locations(connection, keys).values()}


# --- entries of memory files --------------------------------------------------------------------


def _plan_entries(root: Path, names: set[str], needle: str) -> _Draft:
    """Plan the removal of entries by id, or by words in any of their texts."""
    draft = _Draft()
    if not names and not needle:
        return draft
    for source in sources(root):
        if source.format in (Format.LOG, Format.TASK):
            continue
        text = files.read(source.path) or ""
        chosen: dict[Entry, str] = {}
        for entry in parse_source(source, text).entries:
            name = _name_of(entry.record, names)
            if needle:
                is_chosen = _has_needle(entry.record, needle)
            else:
                is_chosen = name in names
            if is_chosen:
                chosen[entry] = name
        if chosen:
            _plan_source(root, source, text, chosen, draft)
    return draft


def _name_of(record: Record, names: set[str]) -> str:
    """Return the id by which a record was requested.

    A journal block may be requested by its own id or by that of its journal entry.
    """
    if record.family is Family.JOURNAL:
        journal_id = str(record.extra.get(JOURNAL_KEY, ""))
        if journal_id in names:
            return journal_id
    return record.id


def _has_needle(record: Record, needle: str) -> bool:
    extra = json.dumps({"extra": dict(record.extra)}, default=str)
    values = (
        record.title,
        record.text,
        *record.tags,
        *record.origin.files,
        *_text_values(extra),
    )
    return any(needle in value.casefold() for value in values)


def _plan_source(
    root: Path, source: Source, text: str, chosen: Mapping[Entry, str], draft: _Draft
) -> None:
    """Add the removal of the chosen entries in one file to the draft."""
    edit = partial(_remove_entries, source, {entry.record.id for entry in chosen})
    try:
        files.target(source.path, paths.write_boundary(source.path, root))
        after, refused = edit(text)
    except Refused as error:
        after = text
        refused = {entry.record.id: error.message for entry in chosen}
    for entry, name in chosen.items():
        record = entry.record
        if record.id in refused:
            why = f"{refused[record.id]}; {_EDIT_ADVICE}"
            draft.left.append(Leftover(source.path, entry.line, why, name))
            continue
        what = f"{source.format.value} {record.kind.value}"
        draft.vanishing.append(
            ForgottenRecord(source.path, entry.line, name, what, _preview(record), (record.text,))
        )
    if after != text:
        is_one_entry = source.format is Format.KNOWLEDGE
        draft.changes.append(_FileChange(source.path, edit, after, deletes=is_one_entry))


def _remove_entries(source: Source, names: Iterable[str], text: str) -> tuple[str, dict[str, str]]:
    """Remove entries from a file's text.

    Returns the remaining text, and the reason for each entry that must stay.
    """
    document = parse_source(source, text)
    refused: dict[str, str] = {}
    for name in names:
        try:
            document = document.remove(name)
        except NotFound:  # removed together with another entry, or by somebody else
            continue
        except RalphError as error:
            refused[name] = error.message
    return document.text, refused


def _preview(record: Record) -> str:
    text = record.text
    if record.title:
        text = f"{record.title}: {text}"
    return text[:_MAX_PREVIEW_CHARACTERS]


# --- logs ---------------------------------------------------------------------------------------


def _plan_logs(
    root: Path, request: ForgetRequest, names: set[str], indexed: set[str], draft: _Draft
) -> None:
    """Add what has to go from the logs to the draft.

    Ids are searched for only in the logs that have them according to the index, and in
    `_LOGS_WITH_IDS`.
    """
    name_of = source_names(root)
    interpret = index.interpreter(root)
    for path in paths.log_files(paths.log_folder(root)):
        names_here = set[str]()
        if names and (path.name in _LOGS_WITH_IDS or name_of(path) in indexed):
            names_here = names
        log_filter = _LogFilter(path, request, names_here, interpret)
        after, removed = log_filter.cut(files.read(path) or "")
        if removed:
            draft.vanishing += removed
            draft.changes.append(_FileChange(path, log_filter.cut, after))


class _LogObject(NamedTuple):
    """A JSON object in a log, and its position."""

    start: int
    end: int
    line: int
    value: Mapping[str, object]


class _Splice(NamedTuple):
    """A part of a string, and its replacement."""

    start: int
    end: int
    new: str = ""


class _SessionLine(NamedTuple):
    """A session's line that stays, without the members that may quote something."""

    splice: _Splice
    line: int
    summary: str
    matches: bool  # whether a removed member quotes what is forgotten


@dataclass(slots=True)
class _LogScan:
    """What a filter found in a log."""

    removed: list[ForgottenRecord] = field(default_factory=list)
    splices: list[_Splice] = field(default_factory=list)
    session_lines: list[_SessionLine] = field(default_factory=list)
    only_describing: bool = True  # whether all remaining objects only describe others


@dataclass(frozen=True, slots=True)
class _LogFilter:
    """Removes what a request selects from one log.

    `names` are the ids that the log may contain.
    """

    path: Path
    request: ForgetRequest
    names: set[str]
    interpret: Interpret

    @property
    def _is_of_session(self) -> bool:
        """Whether this is the log of the session to forget."""
        return bool(self.request.session) and self.path.stem == self.request.session

    def cut(self, text: str) -> tuple[str, list[ForgottenRecord]]:
        """Return the log's text without what is forgotten, and a list of what was removed."""
        document = parse_log(text)
        scan = self._scan(document)
        removed = scan.removed
        splices = scan.splices
        is_by_session_or_time = bool(self.request.session or self.request.before)
        if is_by_session_or_time and splices and scan.only_describing:
            return "", removed
        torn = list(self._torn_lines(document, is_cut=bool(splices)))
        anything_goes = bool(splices or torn)
        for session_line in scan.session_lines:  # its summary may quote what is removed
            if anything_goes or session_line.matches:
                what = "summary and tags of its session"
                hashed = (session_line.summary,)
                removed.append(
                    ForgottenRecord(self.path, session_line.line, "", what, hashed=hashed)
                )
                splices.append(session_line.splice)
        for splice in torn:
            line = text.count("\n", 0, splice.start) + 1
            removed.append(ForgottenRecord(self.path, line, "", "half a line"))
            splices.append(splice)
        return _splice_lines(text, splices), removed

    def _scan(self, document: LogDocument) -> _LogScan:
        scan = _LogScan()
        for found in _objects_of(document):
            value = found.value
            piece = document.text[found.start : found.end]
            shorter = _without_derived(value)
            matches = self._is_of_session or self._matches(value, piece)
            if matches and self._goes_whole(value, shorter):
                scan.removed += self._describe(found)
                scan.splices.append(_Splice(found.start, found.end))
                continue
            if value.get("type") not in _DESCRIBING_TYPES:
                scan.only_describing = False
            if shorter:
                splice = _Splice(found.start, found.end, shorter)
                summary = str(value.get("summary") or "")
                scan.session_lines.append(_SessionLine(splice, found.line, summary, matches))
        if self._is_of_session and scan.removed:
            # The session's own key prevents an import of its transcript from restoring it.
            first = scan.removed[0]
            key = forgotten.session_key(self.request.session)
            scan.removed[0] = replace(first, hashed=(*first.hashed, key))
        return scan

    def _goes_whole(self, value: Mapping[str, object], shorter: str) -> bool:
        """Return whether to remove a matching object entirely, not just its derived members."""
        return not shorter or self._is_of_session or self._matches(value, shorter)

    def _describe(self, found: _LogObject) -> Iterator[ForgottenRecord]:
        is_memory = found.value.get("type") in (Family.MEMORY, "held")
        with_texts = bool(self.request.matching) or is_memory
        return _describe_object(
            self.path, found.line, found.value, self.interpret, with_texts=with_texts
        )

    def _matches(self, value: Mapping[str, object], piece: str) -> bool:
        """Return whether to forget an object, whose JSON text in the log is `piece`."""
        request = self.request
        if request.hidden is not None:
            return self._was_forgotten(json.loads(piece), request.hidden)
        if request.quotes and request.is_quoted(_text_values(piece)):
            return True
        if self.names:
            return self._has_wanted_id(value)
        if request.session:
            return _session_of(value) == request.session
        if request.before:
            return value.get("type") != Family.MEMORY and "" < _time_of(value) < request.before
        return bool(request.matching) and request.is_quoted(_text_values(piece))

    def _was_forgotten(self, value: Mapping[str, object], hidden: ForgottenTexts) -> bool:
        if value.get("type") == Family.MEMORY:  # a later memory may have the same id
            return hidden.has(value.get("text"))
        if hidden.has(forgotten.session_key(str(_session_of(value)))):
            return True
        for described in _describe_object(Path(), 0, value, self.interpret, with_texts=True):
            if any(map(hidden.has, described.hashed)):
                return True
        return False

    def _has_wanted_id(self, value: Mapping[str, object]) -> bool:
        line_type = str(value.get("type"))
        if line_type == EVENT:
            return any(record.id in self.names for record in self.interpret(value)[0])
        if line_type in (*Family, "held"):
            return str(value.get("id", "")) in self.names
        if line_type in ("injection", "used"):
            return str(value.get("record", "")) in self.names
        return False

    def _torn_lines(self, document: LogDocument, *, is_cut: bool) -> Iterator[_Splice]:
        """Yield the torn lines to remove.

        They cannot be parsed, so they are searched as plain text.
        """
        goes_anyway = self._is_of_session or (self.request.hidden is not None and is_cut)
        needles = _escaped_forms(self.request.matching)
        for name in self.names:
            quoted_name = json.dumps(name, ensure_ascii=False)
            needles.add(f'"id":{quoted_name}'.casefold())
            needles.add(f'"id": {quoted_name}'.casefold())
        for start, end in document.torn:
            torn = document.text[start:end].casefold()
            if goes_anyway or any(needle in torn for needle in needles):
                yield _Splice(start, end)


def _objects_of(document: LogDocument) -> list[_LogObject]:
    """Return all objects in a log in order, both records and other lines."""
    objects = []
    for line in document.lines:
        objects.append(_LogObject(line.start, line.end, line.line, line.value))
    for entry in document.entries:
        value = json.loads(document.text[entry.start : entry.end])
        objects.append(_LogObject(entry.start, entry.end, entry.line, value))
    return sorted(objects, key=lambda found: found.start)


def _without_derived(value: Mapping[str, object]) -> str:
    """Return a session's line without the members that may quote something.

    Returns "" if the object has no such members or is not a session.
    """
    if value.get("type") != "session" or value.keys().isdisjoint(_DERIVED_MEMBERS):
        return ""
    left_out = (*_DERIVED_MEMBERS, "v", "type")  # `encode_line` adds the last two
    members = {name: member for name, member in value.items() if name not in left_out}
    return encode_line("session", members).removesuffix("\n")


def _session_of(value: Mapping[str, object]) -> object:
    if value.get("type") == "session":
        return value.get("id")
    if "session" in value:
        return value["session"]
    for name, member in (("origin", "session"), ("payload", "session_id")):
        inner = value.get(name)
        if isinstance(inner, Mapping):
            return inner.get(member)
    return None


def _time_of(value: Mapping[str, object]) -> str:
    for name in ("at", "created_at"):
        time = value.get(name)
        if time and isinstance(time, str):
            return time
    return ""


def _describe_object(
    path: Path, line: int, value: Mapping[str, object], interpret: Interpret, *, with_texts: bool
) -> Iterator[ForgottenRecord]:
    """Yield the records in a raw event, or the object itself if it has none.

    With `with_texts`, their texts are hashed as well.
    """
    records: Sequence[Record] = ()
    if value.get("type") == EVENT:
        records = interpret(value)[0]
    if not records:
        yield _describe_line(path, line, value, with_texts=with_texts)
        return
    for record in records:
        hashed = [forgotten.event_key(record.id)]
        hashed += _transcript_keys(record.origin.session, record.text, value.get("payload"))
        if with_texts:
            hashed.append(record.text)
        what = f"raw {record.kind.value}"
        yield ForgottenRecord(path, line, record.id, what, _preview(record), tuple(hashed))


def _describe_line(
    path: Path, line: int, value: Mapping[str, object], *, with_texts: bool
) -> ForgottenRecord:
    name = str(value.get("id") or "")
    text = str(value.get("text") or "")
    summary = str(value.get("summary") or "")
    shown = text or summary or str(value.get("record") or "")
    what = f"{value.get('type') or ''} {value.get('kind') or ''}".strip()
    hashed = [*_transcript_keys(str(_session_of(value) or ""), text, None), summary]
    if name:
        hashed.append(forgotten.event_key(name))
    if with_texts:
        hashed.append(text)
    return ForgottenRecord(path, line, name, what, shown[:_MAX_PREVIEW_CHARACTERS], tuple(hashed))


def _transcript_keys(session: str, text: str, payload: object) -> list[str]:
    """Return the keys that identify an event in its client's transcript.

    Its time in the transcript differs, and so does its id.
    """
    keys: list[str] = []
    if not session:
        return keys
    if text:
        keys.append(forgotten.session_key(session, text))
    if isinstance(payload, Mapping):
        call = payload.get("tool_use_id")
        if call:
            keys.append(forgotten.session_key(session, call=str(call)))
    return keys


# --- texts --------------------------------------------------------------------------------------


def _text_values(piece: str) -> Iterator[str]:
    """Yield the strings in a piece of JSON that may be user content, including keys."""
    line: object = json.loads(piece, object_pairs_hook=tuple)  # objects become tuples of pairs
    pending: list[tuple[object, frozenset[str]]] = [(line, _PLAIN_LINE_MEMBERS)]
    while pending:
        value, skipped = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += ((item, _NO_MEMBERS) for item in value)
        elif isinstance(value, tuple):
            for key, member in value:
                if not _MEMBER_NAME.fullmatch(key):
                    yield key
                if key in skipped and isinstance(member, str):
                    continue
                if value is line:
                    pending.append((member, _PLAIN_NESTED_MEMBERS.get(key, _NO_MEMBERS)))
                else:
                    pending.append((member, _NO_MEMBERS))


def _splice_lines(text: str, splices: Iterable[_Splice]) -> str:
    """Replace parts of lines. A line that becomes blank is removed."""
    lines = re.split(r"(?<=\n)", text)
    starts = [0, *accumulate(map(len, lines))]
    for splice in sorted(splices, reverse=True):
        number = bisect_right(starts, splice.start) - 1
        line_start = starts[number]
        before = lines[number][: splice.start - line_start]
        after = lines[number][splice.end - line_start :]
        line = before + splice.new + after
        if not line.strip(_WHITESPACE):
            line = ""
        lines[number] = line
    return "".join(lines)


def _escaped_forms(text: str) -> set[str]:
    """Return a string as it is and with both kinds of JSON escaping, in lower case.

    Returns an empty set for an empty string.
    """
    if not text:
        return set()
    forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return {form.casefold() for form in forms}


# --- other files --------------------------------------------------------------------------------


def _injected_files(root: Path, session: str) -> Iterator[_FileChange]:
    if not session:
        return
    for path in paths.injected_folder(root).glob("*"):
        # Compare the id instead of building a path from it, because a client chose it.
        if path.name == session and path.is_file():
            yield _FileChange(path)


def _subagent_files(root: Path) -> Iterator[_FileChange]:
    """Yield the task files of all subagents, because they may quote anything."""
    for path in paths.subagents_folder(root).glob("*"):
        if path.is_file():
            yield _FileChange(path)


def _quoting_outputs(root: Path, request: ForgetRequest, names: set[str]) -> Iterator[_FileChange]:
    """Yield the run outputs that quote what is forgotten, or name its id."""
    logs = set(paths.log_files(paths.log_folder(root)))
    wanted = replace(request, quotes=(*request.quotes, *map(_normalise_words, names)))
    for path in sorted(paths.runs_folder(root).rglob("*.*")):
        if path in logs or not path.is_file():
            continue
        if wanted.is_quoted([path.read_text("utf-8", "replace")]):
            yield _FileChange(path)


def _pulled_records(
    root: Path, request: ForgetRequest, names: set[str]
) -> Iterator[ForgottenRecord]:
    """Yield the records pulled from the team that are to be forgotten."""
    database = paths.team_database(root)
    with suppress(NotFound), team_db.read_team(database) as shared:
        for name, title, text in team_db.texts(shared):
            if name in names or request.is_quoted((title, text)):
                preview = text[:_MAX_PREVIEW_CHARACTERS]
                yield ForgottenRecord(database, 0, name, "pulled", preview, (text,))


def _leftovers(
    root: Path,
    request: ForgetRequest,
    vanishing: Sequence[ForgottenRecord],
    texts_after: Mapping[Path, str],
) -> Iterator[Leftover]:
    """Yield the lines in other files that contain what is forgotten.

    Only the first such line of a backup is reported.
    """
    needles = _leftover_needles(request, vanishing)
    for path in _files_to_search(root):
        try:
            text = texts_after.get(path)
            if text is None:
                text = files.read(path) or ""
        except RalphError:
            continue
        is_backup = ".bak" in path.name
        for number, line in enumerate(text.casefold().split("\n"), 1):
            if request.matching or is_backup:
                is_left = any(needle in line for needle in needles)
            else:
                is_left = request.is_quoted([line])
            if not is_left:
                continue
            if is_backup:
                yield Leftover(path, number, _BACKUP_ADVICE)
                break
            yield Leftover(path, number, _EDIT_ADVICE)


def _leftover_needles(request: ForgetRequest, vanishing: Iterable[ForgottenRecord]) -> set[str]:
    if request.matching:
        return _escaped_forms(request.matching)
    needles = set[str]()
    for record in vanishing:
        if record.id:
            needles.add(record.id.casefold())
        for line in record.text.casefold().splitlines():
            if len(line) >= _MIN_NEEDLE_CHARACTERS:
                needles.add(line)
    return needles


def _files_to_search(root: Path) -> Iterator[Path]:
    """Yield Ralph's files that are neither logs nor databases."""
    folders = {
        paths.ralph_folder(root),
        paths.ralph_folder(paths.main_checkout(root)),
        paths.state_folder(root),
        paths.memories_files(root)[0].parent,
    }
    found = {*root.glob("guardrails.md*"), *paths.progress_files(root)}
    for folder in folders:
        found.update(folder.rglob("*"))
    for path in sorted(found):
        is_log = path.name.endswith(paths.LOG_SUFFIXES)
        is_database = path.name.startswith(_DATABASE_NAMES)
        if not is_log and not is_database and path.is_file():
            yield path
