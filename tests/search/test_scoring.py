"""The parameters of the ranking, and the age of a record."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.indexed_records import NOISE, indexed, memory

from ralph.search import scoring
from ralph.search.rank import rank
from ralph.search.scoring import SEARCH, WEIGHTS, Features, Recipe, query_weights, weighted_sum

TODAY = "2025-06-01"


def test_a_recipe_takes_its_own_numbers_only() -> None:
    assert Recipe(min_evidence=0.9).min_evidence == 0.9
    assert SEARCH.min_evidence == Recipe.min_evidence == 0.7
    with pytest.raises(TypeError, match="min_evidenze"):
        Recipe(min_evidenze=0.9)  # type: ignore[call-arg]


SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES)
def test_meaning_takes_its_weight_from_the_match_by_words(
    text: float, meaning: float, share: float
) -> None:
    features = Features(text=text, meaning=meaning)
    wanted = (1 - share) * text + share * meaning
    assert weighted_sum(features, query_weights(WEIGHTS, share)) == pytest.approx(wanted)


DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 31))


@given(DAYS, DAYS)
def test_age_counts_days_as_the_calendar_does(one: date, two: date) -> None:
    days = max((two - one).days, 0)
    wanted = 2 ** (-days / WEIGHTS.age_half_life_days)
    assert scoring.age(one.isoformat(), two.isoformat()) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "when", ["", "yesterday", "2025", "2025-05", "20250501", "9999999999", "²²²²-²²-²²"]
)
def test_a_time_that_is_none_is_never_fresh_and_never_an_error(when: str) -> None:
    assert scoring.age(when, TODAY) <= 1
    with indexed(memory("deploy by hand", 1, created_at=when), *NOISE) as connection:
        found = rank(connection, "deploy", today=TODAY)
    assert found.best
    assert not found.weak
