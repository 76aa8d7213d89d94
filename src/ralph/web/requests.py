"""How a request becomes one call of a verb, and what it gives becomes JSON.

A handler is a plain function from `Asked` to something that JSON can hold; `route` runs it in a thread, since the
core is synchronous, and puts every error into the command's own words, with a hint that fits a page (`wording.py`).
Nothing else in the web part catches errors or knows of status codes. A disk or a file that says no is no fault of the
server: it has a code of its own, and says that nothing was changed (`tests/web/test_disk.py`). The config is read again
when one of its files changes, since people edit it while the pages are open; the index is waited for, so that an answer
knows every change that was made before its question (`tests/web/test_fresh.py`). Lists are paged here, once.
`tests/web/test_site.py` and `test_guard.py` prove the rest.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralph import __version__
from ralph.app import index
from ralph.config import load, sources, trust_file
from ralph.errors import Conflict, NotFound, RalphError, Refused, Unreadable, UsageError, WriteFailed
from ralph.settings import Config
from ralph.store.db import Busy

# NOTE: What an error's hint says to somebody who has a page before them, and not a command line.

_OPTIONS = (("--allow-secret", "allow_secret"), ("--force", "force"))
"""What a person may insist on: the command's option, and the member of a request that means the same."""

_CLAUSES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"--allow-secret", "or say here that it may be kept"),
        (r"--force", "or say here that you want it anyway, or say it in other words"),
        (r"--text", "say it in a sentence or two, in the field for other words"),
        (r"--to design|--file", "choose a design page and name it in its field"),
        (r"--all-tasks", "look for it in Memory, which shows everything"),
        (r"`ralph search --layer", "read it on its page"),
        (r"`ralph (search|memory list|guardrails list|knowledge list|memory show)\b", "look for it in Memory"),
        (r"`ralph task (list|show)\b", "look for it in Tasks"),
        (r"`ralph session (list|show)\b", "look for it in Sessions"),
        (r"`ralph loop (list|show|status)\b", "look for it in Runs"),
        (r"`ralph review( --status all| show)\b", "look for it in Insights"),
        (r"`ralph loop journal\b", "look for it in Runs"),
        (r"`ralph graph show\b", "look for it in the graph"),
    )
)
_AGAIN = re.compile(r"\brun (?:the command |it )?again\b")


def web_message(said: str) -> str:
    """An error's sentence in the words of a page; one that begins with an option is about something else there."""
    return _web_clause(said) if said.startswith("--") else said


def web_hint(said: str) -> str:
    """A command's hint in the words of a page."""
    clauses = [_web_clause(each) for each in said.split("; ")]
    told = "; ".join(dict.fromkeys(filter(None, clauses)))
    return _AGAIN.sub("try again", told.removeprefix("or "))


def override_option(said: str) -> str:
    """The member of a request that does it all the same, if the hint names such an option; else nothing."""
    return next((member for option, member in _OPTIONS if option in said), "")


def _web_clause(said: str) -> str:
    return next((words for pattern, words in _CLAUSES if pattern.search(said)), said)


T = TypeVar("T")
PAGE_SIZE = 100
MAX_PAGE_SIZE = 500

_STATUS: tuple[tuple[type[RalphError], int], ...] = (
    (UsageError, 400),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 400),
    (Unreadable, 422),
    (Busy, 423),
    (RalphError, 500),
)
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}


class Settings:
    """The effective config of a project, read again when one of its files is another one."""

    def __init__(self, root: Path, env: Mapping[str, str] = os.environ) -> None:
        self._root = root
        self._env = env
        self._known: tuple[object, Config] | None = None

    def config(self) -> Config:
        """The config as the files say it now; its warnings are for the command line."""
        stamp = [_stamp(path) for _, path in sources(self._root, self._env)]
        stamp += [_stamp(path) for path in (trust_file(self._env),) if path is not None]
        if self._known is None or self._known[0] != stamp:
            self._known = (stamp, load(self._root, env=self._env).config)
        return self._known[1]


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request, as a handler sees it: the project, its config, and the words of the request."""

    root: Path
    config: Config
    params: QueryParams
    path: Mapping[str, str]
    body: Mapping[str, object]
    request: Request

    def word(self, name: str, default: str = "") -> str:
        """A parameter of the address, trimmed."""
        return self.params.get(name, default).strip()

    def words(self, name: str) -> tuple[str, ...]:
        """Every value of a parameter that may be given several times; empty ones mean nothing."""
        return tuple(dict.fromkeys(value for value in self.params.getlist(name) if value))

    def number(self, name: str, default: int, *, most: int | None = None) -> int:
        """A parameter that is a number, not below zero."""
        said = self.word(name)
        if not said:
            return default
        if not (said.isascii() and said.isdigit() and len(said) < 10):
            raise UsageError(f"{name} is {said[:40]!r}, which is no number", hint=f"for example {name}={default}")
        return int(said) if most is None else min(int(said), most)

    @property
    def limit(self) -> int:
        """How many items of a list are wanted."""
        return self.number("limit", PAGE_SIZE, most=MAX_PAGE_SIZE)

    @property
    def offset(self) -> int:
        """How many items of a list come before those that are wanted."""
        return self.number("offset", 0)

    def text(self, name: str, default: str = "") -> str:
        """A text in the body; UsageError when it is something else."""
        value = self.body.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a text", hint="reload the page and try again")
        return value


class Handler(Protocol):
    """What answers a request."""

    def __call__(self, asked: ApiRequest, /) -> object:
        """Something that JSON can hold."""


def route(path: str, handler: Handler, *, method: str = "GET") -> Route:
    """A route whose handler is a plain function, which runs in a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body() if method != "GET" else b""
            return await run_in_threadpool(partial(_respond, request, handler, body))
        except Exception as error:  # noqa: BLE001  (the adapter is where unknown errors end)
            return error_response(error)

    return Route(path, endpoint, methods=[method])


def _respond(request: Request, handler: Handler, body: bytes) -> Response:
    state = request.app.state
    if not state.root.is_dir():
        raise NotFound(
            f"{state.root.name}: the project's folder is gone", hint="end `ralph web` and start it where it is now"
        )
    settings: Settings = state.settings
    asked = ApiRequest(
        state.root, settings.config(), request.query_params, request.path_params, _parse_body(body), request
    )
    with suppress(RalphError, OSError):
        index.wait_until_current(state.root)
    return json_response(handler(asked))


def _parse_body(body: bytes) -> Mapping[str, object]:
    if not body:
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError("the body of the request is not JSON", hint="reload the page and try again") from error
    if not isinstance(value, dict):
        raise UsageError("the body of the request is no JSON object", hint="reload the page and try again")
    return value


def json_response(value: object, status: int = 200) -> Response:
    """A value as JSON; what UTF-8 cannot hold is shown as a question mark."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def error_response(error: Exception) -> Response:
    """An error as JSON, in the words that the command would have used."""
    if isinstance(error, WriteFailed):
        status, then = _describe_disk_error(error.__cause__)
        return message_response(status, error.message, f"Nothing was changed. {then}")
    if isinstance(error, RalphError):
        status = next(code for kind, code in _STATUS if isinstance(error, kind))
        return message_response(status, web_message(error.message), web_hint(error.hint), override_option(error.hint))
    if isinstance(error, OSError):
        status, then = _describe_disk_error(error)
        return message_response(
            status, f"{error.filename or 'input or output failed'}: {error.strerror or error}", then
        )
    hint = "please report it; what `ralph web` prints with RALPH_DEBUG=1 says where"
    if os.environ.get("RALPH_DEBUG"):
        import traceback  # noqa: PLC0415  (only on the way out)

        traceback.print_exception(error)
    return message_response(500, f"this is a bug in ralph {__version__}: {type(error).__name__}: {error}", hint)


def _describe_disk_error(cause: BaseException | None) -> tuple[int, str]:
    """The code for what a disk or a file refused, and what to do about it; without a cause somebody holds the lock."""
    if cause is None:
        return 423, "Another program is writing there; try again when it has ended."
    number = cause.errno if isinstance(cause, OSError) else errno.ENOSPC if "full" in str(cause) else errno.EACCES
    if number in _DISK_FULL:
        return 507, "The disk is full; free some space and try again."
    if number in _NO_PERMISSION:
        return 403, "Make the file and its folder writable, and try again."
    return 409, "Look at the file and its folder, and try again."


def message_response(status: int, message: str, hint: str = "", anyway: str = "") -> Response:
    """An error as JSON; `anyway` is the member of a request that does it all the same."""
    return json_response(
        {"error": {"message": message, "hint": hint, **({"anyway": anyway} if anyway else {})}}, status
    )


def page_json(items: Sequence[T], asked: ApiRequest, shape: Callable[[T], object]) -> dict[str, object]:
    """One page of a list, and how long the whole is."""
    offset = asked.offset
    return {"items": [shape(each) for each in items[offset : offset + asked.limit]], "total": len(items)}
