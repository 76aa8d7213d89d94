"""Claude Code as an agent: `claude -p`, whose stream of JSON events tells what it says and does.

The prompt is standard input, since a command line has a longest length. The reply's text is everything that the
main conversation said, not only its last message: a sigil may stand anywhere. Subagents' words are theirs, but
their tool calls count, for they change the same files. A message about a failed request looks like the model's
own words and is told as the error instead. Read-only means that there are no tools but reading ones: plan mode
alone would leave a shell to a classifier, and its instructions ask for a plan in a file rather than for an answer.
Proof: `tests/agents/test_claude.py` on recorded events, `tests/e2e/test_agents.py` on the real client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ralph.agents import streams, trouble
from ralph.agents.process import Finished
from ralph.agents.streams import inner, number, objects, word
from ralph.agents.surroundings import place
from ralph.model.work import Agent, Ask, Reply, StopReason, ToolCall

PERMISSION = "acceptEdits"
BYPASS = "bypassPermissions"
WRITERS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
READERS = ("Read", "Glob", "Grep")
_PATHS = ("file_path", "notebook_path", "path")
_STOPS = {
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}


@runtime_checkable
class Settled(Protocol):
    """An agent that takes Claude Code's settings, where it is Claude Code: by itself, or behind a protocol."""

    settings: str

    @property
    def is_claude(self) -> bool:
        """Whether its program is Claude Code."""
        ...


def settled(agent: Agent) -> Settled | None:
    """The agent as one that is given settings; None for who would not read them."""
    return agent if isinstance(agent, Settled) and agent.is_claude else None


@dataclass(slots=True)
class Claude:
    """Claude Code; `permission` is the mode that it works in unattended."""

    program: Sequence[str] = ("claude",)
    permission: str = PERMISSION
    name: str = "claude"
    reads_only: bool = True
    settings: str = ""  # JSON on top of the user's own, for MCP servers that are left out

    @property
    def is_claude(self) -> bool:
        """It is."""
        return True

    def run(self, ask: Ask) -> Reply:
        """One prompt, in a new conversation or in the one it names."""
        heard = Heard(ask)
        done = streams.run(self.words(ask), ask, heard.line)
        return heard.reply(done)

    def words(self, ask: Ask) -> list[str]:
        """The command line for a prompt."""
        words = [*self.program, "-p", "--output-format", "stream-json", "--verbose"]
        if ask.read_only:
            words += ["--permission-mode", "dontAsk", "--tools", ",".join(READERS), "--strict-mcp-config"]
        elif self.permission:
            words += ["--permission-mode", BYPASS if self.permission == "bypass" else self.permission]
        if self.settings and not ask.read_only:
            words += ["--settings", self.settings]
        if ask.model:
            words += ["--model", ask.model]
        if ask.session:
            words += ["--resume", ask.session]
        return words


class Heard:
    """What a stream of events has told so far."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._texts: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self._model = ask.model
        self._session = ask.session
        self._result: Mapping[str, object] | None = None

    def line(self, line: str) -> None:
        """One line of its output."""
        event = streams.parsed(line)
        if event is None:
            self._say(line)
            return
        self._session = word(event, "session_id") or self._session
        kind = word(event, "type")
        if kind == "system" and word(event, "subtype") == "init":
            self._model = word(event, "model") or self._model
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "user":
            self._results(event)
        elif kind == "result":
            self._result = event

    def _say(self, text: str) -> None:
        self._texts.append(text)
        self._ask.show(text if text.endswith("\n") else f"{text}\n")

    def _assistant(self, event: Mapping[str, object]) -> None:
        message = inner(event, "message")
        model = word(message, "model")
        if model and model != "<synthetic>" and not event.get("parent_tool_use_id"):
            self._model = model
        for block in objects(message, "content"):
            if word(block, "type") == "tool_use":
                self._calls[word(block, "id") or str(len(self._calls))] = self._call(block)
            elif word(block, "type") == "text" and word(block, "text") and not _is_aside(event):
                self._say(word(block, "text"))

    def _call(self, block: Mapping[str, object]) -> ToolCall:
        given = inner(block, "input")
        files = [place(word(given, key), self._ask.folder) for key in _PATHS if word(given, key)]
        name = word(block, "name") or "tool"
        return ToolCall(name, tuple(dict.fromkeys(files)), writes=name in WRITERS)

    def _results(self, event: Mapping[str, object]) -> None:
        for block in objects(inner(event, "message"), "content"):
            call = self._calls.get(word(block, "tool_use_id"))
            if call is not None and block.get("is_error") is True:
                self._calls[word(block, "tool_use_id")] = replace(call, ok=False, writes=False)

    def reply(self, done: Finished) -> Reply:
        """The whole reply, once the program has ended."""
        stop, error = trouble.forced(done) or self._end(done)
        result = self._result or {}
        said = "\n\n".join(self._texts)
        if not said and not error:
            said = word(result, "result")
        cost = number(result, "total_cost_usd")
        return Reply(said, stop, tuple(self._calls.values()), self._model, cost, self._session, error)

    def _end(self, done: Finished) -> tuple[StopReason, str]:
        result = self._result
        if result is None:
            if done.code == 0 and self._texts:
                return StopReason.END_TURN, ""
            words = trouble.crash("claude", done)
            return trouble.judged(words), words
        subtype = word(result, "subtype")
        if subtype == "error_max_turns":
            return StopReason.MAX_TURNS, "it reached its highest number of turns"
        if result.get("is_error") is True or subtype.startswith("error"):
            words = _complaint(result) or trouble.crash("claude", done)
            return _judged(result, words), words
        return _STOPS.get(word(result, "stop_reason"), StopReason.END_TURN), ""


def _is_aside(event: Mapping[str, object]) -> bool:
    """Whether a message is not the main conversation's: a subagent's, or one about a failed request."""
    return bool(event.get("parent_tool_use_id")) or event.get("is_api_error_message") is True or "error" in event


def _complaint(result: Mapping[str, object]) -> str:
    errors = result.get("errors")
    told = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    return (word(result, "result") or "\n".join(told)).strip()[-trouble.TAIL :]


def _judged(result: Mapping[str, object], words: str) -> StopReason:
    status = int(number(result, "api_error_status"))
    if word(result, "terminal_reason") == "api_error" and not status:
        found = trouble.judged(words)  # no answer at all: no network, or nobody is logged in
        return StopReason.UNAVAILABLE if found is StopReason.CRASHED else found
    return trouble.judged(words, status)
