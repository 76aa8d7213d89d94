"""The token of a server at an address: of this start alone, or one that stays, so that a client's entry stays true.

One that stays comes from a variable or from a file, never from the command line, which every user of a machine can
read. A file is made when it is missing, for its owner alone, and refused when anybody else may read or write it:
whoever has the token reads and writes the memory. It is judged by the descriptor that it is read from, so that what
was looked at is what is used. A token that could be guessed is refused. Proof: `tests/mcp_server/test_token.py`.
"""

import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import Refused, Unreadable, UsageError
from ralph.store import files

VARIABLE = "RALPH_MCP_TOKEN"
SHORTEST, LONGEST = 32, 512
_MADE = 32
"""Random bytes of a token that we make."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""What may stand after `Bearer` (RFC 6750)."""
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and where its user finds it; "" for one that has to be told."""

    value: str
    where: str = ""


def chosen(env: Mapping[str, str], path: Path | None) -> Token:
    """The token of the file, else of the variable, else a new one."""
    if path is not None:
        return Token(_of_file(path), str(path))
    if VARIABLE in env:
        return Token(_checked(env[VARIABLE].strip(), f"${VARIABLE}"), f"${VARIABLE}")
    return Token(_made())


def _made() -> str:
    return secrets.token_urlsafe(_MADE)


def _checked(value: str, where: str) -> str:
    """A token that can be sent and not be guessed; what it reads is never told."""
    if not value:
        raise UsageError(f"{where} holds no token", hint="put one there, or leave it out: one is made at each start")
    if not _TOKEN.fullmatch(value):
        hint = "letters, digits and . _ ~ + / - = can be sent, on one line"
        raise UsageError(f"{where} holds what is no token", hint=hint)
    if not SHORTEST <= len(value) <= LONGEST:
        hint = f"it has {SHORTEST} to {LONGEST} characters; `openssl rand -hex 32` prints a good one"
        raise UsageError(f"{where} holds a token of {len(value)} characters", hint=hint)
    return value


def _of_file(path: Path) -> str:
    text = _read(path)
    if text is None:
        files.make_folder(path.parent, 0o700)
        files.update(path, lambda there: there or f"{_made()}\n", mode=files.PRIVATE)  # two servers may start at once
        text = _read(path)
    return _checked((text or "").strip(), str(path))


def _read(path: Path) -> str | None:
    """What the file holds; None when there is none, Refused when it is not its owner's alone."""
    try:
        _judge(path, path.stat())  # before it is opened: a pipe would wait for somebody
        with path.open("rb") as file:
            _judge(path, os.fstat(file.fileno()))
            return file.read(LONGEST * 2).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="name a file of your own") from error


def _judge(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path}: is no regular file", hint="name another one")
    if os.name != "posix":
        return
    if status.st_mode & _OTHERS:
        hint = f"make a new one: remove it and start again; or, if nobody has read it: chmod 600 {path}"
        raise Refused(f"{path}: others can read or write it (mode {stat.S_IMODE(status.st_mode):04o})", hint=hint)
    if status.st_uid not in (os.geteuid(), 0):
        raise Refused(f"{path}: belongs to somebody else", hint="name a file of your own")
