"""memories.md and guardrails.md: golden files, entries, sections, and legacy Signs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.golden import cases, expected, rows, text_of
from tests.support.laws import restores
from tests.support.memory_pages import ids, record

from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import Link, MemoryKind, Origin, Record
from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout, MemoriesDocument, parse_memories
from ralph.formats.memories_writer import check_record, is_sign, render_block, render_memories

FIX, DECISION, PATTERN, CONTEXT = (
    MemoryKind.FIX,
    MemoryKind.DECISION,
    MemoryKind.PATTERN,
    MemoryKind.CONTEXT,
)
NEW = Record(
    "mem-1705751400-ffff", FIX, "new words", label="fix", tags=("a", "b"), created_at="2025-01-20"
)
NEW_BLOCK = "### mem-1705751400-ffff\n> new words\n<!-- tags: a, b | created: 2025-01-20 -->"
ONE = "### mem-1-a\n> one\n<!-- tags: x | created: 2025-01-15 -->"


def of_kind(kind: MemoryKind) -> Record:
    return replace(NEW, kind=kind, label=kind.value)


def records(text: str, layout: Layout = MEMORIES) -> list[Record]:
    return [entry.record for entry in parse_memories(text, layout).entries]


def texts_of(text: str) -> list[str]:
    return [record.text for record in records(text)]


def codes(text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.code) for problem in parse_memories(text).problems]


def layout_of(path: Path) -> Layout:
    return GUARDRAILS if path.name.startswith("guardrails") else MEMORIES


def added_and_gone(text: str, record: Record = NEW) -> MemoriesDocument:
    """The document with the record, after proving that removing it restores every byte."""
    added = parse_memories(text).add(record)
    assert [entry.record for entry in added.entries if entry.record.id == record.id] == [record]
    restores(str(added.remove(record.id)), text)
    return added


@pytest.mark.parametrize("path", cases("sections"), ids=lambda path: path.stem)
def test_a_golden_file_reads_as_expected(path: Path) -> None:
    document = parse_memories(text_of(path), layout_of(path))
    assert str(document) == text_of(path)
    assert {"format": document.format, **_as_dict(rows(document))} == expected(path)


def _as_dict(found: object) -> dict[str, object]:
    assert isinstance(found, dict)
    return found


@for_each("path", cases("sections"))
@for_each("kind", MemoryKind)
def test_every_golden_file_survives_add_and_remove_byte_for_byte(
    path: Path, kind: MemoryKind
) -> None:
    text = text_of(path)
    before = parse_memories(text, layout_of(path))
    added = before.add(of_kind(kind))
    assert [entry.record for entry in added.entries if entry.record.id != NEW.id] == [
        entry.record for entry in before.entries
    ]
    if text.strip():
        restores(str(added.remove(NEW.id)), text)


def test_a_new_memories_file_has_four_sections_and_guardrails_three() -> None:
    assert (
        MEMORIES.template()
        == "# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n"
    )
    assert GUARDRAILS.template() == "# Guardrails\n\n## Fixes\n\n## Decisions\n\n## Patterns\n"


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
    assert [
        (record.tags, record.created_at) for record in records("### mem-1705751400-a3f8\n> x\n")
    ] == [((), "2024-01-20")]
    assert records("### mem-99999999999999-a3f8\n> x\n")[0].created_at == ""
    assert records("### mem-1705751400-a3f8\n> x\n<!-- tags: y -->")[0].created_at == "2024-01-20"


@pytest.mark.parametrize(
    "heading", ["### mem-bad", "### mem-1705751400", "#### mem-2-b", "## mem-2-b", "###mem-2-b"]
)
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
        (record.text, record.tags)
        for record in records("### mem-1-a\n> one\n### mem-bad\n> no\n<!-- tags: no -->\n")
    ] == [("one", ())]


def test_two_entries_with_one_id_are_both_read_and_neither_is_changed_by_guess() -> None:
    text = f"## Fixes\n\n{ONE}\n\n{ONE.replace('one', 'two')}\n"
    assert texts_of(text) == ["one", "two"]
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
    assert texts_of("### mem-1-a\n<!-- tags: x -->\n\n### mem-2-b\n> two\n") == ["", "two"]
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
def test_the_heading_gives_the_kind_and_else_the_prefix_of_the_id(
    heading: str, kind: MemoryKind, label: str
) -> None:
    found = records(f"## {heading}\n### decision-1-a\n> x\n")[0]
    assert (found.kind, found.label) == (kind, label)
    again = records(render_memories([found]))[0]
    assert (again.kind, again.text, again.id) == (kind, "x", "decision-1-a")


def test_a_prefix_that_is_no_kind_means_context() -> None:
    assert records("## Lessons\n### mem-1-a\n> x\n")[0].kind == CONTEXT


def test_an_entry_goes_to_the_end_of_its_section() -> None:
    text = f"# M\n\n## Fixes\n\n{ONE}\n\nsome prose\n\n## Context\n"
    assert (
        str(added_and_gone(text))
        == f"# M\n\n## Fixes\n\n{ONE}\n\nsome prose\n\n{NEW_BLOCK}\n\n## Context\n"
    )


@pytest.mark.parametrize("size", [1, 39, 40, 400])
def test_an_entry_goes_to_the_end_of_its_section_whatever_its_size(size: int) -> None:
    old = [record(number) for number in range(size)]
    document = parse_memories(render_memories(old)).add(record(size)).add(record(size + 1))
    assert ids(str(document)) == [record(number).id for number in range(size + 2)]


def test_a_closing_rule_and_what_follows_it_stay_below() -> None:
    text = f"## Fixes\n\n{ONE}\n\n---\n\n_kept by the agents_\n"
    assert (
        str(added_and_gone(text))
        == f"## Fixes\n\n{ONE}\n\n{NEW_BLOCK}\n\n---\n\n_kept by the agents_\n"
    )


@pytest.mark.parametrize(
    "trap",
    [
        "> see\n> ## Fixes", "```\n## Fixes\n```", "<!--\n## Fixes\n-->", "<!-- ## Fixes -->", "### Fixes",
        "#### Fixes", "the section ## Fixes", "## Fixes and more", "    ## Fixes", "##Fixes",
    ],
)  # fmt: skip
def test_a_section_that_is_only_named_somewhere_is_not_the_section(trap: str) -> None:
    text = f"# Memories\n\n## Patterns\n\n{trap}\n\n## Fixes\n\n## Context\n"
    assert str(added_and_gone(text)) == text.replace(
        "\n## Fixes\n\n## C", f"\n## Fixes\n\n{NEW_BLOCK}\n\n## C"
    )


def test_a_missing_section_is_made_at_the_end_and_stays_without_its_entry() -> None:
    text = f"# Memories\n\n## Patterns\n\n{ONE}\n"
    added = added_and_gone(text)
    assert str(added) == text + f"\n## Fixes\n\n{NEW_BLOCK}\n"
    assert str(added.remove(NEW.id)) == text + "\n## Fixes\n"


def test_the_mark_of_an_older_version_is_kept() -> None:
    marked = NEW_BLOCK.replace(" -->", " | section: added -->")
    edited = parse_memories(f"## Fixes\n\n{marked}\n")
    assert "section: added" in str(
        edited.replace(NEW.id, replace(edited.entries[0].record, text="other"))
    )


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
def test_nothing_is_put_into_an_unclosed_fence_or_comment_or_a_conflict(
    text: str, before: str
) -> None:
    after = str(added_and_gone(text))
    assert after.index(NEW_BLOCK[:20]) < after.index(before)


def test_a_section_inside_a_conflict_takes_no_entry() -> None:
    text = f"## Fixes\n<<<<<<< HEAD\n{ONE}\n=======\n## Decisions\n### mem-2-b\n> two\n>>>>>>> b\n\n## Patterns\n"
    added = added_and_gone(text, of_kind(DECISION))
    assert str(added).index(">>>>>>> b") < str(added).index(NEW.id)


def test_conflict_markers_are_reported_and_both_sides_are_read() -> None:
    text = f"## Fixes\n<<<<<<< HEAD\n{ONE}\n||||||| base\n=======\n### mem-2-b\n> two\n>>>>>>> b\n"
    assert texts_of(text) == ["one", "two"]
    assert codes(text) == [(2, "conflict")]


def test_an_entry_that_a_conflict_runs_through_is_neither_replaced_nor_removed() -> None:
    text = "<<<<<<< HEAD\n### mem-1-a\n> one\n=======\n### mem-2-b\n> two\n>>>>>>> b\n<!-- tags: x -->\n"
    assert texts_of(text) == ["one", "two"]
    with pytest.raises(Refused, match="merge"):
        parse_memories(text).remove("mem-2-b")
    with pytest.raises(Refused, match="merge"):
        parse_memories(text).replace("mem-2-b", replace(records(text)[1], text="x"))
    assert texts_of(str(parse_memories(text).remove("mem-1-a"))) == ["two"]
    assert (
        str(parse_memories(f"{ONE}\n\n### mem-2-b\nHeading\n=======\nwords\n").remove("mem-2-b"))
        == ONE + "\n"
    )


@pytest.mark.parametrize(
    "tail", ["prose right below", "prose right below\n", "> a quote below", "- a list\n"]
)
def test_what_stands_right_below_an_entry_never_joins_the_one_above_it(tail: str) -> None:
    text = f"### mem-2-b\n> two\n\n{ONE}\n{tail}"
    try:
        after = str(parse_memories(text).remove("mem-1-a"))
    except Refused:
        assert tail.startswith(">")
        return
    assert texts_of(after) == ["two"]
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
    assert (
        str(parse_memories(text).remove("mem-2-b")) == "\n## Fixes\r\n\r\n### mem-1-a\r\n> one\r\n"
    )


@pytest.mark.parametrize("comment", ["<!-->", "<!--->", "<!-- x -->", "<!---->"])
def test_a_comment_that_is_closed_on_its_line_hides_nothing(comment: str) -> None:
    assert texts_of(f"{comment}\n{ONE}\n") == ["one"]


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


# --- legacy Signs ---

NEW_FIX = Record(
    "fix-1705751400-ffff", MemoryKind.FIX, "new", label="fix", tags=("a",), created_at="2025-01-20"
)


def signs(text: str) -> list[Record]:
    found = [entry.record for entry in parse_memories(text, GUARDRAILS).entries]
    assert all(record.kind == MemoryKind.FIX for record in found)
    return [record for record in found if is_sign(record)]


def bodies(text: str) -> list[tuple[str, str]]:
    return [(record.title, record.text) for record in signs(text)]


def test_one_sign_is_a_fix_with_its_name_as_title_and_its_body_as_text() -> None:
    body = "- **Trigger**: a change\n- **Instruction**: read it\n- **Added after**: run 3"
    found = signs(f"# Signs\n\n### Sign: Look first\n{body}\n")
    assert len(found) == 1
    assert (found[0].id, found[0].label, found[0].title) == (
        "sign-look-first",
        "Sign",
        "Look first",
    )
    assert found[0].text == body
    assert (found[0].created_at, found[0].tags) == ("", ())


def test_many_signs_with_and_without_blank_lines_between_them_are_kept_apart() -> None:
    text = "### Sign: a\n- one\n### Sign: b\n\n- two\n\n\n- three\n\n### Sign: c\n\n\n## Next\n\nwords\n"
    assert bodies(text) == [("a", "- one"), ("b", "- two\n\n\n- three"), ("c", "")]


@pytest.mark.parametrize(
    "heading",
    ["### Sign: x y", "### SIGN: x y", "### sign:x y", "### 🛑 SIGN: x y", "### ⚠️ Sign:  x y ", "###  Sign: x y ###",
     "  ### Sign: x y", "### 👩‍💻 Sign: x y", "### [!] Sign: x y"],
)  # fmt: skip
def test_the_heading_may_be_shouted_or_carry_an_emoji(heading: str) -> None:
    assert bodies(f"{heading}\nwords\n") == [("x y", "words")]
    assert signs(f"{heading}\nwords\n")[0].id == "sign-x-y"


@pytest.mark.parametrize(
    "heading",
    ["### Signs: x", "### Sign x", "## Sign: x", "#### Sign: x", "### Design: x", "### Sign:"],
)
def test_other_headings_are_no_signs(heading: str) -> None:
    assert bodies(f"{heading}\nwords\n") == []


def test_numbered_lists_and_fences_inside_an_instruction_belong_to_it() -> None:
    body = (
        "- **Instruction**:\n  1. stop it\n     ```sh\n     # a comment\n     ### mem-1-a\n     ```\n  2. start it\n\n"
        "   ```\n### Sign: not one\n## Fixes\n   ```\n\n~~~\n---\n~~~\n\n"
        "   > a quote\n\n> and another\n\n    indented code"
    )
    assert bodies(f"### Sign: x\n{body}\n\n### Sign: y\nz\n") == [("x", body), ("y", "z")]


def test_smaller_headings_and_free_paragraphs_belong_to_the_sign() -> None:
    body = "Free words.\n\nMore of them.\n\n#### Why\n\nBecause."
    assert bodies(f"### Sign: x\n\n{body}\n") == [("x", body)]


def test_do_and_dont_and_learned_from_are_part_of_the_text() -> None:
    body = "**Do**: push a branch\n**Don't**: rewrite history\n\n- **Learned from**: two lost days"
    assert bodies(f"### Sign: x\n{body}\n") == [("x", body)]


@pytest.mark.parametrize(
    "end", ["---", "## Next", "# Title", "### A plain heading", "<!-- note -->", "### fix-1-a"]
)
def test_a_sign_ends_at_a_rule_a_heading_or_a_comment(end: str) -> None:
    assert bodies(f"### Sign: x\nwords\n\n{end}\n\nother words\n") == [("x", "words")]


def test_a_sign_inside_a_comment_or_a_fence_is_an_example() -> None:
    assert bodies("<!--\n### Sign: x\nwords\n-->\n\n```\n### Sign: y\n```\n") == []


def test_metadata_below_a_sign_are_read() -> None:
    text = "## Fixes\n\n### Sign: x\nwords\n\n<!-- tags: a, b | created: 2025-01-20 -->\n"
    assert [(record.tags, record.created_at, record.text) for record in signs(text)] == [
        (("a", "b"), "2025-01-20", "words")
    ]


def test_structured_and_legacy_entries_in_one_file_are_all_read() -> None:
    text = "## Fixes\n\n### fix-1-a\n> one\n\n### Sign: two\n- two\n\n### fix-3-c\n> three\n"
    document = parse_memories(text, GUARDRAILS)
    assert document.format == "mixed"
    assert [entry.record.id for entry in document.entries] == ["fix-1-a", "sign-two", "fix-3-c"]
    added = document.add(NEW_FIX)
    assert str(added).startswith(text.rstrip("\n"))
    restores(str(added.remove(NEW_FIX.id)), text)


def test_adding_never_rewrites_a_sign() -> None:
    text = "# Signs\r\n\r\n### SIGN:  odd  spacing \r\n * do\r\n\r\n\r\n---\r\n\r\nwords"
    added = parse_memories(text, GUARDRAILS).add(NEW_FIX)
    assert str(added).startswith(text)
    restores(str(added.remove(NEW_FIX.id)), text)


def test_a_sign_is_not_edited_in_place() -> None:
    with pytest.raises(Refused, match="legacy Sign") as refused:
        parse_memories("### Sign: x\nwords\n", GUARDRAILS).replace("sign-x", NEW_FIX)
    assert "ralph doctor --fix" in refused.value.hint


def test_a_sign_can_be_removed_and_its_neighbours_stay() -> None:
    text = "### Sign: a\none\n\n### Sign: b\ntwo\n\n### fix-1-a\n> three\n"
    assert (
        str(parse_memories(text, GUARDRAILS).remove("sign-b"))
        == "### Sign: a\none\n\n### fix-1-a\n> three\n"
    )


def test_each_of_several_signs_with_one_name_can_be_removed() -> None:
    text = "### Sign: a\none\n\n### Sign: a\ntwo\n\n### Sign: a\nthree\n"
    assert [record.id for record in signs(text)] == ["sign-a", "sign-a-2", "sign-a-3"]
    for gone, left in (
        ("sign-a", ["two", "three"]),
        ("sign-a-2", ["one", "three"]),
        ("sign-a-3", ["one", "two"]),
    ):
        assert [record.text for record in signs(str(parse_memories(text).remove(gone)))] == left


def test_ids_from_names_are_never_those_of_another_entry() -> None:
    names = ["Sign: a", "Sign: a", "Sign: a 2", "Sign: 2024 abc", "sign-2024-abc", "Sign: 2024 abc"]
    text = "".join(f"### {name}\n> words\n\n" for name in names)
    document = parse_memories(text, GUARDRAILS)
    ids = [entry.record.id for entry in document.entries]
    assert len(set(ids)) == len(ids)
    assert "duplicate-id" not in {problem.code for problem in document.problems}
    assert str(document.with_unique_ids(lambda _: "new-1-a")) == text


def test_a_name_without_letters_still_gives_an_id() -> None:
    found = signs("### Sign: ???\na\n\n### Sign: !!!\nb\n\n### Sign: 인증 먼저\nc\n")
    assert [record.title for record in found] == ["???", "!!!", "인증 먼저"]
    assert len({record.id for record in found}) == 3
    assert found[2].id == "sign-인증-먼저"
    assert [record.id for record in signs("### Sign: ???\na\n")] == [found[0].id]


def test_an_entry_with_an_id_below_the_heading_sign_is_no_sign() -> None:
    text = "## Sign\n\n### fix-1-a\n> one\n<!-- tags: x | created: 2025-01-15 -->\n"
    record = parse_memories(text, GUARDRAILS).entries[0].record
    assert not is_sign(record)
    assert render_memories([record], GUARDRAILS.kinds) == text
    assert "> two" in str(
        parse_memories(text, GUARDRAILS).replace("fix-1-a", replace(record, text="two"))
    )


@pytest.mark.parametrize(
    "meta", ["", "\n<!-- tags: a | created: 2025-01-20 -->", "\n<!-- tags: a -->"]
)
def test_a_rendered_sign_reads_back_as_it_was(meta: str) -> None:
    found = signs(f"## Fixes\n\n### Sign: x\n- **Do**:\n\n```\ncode\n```{meta}\n")
    assert signs(render_memories(found)) == found


def test_a_sign_whose_fence_is_never_closed_hides_nothing_that_is_rendered_after_it() -> None:
    text = "## Fixes\n\n### fix-1-a\n> one\n\n### Sign: x\n- do\n~~~~ sh\ncode\n"
    found = [entry.record for entry in parse_memories(text, GUARDRAILS).entries]
    assert [entry.record.id for entry in parse_memories(render_memories(found[::-1])).entries] == [
        "sign-x",
        "fix-1-a",
    ]


@pytest.mark.parametrize("pair", ["tags=b", "created=2025-02-02"])
def test_second_comment_overrides_the_first_in_both_readers(pair: str) -> None:
    canonical = (
        "## Fixes\n\n### fix-1-a\n> one\n"
        f"<!-- tags: a | created: 2025-01-20 --> <!-- ralph: {pair} -->\n"
    )
    by_lines = canonical.replace("\n", "\r\n")
    (entry,) = parse_memories(canonical, GUARDRAILS).entries
    assert entry.record == parse_memories(by_lines, GUARDRAILS).entries[0].record
