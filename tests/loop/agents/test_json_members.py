"""Members of JSON that other programs wrote."""

from hypothesis import given
from hypothesis import strategies as st

from ralph.loop.agents.json_members import (
    get_number,
    get_object,
    get_objects,
    get_text,
    parse_object,
)


@given(st.text())
def test_any_line_is_an_object_or_none(line: str) -> None:
    assert parse_object(line) is None or isinstance(parse_object(line), dict)


def test_a_deeply_nested_line_is_no_crash() -> None:
    assert parse_object('{"a":' * 100_000) is None


def test_values_of_another_type_read_as_empty() -> None:
    odd: dict[str, object] = {"a": [1, {"b": 2}, None], "c": True, "d": "4", "e": {"f": {"g": 1}}}
    assert (get_object(odd, "a"), get_object(odd, "e", "f"), get_object(None, "x")) == (
        {},
        {"g": 1},
        {},
    )
    assert (
        get_text(odd, "a"),
        get_number(odd, "c"),
        get_number(odd, "d"),
        get_number({"n": 2}, "n"),
    ) == (
        "",
        0.0,
        0.0,
        2.0,
    )
    assert list(get_objects(odd, "a")) == [{"b": 2}]
    assert list(get_objects(odd, "c")) == []
