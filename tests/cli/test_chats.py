"""`ralph session chat` and `show --conversation` through the front door, with programs of our own as agents."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.chat_programs import CLAUDE
from tests.support.runner import Project, command


@pytest.fixture
def chats(ralph: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a task, and a `claude` on the PATH that repeats what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "claude"
    text = CLAUDE.format(python=sys.executable, record=str(tmp_path / "record"))
    program.write_text(text, encoding="utf-8", newline="")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return ralph


@pytest.fixture
def task(chats: Project) -> str:
    """The task's id."""
    found: str = chats("task", "add", "split the till", "--format", "json").json["id"]
    return found


def record(tmp_path: Path) -> str:
    return (tmp_path / "record").read_text(encoding="utf-8")


QUESTION = "How should login work?"


def test_a_chat_is_begun_listed_resumed_shown_and_exported(
    chats: Project, task: str, tmp_path: Path
) -> None:
    said = chats("session", "chat", "--task", task, "--mode", "plan", "--agent", "claude", QUESTION)
    assert (said.code, said.out) == (0, f"You said: {QUESTION}\n")
    assert f": plan, claude, {task}" in said.err
    name = said.err.split(":")[0].splitlines()[-1]
    assert "--tools" in record(tmp_path)
    assert f'"task": "{task}"' in record(tmp_path)
    again = chats("session", "chat", name[:12], "-", stdin=b"And then?")
    assert (again.code, again.out) == (0, "You said: And then?\n")
    listed = chats("session", "list", "--task", task).out.splitlines()
    assert listed[0].split()[:7] == [
        "session",
        "start",
        "length",
        "host",
        "mode",
        "messages",
        "first",
    ]
    assert listed[1].endswith(QUESTION)
    assert listed[1].removesuffix(QUESTION).split()[-3:] == ["claude", "plan", "4"]
    assert chats("session", "show", name).out.count("You said: ") == 2
    assert chats("session", "show", name, "--limit", "1").out.endswith("You said: And then?\n")
    assert len(chats("session", "show", name, "--format", "json").json["hits"]) == 4
    turns = chats("session", "show", name, "--conversation", "--format", "json").json
    assert [each["role"] for each in turns["messages"]] == ["user", "assistant"] * 2
    assert chats("session", "show", name, "--conversation").out.startswith(
        f"# {QUESTION}\n\n- session: "
    )


def test_json_holds_the_answer_and_nothing_else_is_printed(chats: Project, task: str) -> None:
    said = chats("session", "chat", "--task", task, "--agent", "claude", "How?", "--format", "json")
    assert (said.json["text"], said.json["mode"], said.json["stop"]) == (
        "You said: How?",
        "agent",
        "end_turn",
    )
    assert said.err == ""
    again = chats("session", "chat", said.json["id"], "Again?", "--format", "json").json
    assert (again["id"], again["mode"], again["text"]) == (
        said.json["id"],
        "agent",
        "You said: Again?",
    )


def test_a_chat_that_cannot_continue_names_no_command_that_continues_it(
    chats: Project, task: str
) -> None:
    agent = ("--agent", "command", "--command", "cat")
    said = chats("session", "chat", "--task", task, *agent, "How?")
    assert said.code == 0
    assert f": agent, command, {task}" in said.err
    assert "ralph session chat" not in said.err


def test_an_agent_that_does_not_answer_is_an_error_and_leaves_no_session(
    chats: Project, task: str
) -> None:
    said = chats("session", "chat", "--task", task, "--agent", "claude", "fail")
    assert said.code == 1
    assert "claude exited with 1: Not logged in" in said.err
    assert chats("session", "list", "--format", "json").json == []
    assert (
        chats(
            "session", "chat", "--task", task, "--agent", "claude", "fail", "--format", "json"
        ).code
        == 1
    )


def test_a_task_that_is_not_there_is_told_and_one_without_sessions_lists_none(
    chats: Project, task: str
) -> None:
    assert chats("session", "list", "--task", task).out == "No sessions.\n"
    assert chats("session", "list", "--task", task, "--format", "json").json == []
    assert "Task not found: t-nope" in chats("session", "list", "--task", "t-nope").err
    assert chats("session", "chat", "--task", "t-nope", "--agent", "claude", "How?").code == 1
    assert "Session not found: nope" in chats("session", "chat", "nope", "How?").err


def test_without_a_message_no_agent_starts(chats: Project, task: str, tmp_path: Path) -> None:
    said = chats("session", "chat", "--task", task, "--agent", "claude")
    assert said.code == 2
    assert "missing argument '[ID] MESSAGE'" in said.err
    assert chats("session", "chat", "x").code == 2
    assert not (tmp_path / "record").exists()


def test_while_capture_is_paused_a_chat_keeps_no_word(chats: Project, task: str) -> None:
    assert chats("capture", "off").code == 0
    said = chats("session", "chat", "--task", task, "--agent", "claude", "A quiet word")
    assert said.code == 0
    assert "this conversation is not recorded" in said.err
    assert b"A quiet word" not in chats.everything()


def test_ctrl_c_ends_the_agent_and_keeps_the_chat(
    chats: Project, task: str, tmp_path: Path
) -> None:
    words = [
        *command(),
        "session",
        "chat",
        "--task",
        task,
        "--mode",
        "plan",
        "--agent",
        "claude",
        "wait",
    ]
    with subprocess.Popen(
        words, cwd=chats.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        while running.poll() is None and not (tmp_path / "record.waits").exists():
            os.sched_yield()
        running.send_signal(2)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    [listed] = chats("session", "list", "--task", task, "--format", "json").json
    assert (listed["mode"], listed["messages"]) == ("plan", 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("chat", "3f2a", "How?", "--task", "t-1"), "ID and --task cannot be used together"),
        (("chat", "How?"), "a conversation needs a session or a task"),
        (("chat", "3f2a", "How", "now?"), "the message is one argument"),
        (("show", "--summary", "--conversation"), "cannot be used together"),
        (("show", "--summary", "--layer", "2"), "--layer does not apply to a summary"),
        (("show", "--conversation", "--since", "7d"), "--since does not apply to a conversation"),
        (("show", "--improve"), "--improve does not apply to what happened"),
    ],
)
def test_what_does_not_go_together_is_refused(
    ralph: Project, words: tuple[str, ...], told: str
) -> None:
    said = ralph("session", *words)
    assert (said.code, said.out, told in said.err) == (2, "", True), said.err
