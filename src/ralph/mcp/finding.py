"""The tools `search`, `timeline` and `context`: everything Ralph knows, at the detail that was asked for.

Layer 1 is a line each, layer 2 what is around, layer 3 whole. What came from a tool or an import and gives orders
is named but held back, unless it is asked for by its id: an agent that searches reads much that nobody vouches for.
`tests/mcp_server/test_finding.py` proves it.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

from ralph.app import briefing, hook_state
from ralph.app import search as searching
from ralph.app.asking import kinds, when
from ralph.app.search import Answer, Shown
from ralph.context import render
from ralph.errors import UsageError
from ralph.mcp.call import Call, Told, remembered
from ralph.mcp.memories import LIMIT, more
from ralph.mcp.tool import Arguments
from ralph.model.query import Detail, Query
from ralph.model.record import Family
from ralph.settings import Config, Inject

AROUND = 20
_HELD = "(held back: it came from a tool and gives orders; search with its id and layer 3 shows it)"


def search(call: Call, given: Arguments) -> Told:
    """Find anything, at one of three layers."""
    query = Query(
        given.text("query"), kinds(given.words("type")), given.words("tags"),
        when(given.text("since")), when(given.text("until")), tuple(map(Family, given.words("family"))),
        limit=given.number("limit", LIMIT), layer=Detail(given.number("layer", 1)), task=call.task,
    )  # fmt: skip
    answer = searching.search(call.root, query, embedding=call.config.embedding)
    notes = [f"nothing has {word!r}; looked for {', '.join(near[:5])} instead" for word, near in answer.found.instead]
    notes.append(more(answer.found.total - sum(each.count for each in answer.shown)))
    return told(answer, query.layer, notes)


def timeline(call: Call, given: Arguments) -> Told:
    """What happened around a record, or in a stretch of time."""
    name, since, until = given.text("id").strip(), given.text("since"), given.text("until")
    if not (name or since or until):
        raise UsageError("there is nothing to look around", hint="name a record's id, or a time with since: 7d")
    limit = given.number("limit", AROUND)
    found = searching.timeline(call.root, name, since=when(since), until=when(until), limit=limit, task=call.task)
    return told(found, Detail.INDEX)


def context(call: Call, given: Arguments) -> Told:
    """What an agent would be handed with a prompt, or at its start."""
    prompt = given.text("prompt").strip()
    notes = []
    if hook_state.paused_since(call.root) is not None:
        notes.append("the hooks are paused here and hand over nothing; `ralph resume-capture` lets them go on")
    if not prompt:
        brief = briefing.at_start(call.root, _without_skill(call.config), "", task=call.task)
        rows = [{"id": each.id, "tokens": each.tokens} for each in brief.records]
        return _handed(brief.text, rows, [*notes, "" if brief.text else "There is nothing to hand over."])
    if call.config.memories.inject is not Inject.AUTO:
        notes.append(f"memories.inject is {call.config.memories.inject}: no hook hands over anything for a prompt")
    found = briefing.for_prompt(call.root, call.config, prompt, task=call.task)
    rows = [{**asdict(each), "why": list(each.why)} for each in found.reasons]
    return _handed(found.text, rows, [*notes, "" if found.text else "Nothing relates to that."])


def _without_skill(config: Config) -> Config:
    """The skill teaches the command line; whoever has the tools knows enough from their list."""
    return replace(config, memories=replace(config.memories, skill_injection=False))


def _handed(text: str, rows: Sequence[dict[str, object]], notes: Sequence[str]) -> Told:
    """What is handed over has its frame already."""
    said = [note for note in notes if note]
    shape = {"text": text, "records": list(rows), **({"notes": said} if said else {})}
    return Told(shape, (text + render.notes(said)).rstrip("\n"))


# --- shapes --------------------------------------------------------------------------------------


def told(answer: Answer, layer: Detail, notes: Sequence[str] = ()) -> Told:
    """An answer's hits, each in its detail."""
    texts = [text_of(each, layer) for each in answer.shown]
    hits = [hit(each, text) for each, text in zip(answer.shown, texts, strict=True)]
    total = max(answer.found.total, len(hits))
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    shape = {"hits": hits, "total": total, "tokens": answer.tokens}
    return remembered(between.join(texts), shape, [*answer.warnings, *answer.notes, *notes], "Nothing found.")


def hit(shown: Shown, text: str) -> dict[str, object]:
    """A hit for a program; the id that its text begins with stands beside it."""
    record = shown.hit.record
    bare = render.clean(text if "\n" in text else text.removeprefix(record.id).strip())
    return {"id": record.id, "type": record.kind.value, "text": bare}


def text_of(shown: Shown, layer: Detail) -> str:
    """What is shown of a hit; strangers' orders are held back unless their record was asked for by its id."""
    record = shown.hit.record
    if shown.hit.why == ("id",):
        return shown.text
    if render.withheld(record.origin.by, f"{record.title}\n{record.text}"):
        return f"{record.id} {_HELD}"
    if layer is not Detail.TIMELINE or "\n" not in shown.text:
        return shown.text
    return "\n".join(_around(line, record.id) for line in shown.text.split("\n"))


def _around(line: str, own: str) -> str:
    """A line beside a hit's own; of whom it is cannot be seen there, so orders are held back whoever gave them."""
    name = line.partition(" ")[0]
    return f"{name} {_HELD}" if name != own and render.looks_like_instructions(line) else line
