"""Memories of other tools, of rule files and of git's history, as proposals that a person decides about in `review`.

Each reader yields proposals with where they come from; what has another form is named in the notes. A proposal is
redacted, and made once: what is a memory, was proposed, rejected or forgotten before is not proposed again.
"""

import gzip
import hashlib
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import memory, quarantine
from ralph.app.config import privacy_rules
from ralph.app.histories import Place, claude_folders, read_json
from ralph.app.imports import Found, Ledger
from ralph.app.quarantine import HeldMemory
from ralph.app.repository import Repository
from ralph.capture.privacy import redact
from ralph.errors import RalphError
from ralph.formats.knowledge import FrontMatter, read_front_matter
from ralph.formats.text import normalise_text
from ralph.model.record import MemoryKind, Status, kind_of
from ralph.store import files, foreign, forgotten

_LARGEST = 4_000_000  # bytes of a file or chunk
_LONGEST, _SHORTEST = 2_000, 12  # characters of a proposal
_MOST_TAGS = 6
_RULE_FILES = (
    "CLAUDE.md .claude/CLAUDE.md AGENTS.md GEMINI.md .cursorrules .cursor/rules/*.mdc .windsurfrules "
    ".windsurf/rules/*.md .clinerules/*.md .github/copilot-instructions.md"
).split()
_KINDS = {"bugfix": "fix", "bug": "fix", "problem": "fix", "error": "fix", "architecture": "decision"}
_OWN = re.compile(r"<!-- ralph:start.*?<!-- ralph:end[^>]*-->|<!--.*?-->", re.DOTALL)
_BULLET = re.compile(r"(?P<indent> {0,3})(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*$")
_OBSERVATION = re.compile(r"(?!\[[ x-]\])(?:\[(?P<kind>[^\]\[()]{1,40})\]\s+)?(?P<text>.+)")  # and no task of a list
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,40})")
_DECISION = re.compile(
    r"(?mi)^(?:decision|decided|rationale|why|trade-?off|breaking change)s?:\s*(?P<text>\S.*(?:\n\S.*)*)"
)
_DECIDED = re.compile(  # a subject that is a decision: a mark before its text, or a sentence
    r"(?i)(?:decision|decided?):\s*(?P<text>\S.*)"
    r"|(?:we (?:have )?)?(?:decided (?:to|that|on|against|for)\b|chose .+ over )"
)
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,40})\b[^\n]*")


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
    heading, item, fenced = "", "", False
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
    found, is_open, in_item, fenced = list[int](), False, False, False
    for number, line in enumerate(_OWN.sub(lambda own: "\n" * own[0].count("\n"), head + text[start:]).splitlines(), 1):
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
            for row in foreign.claude_mem_observations(connection, paths.main_checkout(place.root).name):
                body = row["narrative"] or " ".join(_texts(row["facts"])) or row["subtitle"] or ""
                text = f"{row['title']}: {body}" if row["title"] and body else row["title"] or body or row["text"]
                tags = tuple(_texts(row["concepts"]))
                yield Proposal(text, _kind(row["type"]), f"claude-mem {row['id']} of {row['created_at'][:10]}", tags)
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")


def _basic_memory(place: Place) -> Iterator[Proposal]:
    config = read_json(place.folder("BASIC_MEMORY_CONFIG_DIR", ".basic-memory") / "config.json", place.notes)
    projects = config.get("projects") if isinstance(config, dict) else None
    for name, value in projects.items() if isinstance(projects, dict) else ():
        folder = Path(str(value.get("path") if isinstance(value, dict) else value))
        if name == place.root.name or place.has(str(folder)):
            for path in sorted(folder.rglob("*.md")):
                yield from _basic_note(path, folder, place)


def _basic_note(path: Path, folder: Path, place: Place) -> Iterator[Proposal]:
    text, via = _read(path, place), f"basic-memory {path.relative_to(folder)}"
    matter = read_front_matter(text)
    tags = matter.tags() if isinstance(matter, FrontMatter) else ()
    is_mapped = False
    for match in (_OBSERVATION.match(item) for _, item in bullets(text)):
        own = _TAG.findall(match["text"]) if match is not None else []
        if match is not None and (match["kind"] or own):
            is_mapped = True
            yield Proposal(_TAG.sub("", match["text"]).strip(), _kind(match["kind"]), via, (*own, *tags))
    if text and not is_mapped:
        place.notes.append(f"{path}: a note without observations, not mapped")


def _engram(place: Place) -> Iterator[Proposal]:
    for path in sorted((place.root / ".engram" / "chunks").glob("*.jsonl*")):
        try:
            with files.open_regular(path) as raw:
                file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
                text = file.read(_LARGEST).decode("utf-8", "replace")
            values = [json.loads(text)] if "\n{" not in text.strip() else [*map(json.loads, text.strip().split("\n"))]
        except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            place.notes.append(f"{path}: cannot be read: {type(error).__name__}")
            continue
        for value in values:
            for each in value.get("observations", [value]) if isinstance(value, dict) else ():
                body = str(each.get("content") or "") if isinstance(each, dict) else ""
                if body:
                    title = str(each.get("title") or "")
                    text = f"{title}: {body}" if title and title not in body else body
                    yield Proposal(text, _kind(each.get("type")), f"engram {path.name.partition('.')[0]}")


def _auto_memory(place: Place) -> Iterator[Proposal]:
    for folder in claude_folders(place):
        notes = [path for path in sorted((folder / "memory").glob("*.md")) if path.name != "MEMORY.md"]
        for path in notes or sorted((folder / "memory").glob("MEMORY.md")):
            text, via = _read(path, place), f"Claude Code's memory {path.name}"
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
            place.notes.append(f"{path}: {section.splitlines()[0][:80]!r} names no folder of this project, not mapped")


def _rules(place: Place) -> Iterator[Proposal]:
    for path in [path for name in _RULE_FILES for path in sorted(place.root.glob(name))]:
        text, name = _read(path, place), str(path.relative_to(place.root))
        items = list(bullets(text))
        yield from (Proposal(item, _kind(heading, MemoryKind.PATTERN), name) for heading, item in items)
        if text.strip() and not items:
            place.notes.append(f"{name}: no list in it, not mapped")
        elif lines := _prose(text):
            place.notes.append(f"{name}: text outside of lists, not mapped, at line {', '.join(map(str, lines))}")


def _git(place: Place, since: str) -> Iterator[Proposal]:
    words = ("log", "--no-merges", "--max-count=20000", "--format=%h%x1f%cs%x1f%s%x1f%b%x1e")
    for entry in Repository(place.root).answer(*words, *([f"--since={since}"] if since else [])).split("\x1e"):
        commit, _, rest = entry.strip().partition("\x1f")
        day, _, rest = rest.partition("\x1f")
        subject, _, body = rest.partition("\x1f")
        via = f"git {commit} of {day}"
        if reverted := _REVERTED.search(body):
            why = " ".join(body.replace(reverted[0], "").split())
            text = f"{subject} ({reverted[1][:10]} was reverted){f': {why}' if why else ''}"
            yield Proposal(text, MemoryKind.FIX, via)
        if not (decisions := list(_DECISION.finditer(body))) and (decided := _DECIDED.match(subject)):
            yield Proposal(decided["text"] or subject, MemoryKind.DECISION, via)
        for match in decisions:
            yield Proposal(f"{subject}: {' '.join(match['text'].split())}", MemoryKind.DECISION, via)


_READERS = (_claude_mem, _basic_memory, _engram, _auto_memory, _codex_memories, _rules)
READERS = {reader.__name__.removeprefix("_").replace("_", "-"): reader for reader in _READERS}
"""Every store whose memories can be proposed; ralph-orchestrator's memories.md is read where it is."""
GIT = "git"


def propose(root: Path, names: Iterable[str], place: Place, *, really: bool, since: str = "") -> list[Found]:
    """Find what these stores have that is new here, and with `really` propose it."""
    ledger, patterns, hidden = Ledger(root), privacy_rules(root).patterns, forgotten.load()
    stored = memory.list_(root, in_=(memory.ALL,))
    known = {normalise_text(each.record.text) for each in stored if each.record.status is not Status.RETIRED}
    known |= {normalise_text(each.text) for each in quarantine.held(root)}
    found, new = list[Found](), list[tuple[str, HeldMemory]]()
    for name in names:
        each = Found(name, "memories")
        for proposal in _git(place, since) if name == GIT else READERS[name](place):
            text = redact(" ".join(proposal.text.split())[:_LONGEST], patterns).text.strip()
            key = hashlib.sha256(normalise_text(text).encode("utf-8", "replace")).hexdigest()[:16]
            each.count, each.bytes = each.count + 1, each.bytes + len(text)
            is_known = normalise_text(text) in known or ledger.has("proposal", key, "1") or hidden.has(text)
            if is_known or len(text) < _SHORTEST:
                continue
            known.add(normalise_text(text))
            each.new += 1
            tags = tuple(tag for tag in dict.fromkeys(proposal.tags) if redact(tag, patterns).text == tag)[:_MOST_TAGS]
            held = HeldMemory("", "", text, kind=proposal.kind.value, tags=tags, by=quarantine.IMPORT, via=proposal.via)
            new.append((key, held))
        found.append(each)
    if really and new:
        quarantine.hold_all(root, [held for _, held in new])
        ledger.add(*(("proposal", key, "1") for key, _ in new))
        for each in found:
            each.added = each.new
    return [each for each in found if each.count]
