"""Commands that look at how something is written or run tests, and outputs that complain or crash."""

import pytest

from ralph.capture.complaints import (
    complains,
    is_declared,
    is_not_there,
    is_of_style,
    is_of_types,
    is_testing,
    names_a_rule,
)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("swiftformat --lint Sources", True),
        ("make fmt-check", True),
        ("npx cspell docs", True),
        ("./scripts/lint.sh 3.9", True),
        ("composer phpcs", True),
        ("npm run types", True),
        ("git clang-format --diff", True),
        ("docker inspect --format x web", False),
        ("kubectl apply -f styles/", False),
        ("mkdocs build docs", False),
        ("pytest tests/test_format.py", False),
    ],
)
def test_what_looks_at_how_files_are_written_is_known_by_its_words(command: str, *, wanted: bool) -> None:
    assert is_of_style(command) is wanted


def test_types_are_a_sort_of_their_own() -> None:
    assert is_of_types("npx tsc --noEmit")
    assert not is_of_types("npx eslint .")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("opa test policy", True),
        ("terraform -chdir=modules/web test", True),
        ("./tests/cli.sh pipe", True),
        ("helm unittest charts/web", True),
        ("./gradlew :app:connectedAndroidTest", True),
        ("go build ./...", False),
        ("docker pull web:latest", False),
        ("python -m specs.reduce --night 3", False),
    ],
)
def test_what_runs_tests_is_known_by_its_words(command: str, *, wanted: bool) -> None:
    assert is_testing(command) is wanted


@pytest.mark.parametrize(
    ("text", "complaint", "rule"),
    [
        ("src/cart.c:14:3: unused variable total [unused-local]", True, True),
        ("Cart.kt:12:1: Unexpected blank line (standard:no-blank-line)", True, True),
        (" 41 | ERROR | Expected 1 space after the parenthesis", True, False),
        ('Error: "m5.larg" is no type of machine (invalid_machine_type)', True, False),
        ("src/cart.cpp would be reformatted", True, False),
        ("src/cart.py:3: RuntimeError: writer closed", False, False),
        ("Error: Cannot find module './gen/client'", False, False),
        ("package x cannot be built, see a.rs:3 [msrv-rule]", False, False),
    ],
)
def test_a_complaint_points_at_a_line_or_names_a_rule_and_is_no_crash(
    text: str, *, complaint: bool, rule: bool
) -> None:
    assert (complains(text), names_a_rule(text)) == (complaint, rule)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("error: value of type 'Cart' has no member 'apply'", True),
        ("function Cart.apply/2 is undefined or private", True),
        ("src/Cart.hs:3: Variable not in scope: applyVoucher", True),
        ("undefined method `apply' for an instance of Cart", True),
        ("undefined method `fetch' for nil", False),
        ("cannot import name 'User' from partially initialized module 'models'", False),
        ("expected 3 got 2", False),
    ],
)
def test_what_is_not_there_yet_is_said_to_be_undefined_or_not_implemented(text: str, *, wanted: bool) -> None:
    assert is_not_there(text) is wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("policy/cart.rego", True),
        ("bin/deploy.sh", True),
        ("roles/web/tasks/main.yml", True),
        ("env/cluster.sh", False),
        ("docker/init-db.sh", False),
        ("jest.config.js", False),
    ],
)
def test_what_is_declared_is_code_unless_it_makes_something_ready(path: str, *, wanted: bool) -> None:
    assert is_declared(path) is wanted
