"""The real clients as a test sees them: a home, a project, one run after another, and nothing left behind.

A client never gets the caller's environment: only PATH, a temporary home and temporary folder, and the
variables that keep it on loopback and quiet. It runs in a process group of its own and writes into files,
so a test can kill it in the middle and still read what it said. Every process below a client carries the
temporary home in its environment; `leftovers` finds them by that, wherever they went. Hooks are given in
the host's own JSON: Claude Code executes `args` without a shell, Codex knows only a shell's command line.
Proof: `test_harness.py`.
"""

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.scripted import Json, ModelServer, Request

# A run takes one to three seconds; this only ends one that hangs.
LONGEST_RUN = 120.0
# How long a process may outlive its client before it counts as left over.
GRACE = 5.0
PLAIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
PLAIN |= {
    "XDG_STATE_HOME": os.environ.get("XDG_STATE_HOME", "")
}  # the machine id that the tests have
QUIET_CLAUDE = {
    "ANTHROPIC_API_KEY": "made-up",
    "IS_SANDBOX": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
}
EVENT_STREAM = ("--output-format", "stream-json", "--verbose", "--include-hook-events")
# Codex fetches plugins with git, and may start a daemon, unless told not to.
CODEX_CONFIG = """\
model = "gpt-5.1-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
daemon_auto_start = false
plugin_discovery_prefetch = false
plugins = false
remote_plugin = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def exec_hook(*words: object, timeout: int = 10) -> Json:
    """A hook entry that Claude Code executes without a shell."""
    program, *rest = map(str, words)
    return {"type": "command", "command": program, "args": rest, "timeout": timeout}


def shell_hook(*words: object, timeout: int = 3) -> Json:
    """The same as one command line: Codex drops `args` and would start the bare program."""
    return {"type": "command", "command": shlex.join(map(str, words)), "timeout": timeout}


def hooked(events: Iterable[str], *entries: Json) -> Json:
    """The `hooks` object of a settings file: these entries on every event."""
    return {event: [{"hooks": list(entries)}] for event in events}


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a client did; `code` is negative when a signal ended it."""

    code: int
    events: tuple[Json, ...]
    errors: str
    requests: tuple[Request, ...]

    def of(self, kind: str, subtype: str | None = None) -> list[Json]:
        """The events of this type (and subtype)."""
        return [
            event
            for event in self.events
            if event.get("type") == kind and subtype in (None, event.get("subtype"))
        ]

    @property
    def session(self) -> str:
        """The session's id, to resume it by."""
        for event in self.events:
            found = event.get("session_id") or event.get("thread_id")
            if found:
                return str(found)
        raise AssertionError(f"no session in the output; stderr was: {self.errors}")

    @property
    def text(self) -> str:
        """The final answer."""
        if results := self.of("result"):
            return str(results[-1].get("result", ""))
        said = [
            event["item"]["text"]
            for event in self.of("item.completed")
            if event["item"].get("text")
        ]
        return str(said[-1]) if said else ""

    @property
    def hooks(self) -> list[Json]:
        """What every hook did (Claude Code): `hook_event`, `exit_code`, `stdout`, `stderr`, `outcome`."""
        return self.of("system", "hook_response")


class Running:
    """A client that has been started: wait for its end, or kill it."""

    def __init__(
        self,
        words: list[str],
        folder: Path,
        env: Mapping[str, str],
        out: Path,
        server: ModelServer,
        stdin: str = "",
    ) -> None:
        given = _written(out.with_suffix(".in"), stdin)
        self._said, self._errors = out.with_suffix(".out"), out.with_suffix(".err")
        self._server, self._before = server, len(server.requests)
        with (
            given.open("rb") as typed,
            self._said.open("wb") as said,
            self._errors.open("wb") as errors,
        ):
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(env),
                stdin=typed,
                stdout=said,
                stderr=errors,
                start_new_session=True,
            )

    def wait(self, timeout: float = LONGEST_RUN) -> Run:
        """Its run, once it has ended; a hanging one is killed and fails the test."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        lines = self._said.read_text(encoding="utf-8").splitlines()
        return Run(
            code=code,
            events=tuple(event for line in lines if (event := _parsed(line)) is not None),
            errors=self._errors.read_text(encoding="utf-8"),
            requests=tuple(self._server.requests[self._before :]),
        )

    def kill(self) -> Run:
        """End it at once, with SIGKILL to its whole process group; gives what it had done until then."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.wait()


def _parsed(line: str) -> Json | None:
    """One event; None for a line that a kill cut short or that is no event."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class Client:
    """What the clients have in common: folders, an environment, and their processes."""

    def __init__(self, program: Path, folder: Path, server: ModelServer) -> None:
        self.program, self.server = program, server
        self.home, self.project, self.temporary = (
            folder / "home",
            folder / "project",
            folder / "tmp",
        )
        self._out = folder / "out"
        for each in (self.home, self.project, self.temporary, self._out):
            each.mkdir(parents=True)
        self.environment = PLAIN | {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        self._running: list[Running] = []

    def _start(
        self, words: Iterable[object], env: Mapping[str, str] | None, stdin: str = ""
    ) -> Running:
        out = self._out / f"{len(self._running):02}"
        environment = self.environment | dict(env or {})
        running = Running(
            [str(self.program), *map(str, words)],
            self.project,
            environment,
            out,
            self.server,
            stdin,
        )
        self._running.append(running)
        return running

    def write(self, name: str, text: str) -> Path:
        """A file in the project."""
        return _written(self.project / name, text)

    def call(
        self, *words: object, timeout: float = LONGEST_RUN
    ) -> subprocess.CompletedProcess[str]:
        """Run the client's program with these words, for what is no conversation."""
        return subprocess.run(
            [str(self.program), *map(str, words)],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    def leftovers(self, grace: float = GRACE) -> list[str]:
        """The command lines of processes that still live in this home (Linux only); waits for the dying."""
        if sys.platform != "linux":
            return []
        with contextlib.ExitStack() as stack:
            watch = select.poll()
            pids: dict[int, int] = {}
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):
                    descriptor = os.pidfd_open(pid)
                    stack.callback(os.close, descriptor)
                    watch.register(descriptor, select.POLLIN)
                    pids[descriptor] = pid
            while pids and (ended := watch.poll(grace * 1000)):
                for descriptor, _ in ended:
                    watch.unregister(descriptor)
                    del pids[descriptor]
        return [f"{pid}: {_command(pid)}" for pid in self._pids()]

    def _pids(self) -> list[int]:
        mark = f"HOME={self.home}".encode()
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def close(self, grace: float = GRACE) -> list[str]:
        """End whatever still runs; gives what was left over after the clients had ended by themselves."""
        for running in self._running:
            if running.process.poll() is None:
                running.kill()
        left = self.leftovers(grace)
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    return "(gone)"


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


class Claude(Client):
    """Claude Code in a home and a project of its own."""

    def __init__(self, program: Path, folder: Path, server: ModelServer) -> None:
        super().__init__(program, folder, server)
        self.environment |= QUIET_CLAUDE | {"ANTHROPIC_BASE_URL": server.url}

    def settings(self, value: Mapping[str, Any], *, scope: str = "project") -> Path:
        """Write the settings of a scope: `user`, `project` or `local`."""
        places = {
            "user": self.home / ".claude/settings.json",
            "project": self.project / ".claude/settings.json",
            "local": self.project / ".claude/settings.local.json",
        }
        return _written(places[scope], json.dumps(dict(value), indent=2) + "\n")

    def start(
        self,
        prompt: str,
        *words: object,
        resume: str = "",
        plugin_dir: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Running:
        """Start `claude -p` with this prompt."""
        line: list[object] = ["-p", prompt, "--dangerously-skip-permissions", *EVENT_STREAM]
        if resume:
            line += ["--resume", resume]
        if plugin_dir is not None:
            line += ["--plugin-dir", plugin_dir]
        return self._start([*line, *words], env)

    def run(
        self,
        prompt: str,
        *words: object,
        resume: str = "",
        plugin_dir: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = LONGEST_RUN,
    ) -> Run:
        """Run `claude -p` with this prompt to its end."""
        return self.start(prompt, *words, resume=resume, plugin_dir=plugin_dir, env=env).wait(
            timeout
        )

    def converse(self, *prompts: str) -> Run:
        """Run `claude -p` with these prompts, one turn after the other in one session, to its end."""
        turns = (
            {"type": "user", "message": {"role": "user", "content": prompt}} for prompt in prompts
        )
        words = [
            "-p",
            "--dangerously-skip-permissions",
            "--input-format",
            "stream-json",
            *EVENT_STREAM,
        ]
        return self._start(words, None, "".join(f"{json.dumps(turn)}\n" for turn in turns)).wait()

    def plugin(self, *words: object) -> subprocess.CompletedProcess[str]:
        """`claude plugin ...`: validate, marketplace, install."""
        return self.call("plugin", *words)


class Codex(Client):
    """Codex in a home and a project of its own."""

    def __init__(self, program: Path, folder: Path, server: ModelServer) -> None:
        super().__init__(program, folder, server)
        self.environment |= {"SCRIPTED_KEY": "made-up"}
        self.configure()

    def configure(self, text: str = "") -> Path:
        """Write `config.toml`; `text` are top-level lines that go first."""
        return _written(
            self.home / ".codex/config.toml", text + CODEX_CONFIG.format(url=self.server.url)
        )

    def settings(self, value: Mapping[str, Any]) -> Path:
        """Write `hooks.json`: `{"hooks": ...}`."""
        return _written(self.home / ".codex/hooks.json", json.dumps(dict(value), indent=2) + "\n")

    def start(
        self, prompt: str, *words: object, resume: str = "", env: Mapping[str, str] | None = None
    ) -> Running:
        """Start `codex exec` with this prompt."""
        line = [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            *words,
        ]
        return self._start([*line, *(["resume", resume] if resume else []), prompt], env)

    def run(
        self,
        prompt: str,
        *words: object,
        resume: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float = LONGEST_RUN,
    ) -> Run:
        """Run `codex exec` with this prompt to its end."""
        return self.start(prompt, *words, resume=resume, env=env).wait(timeout)
