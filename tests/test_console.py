"""What the pages show is what the program prints: their console blocks are run, in order, in a fresh project.

Ids and dates differ from run to run and folders from machine to machine, so dates are masked, the
project's folder is called as the pages call it, and each id of a page stands for one id of the run,
which is also put in its place in later commands. What a page tells between two blocks (somebody
edits a file) is done by `MEANWHILE`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOWN = "/home/ann/shop"
ID = re.compile(r"\b[a-z]+-\d{9,}-[0-9a-f]{4}\b")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One command of a page, what the page says it prints, and the last markdown block above it."""

    line: int
    command: str
    output: list[str]
    above: str


def steps(page: str) -> Iterator[Step]:
    above = ""
    for block in FENCE.finditer(page):
        if block[1] == "markdown":
            above = block[2]
        if block[1] != "console":
            continue
        first = page.count("\n", 0, block.start()) + 2
        command, line, output = "", 0, list[str]()
        for number, text in enumerate([*block[2].splitlines(), "$ "], first):
            if not text.startswith("$ "):
                output.append(text)
                continue
            if command:
                yield Step(line, command, _without_blank_ends(output), above)
            command, line, output = text[2:], number, []


def _without_blank_ends(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n") if any(lines) else []


@dataclass
class Shop:
    """A project in which a page is played."""

    folder: Path
    ids: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, notes included; the page's ids are replaced by this run's."""
        words = [ID.sub(lambda found: self.ids.get(found[0], found[0]), word) for word in shlex.split(command)]
        assert words[0] == "ralph", f"{command}: only ralph and cd are run"
        keep = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "PYTHONWARNDEFAULTENCODING")
        env = {name: os.environ[name] for name in keep if name in os.environ}
        env |= {"HOME": str(self.folder.parent), "COLUMNS": "120", "PYTHONUTF8": "1", "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "ralph", *words[1:]],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, encoding="utf-8",
        )  # fmt: skip
        return _without_blank_ends(done.stdout.replace(str(self.folder), SHOWN).splitlines())

    def same(self, shown: str, printed: str) -> bool:
        """Whether a line says the same as the page's; each id there stands for one id here."""
        left, right = (DATE.sub("DATE", line).rstrip() for line in (shown, printed))
        if ID.sub("ID", left) != ID.sub("ID", right):
            return False
        pairs = list(zip(ID.findall(left), ID.findall(right), strict=True))
        return all(self.ids.setdefault(theirs, ours) == ours for theirs, ours in pairs)


def _a_sign_is_there(shop: Shop, step: Step) -> None:
    with (shop.folder / ".ralph/guardrails.md").open("a", encoding="utf-8", newline="") as file:
        file.write("\n" + step.above)


def _somebody_copied_an_entry(shop: Shop, step: Step) -> None:
    entry = "### mem-1705751400-a3f8\n> {}\n<!-- tags: db | created: 2024-01-20 -->\n\n"
    text = "# Memories\n\n## Patterns\n\n" + entry.format("One.") + entry.format("Two.") + "### mem-oops\n> Three.\n\n"
    text += "## Decisions\n\n## Fixes\n\n## Context\n"
    (shop.folder / ".agent/memories.md").write_text(text, encoding="utf-8", newline="")
    for backup in shop.folder.rglob("*.bak*"):
        backup.unlink()


MEANWHILE: dict[tuple[str, str], Callable[[Shop, Step], None]] = {
    ("docs/quickstart.md", "ralph guardrails list"): _a_sign_is_there,
    ("docs/quickstart.md", "ralph doctor"): _somebody_copied_an_entry,
}
"""What happens in the story of a page before a command."""


@pytest.mark.skipif(shutil.which("git") is None, reason="the pages' project is a git repository")
@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_the_console_blocks_of_a_page_show_what_the_program_prints(name: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    subprocess.run(["git", "init", "--quiet", shop.folder], check=True, env={**os.environ, "HOME": str(tmp_path)})
    story = list(steps((ROOT / name).read_text(encoding="utf-8")))
    assert story, f"{name} has no console block"
    for step in story:
        if step.command == "cd shop":
            continue
        if (name, step.command) in MEANWHILE:
            MEANWHILE[name, step.command](shop, step)
        printed = shop.run(step.command)
        alike = len(printed) == len(step.output) and all(map(shop.same, step.output, printed))
        assert alike, f"{name}:{step.line}: {step.command}\n" + "\n".join(["prints:", *printed, "not:", *step.output])


def test_every_event_between_blocks_belongs_to_a_command_of_its_page() -> None:
    for name, command in MEANWHILE:
        assert command in {step.command for step in steps((ROOT / name).read_text(encoding="utf-8"))}
