"""Edits to the files of a coding agent: hooks, slash commands, the status line and the MCP server.

`HostEdits` collects the edits without writing them, so that a broken file stops an installation
before the first write. Entries that are not ours are never changed.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Conflict, Unreadable
from ralph.core.json_text import check_json, same_json
from ralph.core.launchers import launcher
from ralph.formats import host_files, host_toml
from ralph.formats.host_files import (
    SERVER_NAME,
    STATUS_LINE,
    is_ralph_hook,
    is_ralph_server,
    ralph_hooks,
)
from ralph.install import client_entries
from ralph.install.clients import HookForm, Host
from ralph.install.install_target import InstallTarget
from ralph.install.launcher_scripts import (
    HookProgram,
    interpreter_file,
    is_writable_by_others,
    launcher_folders,
    launcher_texts,
)
from ralph.install.slash_commands import is_signed
from ralph.storage import files

_EMPTY_TEXTS = {".json": "{}\n", ".toml": ""}
"""The text of a file without entries, by suffix."""


class Verb(Enum):
    """What happens to a part of a file: its name in a preview, and after it was done."""

    ADD = ("add", "added")
    UPDATE = ("update", "updated")
    REMOVE = ("remove", "removed")

    @property
    def preview(self) -> str:
        """The verb for a preview."""
        return self.value[0]

    @property
    def done(self) -> str:
        """The verb for what was done."""
        return self.value[1]


class Step(NamedTuple):
    """One thing that happens to a part of a file, or to the whole file without a `part`."""

    verb: Verb
    part: str = ""


class FileEdit(NamedTuple):
    """A change to one file."""

    path: Path
    before: str | None  # None for a new file
    after: str | None  # None for a deleted file
    steps: tuple[Step, ...]  # what changes, for the user
    inside: Path | None = None  # folder that links must not lead out of
    mode: int | None = None  # permissions, unless they are the usual ones
    is_ours: bool = False  # whether the file belongs entirely to Ralph

    @property
    def done(self) -> str:
        """What was changed, such as `10 hooks added`."""
        return ", ".join(f"{step.part} {step.verb.done}".strip() for step in self.steps)

    @property
    def preview(self) -> str:
        """What would be changed, such as `would add 10 hooks`."""
        return "would " + ", ".join(
            f"{step.verb.preview} {step.part}".strip() for step in self.steps
        )


class HostEdits:
    """Collects changes to files in order.

    A second change to the same file starts from the result of the first.
    """

    def __init__(self) -> None:
        self.by_path: dict[Path, FileEdit] = {}
        self.shared_folders: list[Path] = []  # that only their owner may access from now on
        self.notes: list[str] = []

    def current_text(self, path: Path) -> str | None:
        """Return the text of a file after the changes collected so far."""
        if path in self.by_path:
            return self.by_path[path].after
        return files.read(path)

    def put(
        self,
        path: Path,
        after: str | None,
        step: Step,
        *,
        inside: Path | None = None,
        mode: int | None = None,
        is_ours: bool = False,
    ) -> None:
        """Add a change unless the file already has this text and, if given, this mode.

        Without a mode, an existing file keeps its own, and a new file is accessible only to its
        owner.
        """
        current = self.current_text(path)
        if after is None and current is not None and path.is_symlink():
            after = _EMPTY_TEXTS.get(path.suffix)  # the link belongs to the user, so it is kept
        if after == current and (mode is None or _has_mode(path, mode)):
            return
        earlier = self.by_path.get(path)
        steps: tuple[Step, ...] = (step,)
        if earlier is None:
            before = files.read(path)
        else:
            before = earlier.before
            inside = earlier.inside
            steps = (*earlier.steps, step)
        if after is None:
            steps = (Step(Verb.REMOVE),)
        if mode is None and before is None:
            mode = files.PRIVATE
        self.by_path[path] = FileEdit(path, before, after, steps, inside, mode, is_ours)

    def add_launchers(
        self, env: Mapping[str, str], program: HookProgram, platform: str = sys.platform
    ) -> None:
        """Write the launchers and the file that tells them what to start."""
        text = f"{program.interpreter.as_posix()}\n{program.runner.as_posix()}\n"
        path = interpreter_file(env)
        step = Step(_adding_verb(path), "path of this Ralph")
        self.put(path, text, step, mode=files.PRIVATE, is_ours=True)
        for name, script in launcher_texts(platform).items():
            path = launcher(env, name)
            step = Step(_adding_verb(path), f"launcher {name}")
            self.put(path, script, step, mode=files.PRIVATE_PROGRAM, is_ours=True)
        self.shared_folders += filter(is_writable_by_others, launcher_folders(env))

    def remove_launchers(self, env: Mapping[str, str], platform: str = sys.platform) -> None:
        """Remove the launchers and the file that tells them what to start."""
        self.put(interpreter_file(env), None, Step(Verb.REMOVE))
        for name in launcher_texts(platform):
            self.put(launcher(env, name), None, Step(Verb.REMOVE))

    def change_own_files(self, target: InstallTarget, *, add: bool) -> None:
        """Add or remove the files that belong entirely to Ralph.

        A file that is not ours is kept, and a note says so.
        """
        for path, own_file in target.own_files.items():
            before = files.read(path)
            if before is not None and not is_signed(before):
                self.notes.append(f"{path} was changed or is not Ralph's; left unchanged")
            elif not add:
                self.put(path, None, Step(Verb.REMOVE))
            else:
                step = Step(_adding_verb(path), own_file.name)
                self.put(
                    path,
                    own_file.text,
                    step,
                    inside=target.inside,
                    mode=own_file.mode,
                    is_ours=True,
                )

    def change_hooks(self, target: InstallTarget, *, add: bool) -> None:
        """Add our hooks, replacing older ones, or remove them."""
        if target.client.form not in (HookForm.GROUPS, HookForm.ENTRIES):
            return
        path = target.settings
        text = self.current_text(path)
        settings: dict[str, object] = {}
        if add:
            start = target.start.hook
            settings = client_entries.hook_settings(target.host, start, target.platform)
        with _name_file(path):
            count = len(ralph_hooks(text))
            without_ours = text
            if text is not None and count:
                without_ours = host_files.without_hooks(text)
            if not add:
                step = Step(Verb.REMOVE, f"{count} hooks")
                self.put(path, without_ours, step, inside=target.inside)
            elif not host_files.has_current_hooks(text, settings):
                verb = Verb.UPDATE if count else Verb.ADD
                after = host_files.with_hooks(without_ours, settings)
                step = Step(verb, f"{len(settings)} hooks")
                self.put(path, after, step, inside=target.inside)

    def add_status_line(self, target: InstallTarget) -> None:
        """Add our status line. One that is not ours is kept, and a note says so."""
        path = target.settings
        text = self.current_text(path)
        with _name_file(path):
            current = host_files.json_entry(text, STATUS_LINE)
            if current is None:
                entry = client_entries.status_line_entry(target.start.hook, target.platform)
                after = host_files.with_json_entry(text, STATUS_LINE, entry)
                self.put(path, after, Step(Verb.ADD, "status line"), inside=target.inside)
            elif not is_ralph_hook(current):
                self.notes.append(
                    f"{path} already has a status line, which is left unchanged; "
                    "call `ralph status --line` in it to see Ralph's line"
                )

    def remove_status_line(self, target: InstallTarget) -> None:
        """Remove our status line."""
        path = target.settings
        text = self.current_text(path)
        with _name_file(path):
            current = host_files.json_entry(text, STATUS_LINE)
            if text is not None and is_ralph_hook(current):
                after = host_files.without_json_entry(text, STATUS_LINE)
                self.put(path, after, Step(Verb.REMOVE, "status line"), inside=target.inside)

    def change_server(self, target: InstallTarget, *, add: bool) -> None:
        """Add or remove our MCP server. A server of that name that is not ours is kept."""
        path = target.servers.path
        inside = target.inside if target.root in path.parents else None
        with _name_file(path):
            text = self.current_text(path)
            server = find_server(target, text)
            is_ours = is_ralph_server(server)
            without_ours = text
            if text is not None and is_ours:
                without_ours = _without_server(target, text)
            entry = client_entries.server_entry(target.host, target.start.command)
            if not add:
                self.put(path, without_ours, Step(Verb.REMOVE, "MCP server"), inside=inside)
            elif server is None:
                after = _with_server_entry(target, without_ours, entry)
                self.put(path, after, Step(Verb.ADD, "MCP server"), inside=inside)
            elif not is_ours:
                note = f"{path} has another server named `{SERVER_NAME}`, which is left unchanged"
                self.notes.append(note)
            elif not same_json(server, check_json(entry)):
                after = _with_server_entry(target, without_ours, entry)
                self.put(path, after, Step(Verb.UPDATE, "MCP server"), inside=inside)


def _adding_verb(path: Path) -> Verb:
    if path.exists():
        return Verb.UPDATE
    return Verb.ADD


def _has_mode(path: Path, mode: int) -> bool:
    if sys.platform == "win32":
        return True  # files have no modes there; the user's folder protects them
    try:
        return stat.S_IMODE(path.stat().st_mode) == mode
    except OSError:
        return False


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Prefix the messages of errors with the path of the file."""
    try:
        yield
    except (Conflict, Unreadable) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.clauses) from error


def find_server(target: InstallTarget, text: str | None) -> object | None:
    """Return the entry under our name in the text of the host's MCP server list, or None."""
    if target.host is Host.CODEX:
        return host_toml.toml_server(text)
    return host_files.json_entry(text, (*target.servers.keys, SERVER_NAME))


def _with_server_entry(target: InstallTarget, text: str | None, entry: Mapping[str, object]) -> str:
    if target.host is Host.CODEX:
        return host_toml.with_toml_server(text, entry)
    return host_files.with_json_entry(text, (*target.servers.keys, SERVER_NAME), entry)


def _without_server(target: InstallTarget, text: str) -> str | None:
    if target.host is Host.CODEX:
        return host_toml.without_toml_server(text)
    return host_files.without_json_entry(text, (*target.servers.keys, SERVER_NAME))
