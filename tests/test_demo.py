"""`make demo` tells a true story: it runs to its end and checks itself on the way, and the pages quote it.

The pages' `text` blocks that begin with `$`, `>` or `|` are pieces of the demo's output, with the numbers and ids of
another run; a line `...` stands for what was left out. Blocks called `console` are run by `test_console.py`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/quickstart.md")
QUOTED = re.compile(r"^(`{3,})text\n(?=[$>|] )(.*?)^\1$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b(?:[a-z]+-\d{9,}-[0-9a-f]{4,12}|run-[0-9a-f]{8}|t-[0-9a-f]{6})\b")
LEFT_OUT = "..."


@pytest.fixture(scope="module")
def output() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def between(output: str, start: str, end: str) -> str:
    return output.partition(start)[2].partition(end)[0]


def test_the_demo_runs_to_its_end(output: str) -> None:
    assert "=== Done" in output


def test_a_session_starts_with_guardrails_memories_and_the_last_session(output: str) -> None:
    brief = between(output, "=== Session 2", "> prompt:")
    assert "npm test fails: run npm run build first" in brief
    assert "| - [mem-" in brief
    assert "Failed, then passed: npm test" in brief


def test_a_prompt_is_answered_with_what_was_done_to_the_file_that_it_names(output: str) -> None:
    told = between(output, "> prompt: modify auth.ts\n", ">")
    assert "|   + return jwt.sign({ sub: user.id }, keys.current()" in told


def test_a_known_fix_is_told_at_the_failure(output: str) -> None:
    told = between(output, "> Bash: npm run migrate   (exit code 1)\n", ">")
    assert "docker compose up -d db" in told


def test_what_a_tool_printed_is_kept_without_its_secret(output: str) -> None:
    assert "GITHUB_TOKEN=[redacted: github token]" in output
    assert "neither is there" in output


@pytest.mark.parametrize(
    ("question", "answer"), [('search --layer 2 --limit 1 "expiring tokens"', "expiresIn"), ('search "인증"', "결제")]
)
def test_search_finds_in_english_and_korean(output: str, question: str, answer: str) -> None:
    assert answer in between(output, f"$ ralph {question}\n", "$ ralph")


def quotations() -> Iterator[tuple[str, int, list[str]]]:
    for name in PAGES:
        page = (ROOT / name).read_text(encoding="utf-8")
        for block in QUOTED.finditer(page):
            yield name, page.count("\n", 0, block.start()) + 1, block[2].splitlines()


def masked(line: str) -> str:
    """A line without what differs from run to run, and from machine to machine."""
    return re.sub(r"\d+", "#", re.sub(r"\s+", " ", ID.sub("ID", line))).strip()


def pieces(lines: list[str]) -> Iterator[str]:
    for piece in "\n".join(masked(line) for line in lines).split(f"\n{LEFT_OUT}"):
        yield f"{piece.strip()}\n"


def test_what_the_pages_quote_of_sessions_is_what_the_demo_prints(output: str) -> None:
    printed = "".join(f"{masked(line)}\n" for line in output.splitlines())
    for name, line, block in quotations():
        rest = printed
        for piece in pieces(block):
            assert piece in rest, f"{name}:{line}: the demo does not print:\n{piece}"
            rest = rest.partition(piece)[2]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_with_a_story_quotes_the_demo(name: str) -> None:
    assert name in {page for page, _, _ in quotations()}
