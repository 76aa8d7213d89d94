"""What a hook says: what relates, once a session, as the settings say; and nothing whenever anything is wrong."""

import json
import os
import shutil
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.hook_answers import JWT, PAY, PORT, here, said, text_of
from tests.support.recalls import observed
from tests.support.world import SESSION, World, handled, hook, patient_hook, payload

from ralph.core import paths, render
from ralph.core.prompts import INJECTED, NOTE
from ralph.formats.log import encode_record
from ralph.recall import injection_ledger
from ralph.search import index
from ralph.storage import db, hook_index
from ralph.storage.index_schema import SCHEMA_VERSION

__all__ = ["here"]


def configure(here: World, text: str) -> None:
    (here.root / "ralph.yml").write_text(text, encoding="utf-8")
    here.cached()


def prompt(here: World, words: str, **members: object) -> str:
    return said(here, "UserPromptSubmit", prompt=words, **members)


def before(here: World, tool: str = "Edit", **given: object) -> str:
    return said(here, "PreToolUse", tool_name=tool, tool_input=given)


def ledger_lines(here: World) -> list[dict[str, object]]:
    path = paths.log_folder(here.root) / "injections.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )


# --- what is said --------------------------------------------------------------------------------


def test_a_prompt_is_answered_with_what_relates_and_recorded(here: World) -> None:
    text = prompt(here, "rotate the jwt refresh tokens")
    assert text.startswith(INJECTED)
    assert (
        f"- [{JWT}] decision 2026-11-10 (auth, jwt): JWT refresh tokens rotate on every login."
        in text
    )
    assert [line["event"] for line in here.lines()] == ["UserPromptSubmit"]


def test_a_prompt_to_which_nothing_relates_is_only_recorded(here: World) -> None:
    assert prompt(here, "paint the button blue") == ""
    assert len(here.lines()) == 1
    assert ledger_lines(here) == []


def test_a_running_loop_is_named_once_in_a_session(here: World) -> None:
    for name, age in (("run-00000001", 5), ("run-00000002", 100)):
        beat = paths.heartbeat(here.root, name)
        beat.parent.mkdir(parents=True, exist_ok=True)
        beat.write_text("now\n", encoding="utf-8")
        os.utime(beat, (time.time() - age,) * 2)
    line = f"{NOTE}A loop is running: run-00000001 (`ralph loop status run-00000001` shows it)."
    assert prompt(here, "paint the button blue") == line
    assert ledger_lines(here) == []
    text = prompt(here, "jwt refresh tokens", session_id="another-one")
    assert JWT in text
    assert text.endswith(line)
    assert "loop" not in prompt(here, "jwt refresh tokens")


def test_a_prompt_that_got_something_says_so_where_the_user_wants_it(here: World) -> None:
    configure(here, "presence: full\n")
    answer = json.loads(
        handled(
            here.env, "UserPromptSubmit", payload("UserPromptSubmit", prompt="jwt refresh tokens")
        )
    )
    tokens = ledger_lines(here)[0]["tokens"]
    assert answer["systemMessage"] == f"Ralph: 1 given, {tokens} tokens"


def test_a_subagent_gets_what_relates_to_its_task_however_often_the_session_saw_it(
    here: World,
) -> None:
    assert JWT in prompt(here, "jwt refresh tokens")
    task = {
        "description": "tokens",
        "prompt": "find where jwt refresh tokens rotate",
        "subagent_type": "Explore",
    }
    other = {**task, "description": "buttons", "prompt": "paint the button blue"}
    assert before(here, "Agent", **task) == before(here, "Task", **other) == ""
    assert JWT in said(here, "SubagentStart", agent_type="Explore", agent_id="a-1")
    assert said(here, "SubagentStart", agent_type="Explore", agent_id="a-2") == ""
    assert said(here, "SubagentStart", agent_type="Explore", agent_id="a-3") == ""
    assert ledger_lines(here)[-1]["event"] == "SubagentStart"
    secret = "ghp_" + "a1B2" * 9
    before(here, "Agent", **{**task, "prompt": f"use {secret} for it"})
    stored = (paths.cache_folder(here.root) / "subagents" / SESSION).read_text(encoding="utf-8")
    assert secret not in stored
    assert "rotate" in stored


def test_the_same_is_not_said_twice_in_a_session_but_in_another_one(here: World) -> None:
    assert JWT in prompt(here, "jwt refresh tokens")
    assert prompt(here, "jwt refresh tokens") == ""
    assert JWT in prompt(here, "jwt refresh tokens", session_id="another-one")


def test_what_the_start_of_the_session_told_is_not_told_again(here: World) -> None:
    injection_ledger.record_injections(
        here.root,
        SESSION,
        "SessionStart",
        [injection_ledger.Injection(JWT)],
        "2026-11-15T12:00:00Z",
    )
    assert prompt(here, "jwt refresh tokens") == ""


def test_after_a_compaction_it_may_be_said_again(here: World) -> None:
    assert JWT in prompt(here, "jwt refresh tokens")
    injection_ledger.forget_session(here.root, SESSION)
    assert JWT in prompt(here, "jwt refresh tokens")


def test_a_session_is_not_told_what_it_did_itself(here: World) -> None:
    log = here.log
    log.parent.mkdir(parents=True)
    record = observed(1, "The frobnicator needs grease.", session=SESSION, title="message")
    log.write_text(encode_record(record), encoding="utf-8", newline="")
    index.sync(here.root)
    assert prompt(here, "grease the frobnicator") == ""
    assert record.id in prompt(here, "grease the frobnicator", session_id="another-one")


@pytest.mark.parametrize(
    "words",
    [
        "<task-notification>\njwt refresh tokens\n</task-notification>",
        "<local-command-stdout>jwt refresh tokens</local-command-stdout>",
        "[Request interrupted by user] jwt refresh tokens",
        "<system-reminder>jwt refresh tokens</system-reminder>",
        "/compact",
        "",
    ],
)
def test_a_prompt_that_no_person_wrote_is_not_answered(here: World, words: str) -> None:
    assert prompt(here, words) == ""
    assert ledger_lines(here) == []


def test_before_an_edit_and_after_a_failure_the_lesson_is_told_once(here: World) -> None:
    text = before(here, file_path="/p/src/pay.ts", old_string="jwt refresh tokens", new_string="x")
    assert PAY in text
    assert JWT not in text
    assert render.length(text) <= 600
    assert before(here, file_path="/p/src/pay.ts") == ""
    failure = {
        "tool_input": {"command": "npm start"},
        "error": "Exit code 1\nError: listen EADDRINUSE :::3000",
    }
    assert PORT in said(here, "PostToolUseFailure", **failure)
    assert said(here, "PostToolUseFailure", **failure) == ""
    assert [line["event"] for line in here.lines()] == ["PostToolUseFailure"] * 2


@pytest.mark.parametrize("tool", ["Edit", "Write", "MultiEdit", "Read"])
def test_every_tool_that_touches_a_file_counts(here: World, tool: str) -> None:
    assert PAY in before(here, tool, file_path="src/pay.ts")


def test_a_patch_of_codex_names_its_files(here: World) -> None:
    patch = "*** Begin Patch\n*** Update File: src/pay.ts\n@@\n-a\n+b\n*** End Patch"
    for number, given in enumerate(({"command": patch}, {"input": patch}, patch)):
        sent = payload(
            "PreToolUse", tool_name="apply_patch", tool_input=given, session_id=f"s-{number}"
        )
        assert PAY in text_of(handled(here.env, "PreToolUse", sent, "codex"), "PreToolUse")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Edit", {"file_path": "/p/src/display.ts"}),
        ("Edit", {"file_path": 7}),
        ("Edit", {}),
        ("Edit", None),
        ("Edit", "src/pay.ts"),
        ("Grep", {"pattern": "pay", "path": "src/pay.ts"}),
        ("Task", {"prompt": "jwt refresh tokens"}),
        ("Bash", {"command": "ls src"}),
        ("Bash", {"command": ["make", "halt"]}),
        ("WebFetch", {"url": "https://example.com/src/pay.ts", "prompt": "EADDRINUSE"}),
        (None, {"file_path": "src/pay.ts"}),
        ("mcp__x__edit", {"path": "src/pay.ts"}),
    ],
)
def test_nothing_is_said_where_nothing_is_known(here: World, tool: object, given: object) -> None:
    assert said(here, "PreToolUse", tool_name=tool, tool_input=given) == ""
    assert here.failures() == 0


@pytest.mark.parametrize("error", [None, 7, ["EADDRINUSE"], "", "Exit code 1"])
def test_an_error_of_another_shape_says_nothing(here: World, error: object) -> None:
    assert said(here, "PostToolUseFailure", tool_input={"command": "npm start"}, error=error) == ""
    assert here.failures() == 0


def test_large_and_odd_prompts_are_answered_too(here: World) -> None:
    assert JWT in prompt(here, "jwt refresh tokens rotate\n" + "x" * 40_000)
    assert JWT in prompt(here, "jwt refresh tokens 🔥 한국어 \x1b[1m", session_id="other")


def test_a_session_with_an_odd_id_knows_what_it_was_told(here: World) -> None:
    sent = payload("UserPromptSubmit", prompt="jwt refresh tokens", session_id="../../odd id")
    assert JWT in text_of(handled(here.env, "UserPromptSubmit", sent), "UserPromptSubmit")
    assert handled(here.env, "UserPromptSubmit", sent) == b""
    assert injection_ledger.seen_records(here.root, "../../odd id") == {JWT}
    assert sorted(path.name for path in here.root.parent.iterdir()) == ["home", "proj"]


# --- the settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["manual", "none"])
def test_nothing_is_said_unless_it_is_wanted(here: World, mode: str) -> None:
    configure(here, f"memories:\n  inject: {mode}\n")
    assert prompt(here, "jwt refresh tokens") == ""
    assert before(here, file_path="src/pay.ts") == ""
    assert len(here.lines()) == 1


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("filter: {types: [decision]}", True),
        ("filter: {types: [fix]}", False),
        ("filter: {tags: [jwt, other]}", True),
        ("filter: {tags: [other]}", False),
        ("filter: {recent: 36500}", True),
        ("filter: {recent: 1000000000}", True),
        ("filter: {recent: 1}", False),
        ("enabled: false", False),
        ("budget: 10", False),
        ("budget: 0", True),
    ],
)
def test_the_settings_count_for_prompts(here: World, setting: str, told: bool) -> None:
    configure(here, f"memories:\n  {setting}\n")
    assert bool(prompt(here, "jwt refresh tokens")) is told


@pytest.mark.parametrize(
    "setting",
    [
        "filter: {types: [decision]}",
        "filter: {tags: [other]}",
        "filter: {recent: 1}",
        "enabled: false",
    ],
)
def test_the_settings_count_at_the_place_of_an_action(here: World, setting: str) -> None:
    configure(here, f"memories:\n  {setting}\n")
    assert before(here, file_path="src/pay.ts") == ""


def test_a_small_window_leaves_little_room(here: World) -> None:
    configure(here, "context:\n  window: 100\n")
    assert prompt(here, "jwt refresh tokens") == ""


def test_while_paused_or_switched_off_nothing_is_said(here: World) -> None:
    assert hook("UserPromptSubmit", payload("UserPromptSubmit", prompt="jwt refresh tokens"),
                here.env | {"RALPH_DISABLE": "1"}).stdout == b""  # fmt: skip
    (paths.log_folder(here.root) / "paused").touch()
    assert prompt(here, "jwt refresh tokens") == ""
    assert here.lines() == []


# --- the ledger ----------------------------------------------------------------------------------


def test_what_was_said_is_in_the_ledger_and_no_word_of_the_prompt(here: World) -> None:
    prompt(here, "jwt refresh tokens zebracrossing")
    (line,) = ledger_lines(here)
    assert sorted(line) == ["at", "event", "layer", "record", "session", "tokens", "type", "v"]
    assert (line["record"], line["session"], line["event"], line["layer"]) == (
        JWT,
        SESSION,
        "UserPromptSubmit",
        3,
    )
    assert injection_ledger.read_ledger(here.root).injections[0].record == JWT
    assert injection_ledger.seen_records(here.root, SESSION) == {JWT}
    for path in (here.root / ".ralph").rglob("*"):
        if path.is_file() and path != here.log:
            assert b"zebracrossing" not in path.read_bytes()
    for path in (
        injection_ledger.ledger_file(here.root),
        injection_ledger.seen_file(here.root, SESSION),
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_private_prompt_is_answered_and_leaves_no_trace(here: World) -> None:
    sent = payload("UserPromptSubmit", prompt="jwt refresh tokens <private>zebracrossing</private>")
    done = hook("UserPromptSubmit", sent, here.env)
    assert JWT in text_of(done.stdout, "UserPromptSubmit")
    for path in (here.root / ".ralph").rglob("*"):
        if path.is_file():
            assert b"zebracrossing" not in path.read_bytes()


def test_what_cannot_be_noted_is_said_all_the_same_and_counted(here: World) -> None:
    shutil.rmtree(paths.cache_folder(here.root) / "injected", ignore_errors=True)
    (paths.cache_folder(here.root) / "injected").write_text("a file in its place", encoding="utf-8")
    assert "rotate on every login" in prompt(here, "jwt refresh tokens")
    assert here.failures() == 1


# --- an index that is not as it should be ------------------------------------------------------------


def database(here: World) -> Path:
    return paths.index_file(here.root)


@pytest.mark.parametrize("version", [0, 1])
def test_an_empty_index_or_that_of_another_version_is_made_again(here: World, version: int) -> None:
    if version:
        with closing(sqlite3.connect(database(here))) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
            connection.commit()
    else:
        database(here).write_bytes(b"")
    assert JWT in prompt(here, "jwt refresh tokens")
    assert (here.failures(), len(here.lines())) == (0, 1)


def seal(here: World) -> None:
    """Make the index look as if Ralph had written it last."""
    database(here).with_name("ralph.db-seal").write_text(db.seal(database(here)), encoding="utf-8")


@pytest.mark.parametrize("junk", [b"junk" * 5000, b"SQLite format 3\0" + b"\xff" * 20_000])
def test_a_damaged_index_is_a_failure_that_nobody_sees(here: World, junk: bytes) -> None:
    for end in ("-wal", "-shm"):
        database(here).with_name(f"ralph.db{end}").unlink(missing_ok=True)
    database(here).write_bytes(junk)
    seal(here)
    assert prompt(here, "jwt refresh tokens") == ""
    assert (here.failures(), len(here.lines())) == (1, 1)


def test_an_index_without_its_tables_is_a_failure_that_nobody_sees(here: World) -> None:
    with closing(sqlite3.connect(database(here))) as connection:
        connection.execute("DROP TABLE records")
        connection.commit()
    seal(here)
    assert prompt(here, "jwt refresh tokens") == ""
    assert here.failures() == 1


def test_a_writer_does_not_keep_a_reader_waiting(here: World) -> None:
    with closing(db.connect(database(here))) as writer, db.atomic(writer):
        writer.execute("UPDATE records SET text = 'half'")
        assert JWT in prompt(here, "jwt refresh tokens")


def test_an_index_that_somebody_has_locked_is_a_failure_that_nobody_sees(here: World) -> None:
    with closing(db.connect(database(here))) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        seal(here)
        assert prompt(here, "jwt refresh tokens") == ""
        writer.execute("ROLLBACK")
    assert (here.failures(), len(here.lines())) == (1, 1)
    assert JWT in prompt(here, "jwt refresh tokens")


def test_a_folder_with_signs_that_an_address_would_obey_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a%41?mode=rw#b 한글"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "ralph.db")) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("CREATE TABLE records (a)")
    (folder / "ralph.db-seal").write_text(db.seal(folder / "ralph.db"), encoding="utf-8")
    found = hook_index.open_index(os.fspath(folder / "ralph.db"))
    assert found is not None
    with closing(found), pytest.raises(sqlite3.OperationalError, match="readonly"):
        found.execute("INSERT INTO records VALUES (1)")


# --- as a host starts it ---------------------------------------------------------------------------


def test_the_real_process_prints_the_answer_and_nothing_else(here: World) -> None:
    done = hook(
        "UserPromptSubmit", payload("UserPromptSubmit", prompt="jwt refresh tokens"), here.env
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert JWT in text_of(done.stdout, "UserPromptSubmit")
    assert done.stdout.isascii()


def test_a_session_starts_with_its_memories_while_somebody_has_locked_the_index(
    here: World,
) -> None:
    with closing(db.connect(database(here))) as writer:
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("BEGIN EXCLUSIVE")
        done = patient_hook("SessionStart", payload("SessionStart", source="startup"), here.env)
        writer.execute("ROLLBACK")
    assert JWT in text_of(done.stdout, "SessionStart")


@pytest.mark.parametrize(
    ("event", "members"),
    [
        ("BeforeAgent", {"prompt": "<hook_context>x</hook_context>\n\njwt refresh tokens"}),
        ("AfterTool", {"tool_name": "replace", "tool_input": {"file_path": "src/pay.ts"}}),
    ],
)
def test_gemini_is_answered_under_its_own_event_name(
    here: World, event: str, members: dict[str, object]
) -> None:
    done = hook(event, payload(event, **members), here.env, host="gemini")
    assert (JWT if event == "BeforeAgent" else PAY) in text_of(done.stdout, event)


@pytest.mark.parametrize(
    "event", ["Stop", "SubagentStop", "PreCompact", "SessionEnd", "PostToolUse"]
)
def test_no_other_event_ever_says_anything(here: World, event: str) -> None:
    words = "jwt refresh tokens"
    more: dict[str, object] = {
        "agent_type": "x",
        "stop_hook_active": False,
        "trigger": "auto",
        "reason": "other",
    }
    sent = payload(
        event,
        prompt=words,
        last_assistant_message=words,
        tool_input={"command": "make halt"},
        **more,
    )
    done = hook(event, sent, here.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
