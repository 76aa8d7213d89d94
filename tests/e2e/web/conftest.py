"""Fixtures of the pages' tests: one browser a process, a sample project of one's own, and windows that are watched."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.e2e import install_browser
from tests.e2e.install_clients import Unavailable
from tests.e2e.web.explorer import LONGEST, Reader, Site
from tests.web import sample

OpenReader = Callable[..., Reader]


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
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rich project; the tests of one file share it."""
    root = tmp_path_factory.mktemp("project")
    sample.make(root)
    return root


@pytest.fixture(scope="module")
def site(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ralph web` on the rich project."""
    with Site(project, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def reader(browser: Browser, site: Site) -> Iterator[OpenReader]:
    """Opens windows on the site, signed in; none of them may have had trouble."""
    opened: list[Reader] = []

    def open_(**how: int | bool) -> Reader:
        window = Reader(browser, site, **how)  # type: ignore[arg-type]  # the words are Reader's own
        opened.append(window)
        return window

    yield open_
    troubles = [trouble for window in opened for trouble in window.troubles]
    for window in opened:
        window.close()
    assert troubles == []
