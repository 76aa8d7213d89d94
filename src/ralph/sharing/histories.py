"""Find the transcripts that coding agents have written about a project.

A transcript belongs to the project if its session began in the project's folder, in one of its worktrees, or in a
checkout with the same git remote. Links, devices and files that cannot be read are left out with a note.
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
from typing import NamedTuple

from ralph.capture import transcripts
from ralph.capture.events import Json
from ralph.capture.transcripts import TranscriptEvent
from ralph.core import discovery, paths
from ralph.storage import files, foreign

_LONGEST_LINE = 32 * 1024 * 1024  # as of a hook's payload
_LARGEST_JSON = 64 * 1024 * 1024  # of a file that is one JSON value
_HEAD_LINES = 40  # of a transcript, in which its folder is named
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
Events = Iterator[TranscriptEvent]


class Transcript(NamedTuple):
    """What can be imported of one session or file: `mark` changes when it does."""

    source: str
    key: str
    mark: str
    size: int
    read: Callable[[], Events]


@dataclass(slots=True)
class Place:
    """The project that transcripts are looked for, the user's folders, and notes about what was left out."""

    root: Path
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    notes: list[str] = field(default_factory=list)
    _known: dict[str, bool] = field(default_factory=dict)
    _folders: tuple[str, ...] = ()
    _common: str = ""
    _remote: str = ""

    def __post_init__(self) -> None:
        here = paths.location(self.root)
        pointers = [
            discovery.read_text(str(each))
            for each in paths.git_worktrees(self.root).glob("*/gitdir")
        ]
        inner = here.root[len(here.top) :] if here.top else ""
        trees = [text.strip().removesuffix("/.git") + inner for text in pointers if text.strip()]
        self._folders = tuple(dict.fromkeys([here.root, here.main, *trees]))
        self._common = _common_of(here.root)
        self._remote = _remote_of(here.root)

    @property
    def home(self) -> Path:
        """The user's home; a folder without anything where there is none."""
        return Path(self.env.get("HOME") or os.devnull)

    def folder(self, variable: str, *default: str) -> Path:
        """Return a folder that a variable names, else one in the home."""
        return Path(self.env[variable]) if self.env.get(variable) else self.home.joinpath(*default)

    def has(self, cwd: str) -> bool:
        """Whether a session in this folder is one of the project."""
        if cwd not in self._known:
            self._known[cwd] = (
                cwd.startswith("/") and "\0" not in cwd and self._has(os.path.normpath(cwd))
            )
        return self._known[cwd]

    def _has(self, cwd: str) -> bool:
        real = os.path.realpath(cwd)
        is_there = Path(cwd).is_dir()
        names = [f"{cwd}/", f"{real}/"] if is_there else [f"{cwd}/"]
        inside = any(name.startswith(f"{folder}/") for name in names for folder in self._folders)
        if not is_there:
            return inside
        if inside:
            try:
                own = discovery.find_root(real)  # a project inside of this one has its own memory
            except discovery.BrokenCheckout:
                return True
            if not own and _common_of(real) != self._common:
                own = discovery.find_top(real)  # a repository of its own
            return (
                not own
                or own in self._folders
                or not any(own.startswith(f"{each}/") for each in self._folders)
            )
        return bool(self._remote) and _remote_of(real) == self._remote


def _common_of(folder: str) -> str:
    """Return the git directory that all checkouts of a repository share; "" for none."""
    try:
        return os.path.realpath(common) if (common := discovery.locate(folder).common) else ""
    except (discovery.BrokenCheckout, OSError):
        return ""


def _remote_of(folder: str) -> str:
    """Return the repository that a checkout's `origin` names, however it is spelled; "" for none."""
    common = _common_of(folder)
    section = ""
    for line in discovery.read_text(f"{common}/config").split("\n") if common else ():
        key, _, value = (part.strip() for part in line.partition("="))
        section = key if key.startswith("[") else section
        if section == '[remote "origin"]' and key == "url":
            name = value.rpartition("://")[2].rpartition("@")[2].replace(":", "/")
            return name.removesuffix("/").removesuffix(".git").lower()
    return ""


# --- reading files -------------------------------------------------------------------------------


def _entries(folder: Path, place: Place, *endings: str) -> list[Path]:
    """Return the folders in a folder by name; with endings, the regular files that have one of them."""
    chosen = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            is_wanted = (
                entry.name.endswith(endings) if endings else entry.is_dir(follow_symlinks=False)
            )
            if is_wanted and endings and not entry.is_file(follow_symlinks=False):
                place.notes.append(f"{entry.path}: a link or no regular file, left out")
            elif is_wanted:
                chosen.append(Path(entry.path))
    return chosen


def json_lines(path: Path, notes: list[str], wanted: Sequence[bytes] = ()) -> Iterator[Json]:
    """Yield the objects of a JSONL file; with `wanted`, of lines with one of these only."""
    broken = 0
    try:
        with files.open_regular(path) as file:
            while raw := file.readline(_LONGEST_LINE):
                is_long = False
                while len(raw) >= _LONGEST_LINE and not raw.endswith(b"\n"):
                    is_long = True
                    raw = file.readline(_LONGEST_LINE) or b"\n"
                if is_long:
                    notes.append(f"{path}: a line of more than {_LONGEST_LINE:,} bytes, left out")
                elif not wanted or any(word in raw for word in wanted):
                    try:
                        value = json.loads(raw)
                    except (ValueError, RecursionError):
                        broken += bool(raw.strip()) and raw.endswith(
                            b"\n"
                        )  # the last one may still be being written
                        continue
                    if isinstance(value, dict):
                        yield value
    except OSError as error:
        notes.append(f"{path}: cannot be read: {error.strerror}")
    if broken:
        notes.append(f"{path}: {broken} line{'s' * (broken > 1)} without JSON, left out")


def read_json(path: Path, notes: list[str]) -> object:
    """Return the value of a JSON file; None when it cannot be read."""
    try:
        with files.open_regular(path) as file:
            raw = file.read(_LARGEST_JSON + 1)
        if len(raw) <= _LARGEST_JSON:
            return json.loads(raw)
        notes.append(f"{path}: larger than {_LARGEST_JSON:,} bytes, left out")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path}: cannot be read: {type(error).__name__}")
    return None


def _of_files(source: str, paths_: Sequence[Path], read: Callable[[], Events]) -> Transcript | None:
    """Return the transcript that some files are; None when one of them has gone."""
    try:
        states = [path.lstat() for path in paths_]
    except OSError:
        return None
    mark = " ".join(
        f"{state.st_size}-{state.st_mtime_ns}" for state in states if stat.S_ISREG(state.st_mode)
    )
    return Transcript(source, str(paths_[0]), mark, sum(state.st_size for state in states), read)


def _first(values: Iterable[Json], member: Callable[[Json], object]) -> str:
    found = (member(value) for value in islice(values, _HEAD_LINES))
    return next((text for text in found if isinstance(text, str) and text), "")


# --- one finder a client -------------------------------------------------------------------------

_CLAUDE_LINES = (b'"type":"user"', b'"type":"assistant"', b'"type": "user"', b'"type": "assistant"')


def claude_folders(place: Place) -> Iterator[Path]:
    """Yield Claude Code's folders with a session of the project, or named after it and without any session."""
    for folder in _entries(place.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects", place):
        is_named = folder.name == re.sub(
            r"[^A-Za-z0-9]", "-", str(place.root)
        )  # `x/y` and `x-y` have the same name
        for path in _entries(folder, Place(place.root), ".jsonl"):
            cwd = _claude_cwd(path)
            is_named = is_named and not cwd
            if place.has(cwd):
                yield folder
                break
        else:
            yield from [folder] if is_named else []


def _claude_cwd(path: Path) -> str:
    """Return the folder in which a session of Claude Code began."""
    return _first(json_lines(path, [], (b'"cwd"',)), lambda value: value.get("cwd"))


def _claude(place: Place) -> Iterator[Transcript | None]:
    for folder in claude_folders(place):
        sessions = [
            path for path in _entries(folder, place, ".jsonl") if place.has(_claude_cwd(path))
        ]
        for path in sorted(sessions, key=lambda path: path.name.startswith("agent-")):
            parts = [path, *_entries(folder / path.stem / "subagents", place, ".jsonl")]
            yield _of_files("claude", parts, partial(_read_claude, parts, place.notes))


def _read_claude(parts: Sequence[Path], notes: list[str]) -> Events:
    """Yield the events of a session and its subagents as they happened."""
    streams = [transcripts.read_claude(json_lines(path, notes, _CLAUDE_LINES)) for path in parts]
    return heapq.merge(*streams, key=attrgetter("at")) if len(streams) > 1 else streams[0]


def _codex(place: Place) -> Iterator[Transcript | None]:
    home = place.folder("CODEX_HOME", ".codex")
    found = [
        *(home / "sessions").glob("*/*/*/rollout-*.jsonl"),
        *(home / "archived_sessions").glob("rollout-*.jsonl"),
    ]
    for path in sorted(found):
        cwd = _first(
            islice(json_lines(path, []), 1),
            lambda value: transcripts.member(value, "payload", "cwd"),
        )
        if place.has(cwd):
            yield _of_files(
                "codex", [path], partial(_read_lines, transcripts.read_codex, path, place.notes)
            )


def _read_lines(read: Callable[[Iterable[Json]], Events], path: Path, notes: list[str]) -> Events:
    return read(json_lines(path, notes))


def _gemini(place: Place) -> Iterator[Transcript | None]:
    names = {hashlib.sha256(str(place.root).encode()).hexdigest(): str(place.root)}
    for folder in _entries(place.folder("GEMINI_CLI_HOME") / ".gemini" / "tmp", place):
        cwd = discovery.read_text(str(folder / ".project_root")).strip() or names.get(
            folder.name, ""
        )
        for path in _entries(folder / "chats", place, ".json", ".jsonl") if place.has(cwd) else ():
            yield _of_files("gemini", [path], partial(_read_gemini, path, cwd, place.notes))


def _read_gemini(path: Path, cwd: str, notes: list[str]) -> Events:
    values = json_lines(path, notes) if path.suffix == ".jsonl" else [read_json(path, notes)]
    return transcripts.read_gemini((value for value in values if isinstance(value, dict)), cwd)


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
    for name, folder, updated, size in sessions:
        if place.has(folder):
            yield Transcript("opencode", f"{path}#{name}", str(updated), size, partial(read, name))


def _copilot(place: Place) -> Iterator[Transcript | None]:
    state = place.folder("COPILOT_HOME", ".copilot") / "session-state"
    for path in [folder / "events.jsonl" for folder in _entries(state, place)] + _entries(
        state, place, ".jsonl"
    ):
        cwd = _first(
            json_lines(path, []), lambda value: transcripts.member(value, "data", "context", "cwd")
        )
        if place.has(cwd):
            yield _of_files(
                "copilot", [path], partial(_read_lines, transcripts.read_copilot, path, place.notes)
            )


def _application_folders(place: Place, *names: str) -> list[Path]:
    """Return the folders where applications of these names keep their data, on Linux and macOS."""
    roots = (
        place.folder("XDG_CONFIG_HOME", ".config"),
        place.home / "Library" / "Application Support",
    )
    return [root / name for root in roots for name in names]


def _cursor(place: Place) -> Iterator[Transcript | None]:
    for user in _application_folders(place, "Cursor/User"):
        path = user / "globalStorage" / "state.vscdb"
        if not path.is_file():
            continue
        composers: dict[str, str] = {}  # of this project, with its folder
        for folder in _entries(user / "workspaceStorage", place):
            workspace = read_json(folder / "workspace.json", place.notes)
            cwd = (
                str(workspace.get("folder") or "").removeprefix("file://")
                if isinstance(workspace, dict)
                else ""
            )
            if place.has(cwd) and (folder / "state.vscdb").is_file():
                try:
                    with foreign.open_store(folder / "state.vscdb") as connection:
                        composers |= dict.fromkeys(foreign.cursor_workspace(connection), cwd)
                except sqlite3.Error as error:
                    place.notes.append(f"{folder}: cannot be read: {error}")
        yield from _cursor_composers(path, composers, place)


def _cursor_composers(
    path: Path, composers: Mapping[str, str], place: Place
) -> Iterator[Transcript]:
    def read(name: str, cwd: str) -> Events:
        with foreign.open_store(path) as connection:
            composer = transcripts.parsed(foreign.cursor_value(connection, f"composerData:{name}"))
            keys = (f"bubbleId:{name}:{each}" for each in transcripts.cursor_headers(composer))
            bubbles = (transcripts.parsed(foreign.cursor_value(connection, key)) for key in keys)
            yield from transcripts.read_cursor(composer, bubbles, cwd)

    try:
        with foreign.open_store(path) as connection:
            for name, cwd in composers.items():
                value = foreign.cursor_value(connection, f"composerData:{name}")
                mark = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]
                if value:
                    yield Transcript(
                        "cursor", f"{path}#{name}", mark, len(value), partial(read, name, cwd)
                    )
    except sqlite3.Error as error:
        place.notes.append(f"{path}: cannot be read: {error}")


def _cline(place: Place) -> Iterator[Transcript | None]:
    editors = _application_folders(place, *(f"{name}/User/globalStorage" for name in _EDITORS))
    for extension in [folder / name for folder in editors for name in _EXTENSIONS]:
        history = read_json(extension / "state" / "taskHistory.json", place.notes)
        items = (
            [each for each in history if isinstance(each, dict)]
            if isinstance(history, list)
            else []
        )
        known = {str(each.get("id")): each for each in items}
        for folder in _entries(extension / "tasks", place):
            item = (
                read_json(folder / "history_item.json", place.notes) or known.get(folder.name) or {}
            )
            item = item if isinstance(item, dict) else {}
            cwd = next(
                (
                    str(item[key])
                    for key in ("cwdOnTaskInitialization", "workspace", "cwd")
                    if item.get(key)
                ),
                "",
            )
            path = folder / "api_conversation_history.json"
            if place.has(cwd):
                yield _of_files("cline", [path], partial(_read_cline, path, cwd, item, place.notes))


def _read_cline(path: Path, cwd: str, item: Mapping[str, object], notes: list[str]) -> Events:
    messages = read_json(path, notes)
    session = path.parent.name
    start = item.get("ts") or (int(path.parent.name) if path.parent.name.isdecimal() else "")
    values = (
        [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    )
    return transcripts.read_cline(values, f"cline-{session}", cwd, start)


def _aider(place: Place) -> Iterator[Transcript | None]:
    path = place.root / ".aider.chat.history.md"

    def read() -> Events:
        prefix = f"aider-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}-"
        with files.open_regular(path) as file:
            lines = (line.decode("utf-8", "replace").rstrip("\r\n") for line in file)
            in_id = str.maketrans(" :", "--")
            yield from transcripts.read_aider(
                lines, str(place.root), lambda start: prefix + start.translate(in_id)
            )

    if path.is_file() and not path.is_symlink():
        yield _of_files("aider", [path], read)


_FINDERS = (_claude, _codex, _gemini, _opencode, _copilot, _cursor, _cline, _aider)
FINDERS = {finder.__name__.removeprefix("_"): finder for finder in _FINDERS}
"""Every client whose transcripts can be read."""


def find(place: Place, source: str) -> list[Transcript]:
    """Return the transcripts of one client about the project."""
    return [transcript for transcript in FINDERS[source](place) if transcript is not None]


def count_sessions(root: Path, env: Mapping[str, str]) -> list[str]:
    """Return one line about the sessions that could be imported; nothing when there are none."""
    place = Place(root, env)
    counts = {name: len(find(place, name)) for name in FINDERS}
    names = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
    return [f"sessions of this project are there: {names}"] if names else []
