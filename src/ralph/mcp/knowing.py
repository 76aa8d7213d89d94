"""The tools `knowledge_add`, `knowledge_match`, `journal_search` and `graph_neighbors`.

Each is its command's verb; a journal entry is cut to what layer 2 of a search costs, and says how to get the rest.
`tests/mcp_server/test_knowing.py` proves it.
"""

from ralph.app import graph, journal, knowledge
from ralph.app import search as searching
from ralph.app.asking import node_types, relations, when
from ralph.app.journal import Which
from ralph.app.memory import Change
from ralph.context.journal import block
from ralph.context.knowledge import render
from ralph.formats.log import journal_id
from ralph.mcp.call import BY, Call, Told, done, one_line, remembered
from ralph.mcp.memories import LIMIT, more, place, private
from ralph.mcp.tool import Arguments
from ralph.model.record import Outcome
from ralph.search.graph import ReachedNode

NEAR = 20
_WORDS = {Change.NEW: "Added", Change.UPDATED: "Updated", Change.UNCHANGED: "Already there:"}


def add(call: Call, given: Arguments) -> Told:
    """Keep a knowledge entry, or bring the one of that title up to date."""
    written = knowledge.add(
        call.root, given.text("title"), given.text("text"), given.words("tags"), feature=given.text("feature"),
        by=BY, via=call.via, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    name, where = written.stored.record.id, place(written.stored, call)
    old = f"the text before is kept as {written.replaced}" if written.replaced else ""
    cut = "the text was cut to about 500 words" if written.shortened else ""
    shape = {"id": name, "change": written.change.value, "file": where}
    return done(f"{_WORDS[written.change]} {name} ({where})", shape, [old, cut, private(written.private_parts)])


def match(call: Call, given: Arguments) -> Told:
    """The entries that belong to a piece of work, as an agent of the loop is handed them."""
    found = knowledge.match(call.root, given.text("query"), feature=given.text("feature"), files=given.words("files"))
    text = render([each.record for each in found]).text
    rows = [
        {"id": each.record.id, "title": one_line(each.record.title), "score": each.score, "why": list(each.why)}
        for each in found
    ]
    return remembered(text, {"text": text, "entries": rows}, nothing="Nothing matches.")


def journal_(call: Call, given: Arguments) -> Told:
    """How iterations of the loop ended, found by words."""
    outcome = Outcome(given.text("outcome")) if given.text("outcome") else None
    which = Which(given.text("run"), given.text("task"), outcome, when(given.text("since")), call.task)
    found, total = journal.search(call.root, given.text("query"), which, limit=given.number("limit", LIMIT))
    hits: list[dict[str, object]] = []
    for each in found:
        name = journal_id(each.entry.run, each.entry.iteration)
        text = searching.cut(block(each.entry, of_run=True).strip(), searching.PART, name)
        hits.append({"id": name, "type": each.entry.outcome.value, "text": text})
    content = "\n\n".join(f"{each['id']}\n{each['text']}" for each in hits)
    return remembered(content, {"hits": hits, "total": total}, [more(total - len(hits))], "Nothing found.")


def neighbors(call: Call, given: Arguments) -> Told:
    """What is near a node, the nearest first."""
    found = graph.neighbors(
        call.root, given.text("id"), hops=given.number("hops", graph.HOPS), types=node_types(given.words("type")),
        relations=relations(given.words("relation")), at=when(given.text("as_of")), task=call.task,
    )  # fmt: skip
    shown = found[: given.number("limit", NEAR)]
    nodes = [_node(each) for each in shown]
    lines = "\n".join(" ".join(filter(None, (each["id"], each["by"], each["name"]))) for each in nodes)
    rows = [{**each, "hops": near.hops} for each, near in zip(nodes, shown, strict=True)]
    notes = [more(len(found) - len(shown))]
    return remembered(lines, {"nodes": rows, "total": len(found)}, notes, "Nothing is near it.")


def _node(reached: ReachedNode) -> dict[str, str]:
    node, edge = reached.node, reached.via
    other = "" if edge is None else edge.source if edge.target == node.id else edge.target
    said = "" if edge is None else f"({edge.relation.value} {'of ' if edge.target == node.id else ''}{other})"
    name = "" if node.id.endswith(f":{node.name}") else one_line(node.name, 200)
    return {"id": node.id, "type": node.type.value, "name": name, "by": one_line(said)}
