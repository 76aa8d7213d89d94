"""memories.md and guardrails.md: the golden files, and the cases that people's files and bug reports call for.

Each test is one sentence about the format; the laws that hold for every text are in
`test_memories_laws.py`, the legacy Signs in `test_memories_signs.py`, what is torn, hidden or not read in
`test_memories_problems.py`, size and real files in `test_memories_files.py`.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.formats.golden import cases, expected, seen, text_of

from ralph.errors import Conflict, NotFound, Refused
from ralph.formats.memories import (
    GUARDRAILS,
    MEMORIES,
    Layout,
    MemoriesDocument,
    check_record,
    parse_memories,
    render_block,
    render_memories,
)
from ralph.model.record import Link, MemoryKind, Origin, Record

FIX, DECISION, PATTERN, CONTEXT = MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN, MemoryKind.CONTEXT
NEW = Record("mem-1705751400-ffff", FIX, "new words", label="fix", tags=("a", "b"), created_at="2025-01-20")
NEW_BLOCK = "### mem-1705751400-ffff\n> new words\n<!-- tags: a, b | created: 2025-01-20 -->"
ONE = "### mem-1-a\n> one\n<!-- tags: x | created: 2025-01-15 -->"


def of_kind(kind: MemoryKind) -> Record:
    return replace(NEW, kind=kind, label=kind.value)


def records(text: str, layout: Layout = MEMORIES) -> list[Record]:
    return [entry.record for entry in parse_memories(text, layout).entries]


def said(text: str) -> list[str]:
    return [record.text for record in records(text)]


def codes(text: str) -> list[tuple[int, str]]:
    return [
        (problem.line, problem.code) for problem in parse_memories(text).problems if problem.code != "missing-section"
    ]


def layout_of(path: Path) -> Layout:
    return GUARDRAILS if path.name.startswith("guardrails") else MEMORIES


def added_and_gone(text: str, record: Record = NEW) -> MemoriesDocument:
    """The document with the record, after proving that removing it restores every byte."""
    added = parse_memories(text).add(record)
    assert [entry.record for entry in added.entries if entry.record.id == record.id] == [record]
    assert str(added.remove(record.id)) == text
    return added


@pytest.mark.parametrize("path", cases("sections"), ids=lambda path: path.stem)
def test_a_golden_file_reads_as_expected(path: Path) -> None:
    document = parse_memories(text_of(path), layout_of(path))
    assert str(document) == text_of(path)
    assert {"format": document.format, **_plain(seen(document))} == expected(path)


def _plain(found: object) -> dict[str, object]:
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", cases("sections"), ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", MemoryKind)
def test_every_golden_file_survives_add_and_remove_byte_for_byte(path: Path, kind: MemoryKind) -> None:
    text = text_of(path)
    before = parse_memories(text, layout_of(path))
    added = before.add(of_kind(kind))
    assert [entry.record for entry in added.entries if entry.record.id != NEW.id] == [
        entry.record for entry in before.entries
    ]
    if text.strip():
        assert str(added.remove(NEW.id)) == text


@pytest.mark.parametrize("path", cases("sections"), ids=lambda path: path.stem)
def test_every_golden_file_can_get_its_missing_sections(path: Path) -> None:
    before = parse_memories(text_of(path), layout_of(path))
    after = before.with_all_sections()
    assert [entry.record for entry in after.entries] == [entry.record for entry in before.entries]
    assert before.has_conflict or "missing-section" not in {problem.code for problem in after.problems}


def test_a_new_memories_file_has_four_sections_and_guardrails_three() -> None:
    assert MEMORIES.template() == "# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n"
    assert GUARDRAILS.template() == "# Guardrails\n\n## Fixes\n\n## Decisions\n\n## Patterns\n"
    assert MEMORIES.id_prefix(FIX) == "mem"
    assert GUARDRAILS.id_prefix(FIX) == "fix"


def test_an_entry_is_written_as_heading_quote_and_comment() -> None:
    assert render_block(NEW) == NEW_BLOCK
    assert render_block(replace(NEW, text="a\n\nb", tags=())) == (
        "### mem-1705751400-ffff\n> a\n>\n> b\n<!-- tags:  | created: 2025-01-20 -->"
    )


def test_further_metadata_is_written_and_read_in_any_order() -> None:
    rich = replace(
        NEW, updated_at="2025-02-01", valid_until="2026-01-01", origin=Origin(by="agent"),
        links=(Link("supersedes", "mem-1-a"),), extra={"source": "src/x.py:3", "seen": None},
    )  # fmt: skip
    assert records(render_memories([rich])) == [rich]
    turned = "## Fixes\n### mem-1705751400-ffff\n> new words\n<!--  created:2025-01-20|TAGS: a ,b,  -->\n"
    assert records(turned) == [NEW]


def test_an_unknown_key_survives_a_replace() -> None:
    text = "## Fixes\n\n### mem-1-a\n> one\n<!-- tags: x | created: 2025-01-15 | mood: fine | odd -->\n"
    changed = parse_memories(text).replace("mem-1-a", replace(records(text)[0], text="two"))
    assert str(changed) == text.replace("> one", "> two")


def test_blank_lines_inside_a_text_survive_a_round_trip() -> None:
    added = added_and_gone("## Fixes\n", replace(NEW, text="\na\n\n\nb\n"))
    assert ">\n> a\n>\n>\n> b\n>\n" in str(added)


def test_without_metadata_there_are_no_tags_and_the_date_is_that_of_the_id() -> None:
    assert [(record.tags, record.created_at) for record in records("### mem-1705751400-a3f8\n> x\n")] == [
        ((), "2024-01-20")
    ]
    assert records("### mem-99999999999999-a3f8\n> x\n")[0].created_at == ""
    assert records("### mem-1705751400-a3f8\n> x\n<!-- tags: y -->")[0].created_at == "2024-01-20"


@pytest.mark.parametrize("heading", ["### mem-bad", "### mem-1705751400", "#### mem-2-b", "## mem-2-b", "###mem-2-b"])
def test_a_malformed_id_is_reported_and_its_neighbours_are_untouched(heading: str) -> None:
    lost = f"{heading}\n> lost\n<!-- tags: lost | created: 1999-01-01 -->"
    text = f"## Fixes\n\n{ONE}\n\n{lost}\n\n## Fixes\n\n### mem-3-c\n> three\n"
    assert [(record.id, record.text, record.tags) for record in records(text)] == [
        ("mem-1-a", "one", ("x",)),
        ("mem-3-c", "three", ()),
    ]
    assert (7, "malformed-id") in codes(text)
    assert heading + "\n> lost\n" in str(added_and_gone(text))


def test_a_malformed_id_below_an_entry_without_metadata_gives_it_none() -> None:
    assert [
        (record.text, record.tags) for record in records("### mem-1-a\n> one\n### mem-bad\n> no\n<!-- tags: no -->\n")
    ] == [("one", ())]


def test_two_entries_with_one_id_are_both_read_and_neither_is_changed_by_guess() -> None:
    text = f"## Fixes\n\n{ONE}\n\n{ONE.replace('one', 'two')}\n"
    assert said(text) == ["one", "two"]
    assert codes(text) == [(7, "duplicate-id")]
    with pytest.raises(Conflict, match="lines 3, 7"):
        parse_memories(text).remove("mem-1-a")
    assert (
        str(parse_memories(text).with_unique_ids(lambda _: "mem-1-b"))
        == text[::-1].replace("a-1-mem", "b-1-mem", 1)[::-1]
    )


def test_an_id_that_is_there_cannot_be_added_again() -> None:
    with pytest.raises(Refused):
        parse_memories("## Fixes\n\n" + NEW_BLOCK).add(NEW)


def test_an_id_that_is_not_there_cannot_be_removed_or_replaced() -> None:
    with pytest.raises(NotFound):
        parse_memories(ONE).remove("mem-9-z")
    with pytest.raises(NotFound):
        parse_memories(ONE).replace("mem-9-z", NEW)


def test_an_entry_without_text_is_read_and_reported() -> None:
    assert said("### mem-1-a\n<!-- tags: x -->\n\n### mem-2-b\n> two\n") == ["", "two"]
    assert codes("### mem-1-a\n") == [(1, "no-text")]


def test_bullets_outside_entries_are_reported_but_bold_words_are_none() -> None:
    text = f"## Fixes\n\n- a\n* b\n**bold**\n-->\n\n{ONE}\n- c\n"
    assert codes(text) == [(1, "loose-bullets")]
    assert "3 bullet(s)" in next(
        problem.what for problem in parse_memories(text).problems if problem.code == "loose-bullets"
    )


def test_any_word_digits_and_alphanumerics_start_a_block() -> None:
    found = "### mem-1-XYZ\n> a\n\n### note-22-zzzz9\n> b\n\n  ### fix-3-0 ###\n> c\n"
    assert [record.id for record in records(found)] == ["mem-1-XYZ", "note-22-zzzz9", "fix-3-0"]


@pytest.mark.parametrize(
    ("heading", "kind", "label"),
    [
        ("Fixes", FIX, "fix"), ("Fixes ##", FIX, "fix"), ("Patterns", PATTERN, "pattern"), ("Gotchas", FIX, "Gotchas"),
        ("codebase  patterns", PATTERN, "codebase  patterns"), ("Contextual", DECISION, "Contextual"),
        ("fixes", FIX, "fixes"),
        ("Lessons", DECISION, "Lessons"), ("Sign", FIX, "Sign"), ("", DECISION, ""),
    ],
)  # fmt: skip
def test_the_heading_gives_the_kind_and_else_the_prefix_of_the_id(heading: str, kind: MemoryKind, label: str) -> None:
    found = records(f"## {heading}\n### decision-1-a\n> x\n")[0]
    assert (found.kind, found.label) == (kind, label)
    again = records(render_memories([found]))[0]
    assert (again.kind, again.text, again.id) == (kind, "x", "decision-1-a")


def test_a_prefix_that_is_no_kind_means_context() -> None:
    assert records("## Lessons\n### mem-1-a\n> x\n")[0].kind == CONTEXT


def test_an_entry_goes_to_the_end_of_its_section() -> None:
    text = f"# M\n\n## Fixes\n\n{ONE}\n\nsome prose\n\n## Context\n"
    assert str(added_and_gone(text)) == f"# M\n\n## Fixes\n\n{ONE}\n\nsome prose\n\n{NEW_BLOCK}\n\n## Context\n"


def test_a_closing_rule_and_what_follows_it_stay_below() -> None:
    text = f"## Fixes\n\n{ONE}\n\n---\n\n_kept by the agents_\n"
    assert str(added_and_gone(text)) == f"## Fixes\n\n{ONE}\n\n{NEW_BLOCK}\n\n---\n\n_kept by the agents_\n"


@pytest.mark.parametrize(
    "trap",
    [
        "> see\n> ## Fixes", "```\n## Fixes\n```", "<!--\n## Fixes\n-->", "<!-- ## Fixes -->", "### Fixes",
        "#### Fixes", "the section ## Fixes", "## Fixes and more", "    ## Fixes", "##Fixes",
    ],
)  # fmt: skip
def test_a_section_that_is_only_named_somewhere_is_not_the_section(trap: str) -> None:
    text = f"# Memories\n\n## Patterns\n\n{trap}\n\n## Fixes\n\n## Context\n"
    assert str(added_and_gone(text)) == text.replace("\n## Fixes\n\n## C", f"\n## Fixes\n\n{NEW_BLOCK}\n\n## C")


def test_a_missing_section_is_made_at_the_end_and_goes_with_its_entry() -> None:
    text = f"# Memories\n\n## Patterns\n\n{ONE}\n"
    made = f"\n\n## Fixes\n\n{NEW_BLOCK.replace(' -->', ' | section: added -->')}\n"
    assert str(added_and_gone(text)) == text.rstrip("\n") + made


def test_a_section_that_was_made_stays_when_something_else_moved_in() -> None:
    two = parse_memories("# M\n").add(NEW).add(replace(NEW, id="mem-2-b"))
    assert "## Fixes" in str(two.remove(NEW.id))
    assert str(two.remove("mem-2-b").remove(NEW.id)) == "# M\n"
    prose = parse_memories(str(parse_memories("# M\n").add(NEW)) + "\nwords of a person\n")
    assert "## Fixes\n\nwords of a person" in str(prose.remove(NEW.id)).replace("\n\n\n", "\n\n")


def test_an_edit_keeps_the_mark_of_a_made_section() -> None:
    edited = parse_memories("# M\n").add(NEW).replace(NEW.id, replace(NEW, text="other"))
    assert str(edited.remove(NEW.id)) == "# M\n"


@pytest.mark.parametrize(
    ("text", "before"),
    [
        (f"## Fixes\n\n{ONE}\n\n```sh\necho cut off", "```sh"),
        (f"## Fixes\n\n{ONE}\n\n<!-- cut off\n", "<!-- cut"),
        ("## Fixes\n\n### Sign: x\n- do\n```\ncut off\n", "### Sign: x"),
        ("## Patterns\n\n### mem-1-a\nplain\n```\ncut off\n", "## Patterns"),
        (f"## Fixes\n\n{ONE}\n\n<<<<<<< HEAD\n### mem-2-b\n> two\n", "<<<<<<<"),
        (f"## Fixes\n\n<<<<<<< HEAD\n{ONE}\n=======\n### mem-2-b\n> two\n>>>>>>> b\n", "<<<<<<<"),
        ("## Patterns\n<<<<<<< HEAD\n### mem-2-b\n> two\n", "## Patterns"),
        ("\ufeff<<<<<<< HEAD\n", "<<<<<<<"), ("\ufeff## Context\n\n### mem-2-b\n```\n", "## Context"),
    ],
)  # fmt: skip
def test_nothing_is_put_into_an_unclosed_fence_or_comment_or_a_conflict(text: str, before: str) -> None:
    after = str(added_and_gone(text))
    assert after.index(NEW_BLOCK[:20]) < after.index(before)


def test_a_section_inside_a_conflict_takes_no_entry() -> None:
    text = f"## Fixes\n<<<<<<< HEAD\n{ONE}\n=======\n## Decisions\n### mem-2-b\n> two\n>>>>>>> b\n\n## Patterns\n"
    added = added_and_gone(text, of_kind(DECISION))
    assert str(added).index(">>>>>>> b") < str(added).index(NEW.id)


def test_conflict_markers_are_reported_and_both_sides_are_read() -> None:
    text = f"## Fixes\n<<<<<<< HEAD\n{ONE}\n||||||| base\n=======\n### mem-2-b\n> two\n>>>>>>> b\n"
    assert said(text) == ["one", "two"]
    assert codes(text) == [(2, "conflict")]


def test_an_entry_that_a_conflict_runs_through_is_neither_replaced_nor_removed() -> None:
    text = "<<<<<<< HEAD\n### mem-1-a\n> one\n=======\n### mem-2-b\n> two\n>>>>>>> b\n<!-- tags: x -->\n"
    assert said(text) == ["one", "two"]
    with pytest.raises(Refused, match="merge"):
        parse_memories(text).remove("mem-2-b")
    with pytest.raises(Refused, match="merge"):
        parse_memories(text).replace("mem-2-b", replace(records(text)[1], text="x"))
    assert said(str(parse_memories(text).remove("mem-1-a"))) == ["two"]
    assert str(parse_memories(f"{ONE}\n\n### mem-2-b\nHeading\n=======\nwords\n").remove("mem-2-b")) == ONE + "\n"


@pytest.mark.parametrize("tail", ["prose right below", "prose right below\n", "> a quote below", "- a list\n"])
def test_what_stands_right_below_an_entry_never_joins_the_one_above_it(tail: str) -> None:
    text = f"### mem-2-b\n> two\n\n{ONE}\n{tail}"
    try:
        after = str(parse_memories(text).remove("mem-1-a"))
    except Refused:
        assert tail.startswith(">")
        return
    assert said(after) == ["two"]
    assert after.endswith(tail)


@pytest.mark.parametrize(
    "prose",
    [
        "Hand-written words  \n", "* a list\n    * nested\n", "\n\n\n", "| a | b |\n|---|---|\n", "Setext\n======\n",
        "<details>\n<summary>x</summary>\n</details>\n", "\t\n \n", "## Todo\n\n- [ ] x\n", "---\nyaml: 1\n---\n",
    ],
)  # fmt: skip
def test_prose_and_unknown_sections_survive_add_and_remove(prose: str) -> None:
    for text in (
        f"{prose}\n## Fixes\n\n{ONE}\n",
        f"## Fixes\n\n{ONE}\n\n{prose}",
        f"## Fixes\n{prose}\n## Context\n",
    ):
        for whole in (text, text.replace("\n", "\r\n"), "\ufeff" + text, text.rstrip("\n")):
            added_and_gone(whole)
            added_and_gone(whole, of_kind(DECISION))


def test_windows_line_ends_are_written_into_a_file_that_has_them() -> None:
    after = str(added_and_gone("# M\r\n\r\n## Fixes\r\n", replace(NEW, text="a\n\nb")))
    assert after.count("\n") == after.count("\r\n") == 9


def test_mixed_line_ends_leave_no_stray_carriage_return() -> None:
    text = "\n## Fixes\r\n\r\n### mem-1-a\r\n> one\r\n\r\n### mem-2-b\r\n> two\r\n"
    assert str(parse_memories(text).remove("mem-2-b")) == "\n## Fixes\r\n\r\n### mem-1-a\r\n> one\r\n"


@pytest.mark.parametrize("comment", ["<!-->", "<!--->", "<!-- x -->", "<!---->"])
def test_a_comment_that_is_closed_on_its_line_hides_nothing(comment: str) -> None:
    assert said(f"{comment}\n{ONE}\n") == ["one"]


@pytest.mark.parametrize("text", ["a\0b", "a\rb", "a\r\nb"])
def test_a_text_that_the_file_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="NUL or carriage return"):
        parse_memories("## Fixes\n").add(replace(NEW, text=text))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(NEW, tags=("a-->b",)), replace(NEW, tags=("a|b",)), replace(NEW, tags=("a,b",)),
        replace(NEW, tags=(" a",)),
        replace(NEW, tags=("",)), replace(NEW, tags=("a\nb",)), replace(NEW, id="mem-x"), replace(NEW, id="mem-1-a\n"),
        replace(NEW, extra={"k": "a | b"}), replace(NEW, extra={"k\n### mem-9-z": "v"}),
        replace(NEW, valid_until="a-->"),
        replace(NEW, label="x\n\n### mem-9-z"), replace(NEW, links=(Link("supersedes", "a|b"),)),
    ],
)  # fmt: skip
def test_what_cannot_stand_in_heading_or_metadata_is_refused_with_a_reason(wrong: Record) -> None:
    with pytest.raises(Refused) as refused:
        check_record(wrong)
    assert refused.value.hint


def test_a_date_that_is_none_is_refused_on_writing_and_reported_on_reading() -> None:
    with pytest.raises(Refused):
        parse_memories("## Fixes\n").add(replace(NEW, created_at="yesterday"))
    for date in ("yesterday", "2025-13-01", "2025-00-10", ""):
        text = f"## Fixes\n### mem-1705751400-a3f8\n> x\n<!-- tags: a | created: {date} -->\n"
        assert codes(text) == [(2, "bad-date")]
        assert records(text)[0].created_at == "2024-01-20"


def test_bytes_that_are_no_utf8_are_kept_and_reported() -> None:
    text = "## Fixes\n\n### mem-1-a\n> caf\udce9\n"
    assert codes(text) == [(4, "not-utf8")]
    added_and_gone(text)


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("", "empty"), ("# Guardrails\n\nwords\n", "empty"), ("## Fixes\n", "structured"),
        ("### fix-1-a\n> x\n", "structured"),
        ("## Signs\n\n### Sign: x\n", "legacy"), ("### Sign: x\n\n### fix-1-a\n> x\n", "mixed"),
        ("## Fixes\n\n### Sign: x\n", "mixed"), ("<!--\n### Sign: x\n-->\n", "empty"),
        ("## Sign\n### fix-1-a\n> x\n", "structured"),
    ],
)  # fmt: skip
def test_the_format_is_detected(text: str, format_: str) -> None:
    assert parse_memories(text, GUARDRAILS).format == format_
