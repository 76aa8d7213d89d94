"""Which commands are the same one, and for which failed ones a pass of another answers."""

import pytest
from tests.capture.situations import ERROR, SUCCESS, observed

from ralph.capture.runs import Run, answered, run_of


def ran(command: str, output: str = "", *, failed: bool = False) -> Run:
    """A command that was run."""
    found = run_of(observed(ERROR if failed else SUCCESS, output, command=command))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pytest -q", "cd api && uv run pytest 2>&1 | tail -5"),
        ("npm test", "npm run test"),
        ("make check", "CI=1 timeout 60 make check"),
    ],
)
def test_what_stands_around_a_command_does_not_change_it(one: str, other: str) -> None:
    assert ran(one).key == ran(other).key


@pytest.mark.parametrize(
    ("failed", "output", "passed", "answers"),
    [
        ("npm ci", "ERESOLVE", "npm ci --legacy-peer-deps", True),
        ("pytest", "1 failed", "pytest --deselect tests/test_slow.py", False),
        ("pytest tests/test_users.py -k login", "no such table", "pytest tests/test_users.py", True),
        ("npm test -- discount", "10 is not 0", "npm test", True),
        ("pytest", "FAILED tests/test_users.py::test_login", "pytest tests/test_users.py", True),
        ("pytest", "FAILED tests/test_users.py::test_login", "pytest tests/test_orders.py", False),
        ("pytest tests/test_a.py", "1 failed", "pytest tests/test_b.py", False),
        ("docker compose up db", "no space", "docker compose up", False),
        ("pytest tests/test_a.py", "1 failed", "ruff check", False),
    ],
)
def test_a_pass_answers_for_the_same_command_told_better_and_for_its_parts(
    failed: str, output: str, passed: str, *, answers: bool
) -> None:
    failure = ran(failed, output, failed=True)
    found = answered(ran(passed), [(failure.key, failure.record)])
    assert found == (failure.key if answers else None)


def test_an_observation_without_a_command_is_no_run() -> None:
    assert run_of(observed(SUCCESS, "done", tool="Edit")) is None
