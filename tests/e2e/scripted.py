"""A model server that plays a script: what both model APIs have in common.

The real clients run against a server of our own on loopback, so a test decides what "the model" does and
sees every byte that reached it. A script is a list of steps; a step is a `Reply` or a function from the
request to one, so it can look at what the client sent, or wait (`Pause`). Scripts are taken by what a
conversation is about (`when`), because one client talks in several at a time: its own, one a subagent,
and side questions such as titles and summaries, which are answered without using up a step. A request
that nobody scripted gets a harmless answer and is kept in `unscripted`. Proof: `test_harness.py`.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]

# The answer to a request that nobody scripted.
OVER = "The script has no more steps."
# A pause that nobody releases must not hang a test run.
LONGEST_PAUSE = 120.0


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that the model makes."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers: a text, tool calls, or both; `tokens` is the context size that it claims."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    tokens: int = 100
    status: int = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; `agent` is a subagent's id; `kind` is `step`, or which side question it was."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Json
    prompt: str
    agent: str = ""
    kind: str = "step"

    @property
    def text(self) -> str:
        """Every string of the conversation, as the model would read it."""
        parts = (self.body.get(key) for key in ("system", "messages", "instructions", "input"))
        return "\n".join(string for part in parts for string in strings(part))


Step = Reply | Callable[[Request], Reply]


def say(text: str, *, tokens: int = 100) -> Reply:
    """A step: the model answers with this text."""
    return Reply(text=text, tokens=tokens)


def use(tool: str, **arguments: object) -> Reply:
    """A step: the model calls one tool."""
    return Reply(calls=(Call(tool, arguments),))


def together(*replies: Reply) -> Reply:
    """A step: the calls of these steps in one answer, so that they run in parallel."""
    return Reply(
        text="".join(reply.text for reply in replies),
        calls=tuple(call for reply in replies for call in reply.calls),
        tokens=max(reply.tokens for reply in replies),
    )


def refuse(status: int) -> Reply:
    """A step: the API fails with this status."""
    return Reply(status=status)


class Pause:
    """A step that waits: `arrived` is set when the client asks, the answer comes after `release()`."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.arrived = threading.Event()
        self.released = threading.Event()

    def __call__(self, request: Request) -> Reply:
        self.arrived.set()
        self.released.wait(LONGEST_PAUSE)
        return self.reply

    def wait(self) -> None:
        """Wait until the client has come to this step."""
        assert self.arrived.wait(LONGEST_PAUSE), "the client never came to the pause"

    def release(self) -> None:
        """Let the answer go."""
        self.released.set()


def strings(value: object) -> Iterator[str]:
    """Every string inside a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


@dataclass(slots=True)
class Script:
    """The steps of one conversation, and the words in its first prompt that it is known by."""

    when: str
    steps: list[Step]
    done: int = 0


@dataclass(slots=True)
class Log:
    """Everything that arrived, in order."""

    requests: list[Request] = field(default_factory=list)
    unscripted: list[Request] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


class ModelServer:
    """A scripted model on 127.0.0.1; subclasses speak one API each."""

    def __init__(self) -> None:
        self.log = Log()
        self._scripts: list[Script] = []
        self._lock = threading.Lock()
        self._http = _Loopback(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and let every waiting answer go."""
        for script in self._scripts:
            for step in script.steps:
                if isinstance(step, Pause):
                    step.release()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where the client finds it."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """Every model request so far, side questions too."""
        with self._lock:
            return list(self.log.requests)

    @property
    def unscripted(self) -> list[Request]:
        """The requests that no script had a step for."""
        with self._lock:
            return list(self.log.unscripted)

    def script(self, *steps: Step, when: str = "") -> None:
        """The steps of a conversation that has `when` in its first prompt; without it, of any but a subagent's."""
        with self._lock:
            self._scripts.append(Script(when, list(steps)))
            self._scripts.sort(key=lambda script: not script.when)

    def finished(self) -> bool:
        """Whether every scripted step was played."""
        with self._lock:
            return all(script.done == len(script.steps) for script in self._scripts)

    def reached(self, text: str) -> list[Request]:
        """The requests whose conversation holds this text anywhere."""
        return [request for request in self.requests if text in request.text]

    def take(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[Request, Reply]:
        """Log a model request and choose its answer."""
        with self._lock:
            number = len(self.log.requests)
            kind, canned = self.side_question(headers, body)
            request = Request(
                number, path, headers, body, self.prompt_of(body), self.agent_of(headers), kind
            )
            self.log.requests.append(request)
            step = canned if canned is not None else self._next(request)
        return request, step if isinstance(step, Reply) else step(request)

    def _next(self, request: Request) -> Step:
        for script in self._scripts:
            meant = script.when in request.prompt if script.when else not request.agent
            if meant and script.done < len(script.steps):
                script.done += 1
                return script.steps[script.done - 1]
        self.log.unscripted.append(request)
        return say(OVER)

    def prompt_of(self, body: Json) -> str:
        """What the conversation is about: the strings of its user's first message."""
        raise NotImplementedError

    def agent_of(self, headers: Mapping[str, str]) -> str:
        """The subagent that asks; "" for the main conversation."""
        return headers.get("x-claude-code-agent-id", "")

    def side_question(self, headers: Mapping[str, str], body: Json) -> tuple[str, Reply | None]:
        """A name and a fixed answer for requests that are not the conversation itself, else `step` and None."""
        raise NotImplementedError

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """Status, content type and body for one POST."""
        raise NotImplementedError

    def passed_by(self, path: str) -> None:
        """Remember a path that is no model request."""
        with self._lock:
            self.log.paths.append(path)


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, server: ModelServer) -> None:
        self.model = server
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Loopback

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        try:
            body = json.loads(self.rfile.read(size) or b"{}")
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(
            *self.server.model.answer(self.path, headers, body if isinstance(body, dict) else {})
        )

    def do_GET(self) -> None:
        self.server.model.passed_by(self.path)
        self._send(200, "application/json", b"{}")

    def do_HEAD(self) -> None:
        self._send(200, "application/json", b"")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("request-id", "req_scripted")
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            # The client was killed or has given up: its own affair.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is http.server's)
        """Say nothing: the tests read the log."""


def sse(events: list[tuple[str, Json]]) -> bytes:
    """Server-sent events as bytes."""
    return "".join(
        f"event: {name}\ndata: {json.dumps(value)}\n\n" for name, value in events
    ).encode()
