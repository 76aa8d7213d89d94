"""Arguments: one declaration makes the schema and the check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from ralph.errors import UsageError
from ralph.mcp.tool import Param, Shape, Tool

TOOL = Tool(
    "make",
    "Makes it.",
    (
        Param("name", required=True),
        Param("count", Shape.NUMBER, least=1, most=9),
        Param("really", Shape.FLAG),
        Param("colours", Shape.LIST, choices=("red", "blue")),
        Param("size", choices=("s", "m")),
        Param("free", Shape.NUMBER),
        Param("words", Shape.LIST),
    ),
    {"type": "object"},
    "nowhere.make",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_what_is_declared_is_what_clients_see() -> None:
    assert TOOL.input_schema() == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "really": {"type": "boolean"},
            "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            "size": {"type": "string", "enum": ["s", "m"]},
            "free": {"type": "integer"},
            "words": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
    }


def test_values_are_taken_as_they_were_meant() -> None:
    said = TOOL.arguments({"name": "a", "count": "3", "really": "true", "colours": "red, blue", "size": None})
    assert (said.text("name"), said.number("count", 5), said.flag("really")) == ("a", 3, True)
    assert said.words("colours") == ("red", "blue")
    assert said.text_given("size") is None
    assert TOOL.arguments({"name": "a", "colours": ' ["red", "blue"]'}).words("colours") == ("red", "blue")
    assert TOOL.arguments({"name": 7, "count": 2.0}).number("count", 5) == 2


def test_what_was_not_said_is_not_an_empty_list() -> None:
    assert TOOL.arguments({"name": "a"}).words_given("colours") is None
    assert TOOL.arguments({"name": "a", "colours": []}).words_given("colours") == ()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "make needs name"),
        ({"name": "a", "colour": "red"}, "no argument 'colour'"),
        ({"name": ["a"]}, "name is no text"),
        ({"name": True}, "name is no text"),
        ({"name": "a", "count": 0}, "count cannot be 0"),
        ({"name": "a", "count": 10}, "count cannot be 10"),
        ({"name": "a", "count": "many"}, "count is no whole number"),
        ({"name": "a", "count": True}, "count is no whole number"),
        ({"name": "a", "really": "perhaps"}, "really is neither"),
        ({"name": "a", "colours": ["green"]}, "'green' is no colours"),
        ({"name": "a", "colours": [1]}, "colours is no list"),
        ({"name": "a", "size": "xl"}, "'xl' is no size"),
        ({"name": "a", "free": 10**30}, "free cannot be 1000"),
        ({"name": "a", "free": -1}, "free cannot be -1"),
        ({"name": "a", "words": ["x"] * 101}, "too many words"),
        ({"name": "a", "words": ["x" * 501]}, "too long ones"),
        ({"name": "a", "words": "x" * 100_001}, "words has 100001 characters"),
        ({"name": "a", "words": "[1]"}, "words is no list"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence_with_a_way_on(sent: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        TOOL.arguments(sent)
    assert caught.value.hint


@given(st.dictionaries(st.sampled_from(["name", "count", "really", "colours", "size", "odd"]), JSON))
def test_whatever_is_sent_is_taken_or_refused_and_what_the_schema_allows_is_taken(sent: dict[str, object]) -> None:
    try:
        TOOL.arguments(sent)
    except UsageError:
        allowed = Draft202012Validator(TOOL.input_schema()).is_valid(sent)
        assert not allowed or "odd" in sent  # a schema says nothing of names that it does not know
