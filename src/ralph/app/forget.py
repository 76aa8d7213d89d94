"""`ralph forget`: remove records from every file, log, index and vector, down to the bytes.

A plan comes first; its edits then run on the files under their locks. The index is made anew, because a database keeps
the bytes of deleted rows. What Ralph must not change is reported.
"""

from __future__ import annotations

import json
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import index, quarantine, sessions, team
from ralph.errors import NotFound, RalphError, Refused, UsageError
from ralph.formats.log import encode_line, parse_log
from ralph.formats.progress import JOURNAL_KEY
from ralph.model.record import Family, Record
from ralph.store import db, files, forgotten, queries, team_db
from ralph.store.forgotten import ForgottenTexts
from ralph.store.index import PATIENCE, Progress, discard
from ralph.store.sources import (
    EVENT,
    Format,
    Interpret,
    Source,
    format_of,
    parse_source,
    source_names,
    sources,
)
from ralph.store.vectors import VectorCache

_BLANK = "\ufeff \t\r\n"
_NO_CONTENT: Mapping[
    str, frozenset[str]
] = {  # members without user content, of a line and of two of its parts
    "": frozenset(
        {
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
        }
    ),
    "payload": frozenset(
        {
            "hook_event_name",
            "permission_mode",
            "session_id",
            "prompt_id",
            "turn_id",
            "tool_use_id",
        }
    ),
    "origin": frozenset(
        {
            "by",
            "session",
            "agent",
        }
    ),
}
_MEMBER_NAME = re.compile(r"[^\W\d]{1,24}")  # another key may be content
_DERIVED = ("summary", "tags", "messages")  # of a session's line: they may quote what went
_PREVIEW = 2000
_MIN_NEEDLE = (
    12  # characters: a shorter text that is forgotten may be in a log or a backup by chance
)
_QUOTE = 200  # characters of a text by which it is recognised where it is quoted
_COPY = re.compile(r"\.bak\d*$")
_BY_HAND = "edit it by hand"
_BACKUP = "a backup; delete it when it is no longer needed"


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: exactly one of the first four; `hidden` is what was forgotten before, `quotes` the ids' texts."""

    ids: tuple[str, ...] = ()
    session: str = ""
    before: str = ""
    matching: str = ""
    hidden: ForgottenTexts | None = None
    quotes: tuple[str, ...] = ()

    def is_quoted(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts has the wanted words, or quotes in whole words what is forgotten by its id."""
        if needle := self.matching.casefold():
            return any(needle in text.casefold() for text in texts)
        pairs = (
            (quote, text) for text in map(_words, texts) for quote in self.quotes if quote in text
        )
        return any(
            len(quote) == _QUOTE or re.search(rf"(?<![a-z\d]){quote}(?![a-z\d])", text)
            for quote, text in pairs
        )


def _words(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """A record or line that is removed; salted hashes of `hashed` stay, so that it does not come back."""

    path: Path
    line: int
    id: str
    what: str
    text: str = ""
    hashed: tuple[str, ...] = ()


class Leftover(NamedTuple):
    """What Ralph does not remove by itself, and what to do about it."""

    path: Path
    line: int
    why: str
    id: str = ""


class _FileChange(NamedTuple):
    path: Path
    edit: Callable[[str], tuple[str, object]] = lambda _: ("", None)
    after: str = ""  # the text that the edit gives at present
    deletes: bool = True  # whether an empty file is deleted


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
            if change.deletes and not change.after.strip(_BLANK)
        )


def plan_forget(root: Path, request: ForgetRequest) -> ForgetPlan:
    """Plan what to forget without changing anything. Raises NotFound when nothing matches."""
    ways = [
        bool(request.ids),
        bool(request.session),
        bool(request.before),
        bool(request.matching.strip()),
    ]
    if sum(ways) != 1:
        what = (
            "more than one way to choose was given" if any(ways) else "nothing to forget was named"
        )
        raise UsageError(
            what, hint="give ids, or one of --session ID, --before WHEN, --matching TEXT"
        )
    if request.session:
        request = replace(request, session=sessions.find(root, request.session).id)
    plan = index.ask(root, lambda connection: _make_plan(root, request, connection))
    if not any(plan):
        raise NotFound(
            "not found: nothing here matches",
            hint="`ralph search` and `ralph session list` show the ids",
        )
    return plan


def forget(root: Path, plan: ForgetPlan, progress: Progress | None = None) -> None:
    """Carry a plan out; hashes come first, so that a kill leaves no index with the text."""
    before = set(index.ask(root, queries.digests).values())
    pulled = paths.team_database(root)
    team.note_forgotten(root, [record.id for record in plan.vanishing if record.path != pulled])
    forgotten.remember(text for record in plan.vanishing for text in record.hashed)
    if any(
        record.path == pulled for record in plan.vanishing
    ):  # the next pull makes it without what was forgotten
        discard(pulled, PATIENCE)
        files.delete(paths.team_pulled(root))
    index.discard_all(root)
    for change in plan.changes:
        files.update(change.path, change.edit, root=paths.write_boundary(change.path, root))
        with files.lock(change.path):
            if change.deletes and not (files.read(change.path) or "").strip(_BLANK):
                files.delete(change.path)
    try:
        index.discard_all(root)
        index.sync(root, progress)
    except db.Busy as error:
        hint = "the files are clean; run `ralph index rebuild` when the other process has ended"
        what = f"{paths.index_file(root)}: another process keeps writing, so it may hold what was forgotten"
        raise db.Busy(what, hint=hint) from error
    gone = before - set(index.ask(root, queries.digests).values())
    vectors = paths.vectors_file(root)
    if gone and vectors.exists():
        with VectorCache(vectors) as cache:
            cache.forget(gone)
        db.compact(vectors)


def without_forgotten(root: Path, path: Path, text: str) -> tuple[str, int]:
    """Return a file's or copy's text without what was forgotten, and the count of that; Refused where it must stay."""
    hidden = forgotten.load()
    original = path.with_name(_COPY.sub("", path.name))
    form = format_of(root, original) if hidden.hashes else None
    if form is Format.LOG:
        after, removed = _cut_log(
            path, ForgetRequest(hidden=hidden), set(), index.interpreter(root), text
        )
        return after, len(removed)
    if form is None or form is Format.TASK:
        return text, 0
    source = Source(original, original.name, form)
    names = {
        entry.record.id
        for entry in parse_source(source, text).entries
        if hidden.hides(entry.record)
    }
    after, refused = _remove_entries(source, names, text) if names else (text, {})
    if refused:
        raise Refused(
            f"{path}: has a forgotten entry: {next(iter(refused.values()))}",
            hint="nothing was written",
        )
    return after, len(names)


def _make_plan(root: Path, request: ForgetRequest, connection: sqlite3.Connection) -> ForgetPlan:
    names = set(request.ids)
    logs = paths.log_files(paths.log_folder(root))
    if names:  # the earlier versions of a record go with it
        retired = queries.records(connection, queries.retired_keys(connection)).values()
        links = [(link, record.id) for record in retired for link in record.links]
        names |= {
            name
            for link, name in links
            if link.relation == "superseded_by" and link.target in names
        }
    keys = {name: queries.keys_of(connection, name) for name in names}
    vanishing, left, changes = _plan_entries(root, names, request.matching.casefold())
    held = {each.id: each.text for each in quarantine.held(root)} if names else {}
    described = (
        {record.id for record in vanishing} | {leftover.id for leftover in left} | held.keys()
    )
    if missing := [name for name in request.ids if not keys[name] and name not in described]:
        raise NotFound(
            f"not found: {', '.join(missing)}", hint='`ralph search "words"` shows the ids'
        )
    if names:
        numbers = [key for each in keys.values() for key in each]
        records = queries.records(connection, numbers).values()
        texts = [record.text for record in records if record.family is not Family.OBSERVATION]
        quotes = (
            _words(text)[:_QUOTE]
            for text in (*texts, *(held[name] for name in names & held.keys()))
        )
        request = replace(
            request, quotes=tuple(quote for quote in quotes if len(quote) >= _MIN_NEEDLE)
        )
        indexed = {name for name, _ in queries.locations(connection, numbers).values()}
        name_of = source_names(root)
    interpret = index.interpreter(root)
    for path in logs:
        has_ids = names and (
            path.name in ("injections.jsonl", "held.jsonl") or name_of(path) in indexed
        )
        edit = partial(_cut_log, path, request, names if has_ids else set(), interpret)
        after, removed = edit(files.read(path) or "")
        if removed:
            vanishing += removed
            changes.append(_FileChange(path, edit, after))
    for path in (paths.cache_folder(root) / "injected").glob("*") if request.session else ():
        if (
            path.name == request.session and path.is_file()
        ):  # compared by name, because a host chose the id
            changes.append(_FileChange(path))
    tasks = (paths.cache_folder(root) / "subagents").glob("*")  # they may quote anything
    changes += [_FileChange(path) for path in tasks if path.is_file()]
    if names or request.matching:
        outputs = [
            path
            for path in sorted({*paths.runs_folder(root).rglob("*.*")} - {*logs})
            if path.is_file()
        ]
        wanted = replace(request, quotes=(*request.quotes, *map(_words, names)))
        changes += [
            _FileChange(path)
            for path in outputs
            if wanted.is_quoted([path.read_text("utf-8", "replace")])
        ]
        with suppress(NotFound), team_db.read_team(pulled := paths.team_database(root)) as shared:
            for name, title, text in team_db.texts(shared):
                if name in names or request.is_quoted((title, text)):
                    vanishing.append(
                        ForgottenRecord(pulled, 0, name, "pulled", text[:_PREVIEW], (text,))
                    )
        edited = {change.path: change.after for change in changes} | {
            each.path: "" for each in left if names
        }
        left += _leftovers(root, request, vanishing, edited)
    return ForgetPlan(tuple(vanishing), tuple(left), tuple(changes))


def _plan_entries(
    root: Path, names: set[str], needle: str
) -> tuple[list[ForgottenRecord], list[Leftover], list[_FileChange]]:
    vanishing = list[ForgottenRecord]()
    left = list[Leftover]()
    changes = list[_FileChange]()
    for source in sources(root) if names or needle else ():
        if source.format in (Format.LOG, Format.TASK):
            continue
        text = files.read(source.path) or ""
        chosen = {}
        for entry in parse_source(source, text).entries:
            record = entry.record
            journal_id = (
                str(record.extra.get(JOURNAL_KEY, "")) if record.family is Family.JOURNAL else ""
            )
            name = journal_id if journal_id in names else record.id
            extra = json.dumps({"extra": dict(record.extra)}, default=str) if needle else "{}"
            values = (
                record.title,
                record.text,
                *record.tags,
                *record.origin.files,
                *_text_values(extra),
            )
            if any(needle in value.casefold() for value in values) if needle else name in names:
                chosen[entry] = name
        if not chosen:
            continue
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
                left.append(
                    Leftover(source.path, entry.line, f"{refused[record.id]}; {_BY_HAND}", name)
                )
            else:
                what = f"{source.format.value} {record.kind.value}"
                preview = _preview(record)
                vanishing.append(
                    ForgottenRecord(source.path, entry.line, name, what, preview, (record.text,))
                )
        if after != text:
            changes.append(_FileChange(source.path, edit, after, source.format is Format.KNOWLEDGE))
    return vanishing, left, changes


def _remove_entries(source: Source, names: Iterable[str], text: str) -> tuple[str, dict[str, str]]:
    document = parse_source(source, text)
    refused: dict[str, str] = {}
    for name in names:
        try:
            document = document.remove(name)
        except NotFound:  # it went with another one, or somebody was faster
            continue
        except RalphError as error:
            refused[name] = error.message
    return document.text, refused


def _text_values(piece: str) -> Iterator[str]:
    top = _NO_CONTENT[""]
    nothing = frozenset[str]()
    pending: list[tuple[object, frozenset[str]]] = [
        (json.loads(piece, object_pairs_hook=tuple), top)
    ]
    while pending:
        value, skipped = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += ((item, nothing) for item in value)
        elif isinstance(value, tuple):  # an object's members
            for key, member in value:
                if not _MEMBER_NAME.fullmatch(key):
                    yield key
                if key not in skipped or not isinstance(member, str):
                    pending.append(
                        (member, _NO_CONTENT.get(key, nothing) if skipped is top else nothing)
                    )


def _cut_log(
    path: Path, request: ForgetRequest, names: set[str], interpret: Interpret, text: str
) -> tuple[str, list[ForgottenRecord]]:
    is_whole = bool(request.session) and path.stem == request.session
    document = parse_log(text)
    objects = [(line.start, line.end, line.line, line.value) for line in document.lines]
    objects += (
        (each.start, each.end, each.line, json.loads(text[each.start : each.end]))
        for each in document.entries
    )
    removed = list[ForgottenRecord]()
    spans = list[tuple[int, int, str]]()
    types = set[object]()
    summaries: list[
        tuple[int, int, int, str, bool, str]
    ] = []  # they may quote what matches, as torn lines may
    for start, end, line, value in sorted(objects, key=lambda each: each[0]):
        shorter = ""  # a session's line without what may quote something
        if value.get("type") == "session" and not value.keys().isdisjoint(_DERIVED):
            rest = {
                name: member
                for name, member in value.items()
                if name not in (*_DERIVED, "v", "type")
            }
            shorter = encode_line("session", rest).removesuffix("\n")
        matches = is_whole or _matches(value, text[start:end], request, names, interpret)
        if matches and (
            not shorter or is_whole or _matches(value, shorter, request, names, interpret)
        ):
            is_chosen = bool(request.matching) or value.get("type") in (Family.MEMORY, "held")
            removed += _describe_object(path, line, value, interpret, with_texts=is_chosen)
            spans.append((start, end, ""))
            continue
        types.add(value.get("type"))
        if shorter:
            summaries.append((start, end, line, shorter, matches, str(value.get("summary") or "")))
    if is_whole and removed:  # a transcript of it is not imported again
        removed[0] = replace(
            removed[0], hashed=(*removed[0].hashed, forgotten.session_key(request.session))
        )
    if (request.session or request.before) and spans and types <= {"session", "run"}:
        return "", removed
    parts = {
        f'"id":{gap}{json.dumps(name, ensure_ascii=False)}'.casefold()
        for name in names
        for gap in ("", " ")
    }
    parts |= _escaped_forms(request.matching)
    torn = [(start, end, text[start:end].casefold()) for start, end in document.torn]
    is_whole = is_whole or (request.hidden is not None and bool(spans))
    halves = [
        (start, end) for start, end, half in torn if is_whole or any(part in half for part in parts)
    ]
    goes = bool(spans or halves)
    for start, end, line, shorter, matches, summary in summaries:
        if goes or matches:
            removed.append(
                ForgottenRecord(
                    path, line, "", "summary and tags of its session", hashed=(summary,)
                )
            )
            spans.append((start, end, shorter))
    for start, end in halves:
        removed.append(ForgottenRecord(path, text.count("\n", 0, start) + 1, "", "half a line"))
        spans.append((start, end, ""))
    return _splice_lines(text, spans), removed


def _matches(
    value: Mapping[str, object],
    piece: str,
    request: ForgetRequest,
    names: set[str],
    interpret: Interpret,
) -> bool:
    if request.hidden is not None:
        value = json.loads(piece)
        if value.get("type") == Family.MEMORY:  # its id may be that of a later one
            return request.hidden.has(value.get("text"))
        keys = [
            key
            for each in _describe_object(Path(), 0, value, interpret, with_texts=True)
            for key in each.hashed
        ]
        return any(map(request.hidden.has, [*keys, forgotten.session_key(str(_session_of(value)))]))
    if request.quotes and request.is_quoted(_text_values(piece)):
        return True
    line_type = str(value.get("type"))
    if names and line_type == EVENT:
        return any(record.id in names for record in interpret(value)[0])
    if names:
        member = (
            "id"
            if line_type in (*Family, "held")
            else "record"
            if line_type in ("injection", "used")
            else ""
        )
        return str(value.get(member, "")) in names
    if request.session:
        return _session_of(value) == request.session
    if request.before:
        times = (value.get("at"), value.get("created_at"))
        at = next((time for time in times if time and isinstance(time, str)), "")
        return line_type != Family.MEMORY and "" < at < request.before
    return bool(request.matching) and request.is_quoted(_text_values(piece))


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


def _describe_object(
    path: Path, line: int, value: Mapping[str, object], interpret: Interpret, *, with_texts: bool
) -> Iterator[ForgottenRecord]:
    records = interpret(value)[0] if value.get("type") == EVENT else ()
    for record in records:
        keys = _transcript_keys(record.origin.session, record.text, value.get("payload"))
        hashed = (forgotten.event_key(record.id), *keys, *([record.text] if with_texts else []))
        yield ForgottenRecord(
            path, line, record.id, f"raw {record.kind.value}", _preview(record), hashed
        )
    if not records:
        text = str(value.get("text") or "")
        summary = str(value.get("summary") or "")
        what = f"{value.get('type') or ''} {value.get('kind') or ''}".strip()
        name = str(value.get("id") or "")
        shown = text or summary or str(value.get("record") or "")
        keys = _transcript_keys(str(_session_of(value) or ""), text, None)
        hashed = (
            forgotten.event_key(name) if name else "",
            *keys,
            summary,
            text if with_texts else "",
        )
        yield ForgottenRecord(path, line, name, what, shown[:_PREVIEW], hashed)


def _transcript_keys(session: str, text: str, payload: object) -> tuple[str, ...]:
    """Return by what an event is recognised in its client's transcript, where it has another time and so another id."""
    call = payload.get("tool_use_id") if isinstance(payload, Mapping) else None
    keys = (
        forgotten.session_key(session, text) if text else "",
        forgotten.session_key(session, call=str(call or "")),
    )
    return keys if session and call else keys[:1] if session else ()


def _preview(record: Record) -> str:
    return (f"{record.title}: {record.text}" if record.title else record.text)[:_PREVIEW]


def _splice_lines(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    lines = re.split(r"(?<=\n)", text)
    starts = [0, *accumulate(map(len, lines))]
    for start, end, new in sorted(spans, reverse=True):
        number = bisect_right(starts, start) - 1
        line = lines[number]
        at = starts[number]
        spliced = line[: start - at] + new + line[end - at :]
        lines[number] = spliced if spliced.strip(_BLANK) else ""
    return "".join(lines)


def _escaped_forms(text: str) -> set[str]:
    """As it is, and in both JSON escapings, in lower case."""
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {form.casefold() for form in forms} if text else set()


def _leftovers(
    root: Path,
    request: ForgetRequest,
    vanishing: Sequence[ForgottenRecord],
    changed: Mapping[Path, str],
) -> Iterator[Leftover]:
    matching = request.matching
    needles = _escaped_forms(matching)
    if not matching:
        lines = {
            line
            for each in vanishing
            for line in each.text.casefold().splitlines()
            if len(line) >= _MIN_NEEDLE
        }
        needles = {each.id.casefold() for each in vanishing if each.id} | lines
    main = paths.main_checkout(root)
    memories = paths.memories_files(root)[0].parent
    folders = {
        paths.ralph_folder(root),
        paths.ralph_folder(main),
        paths.state_folder(root),
        memories,
    }
    searched = {path for folder in folders for path in folder.rglob("*")}
    for path in sorted(searched.union(root.glob("guardrails.md*"), paths.progress_files(root))):
        is_backup = ".bak" in path.name
        is_database = path.name.startswith(("ralph.db", "graph.db", "team.db", "vectors."))
        if path.name.endswith(paths.LOG_SUFFIXES) or is_database or not path.is_file():
            continue
        try:
            text = changed[path] if path in changed else files.read(path) or ""
        except RalphError:
            continue
        for number, line in enumerate(text.casefold().split("\n"), 1):
            if (
                any(needle in line for needle in needles)
                if matching or is_backup
                else request.is_quoted([line])
            ):
                yield Leftover(path, number, _BACKUP if is_backup else _BY_HAND)
                if is_backup:
                    break
