"""The share of the context window that memories get."""

from ralph.recall import eligibility


def test_memories_take_the_smaller_of_their_share_and_the_budget() -> None:
    assert eligibility.within_window(200_000, 2_000) == 2_000
    assert eligibility.within_window(8_000, 2_000) == 1_200
    assert eligibility.within_window(10_000, 0) == 1_500
    assert eligibility.within_window(1_000, 0, 0.5) == 500
    assert eligibility.within_window(1, 0) == 1
    assert eligibility.within_window(0, 300) == 300
