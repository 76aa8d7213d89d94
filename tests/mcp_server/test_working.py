"""task_show, session_show and status."""

from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.talking import ERAS, Talk, talk

from ralph.mcp.project_tools import TASK_LIMIT
from ralph.tasks import task


@pytest.mark.parametrize("mode", ERAS)
def test_tasks_are_listed_in_their_order_and_shown_whole(root: Path, mode: str) -> None:
    first = task.list_(root)[0][0].task.id
    second = task.add(root, "환불 화면", blocked_by=[first]).task.id

    async def look(talk: Talk) -> None:
        got = await talk.got("task_show")
        assert [each["id"] for each in got["tasks"]] == [first, second]
        assert got["tasks"][1]["waits_for"] == [first]
        assert f"waits for {first}" in await talk.read("task_show")
        assert [each["id"] for each in (await talk.got("task_show", ready=True))["tasks"]] == [
            first
        ]
        assert (await talk.got("task_show", status="failed"))["notes"] == ["No tasks."]
        whole = await talk.got("task_show", id=first)
        assert (whole["title"], whole["description"]) == (
            "Refund an order",
            "All of it, or a part.",
        )
        assert "환불 화면" in await talk.read("task_show", id=second)
        assert "Task not found" in await talk.refused("task_show", id="t-nope")
        assert "status: Input should be 'pending'" in await talk.refused("task_show", status="open")

    talk(root, look, mode=mode)


def test_a_failed_task_tells_why(root: Path) -> None:
    name = task.list_(root)[0][0].task.id
    task.fail(root, name, "the gateway has no refunds")

    async def look(talk: Talk) -> None:
        assert "the gateway has no refunds" in await talk.read("task_show", id=name)

    talk(root, look)


def test_a_long_list_of_tasks_is_bounded_and_a_file_that_is_none_is_told(empty: Path) -> None:
    for number in range(TASK_LIMIT + 1):
        task.add(empty, f"Task {number}")
    (empty / ".ralph/tasks/t-torn").mkdir()
    (empty / ".ralph/tasks/t-torn/task.json").write_text("{", encoding="utf-8", newline="")

    async def look(talk: Talk) -> None:
        got = await talk.got("task_show")
        assert (len(got["tasks"]), got["total"]) == (TASK_LIMIT, TASK_LIMIT + 1)
        assert "t-torn" in got["notes"][0]
        assert got["notes"][1].startswith("1 more")
        assert len((await talk.got("task_show", limit=2))["tasks"]) == 2

    talk(empty, look)


@pytest.mark.parametrize("mode", ERAS)
def test_sessions_are_listed_and_shown_by_the_beginning_of_their_id(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        got = await talk.got("session_show")
        assert [each["id"] for each in got["sessions"]] == ["77bb-2", "3f2a-1"]
        assert got["sessions"][1]["prompt"] == "fix the login"
        assert (await talk.got("session_show", limit=1))["notes"][0].startswith("1 more")
        one = await talk.got("session_show", id="3f2a")
        assert one["summary"].startswith("Goal: fix the login")
        assert [hit["type"] for hit in one["hits"]] == ["note", "error", "note"]
        assert (await talk.got("session_show", id="3f2a", limit=1))["notes"][0].startswith(
            "2 earlier"
        )
        assert "session: 3f2a-1" in await talk.read("session_show", id="3f2a", layer=3)
        assert "Session not found" in await talk.refused("session_show", id="nope")
        assert "Task not found" in await talk.refused("session_show", task="t-nope")

    talk(root, look, mode=mode)


def test_status_counts_as_the_command_does(root: Path) -> None:
    async def look(talk: Talk) -> dict[str, object]:
        await talk.got("search", query="docker")  # makes the index
        return await talk.got("status")

    got = talk(root, look)
    said = Project(root)("status", "--format", "json").json
    assert (got["memories"], got["guardrails"]) == (said["memories"], said["guardrails"]) == (3, 0)
    assert (got["indexed"], got["last_session"]) == (said["indexed"], said["last_session"])
    assert said["last_session"]["id"] == "77bb-2"
    assert got["paused"] is False


EMPTY: dict[str, dict[str, object]] = {
    "memory_search": {"query": "x"}, "memory_show": {}, "search": {"query": "x"}, "context": {"prompt": "x"},
    "journal_search": {"query": "x"}, "task_show": {}, "session_show": {}, "status": {},
}  # fmt: skip


@pytest.mark.parametrize("mode", ERAS)
def test_where_nothing_is_remembered_every_tool_says_so_and_writes_nothing(
    empty: Path, mode: str
) -> None:
    async def look(talk: Talk) -> None:
        for name, arguments in EMPTY.items():
            assert await talk.read(name, **arguments), name
        assert await talk.read("search", since="7d")
        assert await talk.read("context", prompt="x", knowledge=True)
        for name in ("memory_show", "memory_delete", "task_show", "session_show", "graph_show"):
            assert "error: " in await talk.refused(name, id="nothing")

    talk(empty, look, mode=mode)
    assert not (empty / ".agent").exists()
