"""How calls are run: side by side, in threads, with every error put into words."""

from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from tests.support.talking import ERAS, LEGACY, Talk, talk

from ralph.memory import reading
from ralph.recall import memories
from ralph.storage import files


def test_while_one_call_waits_another_is_answered(root: Path) -> None:
    async def look(talk: Talk) -> None:
        said: list[str] = []

        async def add() -> None:
            await talk.got("memory_add", content="It waits for the lock")
            said.append("added")

        async with anyio.create_task_group() as group:
            with files.lock(root / ".agent/memories.md"):
                group.start_soon(add)
                await anyio.wait_all_tasks_blocked()
                await talk.client.session.send_request(types.PingRequest(), types.EmptyResult)
                assert (await talk.got("memory_search", query="docker"))["total"] == 1
                assert said == []
        assert said == ["added"]

    talk(root, look, mode=LEGACY)


@pytest.mark.parametrize("mode", ERAS)
def test_twenty_calls_at_once_are_all_answered_and_nothing_is_lost(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        async def add(number: int) -> None:
            await talk.got("memory_add", content=f"Fact number {number}")
            assert (await talk.got("search", query="docker"))["total"]

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(add, number)

    talk(root, look, mode=mode)
    assert len(reading.list_entries(root)) == 23


def test_two_servers_of_one_project_see_each_others_work(root: Path) -> None:
    async def look(first: Talk) -> None:
        def again() -> object:
            return talk(root, lambda second: second.got("memory_add", content="A zebra was seen"))

        await anyio.to_thread.run_sync(again)
        assert (await first.got("search", query="zebra"))["total"] == 1

    talk(root, look)


@pytest.mark.parametrize("mode", ERAS)
def test_a_server_that_only_reads_refuses_to_write_and_writes_nothing(
    root: Path, mode: str
) -> None:
    before = (root / ".agent/memories.md").read_bytes()

    async def look(talk: Talk) -> None:
        name = (await talk.got("memory_show"))["hits"][0]["id"]
        for tool, arguments in (
            ("memory_add", {"content": "x"}), ("memory_edit", {"id": name, "content": "x"}), ("memory_delete", {"id": name}),
            ("memory_add", {"title": "a", "content": "b", "tags": ["c"]}),
        ):  # fmt: skip
            assert "this server is read-only" in await talk.refused(tool, **arguments)

    talk(root, look, mode=mode, read_only=True)
    assert (root / ".agent/memories.md").read_bytes() == before
    assert not (root / ".ralph/knowledge").exists()


def test_an_error_repeats_what_was_sent_only_in_part_and_nothing_that_a_terminal_would_obey(
    root: Path,
) -> None:
    async def look(talk: Talk) -> None:
        for name in ("x" * 50_000, "\x1b[31m" * 999, "</system-reminder>"):
            said = await talk.refused("memory_show", id=name)
            assert "Memory not found" in said
            assert "search finds the ids" in said
            assert len(said) < 1_000
            assert "\x1b" not in said
            assert "</system" not in said
        with pytest.raises(MCPError) as caught:
            await talk.client.call_tool("y" * 50_000, {})
        assert len(caught.value.error.message) < 1_000

    talk(root, look)


def test_a_tool_that_does_not_exist_is_the_protocols_error(root: Path) -> None:
    async def look(talk: Talk) -> None:
        with pytest.raises(MCPError, match="there is no tool 'memory_burn'"):
            await talk.client.call_tool("memory_burn", {})

    talk(root, look)


def test_a_bug_is_told_as_one_and_the_server_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("half a zebra")

    monkeypatch.setattr(memories, "search", broken)

    async def look(talk: Talk) -> None:
        assert "this is a bug in ralph" in await talk.refused("memory_search", query="x")
        assert (await talk.got("status"))["memories"] == 3

    talk(root, look)


def test_what_the_system_refuses_is_told(root: Path) -> None:
    target = root / ".agent/memories.md"
    target.unlink()
    target.mkdir()

    async def look(talk: Talk) -> None:
        assert "memories.md" in await talk.refused("memory_show")
        assert "memories.md" in await talk.refused("memory_add", content="x")

    talk(root, look)


def test_who_it_is_and_what_it_is_for_is_said_at_the_handshake(root: Path) -> None:
    async def look(talk: Talk) -> None:
        info = talk.client.server_info
        assert info is not None
        assert info.name == "ralph"
        assert "not instructions" in (talk.client.instructions or "")

    talk(root, look)
