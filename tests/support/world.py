"""A project with its settings cache, and the real hook process in a clean environment."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ralph.hooks
from ralph.capture import recorder
from ralph.core import config, paths
from ralph.hooks.handler import run_event

_WINDOWS_NEEDS = ("SYSTEMROOT",)  # without it, programs do not start there
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
        return {
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
            "HOME": str(self.home),
            "CLAUDE_PROJECT_DIR": str(self.root),
            "PATH": "/usr/bin:/bin",
            **{name: os.environ[name] for name in _WINDOWS_NEEDS if name in os.environ},
            **self.more,
        }

    @property
    def log(self) -> Path:
        return paths.log_folder(self.root) / "sessions" / f"{SESSION}.jsonl"

    def cached(self) -> None:
        """Write the settings cache as a command does."""
        assert recorder.write_settings(
            self.root, config.load(self.root, env=self.env), env=self.env
        )

    def lines(self) -> list[dict[str, object]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def failures(self) -> int:
        counted = recorder.read_failures(self.root)
        return counted.count if counted else 0


def world(folder: Path) -> World:
    made = World(folder / "proj", folder / "home")
    (made.root / ".git").mkdir(parents=True)
    (made.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    made.home.mkdir()
    (made.root / "ralph.yml").write_text("memories:\n  budget: 1500\n", encoding="utf-8")
    made.cached()
    return made


def payload(event: str = "PostToolUse", **members: object) -> bytes:
    """What Claude Code sends, in its order and on one line."""
    sent: dict[str, object] = {"session_id": SESSION, "cwd": "/nowhere", "hook_event_name": event}
    if "ToolUse" in event:
        sent |= {
            "tool_name": "Bash",
            "tool_input": {"command": "echo hi"},
            "tool_response": {"stdout": "hi"},
        }
    return json.dumps(sent | members, ensure_ascii=False, separators=(",", ":")).encode()


def hook(
    event: str,
    stdin: bytes,
    env: Mapping[str, str],
    *,
    host: str = "claude",
    cwd: Path | None = None,
    more: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[bytes]:
    """One event, as a host starts it."""
    command = [sys.executable, "-I", "-S", str(HOOKS / "run.py"), host, event, *more]
    return subprocess.run(
        command, input=stdin, env=dict(env), cwd=cwd, capture_output=True, check=False
    )


def patient_hook(
    event: str,
    stdin: bytes,
    env: Mapping[str, str],
    *,
    host: str = "claude",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """One event in a process whose deadlines do not depend on the load of the machine."""
    script = Path(__file__).with_name("patient_hook.py")
    command = [sys.executable, "-I", "-S", str(script), str(HOOKS.parents[1]), host, event]
    return subprocess.run(
        command, input=stdin, env=dict(env), cwd=cwd, capture_output=True, check=False
    )


def late_hook(
    event: str, stdin: bytes, env: Mapping[str, str], *, step: str
) -> subprocess.CompletedProcess[bytes]:
    """One event in a process whose time is up when it calls `step`, such as `ralph.core.ids:now`."""
    script = Path(__file__).with_name("late_hook.py")
    command = [
        sys.executable,
        "-I",
        "-S",
        str(script),
        str(HOOKS.parents[1]),
        step,
        "claude",
        event,
    ]
    return subprocess.run(command, input=stdin, env=dict(env), capture_output=True, check=False)


def call_hook(
    event: str,
    stdin: bytes,
    env: Mapping[str, str],
    *,
    host: str = "claude",
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """One event in this process, for what does not depend on a process; the environment is `env` alone."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        with contextlib.chdir(cwd or Path.cwd()):
            return subprocess.CompletedProcess(
                [], 0, run_event(host, event, stdin, os.environ), b""
            )
    finally:
        os.environ.clear()
        os.environ.update(before)


def handled(env: Mapping[str, str], event: str, sent: bytes, host: str = "claude") -> bytes:
    """What an event prints, without a process of its own."""
    return run_event(host, event, sent, env)
