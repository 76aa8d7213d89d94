"""`remember: ...` typed into a client: what is stored, what is refused, and what the client shows."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.hook_answers import BLOCKS, JWT
from tests.support.runner import page
from tests.support.world import SESSION, World, call_hook, hook, patient_hook, payload, world

from ralph.core import config, paths
from ralph.core.errors import ConfigError
from ralph.core.record import MemoryKind, Record, Status
from ralph.core.remember import REMEMBER_PREFIXES
from ralph.learning import inbox
from ralph.memory import memory, reading
from ralph.search import index

TEXT = "deploys go through `make ship`"
PROMPT = f"remember: {TEXT}"
TOKEN = "ghp_" + "x7Kq9ZtR2mWv5LpY8sDf3GhJ6nBc1QaE4uTo"
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def stored(here: World) -> list[Record]:
    """The memories of the project that are not archived."""
    entries = reading.list_entries(here.root)
    return [entry.record for entry in entries if entry.record.status is not Status.RETIRED]


def type_prompt(
    here: World, prompt: str, *, session: str = SESSION, env: Mapping[str, str] | None = None
) -> str:
    """Send a prompt to the hook of Claude Code, and return the line that the user sees."""
    sent = payload("UserPromptSubmit", prompt=prompt, session_id=session)
    printed = call_hook("UserPromptSubmit", sent, env or here.env).stdout
    if not printed:
        return ""
    return str(json.loads(printed).get("systemMessage", ""))


def every_byte(here: World) -> bytes:
    """Everything that is stored in the project, its state folder and the user's folders."""
    found = b""
    for folder in (here.root, here.home, Path(os.environ["XDG_STATE_HOME"])):
        for path in folder.rglob("*"):
            if path.is_file():
                found += path.read_bytes()
    return found


# --- every client -------------------------------------------------------------------------------

RECORDED = {
    "claude": "hooks/claude.UserPromptSubmit",
    "codex": "hooks/codex.UserPromptSubmit",
    "gemini": "hooks/gemini.BeforeAgent",
    "qwen": "clients/qwen.UserPromptSubmit",
    "opencode": "clients/qwen.UserPromptSubmit",  # its plugin sends Claude's members
    "copilot": "clients/copilot.UserPromptSubmit",
    "cline": "",  # not recorded; the form is documented
    "cursor": "clients/cursor.beforeSubmitPrompt",
    "windsurf": "clients/windsurf.pre_user_prompt",
}
"""Recorded payloads of a prompt, by client."""
CONTEXT_MEMBERS = {
    "opencode": "additionalContext",
    "copilot": "additionalContext",
    "cline": "contextModification",
    "cursor": "additional_context",
}
"""Where the clients that do not read Claude's answers expect the text for the agent."""


def prompt_payload(host: str, root: Path, prompt: str) -> tuple[str, bytes]:
    """The event and the payload with which a client reports a prompt."""
    if host == "cline":
        sent: dict[str, object] = {
            "taskId": "task-1",
            "workspaceRoots": [str(root)],
            "userPromptSubmit": {"prompt": prompt},
        }
        return "beforeSubmitPrompt", json.dumps(sent).encode()
    recorded = json.loads((GOLDEN / f"{RECORDED[host]}.json").read_text(encoding="utf-8"))
    sent = recorded["stdin"]
    if host == "windsurf":
        sent["tool_info"] = {"user_prompt": prompt}
    elif host == "gemini":
        sent["prompt"] = str(sent["prompt"]).replace("do x", prompt)
    else:
        sent["prompt"] = prompt
    for member, value in (("cwd", str(root)), ("workspace_roots", [str(root)])):
        if member in sent:
            sent[member] = value
    return str(recorded["event"]), json.dumps(sent).encode()


@pytest.mark.parametrize("host", RECORDED)
def test_a_prompt_of_every_client_is_remembered_and_answered_in_its_form(
    here: World, host: str
) -> None:
    env = {name: value for name, value in here.env.items() if name != "CLAUDE_PROJECT_DIR"}
    event, sent = prompt_payload(host, here.root, f"Remember: {TEXT}\n\nNow fix the test.")
    done = patient_hook(event, sent, env, host=host, cwd=here.root)
    assert (done.returncode, done.stderr) == (0, b"")
    [record] = stored(here)
    assert (record.text, record.kind, record.origin.by) == (TEXT, MemoryKind.DECISION, "human")
    assert record.extra["via"] == f"prompt ({host})"
    answer = json.loads(done.stdout)
    message = f"Ralph: remembered mem-{record.id[-4:]} (decision)"
    if host in CONTEXT_MEMBERS:
        assert answer.keys() == {CONTEXT_MEMBERS[host]}
        context = answer[CONTEXT_MEMBERS[host]]
        assert "Tell the user" in context
    else:
        assert answer["systemMessage"] == message
        assert answer["hookSpecificOutput"]["hookEventName"] == event
        context = answer["hookSpecificOutput"]["additionalContext"]
    assert message in context


@pytest.mark.parametrize("prefix", REMEMBER_PREFIXES[::10])  # the others: tests/core
def test_a_prefix_of_any_language_stores_a_memory(here: World, prefix: str) -> None:
    assert type_prompt(here, f"{prefix} {TEXT}").startswith("Ralph: remembered mem-")
    assert [record.text for record in stored(here)] == [TEXT]


# --- what is stored -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("fix: run `make gen` first", MemoryKind.FIX, "run `make gen` first"),
        ("Gotcha: run `make gen` first", MemoryKind.FIX, "run `make gen` first"),
        ("convention : names end in _id", MemoryKind.PATTERN, "names end in _id"),
        ("Pattern：names end in _id", MemoryKind.PATTERN, "names end in _id"),
        ("note: the port is 8080", MemoryKind.CONTEXT, "the port is 8080"),
        ("decision: argon2, not bcrypt", MemoryKind.DECISION, "argon2, not bcrypt"),
        ("the port: 8080", MemoryKind.DECISION, "the port: 8080"),
        ("fix:", MemoryKind.DECISION, "fix:"),
    ],
)
def test_a_label_sets_the_type(here: World, text: str, kind: MemoryKind, expected: str) -> None:
    assert type_prompt(here, f"remember: {text}").endswith(f"({kind.value})")
    assert [(record.kind, record.text) for record in stored(here)] == [(kind, expected)]


def test_several_lines_are_one_memory_up_to_the_blank_line(here: World) -> None:
    type_prompt(here, "remember: one\ntwo\n\nthree")
    assert [record.text for record in stored(here)] == ["one\ntwo"]


def test_a_memory_names_its_session(here: World) -> None:
    type_prompt(here, PROMPT)
    assert stored(here)[0].extra["session"] == SESSION


def test_the_same_text_is_not_stored_twice_and_the_memory_is_named(here: World) -> None:
    type_prompt(here, PROMPT)
    [record] = stored(here)
    assert type_prompt(here, PROMPT) == f"Ralph: mem-{record.id[-4:]} already says that"
    assert stored(here) == [record]


def test_a_memory_that_says_nearly_the_same_is_named(here: World) -> None:
    type_prompt(here, "remember: run `make proto` before the tests, or user_pb2 is missing")
    [first] = stored(here)
    said = type_prompt(here, "remember: before the tests run make proto, else user_pb2 is missing")
    assert said.endswith(f"; mem-{first.id[-4:]} says nearly the same")
    assert len(stored(here)) == 2


def test_an_archived_memory_is_not_named(here: World) -> None:
    type_prompt(here, PROMPT)
    type_prompt(here, "forget that")
    assert "nearly the same" not in type_prompt(here, PROMPT)
    assert [record.text for record in stored(here)] == [TEXT]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"the token is {TOKEN}", id="token"),
        pytest.param(f"{TEXT}\nwith GITHUB_TOKEN={TOKEN}", id="token on the second line"),
    ],
)
def test_a_secret_is_refused_and_nothing_of_it_is_written(here: World, body: str) -> None:
    done = hook(
        "UserPromptSubmit", payload("UserPromptSubmit", prompt=f"remember: {body}"), here.env
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["systemMessage"].startswith("Ralph: not remembered: ")
    assert TOKEN.encode() not in done.stdout
    assert stored(here) == []
    assert TOKEN.encode() not in every_byte(here)


def test_a_secret_by_the_users_own_pattern_is_refused(here: World) -> None:
    with (here.root / "ralph.yml").open("a", encoding="utf-8") as file:
        file.write("privacy:\n  patterns: ['PROJ-[0-9]+']\n")
    assert "not remembered" in type_prompt(here, "remember: the ticket is PROJ-4711")
    assert stored(here) == []
    assert b"PROJ-4711" not in every_byte(here)


@pytest.mark.parametrize(
    "prompt",
    [
        "remember: the port <private>of Bob's laptop</private> is 8080",
        "remember: the port is 8080 <private>of Bob's laptop",
        "remember: the port is 8080 <private>\nof Bob's laptop\n\nat home</private>",
        "remember: the port is 8080 <private>of\n\nBob's laptop</private>\n\nNow go on.",
    ],
    ids=["inside", "not closed", "across a blank line", "closed in a later paragraph"],
)
def test_private_parts_are_left_out(here: World, prompt: str) -> None:
    assert type_prompt(here, prompt).startswith("Ralph: remembered ")
    assert [" ".join(record.text.split()) for record in stored(here)] == ["the port is 8080"]
    assert b"laptop" not in every_byte(here)


def test_a_prompt_that_is_private_as_a_whole_stores_nothing(here: World) -> None:
    said = type_prompt(here, "remember: <private>Bob was fired</private>")
    assert said.startswith("Ralph: not remembered: ")
    assert stored(here) == []
    assert b"fired" not in every_byte(here)


# --- what is not stored -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        "I remember that the port was 8080",
        "Remember that script? Where is it?",
        "```\nremember: x is y\n```",
        "> remember: x is y",
        "Fix it.\nremember: x is y",
        "<task-notification>\nremember: x is y\n</task-notification>",
    ],
)
def test_other_prompts_store_nothing(here: World, prompt: str) -> None:
    assert type_prompt(here, prompt) == ""
    assert stored(here) == []


def test_prompts_of_a_loop_are_ignored(here: World) -> None:
    loop = here.env | {"RALPH_RUN": "run-1a2b3c4d", "RALPH_ITERATION": "1"}
    assert type_prompt(here, PROMPT, env=loop) == ""
    assert stored(here) == []


def test_a_paused_project_stores_nothing(here: World) -> None:
    (paths.log_folder(here.root) / "paused").touch()
    assert type_prompt(here, PROMPT) == ""
    assert stored(here) == []


def test_a_disabled_hook_stores_nothing(here: World) -> None:
    assert type_prompt(here, PROMPT, env=here.env | {"RALPH_DISABLE": "1"}) == ""
    assert stored(here) == []


def test_a_folder_without_a_project_stores_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    sent = payload("UserPromptSubmit", prompt=PROMPT, cwd=str(folder))
    done = hook("UserPromptSubmit", sent, {"HOME": str(tmp_path)}, cwd=folder)
    assert (done.returncode, done.stdout) == (0, b"")
    assert list(tmp_path.rglob("*")) == [folder]


def test_what_was_remembered_is_not_proposed_again(here: World) -> None:
    type_prompt(here, PROMPT)
    call_hook("Stop", payload("Stop", last_assistant_message="Noted."), here.env)
    assert inbox.items(here.root) == []


# --- forget that --------------------------------------------------------------------------------


def test_forget_that_archives_the_last_memory_of_a_prompt(here: World) -> None:
    type_prompt(here, "remember: the port is 8080")
    type_prompt(here, "remember: the database is reset at two o'clock")
    last = stored(here)[-1]
    said = type_prompt(here, "Forget that.")
    assert said == f"Ralph: archived mem-{last.id[-4:]} ({last.text})"
    assert [record.text for record in stored(here)] == ["the port is 8080"]
    assert type_prompt(here, "forget that").startswith("Ralph: archived")
    assert stored(here) == []


def test_forget_that_prefers_the_memory_of_its_own_session(here: World) -> None:
    odd = "a session with an odd -- name " + "x" * 100
    type_prompt(here, "remember: the port is 8080", session=odd)
    type_prompt(here, "remember: the database is reset at two", session="another")
    assert "8080" in type_prompt(here, "forget that", session=odd)
    assert "reset" in type_prompt(here, "forget that", session="a third one")


def test_forget_that_leaves_other_memories_alone(here: World) -> None:
    memory.add(here.root, "written by hand", MemoryKind.FIX)
    assert type_prompt(here, "forget that") == ""
    assert [record.text for record in stored(here)] == ["written by hand"]


def test_forget_that_in_the_middle_archives_nothing(here: World) -> None:
    type_prompt(here, PROMPT)
    for prompt in ("forget that idea", "Please forget that.", "forget that\n\nfix the test"):
        type_prompt(here, prompt)
    assert len(stored(here)) == 1


# --- settings -----------------------------------------------------------------------------------


def configure_user(here: World, text: str) -> None:
    """Write the user's own config file."""
    path = here.home / ".config" / "ralph" / "config.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_users_prefixes_replace_the_defaults(here: World) -> None:
    configure_user(here, "learning:\n  remember: ['onthoud:', 'note to self']\n")
    assert type_prompt(here, PROMPT) == ""
    assert type_prompt(here, "Onthoud : de poort is 8080").startswith("Ralph: remembered")
    assert type_prompt(here, "Note to self the tests need redis").startswith("Ralph: remembered")
    assert len(stored(here)) == 2


def test_a_project_cannot_choose_the_prefixes(here: World) -> None:
    (here.root / "ralph.yml").write_text("learning:\n  remember: ['please']\n", encoding="utf-8")
    assert type_prompt(here, "please fix the test") == ""
    assert type_prompt(here, PROMPT).startswith("Ralph: remembered")
    warnings = config.load(here.root, env=here.env).warnings
    assert any("learning.remember is ignored here" in str(warning) for warning in warnings)


@pytest.mark.parametrize("prefix", ["''", "' '"], ids=["empty", "blank"])
def test_a_blank_prefix_is_refused(here: World, prefix: str) -> None:
    configure_user(here, f"learning:\n  remember:\n    - 'onthoud:'\n    - {prefix}\n")
    with pytest.raises(ConfigError, match="a prefix that is not blank") as caught:
        config.load(here.root, env=here.env)
    assert "config.yml:4" in str(caught.value)
    assert "learning.remember" in str(caught.value)


# --- what goes wrong ----------------------------------------------------------------------------


def test_an_unreadable_file_is_reported_to_the_user(here: World) -> None:
    path = here.root / ".agent" / "memories.md"
    path.mkdir(parents=True)
    for prompt, expected in ((PROMPT, "not remembered"), ("forget that", "not archived")):
        sent = payload("UserPromptSubmit", prompt=prompt)
        done = patient_hook("UserPromptSubmit", sent, here.env)
        assert (done.returncode, done.stderr) == (0, b"")
        message = json.loads(done.stdout)["systemMessage"]
        assert message.startswith(f"Ralph: {expected}: ")
        assert "memories.md" in message


def test_a_locked_file_is_reported_to_the_user(here: World) -> None:
    folder = here.root / ".agent"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        sent = payload("UserPromptSubmit", prompt=PROMPT)
        done = patient_hook("UserPromptSubmit", sent, here.env)
    finally:
        os.close(handle)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["systemMessage"].startswith("Ralph: not remembered: ")
    assert stored(here) == []
    assert type_prompt(here, PROMPT).startswith("Ralph: remembered")


def test_with_a_broken_config_a_prompt_is_remembered_all_the_same(here: World) -> None:
    configure_user(here, "learning:\n  remember: ['']\n")
    printed = type_prompt(here, PROMPT)
    assert "remembered" in printed
    assert "learning.remember: " in printed


def test_the_rest_of_a_prompt_is_answered_as_well(here: World) -> None:
    folder = here.root / ".agent"
    folder.mkdir(exist_ok=True)
    (folder / "memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    index.sync(here.root)
    prompt = f"{PROMPT}\n\nrotate the jwt refresh tokens"
    sent = payload("UserPromptSubmit", prompt=prompt)
    said = json.loads(call_hook("UserPromptSubmit", sent, here.env).stdout)
    context = said["hookSpecificOutput"]["additionalContext"]
    assert "remembered mem-" in said["systemMessage"]
    assert "remembered mem-" in context
    assert JWT in context


def test_a_pasted_page_is_not_a_memory(here: World) -> None:
    assert "not remembered" in type_prompt(here, f"remember: {'word ' * 1_000}")
    assert stored(here) == []
