"""Find the transcripts that coding agents have written about a project.

A transcript is what a client, such as Claude Code or Aider, stores about a session. It belongs to
the project if the session began in the project's folder, in one of its worktrees, or in a checkout
with the same git remote. Symlinks, devices and unreadable files are skipped, and a note says so.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ralph.capture import transcripts
from ralph.capture.events import Json
from ralph.capture.transcripts import TranscriptEvent
from ralph.core import discovery, paths
from ralph.storage import files, foreign

_MAX_LINE_BYTES = 32 * 1024 * 1024  # the same limit as for a hook's payload
_MAX_JSON_BYTES = 64 * 1024 * 1024  # for a file that is a single JSON value
_HEAD_LINES = 40  # at the start of a transcript, one of which names its folder
_DIGEST_DIGITS = 16  # hexadecimal digits of a mark
_AIDER_PREFIX_DIGITS = 8  # hexadecimal digits in the session ids for Aider
_CLAUDE_LINES = (b'"type":"user"', b'"type":"assistant"', b'"type": "user"', b'"type": "assistant"')
_CLINE_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
_CLINE_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_CLINE_FOLDER_MEMBERS = ("cwdOnTaskInitialization", "workspace", "cwd")

Events = Iterator[TranscriptEvent]


class Transcript(NamedTuple):
    """A session or file that can be imported. Its `mark` changes when its content does."""

    source: str
    key: str
    mark: str
    size: int
    read: Callable[[], Events]


@dataclass(slots=True)
class Place:
    """The project whose transcripts are wanted, and the environment that locates them.

    `notes` collects what is skipped while transcripts are found and read.
    """

    root: Path
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    notes: list[str] = field(default_factory=list)
    _known: dict[str, bool] = field(default_factory=dict)  # cached answers of `has`
    _folders: tuple[str, ...] = ()
    _git_directory: str = ""
    _remote: str = ""

    def __post_init__(self) -> None:
        here = paths.location(self.root)
        project_in_checkout = here.root[len(here.top) :] if here.top else ""
        folders = [here.root, here.main]
        for pointer in paths.git_worktrees(self.root).glob("*/gitdir"):
            git_file = discovery.read_text(str(pointer)).strip()
            if git_file:
                folders.append(git_file.removesuffix("/.git") + project_in_checkout)
        self._folders = tuple(dict.fromkeys(folders))
        self._git_directory = _shared_git_directory(here.root)
        self._remote = _remote_of(here.root)

    @property
    def home(self) -> Path:
        """The user's home folder. If there is none, a path that cannot contain anything."""
        return Path(self.env.get("HOME") or os.devnull)

    def folder(self, variable: str, *default: str) -> Path:
        """Return the folder named by an environment variable, or a default in the user's home."""
        value = self.env.get(variable)
        if value:
            return Path(value)
        return self.home.joinpath(*default)

    def has(self, cwd: str) -> bool:
        """Return whether a session that began in the folder `cwd` belongs to the project."""
        if cwd not in self._known:
            is_absolute = cwd.startswith("/") and "\0" not in cwd
            self._known[cwd] = is_absolute and self._contains(os.path.normpath(cwd))
        return self._known[cwd]

    def _contains(self, cwd: str) -> bool:
        if not Path(cwd).is_dir():
            return self._is_inside(cwd)
        real = os.path.realpath(cwd)
        if self._is_inside(cwd) or self._is_inside(real):
            return not self._is_nested_project(real)
        return bool(self._remote) and _remote_of(real) == self._remote

    def _is_inside(self, path: str) -> bool:
        return any(f"{path}/".startswith(f"{folder}/") for folder in self._folders)

    def _is_nested_project(self, folder: str) -> bool:
        """Return whether a folder in this project belongs to a nested project or repository.

        A nested project has its own memory.
        """
        try:
            other = discovery.find_root(folder)
        except discovery.BrokenCheckout:
            return False
        if not other and _shared_git_directory(folder) != self._git_directory:
            other = discovery.find_top(folder)
        if not other or other in self._folders:
            return False
        return self._is_inside(other)


def _shared_git_directory(folder: str) -> str:
    """Return the git directory shared by all checkouts of a repository, or "" if none."""
    try:
        common = discovery.locate(folder).common
        return os.path.realpath(common) if common else ""
    except (discovery.BrokenCheckout, OSError):
        return ""


def _remote_of(folder: str) -> str:
    """Return the repository that a checkout's remote `origin` points to, or "".

    The result is normalized, so it does not depend on the protocol, user or spelling of the URL.
    """
    git_directory = _shared_git_directory(folder)
    if not git_directory:
        return ""
    section = ""
    for line in discovery.read_text(f"{git_directory}/config").split("\n"):
        key, _, value = line.partition("=")
        key = key.strip()
        if key.startswith("["):
            section = key
        if section == '[remote "origin"]' and key == "url":
            name = value.strip().rpartition("://")[2].rpartition("@")[2].replace(":", "/")
            return name.removesuffix("/").removesuffix(".git").lower()
    return ""


# --- reading files -------------------------------------------------------------------------------


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name, without symlinks."""
    folders = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
    return folders


def _files_in(folder: Path, notes: list[str], *suffixes: str) -> list[Path]:
    """Return the regular files in a folder with one of these suffixes, sorted by name."""
    chosen = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            if not entry.name.endswith(suffixes):
                continue
            if entry.is_file(follow_symlinks=False):
                chosen.append(Path(entry.path))
            else:
                notes.append(f"{entry.path}: skipped, a symlink or not a regular file")
    return chosen


def _bounded_lines(file: BinaryIO, path: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the lines of a file. Lines that are too long are skipped with a note."""
    while raw := file.readline(_MAX_LINE_BYTES):
        is_too_long = False
        while len(raw) >= _MAX_LINE_BYTES and not raw.endswith(b"\n"):
            is_too_long = True
            raw = file.readline(_MAX_LINE_BYTES) or b"\n"
        if is_too_long:
            notes.append(f"{path}: skipped a line of more than {_MAX_LINE_BYTES:,} bytes")
        else:
            yield raw


def json_lines(path: Path, notes: list[str], wanted: Sequence[bytes] = ()) -> Iterator[Json]:
    """Yield the objects in a JSONL file.

    If `wanted` is given, only lines that contain one of its byte strings are parsed.
    """
    broken = 0
    try:
        with files.open_regular(path) as file:
            for raw in _bounded_lines(file, path, notes):
                if wanted and not any(word in raw for word in wanted):
                    continue
                try:
                    value = json.loads(raw)
                except (ValueError, RecursionError):
                    # An agent may still be writing the last line, which has no newline yet.
                    if raw.strip() and raw.endswith(b"\n"):
                        broken += 1
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError as error:
        notes.append(f"{path}: cannot be read: {error.strerror}")
    if broken == 1:
        notes.append(f"{path}: skipped 1 line that is not JSON")
    elif broken:
        notes.append(f"{path}: skipped {broken} lines that are not JSON")


def read_json(path: Path, notes: list[str]) -> object:
    """Return the value in a JSON file, or None if it is missing or cannot be read."""
    try:
        with files.open_regular(path) as file:
            raw = file.read(_MAX_JSON_BYTES + 1)
        if len(raw) <= _MAX_JSON_BYTES:
            return json.loads(raw)
        notes.append(f"{path}: skipped, larger than {_MAX_JSON_BYTES:,} bytes")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path}: cannot be read: {type(error).__name__}")
    return None


def _transcript_of(
    source: str, parts: Sequence[Path], read: Callable[[], Events]
) -> Transcript | None:
    """Return the transcript stored in the files `parts`, or None if one of them is missing."""
    marks = []
    size = 0
    for path in parts:
        try:
            state = path.lstat()
        except OSError:
            return None
        size += state.st_size
        if stat.S_ISREG(state.st_mode):
            marks.append(f"{state.st_size}-{state.st_mtime_ns}")
    return Transcript(source, str(parts[0]), " ".join(marks), size, read)


def _first_text(values: Iterable[Json], member: Callable[[Json], object]) -> str:
    """Return the first nonempty string that `member` finds at the start of a transcript, or ""."""
    for value in islice(values, _HEAD_LINES):
        text = member(value)
        if isinstance(text, str) and text:
            return text
    return ""


def _objects(value: object) -> list[Json]:
    """Return the objects in a list, or an empty list for any other value."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


# --- Claude Code ---------------------------------------------------------------------------------


def claude_folders(place: Place) -> Iterator[Path]:
    """Yield Claude Code's folders for the project.

    Such a folder contains a session of the project, or it contains no sessions and is named after
    the project.
    """
    for folder in _folders_in(place.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"):
        if _is_claude_folder_of(place, folder):
            yield folder


def _is_claude_folder_of(place: Place, folder: Path) -> bool:
    has_other_sessions = False
    for path in _files_in(folder, [], ".jsonl"):
        cwd = _claude_cwd(path)
        if place.has(cwd):
            return True
        if cwd:
            has_other_sessions = True
    # The name alone is not enough, because the projects `x/y` and `x-y` share one.
    is_named_after_project = folder.name == re.sub(r"[^A-Za-z0-9]", "-", str(place.root))
    return is_named_after_project and not has_other_sessions


def _claude_cwd(path: Path) -> str:
    """Return the folder in which a Claude Code session began."""
    return _first_text(json_lines(path, [], (b'"cwd"',)), lambda value: value.get("cwd"))


def _claude(place: Place) -> Iterator[Transcript | None]:
    for folder in claude_folders(place):
        sessions = []
        for path in _files_in(folder, place.notes, ".jsonl"):
            if place.has(_claude_cwd(path)):
                sessions.append(path)
        for path in sorted(sessions, key=lambda path: path.name.startswith("agent-")):
            subagents = folder / path.stem / "subagents"
            parts = [path, *_files_in(subagents, place.notes, ".jsonl")]
            yield _transcript_of("claude", parts, partial(_read_claude, parts, place.notes))


def _read_claude(parts: Sequence[Path], notes: list[str]) -> Events:
    """Return the events of a session and its subagents in chronological order."""
    streams = [transcripts.read_claude(json_lines(path, notes, _CLAUDE_LINES)) for path in parts]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=attrgetter("at"))


# --- Codex ---------------------------------------------------------------------------------------


def _codex(place: Place) -> Iterator[Transcript | None]:
    home = place.folder("CODEX_HOME", ".codex")
    found = [
        *(home / "sessions").glob("*/*/*/rollout-*.jsonl"),
        *(home / "archived_sessions").glob("rollout-*.jsonl"),
    ]
    for path in sorted(found):
        first_line = islice(json_lines(path, []), 1)
        cwd = _first_text(first_line, lambda value: transcripts.member(value, "payload", "cwd"))
        if place.has(cwd):
            read = partial(_read_lines, transcripts.read_codex, path, place.notes)
            yield _transcript_of("codex", [path], read)


def _read_lines(read: Callable[[Iterable[Json]], Events], path: Path, notes: list[str]) -> Events:
    return read(json_lines(path, notes))


# --- Gemini CLI ----------------------------------------------------------------------------------


def _gemini(place: Place) -> Iterator[Transcript | None]:
    root = str(place.root)
    root_digest = hashlib.sha256(root.encode()).hexdigest()  # may be the name of its folder
    for folder in _folders_in(place.folder("GEMINI_CLI_HOME") / ".gemini" / "tmp"):
        cwd = discovery.read_text(str(folder / ".project_root")).strip()
        if not cwd and folder.name == root_digest:
            cwd = root
        if place.has(cwd):
            for path in _files_in(folder / "chats", place.notes, ".json", ".jsonl"):
                read = partial(_read_gemini, path, cwd, place.notes)
                yield _transcript_of("gemini", [path], read)


def _read_gemini(path: Path, cwd: str, notes: list[str]) -> Events:
    if path.suffix == ".jsonl":
        return transcripts.read_gemini(json_lines(path, notes), cwd)
    return transcripts.read_gemini(iter(_objects([read_json(path, notes)])), cwd)


# --- OpenCode ------------------------------------------------------------------------------------


def _opencode(place: Place) -> Iterator[Transcript | None]:
    path = place.folder("XDG_DATA_HOME", ".local", "share") / "opencode" / "opencode.db"
    if not path.is_file():
        return

    def read(session: str) -> Events:
        with foreign.open_store(path) as connection:
            yield from transcripts.read_opencode(foreign.opencode_parts(connection, session))

    try:
        with foreign.open_store(path) as connection:
            sessions = foreign.opencode_sessions(connection)
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")
        return
    for name, folder, updated_at, size in sessions:
        if place.has(folder):
            key = f"{path}#{name}"
            yield Transcript("opencode", key, str(updated_at), size, partial(read, name))


# --- Copilot -------------------------------------------------------------------------------------


def _copilot(place: Place) -> Iterator[Transcript | None]:
    state = place.folder("COPILOT_HOME", ".copilot") / "session-state"
    found = [folder / "events.jsonl" for folder in _folders_in(state)]
    found += _files_in(state, place.notes, ".jsonl")
    for path in found:
        cwd = _first_text(
            json_lines(path, []), lambda value: transcripts.member(value, "data", "context", "cwd")
        )
        if place.has(cwd):
            read = partial(_read_lines, transcripts.read_copilot, path, place.notes)
            yield _transcript_of("copilot", [path], read)


# --- Cursor --------------------------------------------------------------------------------------


def _application_folders(place: Place) -> tuple[Path, Path]:
    """Return the folders where applications keep their data, on Linux and on macOS."""
    return (
        place.folder("XDG_CONFIG_HOME", ".config"),
        place.home / "Library" / "Application Support",
    )


def _cursor(place: Place) -> Iterator[Transcript | None]:
    for applications in _application_folders(place):
        user = applications / "Cursor" / "User"
        path = user / "globalStorage" / "state.vscdb"
        if path.is_file():
            conversations = _cursor_conversations(user / "workspaceStorage", place)
            yield from _cursor_transcripts(path, conversations, place)


def _cursor_conversations(workspaces: Path, place: Place) -> dict[str, str]:
    """Return the project's conversations as a mapping from id to workspace folder."""
    conversations: dict[str, str] = {}
    for folder in _folders_in(workspaces):
        workspace = read_json(folder / "workspace.json", place.notes)
        if not isinstance(workspace, dict):
            continue
        cwd = str(workspace.get("folder") or "").removeprefix("file://")
        path = folder / "state.vscdb"
        if not place.has(cwd) or not path.is_file():
            continue
        try:
            with foreign.open_store(path) as connection:
                conversations.update(dict.fromkeys(foreign.cursor_workspace(connection), cwd))
        except sqlite3.Error as error:
            place.notes.append(f"{folder}: cannot be read: {error}")
    return conversations


def _cursor_transcripts(
    path: Path, conversations: Mapping[str, str], place: Place
) -> Iterator[Transcript]:
    def read(name: str, cwd: str) -> Events:
        with foreign.open_store(path) as connection:
            composer = transcripts.parsed(foreign.cursor_value(connection, f"composerData:{name}"))
            keys = (f"bubbleId:{name}:{bubble}" for bubble in transcripts.cursor_headers(composer))
            bubbles = (transcripts.parsed(foreign.cursor_value(connection, key)) for key in keys)
            yield from transcripts.read_cursor(composer, bubbles, cwd)

    try:
        with foreign.open_store(path) as connection:
            for name, cwd in conversations.items():
                value = foreign.cursor_value(connection, f"composerData:{name}")
                if not value:
                    continue
                mark = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:_DIGEST_DIGITS]
                key = f"{path}#{name}"
                yield Transcript("cursor", key, mark, len(value), partial(read, name, cwd))
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")


# --- Cline and Roo Code --------------------------------------------------------------------------


def _cline(place: Place) -> Iterator[Transcript | None]:
    for applications in _application_folders(place):
        for editor in _CLINE_EDITORS:
            for extension in _CLINE_EXTENSIONS:
                storage = applications / editor / "User" / "globalStorage" / extension
                yield from _cline_tasks(storage, place)


def _cline_tasks(storage: Path, place: Place) -> Iterator[Transcript | None]:
    """Yield the transcripts of one editor extension's tasks."""
    history = _objects(read_json(storage / "state" / "taskHistory.json", place.notes))
    items = {str(item.get("id")): item for item in history}
    for folder in _folders_in(storage / "tasks"):
        item = read_json(folder / "history_item.json", place.notes) or items.get(folder.name)
        if not isinstance(item, dict):
            item = {}
        cwd = _cline_cwd(item)
        if place.has(cwd):
            path = folder / "api_conversation_history.json"
            read = partial(_read_cline, path, cwd, item, place.notes)
            yield _transcript_of("cline", [path], read)


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
    messages = _objects(read_json(path, notes))
    return transcripts.read_cline(messages, f"cline-{session}", cwd, start)


# --- Aider ---------------------------------------------------------------------------------------


def _aider(place: Place) -> Iterator[Transcript | None]:
    path = place.root / ".aider.chat.history.md"
    path_digest = hashlib.sha256(str(path).encode()).hexdigest()[:_AIDER_PREFIX_DIGITS]

    def session_id(start: str) -> str:
        return f"aider-{path_digest}-" + start.replace(" ", "-").replace(":", "-")

    def read() -> Events:
        with files.open_regular(path) as file:
            lines = (line.decode("utf-8", "replace").rstrip("\r\n") for line in file)
            yield from transcripts.read_aider(lines, str(place.root), session_id)

    if path.is_file() and not path.is_symlink():
        yield _transcript_of("aider", [path], read)


# --- all clients ---------------------------------------------------------------------------------

FINDERS: dict[str, Callable[[Place], Iterator[Transcript | None]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "copilot": _copilot,
    "cursor": _cursor,
    "cline": _cline,
    "aider": _aider,
}
"""The functions that find each client's transcripts."""


def find(place: Place, source: str) -> list[Transcript]:
    """Return the transcripts that one client (`source`) has about the project."""
    return [transcript for transcript in FINDERS[source](place) if transcript is not None]


def count_sessions(root: Path, env: Mapping[str, str]) -> list[str]:
    """Return a line about the sessions that can be imported, or no lines if there are none."""
    place = Place(root, env)
    counts = []
    for name in FINDERS:
        count = len(find(place, name))
        if count:
            counts.append(f"{count} of {name}")
    if not counts:
        return []
    return [f"found sessions of this project: {', '.join(counts)}"]
