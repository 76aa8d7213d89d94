"""A coding agent and the settings into which Ralph is installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.install import client_entries, clients, launcher_scripts
from ralph.install.client_entries import OwnFile
from ralph.install.clients import CLIENTS, Client, Host, InstallScope, ServersFile
from ralph.install.launcher_scripts import HookProgram, StartWords

PLUGIN_ENTRY = "plugin"


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """A host and the scope of its settings.

    If `plugin` is set, the host's plugin contains the hooks. `mcp` adds our server, and None means
    that the user does not want it. Without a `program`, entries start the Ralph that the launchers
    start.
    """

    host: Host
    scope: InstallScope
    root: Path
    env: Mapping[str, str]
    plugin: bool = False
    mcp: bool | None = False
    status_line: bool = False
    program: HookProgram | None = None
    platform: str = sys.platform

    @property
    def start(self) -> StartWords:
        """The words with which the host starts Ralph."""
        return launcher_scripts.start_words(self.env, self.program, self.platform)

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
        return client_entries.own_files(self.host, folder, self.start, self.platform)

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
            return PLUGIN_ENTRY
        return f"{self.host} {self.scope} {self.settings}"
