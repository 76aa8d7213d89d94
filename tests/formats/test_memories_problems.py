"""memories.md and guardrails.md: nothing is left unread without a word, and nothing is mended during a merge.

Torn metadata, entries in comments and fences, files without any entry, Signs without a name, NULs;
and our sections under headings that somebody wrote in another case.
"""

from dataclasses import replace

import pytest

from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout, MemoriesDocument, parse_memories
from ralph.formats.text import Problem
from ralph.model.record import MemoryKind, Record

NEW = Record("mem-1705751400-ffff", MemoryKind.FIX, "new words", label="fix", tags=("a", "b"), created_at="2025-01-20")
NEW_BLOCK = "### mem-1705751400-ffff\n> new words\n<!-- tags: a, b | created: 2025-01-20 -->"
FIRST, SECOND = "mem-1705751400-a3f8", "mem-1705751401-a3f8"
NEXT = f"### {SECOND}\n> two\n<!-- tags: b | created: 2024-01-01 -->\n"
TORN = f"### {FIRST}\n> one\n<!-- tags: a\n\n{NEXT}"


def told(text: str, layout: Layout = MEMORIES) -> list[tuple[int, str, str]]:
    """Line, level and code of each problem but missing sections."""
    found = parse_memories(text, layout).problems
    return [(one.line, one.level, one.code) for one in found if one.code != "missing-section"]


def problem(text: str, code: str, layout: Layout = MEMORIES) -> Problem:
    return next(one for one in parse_memories(text, layout).problems if one.code == code)


def read(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(entry.record.id, entry.record.text, entry.record.tags) for entry in parse_memories(text).entries]


def added_and_gone(text: str, record: Record = NEW) -> MemoriesDocument:
    added = parse_memories(text).add(record)
    assert str(added.remove(record.id)) == text
    return added


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_torn_metadata_are_read_as_far_as_they_go_and_hide_no_entry(newline: str) -> None:
    text = TORN.replace("\n", newline)
    assert read(text) == [(FIRST, "one", ("a",)), (SECOND, "two", ("b",))]
    assert told(text) == [(3, "error", "torn-metadata")]


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
@pytest.mark.parametrize("below", ["", "\n", f"\n{NEXT}", f"\n\nprose\n\n# Title -->\n{NEXT}", f"\n  {NEXT}"])
def test_every_form_of_torn_metadata_is_told(torn: str, tags: tuple[str, ...], below: str) -> None:
    text = f"### {FIRST}\n> one\n{torn}{below}"
    assert read(text)[0] == (FIRST, "one", tags)
    assert [entry[0] for entry in read(text)[1:]] == [SECOND] * below.count(SECOND)
    assert told(text) == [(3, "error", "torn-metadata")]
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
    assert told(text) == []


def test_torn_metadata_below_no_entry_are_told_and_hide_nothing() -> None:
    text = f"## Fixes\n\n<!-- tags: a\n\n{NEXT}<!-- created: 2024\n\n### {FIRST}\n> one\n"
    assert [entry[0] for entry in read(text)] == [SECOND, FIRST]
    assert told(text) == [(3, "error", "torn-metadata"), (8, "error", "torn-metadata")]


def test_a_malformed_heading_is_not_hidden_by_torn_metadata() -> None:
    text = TORN.replace(f"### {SECOND}", f"###{SECOND}")
    assert {"torn-metadata", "malformed-id"} <= {code for _, _, code in told(text)}


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
    assert str(parse_memories(text).remove(SECOND)) == f"## Fixes\n\n### {FIRST}\n> one\n<!-- tags: a\n"
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
    ],
    ids=range(8),
)  # fmt: skip
def test_any_number_of_torn_or_hidden_things_is_read_in_one_pass(text: str) -> None:
    document = parse_memories(text)
    assert str(document) == text
    assert len(document.problems) <= text.count("\n") * 2 + 2


@pytest.mark.parametrize(
    ("hiding", "code", "count"),
    [
        (f"<!--\n{NEXT}-->", "entries-in-comment", 1), (f"<!-- ### {SECOND}\n> two\n-->", "entries-in-comment", 1),
        (f"<!-- put aside\n\n### {FIRST}\n> x\n### {SECOND}\n> y\n-->", "entries-in-comment", 2),
        (f"<!-- ### {SECOND} -->", "entries-in-comment", 1),
        (f"  <!--\n  ### {SECOND}\n  -->", "entries-in-comment", 1),
        (f"```md\n### {FIRST}\n> x\n\n### {SECOND} ###\n```", "entries-in-fence", 2),
        (f"~~~\n```\n### {SECOND}\n~~~", "entries-in-fence", 1),
    ],
)  # fmt: skip
def test_entries_in_a_comment_or_a_fence_are_examples_but_told(hiding: str, code: str, count: int) -> None:
    text = f"## Fixes\n\n{hiding}\n\n### mem-1-a\n> read\n"
    assert [entry[0] for entry in read(text)] == ["mem-1-a"]
    assert told(text) == [(3, "note", code)]
    assert problem(text, code).what.startswith(f"{count} entry heading(s)")


@pytest.mark.parametrize(
    "example",
    ["<!--\n### mem-1-a\n-->", "```\n### mem-17057514-a3f8\n```", f"<!-- see {FIRST} -->", f"```\n#### {FIRST}\n```",
     f"<!--\n> ### {FIRST}\n-->", "<!--\n### mem-{unix}-{hex}\n-->", f"```\n### {FIRST}00\n```"],
)  # fmt: skip
def test_what_no_writer_minted_is_an_example_without_a_word(example: str) -> None:
    assert told(f"## Fixes\n\n{example}\n\n{NEXT}") == []


def test_the_count_of_hidden_entries_begins_anew_with_each_comment() -> None:
    text = f"<!--\n### {FIRST}\n-->\n<!-- x\n-->\n```\n```\n<!--\n### {FIRST}\n-->\n{NEXT}"
    assert told(text) == [(1, "note", "entries-in-comment"), (8, "note", "entries-in-comment")]
    assert problem(text, "entries-in-comment").what.startswith("1 ")


@pytest.mark.parametrize("layout", [MEMORIES, GUARDRAILS])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Guardrails\n\n- never skip the tests\n", 3), ("one line of prose", 1), ("\ufeff\n> a quote\n", 2),
        ("# T\n\n```\ncode\n```\n", 3), ("<!-- note -->\n\n#hashtag\n", 3), ("## Todo\n\nwords\n", 3), ("a\0b", 1),
    ],
)  # fmt: skip
def test_a_file_with_text_but_no_entries_is_told(text: str, line: int, layout: Layout) -> None:
    assert (line, "note", "nothing-read") in told(text, layout)
    assert "ralph memory add" in problem(text, "nothing-read", layout).hint


@pytest.mark.parametrize(
    "text",
    [
        "", "\ufeff\r\n \n", MEMORIES.template(), GUARDRAILS.template("\r\n"),
        "# T\n\n<!-- note\nof two lines -->\n\n---\n",
        "# T\n\n<!-- tags: x -->\n", NEXT + "\nprose\n", "prose\n\n### Sign: x\n- do\n",
    ],
)  # fmt: skip
def test_an_untouched_file_or_one_with_entries_is_not_told_to_be_without(text: str) -> None:
    for layout in (MEMORIES, GUARDRAILS):
        assert "nothing-read" not in {code for _, _, code in told(text, layout)}


@pytest.mark.parametrize("text", ["../shared/memories.md", "### mem-bad\n\nwords\n", "words\n\n```\nnever closed\n"])
def test_where_an_error_says_why_nothing_is_read_it_is_not_said_twice(text: str) -> None:
    assert [level for _, level, _ in told(text)] == ["error"]


@pytest.mark.parametrize("heading", ["fixes", "FIXES", "Fix", "fix", " fixes ##"])
def test_our_section_is_found_in_another_case_or_number(heading: str) -> None:
    text = f"# M\n\n## Patterns\n\n## Decisions\n\n## {heading}\n\n{NEXT}\n## Context\n"
    assert str(added_and_gone(text)) == text.replace("\n## Context", f"\n{NEW_BLOCK}\n\n## Context")
    assert parse_memories(text).problems == ()
    assert str(parse_memories(text).with_all_sections()) == text
    assert parse_memories(f"## {heading}\n", GUARDRAILS).format == "structured"


def test_the_heading_as_we_write_it_comes_before_one_in_another_case() -> None:
    text = "## fixes\n\n## Fix\n\n## Fixes\n\n## Context\n"
    assert str(added_and_gone(text)) == text.replace("## Fixes\n", f"## Fixes\n\n{NEW_BLOCK}\n")


@pytest.mark.parametrize("heading", ["Gotchas", "Guardrails", "Signs", "failures", "Fixes and more", "Fixe"])
def test_another_word_for_a_kind_is_not_our_section(heading: str) -> None:
    text = f"## Patterns\n\n## {heading}\n"
    assert str(added_and_gone(text)).startswith(f"{text.rstrip()}\n\n## Fixes\n")
    assert problem(text, "missing-section").what.endswith("Decisions, Fixes, Context")


@pytest.mark.parametrize("heading", ["### Sign:", "### SIGN:", "### 🛑 Sign: ", "  ### Sign: ###"])
@pytest.mark.parametrize("body", ["- **Trigger**: x\n", "\nwords\n", "> a quote\n", "#### Why\n", "```\ncode\n```\n"])
def test_a_sign_without_a_name_is_told_and_not_read(heading: str, body: str) -> None:
    text = f"## Fixes\n\n{heading}\n{body}\n### Sign: x\n- do\n\n## Decisions\n\n## Patterns\n"
    assert [entry.record.title for entry in parse_memories(text, GUARDRAILS).entries] == ["x"]
    assert told(text, GUARDRAILS) == [(3, "error", "nameless-sign")]


def test_a_sign_with_neither_name_nor_body_is_a_plain_heading() -> None:
    text = f"## Fixes\n\n### Sign:\n\n{NEXT}\nprose\n"
    assert told(text, GUARDRAILS) == [(1, "note", "plain-heading")]
    assert told("### Sign:\n", GUARDRAILS) == []


def test_a_nul_is_told_with_its_line_and_kept() -> None:
    text = f"## Fixes\n\n{NEXT.replace('two', 't' + chr(0) + 'wo')}"
    assert told(text) == [(4, "warning", "nul")]
    added_and_gone(text)


def test_a_file_with_an_unresolved_merge_is_not_mended() -> None:
    text = f"## Fixes\n\n<<<<<<< HEAD\n{NEXT}=======\n{NEXT.replace('two', 'three')}>>>>>>> b\n"
    document = parse_memories(text)
    assert document.has_conflict
    assert document.with_unique_ids(lambda _: "mem-1-z") is document
    assert document.with_all_sections() is document
    assert "resolve the merge" in problem(text, "duplicate-id").hint


def test_a_marker_that_is_only_shown_is_no_merge() -> None:
    text = f"## Fixes\n\n{NEXT}\n```\n<<<<<<< HEAD\n```\n\n> <<<<<<< HEAD\n\nTitle\n=======\n\n{NEXT}"
    document = parse_memories(text)
    assert not document.has_conflict
    mended = document.with_unique_ids(lambda _: "mem-1-z").with_all_sections()
    assert [entry.record.id for entry in mended.entries] == [SECOND, "mem-1-z"]
    assert "## Context" in str(mended)
