"""The check after an update of the secret rules: once, in steps, and only in what was recorded."""

import json
from pathlib import Path

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.runner import Block, page
from tests.support.secret_logs import raw, seen
from tests.support.world import World, world

from ralph.core import paths
from ralph.install import rules_update
from ralph.lean.secret_rules import rules_mark
from ralph.search import index

TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
MEMORIES = page(Block(f"Deploy with {TOKEN}"))


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project that was recorded under rules that did not know the token."""
    made = world(tmp_path)
    folder = paths.sessions_folder(made.root)
    folder.mkdir(parents=True)
    for number in range(4):
        text = seen(1, "hello", f"s{number}") + raw(f"use {TOKEN}", f"s{number}")
        (folder / f"s{number}.jsonl").write_text(text + seen(2, "bye"), encoding="utf-8")
    (folder / "clean.jsonl").write_text(seen(3, "nothing here"), encoding="utf-8")
    memories = made.root / ".agent" / "memories.md"
    memories.parent.mkdir(exist_ok=True)
    memories.write_text(MEMORIES, encoding="utf-8")
    return made


def leaks(here: World) -> list[str]:
    """The files of the state folder that contain the token."""
    found = []
    for path in sorted(paths.state_folder(here.root).rglob("*")):
        if path.is_file() and TOKEN.lower().encode() in path.read_bytes().lower():
            found.append(path.name)
    return found


def finish(here: World) -> int:
    """Run steps that are as short as possible, and return how many it took."""
    for number in range(1, 100):
        if rules_update.run_step(here.root, (), seconds=0).is_complete:
            return number
    raise AssertionError("the check does not end")


def test_the_end_of_a_session_redacts_what_was_recorded_under_older_rules(here: World) -> None:
    index.sync(here.root)
    assert "ralph.db" in leaks(here)
    HookedSession(here, "now").stop()
    log = paths.sessions_folder(here.root) / "s1.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    assert json.loads(lines[1])["payload"]["prompt"] == "use [redacted: github token]"
    assert lines[0] == seen(1, "hello", "s1")
    assert lines[2] == seen(2, "bye")
    assert leaks(here) == []


def test_memory_files_are_reported_and_not_changed(here: World) -> None:
    HookedSession(here, "now").stop()
    assert (here.root / ".agent" / "memories.md").read_text("utf-8") == MEMORIES
    said = HookedSession(here, "next").send("SessionStart", source="startup")
    message = json.loads(said)["systemMessage"]
    assert "4 secrets were redacted in recorded sessions" in message
    assert "1 place looks like a secret in memory files (`ralph doctor --secrets`)" in message
    said = HookedSession(here, "third").send("SessionStart", source="startup")
    assert "looks like a secret" not in json.loads(said)["systemMessage"]


def test_short_steps_end_with_the_same_result(here: World) -> None:
    assert finish(here) > 3
    assert leaks(here) == []


def test_a_step_continues_where_the_last_one_ended_although_files_come_and_go(here: World) -> None:
    folder = paths.sessions_folder(here.root)
    for _ in range(3):
        rules_update.run_step(here.root, (), seconds=0)
    (folder / "clean.jsonl").unlink()
    (folder / "s0.jsonl").unlink()
    (folder / "s9.jsonl").write_text(raw(f"late {TOKEN}"), encoding="utf-8")
    finish(here)
    assert leaks(here) == []


def test_the_check_runs_once_for_each_version_of_the_rules(here: World) -> None:
    finish(here)
    log = paths.sessions_folder(here.root) / "clean.jsonl"
    log.write_text(raw(f"cust-77 {TOKEN}"), encoding="utf-8")
    assert finish(here) == 1
    assert TOKEN in log.read_text("utf-8")
    rules_update.run_step(here.root, [r"cust-\d+"], seconds=60)
    assert "cust-77" not in log.read_text("utf-8")
    assert leaks(here) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rules": 1, "x": 2}', '{"affected": 3}'])
def test_a_damaged_note_starts_the_check_again(here: World, text: str) -> None:
    finish(here)
    paths.secret_check(here.root).write_text(text, encoding="utf-8")
    log = paths.sessions_folder(here.root) / "clean.jsonl"
    log.write_text(raw(f"use {TOKEN}"), encoding="utf-8")
    finish(here)
    assert leaks(here) == []


def test_a_line_that_the_current_rules_wrote_is_not_searched_again(here: World) -> None:
    log = paths.sessions_folder(here.root) / "new.jsonl"
    line = raw(f"use {TOKEN}", "new")
    older = line.replace('"payload": ', '"rules": "5-0", "payload": ')
    current = line.replace('"payload": ', f'"rules": "{rules_mark(())}", "payload": ')
    log.write_text(current, encoding="utf-8")
    finish(here)
    assert log.read_text("utf-8") == current
    log.write_text(older, encoding="utf-8")
    paths.secret_check(here.root).unlink()
    finish(here)
    assert "redacted" in log.read_text("utf-8")


def test_a_log_that_is_too_large_for_a_step_is_only_reported(here: World) -> None:
    log = paths.sessions_folder(here.root) / "large.jsonl"
    text = raw(f"use {TOKEN}", "large") + raw("x" * 2_000_000, "large")
    log.write_text(text, encoding="utf-8")
    finish(here)
    assert log.read_text("utf-8") == text
    said = HookedSession(here, "next").send("SessionStart", source="startup")
    assert "1 large recorded session has a secret" in json.loads(said)["systemMessage"]
