"""A hook whose time runs out answers from the index as it is, and later hooks do the rest."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.world import World, late_hook, patient_hook, payload, world

from ralph.core import paths
from ralph.memory import memory
from ralph.search import index
from ralph.storage.index_files import sole_writer

SHIP = "Deploys go through `make ship`."
CACHE = "The product cache lives in Redis and expires after an hour."
FIX = "`make import` fails unless the queue is empty."
PORT = "Which port does the payment service listen on?"
SHIPPING = "which make target do deploys go through?"
ASKED = "where does the product cache live and when does it expire?"


@pytest.fixture
def here(tmp_path: Path) -> World:
    """An indexed project with one memory, and a session that was killed since."""
    made = world(tmp_path)
    memory.add(made.root, SHIP)
    index.sync(made.root)
    HookedSession(made, "killed").prompt("deploy it")
    return made


def context_of(printed: bytes) -> str:
    answer = json.loads(printed or b"{}")
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


def start(here: World, session: str = "new", late_in: str = "", source: str = "startup") -> str:
    sent = payload("SessionStart", source=source, session_id=session, cwd=str(here.root))
    if late_in:
        return context_of(late_hook("SessionStart", sent, here.env, step=late_in).stdout)
    return context_of(patient_hook("SessionStart", sent, here.env).stdout)


def ask(here: World, prompt: str = ASKED, session: str = "other") -> str:
    sent = payload("UserPromptSubmit", prompt=prompt, session_id=session, cwd=str(here.root))
    return context_of(patient_hook("UserPromptSubmit", sent, here.env).stdout)


def before(here: World, command: str) -> str:
    sent = payload("PreToolUse", tool_input={"command": command}, cwd=str(here.root))
    return context_of(patient_hook("PreToolUse", sent, here.env).stdout)


# --- the start of a session ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        "ralph.storage.changes:__init__",
        "ralph.storage.index_writer:add_contents",
        "ralph.storage.index_files:write_seal",
        "ralph.recall.injection_ledger:record_injections",
        "ralph.install.merge_registration:register_missing",
        "ralph.learning.session_proposals:extract_missed",
        "ralph.learning.weekly:weekly_report",
    ],
    ids=["scan", "indexing", "seal", "ledger", "registration", "lessons", "report"],
)
def test_a_start_whose_time_is_up_in_an_optional_step_is_answered(here: World, step: str) -> None:
    assert SHIP in start(here, late_in=step)
    assert SHIP in ask(here, SHIPPING)


@pytest.mark.parametrize("busy", ["", "1"], ids=["quiet", "busy"])
def test_a_busy_machine_is_answered_before_the_index_is_updated(here: World, busy: str) -> None:
    here = World(here.root, here.home, {"RALPH_TEST_BUSY": busy})
    HookedSession(here, "unread").prompt("add a page that lists all invoices")
    first = start(here, "first", late_in="no:step")
    assert SHIP in first
    assert ("[unread]" in first) == (not busy)
    assert "[unread]" in start(here, "second", late_in="no:step")


@pytest.mark.parametrize("is_indexed", [True, False], ids=["outdated index", "no index"])
def test_a_compacted_session_gets_its_recap_on_a_busy_machine(
    here: World, is_indexed: bool
) -> None:
    here = World(here.root, here.home, {"RALPH_TEST_BUSY": "1"})
    session = HookedSession(here, "compacted")
    session.prompt(PORT)
    session.stop("The payment service listens on port 7443.")
    if not is_indexed:
        for path in paths.state_folder(here.root).glob("ralph.db*"):
            path.unlink()
    session.prompt("add a page that lists all invoices")
    text = start(here, "compacted", late_in="no:step", source="compact")
    assert f"Asked: {PORT}\n" in text
    assert "Answered: The payment service listens on port 7443.\n" in text
    assert "Asked: add a page that lists all invoices\n" in text


def test_an_index_that_could_not_be_updated_in_time_keeps_its_records(here: World) -> None:
    session = HookedSession(here, "earlier")
    session.prompt(PORT)
    session.stop("The payment service listens on port 7443.")
    start(here)
    HookedSession(here, "killed again").prompt("deploy it again")
    start(here, "late", late_in="ralph.storage.index_files:write_seal")
    assert "7443" in ask(here, PORT)


def test_what_a_late_start_left_out_is_indexed_by_the_next_one(here: World) -> None:
    start(here, late_in="ralph.storage.index:_update_file")
    start(here, "next")
    assert index.verify(here.root) == []


# --- prompts after a late start -----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"in_": "guardrails"},
        {"in_": "knowledge", "title": "The product cache", "tags": ["redis"]},
        {"in_": "patterns"},
    ],
    ids=["memory", "guardrail", "knowledge", "pattern"],
)
def test_a_prompt_finds_a_memory_that_a_late_start_did_not_index(
    here: World, options: dict[str, Any]
) -> None:
    memory.add(here.root, CACHE, **options)
    start(here, late_in="ralph.storage.index:_update_file")
    assert "expires after an hour" in ask(here)


def test_an_action_finds_a_memory_that_somebody_typed_into_the_file(here: World) -> None:
    file = paths.memories_files(here.root)[0]
    text = file.read_text(encoding="utf-8")
    added = f"\n### mem-1705751401-a001\n> {FIX}\n<!-- created: 2026-11-10 -->\n"
    file.write_text(f"{text}\n## Fixes\n{added}", encoding="utf-8")
    assert FIX in before(here, "make import")


def test_a_prompt_makes_a_missing_index_from_the_memory_files(here: World) -> None:
    for path in paths.state_folder(here.root).glob("ralph.db*"):
        path.unlink()
    assert SHIP in ask(here, SHIPPING)
    start(here)
    assert index.verify(here.root) == []


def test_a_prompt_is_answered_from_the_index_as_it_is_if_its_own_time_is_up(here: World) -> None:
    memory.add(here.root, CACHE)
    sent = payload("UserPromptSubmit", prompt=SHIPPING, cwd=str(here.root))
    step = "ralph.storage.index:_update_file"
    assert SHIP in context_of(late_hook("UserPromptSubmit", sent, here.env, step=step).stdout)


def test_a_prompt_does_not_wait_for_another_process_that_writes_the_index(here: World) -> None:
    memory.add(here.root, CACHE)
    with sole_writer(paths.index_file(here.root)):
        assert SHIP in ask(here, SHIPPING)


def test_a_memory_that_cannot_be_indexed_in_time_is_not_tried_forever(here: World) -> None:
    memory.add(here.root, CACHE)
    sent = payload("UserPromptSubmit", prompt=SHIPPING, cwd=str(here.root))
    step = "ralph.storage.index:_update_file"
    for _ in range(5):
        late_hook("UserPromptSubmit", sent, here.env, step=step)
    assert len(paths.catch_up_file(here.root).read_text(encoding="utf-8").splitlines()) == 3
    start(here)
    assert not paths.catch_up_file(here.root).exists()


# --- a copy -------------------------------------------------------------------------------------


def copied(here: World) -> World:
    root = here.root.with_name("copy")
    subprocess.run(["cp", "-a", str(here.root), str(root)], check=True)
    return World(root, here.home, here.more)


def test_a_copy_of_a_project_answers_its_first_prompt_with_all_records(here: World) -> None:
    session = HookedSession(here, "earlier")
    session.prompt(PORT)
    session.stop("The payment service listens on port 7443.")
    copy = copied(here)
    assert SHIP in ask(copy, SHIPPING)
    assert "7443" in ask(copy, PORT, session="another")


def test_a_copy_without_its_state_answers_from_the_memory_files(here: World) -> None:
    copy = copied(here)
    shutil.rmtree(copy.root / ".git" / "ralph")
    assert SHIP in ask(copy, SHIPPING)


@pytest.mark.parametrize("home", ["git", "project"])
def test_a_copy_keeps_the_index_when_a_session_starts(here: World, home: str) -> None:
    here = World(here.root, here.home, {"RALPH_STATE_HOME": home})
    session = HookedSession(here, "earlier")
    session.prompt(PORT)
    session.stop("The payment service listens on port 7443.")
    copy = copied(here)
    late = "ralph.storage.index_writer:add_contents"  # called only if a source is read again
    assert SHIP in start(copy, late_in=late)
    assert "7443" in ask(copy, PORT)


def test_an_index_that_another_program_has_put_in_its_place_is_not_a_copy(here: World) -> None:
    database = paths.index_file(here.root)
    before = database.stat()
    other = database.with_name("other.db")
    other.write_bytes(database.read_bytes().replace(b"make ship", b"make leak"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(database)
    assert "make leak" not in ask(here, SHIPPING)
