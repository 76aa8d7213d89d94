"""Plan what to remove from logs.

A log has one JSON object per line. `LogFilter.cut` removes whole objects and leaves the rest of the
text as it is, with two exceptions. A session's line loses its summary and tags whenever anything
else in its log is removed, because they may quote it. A torn line, which a killed process left
unfinished, cannot be parsed, so it is searched as plain text.

For example, forgetting `obs-2` changes

    {"v": 1, "type": "session", "id": "s1", "summary": "Moved the cache to Redis."}
    {"v": 1, "type": "observation", "id": "obs-1", ...}
    {"v": 1, "type": "observation", "id": "obs-2", ...}

to

    {"v": 1, "type": "session", "id": "s1"}
    {"v": 1, "type": "observation", "id": "obs-1", ...}
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.record import Family, Record
from ralph.formats.log import LogDocument, encode_line, parse_log
from ralph.learning.forget_matching import escaped_forms, text_values
from ralph.learning.forget_plan import (
    MAX_PREVIEW_CHARACTERS,
    WHITESPACE,
    FileChange,
    ForgetPlan,
    ForgetRequest,
    ForgottenRecord,
    preview,
)
from ralph.search import index
from ralph.storage import files, forgotten
from ralph.storage.forgotten import ForgottenTexts
from ralph.storage.source_contents import EVENT, Interpret
from ralph.storage.sources import source_names

_DERIVED_MEMBERS = ("summary", "tags", "messages")
"""Members of a session's line that may quote what is being forgotten."""
_DESCRIBING_TYPES = ("session", "run")
"""Types of lines that only describe other lines. A log that has nothing else left is deleted."""
_PROPOSAL = "proposal"
_LOGS_WITH_IDS = ("injections.jsonl", "held.jsonl", "proposals.jsonl")
"""Logs whose ids are not in the index."""


def plan_logs(
    root: Path, request: ForgetRequest, record_ids: set[str], indexed: set[str]
) -> ForgetPlan:
    """Plan what to remove from the logs.

    Parsing every log for an id would be slow. Ids are therefore searched for only in `indexed`, the
    sources that contain them according to the index, and in `_LOGS_WITH_IDS`.
    """
    records: list[ForgottenRecord] = []
    changes: list[FileChange] = []
    name_of = source_names(root)
    interpret = index.interpreter(root)
    for path in paths.log_files(paths.log_folder(root)):
        ids_here = set[str]()
        if path.name in _LOGS_WITH_IDS or name_of(path) in indexed:
            ids_here = record_ids
        log_filter = LogFilter(path, request, ids_here, interpret)
        after, removed = log_filter.cut(files.read(path) or "")
        if removed:
            records += removed
            changes.append(FileChange(path, log_filter.cut, after))
    return ForgetPlan(records=tuple(records), changes=tuple(changes))


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
    """A session's line that is kept, and the splice that removes its derived members."""

    splice: _Splice
    line: int
    summary: str
    matches: bool  # whether a derived member quotes a forgotten text


@dataclass(slots=True)
class _LogScan:
    """What a filter found in a log."""

    removed: list[ForgottenRecord] = field(default_factory=list)
    splices: list[_Splice] = field(default_factory=list)
    session_lines: list[_SessionLine] = field(default_factory=list)
    only_describing: bool = True  # whether all remaining objects only describe others


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Removes what a request selects from one log."""

    path: Path
    request: ForgetRequest
    record_ids: set[str]  # the requested ids that this log may contain
    interpret: Interpret

    @property
    def _is_forgotten_session(self) -> bool:
        """Whether this is the log of the session to forget. Such a log is removed completely."""
        return bool(self.request.session) and self.path.stem == self.request.session

    def cut(self, text: str) -> tuple[str, list[ForgottenRecord]]:
        """Return the remaining text of the log, and the records that were removed."""
        document = parse_log(text)
        scan = self._scan(document)
        removed = scan.removed
        splices = scan.splices
        is_by_session_or_time = bool(self.request.session or self.request.before)
        if is_by_session_or_time and splices and scan.only_describing:
            return "", removed  # the remaining lines describe nothing any more
        torn = list(self._torn_lines(document, is_cut=bool(splices)))
        is_anything_removed = bool(splices or torn)
        for session_line in scan.session_lines:
            # The summary may quote whatever else is removed from the log.
            if is_anything_removed or session_line.matches:
                removed.append(
                    ForgottenRecord(
                        path=self.path,
                        line=session_line.line,
                        id="",
                        what="summary and tags of its session",
                        hashed=(session_line.summary,),
                    )
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
            matches = self._is_forgotten_session or self._matches(value, piece)
            if matches and self._must_remove_whole(value, shorter):
                scan.removed += self._describe(found)
                scan.splices.append(_Splice(found.start, found.end))
                continue
            if value.get("type") not in _DESCRIBING_TYPES:
                scan.only_describing = False
            if shorter:
                splice = _Splice(found.start, found.end, shorter)
                summary = str(value.get("summary") or "")
                scan.session_lines.append(_SessionLine(splice, found.line, summary, matches))
        if self._is_forgotten_session and scan.removed:
            # The session's own key prevents an import of its transcript from restoring it.
            first = scan.removed[0]
            key = forgotten.session_key(self.request.session)
            scan.removed[0] = replace(first, hashed=(*first.hashed, key))
        return scan

    def _must_remove_whole(self, value: Mapping[str, object], shorter: str) -> bool:
        """Return whether a matching object still matches without its derived members."""
        return not shorter or self._is_forgotten_session or self._matches(value, shorter)

    def _describe(self, found: _LogObject) -> Iterator[ForgottenRecord]:
        is_memory = found.value.get("type") in (Family.MEMORY, "held")
        with_texts = bool(self.request.matching) or is_memory
        return _describe_object(
            self.path, found.line, found.value, self.interpret, with_texts=with_texts
        )

    def _matches(self, value: Mapping[str, object], piece: str) -> bool:
        """Return whether to forget an object. `piece` is its JSON text in the log."""
        request = self.request
        if request.hidden is not None:
            return self._was_forgotten(json.loads(piece), request.hidden)
        if request.quotes and request.is_quoted(text_values(piece)):
            return True
        if self.record_ids:
            return self._has_wanted_id(value)
        if request.session:
            return _session_of(value) == request.session
        if request.before:
            return value.get("type") != Family.MEMORY and "" < _time_of(value) < request.before
        return bool(request.matching) and request.is_quoted(text_values(piece))

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
            return any(record.id in self.record_ids for record in self.interpret(value)[0])
        if line_type in (*Family, "held", _PROPOSAL):
            return str(value.get("id", "")) in self.record_ids
        if line_type in ("injection", "used"):
            return str(value.get("record", "")) in self.record_ids
        return False

    def _torn_lines(self, document: LogDocument, *, is_cut: bool) -> Iterator[_Splice]:
        """Yield the torn lines to remove. They are searched as plain text."""
        remove_all = self._is_forgotten_session or (self.request.hidden is not None and is_cut)
        needles = escaped_forms(self.request.matching)
        for record_id in self.record_ids:
            quoted_id = json.dumps(record_id, ensure_ascii=False)
            needles.add(f'"id":{quoted_id}'.casefold())
            needles.add(f'"id": {quoted_id}'.casefold())
        for start, end in document.torn:
            torn = document.text[start:end].casefold()
            if remove_all or any(needle in torn for needle in needles):
                yield _Splice(start, end)


def _objects_of(document: LogDocument) -> list[_LogObject]:
    """Return all objects in a log in file order."""
    objects = []
    for line in document.lines:
        objects.append(_LogObject(line.start, line.end, line.line, line.value))
    for entry in document.entries:
        value = json.loads(document.text[entry.start : entry.end])
        objects.append(_LogObject(entry.start, entry.end, entry.line, value))
    return sorted(objects, key=lambda found: found.start)


def _without_derived(value: Mapping[str, object]) -> str:
    """Return a session's line without `_DERIVED_MEMBERS`.

    Returns "" if the object is not a session or has none of these members.
    """
    if value.get("type") != "session" or value.keys().isdisjoint(_DERIVED_MEMBERS):
        return ""
    left_out = (*_DERIVED_MEMBERS, "v", "type")  # `encode_line` adds the last two
    members = {name: member for name, member in value.items() if name not in left_out}
    return encode_line("session", members).removesuffix("\n")


def _session_of(value: Mapping[str, object]) -> object:
    if value.get("type") == "session":
        return value.get("id")
    if value.get("type") == _PROPOSAL:
        return _only_place(value)
    if "session" in value:
        return value["session"]
    for name, member in (("origin", "session"), ("payload", "session_id")):
        inner = value.get(name)
        if isinstance(inner, Mapping):
            return inner.get(member)
    return None


def _only_place(proposal: Mapping[str, object]) -> object:
    """Return the session of a proposal, or None if it was seen in several sessions."""
    places = proposal.get("places")
    if isinstance(places, list) and len(places) == 1:
        return places[0]
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
    """Yield the records in an event, or a description of the object if it has none.

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
        yield ForgottenRecord(path, line, record.id, what, preview(record), tuple(hashed))


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
    return ForgottenRecord(path, line, name, what, shown[:MAX_PREVIEW_CHARACTERS], tuple(hashed))


def _transcript_keys(session: str, text: str, payload: object) -> list[str]:
    """Return the keys that identify an event in the client's transcript.

    Its time and its id are different there, so they cannot be used.
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
        if not line.strip(WHITESPACE):
            line = ""
        lines[number] = line
    return "".join(lines)
