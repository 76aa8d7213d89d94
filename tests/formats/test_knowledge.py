"""The codec for knowledge files."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import golden
from tests.support.laws import add_then_remove_restores, keeps_every_byte, messy

from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import Link, MemoryKind, Outcome, Record, Scope
from ralph.formats.knowledge import normalise_entry, parse_knowledge, render_knowledge
from ralph.formats.knowledge_text import clean_tags, links_in

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "knowledge"
FILE = """---
# by hand
title: Old title   # keep me
tags:
  - one
  - "two"
# about the owner
owner: {name: Kim}
created_at: 2026-01-02
feature:
---

Old body [[Link]].
"""

texts = messy(
    "---\n", "title: a\n", "tags: [a, b]\n", "tags:\n- c\n", "kind: gotcha\n", "\n[[x]]",
    "created_at: 2026-01-01\n", "&a ", "*a", "!!int ", "? ", "- ", "{", "'", "#",
)  # fmt: skip
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
line = plain.map(lambda text: " ".join(text.split())).filter(bool)
bodies = st.text(
    st.characters(exclude_categories=[], exclude_characters="\x00\r"), max_size=60
).filter(str.strip)
tags = st.lists(plain, max_size=4).map(clean_tags).filter(bool)
values = st.recursive(
    st.none() | st.booleans() | plain
    | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(plain, inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
own = {"title", "tags", "kind", "type", "feature", "created_at", "updated_at"}
extras = st.dictionaries(plain.filter(lambda name: name not in own), values, max_size=3)
words_of_kinds = st.sampled_from(
    [
        (MemoryKind.CONTEXT, "knowledge"),
        (MemoryKind.FIX, "Gotcha"),
        (MemoryKind.DECISION, "decision"),
        (MemoryKind.CONTEXT, "tip"),
    ]
)
records = st.builds(
    lambda kind, text, title, tags, created, extra, feature: normalise_entry(
        Record(
            id="x", kind=kind[0], label=kind[1], text=text, title=title, tags=tags, created_at=created,
            extra={**extra, **feature},
        ),
        "",
    ),
    words_of_kinds, bodies, line, tags, st.sampled_from(["", "2026-01-02", "2026-01-02T03:04:05Z"]), extras,
    line.map(lambda name: {"feature": name}) | st.just({}),
)  # fmt: skip


PLAIN = Record(id="x", kind=MemoryKind.CONTEXT, text="Words.", title="A title", tags=("a",))


@pytest.mark.parametrize("path", golden.cases("knowledge"), ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    assert golden.rows(parse_knowledge(golden.text_of(path), path.stem)) == golden.expected(path)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
def test_real_files_are_entries_and_keep_what_is_not_changed() -> None:
    for path in CORPUS.glob("*.md"):
        text = golden.text_of(path)
        document = parse_knowledge(text, path.stem)
        keeps_every_byte(parse_knowledge, text)
        assert document.problems == ()
        old = document.entries[0].record
        assert document.replace(old.id, old) is document
        after = document.replace(old.id, replace(old, title="New: title"))
        assert after.text.count("\n") == text.count("\n")
        assert after.text.partition("\ntags")[2] == text.partition("\ntags")[2]
        words = document.replace(old.id, replace(old, text="New words."))
        assert words.replace(old.id, old).text == text
        assert after.replace(old.id, old).entries[0].record == old
        assert document.remove(old.id).text == ""


@pytest.mark.parametrize("text", ["", "\ufeff", "\n", " \r\n", "\ufeff\n"])
def test_a_blank_file_takes_an_entry_and_is_blank_again_without_it(text: str) -> None:
    record = normalise_entry(PLAIN, "")
    add_then_remove_restores(parse_knowledge, text, record)
    added = parse_knowledge(text).add(record)
    assert added.text == text.strip() + render_knowledge(record)
    assert added.remove(record.id).text == text.strip()


@given(
    st.one_of(
        texts, texts.map("---\n{}\n---\n".format), st.text(st.characters(exclude_categories=[]))
    )
)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_knowledge, text)
    document = parse_knowledge(text)
    assert len(document.entries) <= 1
    assert document.entries or len(document.problems) == 1


@given(records)
def test_a_written_entry_reads_back_as_it_was(record: Record) -> None:
    document = parse_knowledge(render_knowledge(record))
    assert [entry.record for entry in document.entries] == [record]
    assert parse_knowledge("").add(record).text == document.text
    assert document.remove("know-").text == ""


@given(records)
def test_replacing_changes_what_differs_and_keeps_the_rest(record: Record) -> None:
    document = parse_knowledge(FILE)
    wanted = replace(record, extra={**record.extra, "owner": {"name": "Kim"}})
    after = document.replace("know-", wanted)
    assert [entry.record for entry in after.entries] == [wanted]
    for kept in ("# by hand\n", "# keep me\n", "# about the owner\nowner: {name: Kim}\n"):
        assert kept in after.text


@given(records, records)
def test_any_entry_may_become_any_other(one: Record, other: Record) -> None:
    after = parse_knowledge(render_knowledge(one)).replace("know-", other)
    assert [entry.record for entry in after.entries] == [other]


def test_one_changed_value_changes_one_line() -> None:
    document = parse_knowledge(FILE)
    old = document.entries[0].record
    assert document.replace("know-", replace(old, title='a "b": c')).text == FILE.replace(
        "Old title", '"a \\"b\\": c"'
    )
    assert document.replace("know-", replace(old, tags=("one", "two", "on"))).text == FILE.replace(
        '  - one\n  - "two"\n', '  - one\n  - two\n  - "on"\n'
    )
    assert document.replace("know-", replace(old, updated_at="2026-03-04")).text == FILE.replace(
        "feature:\n", 'feature:\nupdated_at: "2026-03-04"\n'
    )
    assert document.replace("know-", replace(old, created_at="")).text == FILE.replace(
        "created_at: 2026-01-02\n", ""
    )
    assert document.replace(
        "know-", replace(old, extra={**old.extra, "feature": "f"})
    ).text == FILE.replace("feature:", 'feature: "f"')
    assert document.replace("know-", replace(old, text="New.", links=())).text == FILE.replace(
        "Old body [[Link]].", "New."
    )


def test_crlf_bom_and_a_missing_last_line_end_survive() -> None:
    text = "\ufeff" + FILE.replace("\n", "\r\n").removesuffix("\r\n")
    document = parse_knowledge(text, "s")
    old = document.entries[0].record
    assert old.text == "Old body [[Link]]."
    after = document.replace("know-s", replace(old, text="a\nb", title="T"))
    assert after.text == text.replace("Old body [[Link]].", "a\r\nb").replace("Old title", '"T"')
    bare = parse_knowledge("---\ntitle: a\ntags: b\n---")
    assert bare.replace("know-", replace(bare.entries[0].record, text="c")).text.endswith(
        "---\n\nc\n"
    )


def test_the_key_that_named_the_kind_is_the_one_that_changes() -> None:
    document = parse_knowledge("---\ntitle: a\ntags: b\ntype: gotcha\n---\nx\n")
    old = document.entries[0].record
    assert (old.kind, old.label, old.extra) == (MemoryKind.FIX, "gotcha", {})
    after = document.replace("know-", replace(old, kind=MemoryKind.DECISION, label="ADR"))
    assert 'type: "ADR"\n' in after.text
    gone = document.replace("know-", replace(old, kind=MemoryKind.CONTEXT, label="knowledge"))
    assert "type" not in gone.text


def test_a_file_holds_one_entry() -> None:
    for text in (FILE, "words"):
        with pytest.raises(Conflict):
            parse_knowledge(text).add(PLAIN)
    with pytest.raises(NotFound):
        parse_knowledge("words").remove("know-")


@pytest.mark.parametrize(
    "record",
    [
        replace(PLAIN, title=" "),
        replace(PLAIN, tags=(" ",)),
        replace(PLAIN, text=" \n"),
        replace(PLAIN, text="nul \x00"),
        replace(PLAIN, title="half \ud800"),
        replace(PLAIN, kind=Outcome.DONE),
        replace(PLAIN, extra={"a": object()}),
        replace(PLAIN, extra={"a": float("nan")}),
        replace(PLAIN, text="ends with a return\r"),
    ],
)
def test_what_cannot_be_written_is_refused(record: Record) -> None:
    with pytest.raises(Refused):
        parse_knowledge("").add(record)
    with pytest.raises(Refused):
        parse_knowledge(FILE).replace("know-", record)


def test_what_a_file_does_not_hold_is_left_out() -> None:
    record = Record(
        id="mem-1-a", kind=MemoryKind.CONTEXT, text="See [[B]].\r\nMore.", label="learning",
        title="A  b", tags=("X", "x"), scope=Scope.TASK,
    )  # fmt: skip
    assert parse_knowledge("", "a-b").add(record).entries[0].record == Record(
        id="know-a-b", kind=MemoryKind.CONTEXT, text="See [[B]].\nMore.", label="knowledge", title="A b", tags=("x",),
        links=(Link("links_to", "B"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "front",
    [
        "[" * 60_000, "{" * 60_000, "- " * 30_000, "? " * 30_000, "a: " + "[" * 900, "title: &a [*a]\ntags: [b]",
        "title: a\ntags: [&b c, *b]", "x: &b {title: a, tags: [c]}\n<<: *b",
        "x" * 70_000, "title: \ud800\ntags: [a]", "title: !!python/object:os.x {}\ntags: a",
    ],
)  # fmt: skip
def test_hostile_front_matter_is_told_and_never_crashes(front: str) -> None:
    document = parse_knowledge(f"---\n{front}\n---\ntext\n")
    assert document.entries == ()
    assert len(document.problems) == 1


def test_a_star_in_a_text_is_no_alias() -> None:
    text = "---\ntitle: use *bold* words\ntags: [a, '*b']\nx: [ a *b ]\n---\nx\n"
    record = parse_knowledge(text).entries[0].record
    assert (record.title, record.tags, record.extra) == (
        "use *bold* words",
        ("a", "*b"),
        {"x": ["a *b"]},
    )


def test_odd_scalars_are_read_in_their_own_words() -> None:
    text = "---\ntitle: !!timestamp no\ntags: [!!bool maybe, 1.10, ~, 0x1F, yes]\na: !!int x\nb: 007\nc: .nan\n---\nx\n"
    record = parse_knowledge(text).entries[0].record
    assert record.title == "no"
    assert record.tags == ("maybe", "1.10", "0x1f", "yes")
    assert record.extra == {"a": "x", "b": "007", "c": ".nan"}


@pytest.mark.soak
def test_large_files_are_read() -> None:
    body = "word [[x]] `[[y]]` " * 100_000
    record = parse_knowledge(f"---\ntitle: a\ntags: b\n---\n{body}\n{body}").entries[0].record
    assert record.links == (Link("links_to", "x"),)
    for odd in (
        "[" * 1_000_000,
        "`" * 999_999,
        "` `` ``` " * 100_000,
        "[[a" * 300_000,
        "---\n" * 200_000,
    ):
        assert links_in(odd) == ()
        keeps_every_byte(parse_knowledge, f"---\n{odd}")
