"""`ralph install` and `ralph uninstall`: hooks, slash commands and the MCP server in a host's own files.

Both make a plan first, so that a broken file stops everything before the first write; uninstalling restores the old
bytes. Hosts start launchers in the user's state folder, which find the interpreter: an upgrade changes no host's files,
and a hook exits 0 when Ralph is gone (Python's 2 for a missing script would block the prompt or the tool).
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ralph.core import discovery
from ralph.core.errors import Conflict, NotFound, RalphError, Unreadable, UsageError, WriteFailed
from ralph.core.extras import has_extra
from ralph.core.json_text import check_json, same_json
from ralph.formats import host_files
from ralph.formats.host_files import (
    SERVER_NAME,
    STATUS_LINE,
    is_ralph_hook,
    is_ralph_server,
    ralph_hooks,
)
from ralph.install import clients
from ralph.install.clients import CLIENTS, Client, HookForm, Host, InstallScope, folder_in
from ralph.install.slash_commands import is_signed
from ralph.storage import files

HOOK_LAUNCHER = "ralph-hook"
COMMAND_LAUNCHER = "ralph"
_FIND = """\
#!/bin/sh
# Written by `ralph install`. %s
note=${0%%/*}/../interpreter python='' runner=''
[ ! -r "$note" ] || { IFS= read -r python; IFS= read -r runner; } <"$note"
[ -f "$runner" ] || for runner in "${python%%/bin/*}"/lib/python3*/site-packages/ralph/hooks/run.py; do :; done
[ -x "$python" ] && [ -f "$runner" ] && exec "$python" -I %s "$@"
"""
_GONE = "Ralph is gone: install the package ralph-memory again and run 'ralph doctor --fix', or remove this entry."
LAUNCHERS = {
    HOOK_LAUNCHER: _FIND
    % ("Starts Ralph for one event of a coding agent, or does nothing.", '-S "$runner"')
    + "exit 0\n",
    COMMAND_LAUNCHER: _FIND
    % ("Starts the command `ralph`, for MCP clients and slash commands.", "-m ralph")
    + f'echo "{_GONE}" >&2\nexit 1\n',
}
"""The scripts in the state folder. Another Python in the same environment has another path of run.py: they look."""
_FOLDER_PREFIX = "folder "
_NO_MCP_PREFIX = "no-mcp "


class HookProgram(NamedTuple):
    """What a hook starts: an interpreter, and the file that it runs."""

    interpreter: Path
    runner: Path


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """A host and scope: `plugin` has the hooks, `mcp` adds our server (None: not wanted)."""

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
    def servers(self) -> tuple[Path, tuple[str, ...]]:
        """The host's file of MCP servers, and the keys that lead to them."""
        return clients.servers_file(self.host, self.scope, self.root, self.env)

    @property
    def own_files(self) -> dict[Path, tuple[str, str, int | None]]:
        """The files that are ours alone: slash commands, scripts, a plugin."""
        folder = clients.host_folder(self.host, self.scope, self.root, self.env)
        return clients.own_files(
            self.host, folder, launcher(self.env), launcher(self.env, COMMAND_LAUNCHER)
        )

    @property
    def inside(self) -> Path | None:
        """The folder that no link may lead out of: the project, for its own files."""
        return None if self.scope is InstallScope.USER else self.root

    @property
    def list_entry(self) -> str:
        """The line of this installation in the list of installations."""
        return "plugin" if self.plugin else f"{self.host} {self.scope} {self.settings}"


class FileEdit(NamedTuple):
    """One file's change: `before` is None when it does not exist, `after` when it is deleted."""

    path: Path
    before: str | None
    after: str | None
    what: str
    inside: Path | None = None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Changes of files, folders that are empty after them, and notes for the user."""

    edits: tuple[FileEdit, ...]
    folders: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Each change as a path and what happens to it."""
        folders = [(str(folder), "removed, as it is empty") for folder in self.folders]
        return [*((str(edit.path), edit.what) for edit in self.edits), *folders]


def hook_program(executable: str) -> HookProgram:
    """Return this Ralph: the interpreter of its virtual environment, no link followed, and its run.py."""
    if not executable or not Path(executable).is_file():
        raise NotFound(
            f"the running Python cannot be found: {executable!r}",
            hint="start `ralph` by its full path",
        )
    return HookProgram(Path(executable).absolute(), Path(__file__).parents[1] / "hooks" / "run.py")


def interpreter_file(env: Mapping[str, str]) -> Path:
    """Return the file that names what launchers start: the interpreter, then run.py."""
    return _state_folder(env) / "interpreter"


def launcher(env: Mapping[str, str], name: str = HOOK_LAUNCHER) -> Path:
    """Return a launcher: its path stays the same wherever Ralph is installed."""
    return _state_folder(env) / "bin" / name


def noted_program(env: Mapping[str, str]) -> HookProgram | None:
    """Return the Ralph that the launchers are to start; None when none is noted or it is gone."""
    lines = (files.read(interpreter_file(env)) or "").splitlines()
    is_complete = (
        len(lines) == 2
        and os.access(lines[0], os.X_OK)
        and all(Path(line).is_file() for line in lines)
    )
    return HookProgram(Path(lines[0]), Path(lines[1])) if is_complete else None


def launcher_problem(env: Mapping[str, str]) -> str:
    """Return why the launchers cannot start the Ralph that was installed; "" when they can."""
    missing = [path for name in LAUNCHERS if not os.access(path := launcher(env, name), os.X_OK)]
    if missing:
        return f"{missing[0]} cannot be started, which hooks and MCP clients name"
    if noted_program(env) is not None:
        return ""
    programs = (files.read(interpreter_file(env)) or "").splitlines()
    gone = next((program for program in programs if not Path(program).is_file()), "")
    return (
        f"hooks and MCP clients start {gone}, which is gone"
        if gone
        else "it does not name the Ralph to start"
    )


def installed_file(env: Mapping[str, str]) -> Path:
    """Return the file that lists installations, and the folders that were created for them."""
    return _state_folder(env) / "installed"


def _state_folder(env: Mapping[str, str]) -> Path:
    return Path(discovery.user_folder("STATE", env) or folder_in(env, "HOME"))


class _Edits:
    """Changes of files in order; a second change of a file begins with the text after the first."""

    def __init__(self) -> None:
        self.by_path: dict[Path, FileEdit] = {}
        self.notes: list[str] = []

    def text(self, path: Path) -> str | None:
        return self.by_path[path].after if path in self.by_path else files.read(path)

    def put(
        self,
        path: Path,
        after: str | None,
        what: str,
        inside: Path | None = None,
        mode: int | None = None,
    ) -> None:
        if (
            after is None and self.text(path) is not None and path.is_symlink()
        ):  # the link is the user's
            after = {".json": "{}\n", ".toml": ""}.get(path.suffix)
        if after == self.text(path) and (mode is None or os.access(path, os.X_OK)):
            return
        earlier = self.by_path.get(path)
        before, inside = (earlier.before, earlier.inside) if earlier else (files.read(path), inside)
        what = f"{earlier.what}, {what}" if earlier else what
        self.by_path[path] = FileEdit(
            path, before, after, what if after is not None else "removed", inside, mode
        )

    def change_launchers(self, env: Mapping[str, str], ours: HookProgram | None) -> None:
        """Write the launchers and what they start, or remove them without a program."""
        text = None if ours is None else f"{ours.interpreter}\n{ours.runner}\n"
        self.put(interpreter_file(env), text, "names the Ralph that is started")
        for name, script in LAUNCHERS.items():
            path = launcher(env, name)
            self.put(
                path,
                None if ours is None else script,
                "starts Ralph",
                mode=None if ours is None else 0o755,
            )

    def change_own_files(self, target: InstallTarget, *, add: bool) -> None:
        """Add the files that are ours alone, or remove them; a foreign file stays, which a note says."""
        for path, (text, name, mode) in target.own_files.items():
            if (before := files.read(path)) is not None and not is_signed(before):
                self.notes.append(f"{path} is not ours or was changed; it stays as it is")
            elif add:
                self.put(
                    path,
                    text,
                    f"{name} {'added' if before is None else 'updated'}",
                    target.inside,
                    mode,
                )
            else:
                self.put(path, None, "")

    def change_hooks(self, target: InstallTarget, *, add: bool) -> None:
        """Add our hooks, in place of older ones, or remove them."""
        if target.client.form not in (HookForm.GROUPS, HookForm.ENTRIES):
            return
        path = target.settings
        text = self.text(target.settings)
        settings = clients.hook_settings(target.host, launcher(target.env)) if add else {}
        with _name_file(path):
            number = len(ralph_hooks(text))
            base = host_files.without_hooks(text) if text is not None and number else text
            if not add:
                self.put(path, base, f"{number} hooks removed", target.inside)
            elif not host_files.has_current_hooks(text, settings):
                what = (
                    f"{len(settings)} hooks {'put in place of older ones' if number else 'added'}"
                )
                self.put(path, host_files.with_hooks(base, settings), what, target.inside)

    def change_status_line(self, target: InstallTarget, *, add: bool) -> None:
        """Add our status line, or remove it; one that is not ours stays, which a note says."""
        path = target.settings
        text = self.text(target.settings)
        with _name_file(path):
            current = host_files.json_entry(text, STATUS_LINE)
            if not add and text is not None and is_ralph_hook(current):
                after = host_files.without_json_entry(text, STATUS_LINE)
                self.put(path, after, "the status line removed", target.inside)
            elif add and current is None:
                entry = {
                    "type": "command",
                    "command": shlex.join([str(launcher(target.env)), "statusline"]),
                }
                after = host_files.with_json_entry(text, STATUS_LINE, entry)
                self.put(path, after, "the status line added", target.inside)
            elif add and not is_ralph_hook(current):
                what = "has a status line, which stays as it is; call `ralph statusline` in it to see Ralph's line"
                self.notes.append(f"{path} {what}")

    def change_server(self, target: InstallTarget, *, add: bool) -> None:
        """Add our MCP server, or remove it; a foreign server of that name stays."""
        path = target.servers[0]
        keys = (*target.servers[1], SERVER_NAME)
        is_toml = target.host is Host.CODEX
        inside = target.inside if target.root in path.parents else None
        with _name_file(path):
            text = base = self.text(path)
            server = _find_server(target, text)
            if text is not None and is_ralph_server(server):
                base = (
                    host_files.without_toml_server(text)
                    if is_toml
                    else host_files.without_json_entry(text, keys)
                )
            setting = clients.server_entry(target.host, launcher(target.env, COMMAND_LAUNCHER))
            if not add:
                self.put(path, base, "the MCP server removed", inside)
            elif server is not None and not is_ralph_server(server):
                self.notes.append(
                    f"{path} has a server called `{SERVER_NAME}` that is not ours; it stays as it is"
                )
            elif server is None or not same_json(server, check_json(setting)):
                what = "the MCP server added" if server is None else "the MCP server put in anew"
                with_entry = host_files.with_json_entry
                after = (
                    host_files.with_toml_server(base, setting)
                    if is_toml
                    else with_entry(base, keys, setting)
                )
                self.put(path, after, what, inside)


def _find_server(target: InstallTarget, text: str | None) -> object | None:
    """Return the entry with our name in the text of the host's list of MCP servers."""
    if target.host is Host.CODEX:
        return host_files.toml_server(text)
    return host_files.json_entry(text, (*target.servers[1], SERVER_NAME))


def has_entries(target: InstallTarget) -> bool:
    """Return whether a host's settings have hooks of ours, or our MCP server where it has no hooks."""
    text = files.read(target.settings)
    form = target.client.form
    if form is HookForm.NONE:
        return is_ralph_server(_find_server(target, text))
    if form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        return text is not None and is_signed(text)
    return bool(ralph_hooks(text))


def outdated_entries(target: InstallTarget) -> list[tuple[Path, str]]:
    """Return the files of an installation whose hooks or MCP server are not as this version writes them."""
    edits = _Edits()
    target = with_server(target)
    edits.change_hooks(target, add=True)
    if target.client.form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        edits.change_own_files(target, add=True)
    if target.mcp:
        edits.change_server(target, add=True)
    return [(edit.path, edit.what) for edit in edits.by_path.values()]


def with_server(target: InstallTarget) -> InstallTarget:
    """Return the target with our MCP server if it has one, or could have one and nobody said --no-mcp."""
    server = _find_server(target, files.read(target.servers[0]))
    is_unwanted = f"{_NO_MCP_PREFIX}{target.list_entry}" in _read_installed(target.env)[0]
    return replace(target, mcp=is_ralph_server(server) or (has_extra("mcp") and not is_unwanted))


def plan_launchers(env: Mapping[str, str], ours: HookProgram) -> InstallPlan:
    """Return what has to change so that the launchers start this Ralph."""
    (edits := _Edits()).change_launchers(env, ours)
    return InstallPlan(tuple(edits.by_path.values()))


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    try:
        yield
    except (Conflict, Unreadable) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.clauses) from error


def plan_install(target: InstallTarget, ours: HookProgram) -> InstallPlan:
    """Return what has to change so that the host starts this Ralph."""
    _check(target)
    if not target.mcp and target.client.form is HookForm.NONE and target.settings.is_absolute():
        note = f"{target.client.title} has no hooks: without the MCP server there is nothing to install"
        return InstallPlan((), notes=(note,))
    edits = _Edits()
    edits.change_launchers(target.env, ours)
    if not target.plugin:
        edits.change_own_files(target, add=True)
        edits.change_hooks(target, add=True)
        if target.mcp:
            edits.change_server(target, add=True)
        if target.status_line:
            edits.change_status_line(target, add=True)
    list_file, (entries, folders) = installed_file(target.env), _read_installed(target.env)
    created = [
        folder
        for file in (*edits.by_path, list_file)
        for folder in file.parents
        if not folder.exists()
    ]
    no_mcp = f"{_NO_MCP_PREFIX}{target.list_entry}"
    entries = [entry for entry in entries if not (target.mcp and entry == no_mcp)]
    entries += [target.list_entry, *([no_mcp] if target.mcp is None else [])]
    after = _render_installed(entries, [*folders, *created])
    before = files.read(list_file)
    changes = list(edits.by_path.values())
    if after != before:  # first, so that nothing is installed that the list does not have
        changes.insert(0, FileEdit(list_file, before, after, "lists what is installed where"))
    return InstallPlan(tuple(changes), notes=(*edits.notes, *(_advice(target) if changes else ())))


def all_targets(root: Path, env: Mapping[str, str]) -> list[InstallTarget]:
    """Return everything that is listed as installed, in all projects, what the user's files have, and `root`'s."""
    users = [InstallTarget(host, InstallScope.USER, root, env) for host in Host]
    targets = {}
    for (
        target
    ) in users:  # whether one of its files may be about us, without parsing what others wrote
        paths = (target.settings, target.servers[0], *target.own_files)
        if target.host is Host.CLAUDE or any("ralph" in (files.read(path) or "") for path in paths):
            targets[target.list_entry] = target
    for host, scope in product(Host, (InstallScope.PROJECT, InstallScope.LOCAL)):
        target = InstallTarget(host, scope, root, env)
        with suppress(
            UsageError, Unreadable
        ):  # no such scope, or a file that only its host may complain about
            if has_entries(target):
                targets[target.list_entry] = target
    for entry in _read_installed(env)[0]:
        name, _, rest = entry.partition(" ")
        place, _, path = rest.partition(" ")
        if entry == "plugin":
            targets[entry] = InstallTarget(Host.CLAUDE, InstallScope.USER, root, env, plugin=True)
        elif entry not in targets and name in list(Host) and place in list(InstallScope):
            host = Host(name)
            scope = InstallScope(place)
            targets[entry] = InstallTarget(
                host, scope, *clients.installed_at(host, scope, Path(path), env)
            )
    return list(targets.values())


def plan_uninstall(*targets: InstallTarget) -> InstallPlan:
    """Return what has to change so that nothing of these installations is left; what others wrote stays."""
    edits = _Edits()
    env = targets[0].env
    for target in targets:
        _check(target)
        if not target.plugin:
            if target.host is Host.CLAUDE:
                edits.change_status_line(target, add=False)
            edits.change_hooks(target, add=False)
            edits.change_server(target, add=False)
            edits.change_own_files(target, add=False)
    list_file, (entries, our_folders) = installed_file(env), _read_installed(env)
    gone_entries = {target.list_entry for target in targets}
    entries = [entry for entry in entries if entry.removeprefix(_NO_MCP_PREFIX) not in gone_entries]
    if not entries:
        edits.change_launchers(env, None)
    gone = {edit.path for edit in edits.by_path.values() if edit.after is None} | (
        set() if entries else {list_file}
    )
    empty: list[Path] = []  # folders of ours
    for folder in sorted(our_folders, key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not folder.is_symlink() and set(folder.iterdir()) <= gone:
            gone.add(folder)
            empty.append(folder)
    rest = [folder for folder in our_folders if folder not in empty]
    edits.put(list_file, _render_installed(entries, rest) if entries else None, "updated")
    return InstallPlan(tuple(edits.by_path.values()), tuple(empty), tuple(edits.notes))


def _check(target: InstallTarget) -> None:
    if target.plugin and target.host is not Host.CLAUDE:
        raise UsageError(f"there is no plugin for {target.host}", hint="leave --plugin out")


def _read_installed(env: Mapping[str, str]) -> tuple[list[str], list[Path]]:
    lines = [line for line in (files.read(installed_file(env)) or "").splitlines() if line]
    folders = [
        Path(line.removeprefix(_FOLDER_PREFIX)) for line in lines if line.startswith(_FOLDER_PREFIX)
    ]
    return [line for line in lines if not line.startswith(_FOLDER_PREFIX)], folders


def _render_installed(entries: Iterable[str], folders: Iterable[Path]) -> str:
    lines = dict.fromkeys([*entries, *(f"{_FOLDER_PREFIX}{folder}" for folder in folders)])
    return "".join(f"{line}\n" for line in lines)


def _advice(target: InstallTarget) -> Iterator[str]:
    if target.plugin:
        yield "The plugin's hooks start this Ralph from the next session on."
        return
    if target.scope is not InstallScope.USER:
        yield f"{target.settings} now holds paths of this machine: keep it out of git, or use --scope user."
    if target.host is Host.CODEX:
        yield "Codex runs new hooks only after you have looked at them: open /hooks in Codex once and trust them."
    yield "Sessions that are running keep the hooks that they started with."


def apply_plan(plan: InstallPlan) -> None:
    """Apply a plan; Conflict for a file that was changed since the plan was made."""
    for edit in plan.edits:  # a read-only file stops everything before the first write
        real = files.target(edit.path, edit.inside)
        if real.exists() and not real.stat().st_mode & 0o222:
            raise WriteFailed(
                f"{edit.path}: is read-only",
                hint="make it writable and run again; nothing was written",
            )
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


def has_server(host: str, root: Path, env: Mapping[str, str]) -> bool:
    """Check whether a host's sessions in this project have our MCP tools; what cannot be read has none."""
    for scope in InstallScope if host in (*Host,) else ():
        with suppress(RalphError, OSError):
            target = InstallTarget(Host(host), scope, root, env)
            text = files.read(target.servers[0]) or ""
            is_named = (
                f'"{SERVER_NAME}"' in text or f".{SERVER_NAME}]" in text
            )  # it has all of a user's projects
            if is_named and is_ralph_server(_find_server(target, text)):
                return True
    return False


def agent_program(executable: str, env: Mapping[str, str]) -> str:
    """Return how an agent starts this Ralph: by its name where its path finds it, else by its file."""
    ours = Path(executable).parent / "ralph"
    found = shutil.which("ralph", path=env.get("PATH", ""))
    with suppress(OSError):
        if not ours.exists() or (found and ours.samefile(found)):
            return "ralph"
    with suppress(UsageError):
        stable = launcher(env, COMMAND_LAUNCHER)
        ours = stable if os.access(stable, os.X_OK) else ours
    home = f"{env.get('HOME') or '/-'}/"
    path = f"~/{str(ours)[len(home) :]}" if str(ours).startswith(home) else str(ours)
    return path if " " not in path else f"'{ours}'"
