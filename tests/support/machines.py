"""Simulated machines of a team: each is a folder with a project, which shares through a database of its own."""

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from tests.support.postgres import ThrowawayServer
from tests.support.runner import Project

from ralph.core import paths
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Query,
    Record,
    Scope,
    Status,
)
from ralph.core.settings import Config, Privacy, Shared, Team, TeamSearch
from ralph.formats.log import encode_line, encode_record
from ralph.memory import memory
from ralph.memory.author import BY_PERSON
from ralph.recall.search import SearchAnswer
from ralph.sharing import team, team_pull, team_push, team_search
from ralph.storage import queries, team_db
from ralph.storage.team_server import VERSION, TeamServer, connect

_NUMBERS = itertools.count(1)
EVERYTHING = tuple(Shared)
TEMPLATE = "team_template"


def start_server(version: str = "") -> ThrowawayServer:
    """Start a server with a database to copy."""
    server = ThrowawayServer(version)
    server.execute(f"CREATE DATABASE {TEMPLATE} STRATEGY FILE_COPY")
    assert len(team.migrate(server.url(database=TEMPLATE))) == VERSION
    return server


class Machine:
    """One clone of a project on a machine of its own."""

    def __init__(self, root: Path, url: str, project: str = "shop") -> None:
        self.root = root
        for folder in (".agent", ".ralph"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "ralph.yml").touch()
        self.config = Config(team=Team(url=url, project=project, share=EVERYTHING))

    def set(self, *, privacy: Privacy | None = None, **team_settings: object) -> None:
        """Change settings."""
        team_section = replace(self.config.team, **team_settings)  # type: ignore[arg-type]
        self.config = replace(
            self.config, team=team_section, privacy=privacy or self.config.privacy
        )

    def remember(self, text: str, *tags: str) -> str:
        """Add a memory; returns its id."""
        return memory.add(
            self.root, text, kind=MemoryKind.FIX, tags=tags, context=BY_PERSON
        ).stored.record.id

    def log(self, *lines: str, name: str = "s1", kind: str = "sessions") -> Path:
        """Append lines to a log."""
        path = paths.log_folder(self.root) / kind / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        return path

    def push(self) -> team_push.PushResult:
        """Push."""
        return team_push.push(self.root, self.config)

    def pull(self) -> team_pull.PullResult:
        """Pull."""
        return team_pull.pull(self.root, self.config)

    def sync(self) -> team_pull.PullResult:
        """Push and pull, as `ralph team sync` does."""
        self.push()
        return self.pull()

    def search(
        self, text: str, *, server: bool = False, limit: int = 5, **filters: object
    ) -> SearchAnswer:
        """Search with the team's rows."""
        settings = replace(
            self.config.team, search=TeamSearch.SERVER if server else TeamSearch.PULLED
        )
        query = Query(text, limit=limit)._replace(**filters)  # type: ignore[arg-type]
        return team_search.search(self.root, query, settings)

    def found(self, text: str, *, server: bool = False, limit: int = 5) -> list[str]:
        """Return the ids that a search gives."""
        return [hit.record.id for hit in self.search(text, server=server, limit=limit).found.hits]

    def pulled(self) -> list[str]:
        """Return the ids of all pulled records, as often as they are there."""
        with team_db.read_team(paths.team_database(self.root)) as connection:
            keys = queries.newest_keys(connection, Query(limit=None), None)
            return sorted(record.id for record in queries.records(connection, keys).values())


class Fleet:
    """A database with Ralph's tables, roles, and machines."""

    def __init__(self, postgres: ThrowawayServer, folder: Path) -> None:
        self.postgres, self.folder = postgres, folder
        self.number = next(_NUMBERS)
        self.database = f"team{self.number}"
        self.roles: set[str] = set()
        self.make()

    def make(self) -> None:
        """Make the database with the tables, as a copy of one that its administrator has made."""
        self.postgres.execute(
            f"CREATE DATABASE {self.database} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY"
        )

    def back_up(self, kind: str) -> None:
        """Back up the server: `dump` is a logical backup of the database, `files` a physical one."""
        if kind == "dump":
            self.postgres.dump(self.database, f"{self.database}.dump")
        else:
            self.postgres.copy_files()

    def restore(self, kind: str) -> None:
        """Bring the server back to the state of its backup."""
        if kind == "dump":
            self.postgres.restore(self.database, f"{self.database}.dump")
        else:
            self.postgres.restore_files()

    def move_times(self, interval: str) -> None:
        """Move all times that the server gave, as if its clock had been ahead or behind."""
        with psycopg.connect(self.url(), autocommit=True) as owner:
            owner.execute("UPDATE ralph_team.sources SET changed_at = changed_at + %s", (interval,))
            owner.execute("UPDATE ralph_team.machines SET synced_at = synced_at + %s", (interval,))

    def drop(self) -> None:
        """Delete the database with everything in it."""
        self.postgres.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")

    def url(self, role: str = "postgres") -> str:
        """Return the URL of a role."""
        return self.postgres.url(self.role(role), self.database)

    def role(self, name: str) -> str:
        """Return a role's name in this database: roles are the server's."""
        return name if name == "postgres" else f"{name}_{self.number}"

    def machine(self, name: str, role: str = "ann", project: str = "shop") -> Machine:
        """Return a new machine of a member."""
        self.join(role, project)
        return Machine(self.folder / name, self.url(role), project)

    def machine_without_joining(self, name: str) -> Machine:
        """Return the machine of a member of the same name, who was added in another way."""
        return Machine(self.folder / name, self.url(name))

    def join(self, role: str, project: str) -> None:
        """Make a role, and a member of a project."""
        if self.role(role) not in self.roles:
            self.roles.add(self.role(role))
            self.postgres.execute(f"CREATE ROLE {self.role(role)} LOGIN")
        team.migrate(self.url(), project, [self.role(role)])

    @contextmanager
    def server(self, role: str = "ann") -> Iterator[TeamServer]:
        """Connect as a member."""
        with connect(self.url(role)) as server:
            yield server

    def dump(self) -> str:
        """Return everything that the server has, as its owner sees it."""
        tables = (
            "sources",
            "records",
            "sessions",
            "tombstones",
            "vocabulary",
            "projects",
            "members",
        )
        with psycopg.connect(self.url(), autocommit=True) as connection:
            rows = [
                connection.execute(f"SELECT * FROM ralph_team.{table}").fetchall()
                for table in tables
            ]
        return json.dumps(rows, default=str, ensure_ascii=False)


def joined(fleet: Fleet, name: str) -> Project:
    """Return the project of a member who has joined, by the commands of the documentation."""
    root = fleet.folder / name / "shop"
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    fleet.join(name, "shop")
    ralph = Project(root)
    for words in (["init"], ["team", "join", fleet.url(name)], ["trust", "--yes"]):
        assert ralph(*words).code == 0
    return ralph


def observation(
    number: int, text: str, session: str = "s1", title: str = "Bash", files: Sequence[str] = ()
) -> str:
    """Return the line of an observation."""
    origin = Origin("tool", session, files=tuple(files))
    kind, at = ObservationKind.TOOL_USE, f"2026-10-01T10:{number // 60 % 60:02}:{number % 60:02}Z"
    name = f"obs-{session}-{number:06x}"
    return encode_record(
        Record(
            name,
            kind,
            text,
            Family.OBSERVATION,
            "",
            title,
            (),
            Status.RAW,
            Scope.SESSION,
            origin,
            at,
        )
    )


def iteration(number: int, text: str, run: str = "r1") -> str:
    """Return the line of a journal entry."""
    origin = Origin("agent", "s1", run, number)
    name, at = f"jrn-{run}-{number}", "2026-10-02T10:00:00Z"
    return encode_record(
        Record(
            name,
            Outcome.DONE,
            text,
            Family.JOURNAL,
            "",
            "A task",
            (),
            Status.ACCEPTED,
            Scope.RUN,
            origin,
            at,
        )
    )


def session(name: str, summary: str) -> str:
    """Return the line of a session with a summary."""
    at = "2026-10-01T10:00:00Z"
    about = {"id": name, "host": "claude", "started_at": at, "updated_at": at, "summary": summary}
    return encode_line("session", {**about, "project_path": "/home/ann/secret-place/shop"})
