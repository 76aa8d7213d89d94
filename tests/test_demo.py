"""`ralph demo` runs to its end and checks itself; the README quotes its output.

The README's `text` blocks that begin with `$`, `>` or `|` are pieces of the demo's output, with the numbers and ids of
another run; a line `...` stands for what was left out. Blocks called `console` are run by `test_console.py`.
"""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md",)
QUOTED = re.compile(r"^(`{3,})text\n(?=[$>|] )(.*?)^\1$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b(?:[a-z]+-\d{9,}-[0-9a-f]{4,12}|run-[0-9a-f]{8}|t-[0-9a-f]{6})\b")
LEFT_OUT = "..."


PAUSE = "-- Enter to go on, Ctrl-C to stop --"
OFFER = "Open it in a browser now? [Y/n]: "
ROWS = 100
COLUMNS = 160
MAX_PAGE_LINES = 40


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The pages that a reader with a terminal sees, who keeps the sample and opens no browser."""
    folder = tmp_path_factory.mktemp("the demo")
    outer, inner = pty.openpty()
    termios.tcsetwinsize(inner, (ROWS, COLUMNS))
    demo = subprocess.Popen(
        [sys.executable, "-m", "ralph", "demo", "--keep"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "PATH": str(folder)},  # no Python is on it
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    try:
        printed = _read_pages(outer)
        assert demo.wait() == 0, printed
        yield printed.split(PAUSE)
    finally:
        demo.kill()
        demo.wait()
        os.close(outer)
        shutil.rmtree(folder)


def _read_pages(terminal: int) -> str:
    """Return what a program prints, and press Enter whenever it waits."""
    printed = b""
    answered = 0
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the program has ended
            return printed.decode().replace("\r\n", "\n")
        printed += piece
        waits = printed.count(PAUSE.encode()) + printed.count(OFFER.encode())
        if waits > answered:
            answered = waits
            os.write(terminal, b"n\n")


@pytest.fixture(scope="module")
def output(pages: list[str]) -> str:
    return "".join(page.removeprefix("n\n") for page in pages)


def test_no_page_has_more_than_forty_lines(pages: list[str]) -> None:
    sizes = [page.removeprefix("n\n").count("\n") for page in pages]
    assert max(sizes) <= MAX_PAGE_LINES
    assert len(pages) > 5
    assert "=== 1/8 " in pages[0]
    assert "=== 8/8 " in "".join(pages)


def test_the_sample_is_kept_and_can_be_looked_at(pages: list[str]) -> None:
    [line] = re.findall(r"^  (XDG_STATE_HOME=.*)$", pages[-1], re.MULTILINE)
    assert OFFER in pages[-1]
    variable, *command = shlex.split(line)
    assert command[-3:-1] == ["web", "--root"]
    project = command[-1]
    env = {**os.environ, "XDG_STATE_HOME": variable.partition("=")[2]}
    listed = subprocess.run(
        [sys.executable, "-m", "ralph", "--root", project, "session", "list", "--format", "json"],
        env=env,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert len(json.loads(listed.stdout)) == 2


def between(output: str, start: str, end: str) -> str:
    return output.partition(start)[2].partition(end)[0]


def test_demo_runs_to_its_end(output: str) -> None:
    assert "=== Done" in output


def test_session_starts_with_guardrails_memories_and_the_last_session(output: str) -> None:
    brief = between(output, "Session 2:", "> prompt:")
    assert "npm test fails: run npm run build first" in brief
    assert "| - [mem-" in brief
    assert "Let login in src/auth.ts return a JWT. Outcome: " in brief


def test_prompt_is_remembered_and_an_accepted_fix_is_known_in_the_next_session(output: str) -> None:
    fix = "It passed after `npx playwright install chromium`."
    assert "Ralph: remembered mem-" in between(output, "> prompt: remember:", "=== ")
    assert fix in between(output, "$ ralph review", "> Ann")
    assert "Accepted mem-" in between(output, "> Ann", "$ ")
    assert fix in between(output, "Session 2:", "> prompt:")


def test_secret_of_a_tool_is_recorded_redacted(output: str) -> None:
    assert "GITHUB_TOKEN=[redacted: github token]" in output
    assert "neither is there" in output


def quotations() -> Iterator[tuple[str, int, list[str]]]:
    for name in PAGES:
        page = (ROOT / name).read_text(encoding="utf-8")
        for block in QUOTED.finditer(page):
            yield name, page.count("\n", 0, block.start()) + 1, block[2].splitlines()


def masked(line: str) -> str:
    """Remove what differs from run to run and from machine to machine."""
    return re.sub(r"\d+", "#", re.sub(r"\s+", " ", ID.sub("ID", line))).strip()


def pieces(lines: list[str]) -> Iterator[str]:
    for piece in "\n".join(masked(line) for line in lines).split(f"\n{LEFT_OUT}"):
        yield f"{piece.strip()}\n"


def test_pages_quote_what_the_demo_prints(output: str) -> None:
    printed = "".join(f"{masked(line)}\n" for line in output.splitlines())
    for name, line, block in quotations():
        rest = printed
        for piece in pieces(block):
            assert piece in rest, f"{name}:{line}: the demo does not print:\n{piece}"
            rest = rest.partition(piece)[2]


@pytest.mark.parametrize("name", PAGES)
def test_page_quotes_the_demo(name: str) -> None:
    assert name in {page for page, _, _ in quotations()}
