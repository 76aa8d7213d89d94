"""insights.json: the laws, the golden files, and what a person's edits survive."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.laws import add_then_remove_restores, keeps_every_byte, messy

from ralph.errors import Conflict, NotFound, Refused, Unreadable
from ralph.formats.work import INSIGHT_KEYS, InsightsDocument, parse_insights, render_insights
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status

GOLDEN = Path(__file__).parent.parent / "golden" / "insights"
CASES = sorted(path for path in GOLDEN.iterdir() if not path.name.endswith(".expected.json"))

words = st.text(st.characters(exclude_characters="\x00"), max_size=8)
names = words.filter(bool)
lists = st.lists(words, max_size=3).map(tuple)
origins = st.builds(Origin, words, words, words, st.one_of(st.none(), st.integers()), words, words, lists, words)
extras = st.dictionaries(
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
    extras,
)
pieces = messy(
    '{"version":1,"insights":[', '{"id":"a","kind":"fix","text":"x"}', ",", "]}", '"source":{', '"tags":', "7"
)
ONE = Record("ins-1-a", MemoryKind.FIX, "close the pool", label="gotcha", status=Status.PROPOSED, scope=Scope.TASK)


def seen(path: Path) -> dict[str, object]:
    """What the codec makes of a golden file, as plain JSON."""
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
    return {"records": rows, "problems": [[problem.line, problem.code] for problem in document.problems]}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(seen(path))) == json.loads(expected)


@given(pieces)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_insights, text)


@given(records)
def test_an_insight_that_is_written_reads_back_equal(record: Record) -> None:
    document = parse_insights(render_insights(record))
    assert [entry.record for entry in document.entries] == [record]
    assert document.problems == ()


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), records)
def test_adding_and_removing_leaves_the_others_and_every_byte_alone(many: list[Record], record: Record) -> None:
    document = parse_insights('{"version": 1, "insights": []}')
    for other in many:
        if other.id != record.id:
            document = document.add(other)
    add_then_remove_restores(parse_insights, document.text, record)
    assert document.add(record).remove(record.id).text == document.text


@given(records, records)
def test_any_insight_can_take_the_place_of_any_other(before: Record, after: Record) -> None:
    document = parse_insights(render_insights(before))
    assert [entry.record for entry in document.replace(before.id, after).entries] == [after]
    assert document.replace(before.id, before).text == document.text


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), st.data())
def test_many_at_once_are_as_one_after_the_other(there: list[Record], data: st.DataObject) -> None:
    taken = {record.id for record in there}
    several = st.lists(records.filter(lambda record: record.id not in taken), min_size=1, max_size=4)
    new = data.draw(several.filter(lambda many: len({record.id for record in many}) == len(many)))
    start = parse_insights("")
    for record in there:
        start = start.add(record)
    after = [replace(record, text=data.draw(words)) for record in there]
    one, all_ = start, start.add(*new).replace_all(after)
    for record in new:
        one = one.add(record)
    for record in after:
        one = one.replace(record.id, record)
    assert str(all_) == str(one)


def test_two_with_one_id_are_refused_together_as_well() -> None:
    with pytest.raises(Conflict, match="two of the insights have the id"):
        parse_insights("").add(ONE, ONE)


def test_an_empty_file_becomes_a_whole_one() -> None:
    for text in ["", "\n", "\ufeff"]:
        document = parse_insights(text)
        assert (document.entries, document.problems) == ((), ())
        added = document.add(ONE)
        assert [entry.record for entry in added.entries] == [ONE]
        assert added.text == text.strip() + render_insights(ONE)


blanks = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\t"])


@given(
    st.sampled_from(["{~}", '{~"version"~:~1~}', '{~"insights"~:~null~}', '{~"insights": null~,~"note": 1.0~}',
                     '{~"insights"~:~[~]~}', '{"a": []~,~"insights": [~7~]}', '{"insights":[~7~,~{"text": "a"}~]~}',
                     '{"insights": null~,"insights": null}', '~{~"insights": [~{"kind": "fix", "text": "a"}~]}~']),
    st.lists(blanks, min_size=6, max_size=6),
    records,
)  # fmt: skip
def test_any_layout_is_as_it_was_after_add_and_remove(shell: str, gaps: list[str], record: Record) -> None:
    text = "".join(piece + gap for piece, gap in zip(shell.split("~"), [*gaps, "", "", ""], strict=False))
    add_then_remove_restores(parse_insights, text, record)


def test_a_file_without_the_list_gets_it() -> None:
    for text in ["{}", '{"version": 1}', '{"insights": null, "note": 1.0}']:
        added = parse_insights(text).add(ONE)
        assert [entry.record for entry in added.entries] == [ONE]
        two = added.add(replace(ONE, id="ins-2-b"))
        assert two.remove("ins-2-b").remove(ONE.id).text == text
        assert '"insights": []' in two.remove(ONE.id).remove("ins-2-b").text
        edited = added.replace(ONE.id, replace(ONE, text="other words"))
        assert edited.remove(ONE.id).text == text


HAND = (
    '{\r\n  "insights": [\r\n    {"kind": "gotcha", "id": "ins-1-a", "sure": 0.90, "text": "a", "count": 1},\r\n'
    '    {"text": "no id here", "kind": "tip", "source": {"run": "r1", "who": "kim"}}\r\n  ]\r\n}'
)


def hand() -> InsightsDocument:
    return parse_insights(HAND)


def test_only_the_changed_member_is_written() -> None:
    record = hand().entries[0].record
    assert (record.kind, record.label, record.extra) == (MemoryKind.FIX, "gotcha", {"sure": 0.9, "count": 1})
    raised = hand().replace(record.id, replace(record, extra={"sure": 0.9, "count": 2}))
    assert raised.text == HAND.replace('"count": 1', '"count": 2')
    accepted = hand().replace(record.id, replace(record, status=Status.ACCEPTED))
    assert accepted.text == HAND.replace('"count": 1', '"count": 1, "status": "accepted"')


def test_the_authors_word_outlives_a_change_of_kind() -> None:
    changed = hand().replace("ins-1-a", replace(hand().entries[0].record, kind=MemoryKind.DECISION))
    assert changed.entries[0].record == replace(hand().entries[0].record, kind=MemoryKind.DECISION)
    assert '"kind": "decision"' in changed.text
    assert '"label": "gotcha"' in changed.text


def test_an_id_that_was_derived_is_written_once_the_words_change() -> None:
    record = hand().entries[1].record
    assert record.id.startswith("ins-")
    changed = hand().replace(record.id, replace(record, text="other words"))
    assert changed.entries[1].record == replace(record, text="other words")


def test_a_changed_source_keeps_what_others_wrote_into_it() -> None:
    record = hand().entries[1].record
    changed = hand().replace(record.id, replace(record, origin=replace(record.origin, run="r2")))
    assert '"source": {"run": "r2", "who": "kim"}' in changed.text


def test_what_cannot_be_written_is_refused() -> None:
    for bad in [
        replace(ONE, id="x", text="a\x00b"),
        replace(ONE, id="x", scope=Scope.PROJECT),
        replace(ONE, id="x", family=Family.OBSERVATION),
        replace(ONE, id=""),
        replace(ONE, id="x", extra={"text": "twice"}),
        replace(ONE, id="x", extra={"when": object()}),
    ]:
        with pytest.raises(Refused) as caught:
            hand().add(bad)
        assert caught.value.hint
    with pytest.raises(Conflict):
        hand().add(ONE)
    with pytest.raises(NotFound):
        hand().remove("ins-9")


def test_a_file_that_is_not_read_is_not_written_either() -> None:
    for text in ["{", "[]", '{"insights": 7}', '{"insights": [' * 50_000]:
        with pytest.raises(Unreadable):
            parse_insights(text).add(ONE)


def test_ten_thousand_insights_with_a_wrong_type_each_are_all_told() -> None:
    rows = ",\n".join(f'{{"id": "ins-{n}", "kind": "fix", "text": "t", "tags": 1}}' for n in range(10_000))
    document = parse_insights(f'{{"insights": [\n{rows}\n]}}')
    assert len(document.entries) == 10_000
    assert [problem.line for problem in document.problems] == list(range(2, 10_002))
