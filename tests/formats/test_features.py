"""feature.json, and the first form of spec.md and plan.md."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.errors import Refused, Unreadable
from ralph.formats.work import FEATURE_KEYS, is_unwritten, new_plan, new_spec, parse_feature, render_feature
from ralph.model.work import Feature

words = st.text(st.characters(exclude_characters="\x00"), max_size=8)
extras = st.dictionaries(
    words.filter(lambda key: key not in FEATURE_KEYS),
    st.one_of(words, st.integers(), st.booleans(), st.none(), st.lists(words, max_size=2), st.just({"a": [1.5]})),
    max_size=3,
)
features = st.builds(Feature, words.filter(bool), words, words, words, words, words, extras)
pieces = messy('{"id":"f-1",', '"title":"x"', '"status":', "}", ":", "1.0", "null")


@given(pieces)
def test_every_text_survives_and_every_problem_says_what_and_what_to_do(text: str) -> None:
    document = parse_feature(text)
    assert str(document) == document.text == text
    for problem in document.problems:
        assert problem.what
        assert problem.hint
        assert problem.code
        assert 1 <= problem.line <= text.count("\n") + 1
    assert document.feature is not None or document.problems


@given(features, features)
def test_a_feature_reads_back_equal_and_any_state_follows_any_other(before: Feature, after: Feature) -> None:
    document = parse_feature(render_feature(before))
    assert document.feature == before
    assert document.problems == ()
    assert document.with_feature(before).text == document.text
    assert document.with_feature(after).feature == after


def test_only_the_member_that_differs_is_written() -> None:
    text = '\ufeff{\r\n\t"x-owner": "kim",\r\n\t"title":"Refunds", "id": "f-1"\r\n}'
    feature = parse_feature(text).feature
    assert feature == Feature("f-1", "Refunds", extra={"x-owner": "kim"})
    changed = parse_feature(text).with_feature(replace(feature, title="Money back"))
    assert changed.text == text.replace("Refunds", "Money back")


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["empty-file"]),
        ("{", ["not-json"]),
        ("[]", ["not-an-object"]),
        ('{"title": "x"}', ["no-id"]),
        ('{"id": "f-1"}', ["no-title"]),
        ('{"id": "f-1", "title": "x", "status": 3}', ["wrong-type"]),
    ],
)
def test_what_is_odd_is_told(text: str, codes: list[str]) -> None:
    assert [problem.code for problem in parse_feature(text).problems] == codes


def test_a_file_that_is_not_read_is_not_written_either() -> None:
    for text in ("{", "[]"):
        with pytest.raises(Unreadable):
            parse_feature(text).with_feature(Feature("f-1", "x"))
    assert parse_feature("\ufeff").with_feature(Feature("f-1", "x")).text.startswith('\ufeff{\n  "id": "f-1"')


def test_what_cannot_be_written_is_refused() -> None:
    for bad in (Feature("", "x"), Feature("f-1", "a\x00"), Feature("f-1", "x", extra={"status": 1})):
        with pytest.raises(Refused):
            render_feature(bad)


def test_headings_alone_say_nothing() -> None:
    bare, told = Feature("f-1", "Refunds"), Feature("f-1", "Refunds", "Money back")
    assert is_unwritten(new_spec(bare))
    assert is_unwritten(new_plan(told))
    assert not is_unwritten(new_spec(told))
    assert is_unwritten("\ufeff# x\r\n\r\n##\r\n")
    assert not is_unwritten("#hashtag\n")
    assert new_spec(told).count("\n## ") == new_plan(told).count("\n## ") == 2
