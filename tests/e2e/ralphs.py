"""Ralph in a client's home and project: the real commands, and what is on the disk afterwards.

Everything is done by the commands that a person types: `ralph init`, `ralph memory add`, `ralph install`. They run
with the client's clean environment, in this process; `call` starts a process for what only a process shows. What was
recorded is read from `ralph session show`, and from the bytes under `.ralph` and `.agent` where nothing may be.
`printed` is what a hook injected; that it reached the model is for the test to say.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.clients import LONGEST_RUN, Client, Run
from tests.e2e.scripted import Json, Reply, Request, use

from ralph.cli.main import run as run_command
from ralph.core import paths

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "plugin"
_NEXT_SECTION = {"pattern": "## Decisions\n", "decision": "## Fixes\n", "fix": "## Context\n"}
_PLACES = (".ralph", ".agent", "ralph.yml")


def bash(command: str) -> Reply:
    """A step: Claude Code runs a command."""
    return use("Bash", command=command, description="a command")


def write(path: Path, text: str) -> Reply:
    """A step: Claude Code writes a file."""
    return use("Write", file_path=str(path), content=text)


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation, as `ralph session show` tells it."""

    id: str
    kind: str
    title: str
    text: str
    extra: Json


class Ralph:
    """Ralph for one client."""

    def __init__(self, client: Client) -> None:
        self.client, self.project = client, client.project

    def call(
        self, *words: object, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `ralph` with these words in a process of its own, as the user of the client."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "ralph", *map(str, words)],
            cwd=self.project,
            env=self.client.environment | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST_RUN,
            check=False,
        )

    def start(self, *words: object) -> str:
        """Run `ralph` with these words in a process of its own, and return what it prints; it must not fail."""
        done = self.call(*words)
        assert done.returncode == 0, f"ralph {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def __call__(self, *words: object) -> str:
        """Run `ralph` with these words in this process, and return what it prints; it must not fail."""
        out, errors = io.BytesIO(), io.BytesIO()
        texts = [
            io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
            for raw in (out, errors)
        ]
        with (
            # Without a terminal, only a CI job may trust something.
            _environment({**self.client.environment, "CI": "true"}),
            contextlib.chdir(self.project),
            contextlib.redirect_stdout(texts[0]),
            contextlib.redirect_stderr(texts[1]),
        ):
            code = run_command([str(word) for word in words])
        assert code == 0, f"ralph {words}: {out.getvalue().decode()}{errors.getvalue().decode()}"
        return out.getvalue().decode("utf-8")

    def begin(self, host: str = "claude", scope: str = "user") -> "Ralph":
        """Set up a project that remembers, with the hooks in the host's settings.

        Without the MCP server: `test_mcp.py` has it, and starting it doubles the cost of a client's run.
        """
        self("init")
        self("install", host, "--scope", scope, "--no-mcp")
        return self

    def remember(self, text: str, kind: str = "pattern", tags: str = "") -> str:
        """Add a memory; gives its id."""
        said = self("memory", "add", text, "-t", kind, *(["--tags", tags] if tags else []))
        found = re.search(r"mem-\d+-[0-9a-f]+", said)
        assert found, said
        return found[0]

    def remember_many(self, count: int, kind: str = "pattern") -> dict[str, str]:
        """So many memories on nothing in particular, written by hand behind the others of their kind: text by id."""
        now = datetime.now(UTC)
        texts = {
            f"mem-{int(now.timestamp()) + at}-{at:04x}": _filler(at).strip() for at in range(count)
        }
        entries = "".join(
            f"\n### {name}\n> {text}\n<!-- tags: filler | created: {now.date()} -->\n"
            for name, text in texts.items()
        )
        file = self.project / ".agent/memories.md"
        head, heading, tail = file.read_text(encoding="utf-8").partition(_NEXT_SECTION[kind])
        with file.open("w", encoding="utf-8", newline="") as out:
            out.write(f"{head.rstrip()}\n{entries}\n{heading}{tail}")
        return texts

    # --- what is on the disk ---------------------------------------------------------------------

    def observations(self, session: str) -> list[Seen]:
        """Everything that was observed in a session, in its order."""
        said = json.loads(self("session", "show", session, "--layer", "3", "--format", "json"))
        return [
            Seen(name, each["type"], each["title"], each["text"], each.get("extra", {}))
            for each in said["hits"]
            for name in (each["id"], *each.get("repeats", ()))
        ]

    def sessions(self) -> list[Json]:
        """The sessions that are known, the newest first."""
        found: list[Json] = json.loads(self("session", "list", "--format", "json"))
        return found

    def log(self, session: str) -> Path:
        """The session's log."""
        return paths.log_folder(self.project) / "sessions" / f"{session}.jsonl"

    def events(self, session: str) -> list[str]:
        """The lines of a session's log, each by the event (or the type of record) that it holds; each is whole."""
        lines = [
            json.loads(line) for line in self.log(session).read_text(encoding="utf-8").splitlines()
        ]
        return [str(line.get("event") or line["type"]) for line in lines]

    def files(self) -> dict[str, bytes]:
        """Every file of Ralph's with its bytes: in the project, and by its name in the state folder."""
        state = paths.state_folder(self.project)
        own = (
            path
            for place in _PLACES
            for path in _below(self.project / place)
            if not path.is_symlink()
        )
        kept = {
            path.relative_to(self.project).as_posix(): path
            for path in own
            if not path.is_relative_to(state)
        }
        kept |= {path.relative_to(state).as_posix(): path for path in state.rglob("*")}
        return {name: path.read_bytes() for name, path in kept.items() if path.is_file()}

    def holding(self, *texts: str) -> list[str]:
        """The files that hold one of these texts, as UTF-8, in any case, or as UTF-16."""
        forms = [
            form
            for text in texts
            for form in (text.lower().encode(), text.lower().encode("utf-16-le"))
        ]
        return [
            name
            for name, held in self.files().items()
            if any(form in held.lower() for form in forms)
        ]

    def injections(self, session: str) -> list[tuple[str, str]]:
        """What the ledger says was injected into a session: the event, and the record."""
        ledger = paths.log_folder(self.project) / "injections.jsonl"
        lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
        said = [json.loads(line) for line in lines]
        meant = [
            line for line in said if line["session"] == session and line["type"] == "injection"
        ]
        return [(line["event"], line["record"]) for line in meant]


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Make these the only variables of this process, and nobody's standard input, for a while."""
    before, stdin = dict(os.environ), sys.stdin
    os.environ.clear()
    os.environ.update(values)
    try:
        with Path(os.devnull).open(encoding="utf-8") as sys.stdin:
            yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)


def _filler(number: int) -> str:
    """A text that no other has, of some 220 characters and 60 tokens."""
    return (
        f"Filler widget{number} "
        + "is one of many that say nothing in particular and only take their room. " * 3
    )


def _below(place: Path) -> Iterable[Path]:
    return place.rglob("*") if place.is_dir() else [place]


# --- what reached the model ----------------------------------------------------------------------


def short(name: str) -> str:
    """An id as lines for agents show it."""
    return f"{name.partition('-')[0]}-{name[-4:]}"


def results(request: Request) -> list[str]:
    """The results of tools that a request has (Claude Code)."""
    blocks = [
        block
        for message in request.body["messages"]
        for block in message["content"]
        if isinstance(block, dict)
    ]
    return [str(block["content"]) for block in blocks if block.get("type") == "tool_result"]


def printed(run: Run, event: str) -> list[str]:
    """Return the context from the hooks of an event in full, as Claude Code reports it.

    An answer may hold nothing but a message for the user, such as one about a slow hook.
    """
    answers = [
        json.loads(each["stdout"])
        for each in run.hooks
        if each["hook_event"] == event and each["stdout"].strip()
    ]
    return [
        answer["hookSpecificOutput"]["additionalContext"]
        for answer in answers
        if "hookSpecificOutput" in answer
    ]


def went_well(run: Run) -> None:
    """The session ended as it should, and no hook was noticed by the client."""
    assert run.code == 0, run.errors
    assert {(each["exit_code"], each["stderr"]) for each in run.hooks} <= {(0, "")}
    for each in run.hooks:
        assert not each["stdout"].strip() or json.loads(each["stdout"])
