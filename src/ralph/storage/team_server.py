"""Talk to a team's PostgreSQL server.

The server's schema consists of tables that no member can access directly, and of functions that
check who is asking. Members only call these functions. An administrator creates the schema from the
numbered files in `storage/team/`, and `TeamServer.problems` checks that nobody has changed it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.storage.index_schema import FAMILIES
from ralph.storage.team_errors import (
    STATEMENT_SECONDS,
    Purpose,
    ServerError,
    explained,
    shown_url,
)
from ralph.storage.team_tls import explain_tls
from ralph.storage.team_url import connection_parameters, effective_parameters

if TYPE_CHECKING:
    import psycopg

VERSION = 2
"""The version of the schema: the number of the last file in `storage/team/`."""
MAX_ROW_BYTES = 1 << 20
"""Maximum size of a shared row in bytes. Its terms may take up twice as much."""
_CHECKSUM_BYTES = 8  # a bigint
PATIENCE = STATEMENT_SECONDS + 10.0
"""Seconds after which Ralph gives up on a statement that the server has not cancelled."""
_LIMITS = f"""
SELECT set_config('statement_timeout', '{STATEMENT_SECONDS}s', true),
    set_config('idle_in_transaction_session_timeout', '{STATEMENT_SECONDS}s', true)
"""
"""Sets time limits for the current transaction only.

A pooler such as PgBouncer uses the same session for other clients, and accepts no settings when a
client connects.
"""
_MIGRATE_HINT = "its administrator runs `ralph team admin URL`"
SESSION_FAMILY = len(FAMILIES)
"""The family number of a session's row. Records have the numbers before it."""
_FUNCTION = re.compile(
    r"""
    ^CREATE\ (?:OR\ REPLACE\ )?FUNCTION\ (?P<name>\w+)\(    # CREATE FUNCTION forget(
    (?:(?!\$\$).)*?                          # parameters and options, never past the body's start
    (?P<definer>SECURITY\ DEFINER[^$]*?)?    # only if it runs with the rights of its owner
    AS\ \$\$(?P<body>.*?)\$\$;               # AS $$ the body $$;
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Matches one function in a schema file."""
_DROPPED_FUNCTION = re.compile(r"^DROP FUNCTION (?P<name>\w+)\(", re.MULTILINE)
"""Matches the removal of one function in a schema file."""
MIGRATION_LOCK_SECONDS = 10.0
"""How long an update of the schema waits for open transactions."""
_LOCK_VERSION = "LOCK TABLE ralph_team.version IN SHARE ROW EXCLUSIVE MODE"
_OPEN_TRANSACTIONS = """
SELECT DISTINCT a.usename FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'ralph_team'::regnamespace)
    AND l.pid <> pg_backend_pid() ORDER BY 1
"""


class ServerSource(NamedTuple):
    """A source as stored on the server: one file from one machine."""

    key: int
    member: str
    machine: str
    path: str
    format: str
    rules: str
    digest: str
    size: int
    lines: int
    branch: str
    commit: str
    generation: str
    records: int
    last: int
    row_count: int  # records and sessions
    checksum: int  # of all its rows: see `row_digest`
    changed_at: int  # microseconds on the server's clock; grows with every push
    is_confirmed: bool  # whether its machine has had its file in the current epoch


class ServerEpoch(NamedTuple):
    """Identifies the state that a server's changes build on. It changes after a restore."""

    epoch: str
    last_key: int  # the last key given to any row
    is_replica: bool
    highest_key: int  # of the project's sources
    proof: str  # that the server has given that key


def row_digest(line: str) -> int:
    """Return the number that a row contributes to its source's checksum.

    The checksum is the exclusive or of these numbers. The server computes them with its function of
    the same name.
    """
    digest = hashlib.sha256(line.encode()).digest()
    return int.from_bytes(digest[:_CHECKSUM_BYTES], signed=True)


class PushedRow(NamedTuple):
    """A row to push.

    `family` is the position of a record's family in `index_schema.FAMILIES`, or `SESSION_FAMILY`.
    `seq` is the position in the session. `body` is a line in the log format. The remaining fields
    are its search terms.
    """

    family: int
    id: str
    session: str
    seq: int
    body: str
    columns: str = ""
    terms: str = ""
    length: int = 0


_PUSHED_TYPES = ("smallint", "text", "text", "int", "text", "text", "text", "int")
"""The PostgreSQL types of the fields in `PushedRow`."""


# --- connecting ---------------------------------------------------------------------------------


@contextmanager
def connect(
    url: str, purpose: Purpose | None = None, *, any_version: bool = False
) -> Iterator[TeamServer]:
    """Connect to a server. The purpose words the hints of errors.

    Raises ServerError if that fails, or if the schema has another version and `any_version` is not
    set.
    """
    with explained(url, purpose), _open_connection(url) as connection:
        server = TeamServer(connection, url, purpose)
        if not any_version:
            _require_version(server.version())
        yield server


def _open_connection(url: str) -> psycopg.Connection[Any]:
    """Open a connection that also works through PgBouncer in transaction mode.

    It therefore prepares no statements and keeps no state outside of a transaction. Raises
    ServerError if the server's certificate is not accepted.
    """
    import psycopg

    # It warns about the end of a lost connection, for which an error is raised anyway.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    parameters = connection_parameters(url)
    try:
        return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        problem = explain_tls(str(error), effective_parameters(parameters))
        if problem is None:
            raise
        raise ServerError(
            f"{problem.message} ({shown_url(url)}); nothing was sent", hint=problem.hint
        ) from error


def _require_version(version: int) -> None:
    """Raise ServerError unless this is the schema version that Ralph uses."""
    if version == VERSION:
        return
    if version == 0:
        raise ServerError("the server has no Ralph tables", hint=_MIGRATE_HINT)
    if version > VERSION:
        comparison = "newer"
        hint = "update Ralph"
    else:
        comparison = "older"
        hint = _MIGRATE_HINT
    raise ServerError(
        f"the server's schema ({version}) is {comparison} than this Ralph's ({VERSION})", hint=hint
    )


# --- the server ---------------------------------------------------------------------------------


class TeamServer:
    """A connection to the team's server. Its methods raise ServerError."""

    def __init__(
        self, connection: psycopg.Connection[Any], url: str, purpose: Purpose | None = None
    ) -> None:
        self.connection = connection
        self.url = url
        self._purpose = purpose
        self._is_in_transaction = False

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        """Explain errors, and hang up if the server stays silent on an open connection.

        libpq would wait forever for a server that accepts a statement and never answers. A timer
        therefore shuts down the socket, which makes the waiting call fail with OperationalError.
        """
        from psycopg import OperationalError, errors

        given_up = Event()
        timer = Timer(PATIENCE, _hang_up, (self.connection.fileno(), given_up))
        timer.daemon = True
        timer.start()
        with explained(self.url, self._purpose):
            try:
                yield
            except OperationalError as error:
                if given_up.is_set():
                    raise errors.QueryCanceled(str(error)) from error
                raise
            finally:
                timer.cancel()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the statements in the block in one transaction with time limits.

        Within `snapshot`, they are part of its transaction. The pipeline saves round trips: it
        sends the start of the transaction, the limits and the first statement together.
        """
        with self._limit_time():
            if self._is_in_transaction:
                yield
                return
            with self.connection.pipeline(), self.connection.transaction():
                self.connection.execute(_LIMITS)
                with self._in_transaction():
                    yield

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        self._is_in_transaction = True
        try:
            yield
        finally:
            self._is_in_transaction = False

    def call(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        """Call a function in the schema and return its rows."""
        marks = ", ".join(["%s"] * len(values))
        sql = f"SELECT * FROM ralph_team.{name}({marks})"
        with self._transaction():
            return self.connection.execute(sql, values).fetchall()

    def version(self) -> int:
        """Return the version of the server's schema, or 0 if it has none."""
        with self._transaction():
            sql = "SELECT to_regproc('ralph_team.schema_version') IS NOT NULL"
            row = self.connection.execute(sql).fetchone()
            has_schema = row is not None and row[0]
            if not has_schema:
                return 0
            return int(self.call("schema_version")[0][0])

    def sources(self, project: str) -> list[ServerSource]:
        """Return every source of a project."""
        sources = []
        for row in self.call("sources_of", project):
            source = ServerSource(*row)
            sources.append(source._replace(generation=str(source.generation)))
        return sources

    def stored_bytes(self) -> int:
        """Return the size of all tables with their indexes, for all projects together."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relnamespace = 'ralph_team'::regnamespace AND relkind = 'r'"
        )
        with self._transaction():
            row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row is not None else 0

    def epoch(self, project: str) -> ServerEpoch:
        """Return what identifies the state of a project on the server."""
        return ServerEpoch(*self.call("epoch_of", project)[0])

    def push(
        self,
        project: str,
        machine: str,
        source: Sequence[object],
        before: str | None,
        rows: Sequence[PushedRow],
    ) -> int:
        """Store rows of a source on the server, and return how many were stored.

        `source` is the result of `SharedRows.describe`. The rows are added if the stored source has
        the digest `before`. If `before` is None, they replace all of its rows.
        """
        columns: list[list[object]] = [[] for _ in PushedRow._fields]
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        values = (project, machine, *source, before)
        marks = ", ".join(["%s"] * len(values))
        arrays = ", ".join(f"%b::{name}[]" for name in _PUSHED_TYPES)
        sql = f"SELECT ralph_team.push({marks}, {arrays})"
        with self._transaction():
            result = self.connection.execute(sql, (*values, *columns)).fetchone()
        return int(result[0]) if result else 0

    def rows(
        self, project: str, wanted: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str, str]]:
        """Yield the source, key, id and line of each row, ordered by source and key.

        `wanted` contains pairs of a source and a key. Only rows after that key are returned. Call
        this within `snapshot`.
        """
        sources = []
        last_keys = []
        for source, last_key in wanted:
            sources.append(source)
            last_keys.append(last_key)
        call = "ralph_team.rows_of(%s, %s::bigint[], %s::bigint[])"
        sql = f"COPY (SELECT source, key, id, body FROM {call}) TO STDOUT"
        with (
            self._limit_time(),
            self.connection.cursor() as cursor,
            cursor.copy(sql, (project, sources, last_keys)) as copy,
        ):
            copy.set_types(["int8", "int8", "text", "text"])
            yield from copy.rows()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read everything within the block from one consistent snapshot."""
        with explained(self.url, self._purpose), self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.connection.execute(_LIMITS)
            with self._in_transaction():
                yield

    # --- for the administrator ------------------------------------------------------------------

    def migrate(self, last: int = VERSION) -> list[int]:
        """Run the schema files that the server lacks, and return their numbers.

        Either all of them take effect or none. Only one administrator migrates at a time. The lock
        on the owner's table does not conflict with what members do, since they only read it.
        """
        from psycopg.errors import LockNotAvailable

        milliseconds = round(MIGRATION_LOCK_SECONDS * 1000)
        migrated = []
        with explained(self.url, self._purpose):
            try:
                with self.connection.transaction(), self._in_transaction():
                    # Only waiting is limited: updating a large table may take longer.
                    self.connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
                    if self.version():
                        self.connection.execute(_LOCK_VERSION)
                    for number in range(self.version() + 1, last + 1):
                        self.connection.execute(_script(f"{number:04}"))
                        migrated.append(number)
            except LockNotAvailable as error:
                roles = [row[0] for row in self.connection.execute(_OPEN_TRANSACTIONS)]
                raise ServerError(
                    f"an open transaction of {', '.join(roles) or 'somebody'} uses the tables",
                    hint="run it again; pg_stat_activity shows the transaction, "
                    "and pg_terminate_backend ends it",
                ) from error
        return migrated

    def require_role(self, role: str) -> None:
        """Raise ServerError if the server has no such role."""
        with self._transaction():
            sql = "SELECT 1 FROM pg_roles WHERE rolname = %s"
            if self.connection.execute(sql, (role,)).fetchone() is None:
                raise ServerError(
                    f"the server has no role {role}",
                    hint=f'create it with `CREATE ROLE "{role}" LOGIN;` '
                    "and the authentication of your choice",
                )

    def add_member(self, project: str, role: str, *, may_write: bool = True) -> None:
        """Add a role to a project, creating the project if it does not exist."""
        self.call("add_member", project, role, may_write)

    def problems(self) -> list[str]:
        """Describe what is wrong with the schema: permissions, counts, or changed functions."""
        with self.snapshot():
            problems = [str(row[0]) for row in self.connection.execute(_script("check"))]
            found = self._functions()
        expected = _schema_functions()
        foreign: set[str] = set()
        seen: set[str] = set()
        for name, function in found:
            if name in seen or expected.get(name) != function:  # overloaded, or changed
                foreign.add(name)
            seen.add(name)
        problems += [f"the function {name} is not Ralph's" for name in sorted(foreign)]
        problems += [f"the function {name} is missing" for name in sorted(expected.keys() - seen)]
        return problems

    def _functions(self) -> list[tuple[str, _Function]]:
        """Return the name and definition of every function in the server's schema."""
        sql = (
            "SELECT proname, prosecdef, prosrc FROM pg_proc "
            "WHERE pronamespace = 'ralph_team'::regnamespace"
        )
        rows = self.connection.execute(sql).fetchall()
        return [(name, _Function(is_definer, body)) for name, is_definer, body in rows]


class _Function(NamedTuple):
    is_definer: bool  # whether it runs with the rights of its owner
    body: str


def _schema_functions() -> dict[str, _Function]:
    """Return the functions that all schema files together define, by name.

    A file first drops functions and then creates some of them again with other parameters.
    """
    functions: dict[str, _Function] = {}
    for number in range(1, VERSION + 1):
        script = _script(f"{number:04}").decode()
        for dropped in _DROPPED_FUNCTION.finditer(script):
            del functions[dropped["name"]]
        for match in _FUNCTION.finditer(script):
            functions[match["name"]] = _Function(bool(match["definer"]), match["body"])
    return functions


def _script(name: str) -> bytes:
    return resources.files("ralph.storage").joinpath(f"team/{name}.sql").read_bytes()


def _hang_up(descriptor: int, given_up: Event) -> None:
    given_up.set()  # before the shutdown, because the waiting call fails immediately after it
    with (
        suppress(OSError),
        socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection,
    ):
        connection.shutdown(socket.SHUT_RDWR)
