"""The first hour on Windows, with the real commands: from `ralph init` to `ralph uninstall`.

Each command is a process of its own, with warnings and default encodings as errors. Every supported
Python runs this file.
"""

import json
import sys
from pathlib import Path

import pytest
from tests.support.web_programs import address, start, status
from tests.support.windows_hooks import (
    PROMPT_EVENTS,
    SETTINGS,
    SHELL_TOOLS,
    TOOL_EVENTS,
    hook_command,
    start_hook,
)
from tests.support.windows_machine import Machine

CRLF_PAGE = "# Memories\r\n\r\n## Patterns\r\n\r\n### mem-1705751400-a3f8\r\n> Prices are in cents.\r\n<!-- tags: money | created: 2025-01-20 -->\r\n\r\n## Decisions\r\n\r\n## Fixes\r\n\r\n## Context\r\n"
ATTEMPTS = 5
SESSION = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.ralph("init")
    return made


def test_a_memory_is_added_listed_found_edited_and_deleted(machine: Machine) -> None:
    machine.ralph("memory", "add", "The cart rounds prices up: 5 × 3 €", "--tags", "cart")
    assert b"\r" not in machine.memories
    (added,) = machine.json("memory", "list")
    assert "rounds prices up: 5 × 3 €" in machine.ralph("memory", "search", "cart prices")
    machine.ralph("memory", "edit", added["id"], "--text", "The cart rounds prices down")
    assert b"rounds prices down" in machine.memories
    machine.ralph("memory", "delete", added["id"])
    assert machine.json("memory", "list") == []


def test_a_file_with_windows_line_endings_keeps_every_byte(machine: Machine) -> None:
    path = machine.root / ".agent" / "memories.md"
    path.write_bytes(CRLF_PAGE.encode())
    machine.ralph("memory", "add", "Use the queue for mail")
    (added,) = machine.json("memory", "search", "queue for mail")
    assert machine.memories.count(b"\n") == machine.memories.count(b"\r\n")
    machine.ralph("memory", "delete", added["id"])
    assert machine.memories == CRLF_PAGE.encode()


def send(machine: Machine, host: str, event: str, **members: object) -> bytes:
    """Start an installed hook as its client does, and return its answer."""
    payload = {
        "session_id": f"{SESSION}{host}",
        "cwd": str(machine.root),
        "hook_event_name": event,
        **members,
    }
    command = hook_command(machine.home, host, event)
    return start_hook(command, payload, machine.root, machine.env)


def ask(machine: Machine, host: str, prompt: str) -> bytes:
    """Return the answer to a prompt. On a busy machine, the first ones can exceed their deadline."""
    for _ in range(ATTEMPTS):
        answer = send(machine, host, PROMPT_EVENTS[host], prompt=prompt)
        if answer:
            return answer
    return b""


@pytest.mark.timeout(600)  # a busy machine needs ten times as long as a quiet one
def test_the_hooks_of_three_clients_record_tools_and_answer_prompts(machine: Machine) -> None:
    settings = [machine.home / name for name in SETTINGS.values()]
    machine.ralph(
        "memory", "add", "The deploy key for staging rotates every Friday", "--tags", "deploy"
    )
    machine.ralph("index", "sync")
    machine.ralph("install", *SETTINGS)
    for host in SETTINGS:
        send(
            machine,
            host,
            TOOL_EVENTS[host],
            tool_name=SHELL_TOOLS[host],
            tool_input={"command": f"pytest -q tests/{host}.py"},
            tool_response={"stdout": "1 passed"},
        )
        answer = ask(machine, host, "when does the deploy key for staging rotate?")
        assert b"every Friday" in answer
        assert answer.isascii()
    for host in SETTINGS:
        shown = machine.ralph("session", "show", f"{SESSION}{host}")
        assert f"pytest -q tests/{host}.py" in shown
    status = machine.json("status")
    assert status["hooks"]["recorded"] >= len(SETTINGS)
    assert status["last_session"]["host"] in SETTINGS
    assert "not up to date" not in machine.ralph("doctor")
    machine.ralph("uninstall", "--all")
    assert not any(path.exists() for path in settings)
    state = machine.home / "LOCALAPPDATA" / "ralph"
    assert [path.name for path in state.iterdir() if path.name != "told-today"] == ["machine-id"]


def test_a_scripted_loop_does_its_work_and_is_journaled(machine: Machine) -> None:
    steps = [
        {
            "say": "<journal>wrote it</journal>\n<promise>COMPLETE</promise>",
            "write": {"a.txt": "hi\n"},
        },
        {"read_only": True, "say": "<verify-pass/>"},
    ]
    (machine.root / "steps.json").write_text(json.dumps(steps), encoding="utf-8")
    machine.ralph(
        "loop", "start", "write a.txt",
        "--agent", "scripted", "--command", "steps.json",
        "-c", f'custom:"{sys.executable}" -c "open(\'a.txt\', encoding=\'utf-8\')"',
    )  # fmt: skip
    assert (machine.root / "a.txt").read_bytes() == b"hi\n"
    (run,) = machine.json("loop", "show")
    assert (run["status"], run["reason"]) == ("success", "success")


def test_what_is_forgotten_is_gone_from_the_files_and_the_index(machine: Machine) -> None:
    machine.ralph("memory", "add", "The codename is bluebird")
    assert "bluebird" in machine.ralph("search", "bluebird codename")
    machine.ralph("forget", "--matching", "bluebird", "--yes")
    assert b"bluebird" not in machine.memories
    assert machine.json("memory", "search", "bluebird") == []


def claude_line(machine: Machine, folder: str, role: str, text: str, second: int) -> str:
    """Return a line of a transcript of Claude Code."""
    line = {
        "type": role,
        "sessionId": SESSION,
        "cwd": folder,
        "timestamp": f"2026-01-05T10:00:{second:02d}.000Z",
        "uuid": f"{SESSION[:-2]}{second:02d}",
        "message": {"role": role, "content": text},
    }
    return json.dumps(line) + "\n"


def test_earlier_sessions_of_an_agent_are_imported(machine: Machine) -> None:
    folder = str(machine.root)
    in_another_case = folder[0].lower() + folder[1:]
    lines = [
        claude_line(machine, in_another_case, "user", "Why is the größe of the cart wrong?", 1),
        claude_line(machine, in_another_case, "assistant", "The cart counts removed items.", 2),
    ]
    projects = machine.home / ".claude" / "projects" / "Z--project"
    projects.mkdir(parents=True)
    (projects / f"{SESSION}.jsonl").write_text("".join(lines), encoding="utf-8")
    machine.ralph("import", "--from", "claude", "--yes")
    assert "The cart counts removed items." in machine.ralph("session", "show", SESSION)


def test_an_exported_memory_is_imported(machine: Machine) -> None:
    machine.ralph("memory", "add", "The cart rounds prices up: 5 × 3 €")
    exported = machine.home / "exported.json"
    machine.ralph("export", "json", str(exported))
    machine.ralph("memory", "delete", machine.json("memory", "list")[0]["id"])
    machine.ralph("import", str(exported), "--yes")
    (imported,) = machine.json("memory", "list")
    assert imported["text"] == "The cart rounds prices up: 5 × 3 €"


def test_a_project_is_the_same_in_another_case(machine: Machine) -> None:
    machine.ralph("memory", "add", "Prices are in cents")
    state = machine.json("status")["state"]
    machine.root = machine.root.with_name("GRÖßE Project")
    (memory,) = machine.json("memory", "list")
    assert memory["text"] == "Prices are in cents"
    assert machine.json("status")["state"] == state


def test_the_web_server_answers(machine: Machine) -> None:
    with start(machine.root, "--no-open", env=machine.env) as server:
        try:
            port, _ = address(server)
            assert status(port, "/static/app.js") == 200
            assert status(port, "/nothing-here") in (401, 403, 404)
        finally:
            server.kill()
