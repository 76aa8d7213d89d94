"""Hostile search queries over HTTP: an answer in JSON, an error in words at most, and the server goes on."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.asking import Site
from tests.support.hostile_queries import QUERIES
from tests.support.serving import served

PATHS = (
    "/api/records",
    "/api/tasks",
    "/api/sessions",
    "/api/runs",
    "/api/tags",
    "/api/graph",
    "/api/insights",
)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_is_words_and_nothing_else(shop: Site, query: str) -> None:
    for path in PATHS:
        answer = shop.client.get(path, params={"q": query[:50_000], "limit": "5"})
        assert answer.status_code in (200, 400), answer.text[:500]
        assert answer.headers["content-type"] == "application/json"
        assert isinstance(answer.json(), dict)
    status, said = shop.posted("/api/context", prompt=query)
    assert status == 200, said
    assert shop.get("/api/records", q="refund")["total"] > 0, "the index still answers"


def test_an_address_that_is_too_long_for_a_head_is_refused_and_the_next_one_answered(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as server:
        cookie = server.cookie()
        head = f"Host: {server.host}\r\nCookie: {cookie}\r\n\r\n"
        for query in ("x" * 100_000, quote("\0" * 50_000)):
            with suppress(ConnectionResetError):  # it closes while we still send
                assert server.raw(f"GET /api/records?q={query} HTTP/1.1\r\n{head}".encode())[0] in (
                    0,
                    400,
                )
        with server.listen("/api/records?q=%00%ff%fe", cookie) as answer:
            assert answer.status == 200
