"""The two prompts."""

from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import TextContent
from tests.mcp_server.talking import ERAS, Talk, talk


async def filled(talk: Talk, name: str, **arguments: str) -> str:
    (message,) = (await talk.client.get_prompt(name, arguments)).messages
    assert isinstance(message.content, TextContent)
    assert message.role == "user"
    return message.content.text


@pytest.mark.parametrize("mode", ERAS)
def test_recall_brings_what_is_known_along_as_data(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        text = await filled(talk, "recall", topic="docker")
        assert "[ralph] Reference from earlier work" in text
        assert "ECONNREFUSED" in text
        assert "Nothing found." in await filled(talk, "recall", topic="zebra crossing")

    talk(root, look, mode=mode)


def test_remember_says_what_to_keep_and_how(root: Path) -> None:
    async def look(talk: Talk) -> None:
        text = await filled(talk, "remember", what="우리는 pnpm 을 쓴다")
        assert "우리는 pnpm 을 쓴다" in text
        assert "memory_add" in text

    talk(root, look)


def test_a_prompt_needs_its_argument(root: Path) -> None:
    async def look(talk: Talk) -> None:
        for name, arguments in (("recall", {}), ("remember", {"what": " "}), ("forget", {"what": "x"})):
            with pytest.raises(MCPError):
                await talk.client.get_prompt(name, arguments)
        names = [(each.name, [one.name for one in each.arguments or []])
                 for each in (await talk.client.list_prompts()).prompts]  # fmt: skip
        assert names == [("recall", ["topic"]), ("remember", ["what"])]

    talk(root, look)


def test_a_server_that_only_reads_does_not_offer_to_remember(root: Path) -> None:
    async def look(talk: Talk) -> None:
        assert [each.name for each in (await talk.client.list_prompts()).prompts] == ["recall"]
        with pytest.raises(MCPError):
            await talk.client.get_prompt("remember", {"what": "x"})

    talk(root, look, read_only=True)
