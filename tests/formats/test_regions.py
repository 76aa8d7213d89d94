"""The codec for regions in AGENTS.md and CLAUDE.md."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import laws

from ralph.core.errors import NotFound, Refused
from ralph.core.record import MemoryKind, Record
from ralph.formats.regions import REGION_END, REGION_START, parse_region

MARKS = (
    REGION_START,
    REGION_END,
    f"{REGION_START}\n",
    f"{REGION_END}\n",
    "<!--ralph:start-->\n",
    "- one\n",
    "- two\n",
    "```\n",
    "text\n",
)
region_samples = laws.messy(*MARKS)
region_words = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=60)


def region_memory(text: str) -> Record:
    return Record("mem-1", MemoryKind.PATTERN, text)


def region_texts(document: str) -> list[str]:
    return [entry.record.text for entry in parse_region(document).entries]


@given(region_samples)
def test_every_text_with_a_region_keeps_every_byte(text: str) -> None:
    laws.keeps_every_byte(parse_region, text)


@given(region_samples, region_words)
def test_adding_puts_one_piece_in_and_changes_nothing_else(text: str, words: str) -> None:
    with suppress(Refused):
        after = parse_region(text).add(region_memory(words))
        laws.holds_all_of(after.text, text)
        assert parse_region(text).text == text
        assert after.add(region_memory(words)) is after


@given(region_samples, region_words)
def test_nothing_outside_of_the_region_changes(text: str, words: str) -> None:
    before = parse_region(text)
    if not before.regions:
        return
    with suppress(Refused):
        after = before.add(region_memory(words))
        (inner, stop), (new_inner, new_stop) = before.regions[0], after.regions[0]
        assert after.text[:new_inner] == text[:inner]
        assert after.text[new_stop:] == text[stop:]


@given(region_samples, region_words)
def test_removing_an_added_bullet_restores_every_byte(text: str, words: str) -> None:
    before = parse_region(text)
    with suppress(Refused):
        after = before.add(region_memory(words))
        if after is before:
            return
        new = [
            entry.record.id
            for entry in after.entries
            if entry.record not in [e.record for e in before.entries]
        ]
        removed = after.remove(new[0])
        if before.regions:
            assert removed.text == text
        else:
            laws.holds_all_of(removed.text, text)


@given(region_words)
def test_a_rendered_bullet_reads_back(words: str) -> None:
    with suppress(Refused):
        record = region_memory(words)
        document = parse_region("").add(record)
        assert parse_region("").add(record).entries[0].record == document.entries[0].record


def test_a_file_without_a_region_gets_one_at_its_end() -> None:
    assert parse_region("# Ours\n\nText.\n").add(region_memory("Run make first.")).text == (
        f"# Ours\n\nText.\n\n{REGION_START}\n- Run make first.\n{REGION_END}\n"
    )


def test_a_missing_file_becomes_a_region() -> None:
    assert (
        parse_region("").add(region_memory("Run make first.")).text
        == f"{REGION_START}\n- Run make first.\n{REGION_END}\n"
    )


def test_the_next_bullet_goes_below_the_last_one_inside() -> None:
    text = f"# A\n{REGION_START}\n## Learned\n\n- one\n  more\n\n{REGION_END}\ntail"
    assert (
        parse_region(text).add(region_memory("two")).text
        == f"# A\n{REGION_START}\n## Learned\n\n- one\n  more\n- two\n\n{REGION_END}\ntail"
    )
    assert region_texts(text) == ["one\nmore"]


def test_an_empty_region_is_filled() -> None:
    assert (
        parse_region(f"{REGION_START}\n{REGION_END}").add(region_memory("one")).text
        == f"{REGION_START}\n- one\n{REGION_END}"
    )


def test_carriage_returns_and_a_missing_last_line_end_stay() -> None:
    text = f"# A\r\n{REGION_START}\r\n- one\r\n{REGION_END}\r\ntail"
    assert parse_region(text).add(region_memory("two\nmore")).text == (
        f"# A\r\n{REGION_START}\r\n- one\r\n- two\r\n  more\r\n{REGION_END}\r\ntail"
    )
    assert (
        parse_region("# A\r\ntail").add(region_memory("one")).text
        == f"# A\r\ntail\r\n\r\n{REGION_START}\r\n- one\r\n{REGION_END}"
    )


def test_a_duplicate_bullet_is_not_added_to_a_region() -> None:
    document = parse_region(f"{REGION_START}\n- Run `make` first.\n{REGION_END}\n")
    assert document.add(region_memory("run make first")) is document


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# A\n{REGION_START}\n- one\n", 2),
        (f"# A\n{REGION_END}\n", 2),
        (f"{REGION_START}\n{REGION_START}\n- one\n{REGION_END}\n", 1),
        (f"{REGION_START}\n- one\n{REGION_END}\n{REGION_END}\n", 4),
    ],
)
def test_unpaired_marks_are_reported_and_nothing_is_written(text: str, line: int) -> None:
    document = parse_region(text)
    assert [(each.line, each.code) for each in document.problems] == [(line, "unpaired-region")]
    with pytest.raises(Refused, match=f"line {line}"):
        document.add(region_memory("two"))


def test_of_two_regions_both_are_read_and_the_first_is_written_to() -> None:
    text = f"{REGION_START}\n- one\n{REGION_END}\n\n{REGION_START}\n- two\n{REGION_END}\n"
    document = parse_region(text)
    assert region_texts(text) == ["one", "two"]
    assert document.add(region_memory("three")).text == text.replace("- one\n", "- one\n- three\n")
    assert document.add(region_memory("two")) is document


def test_marks_in_a_fence_or_a_comment_are_examples() -> None:
    text = f"```\n{REGION_START}\n- example\n{REGION_END}\n```\n<!--\n{REGION_START}\n-->\n"
    assert parse_region(text).regions == ()
    assert parse_region(text).problems == ()


def test_a_text_with_a_mark_is_refused() -> None:
    for words in (f"one\n{REGION_END}", f"{REGION_END}", f"a {REGION_START} b", "one\0", ""):
        with pytest.raises(Refused):
            parse_region(f"{REGION_START}\n{REGION_END}\n").add(region_memory(words))


def test_one_bullet_of_a_region_is_removed_and_the_others_stay() -> None:
    document = parse_region(f"{REGION_START}\n- one\n* two\n{REGION_END}\n")
    second = document.entries[1].record.id
    assert document.remove(second).text == f"{REGION_START}\n- one\n{REGION_END}\n"
    with pytest.raises(NotFound):
        document.remove("reg-00000000")


def test_a_region_stays_also_when_it_is_empty() -> None:
    document = parse_region(f"{REGION_START}\n- one\n{REGION_END}\n")
    assert document.remove(document.entries[0].record.id).text == f"{REGION_START}\n{REGION_END}\n"
