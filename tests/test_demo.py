"""`ralph demo` runs to its end and checks itself; the README quotes its output.

The README's `text` blocks that begin with `$`, `>` or `|` are pieces of the demo's output, with the numbers and ids of
another run; a line `...` stands for what was left out. Blocks called `console` are run by `test_console.py`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md",)
QUOTED = re.compile(r"^(`{3,})text\n(?=[$>|] )(.*?)^\1$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b(?:[a-z]+-\d{9,}-[0-9a-f]{4,12}|run-[0-9a-f]{8}|t-[0-9a-f]{6})\b")
LEFT_OUT = "..."


@pytest.fixture(scope="module")
def output() -> str:
    result = subprocess.run(
        [sys.executable, "-m", "ralph", "demo"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def between(output: str, start: str, end: str) -> str:
    return output.partition(start)[2].partition(end)[0]


def test_demo_runs_to_its_end(output: str) -> None:
    assert "=== Done" in output


def test_session_starts_with_guardrails_memories_and_the_last_session(output: str) -> None:
    brief = between(output, "=== Session 2", "> prompt:")
    assert "npm test fails: run npm run build first" in brief
    assert "| - [mem-" in brief
    assert "Let login in src/auth.ts return a JWT. Outcome: " in brief


def test_prompt_is_remembered_and_an_accepted_fix_is_known_in_the_next_session(output: str) -> None:
    fix = "It passed after `npx playwright install chromium`."
    assert "Ralph: remembered mem-" in between(output, "> prompt: remember:", "=== ")
    assert fix in between(output, "$ ralph review", "> Ann")
    assert "Accepted mem-" in between(output, "> Ann", "$ ")
    assert fix in between(output, "=== Session 2", "> prompt:")


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
