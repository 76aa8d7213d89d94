"""The contract of `lookup.RankingStore`, held against both of its implementations on the same rows."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from tests.support.machines import Fleet, Machine, iteration, observation

from ralph.core import ids
from ralph.core.record import Query
from ralph.search import index, question, rank
from ralph.search.scoring import SEARCH
from ralph.storage import index_schema, lookup, queries
from ralph.storage.server_lookup import ServerLookup

WORDS = [
    "timeout",
    "retry",
    "invoice",
    "docker",
    "cache",
    "token",
    "schema",
    "migrate",
    "worker",
    "socket",
    "deploy",
    "queue",
    "환불",
    "결제",
    "parseHttp",
]
Sides = list[tuple[Any, Any, dict[int, str]]]
"""Of each implementation: the store, its connection, and the ids of the records by their keys."""


def fill(machine: Machine, count: int = 250) -> None:
    choose = random.Random(7)
    for number in range(count):
        text = (
            " ".join(choose.choices(WORDS, weights=range(15, 0, -1), k=choose.randint(2, 30)))
            + f" case{number}"
        )
        name = f"s{number % 9}"
        machine.log(
            observation(
                number, text, name, choose.choice(["Bash", "Edit retry"]), ["src/http/client.py"]
            ),
            name=name,
        )
    for number in range(20):
        machine.log(iteration(number, " ".join(choose.choices(WORDS, k=8))), name="r1", kind="runs")
    first = machine.remember("A timeout of the invoice worker needs a retry", "invoice", "deploy")
    text = f"The schema of the cache, see {first}"
    machine.remember(text, "cache")


@pytest.fixture
def sides(fleet: Fleet) -> Iterator[Sides]:
    """Both implementations over the same rows."""
    ann = fleet.machine("ann", "ann")
    fill(ann)
    ann.push()
    with ExitStack() as stack:
        server = stack.enter_context(fleet.server())
        own = stack.enter_context(index.of(ann.root).open_current())
        keys = queries.newest_keys(own, Query(limit=None), None)
        local = {key: record.id for key, record in queries.records(own, keys).items()}
        rows = server.call("keys_with", "shop", list(local.values()))
        yield [
            (lookup, own, local),
            (
                ServerLookup(server, "shop"),
                None,
                {key * 3 + family: name for name, key, family in rows},
            ),
        ]


def both(sides: Sides, name: str, *values: Any) -> tuple[Any, Any]:
    """Return the answers of both to the same question."""
    first, second = (getattr(store, name)(connection, *values) for store, connection, _ in sides)
    return first, second


def test_counts_and_terms_are_the_same(sides: Sides) -> None:
    for name, *values in (
        ("size",),
        ("frequencies", ["timeout", "invoic", "nothing", "환불", "http"]),
        ("terms_with_prefix", "case1", 20),
        ("terms_with_prefix", "re", 200, 5),
        ("terms_containing", "ock", 10),
    ):
        local, server = both(sides, name, *values)
        assert sorted(
            local.items() if isinstance(local, dict) else [local] if name == "size" else local
        ) == sorted(
            server.items() if isinstance(server, dict) else [server] if name == "size" else server
        )
        assert local


def test_scores_are_those_of_sqlite(sides: Sides) -> None:
    for match in ('"timeout"', '"schema" OR "queue"', '"case17" OR "환불"', '"http" OR "client"'):
        found = []
        for store, connection, names in sides:
            best = store.best_matches(connection, match, SEARCH.weights.fields, -1)
            found.append({names[key]: round(score, 6) for key, score in best})
        assert found[0] == found[1]
        assert found[0]


def test_rows_neighbours_links_and_order_are_the_same(sides: Sides) -> None:
    answers = []
    for store, connection, names in sides:
        keys = sorted(names, key=lambda key: names[key])
        rows = {names[key]: row for key, row in store.fetch_rows(connection, keys).items()}
        columns = {
            name: [getattr(row, each) for each in row.__slots__ if each != "key"]
            for name, row in rows.items()
        }
        near = sorted(
            (names[key], names[other], step)
            for key, other, step in store.neighbours(connection, keys, 2)
        )
        links = sorted(
            (names[key], names[other]) for key, other in store.linked_keys(connection, keys)
        )
        times = {names[key]: value[0] for key, value in store.sort_values(connection, keys).items()}
        answers.append((columns, near, links, times))
    for local, server in zip(*answers, strict=True):
        assert local == server
    assert all(
        index_schema.is_memory(key) for key, name in sides[1][2].items() if name.startswith("mem-")
    )


QUESTIONS = (
    "timeout retry",
    "invoice worker",
    "docker cache token",
    "schema migrate",
    "환불 결제",
    "http header",
    "case42",
    "sokcet",
    "queue deploy retry worker",
    "why does the invoice worker time out",
)


def test_the_best_five_are_the_same(sides: Sides) -> None:
    shared = 0.0
    for text in QUESTIONS:
        best = []
        for store, connection, names in sides:
            ranked = rank.rank(connection, text, today=ids.today(), limit=5, store=store)
            best.append([names[each.row.key] for each in ranked.best])
        shared += len({*best[0]} & {*best[1]}) / max(len(best[0]), 1)
    assert shared / len(QUESTIONS) >= 0.95
    assert [
        word.word
        for word in question.weigh_words(
            None, "timeout", everyday_factor=1, min_name_weight=0, store=sides[1][0]
        )
    ]


_MANY_SOURCES = """
INSERT INTO ralph_team.sources (project, member, machine, path, format, rules, digest, size, lines,
    branch, commit, committed_at, is_default)
SELECT id, 'ann', 'm', n, 'observations', '', '', 0, 0, '', '', '', true
FROM ralph_team.projects, generate_series(1, 2000) n
"""
_MANY_ROWS = """
INSERT INTO ralph_team.records
    (source, project, length, seq, family, id, session, body, columns, terms)
SELECT key, project, 1, 1, 1, 'obs-' || key || '-' || n, '', repeat('x', 300), '', '{}'
FROM ralph_team.sources, generate_series(1, 20) n
"""


def test_a_pull_reads_only_the_rows_that_it_asks_for(fleet: Fleet) -> None:
    fleet.join("ben", "shop")
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        for statement in (_MANY_SOURCES, _MANY_ROWS, "VACUUM ANALYZE"):
            owner.execute(statement.encode())
    with fleet.server("ben") as server, server.snapshot():
        wanted = [(source.key, 0) for source in server.sources("shop")[:50]]
        rows = list(server.rows("shop", wanted))
        read = server.connection.execute(
            "SELECT coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0) "
            "FROM pg_stat_xact_user_tables WHERE relname = 'records_rest'"
        ).fetchone()
    assert (len(rows), read) == (1000, (1000,))
