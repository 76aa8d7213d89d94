"""Add Ralph to a host's own files, or remove it: hooks, slash commands and the MCP server.

A host is a coding agent that starts our hooks. `ralph install` and `ralph uninstall` make a plan
first, so that a broken file stops everything before the first write. Uninstalling restores the
original bytes.

Hosts start launchers, which are scripts in the user's state folder that find the interpreter. An
upgrade therefore does not change any host's files, and a hook exits with 0 when Ralph is gone.
(Python exits with 2 for a missing script, which would block the prompt or the tool.)
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import (
    Conflict,
    NotFound,
    RalphError,
    Unreadable,
    UsageError,
    WriteFailed,
)
from ralph.core.extras import has_extra
from ralph.core.json_text import check_json, same_json
from ralph.core.launchers import COMMAND_LAUNCHER, HOOK_LAUNCHER, _state_folder, launcher
from ralph.formats import host_files
from ralph.formats.host_files import (
    SERVER_NAME,
    STATUS_LINE,
    is_ralph_hook,
    is_ralph_server,
    ralph_hooks,
)
from ralph.install import clients
from ralph.install.clients import (
    CLIENTS,
    Client,
    HookForm,
    Host,
    InstallScope,
    OwnFile,
    ServersFile,
)
from ralph.install.slash_commands import is_signed
from ralph.storage import files

_FIND_RALPH = """\
#!/bin/sh
# Written by `ralph install`. %s
note=${0%%/*}/../interpreter python='' runner=''
[ ! -r "$note" ] || { IFS= read -r python; IFS= read -r runner; } <"$note"
[ -f "$runner" ] ||
    for runner in "${python%%/bin/*}"/lib/python3*/site-packages/ralph/hooks/run.py; do :; done
[ -x "$python" ] && [ -f "$runner" ] && exec "$python" -I %s "$@"
"""
_NOT_INSTALLED = (
    "Ralph is no longer installed: reinstall the package ralph-memory and run "
    "'ralph doctor --fix', or remove this entry."
)
_HOOK_PURPOSE = "Starts Ralph for one event of a coding agent, or does nothing."
_COMMAND_PURPOSE = "Starts the command `ralph` for MCP clients and slash commands."
LAUNCHERS = {
    HOOK_LAUNCHER: _FIND_RALPH % (_HOOK_PURPOSE, '-S "$runner"') + "exit 0\n",
    COMMAND_LAUNCHER: _FIND_RALPH % (_COMMAND_PURPOSE, "-m ralph")
    + f'echo "{_NOT_INSTALLED}" >&2\nexit 1\n',
}
"""The scripts in the state folder.

They search for run.py, because upgrading Python in the same environment changes its path.
"""
_LAUNCHER_MODE = 0o755
_WRITE_PERMISSIONS = 0o222
_FOLDER_PREFIX = "folder "  # starts a line that names a folder in the list of installations
_NO_MCP_PREFIX = "no-mcp "  # starts a line for an installation without the MCP server
_PLUGIN_ENTRY = "plugin"
_EMPTY_TEXTS = {".json": "{}\n", ".toml": ""}
"""The text of a file without entries, by suffix."""


class HookProgram(NamedTuple):
    """The program that a hook starts: an interpreter and the file it runs."""

    interpreter: Path
    runner: Path


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """A host and the scope of its settings.

    If `plugin` is set, the host's plugin contains the hooks. `mcp` adds our server, and None means
    that the user does not want it.
    """

    host: Host
    scope: InstallScope
    root: Path
    env: Mapping[str, str]
    plugin: bool = False
    mcp: bool | None = False
    status_line: bool = False

    @property
    def client(self) -> Client:
        """The host's row in the table of clients."""
        return CLIENTS[self.host]

    @property
    def settings(self) -> Path:
        """The host's settings file."""
        return clients.settings_file(self.host, self.scope, self.root, self.env)

    @property
    def servers(self) -> ServersFile:
        """The file with the host's MCP servers, and the keys that lead to them."""
        return clients.servers_file(self.host, self.scope, self.root, self.env)

    @property
    def own_files(self) -> dict[Path, OwnFile]:
        """The files that belong entirely to Ralph: slash commands, scripts and a plugin."""
        folder = clients.host_folder(self.host, self.scope, self.root, self.env)
        hook_launcher = launcher(self.env)
        command_launcher = launcher(self.env, COMMAND_LAUNCHER)
        return clients.own_files(self.host, folder, hook_launcher, command_launcher)

    @property
    def inside(self) -> Path | None:
        """The folder that links must not lead out of, which is the project for its own files."""
        if self.scope is InstallScope.USER:
            return None
        return self.root

    @property
    def list_entry(self) -> str:
        """The line for this target in the list of installations."""
        if self.plugin:
            return _PLUGIN_ENTRY
        return f"{self.host} {self.scope} {self.settings}"


class FileEdit(NamedTuple):
    """A change to one file. `before` is None for a new file, and `after` for a deleted one."""

    path: Path
    before: str | None
    after: str | None
    what: str
    inside: Path | None = None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Changes to files, folders that will be empty afterwards, and notes for the user."""

    edits: tuple[FileEdit, ...]
    folders: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Each changed path, and what happens to it."""
        changes = [(str(edit.path), edit.what) for edit in self.edits]
        for folder in self.folders:
            changes.append((str(folder), "removed (empty)"))
        return changes


# --- launchers ----------------------------------------------------------------------------------


def hook_program(executable: str) -> HookProgram:
    """Return the running Ralph: its interpreter, with links left unresolved, and its run.py.

    Raises NotFound if the interpreter does not exist.
    """
    if not executable or not Path(executable).is_file():
        raise NotFound(
            f"the running Python cannot be found: {executable!r}",
            hint="start `ralph` by its full path",
        )
    return HookProgram(Path(executable).absolute(), Path(__file__).parents[1] / "hooks" / "run.py")


def interpreter_file(env: Mapping[str, str]) -> Path:
    """Return the file that tells launchers what to start: the interpreter, then run.py."""
    return _state_folder(env) / "interpreter"


def installed_file(env: Mapping[str, str]) -> Path:
    """Return the file that lists the installations and the folders created for them."""
    return _state_folder(env) / "installed"


def noted_program(env: Mapping[str, str]) -> HookProgram | None:
    """Return the Ralph that the launchers start, or None if it is unknown or gone."""
    lines = _noted_paths(env)
    if len(lines) != 2:
        return None
    program = HookProgram(Path(lines[0]), Path(lines[1]))
    if not os.access(program.interpreter, os.X_OK):
        return None
    if not program.interpreter.is_file() or not program.runner.is_file():
        return None
    return program


def _noted_paths(env: Mapping[str, str]) -> list[str]:
    return (files.read(interpreter_file(env)) or "").splitlines()


def launcher_problem(env: Mapping[str, str]) -> str:
    """Return why the launchers cannot start the installed Ralph, or "" if they can."""
    for name in LAUNCHERS:
        path = launcher(env, name)
        if not os.access(path, os.X_OK):
            return f"hooks and MCP clients start {path}, which is missing or not executable"
    if noted_program(env) is not None:
        return ""
    for path_text in _noted_paths(env):
        if not Path(path_text).is_file():
            return f"hooks and MCP clients start {path_text}, which no longer exists"
    return "does not name the Ralph to start"


# --- file edits ---------------------------------------------------------------------------------


class _Edits:
    """Changes to files, in order.

    A second change to the same file starts from the result of the first.
    """

    def __init__(self) -> None:
        self.by_path: dict[Path, FileEdit] = {}
        self.notes: list[str] = []

    def text(self, path: Path) -> str | None:
        if path in self.by_path:
            return self.by_path[path].after
        return files.read(path)

    def put(
        self,
        path: Path,
        after: str | None,
        what: str,
        inside: Path | None = None,
        mode: int | None = None,
    ) -> None:
        """Add a change, unless the file already has this text and is executable if it has to be."""
        current = self.text(path)
        if after is None and current is not None and path.is_symlink():
            after = _EMPTY_TEXTS.get(path.suffix)  # the link belongs to the user, so it is kept
        has_mode = mode is None or os.access(path, os.X_OK)
        if after == current and has_mode:
            return
        earlier = self.by_path.get(path)
        if earlier is None:
            before = files.read(path)
        else:
            before = earlier.before
            inside = earlier.inside
            what = f"{earlier.what}, {what}"
        if after is None:
            what = "removed"
        self.by_path[path] = FileEdit(path, before, after, what, inside, mode)

    def add_launchers(self, env: Mapping[str, str], program: HookProgram) -> None:
        """Write the launchers and the file that tells them what to start."""
        text = f"{program.interpreter}\n{program.runner}\n"
        self.put(interpreter_file(env), text, "names the Ralph to start")
        for name, script in LAUNCHERS.items():
            self.put(launcher(env, name), script, "starts Ralph", mode=_LAUNCHER_MODE)

    def remove_launchers(self, env: Mapping[str, str]) -> None:
        """Remove the launchers and the file that tells them what to start."""
        self.put(interpreter_file(env), None, "removed")
        for name in LAUNCHERS:
            self.put(launcher(env, name), None, "removed")

    def change_own_files(self, target: InstallTarget, *, add: bool) -> None:
        """Add or remove the files that belong entirely to Ralph.

        A file that is not ours is kept, and a note says so.
        """
        for path, own_file in target.own_files.items():
            before = files.read(path)
            if before is not None and not is_signed(before):
                self.notes.append(f"{path} was changed or is not Ralph's; left unchanged")
            elif not add:
                self.put(path, None, "removed")
            else:
                verb = "added" if before is None else "updated"
                what = f"{own_file.name} {verb}"
                self.put(path, own_file.text, what, target.inside, own_file.mode)

    def change_hooks(self, target: InstallTarget, *, add: bool) -> None:
        """Add our hooks, replacing older ones, or remove them."""
        if target.client.form not in (HookForm.GROUPS, HookForm.ENTRIES):
            return
        path = target.settings
        text = self.text(path)
        settings: dict[str, object] = {}
        if add:
            settings = clients.hook_settings(target.host, launcher(target.env))
        with _name_file(path):
            count = len(ralph_hooks(text))
            without_ours = text
            if text is not None and count:
                without_ours = host_files.without_hooks(text)
            if not add:
                self.put(path, without_ours, f"{count} hooks removed", target.inside)
            elif not host_files.has_current_hooks(text, settings):
                verb = "updated" if count else "added"
                after = host_files.with_hooks(without_ours, settings)
                self.put(path, after, f"{len(settings)} hooks {verb}", target.inside)

    def add_status_line(self, target: InstallTarget) -> None:
        """Add our status line. One that is not ours is kept, and a note says so."""
        path = target.settings
        text = self.text(path)
        with _name_file(path):
            current = host_files.json_entry(text, STATUS_LINE)
            if current is None:
                command = shlex.join([str(launcher(target.env)), "statusline"])
                entry = {"type": "command", "command": command}
                after = host_files.with_json_entry(text, STATUS_LINE, entry)
                self.put(path, after, "status line added", target.inside)
            elif not is_ralph_hook(current):
                self.notes.append(
                    f"{path} already has a status line, which is left unchanged; "
                    "call `ralph statusline` in it to see Ralph's line"
                )

    def remove_status_line(self, target: InstallTarget) -> None:
        """Remove our status line."""
        path = target.settings
        text = self.text(path)
        with _name_file(path):
            current = host_files.json_entry(text, STATUS_LINE)
            if text is not None and is_ralph_hook(current):
                after = host_files.without_json_entry(text, STATUS_LINE)
                self.put(path, after, "status line removed", target.inside)

    def change_server(self, target: InstallTarget, *, add: bool) -> None:
        """Add or remove our MCP server. A server of that name that is not ours is kept."""
        path = target.servers.path
        inside = target.inside if target.root in path.parents else None
        with _name_file(path):
            text = self.text(path)
            server = _find_server(target, text)
            is_ours = is_ralph_server(server)
            without_ours = text
            if text is not None and is_ours:
                without_ours = _without_server(target, text)
            entry = clients.server_entry(target.host, launcher(target.env, COMMAND_LAUNCHER))
            if not add:
                self.put(path, without_ours, "MCP server removed", inside)
            elif server is None:
                after = _with_server_entry(target, without_ours, entry)
                self.put(path, after, "MCP server added", inside)
            elif not is_ours:
                note = f"{path} has another server named `{SERVER_NAME}`, which is left unchanged"
                self.notes.append(note)
            elif not same_json(server, check_json(entry)):
                after = _with_server_entry(target, without_ours, entry)
                self.put(path, after, "MCP server updated", inside)


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Prefix the messages of errors with the path of the file."""
    try:
        yield
    except (Conflict, Unreadable) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.clauses) from error


def _find_server(target: InstallTarget, text: str | None) -> object | None:
    """Return the entry under our name in the text of the host's MCP server list, or None."""
    if target.host is Host.CODEX:
        return host_files.toml_server(text)
    return host_files.json_entry(text, (*target.servers.keys, SERVER_NAME))


def _with_server_entry(target: InstallTarget, text: str | None, entry: Mapping[str, object]) -> str:
    if target.host is Host.CODEX:
        return host_files.with_toml_server(text, entry)
    return host_files.with_json_entry(text, (*target.servers.keys, SERVER_NAME), entry)


def _without_server(target: InstallTarget, text: str) -> str | None:
    if target.host is Host.CODEX:
        return host_files.without_toml_server(text)
    return host_files.without_json_entry(text, (*target.servers.keys, SERVER_NAME))


# --- what is installed --------------------------------------------------------------------------


def has_entries(target: InstallTarget) -> bool:
    """Return whether a host's settings contain our hooks.

    For a host without hooks, our MCP server counts instead.
    """
    text = files.read(target.settings)
    form = target.client.form
    if form is HookForm.NONE:
        return is_ralph_server(_find_server(target, text))
    if form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        return text is not None and is_signed(text)
    return bool(ralph_hooks(text))


def has_server(host: str, root: Path, env: Mapping[str, str]) -> bool:
    """Return whether a host's sessions in this project have our MCP tools.

    Files that cannot be read count as having no entry for our server.
    """
    if host not in list(Host):
        return False
    for scope in InstallScope:
        with suppress(RalphError, OSError):
            target = InstallTarget(Host(host), scope, root, env)
            text = files.read(target.servers.path) or ""
            # The file may list all of a user's projects, so parse it only if it contains the name.
            has_name = f'"{SERVER_NAME}"' in text or f".{SERVER_NAME}]" in text
            if has_name and is_ralph_server(_find_server(target, text)):
                return True
    return False


def outdated_entries(target: InstallTarget) -> list[tuple[Path, str]]:
    """Return the files whose hooks or MCP server differ from what this version writes."""
    edits = _Edits()
    target = with_server(target)
    edits.change_hooks(target, add=True)
    if target.client.form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        edits.change_own_files(target, add=True)
    if target.mcp:
        edits.change_server(target, add=True)
    return [(edit.path, edit.what) for edit in edits.by_path.values()]


def with_server(target: InstallTarget) -> InstallTarget:
    """Return the target with our MCP server, if it has the server or should have it.

    It should have it if the extra is installed and --no-mcp was not used.
    """
    server = _find_server(target, files.read(target.servers.path))
    is_unwanted = f"{_NO_MCP_PREFIX}{target.list_entry}" in _read_installed(target.env).entries
    should_have_server = has_extra("mcp") and not is_unwanted
    return replace(target, mcp=is_ralph_server(server) or should_have_server)


def all_targets(root: Path, env: Mapping[str, str]) -> list[InstallTarget]:
    """Return all installations: the listed ones, those in the user's files, and those in `root`."""
    targets: dict[str, InstallTarget] = {}
    for host in Host:
        target = InstallTarget(host, InstallScope.USER, root, env)
        if host is Host.CLAUDE or _mentions_ralph(target):
            targets[target.list_entry] = target
    for host, scope in product(Host, (InstallScope.PROJECT, InstallScope.LOCAL)):
        target = InstallTarget(host, scope, root, env)
        # no such scope, or a broken file that is its host's concern
        with suppress(UsageError, Unreadable):
            if has_entries(target):
                targets[target.list_entry] = target
    for entry in _read_installed(env).entries:
        listed = _listed_target(entry, root, env)
        if listed is not None:
            targets.setdefault(entry, listed)
    return list(targets.values())


def _mentions_ralph(target: InstallTarget) -> bool:
    """Return whether a host's files may mention us, without parsing what others wrote."""
    paths = (target.settings, target.servers.path, *target.own_files)
    return any("ralph" in (files.read(path) or "") for path in paths)


def _listed_target(entry: str, root: Path, env: Mapping[str, str]) -> InstallTarget | None:
    """Return the installation that a line in the list describes, or None."""
    if entry == _PLUGIN_ENTRY:
        return InstallTarget(Host.CLAUDE, InstallScope.USER, root, env, plugin=True)
    host_name, _, rest = entry.partition(" ")
    scope_name, _, settings = rest.partition(" ")
    if host_name not in list(Host) or scope_name not in list(InstallScope):
        return None
    host = Host(host_name)
    scope = InstallScope(scope_name)
    place = clients.installed_at(host, scope, Path(settings), env)
    return InstallTarget(host, scope, place.root, place.env)


class _InstalledList(NamedTuple):
    """The list of installations, and the folders that were created for them."""

    entries: list[str]
    folders: list[Path]


def _read_installed(env: Mapping[str, str]) -> _InstalledList:
    installed = _InstalledList([], [])
    for line in (files.read(installed_file(env)) or "").splitlines():
        if line.startswith(_FOLDER_PREFIX):
            installed.folders.append(Path(line.removeprefix(_FOLDER_PREFIX)))
        elif line:
            installed.entries.append(line)
    return installed


def _render_installed(entries: Iterable[str], folders: Iterable[Path]) -> str:
    lines = [*entries]
    lines += [f"{_FOLDER_PREFIX}{folder}" for folder in folders]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


# --- plans --------------------------------------------------------------------------------------


def plan_launchers(env: Mapping[str, str], ours: HookProgram) -> InstallPlan:
    """Plan the changes that make the launchers start this Ralph."""
    edits = _Edits()
    edits.add_launchers(env, ours)
    return InstallPlan(tuple(edits.by_path.values()))


def plan_install(target: InstallTarget, ours: HookProgram) -> InstallPlan:
    """Plan the changes that make the host start this Ralph.

    Raises UsageError for a scope or a plugin that the host does not support, and Unreadable or
    Conflict for a file that cannot be edited safely.
    """
    _check_plugin(target)
    if target.client.form is HookForm.NONE and not target.mcp:
        clients.settings_file(target.host, target.scope, target.root, target.env)  # check the scope
        note = f"{target.client.title} has no hooks: without the MCP server, nothing is installed"
        return InstallPlan((), notes=(note,))
    edits = _Edits()
    edits.add_launchers(target.env, ours)
    if not target.plugin:
        edits.change_own_files(target, add=True)
        edits.change_hooks(target, add=True)
        if target.mcp:
            edits.change_server(target, add=True)
        if target.status_line:
            edits.add_status_line(target)
    changes = list(edits.by_path.values())
    list_edit = _list_installation(target, edits.by_path)
    if list_edit is not None:  # first, so that nothing is installed without being listed
        changes.insert(0, list_edit)
    notes = edits.notes
    if changes:
        notes += _advice(target)
    return InstallPlan(tuple(changes), notes=tuple(notes))


def _list_installation(target: InstallTarget, changed: Iterable[Path]) -> FileEdit | None:
    """Return the edit that adds a target, and the folders of the changed files, to the list."""
    list_file = installed_file(target.env)
    installed = _read_installed(target.env)
    entries = installed.entries
    no_mcp = f"{_NO_MCP_PREFIX}{target.list_entry}"
    if target.mcp:
        entries = [entry for entry in entries if entry != no_mcp]
    entries.append(target.list_entry)
    if target.mcp is None:
        entries.append(no_mcp)
    folders = installed.folders
    for file in (*changed, list_file):
        folders += [folder for folder in file.parents if not folder.exists()]
    before = files.read(list_file)
    after = _render_installed(entries, folders)
    if after == before:
        return None
    return FileEdit(list_file, before, after, "lists the installations")


def _advice(target: InstallTarget) -> Iterator[str]:
    if target.plugin:
        yield "The plugin's hooks start this Ralph from the next session on."
        return
    if target.scope is not InstallScope.USER:
        yield (
            f"{target.settings} now contains paths of this machine: "
            "keep it out of git, or use --scope user."
        )
    if target.host is Host.CODEX:
        yield (
            "Codex runs new hooks only after you have reviewed them: "
            "open /hooks in Codex once and trust them."
        )
    yield "Running sessions keep the hooks that they started with."


def plan_uninstall(*targets: InstallTarget) -> InstallPlan:
    """Plan the changes that remove these installations. What others wrote is kept.

    Raises the same errors as `plan_install`.
    """
    edits = _Edits()
    env = targets[0].env
    for target in targets:
        _check_plugin(target)
        if not target.plugin:
            _remove_target(edits, target)
    removed_entries = {target.list_entry for target in targets}
    installed = _read_installed(env)
    list_file = installed_file(env)
    entries = []
    for entry in installed.entries:
        if entry.removeprefix(_NO_MCP_PREFIX) not in removed_entries:
            entries.append(entry)
    if not entries:
        edits.remove_launchers(env)
    deleted = {edit.path for edit in edits.by_path.values() if edit.after is None}
    if not entries:
        deleted.add(list_file)
    empty = _empty_folders(installed.folders, deleted)
    list_text = None
    if entries:
        folders = [folder for folder in installed.folders if folder not in empty]
        list_text = _render_installed(entries, folders)
    edits.put(list_file, list_text, "updated")
    return InstallPlan(tuple(edits.by_path.values()), tuple(empty), tuple(edits.notes))


def _remove_target(edits: _Edits, target: InstallTarget) -> None:
    if target.host is Host.CLAUDE:
        edits.remove_status_line(target)
    edits.change_hooks(target, add=False)
    edits.change_server(target, add=False)
    edits.change_own_files(target, add=False)


def _empty_folders(folders: Collection[Path], deleted_files: Iterable[Path]) -> list[Path]:
    """Return the folders that will be empty once the files are deleted, deepest first."""
    deleted = set(deleted_files)
    empty = []
    for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not folder.is_symlink() and set(folder.iterdir()) <= deleted:
            deleted.add(folder)
            empty.append(folder)
    return empty


def _check_plugin(target: InstallTarget) -> None:
    if target.plugin and target.host is not Host.CLAUDE:
        raise UsageError(f"there is no plugin for {target.host}", hint="leave --plugin out")


def apply_plan(plan: InstallPlan) -> None:
    """Apply a plan.

    Raises WriteFailed, before anything is written, if a file is read-only. Raises Conflict if a
    file has changed since the plan was made.
    """
    for edit in plan.edits:
        _check_writable(edit)
    for edit in plan.edits:
        if edit.after is None:
            files.delete(edit.path)
        else:
            files.write(
                edit.path, edit.after, root=edit.inside, expect=edit.before or "", mode=edit.mode
            )
    for folder in plan.folders:
        if folder.is_dir() and not any(folder.iterdir()):
            files.remove_folder(folder)


def _check_writable(edit: FileEdit) -> None:
    real = files.target(edit.path, edit.inside)
    if real.exists() and not real.stat().st_mode & _WRITE_PERMISSIONS:
        raise WriteFailed(
            f"{edit.path} is read-only", hint="make it writable and run again; nothing was written"
        )
