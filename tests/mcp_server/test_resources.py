"""Resources by their address, and the short list of them."""

from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import TextResourceContents
from tests.mcp_server.talking import ERAS, Talk, talk

from ralph.app import memory
from ralph.mcp.server import LISTED_MEMORIES as MEMORIES


async def content(talk: Talk, uri: str) -> str:
    (found,) = (await talk.client.read_resource(uri)).contents
    assert isinstance(found, TextResourceContents)
    return found.text


@pytest.mark.parametrize("mode", ERAS)
def test_the_newest_are_listed_and_everything_listed_can_be_read(root: Path, mode: str) -> None:
    async def look(talk: Talk) -> None:
        found = (await talk.client.list_resources()).resources
        nouns = [str(each.uri).partition("//")[2].partition("/")[0] for each in found]
        assert nouns == ["memory"] * 3 + ["session"] * 2
        assert found[3].title == "another day"
        for each in found:
            assert (await content(talk, str(each.uri))).startswith("[ralph] Reference from earlier work")
        patterns = [each.uri_template for each in (await talk.client.list_resource_templates()).resource_templates]
        assert patterns == ["ralph://memory/{id}", "ralph://session/{id}"]

    talk(root, look, mode=mode)


def test_the_list_is_short(empty: Path) -> None:
    for number in range(MEMORIES + 5):
        memory.add(empty, f"Fact {number}")

    async def look(talk: Talk) -> int:
        return len((await talk.client.list_resources()).resources)

    assert talk(empty, look) == MEMORIES


def test_a_memory_is_read_whichever_file_it_stands_in(root: Path) -> None:
    rule = memory.add(root, "Never push to main", in_="guardrails").stored.record.id

    async def look(talk: Talk) -> None:
        assert "Never push to main" in await content(talk, f"ralph://memory/{rule}")
        assert "Goal: fix the login" in await content(talk, "ralph://session/3f2a-1")

    talk(root, look)


@pytest.mark.parametrize(
    "uri", ["ralph://memory/nope", "ralph://session/nope", "ralph://memory/", "ralph://dream/1", "file:///etc/passwd",
            "ralph://memory/..%2F..%2Fetc%2Fpasswd"]
)  # fmt: skip
@pytest.mark.parametrize("mode", ERAS)
def test_an_address_that_leads_nowhere_is_told(root: Path, mode: str, uri: str) -> None:
    async def look(talk: Talk) -> None:
        with pytest.raises(MCPError) as caught:
            await talk.client.read_resource(uri)
        assert "root:" not in str(caught.value)

    talk(root, look, mode=mode)
