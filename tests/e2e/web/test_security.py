"""Nobody but the window that was opened gets in, and nothing that is remembered runs.

The guard's rules are proven at the level of HTTP in `tests/web/test_guard.py`; here a real browser tries them as an
attacker's page would make it, with the person's own cookie, since a page on another port of this machine is of the
same site and does send it. Then hostile words in every place are shown on every page: all as text.
"""

import contextlib
import hashlib
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Dialog, Error, Page, Request, expect
from tests.e2e.web import hostile
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, Site, keep
from tests.e2e.web.hostile import Planted

pytestmark = pytest.mark.e2e

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return hostile.plant(tmp_path_factory.mktemp("project") / "shop")


@pytest.fixture(scope="module")
def project(planted: Planted) -> Path:
    """The project of the site in this file is the hostile one."""
    return planted.shop.root


def fingerprint(root: Path) -> str:
    """Of all that people care for in a project."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "cache" not in path.parts and not path.name.startswith("ralph.db"):
            found.update(str(path.relative_to(root)).encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def asked(site: Site, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    """What is answered to a path as it is, which no browser would send so."""
    there = http.client.HTTPConnection(site.origin.removeprefix("http://"), timeout=60)
    with contextlib.closing(there):
        there.putrequest("GET", path, skip_accept_encoding=True)
        for name, value in headers.items():
            there.putheader(name, value)
        there.endheaders()
        answer = there.getresponse()
        return answer.status, answer.headers, answer.read()


# --- who may come in ----------------------------------------------------------------------------


def test_the_printed_address_opens_one_window_and_no_second_one(
    browser: Browser, tmp_path: Path
) -> None:
    with Site(tmp_path, tmp_path / "home") as site:
        first, second = (Reader(browser, site, signed_in=False) for _ in range(2))
        page = first.open(site.address)
        expect(page).to_have_url(f"{site.origin}/")
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.locator("main h1").wait_for()

        second.excused.append("status of 403")
        answer = second.page.goto(site.address)
        assert answer is not None
        assert answer.status == 403
        expect(second.page.locator("body")).to_contain_text("Link expired")
        expect(second.page.locator("body")).to_contain_text("run `ralph web --link`")
        assert second.context.cookies() == []

        page.reload()
        page.locator("main h1").wait_for()
        assert first.troubles == []
        assert second.troubles == []
        first.close()
        second.close()


def test_neither_pages_nor_the_api_answer_without_the_cookie(
    browser: Browser, site: Site, planted: Planted
) -> None:
    window = Reader(browser, site, signed_in=False)
    window.excused.append("status of 40")
    for path in ("/", "/memory", "/?token=wrong", "/?token="):
        answer = window.page.goto(site.origin + path)
        assert answer is not None
        assert answer.status == 403
        expect(window.page.locator("h1")).to_have_text("Access denied")
        assert "ralph web" in window.page.inner_text("body")
    window.page.goto(site.origin + "/static/icon.svg")
    said = window.page.evaluate(
        """async (paths) => Promise.all(paths.map(async (path) => {
          const answer = await fetch(path);
          return [answer.status, await answer.text()];
        }))""",
        [
            "/api/state",
            "/api/records",
            f"/api/records/{planted.memory}",
            "/api/events",
            "/api/nothing",
        ],
    )
    assert [status for status, _ in said] == [401] * len(said)
    assert all("error" in text and "hacked" not in text for _, text in said)
    assert window.troubles == []
    window.close()


def test_another_name_for_this_machine_is_refused(browser: Browser, site: Site) -> None:
    port = site.origin.rpartition(":")[2]
    name, value = site.cookie
    window = Reader(browser, site, signed_in=False)
    window.context.add_cookies(
        [{"name": name, "value": value, "url": f"http://rebound.localhost:{port}"}]
    )
    answer = window.page.goto(f"http://rebound.localhost:{port}/")
    assert answer is not None
    assert answer.status == 403
    expect(window.page.locator("body")).to_contain_text(
        "This address is not the one that was opened"
    )
    assert window.page.evaluate("fetch('/api/state').then((answer) => answer.status)") == 403
    window.close()


# --- somebody else's page -----------------------------------------------------------------------

_ATTACK = """<!doctype html><title>elsewhere</title><h1>Elsewhere</h1>
<form id="form" method="post" enctype="text/plain" target="sink" action="{target}/api/changes/apply">
<input name='{{"action":"add","text":"planted","stamps":{{}},"x":"' value='"}}'></form>
<iframe name="sink"></iframe><iframe id="framed" src="{target}/memory"></iframe>"""

_TRY = """async ([target, body]) => {
  const post = (how) => fetch(`${target}/api/changes/apply`, {method: "POST", credentials: "include", body, ...how})
    .then((answer) => `${answer.type} ${answer.status}`, () => "refused by the browser");
  const json = {"Content-Type": "application/json"};
  const said = [
    await post({headers: json}),
    await post({mode: "no-cors"}),
    await post({mode: "no-cors", headers: {"Content-Type": "text/plain"}}),
    await fetch(`${target}/api/state`, {credentials: "include"}).then((a) => a.text(), () => "refused by the browser"),
  ];
  navigator.sendBeacon(`${target}/api/changes/apply`, new Blob([body], {type: "text/plain"}));
  document.getElementById("form").submit();
  return said;
}"""


@contextlib.contextmanager
def elsewhere(target: str) -> Iterator[str]:
    """The origin of somebody else's page on this machine."""

    class Attack(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = _ATTACK.format(target=target).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Attack) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


_OWN = """([path, body]) => fetch(path, {
  method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)
}).then((answer) => answer.json())"""


def test_a_page_on_another_port_changes_and_learns_nothing_with_the_persons_cookie(
    browser: Browser, site: Site, project: Path, reader: OpenReader
) -> None:
    own = reader().go("/memory")
    wish = {"action": "add", "text": "Planted by somebody else's page"}
    files = own.evaluate(_OWN, ["/api/changes/plan", wish])["files"]
    body = {**wish, "stamps": {each["name"]: each["before"] for each in files}}
    before = fingerprint(project)

    window = Reader(browser, site)
    answers: list[int] = []
    sent: list[Request] = []
    window.page.on(
        "response", lambda answer: answers.append(answer.status) if "/api/" in answer.url else None
    )
    window.page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  (Playwright marks the function)
    with elsewhere(site.origin) as origin:
        window.page.goto(origin)
        with window.page.expect_response(lambda answer: answer.request.is_navigation_request()):
            said = window.page.evaluate(_TRY, [site.origin, json.dumps(body)])
    assert said == ["refused by the browser"] * 4
    assert set(answers) == {403}
    cookies = [each.all_headers().get("cookie", "") for each in sent if each.method == "POST"]
    assert "=".join(site.cookie) in cookies, (
        "the browser sends the cookie here, so it must be the guard that refuses"
    )
    framed = window.page.frame(url=f"{site.origin}/memory")
    assert framed is None or framed.locator("main").count() == 0
    window.close()
    assert fingerprint(project) == before

    done = own.evaluate(_OWN, ["/api/changes/apply", body])
    assert done["summary"].startswith("Added"), (
        "the very same request from our own page is a good one"
    )
    own.evaluate(_OWN, ["/api/changes/undo", {"undo": done["undo"]}])
    assert fingerprint(project) == before


# --- paths --------------------------------------------------------------------------------------

_PATHS = (
    "/static/../site.py", "/static/../../../../../../../etc/passwd", "/static/%2e%2e/site.py", "/static/..%2fsite.py",
    "/static/..%5csite.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/./app.js",
    "/static/app.js%00.html", "/static/style/../../guard.py", "/static/", "/static/parts", "/static/..;/site.py",
    "/static/%c0%ae%c0%ae/site.py",
)  # fmt: skip
_ODD = (
    "/api/records/..%2f..%2f..%2fetc%2fpasswd", "/api/runs/..%2f..%2f..%2fralph.yml", "/api/sessions/..%2f..%2fralph",
    "/api/tasks/..%2f..%2f..%2fetc", "/api/records//etc/passwd", "/api/runs/%2e%2e/prompts/1", "/api/tasks/%00",
    "/api/sessions/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "/api/records/..%2f..%2fralph.yml/history",
)  # fmt: skip


def test_no_path_leads_out_of_the_pages_own_files(site: Site) -> None:
    for path in _PATHS:
        status, headers, body = asked(site, path, Cookie="=".join(site.cookie))
        assert status == 404, path
        assert headers["content-security-policy"] == POLICY, path
        assert b"root:" not in body, path
        assert b"import" not in body, path


def test_no_id_becomes_a_path(site: Site) -> None:
    for path in _ODD:
        status, _, body = asked(site, path, Cookie="=".join(site.cookie))
        assert status in (400, 404), path
        assert b"error" in body, path
        assert b"root:" not in body, path
        assert b"budget" not in body, path


def test_an_odd_address_is_a_page_that_says_so(reader: OpenReader) -> None:
    window = reader()
    window.excused.append("status of 404")
    page = window.go("/memory/..%2F..%2Fetc%2Fpasswd")
    expect(page.get_by_role("heading", level=1)).to_have_text("Memory not found")
    page = window.go("/%3Cscript%3Ewindow.hacked=1%3C/script%3E")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    assert hostile.broken(page) == []


# --- hostile words ------------------------------------------------------------------------------


@pytest.fixture
def window(reader: OpenReader) -> Iterator[Reader]:
    """A window in which no dialog may open."""
    opened = reader()
    said: list[str] = []

    def heard(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    opened.page.on("dialog", heard)
    yield opened
    opened.page.remove_listener("dialog", heard)
    assert said == []


def shown(page: Page, *words: str) -> None:
    """The page shows these words as they are, and nothing of it ran."""
    for each in words:
        expect(page.locator("main").get_by_text(each).filter(visible=True).first).to_be_visible()
    assert hostile.broken(page) == []


def test_a_hostile_memory_is_text_in_the_list_with_its_tags_and_layers(window: Reader) -> None:
    page = window.go("/memory?q=hostile+title")
    shown(page, hostile.SCRIPT)
    page.get_by_role("button", name="More of: A title").first.click()
    page.get_by_role("tab", name="Full").wait_for()
    for tab in ("Short", "Around", "Full"):
        page.get_by_role("tab", name=tab).click()
        shown(page, hostile.IMAGE)
    expect(page.get_by_role("group", name="Tag")).to_contain_text(hostile.TAG)
    page.get_by_role("group", name="Tag").get_by_text(hostile.TAG).click()
    expect(page.get_by_role("list", name="Filters")).to_contain_text(hostile.TAG)
    shown(page, hostile.SCRIPT)
    keep(page, "hostile-list")


@pytest.mark.parametrize("which", ["memory", "guardrail", "page"])
def test_a_hostile_record_is_text_on_its_own_page(
    window: Reader, planted: Planted, which: str
) -> None:
    page = window.go(f"/memory/{getattr(planted, which)}")
    shown(page, hostile.SCRIPT, hostile.IMAGE)
    prose = page.locator(".prose").first
    expect(prose).to_contain_text("javascript:window.hacked=3")
    expect(prose).to_contain_text("data:text/html")
    expect(prose.get_by_role("link", name="fine", exact=True)).to_have_attribute(
        "href", "https://example.com/fine"
    )
    assert prose.locator("img, svg, form, iframe, style").count() == 0
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    expect(page.get_by_role("link", name=hostile.TAG).first).to_be_visible()
    page.get_by_role("button", name="Show git history").click()
    expect(page.locator(".commits, .card p.quiet").last).to_be_visible()
    assert hostile.broken(page) == []
    keep(page, f"hostile-{which}")


def test_hostile_words_are_text_in_the_form_the_diff_and_the_message(
    window: Reader, planted: Planted
) -> None:
    page = window.go(f"/memory/{planted.memory}")
    page.get_by_role("button", name="Edit").click()
    text = page.get_by_role("dialog").get_by_label("Text")
    text.fill(f"Changed {hostile.SCRIPT}\n{hostile.IMAGE}")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".diff-plus").first).to_contain_text(hostile.SCRIPT)
    assert hostile.broken(page) == []
    page.get_by_role("button", name="Save").click()
    page.get_by_role("status").get_by_role("button", name="Undo").click()
    expect(page.locator(".toasts")).to_contain_text("Undone")
    expect(page.locator(".prose").first).to_contain_text("javascript:window.hacked=3")
    assert hostile.broken(page) == []


def test_a_hostile_task_is_text(window: Reader, planted: Planted) -> None:
    shown(window.go("/tasks"), hostile.SCRIPT)
    page = window.go(f"/tasks/{planted.task}")
    shown(page, hostile.SCRIPT)
    expect(page).to_have_title(f"{hostile.TITLE} · Ralph")
    shown(window.go("/"), hostile.SCRIPT)


def test_a_hostile_session_is_text(window: Reader, planted: Planted) -> None:
    page = window.go("/sessions")
    expect(page.locator("main")).to_contain_text("Hostile prompt")
    assert hostile.broken(page) == []
    page = window.go(f"/sessions/{planted.session}")
    shown(page, hostile.SCRIPT)
    for opens in page.locator("main details > summary").all():
        if not opens.evaluate("summary => summary.parentElement.open"):
            opens.click()
    shown(page, hostile.SCRIPT, hostile.IMAGE)
    keep(page, "hostile-session")


def test_hostile_labels_are_text_in_the_graph(window: Reader, planted: Planted) -> None:
    page = window.go(f"/memory/{planted.memory}")
    page.get_by_role("link", name="Show in the graph").click()
    expect(page.get_by_role("heading", name="Graph", level=1)).to_be_visible()
    shown(page, hostile.IMAGE, hostile.FILE, hostile.TAG)
    keep(page, "hostile-graph")
    for tab in ("Nodes", "Edges"):
        page.get_by_role("tab", name=tab).click()
        shown(page, hostile.TAG)


def test_hostile_words_are_text_in_the_preview_of_a_context(window: Reader) -> None:
    page = window.go("/context")
    page.get_by_role("textbox").first.fill(f"hostile title {hostile.SCRIPT} {hostile.IMAGE}")
    expect(page.locator("main")).to_contain_text("A title")
    expect(page.locator("main pre, main details, main li").first).to_be_attached()
    shown(page, "window.hacked")


_QUERIES = (
    hostile.SCRIPT,
    hostile.IMAGE,
    hostile.DRAWING,
    hostile.TAG,
    "javascript:window.hacked=1",
    "{{hacked}}",
)


def test_a_hostile_search_is_text_on_every_page_that_searches(window: Reader) -> None:
    for path in ("/memory", "/tasks", "/sessions", "/runs", "/review", "/graph"):
        page = window.go(f"{path}?{urlencode({'q': chr(34) + chr(39) + '>' + ''.join(_QUERIES)})}")
        assert hostile.broken(page) == [], path
    page = window.go("/memory")
    field = page.get_by_role("searchbox").first
    for query in _QUERIES:
        field.fill(query)
        field.press("Enter")
        expect(field).to_have_value(query)
        assert hostile.broken(page) == [], query


def test_no_request_says_where_it_comes_from(browser: Browser, tmp_path: Path) -> None:
    heard: list[str | None] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/left":  # and not the icon of that page
                heard.append(self.headers["referer"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with (
        Site(tmp_path, tmp_path / "home") as site,
        ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as other,
    ):
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        window = Reader(browser, site, signed_in=False)
        sent: list[Request] = []
        window.page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  (Playwright marks the function)
        try:
            page = window.open(site.address)
            assert "token" not in page.url
            assert page.evaluate("document.referrer") == ""
            page.evaluate(
                """address => { const link = document.createElement("a");
                link.href = address; document.body.append(link); link.click(); }""",
                f"http://127.0.0.1:{other.server_port}/left",
            )
            page.wait_for_url(f"http://127.0.0.1:{other.server_port}/left")
            assert page.evaluate("document.referrer") == ""
        finally:
            other.shutdown()
            thread.join()
        own = [each for each in sent if each.url.startswith(site.origin)]
        assert len(own) > 2, "the page and its parts were loaded"
        assert [each.url for each in sent if each.all_headers().get("referer")] == []
        window.close()
    assert heard == [None]


def test_the_policy_stands_on_every_answer_and_stops_what_would_get_through(
    window: Reader, site: Site
) -> None:
    for path in ("/", "/memory", "/static/app.js", "/static/nothing", "/api/state", "/api/nothing"):
        headers = asked(site, path, Cookie="=".join(site.cookie))[1]
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
    page = window.go("/memory")
    window.excused.append("Content Security Policy")
    window.excused.append("blocked:csp")
    page.evaluate(
        """() => new Promise((seen) => {
          document.addEventListener("securitypolicyviolation", () => seen());
          const one = document.createElement("div");
          one.innerHTML = `<img src="data:," onerror="window.hacked = 1">`;
          document.body.append(one);
        })"""
    )
    with pytest.raises(Error):
        page.evaluate("fetch('https://tracker.example/')")
    assert page.evaluate("window.hacked") is None
