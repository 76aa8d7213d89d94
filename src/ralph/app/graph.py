"""`ralph graph ...`: how what is known hangs together, as of now or of any other time.

The graph is a cache beside the index, brought up to date by whoever asks (`asked`); where it cannot be written it
is made in memory for one question. People name a node by its id, by a record's title, or by the bare path, task or
tag. Without a time `show`, `neighbors` and `path` tell everything that was ever true up to now, and say what no longer
is; what is stated from a later day on is not told before that day;
`search` answers with what holds now. Within a task, what is another task's own is not there (`app/graph_sight.py`).
A search looks for words and meaning with the engine of `ralph search`, and then
walks from the hits. `tests/app/test_graph.py` proves it.
"""

import posixpath
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph import paths
from ralph.app import graph_sight, index, meaning
from ralph.errors import NotFound, RalphError, WriteFailed
from ralph.model import ids
from ralph.model.graph import ENTITY_TYPES, Edge, Node, NodeType, Relation, entity_id, entity_type
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.search import graph as walking
from ralph.search import rank
from ralph.search.graph import GraphVisibility, ReachedNode, source_facts
from ralph.store import db, lookup, rows
from ralph.store import graph as stored
from ralph.store.index import FAMILIES, Progress

if TYPE_CHECKING:
    from ralph.settings import Embedding

T = TypeVar("T")
HOPS = 2
LIMIT = 10
_SEEDS = 20
_BUSIEST = 10
_FADED = 0.05
"""What is nearer to a hit than this is told; the rest is chance."""
_NAMED_OUTRIGHT = 0.8


@dataclass(frozen=True, slots=True)
class Overview:
    """How large the graph is: nodes by type, edges by relation, and the nodes with the most edges."""

    nodes: dict[str, int]
    edges: dict[str, int]
    busiest: tuple[tuple[Node, int], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One node, the record behind it, if it is one, and every edge at it with the node at its other end."""

    node: Node
    record: Record | None
    edges: tuple[tuple[Edge, Node], ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A shortest way between two nodes: its edges in order, or none when there is no way."""

    start: Node
    end: Node
    edges: tuple[Edge, ...]
    found: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search of the graph found, the best first, and what its reader should know about it."""

    hits: tuple[ReachedNode, ...]
    at: str
    warnings: tuple[str, ...] = ()


def asked(
    root: Path,
    question: Callable[[sqlite3.Connection, sqlite3.Connection], T],
    progress: Progress | None = None,
) -> T:
    """Ask the graph and the index something, both up to date."""

    def ask(connection: sqlite3.Connection) -> T:
        with closing(beside(root, connection)) as graph:
            return question(graph, connection)

    return index.ask(root, ask, progress)


def beside(root: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """The graph of an open index, brought up to date; in memory when the index is, or the disk does not let us."""
    path = paths.graph_file(root)
    if connection.execute("PRAGMA database_list").fetchone()[2]:
        for _ in range(2):
            with suppress(WriteFailed, OSError):
                try:
                    return _current(stored.connect(path), connection, path)
                except db.Damaged:
                    db.remove(path)
    return _current(stored.in_memory(), connection, path)


def _current(graph: sqlite3.Connection, connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        with db.explained(path):
            stored.sync(graph, connection, lambda key, name: source_facts(connection, key, name))
    except BaseException:
        graph.close()
        raise
    return graph


def rebuild(root: Path) -> dict[str, int]:
    """Delete the graph and make it again; how many nodes of each type it has."""
    db.remove(paths.graph_file(root))
    return asked(root, lambda graph, _: stored.counts(graph)[0])


def related(root: Path, connection: sqlite3.Connection) -> Callable[[Sequence[int]], list[tuple[int, int, float]]]:
    """How a search of the index finds what hangs together with its best hits; whatever fails, it does without."""

    def near(keys: Sequence[int]) -> list[tuple[int, int, float]]:
        with suppress(RalphError, sqlite3.Error), closing(beside(root, connection)) as graph:
            return walking.related(graph, connection, keys, at=ids.today())
        return []

    return near


# --- questions ---------------------------------------------------------------------------------


def overview(root: Path, *, task: str = "") -> Overview:
    """How large the graph is, or what of it a task may see, and what it hangs on."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> Overview:
        if task:
            return _seen_part(graph, graph_sight.of(graph, connection, task))
        busiest = stored.busiest(graph, _BUSIEST)
        nodes = stored.nodes(graph, [key for key, _ in busiest])
        return Overview(*stored.counts(graph), tuple((nodes[key], degree) for key, degree in busiest))

    return asked(root, question)


def _seen_part(graph: sqlite3.Connection, sight: GraphVisibility) -> Overview:
    seen = {key: node for key, node in stored.nodes(graph).items() if key not in sight.hidden}
    edges = [row for row in stored.edges(graph) if sight.allows(row.source, row.target)]
    degrees = Counter(end for row in edges for end in (row.source, row.target))
    busiest = sorted(degrees.items(), key=lambda each: (-each[1], seen[each[0]].id))[:_BUSIEST]
    return Overview(
        dict(Counter(node.type.value for node in seen.values())),
        dict(Counter(row.relation for row in edges)),
        tuple((seen[key], degree) for key, degree in busiest),
    )


def show(root: Path, name: str, *, at: str = "", task: str = "") -> Shown:
    """A node with all that is said of it, edges that somebody stated first."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> Shown:
        sight = graph_sight.of(graph, connection, task)
        key = found(graph, name, sight)
        rows_there = sorted({row for row in stored.around(graph, [key]) if sight.allows(row.source, row.target)})
        nodes = stored.nodes(graph, {key} | {end for row in rows_there for end in (row.source, row.target)})
        edges = [
            (stored.edge_of(row, nodes), nodes[row.target if row.source == key else row.source]) for row in rows_there
        ]
        today = ids.today()
        held = [
            (edge, other) for edge, other in edges if (edge.holds(at) and other.holds(at) if at else edge.begun(today))
        ]
        held.sort(key=lambda pair: (not pair[0].explicit, pair[0].relation, pair[0].source, pair[0].target))
        return Shown(nodes[key], _record(connection, nodes[key]), tuple(held))

    return asked(root, question)


def neighbors(
    root: Path,
    name: str,
    *,
    hops: int = HOPS,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
    task: str = "",
) -> list[ReachedNode]:
    """What is within some hops of a node, the nearest first."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> list[ReachedNode]:
        sight = graph_sight.of(graph, connection, task)
        key = found(graph, name, sight)
        return walking.neighbours(
            graph, key, hops=hops, types=types, relations=relations, at=at, visibility=sight, by=ids.today()
        )

    return asked(root, question)


def path(root: Path, start: str, end: str, *, at: str = "", task: str = "") -> Way:
    """A shortest way between two nodes."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> Way:
        sight = graph_sight.of(graph, connection, task)
        keys = found(graph, start, sight), found(graph, end, sight)
        nodes = stored.nodes(graph, keys)
        way = walking.path(graph, *keys, at=at, visibility=sight, by=ids.today())
        return Way(nodes[keys[0]], nodes[keys[1]], tuple(way or ()), way is not None)

    return asked(root, question)


def search(
    root: Path,
    words: str,
    *,
    at: str = "",
    types: Collection[NodeType] = (),
    hops: int = HOPS,
    limit: int | None = LIMIT,
    task: str = "",
    embedding: "Embedding | None" = None,
    progress: Progress | None = None,
) -> Answer:
    """What answers some words, and what hangs together with that: all that held at a time, or that holds now."""
    when = at or ids.today()
    told: list[str] = []

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> Answer:
        told.clear()
        query = Query(limit=None, families=(Family.MEMORY, Family.JOURNAL), task=task)
        near = None if embedding is None else meaning.meaning_for(root, embedding, connection, query, told.append)
        keep = [part for part in lookup.sight(rows.safe(task)) if FAMILIES[part[0]] is not Family.OBSERVATION]
        ranked = rank.rank(connection, words, today=when[:10], keep=keep, limit=_SEEDS, meaning=near)
        seeds = _seeds(graph, connection, ranked) | _outright(graph, words)
        known = stored.nodes(graph, seeds)
        sight = graph_sight.of(graph, connection, task)
        kept = {key: score for key, score in seeds.items() if known[key].holds(when) and key not in sight.hidden}
        hits = walking.walk(graph, kept, hops=hops, at=when, visibility=sight, hub=walking.HUB)
        fit = [each for each in hits if each.score >= _FADED and (not types or each.node.type in types)]
        return Answer(tuple(fit[:limit]), when, tuple(told))

    return asked(root, question, progress)


def _seeds(graph: sqlite3.Connection, connection: sqlite3.Connection, ranked: rank.Ranking) -> dict[int, float]:
    """The nodes of the records that were found; a journal entry's is its task."""
    scores: dict[str, float] = {}
    for each in ranked.best:
        if rank.is_answer(each) or each.link:
            scores.setdefault(_node_of(connection, each.row.key, each.row.id), each.score)
    keys = stored.keys_of(graph, list(scores))
    return {keys[name]: score for name, score in scores.items() if name in keys}


def _node_of(connection: sqlite3.Connection, key: int, name: str) -> str:
    if FAMILIES[key % len(FAMILIES)] is not Family.JOURNAL:
        return name
    row = connection.execute("SELECT task_id FROM journal WHERE id = ?", (key,)).fetchone()
    return entity_id(NodeType.TASK, row[0] or "")


def _outright(graph: sqlite3.Connection, words: str) -> dict[int, float]:
    """The files, tags, tasks and sessions that the words name outright."""
    spellings = {words.strip(), *words.split()}
    wanted = [entity_id(kind, name) for name in spellings for kind in ENTITY_TYPES]
    wanted += [name for name in spellings if entity_type(name) is not None]
    return dict.fromkeys(stored.keys_of(graph, sorted(wanted)).values(), _NAMED_OUTRIGHT)


def found(graph: sqlite3.Connection, name: str, sight: GraphVisibility = walking.ALL_VISIBLE) -> int:
    """The key of the node that somebody names and may see; NotFound says which one may be meant."""
    bare = name.strip()
    named_ = (stored.key_of(graph, spelling) for spelling in spellings(bare))
    meant = [key for key in (*named_, stored.meant(graph, bare)) if key is not None]
    for key in meant:
        if key not in sight.hidden:
            return key
    if meant:
        raise NotFound(f"the graph has no node {name} that this task may see", hint="--all-tasks shows everything")
    raise NotFound(f"the graph has no node {name}", hint=_nearest(graph, bare, sight))


def spellings(name: str) -> list[str]:
    """The ids that a name may stand for: itself, and as a file, a task, a session or a tag."""
    kind = entity_type(name)
    if kind is not None:
        rest = name.partition(":")[2].strip()
        return [name, entity_id(kind, posixpath.normpath(rest) if kind is NodeType.FILE else rest.lower())]
    tidy = posixpath.normpath(name) if name else name
    return [
        name, entity_id(NodeType.FILE, tidy), entity_id(NodeType.TASK, name), entity_id(NodeType.SESSION, name),
        entity_id(NodeType.TAG, name.lower()), entity_id(NodeType.SYMBOL, tidy),
    ]  # fmt: skip


def _nearest(graph: sqlite3.Connection, name: str, sight: GraphVisibility) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (only on the way out)

    there = [node for key, node in stored.nodes(graph).items() if key not in sight.hidden]
    names = {spelling.casefold(): node.id for node in there for spelling in (node.id, node.name)}
    near = get_close_matches(name.casefold(), list(names)[:20_000], n=1)
    return f"did you mean {names[near[0]]}?" if near else '`ralph graph search "words"` shows the ids'


def _record(connection: sqlite3.Connection, node: Node) -> Record | None:
    if entity_type(node.id) is not None:
        return None
    return records(connection, [node.id]).get(node.id)


def records(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, Record]:
    """The memories behind nodes, by the nodes' ids."""
    keys = {name: key for name in names if (key := _row(connection, name)) is not None}
    held = rows.records(connection, list(keys.values()))
    return {name: held[key] for name, key in keys.items() if key in held}


def _row(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT key FROM records WHERE id = ?", (name,)).fetchone()
    return int(row[0]) if row is not None else None
