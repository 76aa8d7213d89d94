"""Find the MCP servers that an agent would get in a project, and who configured them.

Servers are configured in JSON files, in the format and with the precedence of Claude Code:

    {"mcpServers": {"docs": {"command": "docs-server", "args": ["--root", "${HOME}/docs"]}}}

Servers in `.mcp.json`, which came with the repository, are used only after `ralph trust` has
recorded their exact configuration. `mcp_status.py` finds out whether the servers respond.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph.core import launchers, paths
from ralph.core.config import ConfigSource, Layer, TrustedValue
from ralph.core.errors import Unreadable, UsageError
from ralph.core.work import McpServer, ServerScope, Transport
from ralph.lean import discovery
from ralph.loop.agents.json_members import get_object
from ralph.storage import files, trust_records

_PROJECT_FILE = ".mcp.json"
_SERVERS_KEY = "mcpServers"
_TRANSPORTS = {
    "stdio": Transport.STDIO,
    "http": Transport.HTTP,
    "streamable-http": Transport.HTTP,
    "sse": Transport.SSE,
}
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")  # ${NAME} or ${NAME:-default}
Specification = Mapping[str, object]  # one server, as written in its file
_TrustKey = tuple[str, str, str]  # the real path of a project, the key of a value, and its digest


def list_servers(root: Path, env: Mapping[str, str]) -> tuple[list[McpServer], list[str]]:
    """Return every server that an agent would get, and the problems in the server files."""
    reader = _ServerReader(root, env)
    servers: dict[str, McpServer] = {}
    for source in reader.sources():
        for name, specification in reader.read_specifications(source.path, source.keys):
            server = reader.build_server(source, name, specification)
            servers.setdefault(name, server)
    return list(servers.values()), list(dict.fromkeys(reader.problems))


def trust_candidates(root: Path, env: Mapping[str, str]) -> tuple[TrustedValue, ...]:
    """Return the servers listed in the project's own file, for `ralph trust`."""
    reader = _ServerReader(root, env)
    candidates = []
    for name, specification in reader.read_specifications(root / _PROJECT_FILE, (_SERVERS_KEY,)):
        candidates.append(_trust_candidate(root, name, specification, reader.trusted()))
    return tuple(candidates)


def _trust_candidate(
    root: Path, name: str, specification: Specification, trusted: Collection[_TrustKey]
) -> TrustedValue:
    source = ConfigSource(Layer.PROJECT, _PROJECT_FILE)
    value = TrustedValue(f"mcp.{name}", dict(specification), source, trusted=False)
    is_trusted = (os.path.realpath(root), value.key, value.digest) in trusted
    return replace(value, trusted=is_trusted)


class _Source(NamedTuple):
    """A place where servers are configured: a JSON file and the keys that lead to an object."""

    path: Path
    scope: ServerScope
    keys: tuple[str, ...]


class _ServerReader:
    """Reads server files and the user's trust, each once.

    A file that cannot be read is reported in `problems` and counts as empty.
    """

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root = root
        self.env = env
        self.folders = tuple(dict.fromkeys((root, paths.main_checkout(root))))
        self.problems: list[str] = []
        self.read = cache(self._read)
        self.trusted = cache(self._read_trusted)

    def _read_trusted(self) -> Collection[_TrustKey]:
        values = trust_records.trusted_values(self.env)
        return {(value.root, value.key, value.digest) for value in values}

    def _read(self, path: Path) -> object:
        try:
            return json.loads((files.read(path) or "").removeprefix("\ufeff").strip() or "{}")
        except Unreadable as error:
            self.problems.append(error.message)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{paths.shown(path, self.root)}: is not JSON: {error}")
        return {}

    def sources(self) -> Iterator[_Source]:
        """Yield the places where servers are configured, in descending order of precedence."""
        user_file = self._user_file()
        if user_file is not None:
            for folder in self.folders:
                keys = ("projects", str(folder), _SERVERS_KEY)
                yield _Source(user_file, ServerScope.LOCAL, keys)
        yield _Source(self.root / _PROJECT_FILE, ServerScope.PROJECT, (_SERVERS_KEY,))
        if user_file is not None:
            yield _Source(user_file, ServerScope.USER, (_SERVERS_KEY,))

    def _user_file(self) -> Path | None:
        folder = self.env.get("CLAUDE_CONFIG_DIR", "") or self.env.get(discovery.HOME_VARIABLE, "")
        if not folder:
            return None
        return Path(folder) / ".claude.json"

    def read_specifications(
        self, path: Path, keys: tuple[str, ...]
    ) -> Iterator[tuple[str, Specification]]:
        """Yield the name and specification of each server under these keys in a file."""
        for name, specification in get_object(self.read(path), *keys).items():
            if isinstance(specification, dict):
                yield name, specification
            else:
                self.problems.append(f"{paths.shown(path, self.root)}: {name} is not a server")

    def build_server(self, source: _Source, name: str, specification: Specification) -> McpServer:
        """Build a server from its specification, with variables expanded.

        If the server cannot be used, its `why_not` contains the reason.
        """
        env = {**self.env, "CLAUDE_PROJECT_DIR": str(self.root)}
        command = _expand_command(specification, env)
        url = _expand(specification.get("url"), env)
        transport = _find_transport(specification, has_url_only=bool(url and not command))
        trusted = True
        if source.scope is ServerScope.PROJECT and not self._is_this_ralph(specification):
            trusted = _trust_candidate(self.root, name, specification, self.trusted()).trusted
        has_target = bool(command if transport is Transport.STDIO else url)
        if transport is Transport.OTHER:
            why_not = "Ralph does not support this type of server"
        elif not has_target:
            why_not = "it has neither a command nor a URL"
        elif specification.get("headersHelper"):
            why_not = "its headers come from a command of its own"
        elif not trusted:
            why_not = "the project configures it and you have not trusted it: `ralph trust`"
        else:
            why_not = ""
        return McpServer(
            name=name,
            scope=source.scope,
            transport=transport,
            command=command,
            env=_expand_pairs(specification.get("env"), env),
            url=url,
            headers=_expand_pairs(specification.get("headers"), env),
            where=paths.shown(source.path, self.root),
            why_not=why_not,
            trusted=trusted,
        )

    def _is_this_ralph(self, specification: Specification) -> bool:
        """Return whether a specification starts the server of the Ralph that is running."""
        program = specification.get("command")
        if not isinstance(program, str) or specification.get("env"):
            return False
        arguments = specification.get("args")
        if arguments == [*launchers.RUN_MODULE, "mcp", "serve"]:
            return os.path.realpath(program) == os.path.realpath(sys.executable)
        if arguments != ["mcp", "serve"]:
            return False
        ours = [Path(sys.executable).with_name(name) for name in ("ralph", "ralph.exe")]
        with suppress(UsageError):
            ours.append(launchers.launcher(self.env, launchers.COMMAND_LAUNCHER))
        return any(os.path.realpath(program) == os.path.realpath(path) for path in ours)


def _find_transport(specification: Specification, *, has_url_only: bool) -> Transport:
    kind = specification.get("type")
    if isinstance(kind, str):
        return _TRANSPORTS.get(kind, Transport.OTHER)
    if has_url_only:
        return Transport.HTTP
    return Transport.STDIO


def _expand_command(specification: Specification, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a server's program and arguments, or () if it has no command."""
    if not specification.get("command"):
        return ()
    program = _expand(specification.get("command"), env)
    arguments = specification.get("args")
    if not isinstance(arguments, list):
        return (program,)
    return (program, *(_expand(argument, env) for argument in arguments))


def _expand(value: object, env: Mapping[str, str]) -> str:
    """Expand `${NAME}` and `${NAME:-default}`. Variables without a value are left as they are."""
    if not isinstance(value, str):
        return ""

    def expand_variable(match: re.Match[str]) -> str:
        name, default = match.groups()
        if env.get(name):
            return env[name]
        if default is None:
            return match[0]
        return str(default)

    return _VARIABLE.sub(expand_variable, value)


def _expand_pairs(value: object, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name, text in get_object(value).items():
        if isinstance(text, str):
            pairs.append((name, _expand(text, env)))
    return tuple(pairs)
