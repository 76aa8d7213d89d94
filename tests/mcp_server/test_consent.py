"""Deleting: a person is asked where the client can, in both eras; and which folder a client works in."""

import os
from collections.abc import Callable
from pathlib import Path

import mcp_types as types
import pytest
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from tests.support.talking import ERAS, LEGACY, MODERN, Talk, talk

from ralph.memory import memory, reading

WORDS = "ECONNREFUSED: run docker compose up first"


def person(
    action: str, asked: list[str], before: Callable[[], object] = lambda: None
) -> ElicitationFnT:
    """Somebody who is asked, may do something first, and answers."""

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        before()
        return types.ElicitResult.model_validate(
            {"action": action, "content": {} if action == "accept" else None}
        )

    return answer


def name_of(root: Path) -> str:
    return next(each.record.id for each in reading.list_entries(root) if each.record.text == WORDS)


def there(root: Path) -> bool:
    return any(each.record.text == WORDS for each in reading.list_entries(root))


@pytest.mark.parametrize("mode", ERAS)
def test_a_person_who_agrees_is_asked_once_and_the_memory_goes(root: Path, mode: str) -> None:
    asked: list[str] = []
    name = name_of(root)

    async def delete(talk: Talk) -> None:
        got = await talk.got("memory_delete", id=name)
        assert (got["deleted"], got["text"], got["type"], got["tags"]) == (
            True,
            WORDS,
            "fix",
            ["docker", "db"],
        )

    talk(root, delete, mode=mode, ask=person("accept", asked))
    assert asked == [f"Delete the fix {name}? {WORDS}"]
    assert not there(root)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_who_does_not_agree_keeps_the_memory(root: Path, mode: str, action: str) -> None:
    asked: list[str] = []
    before = (root / ".agent/memories.md").read_bytes()

    async def delete(talk: Talk) -> None:
        name = name_of(root)
        assert (await talk.got("memory_delete", id=name))["deleted"] is False
        assert "Nothing was deleted" in await talk.read("memory_delete", id=name)

    talk(root, delete, mode=mode, ask=person(action, asked))
    assert len(asked) == 2
    assert (root / ".agent/memories.md").read_bytes() == before


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_that_cannot_ask_deletes_and_gets_all_that_restores_it(
    root: Path, mode: str
) -> None:
    async def delete(talk: Talk) -> None:
        got = await talk.got("memory_delete", id=name_of(root))
        assert got["deleted"] is True
        assert not there(root)
        await talk.got("memory_add", content=got["text"], type=got["type"], tags=got["tags"])

    talk(root, delete, mode=mode)
    (back,) = [each.record for each in reading.list_entries(root) if each.record.text == WORDS]
    assert (back.kind.value, back.tags) == ("fix", ("docker", "db"))


@pytest.mark.parametrize("mode", ERAS)
def test_nobody_is_asked_about_a_memory_that_is_not_there(root: Path, mode: str) -> None:
    asked: list[str] = []

    async def delete(talk: Talk) -> None:
        assert "Memory not found" in await talk.refused("memory_delete", id="mem-1-nope")

    talk(root, delete, mode=mode, ask=person("accept", asked))
    assert asked == []


def test_what_changed_while_the_person_thought_is_not_deleted(root: Path) -> None:
    name = name_of(root)

    def meanwhile() -> None:
        memory.edit(root, name, text="Something else by now")

    async def delete(talk: Talk) -> None:
        assert "changed in its file" in await talk.refused("memory_delete", id=name)

    talk(root, delete, mode=LEGACY, ask=person("accept", [], meanwhile))
    assert reading.get_entry(root, name).record.text == "Something else by now"


def test_where_the_client_calls_again_the_person_is_asked_about_the_new_words(root: Path) -> None:
    name, asked = name_of(root), list[str]()

    def meanwhile() -> None:
        memory.edit(root, name, text="Something else by now")

    async def delete(talk: Talk) -> None:
        assert (await talk.got("memory_delete", id=name))["text"] == "Something else by now"

    talk(root, delete, mode=MODERN, ask=person("accept", asked, meanwhile))
    assert [words.rpartition("? ")[2] for words in asked] == [WORDS, "Something else by now"]


def test_a_yes_to_another_question_counts_for_nothing(root: Path) -> None:
    async def delete(talk: Talk) -> None:
        agreed: types.InputResponses = {"confirm": types.ElicitResult(action="accept", content={})}
        answer = await talk.client.session.call_tool(
            "memory_delete", {"id": name_of(root)}, input_responses=agreed, request_state="forged",
            allow_input_required=True,
        )  # fmt: skip
        assert isinstance(answer, types.InputRequiredResult)

    talk(root, delete, mode=MODERN, ask=person("accept", []))
    assert there(root)


def test_a_client_that_fails_to_ask_deletes_nothing(root: Path) -> None:
    async def broken(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ErrorData:
        return types.ErrorData(code=-32000, message="no window")

    async def delete(talk: Talk) -> None:
        assert "nothing was deleted" in await talk.refused("memory_delete", id=name_of(root))

    talk(root, delete, ask=broken)
    assert there(root)


def test_outside_of_a_project_the_clients_folder_counts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        asked.append("roots")
        gone, here = (tmp_path / "gone").as_uri(), root.as_uri()
        return types.ListRootsResult.model_validate({"roots": [{"uri": gone}, {"uri": here}]})

    async def status(talk: Talk) -> None:
        assert [(await talk.got("status"))["memories"] for _ in range(2)] == [3, 3]

    talk(None, status, roots=roots)
    assert asked == ["roots"]


def test_without_folders_of_the_clients_it_stands_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def project(talk: Talk) -> str:
        return str((await talk.got("status"))["root"])

    assert talk(None, project) == os.path.realpath(tmp_path)


def test_the_home_folder_is_no_project_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "nobody"
    home.mkdir(exist_ok=True)
    (home / "ralph.yml").touch()
    monkeypatch.chdir(home)

    async def look(talk: Talk) -> None:
        for name, arguments in (("status", {}), ("memory_add", {"content": "x"})):
            assert "never become one" in await talk.refused(name, **arguments)

    talk(None, look)
    talk(None, look, env={"CLAUDE_PROJECT_DIR": str(home)})

    async def named(talk: Talk) -> str:
        return str((await talk.got("status"))["root"])

    assert talk(home, named) == os.path.realpath(home)
    assert [path.name for path in home.iterdir() if path.name != ".local"] == ["ralph.yml"]


def test_a_root_that_is_not_there_is_told_by_every_tool_and_the_list_still_comes(
    tmp_path: Path,
) -> None:
    async def look(talk: Talk) -> None:
        assert len((await talk.client.list_tools()).tools) == 13
        assert "no such folder" in await talk.refused("status")
        assert "no such folder" in await talk.refused("memory_add", content="x")

    talk(tmp_path / "nowhere", look)
