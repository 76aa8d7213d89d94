"""Load hundreds of thousands of team rows with COPY and plain INSERTs, as pushes and pulls would write them.

Words are tokenised once, and the server's indexes are built at the end. `check_sample` pushes and pulls the logs of
some of these rows, and compares every column and count. Rows are short observations.
"""

import itertools
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import resources
from pathlib import Path

import psycopg
from bench.sessions import Words, _vocabulary
from bench.speed import END
from tests.support.postgres import ThrowawayServer

from ralph.core import paths, terms
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.core.settings import Config, Shared, Team
from ralph.formats.log import encode_record
from ralph.privacy import injection
from ralph.search.scoring import SEARCH
from ralph.sharing import team, team_pull, team_push
from ralph.storage import db, team_db
from ralph.storage.log_portions import ReadState
from ralph.storage.record_rows import row_values
from ralph.storage.server_lookup import indexed_terms

SESSION, BATCH, MACHINES = 60, 12_000, 8
TYPICAL_WORDS = 16  # median number of words in an observation
_SECRET = re.compile("token|key", re.IGNORECASE)
"""Matches words after which an identifier looks like a secret. A push would redact it."""
_COLUMNS = "source, project, length, seq, family, id, session, body, columns, terms"
_SOURCES = (
    "INSERT INTO ralph_team.sources (project, member, machine, path, format, rules, digest, size, lines, branch, "
    "commit, committed_at, is_default, records) SELECT %s, 'ann', %s, unnest(%s::text[]), 'observations', '', '', 0, "
    "0, '', '', '', true, %s RETURNING key"
)
_FINISH = (
    "INSERT INTO ralph_team.vocabulary (project, docs, term) SELECT project, count(*), substr(t, strpos(t, '/') + 2) "
    "FROM ralph_team.records, unnest(terms) t WHERE project = %s GROUP BY 1, 3",
    "UPDATE ralph_team.sources s SET last = r.last, row_count = r.number, checksum = r.checksum FROM ("
    "SELECT source, max(key) AS last, count(*) AS number, bit_xor(ralph_team.row_digest(body)) AS checksum "
    "FROM ralph_team.records WHERE project = %s GROUP BY 1) r WHERE r.source = s.key",
    "UPDATE ralph_team.machines m SET (records, tokens) = (SELECT count(*), sum(r.length) FROM ralph_team.records r "
    "JOIN ralph_team.sources s ON s.key = r.source WHERE s.project = m.project AND s.machine = m.machine) "
    "WHERE project = %s",
)
_SAMPLE = (
    "SELECT s.path, r.length, r.seq, r.family, r.id, r.session, r.body, r.columns, ARRAY(SELECT substr(t, "
    "strpos(t, '/')) FROM unnest(r.terms) t) FROM ralph_team.records r JOIN ralph_team.sources s ON s.key = r.source "
    "WHERE r.project = %s ORDER BY r.id",
    "SELECT term, docs FROM ralph_team.vocabulary WHERE project = %s ORDER BY 1",
    "SELECT sum(records), sum(tokens) FROM ralph_team.machines WHERE project = %s",
    "SELECT path, records, row_count, checksum FROM ralph_team.sources WHERE project = %s ORDER BY 1",
)
_LOCAL = "id, line, session_id, seq, type, title, content, tags, files, scope, metadata, created_at, digest"

Observation = tuple[Record, tuple[str, str, str, str], int]
"""A record, the terms of its text, title, tags and files, and its position in the session."""


class Machine:
    """The sessions of one machine; the same machine number always gives the same sessions."""

    def __init__(self, number: int) -> None:
        self.number, self.name, self._random = number, f"bulk{number}", random.Random(number)
        self._words = [word for word in _vocabulary() if not _SECRET.search(word)]
        self._files = Words(1)._files
        self._weights = list(
            itertools.accumulate(1 / (rank + 8) for rank in range(len(self._words)))
        )
        self._terms: dict[str, str] = {}
        self._asked: list[list[str]] = []

    def session(self, number: int) -> Iterator[Observation]:
        """Yield the observations of a session."""
        chance = self._random
        name = f"{self.number:02}-{number:06}-{chance.getrandbits(48):012x}"
        start = END - timedelta(minutes=(15 * number + self.number) % 400_000)
        for place in range(1, SESSION + 1):
            if place % 4 == 1:
                subject = chance.choices(self._words, cum_weights=self._weights, k=10)
            count = min(120, int(chance.lognormvariate(0, 0.7) * TYPICAL_WORDS) + 2)
            drawn = chance.choices(self._words, cum_weights=self._weights, k=count)
            words = [chance.choice(subject) if chance.random() < 0.6 else word for word in drawn]
            if chance.random() < 0.002:
                self._asked.append(words)
            weights = self._weights[: len(self._files)]
            file = (
                chance.choices(self._files, cum_weights=weights)[0] if chance.random() < 0.5 else ""
            )
            title = chance.choice(("Bash", "Edit", "Read", "Write", "Task"))
            at = (
                (start + timedelta(seconds=15 * place))
                .isoformat(timespec="microseconds")
                .replace("+00:00", "Z")
            )
            origin = Origin("tool", name, files=(file,) if file else ())
            key, text = f"obs-{self.number:02x}{number:06x}{place:04x}", " ".join(words)
            about = (Family.OBSERVATION, "", title, (), Status.RAW, Scope.SESSION, origin, at)
            columns = ("  ".join(map(self._of, words)), self._of(title), "", self._of(file))
            yield Record(key, ObservationKind.TOOL_USE, text, *about), columns, place

    def _of(self, word: str) -> str:
        if word not in self._terms:
            self._terms[word] = "  ".join(terms.index_terms(word).split())
        return self._terms[word]

    def questions(self, count: int) -> list[str]:
        """Return questions, each made of words of one observation."""
        chosen = self._random.choices(self._asked or [["database"]], k=count)
        return [
            " ".join(self._random.sample(words, min(self._random.randint(3, 8), len(words))))
            for words in chosen
        ]

    def batches(self, rows: int) -> Iterator[list[list[Observation]]]:
        """Yield sessions with this number of rows, in batches."""
        for first in range(0, rows // SESSION, BATCH // SESSION):
            last = min(first + BATCH // SESSION, rows // SESSION)
            yield [list(self.session(number)) for number in range(first, last)]


def _path(session: list[Observation]) -> str:
    return f"log/sessions/{session[0][0].origin.session}.jsonl#observations"


def load_server(
    url: str,
    project: str,
    number: int,
    rows: int,
    write: Callable[[list[Observation]], None] | None,
) -> None:
    """Load the rows of a machine into the server's tables; `write` is called with each session."""
    with psycopg.connect(url, autocommit=True) as connection:
        pid, machine = _project(connection, project), Machine(number)
        sql = "INSERT INTO ralph_team.machines (project, machine, member) VALUES (%s, %s, 'ann')"
        connection.execute(sql, (pid, machine.name))
        for sessions in machine.batches(rows):
            values = (pid, machine.name, list(map(_path, sessions)), SESSION)
            with connection.transaction(), connection.cursor() as cursor:
                keys = [row[0] for row in connection.execute(_SOURCES.encode(), values)]
                with cursor.copy(
                    f"COPY ralph_team.records ({_COLUMNS}) FROM STDIN".encode()
                ) as copy:
                    for key, session in zip(keys, sessions, strict=True):
                        for record, columns, place in session:
                            text, levels, length = indexed_terms(columns, SEARCH.weights.fields)
                            body = encode_record(record).rstrip("\n")
                            leveled = [f"{pid}/{term}" for term in levels.split(" ")]
                            about = (record.id, record.origin.session, body, text, leveled)
                            copy.write_row((key, pid, length, place, 1, *about))
                        if write is not None:
                            write(session)


def _project(connection: "psycopg.Connection[tuple[int]]", name: str) -> int:
    row = connection.execute(
        "SELECT id FROM ralph_team.projects WHERE name = %s", (name,)
    ).fetchone()
    assert row is not None
    return row[0]


def load_local(path: Path, machines: int, rows: int) -> list[str]:
    """Write the parts of the machines' rows that ranking reads to a `team.db`; return questions about them."""
    asked: list[str] = []
    with team_db.open_team(path, terms.index_terms, injection.is_order) as database:
        connection, key = database.connection, 1
        for machine in map(Machine, range(machines)):
            for sessions in machine.batches(rows):
                values, words = [], []
                with db.atomic(connection):
                    for session in sessions:
                        name = f"{team_db.PREFIX}ann/{machine.name}/{_path(session)}"
                        source = database.writer.add_source(
                            name, "observations", ReadState(lines=SESSION)
                        )
                        for record, (text, title, tags, files), place in session:
                            row = row_values(record, is_order=False)
                            head = (key, record.id, source, place, record.origin.session, place)
                            values.append((*head, *row))
                            words.append((key, title, tags, text, files))
                            key += 3
                    marks = ", ".join("?" * len(values[0]))
                    connection.executemany(f"INSERT INTO observations VALUES ({marks})", values)
                    sql = (
                        "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
                    )
                    connection.executemany(sql, words)
            asked += machine.questions(40)
    return asked


def load(server: ThrowawayServer, path: Path, rows: int) -> list[str]:
    """Load this number of rows of eight machines into the project `bench` and a `team.db`; return questions."""
    script = resources.files("ralph.storage").joinpath("team/0001.sql").read_text(encoding="utf-8")
    indexes = re.findall(
        r"^CREATE (?:UNIQUE )?INDEX (records_\w+) (.*?);", script, re.MULTILINE | re.DOTALL
    )
    server.execute(*(f"DROP INDEX ralph_team.{name}" for name, _ in indexes))
    for number in range(MACHINES):
        load_server(server.url(), "bench", number, rows // MACHINES, None)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            "SET maintenance_work_mem = '1GB'; SET work_mem = '1GB'; SET search_path = ralph_team"
        )
        for name, definition in indexes:
            unique = "UNIQUE " * (name == "records_key")
            connection.execute(f"CREATE {unique}INDEX {name} {definition}".encode())
        finish(connection, "bench")
    return load_local(path, MACHINES, rows // MACHINES)


def finish(connection: "psycopg.Connection[tuple[int]]", project: str) -> None:
    """Count the words and rows of a project."""
    pid = _project(connection, project)
    for sql in _FINISH:
        connection.execute(sql.encode(), (pid,))


def check_sample(server: ThrowawayServer, rows: int = 3_000) -> bool:
    """Whether loaded rows equal those of a real push, on the server and, after a real pull, locally."""
    same: list[bool] = []
    for project in ("sample-loaded", "sample-pushed"):
        team.migrate(server.url(), project, ["ann", "ben"])
    ann, ben = (
        Config(team=Team(server.url(role), project="sample-pushed", share=tuple(Shared)))
        for role in ("ann", "ben")
    )
    with (
        tempfile.TemporaryDirectory() as name,
        psycopg.connect(server.url(), autocommit=True) as connection,
    ):
        pushing, pulling = (Path(name) / role for role in ("ann", "ben"))
        logs = paths.log_folder(pushing) / "sessions"
        for folder in (pushing / ".ralph", pulling / ".ralph", logs):
            folder.mkdir(parents=True, exist_ok=True)

        def write(session: list[Observation]) -> None:
            text = "".join(encode_record(record) for record, _, _ in session)
            (logs / f"{session[0][0].origin.session}.jsonl").write_text(text, encoding="utf-8")

        load_server(server.url(), "sample-loaded", 0, rows, write)
        finish(connection, "sample-loaded")
        team_push.push(pushing, ann)
        team_pull.pull(pulling, ben)
        load_local(Path(name) / "loaded.db", 1, rows)
        for sql in _SAMPLE:
            pids = [_project(connection, project) for project in ("sample-loaded", "sample-pushed")]
            loaded, pushed = (connection.execute(sql.encode(), (pid,)).fetchall() for pid in pids)
            same.append(loaded == pushed)
        with (
            team_db.read_team(Path(name) / "loaded.db") as loaded_db,
            team_db.read_team(paths.team_database(pulling)) as pulled_db,
        ):
            for sql in (
                f"SELECT {_LOCAL} FROM observations ORDER BY id",
                "SELECT * FROM search_terms ORDER BY 1",
            ):
                one, other = (
                    [tuple(row) for row in each.execute(sql)] for each in (loaded_db, pulled_db)
                )
                same.append(one == other)
    return all(same)
