"""The first events of a project are recorded before any cache exists; none is lost without a trace."""

import json
from functools import partial
from pathlib import Path

import pytest
from tests.support.world import SESSION, World, hook, payload

from ralph.capture import recorder
from ralph.core import paths
from ralph.core.errors import DeadlineExceeded
from ralph.hooks.handler import run_event
from ralph.search import index
from ralph.storage import queries

PRIVATE = "privacy:\n  patterns: ['ACME-[0-9]{4}']\n"


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project that no hook and no command has seen."""
    here = World(tmp_path / "proj", tmp_path / "home")
    (here.root / ".git").mkdir(parents=True)
    (here.root / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (here.root / ".ralph").mkdir()
    here.home.mkdir()
    return here


def too_late(seconds: float, processor_seconds: float | None = None) -> None:
    """A machine on which there is no time for anything slow."""
    raise DeadlineExceeded("took too long and was given up")


def send_in_a_hurry(here: World, event: str, **members: object) -> None:
    assert run_event("claude", event, payload(event, **members), here.env, too_late) == b""


def send_all_in_a_hurry(here: World) -> None:
    for number in range(3):
        send_in_a_hurry(here, "UserPromptSubmit", prompt=f"question {number}")
        send_in_a_hurry(here, "PostToolUse", note=f"call {number}")
        send_in_a_hurry(here, "SubagentStop", last_assistant_message=f"answer {number}")


@pytest.mark.parametrize(
    "config",
    ["", "# only a comment\n", "memories:\n  budget: 900\n"],
    ids=["no file", "comments", "settings"],
)
def test_they_are_recorded_although_there_is_no_time_to_load_the_settings(
    here: World, config: str
) -> None:
    if config:
        (here.root / "ralph.yml").write_text(config, encoding="utf-8")
    send_all_in_a_hurry(here)
    assert [line["event"] for line in here.lines()] == [
        "UserPromptSubmit",
        "PostToolUse",
        "SubagentStop",
    ] * 3


def test_they_are_redacted_like_all_others(here: World) -> None:
    hook("PostToolUse", payload(tool_response={"stdout": "DB_PASSWORD=kw9Zr4tQ set"}), here.env)
    stored = here.log.read_text(encoding="utf-8")
    assert "set" in stored
    assert "kw9Zr4tQ" not in stored


@pytest.mark.parametrize(
    ("name", "config"),
    [
        pytest.param("ralph.yml", PRIVATE, id="in the project's file"),
        pytest.param("ralph.yml", '"priv\\u0061cy": {patterns: ["ACME"]}\n', id="escaped"),
        pytest.param(".ralph.toml", '[privacy]\npatterns = ["ACME"]\n', id="toml"),
        pytest.param("../home/.config/ralph/config.yml", PRIVATE, id="in the user's file"),
        pytest.param("ralph.yml", "x: 1\n" * 20_000, id="too large"),
    ],
)
def test_what_cannot_be_judged_in_time_is_counted_and_not_stored(
    here: World, name: str, config: str
) -> None:
    path = here.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config, encoding="utf-8")
    send_all_in_a_hurry(here)
    assert not here.log.exists()
    assert here.failures() == 9
    failures = paths.hook_failures(here.root)
    assert failures.stat().st_mode & 0o777 == 0o600
    assert failures.parent.stat().st_mode & 0o777 == 0o700


def test_a_variable_with_privacy_rules_is_respected(here: World) -> None:
    env = here.env | {"RALPH_PRIVACY_PATTERNS": "ACME-[0-9]{4}"}
    run_event("claude", "PostToolUse", payload(note="for ACME-1234"), env, too_late)
    assert not here.log.exists()
    assert here.failures() == 1
    hook("PostToolUse", payload(note="for ACME-1234 only"), env)
    stored = here.log.read_text(encoding="utf-8")
    assert "only" in stored
    assert "ACME-1234" not in stored


def test_rules_that_the_cache_knows_hold_while_other_settings_change(here: World) -> None:
    config = here.root / "ralph.yml"
    config.write_text(PRIVATE, encoding="utf-8")
    hook("UserPromptSubmit", payload("UserPromptSubmit", prompt="hello"), here.env)
    (here.root / "ralph.local.yml").write_text("memories: {budget: 900}\n", encoding="utf-8")
    hook("PostToolUse", payload(note="ACME-1234 is one"), here.env)
    config.write_text("memories: {budget: 900}\n", encoding="utf-8")
    hook("PostToolUse", payload(note="ACME-1234 is another"), here.env)
    stored = here.log.read_text(encoding="utf-8")
    assert "is one" in stored
    assert "is another" in stored
    assert "ACME-1234" not in stored


def test_an_agents_last_message_is_recorded_although_there_is_no_time_to_summarise(
    here: World,
) -> None:
    send_in_a_hurry(here, "SessionStart", source="startup")
    send_in_a_hurry(here, "Stop", last_assistant_message="The cart is fixed.")
    assert [line["event"] for line in here.lines()] == ["SessionStart", "Stop"]
    index.sync(here.root)
    [answer] = index.ask(here.root, partial(queries.session_records, session_id=SESSION))
    assert answer.text == "The cart is fixed."
    assert answer.origin.by == "agent"


def test_a_first_stop_that_fails_is_counted(here: World) -> None:
    send_in_a_hurry(here, "Stop", last_assistant_message="Done.")
    assert here.failures() == 1
    counted = recorder.read_failures(here.root)
    assert counted is not None
    assert counted.what.startswith("Stop: DeadlineExceeded")


def test_a_link_in_place_of_the_state_is_not_followed_to_count(here: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (here.root / ".git/ralph").symlink_to(elsewhere)
    send_in_a_hurry(here, "Stop", last_assistant_message="Done.")
    assert list(elsewhere.iterdir()) == []


def test_the_first_prompt_is_stored_as_it_was_sent(here: World) -> None:
    sent = payload("UserPromptSubmit", prompt="fix the cart")
    assert hook("UserPromptSubmit", sent, here.env).returncode == 0
    [line] = here.lines()
    assert line["payload"] == json.loads(sent)
