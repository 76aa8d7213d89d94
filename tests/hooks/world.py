"""A project with its settings cache, and the real hook process in a clean environment."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ralph.hooks
from ralph import config
from ralph.app import hook_settings

HOOKS = Path(ralph.hooks.__file__).parent
SESSION = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class World:
    """A project in a git checkout, and a home without settings."""

    root: Path
    home: Path
    more: Mapping[str, str] = field(default_factory=dict)
    """Further variables."""

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.root), "PATH": "/usr/bin:/bin", **self.more}

    @property
    def log(self) -> Path:
        return self.root / ".ralph" / "log" / "sessions" / f"{SESSION}.jsonl"

    def cached(self) -> None:
        """Write the settings cache as the full path does."""
        assert hook_settings.write(self.root, config.load(self.root, env=self.env), env=self.env)

    def lines(self) -> list[dict[str, object]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def failures(self) -> int:
        found = hook_settings.failures(self.root)
        return found.count if found else 0


def world(folder: Path) -> World:
    made = World(folder / "proj", folder / "home")
    (made.root / ".git").mkdir(parents=True)
    made.home.mkdir()
    (made.root / "ralph.yml").write_text("memories:\n  budget: 1500\n", encoding="utf-8")
    made.cached()
    return made


def payload(event: str = "PostToolUse", **members: object) -> bytes:
    """What Claude Code sends, in its order and on one line."""
    said: dict[str, object] = {"session_id": SESSION, "cwd": "/nowhere", "hook_event_name": event}
    if "ToolUse" in event:
        said |= {"tool_name": "Bash", "tool_input": {"command": "echo hi"}, "tool_response": {"stdout": "hi"}}
    return json.dumps(said | members, ensure_ascii=False, separators=(",", ":")).encode()


def hook(
    event: str,
    stdin: bytes,
    env: Mapping[str, str],
    *,
    host: str = "claude",
    cwd: Path | None = None,
    flags: str = "-I",
) -> subprocess.CompletedProcess[bytes]:
    """One event, as a host starts it."""
    command = [sys.executable, flags, "-S", str(HOOKS / "run.py"), host, event]
    return subprocess.run(command, input=stdin, env=dict(env), cwd=cwd, capture_output=True, check=False)
