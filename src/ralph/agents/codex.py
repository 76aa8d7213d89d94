"""Codex as an agent: `codex exec --json`, whose events tell items as they begin and end.

The prompt is standard input (`-`). Its sandbox is what keeps it from writing: `read-only`, or `workspace-write`
for work, which is the kernel's doing and needs nobody's consent. It tells neither its model nor what it cost, so
the model is the one that was asked for and the cost is nothing. Options stand before `resume`, which knows fewer.
Proof: `tests/agents/test_codex.py` on recorded events, `tests/e2e/test_agents.py` on the real client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.agents import streams, trouble
from ralph.agents.process import Finished
from ralph.agents.streams import inner, objects, word
from ralph.agents.surroundings import place
from ralph.model.work import Ask, Reply, StopReason, ToolCall

SANDBOX = "workspace-write"
BYPASS = "danger-full-access"
READ_ONLY = "read-only"


@dataclass(slots=True)
class Codex:
    """Codex; `permission` is the sandbox that it works in."""

    program: Sequence[str] = ("codex",)
    permission: str = SANDBOX
    name: str = "codex"
    reads_only: bool = True

    def run(self, ask: Ask) -> Reply:
        """One prompt, in a new conversation or in the one it names."""
        heard = Heard(ask)
        done = streams.run(self.words(ask), ask, heard.line)
        return heard.reply(done)

    def words(self, ask: Ask) -> list[str]:
        """The command line for a prompt."""
        chosen = BYPASS if self.permission == "bypass" else self.permission or SANDBOX
        words = [*self.program, "exec", "--json", "--skip-git-repo-check"]
        words += ["--sandbox", READ_ONLY if ask.read_only else chosen]
        if ask.model:
            words += ["--model", ask.model]
        if ask.session:
            words += ["resume", ask.session]
        return [*words, "-"]


class Heard:
    """What a stream of events has told so far."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._session = ask.session
        self._completed = False
        self._failure = ""

    def line(self, line: str) -> None:
        """One line of its output."""
        event = streams.parsed(line)
        if event is None:
            self._say(line)
            return
        kind = word(event, "type")
        if kind == "thread.started":
            self._session = word(event, "thread_id") or self._session
        elif kind == "item.completed":
            self._item(inner(event, "item"))
        elif kind == "turn.completed":
            self._completed = True
        elif kind == "turn.failed":
            self._failure = word(inner(event, "error"), "message") or "the turn failed"
        elif kind == "error":
            self._failure = word(event, "message") or "an error without words"

    def _say(self, text: str) -> None:
        self._texts.append(text)
        self._ask.show(text if text.endswith("\n") else f"{text}\n")

    def _item(self, item: Mapping[str, object]) -> None:
        kind, ok = word(item, "type"), word(item, "status") not in ("failed", "declined")
        if kind == "agent_message" and word(item, "text"):
            self._say(word(item, "text"))
        elif kind == "file_change":
            files = [place(word(each, "path"), self._ask.folder) for each in objects(item, "changes")]
            self._calls.append(ToolCall("apply_patch", tuple(dict.fromkeys(filter(None, files))), ok, writes=ok))
        elif kind == "command_execution":
            self._calls.append(ToolCall("exec_command", ok=ok))
        elif kind == "mcp_tool_call":
            self._calls.append(ToolCall(f"mcp__{word(item, 'server')}__{word(item, 'tool')}", ok=ok))
        elif kind == "web_search":
            self._calls.append(ToolCall(kind, ok=ok))

    def reply(self, done: Finished) -> Reply:
        """The whole reply, once the program has ended."""
        stop, error = trouble.forced(done) or self._end(done)
        text = "\n\n".join(self._texts)
        return Reply(text, stop, tuple(self._calls), self._ask.model, session=self._session, error=error)

    def _end(self, done: Finished) -> tuple[StopReason, str]:
        if done.code == 0 and (self._completed or self._texts):
            return StopReason.END_TURN, ""
        words = self._failure[-trouble.TAIL :] or trouble.crash("codex", done)
        return trouble.judged(words), words
