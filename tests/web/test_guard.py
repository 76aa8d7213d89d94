"""Nobody comes in but the window that was opened: tried at the level of HTTP, with the ways around it."""

import hmac
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.support.serving import TOKEN, Served, served

from ralph.web import access as guard
from ralph.web import requests
from ralph.web import server as site

PORT = 8123
HERE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    """A browser that has not been let in yet."""
    return TestClient(site.build_app(tmp_path, port=PORT, token=TOKEN), base_url=HERE)


@pytest.fixture
def inside(client: TestClient) -> TestClient:
    """A browser that was let in."""
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    return client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A real server."""
    with served(tmp_path) as found:
        yield found


# --- who comes in ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/memory", "/memory/mem-1", "/anything", "/?token=", "/?token=wrong"]
)
def test_a_page_without_the_cookie_is_rejected_with_advice(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 403
    assert "ralph web" in answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/api/state", "/api/records", "/api/events", "/api/nothing", f"/api/state?token={TOKEN}"],
)
def test_the_api_without_the_cookie_is_refused_with_a_sentence(
    client: TestClient, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    assert "ralph web" in answer.json()["error"]["hint"]


def test_the_token_opens_the_pages_once(client: TestClient, tmp_path: Path) -> None:
    first = client.get("/", params={"token": TOKEN})
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert re.fullmatch(rf"ralph_{PORT}=[\w-]{{40,}}; HttpOnly; SameSite=Strict; Path=/", cookie)
    assert TOKEN not in cookie
    assert first.headers["cache-control"] == "no-store"
    client.cookies.clear()
    again = client.get("/", params={"token": TOKEN})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


def test_only_the_key_signs_a_further_token(tmp_path: Path) -> None:
    client = TestClient(
        site.build_app(tmp_path, port=PORT, token=TOKEN, key="the-key"), base_url=HERE
    )
    for signed in (
        "x",
        "x.",
        "x." + hmac.digest(b"", b"x", "sha256").hex(),
        "." + hmac.digest(b"k", b"", "sha256").hex(),
    ):
        assert client.get("/", params={"token": signed}).status_code == 403
    signed = "x." + hmac.digest(b"the-key", b"x", "sha256").hex()
    assert client.get("/api/state", params={"token": signed}).status_code == 401
    assert client.get("/", params={"token": signed}).status_code == 200
    client.cookies.clear()
    assert client.get("/", params={"token": signed}).status_code == 403


def test_an_open_window_can_reload_the_address_with_the_token(inside: TestClient) -> None:
    assert inside.get("/", params={"token": TOKEN}).status_code == 200
    assert inside.get("/api/state").status_code == 200


def test_a_wrong_token_does_not_use_up_the_right_one(client: TestClient) -> None:
    for wrong in ("x", TOKEN + "x", TOKEN[:-1], TOKEN.upper(), "é"):
        assert client.get("/", params={"token": wrong}).status_code == 403
    assert client.get("/", params={"token": TOKEN}).status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_only_a_get_of_the_first_page_takes_the_token(client: TestClient, method: str) -> None:
    refused = client.request(method, "/", params={"token": TOKEN}, headers={"Origin": HERE})
    assert refused.status_code == 403
    assert client.get("/memory", params={"token": TOKEN}).status_code == 403
    assert client.get("/", params={"token": TOKEN}).status_code == 200


@pytest.mark.parametrize(
    "cookie",
    ["ralph_8123=", "ralph_8123=wrong", "ralph_9=x", "=;=", "ralph_8123", "é=ü", ";" * 500],
)
def test_another_cookie_is_none(client: TestClient, cookie: str) -> None:
    assert client.get("/api/state", headers={b"Cookie": cookie.encode()}).status_code == 401


def test_the_cookie_of_another_server_does_not_open_this_one(
    tmp_path: Path, inside: TestClient
) -> None:
    other = TestClient(
        site.build_app(tmp_path, port=PORT, token="other"),
        base_url=HERE,
        cookies=dict(inside.cookies),
    )
    assert other.get("/api/state").status_code == 401


# --- where it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"127.0.0.1:{PORT}0",
        "localhost",
        f"LOCALHOST:{PORT}", f"localhost.:{PORT}", f"127.0.0.1.:{PORT}", f"127.0.0.1:{PORT}@evil.example",
        f"evil.example/127.0.0.1:{PORT}", f"127.0.0.1:{PORT}.evil.example", f"[::1]:{PORT}", f"0.0.0.0:{PORT}",
        f"127.1:{PORT}", f"2130706433:{PORT}", f"127.0.0.1:{PORT} ", f"127.0.0.1:0{PORT}", "",
        f"127.0.0.1:{PORT}, evil",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/state", "/", "/static/app.js", f"/?token={TOKEN}"])
def test_another_host_is_refused_everywhere(inside: TestClient, host: str, path: str) -> None:
    answer = inside.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_both_names_of_this_machine_are_good(inside: TestClient) -> None:
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        assert inside.get("/api/state", headers={"Host": host}).status_code == 200


def test_a_request_with_two_hosts_or_none_is_refused(server: Served) -> None:
    cookie = server.cookie().encode()
    for hosts in (b"", f"Host: {server.host}\r\nHost: evil.example\r\n".encode(), b"Host: \r\n"):
        status, _ = server.raw(
            b"GET /api/state HTTP/1.1\r\n"
            + hosts
            + b"Cookie: "
            + cookie
            + b"\r\nConnection: close\r\n\r\n"
        )
        assert status in (400, 403)


def test_an_absolute_address_does_not_replace_the_host_header(server: Served) -> None:
    cookie = server.cookie().encode()
    asked = f"GET http://{server.host}/api/state HTTP/1.1\r\nHost: evil.example\r\n".encode()
    status, _ = server.raw(asked + b"Cookie: " + cookie + b"\r\nConnection: close\r\n\r\n")
    assert status == 403


# --- whose page it is from ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        None, "null", "", "http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1",
        f"http://localhost:{PORT}",
        f"{HERE}.evil.example", f"{HERE}/", "http://127.0.0.1:3000", HERE.upper(),
    ],
)  # fmt: skip
def test_a_post_from_anywhere_but_our_own_page_is_refused(
    inside: TestClient, origin: str | None
) -> None:
    headers = {} if origin is None else {"Origin": origin}
    answer = inside.post("/api/changes/plan", json={"action": "add", "text": "x"}, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"]


def test_a_post_to_localhost_must_come_from_localhost(inside: TestClient) -> None:
    local = f"localhost:{PORT}"
    asked = {"action": "add", "text": "A thing to know"}
    ours = {"Host": local, "Origin": f"http://{local}"}
    assert inside.post("/api/changes/plan", json=asked, headers=ours).status_code == 200
    assert (
        inside.post(
            "/api/changes/plan", json=asked, headers={"Host": local, "Origin": HERE}
        ).status_code
        == 403
    )


@pytest.mark.parametrize("headers", [
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:3000"},
])  # fmt: skip
def test_the_api_tells_nothing_to_other_pages(inside: TestClient, headers: dict[str, str]) -> None:
    assert inside.get("/api/state", headers=headers).status_code == 403


@pytest.mark.parametrize("site_of", ["same-origin", "none"])
def test_the_api_answers_our_own_page(inside: TestClient, site_of: str) -> None:
    assert (
        inside.get("/api/state", headers={"Sec-Fetch-Site": site_of, "Origin": HERE}).status_code
        == 200
    )


def test_nobody_is_told_that_they_may_ask_from_elsewhere(inside: TestClient) -> None:
    answer = inside.options(
        "/api/state",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert answer.status_code == 405
    assert not any(name.startswith("access-control") for name in answer.headers)


# --- what is sent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonx",
    ],
)
def test_a_post_that_a_form_could_send_is_refused(inside: TestClient, kind: str) -> None:
    headers = {"Origin": HERE, "Content-Type": kind}
    assert (
        inside.post("/api/changes/plan", content=b'{"action": "add"}', headers=headers).status_code
        == 415
    )


def test_a_body_is_at_most_one_mebibyte(inside: TestClient) -> None:
    def status(size: int) -> int:
        body = b'{"action": "' + b"x" * (size - 14) + b'"}'
        assert len(body) == size
        headers = {"Origin": HERE, "Content-Type": "application/json; charset=utf-8"}
        return inside.post("/api/changes/plan", content=body, headers=headers).status_code

    assert status(requests.MAX_BODY) == 400  # no such action: it was read
    assert status(requests.MAX_BODY + 1) == 413


def test_a_chunked_body_is_limited_too(server: Served) -> None:
    head = (
        f"POST /api/changes/plan HTTP/1.1\r\nHost: {server.host}\r\nOrigin: http://{server.host}\r\n"
        f"Cookie: {server.cookie()}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert server.raw(head + chunk * 17 + b"0\r\n\r\n")[0] == 413


@pytest.mark.parametrize(
    "body", [b"", b"nothing", b"[]", b'"x"', b"1", b"{", b"\xff", b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_refused_with_a_sentence(
    inside: TestClient, body: bytes
) -> None:
    headers = {"Origin": HERE, "Content-Type": "application/json"}
    answer = inside.post("/api/changes/plan", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X<script>"]
)
@pytest.mark.parametrize("path", ["/", "/api/records", "/static/app.js"])
def test_other_methods_do_nothing(inside: TestClient, method: str, path: str) -> None:
    answer = inside.request(method, path, headers={"Origin": HERE})
    assert answer.status_code == 405
    assert "<script>" not in answer.text


def test_a_head_gets_what_a_get_gets_without_the_body(inside: TestClient) -> None:
    answer = inside.head("/memory")
    assert (answer.status_code, answer.content) == (200, b"")
    assert inside.head("/api/state").status_code == 200
    inside.cookies.clear()
    assert inside.head("/memory").status_code == 403
    assert inside.head("/api/state").status_code == 401


# --- what every answer says --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/api/state", "/api/nothing", "/static/app.js", "/static/nothing.js", "/memory/x"]
)
@pytest.mark.parametrize("known", [True, False])
def test_every_answer_tells_the_browser_to_be_careful(
    client: TestClient, path: str, known: bool
) -> None:
    if known:
        client.get("/", params={"token": TOKEN})
    answer = client.get(path)
    for name, value in guard.HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    assert "unsafe" not in answer.headers["content-security-policy"]
    fresh = answer.status_code == 200 and "/api" not in path
    assert answer.headers["cache-control"] == ("no-cache" if fresh else "no-store")
    assert "server" not in answer.headers


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py", "/static/../../../../../../etc/passwd", "/static/%2e%2e/guard.py",
        "/static/..%2fguard.py",
        "/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/static//etc/passwd", "/static/%2fetc%2fpasswd",
        "/static/app.js%00",
        "/static/app.js%00.css", "/static/%00", "/static/", "/static", "/static/parts", "/static/parts/", "/static/.",
        "/static/./app.js", "/static/parts/../app.js", "/static/..\\guard.py", "/static/%5c..%5cguard.py",
        "/static/APP.JS",
        "/static/app.js/", "/static/app.js/x", "/static/%c0%ae%c0%ae/guard.py", "/static/__init__.py", "/static/~root",
        "/static/file:///etc/passwd", "/static/C:/x.js", "/static/" + "a/" * 2000 + "x.js",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_pages_files(server: Served, path: str) -> None:
    status, said = server.raw(
        f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert status in (400, 404, 403)
    assert b"root:" not in said
    assert b"class _Guard" not in said


def test_the_pages_files_need_no_cookie_but_the_right_host(client: TestClient) -> None:
    assert client.get("/static/app.js").status_code == 200
    assert client.get("/static/app.js", headers={"Host": "evil.example"}).status_code == 403


def test_a_websocket_is_not_spoken(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/events"):
        pass
