"""Find the transcripts that coding agents have written about a project.

A transcript is the file or set of rows in which a client, such as Claude Code or Aider, stores a
session. There is one section per client. Each has a finder, which yields the transcripts that
belong to the project, and a function that reads the events of one transcript. `FINDERS` lists the
finders.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ralph.capture import client_transcripts, text_transcripts, transcripts
from ralph.capture.events import Json
from ralph.capture.transcripts import TranscriptEvent
from ralph.lean import discovery
from ralph.sharing.foreign_files import (
    json_lines,
    json_objects,
    read_json,
    regular_files,
    subfolders,
)
from ralph.sharing.import_context import ImportContext
from ralph.storage import files, foreign

_HEAD_LINES = 40  # lines at the start of a transcript that are searched for its folder
_HEAD_BYTES = 1024 * 1024  # at the start of a transcript in which these lines begin
_DIGEST_DIGITS = 16  # hexadecimal digits of a version
_AIDER_PREFIX_DIGITS = 8  # hexadecimal digits in the session ids for Aider
_CLAUDE_LINES = (b'"type":"user"', b'"type":"assistant"', b'"type": "user"', b'"type": "assistant"')
_CODEX_PREFIX = "rollout-YYYY-MM-DDTHH-MM-SS-"  # before the session's id in a name
_CLINE_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
_CLINE_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_CLINE_FOLDER_MEMBERS = ("cwdOnTaskInitialization", "workspace", "cwd")

Events = Iterator[TranscriptEvent]


class Transcript(NamedTuple):
    """A session that can be imported. `version` changes whenever its content does.

    `session` is the session's id as far as a name tells it, or "" for a part of another session.
    `read` adds notes about what it skips to the list that it is given. It can be pickled, so that
    another process may call it.
    """

    source: str
    session: str
    key: str
    version: str
    size: int
    read: Callable[[list[str]], Events]


# --- reading files -------------------------------------------------------------------------------


def _file_transcript(
    source: str, session: str, parts: Sequence[Path], read: Callable[[list[str]], Events]
) -> Iterator[Transcript]:
    """Yield the transcript that is stored in these files, or nothing if one of them is missing."""
    versions = []
    size = 0
    for path in parts:
        try:
            state = path.lstat()
        except OSError:
            return
        size += state.st_size
        if stat.S_ISREG(state.st_mode):
            versions.append(f"{state.st_size}-{state.st_mtime_ns}")
    yield Transcript(source, session, str(parts[0]), " ".join(versions), size, read)


def _head(context: ImportContext, path: Path, wanted: Sequence[bytes] = ()) -> Iterator[Json]:
    """Yield the first objects of a transcript, or none once the context allows no more heads."""
    if context.heads_left <= 0:
        return
    context.heads_left -= 1
    yield from islice(json_lines(path, [], wanted, max_bytes=_HEAD_BYTES), _HEAD_LINES)


def _first_text(values: Iterable[Json], member: Callable[[Json], object]) -> str:
    """Return the first nonempty string that `member` returns for one of the objects, or ""."""
    for value in values:
        text = member(value)
        if isinstance(text, str) and text:
            return text
    return ""


# --- Claude Code ---------------------------------------------------------------------------------


def claude_folders(context: ImportContext) -> Iterator[Path]:
    """Yield Claude Code's folders for the project.

    Such a folder contains a session of the project, or it contains no sessions and is named after
    the project.
    """
    for folder in subfolders(context.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"):
        if _is_claude_folder_of(context, folder):
            yield folder


def _is_claude_folder_of(context: ImportContext, folder: Path) -> bool:
    has_other_sessions = False
    for path in regular_files(folder, [], ".jsonl"):
        cwd = _claude_cwd(context, path)
        if context.is_in_project(cwd):
            return True
        if cwd:
            has_other_sessions = True
    # The name alone is not enough, because the projects `x/y` and `x-y` share one.
    is_named_after_project = folder.name == re.sub(r"[^A-Za-z0-9]", "-", str(context.root))
    return is_named_after_project and not has_other_sessions


def _claude_cwd(context: ImportContext, path: Path) -> str:
    """Return the folder in which a Claude Code session began."""
    return _first_text(_head(context, path, (b'"cwd"',)), lambda value: value.get("cwd"))


def _claude(context: ImportContext) -> Iterator[Transcript]:
    for folder in claude_folders(context):
        sessions = []
        for path in regular_files(folder, context.notes, ".jsonl"):
            if context.is_in_project(_claude_cwd(context, path)):
                sessions.append(path)
        for path in sorted(sessions, key=_is_subagent):
            subagents = folder / path.stem / "subagents"
            parts = [path, *regular_files(subagents, context.notes, ".jsonl")]
            session = "" if _is_subagent(path) else path.stem
            read = partial(_read_claude, parts)
            yield from _file_transcript("claude", session, parts, read)


def _is_subagent(path: Path) -> bool:
    return path.name.startswith("agent-")


def _read_claude(parts: Sequence[Path], notes: list[str]) -> Events:
    """Return the events of a session and its subagents in chronological order."""
    streams = [
        client_transcripts.read_claude(json_lines(path, notes, _CLAUDE_LINES)) for path in parts
    ]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=attrgetter("at"))


# --- Codex ---------------------------------------------------------------------------------------


def _codex(context: ImportContext) -> Iterator[Transcript]:
    home = context.folder("CODEX_HOME", ".codex")
    found = [
        *(home / "sessions").glob("*/*/*/rollout-*.jsonl"),
        *(home / "archived_sessions").glob("rollout-*.jsonl"),
    ]
    for path in sorted(found):
        first_line = islice(_head(context, path), 1)
        cwd = _first_text(first_line, lambda value: transcripts.member(value, "payload", "cwd"))
        if context.is_in_project(cwd):
            session = path.stem[len(_CODEX_PREFIX) :]
            read = partial(_read_lines, client_transcripts.read_codex, path)
            yield from _file_transcript("codex", session, [path], read)


def _read_lines(read: Callable[[Iterable[Json]], Events], path: Path, notes: list[str]) -> Events:
    return read(json_lines(path, notes))


# --- Gemini CLI ----------------------------------------------------------------------------------


def _gemini(context: ImportContext) -> Iterator[Transcript]:
    root = str(context.root)
    root_digest = hashlib.sha256(root.encode()).hexdigest()  # may be the name of its folder
    for folder in subfolders(context.folder("GEMINI_CLI_HOME") / ".gemini" / "tmp"):
        cwd = discovery.read_text(str(folder / ".project_root")).strip()
        if not cwd and folder.name == root_digest:
            cwd = root
        if context.is_in_project(cwd):
            for path in regular_files(folder / "chats", context.notes, ".json", ".jsonl"):
                read = partial(_read_gemini, path, cwd)
                session = path.stem.rpartition("-")[2]  # the beginning of its id
                yield from _file_transcript("gemini", session, [path], read)


def _read_gemini(path: Path, cwd: str, notes: list[str]) -> Events:
    if path.suffix == ".jsonl":
        return client_transcripts.read_gemini(json_lines(path, notes), cwd)
    return client_transcripts.read_gemini(iter(json_objects([read_json(path, notes)])), cwd)


# --- OpenCode ------------------------------------------------------------------------------------


def _opencode(context: ImportContext) -> Iterator[Transcript]:
    path = context.folder("XDG_DATA_HOME", ".local", "share") / "opencode" / "opencode.db"
    if not path.is_file():
        return

    try:
        with foreign.open_store(path) as connection:
            sessions = foreign.opencode_sessions(connection, context.is_in_project)
    except sqlite3.Error as error:
        context.notes.append(f"{path}: cannot be read: {error}")
        return
    for name, updated_at, size in sessions:
        yield Transcript(
            source="opencode",
            session=name,
            key=f"{path}#{name}",
            version=str(updated_at),
            size=size,
            read=partial(_read_opencode, path, name),
        )


def _read_opencode(path: Path, session: str, _notes: list[str]) -> Events:
    with foreign.open_store(path) as connection:
        yield from client_transcripts.read_opencode(foreign.opencode_parts(connection, session))


# --- Copilot -------------------------------------------------------------------------------------


def _copilot(context: ImportContext) -> Iterator[Transcript]:
    state = context.folder("COPILOT_HOME", ".copilot") / "session-state"
    found = [folder / "events.jsonl" for folder in subfolders(state)]
    found += regular_files(state, context.notes, ".jsonl")
    for path in found:
        cwd = _first_text(
            _head(context, path),
            lambda value: transcripts.member(value, "data", "context", "cwd"),
        )
        if context.is_in_project(cwd):
            session = path.parent.name if path.name == "events.jsonl" else path.stem
            read = partial(_read_lines, client_transcripts.read_copilot, path)
            yield from _file_transcript("copilot", session, [path], read)


# --- Cursor --------------------------------------------------------------------------------------


def _application_folders(context: ImportContext) -> tuple[Path, Path]:
    """Return the folders where applications keep their data, on Linux and on macOS."""
    return (
        context.folder("XDG_CONFIG_HOME", ".config"),
        context.home / "Library" / "Application Support",
    )


def _cursor(context: ImportContext) -> Iterator[Transcript]:
    for applications in _application_folders(context):
        user = applications / "Cursor" / "User"
        path = user / "globalStorage" / "state.vscdb"
        if path.is_file():
            conversations = _cursor_conversations(user / "workspaceStorage", context)
            yield from _cursor_transcripts(path, conversations, context)


def _cursor_conversations(workspaces: Path, context: ImportContext) -> dict[str, str]:
    """Return the project's conversations as a mapping from id to workspace folder."""
    conversations: dict[str, str] = {}
    for folder in subfolders(workspaces):
        workspace = read_json(folder / "workspace.json", context.notes)
        if not isinstance(workspace, dict):
            continue
        cwd = str(workspace.get("folder") or "").removeprefix("file://")
        path = folder / "state.vscdb"
        if not context.is_in_project(cwd) or not path.is_file():
            continue
        try:
            with foreign.open_store(path) as connection:
                conversations.update(dict.fromkeys(foreign.cursor_workspace(connection), cwd))
        except sqlite3.Error as error:
            context.notes.append(f"{folder}: cannot be read: {error}")
    return conversations


def _cursor_transcripts(
    path: Path, conversations: Mapping[str, str], context: ImportContext
) -> Iterator[Transcript]:
    try:
        with foreign.open_store(path) as connection:
            for name, cwd in conversations.items():
                value = foreign.cursor_value(connection, f"composerData:{name}")
                if not value:
                    continue
                digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
                yield Transcript(
                    source="cursor",
                    session=name,
                    key=f"{path}#{name}",
                    version=digest[:_DIGEST_DIGITS],
                    size=len(value),
                    read=partial(_read_cursor, path, name, cwd),
                )
    except sqlite3.Error as error:
        context.notes.append(f"{path}: cannot be read: {error}")


def _read_cursor(path: Path, name: str, cwd: str, _notes: list[str]) -> Events:
    with foreign.open_store(path) as connection:
        composer = transcripts.parse_object(
            foreign.cursor_value(connection, f"composerData:{name}")
        )
        keys = (
            f"bubbleId:{name}:{bubble}" for bubble in client_transcripts.cursor_headers(composer)
        )
        bubbles = (transcripts.parse_object(foreign.cursor_value(connection, key)) for key in keys)
        yield from client_transcripts.read_cursor(composer, bubbles, cwd)


# --- Cline and Roo Code --------------------------------------------------------------------------


def _cline(context: ImportContext) -> Iterator[Transcript]:
    for applications in _application_folders(context):
        for editor in _CLINE_EDITORS:
            for extension in _CLINE_EXTENSIONS:
                storage = applications / editor / "User" / "globalStorage" / extension
                yield from _cline_tasks(storage, context)


def _cline_tasks(storage: Path, context: ImportContext) -> Iterator[Transcript]:
    """Yield the transcripts of one editor extension's tasks."""
    history = json_objects(read_json(storage / "state" / "taskHistory.json", context.notes))
    items = {str(item.get("id")): item for item in history}
    for folder in subfolders(storage / "tasks"):
        item = read_json(folder / "history_item.json", context.notes) or items.get(folder.name)
        if not isinstance(item, dict):
            item = {}
        cwd = _cline_cwd(item)
        if context.is_in_project(cwd):
            path = folder / "api_conversation_history.json"
            read = partial(_read_cline, path, cwd, item)
            yield from _file_transcript("cline", f"cline-{folder.name}", [path], read)


def _cline_cwd(item: Mapping[str, object]) -> str:
    """Return a task's folder, which may be in one of several members, or ""."""
    for member in _CLINE_FOLDER_MEMBERS:
        if item.get(member):
            return str(item[member])
    return ""


def _read_cline(path: Path, cwd: str, item: Mapping[str, object], notes: list[str]) -> Events:
    session = path.parent.name  # usually the time at which the task began
    start = item.get("ts")
    if not start:
        start = int(session) if session.isdecimal() else ""
    messages = json_objects(read_json(path, notes))
    return text_transcripts.read_cline(messages, f"cline-{session}", cwd, start)


# --- Aider ---------------------------------------------------------------------------------------


def _aider(context: ImportContext) -> Iterator[Transcript]:
    path = context.root / ".aider.chat.history.md"
    path_digest = hashlib.sha256(str(path).encode()).hexdigest()[:_AIDER_PREFIX_DIGITS]

    if path.is_file() and not path.is_symlink():
        read = partial(_read_aider, path, context.root, path_digest)
        yield from _file_transcript("aider", f"aider-{path_digest}", [path], read)


def _read_aider(path: Path, root: Path, path_digest: str, _notes: list[str]) -> Events:
    def session_id(start: str) -> str:
        return f"aider-{path_digest}-" + start.replace(" ", "-").replace(":", "-")

    with files.open_regular(path) as file:
        lines = (line.decode("utf-8", "replace").rstrip("\r\n") for line in file)
        yield from text_transcripts.read_aider(lines, str(root), session_id)


# --- all clients ---------------------------------------------------------------------------------

FINDERS: dict[str, Callable[[ImportContext], Iterator[Transcript]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "copilot": _copilot,
    "cursor": _cursor,
    "cline": _cline,
    "aider": _aider,
}
"""The finders by the name of their client."""


def find(context: ImportContext, source: str) -> list[Transcript]:
    """Return the transcripts of the project that one client (`source`) has stored."""
    return list(FINDERS[source](context))
