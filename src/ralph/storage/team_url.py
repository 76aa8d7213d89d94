"""Turn the URL of a team's server into connection parameters for libpq.

Authentication is left to libpq, with its service files, .pgpass and certificates. A URL must not
contain a password, and the TLS certificate of a remote server is always verified.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralph.core.errors import Refused, UsageError
from ralph.storage.team_errors import PASSWORD_FILE, SECRET_PARAMETERS, first_line
from ralph.storage.team_tls import system_authorities

_URL_HINT = "such as postgresql://ann@db.example.com/ralph, or service=ralph"
_CONNECT_SECONDS = 10
_MAX_CONNECT_SECONDS = 60  # for a `connect_timeout` in the URL
_KEEPALIVE = {
    "keepalives_idle": 20,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
_PASSWORD = re.compile(
    r":(?!//)[^@]*@"  # user:password@host
    r"|//[^/?]*:(?!\d*(?:[/?,]|$))"  # user:password without a host
    r"|password",
    re.IGNORECASE,
)
"""What may be a password in a malformed URL."""
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")
_STRICT_SSLMODE = "verify-full"
_SYSTEM_AUTHORITIES = "system"  # libpq's name for the authorities that the system trusts


def check_url(url: str) -> dict[str, Any]:
    """Return the connection parameters for a URL.

    For a remote server, they require verified TLS. Raises UsageError if the URL is malformed or
    contains a password, and Refused if it turns verification off for a remote server.
    """
    given = _parse_url(url)
    for name in SECRET_PARAMETERS:
        if given.get(name):
            raise UsageError(
                f"the URL has a password ({name})",
                hint=f"put it in {PASSWORD_FILE} or a service file, as for psql; "
                "Ralph does not store passwords",
            )
    used = effective_parameters(given)
    if _is_local(used):
        return given
    mode = given.get("sslmode")
    if mode not in (None, _STRICT_SSLMODE):
        raise Refused(
            f"sslmode={mode} does not check the identity of the server",
            hint=f"use sslmode={_STRICT_SSLMODE}; only a server on this machine may go without",
        )
    given["sslmode"] = _STRICT_SSLMODE
    given["sslrootcert"] = _authorities(used)
    return given


def _authorities(used: Mapping[str, str]) -> str:
    """Return the file with the certificate authorities that may vouch for the server."""
    chosen = used.get("sslrootcert", "")
    if chosen and chosen != _SYSTEM_AUTHORITIES:
        return chosen
    users_authorities = users_authorities_file(os.environ)
    if not chosen and users_authorities.exists():
        return str(users_authorities)
    return system_authorities()


def users_authorities_file(env: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file in which libpq looks for the user's certificate authorities."""
    if platform == "win32":
        return Path(env.get("APPDATA") or "", "postgresql", "root.crt")
    return Path("~/.postgresql/root.crt").expanduser()


def _parse_url(url: str) -> dict[str, Any]:
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    if not url.strip():  # libpq would connect to its default server
        raise UsageError("the URL of the server is empty", hint=_URL_HINT)
    try:
        return conninfo_to_dict(url)
    except Error as error:
        message = "this is not a PostgreSQL URL"
        if not _PASSWORD.search(url):  # libpq's message quotes a part of the URL
            message += f": {first_line(error)}"
        raise UsageError(message, hint=_URL_HINT) from error


def _is_local(used: Mapping[str, str]) -> bool:
    """Return whether every address is on this machine.

    A service without an address may be anywhere, so it does not count as local.
    """
    hosts = [*used.get("host", "").split(","), *used.get("hostaddr", "").split(",")]
    if used.get("service") and not any(hosts):
        return False
    return all(host in _LOCAL_HOSTS or host.startswith(("/", "@")) for host in hosts)


def effective_parameters(given: Mapping[str, Any]) -> dict[str, str]:
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


def connection_parameters(url: str) -> dict[str, Any]:
    """Return everything that psycopg needs to connect, including a time limit for that.

    Ralph sends no settings of its own (`options`), which PgBouncer would refuse. Raises UsageError
    and Refused as `check_url` does.
    """
    parameters = {"application_name": "ralph", **_KEEPALIVE, **check_url(url)}
    parameters["connect_timeout"] = _connect_seconds(parameters)
    return parameters


def _connect_seconds(parameters: Mapping[str, Any]) -> int:
    """Return the time limit for connecting: the URL's, up to a maximum, or the default."""
    text = str(parameters.get("connect_timeout", ""))
    seconds = int(text) if text.isdecimal() else 0
    if seconds == 0:
        return _CONNECT_SECONDS
    return min(seconds, _MAX_CONNECT_SECONDS)
