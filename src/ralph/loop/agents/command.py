"""Run an arbitrary program as an agent. Its output is the reply."""

from __future__ import annotations

from collections.abc import Sequence

from ralph.core import process
from ralph.core.errors import UsageError
from ralph.core.work import Ask, Reply, StopReason
from ralph.loop.agents import client

_PROMPT_PLACEHOLDER = "{prompt}"


class CommandAgent:
    """An agent that runs an arbitrary program.

    The program gets the prompt on standard input, or in place of `{prompt}` in its arguments.
    """

    name = "command"
    enforces_read_only = False

    def __init__(self, command: str | Sequence[str]) -> None:
        self._argv = split_command(command)

    def run(self, ask: Ask) -> Reply:
        """Run the program with the prompt, and return its output as the reply."""
        argv = self._argv
        stdin = ask.prompt
        if any(_PROMPT_PLACEHOLDER in argument for argument in argv):
            argv = [argument.replace(_PROMPT_PLACEHOLDER, ask.prompt) for argument in argv]
            stdin = ""
        result = process.run(
            argv,
            cwd=ask.folder,
            stdin=stdin,
            env=client.agent_environment(ask),
            timeout=ask.timeout,
            on_output=ask.show,
            stopped=ask.stopped,
        )
        stop, error = client.forced_end(result) or (StopReason.END_TURN, "")
        if not error and result.code != 0:
            stop = StopReason.CRASHED
            error = client.describe_crash(self._argv[0], result)
        return Reply(result.out, stop, model=ask.model, error=error)


def split_command(command: str | Sequence[str]) -> list[str]:
    """Split a command into its arguments.

    Raises UsageError if the command is empty or contains an unclosed quote.
    """
    if isinstance(command, str):
        try:
            argv = process.split_words(command)
        except ValueError as error:
            raise UsageError(
                f"the command {command!r} cannot be split into arguments: {error}",
                hint="close its quotes",
            ) from error
    else:
        argv = list(command)
    if not "".join(argv).strip():
        raise UsageError(
            "no command was given", hint="name the program, for example: my-agent --quiet"
        )
    return argv
