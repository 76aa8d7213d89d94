"""Ralph in the real Claude Code when things go wrong: the session goes on, and it is told afterwards.

A hook that cannot do its work must never be noticed by the session, but by the person: `ralph doctor` and the
next session's brief say so in one line. A client that was killed has lost nothing that happened before.
"""

import json
import sys
from pathlib import Path

import pytest
from tests.e2e.clients import Claude
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, bash, printed, went_well, write
from tests.e2e.scripted import Pause, say

import ralph as ralph_package
from ralph.core import paths
from ralph.install.launcher_scripts import interpreter_file

pytestmark = pytest.mark.e2e


@pytest.fixture
def ralph(claude: Claude) -> Ralph:
    """A project that remembers, and Claude Code with Ralph's hooks in the project's settings."""
    return Ralph(claude).begin(scope="project")


def test_a_log_that_cannot_be_written_is_reported_and_its_events_are_recorded_later(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    messages.script(bash("echo one"), say("DONE"), say("LATER"), say("AND NOW"))
    logs = paths.log_folder(ralph.project) / "sessions"
    logs.parent.mkdir(parents=True, exist_ok=True)
    logs.write_text("in the way", encoding="utf-8")

    run = claude.run("do it")

    went_well(run)
    assert run.text == "DONE"
    assert logs.read_text(encoding="utf-8") == "in the way"
    said = ralph.call("doctor")
    assert "nothing can be recorded" in said.stdout
    [brief] = printed(claude.run("and later"), "SessionStart")
    assert "nothing can be recorded" not in brief, "that is for the user, not for the agent"
    logs.unlink()
    ralph("doctor", "--fix")
    after = claude.run("and now")
    assert "nothing can be recorded" not in after.requests[0].text
    assert [each.title for each in ralph.observations(run.session)] == [
        "prompt",
        "Bash: echo one",
        "answer",
    ]
    assert [each.title for each in ralph.observations(after.session)] == ["prompt", "answer"]


def test_a_damaged_index_is_made_again(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember("The importer needs port 5432.", "fix")
    ralph("index", "sync", "--rebuild")
    messages.script(bash("echo one"), bash("exit 1"), say("DONE"))
    for name in ("ralph.db-wal", "ralph.db-shm"):
        (ralph.project / ".ralph" / name).unlink(missing_ok=True)
    (paths.index_file(ralph.project)).write_bytes(b"no database at all\n" * 5_000)

    run = claude.run("what needs port 5432?")

    went_well(run)
    assert run.text == "DONE"
    assert "The importer needs port 5432." in run.requests[0].text
    assert [each.kind for each in ralph.observations(run.session)] == [
        "note",
        "tool_use",
        "error",
        "note",
    ]
    assert [each["id"] for each in ralph.sessions()] == [run.session]


@pytest.mark.parametrize(
    "missing", ["interpreter", pytest.param("program", marks=pytest.mark.soak)]
)
def test_a_session_goes_on_without_the_ralph_that_was_installed(
    missing: str, claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    note = interpreter_file(claude.environment)
    old = {"interpreter": sys.executable, "program": str(Path(ralph_package.__file__).parents[1])}[
        missing
    ]
    note.write_text(note.read_text(encoding="utf-8").replace(old, f"{old}-gone"), encoding="utf-8")
    messages.script(bash("echo one"), say("DONE"))

    run = claude.run("do it")

    went_well(run)
    assert run.text == "DONE"
    assert [request.text.count("one") > 0 for request in run.requests][-1]
    assert not ralph.log(run.session).exists()
    for command in ("doctor", "status"):
        assert (
            "which no longer exists; `ralph doctor --fix` repairs it" in ralph.call(command).stdout
        )
    ralph("doctor", "--fix")
    messages.script(say("AGAIN"))
    assert ralph.log(claude.run("do it again").session).exists()


def test_what_happened_before_a_kill_is_recorded_and_injected_into_the_next_session(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    pause = Pause(say("NEVER SEEN"))
    messages.script(
        write(claude.project / "src/queue.ts", "export {};\n"), bash("echo half way"), pause
    )
    running = claude.start("rewrite the queue")
    pause.wait()

    run = running.kill()

    assert run.code == -9
    lines = ralph.log(run.session).read_bytes()
    assert lines.endswith(b"\n")
    assert [json.loads(line)["v"] for line in lines.splitlines()] == [1] * len(lines.splitlines())
    messages.script(say("ALL RIGHT"))
    after = claude.run("where were we?")
    [brief] = printed(after, "SessionStart")
    assert "(cut off or still running): rewrite the queue" in brief
    assert brief.strip() in after.requests[0].text
    [killed] = [each for each in ralph.sessions() if each["id"] == run.session]
    assert killed["prompt"] == "rewrite the queue"
    assert [each.title for each in ralph.observations(run.session)] == [
        "prompt",
        "Write src/queue.ts",
        "Bash: echo half way",
    ]


def test_uninstalling_leaves_every_file_as_it_was(claude: Claude, messages: MessagesServer) -> None:
    settings = claude.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_bytes(b'{"env": {"MINE": "1"},\r\n\t"hooks":{ "Stop":[{"hooks":[]} ] }  }\r\n')
    (claude.home / ".claude/commands").mkdir()
    (claude.home / ".claude/commands/mine.md").write_text("mine\n", encoding="utf-8")
    ralph = Ralph(claude)
    ralph("init")
    before = contents(claude.home)
    ralph("install", "claude")
    during = contents(claude.home)
    assert set(during) > set(before)
    ralph("install", "claude")
    assert contents(claude.home) == during
    messages.script(say("DONE"))

    run = claude.run("do it")
    ralph("uninstall", "claude")

    assert [each["hook_event"] for each in run.hooks][:3] == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
    ]
    after = contents(claude.home)
    own = after.pop(
        ".claude.json"
    )  # Claude Code's: it was not there before, and nothing of ours is in it now
    assert own is not None
    assert b"ralph" not in own
    during.pop(".claude.json")
    during.pop(".gitconfig")  # it keeps the merge driver until the last agent of this user goes
    assert {name: after.get(name) for name in during} == {name: before.get(name) for name in during}
    assert not (claude.home / ".local").exists()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
