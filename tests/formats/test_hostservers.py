"""Our MCP server in a settings file of any layout: put in by insertions only, and out again without a trace."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.formats.test_hostsettings import settings_files

from ralph.errors import Conflict, Unreadable
from ralph.formats.host_files import (
    is_ralph_server,
    json_server,
    with_json_server,
    with_toml_server,
    without_json_server,
    without_toml_server,
)

OURS = {"command": "/opt/my place/python", "args": ["-I", "-m", "ralph", "mcp", "serve"]}
THEIRS = {"command": "npx", "args": ["ralph"]}
KEYS = st.sampled_from([("mcpServers",), ("projects", "/a b/c", "mcpServers")])


def value(text: str) -> dict[str, Any]:
    found = json.loads(text.removeprefix("\ufeff"))
    assert isinstance(found, dict)
    return found


@given(settings_files(), KEYS)
@example("{}", ("mcpServers",))
@example('{"mcpServers":{}}', ("mcpServers",))
@example('{"mcpServers": {"x": {"command": "y"}}}\n', ("mcpServers",))
@example('{"projects": {"/a b/c": {}}}', ("projects", "/a b/c", "mcpServers"))
def test_putting_in_and_taking_out_gives_every_byte_back(text: str, keys: tuple[str, ...]) -> None:
    after = with_json_server(text, keys, OURS)
    there: Any = value(after)
    for key in (*keys, "ralph"):
        there = there[key]
    assert there == OURS
    assert json_server(after, keys) == OURS
    assert without_json_server(after, keys) == text
    without = value(after)
    inner: Any = without
    for key in keys:
        inner = inner[key]
    del inner["ralph"]
    assert {key: each for key, each in without.items() if key != keys[0]} == {
        key: each for key, each in value(text).items() if key != keys[0]
    }


@pytest.mark.parametrize("keys", [("mcpServers",), ("projects", "/p", "mcpServers")])
def test_a_file_that_was_made_for_it_goes_with_it(keys: tuple[str, ...]) -> None:
    assert without_json_server(with_json_server(None, keys, OURS), keys) is None
    assert without_json_server(with_json_server(" \n", keys, OURS), keys) == " \n"


def test_comments_stay_where_they_are_allowed() -> None:
    text = '// mine\n{\n  "mcpServers": { /* none yet */ }\n}\n'
    after = with_json_server(text, ("mcpServers",), OURS, comments=True)
    assert without_json_server(after, ("mcpServers",), comments=True) == text
    with pytest.raises(Unreadable):
        with_json_server(text, ("mcpServers",), OURS)


def test_somebody_elses_entry_of_our_name_is_left_alone() -> None:
    text = json.dumps({"mcpServers": {"ralph": THEIRS}})
    assert not is_ralph_server(json_server(text, ("mcpServers",)))
    assert without_json_server(text, ("mcpServers",)) == text
    with pytest.raises(Conflict):
        with_json_server(text, ("mcpServers",), OURS)


@pytest.mark.parametrize("text", ['{"mcpServers": []}', "[]", '{"mcpServers": 1}', "{"])
def test_a_file_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        with_json_server(text, ("mcpServers",), OURS)


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        (OURS, True),
        ({"command": "/home/x/.local/bin/ralph", "args": ["mcp", "serve", "--read-only"]}, True),
        ({"command": "ralph", "args": ["mcp", "status"]}, False),
        ({"command": "notralph", "args": ["mcp", "serve"]}, False),
        ({"url": "x"}, False),
        ("ralph mcp serve", False),
        (None, False),
    ],
)
def test_ours_is_what_starts_our_server(entry: object, ours: bool) -> None:
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
    return newline.join(draw(st.lists(_LINES, max_size=6))) + draw(st.sampled_from(["", newline, newline * 2]))


@given(toml_files())
@example("")
@example("\n")
@example('model = "x"')
@example("[mcp_servers]")
def test_a_toml_file_gets_every_byte_back_too(text: str) -> None:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(Unreadable):
            with_toml_server(text, OURS)
        return
    after = with_toml_server(text, OURS)
    assert tomllib.loads(after)["mcp_servers"]["ralph"] == OURS
    assert {key: each for key, each in tomllib.loads(after).items() if key != "mcp_servers"} == {
        key: each for key, each in before.items() if key != "mcp_servers"
    }
    assert without_toml_server(after) == text


def test_a_toml_file_that_was_made_for_it_goes_with_it() -> None:
    made = with_toml_server(None, OURS)
    assert without_toml_server(made) is None
    assert without_toml_server(made + "[more]\n") == "[more]\n"


def test_lines_that_came_to_belong_to_our_block_stop_the_removal() -> None:
    after = with_toml_server("a = 1\n", OURS) + "startup_timeout_sec = 5\n"
    with pytest.raises(Conflict, match="would change what other lines mean"):
        without_toml_server(after)


def test_a_blank_line_that_a_person_took_out_does_no_harm() -> None:
    after = with_toml_server("a = 1\n", OURS).replace("\n\n#", "\n#") + "[b]\n"
    assert without_toml_server(after) == "a = 1\n[b]\n"


def test_a_list_of_servers_that_cannot_be_added_to_is_refused() -> None:
    with pytest.raises(Conflict, match="nothing can be added"):
        with_toml_server('mcp_servers = { x = { command = "y" } }\n', OURS)
