"""Any program as an agent: the prompt goes in, what it prints is the reply.

The prompt is its standard input, or stands wherever `{prompt}` does in its words. A text is split into words
as a shell would do it, without a shell; only who asks for one by `shell` gets `sh -c`, and then the prompt is
standard input alone, since pasting it into a command line would let it run commands. What the program did with
its hands is not known, so there are no calls. Proof: `tests/agents/test_command.py`.
"""

import shlex
from collections.abc import Sequence

from ralph.agents import process, trouble
from ralph.agents.surroundings import environment
from ralph.errors import UsageError
from ralph.model.work import Ask, Reply, StopReason

PROMPT = "{prompt}"


class Command:
    """An agent that is any program."""

    name = "command"
    reads_only = False

    def __init__(self, command: str | Sequence[str], shell: bool = False) -> None:
        self._words = words(command, shell)
        self._shell = shell

    def run(self, ask: Ask) -> Reply:
        """Start the program with the prompt; what it prints is the text."""
        placed = not self._shell and any(PROMPT in each for each in self._words)
        argv = [each.replace(PROMPT, ask.prompt) for each in self._words] if placed else self._words
        done = process.run(
            argv,
            cwd=ask.folder,
            stdin="" if placed else ask.prompt,
            env=environment(ask),
            timeout=ask.timeout,
            on_output=ask.show,
            stopped=ask.stopped,
        )
        stop, error = trouble.forced(done) or (StopReason.END_TURN, "")
        if not error and done.code != 0:
            stop, error = StopReason.CRASHED, trouble.crash(self._words[0], done)
        return Reply(done.out, stop, model=ask.model, error=error)


def words(command: str | Sequence[str], shell: bool = False) -> list[str]:
    """The words of a command, which is a list or a line; UsageError when there are none."""
    if shell:
        line = command if isinstance(command, str) else shlex.join(command)
        found = ["/bin/sh", "-c", line] if line.strip() else []
    elif isinstance(command, str):
        try:
            found = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command {command!r} is not closed: {error}", hint="close its quotes") from error
    else:
        found = list(command)
    if not found:
        raise UsageError("no command was given", hint="name the program, for example: my-agent --quiet")
    return found
