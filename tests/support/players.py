"""Programs that play a client: they print what they were told to, and note how they were called."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CODE = """\
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("9.9.9 (player)")
    sys.exit(0)
seen = {"argv": sys.argv[1:], "stdin": sys.stdin.buffer.read().decode(), "env": dict(os.environ), "cwd": os.getcwd()}
(here / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
sys.stdout.buffer.write((here / "out").read_bytes())
sys.stdout.flush()
sys.stderr.buffer.write((here / "err").read_bytes())
sys.stderr.flush()
if (here / "hang").exists():
    time.sleep(600)
sys.exit(int((here / "code").read_text(encoding="utf-8")))
"""


@dataclass(frozen=True, slots=True)
class Player:
    """Such a program in a folder of its own."""

    folder: Path

    @property
    def program(self) -> tuple[str, ...]:
        """The words that start it."""
        return (sys.executable, str(self.folder / "play.py"))

    @property
    def seen(self) -> dict[str, Any]:
        """How it was called: argv, stdin, env, cwd."""
        found: dict[str, Any] = json.loads((self.folder / "seen.json").read_text(encoding="utf-8"))
        return found

    def installed(self, name: str) -> Path:
        """A folder for the PATH in which it goes by this name."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nexec "{self.program[0]}" "{self.program[1]}" "$@"\n', encoding="utf-8"
        )
        path.chmod(0o755)
        return path.parent


def player(
    folder: Path,
    events: Sequence[object] = (),
    *,
    raw: str = "",
    err: str = "",
    code: int = 0,
    hang: bool = False,
) -> Player:
    """A program that prints these events, one a line, then `raw`, and ends with this code or never."""
    folder.mkdir(parents=True, exist_ok=True)
    out = "".join(json.dumps(event) + "\n" for event in events) + raw
    for name, text in {"play.py": _CODE, "out": out, "err": err, "code": str(code)}.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    if hang:
        (folder / "hang").touch()
    return Player(folder)
