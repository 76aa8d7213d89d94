"""Receive what the other machines of a team share (`ralph team sync`).

Logs only grow, so a pull asks for the rows after the last one it has. Memories change in place.
They are few, so all of them are pulled again whenever one of their files has changed.

The server lists the number of rows and a checksum of each source. If what was pulled does not match
them, the whole source is pulled again. A server that was restored from a backup may list an earlier
state of a source than the one that was pulled. Until the source's machine has synced with that
server, the rows here are newer, and they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths, terms
from ralph.core.errors import Refused
from ralph.core.record import Family, Record
from ralph.core.settings import Config, Shared, TeamSearch
from ralph.formats.log import encode_record, parse_log
from ralph.privacy import injection
from ralph.sharing.team_connection import connect_project, tombstones
from ralph.sharing.team_push import CURATED_FORMATS, Progress
from ralph.sharing.team_restores import (
    MachineState,
    describe_server,
    machine_states,
    notice_restore,
)
from ralph.sharing.team_rows import machine_name
from ralph.storage import db, files, team_db
from ralph.storage.team_db import (
    PREFIX,
    PulledState,
    TeamDatabase,
    _forgotten_ids,
    _remember_forgotten,
)
from ralph.storage.team_errors import Purpose, ServerError
from ralph.storage.team_server import (
    MAX_ROW_BYTES,
    ServerEpoch,
    ServerSource,
    TeamServer,
    row_digest,
)

_ROWS_PER_TRANSACTION = 20_000  # in `team.db`
_NAME_PARTS = 4  # at least, of the name of a pulled source


class PullResult(NamedTuple):
    """The result of a pull."""

    sources: int = 0  # number of updated sources
    rows: int = 0  # number of rows received
    removed: int = 0  # number of sources that no longer exist on the server
    lost: int = 0  # number of rows that the server lost and that are kept here
    missing: int = 0  # number of rows that the server counts and does not have


class _WantedSource(NamedTuple):
    """A source to pull, and the state to continue from, or None to pull all of it."""

    name: str
    source: ServerSource
    pulled: PulledState | None


class _IdLine(NamedTuple):
    """A line in the log format, and the id of its record."""

    id: str
    line: str


class _ServerMemory(NamedTuple):
    """A row returned by the server's function `memories_of`."""

    source: int
    member: str
    branch: str
    commit: str
    id: str
    body: str


class _Received(NamedTuple):
    """The rows of one source that arrived: those to store, and what describes all of them."""

    lines: list[_IdLine]
    last: int
    row_count: int
    checksum: int


class Listing(NamedTuple):
    """What the server lists in one snapshot about the other machines."""

    epoch: ServerEpoch
    sources: Mapping[str, ServerSource]  # by their local names
    machines: Mapping[str, MachineState]  # by the beginning of the local names of their sources

    def machine_of(self, name: str) -> MachineState | None:
        """Return the machine of a pulled source.

        A machine that another member has claimed meanwhile is not the one that it comes from.
        """
        return self.machines.get("/".join(name.split("/")[: _NAME_PARTS - 1]))


def pull(root: Path, config: Config, progress: Progress | None = None) -> PullResult:
    """Bring `team.db` up to date with what the other machines share.

    Records that the team has forgotten are deleted from it.
    """
    root = paths.main_checkout(root)
    machine = machine_name(root)
    with (
        connect_project(root, config.team, Purpose.PULL) as (server, project),
        team_db.open_team(paths.team_database(root), terms.index_terms, _is_order) as team,
    ):
        notice_restore(root, server, project)
        with server.snapshot():
            _remember_forgotten(root, tombstones(server, project))
            listing = list_others(server, project, machine, server.sources(project))
            pull_run = _Pull(
                team=team,
                server=server,
                project=project,
                machine=machine,
                forgotten=_forgotten_ids(root),
                listing=listing,
                skipped_formats=formats_not_pulled(config),
            )
            pull_run.pull_memories()
            pull_run.pull_logs(progress)
            pull_run.forget_kept()
            pull_run.remove_sources()
        result = pull_run.finish()
    files.write(paths.team_pulled(root), ids.timestamp() + "\n", mode=files.PRIVATE)
    return result


def _is_order(record: Record) -> bool:
    """Return whether a memory or a journal entry reads like an instruction to an agent.

    Observations are judged when they are about to be given to a session, as those of the index are.
    """
    return record.family is not Family.OBSERVATION and injection.is_order(record)


def list_others(
    server: TeamServer, project: str, machine: str, sources: Iterable[ServerSource]
) -> Listing:
    """Ask the server about the other machines, and return it with their part of the sources.

    Call this within the snapshot in which the server listed the sources.
    """
    others = {}
    for source in sources:
        if source.machine != machine:
            others[_local_name(source)] = source
    return Listing(server.epoch(project), others, machine_states(server, project))


def formats_not_pulled(config: Config) -> set[str]:
    """Return the formats that stay on the server, because they are searched there."""
    if config.team.search is TeamSearch.SERVER:
        return {Shared.OBSERVATIONS.value}
    return set()


def _local_name(source: ServerSource) -> str:
    """Return the name of a pulled source in `team.db`."""
    return f"{PREFIX}{source.member}/{source.machine}/{source.path}"


def count_missing_rows(sources: Iterable[ServerSource], states: Mapping[str, PulledState]) -> int:
    """Return how many rows a pull of these sources would ask for."""
    rows = 0
    for source in sources:
        pulled = states.get(_local_name(source))
        if pulled is None:
            rows += source.row_count
        elif _has_same_rows(source, pulled):
            continue
        elif _has_grown(source, pulled):
            rows += source.row_count - pulled.row_count
        elif source.changed_at >= pulled.changed_at:
            rows += source.row_count
    return rows


def machine_of(name: str) -> str:
    """Return the machine in a pulled source's name, which is `team/<member>/<machine>/<path>`.

    Returns "" for a name that an earlier version of Ralph gave to the memories of all machines.
    """
    parts = name.split("/")
    if len(parts) < _NAME_PARTS:
        return ""
    return parts[2]


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
        listing: Listing,
        skipped_formats: set[str],
    ) -> None:
        self._team = team
        self._server = server
        self._project = project
        self._machine = machine
        self._forgotten = forgotten
        self._listing = listing
        self._states = team.states()
        self._result = PullResult()
        self._kept = newer_sources(machine, self._states, team.formats(), listing)
        self._curated: dict[str, ServerSource] = {}
        self._logs: dict[str, ServerSource] = {}
        for name, source in listing.sources.items():
            if source.format in skipped_formats:
                continue
            if source.format in CURATED_FORMATS:
                self._curated[name] = source
            else:
                self._logs[name] = source

    # --- logs ---

    def pull_logs(self, progress: Progress | None) -> None:
        """Pull the new rows of the logs that changed."""
        wanted = self._wanted_logs()
        total = sum(item.source.row_count + 1 for item in wanted)
        rows_before = self._result.rows
        again = []
        for batch in _batches(wanted):
            again += self._pull_batch(batch)
            if progress is not None:
                progress(self._result.rows, rows_before + total)
        for batch in _batches(again):
            self._pull_batch(batch)
        self._result = self._result._replace(sources=self._result.sources + len(wanted))

    def _wanted_logs(self) -> list[_WantedSource]:
        """Return the logs that do not match what was pulled. Note new states of the others."""
        wanted = []
        with db.atomic(self._team.connection):
            for name, source in self._logs.items():
                pulled = self._states.get(name)
                if name in self._kept:
                    continue
                if pulled is None:
                    wanted.append(_WantedSource(name, source, None))
                elif _has_same_rows(source, pulled):
                    state = self._state_of(source)
                    if state != pulled:
                        self._team.set_state(name, state)
                elif _has_grown(source, pulled):
                    wanted.append(_WantedSource(name, source, pulled))
                else:
                    wanted.append(_WantedSource(name, source, None))
        return wanted

    def _pull_batch(self, batch: Sequence[_WantedSource]) -> list[_WantedSource]:
        """Pull the rows of several sources in one transaction.

        Returns the sources whose rows do not match the server's list, to be pulled from the start.
        """
        received = self._receive(batch)
        again = []
        with self._team.writer.batch():
            for name, source, pulled in batch:
                rows = received[source.key]
                is_complete = (rows.row_count, rows.checksum) == (source.row_count, source.checksum)
                if not is_complete and pulled is not None:
                    again.append(_WantedSource(name, source, None))
                    continue
                if not is_complete:
                    missing = max(source.row_count - rows.row_count, 1)
                    self._result = self._result._replace(missing=self._result.missing + missing)
                if pulled is None:
                    self._team.remove(name)
                self._team.add(name, source.format, rows.lines)
                state = self._state_of(source)._replace(
                    last=rows.last, row_count=rows.row_count, checksum=rows.checksum
                )
                self._team.set_state(name, state)
                self._result = self._result._replace(rows=self._result.rows + len(rows.lines))
        return again

    def _receive(self, batch: Sequence[_WantedSource]) -> dict[int, _Received]:
        """Ask for the rows of several sources, and return them by the source's key.

        The counts and checksums include the rows that were pulled earlier.
        """
        received = {}
        positions = []
        for item in batch:
            if item.pulled is None:
                start = _Received([], 0, 0, 0)
            else:
                pulled = item.pulled
                start = _Received([], pulled.last, pulled.row_count, pulled.checksum)
            received[item.source.key] = start
            positions.append((item.source.key, start.last))
        for source_key, row_key, record_id, line in self._server.rows(self._project, positions):
            rows = received[source_key]
            if self._is_wanted(record_id, line):
                rows.lines.append(_IdLine(record_id, line))
            received[source_key] = rows._replace(
                last=row_key,
                row_count=rows.row_count + 1,
                checksum=rows.checksum ^ row_digest(line),
            )
        return received

    def _state_of(self, source: ServerSource) -> PulledState:
        """Return the state of a source of which all rows are here."""
        return PulledState(
            epoch=self._listing.epoch.epoch,
            generation=source.generation,
            last=source.last,
            row_count=source.row_count,
            checksum=source.checksum,
            changed_at=source.changed_at,
        )

    def _is_wanted(self, record_id: str, line: str) -> bool:
        return len(line) <= MAX_ROW_BYTES and record_id not in self._forgotten

    # --- memories ---

    def pull_memories(self) -> None:
        """Replace the memories from other machines if one of their files has changed.

        Of a memory that several machines have, only one copy is stored.
        """
        stored = []
        for name, form in self._team.formats().items():
            if form in CURATED_FORMATS:
                stored.append(name)
        if not self._have_memories_changed(stored):
            return
        names_by_key = {source.key: name for name, source in self._curated.items()}
        older_keys = [key for key, name in names_by_key.items() if name in self._kept]
        kept_ids = self._team.memory_ids(self._kept)
        lines: dict[str, list[_IdLine]] = {}
        rows = 0
        for row in self._server.call("memories_of", self._project, self._machine, older_keys):
            memory = _ServerMemory(*row)
            line = _with_origin(memory)
            if line is None or memory.id in kept_ids or not self._is_wanted(memory.id, memory.body):
                continue
            lines.setdefault(names_by_key[memory.source], []).append(_IdLine(memory.id, line))
            rows += 1
        with self._team.writer.batch():
            replaced = [name for name in stored if name not in self._kept]
            for name in replaced:
                self._team.remove(name)
            for name, source in self._curated.items():
                if name in self._kept:
                    continue
                if name in lines:
                    self._team.add(name, source.format, lines[name])
                self._team.set_state(name, self._state_of(source))
        self._result = self._result._replace(
            sources=self._result.sources + len(self._curated),
            rows=self._result.rows + rows,
            removed=self._result.removed + len(set(replaced) - self._curated.keys()),
        )

    def _have_memories_changed(self, stored: Iterable[str]) -> bool:
        """Return whether the server has other memories than those that were pulled."""
        for name, source in self._curated.items():
            pulled = self._states.get(name)
            if name in self._kept:
                continue
            if pulled is None or pulled.generation != source.generation:
                return True
            if not _has_same_rows(source, pulled):
                return True
        return any(name not in self._curated and name not in self._kept for name in stored)

    # --- the end ---

    def forget_kept(self) -> None:
        """Remove forgotten records from the sources that are not pulled again."""
        with db.atomic(self._team.connection):
            for name in self._kept:
                self._team.remove_ids(name, self._forgotten)

    def remove_sources(self) -> None:
        """Delete the sources that are no longer on the server, or no longer pulled.

        The time of a removal is kept, so that a restored server does not bring the source back.
        """
        with db.atomic(self._team.connection):
            for name in self._team.formats():
                if name in self._logs or name in self._curated or name in self._kept:
                    continue
                self._team.remove(name)
                self._result = self._result._replace(removed=self._result.removed + 1)
            for name, state in self._states.items():
                if name in self._kept or name in self._logs or name in self._curated:
                    continue
                machine = self._listing.machine_of(name)
                is_own = machine_of(name) == self._machine
                if name in self._listing.sources or machine is None or is_own:
                    self._team.drop_state(name)
                elif state.row_count:
                    epoch = self._listing.epoch.epoch
                    gone = PulledState(epoch, "", 0, 0, 0, machine.synced_at, machine.proof)
                    self._team.set_state(name, gone)

    def finish(self) -> PullResult:
        """Note what is known about the server, tell it what is here, and return the result."""
        epoch = self._listing.epoch
        states = self._team.states()
        lost = count_lost_rows(self._kept, states, self._listing)
        row_count = 0
        expected = 0
        for name in self._kept:
            if name in self._listing.sources:
                self._remove_again(self._listing.sources[name], states[name])
        for name, source in (*self._logs.items(), *self._curated.items()):
            if name not in self._kept:
                expected += source.row_count
                row_count += states[name].row_count
        if not epoch.is_replica:
            self._server.call(
                "report_pull", self._project, self._machine, epoch.epoch, row_count, expected, lost
            )
        self._team.set_server(*describe_server(epoch, self._listing.machines))
        return self._result._replace(lost=lost)

    def _remove_again(self, source: ServerSource, state: PulledState) -> None:
        """Remove a source from the server if its machine had removed it before a restore.

        A member who may only read leaves that to the others.
        """
        if not state.row_count and not self._listing.epoch.is_replica:
            with suppress(ServerError):
                values = (source.key, state.epoch, state.changed_at, state.proof)
                self._server.call("remove_again", self._project, *values)


def newer_sources(
    machine: str, states: Mapping[str, PulledState], formats: Mapping[str, str], listing: Listing
) -> set[str]:
    """Return the names of the pulled sources of which the server has an earlier state.

    `machine` is this one: its own sources are in `team.db` if that was copied here from another
    machine. `formats` are the formats of the sources that have rows here.
    """
    names = set()
    for name, state in states.items():
        if machine_of(name) == machine:
            continue
        if _is_newer_here(name, formats.get(name, ""), state, listing):
            names.add(name)
    return names


def count_lost_rows(
    newer: Iterable[str], states: Mapping[str, PulledState], listing: Listing
) -> int:
    """Return how many rows the server lost and this machine keeps.

    `newer` names the sources of which the server has an earlier state. Those of a machine that has
    synced since then are not counted: it deleted its files to save space, and the rows stay here.
    """
    rows = 0
    for name in newer:
        state = states[name]
        if _has_synced_since(state, listing.machine_of(name), listing.epoch):
            continue
        source = listing.sources.get(name)
        rows_there = source.row_count if source is not None else 0
        rows += max(state.row_count - rows_there, 0)
    return rows


def _is_newer_here(name: str, form: str, state: PulledState, listing: Listing) -> bool:
    """Return whether the server has an earlier state of a source than the one that was pulled.

    That is so after the server was restored from a backup, until the machine of the source has
    completed a push. It remains so if that machine has deleted a log to save space.

    Times decide only between two states of the same history of the server: after a restore, its
    clock may be behind.
    """
    source = listing.sources.get(name)
    was_restored = state.epoch != listing.epoch.epoch
    if source is not None:
        if source.changed_at >= state.changed_at or _has_same_rows(source, state):
            return False
        if was_restored:
            return not source.is_confirmed
    machine = listing.machine_of(name)
    if machine is None:  # the administrator deleted the machine, or it is not in the backup
        return was_restored
    return form in machine.keeps or not _has_synced_since(state, machine, listing.epoch)


def _has_synced_since(state: PulledState, machine: MachineState | None, epoch: ServerEpoch) -> bool:
    """Return whether a machine has completed a push since one of its sources was in this state."""
    if machine is None:
        return False
    was_restored = state.epoch != epoch.epoch
    return machine.synced_at >= state.changed_at or (machine.is_synced and was_restored)


def _has_same_rows(source: ServerSource, pulled: PulledState) -> bool:
    return (source.row_count, source.checksum) == (pulled.row_count, pulled.checksum)


def _has_grown(source: ServerSource, pulled: PulledState) -> bool:
    """Return whether rows were only added to a source since it was pulled."""
    return source.generation == pulled.generation and source.last > pulled.last


def _batches(wanted: Iterable[_WantedSource]) -> Iterator[list[_WantedSource]]:
    """Yield the sources in batches of about `_ROWS_PER_TRANSACTION` rows."""
    batch: list[_WantedSource] = []
    batch_number = 0
    rows = 0
    for item in wanted:
        rows += item.source.row_count + 1
        if batch and rows // _ROWS_PER_TRANSACTION != batch_number:
            yield batch
            batch = []
        batch_number = rows // _ROWS_PER_TRANSACTION
        batch.append(item)
    if batch:
        yield batch


def _with_origin(memory: _ServerMemory) -> str | None:
    """Return a memory's line with the member who pushed it, the branch and the commit added.

    Returns None for a line that Ralph would not write, such as one with the number 1e999.
    """
    entries = parse_log(memory.body).entries
    if not entries:
        return None
    record = entries[0].record
    origin = {"member": memory.member, "branch": memory.branch, "commit": memory.commit}
    team = {name: value for name, value in origin.items() if value}
    with suppress(Refused):
        return encode_record(replace(record, extra={**record.extra, "team": team})).rstrip("\n")
    return None
