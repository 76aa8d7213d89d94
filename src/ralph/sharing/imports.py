"""Import what agents and other memory tools have already stored about a project (`ralph import`).

A transcript becomes the log of its session. Its events are redacted, interpreted and attributed by
the same functions that hooks use, and a log is written with one atomic replacement. An observation
is not added if the log already has one with the same id, call or text. An import can therefore be
killed or repeated, and it can include sessions that hooks have recorded.

Memories from other tools, rule files and the git history become proposals for `ralph review`, each
only once. A ledger records what was imported and in which state, so that only new and changed
transcripts are read again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sqlite3
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import summary as summaries
from ralph.capture.events import event_of, patch_edits, reads_only
from ralph.capture.pipeline import observe, session_of
from ralph.capture.transcripts import TranscriptEvent
from ralph.core import paths
from ralph.core.errors import RalphError, UsageError
from ralph.core.record import MemoryKind, ObservationKind, Record, Status, kind_of
from ralph.core.repository import Repository
from ralph.core.text import normalise_text
from ralph.core.tokens import estimate
from ralph.formats.knowledge import FrontMatter, read_front_matter
from ralph.formats.log import encode_line, encode_record, join_lines
from ralph.memory import memory, quarantine
from ralph.memory.quarantine import HeldMemory
from ralph.privacy.privacy import Redactor, mentions_private_path, redact, redact_payload
from ralph.search import index
from ralph.sharing import histories
from ralph.sharing.histories import Place, Transcript, claude_folders, read_json
from ralph.storage import files, foreign, forgotten, gitignore
from ralph.storage.config import privacy_rules
from ralph.storage.sources import EVENT, Format, Interpret, Source, contents

_MAX_BUFFERED_CHARACTERS = 4_000_000  # collected before a log is written
_MAX_SUMMARISED_RECORDS = 20_000  # the newest ones in a session, for its summary
_MAX_FILE_BYTES = 4_000_000  # for a note, a rule file or a chunk
_MAX_PROPOSAL_CHARACTERS = 2_000
_MIN_PROPOSAL_CHARACTERS = 12
_MAX_PROPOSAL_TAGS = 6
_MAX_QUOTED_HEADING = 80  # characters
_MAX_COMMITS = 20_000
_DAY_CHARACTERS = len("2026-01-31")  # a timestamp up to its day
_SHORT_COMMIT = 10  # digits of a commit's hash in a proposal
_KEY_DIGITS = 16  # hexadecimal digits of a proposal's digest in the ledger

_HOST_MEMBERS = ("session_id", "cwd", "tool_use_id")
_EDIT_MEMBERS = ("old_string", "new_string", "edits", "content")
_ANSWER_MEMBERS = ("filePath", "originalFile")
_RULE_FILES = [
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    ".cursorrules",
    ".cursor/rules/*.mdc",
    ".windsurfrules",
    ".windsurf/rules/*.md",
    ".clinerules/*.md",
    ".github/copilot-instructions.md",
]
_KIND_ALIASES = {
    "bugfix": "fix",
    "bug": "fix",
    "problem": "fix",
    "error": "fix",
    "architecture": "decision",
}
_COMMENT = re.compile(r"<!-- ralph:start.*?<!-- ralph:end[^>]*-->|<!--.*?-->", re.DOTALL)
_BULLET = re.compile(r" {0,3}(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*$")
_OBSERVATION = re.compile(
    r"(?!\[[ x-]\])"  # not an item in a to-do list
    r"(?:\[(?P<kind>[^\]\[()]{1,40})\]\s+)?(?P<text>.+)"
)
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,40})")
_DECISION = re.compile(
    r"(?mi)^(?:decision|decided|rationale|why|trade-?off|breaking change)s?:\s*"
    r"(?P<text>\S.*(?:\n\S.*)*)"
)
_DECIDED = re.compile(  # a subject that announces a decision, with a label or as a sentence
    r"(?i)(?:decision|decided?):\s*(?P<text>\S.*)"
    r"|(?:we (?:have )?)?(?:decided (?:to|that|on|against|for)\b|chose .+ over )"
)
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,40})\b[^\n]*")

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Found:
    """What a source has about the project: the number of items, how many are new, and the size."""

    source: str
    kind: str
    count: int = 0
    new: int = 0
    bytes: int = 0
    added: int = 0  # records or proposals; 0 if nothing was imported


class _ImportedState(NamedTuple):
    """An item in a source, and the state (`mark`) in which it was imported."""

    source: str
    key: str
    mark: str


class Ledger:
    """A record of which transcripts and proposals were imported, and in which state."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = paths.import_ledger(root)
        self._marks: dict[tuple[str, str], str] = {}
        for line in (files.read(self._path) or "").split("\n"):
            try:
                value = json.loads(line)
                self._marks[value["source"], value["key"]] = value["mark"]
            except (ValueError, LookupError, TypeError):
                continue  # a kill left half a line, so its transcript is read again

    def has(self, source: str, key: str, mark: str) -> bool:
        """Return whether an item was already imported in this state."""
        return self._marks.get((source, key)) == mark

    def add(self, states: Iterable[_ImportedState]) -> None:
        """Record that these items were imported in these states."""
        lines = []
        for state in states:
            self._marks[state.source, state.key] = state.mark
            lines.append(encode_line("import", state._asdict()))
        files.append(self._path, "".join(lines), root=paths.state_boundary(self._root))


def sources_named(
    names: Sequence[str], every: tuple[str, ...], *, extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the named sources, or `every` source if none is named.

    The `extra` sources are used only if they are named. Raises UsageError for an unknown name, with
    a list of the valid ones.
    """
    valid = (*every, *extra)
    for name in names:
        if name not in valid:
            raise UsageError(
                f"{name!r} is not an import source", hint=f"use one of {', '.join(valid)}"
            )
    return tuple(dict.fromkeys(names)) or every


# --- transcripts ---------------------------------------------------------------------------------


def import_histories(
    root: Path,
    names: Sequence[str],
    place: Place,
    *,
    really: bool,
    progress: Progress | None = None,
) -> list[Found]:
    """Find the transcripts of the named clients.

    With `really`, the new and changed ones are imported.
    """
    ledger = Ledger(root)
    found: dict[str, Found] = {}
    waiting: list[Transcript] = []
    for name in names:
        found[name] = Found(name, "sessions")
        for transcript in histories.find(place, name):
            found[name].count += 1
            found[name].bytes += transcript.size
            if not ledger.has(name, transcript.key, transcript.mark):
                found[name].new += 1
                waiting.append(transcript)
    if really and waiting:
        gitignore.ensure_gitignore(root)
        recorder = SessionRecorder(root)
        for number, transcript in enumerate(waiting, 1):
            try:
                found[transcript.source].added += recorder.record(transcript)
            except (sqlite3.Error, OSError) as error:
                place.notes.append(f"{transcript.key}: cannot be read: {error}")
                continue
            ledger.add([_ImportedState(transcript.source, transcript.key, transcript.mark)])
            if progress is not None:
                progress(number, len(waiting))
    return [result for result in found.values() if result.count]


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

    def record(self, transcript: Transcript) -> int:
        """Import the observations that are not in the logs yet, and return their number."""
        logs: dict[str, SessionLog] = {}
        for event in transcript.read():
            session = str(event.payload.get("session_id") or "")
            if not session or self._forgotten.has(forgotten.session_key(session)):
                continue
            if session not in logs:
                logs[session] = SessionLog(self._root, session, self._interpret)
            self._add_event(logs[session], event, transcript.source)
        return sum(log.finish() for log in logs.values())

    def _add_event(self, log: SessionLog, event: TranscriptEvent, client: str) -> None:
        """Add an event to a log as an observation, unless it is private or was forgotten."""
        payload = self._redact(event.payload)
        if payload is None:
            return
        happened = event_of(event.reader, event.event, payload, event.at)
        if happened is None:
            return
        happened = replace(happened, host=client)
        log.fields = log.fields or dict(session_of(happened, patterns=None) or {})
        record = observe(happened, patterns=None, paths=self._privacy.paths)
        if record is None or self._forgotten.hides(record):
            return
        text_key = forgotten.session_key(log.session, record.text)
        call_key = forgotten.session_key(log.session, call=happened.call)
        if not self._forgotten.has(text_key) and not self._forgotten.has(call_key):
            log.add(record, happened.call)
        if log.size > _MAX_BUFFERED_CHARACTERS:
            log.write()

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
    edits = []
    for edit in patch_edits(answer):
        edits.append({"old_string": edit.before, "new_string": edit.after})
    if edits:
        parameters = {
            name: value for name, value in parameters.items() if name not in _EDIT_MEMBERS
        }
        parameters["edits"] = edits
    kept = {name: answer[name] for name in _ANSWER_MEMBERS if name in answer}
    return {**payload, "tool_input": parameters, "tool_response": kept}


class SessionLog:
    """The log of one session, and the observations to add to it."""

    def __init__(self, root: Path, session: str, interpret: Interpret) -> None:
        self.session = session
        self.size = 0  # number of characters that are not written yet
        self.fields: dict[str, object] = {}
        self._boundary = paths.state_boundary(root)
        self._lines: list[str] = []
        self._added = 0
        packed_log = paths.packed_log(root, session)
        session_log = paths.session_log(root, session)
        self._path = session_log if session_log.exists() else packed_log
        text = (files.read(packed_log) or "") + (files.read(session_log) or "")
        source = Source(self._path, self._path.name, Format.LOG)
        records = []
        if text:
            records = [placed.record for placed in contents(source, text, interpret).records]
        self._records = deque(records, maxlen=_MAX_SUMMARISED_RECORDS)
        self._ids = {record.id for record in records}
        self._notes: Counter[tuple[str, str]] = Counter()
        for record in records:
            if record.kind is ObservationKind.NOTE:
                self._notes[record.title, record.text] += 1
        self._calls = set()
        for kind, value in contents(source, text).lines:
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
            files.make_folder(self._path.parent, 0o700)
            files.update(
                self._path,
                lambda text: join_lines(text, new_lines),
                root=self._boundary,
                mode=files.PRIVATE,
            )
        self._lines = []
        self.size = 0

    def finish(self) -> int:
        """Write the remaining lines and the summary. Returns the number of observations added."""
        if self._added:
            self._lines.append(encode_line("session", self._session_members()))
            self.write()
        return self._added

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


# --- memories of other tools ---------------------------------------------------------------------


class Proposal(NamedTuple):
    """Text that may become a memory, and where it comes from."""

    text: str
    kind: MemoryKind
    via: str
    tags: tuple[str, ...] = ()


class _ListItem(NamedTuple):
    """An item in a Markdown list, and the heading above it."""

    heading: str
    text: str


def _kind(word: object, default: MemoryKind = MemoryKind.CONTEXT) -> MemoryKind:
    """Return the kind of memory that another tool's word for it stands for."""
    name = str(word or "").strip().lower()
    return kind_of(_KIND_ALIASES.get(name, name)) or default


def _texts(value: object) -> list[str]:
    """Return the strings in a list, which may be encoded as JSON."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if not isinstance(value, list):
        return []
    return [text for text in value if isinstance(text, str)]


def _read(path: Path, place: Place) -> str:
    """Return the text of a file.

    If the file is a symlink, too large or unreadable, a note is added and "" is returned.
    """
    try:
        if not path.is_symlink() and path.stat().st_size <= _MAX_FILE_BYTES:
            return files.read(path) or ""
        place.notes.append(f"{path}: skipped, a symlink or larger than {_MAX_FILE_BYTES:,} bytes")
    except (RalphError, OSError) as error:
        place.notes.append(f"{path}: cannot be read: {error}")
    return ""


def _list_items(text: str) -> Iterator[_ListItem]:
    """Yield all list items in the text, including their continuation lines.

    Code blocks and comments are skipped.
    """
    heading = ""
    item = ""
    fenced = False
    for line in [*_COMMENT.sub("", text).splitlines(), ""]:
        bullet = None if fenced else _BULLET.match(line)
        is_continuation = line.strip() and line.startswith("  ")
        if item and (bullet or fenced or not is_continuation):
            yield _ListItem(heading, item)
            item = ""
        if _is_fence(line):
            fenced = not fenced
        elif bullet:
            item = bullet["text"]
        elif item:
            item = f"{item} {line.strip()}"
        elif not fenced:
            title = _HEADING.match(line)
            if title:
                heading = title["title"]


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def _paragraph_lines(text: str) -> list[int]:
    """Return the number of the first line of each paragraph of ordinary prose.

    Lists, code blocks, comments, headings and front matter do not count.
    """
    matter = read_front_matter(text)
    if isinstance(matter, FrontMatter):
        text = _blank_lines(text[: matter.body]) + text[matter.body :]
    text = _COMMENT.sub(lambda comment: _blank_lines(comment[0]), text)
    starts = []
    fenced = False
    in_item = False
    in_paragraph = False
    for number, line in enumerate(text.splitlines(), 1):
        if _is_fence(line):
            fenced = not fenced
            is_text = False
        else:
            is_text = not fenced and not _HEADING.match(line) and any(map(str.isalnum, line))
        continues_item = in_item and line.startswith("  ")
        in_item = is_text and (bool(_BULLET.match(line)) or continues_item)
        was_in_paragraph = in_paragraph
        in_paragraph = is_text and not in_item
        if in_paragraph and not was_in_paragraph:
            starts.append(number)
    return starts


def _blank_lines(text: str) -> str:
    """Reduce text to its newlines, so that the lines after it keep their numbers."""
    return "\n" * text.count("\n")


def _claude_mem(place: Place) -> Iterator[Proposal]:
    """Yield the observations in claude-mem's database."""
    path = place.folder("CLAUDE_MEM_DATA_DIR", ".claude-mem") / "claude-mem.db"
    if not path.is_file():
        return
    project = paths.main_checkout(place.root).name
    try:
        with foreign.open_store(path) as connection:
            for row in foreign.claude_mem_observations(connection, project):
                via = f"claude-mem {row['id']} of {row['created_at'][:_DAY_CHARACTERS]}"
                tags = tuple(_texts(row["concepts"]))
                yield Proposal(_claude_mem_text(row), _kind(row["type"]), via, tags)
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")


def _claude_mem_text(row: Mapping[str, Any]) -> str:
    body = row["narrative"] or " ".join(_texts(row["facts"])) or row["subtitle"] or ""
    if row["title"] and body:
        return f"{row['title']}: {body}"
    text: str = row["title"] or body or row["text"]
    return text


def _basic_memory(place: Place) -> Iterator[Proposal]:
    """Yield the observations in Basic Memory's notes."""
    config_folder = place.folder("BASIC_MEMORY_CONFIG_DIR", ".basic-memory")
    config = read_json(config_folder / "config.json", place.notes)
    projects = config.get("projects") if isinstance(config, dict) else None
    if not isinstance(projects, dict):
        return
    for name, value in projects.items():
        folder = Path(str(value.get("path") if isinstance(value, dict) else value))
        if name == place.root.name or place.has(str(folder)):
            for path in sorted(folder.rglob("*.md")):
                yield from _basic_memory_note(path, folder, place)


def _basic_memory_note(path: Path, folder: Path, place: Place) -> Iterator[Proposal]:
    text = _read(path, place)
    via = f"basic-memory {path.relative_to(folder)}"
    matter = read_front_matter(text)
    note_tags = matter.tags() if isinstance(matter, FrontMatter) else ()
    has_observations = False
    for item in _list_items(text):
        observation = _OBSERVATION.match(item.text)
        if observation is None:
            continue
        tags = _TAG.findall(observation["text"])
        if observation["kind"] or tags:
            has_observations = True
            body = _TAG.sub("", observation["text"]).strip()
            yield Proposal(body, _kind(observation["kind"]), via, (*tags, *note_tags))
    if text and not has_observations:
        place.notes.append(f"{path}: a note without observations, not mapped")


def _engram(place: Place) -> Iterator[Proposal]:
    """Yield the observations in the project's engram chunks."""
    for path in sorted((place.root / ".engram" / "chunks").glob("*.jsonl*")):
        try:
            values = _read_engram_chunk(path)
        except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            place.notes.append(f"{path}: cannot be read: {type(error).__name__}")
            continue
        via = f"engram {path.name.partition('.')[0]}"
        for observation in _engram_observations(values):
            body = str(observation.get("content") or "")
            if not body:
                continue
            title = str(observation.get("title") or "")
            text = f"{title}: {body}" if title and title not in body else body
            yield Proposal(text, _kind(observation.get("type")), via)


def _read_engram_chunk(path: Path) -> list[object]:
    """Return the JSON values in a chunk, which is either one value or one value per line."""
    with files.open_regular(path) as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        text = file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    if "\n{" not in text.strip():
        return [json.loads(text)]
    return [json.loads(line) for line in text.strip().split("\n")]


def _engram_observations(values: Iterable[object]) -> Iterator[dict[str, object]]:
    """Yield the observations in a chunk's values. A value may itself be an observation."""
    for value in values:
        if not isinstance(value, dict):
            continue
        observations = value.get("observations", [value])
        if not isinstance(observations, list):
            continue
        for observation in observations:
            if isinstance(observation, dict):
                yield observation


def _auto_memory(place: Place) -> Iterator[Proposal]:
    """Yield the memories that Claude Code keeps about the project.

    MEMORY.md is only an index, so it is read only if there are no notes.
    """
    for folder in claude_folders(place):
        paths_found = sorted((folder / "memory").glob("*.md"))
        notes = [path for path in paths_found if path.name != "MEMORY.md"]
        for path in notes or paths_found:
            text = _read(path, place)
            via = f"Claude Code's memory {path.name}"
            matter = read_front_matter(text)
            if notes and isinstance(matter, FrontMatter):
                body = text[matter.body :].strip() or matter.text("description")
                yield Proposal(body, _kind(matter.text("type")), via, matter.tags())
            else:
                for item in _list_items(text):
                    yield Proposal(item.text, _kind(item.heading), via)


def _codex_memories(place: Place) -> Iterator[Proposal]:
    """Yield the items in those sections of Codex's memories that name the project's folder."""
    path = place.folder("CODEX_HOME", ".codex") / "memories" / "MEMORY.md"
    text = _read(path, place) if path.is_file() else ""
    root = str(place.root)
    for section in re.split(r"(?m)^(?=# )", text):
        if root in section:
            for item in _list_items(section):
                if root not in item.text:
                    yield Proposal(item.text, _kind(item.heading), "Codex memories")
        elif section.strip():
            heading = section.splitlines()[0][:_MAX_QUOTED_HEADING]
            place.notes.append(
                f"{path}: {heading!r} does not name a folder of this project, not mapped"
            )


def _rules(place: Place) -> Iterator[Proposal]:
    """Yield the list items in the project's rule files."""
    for pattern in _RULE_FILES:
        for path in sorted(place.root.glob(pattern)):
            yield from _rule_file(path, place)


def _rule_file(path: Path, place: Place) -> Iterator[Proposal]:
    text = _read(path, place)
    name = str(path.relative_to(place.root))
    items = list(_list_items(text))
    for item in items:
        yield Proposal(item.text, _kind(item.heading, MemoryKind.PATTERN), name)
    if text.strip() and not items:
        place.notes.append(f"{name}: contains no list, not mapped")
        return
    lines = _paragraph_lines(text)
    if lines:
        numbers = ", ".join(map(str, lines))
        place.notes.append(f"{name}: text outside lists, not mapped, at line {numbers}")


class _Commit(NamedTuple):
    """The parts of a commit that a proposal can quote."""

    hash: str
    day: str
    subject: str
    body: str


def _git(place: Place, since: str) -> Iterator[Proposal]:
    """Yield the reverts and decisions in the git history."""
    for commit in _commits(place.root, since):
        via = f"git {commit.hash} of {commit.day}"
        reverted = _REVERTED.search(commit.body)
        if reverted:
            text = f"{commit.subject} ({reverted[1][:_SHORT_COMMIT]} was reverted)"
            reason = " ".join(commit.body.replace(reverted[0], "").split())
            if reason:
                text = f"{text}: {reason}"
            yield Proposal(text, MemoryKind.FIX, via)
        decisions = list(_DECISION.finditer(commit.body))
        for decision in decisions:
            text = f"{commit.subject}: {' '.join(decision['text'].split())}"
            yield Proposal(text, MemoryKind.DECISION, via)
        decided = _DECIDED.match(commit.subject)
        if decided and not decisions:
            yield Proposal(decided["text"] or commit.subject, MemoryKind.DECISION, via)


def _commits(root: Path, since: str) -> Iterator[_Commit]:
    """Yield recent commits without merges, newest first."""
    arguments = [
        "log",
        "--no-merges",
        f"--max-count={_MAX_COMMITS}",
        "--format=%h%x1f%cs%x1f%s%x1f%b%x1e",
    ]
    if since:
        arguments.append(f"--since={since}")
    for entry in Repository(root).answer(*arguments).split("\x1e"):
        commit, _, rest = entry.strip().partition("\x1f")
        day, _, rest = rest.partition("\x1f")
        subject, _, body = rest.partition("\x1f")
        yield _Commit(commit, day, subject, body)


READERS: dict[str, Callable[[Place], Iterator[Proposal]]] = {
    "claude-mem": _claude_mem,
    "basic-memory": _basic_memory,
    "engram": _engram,
    "auto-memory": _auto_memory,
    "codex-memories": _codex_memories,
    "rules": _rules,
}
"""The functions that read each store whose memories can be proposed.

There is none for ralph-orchestrator's memories.md, because Ralph reads that file in place.
"""
GIT = "git"


def propose(
    root: Path, names: Iterable[str], place: Place, *, really: bool, since: str = ""
) -> list[Found]:
    """Find the memories in the named stores that are new to the project.

    With `really`, they are proposed.
    """
    ledger = Ledger(root)
    collector = _ProposalCollector(root, ledger)
    found = []
    for name in names:
        result = Found(name, "memories")
        proposals = _git(place, since) if name == GIT else READERS[name](place)
        for proposal in proposals:
            text = collector.clean(proposal)
            result.count += 1
            result.bytes += len(text)
            if collector.is_new(text):
                result.new += 1
                collector.add(text, proposal)
        found.append(result)
    if really and collector.held:
        quarantine.hold_all(root, collector.held)
        ledger.add(collector.states)
        for result in found:
            result.added = result.new
    return [result for result in found if result.count]


class _ProposalCollector:
    """Collects the proposals that are new to the project, each only once."""

    _LEDGER_SOURCE = "proposal"
    _LEDGER_MARK = "1"

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self.held: list[HeldMemory] = []
        self.states: list[_ImportedState] = []
        self._ledger = ledger
        self._patterns = privacy_rules(root).patterns
        self._forgotten = forgotten.load()
        self._known = {normalise_text(held.text) for held in quarantine.held(root)}
        for stored in memory.list_(root, in_=(memory.ALL,)):
            if stored.record.status is not Status.RETIRED:
                self._known.add(normalise_text(stored.record.text))

    def clean(self, proposal: Proposal) -> str:
        """Return a proposal's text on one line, shortened and without secrets."""
        line = " ".join(proposal.text.split())[:_MAX_PROPOSAL_CHARACTERS]
        return redact(line, self._patterns).text.strip()

    def is_new(self, text: str) -> bool:
        """Return whether the text is long enough and is not known, imported or forgotten."""
        if len(text) < _MIN_PROPOSAL_CHARACTERS or normalise_text(text) in self._known:
            return False
        if self._ledger.has(self._LEDGER_SOURCE, _digest(text), self._LEDGER_MARK):
            return False
        return not self._forgotten.has(text)

    def add(self, text: str, proposal: Proposal) -> None:
        """Collect a new proposal, leaving out tags that contain a secret."""
        self._known.add(normalise_text(text))
        tags = [
            tag for tag in dict.fromkeys(proposal.tags) if redact(tag, self._patterns).text == tag
        ]
        self.held.append(
            HeldMemory(
                "",
                "",
                text,
                kind=proposal.kind.value,
                tags=tuple(tags[:_MAX_PROPOSAL_TAGS]),
                by=quarantine.IMPORT,
                via=proposal.via,
            )
        )
        self.states.append(_ImportedState(self._LEDGER_SOURCE, _digest(text), self._LEDGER_MARK))


def _digest(text: str) -> str:
    """Return the ledger key for a proposal's text."""
    raw = normalise_text(text).encode("utf-8", "replace")
    return hashlib.sha256(raw).hexdigest()[:_KEY_DIGITS]
