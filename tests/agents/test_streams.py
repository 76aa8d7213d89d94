"""Lines are put together from pieces of any size, and what is no JSON is no crash."""

from hypothesis import given
from hypothesis import strategies as st

from ralph.agents.streams import Lines, inner, number, objects, parsed, word


@given(st.lists(st.text(alphabet="ab\n{}\r\u2028\x85 é"), max_size=20))
def test_however_a_text_is_torn_its_lines_are_the_same(pieces: list[str]) -> None:
    whole: list[str] = []
    torn: list[str] = []
    for heard, parts in ((whole, ["".join(pieces)]), (torn, pieces)):
        lines = Lines(heard.append)
        for part in parts:
            lines.add(part)
        lines.end()
    assert torn == whole == [line.removesuffix("\r") for line in "".join(pieces).split("\n") if line.strip()]


def test_a_line_of_many_megabytes_is_one_line() -> None:
    heard: list[str] = []
    lines = Lines(heard.append)
    for _ in range(200):
        lines.add("x" * 65536)
    lines.add("\n")
    assert [len(line) for line in heard] == [200 * 65536]


def test_a_line_that_was_cut_off_can_be_dropped() -> None:
    heard: list[str] = []
    lines = Lines(heard.append)
    lines.add('whole\n{"half": ')
    lines.drop()
    lines.end()
    assert heard == ["whole"]


@given(st.text())
def test_any_line_is_an_object_or_nothing(line: str) -> None:
    assert parsed(line) is None or isinstance(parsed(line), dict)


def test_a_deeply_nested_line_is_no_crash() -> None:
    assert parsed('{"a":' * 100_000) is None


def test_what_has_another_shape_reads_as_empty() -> None:
    odd: dict[str, object] = {"a": [1, {"b": 2}, None], "c": True, "d": "4", "e": {"f": {"g": 1}}}
    assert (inner(odd, "a"), inner(odd, "e", "f"), inner(None, "x")) == ({}, {"g": 1}, {})
    assert (word(odd, "a"), number(odd, "c"), number(odd, "d"), number({"n": 2}, "n")) == ("", 0.0, 0.0, 2.0)
    assert list(objects(odd, "a")) == [{"b": 2}]
    assert list(objects(odd, "c")) == []
