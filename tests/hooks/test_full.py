"""The full path: it finds the project, hands the event over, and whatever fails is counted and not seen."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hooks.world import HOOKS, World, payload, world

from ralph.app import index, memory
from ralph.errors import Unreadable
from ralph.hooks import full
from ralph.model.record import MemoryKind


class Handled:
    """A stand-in for `app/hook`: it notes what it was called with."""

    def __init__(self, answer: str = "", error: BaseException | None = None) -> None:
        self.calls: list[tuple[Path, str, str, bytes]] = []
        self.projects: list[bool] = []
        self.answer, self.error = answer, error

    def __call__(
        self, root: Path, host: str, event: str, payload: bytes, *, env: Mapping[str, str], project: bool
    ) -> str:
        self.calls.append((root, host, event, payload))
        self.projects.append(project)
        if self.error:
            raise self.error
        return self.answer


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def test_an_event_is_handed_over_and_its_answer_printed(here: World) -> None:
    handle = Handled('{"answer": "안녕"}')
    assert full.main("claude", "SessionStart", b"{}", here.env, handle) == '{"answer": "안녕"}'.encode()
    assert handle.calls == [(here.root, "claude", "SessionStart", b"{}")]
    assert handle.projects == [True]


@pytest.mark.parametrize(
    "error", [Unreadable("no"), ValueError("x"), KeyboardInterrupt(), RecursionError(), SystemExit(2)]
)
def test_whatever_fails_is_counted_and_not_seen(here: World, error: BaseException) -> None:
    assert full.main("claude", "Stop", b"{", here.env, Handled(error=error)) == b""
    assert here.failures() == 1


def test_the_payloads_folder_counts_when_the_host_names_none(here: World) -> None:
    handle = Handled()
    inner = here.root / "src"
    inner.mkdir()
    env = {name: value for name, value in here.env.items() if name != "CLAUDE_PROJECT_DIR"}
    full.main("codex", "Stop", payload("Stop", cwd=str(inner)), env, handle)
    assert [call[0] for call in handle.calls] == [here.root]


def test_outside_of_projects_nothing_happens_unless_the_user_says_everywhere(tmp_path: Path) -> None:
    handle, env = Handled(), {"HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": str(tmp_path)}
    full.main("claude", "Stop", b"{}", env, handle)
    assert handle.calls == []
    (tmp_path / ".config" / "ralph").mkdir(parents=True)
    (tmp_path / ".config" / "ralph" / "config.yml").write_text("capture:\n  everywhere: true\n", encoding="utf-8")
    full.main("claude", "Stop", b"{}", env, handle)
    assert [call[0] for call in handle.calls] == [tmp_path]
    assert handle.projects == [False]


def test_switched_off_nothing_is_handed_over(here: World) -> None:
    handle = Handled("x")
    assert full.main("claude", "Stop", b"{}", here.env | {"RALPH_DISABLE": "1"}, handle) == b""
    assert handle.calls == []


HOOK = """
from pathlib import Path
def handle(root, host, event, payload, *, env, project):
    import yaml, re
    Path(root, "seen").write_text(f"{host} {event} {len(payload)}")
    return "answered"
"""


def installed(folder: Path, **modules: str) -> Path:
    """A copy of the package with other modules in it, and its stub."""
    shutil.copytree(HOOKS.parent, folder / "ralph", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in modules.items():
        (folder / "ralph" / Path(*name.split("_"))).with_suffix(".py").write_text(text, encoding="utf-8")
    return folder / "ralph" / "hooks" / "run.py"


@pytest.mark.parametrize(
    ("event", "members"),
    [("SessionStart", {}), ("Stop", {}), ("PreCompact", {}), ("PostToolUse", {"session_id": "../../x"}),
     ("PostToolUse", {"tool_response": ["<private>", "x"]}), ("PostToolUse", {"tool_response": ["y" * 99] * 3000}),
     ("PostToolUse", {"tool_name": "Edit", "tool_response": "PASSWORD=hunter2x9"})],
)  # fmt: skip
def test_the_stub_takes_the_full_path_with_everything_that_is_installed(
    here: World, tmp_path: Path, event: str, members: dict[str, object]
) -> None:
    stub = installed(tmp_path / "site", app_hook=HOOK)
    sent = payload(event, **members)
    assert started(stub, event, sent, here) == b"answered"
    assert (here.root / "seen").read_text(encoding="utf-8") == f"claude {event} {len(sent)}"
    assert here.lines() == []


def test_other_hosts_and_void_caches_take_the_full_path(here: World, tmp_path: Path) -> None:
    stub = installed(tmp_path / "site", app_hook=HOOK)
    assert started(stub, "AfterTool", payload(), here, host="gemini") == b"answered"
    (here.root / "ralph.local.yml").write_text("# new\n", encoding="utf-8")
    assert started(stub, "PostToolUse", payload(), here) == b"answered"


@pytest.mark.parametrize("module", ["app_hook", "hooks_full", "capture_privacy"])
def test_a_broken_installation_is_counted_and_not_seen(here: World, tmp_path: Path, module: str) -> None:
    stub = installed(
        tmp_path / "site", **{"app_hook": "from ralph.capture import privacy", module: "raise ValueError('x')"}
    )
    assert started(stub, "PostToolUse", payload(tool_response=["PASSWORD=hunter2x9", "<private>"]), here) == b""
    assert here.failures() == 1
    assert here.lines() == []


@pytest.mark.parametrize("module", ["hooks_screen", "hooks_careful", "capture_redactor"])
def test_what_is_broken_on_the_way_leaves_the_event_to_the_full_path(here: World, tmp_path: Path, module: str) -> None:
    stub = installed(tmp_path / "site", **{"app_hook": HOOK, module: "raise ValueError('x')"})
    assert started(stub, "PostToolUse", payload(tool_response="PASSWORD=hunter2x9"), here) == b"answered"
    assert here.lines() == []


ANSWER = """
import posix
def answer(host, event, payload, place):
    return f"{host} {event} {len(payload)} {place.settings.budget}".encode()
"""


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "PostToolUseFailure"])
def test_answering_events_are_answered_on_both_paths(here: World, tmp_path: Path, event: str) -> None:
    quiet = HOOK.replace('"answered"', '""')
    stub = installed(tmp_path / "site", app_hook=quiet, hooks_answer=ANSWER)
    recorded = event != "PreToolUse"
    for text, kept in (("fix it", recorded), ("PASSWORD=hunter2x9", recorded), ("<private>", False)):
        before = len(here.lines())
        sent = payload(event, note=text, prompt="fix it")
        said = started(stub, event, sent, here).decode()
        assert said.startswith(f"claude {event} ")
        assert said.endswith(" 1500")
        assert len(here.lines()) - before == kept
    assert b"hunter2x9" not in (here.log.read_bytes() if recorded else b"")


def test_an_event_is_answered_by_what_may_be_kept_of_it(here: World, tmp_path: Path) -> None:
    tell = "def answer(host, event, payload, place):\n    return payload"
    stub = installed(tmp_path / "site", hooks_answer=tell)
    sent = payload("UserPromptSubmit", prompt="use API_KEY=Zx81kLm20Qp93Vt47Yc6 here")
    assert json.loads(started(stub, "UserPromptSubmit", sent, here))["prompt"] == "use API_KEY=[redacted: api key] here"


@pytest.mark.parametrize("text", ["fix it", "PASSWORD=hunter2x9", "<private>"])
def test_a_prompt_of_the_loop_is_recorded_and_not_answered(here: World, tmp_path: Path, text: str) -> None:
    stub = installed(tmp_path / "site", hooks_answer=ANSWER)
    inside = replace(here, more={"RALPH_RUN": "run-1"})
    assert started(stub, "UserPromptSubmit", payload("UserPromptSubmit", prompt=f"do it {text}"), inside) == b""
    assert started(stub, "BeforeAgent", payload("BeforeAgent", prompt="x"), inside, host="gemini") == b""
    assert len(here.lines()) >= 1
    for event in ("PreToolUse", "PostToolUseFailure"):
        assert started(stub, event, payload(event, note=text), inside).startswith(b"claude")


def test_a_session_of_the_loop_is_handed_nothing(here: World) -> None:
    memory.init(here.root)
    memory.add(here.root, "The token in auth.ts is signed with RS256", kind=MemoryKind.DECISION)
    for env, told in ((here.env, True), (here.env | {"RALPH_RUN": "run-1"}, False)):
        sent = payload("SessionStart", source="startup", session_id=f"s-{told}")
        assert (b"RS256" in full.main("claude", "SessionStart", sent, env)) is told
    assert "s-False" not in (here.root / ".ralph" / "log" / "injections.jsonl").read_text(encoding="utf-8")


GEMINI: dict[str, tuple[dict[str, object], tuple[object, ...]]] = {
    "BeforeAgent": ({"prompt": "<hook_context>old</hook_context>\n\nfix it"}, ("UserPromptSubmit", "fix it", "", {})),
    "BeforeTool": (
        {"tool_name": "replace", "tool_input": {"absolute_path": "/a/b.py"}},
        ("PreToolUse", "", "Edit", {"absolute_path": "/a/b.py", "file_path": "/a/b.py"}),
    ),
}
TELL = """
import json, posix
def answer(host, event, payload, place):
    said = json.loads(payload)
    told = repr((event, said["prompt"], said["tool_name"], said["tool_input"])) + ("" if payload.startswith(
        b'{"session_id":"') else "!")
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": told}}).encode()
"""


@pytest.mark.parametrize("event", GEMINI)
def test_gemini_is_answered_in_its_own_words(here: World, tmp_path: Path, event: str) -> None:
    stub = installed(tmp_path / "site", app_hook=HOOK.replace('"answered"', '""'), hooks_answer=TELL)
    members, told = GEMINI[event]
    sent = payload(event, **members)
    answer = json.loads(started(stub, event, sent, here, host="gemini"))
    assert answer == {"hookSpecificOutput": {"hookEventName": event, "additionalContext": repr(told)}}
    assert started(stub, "AfterTool", payload(), here, host="gemini") == b""


def test_an_answer_that_fails_is_counted_and_not_seen(here: World, tmp_path: Path) -> None:
    stub = installed(tmp_path / "site", hooks_answer="def answer(*_): raise SystemExit(2)")
    assert started(stub, "UserPromptSubmit", payload("UserPromptSubmit", prompt="x"), here) == b""
    assert (here.failures(), len(here.lines())) == (1, 1)


def started(stub: Path, event: str, stdin: bytes, here: World, host: str = "claude") -> bytes:
    import subprocess
    import sys

    command = [sys.executable, "-I", "-S", str(stub), host, event]
    done = subprocess.run(command, input=stdin, env=here.env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_a_prompt_in_a_worktree_is_answered_too(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "../side"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=main, check=True)
    side = tmp_path / "side"
    env = {"HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": str(side)}
    for folder in (main, side):
        memory.init(folder)
    memory.add(side, "The token in auth.ts is signed with RS256", kind=MemoryKind.DECISION)
    memory.add(main, "The token in auth.ts is signed with HS512", kind=MemoryKind.DECISION)
    index.sync(main)
    index.sync(side)
    said = {"session_id": "0000-aaaa", "cwd": str(side), "prompt": "modify auth.ts"}
    told = full.main("claude", "UserPromptSubmit", json.dumps(said, separators=(",", ":")).encode(), env)
    assert "RS256" in told.decode()
    assert "HS512" in told.decode(), "a worktree sees what the project knows"
    there = {"session_id": "0000-bbbb", "cwd": str(main), "prompt": "modify auth.ts"}
    main_env = {**env, "CLAUDE_PROJECT_DIR": str(main)}
    told = full.main("claude", "UserPromptSubmit", json.dumps(there, separators=(",", ":")).encode(), main_env)
    assert "HS512" in told.decode()
    assert "RS256" not in told.decode(), "that is the worktree's, and not merged"
    assert list((main / ".ralph" / "log" / "sessions").iterdir())
    assert not (side / ".ralph" / "log").exists()
