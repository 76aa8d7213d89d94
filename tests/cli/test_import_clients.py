"""`ralph import` of the other clients: files of our own in their forms, and what becomes of them."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.runner import Project
from tests.support.transcripts import bring, home, observations

from ralph.core import paths
from ralph.sharing.earlier_sessions import count_earlier_sessions

__all__ = ["home"]

AT = "2026-02-03T10:00:0{}.000Z"


def lines(path: Path, values: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")


def document(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def codex(home: Path, root: Path) -> None:
    def item(number: int, **payload: object) -> dict[str, object]:
        return {"timestamp": AT.format(number), "type": "response_item", "payload": payload}

    def message(number: int, role: str, text: str) -> dict[str, object]:
        return item(
            number, type="message", role=role, content=[{"type": "input_text", "text": text}]
        )

    call = {
        "type": "function_call",
        "name": "exec_command",
        "arguments": '{"cmd": "make test"}',
        "call_id": "c1",
    }
    output = "Wall time: 0.0 seconds\nProcess exited with code 2\nOutput:\nboom\n"
    meta = {"session_id": "codex-1", "cwd": str(root)}
    values = [
        {"timestamp": AT.format(0), "type": "session_meta", "payload": meta},
        message(1, "developer", "rules"),
        message(1, "user", "<environment_context>x</environment_context>"),
        message(2, "user", "fix the build"),
        item(3, **call),
        item(4, type="function_call_output", call_id="c1", output=output),
        message(5, "assistant", "It is fixed."),
    ]
    lines(home / ".codex/sessions/2026/02/03/rollout-2026-02-03T10-00-00-codex-1.jsonl", values)


def gemini(home: Path, root: Path) -> None:
    result = [{"functionResponse": {"response": {"output": "Output: boom\nExit Code: 2"}}}]
    tool = {
        "id": "g1",
        "name": "run_shell_command",
        "args": {"command": "make test"},
        "result": result,
    }
    messages = [
        {"type": "user", "timestamp": AT.format(1), "content": "fix the build"},
        {
            "type": "gemini",
            "timestamp": AT.format(2),
            "content": "",
            "toolCalls": [tool | {"status": "success"}],
        },
        {"type": "user", "timestamp": AT.format(3), "content": result},
        {"type": "gemini", "timestamp": AT.format(4), "content": [{"text": "It is fixed."}]},
    ]
    folder = home / ".gemini/tmp/project"
    document(folder / "chats/session-1.json", {"sessionId": "gemini-1", "messages": messages})
    (folder / ".project_root").write_text(str(root), encoding="utf-8")


def opencode(home: Path, root: Path) -> None:
    path = home / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    state = {
        "status": "completed",
        "input": {"command": "make test"},
        "output": "boom",
        "metadata": {"exit": 2},
    }
    parts: list[tuple[str, dict[str, Any]]] = [
        ("user", {"type": "text", "text": "fix the build"}),
        ("assistant", {"type": "tool", "tool": "bash", "callID": "o1", "state": state}),
        ("assistant", {"type": "text", "text": "It is fixed."}),
    ]
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE session(id TEXT, parent_id TEXT, directory TEXT, time_updated INTEGER)"
        )
        db.execute(
            "CREATE TABLE message(id TEXT, session_id TEXT, time_created INTEGER, data TEXT)"
        )
        db.execute("CREATE TABLE part(id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        db.execute("INSERT INTO session VALUES ('ses_1', NULL, ?, 5)", (str(root),))
        for number, (role, part) in enumerate(parts):
            header = {"role": role, "time": {"created": 1770112800000 + number}}
            db.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?)",
                (f"m{number}", number, json.dumps(header)),
            )
            db.execute(
                "INSERT INTO part VALUES (?, ?, 'ses_1', ?)",
                (f"p{number}", f"m{number}", json.dumps(part)),
            )
        db.commit()


def copilot(home: Path, root: Path) -> None:
    def event(number: int, kind: str, **data: object) -> dict[str, object]:
        return {"type": kind, "data": data, "timestamp": AT.format(number)}

    result = {"content": "boom\n<shellId: 1 completed with exit code 2>"}
    values = [
        event(0, "session.start", sessionId="copilot-1", context={"cwd": str(root)}),
        event(1, "user.message", content="fix the build"),
        event(
            2,
            "tool.execution_start",
            toolCallId="t",
            toolName="bash",
            arguments={"command": "make test"},
        ),
        event(3, "tool.execution_complete", toolCallId="t", success=True, result=result),
        event(4, "assistant.message", content="It is fixed."),
    ]
    lines(home / ".copilot/session-state/copilot-1/events.jsonl", values)


def cursor(home: Path, root: Path) -> None:
    user = home / ".config/Cursor/User"
    document(user / "workspaceStorage/ab/workspace.json", {"folder": f"file://{root}"})
    (user / "globalStorage").mkdir()
    arguments, result = (
        json.dumps({"command": "make test"}),
        json.dumps({"output": "boom", "exitCode": 2}),
    )
    tool = {
        "name": "run_terminal_cmd",
        "toolCallId": "u",
        "rawArgs": arguments,
        "result": result,
        "status": "completed",
    }
    bubbles = [
        {"type": 1, "text": "fix the build"},
        {"type": 2, "toolFormerData": tool},
        {"type": 2, "text": "It is fixed."},
    ]
    headers = [{"bubbleId": f"b{number}"} for number in range(3)]
    composer = {
        "composerId": "cursor-1",
        "createdAt": 1770112800000,
        "fullConversationHeadersOnly": headers,
    }
    with closing(sqlite3.connect(user / "workspaceStorage/ab/state.vscdb")) as db:
        db.execute("CREATE TABLE ItemTable(key TEXT, value BLOB)")
        value = json.dumps({"allComposers": [{"composerId": "cursor-1"}]})
        db.execute("INSERT INTO ItemTable VALUES ('composer.composerData', ?)", (value,))
        db.commit()
    with closing(sqlite3.connect(user / "globalStorage/state.vscdb")) as db:
        db.execute("CREATE TABLE cursorDiskKV(key TEXT, value BLOB)")
        rows = [
            ("composerData:cursor-1", composer),
            *((f"bubbleId:cursor-1:b{n}", each) for n, each in enumerate(bubbles)),
        ]
        db.executemany(
            "INSERT INTO cursorDiskKV VALUES (?, ?)",
            [(key, json.dumps(each)) for key, each in rows],
        )
        db.commit()


def cline(home: Path, root: Path) -> None:
    folder = home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev"
    document(
        folder / "state/taskHistory.json",
        [{"id": "17", "ts": 1770112800000, "cwdOnTaskInitialization": str(root)}],
    )
    use = "I test it.\n<execute_command>\n<command>make test</command>\n</execute_command>"
    result = "[execute_command for 'make test'] Result:\nCommand failed with exit code 2.\nboom"
    texts = [
        ("user", "<task>\nfix the build\n</task>"),
        ("assistant", use),
        ("user", result),
        ("assistant", "It is fixed."),
    ]
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in texts]
    document(folder / "tasks/17/api_conversation_history.json", messages)


def aider(_: Path, root: Path) -> None:
    text = "\n# aider chat started at 2026-02-03 10:00:00\n\n> Aider v0.86\n\n#### fix the build\n\nIt is fixed.\n"
    text += "\n```\n#### no prompt\n```\n\n> Applied edit to src/a.py\n"
    root.joinpath(".aider.chat.history.md").write_text(text, encoding="utf-8")


FAILED = ("error", "$ make test\nexit code 2\nboom")


@pytest.mark.parametrize("client", [codex, gemini, opencode, copilot, cursor, cline])
def test_prompt_call_and_answer_are_recorded_once(
    ralph: Project, home: Path, client: Callable[[Path, Path], None]
) -> None:
    client(home, ralph.root)
    assert (
        bring(ralph, "--from", client.__name__, "--format", "json").json["sources"][0]["count"] == 1
    )
    seen = [(each["kind"], each["text"].strip()) for each in observations(ralph)]
    assert seen[0] == ("note", "fix the build")
    assert seen[-1] == ("note", "It is fixed.")
    kind, text = seen[1]
    assert kind == "error"
    assert text.startswith("$ make test\nexit code 2\n")
    assert text.endswith("boom")
    assert {each["origin"]["agent"] for each in observations(ralph)} == {client.__name__}
    assert [each["host"] for each in ralph("session", "list", "--format", "json").json] == [
        client.__name__
    ]
    assert bring(ralph, "--format", "json").json["sources"][0]["new"] == 0
    assert len(observations(ralph)) == len(seen) == 3


def test_aider_has_prompts_answers_and_edits(ralph: Project, home: Path) -> None:
    aider(home, ralph.root)
    bring(ralph)
    assert [each["title"] for each in observations(ralph)] == ["prompt", "Edit src/a.py", "answer"]


def test_sessions_of_another_project_are_left_out(
    ralph: Project, home: Path, tmp_path: Path
) -> None:
    for client in (codex, gemini, opencode, copilot, cursor, cline):
        client(home, tmp_path / "other")
    assert ralph("import").out == "Nothing was found for this project.\n"


def test_a_broken_store_is_named_and_the_others_are_imported(ralph: Project, home: Path) -> None:
    codex(home, ralph.root)
    opencode(home, ralph.root)
    (home / ".local/share/opencode/opencode.db").write_bytes(b"SQLite format 3\0 and no more")
    said = bring(ralph)
    assert "opencode.db: cannot be read" in said.err
    assert len(observations(ralph)) == 3


def test_lessons_in_imported_sessions_are_proposed(ralph: Project, home: Path) -> None:
    text = "\n# aider chat started at 2026-02-03 10:00:00\n\n#### fix the build\n\nIt is fixed.\n"
    text += "\nGotcha: `make gen` has to run before `make test`.\n"
    ralph.root.joinpath(".aider.chat.history.md").write_text(text, encoding="utf-8")
    assert "1 proposal(s) from past sessions" in bring(ralph).out
    listed = ralph("review", "--format", "json").json
    assert [(each["kind"], each["text"]) for each in listed] == [
        ("proposal", "Gotcha: `make gen` has to run before `make test`.")
    ]
    assert bring(ralph, "--format", "json").json["proposals"] == 0


@pytest.mark.parametrize("client", [codex, gemini, opencode, copilot, cursor, cline, aider])
def test_an_earlier_session_is_counted_until_it_is_imported(
    ralph: Project, home: Path, client: Callable[[Path, Path], None]
) -> None:
    client(home, ralph.root)
    found = count_earlier_sessions(ralph.root, os.environ)
    assert found.by_client == {client.__name__: 1}
    bring(ralph)
    assert str(count_earlier_sessions(ralph.root, os.environ)) == ""


@pytest.mark.parametrize("client", [codex, opencode, copilot, cursor, cline])
def test_a_session_with_a_log_is_not_an_earlier_one(
    ralph: Project, home: Path, client: Callable[[Path, Path], None]
) -> None:
    client(home, ralph.root)
    bring(ralph)
    paths.import_ledger(ralph.root).unlink()  # as if hooks had recorded the session
    assert count_earlier_sessions(ralph.root, os.environ).count == 0
