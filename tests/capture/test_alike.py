"""Texts that say the same in other words, and texts that only sound alike."""

import pytest

from ralph.capture.alike import Shelf, alike, weights

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


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_alike(one: str, other: str) -> None:
    assert alike(weights(one), weights(other))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_only_sounds_alike_is_not(one: str, other: str) -> None:
    assert not alike(weights(one), weights(other))


@pytest.mark.parametrize("text", [text for pair in SAME + OTHER for text in pair])
def test_a_text_is_like_itself(text: str) -> None:
    assert alike(weights(text), weights(text)) == 1.0


MANY = [f"The report {name} is sent at {number} o'clock." for number, name in enumerate("abcdefghijklmnopqrstuvwxyz")]
RARE = [
    (
        "Badge colours are gone in production: `bg-${tone}` is a dynamic class, Tailwind never sees it, it is purged.",
        "Dynamic class names get purged by Tailwind; use a lookup table of whole names.",
    ),
    (
        "결제 e2e: card 입력란은 Stripe iframe 안에 있어서 label 로는 찾을 수 없다. frameLocator를 써야 한다.",
        "The fields of Stripe live in an iframe: fill the card by its label inside, nothing is found outside.",
    ),
    (
        "Every start takes a minute longer since 2.1: `hydrate_all` reads the whole ledger, 80 MB, before the first "
        "request is answered, and the probe of the platform gives up. It is lazy now.",
        "Le stock appelait encore `hydrate_all` au démarrage : 30 Mo de ledger, et la probe échoue. Règle : rien "
        "de plus grand que quelques Ko avant la première requête, sinon lazy.",
    ),
    (
        "pgpool with statement mode means no advisory locks; the new importer ran into it, too",
        "error 'lock 42 is not held' comes from pgpool in statement mode. take advisory locks in a session of its own",
    ),
]


@pytest.mark.parametrize(("one", "other"), RARE)
def test_among_many_texts_those_that_share_rare_words_are_about_one_thing(one: str, other: str) -> None:
    assert not alike(weights(one), weights(other))
    shelf = Shelf([one], among=[*MANY, one, other])
    assert shelf.nearest(other) == 0


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_among_many_texts_what_only_sounds_alike_is_still_not(one: str, other: str) -> None:
    assert Shelf([one], among=[*MANY, one, other]).nearest(other) is None


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_among_a_few_texts_hardly_anything_can_be_called_rare(one: str, other: str) -> None:
    assert Shelf([one], among=[one, other]).nearest(other) is None


def test_a_shelf_finds_the_text_that_says_the_same() -> None:
    shelf = Shelf(one for one, _ in SAME)
    assert [shelf.nearest(other) for _, other in SAME] == list(range(len(SAME)))
    assert shelf.nearest("something else entirely") is None
    assert Shelf().nearest("anything") is None
