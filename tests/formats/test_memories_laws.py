"""memories.md and guardrails.md: the laws that hold for every text and every record, as property tests.

The texts are made of the format's own markers in any order, so that unclosed fences and comments,
torn merges, mixed line ends and half-written entries come up by the thousand.
"""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.laws import add_then_remove_restores, keeps_every_byte, messy, restores

from ralph.core.documents import ids_of, texts_of
from ralph.core.errors import Conflict, Refused
from ralph.core.record import Link, MemoryKind, Origin, Record, kind_of
from ralph.formats.memories import GUARDRAILS, MEMORIES, MemoriesDocument, parse_memories
from ralph.formats.memories_writer import is_sign, render_memories

NEW_ID = "mem-1705751400-ffff"

LINES = (
    "# Memories\n", "## Patterns\n", "## Fixes\n", "## Decisions\n", "## Lessons ##\n", "## Sign\n", "### Fixes\n",
    "### mem-1-a\n", "### mem-2-b\n", "### fix-3-c\n", "### decision-4-d\r\n", "### mem-bad\n", "###mem-5-e\n",
    "#### mem-6-f\n", "### Sign: read first\n", "### SIGN: read first\n", "- **Trigger**: now\n", "> quoted\n",
    "> spaced  \n", ">\n", "> `## Fixes`\n", "plain words\n", "\n", "\n\n", "\r\n\r\n", "```\n", "~~~ sh\n",
    "   ```\n",
    "<!-- a note -->\n", "<!--\n", "-->\n", "<!-- tags: a, b | created: 2025-01-20 -->\n", "<!-- tags: c -->",
    "<!-- tags: d --> <!-- x | created: 2025-01-20 -->\n", "<!-- tags: | by: me | section: added -->\n",
    "<!-- tags: a, b\n", "<!-- created: 2025-01-20 | by: me --\n", "## fixes\n", "## Decision\n", "### Sign:\n",
    "### mem-1705751400-a3f8\n",
    "<<<<<<< HEAD\n", "=======\n", ">>>>>>> theirs\n", "||||||| base\n", "---\n", " \t\n", "\udce9", "..//x.md\n",
)  # fmt: skip
ENTRIES = (
    "### mem-1-a\n> one\n<!-- tags: a, b | created: 2025-01-20 -->\n", "### mem-1-a\n\n> one\n>\n> more\n\n",
    "### mem-2-b\nnot quoted\n", "### Sign: read first\n- **Do**: it\n\n```\ncode\n```\n", "### fix-3-c\n",
    "### Sign: x\n```\n", "### mem-2-b\n> one\n======\n> two\n",
    "### mem-5-e\n> torn\n<!-- tags: a\n\n", "### Sign: x\nwords\n<!-- tags: a | created: 2025",
    "## Fixes\n\n### mem-4-d\r\n> four\r\n<!-- tags: | section: added -->\r\n",
)  # fmt: skip

shapes: tuple[Callable[[str], str], ...] = (
    str, lambda text: "\ufeff" + text, lambda text: text.replace("\r", "").replace("\n",
    "\r\n"), str.rstrip,
)  # fmt: skip
"""As it is, with a byte order mark, with the line ends of Windows, without a final newline."""

lines = st.builds(
    lambda parts, shape: shape("".join(parts)),
    st.lists(st.sampled_from(LINES + ENTRIES), max_size=14),
    st.sampled_from(shapes),
)
texts = st.one_of(lines, messy(*LINES, *ENTRIES))
above, below = (
    st.lists(st.sampled_from(LINES + ENTRIES), max_size=6),
    st.lists(st.sampled_from(LINES), max_size=6),
)
with_entries = st.tuples(above, st.sampled_from(ENTRIES), below).map(
    lambda parts: "".join([*parts[0], "\n", parts[1], *parts[2]])
)

marks = st.sampled_from(
    ["\n", "\n\n", " ", ">", "> ", "```", "~~~\n", "<!--", "-->", "<!-- tags: x | created: 2024-01-01 -->",
     "## Fixes\n", "### mem-1-a\n", "### Sign: x\n", "# ", "---\n", "<<<<<<< HEAD\n", "=======\n", ">>>>>>> x\n",
     "|", "\x0b", "\x85", "\u2028", "\ufeff", "\t", "인증", "🔥", '"', "'", "\\", " | section: added", "\udcff"]
)  # fmt: skip
said = st.lists(
    st.one_of(marks, st.text(st.characters(exclude_characters="\0\r"), max_size=5)), max_size=12
).map("".join)
tag_chars = st.characters(exclude_characters="\0\r\n|,", exclude_categories=["Cs"])
tags = (
    st.text(tag_chars, min_size=1, max_size=8)
    .map(str.strip)
    .filter(lambda tag: tag and "-->" not in tag)
)
dates = st.dates().map(lambda day: day.isoformat())
extras = st.dictionaries(
    st.sampled_from(["source", "seen", "x-y"]),
    st.one_of(st.none(), st.sampled_from(["", "a:b", "src/x.py"])),
    max_size=2,
)


@st.composite
def written(draw: st.DrawFn) -> Record:
    """A record that the writer would make, in one of our sections."""
    kind = draw(st.sampled_from(MemoryKind))
    return Record(
        NEW_ID, kind, draw(said), label=kind.value, tags=tuple(draw(st.lists(tags, max_size=3))),
        created_at=draw(dates), updated_at=draw(st.one_of(st.just(""), dates)),
        valid_until=draw(st.one_of(st.just(""), dates)),
        origin=Origin(by=draw(st.sampled_from(["", "human", "agent"]))),
        links=tuple(draw(st.lists(st.just(Link("supersedes", "mem-9-a")), max_size=2))), extra=draw(extras),
    )  # fmt: skip


layouts = st.sampled_from([MEMORIES, GUARDRAILS])
PLAIN = Record(NEW_ID, MemoryKind.FIX, "words", label="fix", tags=("a",), created_at="2025-01-20")


def others(document: MemoriesDocument, *gone: str) -> list[Record]:
    """Every record but these; a Sign without its id, which counts the Signs of that name."""
    kept = [entry.record for entry in document.entries if entry.record.id not in gone]
    return [replace(record, id="") if is_sign(record) else record for record in kept]


@settings(deadline=None)
@given(texts, layouts)
def test_every_text_is_kept_byte_for_byte(text: str, layout: object) -> None:
    keeps_every_byte(
        lambda whole: parse_memories(whole, GUARDRAILS if layout is GUARDRAILS else MEMORIES), text
    )


@settings(deadline=None)
@given(texts)
def test_entries_stand_in_order_and_never_overlap(text: str) -> None:
    at = 0
    for entry in parse_memories(text).entries:
        assert at <= entry.start < entry.end <= len(text)
        assert text[entry.start : entry.end].lstrip(" \ufeff").startswith("###")
        at = entry.end


@settings(deadline=None)
@given(texts)
@example("## Fixes\n\n### mem-1-a\n> x\n>\n>y\n<!-- tags: a | created: 2025-01-20 -->")
def test_ids_and_texts_are_known_before_an_entry_is_built(text: str) -> None:
    built = [entry.record for entry in parse_memories(text).entries]
    entries = parse_memories(text).entries
    assert list(ids_of(entries)) == [record.id for record in built]
    assert list(texts_of(entries)) == [record.text for record in built]


@settings(deadline=None)
@given(texts.map(lambda text: text.replace("\r", "")))
@example("### mem-1-a\n> x\n<!-- tags: a --> <!-- b | created: 2025-01-20 -->\n")
@example(f"## Fixes\n{ENTRIES[0]}- not an entry\n")
def test_line_ends_of_the_other_sort_change_nothing_in_what_is_read(text: str) -> None:
    unix, dos = parse_memories(text), parse_memories(text.replace("\n", "\r\n"))
    assert [(entry.record, entry.line) for entry in unix.entries] == [
        (entry.record, entry.line) for entry in dos.entries
    ]
    assert unix.problems == dos.problems
    assert unix.format == dos.format


@settings(deadline=None)
@given(texts, written())
@example("# M\n\n## Fixes\n\nprose with a hard break  \n", PLAIN)
@example("## Fixes\n### fix-1-a\n> x  \n", PLAIN)
@example("# T\n\n```\ncode\n", PLAIN)
@example("# T\n\n<!--\nnever closed", PLAIN)
@example("## Fixes\n\n### Sign: x\n```\ncode\n", PLAIN)
@example("## Patterns\n\n### mem-1-a\nfoo\n```\ncode\n", PLAIN)
@example("## Patterns\n<<<<<<< HEAD\n### mem-2-b\n> y\n=======\n### mem-1-a\n> z\n>>>>>>> b", PLAIN)
@example("## Patterns\n<<<<<<< HEAD\n### mem-2-b\n> y\n", PLAIN)
@example("## Fixes\n> foo\r\r", PLAIN)
@example("\ufeff## Fixes\r\n\r\n### mem-1-a\r\n> x", PLAIN)
def test_add_then_remove_restores_every_byte(text: str, record: Record) -> None:
    assume(text.strip("\ufeff\r\n\t "))
    before = parse_memories(text)
    added = accepted(before, record)
    assert others(added, NEW_ID) == others(before)
    found = [entry.record for entry in added.entries if entry.record.id == NEW_ID]
    assert found == [replace(record, label=found[0].label)]
    assert kind_of(found[0].label) == record.kind  # `fixes` below a heading that somebody wrote so
    restores(str(added.remove(NEW_ID)), text)


def accepted(document: MemoriesDocument, record: Record) -> MemoriesDocument:
    """The document with the record; only a file that a merge or an unclosed mark has torn may refuse one."""
    try:
        return document.add(record)
    except Refused:
        assert {"conflict", "unclosed"} & {problem.code for problem in document.problems}
        assume(False)
        raise


@settings(deadline=None)
@given(texts, written())
def test_add_puts_in_one_piece_and_keeps_everything_around_it(text: str, record: Record) -> None:
    assume(text.strip("\ufeff\r\n\t "))
    after = str(accepted(parse_memories(text), record))
    size = len(after) - len(text)
    assert any(
        after[:at] == text[:at] and after[at + size :] == text[at:] for at in range(len(text) + 1)
    )


@settings(deadline=None)
@given(st.sampled_from(["", "\ufeff", "\n", "\r\n", " \n\n", "\ufeff\r\n"]), written(), layouts)
def test_a_blank_file_becomes_a_new_one_around_the_entry(
    text: str, record: Record, layout: object
) -> None:
    document = parse_memories(text, GUARDRAILS if layout is GUARDRAILS else MEMORIES).add(record)
    assert [entry.record for entry in document.entries] == [record]
    assert str(document).startswith(text)
    add_then_remove_restores(lambda whole: parse_memories(whole, document.layout), text, record)


@settings(deadline=None)
@given(with_entries, written(), st.data())
def test_replace_touches_only_its_own_block(text: str, record: Record, data: st.DataObject) -> None:
    document = parse_memories(text)
    assume(document.entries)
    entry = data.draw(st.sampled_from(document.entries))
    try:
        after = document.replace(
            entry.record.id, replace(record, kind=entry.record.kind, label=entry.record.label)
        )
    except (Refused, Conflict):
        # Below a heading that is no kind, the id gives the kind, and the new id gives another one.
        assert is_sign(entry.record) or document.problems or kind_of(entry.record.label) is None
        return
    assert str(after).startswith(text[: entry.start])
    assert str(after).endswith(text[entry.end :])
    assert others(after, NEW_ID) == others(document, entry.record.id)
    changed = next(found.record for found in after.entries if found.record.id == NEW_ID)
    assert (changed.text, changed.tags, changed.kind) == (
        record.text,
        record.tags,
        entry.record.kind,
    )
    assert changed.label == entry.record.label


@settings(deadline=None)
@given(with_entries, written(), st.data())
def test_a_change_of_kind_moves_the_entry_and_nothing_else(
    text: str, record: Record, data: st.DataObject
) -> None:
    document = parse_memories(text)
    assume(document.entries)
    entry = data.draw(st.sampled_from(document.entries))
    try:
        after = document.replace(entry.record.id, record)
    except (Refused, Conflict):
        # Outside the sections of kinds, the id gives the kind, and the new id gives another one.
        keeps_place = record.kind is entry.record.kind and kind_of(entry.record.label) is None
        assert is_sign(entry.record) or document.problems or keeps_place
        return
    assert others(after, NEW_ID) == others(document, entry.record.id)
    assert (
        next(found.record.kind for found in after.entries if found.record.id == NEW_ID)
        == record.kind
    )


@settings(deadline=None)
@given(with_entries, st.data())
def test_remove_leaves_every_other_record_as_it_was(text: str, data: st.DataObject) -> None:
    document = parse_memories(text)
    assume(document.entries)
    entry = data.draw(st.sampled_from(document.entries))
    try:
        after = document.remove(entry.record.id)
    except (Refused, Conflict):
        return
    kept = [other.record for other in document.entries if other is not entry]
    assert others(after) == [
        replace(record, id="") if is_sign(record) else record for record in kept
    ]
    assert len(str(after)) <= len(text) - (entry.end - entry.start)


@settings(deadline=None)
@given(written())
@example(replace(PLAIN, text=""))
@example(replace(PLAIN, text="\n\n  leading and trailing \n\n"))
@example(replace(PLAIN, text="a --> b\n```\n### mem-1-a\n<!-- tags: no -->\n## Fixes\n>>>>>>> x"))
@example(replace(PLAIN, tags=("c#", "a b", "-", "<!--", "x: y")))
def test_a_rendered_record_reads_back_as_it_was(record: Record) -> None:
    document = parse_memories(render_memories([record]))
    assert [entry.record for entry in document.entries] == [record]
    assert {problem.code for problem in document.problems} <= {"no-text", "not-utf8"}


@settings(deadline=None)
@given(st.lists(written(), max_size=6))
def test_rendered_records_read_back_in_the_order_of_their_sections(found: list[Record]) -> None:
    records = [replace(record, id=f"mem-{number}-a") for number, record in enumerate(found)]
    read = [entry.record for entry in parse_memories(render_memories(records)).entries]
    assert read == [record for kind in MEMORIES.kinds for record in records if record.kind == kind]


@settings(deadline=None)
@given(texts)
def test_what_was_read_can_be_rendered_and_read_again(text: str) -> None:
    before = [entry.record for entry in parse_memories(text).entries]
    after = [entry.record for entry in parse_memories(render_memories(before)).entries]
    assert len(after) == len(before)
    assert sorted(record.kind for record in after) == sorted(record.kind for record in before)


@settings(deadline=None)
@given(texts)
def test_new_ids_for_double_ones_change_nothing_else(text: str) -> None:
    before = parse_memories(text)
    count = iter(range(1000))
    after = before.with_unique_ids(lambda old: f"{old.rpartition('-')[0]}-f{next(count):x}")
    assert (after is before) or not before.has_conflict
    assume(not before.has_conflict)
    ids = [entry.record.id for entry in after.entries]
    assert len(set(ids)) == len(ids)
    pairs = list(zip(before.entries, after.entries, strict=True))
    assert all(replace(new.record, id=old.record.id) == old.record for old, new in pairs)
    restored = str(after)
    for old, new in reversed(pairs):
        if new.record.id != old.record.id:
            at = restored.index(new.record.id, new.start)
            restored = restored[:at] + old.record.id + restored[at + len(new.record.id) :]
    assert restored == text
