"""The log: every record comes back, and nothing that is torn takes its neighbours with it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.formats.laws import add_then_remove_restores, keeps_every_byte, messy

from ralph.errors import Conflict, NotFound, Refused, Unreadable
from ralph.formats.log import LogDocument, decode_record, encode_line, encode_record, parse_log
from ralph.model.record import Family, Link, MemoryKind, ObservationKind, Origin, Outcome, Record, Scope, Status

GOLDEN = Path(__file__).parent.parent / "golden" / "jsonl"
CASES = sorted(path for path in GOLDEN.iterdir() if not path.name.endswith(".expected.json"))
KINDS: dict[Family, tuple[MemoryKind | ObservationKind | Outcome, ...]] = {
    Family.MEMORY: tuple(MemoryKind),
    Family.OBSERVATION: tuple(ObservationKind),
    Family.JOURNAL: tuple(Outcome),
}

# Any character but high halves: low ones stand for undecodable bytes; a pair would be one character.
letters = st.characters(exclude_categories=["Cs"]) | st.characters(
    min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"]
)
words = st.text(letters, max_size=8)
names = words.filter(bool)
lists = st.lists(words, max_size=3).map(tuple)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
origins = st.builds(Origin, words, words, words, st.one_of(st.none(), st.integers()), words, words, lists, words)
links = st.lists(st.builds(Link, words, words), max_size=2).map(tuple)


@st.composite
def any_record(draw: st.DrawFn, families: tuple[Family, ...] = tuple(Family)) -> Record:
    family = draw(st.sampled_from(families))
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
    '{"v":1,"type":"observation","id":"a","kind":"note"}', '{"v":1,"type":"', '"id":', '{"v":', "}", "]", "99", '"', ","
)  # fmt: skip


def observation(name: str, text: str = "t") -> Record:
    return Record(name, ObservationKind.NOTE, text, Family.OBSERVATION, status=Status.RAW, scope=Scope.SESSION)


def ids(document: LogDocument) -> list[str]:
    return [entry.record.id for entry in document.entries]


def codes(document: LogDocument) -> list[tuple[int, str]]:
    return [(problem.line, problem.code) for problem in document.problems]


def seen(path: Path) -> dict[str, object]:
    """What the codec makes of a golden file, as plain JSON."""
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
    assert json.loads(json.dumps(seen(path))) == json.loads(expected)


@given(pieces)
@example('{"v":1' + '{"v":1,"type":"' * 100)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_log, text)
    document = parse_log(text)
    for line in document.lines:
        assert json.loads(text[line.start : line.end]) == line.value
        assert line.line == text.count("\n", 0, line.start) + 1


@given(pieces)
def test_no_character_of_a_log_goes_unread_and_untold(text: str) -> None:
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
    assert decode_record(line) == record
    assert line.endswith("\n")
    assert len(line.splitlines()) == 1
    assert "\x00" not in line
    assert line.encode("utf-8").decode("utf-8") == line
    assert line.startswith('{"v":1,"type":"')


@given(records)
def test_equal_records_are_equal_bytes(record: Record) -> None:
    again = replace(record, extra=dict(reversed(list(record.extra.items()))))
    assert encode_record(again) == encode_record(record)


@given(pieces, any_record((Family.OBSERVATION, Family.JOURNAL)))
def test_a_record_can_be_added_to_any_text_and_removed_again(text: str, record: Record) -> None:
    before = parse_log(text)
    if record.id in {entry.record.id for entry in before.entries} | {"a"}:
        return
    add_then_remove_restores(parse_log, text, record)
    added = before.add(record)
    assert added.text.startswith(text)
    if text != "\ufeff":
        assert added.remove(record.id).text == text


@given(st.lists(records, min_size=1, max_size=4, unique_by=lambda record: record.id), st.data())
def test_a_log_that_is_cut_anywhere_and_appended_to_loses_only_the_cut_line(
    many: list[Record], data: st.DataObject
) -> None:
    whole = "".join(map(encode_record, many))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    ends = [len("".join(map(encode_record, many[:count]))) for count in range(1, len(many) + 1)]
    complete = sum(len(cut) >= end - 1 for end in ends)  # a line that lacks only its line end is whole
    last = observation("the-last-one")
    kept = [*many[:complete], last]
    assert [entry.record for entry in parse_log(cut).add(last).entries] == kept
    glued = parse_log(cut + encode_record(last))
    assert [entry.record for entry in glued.entries] == kept
    assert all(code in ("torn-line", "duplicate-id") for _, code in codes(glued))


def test_a_torn_line_is_told_and_the_next_append_starts_on_a_fresh_line() -> None:
    torn = encode_record(observation("a")) + encode_record(observation("b"))[:30]
    document = parse_log(torn).add(observation("c"))
    assert document.text == torn + "\n" + encode_record(observation("c")).rstrip()
    assert document.remove("c").text == torn
    assert ids(document) == ["a", "c"]
    assert codes(document) == [(2, "torn-line")]


def test_zero_bytes_that_a_crash_left_do_not_hide_the_line_after_them() -> None:
    document = parse_log("\x00" * 4096 + encode_record(observation("a")) + encode_record(observation("b")))
    assert ids(document) == ["a", "b"]
    assert codes(document) == [(1, "torn-line")]


def test_what_stands_behind_hundreds_of_torn_halves_is_still_read() -> None:
    halves = "".join(encode_record(observation(f"h{n}", "x" * n))[: 20 + n % 60] for n in range(500))
    document = parse_log(halves + encode_record(observation("a")) + encode_record(observation("b")))
    assert ids(document) == ["a", "b"]
    assert {code for _, code in codes(document)} == {"torn-line"}


def test_two_records_on_one_line_are_both_read() -> None:
    document = parse_log(encode_record(observation("a")).rstrip() + encode_record(observation("b")))
    assert ids(document) == ["a", "b"]
    assert codes(document) == [(1, "torn-line")]
    assert ids(document.remove("a")) == ["b"]
    assert document.remove("b").text == encode_record(observation("a"))


def test_forgetting_removes_every_line_of_a_record_and_nothing_else() -> None:
    secret = encode_record(observation("s", "password is hunter2"))
    others = encode_line("session", {"id": "s", "x": 1}), encode_record(observation("b"))
    text = secret + others[0] + secret + others[1] + secret[:-6]
    document = parse_log(text)
    assert codes(document) == [(3, "duplicate-id"), (5, "torn-line")]
    assert document.remove("s").text == "".join(others)
    with pytest.raises(NotFound):
        document.remove("z")
    with pytest.raises(Conflict):
        document.replace("s", observation("s"))


def test_a_line_of_the_future_or_of_an_unknown_kind_can_be_forgotten_too() -> None:
    text = '{"v":99,"type":"observation","id":"f"}\n{"v":1,"type":"observation","id":"k","kind":"new"}\n'
    document = parse_log(text)
    assert [problem.level for problem in document.problems] == ["note", "error"]
    assert document.remove("f").remove("k").text == ""


def test_replacing_writes_one_line_and_keeps_the_others() -> None:
    text = (
        "\ufeff" + encode_record(observation("a")).replace("\n", "\r\n") + "half\r\n" + encode_record(observation("b"))
    )
    changed = parse_log(text).replace("a", observation("a", "new"))
    assert changed.text == text.replace('"text":"t"', '"text":"new"', 1)


def test_other_lines_are_given_as_they_are() -> None:
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


def test_what_a_tool_printed_is_kept_with_its_nul_characters() -> None:
    record = observation("a\x00", "b\x00c")
    assert decode_record(encode_record(record)) == record
    assert "\\u0000" in encode_record(record)


def test_what_cannot_be_a_line_is_refused() -> None:
    for bad in [
        observation(""),
        replace(observation("a"), kind=Outcome.DONE),
        observation("a", "\ud83d\ude00"),
        replace(observation("a"), extra={"x": float("nan")}),
        replace(observation("a"), extra={"x": {1: 2}}),
    ]:
        with pytest.raises(Refused):
            encode_record(bad)
    for line in ["", "{", '{"v":1,"type":"session"}', encode_record(observation("a")) * 2]:
        with pytest.raises(Unreadable):
            decode_record(line)


def test_a_deeply_nested_line_or_a_very_long_number_is_told_and_the_rest_is_read() -> None:
    good = encode_record(observation("a"))
    for bad in ['{"v":1,"type":"x","a":' + "[" * 100_000, '{"v":1,"a":' + "9" * 10_000 + "}"]:
        document = parse_log(f"{bad}\n{good}")
        assert ids(document) == ["a"]
        assert codes(document) == [(1, "torn-line")]


def test_a_number_that_is_none_does_not_lose_its_line() -> None:
    document = parse_log('{"v": 1, "type": "event", "payload": {"score": NaN, "low": -Infinity, "prompt": "x"}}\n')
    assert codes(document) == []
    assert document.lines[0].value["payload"] == {"score": None, "low": None, "prompt": "x"}


@pytest.mark.soak
def test_a_long_line_of_openings_is_read_in_linear_time() -> None:
    text = '{"v":1,"type":"' * 100_000 + "\n" + encode_record(observation("a", "x" * 1_000_000))
    assert ids(parse_log(text)) == ["a"]


def test_members_that_other_writers_add_are_surfaced() -> None:
    record = decode_record('{"type":"journal","id":"j","kind":"failed","model":"opus","extra":{"cost":0.5}}')
    assert record.extra == {"model": "opus", "cost": 0.5}
    assert (record.status, record.scope) == (Status.ACCEPTED, Scope.RUN)
