"""What may be kept of an event is kept, what is private or secret is in no field of it, and nothing fails."""

import json
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.captured_hooks import (
    AT,
    EVENTS,
    HOSTS,
    NAMES,
    PAYLOADS,
    SESSION,
    bash,
    event,
    recorded,
)
from tests.support.sampling import examples
from tests.support.secret_samples import HUMAN_PASSWORDS, TOKENS, key_block

from ralph.capture.events import Event
from ralph.capture.host_payloads import event_of
from ralph.capture.own_traffic import without_injected
from ralph.capture.pipeline import interpret, observe
from ralph.capture.short_text import LIMIT
from ralph.core import ids
from ralph.core.prompts import INJECTED, NOTE
from ralph.core.record import Family, ObservationKind, Record, Scope, Status
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.privacy.hook_payloads import redact_payload

SECRETS = [*(tokens[0] for tokens in TOKENS.values()), key_block()]
PRIVATE = "marmalade and toast"


def kept(found: Event | None, **rules: tuple[str, ...]) -> Record:
    assert found is not None
    record = observe(found, **rules)
    assert record is not None
    return record


def everything(record: Record) -> str:
    """Every field of a record, as it would reach the disk and as it is in memory."""
    return encode_record(record) + repr(record)


# --- what is recorded ---------------------------------------------------------------------------


def test_a_command_is_an_observation_with_its_words_and_its_outcome() -> None:
    record = kept(bash("npm test", "5 passed", description="run the tests"))
    assert record.family is Family.OBSERVATION
    assert (record.status, record.scope) == (Status.RAW, Scope.SESSION)
    assert (record.kind, record.title, record.tags) == (
        ObservationKind.SUCCESS,
        "Bash: npm test",
        (),
    )
    assert record.text == "$ npm test\n# run the tests\n5 passed"
    assert (record.origin.session, record.origin.by, record.origin.agent) == (
        SESSION,
        "tool",
        "claude",
    )
    assert record.created_at == AT
    assert record.extra == {"tool": "Bash", "command": "npm test", "check": "test", "own": 26}


def test_a_failure_has_its_code_and_its_first_line() -> None:
    record = kept(event("claude.PostToolUseFailure-Bash"))
    error = "ls: cannot access '/nonexistent-dir': No such file or directory"
    assert record.kind is ObservationKind.ERROR
    assert (record.extra["exit_code"], record.extra["error"]) == (2, error)
    assert record.text == f"$ ls /nonexistent-dir\n# fail\nexit code 2\n{error}"


def test_a_failed_check_is_told_by_the_line_that_says_so() -> None:
    record = kept(
        bash("pytest | tail", "collected\nFAILED tests/a.py::test_x - assert 0\n1 failed")
    )
    assert record.kind is ObservationKind.ERROR
    assert record.extra["error"] == "FAILED tests/a.py::test_x - assert 0"


def test_an_edit_is_its_path_and_the_lines_that_differ() -> None:
    record = kept(event("claude.PostToolUse-Edit"))
    assert (record.title, record.text, record.origin.files) == (
        "Edit a.py",
        "a.py\n- x=1\n+ x=2",
        ("a.py",),
    )
    lines = [" same", "-old", "+new", "+more", " end"]
    answer = {"structuredPatch": [{"lines": lines}], "originalFile": "the whole file"}
    record = kept(event("claude.PostToolUse-Edit", tool_response=answer))
    assert record.text == "a.py\n- old\n+ new\n+ more"
    assert "whole file" not in everything(record)
    assert kept(event("claude.PostToolUse-Write")).text == "new.txt\n+ hello"


def test_reads_and_searches_are_kept_as_a_place() -> None:
    record = kept(event("claude.PostToolUse-Read"))
    assert (record.title, record.text, record.kind) == (
        "Read a.py",
        "a.py",
        ObservationKind.TOOL_USE,
    )
    assert "x=1" not in everything(record)
    said: Mapping[str, object] = {
        "pattern": "verifyToken",
        "path": "/home/user/proj/src",
        "output_mode": "content",
        "-n": True,
    }
    record = kept(
        event(
            "claude.PostToolUse-Read",
            tool_name="Grep",
            tool_input=said,
            tool_response={"content": "SEEN"},
        )
    )
    assert (record.title, record.origin.files) == ("Grep: verifyToken", ("src",))
    assert record.text == "pattern: verifyToken\npath: /home/user/proj/src"
    for tool, said in (
        ("Glob", {"pattern": "**/*.ts"}),
        ("LS", {"path": "/home/user/proj"}),
        ("NotebookRead", {"notebook_path": "/home/user/proj/a.ipynb"}),
        ("WebFetch", {"url": "https://example.org/a", "prompt": "SEEN"}),
    ):
        record = kept(
            event("claude.PostToolUse-Read", tool_name=tool, tool_input=said, tool_response="SEEN")
        )
        assert "SEEN" not in everything(record)
    for tool, said in (
        ("read_file", {"absolute_path": "/home/user/proj/a"}),
        ("search_file_content", {"pattern": "x"}),
        ("glob", {"pattern": "*.ts"}),
        ("list_directory", {"path": "src"}),
        ("web_fetch", {"prompt": "say SEEN about https://example.org/a please"}),
    ):
        found = event("gemini.AfterTool-run_shell_command", tool_name=tool, tool_input=said)
        record = kept(found)
        assert "SEEN" not in everything(record)
        assert record.title != tool


def test_another_tool_is_its_parameters_and_its_answer() -> None:
    record = kept(event("claude.PostToolUse-Agent"))
    assert record.title == "Agent: look"
    assert record.text.startswith(
        "description: look\nprompt: find things\nsubagent_type: general-purpose\n"
    )
    record = kept(
        event(
            "claude.PostToolUse-Bash",
            tool_name="mcp__db__ask",
            tool_input={"sql": 1},
            tool_response="yes",
        )
    )
    assert (record.title, record.text) == ("mcp__db__ask", "sql: 1\nyes")


def test_prompts_and_answers_are_notes_by_those_who_said_them() -> None:
    record = kept(event("claude.UserPromptSubmit"))
    assert (record.kind, record.title, record.text) == (
        ObservationKind.NOTE,
        "prompt",
        "please do x",
    )
    assert record.origin.by == "human"
    record = kept(event("claude.SubagentStop"))
    assert (record.title, record.text, record.origin.by) == ("answer", "MAIN DONE", "agent")
    assert record.extra["agent_id"] == "affdeb3a78dd7a227"
    assert kept(event("gemini.BeforeAgent")).text == "do x"


@pytest.mark.parametrize("name", NAMES)
def test_only_tools_that_were_used_prompts_and_answers_are_observations(name: str) -> None:
    host, happening, payload = recorded(name)
    found = event_of(host, happening, payload, AT)
    told = happening in (
        "PostToolUse",
        "PostToolUseFailure",
        "UserPromptSubmit",
        "Stop",
        "AfterTool",
        "BeforeAgent",
    )
    expected = found is not None and (told or happening in ("SubagentStop", "AfterAgent"))
    assert (found is not None and observe(found) is not None) == expected


@pytest.mark.parametrize(
    "prompt",
    ["<task-notification>\n<task-id>a1</task-id></task-notification>", "  <task-notification>x", "",
     "<system-reminder>remember</system-reminder>", "<local-command-stdout>x</local-command-stdout>",
     "<command-name>/clear</command-name>", "[Request interrupted by user for tool use]",
     "Caveat: The messages below were generated by the user while running local commands. DO NOT"],
)  # fmt: skip
def test_a_prompt_that_no_person_wrote_is_dropped(prompt: str) -> None:
    assert observe(event("claude.UserPromptSubmit", prompt=prompt)) is None


def test_a_persons_prompt_is_kept_also_with_a_reminder_before_it_or_tags_in_it() -> None:
    prompt = "<system-reminder>a\nb</system-reminder>\n\nfix the login"
    assert kept(event("claude.UserPromptSubmit", prompt=prompt)).text == "fix the login"
    for prompt in (
        "<div> is not closed, fix it",
        "why do I see <task-notification> here?",
        "/mem-search jwt",
    ):
        assert kept(event("claude.UserPromptSubmit", prompt=prompt)).text == prompt


# --- our own words ------------------------------------------------------------------------------

BLOCK = (
    f"{INJECTED} (may be out of date)\n````\nold words\n```\ncode\n```\n````\n{NOTE}2 of 9 shown\n"
)


def test_what_we_handed_over_is_cut_out_of_any_text_and_the_rest_stays() -> None:
    assert without_injected(f"before\n{BLOCK}after") == "before\nafter"
    assert without_injected(BLOCK + BLOCK) == ""
    assert without_injected(f"x\n{BLOCK[:60]}") == "x\n"
    assert without_injected(f"a {INJECTED} b\nc") == "a c"
    assert "old words" not in without_injected(json.dumps({"text": BLOCK, "more": "kept"}))
    assert "kept" in without_injected(json.dumps({"text": BLOCK, "more": "kept"}))
    for text in ("", "a [ralph b", "```\ncode\n```"):
        assert without_injected(text) == text
    record = kept(bash("cat transcript", f"before\n{BLOCK}after"))
    assert record.text == "$ cat transcript\nbefore\nafter"
    assert observe(event("claude.UserPromptSubmit", prompt=BLOCK)) is None


def test_what_our_own_tools_answer_is_not_taken_for_something_new() -> None:
    record = kept(event("claude.PostToolUse-mcp__plugin_ralph_ralphmem__recall"))
    assert record.text == "query: earlier work"
    assert "OLD" not in everything(kept(bash("cd x && ralph search jwt | head", "OLD")))
    assert "OLD" in kept(bash("cat ralph.yml", "OLD")).text


# --- nothing private, nothing secret ------------------------------------------------------------


def test_only_the_private_part_is_missing() -> None:
    prompt = f"fix it <private>{PRIVATE}</private> today"
    assert kept(event("claude.UserPromptSubmit", prompt=prompt)).text == "fix it  today"
    assert (
        kept(event("claude.UserPromptSubmit", prompt=f"fix it <private>{PRIVATE}")).text == "fix it"
    )
    assert observe(event("claude.UserPromptSubmit", prompt=f"<private>{PRIVATE}</private>")) is None


def test_a_private_part_that_stays_open_hides_what_is_told_after_it() -> None:
    said = {"command": "echo <private>", "description": f"{PRIVATE}</private> shown"}
    record = observe(
        event("claude.PostToolUse-Bash", tool_input=said, tool_response={"stdout": "shown"})
    )
    assert record is not None
    assert PRIVATE not in everything(record)
    assert "shown" in record.text
    said = {"command": "echo <private><private>", "description": "</private>" + PRIVATE}
    record = observe(
        event("claude.PostToolUse-Bash", tool_input=said, tool_response={"stdout": PRIVATE})
    )
    assert record is None or PRIVATE not in everything(record)


def test_a_diff_shows_nothing_of_a_file_with_private_parts_or_a_key() -> None:
    for whole in (f"<private>\n{PRIVATE}\n</private>", key_block()):
        answer = {"structuredPatch": [{"lines": [f"-{PRIVATE}", "+other"]}], "originalFile": whole}
        host, name, payload = recorded("claude.PostToolUse-Edit")
        record = kept(
            event_of(host, name, redact_payload({**payload, "tool_response": answer}), AT)
        )
        assert record.text == "a.py"


@pytest.mark.parametrize(
    "answer",
    [
        {"structuredPatch": [{"lines": [f"-{PRIVATE}", f"+<private>{PRIVATE}</private>"]}]},
        {
            "structuredPatch": [{"lines": [f"-{PRIVATE}", "+other"]}],
            "originalFile": f"<private>{PRIVATE}</private>",
        },
        {"structuredPatch": [{"lines": [f"-{PRIVATE}", "+-----BEGIN RSA PRIVATE KEY-----"]}]},
    ],
)
def test_an_edit_in_the_log_shows_nothing_when_one_side_or_the_file_is_private(
    answer: Mapping[str, object],
) -> None:
    assert kept(event("claude.PostToolUse-Edit", tool_response=answer)).text == "a.py"


def test_a_secret_in_a_changed_line_is_known_behind_the_sign_of_the_diff() -> None:
    token = TOKENS["github token"][0]
    lines = [f"-{token}", "+none", f"+PASSWORD={HUMAN_PASSWORDS[2]}"]
    answer = {"structuredPatch": [{"lines": lines}], "originalFile": ""}
    record = kept(event("claude.PostToolUse-Edit", tool_response=answer))
    assert (
        record.text == "a.py\n- [redacted: github token]\n+ none\n+ PASSWORD=[redacted: password]"
    )


def test_a_secret_that_only_its_key_tells_is_found_in_lists_and_objects() -> None:
    for said in (
        {"password": HUMAN_PASSWORDS[2]},
        {"a": {"password": [HUMAN_PASSWORDS[2]]}},
        {"env": {"DB_PASSWORD": {"value": HUMAN_PASSWORDS[2]}}},
    ):
        record = kept(event("claude.PostToolUse-Agent", tool_name="mcp__db__open", tool_input=said))
        assert HUMAN_PASSWORDS[2] not in everything(record)


def test_private_parts_that_are_opened_without_end_hide_all_that_follows() -> None:
    said = {
        "command": "echo shown " + "<private>" * 500,
        "description": "</private>" * 499 + PRIVATE,
    }
    record = kept(
        event("claude.PostToolUse-Bash", tool_input=said, tool_response={"stdout": PRIVATE})
    )
    assert record.text == "$ echo shown "


def test_a_token_that_a_patch_takes_out_is_known_in_the_output_of_a_command() -> None:
    token = TOKENS["github token"][0]
    assert (
        kept(bash("git diff", f"-{token}\n+none")).text
        == "$ git diff\n-[redacted: github token]\n+none"
    )


def test_colours_do_not_hide_a_secret() -> None:
    token = TOKENS["github token"][0]
    for colour in ("\x1b[32m", "\x1b[0;1m", "\\u001b[32m", "\\x1b[1m"):
        assert token not in everything(kept(bash("show", f"it is {colour}{token}\x1b[0m")))
    assert PRIVATE not in everything(kept(bash("show", f"x <pri\x1b[1mvate>{PRIVATE}</private>")))


def test_the_users_patterns_are_applied_to_every_field() -> None:
    found = bash("deploy ACME-123456", "done ACME-654321")
    assert "ACME" not in everything(kept(found, patterns=(r"ACME-\d{6}",)))


_WRAPPED = st.sampled_from(
    ["{}", "a {} b", "x\n{}\ny", '{{"k": "{}"}}', "\x1b[32m{}\x1b[0m", "v={}"]
)
_CARRIERS: tuple[Mapping[str, object], ...] = (
    {"prompt": "*"},
    {"last_assistant_message": "*", "prompt_response": "*"},
    {"tool_input": {"command": "*", "description": "*"}},
    {"tool_input": {"command": "npm test *"}, "tool_response": {"stdout": "*", "stderr": "*"}},
    {
        "tool_input": {
            "file_path": "/home/user/proj/*.ts",
            "old_string": "*",
            "new_string": "*\nmore",
        }
    },
    {"tool_input": {"edits": [{"old_string": "*", "new_string": "b"}], "file_path": "*"}},
    {"tool_input": {"pattern": "*", "path": "*", "query": "*", "url": "https://example.org/*"}},
    {"tool_input": {"*": 1, "a": {"*": ["*", {"b": "*"}]}, "c": [["*"]]}},
    {"tool_input": "*", "tool_response": "*"},
    {"tool_response": [{"type": "text", "text": "*"}], "error": "Exit code 1\n*"},
    {"tool_response": {"structuredPatch": [{"lines": ["-*", "+*", " *"]}], "originalFile": "*"}},
    {"tool_response": {"llmContent": "Output: *\nExit Code: 1", "error": {"message": "*"}}},
    {"tool_response": {"content": [{"type": "text", "text": "*"}], "isError": True, "x": "*"}},
    {
        "cwd": "/home/*/proj",
        "session_id": "s.*",
        "agent_id": "*",
        "tool_use_id": "*",
        "agent_type": "*",
    },
    {"reason": "*", "source": "*", "permission_mode": "*", "tool_name": "*"},
)


def _filled(value: object, secret: str) -> object:
    if isinstance(value, str):
        return value.replace("*", secret)
    if isinstance(value, Mapping):
        return {str(_filled(key, secret)): _filled(inner, secret) for key, inner in value.items()}
    return [_filled(inner, secret) for inner in value] if isinstance(value, list) else value


_TOOLS = st.sampled_from(
    [
        "Bash",
        "Edit",
        "Write",
        "MultiEdit",
        "Read",
        "Grep",
        "WebFetch",
        "Agent",
        "mcp__a__b",
        "apply_patch",
        "run_shell_command",
        "replace",
        "glob",
    ]
)


@settings(max_examples=examples(300, 25))
@given(
    st.sampled_from(HOSTS),
    st.sampled_from(EVENTS),
    st.lists(st.sampled_from(_CARRIERS), min_size=1, max_size=3),
    _TOOLS,
    st.sampled_from([*SECRETS, f"<private>{PRIVATE}</private>", f"<PRIVATE>{PRIVATE}</private >"]),
    _WRAPPED,
)
def test_nothing_private_or_secret_is_in_any_field_wherever_it_stood(
    host: str, name: str, carriers: list[Mapping[str, object]], tool: str, secret: str, around: str
) -> None:
    payload: dict[str, object] = {
        "session_id": SESSION,
        "cwd": "/home/user/proj",
        "agent_type": "x",
        "tool_name": tool,
    }
    for carrier in carriers:
        payload |= {key: _filled(value, around.format(secret)) for key, value in carrier.items()}
    line = {"v": 1, "type": "event", "at": AT, "host": host, "event": name, "payload": payload}
    records, session = interpret(line)
    found = "".join(everything(record) for record in records) + repr(session)
    for part in (secret, PRIVATE, secret.replace("\n", "\\n"), secret[-24:]):
        assert part not in found


# --- hidden files -------------------------------------------------------------------------------


@pytest.mark.parametrize("glob", ["secrets/**", "secrets/", "secrets/*.yml", "**/prod.yml", "*.yml", "SECRETS/prod.yml",
                                  "/home/user/proj/secrets/**", "./secrets/prod.yml", "**/secrets/**"])  # fmt: skip
def test_an_event_that_touches_a_hidden_file_is_not_recorded_however_it_is_named(glob: str) -> None:
    full = "/home/user/proj/secrets/prod.yml"
    for found in (
        event("claude.PostToolUse-Read", tool_input={"file_path": full}),
        event("claude.PostToolUse-Read", tool_input={"file_path": "src/../secrets/prod.yml"}),
        event(
            "claude.PostToolUse-Edit",
            tool_input={"file_path": full, "old_string": "a", "new_string": "b"},
        ),
        event("claude.PostToolUse-Agent", tool_input={"a": [{"b": full}]}),
        bash("cat secrets/prod.yml"),
        bash("sops --decrypt --in=./secrets/prod.yml > out"),
        bash("git diff", "diff --git a/secrets/prod.yml b/secrets/prod.yml\n+x"),
        bash("grep -rn x .", "secrets/prod.yml:12:x"),
    ):
        assert observe(found, paths=(glob,)) is None
        assert observe(found, paths=("other/**", "*.pem")) is not None


def test_a_file_that_is_not_hidden_is_recorded() -> None:
    assert observe(bash("cat src/secrets.ts"), paths=("secrets/**", "*.yml")) is not None
    prompt = event("claude.UserPromptSubmit", prompt="what is in secrets/prod.yml?")
    assert observe(prompt, paths=("secrets/**",)) is not None


# --- limits, ids, raw lines ---------------------------------------------------------------------


def test_a_long_output_keeps_its_two_ends_within_the_limit() -> None:
    record = kept(
        bash(
            "make",
            "first\n" + "noise and more\n" * 20 + "line\n" * 90_000 + "z" * 300_000 + "\nlast",
        )
    )
    assert len(record.text) <= LIMIT
    assert record.text.startswith("$ make\nfirst\n")
    assert record.text.endswith("\nlast")
    assert "characters left out" in record.text


def test_secrets_near_the_ends_of_a_huge_output_are_redacted() -> None:
    token, noise = TOKENS["github token"][0], "some words of a log\n"
    huge = f"{token}\n{''.join(f'{number} {noise}' for number in range(40_000))}{token}"
    assert token not in everything(kept(bash("make", huge)))
    hidden = f"<private>{huge}{PRIVATE}</private>\nafter"
    assert kept(bash("make", hidden)).text == "$ make\nafter"


def test_the_id_is_derived_from_what_is_kept() -> None:
    record = kept(bash("npm test", "5 passed"))
    assert ids.ID.fullmatch(record.id)
    assert record.id.startswith("obs-1794744000-")
    assert ids.date_of(record.id) == "2026-11-15"
    assert kept(bash("npm test", "5 passed")).id == record.id
    assert kept(bash("npm test", "6 passed")).id != record.id
    other = event("claude.PostToolUse-Bash", tool_use_id="toolu_1")
    assert kept(other).id != kept(event("claude.PostToolUse-Bash")).id
    hidden = (
        kept(bash("npm test <private>a</private>")),
        kept(bash("npm test <private>b</private>")),
    )
    assert hidden[0].id == hidden[1].id


def line_of(name: str, **changes: object) -> dict[str, object]:
    host, happening, payload = recorded(name)
    return {
        "v": 1,
        "type": "event",
        "at": AT,
        "host": host,
        "event": happening,
        "payload": payload | changes,
    }


def test_a_raw_line_is_an_observation_and_says_what_it_knows_of_its_session() -> None:
    records, session = interpret(line_of("claude.PostToolUse-Bash"))
    assert records == (kept(event("claude.PostToolUse-Bash")),)
    assert session == {
        "id": SESSION,
        "session_id": SESSION,
        "project_path": "/home/user/proj",
        "mode": "agent",
        "host": "claude",
        "started_at": AT,
        "updated_at": AT,
    }


def test_the_end_of_a_session_gives_no_observation_but_its_time_and_reason() -> None:
    records, session = interpret(line_of("claude.SessionEnd-clear"))
    assert records == ()
    assert session is not None
    assert (session["ended_at"], session["reason"]) == (AT, "clear")
    records, session = interpret(line_of("claude.PreToolUse-Bash"))
    assert (records, bool(session)) == ((), True)
    assert interpret(line_of("claude.StopFailure")) == ((), None)


def test_an_unknown_time_is_no_time() -> None:
    records, session = interpret({**line_of("claude.PostToolUse-Bash"), "at": "yesterday"})
    assert (records[0].created_at, records[0].id[:6]) == ("", "obs-0-")
    assert session is not None
    assert "started_at" not in session


@settings(max_examples=examples(300, 25))
@given(
    st.sampled_from(HOSTS),
    st.sampled_from(EVENTS),
    PAYLOADS,
    st.sampled_from([AT, "", "x"]),
    st.booleans(),
)
def test_any_object_is_read_and_what_comes_of_it_can_be_written(
    host: str, name: str, payload: dict[str, object], at: str, rules: bool
) -> None:
    line = {
        "v": 1,
        "type": "event",
        "at": at,
        "host": host,
        "event": name,
        "payload": {"session_id": "s", **payload},
    }
    records, session = interpret(
        line, patterns=("a+",) if rules else (), paths=("*.env",) if rules else ()
    )
    for record in records:
        assert parse_log(encode_record(record)).entries[0].record == record
        assert len(record.text) <= LIMIT
        assert "\n" not in record.title
    if session is not None:
        assert encode_line("session", session)
    assert interpret(
        line, patterns=("a+",) if rules else (), paths=("*.env",) if rules else ()
    ) == (records, session)


@given(
    st.dictionaries(
        st.sampled_from(["at", "host", "event", "payload"]),
        st.one_of(st.none(), st.integers(), st.text()),
    )
)
def test_a_line_of_another_shape_says_nothing(value: dict[str, object]) -> None:
    assert interpret(value) == ((), None)


def test_the_fixtures_name_no_real_machine() -> None:
    for path in (Path(__file__).parents[1] / "golden" / "hooks").glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not any(f'"/{place}/' in text for place in ("root", "work", "tmp", "opt", "Users"))


LINES_OF_CODE = st.lists(st.sampled_from(["", "}", "a = 1", "b = 2", "c = 3", "return a"]))


@given(before=LINES_OF_CODE, after=LINES_OF_CODE)
@settings(max_examples=examples(200, 50), deadline=None)
def test_an_edit_is_described_by_the_lines_that_difflib_finds(
    before: list[str], after: list[str]
) -> None:
    edit = {"old_string": "\n".join(before), "new_string": "\n".join(after)}
    payload = {
        "session_id": SESSION,
        "tool_name": "Edit",
        "tool_input": {"file_path": "a.py", **edit},
    }
    found = event_of("claude", "PostToolUse", payload, AT)
    expected = []
    for line in unified_diff(edit["old_string"].split("\n"), edit["new_string"].split("\n"), n=0):
        if line[0] in "+-" and line[1:].strip() and not line.startswith(("--- ", "+++ ")):
            expected.append(f"{line[0]} {line[1:]}")
    assert kept(found).text.split("\n")[1:] == expected
