"""memories.md and guardrails.md: reported problems, huge files, links and many writers."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support import laws

from ralph.core.documents import Problem
from ralph.core.record import MemoryKind, Record
from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout, MemoriesDocument, parse_memories
from ralph.install import doctor
from ralph.memory import memory, reading

NEW = Record(
    "mem-1705751400-ffff",
    MemoryKind.FIX,
    "new words",
    label="fix",
    tags=("a", "b"),
    created_at="2025-01-20",
)
NEW_BLOCK = "### mem-1705751400-ffff\n> new words\n<!-- tags: a, b | created: 2025-01-20 -->"
FIRST, SECOND = "mem-1705751400-a3f8", "mem-1705751401-a3f8"
NEXT = f"### {SECOND}\n> two\n<!-- tags: b | created: 2024-01-01 -->\n"
TORN = f"### {FIRST}\n> one\n<!-- tags: a\n\n{NEXT}"


def reported(text: str, layout: Layout = MEMORIES) -> list[tuple[int, str, str]]:
    """Line, level and code of each problem."""
    found = parse_memories(text, layout).problems
    return [(one.line, one.level, one.code) for one in found]


def problem(text: str, code: str, layout: Layout = MEMORIES) -> Problem:
    return next(one for one in parse_memories(text, layout).problems if one.code == code)


def read(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (entry.record.id, entry.record.text, entry.record.tags)
        for entry in parse_memories(text).entries
    ]


def added_and_gone(text: str, record: Record = NEW) -> MemoriesDocument:
    added = parse_memories(text).add(record)
    laws.restores(str(added.remove(record.id)), text)
    return added


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_torn_metadata_are_read_as_far_as_they_go_and_hide_no_entry(newline: str) -> None:
    text = TORN.replace("\n", newline)
    assert read(text) == [(FIRST, "one", ("a",)), (SECOND, "two", ("b",))]
    assert reported(text) == [(3, "error", "torn-metadata")]


@pytest.mark.parametrize(
    ("torn", "tags"),
    [
        ("<!-- tags: a, b", ("a", "b")), ("<!--tags:a", ("a",)), ("<!-- tags: a --", ("a",)),
        ("<!-- tags: a ->", ("a",)), ("<!-- tags: a -", ("a",)), ("<!-- tags: a -- >", ("a",)),
        ("<!-- TAGS : a | crea", ("a",)),
        ("<!-- created: 2024-01-01 | tags: a", ("a",)), ("  <!-- tags: a", ("a",)), ("<!-- tags: c-", ("c-",)),
        ("<!-- by: agent", ()), ("<!-- tags:", ()),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "below", ["", "\n", f"\n{NEXT}", f"\n\nprose\n\n# Title -->\n{NEXT}", f"\n  {NEXT}"]
)
def test_every_form_of_torn_metadata_is_reported(
    torn: str, tags: tuple[str, ...], below: str
) -> None:
    text = f"### {FIRST}\n> one\n{torn}{below}"
    assert read(text)[0] == (FIRST, "one", tags)
    assert [entry[0] for entry in read(text)[1:]] == [SECOND] * below.count(SECOND)
    assert reported(text) == [(3, "error", "torn-metadata")]
    added_and_gone(text)


@pytest.mark.parametrize(
    "comment",
    [
        "<!-- tags: how to write them\nover two lines -->", "<!-- tags: a\n\n#hashtag and ####### seven\n-->\n",
        "<!-- a note\n# with a heading\n-->", "<!--\ntags: a\n## Fixes\n-->", "<!-- see: this\n# and that\n-->",
        "<!-- tags: " + "\nwords" * 2000 + "\n-->",
    ],
)  # fmt: skip
def test_a_comment_of_several_lines_stays_a_comment(comment: str) -> None:
    text = f"### {FIRST}\n> one\n{comment}\n\n{NEXT}"
    assert read(text) == [(FIRST, "one", ()), (SECOND, "two", ("b",))]
    assert reported(text) == []


def test_torn_metadata_below_no_entry_are_reported_and_hide_nothing() -> None:
    text = f"## Fixes\n\n<!-- tags: a\n\n{NEXT}<!-- created: 2024\n\n### {FIRST}\n> one\n"
    assert [entry[0] for entry in read(text)] == [SECOND, FIRST]
    assert reported(text) == [(3, "error", "torn-metadata"), (8, "error", "torn-metadata")]


def test_a_malformed_heading_is_not_hidden_by_torn_metadata() -> None:
    text = TORN.replace(f"### {SECOND}", f"###{SECOND}")
    assert {"torn-metadata", "malformed-id"} <= {code for _, _, code in reported(text)}


def test_replacing_a_torn_entry_closes_its_comment_and_touches_nothing_else() -> None:
    document = parse_memories(TORN)
    changed = document.replace(FIRST, replace(document.entries[0].record, text="three"))
    closed = f"### {FIRST}\n> three\n<!-- tags: a | created: 2024-01-20 -->"
    assert str(changed) == f"{closed}\n\n{NEXT}"
    assert not [one for one in changed.problems if one.code == "torn-metadata"]


def test_removing_a_torn_entry_takes_the_torn_line_with_it() -> None:
    assert str(parse_memories(TORN).remove(FIRST)) == NEXT
    assert str(parse_memories(f"# M\n\n{TORN}").remove(FIRST)) == f"# M\n\n{NEXT}"


def test_neighbours_of_a_torn_entry_come_change_and_go_byte_for_byte() -> None:
    text = f"## Fixes\n\n{TORN}"
    assert str(added_and_gone(text)) == f"{text.rstrip()}\n\n{NEW_BLOCK}\n"
    assert (
        str(parse_memories(text).remove(SECOND))
        == f"## Fixes\n\n### {FIRST}\n> one\n<!-- tags: a\n"
    )
    document = parse_memories(text)
    changed = document.replace(SECOND, replace(document.entries[1].record, text="a --> b"))
    assert str(changed) == text.replace("> two", "> a --> b")


@pytest.mark.soak
@pytest.mark.parametrize(
    "text",
    [
        TORN * 20_000, "<!-- tags: a\n" * 100_000, "### mem-1-a\n<!-- tags: a\n" * 50_000 + "-->\n",
        "<!-- tags: a\nx -->\n" * 50_000 + "# end", "### Sign:\n- x\n" * 50_000,
        "<!-- ### mem-1705751400-a3f8 -->\n" * 50_000,
        "### mem-1-a\n<!-- tags: a" + " " * 1_000_000 + "-", "```\n" + "### " * 500_000 + "\n```\n",
        "<!-- a --> " * 50_000,
    ],
    ids=range(9),
)  # fmt: skip
def test_any_number_of_torn_or_hidden_things_is_read_in_one_pass(text: str) -> None:
    document = parse_memories(text)
    assert str(document) == text
    assert len(document.problems) <= text.count("\n") * 2 + 2


@pytest.mark.parametrize("layout", [MEMORIES, GUARDRAILS])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Guardrails\n\n- never skip the tests\n", 3), ("one line of prose", 1), ("\ufeff\n> a quote\n", 2),
        ("# T\n\n```\ncode\n```\n", 3), ("<!-- note -->\n\n#hashtag\n", 3), ("## Todo\n\nwords\n", 3), ("a\0b", 1),
    ],
)  # fmt: skip
def test_a_file_with_text_but_no_entries_is_reported(text: str, line: int, layout: Layout) -> None:
    assert (line, "note", "nothing-read") in reported(text, layout)
    assert "ralph memory add" in problem(text, "nothing-read", layout).hint


@pytest.mark.parametrize(
    "text",
    [
        "", "\ufeff\r\n \n", MEMORIES.template(), GUARDRAILS.template("\r\n"),
        "# T\n\n<!-- note\nof two lines -->\n\n---\n",
        "# T\n\n<!-- tags: x -->\n", NEXT + "\nprose\n", "prose\n\n### Sign: x\n- do\n",
    ],
)  # fmt: skip
def test_a_new_file_or_one_with_entries_is_not_reported(text: str) -> None:
    for layout in (MEMORIES, GUARDRAILS):
        assert "nothing-read" not in {code for _, _, code in reported(text, layout)}


@pytest.mark.parametrize("text", ["### mem-bad\n\nwords\n", "words\n\n```\nnever closed\n"])
def test_an_error_that_explains_why_nothing_is_read_is_enough(text: str) -> None:
    assert [level for _, level, _ in reported(text)] == ["error"]


@pytest.mark.parametrize("heading", ["fixes", "FIXES", "Fix", "fix", " fixes ##"])
def test_our_section_is_found_in_another_case_or_number(heading: str) -> None:
    text = f"# M\n\n## Patterns\n\n## Decisions\n\n## {heading}\n\n{NEXT}\n## Context\n"
    assert str(added_and_gone(text)) == text.replace("\n## Context", f"\n{NEW_BLOCK}\n\n## Context")
    assert parse_memories(text).problems == ()
    assert parse_memories(f"## {heading}\n", GUARDRAILS).format == "structured"


def test_the_heading_as_we_write_it_comes_before_one_in_another_case() -> None:
    text = "## fixes\n\n## Fix\n\n## Fixes\n\n## Context\n"
    assert str(added_and_gone(text)) == text.replace("## Fixes\n", f"## Fixes\n\n{NEW_BLOCK}\n")


@pytest.mark.parametrize(
    "heading", ["Gotchas", "Guardrails", "Signs", "failures", "Fixes and more", "Fixe"]
)
def test_another_word_for_a_kind_is_not_our_section(heading: str) -> None:
    text = f"## Patterns\n\n## {heading}\n"
    assert str(added_and_gone(text)).startswith(f"{text.rstrip()}\n\n## Fixes\n")


@pytest.mark.parametrize("heading", ["### Sign:", "### SIGN:", "### 🛑 Sign: ", "  ### Sign: ###"])
@pytest.mark.parametrize(
    "body", ["- **Trigger**: x\n", "\nwords\n", "> a quote\n", "#### Why\n", "```\ncode\n```\n"]
)
def test_a_sign_without_a_name_is_reported_and_not_read(heading: str, body: str) -> None:
    text = f"## Fixes\n\n{heading}\n{body}\n### Sign: x\n- do\n\n## Decisions\n\n## Patterns\n"
    assert [entry.record.title for entry in parse_memories(text, GUARDRAILS).entries] == ["x"]
    assert reported(text, GUARDRAILS) == [(3, "error", "nameless-sign")]


def test_a_nul_is_reported_with_its_line_and_kept() -> None:
    text = f"## Fixes\n\n{NEXT.replace('two', 't' + chr(0) + 'wo')}"
    assert reported(text) == [(4, "error", "not-utf8")]
    added_and_gone(text)


def test_a_file_with_an_unresolved_merge_is_not_mended() -> None:
    text = f"## Fixes\n\n<<<<<<< HEAD\n{NEXT}=======\n{NEXT.replace('two', 'three')}>>>>>>> b\n"
    document = parse_memories(text)
    assert document.has_conflict
    assert document.with_unique_ids(lambda _: "mem-1-z") is document


def test_a_marker_that_is_only_shown_is_no_merge() -> None:
    text = (
        f"## Fixes\n\n{NEXT}\n```\n<<<<<<< HEAD\n```\n\n> <<<<<<< HEAD\n\nTitle\n=======\n\n{NEXT}"
    )
    document = parse_memories(text)
    assert not document.has_conflict
    mended = document.with_unique_ids(lambda _: "mem-1-z")
    assert [entry.record.id for entry in mended.entries] == [SECOND, "mem-1-z"]


# --- files ---


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
        "import sys; from pathlib import Path; from ralph.memory import memory\n"
        "root, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])\n"
        "for number in range(first, last): memory.add(root, f'fact number {number}')\n"
    )
    bounds = [50 * part // 8 for part in range(9)]
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(first), str(last)])
        for first, last in pairwise(bounds)
    ]
    assert [process.wait() for process in running] == [0] * 8
    found = [stored.record for stored in reading.list_entries(tmp_path)]
    assert {record.text for record in found} == {f"fact number {number}" for number in range(50)}
    assert len({record.id for record in found}) == 50
