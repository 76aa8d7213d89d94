"""Read the memories that other tools have stored about a project.

Each reader yields proposals, which a person accepts or rejects in `ralph review`. Rule files such
as AGENTS.md and the git history are read in the same way. There is no reader for
ralph-orchestrator's memories.md, because Ralph reads that file in place.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.record import MemoryKind, kind_of
from ralph.core.repository import Repository
from ralph.formats.front_matter import FrontMatter, read_front_matter
from ralph.sharing.foreign_files import read_json
from ralph.sharing.histories import claude_folders
from ralph.sharing.import_context import ImportContext
from ralph.sharing.markdown_items import list_items, paragraph_lines
from ralph.storage import files, foreign

_MAX_FILE_BYTES = 4_000_000  # for a note, a rule file or a chunk
_MAX_QUOTED_HEADING = 80  # characters
_MAX_COMMITS = 20_000
_DAY_CHARACTERS = len("2026-01-31")  # a timestamp up to its day
_SHORT_COMMIT = 10  # digits of a commit's hash in a proposal
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
# An observation in a note of Basic Memory: "[decision] Tokens rotate with the key #auth".
_OBSERVATION = re.compile(
    r"(?!\[[ x-]\])"  # not an item in a to-do list
    r"(?:\[(?P<kind>[^\]\[()]{1,40})\]\s+)?"
    r"(?P<text>.+)"
)
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,40})")
# A labelled paragraph in a commit's body: "Rationale: two servers share no memory".
_DECISION = re.compile(
    r"(?mi)^(?:decision|decided|rationale|why|trade-?off|breaking change)s?:\s*"
    r"(?P<text>\S.*(?:\n\S.*)*)"  # up to the next blank line
)
_DECIDED = re.compile(
    r"(?i)(?:decision|decided?):\s*(?P<text>\S.*)"  # "Decision: use Redis"
    r"|(?:we (?:have )?)?(?:decided (?:to|that|on|against|for)\b|chose .+ over )"  # a sentence
)
"""Matches a commit's subject that announces a decision."""
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,40})\b[^\n]*")


class Proposal(NamedTuple):
    """Text that may become a memory, and where it comes from."""

    text: str
    kind: MemoryKind
    via: str
    tags: tuple[str, ...] = ()


def _kind(word: object, default: MemoryKind = MemoryKind.CONTEXT) -> MemoryKind:
    """Translate another tool's name for a kind of memory."""
    name = str(word or "").strip().lower()
    return kind_of(_KIND_ALIASES.get(name, name)) or default


def _texts(value: object) -> list[str]:
    """Return the strings in a list. A list that is encoded as JSON is decoded first."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if not isinstance(value, list):
        return []
    return [text for text in value if isinstance(text, str)]


def _read(path: Path, context: ImportContext) -> str:
    """Return the text of a file.

    If the file is a symlink, too large or unreadable, a note is added and "" is returned.
    """
    try:
        if not path.is_symlink() and path.stat().st_size <= _MAX_FILE_BYTES:
            return files.read(path) or ""
        context.notes.append(f"{path}: skipped, a symlink or larger than {_MAX_FILE_BYTES:,} bytes")
    except (RalphError, OSError) as error:
        context.notes.append(f"{path}: cannot be read: {error}")
    return ""


def _claude_mem(context: ImportContext) -> Iterator[Proposal]:
    """Yield the observations in claude-mem's database."""
    path = context.folder("CLAUDE_MEM_DATA_DIR", ".claude-mem") / "claude-mem.db"
    if not path.is_file():
        return
    project = paths.main_checkout(context.root).name
    try:
        with foreign.open_store(path) as connection:
            for row in foreign.claude_mem_observations(connection, project):
                via = f"claude-mem {row['id']} of {row['created_at'][:_DAY_CHARACTERS]}"
                tags = tuple(_texts(row["concepts"]))
                yield Proposal(_claude_mem_text(row), _kind(row["type"]), via, tags)
    except sqlite3.Error as error:
        context.notes.append(f"{path}: cannot be read: {error}")


def _claude_mem_text(row: Mapping[str, Any]) -> str:
    body = row["narrative"] or " ".join(_texts(row["facts"])) or row["subtitle"] or ""
    if row["title"] and body:
        return f"{row['title']}: {body}"
    text: str = row["title"] or body or row["text"]
    return text


def _basic_memory(context: ImportContext) -> Iterator[Proposal]:
    """Yield the observations in Basic Memory's notes."""
    config_folder = context.folder("BASIC_MEMORY_CONFIG_DIR", ".basic-memory")
    config = read_json(config_folder / "config.json", context.notes)
    projects = config.get("projects") if isinstance(config, dict) else None
    if not isinstance(projects, dict):
        return
    for name, value in projects.items():
        folder = Path(str(value.get("path") if isinstance(value, dict) else value))
        if name == context.root.name or context.is_in_project(str(folder)):
            for path in sorted(folder.rglob("*.md")):
                yield from _basic_memory_note(path, folder, context)


def _basic_memory_note(path: Path, folder: Path, context: ImportContext) -> Iterator[Proposal]:
    text = _read(path, context)
    via = f"basic-memory {path.relative_to(folder)}"
    matter = read_front_matter(text)
    note_tags = matter.tags() if isinstance(matter, FrontMatter) else ()
    has_observations = False
    for item in list_items(text):
        observation = _OBSERVATION.match(item.text)
        if observation is None:
            continue
        tags = _TAG.findall(observation["text"])
        if observation["kind"] or tags:
            has_observations = True
            body = _TAG.sub("", observation["text"]).strip()
            yield Proposal(body, _kind(observation["kind"]), via, (*tags, *note_tags))
    if text and not has_observations:
        context.notes.append(f"{path}: a note without observations, not mapped")


def _engram(context: ImportContext) -> Iterator[Proposal]:
    """Yield the observations in the project's engram chunks."""
    for path in sorted((context.root / ".engram" / "chunks").glob("*.jsonl*")):
        try:
            values = _read_engram_chunk(path)
        except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            context.notes.append(f"{path}: cannot be read: {type(error).__name__}")
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


def _auto_memory(context: ImportContext) -> Iterator[Proposal]:
    """Yield the memories that Claude Code keeps about the project.

    MEMORY.md is an index of the other notes, so it is read only if there are none.
    """
    for folder in claude_folders(context):
        paths_found = sorted((folder / "memory").glob("*.md"))
        notes = [path for path in paths_found if path.name != "MEMORY.md"]
        for path in notes or paths_found:
            text = _read(path, context)
            via = f"Claude Code's memory {path.name}"
            matter = read_front_matter(text)
            if notes and isinstance(matter, FrontMatter):
                body = text[matter.body_start :].strip() or matter.text("description")
                yield Proposal(body, _kind(matter.text("type")), via, matter.tags())
            else:
                for item in list_items(text):
                    yield Proposal(item.text, _kind(item.heading), via)


def _codex_memories(context: ImportContext) -> Iterator[Proposal]:
    """Yield the list items from all sections of Codex's memories that mention this project."""
    path = context.folder("CODEX_HOME", ".codex") / "memories" / "MEMORY.md"
    text = _read(path, context) if path.is_file() else ""
    root = str(context.root)
    for section in re.split(r"(?m)^(?=# )", text):
        if root in section:
            for item in list_items(section):
                if root not in item.text:
                    yield Proposal(item.text, _kind(item.heading), "Codex memories")
        elif section.strip():
            heading = section.splitlines()[0][:_MAX_QUOTED_HEADING]
            context.notes.append(
                f"{path}: {heading!r} does not name a folder of this project, not mapped"
            )


def _rules(context: ImportContext) -> Iterator[Proposal]:
    """Yield the list items in the project's rule files."""
    for pattern in _RULE_FILES:
        for path in sorted(context.root.glob(pattern)):
            yield from _rule_file(path, context)


def _rule_file(path: Path, context: ImportContext) -> Iterator[Proposal]:
    text = _read(path, context)
    name = str(path.relative_to(context.root))
    items = list(list_items(text))
    for item in items:
        yield Proposal(item.text, _kind(item.heading, MemoryKind.PATTERN), name)
    if text.strip() and not items:
        context.notes.append(f"{name}: contains no list, not mapped")
        return
    lines = paragraph_lines(text)
    if lines:
        numbers = ", ".join(map(str, lines))
        context.notes.append(f"{name}: text outside lists, not mapped, at line {numbers}")


class _Commit(NamedTuple):
    """The parts of a commit that a proposal may quote."""

    hash: str
    day: str
    subject: str
    body: str


def git_proposals(context: ImportContext, since: str) -> Iterator[Proposal]:
    """Yield the reverts and decisions that commits mention, newest first."""
    for commit in _commits(context.root, since):
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
    for entry in Repository(root).output_or_empty(*arguments).split("\x1e"):
        commit, _, rest = entry.strip().partition("\x1f")
        day, _, rest = rest.partition("\x1f")
        subject, _, body = rest.partition("\x1f")
        yield _Commit(commit, day, subject, body)


READERS: dict[str, Callable[[ImportContext], Iterator[Proposal]]] = {
    "claude-mem": _claude_mem,
    "basic-memory": _basic_memory,
    "engram": _engram,
    "auto-memory": _auto_memory,
    "codex-memories": _codex_memories,
    "rules": _rules,
}
"""The readers by the name of their source. The git history is read only on request."""
