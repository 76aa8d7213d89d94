"""What agents have in common (environment, paths, JSON events, failures), and any program as an agent.

The agent gets our environment (a user's key must reach it) without the variables of an enclosing session. Error texts
change with every version of a client, so an HTTP status decides; the rest is a crash, after which the loop tries again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ralph.core import process
from ralph.core.errors import UsageError
from ralph.core.work import Ask, ProcessResult, Reply, StopReason, ToolCall

ERROR_LENGTH = 2000  # characters of a program's error output that are reported
LONGEST_LINE = (
    1 << 27
)  # characters; no client prints a longer line, only a program that has run wild
_PROMPT = "{prompt}"
_OUTPUT_LIMIT = 4000  # characters of either stream: output is parsed as it arrives, and of the errors the end matters
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

_RETRY_STATUS = {401, 402, 403, 404, 407, 408, 425, 429}
_STATUS = re.compile(r"(?:status:?|API Error:?|HTTP|rejected)\s*\(?(\d{3})\b")
_TOO_LONG = re.compile(
    r"prompt is too long|context (?:window|length)|too many tokens|request too large", re.I
)
_UNAVAILABLE = re.compile(
    r"not logged in|log ?in required|please (?:run /login|log ?in)|authenticat|unauthori[sz]ed|api key"
    r"|credit balance|quota|usage limit|rate.?limit|overloaded|high demand|retry limit|temporarily"
    r"|connection (?:refused|reset|error|failed|closed)|ECONN|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|network|fetch failed"
    r"|stream disconnected|error sending request|timed out|dns|model.{0,60}(?:not found|not exist|not supported)",
    re.I,
)


def without_session(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of an enclosing Claude Code session."""
    return {
        name: value
        for name, value in env.items()
        if name not in _SESSION_VARIABLES and not name.startswith(_SESSION_PREFIXES)
    }


def agent_environment(ask: Ask) -> dict[str, str]:
    """Return our environment with the prompt's on top."""
    return without_session(os.environ) | dict(ask.environment)


def relative_path(path: str, folder: Path) -> str:
    """Return a path relative to the folder, or unchanged when it is outside."""
    if not is_inside(path, folder):
        return path
    return os.path.relpath(os.path.realpath(folder / path), os.path.realpath(folder))


def is_inside(path: str, folder: Path) -> bool:
    """Whether a file lies in the folder, links followed."""
    if not path or "\0" in path:
        return False
    return Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))


def classify_error(message: str, status: int = 0) -> StopReason:
    """Classify a client's error; `status` is the model API's, if known."""
    match = _STATUS.search(message)
    status = status or (int(match[1]) if match else 0)
    if _TOO_LONG.search(message):
        return StopReason.MAX_TOKENS
    if status in _RETRY_STATUS or status >= 500 or (status == 0 and _UNAVAILABLE.search(message)):
        return StopReason.UNAVAILABLE
    return StopReason.CRASHED


def forced_end(result: ProcessResult) -> tuple[StopReason, str] | None:
    """Return reason and message when a program could not end by itself."""
    if result.missing:
        return StopReason.UNAVAILABLE, result.err
    if result.stopped:
        return StopReason.CANCELLED, "it was stopped"
    if result.timed_out:
        return StopReason.TIMEOUT, "it took too long and was ended"
    return None


def describe_crash(name: str, result: ProcessResult) -> str:
    """Describe how a program died, with the end of its error output."""
    code = result.code
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"exited with {code}"
    errors = result.err.strip()[-ERROR_LENGTH:]
    return f"{name} {how}: {errors}" if errors else f"{name} {how}"


def run_client(argv: Sequence[str], ask: Ask, reader: EventReader) -> Reply:
    """Run a client with the prompt as its standard input; the reader gets each line."""
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
    if not (result.stopped or result.timed_out):  # else the last line is incomplete
        lines.flush()
    return reader.reply(result)


class LineBuffer:
    """Joins pieces to lines; a line of many megabytes costs no more than its length."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._pieces: list[str] = []
        self._room = LONGEST_LINE

    def add(self, text: str) -> None:
        """Append output and pass on the lines that are complete."""
        for number, piece in enumerate(text.split("\n")):
            if number:
                self.flush()
            self._pieces.append(piece[: self._room])
            self._room -= len(self._pieces[-1])

    def flush(self) -> None:
        """Pass on what remains as a line."""
        line = "".join(self._pieces)
        self._pieces = []
        self._room = LONGEST_LINE
        if line.strip():
            self._on_line(line.removesuffix("\r"))


def parse_object(line: str) -> Mapping[str, object] | None:
    """Return the JSON object on a line, or None when there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_object(value: object, *keys: str) -> Mapping[str, object]:
    """Return the object below these keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def get_text(value: Mapping[str, object], key: str) -> str:
    """Return the text at a key, or an empty one."""
    text = value.get(key)
    return text if isinstance(text, str) else ""


def get_number(value: Mapping[str, object], key: str) -> float:
    """Return the number at a key, or zero."""
    number = value.get(key)
    return (
        float(number) if isinstance(number, int | float) and not isinstance(number, bool) else 0.0
    )


def get_objects(value: Mapping[str, object], key: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects in the list at a key."""
    items = value.get(key)
    yield from (
        item for item in (items if isinstance(items, list) else ()) if isinstance(item, Mapping)
    )


def content_text(content: object) -> str:
    """Return the text of a tool's result: a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(
        filter(None, (get_text(block, "text") for block in get_objects({"": content}, "")))
    )


class EventReader(ABC):
    """Collects a reply from JSON events; a line that is not JSON is text of the reply."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.session = ask.session
        self.model = ask.model
        self.cost = 0.0
        self.texts: list[str] = []
        self.calls: dict[str, ToolCall] = {}
        self.outputs: list[str] = []
        self.refused: list[str] = []
        # the number of the text that begins the last message
        self._final = 0
        self._new_message = False

    def read_line(self, line: str) -> None:
        """Read one line of output."""
        event = parse_object(line)
        self.add_text(line) if event is None else self.read_event(event)

    @abstractmethod
    def read_event(self, event: Mapping[str, object]) -> None:
        """Read one event."""

    @abstractmethod
    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        """Return why the program ended by itself, and its error."""

    def add_text(self, text: str) -> None:
        """Add and show text; after a tool call a new message begins."""
        self._final = len(self.texts) if self._new_message else self._final
        self._new_message = False
        self.texts.append(text)
        self.ask.show(text if text.endswith("\n") else f"{text}\n")

    def add_call(
        self, name: str, paths: Iterable[str] = (), key: str = "", *, ok: bool = True, writes: bool
    ) -> None:
        """Add a tool call, with the files that it names."""
        self._new_message = True
        files = dict.fromkeys(relative_path(path, self.ask.folder) for path in paths if path)
        self.calls[key or str(len(self.calls))] = ToolCall(name, tuple(files), ok, writes)

    def reply(self, result: ProcessResult) -> Reply:
        """Return the reply, once the program has ended."""
        stop, error = forced_end(result) or self.find_stop_reason(result)
        text, final = (
            "\n\n".join(self.texts),
            sum(len(text) + 2 for text in self.texts[: self._final]),
        )
        calls = tuple(self.calls.values())
        outputs = tuple(self.outputs)
        refused = tuple(dict.fromkeys(self.refused))
        return Reply(
            text, stop, calls, self.model, self.cost, self.session, error, final, outputs, refused
        )


class CommandAgent:
    """Any program as an agent: it gets the prompt as standard input or `{prompt}`, and what it prints is the reply."""

    name = "command"
    reads_only = False

    def __init__(self, command: str | Sequence[str]) -> None:
        self._argv = split_command(command)

    def run(self, ask: Ask) -> Reply:
        """Start the program with the prompt; what it prints is the text."""
        as_argument = any(_PROMPT in argument for argument in self._argv)
        result = process.run(
            [argument.replace(_PROMPT, ask.prompt) for argument in self._argv]
            if as_argument
            else self._argv,
            cwd=ask.folder,
            stdin="" if as_argument else ask.prompt,
            env=agent_environment(ask),
            timeout=ask.timeout,
            on_output=ask.show,
            stopped=ask.stopped,
        )
        stop, error = forced_end(result) or (StopReason.END_TURN, "")
        if not error and result.code != 0:
            stop = StopReason.CRASHED
            error = describe_crash(self._argv[0], result)
        return Reply(result.out, stop, error=error)


def split_command(command: str | Sequence[str]) -> list[str]:
    """Split a command into arguments; UsageError when it is empty."""
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise UsageError(
            f"the command {command!r} is not closed: {error}", hint="close its quotes"
        ) from error
    if not "".join(argv).strip():
        raise UsageError(
            "no command was given", hint="name the program, for example: my-agent --quiet"
        )
    return argv
