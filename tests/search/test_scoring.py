"""The parameters of the ranking, and the age of a record."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.indexed_records import NOISE, indexed, memory

from ralph.search import scoring
from ralph.search.rank import rank
from ralph.search.scoring import STANDARD, Recipe

TODAY = "2025-06-01"


def test_a_recipe_takes_its_own_numbers_only() -> None:
    assert Recipe(min_evidence=0.9).min_evidence == 0.9
    assert STANDARD.min_evidence == Recipe.min_evidence == 0.7
    with pytest.raises(TypeError, match="min_evidenze"):
        Recipe(min_evidenze=0.9)  # type: ignore[call-arg]


DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 31))


@given(DAYS, DAYS)
def test_freshness_counts_days_as_the_calendar_does(one: date, two: date) -> None:
    age = max((two - one).days, 0)
    weight = STANDARD.recency_weight
    wanted = 1 - weight + weight * 2 ** (-age / STANDARD.recency_half_life_days)
    assert scoring.freshness(one.isoformat(), two.isoformat()) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "when", ["", "yesterday", "2025", "2025-05", "20250501", "9999999999", "²²²²-²²-²²"]
)
def test_a_time_that_is_none_is_never_fresh_and_never_an_error(when: str) -> None:
    assert scoring.freshness(when, TODAY) <= 1
    with indexed(memory("deploy by hand", 1, created_at=when), *NOISE) as connection:
        found = rank(connection, "deploy", today=TODAY)
    assert found.best
    assert not found.weak
