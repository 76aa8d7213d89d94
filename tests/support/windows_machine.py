"""A user of Windows, whose commands are processes with warnings as errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class Machine:
    """A user of Windows with one project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "größe project"
        (self.root / ".git").mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "RALPH_", "CLAUDE"))
        }
        for name in ("APPDATA", "LOCALAPPDATA"):
            (self.home / name).mkdir(parents=True)
            self.env[name] = str(self.home / name)
        self.env |= {
            "USERPROFILE": str(self.home),
            "HOMEDRIVE": self.home.drive,
            "HOMEPATH": str(self.home)[len(self.home.drive) :],
            "PYTHONWARNINGS": "error",
            "PYTHONWARNDEFAULTENCODING": "1",
            "RALPH_EMBEDDING_PROVIDER": "none",
            "CI": "true",
        }

    def run(self, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a program in the project."""
        return subprocess.run(
            argv, cwd=self.root, env=self.env, input=stdin, capture_output=True, check=False
        )

    def ralph(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command that succeeds without a warning, and return what it prints."""
        ended = self.run(sys.executable, "-m", "ralph", *words, stdin=stdin)
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        assert b"Warning" not in ended.stderr, (words, ended.stderr)
        assert b"\r" not in ended.stdout or os.linesep == "\r\n"
        return ended.stdout.decode("utf-8").replace("\r\n", "\n")

    def json(self, *words: str) -> Any:
        """Run a command that prints JSON."""
        return json.loads(self.ralph(*words, "--format", "json"))

    @property
    def memories(self) -> bytes:
        """The bytes of the memory file."""
        return (self.root / ".agent" / "memories.md").read_bytes()
