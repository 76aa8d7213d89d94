"""Replay written weeks of work through the hooks, and print what Ralph has learned from them.

`python bench/learning.py [WEEK.json ...]`; without files, the six weeks of bench/weeks.jsonl.gz (see
bench/weeks.md). A week has sessions as people live them: prompts, commands with their output, edits and
answers. The events are sent to the hook handler in a fresh project, as Claude Code sends them. Printed are
the memories and the proposals with their evidence, as JSON, one object per week. Whether a proposal is
worth keeping, and which of the lessons marked by the author it covers, is for a reader to judge.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from ralph.hooks.handler import run_event
from ralph.learning import inbox
from ralph.memory import reading

Json = dict[str, Any]
WEEKS = Path(__file__).parent / "weeks.jsonl.gz"


def replay(week: Json, folder: Path) -> Iterator[tuple[str, str]]:
    """Send every event of a week to the hooks; yield each event's name and its answer."""
    for session in week["sessions"]:
        for name, members in session_events(session):
            payload = {
                "session_id": session["id"],
                "hook_event_name": name,
                "cwd": str(folder),
                **members,
            }
            answer = run_event("claude", name, json.dumps(payload).encode(), os.environ)
            yield name, answer.decode()


def session_events(session: Json) -> Iterator[tuple[str, Json]]:
    """Yield the hook events of a session, each with its members."""
    yield "SessionStart", {"source": "startup"}
    for event in session["events"]:
        yield hook_event(event)
    if not session.get("killed"):
        yield "SessionEnd", {"reason": "prompt_input_exit"}


def hook_event(event: Mapping[str, Any]) -> tuple[str, Json]:
    """Return an event as Claude Code sends it."""
    match event["do"]:
        case "prompt":
            return "UserPromptSubmit", {"prompt": event["text"]}
        case "answer":
            return "Stop", {"last_assistant_message": event["text"]}
        case "run":
            tool = {"tool_name": "Bash", "tool_input": {"command": event["command"]}}
            if event.get("failed"):
                return "PostToolUseFailure", {**tool, "error": f"Exit code 1\n{event['output']}"}
            output = {"stdout": event["output"], "stderr": "", "interrupted": False}
            return "PostToolUse", {**tool, "tool_response": output}
        case "read":
            parameters = {"file_path": event["file"]}
            return "PostToolUse", {
                "tool_name": "Read",
                "tool_input": parameters,
                "tool_response": {},
            }
        case "edit":
            parameters = {
                "file_path": event["file"],
                "old_string": event["before"],
                "new_string": event["after"],
            }
            return "PostToolUse", {
                "tool_name": "Edit",
                "tool_input": parameters,
                "tool_response": {},
            }
        case _:
            parameters = {"file_path": event["file"], "content": event.get("content", "")}
            return "PostToolUse", {
                "tool_name": "Write",
                "tool_input": parameters,
                "tool_response": {},
            }


def learned(folder: Path) -> Json:
    """Return the memories and the waiting proposals of a project."""
    memories = [stored.record.text for stored in reading.list_entries(folder)]
    proposals = [item for item in inbox.items(folder) if item.kind == inbox.PROPOSAL]
    return {
        "memories": memories,
        "proposals": [
            {"id": item.id, "text": item.text, "why": item.why, "seen": item.seen}
            for item in proposals
        ],
    }


def run(name: str, week: Json) -> Json:
    """Replay one week in a fresh project, and return what was learned."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        folder.mkdir()
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        home = Path(temporary) / "home"
        home.mkdir()
        for variable in list(os.environ):
            if variable.startswith(("XDG_", "CLAUDE", "RALPH_")):
                del os.environ[variable]
        os.environ["HOME"] = str(home)
        subprocess.run(
            [sys.executable, "-m", "ralph", "init", "--root", folder],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for _ in replay(week, folder):
            pass
        return {"week": name, "sessions": len(week["sessions"]), **learned(folder)}


def weeks(arguments: Sequence[str]) -> Iterator[tuple[str, Json]]:
    """Yield the weeks in the named files, or those that come with the project."""
    for argument in arguments:
        yield argument, json.loads(Path(argument).read_text(encoding="utf-8"))
    if not arguments:
        with gzip.open(WEEKS, "rt", encoding="utf-8") as lines:
            for line in lines:
                week = json.loads(line)
                yield f"{week['week']} ({week['split']})", week


if __name__ == "__main__":
    for name, week in weeks(sys.argv[1:]):
        print(json.dumps(run(name, week), ensure_ascii=False, indent=1))
