"""Legacy Signs: read in every form that people gave them, never rewritten unless somebody asks."""

from dataclasses import replace

import pytest

from ralph.errors import Refused
from ralph.formats.memories import GUARDRAILS, is_sign, parse_memories, render_memories, render_sign
from ralph.model.record import MemoryKind, Record

NEW = Record("fix-1705751400-ffff", MemoryKind.FIX, "new", label="fix", tags=("a",), created_at="2025-01-20")


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
    assert (found[0].id, found[0].label, found[0].title) == ("sign-look-first", "Sign", "Look first")
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
    "heading", ["### Signs: x", "### Sign x", "## Sign: x", "#### Sign: x", "### Design: x", "### Sign:"]
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


@pytest.mark.parametrize("end", ["---", "## Next", "# Title", "### A plain heading", "<!-- note -->", "### fix-1-a"])
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
    added = document.add(NEW)
    assert str(added).startswith(text.rstrip("\n"))
    assert str(added.remove(NEW.id)) == text


def test_adding_never_rewrites_a_sign() -> None:
    text = "# Signs\r\n\r\n### SIGN:  odd  spacing \r\n * do\r\n\r\n\r\n---\r\n\r\nwords"
    added = parse_memories(text, GUARDRAILS).add(NEW)
    assert str(added).startswith(text)
    assert str(added.remove(NEW.id)) == text


def test_a_sign_is_not_edited_in_place() -> None:
    with pytest.raises(Refused, match="legacy Sign") as refused:
        parse_memories("### Sign: x\nwords\n", GUARDRAILS).replace("sign-x", NEW)
    assert "migrate" in refused.value.hint


def test_a_sign_can_be_removed_and_its_neighbours_stay() -> None:
    text = "### Sign: a\none\n\n### Sign: b\ntwo\n\n### fix-1-a\n> three\n"
    assert str(parse_memories(text, GUARDRAILS).remove("sign-b")) == "### Sign: a\none\n\n### fix-1-a\n> three\n"


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
    assert "> two" in str(parse_memories(text, GUARDRAILS).replace("fix-1-a", replace(record, text="two")))


@pytest.mark.parametrize("meta", ["", "\n<!-- tags: a | created: 2025-01-20 -->", "\n<!-- tags: a -->"])
def test_a_rendered_sign_reads_back_as_it_was(meta: str) -> None:
    found = signs(f"## Fixes\n\n### Sign: x\n- **Do**:\n\n```\ncode\n```{meta}\n")
    assert signs(render_memories(found)) == found


def test_a_sign_whose_fence_is_never_closed_hides_nothing_that_is_rendered_after_it() -> None:
    text = "## Fixes\n\n### fix-1-a\n> one\n\n### Sign: x\n- do\n~~~~ sh\ncode\n"
    found = [entry.record for entry in parse_memories(text, GUARDRAILS).entries]
    assert render_sign(found[1]).endswith("\ncode\n~~~~")
    assert [entry.record.id for entry in parse_memories(render_memories(found[::-1])).entries] == ["sign-x", "fix-1-a"]
