"""Settings that cannot be used silence nothing: hooks go on with the last good ones, and say so once."""

import json
import os
from pathlib import Path

import pytest
from tests.support.broken_configs import BROKEN
from tests.support.hook_answers import BLOCKS, JWT, PAY
from tests.support.runner import executable, page
from tests.support.world import SESSION, World, patient_hook, payload, world

from ralph.core import paths

GOOD = "memories:\n  budget: 1500\nprivacy:\n  patterns: ['ACME-[0-9]{4}']\n"
SECRETS = "ACME-1111 ZETA-2222 THETA-3333"


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project with memories, an index and good settings that hooks have seen."""
    here = world(tmp_path)
    (here.root / ".agent").mkdir()
    (here.root / ".agent/memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    set_config(here, GOOD)
    patient_hook("SessionStart", payload("SessionStart", source="startup"), here.env)
    return here


def set_config(here: World, text: str) -> None:
    (here.root / "ralph.yml").write_bytes(os.fsencode(text))


def send(here: World, event: str, **members: object) -> dict[str, object]:
    """Send an event to a real hook, and return its answer."""
    done = patient_hook(event, payload(event, **members), here.env)
    assert (done.returncode, done.stderr) == (0, b"")
    answer: dict[str, object] = json.loads(done.stdout or b"{}")
    return answer


def context_of(answer: dict[str, object]) -> str:
    output = answer.get("hookSpecificOutput") or {}
    assert isinstance(output, dict)
    return str(output.get("additionalContext", ""))


def ask(here: World, session: str = SESSION) -> dict[str, object]:
    prompt = f"rotate the jwt refresh tokens for {SECRETS} only"
    return send(here, "UserPromptSubmit", prompt=prompt, session_id=session)


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_recording_and_recall_continue_and_nothing_private_becomes_public(
    here: World, text: str
) -> None:
    set_config(here, text)
    send(here, "PostToolUse", tool_response={"stdout": f"deployed {SECRETS} today"})
    answer = ask(here, "other")
    send(here, "Stop", last_assistant_message=f"Done for {SECRETS}.")
    assert JWT in context_of(answer)
    stored = here.log.read_text(encoding="utf-8")
    stored += here.log.with_name("other.jsonl").read_text(encoding="utf-8")
    assert "deployed" in stored
    assert "only" in stored
    assert "Done for" in stored
    for secret in SECRETS.split():
        assert secret not in stored
    assert here.failures() == 0


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_the_user_is_told_once_for_each_change_of_the_file(here: World, text: str) -> None:
    set_config(here, text)
    assert send(here, "PostToolUse") == {}
    message = str(ask(here)["systemMessage"])
    assert message.startswith("Ralph: ralph.yml:")
    assert message.endswith(
        "until this is fixed, Ralph uses the last version of this file that worked"
    )
    assert "systemMessage" not in ask(here)
    assert "ralph.yml" not in str(send(here, "SessionStart", source="startup").get("systemMessage"))
    set_config(here, f"{text}\n")
    assert "ralph.yml:" in str(send(here, "SessionStart", source="startup")["systemMessage"])
    assert "systemMessage" not in ask(here)
    set_config(here, GOOD)
    assert "systemMessage" not in ask(here)


def test_the_last_good_settings_are_used_and_not_the_defaults(here: World) -> None:
    set_config(here, "memories: {inject: manual}\n")
    assert context_of(ask(here)) == ""
    set_config(here, "memories: {inject: auto\n")
    assert context_of(ask(here)) == ""
    started = send(here, "SessionStart", source="startup")
    assert PAY not in context_of(started)


def test_a_host_without_messages_gets_the_line_as_a_note_for_its_agent(here: World) -> None:
    set_config(here, "memories: {inject: auto\n")
    sent = payload("SessionStart", source="startup")
    done = patient_hook("SessionStart", sent, here.env, host="opencode")
    assert "ralph.yml:" in json.loads(done.stdout)["additionalContext"]


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_clone_with_a_broken_file_is_recorded_with_the_defaults(
    tmp_path: Path, text: str
) -> None:
    here = World(tmp_path / "clone", tmp_path / "home")
    (here.root / ".git").mkdir(parents=True)
    (here.root / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    here.home.mkdir()
    set_config(here, text)
    send(here, "PostToolUse", tool_response={"stdout": "deployed ZETA-2222 today"})
    answer = ask(here)
    assert str(answer["systemMessage"]).endswith("Ralph uses its defaults instead of this file")
    stored = here.log.read_text(encoding="utf-8")
    assert "deployed" in stored
    assert "ZETA-2222" not in stored


def test_a_clone_cannot_bring_last_good_settings(here: World) -> None:
    for name in ("last-good", ".ralph/last-good", ".ralph/local/last-good"):
        planted = here.root / name
        planted.mkdir(parents=True)
        for copy in paths.last_good_settings(here.root).iterdir():
            (planted / copy.name).write_text("memories: {inject: manual}\n", encoding="utf-8")
    set_config(here, "memories: {inject: auto\n")
    assert JWT in context_of(ask(here, "other"))


def test_a_variable_that_cannot_be_used_is_left_out(here: World) -> None:
    env = here.env | {
        "RALPH_MEMORIES_BUDGET": "lots",
        "RALPH_PRIVACY_PATTERNS": '["(", "OMEGA-[0-9]+"]',
    }
    prompt = "rotate the jwt refresh tokens of OMEGA-77 only"
    sent = payload("UserPromptSubmit", session_id="other", prompt=prompt)
    done = patient_hook("UserPromptSubmit", sent, env)
    answer = json.loads(done.stdout)
    assert JWT in context_of(answer)
    assert "RALPH_MEMORIES_BUDGET" in answer["systemMessage"]
    stored = here.log.with_name("other.jsonl").read_text(encoding="utf-8")
    assert "OMEGA-77" not in stored
    assert "only" in stored


# --- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_doctor_survives_and_explains_and_other_commands_fail_clearly(
    here: World, text: str
) -> None:
    set_config(here, text)
    done = executable(here.root, "doctor", env=here.env)
    assert done.returncode == 1
    assert b"ralph.yml:" in done.stdout
    assert b"error: " in done.stdout
    searched = executable(here.root, "search", "jwt", env=here.env)
    assert searched.returncode == 2
    assert searched.stderr.startswith(b"error: ralph.yml:")
    assert b"Traceback" not in searched.stderr


def test_a_file_of_a_million_keys_is_refused_by_its_size(here: World) -> None:
    set_config(here, "".join(f"k{number}: 1\n" for number in range(1_000_000)))
    done = executable(here.root, "doctor", env=here.env)
    assert done.returncode == 1
    assert b"larger than 64 KB" in done.stdout
    for words in (["config", "memories.budget", "900"], ["status"], ["deinit"]):
        done = executable(here.root, *words, env=here.env)
        assert done.returncode in (0, 2)
        assert b"Traceback" not in done.stderr
