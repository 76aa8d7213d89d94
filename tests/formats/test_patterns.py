"""The codec for global-patterns.md."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import golden
from tests.support.laws import (
    add_then_remove_restores,
    holds_all_of,
    keeps_every_byte,
    messy,
    restores,
)

from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import Link, MemoryKind, Outcome, Record, Scope
from ralph.formats.patterns import HEADINGS, as_pattern, parse_patterns

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FILE = """# Global Codebase Patterns

> Words.

## Conventions

- one

## Gotchas

## Tips

- two

---

_Last updated: 2026-01-01 by task-001_
"""

texts = messy(
    "## Conventions\n", "## Gotchas\n", "## Tips\n", "## Other\n", "- same words\n", "  more\n", "---\n",
    "_Last updated: x by y_\n", "- `a`.\n", "```\n", "<!--\n", "-->\n",
)  # fmt: skip
line = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12)
simple = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
anything = st.text(st.characters(exclude_categories=[]), max_size=30)
kinds = st.sampled_from(MemoryKind)


def pattern(text: str, kind: MemoryKind = MemoryKind.FIX, label: str = "") -> Record:
    return as_pattern(Record(id="mem-1-a", kind=kind, text=text, label=label))


def texts_of(text: str) -> list[str]:
    return [entry.record.text for entry in parse_patterns(text).entries]


@pytest.mark.parametrize("path", golden.cases("patterns"), ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    assert golden.rows(parse_patterns(golden.text_of(path))) == golden.expected(path)


@given(st.one_of(texts, st.text(st.characters(exclude_categories=[]))))
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_patterns, text)


@given(
    simple,
    st.lists(st.one_of(st.just(""), simple, simple.map("  - {}".format)), max_size=4),
    simple,
    kinds,
)
def test_a_written_pattern_reads_back_as_it_was(
    first: str, body: list[str], last: str, kind: MemoryKind
) -> None:
    record = pattern("\n".join([first, *body, last]), kind)
    assert [entry.record for entry in parse_patterns("# Mine\n").add(record).entries] == [record]


@given(texts, simple.map("zz {}".format), kinds)
def test_adding_and_removing_a_pattern_leaves_the_others_alone(
    text: str, words: str, kind: MemoryKind
) -> None:
    add_then_remove_restores(parse_patterns, text, pattern(words, kind))


@given(texts, anything, kinds)
def test_any_text_is_refused_or_reads_back_and_every_other_byte_stays(
    text: str, words: str, kind: MemoryKind
) -> None:
    before = parse_patterns(text)
    try:
        after = before.add(Record(id="x", kind=kind, text=words))
    except Refused:
        return
    if after is before:
        return
    added = [
        entry
        for entry in after.entries
        if entry.record not in [old.record for old in before.entries]
    ]
    assert [entry.record.text for entry in added] == [words.replace("\r\n", "\n").strip(" \t\n")]
    if text.strip("\ufeff \t\r\n"):
        holds_all_of(after.text, text)
        restores(after.remove(added[0].record.id).text, text)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
@pytest.mark.parametrize("kind", MemoryKind)
def test_real_files_with_bullets_are_as_they_were_after_add_and_remove(kind: MemoryKind) -> None:
    for path in (
        *CORPUS.glob("learnings/*"),
        *CORPUS.glob("progress/*"),
        *CORPUS.glob("memories/*"),
    ):
        text = golden.text_of(path)
        added = parse_patterns(text).add(
            Record(id="x", kind=kind, text="nobody has said this before")
        )
        assert added.text != text
        restores(added.remove(pattern("nobody has said this before").id).text, text)


def test_a_new_file_gets_all_sections() -> None:
    after = parse_patterns("").add(pattern("say it"))
    assert [heading for heading in after.text.split("\n") if heading.startswith("#")] == [
        "# Global Codebase Patterns",
        "## Conventions",
        "## Gotchas",
        "## Tips",
    ]
    assert "## Gotchas\n\n- say it\n\n## Tips\n" in after.text


def test_a_pattern_goes_to_the_end_of_its_section() -> None:
    after = parse_patterns(FILE).add(pattern("new\nlines", MemoryKind.PATTERN))
    assert after.text == FILE.replace("- one\n", "- one\n- new\n  lines\n")
    after = parse_patterns(FILE).add(pattern("new"))
    assert after.text == FILE.replace("## Gotchas\n", "## Gotchas\n\n- new\n")
    assert after.remove(after.entries[1].record.id).text == FILE


def test_a_missing_section_is_made_above_the_footer() -> None:
    after = parse_patterns(FILE).add(pattern("why", MemoryKind.DECISION))
    assert after.text == FILE.replace("---\n\n_Last", "## Decisions\n\n- why\n\n---\n\n_Last")
    assert after.entries[-1].record.kind is MemoryKind.DECISION
    assert after.remove(after.entries[-1].record.id).text == FILE.replace(
        "---\n\n_Last", "## Decisions\n\n---\n\n_Last"
    )


def test_a_section_stays_when_it_is_empty() -> None:
    document = parse_patterns("## Tips\n- a\n\n## Gotchas\n\n- x\n")
    assert document.remove(pattern("x").id).text == "## Tips\n- a\n\n## Gotchas\n"


def test_a_section_is_found_by_its_heading_and_not_by_words_in_a_text() -> None:
    text = "```\n## Gotchas\n```\n## Tips\n- about `## Gotchas`\n"
    assert parse_patterns(text).add(pattern("x")).text == text + "\n## Gotchas\n\n- x\n"


def test_a_section_with_another_word_for_the_kind_is_used() -> None:
    assert parse_patterns("## Fixes\n- a\n").add(pattern("b")).text == "## Fixes\n- a\n- b\n"
    assert parse_patterns("## gotchas\n- a").add(pattern("b")).text == "## gotchas\n- a\n- b"


def test_a_label_that_names_a_section_of_the_file_is_followed() -> None:
    text = "## Tips\n- a\n\n## House Rules\n- b\n"
    record = Record(id="x", kind=MemoryKind.CONTEXT, text="c", label="House Rules")
    assert parse_patterns(text).add(record).text == text + "- c\n"
    record = Record(id="x", kind=MemoryKind.CONTEXT, text="c", label="learning")
    assert parse_patterns(text).add(record).text == text.replace("- a\n", "- a\n- c\n")


def test_a_duplicate_pattern_is_not_added() -> None:
    document = parse_patterns("## Tips\n- Use  `make`\n  for all.\n")
    assert document.add(pattern("use make for ALL")) is document


def test_a_promoted_record_keeps_only_its_text() -> None:
    record = Record(
        id="ins-1-a", kind=MemoryKind.FIX, text=" a\r\nb ", label="gotcha", tags=("x",), scope=Scope.TASK,
        links=(Link("a", "b"),),
    )  # fmt: skip
    after = parse_patterns("").add(record)
    assert [entry.record for entry in after.entries] == [pattern("a\nb")]
    assert after.entries[0].record.label == "Gotchas"


def test_crlf_bom_and_a_missing_last_line_end_survive() -> None:
    text = "\ufeff## Tips\r\n\r\n- a"
    after = parse_patterns(text).add(pattern("b\nc", MemoryKind.CONTEXT))
    assert after.text == text + "\r\n- b\r\n  c"
    assert after.remove(after.entries[-1].record.id).text == text


def test_replacing_keeps_the_marker_and_the_neighbours() -> None:
    text = "## Gotchas\n* a\n  more\n* b"
    document = parse_patterns(text)
    after = document.replace(document.entries[0].record.id, pattern("new\nwords"))
    assert after.text == "## Gotchas\n* new\n  words\n* b"
    after = document.replace(document.entries[1].record.id, pattern("c"))
    assert after.text == "## Gotchas\n* a\n  more\n* c"


def test_replacing_by_another_kind_moves_the_bullet() -> None:
    document = parse_patterns(FILE)
    after = document.replace(document.entries[0].record.id, pattern("one", MemoryKind.CONTEXT))
    assert [(entry.record.kind, entry.record.text) for entry in after.entries] == [
        (MemoryKind.CONTEXT, "two"),
        (MemoryKind.CONTEXT, "one"),
    ]


def test_duplicate_bullets_are_both_read_and_reported() -> None:
    document = parse_patterns("## Tips\n- a\n- A.\n")
    assert len(document.entries) == 2
    assert [(problem.line, problem.code) for problem in document.problems] == [(3, "duplicate-id")]
    with pytest.raises(Conflict):
        document.remove(document.entries[0].record.id)
    with pytest.raises(NotFound):
        document.remove("pat-none")


def test_the_footer_alone_is_rewritten() -> None:
    after = parse_patterns(FILE).stamped("2026-02-02", "task-009")
    assert after.text == FILE.replace("2026-01-01 by task-001", "2026-02-02 by task-009")
    assert (
        parse_patterns(FILE.replace("\n", "\r\n"))
        .stamped("d", "t")
        .text.endswith("_Last updated: d by t_\r\n")
    )


def test_a_missing_footer_is_added() -> None:
    assert parse_patterns("- a").stamped("d", "t").text == "- a\n\n---\n\n_Last updated: d by t_"
    assert (
        parse_patterns("- a\n\n---\n").stamped("d", "t").text
        == "- a\n\n---\n\n_Last updated: d by t_\n"
    )


@given(texts, line, line)
def test_a_stamp_changes_no_entry(text: str, date: str, task: str) -> None:
    before = parse_patterns(text)
    after = before.stamped(date, task)
    assert [entry.record for entry in after.entries] == [entry.record for entry in before.entries]


@pytest.mark.parametrize("text", ["", "  \n", "nul \x00", "---", "- -", "a\n<!-- b"])
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_patterns("## Gotchas\n\n-->\n\n- x\n\n## Tips\n\n-->\n").add(
            Record(id="x", kind=MemoryKind.FIX, text=text)
        )


def test_only_memories_are_patterns_and_the_footer_is_one_line() -> None:
    with pytest.raises(Refused):
        parse_patterns("").add(Record(id="x", kind=Outcome.DONE, text="a"))
    with pytest.raises(Refused):
        parse_patterns("").stamped("2026\n", "t")


def test_every_kind_has_a_heading_that_leads_back_to_it() -> None:
    for kind in MemoryKind:
        assert parse_patterns(f"## {HEADINGS[kind]}\n- a\n").entries[0].record.kind is kind
