"""Resources by their address, the short list of them, and the two prompts."""

from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import TextContent, TextResourceContents
from tests.support.talking import ERAS, Talk, talk

from ralph.capture import recorder
from ralph.mcp.handlers import LISTED
from ralph.memory import memory


async def content(talk: Talk, uri: str) -> str:
    (part,) = (await talk.client.read_resource(uri)).contents
    assert isinstance(part, TextResourceContents)
    return part.text


async def prompt_text(talk: Talk, name: str, **arguments: str) -> str:
    (message,) = (await talk.client.get_prompt(name, arguments)).messages
    assert isinstance(message.content, TextContent)
    assert message.role == "user"
    return message.content.text


@pytest.mark.parametrize("mode", ERAS)
def test_the_newest_are_listed_and_everything_listed_can_be_read(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        resources = (await talk.client.list_resources()).resources
        nouns = [str(each.uri).partition("//")[2].partition("/")[0] for each in resources]
        assert nouns == ["memory"] * 3 + ["session"] * 2
        assert resources[3].title == "another day"
        for each in resources:
            assert (await content(talk, str(each.uri))).startswith(
                "[ralph] Reference from earlier work"
            )
        patterns = [
            each.uri_template
            for each in (await talk.client.list_resource_templates()).resource_templates
        ]
        assert patterns == ["ralph://memory/{id}", "ralph://session/{id}"]

    talk(root, look, mode=mode)


def test_the_list_is_short_and_empty_while_capture_is_off(empty: Path) -> None:
    for number in range(LISTED + 5):
        memory.add(empty, f"Fact {number}")

    async def look(talk: Talk) -> int:
        return len((await talk.client.list_resources()).resources)

    assert talk(empty, look) == LISTED
    recorder.pause_capture(empty)
    assert talk(empty, look) == 0


def test_a_memory_is_read_whichever_file_it_stands_in(root: Path) -> None:
    rule = memory.add(root, "Never push to main", in_="guardrails").stored.record.id

    async def look(talk: Talk) -> None:
        assert "Never push to main" in await content(talk, f"ralph://memory/{rule}")
        assert "Goal: fix the login" in await content(talk, "ralph://session/3f2a-1")

    talk(root, look)


@pytest.mark.parametrize("mode", ERAS)
def test_an_address_that_leads_nowhere_is_an_error(root: Path, mode: str) -> None:
    nowhere = ("memory/nope", "session/nope", "memory/", "dream/1", "memory/..%2F..%2Fetc%2Fpasswd")

    async def look(talk: Talk) -> None:
        for uri in (*(f"ralph://{each}" for each in nowhere), "file:///etc/passwd"):
            with pytest.raises(MCPError) as caught:
                await talk.client.read_resource(uri)
            assert "root:" not in str(caught.value)

    talk(root, look, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_recall_brings_what_is_known_along_as_data(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        text = await prompt_text(talk, "recall", topic="docker")
        assert "[ralph] Reference from earlier work" in text
        assert "ECONNREFUSED" in text
        assert "Nothing found." in await prompt_text(talk, "recall", topic="zebra crossing")

    talk(root, look, mode=mode)


def test_remember_says_what_to_keep_and_needs_its_argument(root: Path) -> None:
    async def look(talk: Talk) -> None:
        text = await prompt_text(talk, "remember", what="우리는 pnpm 을 쓴다")
        assert "우리는 pnpm 을 쓴다" in text
        assert "memory_add" in text
        for name, arguments in (
            ("recall", {}),
            ("remember", {"what": " "}),
            ("forget", {"what": "x"}),
        ):
            with pytest.raises(MCPError):
                await talk.client.get_prompt(name, arguments)
        names = [each.name for each in (await talk.client.list_prompts()).prompts]
        assert names == ["recall", "remember"]

    talk(root, look)


def test_a_server_that_only_reads_does_not_offer_to_remember(root: Path) -> None:
    async def look(talk: Talk) -> None:
        assert [each.name for each in (await talk.client.list_prompts()).prompts] == ["recall"]
        with pytest.raises(MCPError):
            await talk.client.get_prompt("remember", {"what": "x"})

    talk(root, look, read_only=True)
