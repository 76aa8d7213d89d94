"""Receive what the other machines of a team share (`ralph team sync`).

Logs only grow, so a pull asks for the rows after the last one it has. Memories change in place.
They are few, so all of them are pulled again whenever one of their files has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths, terms
from ralph.core.settings import Config, Shared, TeamSearch
from ralph.formats.log import encode_record, parse_log
from ralph.privacy import injection
from ralph.sharing.team_connection import connect_project, tombstones
from ralph.sharing.team_push import CURATED_FORMATS, Progress
from ralph.sharing.team_rows import machine_name
from ralph.storage import db, files, team_db
from ralph.storage.team_db import (
    PREFIX,
    PulledState,
    TeamDatabase,
    _forgotten_ids,
    _remember_forgotten,
)
from ralph.storage.team_server import MAX_ROW_BYTES, ServerSource, TeamServer

_ROWS_PER_TRANSACTION = 20_000  # in `team.db`
_VERSION_DIGITS = 32  # hexadecimal digits in the version of all curated sources


class PullResult(NamedTuple):
    """The result of a pull."""

    sources: int = 0  # number of updated sources
    rows: int = 0  # number of rows received
    removed: int = 0  # number of sources that no longer exist on the server


class _WantedSource(NamedTuple):
    """A source to pull, with its local name and what has already been pulled."""

    name: str
    source: ServerSource
    pulled: PulledState


class _IdLine(NamedTuple):
    """A line in the log format, and the id of its record."""

    id: str
    line: str


class _ServerMemory(NamedTuple):
    """A row returned by the server's function `memories_of`."""

    format: str
    member: str
    branch: str
    commit: str
    id: str
    body: str


class _Pulled(NamedTuple):
    """The number of sources and rows that one step of a pull received."""

    sources: int = 0
    rows: int = 0


def pull(root: Path, config: Config, progress: Progress | None = None) -> PullResult:
    """Bring `team.db` up to date with what the other machines share.

    Records that the team has forgotten are deleted from it.
    """
    root = paths.main_checkout(root)
    machine = machine_name(root)
    skipped_formats = set()
    if config.team.search is TeamSearch.SERVER:
        skipped_formats.add(Shared.OBSERVATIONS.value)  # they are searched on the server
    with (
        connect_project(root, config.team) as (server, project),
        team_db.open_team(paths.team_database(root), terms.index_terms, injection.is_order) as team,
        server.snapshot(),
    ):
        _remember_forgotten(root, tombstones(server, project))
        pull_run = _Pull(
            team=team,
            server=server,
            project=project,
            machine=machine,
            forgotten=_forgotten_ids(root),
        )
        curated = []
        logs = {}
        for source in server.sources(project):
            if source.machine == machine or source.format in skipped_formats:
                continue
            if source.format in CURATED_FORMATS:
                curated.append(source)
            else:
                logs[f"{PREFIX}{source.member}/{source.machine}/{source.path}"] = source
        states = team.states()
        pulled_memories = pull_run.pull_memories(curated, states)
        pulled_logs = pull_run.pull_logs(logs, states, pulled_memories.rows, progress)
        removed = pull_run.remove_logs(logs, states)
    files.write(paths.team_pulled(root), ids.timestamp() + "\n", mode=files.PRIVATE)
    return PullResult(
        sources=pulled_memories.sources + pulled_logs.sources,
        rows=pulled_memories.rows + pulled_logs.rows,
        removed=removed,
    )


def is_log(name: str) -> bool:
    """Return whether a source name in `team.db` belongs to a log.

    A log is named `team/<member>/<machine>/<path>`. All memories in one format share a name, such
    as `team/memories`.
    """
    return name.count("/") > 1


class _Pull:
    """One pull from the server into `team.db`."""

    def __init__(
        self,
        *,
        team: TeamDatabase,
        server: TeamServer,
        project: str,
        machine: str,
        forgotten: set[str],
    ) -> None:
        self._team = team
        self._server = server
        self._project = project
        self._machine = machine
        self._forgotten = forgotten

    def pull_logs(
        self,
        logs: Mapping[str, ServerSource],
        states: Mapping[str, PulledState],
        rows_before: int,
        progress: Progress | None,
    ) -> _Pulled:
        """Pull the new rows of the logs that changed."""
        wanted = _wanted_logs(logs, states)
        total = sum(source.records + 1 for _, source, _ in wanted)
        rows = 0
        for batch in _batches(wanted):
            rows += self._pull_batch(batch)
            if progress is not None:
                progress(rows_before + rows, total)
        return _Pulled(len(wanted), rows)

    def _pull_batch(self, batch: Sequence[_WantedSource]) -> int:
        """Pull the rows of several sources in one transaction, and return the number of rows."""
        lines: dict[int, list[_IdLine]] = {wanted.source.key: [] for wanted in batch}
        last_keys: dict[int, int] = {}
        positions = [(wanted.source.key, wanted.pulled.last) for wanted in batch]
        for source_key, row_key, record_id, line in self._server.rows(self._project, positions):
            last_keys[source_key] = row_key
            if self._is_wanted(record_id, line):
                lines[source_key].append(_IdLine(record_id, line))
        with db.atomic(self._team.connection):
            for name, source, pulled in batch:
                last = last_keys.get(source.key, source.last)
                state = PulledState(pulled.key, source.generation, last)
                self._team.put(name, source.format, state, lines[source.key])
        return sum(map(len, lines.values()))

    def _is_wanted(self, record_id: str, line: str) -> bool:
        return len(line) <= MAX_ROW_BYTES and record_id not in self._forgotten

    def pull_memories(
        self, curated: Sequence[ServerSource], states: Mapping[str, PulledState]
    ) -> _Pulled:
        """Replace the memories from other machines if one of their files has changed.

        They are stored as one source per format.
        """
        pulled = [state for name, state in states.items() if not is_log(name)]
        version = _version_of(curated)
        if not curated and not pulled:
            return _Pulled()
        if pulled and all(state.generation == version for state in pulled):
            return _Pulled()
        by_format: dict[str, list[_IdLine]] = {}
        rows = 0
        for row in self._server.call("memories_of", self._project, self._machine):
            memory = _ServerMemory(*row)
            if self._is_wanted(memory.id, memory.body):
                line = _IdLine(memory.id, _with_origin(memory))
                by_format.setdefault(memory.format, []).append(line)
                rows += 1
        with db.atomic(self._team.connection):
            for state in pulled:
                self._team.writer.remove_source(state.key)
            for form, lines in sorted(by_format.items()):
                self._team.put(f"{PREFIX}{form}", form, PulledState(0, version, 0), lines)
        return _Pulled(len(curated), rows)

    def remove_logs(
        self, logs: Mapping[str, ServerSource], states: Mapping[str, PulledState]
    ) -> int:
        """Delete the logs that are no longer on the server, and return their number."""
        removed = [state.key for name, state in states.items() if is_log(name) and name not in logs]
        with db.atomic(self._team.connection):
            for key in removed:
                self._team.writer.remove_source(key)
        return len(removed)


def _wanted_logs(
    logs: Mapping[str, ServerSource], states: Mapping[str, PulledState]
) -> list[_WantedSource]:
    """Return the logs with rows that have not been pulled yet."""
    wanted = []
    for name, source in logs.items():
        pulled = states.get(name)
        if pulled is None or pulled.generation != source.generation:
            from_start = PulledState(0, source.generation, 0)
            wanted.append(_WantedSource(name, source, from_start))
        elif pulled.last != source.last:
            wanted.append(_WantedSource(name, source, pulled))
    return wanted


def _batches(wanted: Iterable[_WantedSource]) -> Iterator[list[_WantedSource]]:
    """Yield the sources in batches of about `_ROWS_PER_TRANSACTION` rows."""
    batch: list[_WantedSource] = []
    batch_number = 0
    rows = 0
    for item in wanted:
        rows += item.source.records + 1
        if batch and rows // _ROWS_PER_TRANSACTION != batch_number:
            yield batch
            batch = []
        batch_number = rows // _ROWS_PER_TRANSACTION
        batch.append(item)
    if batch:
        yield batch


def _version_of(sources: Iterable[ServerSource]) -> str:
    """Return a digest that changes whenever one of the sources changes."""
    lines = []
    for source in sources:
        lines.append(f"{source.key} {source.generation} {source.last} {source.commit}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_VERSION_DIGITS]


def _with_origin(memory: _ServerMemory) -> str:
    """Return a memory's line with the member who pushed it, the branch and the commit added."""
    entries = parse_log(memory.body).entries
    if not entries:
        return memory.body
    record = entries[0].record
    origin = {"member": memory.member, "branch": memory.branch, "commit": memory.commit}
    team = {name: value for name, value in origin.items() if value}
    return encode_record(replace(record, extra={**record.extra, "team": team})).rstrip("\n")
