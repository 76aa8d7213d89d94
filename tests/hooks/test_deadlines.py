"""Hooks end in time and lose nothing, whatever is locked, large or slow."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from tests.conftest import _mount, _unmount
from tests.support.git import git
from tests.support.runner import Project
from tests.support.world import SESSION, patient_hook, payload, world

from ralph.core import paths
from ralph.lean import hook_files
from ralph.search import index


def test_an_event_behind_a_held_lock_is_spilled_and_collected_once(tmp_path: Path) -> None:
    here = world(tmp_path)
    folder = paths.log_folder(here.root) / "sessions"
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    done = patient_hook("PostToolUse", payload(note="kept"), here.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [spilled] = (folder.parent / "spill").glob("*.jsonl")
    assert spilled.stat().st_mode & 0o777 == 0o600
    assert here.lines() == []
    os.close(handle)
    line = spilled.read_bytes()
    index.sync(here.root)
    spilled.write_bytes(line)  # as after a kill between append and delete
    index.sync(here.root)
    assert [event["payload"] for event in here.lines()] == [json.loads(payload(note="kept"))]
    assert not list((folder.parent / "spill").iterdir())
    assert here.failures() == 0


def test_a_file_that_no_hook_has_spilled_is_left_alone(tmp_path: Path) -> None:
    here = world(tmp_path)
    stray = paths.log_folder(here.root) / hook_files.SPILL / "notes-1.jsonl"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}\n", encoding="utf-8")
    index.sync(here.root)
    assert stray.exists()


@pytest.mark.parametrize("way", ["folder", "fifo"])
def test_events_are_spilled_while_something_else_has_the_name_of_the_log(
    tmp_path: Path, way: str
) -> None:
    here = world(tmp_path / way)
    here.log.parent.mkdir(parents=True)
    here.log.mkdir() if way == "folder" else os.mkfifo(here.log)
    sent = (("UserPromptSubmit", {"prompt": "fix the cart"}), ("PostToolUse", {"note": "kept"}))
    for event, members in sent:
        assert patient_hook(event, payload(event, **members), here.env).returncode == 0
    patient_hook("PostToolUse", payload(session_id="other", note="kept"), here.env)
    index.sync(here.root)
    assert len(list((here.log.parents[1] / "spill").glob("*.jsonl"))) == 2
    assert here.log.with_name("other.jsonl").is_file()
    here.log.rmdir() if way == "folder" else here.log.unlink()
    index.sync(here.root)
    assert [event["event"] for event in here.lines()] == ["UserPromptSubmit", "PostToolUse"]
    assert not list((here.log.parents[1] / "spill").iterdir())


def test_events_are_spilled_while_the_folder_of_logs_is_read_only(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.log.parent.mkdir(parents=True)
    _mount(here.log.parent, "size=1m,ro")
    try:
        for event in ("UserPromptSubmit", "PostToolUse", "Stop"):
            assert (
                patient_hook(
                    event, payload(event, prompt="fix it", last_assistant_message="done"), here.env
                ).returncode
                == 0
            )
        assert (
            len(list((here.log.parents[1] / "spill").glob("*.jsonl"))) == 4
        )  # a stop and its branch
    finally:
        _unmount(here.log.parent)
    index.sync(here.root)
    assert [line.get("event", line["type"]) for line in here.lines()][:3] == [
        "UserPromptSubmit",
        "PostToolUse",
        "Stop",
    ]
    assert "done" in here.log.read_text(encoding="utf-8")


def test_a_prompt_and_a_start_are_answered_behind_held_locks(tmp_path: Path) -> None:
    here = world(tmp_path)
    index.sync(here.root)
    state = paths.state_folder(here.root)
    handles = [os.open(path, os.O_RDONLY) for path in (state, *state.rglob("*")) if path.is_dir()]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_EX)
    for event in ("UserPromptSubmit", "PostToolUse", "SessionStart", "Stop"):
        done = patient_hook(
            event, payload(event, prompt="fix the cart", source="startup"), here.env
        )
        assert (done.returncode, done.stderr) == (0, b"")
    for handle in handles:
        os.close(handle)
    index.sync(here.root)
    assert {"UserPromptSubmit", "PostToolUse"} <= {event.get("event") for event in here.lines()}


def test_a_payload_that_is_too_large_is_stored_without_its_texts(tmp_path: Path) -> None:
    here = world(tmp_path)
    sent = payload(
        "PostToolUse",
        tool_name="Write",
        tool_input={"file_path": "/p/big.bin"},
        tool_response="x" * 34_000_000,
    )
    assert patient_hook("PostToolUse", sent, here.env).returncode == 0
    [line] = here.lines()
    assert line["payload"] == {
        "session_id": SESSION,
        "cwd": "/nowhere",
        "hook_event_name": "PostToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/p/big.bin"},
    }
    assert here.failures() == 1


def test_a_stop_that_is_too_large_is_recorded_without_its_text(tmp_path: Path) -> None:
    here = world(tmp_path)
    sent = payload("Stop", last_assistant_message="x" * 34_000_000)
    assert patient_hook("Stop", sent, here.env).returncode == 0
    [stop, session] = here.lines()
    assert stop["payload"] == {
        "session_id": SESSION,
        "cwd": "/nowhere",
        "hook_event_name": "Stop",
    }
    assert session["id"] == SESSION
    assert here.failures() == 1


def test_a_fifo_in_place_of_a_settings_file_is_reported_at_once(tmp_path: Path) -> None:
    here = world(tmp_path)
    (here.root / "ralph.yml").unlink()
    os.mkfifo(here.root / "ralph.yml")
    done = patient_hook("SessionStart", payload("SessionStart", source="startup"), here.env)
    assert b"ralph.yml: cannot be read: is not a regular file" in done.stdout
    assert patient_hook("PostToolUse", payload(), here.env).returncode == 0


def test_a_catastrophic_pattern_is_switched_off_and_the_event_is_redacted_by_the_other_rules(
    tmp_path: Path,
) -> None:
    here = world(tmp_path)
    (here.root / "ralph.yml").write_text(
        "privacy:\n  patterns: ['(a+)+$', 'ACME-[0-9]+']\n", encoding="utf-8"
    )
    here.cached()
    for _ in range(2):  # at first it takes its time, then it is off
        sent = payload(tool_response={"stdout": "a" * 40 + "! ACME-123 DB_PASSWORD=kw9Zr4tQ"})
        assert patient_hook("PostToolUse", sent, here.env).returncode == 0
    assert len(here.lines()) == 2
    assert not any(
        word in here.log.read_text(encoding="utf-8") for word in ("ACME-123", "kw9Zr4tQ")
    )
    assert hook_files.slow_patterns(str(paths.state_folder(here.root))) == {"(a+)+$"}
    assert here.failures() == 1


def test_a_slow_pattern_is_left_out_by_commands_and_named_by_doctor_until_its_line_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path)
    monkeypatch.setenv("HOME", str(here.home))
    patterns = ["(a+)+$", "(x|x)*y", "ACME-\\d+"]
    (here.root / "ralph.yml").write_text(
        f"privacy:\n  patterns: {json.dumps(patterns)}\n", encoding="utf-8"
    )
    slow = "a" * 40 + "! " + "x" * 40 + "z"
    for _ in range(2):
        patient_hook("PostToolUse", payload(tool_response={"stdout": slow}), here.env)
    assert hook_files.slow_patterns(str(paths.state_folder(here.root))) == {"(a+)+$", "(x|x)*y"}
    sent = payload("Stop", last_assistant_message=f"{slow} ACME-7731")
    assert patient_hook("Stop", sent, here.env).returncode == 0
    ralph = Project(here.root)
    commands = (
        ["memory", "add", f"{slow} is slow"],
        ["search", "slow"],
        ["index", "sync", "--rebuild"],
        ["doctor", "--secrets"],
    )
    for words in commands:
        assert ralph(*words).code in (0, 1)
    assert "ACME-7731" not in ralph.everything().decode("utf-8", "replace")
    assert "secret" in ralph("memory", "add", "the code is ACME-7731").err
    found = [
        each
        for each in ralph("doctor", "--format", "json").json["findings"]
        if each["code"] == "slow-pattern"
    ]
    assert [name in each["what"] for name, each in zip(patterns, found, strict=False)] == [
        True,
        True,
    ]
    assert all("slow-patterns" in each["hint"] for each in found)
    assert ralph("config", "--format", "json").json["privacy.patterns"] == patterns
    paths.slow_patterns_file(here.root).unlink()
    assert "slow-pattern" not in str(ralph("doctor", "--format", "json").json)
    assert "secret" in ralph("memory", "add", "xxxy").err


@pytest.mark.parametrize("words", [["memory", "add"], ["scratchpad"], ["task", "add"]])
def test_a_command_switches_a_catastrophic_pattern_off_and_goes_on_with_the_others(
    tmp_path: Path, words: list[str]
) -> None:
    ralph = Project(tmp_path / words[0])
    ralph.root.mkdir()
    git(ralph.root, "init", "-q")
    text = "privacy:\n  patterns: ['([a-z]+ ?)+#', 'ACME-[0-9]+']\n"
    (ralph.root / "ralph.yml").write_text(text, encoding="utf-8")
    assert ralph(*words, "The cart tests need the containers of the shop").code == 0
    ralph(*words, "The cart tests need the containers of ACME-7731")
    assert "ACME-7731" not in ralph.everything().decode("utf-8", "replace")
    findings = ralph("doctor", "--format", "json").json["findings"]
    assert [each["code"] for each in findings].count("slow-pattern") == 1


def test_a_stop_with_many_catastrophic_patterns_is_recorded_with_its_text(tmp_path: Path) -> None:
    here = world(tmp_path)
    patterns = [f"(a+)+{number}$" for number in range(3)]
    text = f"privacy:\n  patterns: {json.dumps([*patterns, 'ACME-[0-9]+'])}\n"
    (here.root / "ralph.yml").write_text(text, encoding="utf-8")
    sent = payload("Stop", last_assistant_message="a" * 60 + "! the cart is fixed ACME-7731")
    assert patient_hook("Stop", sent, here.env).returncode == 0
    assert hook_files.slow_patterns(str(paths.state_folder(here.root))) == set(patterns)
    log = here.log.read_text(encoding="utf-8")
    assert "the cart is fixed" in log
    assert "ACME-7731" not in log
    assert here.failures() == 0
