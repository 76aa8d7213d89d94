"""`ralph import`: what agents and other memory tools have already stored about a project.

A transcript becomes the log of its session: every event is redacted, interpreted and attributed by the functions that
hooks use, and written with one atomic replacement. What a log already has, by id, call or text, is not added again, so
that a kill, a second run or a session that hooks recorded changes nothing; what was forgotten stays away. A ledger
remembers the state in which each transcript was read.
"""

import json
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ralph import paths
from ralph.app import histories, index
from ralph.app.config import privacy_rules
from ralph.app.histories import Place, Transcript
from ralph.capture import summary as summaries
from ralph.capture.events import event_of, patch_edits, reads_only
from ralph.capture.pipeline import observe, session_of
from ralph.capture.privacy import Redactor, mentions_private_path, redact_payload
from ralph.context.tokens import estimate
from ralph.errors import UsageError
from ralph.formats.log import encode_line, encode_record, join_lines
from ralph.model.record import ObservationKind, Record
from ralph.store import files, forgotten
from ralph.store.sources import EVENT, Format, Interpret, Source, contents

_CHUNK = 4_000_000  # characters that are collected before a log is written
_MOST_RECORDS = 20_000  # of a session, for its summary
_HOST_MEMBERS = ("session_id", "cwd", "tool_use_id")
_EDIT_MEMBERS = ("old_string", "new_string", "edits", "content")
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Found:
    """What a source has for the project: how many, how many of them are new or have changed, and their size."""

    source: str
    kind: str
    count: int = 0
    new: int = 0
    bytes: int = 0
    added: int = 0  # records or proposals; 0 where nothing was imported


class Ledger:
    """Which transcripts were imported, and in which state."""

    def __init__(self, root: Path) -> None:
        self._root, self._path = root, paths.import_ledger(root)
        self._marks: dict[tuple[str, str], str] = {}
        for line in (files.read(self._path) or "").split("\n"):
            try:
                value = json.loads(line)
                self._marks[value["source"], value["key"]] = value["mark"]
            except (ValueError, LookupError, TypeError):
                continue  # half a line that a kill left: its transcript is read again

    def has(self, source: str, key: str, mark: str) -> bool:
        """Whether this state was imported."""
        return self._marks.get((source, key)) == mark

    def add(self, *states: tuple[str, str, str]) -> None:
        """Note that these states were imported: source, key and mark of each."""
        self._marks |= {(source, key): mark for source, key, mark in states}
        lines = (encode_line("import", {"source": each[0], "key": each[1], "mark": each[2]}) for each in states)
        files.append(self._path, "".join(lines), root=paths.state_boundary(self._root))


def sources_named(names: Sequence[str], every: tuple[str, ...], *, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the sources that were named, for none all but the extra ones; UsageError lists the valid ones."""
    if wrong := [name for name in names if name not in (*every, *extra)]:
        raise UsageError(f"{wrong[0]!r} is no source of an import", hint=f"one of {', '.join((*every, *extra))}")
    return tuple(dict.fromkeys(names)) or every


def import_histories(
    root: Path, names: Sequence[str], place: Place, *, really: bool, progress: Progress | None = None
) -> list[Found]:
    """Find the transcripts of these clients, and with `really` import those that are new or have changed."""
    ledger, found = Ledger(root), dict[str, Found]()
    waiting: list[Transcript] = []
    for name in names:
        each = found[name] = Found(name, "sessions")
        for transcript in histories.find(place, name):
            is_new = not ledger.has(name, transcript.key, transcript.mark)
            each.count, each.new, each.bytes = each.count + 1, each.new + is_new, each.bytes + transcript.size
            waiting += [transcript] if is_new else []
    if really and waiting:
        files.hide_state(root)
        recorder = SessionRecorder(root)
        for number, transcript in enumerate(waiting, 1):
            try:
                found[transcript.source].added += recorder.record(transcript)
            except (sqlite3.Error, OSError) as error:
                place.notes.append(f"{transcript.key}: cannot be read: {error}")
                continue
            ledger.add((transcript.source, transcript.key, transcript.mark))
            if progress is not None:
                progress(number, len(waiting))
    return [each for each in found.values() if each.count]


class SessionRecorder:
    """Writes the events of transcripts to the logs of their sessions."""

    def __init__(self, root: Path) -> None:
        self._root, self._privacy, self._forgotten = root, privacy_rules(root), forgotten.load()
        self._interpret = index.interpreter(root, self._privacy)

        @cache
        def redact_text(text: str) -> str:
            return Redactor(self._privacy.patterns, tolerant=True)(text)

        self._redact_text = redact_text

    def record(self, transcript: Transcript) -> int:
        """Add what the logs do not have yet of a transcript; return how many observations."""
        logs: dict[str, SessionLog] = {}
        for event in transcript.read():
            session = str(event.payload.get("session_id") or "")
            if not session or self._forgotten.has(forgotten.session_key(session)):
                continue
            if session not in logs:
                logs[session] = SessionLog(self._root, session, self._interpret)
            log, payload = logs[session], self._redact(event.payload)
            happened = event_of(event.reader, event.event, payload, event.at) if payload is not None else None
            if happened is None:
                continue
            happened = replace(happened, host=transcript.source)
            log.fields = log.fields or dict(session_of(happened, patterns=None) or {})
            record = observe(happened, patterns=None, paths=self._privacy.paths)
            if record is None or self._forgotten.hides(record):
                continue
            keys = (forgotten.session_key(session, record.text), forgotten.session_key(session, call=happened.call))
            if not any(map(self._forgotten.has, keys)):
                log.add(record, happened.call)
            if log.size > _CHUNK:
                log.write()
        return sum(log.finish() for log in logs.values())

    def _redact(self, payload: dict[str, object]) -> dict[str, object] | None:
        """Return a payload as it may be stored, as hooks do; None for one about a private path."""
        if reads_only(str(payload.get("tool_name") or "")) and "tool_response" in payload:
            payload = {**payload, "tool_response": ""}
        if self._privacy.paths and mentions_private_path(payload, self._privacy.paths):
            return None
        rest = {name: value for name, value in payload.items() if name not in _HOST_MEMBERS}
        redacted = redact_payload(_slim(rest), self._privacy.patterns)
        own = {name: value for name in _HOST_MEMBERS if isinstance(value := payload.get(name), str)}
        own |= {name: self._redact_text(own.get(name, "")) for name in ("session_id", "cwd")}
        return {**redacted, **own}


def _slim(payload: dict[str, object]) -> dict[str, object]:
    """Leave out copies: a patch's lines become the texts before and after, and nothing else of an edit is needed."""
    parameters, answer = payload.get("tool_input"), payload.get("tool_response")
    if not isinstance(parameters, dict) or not isinstance(answer, Mapping) or "filePath" not in answer:
        return payload
    if edits := [{"old_string": edit.before, "new_string": edit.after} for edit in patch_edits(answer)]:
        parameters = {name: value for name, value in parameters.items() if name not in _EDIT_MEMBERS}
        parameters["edits"] = edits
    kept = {name: answer[name] for name in ("filePath", "originalFile") if name in answer}
    return {**payload, "tool_input": parameters, "tool_response": kept}


class SessionLog:
    """The log of one session, and what is to be added to it."""

    def __init__(self, root: Path, session: str, interpret: Interpret) -> None:
        self.session, self.size = session, 0
        self.fields: dict[str, object] = {}
        logs = [paths.packed_log(root, session), paths.session_log(root, session)]
        self._path, self._boundary = logs[logs[1].exists()], paths.state_boundary(root)
        self._lines, self._added = list[str](), 0
        text, source = "".join(files.read(path) or "" for path in logs), Source(self._path, self._path.name, Format.LOG)
        records = [placed.record for placed in contents(source, text, interpret).records] if text else []
        notes = (record for record in records if record.kind is ObservationKind.NOTE)
        self._ids, self._notes = {record.id for record in records}, Counter((note.title, note.text) for note in notes)
        self._records = deque(records, maxlen=_MOST_RECORDS)
        payloads = [value.get("payload") for kind, value in contents(source, text).lines if kind == EVENT]
        self._calls = {payload.get("tool_use_id") for payload in payloads if isinstance(payload, Mapping)}

    def add(self, record: Record, call: str) -> None:
        """Add an observation unless the log has it."""
        is_known = record.id in self._ids or (call and call in self._calls)
        if record.kind is ObservationKind.NOTE and self._notes[record.title, record.text] > 0:
            self._notes[record.title, record.text] -= 1  # hooks recorded it at another instant
            return
        if not is_known:
            self._ids.add(record.id)
            self._records.append(record)
            self._lines.append(encode_record(record))
            self.size += len(self._lines[-1])
            self._added += 1

    def write(self) -> None:
        """Write what was collected, at once."""
        if new := "".join(self._lines):
            files.make_folder(self._path.parent, 0o700)
            files.update(self._path, lambda text: join_lines(text, new), root=self._boundary, mode=files.PRIVATE)
        self._lines, self.size = [], 0

    def finish(self) -> int:
        """Write the rest, and the session's summary; return how many observations were added."""
        if self._added:
            summary = summaries.summary(list(self._records))
            text = summaries.text(summary, summaries.TOKENS, estimate)
            times = [record.created_at for record in self._records if record.created_at]
            known = {"started_at": min(times, default=""), "updated_at": max(times, default=""), "summary": text}
            members = {**self.fields, **{key: value for key, value in known.items() if value}}
            self._lines.append(encode_line("session", {**members, **({"tags": list(summary.tags)} if text else {})}))
            self.write()
        return self._added
