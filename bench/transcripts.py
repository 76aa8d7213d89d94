"""Measure `ralph import` with generated transcripts in Claude Code's format, against the unavoidable work.

The format is that of Claude Code 2.1.325, whose own transcripts were measured: a session begins with 130 KB of
attachments and the shape of its requests, each request is a line of 1.4 KB, a line contains a result twice (as the
model saw it, and as an object), and an edit includes the whole file. Files have 9 KB (median; this project's 12 KB).
The mix of calls is that of `bench/sessions.py`. The limit is twice the time of one pass of the secret rules over the
texts that are kept, and of indexing these rows, in CPU seconds. The state has two parts: logs, and the index derived
from them.

No block of text is repeated: a repeated one is cheaper to insert into a full-text index than real text, because its
words are already there, and some results for it are cached while it is imported.

    python bench/transcripts.py [share]     share of the 300 transcripts (120 MB) to generate; 1 for all
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.sessions import Words

from ralph.core import paths
from ralph.formats.log import parse_log
from ralph.privacy.privacy import redact
from ralph.search import index
from ralph.storage import files

COUNT, BYTES = 300, 120_000_000
"""Number of transcripts, and their total size in bytes."""
AT_MOST = {"time": 2.0, "state": 0.15, "again": 0.05}
_SIGNATURE_BYTES = 450
_HASH_BYTES = 32
_START = datetime(2026, 1, 5, 8, tzinfo=UTC)
SECRETS = (
    "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A",
    "AKIA" + "QX7ZJ4M2N6P3R5T8",
    "sk-ant-api03-" + "xK9" * 31 + "AA",
    "postgres://app:" + "hV7-pQ2_zX9w" + "@db.internal/prod",
)


def make(folder: Path, project: Path, share: float = 1.0) -> int:
    """Write the transcripts of a project to Claude Code's folder; return their size in bytes."""
    words, total = Words(7), 0
    folder.mkdir(parents=True)
    for number in range(max(1, round(COUNT * share))):
        start = _START + timedelta(hours=7 * number)
        name = words.name()
        lines = _Session(words, name, project, start).lines(
            BYTES // COUNT, SECRETS[number % len(SECRETS)]
        )
        path = folder / f"{name}.jsonl"
        path.write_text("".join(lines), encoding="utf-8")
        total += path.stat().st_size
    return total


class _Session:
    """A generated session."""

    def __init__(self, words: Words, name: str, project: Path, start: datetime) -> None:
        self._words, self._name, self._project, self._at = words, name, project, start
        self._parent: str | None = None

    def lines(self, size: int, secret: str) -> list[str]:
        """Return lines with this total number of bytes, with a secret in a command, an output and a prompt."""
        lines = [
            self._line(
                "attachment",
                {"attachment": {"type": "skill_listing", "content": self._code(7_000)}},
            )
            for _ in range(12)
        ]
        lines += [self._line("api-request-shape", {"shape": {"tools": self._code(34_000)}})]
        lines += [self._line("api-request-blob", {"message": self._code(3_200)}) for _ in range(4)]
        made, turn = sum(map(len, lines)), 0
        while made < size - 45_000:  # half a turn
            before = len(lines)
            text = self._words.prose(40) + (f" use the token {secret} for it" if turn == 1 else "")
            lines.append(self._line("user", {"message": {"role": "user", "content": text}}))
            for number in range(6):
                lines += self._call(secret if (turn, number) == (1, 3) else "")
            block: list[dict[str, Any]] = [
                {"type": "text", "text": "\n".join(self._words.prose(14) for _ in range(8))}
            ]
            lines.append(self._line("assistant", {"message": self._message(block)}))
            made += sum(map(len, lines[before:]))
            turn += 1
        return lines

    def _line(self, kind: str, members: dict[str, Any]) -> str:
        self._at += timedelta(seconds=4)
        uuid = self._words.name()
        value = {
            "parentUuid": self._parent,
            "isSidechain": False,
            **members,
            "type": kind,
            "uuid": uuid,
        }
        value |= {"timestamp": self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        value |= {
            "userType": "external",
            "entrypoint": "cli",
            "cwd": str(self._project),
            "sessionId": self._name,
        }
        value |= {"version": "2.1.325", "gitBranch": "main"}
        self._parent = uuid
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"

    def _message(self, content: list[dict[str, Any]]) -> dict[str, object]:
        usage = {
            "input_tokens": 100,
            "cache_read_input_tokens": 40_000,
            "output_tokens": 300,
            "service_tier": "std",
        }
        return {
            "id": f"msg_{self._words.name()}",
            "role": "assistant",
            "model": "m",
            "content": content,
        } | {"usage": usage}

    def _call(self, secret: str) -> list[str]:
        event, call, text = self._words._call(self._project)
        members: dict[str, Any] = {**call}
        tool, parameters, name = (
            members["tool_name"],
            dict(members["tool_input"]),
            members["tool_use_id"],
        )
        thinking: dict[str, Any] = {
            "type": "thinking",
            "thinking": self._words.prose(60),
            "signature": self._signature(),
        }
        use = {"type": "tool_use", "id": name, "name": tool, "input": parameters}
        answer: Any = dict(members.get("tool_response") or {})
        content: Any = text
        if tool == "Read":
            code = self._code(self._words.length(9_000, 0.6))
            content = "\n".join(
                f"{number:6}\t{line}" for number, line in enumerate(code.split("\n"), 1)
            )
            answer = {
                "type": "text",
                "file": {"filePath": parameters["file_path"], "content": code, "numLines": 9},
            }
        elif tool in ("Edit", "Write"):
            answer |= {
                "originalFile": self._code(self._words.length(9_000, 0.6))
                if tool == "Edit"
                else None
            }
            content = f"The file {parameters['file_path']} has been updated successfully."
        elif tool in ("Grep", "Glob"):
            content = self._code(self._words.length(1_200, 0.7))
            answer = {"mode": "content", "content": content, "numLines": 20}
        elif secret:
            parameters["command"] = (
                f"curl -H 'Authorization: Bearer {secret}' localhost && {parameters.get('command')}"
            )
            answer["stdout"] = content = f"export API_TOKEN={secret}\n{text}"
        failed = event == "PostToolUseFailure"
        result = {
            "tool_use_id": name,
            "type": "tool_result",
            "content": f"Exit code 1\n{text}" if failed else content,
        }
        user = {"message": {"role": "user", "content": [result | {"is_error": failed}]}}
        return [
            self._line(
                "api-request",
                {"params": {"model": "m", "betas": ["a" * 40] * 4}, "tail": self._hashes(10)},
            ),
            self._line("assistant", {"message": self._message([thinking])}),
            self._line("assistant", {"message": self._message([use])}),
            self._line(
                "user",
                user | {"toolUseResult": f"Error: Exit code 1\n{text}" if failed else answer},
            ),
        ]

    def _signature(self) -> str:
        return b64encode(self._words.random.randbytes(_SIGNATURE_BYTES)).decode("ascii")

    def _hashes(self, count: int) -> list[str]:
        return [self._words.random.randbytes(_HASH_BYTES).hex() for _ in range(count)]

    def _code(self, size: int) -> str:
        """Return lines of code with this total number of characters. No block of them is repeated."""
        lines: list[str] = []
        missing = size
        while missing > 0:
            lines.append(self._words._changed()[1:])  # without the sign of a patch
            missing -= len(lines[-1]) + 1
        return "\n".join(lines)[:size]


def messages(folder: Path) -> Iterator[tuple[str]]:
    """Yield the text of each prompt, answer, and input and result of a tool call, each once."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                members = json.loads(line)
                if members["type"] not in ("user", "assistant"):
                    continue
                content = members["message"]["content"]
                blocks = content
                if isinstance(content, str):
                    blocks = [{"type": "text", "text": content}]
                for block in blocks:
                    text = _block_text(block)
                    if text:
                        yield (text,)


def _block_text(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return " ".join(str(value) for value in block["input"].values())
        case "tool_result":
            return str(block["content"])
        case _:  # what the model thought is not imported
            return ""


def measure(share: float) -> dict[str, float]:
    """Import generated transcripts twice in separate processes, and compare with the unavoidable work."""
    with tempfile.TemporaryDirectory() as place:
        home, project = Path(place, "home"), Path(place, "project")
        for folder in (home, project / ".ralph"):
            folder.mkdir(parents=True)
        size = make(home / ".claude" / "projects" / "-project", project, share)
        times = [_import(home, project) for _ in range(2)]
        os.environ["HOME"] = str(home)
        state = paths.state_folder(project)
        stored = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
        leaks = sum(_has_secret(path) for path in state.rglob("*") if path.is_file())
        logs = paths.log_files(paths.log_folder(project) / "sessions")
        texts = [
            entry.record.text for log in logs for entry in parse_log(files.read(log) or "").entries
        ]
        start = time.process_time()
        for text in texts:
            redact(text)
        rules = time.process_time() - start
        start = time.process_time()
        index.rebuild(project)
        indexing = time.process_time() - start
        unavoidable = rules + indexing
        return {
            "bytes": size,
            "rows": len(texts),
            "first_seconds": times[0],
            "second_seconds": times[1],
            "rules_seconds": rules,
            "index_seconds": indexing,
            "time": times[0] / unavoidable,
            "state": stored / size,
            "logs": sum(log.stat().st_size for log in logs) / size,
            "again": times[1] / times[0],
            "leaks": leaks,
            "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }


def _import(home: Path, project: Path) -> float:
    words = [sys.executable, "-m", "ralph", "import", "--yes", "--format", "json"]
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _has_secret(path: Path) -> bool:
    with files.open_unpacked(path) as file:
        raw = file.read()
    return any(secret.encode() in raw for secret in (*SECRETS, "hV7-pQ2_zX9w"))


def main() -> int:
    """Print the figures; return 1 if a limit is exceeded."""
    result = measure(float(sys.argv[1]) if len(sys.argv) > 1 else 0.1)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=2))
    return int(
        bool(result["leaks"]) or any(result[name] > limit for name, limit in AT_MOST.items())
    )


if __name__ == "__main__":
    sys.exit(main())
