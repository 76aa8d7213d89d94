"""JSON with positions."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import messy

from ralph.core.documents import Problem
from ralph.core.errors import Refused
from ralph.core.json_text import MAX_DEPTH, JsonNode, JsonReader, check_json, read_json, same_json

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
styles = st.tuples(
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " : ")]),
)
json_pieces = messy(
    "{", "}", "[", "]", ",", ":", '"', '"a"', '"id"', "1", "1.0", "-0", "1e5", "true", "null", "NaN", "\\u12", "\\"
)  # fmt: skip


def laid_out(value: object, style: tuple[int | str | None, tuple[str, str]], newline: str) -> str:
    indent, separators = style
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False).replace(
        "\n", newline
    )


def tree(text: str) -> JsonNode:
    node = read_json(text)
    assert isinstance(node, JsonNode), node
    return node


def walk(node: JsonNode) -> list[JsonNode]:
    nodes = [node]
    for child in [*(member.node for member in node.members), *node.items]:
        nodes += walk(child)
    return nodes


@given(json_pieces)
def test_every_text_is_read_as_json_reads_it_or_reported_with_its_line(text: str) -> None:
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
def test_each_node_has_the_position_of_its_text(
    value: object, style: tuple[int | str | None, tuple[str, str]], newline: str
) -> None:
    text = laid_out(value, style, newline)
    for node in walk(tree(text)):
        assert same_json(json.loads(text[node.start : node.end]), node.value)
        for member in node.members:
            assert json.loads(text[member.start : member.key_end]) == member.key


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


def test_values_that_json_cannot_hold_are_refused() -> None:
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


def test_members_of_a_wrong_type_are_reported_and_count_as_absent() -> None:
    text = '{"t": 1,\n"n": "x",\n"f": "no",\n"l": [1, "a"],\n"o": [],\n"i": 2.0, "z": null}'
    reader = JsonReader(text)
    kinds = {"t": "text", "n": "number", "f": "flag", "l": "texts", "o": "object"}
    assert reader.read_members(json.loads(text), kinds) == ({"l": ("a",)}, {"i": 2.0, "z": None})
    assert [(problem.line, problem.code) for problem in reader.problems] == [
        (n, "wrong-type") for n in range(1, 6)
    ]
    assert all(re.search("should be", problem.what) for problem in reader.problems)
    assert reader.read_members(json.loads(text), {"i": "number", "z": "text"})[0] == {"i": 2}
