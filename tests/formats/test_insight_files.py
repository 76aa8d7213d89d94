"""The codec for insights.json."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import add_then_remove_restores, keeps_every_byte, messy

from ralph.core.errors import Conflict, NotFound, Refused, Unreadable
from ralph.core.record import Family, Link, MemoryKind, Origin, Record, Scope, Status
from ralph.formats.insight_files import INSIGHT_KEYS, InsightsDocument, parse_insights

GOLDEN = Path(__file__).parent.parent / "golden" / "work"
words = st.text(st.characters(exclude_characters="\x00"), max_size=8)
names = words.filter(lambda name: name not in ("", ".", "..") and not set(name) & set("/\\"))
INSIGHT_CASES = sorted(
    path for path in (GOLDEN.parent / "insights").iterdir() if ".expected" not in path.name
)

lists = st.lists(words, max_size=3).map(tuple)
origins = st.builds(
    Origin, words, words, words, st.one_of(st.none(), st.integers()), words, words, lists, words
)
insight_extras = st.dictionaries(
    names, st.one_of(words, st.integers(), st.none(), st.just({"a": [1.5, {}]})), max_size=3
).filter(lambda extra: not extra.keys() & set(INSIGHT_KEYS))
records = st.builds(
    Record,
    names,
    st.sampled_from(MemoryKind),
    words,
    st.just(Family.MEMORY),
    words,
    words,
    lists,
    st.sampled_from(Status),
    st.just(Scope.TASK),
    origins,
    words,
    words,
    words,
    st.lists(st.builds(Link, words, words), max_size=2).map(tuple),
    insight_extras,
)
insight_pieces = messy(
    '{"version":1,"insights":[',
    '{"id":"a","kind":"fix","text":"x"}',
    ",",
    "]}",
    '"source":{',
    '"tags":',
    "7",
)
ONE = Record(
    "ins-1-a",
    MemoryKind.FIX,
    "close the pool",
    label="gotcha",
    status=Status.PROPOSED,
    scope=Scope.TASK,
)


def parsed_insights(path: Path) -> dict[str, object]:
    """A golden insights.json as the codec reads it, as plain JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        document = parse_insights(file.read())
    rows = [
        {
            "id": record.id,
            "kind": record.kind,
            "label": record.label,
            "title": record.title,
            "text": record.text,
            "tags": list(record.tags),
            "status": record.status,
            "created_at": record.created_at,
            "files": list(record.origin.files),
            "source": [record.origin.session, record.origin.run, record.origin.iteration],
            "links": [[link.relation, link.target] for link in record.links],
            "extra": record.extra,
        }
        for record in (entry.record for entry in document.entries)
    ]
    return {
        "records": rows,
        "problems": [[problem.line, problem.code] for problem in document.problems],
    }


@pytest.mark.parametrize("path", INSIGHT_CASES, ids=lambda path: path.name)
def test_golden_insights_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(parsed_insights(path))) == json.loads(expected)


@given(insight_pieces)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_insights, text)


@given(records)
def test_an_insight_that_is_written_reads_back_equal(record: Record) -> None:
    document = parse_insights(parse_insights("").add(record).text)
    assert [entry.record for entry in document.entries] == [record]
    assert document.problems == ()


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), records)
def test_adding_and_removing_leaves_the_others_and_every_byte_alone(
    many: list[Record], record: Record
) -> None:
    document = parse_insights('{\n  "version": 1,\n  "insights": []\n}\n')
    for other in many:
        if other.id != record.id:
            document = document.add(other)
    add_then_remove_restores(parse_insights, document.text, record)
    assert document.add(record).remove(record.id).text == document.text


@given(records, records)
def test_any_insight_can_take_the_place_of_any_other(before: Record, after: Record) -> None:
    document = parse_insights(parse_insights("").add(before).text)
    assert [entry.record for entry in document.replace(before.id, after).entries] == [after]
    assert document.replace(before.id, before).text == document.text


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), st.data())
def test_many_changes_at_once_equal_one_after_the_other(
    there: list[Record], data: st.DataObject
) -> None:
    taken = {record.id for record in there}
    several = st.lists(
        records.filter(lambda record: record.id not in taken), min_size=1, max_size=4
    )
    new = data.draw(several.filter(lambda many: len({record.id for record in many}) == len(many)))
    start = parse_insights("")
    for record in there:
        start = start.add(record)
    after = [replace(record, text=data.draw(words)) for record in there]
    one, all_ = start, start.add(*new).replace_all({record.id: record for record in after})
    for record in new:
        one = one.add(record)
    for record in after:
        one = one.replace(record.id, record)
    assert str(all_) == str(one)


def test_two_new_insights_with_one_id_are_refused() -> None:
    with pytest.raises(Conflict, match="already"):
        parse_insights("").add(ONE, ONE)


def test_an_empty_file_gets_its_first_insight() -> None:
    for text in ["", "\n", "\ufeff"]:
        document = parse_insights(text)
        assert (document.entries, document.problems) == ((), ())
        added = document.add(ONE)
        assert [entry.record for entry in added.entries] == [ONE]
        assert added.text == parse_insights("").add(ONE).text


@pytest.mark.parametrize("text", ["{}", '{"version": 1}', '{"insights": null, "note": 1.0}'])
def test_a_file_without_the_list_gets_one(text: str) -> None:
    added = parse_insights(text).add(ONE)
    assert [entry.record for entry in added.entries] == [ONE]
    assert json.loads(added.remove(ONE.id).text) == json.loads(text) | {"insights": []}


HAND_WRITTEN: list[dict[str, object]] = [
    {"kind": "gotcha", "id": "ins-1-a", "sure": 0.9, "text": "a", "count": 1},
    {"text": "no id here", "kind": "tip", "source": {"run": "r1", "who": "kim"}},
]


def hand_written() -> InsightsDocument:
    return parse_insights(json.dumps({"insights": [*HAND_WRITTEN, 7]}))


def test_a_changed_insight_keeps_unknown_members_and_its_neighbours() -> None:
    record = hand_written().entries[0].record
    assert (record.kind, record.label, record.extra) == (
        MemoryKind.FIX,
        "gotcha",
        {"sure": 0.9, "count": 1},
    )
    changed = hand_written().replace(record.id, replace(record, extra={"sure": 0.9, "count": 2}))
    first = HAND_WRITTEN[0] | {"kind": "fix", "label": "gotcha", "count": 2}
    assert json.loads(changed.text) == {"insights": [first, HAND_WRITTEN[1], 7]}
    assert list(json.loads(changed.text)["insights"][0]) == [
        "kind",
        "id",
        "sure",
        "text",
        "count",
        "label",
    ]


def test_a_derived_id_is_written_when_the_text_changes() -> None:
    record = hand_written().entries[1].record
    assert record.id.startswith("ins-")
    changed = hand_written().replace(record.id, replace(record, text="other words"))
    assert changed.entries[1].record == replace(record, text="other words")


def test_a_changed_source_keeps_unknown_members() -> None:
    record = hand_written().entries[1].record
    changed = hand_written().replace(
        record.id, replace(record, origin=record.origin._replace(run="r2"))
    )
    assert json.loads(changed.text)["insights"][1]["source"] == {"run": "r2", "who": "kim"}


def test_an_invalid_insight_is_refused() -> None:
    for bad in [
        replace(ONE, id="x", text="a\x00b"),
        replace(ONE, id="x", scope=Scope.PROJECT),
        replace(ONE, id="x", family=Family.OBSERVATION),
        replace(ONE, id=""),
        replace(ONE, id="x", extra={"text": "twice"}),
        replace(ONE, id="x", extra={"when": object()}),
    ]:
        with pytest.raises(Refused) as caught:
            hand_written().add(bad)
        assert caught.value.hint
    with pytest.raises(Conflict):
        hand_written().add(ONE)
    with pytest.raises(NotFound):
        hand_written().remove("ins-9")


def test_unreadable_insights_are_not_written() -> None:
    for text in ["{", "[]", '{"insights": 7}', '{"insights": [' * 50_000]:
        with pytest.raises(Unreadable):
            parse_insights(text).add(ONE)


def test_every_wrong_type_of_many_insights_is_reported() -> None:
    rows = ",\n".join(
        f'{{"id": "ins-{n}", "kind": "fix", "text": "t", "tags": 1}}' for n in range(100)
    )
    document = parse_insights(f'{{"insights": [\n{rows}\n]}}')
    assert len(document.entries) == 100
    assert [problem.line for problem in document.problems] == list(range(2, 102))
