"""Texts that say the same in other words, texts that only sound similar, and sentences that differ in one word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.similarity import TextMatcher, contradict, similarity, term_weights

SAME = [
    (
        "Run `make proto` before the tests, otherwise importing user_pb2 fails.",
        "user_pb2 cannot be imported until make proto has been run",
    ),
    (
        "The worker reads REDIS_URL only at import time, so set it before starting celery.",
        "Celery workers pick up REDIS_URL at import: export it first",
    ),
    (
        "Dates from the ERP come without an offset and are in Europe/Berlin.",
        "ERP dates have no offset; treat them as Europe/Berlin",
    ),
    (
        "csv.writer needs newline='' or Excel shows blank rows.",
        "Excel shows blank rows unless csv.writer is opened with newline=''",
    ),
    (
        "마이그레이션은 시드 데이터보다 먼저 실행해야 한다.",
        "시드 데이터보다 마이그레이션을 먼저 실행해야 함",
    ),
]

OTHER = [
    ("`npm test` failed: STRIPE_KEY is not set. It passed with `STRIPE_KEY=x`.",
     "`npm test` failed: Cannot find module './gen/client'. It passed after `npm run codegen`."),
    ("Always use sql templates for aggregations.", "Always use barrel exports for modules."),
    ("Run make proto before the tests.", "Run make lint before the tests."),
    ("The cache is emptied every night.", "The staging database is reset every night."),
    ("Use argon2 for passwords.", "Use redis for sessions."),
    ("Migrations of the billing schema must be reversible.", "Migrations of the search index must run at night."),
    ("The `orders` table has no index on `created_at`, so reports are slow.",
     "The `orders` table is partitioned by month, so deletes are cheap."),
    ("`pytest -q` failed: no such table: users. It passed after `alembic upgrade head`.",
     "`pytest -q` failed: connection refused on port 5432. It passed after `docker compose up -d db`."),
    ("React components live in src/ui and must not import from src/server.",
     "React hooks live in src/hooks and must begin with use."),
    ("Tokens expire after 15 minutes.", "Invitations expire after 15 minutes."),
    ("OpenSearch stores documents.", "Plugin for OpenSearch: synonyms, ranking, a page of settings."),
]  # fmt: skip


TWO = [
    ("The queue rounds down to whole cents.", "The ledger rounds down to whole cents."),
    ("Retry the upload 3 times before giving up.", "Retry the upload 30 times before giving up."),
    ("Run the migrations before the tests.", "Run the tests before the migrations."),
    ("Set DEBUG=1 when the worker hangs.", "Set DEBUG=0 when the worker hangs."),
    (
        "Deploy hotfixes to staging with the blue pipeline.",
        "Deploy hotfixes to production with the blue pipeline.",
    ),
    ("Always close() the cursor of the ledger.", "Never close() the cursor of the ledger."),
    (
        "Vouchers come in euros: multiply by 100.",
        "Vouchers do not come in euros: never multiply by 100.",
    ),
    (
        "The cache of vite must be emptied before a build.",
        "The cache of vite must not be emptied before a build.",
    ),
    ("Don't use UTC in the ledger tables.", "Use UTC in the ledger tables."),
]
ONE = [
    ("Money is integer cents.", "money is integer cents"),
    ("Run `make proto` before the tests, otherwise importing user_pb2 fails.",
     "user_pb2 cannot be imported until make proto has been run"),
    ("Gotcha: invoices are numbered without gaps.", "Invoices: invoices are numbered without gaps."),
    ("The worker needs REDIS_URL at its start.", "The workers need the REDIS_URL at start"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_similar(one: str, other: str) -> None:
    assert similarity(term_weights(one), term_weights(other))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_only_sounds_similar_is_not(one: str, other: str) -> None:
    assert not similarity(term_weights(one), term_weights(other))


@pytest.mark.parametrize(("one", "other"), TWO)
def test_a_negation_a_number_a_subject_or_an_order_makes_two_statements(
    one: str, other: str
) -> None:
    assert contradict(one, other)
    assert contradict(other, one)
    assert TextMatcher([one]).nearest(other) is None


@pytest.mark.parametrize(("one", "other"), ONE)
def test_one_statement_in_other_words_does_not_differ(one: str, other: str) -> None:
    assert not contradict(one, other)
    assert not contradict(other, one)


@given(st.text())
def test_a_text_says_the_same_as_itself(text: str) -> None:
    assert not contradict(text, text)


def test_the_nearest_text_is_the_one_that_says_the_same() -> None:
    matcher = TextMatcher(one for one, _ in SAME)
    assert [matcher.nearest(other) for _, other in SAME] == list(range(len(SAME)))
    assert matcher.nearest("something else entirely") is None
    assert TextMatcher().nearest("anything") is None
