"""Transcripts of Claude Code, and what an import makes of them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.runner import Project, Said

from ralph.core import paths
from ralph.storage import files

SESSION = "46841dad-3d82-43c9-9844-3ff7d6e15733"

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


class Claude:
    """A made transcript of Claude Code, in the form of 2.1.325."""

    def __init__(self, cwd: Path, session: str = SESSION) -> None:
        self.cwd, self.session, self.values = cwd, session, list[dict[str, Any]]()

    def line(self, kind: str, content: object, **members: object) -> "Claude":
        number = len(self.values)
        message = {"role": kind, "content": content, "id": f"msg_{number}"}
        at = f"2026-02-03T10:{number // 60:02}:{number % 60:02}.000Z"
        value = {
            "type": kind,
            "message": message,
            "timestamp": at,
            "cwd": str(self.cwd),
            "sessionId": self.session,
        }
        self.values.append(value | members)
        return self

    def prompt(self, text: str) -> "Claude":
        return self.line("user", text)

    def say(self, text: str) -> "Claude":
        return self.line("assistant", [{"type": "text", "text": text}])

    def use(
        self,
        tool: str,
        result: object,
        details: object = None,
        *,
        failed: bool = False,
        **parameters: object,
    ) -> "Claude":
        name = f"toolu_{len(self.values):04}"
        self.line(
            "assistant", [{"type": "tool_use", "id": name, "name": tool, "input": parameters}]
        )
        block = {"type": "tool_result", "tool_use_id": name, "content": result, "is_error": failed}
        return self.line("user", [block], toolUseResult=details)

    def write(self, home: Path, name: str = "") -> Path:
        path = home / ".claude" / "projects" / "-project" / f"{name or self.session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"type": "attachment", "attachment": {"type": "x"}}),
            *map(json.dumps, self.values),
        ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


@pytest.fixture
def home() -> Path:
    """The home of the user whose clients are read."""
    folder = Path(os.environ["HOME"])
    folder.mkdir()
    return folder


def work(root: Path) -> Claude:
    """A session that makes a file, fails, and ends."""
    made = Claude(root).prompt("please make the parser")
    patch = [{"lines": ["-a = 1", "+a = 2"]}]
    details = {"filePath": f"{root}/src/a.ts", "originalFile": "a = 1\n", "structuredPatch": patch}
    made.use(
        "Edit",
        "updated",
        details,
        file_path=f"{root}/src/a.ts",
        old_string="a = 1",
        new_string="a = 2",
    )
    made.use(
        "Read",
        "1\tvery long file",
        {"file": {"content": "very long file"}},
        file_path=f"{root}/src/a.ts",
    )
    made.use(
        "Bash",
        "Exit code 3\nboom happened",
        "Error",
        failed=True,
        command=f"npm test --token {TOKEN}",
    )
    return made.say("The parser is made.")


def sessions(ralph: Project) -> str:
    """The text of all logs of sessions."""
    return "".join(
        files.read(path) or ""
        for path in paths.log_files(paths.log_folder(ralph.root) / "sessions")
    )


def stored(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, packed ones unpacked."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with files.open_unpacked(path) as file:
                found[path] = file.read()
    return found


def observations(ralph: Project) -> list[dict[str, Any]]:
    """The observations in the logs of sessions."""
    return [
        value
        for value in map(json.loads, sessions(ralph).splitlines())
        if value["type"] == "observation"
    ]


def bring(ralph: Project, *words: str) -> Said:
    """Import, and expect that it goes well."""
    said = ralph("import", "--yes", *words)
    assert said.code == 0, said.err
    return said
