"""Any program as an agent: it gets the prompt, and what it prints is the reply.

The prompt is its standard input, or replaces `{prompt}` in its arguments. A command line is split as a shell does
it, without a shell; with `shell` it is run by `sh -c`, and then the prompt is only standard input, since inserting
it into a command line would let it run commands. Which tools the program used is unknown.
"""

import shlex
from collections.abc import Sequence

from ralph.agents import client, process
from ralph.errors import UsageError
from ralph.model.work import Ask, Reply, StopReason

PROMPT = "{prompt}"


class CommandAgent:
    """An agent that is any program."""

    name = "command"
    reads_only = False

    def __init__(self, command: str | Sequence[str], shell: bool = False) -> None:
        self._argv = split_command(command, shell)
        self._shell = shell

    def run(self, ask: Ask) -> Reply:
        """Start the program with the prompt; what it prints is the text."""
        as_argument = not self._shell and any(PROMPT in argument for argument in self._argv)
        result = process.run(
            [argument.replace(PROMPT, ask.prompt) for argument in self._argv] if as_argument else self._argv,
            cwd=ask.folder,
            stdin="" if as_argument else ask.prompt,
            env=client.agent_environment(ask),
            timeout=ask.timeout,
            on_output=ask.show,
            stopped=ask.stopped,
        )
        stop, error = client.forced_end(result) or (StopReason.END_TURN, "")
        if not error and result.code != 0:
            stop, error = StopReason.CRASHED, client.describe_crash(self._argv[0], result)
        return Reply(result.out, stop, model=ask.model, error=error)


def split_command(command: str | Sequence[str], shell: bool = False) -> list[str]:
    """Return a command, which is a list or a line, as arguments; UsageError when it is empty."""
    if shell:
        line = command if isinstance(command, str) else shlex.join(command)
        argv = ["/bin/sh", "-c", line] if line.strip() else []
    elif isinstance(command, str):
        try:
            argv = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command {command!r} is not closed: {error}", hint="close its quotes") from error
    else:
        argv = list(command)
    if not argv:
        raise UsageError("no command was given", hint="name the program, for example: my-agent --quiet")
    return argv
