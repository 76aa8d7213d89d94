"""The pages' files, the shell, errors and the config: what every part of the site relies on."""

import asyncio
import gzip
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.support.asking import PORT, Site

from ralph.cli.servers import bind_socket
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, Unreadable, UsageError
from ralph.search.idle_embedding import IdleEmbedding
from ralph.web import requests
from ralph.web.requests import ApiRequest, route


@pytest.fixture
def window(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    "path", ["/", "/memory", "/memory/mem-1-a", "/sessions/x/y", "/runs?a=1&b=2", "/no/such/page"]
)
def test_every_page_is_the_shell(window: Site, path: str) -> None:
    answer = window.client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text == window.client.get("/static/index.html").text


@pytest.mark.parametrize(("name", "kind"), [
    ("app.js", "text/javascript; charset=utf-8"), ("style/base.css", "text/css; charset=utf-8"), ("icon.svg",
    "image/svg+xml"),
    ("index.html", "text/html; charset=utf-8"), ("vendor/versions.json", "application/json"),
])  # fmt: skip
def test_a_file_comes_with_its_type(window: Site, name: str, kind: str) -> None:
    answer = window.client.get(f"/static/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind


def test_a_browser_that_has_a_file_is_not_sent_it_again(window: Site) -> None:
    first = window.client.get("/static/app.js")
    tag = first.headers["etag"]
    again = window.client.get("/static/app.js", headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = window.client.get("/static/app.js", headers={"If-None-Match": '"other"'})
    assert other.status_code == 200


def test_long_answers_are_compressed(window: Site) -> None:
    with window.client.stream(
        "GET", "/static/app.js", headers={"Accept-Encoding": "gzip"}
    ) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        raw = b"".join(answer.iter_raw())
    assert (
        gzip.decompress(raw)
        == window.client.get("/static/app.js", headers={"Accept-Encoding": "identity"}).content
    )


def test_an_address_of_the_api_that_is_none_says_so(window: Site) -> None:
    assert window.refusal("/api/nothing") == (404, "There is nothing at /api/nothing.")


def made(root: Path, handler: requests.Handler) -> TestClient:
    app = Starlette(routes=[route("/x/{name}", handler)])
    app.state.root = root
    app.state.idle = IdleEmbedding()
    return TestClient(app)


def test_an_answer_that_takes_its_time_holds_up_nobody(tmp_path: Path) -> None:
    def handler(asked: ApiRequest, /) -> object:
        with pytest.raises(RuntimeError, match="no running event loop"):  # it is another thread's
            asyncio.get_running_loop()
        return {"done": True}

    assert made(tmp_path, handler).get("/x/y").json() == {"done": True}


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError("a", hint="b"), 400), (NotFound("a", hint="b"), 404), (Conflict("a", hint="b"), 409),
    (Refused("a", hint="b"), 400),
     (Unreadable("a", hint="b"), 422), (RalphError("a", hint="b"), 500)],
)  # fmt: skip
def test_an_error_says_what_the_command_would_say(
    tmp_path: Path, error: RalphError, status: int
) -> None:
    def handler(asked: ApiRequest, /) -> object:
        raise error

    answer = made(tmp_path, handler).get("/x/y")
    assert (answer.status_code, answer.json()) == (status, {"error": {"message": "a", "hint": "b"}})


def test_an_unknown_error_is_reported_as_a_bug(tmp_path: Path) -> None:
    def bug(asked: ApiRequest, /) -> object:
        raise ZeroDivisionError("by zero")

    def full(asked: ApiRequest, /) -> object:
        raise OSError(28, "No space left on device", "a.txt")

    answer = made(tmp_path, bug).get("/x/y")
    assert answer.status_code == 500
    assert "this is a bug in ralph" in answer.json()["error"]["message"]
    assert (
        made(tmp_path, full).get("/x/y").json()["error"]["message"]
        == "a.txt: No space left on device"
    )


def test_a_list_is_given_in_pages(tmp_path: Path) -> None:
    def handler(asked: ApiRequest, /) -> object:
        return {
            "items": list(range(1000))[asked.offset : asked.offset + asked.limit],
            "total": 1000,
        }

    client = made(tmp_path, handler)
    assert client.get("/x/y").json() == {"items": list(range(100)), "total": 1000}
    assert client.get("/x/y", params={"limit": 3, "offset": 998}).json()["items"] == [998, 999]
    assert (
        len(client.get("/x/y", params={"limit": 10**6}).json()["items"]) == requests.MAX_PAGE_SIZE
    )
    for wrong in ("-1", "x", "1e3", "٣", "9" * 40):
        assert client.get("/x/y", params={"limit": wrong}).status_code == 400


def test_what_utf8_cannot_hold_does_not_stop_an_answer(tmp_path: Path) -> None:
    assert made(tmp_path, lambda asked: {"a": "x\udc80y한"}).get("/x/y").json() == {"a": "x?y한"}


def test_the_config_is_read_again_when_it_changes(tmp_path: Path) -> None:
    client = made(tmp_path, lambda asked: asked.config.memories.budget)
    usual = client.get("/x/y").json()
    (tmp_path / "ralph.yml").write_text("memories:\n  budget: 123\n", encoding="utf-8")
    assert client.get("/x/y").json() == 123
    (tmp_path / "ralph.yml").write_text("memories:\n  budget: nothing\n", encoding="utf-8")
    wrong = client.get("/x/y")
    assert wrong.status_code == 400
    assert "ralph.yml:2" in wrong.json()["error"]["message"]
    (tmp_path / "ralph.yml").unlink()
    assert client.get("/x/y").json() == usual


def test_used_port_is_an_error() -> None:
    with bind_socket(0) as taken, pytest.raises(Conflict, match="cannot be used"):
        bind_socket(taken.getsockname()[1])


def test_an_empty_folder_has_pages_too(tmp_path: Path) -> None:
    window = Site(tmp_path)
    state = window.get("/api/state")
    assert (state["record_count"], state["task_count"], state["paused"]) == (0, 0, False)
    assert window.get("/api/records")["items"] == []
    assert window.get("/api/insights") == {"items": [], "total": 0}
    assert window.get("/api/tags") == {"items": []}
    assert window.refusal("/api/records/mem-1")[0] == 404
    assert PORT
