"""Turn each request into one handler call, and its result or error into JSON.

Only this module catches errors, knows status codes, and rewords hints for a page. Every request
waits for the index, so that the response includes all earlier changes.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams, State
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralph import __version__
from ralph.core.config import load
from ralph.core.errors import (
    Conflict,
    Hint,
    NotFound,
    RalphError,
    Refused,
    Unreadable,
    UsageError,
    WriteFailed,
)
from ralph.core.settings import Config
from ralph.search import index
from ralph.storage.db import Busy
from ralph.storage.pattern_limit import PatternLimit

if TYPE_CHECKING:
    from ralph.core.errors import Advice, Clauses

PAGE_SIZE = 100
MAX_PAGE_SIZE = 500
MAX_BODY = 1024 * 1024  # bytes in a request
RELOAD = "reload the page and try again"
MAX_SHOWN_CHARACTERS = 40  # of an invalid value quoted in a message
_MAX_DIGITS = 9  # in a number in an address
_OVERRIDES: Mapping[Advice, str] = {"allow-secret": "allow_secret", "force": "force"}
"""Advice to override a refusal, mapped to the request member that does so."""
_PAGE_WORDS: Mapping[Advice, str] = {
    "allow-secret": "or tick the box to store it anyway",
    "choose-knowledge": "add it as knowledge, or leave them out",
    "force": "or tick the box to do it anyway, or change the text",
    "shorten": "write it in one or two sentences in the field for the text",
    "encode": "pass it as UTF-8",
    "name-design-page": "choose a design page and name it in its field",
    "show-all-tasks": "search in Memory, which shows everything",
    "read-record": "read it on its page",
    "find-record": "search in Memory",
    "find-task": "search in Tasks",
    "find-session": "search in Sessions",
    "find-run": "search in Runs",
    "find-proposal": "search in Review",
    "find-edge": "search in the graph",
}
"""How a page words each kind of advice."""
_STATUS_CODES: tuple[tuple[type[RalphError], int], ...] = (
    (UsageError, 400),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 400),
    (Unreadable, 422),
    (Busy, 423),
)
"""The status code for each error class. Any other error gets 500."""


# --- requests -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request as a handler sees it. `state` lives as long as the server."""

    root: Path
    config: Config
    params: QueryParams
    path: Mapping[str, str]
    body: Mapping[str, object]
    state: State

    def word(self, name: str) -> str:
        """Return a query parameter, without surrounding whitespace."""
        return self.params.get(name, "").strip()

    def words(self, name: str) -> tuple[str, ...]:
        """Return all values of a repeated query parameter, without empty values and duplicates."""
        return tuple(dict.fromkeys(value for value in self.params.getlist(name) if value))

    def number(self, name: str, default: int, *, most: int | None = None) -> int:
        """Return a query parameter as a non-negative number, capped at `most`.

        Raises UsageError for anything else.
        """
        value = self.word(name)
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS):
            raise UsageError(
                f"{name} is {value[:MAX_SHOWN_CHARACTERS]!r}, which is not a number",
                hint=f"for example {name}={default}",
            )
        if most is None:
            return int(value)
        return min(int(value), most)

    @property
    def limit(self) -> int:
        """The number of items on a page."""
        return self.number("limit", PAGE_SIZE, most=MAX_PAGE_SIZE)

    @property
    def offset(self) -> int:
        """The number of items before the page."""
        return self.number("offset", 0)

    def page(self, items: Sequence[object]) -> Mapping[str, object]:
        """Return the requested page of a list, and the length of the list."""
        return {"items": items[self.offset : self.offset + self.limit], "total": len(items)}

    def rows(
        self, listing: Callable[..., tuple[Sequence[object], int]], **options: object
    ) -> Mapping[str, object]:
        """Return the requested page of the rows that a function lists."""
        items, total = listing(self.root, limit=self.limit, offset=self.offset, **options)
        return {"items": items, "total": total}

    def text(self, name: str, default: str = "") -> str:
        """Return a string from the body. Raises UsageError if the value is not a string."""
        value = self.body.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} must be text", hint=RELOAD)
        return value


Handler = Callable[[ApiRequest], object]


def route(path: str, handler: Handler, *, method: str = "GET") -> Route:
    """Return a route that runs a handler in a thread. A POST must have a JSON body."""

    async def endpoint(request: Request) -> Response:
        body = b""
        try:
            if method == "POST":
                if not _is_json(request):
                    return message_response(
                        415, "A request that changes something must be JSON.", RELOAD
                    )
                async for piece in request.stream():
                    body += piece
                    if len(body) > MAX_BODY:
                        return message_response(413, "This is more than 1 MiB.", "Make it shorter.")
            return await run_in_threadpool(partial(_respond, request, handler, body))
        except asyncio.CancelledError:  # the server stops while the handler is still at work
            return message_response(503, "The server is stopping.", "Start it with `ralph web`")
        except Exception as error:  # noqa: BLE001  (nothing catches unknown errors after this)
            return error_response(error)

    return Route(path, endpoint, methods=[method])


def _is_json(request: Request) -> bool:
    media_type, _, _ = request.headers.get("content-type", "").partition(";")
    return media_type.strip().lower() == "application/json"


def _respond(request: Request, handler: Handler, body: bytes) -> Response:
    with request.app.state.idle.request():
        return _respond_now(request, handler, body)


def _respond_now(request: Request, handler: Handler, body: bytes) -> Response:
    root: Path = request.app.state.root
    if not root.is_dir():
        raise NotFound(
            f"{root.name}: the project folder is gone",
            hint="stop `ralph web` and start it in the new folder",
        )
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise UsageError("the body of the request is not JSON", hint=RELOAD) from error
    if not isinstance(value, dict):
        raise UsageError("the body of the request is not a JSON object", hint=RELOAD)
    config = load(root, env=os.environ, limit=PatternLimit).config
    with suppress(RalphError, OSError):
        index.wait_until_current(root)
    request.app.state.idle.offer(root, config.embedding)
    params = request.query_params
    path = request.path_params
    return json_response(handler(ApiRequest(root, config, params, path, value, request.app.state)))


# --- responses ----------------------------------------------------------------------------------


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as JSON. Values from users' files that JSON cannot represent become text."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False
        )
    except ValueError:
        finite = json.loads(json.dumps(value, default=str), parse_constant=str)
        text = json.dumps(finite, ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def message_response(status: int, message: str, hint: str = "", override: str = "") -> Response:
    """Return an error as JSON. `override` is the request member that overrides the refusal."""
    error = {"message": message, "hint": hint}
    if override:
        error["override"] = override
    return json_response({"error": error}, status)


def error_response(error: Exception) -> Response:
    """Return an exception as JSON, with the matching status code."""
    if isinstance(error, WriteFailed):
        problem = _describe_disk_error(error.__cause__)
        hint = f"Nothing was changed. {problem.advice}"
        return message_response(problem.status, error.message, hint)
    if isinstance(error, RalphError):
        return _ralph_error_response(error)
    if isinstance(error, OSError):
        problem = _describe_disk_error(error)
        name = error.filename or "input or output failed"
        message = f"{name}: {error.strerror or error}"
        return message_response(problem.status, message, problem.advice)
    if os.environ.get("RALPH_DEBUG"):
        traceback.print_exception(error)
    message = f"this is a bug in ralph {__version__}: {type(error).__name__}: {error}"
    hint = "please report it; `ralph web` with RALPH_DEBUG=1 prints where it happened"
    return message_response(500, message, hint)


def _ralph_error_response(error: RalphError) -> Response:
    advice = {clause.advice for clause in error.clauses if isinstance(clause, Hint)}
    message = error.message
    hint = web_hint(error.clauses)
    if advice and message.startswith("--"):
        message = hint  # a page has no command-line options
    override = ""
    for overriding, member in _OVERRIDES.items():
        if overriding in advice:
            override = member
            break
    return message_response(_status_of(error), message, hint, override)


def _status_of(error: RalphError) -> int:
    for error_type, status in _STATUS_CODES:
        if isinstance(error, error_type):
            return status
    return 500


def web_hint(clauses: Clauses) -> str:
    """Return a hint, worded for a page."""
    worded = dict.fromkeys(map(_word_clause, clauses))
    text = "; ".join(worded).removeprefix("or ")
    return re.sub(r"\brun (?:the command |it )?again\b", "try again", text)


def _word_clause(clause: str | Hint) -> str:
    if isinstance(clause, Hint):
        return _PAGE_WORDS[clause.advice]
    return clause


class _DiskProblem(NamedTuple):
    """The status code for a file system error, and what to do about it."""

    status: int
    advice: str


def _describe_disk_error(cause: BaseException | None) -> _DiskProblem:
    """Describe why a file could not be written. No cause means that it is locked."""
    if cause is None:
        return _DiskProblem(
            423, "Another program is writing to it; try again when it has finished."
        )
    if isinstance(cause, OSError):
        number = cause.errno
    elif "full" in str(cause):
        number = errno.ENOSPC
    else:
        number = errno.EACCES
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return _DiskProblem(507, "The disk is full; free some space and try again.")
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _DiskProblem(403, "Make the file and its folder writable, and try again.")
    return _DiskProblem(409, "Check the file and its folder, and try again.")
