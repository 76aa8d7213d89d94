"""Run a client: the code that the agents share.

A client is the program that an agent runs, such as `claude`. Agents share how they set up its
environment, make paths relative, read its JSON events, and classify its failures. A client inherits
our environment, so that the user's API key reaches it, except for the variables set by an enclosing
session. Error messages change with every client version, so errors are classified by their HTTP
status where it is known. Any other unrecognized error is a crash, after which the loop tries again.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ralph.core import process
from ralph.core.work import Ask, ProcessResult, Reply, StopReason, ToolCall
from ralph.loop.agents.json_members import parse_object

MAX_ERROR_CHARACTERS = 2000  # how much of a program's error output is reported
# A longer line is left out. An event with a picture in it has about 7 million characters.
_MAX_LINE_CHARACTERS = 12_000_000
BYPASS = "bypass"  # the permission with which an agent may do anything
STOPPED = "it was stopped"
TIMED_OUT = "it took too long and was stopped"
_BETWEEN_TEXTS = "\n\n"

# Characters kept of each stream. Output is parsed as it arrives, and only the end of the error
# output matters.
_OUTPUT_LIMIT = 4000

_SESSION_VARIABLES = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_EFFORT",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
    }
)
_SESSION_PREFIXES = ("CLAUDE_CODE_MESSAGING_", "CLAUDE_CODE_SESSION_", "CLAUDE_PLUGIN_")

_TRANSIENT_STATUSES = {401, 402, 403, 404, 407, 408, 425, 429}
_FIRST_SERVER_ERROR = 500
_STATUS = re.compile(r"(?:status:?|API Error:?|HTTP|rejected)\s*\(?(\d{3})\b")
_TOO_LONG = re.compile(
    r"prompt is too long|context (?:window|length)|too many tokens|request too large", re.I
)
_UNAVAILABLE = re.compile(
    # Nobody is logged in.
    r"not logged in|log ?in required|please (?:run /login|log ?in)|authenticat|unauthori[sz]ed"
    r"|api key"
    # A limit is reached, or the service is overloaded.
    r"|credit balance|quota|usage limit|rate.?limit|overloaded|high demand|retry limit|temporarily"
    # The network fails.
    r"|connection (?:refused|reset|error|failed|closed)|ECONN|ENOTFOUND|ETIMEDOUT|EAI_AGAIN"
    r"|network|fetch failed|stream disconnected|error sending request|timed out|dns"
    # The model is not available.
    r"|model.{0,60}(?:not found|not exist|not supported)",
    re.I,
)


# --- environment and paths ------------------------------------------------------------------------


def without_session(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables set by an enclosing Claude Code session."""
    kept: dict[str, str] = {}
    for name, value in env.items():
        if name not in _SESSION_VARIABLES and not name.startswith(_SESSION_PREFIXES):
            kept[name] = value
    return kept


def agent_environment(ask: Ask) -> dict[str, str]:
    """Return the environment for an agent: our own, plus the variables of the prompt."""
    return without_session(os.environ) | dict(ask.environment)


def relative_path(path: str, folder: Path) -> str:
    """Return a path relative to `folder`, or unchanged if it is outside that folder."""
    if not is_inside(path, folder):
        return path
    return os.path.relpath(os.path.realpath(folder / path), os.path.realpath(folder))


def is_inside(path: str, folder: Path) -> bool:
    """Return whether a path is inside `folder` once symbolic links are followed."""
    if not path or "\0" in path:
        return False
    return Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))


# --- failures -------------------------------------------------------------------------------------


def classify_error(message: str, status: int = 0) -> StopReason:
    """Classify a client's error by its message and HTTP status.

    `status` is the status that the model's API returned, or 0 if it is unknown.
    """
    if not status:
        match = _STATUS.search(message)
        if match is not None:
            status = int(match[1])
    if _TOO_LONG.search(message):
        return StopReason.MAX_TOKENS
    if status in _TRANSIENT_STATUSES or status >= _FIRST_SERVER_ERROR:
        return StopReason.UNAVAILABLE
    if status == 0 and _UNAVAILABLE.search(message):
        return StopReason.UNAVAILABLE
    return StopReason.CRASHED


def forced_end(result: ProcessResult) -> tuple[StopReason, str] | None:
    """Return the stop reason and a message if a program did not start or was stopped.

    Returns None if the program ended by itself.
    """
    if result.missing:
        return StopReason.UNAVAILABLE, result.err
    if result.stopped:
        return StopReason.CANCELLED, STOPPED
    if result.timed_out:
        return StopReason.TIMEOUT, TIMED_OUT
    return None


def describe_crash(name: str, result: ProcessResult) -> str:
    """Describe how a program died, with the end of its error output."""
    if result.code is not None and result.code < 0:
        description = f"{name} was killed by signal {-result.code}"
    else:
        description = f"{name} exited with {result.code}"
    errors = result.err.strip()[-MAX_ERROR_CHARACTERS:]
    if errors:
        description += f": {errors}"
    return description


# --- running a client -----------------------------------------------------------------------------


def run_client(argv: Sequence[str], ask: Ask, reader: EventReader) -> Reply:
    """Run a client with the prompt on standard input, passing each output line to the reader."""
    lines = LineBuffer(reader.read_line)
    result = process.run(
        argv,
        cwd=ask.folder,
        stdin=ask.prompt,
        env=agent_environment(ask),
        timeout=ask.timeout,
        limit=_OUTPUT_LIMIT,
        on_output=lines.add,
        stopped=ask.stopped,
    )
    was_interrupted = result.stopped or result.timed_out
    if not was_interrupted:  # otherwise the last line is incomplete
        lines.flush()
    return reader.reply(result)


class LineBuffer:
    """Joins chunks of output into lines, in linear time and within a limit on memory.

    A line that is too long is replaced by a note.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._pieces: list[str] = []
        self._length = 0  # characters of the current line, including those that were dropped

    def add(self, text: str) -> None:
        """Append a chunk of output, and pass on the lines that it completes."""
        for number, piece in enumerate(text.split("\n")):
            if number > 0:
                self.flush()
            self._length += len(piece)
            if self._length > _MAX_LINE_CHARACTERS:
                self._pieces = []
            else:
                self._pieces.append(piece)

    def flush(self) -> None:
        """Pass on the remaining output as a line."""
        line = "".join(self._pieces)
        if self._length > _MAX_LINE_CHARACTERS:
            line = f"[a line of {self._length} characters was left out]"
        self._pieces = []
        self._length = 0
        if line.strip():
            self._on_line(line.removesuffix("\r"))


# --- events ----------------------------------------------------------------------------------


class EventReader(ABC):
    """Collects a reply from JSON events. A line that is not JSON is part of the reply's text.

    A subclass parses the events of one client. Its `read_event` updates the attributes below, and
    `reply` turns them into the reply.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.session = ask.session
        self.model = ask.model
        self.cost = 0.0
        self.texts: list[str] = []
        self.calls: dict[str, ToolCall] = {}  # by the client's id of the call, if it has one
        self.outputs: list[str] = []  # of tools
        self.refused: list[str] = []  # calls that were not permitted
        self._last_message_start = 0  # index of the text that begins the last message
        self._new_message = False

    def read_line(self, line: str) -> None:
        """Read one line of output."""
        event = parse_object(line)
        if event is None:
            self.add_text(line)
        else:
            self.read_event(event)

    @abstractmethod
    def read_event(self, event: Mapping[str, object]) -> None:
        """Read one event."""

    @abstractmethod
    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        """Return why a program that was not stopped has ended, and its error message."""

    def add_text(self, text: str) -> None:
        """Add text to the reply, and show it. Text after a tool call begins a new message."""
        if self._new_message:
            self._last_message_start = len(self.texts)
        self._new_message = False
        self.texts.append(text)
        if text.endswith("\n"):
            self.ask.show(text)
        else:
            self.ask.show(f"{text}\n")

    def add_call(
        self, name: str, paths: Iterable[str] = (), key: str = "", *, ok: bool = True, writes: bool
    ) -> None:
        """Add a tool call with the files in its arguments."""
        self._new_message = True
        files = [relative_path(path, self.ask.folder) for path in paths if path]
        call = ToolCall(name, tuple(dict.fromkeys(files)), ok, writes)
        self.calls[key or str(len(self.calls))] = call

    def reply(self, result: ProcessResult) -> Reply:
        """Return the reply, once the program has ended."""
        stop, error = forced_end(result) or self.find_stop_reason(result)
        earlier_texts = self.texts[: self._last_message_start]
        return Reply(
            _BETWEEN_TEXTS.join(self.texts),
            stop,
            calls=tuple(self.calls.values()),
            model=self.model,
            cost=self.cost,
            session=self.session,
            error=error,
            final=sum(len(text) + len(_BETWEEN_TEXTS) for text in earlier_texts),
            outputs=tuple(self.outputs),
            refused=tuple(dict.fromkeys(self.refused)),
        )
