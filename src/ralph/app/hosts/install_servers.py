"""The MCP part of `ralph install` and `ralph uninstall`: our server in the host's list of servers.

Where the list is another file than the hooks' (Claude Code, Codex) it is an edit of its own; where it is the same
(Gemini) both changes are one edit, so that a plan names each file once. An entry called `ralph` that starts something
else is somebody's own: it stays, and that is told. `tests/app/hosts/test_install_servers.py` proves it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.app.hosts.install_edit import Edit
from ralph.app.hosts.install_hosts import Host, Program, Scope, has_comments, server, servers_file
from ralph.errors import Conflict, Unreadable
from ralph.formats.host_files import (
    SERVER_NAME,
    is_ralph_server,
    json_server,
    toml_server,
    with_json_server,
    with_toml_server,
    without_json_server,
    without_toml_server,
)
from ralph.formats.json_text import check_json, same_json
from ralph.store import files


@dataclass(frozen=True, slots=True)
class At:
    """For which host and scope, in which project and environment."""

    host: Host
    scope: Scope
    root: Path
    env: Mapping[str, str]

    @property
    def place(self) -> tuple[Path, tuple[str, ...]]:
        """The file, and the keys in it."""
        return servers_file(self.host, self.scope, self.root, self.env)


def put_in(at: At, edits: Sequence[Edit], program: Program, *, always: bool = False) -> tuple[list[Edit], list[str]]:
    """The edits with our server put into the host's list, and what the user should know."""
    path, _ = at.place
    wanted = server(at.host, program, always=always)
    there = _in(at, _text(path, edits))
    if there is not None and not is_ralph_server(there):
        return list(edits), [f"{path} has a server called `{SERVER_NAME}` that is not ours; it stays as it is"]
    if there is not None and same_json(there, check_json(wanted)):
        return list(edits), []

    def change(text: str | None) -> str:
        bare = text if there is None or text is None else _without(at, text)
        return _with(at, bare, wanted)

    return _changed(at, edits, change, "the MCP server added" if there is None else "the MCP server put in anew"), []


def taken_out(at: At, edits: Sequence[Edit]) -> list[Edit]:
    """The edits with our server taken out of the host's list."""
    path, _ = at.place
    text = _text(path, edits)
    if text is None or not is_ralph_server(_in(at, text)):
        return list(edits)

    def change(text: str | None) -> str | None:
        after = None if text is None else _without(at, text)
        if after is None and path.is_symlink():
            return "" if at.host is Host.CODEX else "{}\n"  # the link is somebody's own
        return after

    return _changed(at, edits, change, "the MCP server removed")


def _text(path: Path, edits: Sequence[Edit]) -> str | None:
    """What a file says once these edits are done."""
    return next((edit.after for edit in edits if edit.path == path), files.read(path))


def _changed(at: At, edits: Sequence[Edit], change: Callable[[str | None], str | None], what: str) -> list[Edit]:
    path, _ = at.place
    try:
        after = change(_text(path, edits))
    except (Conflict, Unreadable) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error
    same_file = [edit for edit in edits if edit.path == path]
    if not same_file:
        inside = at.root if at.scope is not Scope.USER and at.root in path.parents else None
        return [*edits, Edit(path, files.read(path), after, what if after is not None else "removed", inside)]
    said = f"{same_file[0].what}, {what}" if same_file[0].what else what
    joined = replace(same_file[0], after=after, what=said if after is not None else "removed")
    return [joined if edit.path == path else edit for edit in edits]


def _in(at: At, text: str | None) -> object | None:
    path, keys = at.place
    try:
        if at.host is Host.CODEX:
            return toml_server(text)
        return json_server(text, keys, comments=has_comments(at.host))
    except Unreadable as error:
        raise Unreadable(f"{path}: {error.message}", hint=error.hint) from error


def _with(at: At, text: str | None, wanted: Mapping[str, object]) -> str:
    if at.host is Host.CODEX:
        return with_toml_server(text, wanted)
    return with_json_server(text, at.place[1], wanted, comments=has_comments(at.host))


def _without(at: At, text: str) -> str | None:
    if at.host is Host.CODEX:
        return without_toml_server(text)
    return without_json_server(text, at.place[1], comments=has_comments(at.host))
