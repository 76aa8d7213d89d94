"""Arguments: the SDK derives the schema from a typed function, and what a model means is accepted."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from mcp.server.mcpserver.tools import Tool as SdkTool
from pydantic import BeforeValidator

from ralph.core.errors import UsageError
from ralph.mcp.arguments import Hops, Number, Text, Words, to_words
from ralph.mcp.memory_tools import memory_add, memory_delete, memory_edit
from ralph.mcp.registry import Tool, parse_arguments

Colours = Annotated[list[Literal["red", "blue"]], BeforeValidator(to_words)]


def make(
    call: Any, name: Text, count: Hops = 1, really: bool = False, colours: Colours | None = None,
    size: Literal["", "s", "m"] = "", free: Number = 5, words: Words = [],  # noqa: B006
) -> None:  # fmt: skip
    """Makes it."""


TOOL = Tool(
    "make",
    make,
    SdkTool.from_function(make, context_kwarg="call", structured_output=False),
    False,
    False,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def parsed(sent: dict[str, object]) -> dict[str, object]:
    return parse_arguments(TOOL, sent).values


def test_what_is_declared_is_what_clients_see() -> None:
    assert TOOL.input == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "minimum": 1, "maximum": 6},
            "really": {"type": "boolean"},
            "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            "size": {"type": "string", "enum": ["s", "m"]},
            "free": {"type": "integer", "minimum": 1},
            "words": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
                "description": "a list, or text such as A,B",
            },
        },
        "required": ["name"],
    }


def test_values_are_taken_as_they_were_meant() -> None:
    taken = parsed(
        {"name": "a", "count": "3", "really": "true", "colours": "red, blue", "size": None}
    )
    assert (taken["name"], taken["count"], taken["really"], taken["colours"]) == (
        "a",
        3,
        True,
        ["red", "blue"],
    )
    assert (taken["size"], taken["words"], taken["free"]) == ("", [], 5)
    assert parsed({"name": "a", "colours": ' ["red", "blue"]'})["colours"] == [
        "red",
        "blue",
    ]
    assert parsed({"name": 7, "count": 2.0})["count"] == 2
    assert parsed({"name": "a", "free": 10**30})["free"] == 1_000_000


def test_what_was_not_sent_is_not_an_empty_list() -> None:
    assert parsed({"name": "a"})["colours"] is None
    assert parsed({"name": "a", "colours": []})["colours"] == []


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "make needs name"),
        ({"name": "a", "colour": "red"}, "no argument 'colour'"),
        ({"name": "a", "size": "s", "text": "b"}, "no argument 'text'"),
        ({"name": ["a"]}, "name: Input should be a valid string"),
        ({"name": True}, "name: Input should be a valid string"),
        ({"name": "a", "count": 0}, "count: Input should be greater"),
        ({"name": "a", "count": 7}, "count: Input should be less"),
        ({"name": "a", "count": "many"}, "count: Input should be a valid integer"),
        ({"name": "a", "really": "perhaps"}, "really: Input should be a valid boolean"),
        ({"name": "a", "colours": ["green"]}, "colours: Input should be 'red' or 'blue'"),
        ({"name": "a", "colours": [1]}, "colours: must be a list of texts"),
        ({"name": "a", "size": "xl"}, "size: Input should be"),
        ({"name": "a", "free": -1}, "free: Input should be greater"),
        ({"name": "a", "words": ["x"] * 101}, "words: can have at most 100 words"),
        ({"name": "a", "words": ["x" * 501]}, "words: can have at most 100 words of at most 500"),
        ({"name": "a", "words": "x" * 100_001}, "words: has 100001 characters"),
        ({"name": "a", "words": "[1]"}, "words: must be a list of texts"),
    ],
)
def test_what_is_wrong_is_an_error_with_a_hint(sent: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_arguments(TOOL, sent)
    assert caught.value.hint


def test_a_second_name_for_an_argument_replaces_nothing() -> None:
    added = parse_arguments(memory_add, {"text": "the real fact", "note": "see issue 4"})
    assert added.values["content"] == "the real fact"
    assert "'note', so it was not used" in added.notes[0]
    with pytest.raises(UsageError, match="no argument 'note'"):
        parse_arguments(memory_edit, {"id": "mem-1", "text": "the real fact", "note": "more"})


def test_deleting_accepts_no_name_that_may_mean_something_else() -> None:
    assert parse_arguments(memory_delete, {"memory_id": "mem-1"}).values == {"id": "mem-1"}
    for name in ("session_id", "task_id", "name"):
        with pytest.raises(UsageError, match=f"no argument '{name}'"):
            parse_arguments(memory_delete, {name: "mem-1"})
    with pytest.raises(UsageError, match="no argument 'record_id'"):
        parse_arguments(memory_delete, {"memory_id": "mem-1", "record_id": "mem-2"})


@given(
    st.dictionaries(st.sampled_from(["name", "count", "really", "colours", "size", "odd"]), JSON)
)
def test_whatever_the_schema_allows_is_taken(sent: dict[str, object]) -> None:
    try:
        parse_arguments(TOOL, sent)
    except UsageError:
        allowed = Draft202012Validator(TOOL.input).is_valid(sent)
        assert not allowed or "odd" in sent  # a schema says nothing of names that it does not know
