"""Reading JSON with its places, and editing one of them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.errors import Refused
from ralph.formats.json_text import (
    DROP,
    MAX_DEPTH,
    JsonFields,
    JsonNode,
    LineNumbers,
    Raw,
    array_text,
    check_json,
    object_text,
    read_json,
    same_json,
    splice,
    style_of,
)
from ralph.formats.text import Problem

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=5)
styles = st.tuples(
    st.sampled_from([None, 0, 1, 2, 4, "\t"]), st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " : ")])
)
json_pieces = messy(
    "{", "}", "[", "]", ",", ":", '"', '"a"', '"id"', "1", "1.0", "-0", "1e5", "true", "null", "NaN", "\\u12", "\\"
)  # fmt: skip


def laid_out(value: object, style: tuple[int | str | None, tuple[str, str]], newline: str) -> str:
    indent, separators = style
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False).replace("\n", newline)


def tree(text: str) -> JsonNode:
    node = read_json(text)
    assert isinstance(node, JsonNode), node
    return node


def set_members(text: str, **changes: object) -> str:
    root = tree(text)
    return splice(text, root, object_text(text, root, style_of(text, root), changes))


def append(text: str, value: object, key: str = "a") -> str:
    root = tree(text)
    array = root.get(key)
    assert array is not None
    return splice(text, array, array_text(text, array, style_of(text, root), added=[value]))


def walk(node: JsonNode) -> list[JsonNode]:
    nodes = [node]
    for child in [*(member.node for member in node.members), *node.items]:
        nodes += walk(child)
    return nodes


@given(json_pieces)
def test_every_text_is_either_read_as_json_reads_it_or_told_with_its_line(text: str) -> None:
    got = read_json(text)
    try:
        expected = json.loads(text.removeprefix("\ufeff"), parse_constant=int)
    except ValueError:  # `int` says so for NaN and Infinity, which are not JSON
        assert isinstance(got, Problem)
        assert got.level == "error"
        assert 1 <= got.line <= text.count("\n") + 1
    else:
        assert isinstance(got, JsonNode)
        assert same_json(got.value, expected)


@given(values, styles, st.sampled_from(["\n", "\r\n"]))
def test_each_node_stands_where_its_own_text_is(
    value: object, style: tuple[int | str | None, tuple[str, str]], newline: str
) -> None:
    text = laid_out(value, style, newline)
    for node in walk(tree(text)):
        assert same_json(json.loads(text[node.start : node.end]), node.value)
        for member in node.members:
            assert json.loads(text[member.start : member.key_end]) == member.key


@given(objects, styles, st.sampled_from(["\n", "\r\n"]), st.text(max_size=3), values)
def test_setting_a_member_changes_nothing_but_its_value(
    value: dict[str, object],
    style: tuple[int | str | None, tuple[str, str]],
    newline: str,
    key: str,
    new: object,
) -> None:
    text = f"\ufeff {laid_out(value, style, newline)}{newline}"
    root = tree(text)
    changed = splice(text, root, object_text(text, root, style_of(text, root), {key: new}))
    assert list(json.loads(changed[1:]).items()) == list((value | {key: new}).items())
    after = tree(changed)
    for old, now in zip(root.members, after.members, strict=False):
        if old.key != key:
            assert text[old.start : old.end] == changed[now.start : now.end]
    assert text[: root.start] == changed[: after.start]
    assert text[root.end :] == changed[after.end :]
    if key not in value and value:  # what is dropped again leaves no trace
        assert splice(changed, after, object_text(changed, after, style_of(changed, after), {key: DROP})) == text


@given(st.lists(values, min_size=1, max_size=5), styles, values, st.data())
def test_appending_to_a_list_and_removing_again_restores_every_byte(
    items: list[object], style: tuple[int | str | None, tuple[str, str]], new: object, data: st.DataObject
) -> None:
    text = laid_out(items, style, "\n")
    root = tree(text)
    changed = array_text(text, root, style_of(text, root), added=[new])
    assert same_json(json.loads(changed), [*items, new])
    after = tree(changed)
    assert array_text(changed, after, style_of(changed, after), removed=[len(items)]) == text
    place = data.draw(st.integers(0, len(items) - 1))
    shorter = array_text(text, root, style_of(text, root), removed=[place])
    assert same_json(json.loads(shorter), items[:place] + items[place + 1 :])


def test_number_spelling_escapes_and_duplicate_keys_survive_an_edit() -> None:
    text = '{"a": 1.0, "b" :1e5,\t"c":"\\u00e9\\/", "a": -0, "d": [1 , 2]}'
    assert set_members(text, b=2) == text.replace("1e5", "2")
    assert set_members(text, a=7) == text.replace("-0", "7"), "of two equal keys the last one counts"
    assert set_members(text, a=DROP) == '{"b" :1e5,\t"c":"\\u00e9\\/", "d": [1 , 2]}'


def test_new_values_take_the_indentation_around_them() -> None:
    text = '{\r\n    "a": [],\r\n    "b": null\r\n}'
    assert append(text, {"x": 1}) == (
        '{\r\n    "a": [\r\n        {\r\n            "x": 1\r\n        }\r\n    ],\r\n    "b": null\r\n}'
    )
    assert set_members(text, b={"y": [1]}, c="è") == (
        '{\r\n    "a": [],\r\n    "b": {\r\n        "y": [\r\n            1\r\n        ]\r\n    },\r\n    "c": "è"\r\n}'
    )


def test_a_list_of_one_line_objects_gets_another_one_line_object() -> None:
    text = '{\n\t"a": [\n\t\t{"x": 1},\n\t\t{"x": 2}\n\t]\n}\n'
    assert append(text, {"x": 3}) == text.replace('{"x": 2}', '{"x": 2},\n\t\t{"x": 3}')


def test_a_compact_text_stays_compact() -> None:
    assert append('{"a":[{"x":1}],"b":2}', {"x": 2}) == '{"a":[{"x":1},{"x":2}],"b":2}'
    assert append('{"a": [1, 2]}', 3) == '{"a": [1, 2, 3]}'
    assert append('{"a":[]}', {"x": 2}) == '{"a":[{"x":2}]}'


def test_commas_at_the_start_of_lines_do_not_become_indentation() -> None:
    changed = set_members('{ "a": 1\n, "b": 2\n}', c=3)
    assert json.loads(changed) == {"a": 1, "b": 2, "c": 3}


def test_an_edit_can_stand_inside_another_edit() -> None:
    text = '{"a": {"b": 1, "keep": 1.50}}'
    root = tree(text)
    inner = root.get("a")
    assert inner is not None
    style = style_of(text, root)
    new = Raw(object_text(text, inner, style, {"b": 2}))
    assert object_text(text, root, style, {"a": new}) == '{"a": {"b": 2, "keep": 1.50}}'


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_deeply_nested_text_is_a_problem_and_no_crash(opening: str) -> None:
    got = read_json(opening * 200_000)
    assert isinstance(got, Problem)
    assert f"deeper than {MAX_DEPTH}" in got.what
    assert isinstance(read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH), JsonNode)
    assert isinstance(read_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)), Problem)


def test_a_number_too_long_for_python_is_a_problem_with_its_line() -> None:
    got = read_json('{"a":\n' + "9" * 10_000 + "}")
    assert isinstance(got, Problem)
    assert got.line == 2


def test_conflict_markers_are_named_as_such() -> None:
    got = read_json('{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> other\n}')
    assert isinstance(got, Problem)
    assert (got.line, got.code) == (2, "conflict-marker")


def test_what_json_cannot_hold_is_refused() -> None:
    deep: list[object] = []
    deep.append(deep)
    for value in [
        float("nan"),
        float("inf"),
        {1: 2},
        {"a": {3}},
        b"x",
        "a\x00b",
        "\ud83d\ude00",
        10**5000,
        deep,
    ]:
        with pytest.raises(Refused) as caught:
            check_json(value)
        assert caught.value.hint
    assert check_json("a\x00b", nul=True) == "a\x00b"
    assert check_json({"a": (1, 2.5, None)}) == {"a": [1, 2.5, None]}


def test_the_line_of_a_place_counts_line_feeds_only() -> None:
    text = "a\r\nb\x0b\u2028\n\nc"
    lines = LineNumbers(text)
    assert [lines(place) for place in range(len(text) + 1)] == [
        text.count("\n", 0, place) + 1 for place in range(len(text) + 1)
    ]


def test_members_of_a_wrong_type_are_told_once_and_count_as_absent() -> None:
    text = '{"t": 1,\n"n": "x",\n"f": "no",\n"l": [1, "a"],\n"o": [],\n"i": 2.0, "z": null}'
    problems: list[Problem] = []
    fields = JsonFields(tree(text), LineNumbers(text), problems)
    assert (fields.text("t"), fields.number("n"), fields.flag("f")) == (None, None, None)
    assert (fields.texts("l"), fields.inner("o"), fields.number("i"), fields.text("z")) == (
        ("a",),
        None,
        2,
        None,
    )
    assert [(problem.line, problem.code) for problem in problems] == [(n, "wrong-type") for n in range(1, 6)]
    assert all(re.search("should be", problem.what) for problem in problems)
    assert fields.rest(["t", "n", "f", "l", "o"]) == {"i": 2.0, "z": None}
