"""The sample shop as the pages' tests ask for it: ids by what a person would call things, and the API's own word.

`Shop` asks the running site over HTTP with the cookie of its windows, so that a test can hold what a page shows
against what the server says. `loaded` waits until nothing of a page is still on its way, `painted` until what was just
done has been drawn.
"""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, expect
from tests.e2e.web.explorer import LONGEST, Reader, Site

from ralph.core import paths

LOADING = ".loading, .skeleton"
expect.set_options(timeout=LONGEST * 1000 / 3)  # as patient as the windows are


class Shop:
    """What the server says about the sample."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def get(self, path: str, **params: str) -> Any:
        """What a path answers."""
        return self._asked("GET", f"{path}?{urlencode(params)}" if params else path)

    def post(self, path: str, **body: object) -> Any:
        """What a path answers to a body."""
        return self._asked("POST", path, json.dumps(body).encode())

    def task(self, title: str) -> str:
        """The id of a task."""
        return self._one("/api/tasks", "title", title)

    def run(self, goal: str) -> str:
        """The id of a run."""
        return self._one("/api/runs", "goal", goal)

    def session(self, beginning: str) -> str:
        """The id of a session, by how its title begins."""
        return self._one("/api/sessions", "title", beginning)

    def memory(self, beginning: str) -> str:
        """The id of a memory, by how its text begins."""
        return self._one("/api/records", "text", beginning, family="memory", limit="500")

    def _one(self, path: str, field: str, beginning: str, **params: str) -> str:
        held = self.get(path, **params)["items"]
        found = [str(each["id"]) for each in held if str(each[field]).startswith(beginning)]
        assert found, f"the sample has no {beginning!r} in {path}"
        return found[0]

    def _asked(self, method: str, path: str, body: bytes | None = None) -> Any:
        there = http.client.HTTPConnection(
            self.site.origin.removeprefix("http://"), timeout=LONGEST
        )
        name, value = self.site.cookie
        headers = {
            "Cookie": f"{name}={value}",
            "Origin": self.site.origin,
            "Content-Type": "application/json",
        }
        try:
            there.request(method, path, body, headers)
            answer = there.getresponse()
            text = answer.read().decode("utf-8")
        finally:
            there.close()
        assert answer.status == 200, text
        return json.loads(text)


def loaded(reader: Reader, path: str) -> Page:
    """One of the pages, when all of it is there; a picture of the graph, when it has come to rest."""
    page = reader.go(path)
    expect(page.locator(LOADING)).to_have_count(0)
    if page.locator(".force").count():
        page.locator(".force[data-settled=true]").wait_for()
    return page


REASONS = {
    "text": "mentions “{}”",
    "title": "title has “{}”",
    "tag": "tagged “{}”",
    "path": "names a file with “{}”",
    "recent": "recent ({})",
}
"""How the pages word the reasons of a match."""


def in_words(why: str) -> str:
    """A reason of the server as a page words it."""
    field, _, word = why.partition(": ")
    return REASONS.get(field, why).format(word)


def painted(page: Page) -> None:
    """Wait until the page has drawn what it knows now: the first frame may have been under way already."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
    )


def kept(root: Path) -> dict[str, bytes]:
    """Everything that is written down about what was handed over, done and run: file by file."""
    log = paths.log_folder(root)
    return {
        str(path.relative_to(log)): path.read_bytes()
        for path in sorted(log.rglob("*"))
        if path.is_file()
    }
