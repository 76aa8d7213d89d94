"""`ralph import`: what agents and other memory tools have already stored about a project.

A transcript becomes the log of its session: every event is redacted, interpreted and attributed by the functions that
hooks use, and written with one atomic replacement. What a log already has, by id, call or text, is not added again, so
that a kill, a second run or a session that hooks recorded changes nothing. Memories of other tools, of rule files and
of git's history become proposals for `review`, each once. A ledger remembers the state in which each source was read.
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
from typing import NamedTuple

from ralph.capture import summary as summaries
from ralph.capture.events import event_of, patch_edits, reads_only
from ralph.capture.pipeline import observe, session_of
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
from ralph.storage import files, foreign, forgotten
from ralph.storage.config import privacy_rules
from ralph.storage.sources import EVENT, Format, Interpret, Source, contents

_CHUNK = 4_000_000  # characters that are collected before a log is written
_MOST_RECORDS = 20_000  # of a session, for its summary
_HOST_MEMBERS = ("session_id", "cwd", "tool_use_id")
_EDIT_MEMBERS = ("old_string", "new_string", "edits", "content")
_LARGEST = 4_000_000  # bytes of a file or chunk
# characters of a proposal
_LONGEST = 2_000
_SHORTEST = 12
_MOST_TAGS = 6
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
_KINDS = {
    "bugfix": "fix",
    "bug": "fix",
    "problem": "fix",
    "error": "fix",
    "architecture": "decision",
}
_OWN = re.compile(r"<!-- ralph:start.*?<!-- ralph:end[^>]*-->|<!--.*?-->", re.DOTALL)
_BULLET = re.compile(r"(?P<indent> {0,3})(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*$")
_OBSERVATION = re.compile(
    r"(?!\[[ x-]\])(?:\[(?P<kind>[^\]\[()]{1,40})\]\s+)?(?P<text>.+)"
)  # and no task of a list
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,40})")
_DECISION = re.compile(
    r"(?mi)^(?:decision|decided|rationale|why|trade-?off|breaking change)s?:\s*(?P<text>\S.*(?:\n\S.*)*)"
)
_DECIDED = re.compile(  # a subject that is a decision: a mark before its text, or a sentence
    r"(?i)(?:decision|decided?):\s*(?P<text>\S.*)"
    r"|(?:we (?:have )?)?(?:decided (?:to|that|on|against|for)\b|chose .+ over )"
)
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,40})\b[^\n]*")
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
        self._root = root
        self._path = paths.import_ledger(root)
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
        lines = (
            encode_line("import", {"source": each[0], "key": each[1], "mark": each[2]})
            for each in states
        )
        files.append(self._path, "".join(lines), root=paths.state_boundary(self._root))


def sources_named(
    names: Sequence[str], every: tuple[str, ...], *, extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the sources that were named, for none all but the extra ones; UsageError lists the valid ones."""
    if wrong := [name for name in names if name not in (*every, *extra)]:
        raise UsageError(
            f"{wrong[0]!r} is no source of an import", hint=f"one of {', '.join((*every, *extra))}"
        )
    return tuple(dict.fromkeys(names)) or every


def import_histories(
    root: Path,
    names: Sequence[str],
    place: Place,
    *,
    really: bool,
    progress: Progress | None = None,
) -> list[Found]:
    """Find the transcripts of these clients, and with `really` import those that are new or have changed."""
    ledger = Ledger(root)
    found = dict[str, Found]()
    waiting: list[Transcript] = []
    for name in names:
        each = found[name] = Found(name, "sessions")
        for transcript in histories.find(place, name):
            is_new = not ledger.has(name, transcript.key, transcript.mark)
            each.count = each.count + 1
            each.new = each.new + is_new
            each.bytes = each.bytes + transcript.size
            if is_new:
                waiting.append(transcript)
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
        self._root = root
        self._privacy = privacy_rules(root)
        self._forgotten = forgotten.load()
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
            log = logs[session]
            payload = self._redact(event.payload)
            happened = (
                event_of(event.reader, event.event, payload, event.at)
                if payload is not None
                else None
            )
            if happened is None:
                continue
            happened = replace(happened, host=transcript.source)
            log.fields = log.fields or dict(session_of(happened, patterns=None) or {})
            record = observe(happened, patterns=None, paths=self._privacy.paths)
            if record is None or self._forgotten.hides(record):
                continue
            keys = (
                forgotten.session_key(session, record.text),
                forgotten.session_key(session, call=happened.call),
            )
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
    parameters = payload.get("tool_input")
    answer = payload.get("tool_response")
    if (
        not isinstance(parameters, dict)
        or not isinstance(answer, Mapping)
        or "filePath" not in answer
    ):
        return payload
    if edits := [
        {"old_string": edit.before, "new_string": edit.after} for edit in patch_edits(answer)
    ]:
        parameters = {
            name: value for name, value in parameters.items() if name not in _EDIT_MEMBERS
        }
        parameters["edits"] = edits
    kept = {name: answer[name] for name in ("filePath", "originalFile") if name in answer}
    return {**payload, "tool_input": parameters, "tool_response": kept}


class SessionLog:
    """The log of one session, and what is to be added to it."""

    def __init__(self, root: Path, session: str, interpret: Interpret) -> None:
        self.session = session
        self.size = 0
        self.fields: dict[str, object] = {}
        logs = [paths.packed_log(root, session), paths.session_log(root, session)]
        self._path = logs[logs[1].exists()]
        self._boundary = paths.state_boundary(root)
        self._lines = list[str]()
        self._added = 0
        text = "".join(files.read(path) or "" for path in logs)
        source = Source(self._path, self._path.name, Format.LOG)
        records = (
            [placed.record for placed in contents(source, text, interpret).records] if text else []
        )
        notes = (record for record in records if record.kind is ObservationKind.NOTE)
        self._ids = {record.id for record in records}
        self._notes = Counter((note.title, note.text) for note in notes)
        self._records = deque(records, maxlen=_MOST_RECORDS)
        payloads = [
            value.get("payload") for kind, value in contents(source, text).lines if kind == EVENT
        ]
        self._calls = {
            payload.get("tool_use_id") for payload in payloads if isinstance(payload, Mapping)
        }

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
            files.update(
                self._path,
                lambda text: join_lines(text, new),
                root=self._boundary,
                mode=files.PRIVATE,
            )
        self._lines = []
        self.size = 0

    def finish(self) -> int:
        """Write the rest, and the session's summary; return how many observations were added."""
        if self._added:
            summary = summaries.summary(list(self._records))
            text = summaries.text(summary, summaries.TOKENS, estimate)
            times = [record.created_at for record in self._records if record.created_at]
            known = {
                "started_at": min(times, default=""),
                "updated_at": max(times, default=""),
                "summary": text,
            }
            members = {**self.fields, **{key: value for key, value in known.items() if value}}
            self._lines.append(
                encode_line(
                    "session", {**members, **({"tags": list(summary.tags)} if text else {})}
                )
            )
            self.write()
        return self._added


# --- memories of other tools -----------------------------------------------------------------------


class Proposal(NamedTuple):
    """A text that may become a memory, and where it comes from."""

    text: str
    kind: MemoryKind
    via: str
    tags: tuple[str, ...] = ()


def _kind(word: object, default: MemoryKind = MemoryKind.CONTEXT) -> MemoryKind:
    name = str(word or "").strip().lower()
    return kind_of(_KINDS.get(name, name)) or default


def _texts(value: object) -> list[str]:
    """Return a list of texts, also one that is written as JSON."""
    try:
        value = json.loads(value) if isinstance(value, str) and value.startswith("[") else value
    except (ValueError, RecursionError):
        return []
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _read(path: Path, place: Place) -> str:
    """Return the text of a file; "" with a note for what is too large or cannot be read, and for a link."""
    try:
        if not path.is_symlink() and path.stat().st_size <= _LARGEST:
            return files.read(path) or ""
        place.notes.append(f"{path}: a link, or larger than {_LARGEST:,} bytes, left out")
    except (RalphError, OSError) as error:
        place.notes.append(f"{path}: cannot be read: {error}")
    return ""


def bullets(text: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every item of a list, with its further lines; not of code blocks and comments."""
    heading = ""
    item = ""
    fenced = False
    for line in [*_OWN.sub("", text).splitlines(), ""]:
        match = None if fenced else _BULLET.match(line)
        if item and (match or fenced or not line.strip() or not line.startswith("  ")):
            yield heading, item
            item = ""
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif match:
            item = match["text"]
        elif item:
            item = f"{item} {line.strip()}"
        elif not fenced and (title := _HEADING.match(line)):
            heading = title["title"]


def _prose(text: str) -> list[int]:
    """Return the first line of every paragraph that is in no list, code block, comment or front matter."""
    matter = read_front_matter(text)
    start = matter.body if isinstance(matter, FrontMatter) else 0
    head = "\n" * text[:start].count("\n")
    found = list[int]()
    is_open = False
    in_item = False
    fenced = False
    for number, line in enumerate(
        _OWN.sub(lambda own: "\n" * own[0].count("\n"), head + text[start:]).splitlines(), 1
    ):
        is_fence = line.lstrip().startswith("```")
        fenced = fenced != is_fence
        is_text = any(map(str.isalnum, line)) and not (is_fence or fenced or _HEADING.match(line))
        in_item = is_text and (bool(_BULLET.match(line)) or (in_item and line.startswith("  ")))
        if is_text and not is_open and not in_item:
            found.append(number)
        is_open = is_text and not in_item
    return found


def _claude_mem(place: Place) -> Iterator[Proposal]:
    path = place.folder("CLAUDE_MEM_DATA_DIR", ".claude-mem") / "claude-mem.db"
    if not path.is_file():
        return
    try:
        with foreign.open_store(path) as connection:
            for row in foreign.claude_mem_observations(
                connection, paths.main_checkout(place.root).name
            ):
                body = row["narrative"] or " ".join(_texts(row["facts"])) or row["subtitle"] or ""
                text = (
                    f"{row['title']}: {body}"
                    if row["title"] and body
                    else row["title"] or body or row["text"]
                )
                tags = tuple(_texts(row["concepts"]))
                yield Proposal(
                    text,
                    _kind(row["type"]),
                    f"claude-mem {row['id']} of {row['created_at'][:10]}",
                    tags,
                )
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")


def _basic_memory(place: Place) -> Iterator[Proposal]:
    config = read_json(
        place.folder("BASIC_MEMORY_CONFIG_DIR", ".basic-memory") / "config.json", place.notes
    )
    projects = config.get("projects") if isinstance(config, dict) else None
    for name, value in projects.items() if isinstance(projects, dict) else ():
        folder = Path(str(value.get("path") if isinstance(value, dict) else value))
        if name == place.root.name or place.has(str(folder)):
            for path in sorted(folder.rglob("*.md")):
                yield from _basic_note(path, folder, place)


def _basic_note(path: Path, folder: Path, place: Place) -> Iterator[Proposal]:
    text = _read(path, place)
    via = f"basic-memory {path.relative_to(folder)}"
    matter = read_front_matter(text)
    tags = matter.tags() if isinstance(matter, FrontMatter) else ()
    is_mapped = False
    for match in (_OBSERVATION.match(item) for _, item in bullets(text)):
        own = _TAG.findall(match["text"]) if match is not None else []
        if match is not None and (match["kind"] or own):
            is_mapped = True
            yield Proposal(
                _TAG.sub("", match["text"]).strip(), _kind(match["kind"]), via, (*own, *tags)
            )
    if text and not is_mapped:
        place.notes.append(f"{path}: a note without observations, not mapped")


def _engram(place: Place) -> Iterator[Proposal]:
    for path in sorted((place.root / ".engram" / "chunks").glob("*.jsonl*")):
        try:
            with files.open_regular(path) as raw:
                file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
                text = file.read(_LARGEST).decode("utf-8", "replace")
            values = (
                [json.loads(text)]
                if "\n{" not in text.strip()
                else [*map(json.loads, text.strip().split("\n"))]
            )
        except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            place.notes.append(f"{path}: cannot be read: {type(error).__name__}")
            continue
        for value in values:
            for each in value.get("observations", [value]) if isinstance(value, dict) else ():
                body = str(each.get("content") or "") if isinstance(each, dict) else ""
                if body:
                    title = str(each.get("title") or "")
                    text = f"{title}: {body}" if title and title not in body else body
                    yield Proposal(
                        text, _kind(each.get("type")), f"engram {path.name.partition('.')[0]}"
                    )


def _auto_memory(place: Place) -> Iterator[Proposal]:
    for folder in claude_folders(place):
        notes = [
            path for path in sorted((folder / "memory").glob("*.md")) if path.name != "MEMORY.md"
        ]
        for path in notes or sorted((folder / "memory").glob("MEMORY.md")):
            text = _read(path, place)
            via = f"Claude Code's memory {path.name}"
            matter = read_front_matter(text)
            if notes and isinstance(matter, FrontMatter):
                text = text[matter.body :].strip() or matter.text("description")
                yield Proposal(text, _kind(matter.text("type")), via, matter.tags())
            else:
                yield from (Proposal(item, _kind(heading), via) for heading, item in bullets(text))


def _codex_memories(place: Place) -> Iterator[Proposal]:
    path = place.folder("CODEX_HOME", ".codex") / "memories" / "MEMORY.md"
    text = _read(path, place) if path.is_file() else ""
    for section in re.split(r"(?m)^(?=# )", text):
        if str(place.root) in section:  # it names the folder that it applies to
            items = [item for item in bullets(section) if str(place.root) not in item[1]]
            yield from (Proposal(item, _kind(heading), "Codex memories") for heading, item in items)
        elif section.strip():
            place.notes.append(
                f"{path}: {section.splitlines()[0][:80]!r} names no folder of this project, not mapped"
            )


def _rules(place: Place) -> Iterator[Proposal]:
    for path in [path for name in _RULE_FILES for path in sorted(place.root.glob(name))]:
        text = _read(path, place)
        name = str(path.relative_to(place.root))
        items = list(bullets(text))
        yield from (
            Proposal(item, _kind(heading, MemoryKind.PATTERN), name) for heading, item in items
        )
        if text.strip() and not items:
            place.notes.append(f"{name}: no list in it, not mapped")
        elif lines := _prose(text):
            place.notes.append(
                f"{name}: text outside of lists, not mapped, at line {', '.join(map(str, lines))}"
            )


def _git(place: Place, since: str) -> Iterator[Proposal]:
    words = ("log", "--no-merges", "--max-count=20000", "--format=%h%x1f%cs%x1f%s%x1f%b%x1e")
    for entry in (
        Repository(place.root)
        .answer(*words, *([f"--since={since}"] if since else []))
        .split("\x1e")
    ):
        commit, _, rest = entry.strip().partition("\x1f")
        day, _, rest = rest.partition("\x1f")
        subject, _, body = rest.partition("\x1f")
        via = f"git {commit} of {day}"
        if reverted := _REVERTED.search(body):
            why = " ".join(body.replace(reverted[0], "").split())
            text = f"{subject} ({reverted[1][:10]} was reverted){f': {why}' if why else ''}"
            yield Proposal(text, MemoryKind.FIX, via)
        if not (decisions := list(_DECISION.finditer(body))) and (
            decided := _DECIDED.match(subject)
        ):
            yield Proposal(decided["text"] or subject, MemoryKind.DECISION, via)
        for match in decisions:
            yield Proposal(
                f"{subject}: {' '.join(match['text'].split())}", MemoryKind.DECISION, via
            )


_READERS = (_claude_mem, _basic_memory, _engram, _auto_memory, _codex_memories, _rules)
READERS = {reader.__name__.removeprefix("_").replace("_", "-"): reader for reader in _READERS}
"""Every store whose memories can be proposed; ralph-orchestrator's memories.md is read where it is."""
GIT = "git"


def propose(
    root: Path, names: Iterable[str], place: Place, *, really: bool, since: str = ""
) -> list[Found]:
    """Find what these stores have that is new here, and with `really` propose it."""
    ledger = Ledger(root)
    patterns = privacy_rules(root).patterns
    hidden = forgotten.load()
    stored = memory.list_(root, in_=(memory.ALL,))
    known = {
        normalise_text(each.record.text)
        for each in stored
        if each.record.status is not Status.RETIRED
    }
    known |= {normalise_text(each.text) for each in quarantine.held(root)}
    found = list[Found]()
    new = list[tuple[str, HeldMemory]]()
    for name in names:
        each = Found(name, "memories")
        for proposal in _git(place, since) if name == GIT else READERS[name](place):
            text = redact(" ".join(proposal.text.split())[:_LONGEST], patterns).text.strip()
            key = hashlib.sha256(normalise_text(text).encode("utf-8", "replace")).hexdigest()[:16]
            each.count = each.count + 1
            each.bytes = each.bytes + len(text)
            is_known = (
                normalise_text(text) in known
                or ledger.has("proposal", key, "1")
                or hidden.has(text)
            )
            if is_known or len(text) < _SHORTEST:
                continue
            known.add(normalise_text(text))
            each.new += 1
            tags = tuple(
                tag for tag in dict.fromkeys(proposal.tags) if redact(tag, patterns).text == tag
            )[:_MOST_TAGS]
            held = HeldMemory(
                "",
                "",
                text,
                kind=proposal.kind.value,
                tags=tags,
                by=quarantine.IMPORT,
                via=proposal.via,
            )
            new.append((key, held))
        found.append(each)
    if really and new:
        quarantine.hold_all(root, [held for _, held in new])
        ledger.add(*(("proposal", key, "1") for key, _ in new))
        for each in found:
            each.added = each.new
    return [each for each in found if each.count]
