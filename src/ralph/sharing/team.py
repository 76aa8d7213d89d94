"""Share records with a team through its PostgreSQL server (`ralph team`).

A push sends what this machine shares, and a pull receives what the other machines share. A source
is a shared file or part of one, a row is one of its records, and a tombstone is the id of a
forgotten record. The server's list of sources is the only record of what has been pushed, so
nothing on this machine can disagree with it, and a rebuilt server is filled again by the machines.
Tombstones are kept in the state folder, and are sent before any rows.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths, terms
from ralph.core.config import Layer
from ralph.core.errors import Hint, NotFound, RalphError, UsageError
from ralph.core.extras import needs_extra
from ralph.core.settings import Config, Shared, Team, TeamSearch
from ralph.formats.log import encode_record, parse_log
from ralph.privacy import injection
from ralph.search import filters, index
from ralph.sharing.team_rows import (
    CURATED,
    GitState,
    Part,
    SharedRows,
    git_state,
    machine_name,
)
from ralph.storage import config as settings
from ralph.storage import db, files, team_db, team_errors, team_server, team_url
from ralph.storage.read_progress import digest_to
from ralph.storage.team_db import (
    PREFIX,
    PulledState,
    TeamDatabase,
    _forgotten_ids,
    _remember_forgotten,
)
from ralph.storage.team_errors import ServerError, SourceRefused
from ralph.storage.team_server import LARGEST, VERSION, PushedRow, ServerSource, TeamServer

_ROWS_PER_TRANSACTION = 20_000  # in `team.db`
_MARK_DIGITS = 32  # hexadecimal digits in the digest of all curated sources
_CURATED_FORMATS = frozenset(form.value for form in CURATED)
_APPENDED_FORMATS = (Shared.JOURNAL, Shared.OBSERVATIONS)  # their files only grow

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class PushResult:
    """What a push sent or would send: rows by source, removed sources, and tombstones."""

    sent: dict[str, list[PushedRow]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    forgotten: int = 0
    unchanged: int = 0
    refused: list[SourceRefused] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows in all sources that were sent."""
        return sum(map(len, self.sent.values()))


class PullResult(NamedTuple):
    """How many sources a pull updated, with how many rows, and how many it removed."""

    sources: int = 0
    rows: int = 0
    removed: int = 0


# --- join and leave ------------------------------------------------------------------------------


def project_name(root: Path, team: Team) -> str:
    """Return the project's name on the server."""
    return team.project or paths.main_checkout(root).name


@contextmanager
def _joined(root: Path, team: Team) -> Iterator[tuple[TeamServer, str]]:
    """Connect to the team's server, and yield it with the project's name there.

    Raises UsageError if the project has not joined a team.
    """
    if not team.url:
        raise UsageError(
            "this project shares nothing with a team",
            hint="join one with `ralph team join URL`; "
            "a URL in ralph.yml takes effect after `ralph trust`",
        )
    with needs_extra("team", "`ralph team`"), team_server.connect(team.url) as server:
        yield server, project_name(root, team)


def join(root: Path, team: Team, url: str, project: str = "") -> str:
    """Join a project on a team's server, and return the project's name.

    After a test connection, the URL and the name are written to ralph.local.yml. Raises NotFound if
    the user is not a member of the project.
    """
    project = project or project_name(root, team)
    with needs_extra("team", "`ralph team`"):
        team_url.check_url(url)
        with team_server.connect(url) as server:
            names = [name for name, *_ in server.call("my_projects")]
            if project not in names:
                user = server.connection.info.user
                raise NotFound(
                    f"{user} is not a member of a project {project!r} on this server",
                    hint=f"your projects there: {', '.join(names) or 'none'}; "
                    "choose one with --project NAME",
                )
    for key, value in (("team.url", url), ("team.project", project)):
        settings.set_(root, key, value, env=os.environ, layer=Layer.LOCAL)
    _remember_forgotten(paths.main_checkout(root), ())
    return project


def leave(root: Path, team: Team, *, delete_mine: bool = False) -> int:
    """Leave the team, and delete what was pulled.

    With `delete_mine`, this machine's rows on the server are deleted as well. Returns the number of
    rows deleted there.
    """
    removed = 0
    if delete_mine:
        with _joined(root, team) as (server, project):
            removed = server.call("remove_sources", project, machine_name(root), None)[0][0]
    settings.set_(root, "team.url", "", env=os.environ, layer=Layer.LOCAL)
    root = paths.main_checkout(root)
    db.remove(paths.team_database(root))
    for path in (paths.team_pulled(root), paths.team_tombstones(root)):
        files.delete(path)
    return removed


# --- push ----------------------------------------------------------------------------------------


def push(
    root: Path, config: Config, *, dry_run: bool = False, progress: Progress | None = None
) -> PushResult:
    """Send what changed since the last push, tombstones first.

    Each source is sent in its own transaction. If the server refuses a source, the others are still
    sent, and then ServerError is raised.
    """
    root = paths.main_checkout(root)
    shared = SharedRows(root, config.team.share, config.privacy)
    with _joined(root, config.team) as (server, project):
        session = _Push(root, shared, server, project, machine_name(root), dry_run)
        session.send_tombstones()
        session.send_sources(progress)
        session.remove_sources()
    result = session.result
    if result.refused:
        first = result.refused[0]
        raise ServerError(
            f"{len(result.refused)} source(s) not sent, "
            f"{result.rows} row(s) of others sent: {first.message}",
            hint=first.hint,
        )
    return result


class _Push:
    """One push to the server. With `dry_run`, nothing is sent."""

    def __init__(
        self,
        root: Path,
        shared: SharedRows,
        server: TeamServer,
        project: str,
        machine: str,
        dry_run: bool,
    ) -> None:
        self.result = PushResult()
        self._root = root
        self._shared = shared
        self._server = server
        self._project = project
        self._machine = machine
        self._dry_run = dry_run
        self._tombstones: set[str] = set()
        self._pushed: dict[str, ServerSource] = {}  # what the server has from this machine
        self._present: set[str] = set()  # paths of the parts that exist here

    def send_tombstones(self) -> None:
        """Send the ids that were forgotten here, and remember those forgotten by the whole team."""
        on_server = _tombstones(self._server, self._project)
        forgotten_here = _forgotten_ids(self._root)
        new = forgotten_here - on_server
        if new and not self._dry_run:
            self._server.call("forget", self._project, sorted(new))
        self.result.forgotten = len(new)
        self._tombstones = on_server | forgotten_here

    def send_sources(self, progress: Progress | None) -> None:
        """Send the rows of all sources that changed."""
        self._pushed = _sources_of(self._machine, self._server.sources(self._project))
        with index.of(self._root).open_current() as connection:
            parts = list(self._shared.parts(connection))
            changed = [
                part for part in parts if _is_changed(part, self._pushed, self._shared.rules)
            ]
            self._present = {part.path for part in parts}
            self.result.unchanged = len(parts) - len(changed)
            git = git_state(self._root)
            for number, part in enumerate(changed, 1):
                self._send_part(connection, part, git)
                if progress is not None:
                    progress(number, len(changed))

    def _send_part(self, connection: sqlite3.Connection, part: Part, git: GitState) -> None:
        """Send the new rows of a part that has only grown, or all rows of any other part."""
        before = self._pushed.get(part.path)
        if before is not None and not _is_prefix(self._root, part, before, self._shared.rules):
            before = None
        first_line = before.lines if before is not None else 0
        digest = before.digest if before is not None else None
        rows = []
        for row in self._shared.rows(connection, part, first_line):
            if row.id not in self._tombstones:
                rows.append(row)
        if not self._dry_run:
            description = self._shared.describe(part, git)
            try:
                self._server.push(self._project, self._machine, description, digest, rows)
            except SourceRefused as error:  # the server may accept the others
                self.result.refused.append(error)
                return
        self.result.sent[part.path] = rows

    def remove_sources(self) -> None:
        """Remove the sources from the server that no longer exist here.

        Session logs that retention deleted here stay on the server, because retention is not the
        same as forgetting.
        """
        kept_formats = {shared.value for shared in self._shared.share} - _CURATED_FORMATS
        for path, source in self._pushed.items():
            if path not in self._present and source.format not in kept_formats:
                self.result.removed.append(path)
        if self.result.removed and not self._dry_run:
            self._server.call("remove_sources", self._project, self._machine, self.result.removed)


def _sources_of(machine: str, sources: Iterable[ServerSource]) -> dict[str, ServerSource]:
    """Return the sources pushed by a machine, by path."""
    return {source.path: source for source in sources if source.machine == machine}


def _is_changed(part: Part, pushed: Mapping[str, ServerSource], rules: str) -> bool:
    """Return whether a part differs from what the server has."""
    before = pushed.get(part.path)
    if before is None:
        return True
    return before.digest != part.source.digest or before.rules != rules


def _is_prefix(root: Path, part: Part, before: ServerSource, rules: str) -> bool:
    """Return whether the server has the beginning of a log, cleaned with the same rules."""
    if part.format not in _APPENDED_FORMATS or before.rules != rules or not before.size:
        return False
    if before.size > part.source.size:
        return False
    try:
        with files.open_regular(paths.source_path(root, part.source.path)) as file:
            return digest_to(file, before.size) == before.digest
    except (RalphError, OSError):
        return False


# --- pull ----------------------------------------------------------------------------------------


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
    """How many sources and rows one step of a pull received."""

    sources: int = 0
    rows: int = 0


def pull(root: Path, config: Config, progress: Progress | None = None) -> PullResult:
    """Bring `team.db` up to date with what the other machines share.

    What the team has forgotten is deleted from it.
    """
    root = paths.main_checkout(root)
    machine = machine_name(root)
    skipped_formats = set()
    if config.team.search is TeamSearch.SERVER:
        skipped_formats.add(Shared.OBSERVATIONS.value)  # they are searched on the server
    with (
        _joined(root, config.team) as (server, project),
        team_db.open_team(paths.team_database(root), terms.index_terms, injection.is_order) as team,
        server.snapshot(),
    ):
        _remember_forgotten(root, _tombstones(server, project))
        session = _Pull(team, server, project, machine, _forgotten_ids(root))
        curated = []
        logs = {}
        for source in server.sources(project):
            if source.machine == machine or source.format in skipped_formats:
                continue
            if source.format in _CURATED_FORMATS:
                curated.append(source)
            else:
                logs[f"{PREFIX}{source.member}/{source.machine}/{source.path}"] = source
        states = team.states()
        pulled_memories = session.pull_memories(curated, states)
        pulled_logs = session.pull_logs(logs, states, pulled_memories.rows, progress)
        removed = session.remove_logs(logs, states)
    files.write(paths.team_pulled(root), ids.timestamp() + "\n", mode=files.PRIVATE)
    return PullResult(
        sources=pulled_memories.sources + pulled_logs.sources,
        rows=pulled_memories.rows + pulled_logs.rows,
        removed=removed,
    )


def _is_log(name: str) -> bool:
    """Return whether a source name in `team.db` belongs to a log.

    A log's name contains a member, a machine and a path, whereas all memories in one format share a
    name.
    """
    return name.count("/") > 1


class _Pull:
    """One pull from the server into `team.db`."""

    def __init__(
        self,
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
        return len(line) <= LARGEST and record_id not in self._forgotten

    def pull_memories(
        self, curated: Sequence[ServerSource], states: Mapping[str, PulledState]
    ) -> _Pulled:
        """Replace the memories from other machines if one of their files has changed.

        There are so few that all of them are pulled and stored as one source per format.
        """
        pulled = [state for name, state in states.items() if not _is_log(name)]
        mark = _mark_of(curated)
        if not curated and not pulled:
            return _Pulled()
        if pulled and all(state.generation == mark for state in pulled):
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
                self._team.writer.clear(state.key)
            for form, lines in sorted(by_format.items()):
                self._team.put(f"{PREFIX}{form}", form, PulledState(0, mark, 0), lines)
        return _Pulled(len(curated), rows)

    def remove_logs(
        self, logs: Mapping[str, ServerSource], states: Mapping[str, PulledState]
    ) -> int:
        """Delete the logs that are no longer on the server, and return their number."""
        removed = [
            state.key for name, state in states.items() if _is_log(name) and name not in logs
        ]
        with db.atomic(self._team.connection):
            for key in removed:
                self._team.writer.clear(key)
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


def _mark_of(sources: Iterable[ServerSource]) -> str:
    """Return a digest that changes whenever one of the sources does."""
    lines = []
    for source in sources:
        lines.append(f"{source.key} {source.generation} {source.last} {source.commit}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_MARK_DIGITS]


def _with_origin(memory: _ServerMemory) -> str:
    """Return a memory's line, extended by who pushed it and from which branch and commit."""
    entries = parse_log(memory.body).entries
    if not entries:
        return memory.body
    record = entries[0].record
    origin = {"member": memory.member, "branch": memory.branch, "commit": memory.commit}
    team = {name: value for name, value in origin.items() if value}
    return encode_record(replace(record, extra={**record.extra, "team": team})).rstrip("\n")


def exchange(root: Path, config: Config) -> str:
    """Push and pull at the end of a loop if `team.loop` is set.

    Returns a line that reports the result or a failure, or "" if there was nothing to do.
    """
    if not config.team.loop or not config.team.url:
        return ""
    try:
        sent = push(root, config).rows
        received = pull(root, config).rows
    except RalphError as error:
        return f"not shared with the team: {error.message}"
    return f"shared with the team: {sent} row(s) sent, {received} received"


# --- forget --------------------------------------------------------------------------------------


def _tombstones(server: TeamServer, project: str) -> set[str]:
    """Return the ids of the records that the whole team has forgotten."""
    return {row[0] for row in server.call("tombstones_of", project)}


def forget(root: Path, config: Config, name: str) -> int:
    """Delete a record from the server, and from each machine at its next pull.

    Returns the number of rows deleted on the server. Raises NotFound if the server does not know
    the record.
    """
    root = paths.main_checkout(root)
    full_id = filters.full_id(root, name)
    with suppress(NotFound), team_db.read_team(paths.team_database(root)) as connection:
        if full_id == name:
            full_id = filters.resolve_id(connection, name)
    with _joined(root, config.team) as (server, project):
        is_stored = bool(server.call("keys_with", project, [full_id]))
        if not is_stored and full_id not in _tombstones(server, project):
            raise NotFound(
                f"the team's server has no record {name}",
                hint=Hint("find-record", "`ralph search --team` shows the ids"),
            )
        removed = int(server.call("forget", project, [full_id])[0][0])
    _remember_forgotten(root, [full_id])
    pull(root, config)
    return removed


# --- status and administration -------------------------------------------------------------------


def status(root: Path, config: Config) -> dict[str, Any]:
    """Describe what is shared with the team.

    `to_push` is the number of sources to push. If the server does not answer, `problem` says why.
    """
    root = paths.main_checkout(root)
    team = config.team
    counts: dict[str, int] = {}
    with suppress(NotFound), team_db.read_team(paths.team_database(root)) as connection:
        counts = team_db.count_sources(connection)
    pulled_machines = {_machine_in(name) for name in counts if _is_log(name)}
    state: dict[str, Any] = {
        "url": team_errors.shown_url(team.url),
        "project": project_name(root, team),
        "share": [shared.value for shared in team.share],
        "pulled_at": (files.read(paths.team_pulled(root)) or "").strip(),
        "pulled_rows": sum(counts.values()),
        "machines": len(pulled_machines),
        "role": "",
        "may_write": False,
        "server_rows": 0,
        "to_push": 0,
        "problem": "",
    }
    try:
        with _joined(root, team) as (server, project):
            for name, may_write, rows in server.call("my_projects"):
                if name == project:
                    state["role"] = server.connection.info.user
                    state["may_write"] = may_write
                    state["server_rows"] = rows
            machine = machine_name(root)
            sources = server.sources(project)
            state["machines"] = len({source.machine for source in sources} - {machine})
            state["to_push"] = _count_changed(root, config, _sources_of(machine, sources))
    except RalphError as error:
        if team.url:
            state["problem"] = error.message
    return state


def _machine_in(name: str) -> str:
    """Return the machine that the name of a pulled log contains."""
    _, _, machine, *_ = name.split("/")
    return machine


def _count_changed(root: Path, config: Config, pushed: Mapping[str, ServerSource]) -> int:
    """Return the number of sources that a push would send."""
    shared = SharedRows(root, config.team.share, config.privacy)
    with index.of(root).open_current() as connection:
        changed = [
            part for part in shared.parts(connection) if _is_changed(part, pushed, shared.rules)
        ]
    return len(changed)


def migrate(
    url: str, project: str = "", members: Sequence[str] = (), readers: Sequence[str] = ()
) -> list[str]:
    """Update a server's schema to this version, and add members to a project.

    Returns one line per change. Raises UsageError if members are given without a project, or if the
    schema is newer than this version.
    """
    if (members or readers) and not project:
        raise UsageError(
            "--member and --reader need --project NAME",
            hint="ralph team migrate URL --project shop --member ann",
        )
    with needs_extra("team", "`ralph team`"), team_server.connect(url, any_version=True) as server:
        if server.version() > VERSION:
            raise UsageError(
                f"the server's schema ({server.version()}) is newer than this Ralph",
                hint="update Ralph",
            )
        lines = [f"created schema {number}" for number in server.migrate()]
        for role in (*members, *readers):
            may_write = role in members
            server.add_member(project, role, may_write=may_write)
            rights = "read and write" if may_write else "read"
            lines.append(f"{role} may {rights} {project}")
    return lines


def check(url: str) -> tuple[int, list[str]]:
    """Return the version of a server's schema and the problems with it, for the server's owner."""
    with needs_extra("team", "`ralph team`"), team_server.connect(url, any_version=True) as server:
        version = server.version()
        if not version:
            return 0, ["the server has no Ralph tables; `ralph team migrate URL` creates them"]
        if version != VERSION:
            return version, [f"this Ralph uses schema {VERSION}"]
        return version, server.problems()
