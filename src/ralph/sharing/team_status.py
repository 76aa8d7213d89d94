"""Describe how a project is shared with its team (`ralph team status`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import NotFound, RalphError
from ralph.core.settings import Config
from ralph.search import index
from ralph.sharing.team_connection import connect_project, project_name
from ralph.sharing.team_failures import Failure, last_failures
from ralph.sharing.team_kept import KeptRecord, kept_records
from ralph.sharing.team_pull import (
    Listing,
    count_lost_rows,
    count_missing_rows,
    formats_not_pulled,
    list_others,
    machine_of,
    newer_sources,
)
from ralph.sharing.team_push import is_changed, sources_of
from ralph.sharing.team_rows import SharedRows, machine_name
from ralph.storage import files, team_db, team_errors
from ralph.storage.db import Damaged
from ralph.storage.team_db import PulledState
from ralph.storage.team_server import ServerSource, TeamServer


@dataclass(frozen=True, slots=True)
class TeamStatus:
    """How a project is shared. `problem` says why the server's values are missing."""

    url: str
    project: str
    share: tuple[str, ...]
    pulled_at: str  # the time of the last complete pull, or ""
    lag_seconds: int | None  # since then
    pulled_rows: int
    pulled_bytes: int  # the size of `team.db`
    machines: int  # other machines that share the project
    kept: tuple[KeptRecord, ...]
    last_errors: tuple[Failure, ...]  # newest first
    role: str = ""
    may_write: bool = False
    server_rows: int = 0  # of the project
    server_bytes: int = 0  # of all projects on the server, with indexes
    to_push: int = 0  # sources that a push would send
    rows_to_pull: int = 0
    lost_rows: int = 0  # that the server lost and this machine keeps
    problem: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the members of the status for JSON."""
        members: dict[str, object] = {}
        for name in self.__dataclass_fields__:
            members[name] = getattr(self, name)
        members["share"] = list(self.share)
        members["kept"] = [record._asdict() for record in self.kept]
        members["last_errors"] = [failure._asdict() for failure in self.last_errors]
        return members


@dataclass(frozen=True, slots=True)
class _Pulled:
    """What `team.db` has of each source, by the source's name."""

    states: Mapping[str, PulledState] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # of rows


def _read_pulled(database: Path) -> _Pulled:
    """Return what was pulled. Without a usable `team.db`, that is nothing."""
    with suppress(NotFound, Damaged), team_db.read_team(database) as connection:
        return _Pulled(
            states=team_db.pulled_states(connection),
            formats=team_db.pulled_formats(connection),
            counts=team_db.count_sources(connection),
        )
    return _Pulled()


def status(root: Path, config: Config) -> TeamStatus:
    """Return how a project is shared.

    If the server does not answer, `problem` explains why, and its counts are 0.
    """
    root = paths.main_checkout(root)
    database = paths.team_database(root)
    pulled = _read_pulled(database)
    pulled_at = (files.read(paths.team_pulled(root)) or "").strip()
    here = TeamStatus(
        url=team_errors.shown_url(config.team.url),
        project=project_name(root, config.team),
        share=tuple(shared.value for shared in config.team.share),
        pulled_at=pulled_at,
        lag_seconds=_seconds_since(pulled_at),
        pulled_rows=sum(pulled.counts.values()),
        pulled_bytes=database.stat().st_size if database.is_file() else 0,
        machines=len({machine_of(name) for name in pulled.counts} - {""}),
        kept=tuple(kept_records(root)),
        last_errors=tuple(last_failures(root)),
    )
    try:
        with connect_project(root, config.team) as (server, project):
            return _with_server(here, server, project, root, config, pulled)
    except RalphError as error:
        problem = error.message if config.team.url else ""
        return replace(here, problem=problem)


def _with_server(
    here: TeamStatus,
    server: TeamServer,
    project: str,
    root: Path,
    config: Config,
    pulled: _Pulled,
) -> TeamStatus:
    """Add what the server says to a status."""
    may_write = False
    server_rows = 0
    for name, is_writer, rows in server.call("my_projects"):
        if name == project:
            may_write = is_writer
            server_rows = rows
    machine = machine_name(root)
    with server.snapshot():
        sources = server.sources(project)
        others = list_others(server, project, machine, sources)
    return replace(
        here,
        role=server.connection.info.user,
        may_write=may_write,
        server_rows=server_rows,
        server_bytes=server.stored_bytes(),
        machines=len({source.machine for source in sources} - {machine}),
        to_push=_count_changed(root, config, sources_of(machine, sources)),
        rows_to_pull=_count_rows_to_pull(config, others, pulled),
        lost_rows=_count_lost_rows(machine, others, pulled),
    )


def _seconds_since(timestamp: str) -> int | None:
    moment = ids.parse_time(timestamp)
    if moment is None:
        return None
    return max(0, int((ids.now() - moment).total_seconds()))


def _count_changed(root: Path, config: Config, pushed: Mapping[str, ServerSource]) -> int:
    """Return the number of sources that a push would send."""
    shared = SharedRows(root, config.team.share, config.privacy)
    with index.of(root).open_current() as connection:
        changed = [
            part for part in shared.parts(connection) if is_changed(part, pushed, shared.rules)
        ]
    return len(changed)


def _count_rows_to_pull(config: Config, others: Listing, pulled: _Pulled) -> int:
    """Return the number of rows of other machines that a pull would ask for."""
    skipped = formats_not_pulled(config)
    wanted = [source for source in others.sources.values() if source.format not in skipped]
    return count_missing_rows(wanted, pulled.states)


def _count_lost_rows(machine: str, others: Listing, pulled: _Pulled) -> int:
    """Return the number of rows of other machines that the server lost and this one keeps."""
    newer = newer_sources(machine, pulled.states, pulled.formats, others)
    return count_lost_rows(newer, pulled.states, others)
