"""Real shells on a pseudo terminal: lines are typed, and what the shell prints is read.

A shell reads its keys in order, so a whole line with its Tab is sent in one piece. The completed line is turned into
an argument of `show`, which prints it between marks; nothing has to be guessed from the screen.
"""

import contextlib
import os
import re
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

BEGIN_OF_LINE = "\x01"
READY = "ready-for-keys"
_SHOWN = re.compile(r"<<(.*?)>>", re.DOTALL)

SETUP = {
    "bash": """\
show() { printf '<<%s>>\\n' "$*"; }
PS1='ready-for-''keys '
eval "$(PROGRAM completion bash)"
""",
    "zsh": """\
show() { print -r -- "<<$*>>" }
unsetopt zle_bracketed_paste
PS1='ready-for-''keys '
eval "$(PROGRAM completion zsh)"
""",
    "fish": """\
function show; printf '<<%s>>\\n' "$argv"; end
function fish_prompt; echo 'ready-for-''keys '; end
PROGRAM completion fish | source
""",
}
"""What each shell reads at its start. The prompt is written in two parts, so that only the prompt itself has it whole."""


class Shell:
    """An interactive shell in a project."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._read = ""

    def wait_for(self, text: str) -> str:
        """Read until the shell has printed a text, and return everything up to it."""
        while text not in self._read:
            self._read += os.read(self._handle, 65536).decode(errors="replace")
        before, _, self._read = self._read.partition(text)
        return before

    def complete(self, line: str) -> str:
        """Type a line and Tab, and return the line as the shell has completed it."""
        keys = f"{line}\t{BEGIN_OF_LINE}show \n"
        os.write(self._handle, keys.encode())
        printed = self.wait_for(">>\r\n") + ">>"
        self.wait_for(READY)
        found = _SHOWN.findall(printed)
        return str(found[-1]).strip()


def _arguments(shell: str, setup: Path) -> list[str]:
    if shell == "bash":
        return ["--noprofile", "--rcfile", str(setup), "-i"]
    if shell == "fish":
        return ["--no-config", "-i", "-C", f"source {setup}"]
    return ["-i"]  # zsh reads .zshrc


@contextlib.contextmanager
def running(
    shell: str, program: Path, cwd: Path, home: Path, path: str, ralph: str = "ralph"
) -> Iterator[Shell]:
    """A shell that has loaded the completion from `ralph` and waits for keys."""
    setup = home / (".zshrc" if shell == "zsh" else "setup")
    setup.write_text(SETUP[shell].replace("PROGRAM", ralph), encoding="utf-8")
    env = {"HOME": str(home), "PATH": path, "TERM": "xterm", "LANG": "C.UTF-8"}
    outer, inner = os.openpty()
    termios.tcsetwinsize(inner, (40, 200))
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", str(program), *_arguments(shell, setup)],
        cwd=cwd,
        env=env,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        typed = Shell(outer)
        typed.wait_for(READY)
        yield typed
    finally:
        os.close(outer)  # the shell gets a hangup, and ends
        process.wait()
