"""When a run ends by itself, and how long it waits for an agent."""

from collections.abc import Sequence

import pytest

from ralph.loop.check_output import failure_signature
from ralph.loop.state import (
    EndReason,
    IterationResult,
    Limits,
    Run,
    RunEnd,
    find_limit,
    retry_delay,
)

NEVER = Limits(max_iterations=0, seconds=0, cost=0)


def steps(*seen: tuple[str, str]) -> list[IterationResult]:
    """One step for each failure and disk."""
    return [
        IterationResult(number, failure, disk) for number, (failure, disk) in enumerate(seen, 1)
    ]


def on(disks: str, failure: str = "f") -> list[IterationResult]:
    """Steps with one failure, on disks of one letter each."""
    return steps(*((failure, disk) for disk in disks))


def limit_of(
    results: Sequence[IterationResult], limits: Limits, *, seconds: float = 0.0, cost: float = 0.0
) -> RunEnd | None:
    return find_limit(Run("run-1", "goal", seconds=seconds, cost=cost), limits, results)


def reason(found: RunEnd | None) -> str:
    return found.reason if found is not None else ""


def test_a_run_begins_within_its_limits() -> None:
    assert limit_of([], Limits()) is None


@pytest.mark.parametrize(("count", "ends"), [(2, ""), (3, EndReason.MAX_ITERATIONS)])
def test_it_ends_after_so_many_iterations(count: int, ends: str) -> None:
    assert reason(limit_of(on("abcdef"[:count]), Limits(max_iterations=3))) == ends


def test_interrupted_iterations_count_by_their_number() -> None:
    assert (
        reason(limit_of([IterationResult(3, "f", "a")], Limits(max_iterations=3)))
        == EndReason.MAX_ITERATIONS
    )


def test_it_ends_when_time_is_up_and_says_how_much_it_was() -> None:
    limits = Limits(seconds=3600)
    assert limit_of(on("a"), limits, seconds=3599) is None
    assert limit_of(on("a"), limits, seconds=3725) == RunEnd(
        EndReason.TIME, "1:02:05 h of at most 1:00:00 h"
    )


def test_it_ends_when_the_money_is_spent() -> None:
    limits = Limits(cost=2)
    assert limit_of(on("a"), limits, cost=1.99) is None
    assert limit_of(on("a"), limits, cost=2.5) == RunEnd(EndReason.COST, "$2.50 of at most $2.00")


def test_zero_is_no_limit() -> None:
    many = steps(*((f"f{number}", str(number)) for number in range(500)))
    assert limit_of(many, NEVER, seconds=1e9, cost=1e9) is None


def test_the_same_failure_on_the_same_disk_three_times_is_no_progress() -> None:
    failure = failure_signature("FAILED tests/test_a.py::test_sum - assert 2 == 3")
    assert limit_of(on("aa", failure), Limits()) is None
    found = limit_of(on("baaa", failure), Limits())
    assert found is not None
    assert found.reason == EndReason.NO_PROGRESS
    assert found.message == (
        "the same failure 3 times, with no change on disk: FAILED tests/test_a.py::test_sum - assert # == #"
    )


@pytest.mark.parametrize(
    "seen",
    [
        [("f", "a"), ("f", "b"), ("f", "c")],  # the disk changes
        [("f", "a"), ("g", "a"), ("f", "a")],  # the failure changes
        [("", "a"), ("", "a"), ("", "a")],  # nothing fails
        [("f", "a"), ("f", "a"), ("", "a"), ("f", "a")],  # something went well in between
        [("f", "a"), ("f", "a"), ("f", "a"), ("f", "b")],  # long ago
    ],
)
def test_anything_else_is_progress(seen: Sequence[tuple[str, str]]) -> None:
    assert limit_of(steps(*seen), Limits()) is None


def test_how_often_can_be_chosen_and_switched_off() -> None:
    assert reason(limit_of(on("aa"), Limits(no_progress=2))) == EndReason.NO_PROGRESS
    assert limit_of(on("aaaaa"), Limits(no_progress=0)) is None


@pytest.mark.parametrize(
    "disks", ["ababab", "xababab", "abcabcabc", "abcdabcdabcd", "aabaabaab", "bababa"]
)
def test_going_round_between_the_same_states_is_thrashing(disks: str) -> None:
    found = limit_of(on(disks), NEVER)
    assert reason(found) == EndReason.THRASHING


@pytest.mark.parametrize(
    "disks", ["ababa", "abababc", "abcabcab", "abacabad", "abcdef", "aaaaaaaaa"]
)
def test_other_ways_are_no_thrashing(disks: str) -> None:
    assert limit_of(on(disks), Limits(max_iterations=0, no_progress=0)) is None


def test_thrashing_needs_failures() -> None:
    assert limit_of(on("ababab", ""), NEVER) is None


def test_thrashing_says_between_how_many_states_and_since_when() -> None:
    found = limit_of(on("xababab", "0123456789ab the failure"), NEVER)
    assert found is not None
    for fact in ("the same 2 states", "iterations 2 to 7", "now: the failure"):
        assert fact in found.message


def test_the_most_informative_limit_is_reported() -> None:
    assert reason(limit_of(on("aaa"), Limits(3, 1, 1), seconds=9, cost=9)) == EndReason.NO_PROGRESS


def test_waits_grow_to_five_minutes_and_are_always_the_same() -> None:
    assert [retry_delay(tries) for tries in range(9)] == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert retry_delay(10_000) == 300
    assert retry_delay(-1) == 0
