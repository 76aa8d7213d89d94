"""Add and remove Ralph's MCP server in the TOML settings of a coding agent.

[mcp_servers.ralph]
command = "ralph"
args = ["mcp", "serve"]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ralph.core.errors import Conflict, Unreadable
from ralph.core.text import BOM, newline_of
from ralph.formats.host_files import SERVER_NAME, is_ralph_server

_TOML_TABLE = "mcp_servers"


def toml_server(text: str | None) -> object | None:
    """Return the server table with Ralph's name, no matter who wrote it, or None.

    Raises Unreadable if the file cannot be parsed.
    """
    servers = _parse_toml(text or "").get(_TOML_TABLE)
    return servers.get(SERVER_NAME) if isinstance(servers, Mapping) else None


def with_toml_server(text: str | None, entry: Mapping[str, object]) -> str:
    """Return the text with Ralph's server table added. Comments and layout are kept.

    Raises Unreadable if the file cannot be parsed, and Conflict if there is already a server with
    that name.
    """
    servers = _parse_toml(text or "").get(_TOML_TABLE, {})
    if not isinstance(servers, dict) or SERVER_NAME in servers:
        raise Conflict(
            f"`{_TOML_TABLE}` is not a table, or already has a server called {SERVER_NAME}",
            hint="fix it by hand, or install with --no-mcp; nothing was written",
        )
    return _edit_toml(text or "", dict(entry))


def without_toml_server(text: str) -> str | None:
    """Return the text without Ralph's server table, or None if nothing is left.

    Raises Unreadable if the file cannot be parsed, and Conflict if other values would change.
    """
    servers = _parse_toml(text).get(_TOML_TABLE)
    if not isinstance(servers, dict) or not is_ralph_server(servers.get(SERVER_NAME)):
        return text
    after = _edit_toml(text, None)
    if after.endswith(("\n\n", "\n\r\n")):  # the blank line above the table
        after = after.removesuffix("\n").removesuffix("\r")
    return after if after.strip() else None


def _edit_toml(text: str, entry: dict[str, object] | None) -> str:
    """Return the text with its server table replaced, or removed if `entry` is None."""
    # Only an installation needs tomlkit, and loading it takes time.
    from tomlkit.exceptions import TOMLKitError

    before = _parse_toml(text)
    servers = dict(before.get(_TOML_TABLE, {}))
    servers.pop(SERVER_NAME, None)
    if entry is not None:
        servers[SERVER_NAME] = entry
    expected = {**before, _TOML_TABLE: servers}
    after = ""
    values: dict[str, Any] = {}
    try:
        after = _render_toml(text, entry)
        values = _parse_toml(after)
    except (TOMLKitError, Unreadable):
        values = {}  # differs from what is expected
    if {_TOML_TABLE: {}, **values} != expected:
        raise Conflict(
            "the change would alter other values of this file",
            hint=f"change `{_TOML_TABLE}` by hand; nothing was written",
        )
    return after


def _render_toml(text: str, entry: dict[str, object] | None) -> str:
    import tomlkit

    document: dict[str, Any] = tomlkit.parse(text.removeprefix(BOM))
    if entry is not None:
        servers = document.setdefault(_TOML_TABLE, tomlkit.table(is_super_table=True))
        servers[SERVER_NAME] = entry
    else:
        del document[_TOML_TABLE][SERVER_NAME]
        if not document[_TOML_TABLE]:
            del document[_TOML_TABLE]
    rendered = re.sub(r"\r?\n", newline_of(text), tomlkit.dumps(document))
    return BOM + rendered if text.startswith(BOM) else rendered


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib  # most hosts use JSON

    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(
            f"not valid TOML: {error}", hint="fix the file by hand; nothing was written"
        ) from error
