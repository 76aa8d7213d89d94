"""The command line as its users meet it: words in, exit code and two streams out.

`Project` runs `ralph.cli.main.run` in this process, so that errors pass through the front door and
hundreds of calls stay fast; `executable` starts the real command for what only a process shows
(pipes, signals, exit status). Streams are real text wrappers over bytes, because the front door
reconfigures them. Files of a project are written by hand here, never by the code under test.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralph.cli.main import run
from ralph.core import paths

SECTION_OF = {"pattern": "Patterns", "decision": "Decisions", "fix": "Fixes", "context": "Context"}


@dataclass(frozen=True, slots=True)
class Said:
    """What one call said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output, which must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def ids(self) -> list[str]:
        """The ids in a JSON listing, in its order."""
        return [entry["id"] for entry in self.json]


@dataclass(frozen=True, slots=True)
class Block:
    """One entry as it is written into a file by hand."""

    text: str
    id: str = "mem-1705751400-a3f8"
    tags: str = ""
    created: str = "2025-01-20"
    kind: str = "pattern"
    more: str = ""

    def __str__(self) -> str:
        quote = "\n".join(f"> {line}" if line else ">" for line in self.text.split("\n"))
        return f"### {self.id}\n{quote}\n<!-- tags: {self.tags} | created: {self.created}{self.more} -->\n"


def page(*blocks: Block, title: str = "Memories") -> str:
    """A whole file with the blocks under their sections."""
    parts = [f"# {title}\n"]
    for kind, section in SECTION_OF.items():
        parts.append(f"## {section}\n")
        parts.extend(str(block) for block in blocks if block.kind == kind)
    return "\n".join(parts)


def shortened(record_id: str) -> str:
    """The short form of an id, as tables show it."""
    kind, _, tail = record_id.split("-")
    return f"{kind}-{tail}"


def numbered(number: int) -> str:
    """The id of the n-th entry of a made file."""
    return f"mem-{1705751400 + number}-a{number:03x}"


class Project:
    """One project's folder, and `ralph` called inside it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *words: str, stdin: str | bytes = b"", cwd: Path | None = None) -> Said:
        """Run one command in this process; `cwd` is where it is called from."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = io.BytesIO(), io.BytesIO()
        before = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        streams = [
            io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
            for raw in (out, err)
        ]
        try:
            with (
                contextlib.chdir(cwd or self.root),
                contextlib.redirect_stdout(streams[0]),
                contextlib.redirect_stderr(streams[1]),
            ):
                code = run(words)
        finally:
            sys.stdin = before
        return Said(code, out.getvalue().decode(), err.getvalue().decode())

    def file(self, name: str) -> Path:
        """A path inside the project; names below log/ and cache/ are in its state folder."""
        return paths.source_path(self.root, name)

    def put(self, name: str, text: str) -> Path:
        """Write a file by hand, with its folders; bytes as they are."""
        path = self.file(name)
        before = (
            os.umask(0o077)
            if path.is_relative_to(paths.state_folder(self.root))
            else os.umask(0o022)
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        os.umask(before)
        path.write_bytes(text.encode())
        return path

    def read(self, name: str = ".agent/memories.md") -> str:
        """A file's text, line ends as they are."""
        return self.file(name).read_bytes().decode()

    def memories(self, *blocks: Block) -> Path:
        """Write memories.md with these blocks."""
        return self.put(".agent/memories.md", page(*blocks))

    def guardrails(self, *blocks: Block) -> Path:
        """Write guardrails.md with these blocks."""
        return self.put(".ralph/guardrails.md", page(*blocks, title="Guardrails"))

    def everything(self) -> bytes:
        """Every byte of every file of the project, names included, to search for what must not be there."""
        return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path in self.files())

    def files(self) -> list[Path]:
        """Every file of the project and of its state; git's own are left out."""
        state = paths.state_folder(self.root)
        places = (
            p for p in self.root.rglob("*") if ".git" not in p.parts or p.is_relative_to(state)
        )
        return sorted(p for p in places if p.is_file())

    def marks(self) -> dict[str, tuple[bytes, int, int]]:
        """Each file's bytes, time of change and inode: equal marks mean that nothing was written."""
        return {
            str(p): (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in self.files()
        }


def command() -> list[str]:
    """The words that start the real `ralph`."""
    found = shutil.which("ralph", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-m", "ralph"]


def executable(
    root: Path, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the real command in a process of its own."""
    return subprocess.run(
        [*command(), *words],
        cwd=root,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        check=False,
    )


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo terminal's two ends, for a process that must believe somebody is looking."""
    outer, inner = os.openpty()
    try:
        yield outer, inner
    finally:
        for handle in (outer, inner):
            with contextlib.suppress(OSError):
                os.close(handle)


def on_a_terminal(root: Path, *words: str, env: Mapping[str, str] | None = None) -> bytes:
    """What the real command sends to a terminal."""
    return _printed_on_a_terminal(root, [*command(), *words], env or {})


def all_on_a_terminal(
    root: Path, calls: Sequence[Sequence[str]], env: Mapping[str, str] | None = None
) -> str:
    """Run several commands in one process, and return what they send to its terminal."""
    code = f"from ralph.cli.main import run\nfor words in {[list(words) for words in calls]!r}: run(words)"
    return _printed_on_a_terminal(root, [sys.executable, "-c", code], env or {}).decode()


def _printed_on_a_terminal(root: Path, program: list[str], env: Mapping[str, str]) -> bytes:
    printed = b""
    with (
        terminal() as (outer, inner),
        subprocess.Popen(
            program, cwd=root, stdin=subprocess.DEVNULL, stdout=inner, stderr=inner,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", **env},
        ),
    ):  # fmt: skip
        os.close(inner)
        with contextlib.suppress(OSError):  # the other end is closed when the program has ended
            while piece := os.read(outer, 65536):
                printed += piece
    return printed
