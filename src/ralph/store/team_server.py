"""The PostgreSQL server of a team: connections, its versioned schema, and a call for each of its functions.

Auth is libpq's: service file, .pgpass, certificates. The TLS certificate of a server elsewhere is verified.
Whatever psycopg raises becomes one line: server away, slow, full, restarted, of another version, not a member.
"""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.errors import RalphError, Refused, UsageError

if TYPE_CHECKING:
    import psycopg

VERSION = 1
"""Of the schema: the number of the last file in `store/team/`."""
_SECONDS = 120
_CONNECT = 10
_LONGEST_CONNECT = 60
PATIENCE = _SECONDS + 10.0
"""Seconds until a statement is given up here, where the server did not do that itself."""
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_STRICT = "verify-full"
_MIGRATE = "its administrator runs `ralph team migrate URL`"
_KEEP = {
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_FUNCTION = re.compile(
    r"^CREATE FUNCTION (\w+)\((?:(?!\$\$).)*?(SECURITY DEFINER[^$]*?)?AS \$\$(.*?)\$\$;",
    re.DOTALL | re.MULTILINE,
)


class ServerError(RalphError):
    """The team's server did not do what it was asked to."""


class SourceRefused(ServerError):
    """The server does not take one source; others it may."""


class ServerSource(NamedTuple):
    """A source as the server has it: one file of one machine."""

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


LARGEST = 1 << 20
"""Bytes of a row that is shared; its terms may have twice that."""


class PushedRow(NamedTuple):
    """A row that is pushed: family (3: a session), id, place in its session, line of the log format, and its terms."""

    family: int
    id: str
    session: str
    seq: int
    body: str
    columns: str = ""
    terms: str = ""
    length: int = 0


def check_url(url: str) -> dict[str, Any]:
    """Return the parameters of a URL; UsageError for one with a password, Refused for one without TLS elsewhere."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(url)
    except Error as error:
        hint = "such as postgresql://ann@db.example.com/ralph, or service=ralph"
        raise UsageError(f"this is no PostgreSQL URL: {_first_line(error)}", hint=hint) from error
    if secret := next((name for name in _SECRET if given.get(name)), ""):
        hint = "put it into ~/.pgpass or a service file, as for psql; Ralph stores no password"
        raise UsageError(f"the URL has a password ({secret})", hint=hint)
    used = _with_defaults(given)
    addresses = [each for name in ("host", "hostaddr") for each in used.get(name, "").split(",")]
    is_local = all(host in ("", *_LOOPBACK) or host.startswith(("/", "@")) for host in addresses)
    if not is_local or (used.get("service") and not any(addresses)):
        mode = given.get("sslmode")
        if mode not in (None, _STRICT):
            what = f"sslmode={mode} does not check which server it is"
            raise Refused(
                what, hint=f"use sslmode={_STRICT}; only a server on this machine may do without"
            )
        own_root = Path("~/.postgresql/root.crt").expanduser()  # where libpq looks for it
        if not (used.get("sslrootcert") or own_root.exists()):
            given["sslrootcert"] = "system"
        given["sslmode"] = _STRICT
    return given


def _with_defaults(given: dict[str, Any]) -> dict[str, str]:
    """Return the parameters that libpq will use: those of a service and of the environment count as well."""
    from psycopg import pq

    before = os.environ.get("PGSERVICE")
    try:
        if given.get(
            "service"
        ):  # libpq reads the service for its defaults only where the environment names it
            os.environ["PGSERVICE"] = str(given["service"])
        defaults = {
            each.keyword.decode(): each.val.decode()
            for each in pq.Conninfo.get_defaults()
            if each.val
        }
    finally:
        os.environ.pop("PGSERVICE", None)
        if before is not None:
            os.environ["PGSERVICE"] = before
    return {**defaults, **{name: str(value) for name, value in given.items()}}


def shown_url(url: str) -> str:
    """Return a URL for messages; it has no password, but an earlier version of a file may."""
    return re.sub(
        r"(://[^:/@]*):[^@]*@", r"\1:***@", re.sub(rf"({'|'.join(_SECRET)})=\S+", r"\1=***", url)
    )


@contextmanager
def connect(url: str, *, any_version: bool = False) -> Iterator[TeamServer]:
    """Connect to a server whose schema is of this version, unless `any_version`; ServerError when that fails."""
    import psycopg

    with _explained(url):
        options = f"-c statement_timeout={_SECONDS * 1000} -c idle_in_transaction_session_timeout={_SECONDS * 1000}"
        given = {"application_name": "ralph", **_KEEP, **check_url(url)}
        seconds = str(given.get("connect_timeout", ""))
        given["connect_timeout"] = (
            min(int(seconds) if seconds.isdecimal() else 0, _LONGEST_CONNECT) or _CONNECT
        )
        given["options"] = f"{given.get('options', '')} {options}".strip()
        with psycopg.connect(**given, autocommit=True) as connection:
            connection.prepare_threshold = None  # poolers such as PgBouncer
            server = TeamServer(connection, url)
            number = VERSION if any_version else server.version()
            if number != VERSION:
                age, todo = ("newer", "update Ralph") if number > VERSION else ("older", _MIGRATE)
                what = f"the server's schema is {age} ({number}) than this Ralph's ({VERSION})"
                raise ServerError(
                    what if number else "the server has no tables of Ralph's", hint=todo
                )
            yield server


class TeamServer:
    """A connection to the team's server."""

    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self.connection = connection
        self.url = url

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Explain errors, and hang up on a server that stays silent though the connection is open."""
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
        """Call a function of the schema."""
        marks = ", ".join(["%s"] * len(values))
        with self._asking():
            return self.connection.execute(
                f"SELECT * FROM ralph_team.{name}({marks})", values
            ).fetchall()

    def version(self) -> int:
        """Return the version of the server's schema; 0 without one."""
        with self._asking():
            sql = "SELECT to_regproc('ralph_team.schema_version') IS NOT NULL"
            exists = (self.connection.execute(sql).fetchone() or (False,))[0]
        return int(self.call("schema_version")[0][0]) if exists else 0

    def sources(self, project: str) -> list[ServerSource]:
        """Return every source of a project."""
        rows = (ServerSource(*row) for row in self.call("sources_of", project))
        return [row._replace(generation=str(row.generation)) for row in rows]

    def push(
        self,
        project: str,
        machine: str,
        source: Sequence[object],
        before: str | None,
        rows: Sequence[PushedRow],
    ) -> int:
        """Store rows of a source (`SharedRows.describe`) behind those with the digest `before`, or instead of all."""
        columns = (
            [list(column) for column in zip(*rows, strict=True)]
            if rows
            else [[] for _ in PushedRow._fields]
        )
        types = ("smallint", "text", "text", "int", "text", "text", "text", "int")
        arrays = ", ".join(f"%b::{name}[]" for name in types)
        marks = ", ".join(["%s"] * (3 + len(source)))
        with self._asking():
            sql = f"SELECT ralph_team.push({marks}, {arrays})"
            row = self.connection.execute(
                sql, (project, machine, *source, before, *columns)
            ).fetchone()
        return int(row[0]) if row else 0

    def rows(
        self, project: str, wanted: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str, str]]:
        """Yield source, key, id and line of the rows of some sources behind a key each, by source and key."""
        pairs = list(wanted)
        values = (project, [source for source, _ in pairs], [after for _, after in pairs])
        with self._asking(), self.connection.cursor() as cursor:
            called = "ralph_team.rows_of(%s, %s::bigint[], %s::bigint[])"
            with cursor.copy(
                f"COPY (SELECT source, key, id, body FROM {called}) TO STDOUT", values
            ) as copy:
                copy.set_types(["int8", "int8", "text", "text"])
                yield from copy.rows()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let everything that is read within be of one moment."""
        with _explained(self.url), self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    # --- for the administrator -------------------------------------------------------------------

    def migrate(self) -> list[int]:
        """Run the schema files that the server does not have yet, all or none; return their numbers."""
        made = []
        with _explained(self.url), self.connection.transaction():
            self.connection.execute("SELECT pg_advisory_xact_lock(hashtext('ralph team migrate'))")
            for number in range(self.version() + 1, VERSION + 1):
                self.connection.execute(_script(f"{number:04}"))
                made.append(number)
        return made

    def add_member(self, project: str, role: str, *, may_write: bool = True) -> None:
        """Add a role to a project, which is made if there is none."""
        with _explained(self.url):
            sql = "SELECT 1 FROM pg_roles WHERE rolname = %s"
            if self.connection.execute(sql, (role,)).fetchone() is None:
                hint = f'CREATE ROLE "{role}" LOGIN; makes it, with the auth of your choice'
                raise ServerError(f"the server has no role {role}", hint=hint)
            self.call("add_member", project, role, may_write)

    def problems(self) -> list[str]:
        """Return what is wrong with the schema: rights, functions that are not those of its files, wrong counts."""
        sql = "SELECT proname, prosecdef, prosrc FROM pg_proc WHERE pronamespace = 'ralph_team'::regnamespace"
        with _explained(self.url):
            problems = [str(row[0]) for row in self.connection.execute(_script("check"))]
            found: list[tuple[str, bool, str]] = self.connection.execute(sql).fetchall()
        ours = {
            match[1]: (bool(match[2]), match[3])
            for match in _FUNCTION.finditer(_script(f"{VERSION:04}").decode())
        }
        kinds = {name for name, is_definer, text in found if ours.get(name) != (is_definer, text)}
        kinds |= {name for name, number in Counter(row[0] for row in found).items() if number > 1}
        problems += [f"the function {name} is not Ralph's" for name in sorted(kinds)]
        return problems + [
            f"the function {name} is missing"
            for name in sorted(ours.keys() - {row[0] for row in found})
        ]


def _hang_up(number: int, given_up: Event) -> None:
    given_up.set()
    with suppress(OSError), socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _script(name: str) -> bytes:
    return resources.files("ralph.store").joinpath(f"team/{name}.sql").read_bytes()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


_KEPT = "nothing is lost: what was pushed before is there, the rest goes with the next push"
_MEANINGS = {
    "InsufficientPrivilege": (
        "the server refused: {}",
        "its administrator adds members: `ralph team migrate URL --project NAME --member ROLE`",
    ),
    "UniqueViolation": (
        "the server refused: {}",
        "a machine is its first member's; the administrator deletes it from ralph_team.machines and .sources otherwise",
    ),
    "CheckViolation": (
        "the server refused: {}",
        "update Ralph; `ralph team push --dry-run` shows the rows",
    ),
    "LockNotAvailable": ("somebody else is pushing to this project", f"run it again; {_KEPT}"),
    "DiskFull": ("the server's disk is full", _KEPT),
    "QueryCanceled": (f"the server took longer than {_SECONDS} seconds", _KEPT),
    "ReadOnlySqlTransaction": (
        "this server is a read-only replica",
        "team.url must be the primary server",
    ),
    "SerializationFailure": ("{}", "run it again"),
    "DeadlockDetected": ("{}", "run it again"),
    **dict.fromkeys(
        ("UndefinedFunction", "InvalidSchemaName", "UndefinedTable"),
        (
            "the server's schema is not as it should be",
            "its administrator runs `ralph team check URL`",
        ),
    ),
    "Refusal": (
        "the team's server refused the connection ({url}): {}",
        f"see the address; passwords are libpq's: ~/.pgpass or a service file; {_KEPT}",
    ),
    "OperationalError": (
        "the team's server does not answer ({url}): {}",
        f"is the address right? {_KEPT}",
    ),
    "Error": ("the server answered: {}", _KEPT),
}
"""Errors of psycopg, the narrower first: what they mean for the user, and what to do."""


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn psycopg's errors into one line and what to do."""
    from psycopg import DataError, Error, IntegrityError

    try:
        yield
    except Error as error:
        names = [each.__name__ for each in type(error).__mro__]
        if names[0] == "OperationalError" and (
            "FATAL:" in str(error) or "no password" in str(error)
        ):
            names[0] = "Refusal"  # by a server that did answer
        what, hint = next(_MEANINGS[name] for name in names if name in _MEANINGS)
        kind = SourceRefused if isinstance(error, IntegrityError | DataError) else ServerError
        raise kind(what.format(_first_line(error), url=shown_url(url)), hint=hint) from error
