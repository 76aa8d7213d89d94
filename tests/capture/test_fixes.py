"""Which sessions teach something, and what a lesson says; the sessions are in `situations.py`."""

import pytest
from tests.capture.situations import EMPTY, ERROR, TEACHING, observed, session

from ralph.capture.fixes import Fix, error_line, fixes
from ralph.model.record import Record


def only(records: list[Record]) -> Fix:
    """The one lesson of a session."""
    found = fixes(records)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", TEACHING)
def test_an_error_and_what_resolved_it_is_a_lesson(name: str) -> None:
    assert only(session(*TEACHING[name])).text


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_is_learned_from(name: str) -> None:
    assert [each.text for each in fixes(session(*EMPTY[name]))] == []


def test_a_lesson_says_what_failed_how_and_what_resolved_it() -> None:
    fix = only(session(*TEACHING["a build that the tests need"]))
    assert fix.text == (
        "`npm test` failed: Error: Cannot find module '../dist/parser.js'. It passed after `npm run build`."
    )
    fix = only(session(*TEACHING["a variable in front"]))
    assert "with `STRIPE_KEY=sk_dummy`" in fix.text
    fix = only(session(*TEACHING["another version first"]))
    assert "with `nvm use 20`" in fix.text
    fix = only(session(*TEACHING["an option that helps"]))
    assert "with `--legacy-peer-deps`" in fix.text
    fix = only(session(*TEACHING["a setting that was wrong"]))
    assert "jest.config.js" in fix.text
    assert fix.text.endswith("It passed after a change of jest.config.js. New there: `testEnvironment: 'jsdom',`.")
    fix = only(session(*TEACHING["code around a trap that the agent explains"]))
    assert "must flush before closing" in fix.text


def test_a_letter_that_was_written_into_a_file_of_settings_is_not_quoted() -> None:
    failed = ("fail", "npx jest", "ReferenceError: document is not defined")
    fix = only(session(failed, ("edit", "jest.config.js", "+ y"), ("ok", "npx jest")))
    assert fix.text.endswith("It passed after a change of jest.config.js.")


def test_the_evidence_is_the_failure_what_was_done_and_the_pass() -> None:
    records = session(*TEACHING["a migration before the tests"])
    assert [each.id for each in only(records).evidence] == [each.id for each in records]


def test_what_stands_around_the_command_does_not_make_it_another_one() -> None:
    records = session(
        ("fail", "cd api && pytest -q 2>&1 | tail -5", "sqlite3.OperationalError: no such table: users"),
        ("ok", "alembic upgrade head"),
        ("ok", "pytest"),
    )
    assert only(records).commands == ("alembic upgrade head",)


def test_only_what_was_done_after_the_last_failure_of_its_sort_counts() -> None:
    records = session(
        ("fail", "npm test", "Error: Cannot find module './gen/client'"),
        ("ok", "npm install"),
        ("fail", "npm test", "Error: Cannot find module './gen/client'"),
        ("ok", "npm run codegen"),
        ("ok", "npm test"),
    )
    assert only(records).commands == ("npm run codegen",)


def test_each_sort_of_failure_before_one_pass_has_its_own_lesson() -> None:
    records = session(
        ("fail", "make test", "Error: DATABASE_URL environment variable is not set"),
        ("edit", ".env.test", "+ DATABASE_URL="),
        ("fail", "make test", 'relation "users" does not exist'),
        ("ok", "make migrate"),
        ("ok", "make test"),
    )
    assert [(each.commands, each.files) for each in fixes(records)] == [((), (".env.test",)), (("make migrate",), ())]


def test_the_line_of_an_output_that_says_most_is_quoted() -> None:
    output = (
        "> app@1.0.0 test\n> jest\n\nFAIL src/a.test.js\nError: REDIS_URL is not set\n    at load (a.js:3)\n1 failed"
    )
    assert error_line(observed(ERROR, output, command="npm test")) == "Error: REDIS_URL is not set"
