"""`ralph team`: push what this machine shares, and pull what the others do, through the team's PostgreSQL server.

The server's list of sources is the only watermark: nothing here can be out of step with it, and a server that is made
anew fills itself from the machines. Ids that were forgotten are kept in the state folder and sent before any row.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths, render, terms
from ralph.core.config import Layer
from ralph.core.errors import Hint, NotFound, RalphError, UsageError
from ralph.core.extras import needs_extra
from ralph.core.settings import Config, Shared, Team, TeamSearch
from ralph.formats.log import encode_record, parse_log
from ralph.search import filters, index
from ralph.sharing.team_rows import CURATED, Part, SharedRows, git_state, machine_name
from ralph.storage import config as settings
from ralph.storage import db, files, team_db, team_server
from ralph.storage.changes import digest_to
from ralph.storage.team_db import PREFIX, PulledState, TeamDatabase
from ralph.storage.team_server import (
    LARGEST,
    VERSION,
    PushedRow,
    ServerError,
    ServerSource,
    SourceRefused,
    TeamServer,
)

_BATCH = 20_000  # rows of one transaction in `team.db`
_CURATED = frozenset(form.value for form in CURATED)
Progress = Callable[[int, int], None]
WantedSource = tuple[str, ServerSource, PulledState]  # its name here, and what was pulled before


@dataclass(slots=True)
class PushResult:
    """What a push sent, or would send: rows by their source, sources that went, and tombstones."""

    sent: dict[str, list[PushedRow]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    forgotten: int = 0
    unchanged: int = 0
    refused: list[SourceRefused] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.sent.values()))


class PullResult(NamedTuple):
    """What a pull received: sources that changed, their rows, and sources that went."""

    sources: int = 0
    rows: int = 0
    removed: int = 0


def project_name(root: Path, team: Team) -> str:
    """Return the name of a project on the server."""
    return team.project or paths.main_checkout(root).name


@contextmanager
def _joined(root: Path, team: Team) -> Iterator[tuple[TeamServer, str]]:
    """Connect to the server of a project that has one."""
    if not team.url:
        hint = "`ralph team join URL` joins one; a URL in ralph.yml counts after `ralph trust`"
        raise UsageError("this project shares nothing with a team", hint=hint)
    with needs_extra("team", "`ralph team`"), team_server.connect(team.url) as server:
        yield server, project_name(root, team)


def join(root: Path, team: Team, url: str, project: str = "") -> str:
    """Connect once, and write the server and the project's name to ralph.local.yml; return the project's name."""
    project = project or project_name(root, team)
    with needs_extra("team", "`ralph team`"):
        team_server.check_url(url)
        with team_server.connect(url) as server:
            names = [row[0] for row in server.call("my_projects")]
            if project not in names:
                hint = (
                    f"your projects there: {', '.join(names) or 'none'}; --project NAME names one"
                )
                raise NotFound(
                    f"{server.connection.info.user} is no member of a project {project!r} there",
                    hint=hint,
                )
    for key, value in (("team.url", url), ("team.project", project)):
        settings.set_(root, key, value, env=os.environ, layer=Layer.LOCAL)
    _remember_forgotten(paths.main_checkout(root), ())
    return project


def leave(root: Path, team: Team, *, delete_mine: bool = False) -> int:
    """Leave the team: remove what was pulled, and with `delete_mine` this machine's rows on the server."""
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
    """Send what changed since the last push, tombstones first; each source is one transaction."""
    root = paths.main_checkout(root)
    shared = SharedRows(root, config.team.share, config.privacy)
    result = PushResult()
    with _joined(root, config.team) as (server, project):
        tombstones = _tombstones(server, project)
        own_tombstones = _forgotten_ids(root)
        result.forgotten = len(own_tombstones - tombstones)
        if result.forgotten and not dry_run:
            server.call("forget", project, sorted(own_tombstones - tombstones))
        tombstones |= own_tombstones
        machine = machine_name(root)
        known = {
            source.path: source for source in server.sources(project) if source.machine == machine
        }
        with index.of(root).open_current() as connection:
            parts = list(shared.parts(connection))
            changed = [part for part in parts if _is_changed(part, known, shared.rules)]
            result.unchanged = len(parts) - len(changed)
            git = git_state(root)
            for number, part in enumerate(changed):
                before = known.get(part.path)
                prefix = before if before and _is_prefix(root, part, before, shared.rules) else None
                rows = shared.rows(connection, part, prefix.lines if prefix else 0)
                rows = [row for row in rows if row.id not in tombstones]
                try:
                    if not dry_run:
                        digest = prefix.digest if prefix else None
                        server.push(project, machine, shared.describe(part, git), digest, rows)
                    result.sent[part.path] = rows
                except SourceRefused as error:  # the others may be taken
                    result.refused.append(error)
                if progress is not None:
                    progress(number + 1, len(changed))
        # the log of a session that retention removed stays: that is no forgetting
        present = {part.path for part in parts}
        stays = {each.value for each in shared.share} - _CURATED
        result.removed = [
            path for path, each in known.items() if path not in present and each.format not in stays
        ]
        if result.removed and not dry_run:
            server.call("remove_sources", project, machine, result.removed)
    if result.refused:
        first = result.refused[0]
        what = f"{len(result.refused)} source(s) not sent, {result.rows} row(s) of others sent: {first.message}"
        raise ServerError(what, hint=first.hint)
    return result


def _is_changed(part: Part, known: dict[str, ServerSource], rules: str) -> bool:
    return part.path not in known or (known[part.path].digest, known[part.path].rules) != (
        part.source.digest,
        rules,
    )


def _is_prefix(root: Path, part: Part, before: ServerSource, rules: str) -> bool:
    """Whether the server has what a log begins with, cleaned by the same rules."""
    if (
        part.format not in (Shared.JOURNAL, Shared.OBSERVATIONS)
        or before.rules != rules
        or not before.size
    ):
        return False
    with (
        suppress(RalphError, OSError),
        files.open_regular(paths.source_path(root, part.source.path)) as file,
    ):
        return before.size <= part.source.size and digest_to(file, before.size) == before.digest
    return False


# --- pull ----------------------------------------------------------------------------------------


def pull(root: Path, config: Config, progress: Progress | None = None) -> PullResult:
    """Bring `team.db` to what the other machines share; what was forgotten goes."""
    root = paths.main_checkout(root)
    machine = machine_name(root)
    on_server = config.team.search is TeamSearch.SERVER
    skipped = {Shared.OBSERVATIONS.value} if on_server else set()
    with (
        _joined(root, config.team) as (server, project),
        team_db.open_team(paths.team_database(root), terms.index_terms, render.is_order) as team,
        server.snapshot(),
    ):
        _remember_forgotten(root, _tombstones(server, project))
        forgotten = _forgotten_ids(root)
        sources = [
            each
            for each in server.sources(project)
            if each.machine != machine and each.format not in skipped
        ]
        curated = [each for each in sources if each.format in _CURATED]
        logs = {
            f"{PREFIX}{each.member}/{each.machine}/{each.path}": each
            for each in sources
            if each not in curated
        }
        states = team.states()
        changed, rows = _pull_memories(team, states, server, project, curated, machine, forgotten)
        wanted: list[WantedSource] = []
        for name, source in logs.items():
            state = states.get(name)
            if state is None or state.generation != source.generation:
                wanted.append((name, source, PulledState(0, source.generation, 0)))  # all of it
            elif state.last != source.last:
                wanted.append((name, source, state))
        ends = list(accumulate(source.records + 1 for _, source, _ in wanted))
        for _, group in groupby(zip(ends, wanted, strict=True), key=lambda pair: pair[0] // _BATCH):
            rows += _pull_batch(team, server, project, [each for _, each in group], forgotten)
            if progress is not None:
                progress(rows, ends[-1])
        gone = [
            state.key for name, state in states.items() if name not in logs and name.count("/") > 1
        ]
        with db.atomic(team.connection):
            for key in gone:
                team.writer.clear(key)
    files.write(paths.team_pulled(root), ids.timestamp() + "\n", mode=files.PRIVATE)
    return PullResult(len(wanted) + changed, rows, len(gone))


def _pull_batch(
    team: TeamDatabase,
    server: TeamServer,
    project: str,
    batch: Sequence[WantedSource],
    forgotten: set[str],
) -> int:
    lines: dict[int, list[tuple[str, str]]] = {each.key: [] for _, each, _ in batch}
    highest: dict[int, int] = {}
    for source, key, name, line in server.rows(
        project, [(each.key, state.last) for _, each, state in batch]
    ):
        highest[source] = key
        if len(line) <= LARGEST and name not in forgotten:
            lines[source].append((name, line))
    with db.atomic(team.connection):
        for name, each, state in batch:
            new = PulledState(state.key, each.generation, highest.get(each.key, each.last))
            team.put(name, each.format, new, lines[each.key])
    return sum(map(len, lines.values()))


def _pull_memories(
    team: TeamDatabase,
    states: dict[str, PulledState],
    server: TeamServer,
    project: str,
    curated: Sequence[ServerSource],
    machine: str,
    forgotten: set[str],
) -> tuple[int, int]:
    """Replace the memories of other machines, one source a format, when one of their files changed; few, so all."""
    text = "\n".join(f"{each.key} {each.generation} {each.last} {each.commit}" for each in curated)
    mark = hashlib.sha256(text.encode()).hexdigest()[:32]
    own = {name: state for name, state in states.items() if name.count("/") == 1}
    if not (curated or own) or (own and all(state.generation == mark for state in own.values())):
        return 0, 0
    memories = [
        (row[0], (row[4], _with_origin(row[1], row[2], row[3], row[5])))
        for row in server.call("memories_of", project, machine)
        if row[4] not in forgotten and len(row[5]) <= LARGEST
    ]
    with db.atomic(team.connection):
        for state in own.values():
            team.writer.clear(state.key)
        for form, rows in groupby(sorted(memories, key=itemgetter(0)), key=itemgetter(0)):
            team.put(f"{PREFIX}{form}", form, PulledState(0, mark, 0), [row[1] for row in rows])
    return len(curated), len(memories)


def _with_origin(member: str, branch: str, commit: str, body: str) -> str:
    """Return the line of a memory with who pushed it, from which branch and commit."""
    for entry in parse_log(body).entries:
        about = {"member": member, "branch": branch, "commit": commit}
        extra = {
            **entry.record.extra,
            "team": {name: value for name, value in about.items() if value},
        }
        return encode_record(replace(entry.record, extra=extra)).rstrip("\n")
    return body


def exchange(root: Path, config: Config) -> str:
    """Push and pull at a loop's end, where `team.loop` says so; return a line about it, also when it failed."""
    if not (config.team.loop and config.team.url):
        return ""
    try:
        return f"shared with the team: {push(root, config).rows} row(s) sent, {pull(root, config).rows} received"
    except RalphError as error:
        return f"not shared with the team: {error.message}"


# --- forget --------------------------------------------------------------------------------------


def _tombstones(server: TeamServer, project: str) -> set[str]:
    return {row[0] for row in server.call("tombstones_of", project)}


def _forgotten_ids(root: Path) -> set[str]:
    return set((files.read(paths.team_tombstones(root)) or "").split("\n")) - {""}


def _remember_forgotten(root: Path, names: Iterable[str]) -> None:
    path = paths.team_tombstones(root)
    new = {*names}
    if not path.exists() or new - _forgotten_ids(root):
        files.make_folder(path.parent, 0o700)
        files.update(
            path,
            lambda text: "\n".join(sorted(new | set(text.split("\n")))) + "\n",
            mode=files.PRIVATE,
        )


def note_forgotten(root: Path, names: Iterable[str]) -> None:
    """Keep the ids that `ralph forget` removed for the next push, where a team was joined."""
    root = paths.main_checkout(root)
    if paths.team_tombstones(root).exists():
        _remember_forgotten(root, [name for name in names if name and "\n" not in name])


def forget(root: Path, config: Config, name: str) -> int:
    """Delete a record on the server, and on every machine with its next pull; return how many rows went."""
    root = paths.main_checkout(root)
    full = filters.full_id(root, name)
    with suppress(NotFound), team_db.read_team(paths.team_database(root)) as connection:
        full = filters.resolve_id(connection, name) if full == name else full
    with _joined(root, config.team) as (server, project):
        if not server.call("keys_with", project, [full]) and full not in _tombstones(
            server, project
        ):
            raise NotFound(
                f"the team's server has no record {name}",
                hint=Hint("find-record", "`ralph search --team` shows the ids"),
            )
        removed = int(server.call("forget", project, [full])[0][0])
    _remember_forgotten(root, [full])
    pull(root, config)
    return removed


# --- status and administration -------------------------------------------------------------------


def status(root: Path, config: Config) -> dict[str, Any]:
    """Describe what is shared, and `to_push` in sources; a server that does not answer is a `problem`."""
    root = paths.main_checkout(root)
    team = config.team
    counts: dict[str, int] = {}
    with suppress(NotFound), team_db.read_team(paths.team_database(root)) as connection:
        counts = team_db.count_sources(connection)
    state: dict[str, Any] = {
        "url": team_server.shown_url(team.url),
        "project": project_name(root, team),
        "share": [each.value for each in team.share],
        "pulled_at": (files.read(paths.team_pulled(root)) or "").strip(),
        "pulled_rows": sum(counts.values()),
        "machines": len({name.split("/")[2] for name in counts if name.count("/") > 1}),
        "role": "",
        "may_write": False,
        "server_rows": 0,
        "to_push": 0,
        "problem": "",
    }
    try:
        with _joined(root, team) as (server, project):
            for name, may_write, number in server.call("my_projects"):
                if name == project:
                    state |= {
                        "role": server.connection.info.user,
                        "may_write": may_write,
                        "server_rows": number,
                    }
            machine = machine_name(root)
            sources = server.sources(project)
            state["machines"] = len({source.machine for source in sources} - {machine})
            known = {source.path: source for source in sources if source.machine == machine}
            shared = SharedRows(root, team.share, config.privacy)
            with index.of(root).open_current() as connection:
                state["to_push"] = sum(
                    _is_changed(part, known, shared.rules) for part in shared.parts(connection)
                )
    except RalphError as error:
        state["problem"] = error.message if team.url else ""
    return state


def migrate(
    url: str, project: str = "", members: Sequence[str] = (), readers: Sequence[str] = ()
) -> list[str]:
    """Bring a server's schema to this version, and add members to a project; one line for each thing that was done."""
    if (members or readers) and not project:
        hint = "ralph team migrate URL --project shop --member ann"
        raise UsageError("--member and --reader need --project NAME", hint=hint)
    with needs_extra("team", "`ralph team`"), team_server.connect(url, any_version=True) as server:
        if server.version() > VERSION:
            raise UsageError(
                f"the server's schema ({server.version()}) is newer than this Ralph",
                hint="update Ralph",
            )
        lines = [f"schema {number} made" for number in server.migrate()]
        for role in (*members, *readers):
            server.add_member(project, role, may_write=role in members)
            lines.append(f"{role} may {'read and write' if role in members else 'read'} {project}")
    return lines


def check(url: str) -> tuple[int, list[str]]:
    """Return the version of a server's schema and what is wrong with it, for its owner."""
    with needs_extra("team", "`ralph team`"), team_server.connect(url, any_version=True) as server:
        version = server.version()
        if not version:
            return 0, ["the server has no tables of Ralph's: `ralph team migrate URL` makes them"]
        return version, server.problems() if version == VERSION else [
            f"this Ralph's schema is {VERSION}"
        ]
