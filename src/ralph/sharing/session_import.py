"""Write the events in transcripts to the logs of their sessions.

Events are redacted, interpreted and attributed by the same functions that hooks use, and a log is
written with one atomic replacement. An observation is not added if the log already has one with the
same id, call or text. An import can therefore be killed or repeated, and it can include sessions
that hooks have recorded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph.capture import foreign_reading
from ralph.capture import summary as summaries
from ralph.capture.host_payloads import event_of, patch_edits, reads_only
from ralph.capture.pipeline import observe, session_of, with_taint
from ralph.capture.transcripts import TranscriptEvent
from ralph.core import paths
from ralph.core.record import ObservationKind, Record
from ralph.core.tokens import estimate
from ralph.formats.log import encode_line, encode_record, join_lines
from ralph.lean import hook_files
from ralph.privacy.hook_payloads import redact_payload
from ralph.privacy.private_paths import mentions_private_path
from ralph.privacy.redactor import Redactor
from ralph.search import index
from ralph.sharing.histories import Transcript
from ralph.storage import files, forgotten
from ralph.storage.config import privacy_rules
from ralph.storage.source_contents import EVENT, Interpret, parse_contents
from ralph.storage.sources import Format, Source

_MAX_BUFFERED_CHARACTERS = 4_000_000  # collected before a log is written
_MAX_SUMMARISED_RECORDS = 20_000  # the newest ones in a session, for its summary
_HOST_MEMBERS = ("session_id", "cwd", "tool_use_id")
_EDIT_MEMBERS = ("old_string", "new_string", "edits", "content")
_ANSWER_MEMBERS = ("filePath", "originalFile", "structuredPatch")


class PreparedLog(NamedTuple):
    """The lines for the log of a session that has none, and how many observations they contain."""

    session: str
    lines: str
    added: int


class PreparedTranscript(NamedTuple):
    """The logs that a transcript becomes, and notes about what was skipped."""

    logs: tuple[PreparedLog, ...]
    notes: tuple[str, ...]


class SessionRecorder:
    """Writes the events in transcripts to the logs of their sessions."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._privacy = privacy_rules(root)
        self._forgotten = forgotten.load()
        self._interpret = index.interpreter(root, self._privacy)

        @cache  # a session's id and folder are repeated in each of its events
        def redact_text(text: str) -> str:
            return Redactor(self._privacy.patterns, tolerant=True)(text)

        self._redact_text = redact_text

    def record(self, transcript: Transcript, notes: list[str]) -> int:
        """Import the observations that are not in the logs yet, and return their number."""
        logs: dict[str, SessionLog] = {}
        for log in self._add_events(transcript, logs, notes):
            if log.size > _MAX_BUFFERED_CHARACTERS:
                log.write()
        return sum(log.finish() for log in logs.values())

    def prepare(self, transcript: Transcript) -> PreparedTranscript | None:
        """Return the logs that a transcript becomes, or None if it has to be recorded here.

        That is so if one of its sessions has a log, or if a log would be very long.
        """
        logs: dict[str, SessionLog] = {}
        notes: list[str] = []
        for log in self._add_events(transcript, logs, notes):
            if log.existed or log.size > _MAX_BUFFERED_CHARACTERS:
                return None
        return PreparedTranscript(tuple(log.prepared() for log in logs.values()), tuple(notes))

    def write(self, prepared: PreparedTranscript) -> int | None:
        """Write prepared logs, and return the number of their observations.

        Returns None, and writes nothing, if one of the sessions has a log by now.
        """
        if any(_log_file(self._root, log.session).exists() for log in prepared.logs):
            return None
        for log in prepared.logs:
            if log.added:
                _write_lines(self._root, _log_file(self._root, log.session), log.lines)
        return sum(log.added for log in prepared.logs)

    def _add_events(
        self, transcript: Transcript, logs: dict[str, SessionLog], notes: list[str]
    ) -> Iterator[SessionLog]:
        """Add the events of a transcript to logs by session, and yield the log after each event."""
        for event in transcript.read(notes):
            session = str(event.payload.get("session_id") or "")
            if not session or self._forgotten.has(forgotten.session_key(session)):
                continue
            if session not in logs:
                logs[session] = SessionLog(self._root, session, self._interpret)
            self._add_event(logs[session], event, transcript.source)
            yield logs[session]

    def _add_event(self, log: SessionLog, event: TranscriptEvent, client: str) -> None:
        """Add an event to a log as an observation, unless it is private or was forgotten."""
        payload = self._redact(event.payload)
        if payload is None:
            return
        happened = event_of(event.reader, event.event, payload, event.at)
        if happened is None:
            return
        happened = happened._replace(host=client)
        log.fields = log.fields or dict(session_of(happened, patterns=None) or {})
        record = observe(happened, patterns=None, paths=self._privacy.paths)
        taint = foreign_reading.taint_of_event(self._root, happened, log.written)
        log.taint = log.taint or taint
        if record is None or self._forgotten.hides(record):
            return
        record = with_taint(record, log.taint if happened.message else taint)
        text_key = forgotten.session_key(log.session, record.text)
        call_key = forgotten.session_key(log.session, call=happened.call)
        if not self._forgotten.has(text_key) and not self._forgotten.has(call_key):
            log.add(record, happened.call)

    def _redact(self, payload: dict[str, object]) -> dict[str, object] | None:
        """Return a payload as hooks would store it, or None if it mentions a private path."""
        if reads_only(str(payload.get("tool_name") or "")) and "tool_response" in payload:
            payload = {**payload, "tool_response": ""}
        if self._privacy.paths and mentions_private_path(payload, self._privacy.paths):
            return None
        rest = {name: value for name, value in payload.items() if name not in _HOST_MEMBERS}
        redacted = redact_payload(_without_copies(rest), self._privacy.patterns)
        host_members = {}
        for name in _HOST_MEMBERS:
            value = payload.get(name)
            if isinstance(value, str):
                host_members[name] = value
        for name in ("session_id", "cwd"):
            host_members[name] = self._redact_text(host_members.get(name, ""))
        return {**redacted, **host_members}


def _without_copies(payload: dict[str, object]) -> dict[str, object]:
    """Return an edit's payload with redundant copies of its text removed.

    The text before and after each change is taken from the patch in the response, if there is one.
    """
    parameters = payload.get("tool_input")
    answer = payload.get("tool_response")
    if not isinstance(parameters, dict) or not isinstance(answer, Mapping):
        return payload
    if "filePath" not in answer:
        return payload
    if patch_edits(answer):
        parameters = {
            name: value for name, value in parameters.items() if name not in _EDIT_MEMBERS
        }
    kept = {name: answer[name] for name in _ANSWER_MEMBERS if name in answer}
    return {**payload, "tool_input": parameters, "tool_response": kept}


class SessionLog:
    """The log of one session, and the observations to add to it."""

    def __init__(self, root: Path, session: str, interpret: Interpret) -> None:
        self.session = session
        self.size = 0  # number of characters that are not written yet
        self.fields: dict[str, object] = {}
        self._root = root
        self._lines: list[str] = []
        self._added = 0
        self._path = _log_file(root, session)
        self.existed = self._path.exists()
        packed_log = paths.packed_log(root, session)
        session_log = paths.session_log(root, session)
        text = (files.read(packed_log) or "") + (files.read(session_log) or "")
        self.written: set[str] = set()  # files, as paths
        self.taint = hook_files.taint_in_log(text)  # what foreign text the session has read so far
        source = Source(self._path, self._path.name, Format.LOG)
        records = []
        if text:
            records = [placed.record for placed in parse_contents(source, text, interpret).records]
        self._records = deque(records, maxlen=_MAX_SUMMARISED_RECORDS)
        self._ids = {record.id for record in records}
        self._notes: Counter[tuple[str, str]] = Counter()
        for record in records:
            if record.kind is ObservationKind.NOTE:
                self._notes[record.title, record.text] += 1
        self._calls = set()
        for kind, value in parse_contents(source, text).lines:
            if kind != EVENT:
                continue
            payload = value.get("payload")
            if isinstance(payload, Mapping):
                self._calls.add(payload.get("tool_use_id"))

    def add(self, record: Record, call: str) -> None:
        """Add an observation unless the log already has it."""
        if record.kind is ObservationKind.NOTE and self._notes[record.title, record.text] > 0:
            self._notes[record.title, record.text] -= 1  # hooks recorded it with another time
            return
        if record.id in self._ids or (call and call in self._calls):
            return
        line = encode_record(record)
        self._ids.add(record.id)
        self._records.append(record)
        self._lines.append(line)
        self.size += len(line)
        self._added += 1

    def write(self) -> None:
        """Write the collected lines with one atomic replacement."""
        new_lines = "".join(self._lines)
        if new_lines:
            _write_lines(self._root, self._path, new_lines)
        self._lines = []
        self.size = 0

    def finish(self) -> int:
        """Write the remaining lines and the summary. Returns the number of observations added."""
        if self._added:
            self._lines.append(self._session_line())
            self.write()
        return self._added

    def prepared(self) -> PreparedLog:
        """Return the lines and the summary, to be written by another process."""
        lines = "".join([*self._lines, self._session_line()]) if self._added else ""
        return PreparedLog(self.session, lines, self._added)

    def _session_line(self) -> str:
        return encode_line("session", self._session_members())

    def _session_members(self) -> dict[str, object]:
        """Return the members of the session's line: its fields, times and summary."""
        summary = summaries.summary(list(self._records))
        text = summaries.text(summary, summaries.TOKENS, estimate)
        times = [record.created_at for record in self._records if record.created_at]
        members = dict(self.fields)
        if times:
            members["started_at"] = min(times)
            members["updated_at"] = max(times)
        if text:
            members["summary"] = text
            members["tags"] = list(summary.tags)
        return members


def _log_file(root: Path, session: str) -> Path:
    """Return the file to which a session's log is written."""
    session_log = paths.session_log(root, session)
    return session_log if session_log.exists() else paths.packed_log(root, session)


def _write_lines(root: Path, log: Path, lines: str) -> None:
    files.make_folder(log.parent, 0o700)
    files.update(
        log,
        lambda text: join_lines(text, lines),
        root=paths.state_boundary(root),
        mode=files.PRIVATE,
    )
