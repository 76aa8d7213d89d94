"""Find out where Ralph is installed.

The file `installed` in the user's state folder lists the installations, and the folders that were
created for them:

    claude user /home/ann/.claude/settings.json
    no-mcp codex user /home/ann/.codex/hooks.json
    merge-driver repository
    folder /home/ann/.claude/commands

A line that starts with `no-mcp` records that the user does not want the MCP server there, and
`merge-driver` where git's merge driver is registered, unless that is the user's git config.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import RalphError, Unreadable, UsageError
from ralph.core.extras import has_extra
from ralph.core.launchers import _state_folder
from ralph.formats.host_files import SERVER_NAME, is_ralph_server, ralph_hooks
from ralph.install import clients
from ralph.install.clients import HookForm, Host, InstallScope
from ralph.install.host_edits import HostEdits, find_server
from ralph.install.install_target import PLUGIN_ENTRY, InstallTarget
from ralph.install.slash_commands import is_signed
from ralph.storage import files

_FOLDER_PREFIX = "folder "  # starts a line that names a folder in the list of installations
_PLUGIN_VARIABLE = "CLAUDE_PLUGIN_ROOT"  # set by Claude Code for the hooks of a plugin
_PLUGIN_TOOL_PREFIX = "mcp__plugin_ralph_ralph__"
NO_MCP_PREFIX = "no-mcp "  # starts a line for an installation without the MCP server
_DRIVER_PREFIX = "merge-driver "  # starts the line about the merge driver


class DriverPlace(StrEnum):
    """Where the merge driver is registered."""

    USER = "user"
    REPOSITORY = "repository"
    NONE = "none"


def installed_file(env: Mapping[str, str]) -> Path:
    """Return the file that lists the installations and the folders created for them."""
    return _state_folder(env) / "installed"


def has_entries(target: InstallTarget) -> bool:
    """Return whether a host's settings contain our hooks.

    For a host without hooks, our MCP server counts instead.
    """
    text = files.read(target.settings)
    form = target.client.form
    if form is HookForm.NONE:
        return is_ralph_server(find_server(target, text))
    if form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        return text is not None and is_signed(text)
    return bool(ralph_hooks(text))


def tool_prefix(host: str, root: Path, env: Mapping[str, str]) -> str | None:
    """Return what an agent reads in front of the names of our MCP tools.

    Returns None if the host's sessions in this project do not have these tools. Files that cannot
    be read count as having no entry for our server.
    """
    if host not in list(Host):
        return None
    if _has_server(host, root, env):
        return clients.CLIENTS[Host(host)].tool_prefix
    is_plugin_hook = host == Host.CLAUDE and _PLUGIN_VARIABLE in env
    if is_plugin_hook and has_extra("mcp"):
        return _PLUGIN_TOOL_PREFIX
    return None


def tool_loader(host: str) -> str:
    """Return the tool with which an agent loads MCP tools before it calls them, or ""."""
    if host not in list(Host):
        return ""
    return clients.CLIENTS[Host(host)].tool_loader


def _has_server(host: str, root: Path, env: Mapping[str, str]) -> bool:
    for scope in InstallScope:
        with suppress(RalphError, OSError):
            target = InstallTarget(Host(host), scope, root, env)
            text = files.read(target.servers.path) or ""
            # The file may list all of a user's projects, so parse it only if it contains the name.
            has_name = f'"{SERVER_NAME}"' in text or f".{SERVER_NAME}]" in text
            if has_name and is_ralph_server(find_server(target, text)):
                return True
    return False


def outdated_entries(target: InstallTarget) -> list[tuple[Path, str]]:
    """Return the files whose hooks or MCP server differ from what this version writes.

    Each comes with a description of what an update would change.
    """
    edits = HostEdits()
    target = with_server(target)
    edits.change_hooks(target, add=True)
    if target.client.form in (HookForm.SCRIPTS, HookForm.PLUGIN):
        edits.change_own_files(target, add=True)
    if target.mcp:
        edits.change_server(target, add=True)
    return [(edit.path, edit.preview) for edit in edits.by_path.values()]


def with_server(target: InstallTarget) -> InstallTarget:
    """Return the target with `mcp` set if it has our MCP server or should have it.

    It should have the server if the extra is installed and --no-mcp was not used.
    """
    server = find_server(target, files.read(target.servers.path))
    is_unwanted = f"{NO_MCP_PREFIX}{target.list_entry}" in read_installed(target.env).entries
    should_have_server = has_extra("mcp") and not is_unwanted
    return replace(target, mcp=is_ralph_server(server) or should_have_server)


def all_targets(root: Path, env: Mapping[str, str]) -> list[InstallTarget]:
    """Return all installations that are listed or that can be found for the user or in `root`."""
    targets: dict[str, InstallTarget] = {}
    for host in Host:
        target = InstallTarget(host, InstallScope.USER, root, env)
        if host is Host.CLAUDE or _mentions_ralph(target):
            targets[target.list_entry] = target
    for host, scope in product(Host, (InstallScope.PROJECT, InstallScope.LOCAL)):
        target = InstallTarget(host, scope, root, env)
        # The host may not support the scope. A broken file is the host's concern.
        with suppress(UsageError, Unreadable):
            if has_entries(target):
                targets[target.list_entry] = target
    for entry in read_installed(env).entries:
        listed = _listed_target(entry, root, env)
        if listed is not None:
            targets.setdefault(entry, listed)
    return list(targets.values())


def _mentions_ralph(target: InstallTarget) -> bool:
    """Return whether a host's files mention Ralph. They may be broken, so nothing is parsed."""
    paths = (target.settings, target.servers.path, *target.own_files)
    return any("ralph" in (files.read(path) or "") for path in paths)


def _listed_target(entry: str, root: Path, env: Mapping[str, str]) -> InstallTarget | None:
    """Return the installation that a line in the list describes, or None."""
    if entry == PLUGIN_ENTRY:
        return InstallTarget(Host.CLAUDE, InstallScope.USER, root, env, plugin=True)
    host_name, _, rest = entry.partition(" ")
    scope_name, _, settings = rest.partition(" ")
    if host_name not in list(Host) or scope_name not in list(InstallScope):
        return None
    host = Host(host_name)
    scope = InstallScope(scope_name)
    place = clients.locate_installation(host, scope, Path(settings), env)
    return InstallTarget(host, scope, place.root, place.env)


class InstalledList(NamedTuple):
    """The list of installations, and the folders that were created for them."""

    entries: list[str]
    folders: list[Path]
    driver: DriverPlace = DriverPlace.USER


def read_installed(env: Mapping[str, str]) -> InstalledList:
    """Read the list of installations, which is empty if there is no such file."""
    entries = []
    folders = []
    driver = DriverPlace.USER
    for line in (files.read(installed_file(env)) or "").splitlines():
        if line.startswith(_FOLDER_PREFIX):
            folders.append(Path(line.removeprefix(_FOLDER_PREFIX)))
        elif line.startswith(_DRIVER_PREFIX):
            with suppress(ValueError):  # a later version may know more places
                driver = DriverPlace(line.removeprefix(_DRIVER_PREFIX))
        elif line:
            entries.append(line)
    return InstalledList(entries, folders, driver)


def render_installed(installed: InstalledList) -> str:
    """Return the text of the list of installations, without duplicates."""
    lines = [*installed.entries]
    if installed.driver is not DriverPlace.USER:
        lines.append(f"{_DRIVER_PREFIX}{installed.driver}")
    lines += [f"{_FOLDER_PREFIX}{folder}" for folder in installed.folders]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))
