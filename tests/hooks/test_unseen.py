"""What the light look at `privacy.paths` lets pass, the real rule lets pass, too; and it lets pass what is ordinary."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.hooks.ordinary import payloads
from tests.hooks.world import World, hook, payload, world

from ralph.capture.hidden import touches
from ralph.capture.hosts import event_of
from ralph.hooks import careful, own
from ralph.hooks.own import Doubt

GLOBS = ("*.pem", "secrets/**", "**/credentials.json", ".env*", "~/.aws/**", "/etc/ralph/*", "./private notes/**",
         "config/?.key", "a/b", "*", "*.Key", "data/**/x", "ΟΔΟΣ/**", "a[bc].txt", "we:ird", "~nobody/x")  # fmt: skip
NAMES = (
    *("cert.pem", "secrets/db.txt", "src/secrets", "credentials.json", ".env", ".env.local", "~/.aws/config", "x.KEY"),
    *("/etc/ralph/x", "private notes/a.md", "config/a.key", "a/b/c", "../a/b", "./a//b", "data/1/2/x", "ab.txt"),
    *("process.env.PATH", "obj.key", "secretsmanager", "README.md", "οδος/x", "we:ird", "~nobody/x"),
)
HOSTS = ("claude", "codex")


def let_pass(host: str, said: dict[str, object], globs: tuple[str, ...]) -> bool:
    try:
        own.check_hidden(host, said, globs)
    except Doubt:
        return False
    return True


def is_touched(host: str, said: Mapping[str, object], globs: tuple[str, ...]) -> bool:
    events = (event_of(host, name, said, "") for name in ("PostToolUse", "PostToolUseFailure"))
    return any(event is not None and touches(event, globs) for event in events)


FORMS = (
    *("{}", "cat {}", "--- a/{}\n+++ b/{}", "{}:12:3: x", '"{}"', "see (`{}`).", "@{}", "file://{}", "{}..."),
    *("*** Update File: {}\n@@", "x={};", "/home/me/proj/{}", "{}" + "x" * 1200),
)
around = st.sampled_from(FORMS)
texts = st.builds(lambda form, name: form.replace("{}", name), around, st.sampled_from(NAMES))
tools = st.sampled_from(["Bash", "Read", "Edit", "Write", "Grep", "apply_patch", "mcp__x__y"])
members = st.one_of(
    st.fixed_dictionaries({"command": texts}),
    st.fixed_dictionaries({"file_path": st.sampled_from(NAMES), "old_string": texts, "new_string": texts}),
    st.fixed_dictionaries({"a": st.lists(texts), "b": st.integers()}),
    texts,
)
answers = st.one_of(
    texts,
    st.fixed_dictionaries({"stdout": texts, "stderr": texts}),
    st.fixed_dictionaries({"filePath": st.sampled_from(NAMES), "originalFile": texts}),
    st.builds(lambda text: json.dumps({"output": f"first\n{text}"}), texts),
    st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts})),
)


@given(tools, members, answers, texts, st.sampled_from(["/home/me/proj", "", "/srv/secrets/x"]), st.sampled_from(GLOBS))
@example("apply_patch", "*** Update File: private notes/a\n", "", "", "/p", "private notes/**")
@example("Bash", {"command": "cat ~/.aws/config"}, "", "", "/p", "~/.aws/**")
def test_what_the_rule_would_hide_is_never_let_pass(
    tool: str, given_: object, answer: object, error: str, cwd: str, glob: str
) -> None:
    said = {
        "session_id": "s",
        "cwd": cwd,
        "tool_name": tool,
        "tool_input": given_,
        "tool_response": answer,
        "error": error,
    }
    for host in HOSTS:
        if is_touched(host, said, (glob,)):
            assert not let_pass(host, said, (glob,))


def test_ordinary_events_pass() -> None:
    globs = ("*.pem", "**/credentials.json", ".env*", "~/.aws/**", "vault/**")
    found = [said for said in map(json.loads, payloads()) if "tool_name" in said]
    passed = [said for said in found if let_pass("claude", said, globs)]
    assert len(passed) >= 0.9 * len(found) > 0


@pytest.mark.parametrize("name", ["process.env.PATH", "secretsmanager", "obj.keys", "my.pem.txt"])
def test_names_that_only_look_alike_pass(name: str) -> None:
    said: dict[str, object] = {"cwd": "/p", "tool_name": "Bash", "tool_input": {"command": f"echo {name}"}}
    assert let_pass("claude", said, ("*.env", "secrets/**", "*.key", "*.pem"))


@pytest.fixture
def here(tmp_path: Path) -> World:
    made = world(tmp_path)
    text = "privacy:\n  paths: ['secrets/**']\n  patterns: ['ACME-[0-9]{6}', '(?i)project falcon']\n"
    (made.root / "ralph.yml").write_text(text, encoding="utf-8")
    made.cached()
    return made


def test_an_event_about_a_hidden_file_is_not_recorded(here: World) -> None:
    hook("PostToolUse", payload(tool_input={"command": "cat secrets/db"}), here.env)
    assert [line["type"] for line in here.lines()] == ["session"]


def test_an_event_without_what_the_rules_are_about_is_recorded_as_it_came(here: World) -> None:
    sent = payload(tool_response={"stdout": "ACME and projects, secretly"})
    hook("PostToolUse", sent, here.env)
    assert [line["payload"] for line in here.lines()] == [json.loads(sent)]


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit"])
@pytest.mark.parametrize("more", ["", " API_KEY=Zx81kLm20Qp93Vt47Yc6", " \x1b[1m", " word" * 9_000])
def test_what_a_pattern_finds_is_not_recorded(here: World, event: str, more: str) -> None:
    sent = payload(event, prompt=f"ask ACME-123456 now{more}", tool_response={"stdout": f"Project FALCON{more}"})
    hook(event, sent, here.env)
    (line,) = here.lines()
    assert line["type"] == "event"
    said = json.dumps(line)
    assert "[redacted: custom]" in said
    assert not any(word in said for word in ("123456", "FALCON", "Zx81"))


@pytest.mark.parametrize("members", [{"a": "AC\x1b[0mME-123456"}, {"a": "ACME", "b": "-123456"}, {"n": 123456}])
def test_a_pattern_never_finds_anything_in_what_was_recorded(here: World, members: dict[str, object]) -> None:
    hook("PostToolUse", payload(tool_input={"command": "x ACME", **members}), here.env)
    assert "ACME-123456" not in here.log.read_text(encoding="utf-8")


def test_a_pattern_that_nobody_can_compile_is_for_the_full_path() -> None:
    with pytest.raises(Exception, match="unterminated"):
        careful.matched("claude", {"a": "b"}, ("[",))


def test_a_pattern_also_finds_what_unseen_signs_split() -> None:
    assert careful.matched("claude", {"prompt": "co\u200bdename"}, ("codename",))
    assert not careful.matched("claude", {"prompt": "co\u200bde"}, ("codename",))
