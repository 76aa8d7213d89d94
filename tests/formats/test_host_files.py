"""Hooks and MCP servers in the settings files of other programs."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ralph.core.errors import Conflict, Unreadable
from ralph.formats.host_files import (
    has_current_hooks,
    is_ralph_hook,
    is_ralph_server,
    json_entry,
    ralph_hooks,
    with_hooks,
    with_json_entry,
    without_hooks,
    without_json_entry,
)
from ralph.formats.host_toml import with_toml_server, without_toml_server
from ralph.install.client_entries import hook_settings
from ralph.install.clients import CLIENTS, Host

LAUNCHER = Path("/home/ann/.local/state/ralph/bin/ralph-hook")
MOVED_LAUNCHER = Path("/new place/ralph/bin/ralph-hook")
OTHER_HOOK = {"type": "command", "command": "echo ralph/hooks/run.pyc"}
OTHER_GROUP = {"matcher": "Bash", "hooks": [OTHER_HOOK]}
GROUPS = hook_settings(Host.CLAUDE, [str(LAUNCHER)])

# --- files as people and programs lay them out ---------------------------------------------------

_SPACE = st.sampled_from(["", "", " ", "\n", "\r\n", "\n  ", "\n\t", "\r\n    ", "  ", " \n\n "])
_KEYS = st.sampled_from(["a", "model", "hook", "env", "Stop", "ключ", 'q"uote'])
_VALUES = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "", "x", "hooks", "// no comment", "ralph", "}{", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_GROUP_LISTS = st.lists(
    st.sampled_from([OTHER_GROUP, {"hooks": []}, {"hooks": [{"type": "prompt", "prompt": "?"}]}]),
    max_size=2,
)
_HOOKS = st.dictionaries(
    st.sampled_from([*CLIENTS[Host.CLAUDE].events, "Notification"]), _GROUP_LISTS, max_size=4
)


@st.composite
def settings_files(draw: st.DrawFn) -> str:
    """A settings file: any values, any white space between them, with or without hooks of other people."""
    value: dict[str, object] = dict(draw(st.dictionaries(_KEYS, _VALUES, max_size=3)))
    if draw(st.booleans()):
        value["hooks"] = draw(_HOOKS)
    if draw(st.booleans()):
        value["last"] = 1
    neat = draw(st.sampled_from([None, None, 2, 4, "\t"]))
    if neat is None:
        text = draw(_SPACE) + _written(draw, value) + draw(_SPACE)
    else:
        text = json.dumps(value, indent=neat, ensure_ascii=False) + draw(
            st.sampled_from(["", "\n", "\n\n"])
        )
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


def _written(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, dict):
        parts = [
            f"{draw(_SPACE)}{json.dumps(key)}{draw(_SPACE)}:{draw(_SPACE)}{_written(draw, inner)}{draw(_SPACE)}"
            for key, inner in value.items()
        ]
        return "{" + (",".join(parts) or draw(_SPACE)) + "}"
    if isinstance(value, list):
        parts = [draw(_SPACE) + _written(draw, inner) + draw(_SPACE) for inner in value]
        return "[" + (",".join(parts) or draw(_SPACE)) + "]"
    return json.dumps(value)


@given(settings_files() | st.sampled_from(["", "\n", "\ufeff", " \r\n", "{}", "{\n}", "{ }\n"]))
@example('{"hooks":{"Stop":[]}}')
@example('{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}\n')
def test_adding_and_removing_hooks_restores_every_byte(text: str) -> None:
    there = with_hooks(text, GROUPS)
    assert has_current_hooks(there, GROUPS)
    assert without_hooks(there) == text


@given(settings_files())
def test_adding_hooks_changes_no_other_value(text: str) -> None:
    before = json.loads(text.lstrip("\ufeff"))
    after = json.loads(with_hooks(text, GROUPS).lstrip("\ufeff"))
    hooks = after.pop("hooks")
    for event, group in GROUPS.items():
        assert hooks[event].pop() == group
    others = before.pop("hooks", {})
    assert {event: left for event, left in hooks.items() if left} == {
        e: left for e, left in others.items() if left
    }
    assert after == before


@given(settings_files())
def test_adding_hooks_only_inserts(text: str) -> None:
    rest = iter(with_hooks(text, GROUPS))
    assert all(char in rest for char in text)


@given(settings_files(), st.sampled_from([None, 2, "\t"]))
def test_hooks_are_removed_after_another_program_reformatted_the_file(
    text: str, indent: int | str | None
) -> None:
    value = json.loads(with_hooks(text, GROUPS).lstrip("\ufeff"))
    left = without_hooks(json.dumps(value, indent=indent))
    assert ralph_hooks(left) == ()
    was, is_now = json.loads(text.lstrip("\ufeff")), json.loads(left or "{}")
    for hooks in (was.pop("hooks", {}), is_now.pop("hooks", {})):
        assert not [
            group for event in hooks.values() for group in event if group == GROUPS.get("Stop")
        ]
    assert is_now == was


def test_a_ralph_hook_in_a_shared_group_is_removed_alone() -> None:
    mine = GROUPS["Stop"]
    assert isinstance(mine, Mapping)
    shared = {"hooks": {"Stop": [{"hooks": [OTHER_HOOK, *mine["hooks"]]}]}}
    assert json.loads(without_hooks(json.dumps(shared)) or "") == {
        "hooks": {"Stop": [{"hooks": [OTHER_HOOK]}]}
    }


@pytest.mark.parametrize(
    "text",
    [
        '{ // mine\n  "a": 1 // one\n}\n',
        '// top\n{\n  "hooks": {\n    /* , none */\n  }\n}',
        '{"url": "http://x/*y*/", "hooks": {"AfterTool": [ /* { */ ]}}',
        '{\n  "a": 1, // last, with a comma\n  "b": 2 /* end */\n}\n// bottom\n',
    ],
)
def test_comments_are_kept(text: str) -> None:
    wanted = hook_settings(Host.GEMINI, [str(LAUNCHER)])
    there = with_hooks(text, wanted)
    assert has_current_hooks(there, wanted)
    assert without_hooks(there) == text


def test_a_comment_beside_a_ralph_hook_is_kept() -> None:
    there = with_hooks('{"hooks": {"AfterTool": [1]}}', {"AfterTool": GROUPS["Stop"]})
    noted = there.replace("[1,", "[1, /* , theirs */")
    rest = without_hooks(noted) or ""
    assert "".join(rest.split()) == '{"hooks":{"AfterTool":[1/*,theirs*/]}}'


def test_a_ralph_hook_is_recognised_by_its_command() -> None:
    for host in Host:
        for group in hook_settings(host, [str(MOVED_LAUNCHER)]).values():
            assert isinstance(group, dict)
            assert is_ralph_hook(group.get("hooks", [group])[0])
    for other in (
        OTHER_HOOK,
        {},
        "x",
        None,
        {"command": "x", "args": "y"},
        {"args": ["my-ralph/hooks/run.py2"]},
    ):
        assert not is_ralph_hook(other)


# --- MCP servers ---

SERVER = {"command": "/opt/my place/python", "args": ["-I", "-m", "ralph", "mcp", "serve"]}
OTHER_SERVER = {"command": "npx", "args": ["ralph"]}
SERVERS = ("mcpServers", "ralph")
KEYS = st.sampled_from([SERVERS, ("projects", "/a b/c", "mcpServers", "ralph")])


def parse_object(text: str) -> dict[str, Any]:
    found = json.loads(text.removeprefix("\ufeff"))
    assert isinstance(found, dict)
    return found


@given(settings_files(), KEYS)
@example("{}", SERVERS)
@example('{"mcpServers":{}}', SERVERS)
@example('{"mcpServers": {"x": {"command": "y"}}}\n', SERVERS)
@example('{"projects": {"/a b/c": {}}}', ("projects", "/a b/c", "mcpServers", "ralph"))
def test_adding_and_removing_a_server_restores_every_byte(text: str, keys: tuple[str, ...]) -> None:
    after = with_json_entry(text, keys, SERVER)
    there: Any = parse_object(after)
    for key in keys:
        there = there[key]
    assert there == SERVER
    assert json_entry(after, keys) == SERVER
    assert without_json_entry(after, keys) == text
    without = parse_object(after)
    inner: Any = without
    for key in keys[:-1]:
        inner = inner[key]
    del inner["ralph"]
    assert {key: each for key, each in without.items() if key != keys[0]} == {
        key: each for key, each in parse_object(text).items() if key != keys[0]
    }


@pytest.mark.parametrize("keys", [SERVERS, ("projects", "/p", "mcpServers", "ralph")])
def test_a_file_created_for_the_server_is_removed_with_it(keys: tuple[str, ...]) -> None:
    assert without_json_entry(with_json_entry(None, keys, SERVER), keys) is None
    assert without_json_entry(with_json_entry(" \n", keys, SERVER), keys) == " \n"


def test_comments_around_servers_are_kept() -> None:
    text = '// mine\n{\n  "mcpServers": { /* none yet */ }\n}\n'
    after = with_json_entry(text, SERVERS, SERVER)
    assert without_json_entry(after, SERVERS) == text


def test_another_server_of_our_name_is_left_alone() -> None:
    text = json.dumps({"mcpServers": {"ralph": OTHER_SERVER}})
    assert not is_ralph_server(json_entry(text, SERVERS))
    with pytest.raises(Conflict):
        with_json_entry(text, SERVERS, SERVER)


@pytest.mark.parametrize("text", ['{"mcpServers": []}', "[]", '{"mcpServers": 1}', "{"])
def test_a_file_without_server_objects_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        with_json_entry(text, SERVERS, SERVER)


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        (SERVER, True),
        ({"command": "/home/x/.local/bin/ralph", "args": ["mcp", "serve", "--read-only"]}, True),
        ({"command": "ralph", "args": ["mcp", "status"]}, False),
        ({"command": "notralph", "args": ["mcp", "serve"]}, False),
        ({"url": "x"}, False),
        ("ralph mcp serve", False),
        (None, False),
    ],
)
def test_a_ralph_server_is_recognised_by_its_command(entry: object, ours: bool) -> None:
    assert is_ralph_server(entry) is ours


# --- Codex ---------------------------------------------------------------------------------------

_LINES = st.sampled_from(
    [
        "",
        "# a note",
        'model = "x"',
        "[features]",
        "hooks = true",
        "[mcp_servers.other]",
        'command = "y"',
        "[[profiles]]",
    ]
)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """A file of lines that TOML may or may not like, with any line ends."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join(draw(st.lists(_LINES, max_size=6))) + draw(
        st.sampled_from(["", newline, newline * 2])
    )


@given(toml_files())
@example("")
@example('model = "x"')
@example("[mcp_servers]")
@example('mcp_servers = { x = { command = "y" } }\n')
def test_a_toml_server_changes_no_other_value_and_no_comment(text: str) -> None:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(Unreadable):
            with_toml_server(text, SERVER)
        return
    after = with_toml_server(text, SERVER)
    values = tomllib.loads(after)
    assert values["mcp_servers"].pop("ralph") == SERVER
    assert {**values, "mcp_servers": values["mcp_servers"] or before.get("mcp_servers", {})} == {
        "mcp_servers": {},
        **before,
    }
    assert text.count("#") == after.count("#")
    assert ("\r\n" in text) == ("\r\n" in after) or text.count("\n") == 0
    removed = without_toml_server(after) or ""
    assert {"mcp_servers": {}, **tomllib.loads(removed)} == {"mcp_servers": {}, **before}


@pytest.mark.parametrize(
    "text",
    ['# mine\nmodel = "x"  # why\n', '[mcp_servers.other]\ncommand = "y"\n\n[b]\n', "a = 1\r\n"],
)
def test_a_toml_file_is_the_same_after_adding_and_removing_the_server(text: str) -> None:
    assert without_toml_server(with_toml_server(text, SERVER)) == text


def test_a_toml_file_with_nothing_but_the_server_goes_with_it() -> None:
    created = with_toml_server(None, SERVER)
    assert without_toml_server(created) is None
    assert without_toml_server(created + "[more]\n") == "[more]\n"


def test_a_toml_server_of_our_name_is_left_alone() -> None:
    text = '[mcp_servers.ralph]\ncommand = "other"\n'
    assert without_toml_server(text) == text
    with pytest.raises(Conflict):
        with_toml_server(text, SERVER)
    with pytest.raises(Conflict):
        with_toml_server("mcp_servers = []\n", SERVER)
