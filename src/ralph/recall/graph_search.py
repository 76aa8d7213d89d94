"""Search the graph by words (`ralph graph show --query`).

The words are ranked against memories and journal entries, and nodes that the words name are added.
From these hits, the search walks along the edges. The score falls with each step. Without a time,
only nodes and edges that are valid today are searched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

from ralph.core import ids
from ralph.core.graph import (
    ENTITY_TYPES,
    NodeType,
    entity_id,
    entity_type,
)
from ralph.core.record import Family, Query
from ralph.recall.graph import HOPS, query_graph
from ralph.search import candidates, explanations, graph_walks, meaning, rank
from ralph.search.graph_walks import GraphVisibility, ReachedNode, WalkRules
from ralph.storage import graph as graph_store
from ralph.storage import index_schema, record_filters, record_rows, sessions
from ralph.storage.index import Progress

if TYPE_CHECKING:
    from ralph.core.settings import Embedding


LIMIT = 10
_MAX_SEEDS = 20  # hits from which a search starts walking
_MIN_SCORE = 0.05  # nodes with a lower score are related by chance
_NAMED_SCORE = 0.8  # score of a node that the words name


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """The words to search for, the point in time, and the limits of the walk from the hits."""

    words: str
    at: str = ""  # a day or an instant; "" is today
    types: Collection[NodeType] = ()  # empty: all types
    hops: int = HOPS
    limit: int | None = LIMIT  # None: all nodes
    task: str = ""  # the task whose records are visible; "" for all


def search(
    root: Path,
    query: GraphQuery,
    *,
    embedding: Embedding | None = None,
    progress: Progress | None = None,
) -> tuple[list[ReachedNode], list[str]]:
    """Return the nodes that match a query or are close to a match, and warnings."""
    words = query.words
    task = query.task
    when = query.at or ids.today()
    warnings: list[str] = []

    def question(
        graph: Connection, connection: Connection, allowed: GraphVisibility
    ) -> list[ReachedNode]:
        warnings.clear()
        by_meaning = None
        if embedding is not None:
            records = Query(limit=None, families=(Family.MEMORY, Family.JOURNAL), task=task)
            by_meaning = meaning.meaning_for(root, embedding, connection, records, warnings.append)
        ranked = _rank_records(connection, words, when, task, by_meaning)
        if ranked.weak and ranked.best:
            warnings.append(explanations.WEAK)
        scores = _scores_by_node(connection, ranked)
        scores |= dict.fromkeys(_named_nodes(words), _NAMED_SCORE)
        seeds = _visible_seeds(graph, scores, when, allowed)
        rules = WalkRules(at=when, visibility=allowed, hub=graph_walks.HUB)
        found: list[ReachedNode] = []
        for reached in graph_walks.walk(graph, seeds, query.hops, rules):
            is_wanted = not query.types or reached.node.type in query.types
            if reached.score < _MIN_SCORE or not is_wanted:
                continue
            is_named = scores.get(reached.start) == _NAMED_SCORE
            found.append(reached._replace(weak=ranked.weak and not is_named))
        return found[: query.limit]

    return query_graph(root, question, task=task, progress=progress), warnings


def _rank_records(
    connection: Connection, words: str, when: str, task: str, by_meaning: candidates.Meaning | None
) -> rank.Ranking:
    """Rank the memories and journal entries that a task may see."""
    visible = record_filters.visible_to(record_rows.storable_text(task))
    without_observations = [
        (family, test, values)
        for family, test, values in visible
        if family is not Family.OBSERVATION
    ]
    return rank.rank(
        connection,
        words,
        today=when[:10],
        record_filter=without_observations,
        limit=_MAX_SEEDS,
        meaning=by_meaning,
    )


def _scores_by_node(connection: Connection, ranked: rank.Ranking) -> dict[str, float]:
    """Return the score of each matching node. A journal entry counts toward its task."""
    scores: dict[str, float] = {}
    for hit in ranked.best:
        if not (ranked.weak or rank.is_answer(hit) or hit.linked_from):
            continue
        name = hit.row.id
        if index_schema.family_of(hit.row.key) is Family.JOURNAL:
            name = entity_id(NodeType.TASK, sessions.task_of_entry(connection, hit.row.key))
        scores.setdefault(name, hit.score)
    return scores


def _named_nodes(words: str) -> set[str]:
    """Return the possible ids of nodes named by all of the words together, or by one of them."""
    named = set[str]()
    for name in (words.strip(), *words.split()):
        named.update(entity_id(kind, name) for kind in ENTITY_TYPES)
        if entity_type(name) is not None:
            named.add(name)
    return named


def _visible_seeds(
    graph: Connection, scores: Mapping[str, float], when: str, allowed: GraphVisibility
) -> dict[int, float]:
    """Return the scores of the nodes that are valid at a time and visible to the task, by key."""
    keys = graph_store.keys_of(graph, sorted(scores))
    nodes = graph_store.nodes(graph, keys.values())
    seeds = {}
    for name, key in keys.items():
        if nodes[key].is_valid_at(when) and key not in allowed.hidden:
            seeds[key] = scores[name]
    return seeds
