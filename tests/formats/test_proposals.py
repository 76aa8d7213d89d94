"""proposals.jsonl: its lines as an insights.json, and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.captured_hooks import JSON
from tests.support.laws import messy

from ralph.formats.insight_files import parse_insights
from ralph.formats.proposals import unwrap_lines, wrap_lines

LINE = '{"v": 1, "type": "proposal", "id": "ins-1", "text": "Run `make gen`."}\n'
MEMBERS = st.dictionaries(
    st.sampled_from(["id", "text", "kind", "v", "type", "links", "version"]) | st.text(max_size=6),
    JSON,
    min_size=1,
    max_size=5,
)


def document(insights: list[dict[str, object]]) -> str:
    return json.dumps({"version": 1, "insights": insights}, ensure_ascii=False)


def test_a_line_has_the_members_of_an_insight_and_a_head() -> None:
    wrapped = wrap_lines(LINE)
    assert json.loads(wrapped)["insights"] == [{"id": "ins-1", "text": "Run `make gen`."}]
    assert unwrap_lines(wrapped) == LINE


def test_an_empty_file_is_an_empty_document() -> None:
    assert wrap_lines("") == ""
    assert unwrap_lines("") == ""


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no JSON",
        '{"v": 1, "type": "proposal", "id": "ins-2", "te',
        "[]",
        '{"v": 1, "type": "session"}',
        "[" * 100_000,
    ],
    ids=["blank", "text", "cut off", "a list", "another type", "too deep"],
)
def test_another_line_is_ignored_and_the_line_numbers_stay(line: str) -> None:
    wrapped = wrap_lines(f"{line}\n{LINE}")
    [entry] = parse_insights(wrapped).entries
    assert (entry.record.id, entry.line) == ("ins-1", 2)


@given(st.lists(MEMBERS, max_size=5))
def test_insights_survive_as_lines(insights: list[dict[str, object]]) -> None:
    lines = unwrap_lines(document(insights))
    assert lines.count("\n") == len(insights)
    wrapped = wrap_lines(lines)
    expected = []
    for members in insights:
        expected.append({name: members[name] for name in members if name not in ("v", "type")})
    found = json.loads(wrapped)["insights"] if wrapped else []
    assert repr(found) == repr([members for members in expected if members])
    assert unwrap_lines(wrapped) == unwrap_lines(document(found))


@given(messy(LINE, '{"v": 1, "type": "proposal"', '"text": "x"'))
def test_any_text_is_read_and_what_was_read_stays(text: str) -> None:
    wrapped = wrap_lines(text)
    lines = unwrap_lines(wrapped)
    assert json.loads(wrap_lines(lines) or "{}") == json.loads(wrapped or "{}")
    document = parse_insights(wrapped)
    assert str(document) == wrapped
