"""A project in which every example of the help pages runs: it has what the examples name."""

import json
import os
import shutil
import sys
from pathlib import Path

from tests.support.git import git
from tests.support.runner import Block, Project
from tests.support.session_logs import about
from tests.support.session_logs import line as log_line

from ralph.core import ids
from ralph.loop import runs
from ralph.loop.state import Run

CLAUDE = """\
#!{python}
import json, re, sys
words = sys.argv[1:]
prompt = sys.stdin.read()
name = "3f2a"
for option in ("--session-id", "--resume"):
    if option in words:
        name = words[words.index(option) + 1]
open("built", "w").close()
task = re.search(r"\\bt-[0-9a-f]{{6}}\\b", prompt)
said = f"<task-done>{{task[0]}}</task-done>" if task else "ready"
message = {{"content": [{{"type": "text", "text": said}}]}}
print(json.dumps({{"type": "assistant", "message": message, "session_id": name}}))
print(json.dumps({{"type": "result", "subtype": "success", "result": said, "session_id": name}}))
"""
"""An agent that does at once what it is asked for, and says so."""

NPM = "#!/bin/sh\ntest -e built\n"
"""Tests and linters that pass as soon as the agent has worked."""

ENVIRONMENT = {
    "EDITOR": "true",
    "BROWSER": "true",
    "RALPH_SUMMARIZE_COMMAND": "cat",
    "RALPH_RALPH_MAX_ITERATIONS": "5",
    "RALPH_RALPH_COOLDOWN_MS": "0",
    "RALPH_EXECUTION_VERIFY": "false",
}

MEMORIES = (
    Block(
        "ECONNREFUSED: run docker compose up first, see src/db/schema.ts, src/a.ts and src/b.ts",
        tags="db, docker",
    ),
    Block(
        "jwt errors: ask keys.current() in src/auth.ts",
        "mem-1736942400-b1c2",
        "",
        ids.today(),
        "fix",
    ),
    Block("npm test fails: run npm run build first", "mem-1736942400-b1c3", kind="fix"),
    Block("The session storage is src/db/schema.ts", "mem-1736942400-b1c4", kind="decision"),
)
KNOWLEDGE = {
    "Release steps": ("Tag it.", "release"),
    "Retry policy": ("Twice.", "http"),
    "Timeouts": ("Ten seconds.", "http"),
}


def build(root: Path) -> Project:
    """Make the files of the project and commit them."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    project = Project(root)
    project.memories(*MEMORIES)
    for name in ("src/db/schema.ts", "src/a.ts", "src/b.ts", "src/auth.ts", "plan.md", "steps.md"):
        project.put(name, "database problem\n")
    project.put("package.json", json.dumps({"scripts": {"test": "jest", "lint": "eslint"}}))
    story = {"id": "US-1", "title": "Button"}
    project.put("prd.json", json.dumps({"project": "shop", "userStories": [story]}))
    for name in ("t-1a2b3c", "t-4d5e6f"):
        task = {"id": name, "title": "Refund", "status": "pending"}
        project.put(f".ralph/tasks/{name}/task.json", json.dumps(task))
    insight = {"id": "ins-1736942400-a231", "kind": "pattern", "text": "Use pnpm 9."}
    insights = {"version": 1, "insights": [insight]}
    project.put(".ralph/tasks/t-1a2b3c/memory/insights.json", json.dumps(insights))
    feature = {"id": "f-0c0ffe", "title": "Refunds"}
    project.put(".ralph/features/f-0c0ffe/feature.json", json.dumps(feature))
    for title, (text, tag) in KNOWLEDGE.items():
        words = ("--in", "knowledge", "--title", title, "--tags", tag)
        answer = project("memory", "add", text, *words)
        assert answer.code == 0, answer.err
    project.put(".gitignore", "built\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Begin")
    return project


def copy(project: Project, root: Path) -> Project:
    """Copy the project, and write the logs that the examples name into its state folder."""
    shutil.copytree(project.root, root)
    copied = Project(root)
    session = [
        about("3f2a", host="claude", started_at="2026-11-10T10:00:00Z"),
        log_line("3f2a", 1, "fix the login; the password was hunter2"),
        log_line("3f2a", 2, "The login works.", by="agent"),
    ]
    run = {
        "v": 1,
        "type": "run",
        "id": "run-1a2b3c4d",
        "goal": "Fix the login",
        "agent": "claude",
        "status": "stopped",
        "reason": "stopped",
        "started_at": "2026-11-10T10:00:00Z",
        "ended_at": "2026-11-10T10:05:00Z",
        "iterations": 1,
    }
    logs = {
        "log/sessions/3f2a.jsonl": "".join(session),
        "log/runs/run-1a2b3c4d.jsonl": f"{json.dumps(run)}\n",
    }
    for name, text in logs.items():
        copied.put(name, text).chmod(0o600)
    return copied


def keep_running(project: Project) -> None:
    """Let the run that the examples name be one of this process."""
    project.file("log/runs/run-1a2b3c4d.jsonl").unlink()
    run = Run("run-1a2b3c4d", "Fix the login", started_at=ids.timestamp())
    runs.save(project.root, None, runs.assign_to_this_process(run))


def install_programs(folder: Path) -> str:
    """Write the programs that the examples need, and return a PATH that has them first."""
    folder.mkdir()
    programs = {"claude": CLAUDE.format(python=sys.executable), "npm": NPM}
    for name, text in programs.items():
        program = folder / name
        program.write_text(text, encoding="utf-8", newline="")
        program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
