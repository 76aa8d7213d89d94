"""A team's PostgreSQL server: connections, its versioned schema, and calls to its functions.

Authentication is left to libpq, with its service files, .pgpass and certificates. The TLS
certificate of a remote server is verified. Every psycopg error is reported as one line with advice,
for example if the server does not answer, is slow or full, was restarted or has another version, or
if the user is not a member.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core.errors import RalphError, Refused, UsageError

if TYPE_CHECKING:
    import psycopg

VERSION = 1
"""The version of the schema: the number of the last file in `storage/team/`."""
LARGEST = 1 << 20
"""Maximum size of a shared row in bytes. Its terms may take up twice as much."""
_STATEMENT_SECONDS = 120
PATIENCE = _STATEMENT_SECONDS + 10.0
"""Seconds after which Ralph gives up on a statement that the server has not cancelled."""
_CONNECT_SECONDS = 10
_MAX_CONNECT_SECONDS = 60  # for a `connect_timeout` in the URL
_KEEPALIVE = {
    "keepalives_idle": 20,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
_SECRET_PARAMETERS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")
_STRICT_SSLMODE = "verify-full"
_MIGRATE_HINT = "its administrator runs `ralph team migrate URL`"
_FUNCTION = re.compile(
    r"^CREATE FUNCTION (?P<name>\w+)\((?:(?!\$\$).)*?(?P<definer>SECURITY DEFINER[^$]*?)?"
    r"AS \$\$(?P<body>.*?)\$\$;",
    re.DOTALL | re.MULTILINE,
)


class ServerError(RalphError):
    """The team's server did not do what it was asked to do."""


class SourceRefused(ServerError):
    """The server refused one source. It may still accept others."""


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


def check_url(url: str) -> dict[str, Any]:
    """Return the connection parameters for a URL.

    For a remote server, they require verified TLS. Raises UsageError if the URL is malformed or
    contains a password, and Refused if it turns verification off for a remote server.
    """
    given = _parse_url(url)
    for name in _SECRET_PARAMETERS:
        if given.get(name):
            raise UsageError(
                f"the URL has a password ({name})",
                hint="put it in ~/.pgpass or a service file, as for psql; "
                "Ralph does not store passwords",
            )
    used = _with_defaults(given)
    if _is_local(used):
        return given
    mode = given.get("sslmode")
    if mode not in (None, _STRICT_SSLMODE):
        raise Refused(
            f"sslmode={mode} does not check the identity of the server",
            hint=f"use sslmode={_STRICT_SSLMODE}; only a server on this machine may go without",
        )
    users_certificate = Path("~/.postgresql/root.crt").expanduser()  # where libpq looks for it
    if not used.get("sslrootcert") and not users_certificate.exists():
        given["sslrootcert"] = "system"
    given["sslmode"] = _STRICT_SSLMODE
    return given


def _parse_url(url: str) -> dict[str, Any]:
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        return conninfo_to_dict(url)
    except Error as error:
        raise UsageError(
            f"this is not a PostgreSQL URL: {_first_line(error)}",
            hint="such as postgresql://ann@db.example.com/ralph, or service=ralph",
        ) from error


def _is_local(used: Mapping[str, str]) -> bool:
    """Return whether every address is on this machine.

    A service without an address may be anywhere, so it does not count as local.
    """
    hosts = [*used.get("host", "").split(","), *used.get("hostaddr", "").split(",")]
    if used.get("service") and not any(hosts):
        return False
    return all(host in _LOCAL_HOSTS or host.startswith(("/", "@")) for host in hosts)


def _with_defaults(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that libpq will use.

    They include those from a service file and from the environment.
    """
    from psycopg import pq

    before = os.environ.get("PGSERVICE")
    try:
        # For its defaults, libpq reads a service only if the environment names it.
        if given.get("service"):
            os.environ["PGSERVICE"] = str(given["service"])
        defaults = pq.Conninfo.get_defaults()
    finally:
        os.environ.pop("PGSERVICE", None)
        if before is not None:
            os.environ["PGSERVICE"] = before
    used: dict[str, str] = {}
    for option in defaults:
        if option.val:
            used[option.keyword.decode()] = option.val.decode()
    for name, value in given.items():
        used[name] = str(value)
    return used


def shown_url(url: str) -> str:
    """Return a URL for use in messages, with any password hidden.

    Ralph accepts no password, but a file written by an earlier version may contain one.
    """
    hidden = re.sub(rf"({'|'.join(_SECRET_PARAMETERS)})=\S+", r"\1=***", url)
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", hidden)


@contextmanager
def connect(url: str, *, any_version: bool = False) -> Iterator[TeamServer]:
    """Connect to a server.

    Raises ServerError if that fails, or if the schema has another version and `any_version` is not
    set.
    """
    import psycopg

    with (
        _explained(url),
        psycopg.connect(**_connection_parameters(url), autocommit=True) as connection,
    ):
        connection.prepare_threshold = None  # for poolers such as PgBouncer
        server = TeamServer(connection, url)
        if not any_version:
            _require_version(server.version())
        yield server


def _connection_parameters(url: str) -> dict[str, Any]:
    parameters = {"application_name": "ralph", **_KEEPALIVE, **check_url(url)}
    parameters["connect_timeout"] = _connect_seconds(parameters)
    milliseconds = _STATEMENT_SECONDS * 1000
    timeouts = (
        f"-c statement_timeout={milliseconds} -c idle_in_transaction_session_timeout={milliseconds}"
    )
    parameters["options"] = f"{parameters.get('options', '')} {timeouts}".strip()
    return parameters


def _connect_seconds(parameters: Mapping[str, Any]) -> int:
    """Return the time limit for connecting: the URL's, up to a maximum, or the default."""
    text = str(parameters.get("connect_timeout", ""))
    seconds = int(text) if text.isdecimal() else 0
    if seconds == 0:
        return _CONNECT_SECONDS
    return min(seconds, _MAX_CONNECT_SECONDS)


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

    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self.connection = connection
        self.url = url

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Explain errors, and hang up if the server stays silent on an open connection."""
        from psycopg import OperationalError, errors

        given_up = Event()
        timer = Timer(PATIENCE, _hang_up, (self.connection.fileno(), given_up))
        timer.daemon = True
        timer.start()
        with _explained(self.url):
            try:
                yield
            except OperationalError as error:
                if given_up.is_set():
                    raise errors.QueryCanceled(str(error)) from error
                raise
            finally:
                timer.cancel()

    def call(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        """Call a function in the schema and return its rows."""
        marks = ", ".join(["%s"] * len(values))
        sql = f"SELECT * FROM ralph_team.{name}({marks})"
        with self._asking():
            return self.connection.execute(sql, values).fetchall()

    def version(self) -> int:
        """Return the version of the server's schema, or 0 if it has none."""
        with self._asking():
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
        with self._asking():
            result = self.connection.execute(sql, (*values, *columns)).fetchone()
        return int(result[0]) if result else 0

    def rows(
        self, project: str, wanted: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str, str]]:
        """Yield the source, key, id and line of each row, ordered by source and key.

        `wanted` contains pairs of a source and a key. Only rows after that key are returned.
        """
        sources = []
        last_keys = []
        for source, last_key in wanted:
            sources.append(source)
            last_keys.append(last_key)
        call = "ralph_team.rows_of(%s, %s::bigint[], %s::bigint[])"
        sql = f"COPY (SELECT source, key, id, body FROM {call}) TO STDOUT"
        with (
            self._asking(),
            self.connection.cursor() as cursor,
            cursor.copy(sql, (project, sources, last_keys)) as copy,
        ):
            copy.set_types(["int8", "int8", "text", "text"])
            yield from copy.rows()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read everything within the block from one consistent snapshot."""
        with _explained(self.url), self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    # --- for the administrator ------------------------------------------------------------------

    def migrate(self) -> list[int]:
        """Run the schema files that the server lacks, and return their numbers.

        Either all of them take effect or none.
        """
        migrated = []
        with _explained(self.url), self.connection.transaction():
            self.connection.execute("SELECT pg_advisory_xact_lock(hashtext('ralph team migrate'))")
            for number in range(self.version() + 1, VERSION + 1):
                self.connection.execute(_script(f"{number:04}"))
                migrated.append(number)
        return migrated

    def add_member(self, project: str, role: str, *, may_write: bool = True) -> None:
        """Add a role to a project, creating the project if it does not exist.

        Raises ServerError if the server has no such role.
        """
        with _explained(self.url):
            sql = "SELECT 1 FROM pg_roles WHERE rolname = %s"
            if self.connection.execute(sql, (role,)).fetchone() is None:
                raise ServerError(
                    f"the server has no role {role}",
                    hint=f'create it with `CREATE ROLE "{role}" LOGIN;` '
                    "and the authentication of your choice",
                )
            self.call("add_member", project, role, may_write)

    def problems(self) -> list[str]:
        """Return what is wrong with the schema: permissions, counts, and changed functions."""
        with _explained(self.url):
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
    """Return the functions defined in the last schema file, by name."""
    functions: dict[str, _Function] = {}
    for match in _FUNCTION.finditer(_script(f"{VERSION:04}").decode()):
        functions[match["name"]] = _Function(bool(match["definer"]), match["body"])
    return functions


def _script(name: str) -> bytes:
    return resources.files("ralph.storage").joinpath(f"team/{name}.sql").read_bytes()


def _hang_up(number: int, given_up: Event) -> None:
    given_up.set()
    with suppress(OSError), socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.shutdown(socket.SHUT_RDWR)


# --- errors -------------------------------------------------------------------------------------


class _Explanation(NamedTuple):
    """An error in the user's terms.

    In the message, `{}` stands for psycopg's message and `{url}` for the server's address.
    """

    message: str
    hint: str


_NOTHING_LOST = "nothing is lost: the next push sends what is missing"
_BROKEN_SCHEMA = _Explanation(
    "the server's schema is incomplete", "its administrator runs `ralph team check URL`"
)
_EXPLANATIONS = {
    "InsufficientPrivilege": _Explanation(
        "the server refused: {}",
        "its administrator adds members: `ralph team migrate URL --project NAME --member ROLE`",
    ),
    "UniqueViolation": _Explanation(
        "the server refused: {}",
        "a machine belongs to the first member that used it; to change that, the administrator "
        "deletes it from ralph_team.machines and ralph_team.sources",
    ),
    "CheckViolation": _Explanation(
        "the server refused: {}", "update Ralph; `ralph team push --dry-run` shows the rows"
    ),
    "LockNotAvailable": _Explanation(
        "somebody else is pushing to this project", f"run it again; {_NOTHING_LOST}"
    ),
    "DiskFull": _Explanation("the server's disk is full", _NOTHING_LOST),
    "QueryCanceled": _Explanation(
        f"the server took longer than {_STATEMENT_SECONDS} seconds", _NOTHING_LOST
    ),
    "ReadOnlySqlTransaction": _Explanation(
        "this server is a read-only replica", "set team.url to the primary server"
    ),
    "SerializationFailure": _Explanation("{}", "run it again"),
    "DeadlockDetected": _Explanation("{}", "run it again"),
    "UndefinedFunction": _BROKEN_SCHEMA,
    "InvalidSchemaName": _BROKEN_SCHEMA,
    "UndefinedTable": _BROKEN_SCHEMA,
    "Refusal": _Explanation(
        "the team's server refused the connection ({url}): {}",
        "check the address and the password, which libpq reads from ~/.pgpass or a service file; "
        f"{_NOTHING_LOST}",
    ),
    "OperationalError": _Explanation(
        "the team's server does not answer ({url}): {}", f"check the address; {_NOTHING_LOST}"
    ),
    "Error": _Explanation("the server answered: {}", _NOTHING_LOST),
}
"""Explanations of psycopg's errors by class name. `Refusal` is not a psycopg class."""


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn psycopg's errors into ServerError or SourceRefused, with one line and a hint."""
    from psycopg import DataError, Error, IntegrityError

    try:
        yield
    except Error as error:
        explanation = _explanation_of(error)
        message = explanation.message.format(_first_line(error), url=shown_url(url))
        if isinstance(error, IntegrityError | DataError):
            raise SourceRefused(message, hint=explanation.hint) from error
        raise ServerError(message, hint=explanation.hint) from error


def _explanation_of(error: Exception) -> _Explanation:
    """Return the explanation for an error's class, or for the nearest class it inherits from."""
    names = [base.__name__ for base in type(error).__mro__]
    if names[0] == "OperationalError" and _is_refusal(str(error)):
        return _EXPLANATIONS["Refusal"]
    for name in names:
        if name in _EXPLANATIONS:
            return _EXPLANATIONS[name]
    return _EXPLANATIONS["Error"]


def _is_refusal(message: str) -> bool:
    """Return whether a server answered but refused the connection."""
    return "FATAL:" in message or "no password" in message


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
