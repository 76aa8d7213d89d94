"""`ralph web` as a person meets it: the real command, the real browser, and a watch on everything that goes wrong.

`Site` runs the command on a project in a clean environment and knows the address that it prints. `Reader` is one
window: it notes every console error, page error, failed request and breach of the content policy, and every request
that would leave this machine; a test ends with none of them. Opening a window takes longer than most tests, so
`Windows` lends them: one that comes back is reset, and the next test loads its page in it, with the scripts in the
browser's cache. Waiting is Playwright's own, for what is on the page; nothing here sleeps.
"""

import http.client
import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response
from tests.e2e.clients import PLAIN

LONGEST = 60.0
ARTEFACTS = "RALPH_E2E_ARTEFACTS"
"""Names the folder that screenshots are kept in; without it none are made."""
PROJECT = Path(__file__).resolve().parents[3]
RESTING = "/static/icon.svg"
"""Where a window waits: a page of the site, so that the browser keeps its process, that does nothing."""


class Site:
    """The command on a project, from its start to its end."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        home.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ralph", "--root", str(root), "web", "--no-open"],
            env={
                **PLAIN,
                "HOME": str(home),
                "CI": "true",  # without a terminal, only the pages of a CI job accept decisions
                "PYTHONUNBUFFERED": "1",
                "RALPH_EMBEDDING_PROVIDER": "none",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=root,
        )
        self.address = self._line()
        self.origin = re.sub(r"/\?.*", "", self.address)

    @cached_property
    def cookie(self) -> tuple[str, str]:
        """The name and value of the cookie that the address gives, once; every window of a test gets it."""
        there = http.client.HTTPConnection(self.origin.removeprefix("http://"), timeout=LONGEST)
        try:
            there.request("GET", self.address.removeprefix(self.origin))
            given = there.getresponse().getheader("Set-Cookie") or ""
        finally:
            there.close()
        name, _, value = given.partition(";")[0].partition("=")
        assert value, "the address gave no cookie"
        return name, value

    def _line(self) -> str:
        out = self._process.stdout
        if out is None or not select.select([out], [], [], LONGEST)[0]:
            raise AssertionError("`ralph web` said nothing")
        line = out.readline().decode("utf-8").strip()
        assert line.startswith("http://127.0.0.1:"), line
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it as a person does, with Ctrl-C; it must end well and say nothing strange."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=LONGEST)
        assert self._process.returncode == 0, said.decode("utf-8", "replace")
        assert "Traceback" not in said.decode("utf-8", "replace"), said.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Look:
    """How a window is, apart from what it shows."""

    width: int = 1280
    height: int = 860
    dark: bool = False

    @property
    def scheme(self) -> Literal["dark", "light"]:
        """What the browser says that the person prefers."""
        return "dark" if self.dark else "light"


class Reader:
    """One window of a browser on the site; `signed_in` gives it the cookie."""

    def __init__(
        self, browser: Browser, site: Site, look: Look | None = None, *, signed_in: bool = True
    ) -> None:
        self.site = site
        self.look = look or Look()
        self.context: BrowserContext = browser.new_context(
            viewport={"width": self.look.width, "height": self.look.height},
            color_scheme=self.look.scheme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        self.context.set_default_timeout(LONGEST * 1000 / 3)
        if signed_in:
            name, value = site.cookie
            self.context.add_cookies(
                [{"name": name, "value": value, "url": site.origin, "sameSite": "Strict"}]
            )
        self.troubles: list[str] = []
        self.excused: list[str] = []
        """Words of troubles that a test causes on purpose, such as "status of 409"."""
        self.page: Page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def open(self, address: str) -> Page:
        """Sign in with an address that was printed."""
        self.page.goto(address)
        self.page.locator("main h1").wait_for()
        return self.page

    def go(self, path: str) -> Page:
        """One of the pages."""
        self.page.goto(self.site.origin + path)
        self.page.locator("main h1").wait_for()
        return self.page

    def rest(self) -> None:
        """Away from the page, with nothing left of what a test did: as good as new."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.goto(self.site.origin + RESTING)
        self.page.evaluate("() => (localStorage.clear(), sessionStorage.clear())")
        self.page.emulate_media(color_scheme=self.look.scheme, reduced_motion="reduce")
        self.page.mouse.move(-1, -1)
        self.context.clear_permissions()
        self.troubles.clear()
        self.excused.clear()

    def close(self) -> None:
        """Close the window."""
        self.context.close()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(
            words in message.text for words in self.excused
        ):
            self.troubles.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.site.origin, "data:", "blob:")):
            self.troubles.append(f"asked elsewhere: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.troubles.append(f"{response.status} from {response.url}: {response.text()[:500]}")


class Windows:
    """Windows to lend, each to one test at a time."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._lent: list[Reader] = []
        self._free: list[Reader] = []

    def lend(self, site: Site, look: Look) -> Reader:
        """A window of this look on the site, which shows nothing yet."""
        fits = (each for each in self._free if each.site is site and each.look == look)
        reader = next(fits, None)
        if reader is None:
            reader = Reader(self._browser, site, look)
        else:
            self._free.remove(reader)
        self._lent.append(reader)
        return reader

    def take_back(self) -> list[str]:
        """Every window that is lent; gives the troubles that they had."""
        troubles = [trouble for reader in self._lent for trouble in reader.troubles]
        while self._lent:
            reader = self._lent.pop()
            reader.rest()
            self._free.append(reader)
        return troubles

    def close(self) -> None:
        """Close them all."""
        for reader in (*self._lent, *self._free):
            reader.close()


def keep(page: Page, name: str) -> None:
    """Keep a screenshot as an artefact of the tests, where somebody wants them: drawing one is slow."""
    if folder := os.environ.get(ARTEFACTS):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")
