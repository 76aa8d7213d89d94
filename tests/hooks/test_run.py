"""A hook as a host starts it: exit code 0 and no output, whatever happens; and what is on the disk then."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.world import HOOKS, SESSION, World, handled, hook, payload, world

from ralph.capture import recorder
from ralph.capture.pipeline import interpret
from ralph.core import config, paths
from ralph.hooks.handler import HANDLED, RECORDED
from ralph.lean.secret_rules import VERSION
from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, Source


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def quiet(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("event", ["PostToolUse", "SubagentStop", "SessionEnd"])
@pytest.mark.parametrize("host", ["claude", "codex"])
def test_a_recording_event_is_appended_as_it_came_in_our_envelope(
    here: World, event: str, host: str
) -> None:
    sent = payload(event, note="안녕 ✓", odd='quo"te')
    quiet(hook(event, sent + b"\n", here.env, host=host))
    line = here.log.read_bytes()
    head, _, rest = line.partition(b', "at": "')
    assert head == b'{"v": 1, "type": "event"'
    assert (
        rest[26:]
        == f'Z", "host": "{host}", "event": "{event}", "rules": "{VERSION}", "payload": '.encode()
        + sent
        + b"}\n"
    )
    assert json.loads(line)["payload"] == json.loads(sent)


def handle(event: str, sent: bytes, env: Mapping[str, str], host: str = "claude") -> bytes:
    """Return what an event prints; handled in this process."""
    return handled(env, event, sent, host)


def record(event: str, sent: bytes, env: Mapping[str, str], host: str = "claude") -> None:
    """Record an event in this process; nothing is printed about it."""
    assert handle(event, sent, env, host) == b""


LOOP = {"RALPH_RUN": "run-20261116-a1", "RALPH_ITERATION": "07", "RALPH_TASK": "task-3"}


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit"])
@pytest.mark.parametrize("text", ["fine", "API_KEY=Zx81kLm20Qp93Vt47Yc6", "<private>"])
def test_what_happens_in_a_loop_says_in_which_run_iteration_and_task(
    here: World, event: str, text: str
) -> None:
    handle(
        event,
        payload(event, prompt=f"a {text}", tool_response={"stdout": f"b {text}"}),
        here.env | LOOP,
    )
    if text != "<private>":
        (line,) = here.log.read_text(encoding="utf-8").splitlines()
        place = '"run": "run-20261116-a1", "iteration": 7, "task": "task-3"'
        said = f'"event": "{event}", {place}, "rules": "{VERSION}", "payload": '
        assert said in line
    contents = read_source(Source(here.log, here.log.name, Format.LOG), interpret)
    (record,) = (placed.record for placed in contents.records)
    assert (record.origin.run, record.origin.iteration, record.origin.task) == (
        "run-20261116-a1",
        7,
        "task-3",
    )


@pytest.mark.parametrize("value", ["", 'a"b', "a b", "a\n", "x" * 81, "é", "a_b", "../x"])
def test_a_variable_of_the_loop_that_is_not_plain_is_left_out(here: World, value: str) -> None:
    record("PostToolUse", payload(), here.env | dict.fromkeys(LOOP, value))
    handle(
        "Stop",
        payload("Stop", last_assistant_message="done"),
        here.env | dict.fromkeys(LOOP, value),
    )
    for line in here.lines():
        assert not {"run", "iteration", "task"} & set(line)
        assert "run" not in repr(line.get("origin"))


@pytest.mark.parametrize("value", ["1e3", "-1", "1" * 10, "٣", "1.5"])
def test_an_iteration_is_a_number_of_a_sensible_size(here: World, value: str) -> None:
    record("PostToolUse", payload(), here.env | LOOP | {"RALPH_ITERATION": value})
    (line,) = here.lines()
    assert "iteration" not in line
    assert line["run"] == LOOP["RALPH_RUN"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_become_null(here: World, number: str) -> None:
    sent = payload(tool_input={"command": "x", "n": 7}).replace(b":7", f":{number}".encode())
    record("PostToolUse", sent, here.env)
    (line,) = here.log.read_text(encoding="utf-8").splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["payload"]["tool_input"]["n"] is None


def test_the_words_for_such_numbers_are_nothing_special(here: World) -> None:
    record("PostToolUse", payload(tool_response={"stdout": "NaN is not Infinity"}), here.env)
    assert [line["type"] for line in here.lines()] == ["event"]


def test_logs_and_their_folders_are_for_the_owner_alone(here: World) -> None:
    quiet(hook("PostToolUse", payload(), here.env))
    assert stat.S_IMODE(here.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(here.log.parent.stat().st_mode) == 0o700


def test_the_next_event_starts_a_fresh_line_after_a_torn_one(here: World) -> None:
    here.log.parent.mkdir(parents=True)
    here.log.write_bytes(b'{"v": 1, "type": "ev')
    record("PostToolUse", payload(), here.env)
    torn, line = here.log.read_bytes().splitlines()
    assert torn == b'{"v": 1, "type": "ev'
    assert json.loads(line)["event"] == "PostToolUse"


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUseFailure"])
def test_an_answering_event_is_recorded_too(here: World, event: str) -> None:
    handle(event, payload(event, prompt="fix the cart"), here.env)
    assert [line["event"] for line in here.lines()] == [event]


def test_what_a_tool_is_about_to_do_is_not_recorded(here: World) -> None:
    handle("PreToolUse", payload("PreToolUse"), here.env)
    assert here.lines() == []


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit", "PostToolUseFailure"])
def test_what_is_suspicious_is_recorded_as_it_may_be_kept(here: World, event: str) -> None:
    sent = payload(
        event, note="PASSWORD=hunter2x9 <private>x</private>\x1b[1m y", large="z " * 20_000
    )
    record(event, sent, here.env)
    (line,) = here.lines()
    said = line["payload"]
    assert isinstance(said, dict)
    assert (line["v"], line["type"], line["event"]) == (1, "event", event)
    assert said["note"] == "PASSWORD=[redacted: password]  y"
    assert next(iter(said)) == "session_id"
    assert "characters left out" in said["large"]


def test_of_a_read_the_place_is_recorded(here: World) -> None:
    record(
        "PostToolUse",
        payload(tool_name="Read", tool_response={"content": "SEEN " * 9_000}),
        here.env,
    )
    (line,) = here.lines()
    assert line["payload"] == {**json.loads(payload(tool_name="Read")), "tool_response": {}}


@pytest.mark.parametrize("text", ["<private>x</private>", "PASSWORD=hunter2x9", "\\u003cprivate>"])
def test_nothing_private_is_written_by_any_path(here: World, text: str) -> None:
    handle("PostToolUse", payload(tool_response={"stdout": text}), here.env)
    for path in here.root.rglob("*"):
        if path.is_file():
            assert b"hunter2x9" not in path.read_bytes()
            assert b"<private" not in path.read_bytes()


@pytest.mark.parametrize("event", ["PostToolUse", "SessionStart", "Nonsense", ""])
def test_nonsense_on_stdin_is_nothing_to_the_host(here: World, event: str) -> None:
    for stdin in (
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"session_id":"x"',
        b"\xff\xfe",
        b"{}",
        b"\0" * 10,
        b'"' * 999,
    ):
        assert handle(event, stdin, here.env) == b"", stdin
    quiet(hook(event, b"\xff{", here.env))
    assert here.lines() == []


def test_ten_megabytes_are_nothing_to_the_host(here: World) -> None:
    done = hook("PostToolUse", payload(tool_response={"stdout": "x" * 10_000_000}), here.env)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [[], ["claude"], ["claude", "PostToolUse", "more"], ["", ""]])
def test_a_wrong_command_line_is_nothing_to_the_host(here: World, words: list[str]) -> None:
    command = [sys.executable, "-I", "-S", str(HOOKS / "run.py"), *words]
    quiet(subprocess.run(command, input=payload(), env=here.env, capture_output=True, check=False))


def test_closed_pipes_are_nothing_to_the_host(here: World) -> None:
    command = [sys.executable, "-I", "-S", str(HOOKS / "run.py"), "claude", "PostToolUse"]
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(shell, env=here.env, check=False).returncode == 0


def test_outside_of_a_project_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    quiet(hook("PostToolUse", payload(cwd=str(folder)), {"HOME": str(tmp_path)}, cwd=folder))
    assert list(tmp_path.rglob("*")) == [folder]


@pytest.mark.parametrize("name", ["RALPH_DISABLE"])
def test_switched_off_nothing_is_written(here: World, name: str) -> None:
    quiet(hook("PostToolUse", payload(), here.env | {name: "1"}))
    assert here.lines() == []


def test_while_paused_nothing_is_written(here: World) -> None:
    (paths.log_folder(here.root) / "paused").touch()
    record("PostToolUse", payload(), here.env)
    assert here.lines() == []


@pytest.mark.parametrize("part", ["log/sessions", f"log/sessions/{SESSION}.jsonl"])
def test_a_link_is_not_followed(here: World, tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = paths.source_path(here.root, part)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside if "jsonl" not in part else outside / "file")
    handle("PostToolUse", payload(), here.env)
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_log_that_cannot_be_written_is_counted(here: World) -> None:
    here.log.parent.mkdir(parents=True)
    here.log.parent.chmod(0o500)
    quiet(hook("PostToolUse", payload(), here.env))
    here.log.parent.chmod(0o700)
    assert here.failures() == 1


def test_a_write_that_does_not_fit_is_taken_back_and_counted(here: World) -> None:
    quiet(hook("PostToolUse", payload(), here.env))
    before = here.log.read_bytes()
    limit = f"({max(len(before) + 100, 4096)},) * 2"
    code = f"import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, {limit})"
    code += "; os.execv(sys.argv[1], sys.argv[1:])"
    sent = payload(tool_response={"stdout": "y " * 3000})
    command = [
        sys.executable,
        "-c",
        code,
        sys.executable,
        "-I",
        "-S",
        str(HOOKS / "run.py"),
        "claude",
        "PostToolUse",
    ]
    quiet(subprocess.run(command, input=sent, env=here.env, capture_output=True, check=False))
    assert here.log.read_bytes() == before
    assert here.failures() == 1
    quiet(hook("PostToolUse", sent, here.env))
    assert len(here.lines()) == 2


# --- the plugin beside the settings ------------------------------------------------------------

STUB = str(HOOKS / "run.py")


def started(here: World, *more: str, **env: str) -> None:
    quiet(hook("PostToolUse", payload(), here.env | env, more=more))


def hooked(
    path: Path,
    runner: str,
    *,
    indent: int | None = 2,
    interpreter: str = sys.executable,
    event: str = "PostToolUse",
) -> None:
    """Settings with our hook, among other things."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hook = {
        "type": "command",
        "command": "/bin/sh",
        "args": ["-c", "x", interpreter, runner, "claude", event],
    }
    settings = {
        "model": "x",
        "hooks": {event: [{"hooks": [{"command": "other.sh"}, hook]}]},
        "z": "é" * 20_000,
    }
    path.write_text(json.dumps(settings, indent=indent), encoding="utf-8")


def settings_files(here: World) -> list[Path]:
    project = here.root / ".claude"
    return [
        here.home / ".claude" / "settings.json",
        project / "settings.json",
        project / "settings.local.json",
    ]


def test_the_plugin_alone_handles_an_event(here: World) -> None:
    started(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_with_a_hook_in_the_settings_each_event_is_recorded_once(here: World, number: int) -> None:
    hooked(settings_files(here)[number], STUB, indent=number or None)
    started(here, "--plugin")
    assert here.lines() == []
    started(here)
    assert len(here.lines()) == 1


def test_the_folder_of_the_hosts_settings_may_be_another(here: World, tmp_path: Path) -> None:
    hooked(tmp_path / "conf" / "settings.json", STUB)
    started(here, "--plugin", CLAUDE_CONFIG_DIR=str(tmp_path / "conf"))
    assert here.lines() == []
    hooked(settings_files(here)[0], STUB)
    started(here, "--plugin", CLAUDE_CONFIG_DIR=str(tmp_path / "none"))
    assert len(here.lines()) == 1


@pytest.mark.parametrize(
    ("runner", "interpreter", "event"),
    [
        ("/nowhere/ralph/hooks/run.py", sys.executable, "PostToolUse"),
        ("other/hooks/run.py", sys.executable, "PostToolUse"),
        (STUB, "/nowhere/bin/python", "PostToolUse"),
        (STUB, "/a\0b", "PostToolUse"),
        (STUB, sys.executable, "Stop"),
    ],
)
def test_a_hook_that_starts_nothing_at_this_event_does_not_count(
    here: World, runner: str, interpreter: str, event: str
) -> None:
    for path in settings_files(here):
        hooked(path, runner, interpreter=interpreter, event=event)
    started(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize("text", ["", "{", 'ralph/hooks/run.py"', '"\\x ralph/hooks/run.py"'])
def test_settings_that_cannot_be_read_do_not_count(here: World, text: str) -> None:
    settings_files(here)[0].parent.mkdir()
    settings_files(here)[0].write_text(text, encoding="utf-8")
    settings_files(here)[1].parent.mkdir()
    settings_files(here)[1].mkdir()
    started(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize(
    "noted", [(sys.executable, STUB), (sys.executable, "/gone/run.py"), ("/gone/python", STUB)]
)
def test_a_launcher_in_the_settings_counts_when_it_can_start(
    here: World, noted: tuple[str, str]
) -> None:
    launcher = here.home / ".local" / "state" / "ralph" / "bin" / "ralph-hook"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/bin/sh\n", encoding="utf-8")
    (launcher.parents[1] / "interpreter").write_text("\n".join((*noted, "")), encoding="utf-8")
    hook = {"type": "command", "command": str(launcher), "args": ["claude", "PostToolUse"]}
    settings_files(here)[0].parent.mkdir()
    settings = {"hooks": {"PostToolUse": [{"hooks": [hook]}]}}
    settings_files(here)[0].write_text(json.dumps(settings), encoding="utf-8")
    started(here, "--plugin")
    assert len(here.lines()) == 1, "it is not executable"
    launcher.chmod(0o755)
    started(here, "--plugin")
    assert len(here.lines()) == (1 if noted == (sys.executable, STUB) else 2)


# --- the app and the settings cache ------------------------------------------------------------


def test_a_changed_config_is_read_before_the_event_is_recorded(here: World) -> None:
    (here.root / "ralph.yml").write_text(
        "privacy:\n  patterns: ['ACME-\\d{6}']\n", encoding="utf-8"
    )
    quiet(hook("PostToolUse", payload(tool_response={"stdout": "for ACME-123456 only"}), here.env))
    assert "[redacted: custom] only" in here.log.read_text(encoding="utf-8")


def test_an_event_about_a_private_path_is_not_recorded(here: World) -> None:
    (here.root / "ralph.yml").write_text(
        "privacy:\n  paths: ['secrets/**', '*.pem']\n", encoding="utf-8"
    )
    here.cached()
    record("PostToolUse", payload(tool_input={"command": "cat ./secrets/x"}), here.env)
    record("PostToolUse", payload(tool_response={"stdout": "a/certs/key.PEM:3: x"}), here.env)
    assert here.lines() == []
    record("PostToolUse", payload(tool_input={"command": "cat README.md"}), here.env)
    assert len(here.lines()) == 1


def test_gemini_events_are_recorded_under_their_own_names(here: World) -> None:
    record("AfterTool", payload(tool_name="run_shell_command"), here.env, host="gemini")
    assert [(line["host"], line["event"]) for line in here.lines()] == [("gemini", "AfterTool")]


def test_a_session_id_inside_a_tool_is_not_taken(here: World) -> None:
    sent = b' {"tool_response" : {"session_id" : "evil"},\n "cwd": "/nowhere",\n "session_id" : "%s" }\n'
    record("PostToolUse", sent % SESSION.encode(), here.env)
    assert [line["payload"]["session_id"] for line in here.lines()] == [SESSION]  # type: ignore[index]


CUSTOM = "privacy:\n  patterns: ['ACME-\\d{6}']\n"


def is_redacted(here: World, **env: str) -> bool:
    """Record an event with what the user's pattern matches, and return whether it was redacted."""
    record("PostToolUse", payload(tool_response={"stdout": "for ACME-123456 only"}), here.env | env)
    (*_, line) = here.log.read_text(encoding="utf-8").splitlines()
    assert ("[redacted: custom]" in line) is ("ACME-123456" not in line)
    return "[redacted: custom]" in line


def test_the_cache_of_a_copied_project_is_not_used(here: World, tmp_path: Path) -> None:
    copy = World(tmp_path / "copy", here.home)
    shutil.copytree(here.root, copy.root)
    (copy.root / "ralph.yml").write_text(CUSTOM, encoding="utf-8")
    assert is_redacted(copy)
    assert not is_redacted(here)


def test_the_cache_of_another_home_is_not_used(here: World, tmp_path: Path) -> None:
    config_file = tmp_path / "second" / ".config" / "ralph" / "config.yml"
    config_file.parent.mkdir(parents=True)
    config_file.write_text(CUSTOM, encoding="utf-8")
    assert is_redacted(here, HOME=str(tmp_path / "second"))
    assert not is_redacted(here)


def test_a_variable_that_sets_privacy_makes_the_cache_stale(here: World) -> None:
    assert is_redacted(here, RALPH_PRIVACY_PATTERNS="ACME-[0-9]{6}")
    assert not is_redacted(here)


@pytest.mark.parametrize("number", range(8))
def test_a_corrupt_cache_is_written_anew(here: World, number: int) -> None:
    (here.root / "ralph.yml").write_text(CUSTOM, encoding="utf-8")
    here.cached()
    cache = recorder.cache_file(here.root)
    text = cache.read_text(encoding="utf-8")
    corrupt = (
        "", "ralph-hook 0\n", text[:-1], text[: len(text) // 2], text.replace("inject=", "x="),
        text.replace("budget=", "budget=x"), text.replace("root=", "root=1"), "\0" * 999,
    )  # fmt: skip
    cache.write_text(corrupt[number], encoding="utf-8")
    assert is_redacted(here)
    record("UserPromptSubmit", payload("UserPromptSubmit", prompt="fix the cart"), here.env)
    assert cache.read_text(encoding="utf-8") == text
    assert here.failures() == 0


def test_a_config_that_changes_while_it_is_loaded_is_read_again(here: World) -> None:
    state = recorder.config_state(here.root, here.env)
    loaded = config.load(here.root, env=here.env)
    (here.root / "ralph.yml").write_text(CUSTOM, encoding="utf-8")
    assert recorder.write_settings(here.root, loaded, env=here.env, state=state)
    assert is_redacted(here)


# --- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize("stdin", [b"{", b"[" * 100_000, b'{"session_id": "s", "x": \xff}'])
def test_an_exception_inside_the_app_is_counted(here: World, stdin: bytes) -> None:
    record("Stop", stdin, here.env)
    assert here.failures() == 1
    record("SessionStart", stdin, here.env)
    assert here.failures() == 2


@pytest.mark.parametrize("damage", ["missing", "syntax", "empty"])
def test_a_broken_installation_is_nothing_to_the_host(
    here: World, tmp_path: Path, damage: str
) -> None:
    hooks = tmp_path / "site" / "ralph" / "hooks"
    hooks.mkdir(parents=True)
    shutil.copy(HOOKS / "run.py", hooks / "run.py")
    if damage != "missing":
        (hooks / "handler.py").write_text(
            "def main(:" if damage == "syntax" else "", encoding="utf-8"
        )
    command = [sys.executable, "-I", "-S", str(hooks / "run.py"), "claude", "PostToolUse"]
    quiet(subprocess.run(command, input=payload(), env=here.env, capture_output=True, check=False))
    assert here.lines() == []


# --- recorded payloads -------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[1] / "golden" / "hooks"
RECORDED_PAYLOADS = [
    *GOLDEN.glob("*.json"),
    *Path(os.environ.get("RALPH_TEST_PAYLOADS") or GOLDEN).glob("*.json"),
]
"""Payloads of real hosts; RALPH_TEST_PAYLOADS names a folder with more."""


@pytest.mark.parametrize(
    "file", sorted(set(RECORDED_PAYLOADS)), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_every_recorded_payload_is_handled(here: World, file: Path) -> None:
    call = json.loads(file.read_text(encoding="utf-8"))
    host, sent = call["client"], call["stdin"] if "stdin" in call else call["body"]
    event = call["event"] if "event" in call else sent["hook_event_name"]
    printed = handled(here.env, event, json.dumps(sent, indent=1).encode(), host)
    assert not printed or json.loads(printed)["hookSpecificOutput"]["hookEventName"] == event
    assert here.failures() == 0
    lines = here.lines()
    if event in RECORDED:
        assert [(line["host"], line["event"]) for line in lines] == [(host, event)]
        assert set(lines[0]["payload"]) == set(sent)  # type: ignore[call-overload]
    elif event not in HANDLED:
        assert lines == []
