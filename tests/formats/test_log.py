"""The codec for logs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.json_values import lists, names, values, words
from tests.support.laws import keeps_every_byte, messy

from ralph.core.errors import Refused
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.formats.log import LogDocument, encode_line, encode_record, parse_log, put_record

GOLDEN = Path(__file__).parent.parent / "golden" / "jsonl"
CASES = sorted(path for path in GOLDEN.iterdir() if not path.name.endswith(".expected.json"))
KINDS: dict[Family, tuple[MemoryKind | ObservationKind | Outcome, ...]] = {
    Family.MEMORY: tuple(MemoryKind),
    Family.OBSERVATION: tuple(ObservationKind),
    Family.JOURNAL: tuple(Outcome),
}

origins = st.builds(
    Origin, words, words, words, st.one_of(st.none(), st.integers()), words, words, lists, words
)
links = st.lists(st.builds(Link, words, words), max_size=2).map(tuple)


@st.composite
def any_record(draw: st.DrawFn) -> Record:
    family = draw(st.sampled_from(Family))
    return Record(
        draw(names),
        draw(st.sampled_from(KINDS[family])),
        draw(words),
        family,
        draw(words),
        draw(words),
        draw(lists),
        draw(st.sampled_from(Status)),
        draw(st.sampled_from(Scope)),
        draw(origins),
        draw(words),
        draw(words),
        draw(words),
        draw(links),
        draw(st.dictionaries(words, values, max_size=3)),
    )


records = any_record()
pieces = messy(
    '{"v":1,"type":"observation","id":"a","kind":"note"}',
    '{"v":1,"type":"',
    '"id":',
    '{"v":',
    "}",
    "99",
    '"',
)


def observation(name: str, text: str = "t") -> Record:
    return Record(
        name, ObservationKind.NOTE, text, Family.OBSERVATION, status=Status.RAW, scope=Scope.SESSION
    )


def decoded(line: str) -> Record:
    (entry,) = parse_log(line).entries
    return entry.record


def ids(document: LogDocument) -> list[str]:
    return [entry.record.id for entry in document.entries]


def codes(document: LogDocument) -> list[tuple[int, str]]:
    return [(problem.line, problem.code) for problem in document.problems]


def golden_rows(path: Path) -> dict[str, object]:
    """A golden file as the codec reads it, as plain JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        document = parse_log(file.read())
    rows = [
        {
            "id": record.id,
            "family": record.family,
            "kind": record.kind,
            "label": record.label,
            "title": record.title,
            "text": record.text,
            "tags": list(record.tags),
            "status": record.status,
            "scope": record.scope,
            "created_at": record.created_at,
            "extra": record.extra,
        }
        for record in (entry.record for entry in document.entries)
    ]
    return {
        "records": rows,
        "lines": [[line.line, line.type] for line in document.lines],
        "problems": [[problem.line, problem.code] for problem in document.problems],
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(golden_rows(path))) == json.loads(expected)


@given(pieces)
@example('{"v":1' + '{"v":1,"type":"' * 100)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_log, text)
    document = parse_log(text)
    for line in document.lines:
        assert json.loads(text[line.start : line.end]) == line.value
        assert line.line == text.count("\n", 0, line.start) + 1


@given(pieces)
def test_every_character_of_a_log_is_read_or_reported(text: str) -> None:
    document = parse_log(text)
    spans = [(entry.start, entry.end) for entry in document.entries]
    spans += [(line.start, line.end) for line in document.lines]
    place, rest = 0, []
    for start, end in sorted([*spans, *document.torn]):
        assert start >= place
        rest.append(text[place:start])
        place = end
    assert not "".join([*rest, text[place:]]).strip(" \t\r\n\ufeff")


@given(records)
def test_every_record_comes_back_from_its_line(record: Record) -> None:
    line = encode_record(record)
    assert decoded(line) == record
    assert line.endswith("\n")
    assert len(line.splitlines()) == 1
    assert "\x00" not in line
    assert line.encode("utf-8").decode("utf-8") == line
    assert line.startswith('{"v":1,"type":"')


@given(records)
def test_equal_records_are_equal_bytes(record: Record) -> None:
    again = replace(record, extra=dict(reversed(list(record.extra.items()))))
    assert encode_record(again) == encode_record(record)


@given(pieces, records)
def test_a_record_can_be_added_to_any_text_and_put_again(text: str, record: Record) -> None:
    others = [entry.record for entry in parse_log(text).entries if entry.record.id != record.id]
    once = put_record(text, record)
    assert [entry.record for entry in parse_log(once).entries] == [*others, record]
    assert put_record(once, record) == once


@given(st.lists(records, min_size=1, max_size=4, unique_by=lambda record: record.id), st.data())
def test_a_log_that_is_cut_anywhere_and_appended_to_loses_only_the_cut_line(
    many: list[Record], data: st.DataObject
) -> None:
    text = "".join(map(encode_record, many))
    cut = text[: data.draw(st.integers(0, len(text)))]
    ends = [len("".join(map(encode_record, many[:count]))) for count in range(1, len(many) + 1)]
    complete = sum(
        len(cut) >= end - 1 for end in ends
    )  # a line that lacks only its line end is whole
    last = observation("the-last-one")
    expected = [*many[:complete], last]
    assert [entry.record for entry in parse_log(put_record(cut, last)).entries] == expected
    complete = sum(len(cut) >= end for end in ends)
    glued = parse_log(cut + encode_record(last))
    assert [entry.record for entry in glued.entries] == [*many[:complete], last]
    assert all(code in ("torn-line", "duplicate-id") for _, code in codes(glued))


def test_a_torn_line_is_reported_and_the_next_append_starts_on_a_fresh_line() -> None:
    torn = encode_record(observation("a")) + encode_record(observation("b"))[:30]
    document = parse_log(put_record(torn, observation("c")))
    assert document.text == torn + "\n" + encode_record(observation("c"))
    assert ids(document) == ["a", "c"]
    assert codes(document) == [(2, "torn-line")]


def test_zero_bytes_do_not_hide_the_line_after_them() -> None:
    document = parse_log(
        "\x00" * 4096 + encode_record(observation("a")) + encode_record(observation("b"))
    )
    assert ids(document) == ["a", "b"]
    assert codes(document) == [(1, "torn-line")]


def test_a_line_behind_hundreds_of_torn_halves_is_still_read() -> None:
    halves = "".join(
        encode_record(observation(f"h{n}", "x" * n))[: 20 + n % 60] for n in range(500)
    )
    document = parse_log(halves + encode_record(observation("a")) + encode_record(observation("b")))
    assert ids(document) == ["a", "b"]
    assert {code for _, code in codes(document)} == {"torn-line"}


def test_a_record_that_was_written_twice_is_replaced_by_one() -> None:
    text = (
        encode_record(observation("a"))
        + encode_record(observation("b"))
        + encode_record(observation("a"))
    )
    assert codes(parse_log(text)) == [(3, "duplicate-id")]
    assert put_record(text, observation("a", "new")) == encode_record(
        observation("b")
    ) + encode_record(observation("a", "new"))


def test_a_line_of_a_newer_version_or_an_unknown_kind_is_not_read() -> None:
    text = '{"v":99,"type":"observation","id":"f"}\n{"v":1,"type":"observation","id":"k","kind":"new"}\n'
    document = parse_log(text)
    assert [problem.level for problem in document.problems] == ["note", "error"]
    assert [line.value["id"] for line in document.lines] == ["f", "k"]


def test_other_lines_keep_their_members() -> None:
    line = encode_line("injection", {"b": [1], "a": "\ud800\n\x00\u2028"})
    assert line == '{"v":1,"type":"injection","a":"\\ud800\\n\\u0000\\u2028","b":[1]}\n'
    (one,) = parse_log(line).lines
    assert (one.type, one.value["a"], one.line) == ("injection", "\ud800\n\x00\u2028", 1)
    assert encode_line("tick", {}) == '{"v":1,"type":"tick"}\n'
    bad: list[tuple[str, dict[str, object]]] = [
        ("observation", {}),
        ("", {}),
        ("x", {"v": 2}),
        ("x", {"type": "y"}),
        ("x", {"a": b""}),
    ]
    for line_type, value in bad:
        with pytest.raises(Refused):
            encode_line(line_type, value)


def test_nul_characters_are_kept_escaped() -> None:
    record = observation("a\x00", "b\x00c")
    assert decoded(encode_record(record)) == record
    assert "\\u0000" in encode_record(record)


def test_an_invalid_record_is_refused() -> None:
    for bad in [
        observation(""),
        replace(observation("a"), kind=Outcome.DONE),
        observation("a", "\ud83d\ude00"),
        replace(observation("a"), extra={"x": float("nan")}),
        replace(observation("a"), extra={"x": {1: 2}}),
    ]:
        with pytest.raises(Refused):
            encode_record(bad)


def test_a_deeply_nested_line_or_a_very_long_number_is_reported_and_the_rest_is_read() -> None:
    good = encode_record(observation("a"))
    for bad in ['{"v":1,"type":"x","a":' + "[" * 100_000, '{"v":1,"a":' + "9" * 10_000 + "}"]:
        document = parse_log(f"{bad}\n{good}")
        assert ids(document) == ["a"]
        assert codes(document) == [(1, "torn-line")]


def test_nan_is_read_as_null() -> None:
    document = parse_log(
        '{"v": 1, "type": "event", "payload": {"score": NaN, "low": -Infinity, "prompt": "x"}}\n'
    )
    assert codes(document) == []
    assert document.lines[0].value["payload"] == {"score": None, "low": None, "prompt": "x"}


@pytest.mark.soak
def test_a_long_line_of_openings_is_read_in_linear_time() -> None:
    text = '{"v":1,"type":"' * 100_000 + "\n" + encode_record(observation("a", "x" * 1_000_000))
    assert ids(parse_log(text)) == ["a"]


def test_members_of_other_writers_are_extra() -> None:
    record = decoded(
        '{"type":"journal","id":"j","kind":"failed","model":"opus","extra":{"cost":0.5}}'
    )
    assert record.extra == {"model": "opus", "cost": 0.5}
    assert (record.status, record.scope) == (Status.ACCEPTED, Scope.RUN)
