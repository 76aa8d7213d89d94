"""Explain the errors of a team's server in the user's terms.

Every psycopg error becomes a ServerError with one line and a hint, for example if the server does
not answer, is slow or full, was restarted or has another version, or if the user is not a member.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ralph.core.errors import RalphError

if TYPE_CHECKING:
    from ralph.core.errors import Clauses

STATEMENT_SECONDS = 120
SECRET_PARAMETERS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)


PASSWORD_FILE = r"%APPDATA%\postgresql\pgpass.conf" if sys.platform == "win32" else "~/.pgpass"
"""The file from which libpq reads passwords."""


class ServerError(RalphError):
    """The team's server did not do what it was asked to do."""


class SourceRefused(ServerError):
    """The server refused one source. It may still accept others."""


def shown_url(url: str) -> str:
    """Return a URL for use in messages, with any password hidden.

    Ralph accepts no password, but a file written by an earlier version may contain one.
    """
    hidden = re.sub(rf"({'|'.join(SECRET_PARAMETERS)})=\S+", r"\1=***", url)
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", hidden)


class Purpose(Enum):
    """What a command needs the server for.

    The value says what an error means for the command. It ends the hint of errors that can happen
    to any command, such as a lost connection.
    """

    PUSH = "nothing is lost: the next push sends what is missing"
    PULL = "nothing is lost: the next pull fetches what is missing"
    JOIN = "the project's settings are unchanged"
    LEAVE = "`ralph team leave` without --delete-mine needs no server"
    FORGET = "the server may still have the record"
    SEARCH = "a search without the team needs no server"
    ADMIN = "the command can be repeated safely"


class _Explanation(NamedTuple):
    """An error in the user's terms.

    In the message, `{}` stands for psycopg's message and `{url}` for the server's address.
    """

    message: str
    hint: str = ""
    can_happen_to_all: bool = False  # the hint then ends with what it means for the command


_BROKEN_SCHEMA = _Explanation(
    "the server's schema is incomplete", "its administrator runs `ralph team admin URL --check`"
)
_EXPLANATIONS = {
    "InsufficientPrivilege": _Explanation(
        "the server refused: {}",
        "its administrator adds members: `ralph team admin URL --project NAME --member ROLE`",
    ),
    "Reader": _Explanation(
        "the server refused: {}",
        "`ralph team sync --pull-only` fetches what the others share; to let you write, its "
        "administrator runs `ralph team admin URL --project NAME --member ROLE`",
    ),
    "NotOwner": _Explanation(
        "the server refused: {}",
        "only the role that owns Ralph's tables, or the database, may do this",
    ),
    "UniqueViolation": _Explanation(
        "the server refused: {}",
        "a machine belongs to the first member that used it; to change that, the administrator "
        "deletes it from ralph_team.machines and ralph_team.sources",
    ),
    "CheckViolation": _Explanation(
        "the server refused: {}", "update Ralph; `ralph team sync --dry-run` shows the rows"
    ),
    "LockNotAvailable": _Explanation(
        "somebody else is pushing to this project", "run it again", can_happen_to_all=True
    ),
    "DiskFull": _Explanation("the server's disk is full", can_happen_to_all=True),
    "QueryCanceled": _Explanation(
        f"the server took longer than {STATEMENT_SECONDS} seconds", can_happen_to_all=True
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
        "check the address and the password, which libpq reads from "
        f"{PASSWORD_FILE} or a service file",
        can_happen_to_all=True,
    ),
    "StartupParameter": _Explanation(
        "the team's server refused a setting ({url}): {}",
        "remove `options` from the URL, the service file and PGOPTIONS: PgBouncer accepts none",
    ),
    "NoFreeConnection": _Explanation(
        "the team's server has no free connection ({url}): {}",
        "run it again",
        can_happen_to_all=True,
    ),
    "OperationalError": _Explanation(
        "the team's server does not answer ({url}): {}",
        "check the address",
        can_happen_to_all=True,
    ),
    "Error": _Explanation("the server answered: {}", can_happen_to_all=True),
}
"""Explanations by the class names of psycopg, and by names for classes that it does not have."""

_REFUSALS = {
    "unsupported startup parameter": "StartupParameter",
    "no more connections allowed": "NoFreeConnection",
    "too many clients": "NoFreeConnection",
    "too many connections": "NoFreeConnection",
    "remaining connection slots": "NoFreeConnection",
    "FATAL:": "Refusal",
    "no password": "Refusal",
}
"""Parts of messages with which PostgreSQL or PgBouncer refuses a connection, by explanation."""


_DENIALS = {"may not write to this project": "Reader", "permission denied for": "NotOwner"}
"""Parts of messages with which a server denies a right, by explanation."""


@contextmanager
def explained(url: str, purpose: Purpose | None = None) -> Iterator[None]:
    """Turn psycopg's errors into ServerError or SourceRefused, with one line and a hint."""
    from psycopg import DataError, Error, IntegrityError

    try:
        yield
    except Error as error:
        explanation = _explanation_of(error)
        message = explanation.message.format(first_line(error), url=shown_url(url))
        hint = _hint_of(explanation, purpose)
        if isinstance(error, IntegrityError | DataError):
            raise SourceRefused(message, hint=hint) from error
        raise ServerError(message, hint=hint) from error


def _hint_of(explanation: _Explanation, purpose: Purpose | None) -> Clauses:
    """Return the clauses of an explanation's hint for a command with this purpose."""
    clauses = [explanation.hint]
    if explanation.can_happen_to_all and purpose is not None:
        clauses.append(purpose.value)
    return tuple(clause for clause in clauses if clause)


def _explanation_of(error: Exception) -> _Explanation:
    """Return the explanation for an error's class, or for the nearest class it inherits from."""
    names = [base.__name__ for base in type(error).__mro__]
    fragments = {"OperationalError": _REFUSALS, "InsufficientPrivilege": _DENIALS}
    for fragment, name in fragments.get(names[0], {}).items():
        if fragment in str(error):
            return _EXPLANATIONS[name]
    for name in names:
        if name in _EXPLANATIONS:
            return _EXPLANATIONS[name]
    return _EXPLANATIONS["Error"]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
