"""Share records with a team through its PostgreSQL server (`ralph team`).

A push sends what this machine shares (`team_push`), and a pull receives what the other machines
share (`team_pull`). Only the server's list of sources tells what has been pushed. Nothing on this
machine can disagree with it, and the machines fill a rebuilt server again.

A tombstone is the id of a forgotten record. Tombstones are kept in the state folder and are sent
before any rows, so that a forgotten record does not return.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.config import Layer
from ralph.core.errors import Hint, NotFound, RalphError, UsageError
from ralph.core.extras import needs_extra
from ralph.core.settings import Config, Team
from ralph.search import record_ids
from ralph.sharing.team_connection import connect_project, project_name, tombstones
from ralph.sharing.team_failures import recorded_failures
from ralph.sharing.team_pull import pull
from ralph.sharing.team_push import push
from ralph.sharing.team_rows import machine_name
from ralph.storage import config as settings
from ralph.storage import db, files, queries, team_db, team_server, team_url
from ralph.storage.team_db import _remember_forgotten
from ralph.storage.team_errors import Purpose
from ralph.storage.team_server import VERSION

# --- join and leave ------------------------------------------------------------------------------


def join(root: Path, team: Team, url: str, project: str = "") -> str:
    """Join a project on a team's server, and return the project's name.

    After a test connection, the URL and the name are written to ralph.local.yml. Raises NotFound if
    the user is not a member of the project.
    """
    project = project or project_name(root, team)
    with needs_extra("team", "`ralph team`"):
        team_url.check_url(url)
        with team_server.connect(url, Purpose.JOIN) as server:
            names = [name for name, *_ in server.call("my_projects")]
            if project not in names:
                user = server.connection.info.user
                hint = f"your projects there: {', '.join(names)}; choose one with --project NAME"
                if not names:
                    hint = (
                        "the server's administrator adds you: "
                        f"`ralph team admin URL --project {project} --member {user}`"
                    )
                raise NotFound(
                    f"{user} is not a member of a project {project!r} on this server", hint=hint
                )
    for key, value in (("team.url", url), ("team.project", project)):
        settings.set_(root, key, value, env=os.environ, layer=Layer.LOCAL)
    _remember_forgotten(paths.main_checkout(root), ())
    return project


def leave(root: Path, team: Team, *, delete_mine: bool = False) -> int:
    """Leave the team, and delete what was pulled.

    The server that `join` wrote to ralph.local.yml is removed, whether it is trusted or not. With
    `delete_mine`, this machine's rows on the server are deleted as well. Returns the number of rows
    deleted there. Raises UsageError if there is nothing to leave, or if `delete_mine` needs a
    server that is not trusted.
    """
    has_pulled = paths.team_database(paths.main_checkout(root)).is_file()
    is_untrusted = not team.url and _has_local_url(root)
    if not (team.url or is_untrusted or has_pulled):
        raise UsageError(
            "this project shares nothing with a team", hint="join one with `ralph team join URL`"
        )
    if delete_mine and is_untrusted:
        raise UsageError(
            "the team's server is not trusted, so nothing can be deleted there",
            hint="run `ralph trust` first, or leave out --delete-mine",
        )
    removed = 0
    if delete_mine:
        with connect_project(root, team, Purpose.LEAVE) as (server, project):
            removed = server.call("remove_sources", project, machine_name(root), None)[0][0]
    settings.set_(root, "team.url", "", env=os.environ, layer=Layer.LOCAL)
    root = paths.main_checkout(root)
    db.remove(paths.team_database(root))
    for path in (
        paths.team_pulled(root),
        paths.team_tombstones(root),
        paths.team_failures(root),
    ):
        files.delete(path)
    return removed


def _has_local_url(root: Path) -> bool:
    """Return whether ralph.local.yml names a server, trusted or not."""
    return bool(settings.value_in(root, "team.url", env=os.environ, layer=Layer.LOCAL))


# --- pull ----------------------------------------------------------------------------------------


def exchange(root: Path, config: Config) -> str:
    """Push and pull at the end of a loop if `team.loop` is set.

    Returns a line that reports the result or a failure, or "" if there was nothing to do.
    """
    if not config.team.loop or not config.team.url:
        return ""
    try:
        with recorded_failures(root, "push"):
            sent = push(root, config).rows
        with recorded_failures(root, "pull"):
            received = pull(root, config).rows
    except RalphError as error:
        return f"not shared with the team: {error.message}"
    return f"shared with the team: {sent} row(s) sent, {received} received"


# --- forget --------------------------------------------------------------------------------------


class ForgetResult(NamedTuple):
    """The full id of a forgotten record, and the number of rows deleted on the server."""

    id: str
    rows: int


def forget(root: Path, config: Config, name: str) -> ForgetResult:
    """Delete a record from the server, and from what each machine has pulled at its next sync.

    Files are not changed: `kept_records` finds the record if it is in one of them. Raises NotFound
    if neither the server nor this machine knows the record.
    """
    root = paths.main_checkout(root)
    full_id = record_ids.expand_id(root, name)
    is_pulled = False  # and kept here, although a server that was restored has lost it
    database = paths.team_database(root)
    with suppress(NotFound, db.Damaged), team_db.read_team(database) as connection:
        if full_id == name:
            full_id = record_ids.resolve_id(connection, name)
        is_pulled = queries.key_of(connection, full_id) is not None
    with connect_project(root, config.team, Purpose.FORGET) as (server, project):
        is_stored = bool(server.call("keys_with", project, [full_id]))
        if not (is_stored or is_pulled or full_id in tombstones(server, project)):
            raise NotFound(
                f"the team's server has no record {name}",
                hint=Hint("find-record", "`ralph search --team` shows the ids"),
            )
        removed = int(server.call("forget", project, [full_id])[0][0])
    _remember_forgotten(root, [full_id])
    pull(root, config)
    return ForgetResult(full_id, removed)


# --- administration -------------------------------------------------------------------


def migrate(
    url: str, project: str = "", members: Sequence[str] = (), readers: Sequence[str] = ()
) -> list[str]:
    """Update a server's schema to this version, and add members to a project.

    Returns one line per change. Raises UsageError if a project or members are given without the
    other, or if the schema is newer than this version, and ServerError if a role does not exist.
    Nothing is changed in these cases.
    """
    _check_members(project, members, readers)
    with (
        needs_extra("team", "`ralph team`"),
        team_server.connect(url, Purpose.ADMIN, any_version=True) as server,
    ):
        if server.version() > VERSION:
            raise UsageError(
                f"the server's schema ({server.version()}) is newer than this Ralph",
                hint="update Ralph",
            )
        for role in (*members, *readers):
            server.require_role(role)
        lines = [f"created schema {number}" for number in server.migrate()]
        for role in (*members, *readers):
            may_write = role in members
            server.add_member(project, role, may_write=may_write)
            rights = "read and write" if may_write else "read"
            lines.append(f"{role} may {rights} {project}")
    return lines


def _check_members(project: str, members: Sequence[str], readers: Sequence[str]) -> None:
    """Raise UsageError unless the members can be added to the project."""
    hint = "ralph team admin URL --project shop --member ann"
    if (members or readers) and not project:
        raise UsageError("--member and --reader need --project NAME", hint=hint)
    if project and not (members or readers):
        raise UsageError("--project needs --member ROLE or --reader ROLE", hint=hint)
    for role in members:
        if role in readers:
            raise UsageError(
                f"{role} cannot be a member and a reader",
                hint="use only one of --member and --reader",
            )


def check(url: str) -> tuple[int, list[str]]:
    """Return the version of a server's schema, and its problems. Only the owner may call this."""
    with (
        needs_extra("team", "`ralph team`"),
        team_server.connect(url, Purpose.ADMIN, any_version=True) as server,
    ):
        version = server.version()
        if not version:
            return 0, ["the server has no Ralph tables; `ralph team admin URL` creates them"]
        if version < VERSION:
            return version, [
                f"this Ralph uses schema {VERSION}; `ralph team admin URL` updates the tables"
            ]
        if version > VERSION:
            return version, [f"this Ralph uses schema {VERSION}; update Ralph"]
        return version, server.problems()
