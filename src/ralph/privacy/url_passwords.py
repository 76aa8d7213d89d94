"""Find passwords in logins: `https://user:password@host` and `user@host.com:password`.

In a database URL, the password may contain characters that other URLs must encode, and the secret
is reported as a connection string. A long random user name without a password
(`https://token@host`) is a token.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING
from ralph.privacy import passwords
from ralph.privacy.secret_phrases import is_strong_and_random

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.privacy.secret_values import Span

_DATABASE_SCHEMES = (
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "redis",
    "amqp",
    "mssql",
    "sqlserver",
    "oracle",
    "cockroach",
    "clickhouse",
    "cassandra",
    "neo4j",
    "nats",
    "ldap",
    "kafka",
    "rediss",
    "couchbase",
    "snowflake",
    "asyncpg",
    "psycopg",
    "pymysql",
    "srv",
    "libsql",
    "amqps",
    "bolt",
    "db2",
    "ldaps",
)
"""Endings of database URL schemes, such as `mysql` in `jdbc:mysql://`."""

_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>[^\s/\"'`<>?#\\]{1,256})@(?=[\w\[$({%.-])"
)
_RAW_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):"
    r"(?P<password>(?!\d{2,5}(?:/|\Z))[^\s\"'`<>@\\]{1,128})@(?=[\w.-]+[:/])"
)
"""A login in a database URL, in which more characters are allowed than in other URLs."""
_USER_LOGIN = r"://(?P<user>[A-Za-z0-9_-]{20,255})@(?![\w.-]{0,60}sentry)(?=[\w.-]+[:/])"
_MAIL_LOGIN = (
    r"@[\w-]{1,40}(?:\.[\w-]{2,20}){1,3}:(?P<password>[^\s/:,;\"'`<>]{6,64})(?=[\s,;\"'`<>)]|\Z)"
)
_MAX_SCHEME_LENGTH = 12


def url_passwords(text: str) -> Iterator[Span]:
    """Yield the passwords, and the tokens used as user names, of logins."""
    if "@" not in text:
        return
    position = text.find("://")
    while position >= 0:
        scheme = text[max(0, position - _MAX_SCHEME_LENGTH) : position].lower()
        is_database = scheme.endswith(_DATABASE_SCHEMES)
        login = re.compile(_LOGIN).match(text, position)
        if login is None and is_database:
            login = re.compile(_RAW_LOGIN).match(text, position)
        if login:
            yield from _login_password(login, is_database=is_database)
            position = text.find("://", login.end())
        else:
            user = re.compile(_USER_LOGIN).match(text, position)
            if user and is_strong_and_random(user["user"]):
                yield user.start("user"), user.end("user"), "url password"
            position = text.find("://", position + len("://"))
    for login in re.finditer(_MAIL_LOGIN, text):
        if passwords.is_password(login["password"], passwords.LITERAL):
            yield login.start("password"), login.end("password"), "password"


def _login_password(login: re.Match[str], *, is_database: bool) -> Iterator[Span]:
    if login["password"].startswith("x-oauth"):
        yield login.start("user"), login.end("user"), "url password"
    elif passwords.is_login_password(login["user"], login["password"]):
        kind = "connection string" if is_database else "url password"
        yield login.start("password"), login.end("password"), kind
