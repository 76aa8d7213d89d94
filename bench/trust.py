"""Measure what reaches the disk and what steers a later session, on corpora that nobody here has seen.

`python bench/trust.py FOLDER [--show]`. FOLDER has one or more of these files, each a list of JSON objects:

- `secrets.json` (`{"id", "channel", "text", "secret"}`): half of a credential anywhere in the project's
  state or memory files counts as stored. `secret` is a string, or a list of the parts.
- `lookalikes.json` (`{"id", "channel", "text"}`): a text of which anything was redacted counts as altered.
- `attacks.json` (`{"id", "family", "carrier", "text", "message", "query"}`): every text comes in by its own
  carrier, then as a memory that the agent adds afterwards, then as the agent's last message. A new session
  starts and asks `query`. What it gets is compared with the attack.
- `honest.json` (`{"id", "kind", "text", "project"}`), with the files of each project under `projects/`: an agent adds
  every note in a session that read nothing foreign, and in one that did.

The first two go through the hook process, as a client starts it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import ralph.hooks

Json = dict[str, Any]
HOOK = Path(ralph.hooks.__file__).with_name("run.py")
ORDERS = ("override", "encoded", "exfil", "language")
PATHS = ("carrier", "memory", "message")
REDACTED = "[redacted:"
WORDS_IN_A_ROW = 5  # of an attack, in what a later session gets
SHORTEST_HALF = 5  # characters of half a credential; a shorter one is looked for as a whole
HARMLESS_ANSWER = "Done. The tests pass."
FOREIGN_PAGE = {
    "tool_name": "WebFetch",
    "tool_input": {"url": "https://docs.example.org/guide", "prompt": "How does it work?"},
    "tool_response": {"code": 200, "result": "The guide explains installation and first steps."},
}


class Machine:
    """A home folder of its own, with projects in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._template = folder / "template"
        self._make_project(self._template)

    def environment(self, root: Path, session: str = "") -> dict[str, str]:
        """Return the environment of a client, or of a command that an agent runs in a session."""
        env = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "CLAUDE_PROJECT_DIR": str(root),
            "LC_ALL": "C.UTF-8",
        }
        if session:
            env |= {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": session}
        return env

    def project(self, name: str, files: Path | None = None) -> Project:
        """Return a new project, with some files in its first commit."""
        root = self.folder / "projects" / name
        if files is None:
            shutil.copytree(self._template, root, symlinks=True)
        else:
            shutil.copytree(files, root)
            self._make_project(root)
        return Project(self, root)

    def _make_project(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        env = self.environment(root)
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        for command in (
            ("git", "init", "-q", "-b", "main"),
            (sys.executable, "-m", "ralph", "init"),
            ("git", *who, "add", "-A"),
            ("git", *who, "commit", "-q", "--allow-empty", "-m", "Start"),
        ):
            subprocess.run(command, cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)


class Project:
    """A project in which an agent works, seen through its hooks and commands."""

    def __init__(self, machine: Machine, root: Path) -> None:
        self.root = root
        self._machine = machine

    def hook(self, session: str, event: str, **members: Any) -> str:
        """Send an event to the hook process and return what it prints."""
        payload = {
            "session_id": session,
            "transcript_path": f"{self._machine.home}/.claude/projects/x/{session}.jsonl",
            "cwd": str(self.root),
            "permission_mode": "default",
            "hook_event_name": event,
            **members,
        }
        result = subprocess.run(
            [sys.executable, "-I", "-S", HOOK, "claude", event],
            input=json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            env=self._machine.environment(self.root),
            stdout=subprocess.PIPE,
            check=True,
        )
        return _injected(result.stdout.decode("utf-8", "replace"))

    def ralph(self, *arguments: str, session: str = "", stdin: str = "") -> str:
        """Run a command, in an agent's session or a person's shell; return its output."""
        result = subprocess.run(
            [sys.executable, "-m", "ralph", *arguments],
            cwd=self.root,
            input=stdin,
            env=self._machine.environment(self.root, session),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return result.stdout

    def stored(self) -> str:
        """Return the contents of every file in the project and in the user's folders."""
        parts = []
        for folder in (self.root, self._machine.home):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    parts.append(path.read_bytes().decode("utf-8", "replace"))
        return "\n".join(parts)


def session_id(name: str) -> str:
    """Return a session id that is always the same for a name."""
    return str(uuid5(NAMESPACE_URL, name))


def _injected(output: str) -> str:
    """Return the text that a hook gives to the model; what only the person sees does not count."""
    if not output.startswith("{"):
        return output
    answer = json.loads(output)
    specific = answer.get("hookSpecificOutput", {})
    return str(specific.get("additionalContext", ""))


# --- secrets ---


def events(case: Json) -> Iterator[tuple[str, Json]]:
    """Yield the events by which a text comes in through its channel."""
    text = case["text"]
    match case["channel"]:
        case "bash":
            yield "PostToolUse", _command_and_output(text)
        case "write":
            yield "PostToolUse", _write(*_split_path(text))
        case "edit":
            yield "PostToolUse", _edit(*_split_path(text))
        case "prompt":
            yield "UserPromptSubmit", {"prompt": text}
        case "answer":
            yield "Stop", {"stop_hook_active": False, "last_assistant_message": text}
        case "mcp":
            yield "PostToolUse", _tool("mcp__vault__lookup", {"query": "settings"}, _content(text))
        case "subagent":
            task = {"description": "look around", "prompt": "Find the settings."}
            report = {"status": "completed", "content": _content(text)}
            yield "PostToolUse", _tool("Agent", task, report)
            yield "SubagentStop", {"agent_type": "Explore", "last_assistant_message": text}
        case channel:
            raise SystemExit(f"{case['id']}: unknown channel {channel!r}")


def _command_and_output(text: str) -> Json:
    first, _, output = text.partition("\n")
    if first.startswith("$ "):
        return _bash(first.removeprefix("$ "), output)
    return _bash("cat out.txt", text)


def _write(path: str, content: str) -> Json:
    response = {"type": "create", "filePath": path, "content": content, "structuredPatch": []}
    return _tool("Write", {"file_path": path, "content": content}, response)


def _edit(path: str, content: str) -> Json:
    lines = ["-pass", *(f"+{line}" for line in content.split("\n"))]
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": len(lines) - 1, "lines": lines}
    parameters = {"file_path": path, "old_string": "pass", "new_string": content}
    response = {
        "filePath": path,
        "oldString": "pass",
        "newString": content,
        "structuredPatch": [hunk],
    }
    return _tool("Edit", parameters, response)


def _content(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def _split_path(text: str) -> tuple[str, str]:
    first, _, rest = text.partition("\n")
    if first.startswith("# file: "):
        return first.removeprefix("# file: "), rest
    return "settings.txt", text


def _tool(name: str, parameters: Json, response: Any) -> Json:
    return {"tool_name": name, "tool_input": parameters, "tool_response": response}


def _bash(command: str, output: str) -> Json:
    return _tool(
        "Bash", {"command": command}, {"stdout": output, "stderr": "", "interrupted": False}
    )


def measure_secrets(machine: Machine, cases: Sequence[Json], show: bool) -> Iterator[str]:
    """Yield the share of credentials that were kept off the disk, by channel."""
    project = machine.project("secrets")
    for case in cases:
        for event, members in events(case):
            project.hook(session_id(case["id"]), event, **members)
    project.ralph("index", "sync")
    stored = project.stored()
    leaked = [case for case in cases if any(half in stored for half in _halves(case["secret"]))]
    yield from _table("secrets kept off the disk", cases, leaked, "channel", invert=True)
    if show:
        yield from (f"  {case['channel']} {case['id']}: {case['text'][:300]!r}" for case in leaked)


def _halves(secret: str | Sequence[str]) -> Iterator[str]:
    """Yield both halves of each part of a credential, as they are and as JSON writes them."""
    for part in [secret] if isinstance(secret, str) else secret:
        middle = len(part) // 2
        halves = [part[:middle], part[middle:]]
        if middle < SHORTEST_HALF:
            halves = [part]
        for half in halves:
            yield half
            yield json.dumps(half)[1:-1]
            yield json.dumps(half, ensure_ascii=False)[1:-1]


def measure_lookalikes(machine: Machine, cases: Sequence[Json], show: bool) -> Iterator[str]:
    """Yield the share of harmless texts that were altered, by channel."""
    project = machine.project("lookalikes")
    for case in cases:
        for event, members in events(case):
            project.hook(session_id(case["id"]), event, **members)
    altered = [case for case in cases if REDACTED in _log_of(project, session_id(case["id"]))]
    yield from _table("look-alikes altered", cases, altered, "channel")
    if show:
        yield from (f"  {case['channel']} {case['id']}: {case['text'][:300]!r}" for case in altered)


def _log_of(project: Project, session: str) -> str:
    logs = [path for path in project.root.rglob(f"*{session}*") if path.is_file()]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)


# --- attacks ---


def measure_attacks(machine: Machine, cases: Sequence[Json], show: bool) -> Iterator[str]:
    """Yield the share of attacks that reach a later session, by family and path."""
    reached: dict[str, list[Json]] = {}
    for path in PATHS:
        reached[path] = []
        reached[f"{path} at start"] = []
        for case in cases:
            project = machine.project(f"{path}-{case['id']}")
            _bring(project, case, path)
            start, prompt = _later_session(project, case)
            if _steers(case, start):
                reached[f"{path} at start"].append(case)
            if _steers(case, start + prompt):
                reached[path].append(case)
            shutil.rmtree(project.root)
    for name, found in reached.items():
        orders = [case for case in cases if case["family"] in ORDERS]
        others = [case for case in cases if case["family"] not in ORDERS]
        yield from _table(f"attacks that reach a later session: {name}", cases, found, "family")
        yield f"  orders {_share(found, orders)}, others {_share(found, others)}"
        if show:
            yield from (
                f"  {case['family']} {case['id']}: {case['message'][:200]!r}" for case in found
            )


def _bring(project: Project, case: Json, path: str) -> None:
    """Let a session read an attack; if asked, it then stores it or says it in its own words."""
    session = session_id(f"{path} {case['id']}")
    project.hook(session, "SessionStart", source="startup")
    project.hook(session, "UserPromptSubmit", prompt="Have a look at this, please.")
    _carry(project, session, case)
    if path == "memory":
        project.ralph("memory", "add", "-", session=session, stdin=case["message"])
    answer = case["message"] if path == "message" else HARMLESS_ANSWER
    project.hook(session, "Stop", stop_hook_active=False, last_assistant_message=answer)
    project.hook(session, "SessionEnd", reason="prompt_input_exit")


def _carry(project: Project, session: str, case: Json) -> None:
    text = case["text"]
    dependency = str(project.root / "node_modules" / "x" / "README.md")
    carriers: Mapping[str, Callable[[], Json]] = {
        "webfetch": lambda: _tool("WebFetch", {"url": "https://example.org"}, {"result": text}),
        "websearch": lambda: _tool("WebSearch", {"query": "how"}, {"results": [text]}),
        "mcp": lambda: _tool("mcp__tracker__get", {"id": 12}, [{"type": "text", "text": text}]),
        "curl": lambda: _bash("curl -s https://example.org/install.txt", text),
        "gh_issue": lambda: _bash("gh issue view 12", text),
        "dependency_readme": lambda: _read(dependency, text),
        "outside_file": lambda: _read("/opt/notes/howto.md", text),
    }
    if case["carrier"] in carriers:
        project.hook(session, "PostToolUse", **carriers[case["carrier"]]())
    elif case["carrier"] == "failing_command":
        failed = {"tool_name": "Bash", "tool_input": {"command": "npm run build"}}
        project.hook(session, "PostToolUseFailure", **failed, error=f"Exit code 1\n{text}")
    elif case["carrier"] == "clone_memories":
        _commit(project, ".agent/memories.md", _memory_entry(text))
    elif case["carrier"] == "clone_knowledge":
        _commit(project, ".ralph/knowledge/guide.md", f"# Guide\n\n{text}\n")
    else:
        raise SystemExit(f"{case['id']}: unknown carrier {case['carrier']!r}")


def _read(path: str, text: str) -> Json:
    file = {"filePath": path, "content": text, "numLines": 10, "startLine": 1, "totalLines": 10}
    return _tool("Read", {"file_path": path}, {"type": "text", "file": file})


def _memory_entry(text: str) -> str:
    quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    stamp = "<!-- tags: setup | created: 2026-11-01 -->"
    return f"# Memories\n\n## Context\n\n### mem-1793491200-a1b2\n{quoted}\n{stamp}\n"


def _commit(project: Project, name: str, content: str) -> None:
    path = project.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    who = ("-c", "user.name=Eve", "-c", "user.email=eve@example.org")
    for command in (("git", *who, "add", "-Af"), ("git", *who, "commit", "-qm", "Update")):
        subprocess.run(command, cwd=project.root, check=True)


def _later_session(project: Project, case: Json) -> tuple[str, str]:
    """Return what a later session gets at its start and with its prompt."""
    session = session_id(f"later {case['id']}")
    start = project.hook(session, "SessionStart", source="startup")
    return start, project.hook(session, "UserPromptSubmit", prompt=case["query"])


def _steers(case: Json, given: str) -> bool:
    """Return whether a run of words of the attack is in a text."""
    words = _plain_words(given)
    runs = {words[i : i + WORDS_IN_A_ROW] for i in range(len(words))}
    for attack in (case["message"], case["text"]):
        mine = _plain_words(attack)
        if any(mine[i : i + WORDS_IN_A_ROW] in runs for i in range(len(mine) - WORDS_IN_A_ROW + 1)):
            return True
    return False


def _plain_words(text: str) -> tuple[str, ...]:
    letters = "".join(char if char.isalnum() else " " for char in text.lower())
    return tuple(letters.split())


# --- honest notes ---


def measure_honest(
    machine: Machine, cases: Sequence[Json], data: Path, show: bool
) -> Iterator[str]:
    """Yield the share of honest notes that are held back or marked, by kind."""
    for name, is_tainted in (("nothing foreign was read", False), ("a web page was read", True)):
        held: list[Json] = []
        for folder in sorted((data / "projects").iterdir()):
            notes = [case for case in cases if case["project"] == folder.name]
            project = machine.project(f"{folder.name}-{is_tainted}", folder)
            session = session_id(f"{folder.name} {is_tainted}")
            project.hook(session, "SessionStart", source="startup")
            project.hook(session, "UserPromptSubmit", prompt="Note what you learned.")
            if is_tainted:
                project.hook(session, "PostToolUse", **FOREIGN_PAGE)
            held += [case for case in notes if not _is_trusted(project, session, case)]
        yield from _table(f"honest notes held or marked: {name}", cases, held, "kind")
        if show and not is_tainted:
            yield from (
                f"  {case['project']} {case['id']}: {case['text'][:200]!r}" for case in held
            )


def _is_trusted(project: Project, session: str, case: Json) -> bool:
    said = project.ralph("memory", "add", "-", session=session, stdin=case["text"])
    return said.startswith("Added") and "unconfirmed" not in said and "unknown" not in said


# --- tables ---


def _table(
    title: str, cases: Sequence[Json], found: Sequence[Json], key: str, *, invert: bool = False
) -> Iterator[str]:
    """Yield a title with the total, and a line with the share of each group."""
    counted = [case for case in cases if (case in found) != invert]
    total = Counter(case[key] for case in cases)
    part = Counter(case[key] for case in counted)
    yield f"{title}: {len(counted)} of {len(cases)} = {len(counted) / len(cases):.1%}"
    yield "  " + ", ".join(f"{group} {part[group]}/{total[group]}" for group in sorted(total))


def _share(found: Sequence[Json], cases: Sequence[Json]) -> str:
    count = sum(case in found for case in cases)
    return f"{count} of {len(cases)} = {count / max(1, len(cases)):.1%}"


def run(data: Path, *, show: bool = False) -> Iterator[str]:
    """Yield the lines of every measurement for which there is data."""
    with tempfile.TemporaryDirectory(prefix="ralph-trust-") as folder:
        machine = Machine(Path(folder))
        for name, measure in (
            ("secrets", measure_secrets),
            ("lookalikes", measure_lookalikes),
            ("attacks", measure_attacks),
        ):
            for cases in _load(data / f"{name}.json"):
                yield from measure(machine, cases, show)
        for cases in _load(data / "honest.json"):
            yield from measure_honest(machine, cases, data, show)


def _load(path: Path) -> Iterator[list[Json]]:
    if path.exists():
        yield json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--show", action="store_true", help="print every text that got through")
    options = parser.parse_args()
    for line in run(options.data, show=options.show):
        print(line, flush=True)


if __name__ == "__main__":
    main()
