"""Fixtures of the pages' tests: one browser a process, one rich project and its server for all files that only read.

A file that changes something has a `project` of its own, and so a server of its own. Windows are lent and watched:
none may have had trouble when its test ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.e2e import install_browser
from tests.e2e.clients import PLAIN
from tests.e2e.install_clients import Unavailable
from tests.e2e.web.explorer import LONGEST, Look, Reader, Site, Windows
from tests.e2e.web.page_states import ids_of_pages
from tests.support import sample


class OpenReader(Protocol):
    """Opens a window, signed in: on the site of the file's fixture unless another one is named."""

    def __call__(
        self, on: Site | None = None, *, width: int = 1280, height: int = 860, dark: bool = False
    ) -> Reader:
        """A window of this look."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The real Chromium, without a screen."""
    try:
        program = install_browser.ensure()
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))
    expect.set_options(timeout=LONGEST * 1000 / 3)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ralph web` on the rich project that nobody changes."""
    with Site(sample.shared().root, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture(scope="module")
def project() -> Path:
    """The rich project, to be read; a file that changes it says so with a fixture of its own."""
    return sample.shared().root


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """`ralph web` on the file's project."""
    if project == sample.shared().root:
        yield request.getfixturevalue("library")
        return
    with Site(project, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ralph web` on a project that was only just begun."""
    root = tmp_path_factory.mktemp("fresh")
    home = tmp_path_factory.mktemp("home")
    begin = [sys.executable, "-m", "ralph", "--root", str(root), "init"]
    subprocess.run(
        begin, env={**PLAIN, "HOME": str(home)}, cwd=root, check=True, capture_output=True
    )
    with Site(root, home) as running:
        yield running


@pytest.fixture(scope="module")
def page_ids(site: Site) -> dict[str, str]:
    """What the addresses of the pages' states are filled with."""
    return ids_of_pages(site)


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Iterator[Windows]:
    """The windows of one file."""
    lending = Windows(browser)
    yield lending
    lending.close()


@pytest.fixture
def reader(windows: Windows, site: Site) -> Iterator[OpenReader]:
    """Opens windows on the site, signed in; none of them may have had trouble."""

    def open_(
        on: Site | None = None, *, width: int = 1280, height: int = 860, dark: bool = False
    ) -> Reader:
        return windows.lend(on or site, Look(width, height, dark))

    yield open_
    assert windows.take_back() == []
