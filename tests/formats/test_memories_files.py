"""memories.md as a file: a huge one, one behind a link, a second one, and many writers at once.

Size is proved by finishing, not by a clock: a pass that is not linear would take minutes on these.
"""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ralph.app import doctor, memory
from ralph.formats.memories import MEMORIES, parse_memories


class Mint:
    """Ids one after the other, in place of the clock and of chance."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, old_id: str) -> str:
        self.count += 1
        return f"new-{self.count}-a"


@pytest.mark.soak
@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000, "> " + "`" * 1_000_000, "`" * 1_000_000 + "a`", "- " * 500_000 + "x", "### " + "a" * 1_000_000,
        "### mem-" + "1" * 1_000_000 + "-a", "### Sign: " + "é " * 500_000, "<!-- tags: " + "a|" * 500_000 + " -->",
        "### mem-1-a\n<!-- " + "-->" * 300_000, "#" * 1_000_000, "### mem-1-a\n" + "> x\n" * 200_000 + "y",
        "### mem-1-a\n> x\n" * 50_000, "### Sign: x\n- y\n" * 50_000, "## Fixes\n" * 200_000, "\n" * 200_000,
        "<<<<<<< a\n=======\n>>>>>>> b\n" * 50_000, "```\n" * 200_001, "### mem-1-a\n" * 50_000,
    ],
    ids=range(18),
)  # fmt: skip
def test_a_huge_line_or_file_is_read_in_one_pass(text: str) -> None:
    document = parse_memories(text)
    assert str(document) == text
    assert len(document.problems) <= text.count("\n") * 2 + 2
    assert str(document.with_unique_ids(Mint())).count("\n") == text.count("\n")


def test_a_first_line_that_is_a_path_is_reported_and_everything_below_is_read() -> None:
    for path in ("../.agent/memories.md", "/home/me/memories.md", "~/memories.md", "C:\\notes\\memories.md"):
        document = parse_memories(f"{path}\n\n### mem-1-a\n> one\n")
        assert [(problem.line, problem.code) for problem in document.problems] == [(1, "path-line")]
        assert [entry.record.text for entry in document.entries] == ["one"]


def test_a_symbolic_link_is_written_through_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / ".agent").mkdir()
    (tmp_path / "real.md").write_text("# Memories\n", encoding="utf-8")
    link = tmp_path / ".agent" / "memories.md"
    link.symlink_to("../real.md")
    memory.add(tmp_path, "through the link")
    assert link.is_symlink()
    assert "> through the link" in (tmp_path / "real.md").read_text(encoding="utf-8")


def test_a_second_store_below_the_root_is_reported(tmp_path: Path) -> None:
    nested = tmp_path / "web" / ".agent"
    nested.mkdir(parents=True)
    (nested / "memories.md").write_text(MEMORIES.template(), encoding="utf-8")
    found = {(finding.path, finding.problem.code) for finding in doctor.examine(tmp_path)}
    assert (nested / "memories.md", "second-store") in found


@pytest.mark.soak
def test_fifty_adds_at_once_from_eight_processes_give_fifty_ids(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from ralph.app import memory\n"
        "root, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])\n"
        "for number in range(first, last): memory.add(root, f'fact number {number}')\n"
    )
    bounds = [50 * part // 8 for part in range(9)]
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(first), str(last)])
        for first, last in pairwise(bounds)
    ]
    assert [process.wait() for process in running] == [0] * 8
    found = [stored.record for stored in memory.list_(tmp_path)]
    assert {record.text for record in found} == {f"fact number {number}" for number in range(50)}
    assert len({record.id for record in found}) == 50
