"""A person at a terminal: a window with an interactive shell, in which commands are typed.

The window is a program with the name of a terminal, because `ralph` looks at the program that owns
its terminal. It is a copy of the interpreter, and starts a shell with job control.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.support.runner import command

SECONDS = 30.0
PROMPT = "person$ "
LETTERS = re.compile(r"Type ([0-9a-f]+) ")
_TERMINAL = """
import os, pty, sys
pty.spawn(sys.argv[1:])
"""


class Window:
    """A terminal window with a shell in a project's folder."""

    def __init__(self, root: Path, *, program: str = "xterm") -> None:
        self.root = root
        self.program = program
        self.printed = ""

    def __enter__(self) -> "Window":
        self._folder = Path(tempfile.mkdtemp(prefix="ralph-window-"))
        real = Path(sys.executable).resolve()
        copy = self._folder / self.program
        shutil.copy2(real, copy)
        shell = ["bash", "--norc", "--noprofile", "-i"]
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CLAUDE", "CODEX", "RALPH")) and name != "CI"
        }
        library = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
        env |= {
            "PS1": PROMPT,
            "TERM": "xterm",
            "PYTHONHOME": sys.base_prefix,
            "LD_LIBRARY_PATH": str(library),
        }
        self._process = subprocess.Popen(
            [str(copy), "-c", _TERMINAL, *shell],
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        self.type("unset PYTHONHOME LD_LIBRARY_PATH; stty -echo; echo rea''dy")
        self.wait("ready")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def type(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def wait(self, expected: str) -> str:
        """Wait until some words are printed, and return everything since the last wait."""
        assert self._process.stdout
        output = self._process.stdout.fileno()
        until = time.monotonic() + SECONDS
        while expected not in self.printed:
            ready = select.select([output], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, self.printed
            piece = os.read(output, 65536)
            assert piece, self.printed
            self.printed += piece.decode("utf-8", "replace")
        text, self.printed = self.printed, ""
        return text

    def run(self, words: str, question: str = "", answer: str = "") -> str:
        """Run a command, answer its question, and return what it printed."""
        self.type(f"{' '.join(command())} {words}; echo end''ed with $?")
        text = ""
        if question:
            text = self.wait(question)
            self.type(answer)
        return text + self.wait("ended with ")
