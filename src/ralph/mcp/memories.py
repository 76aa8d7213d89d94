"""The tools of `ralph memory`: each is the verb of `app/memory.py`, with an agent as the author.

Whoever asks for one memory gets it whole; whoever searches or lists gets a line each, as at layer 1 of a search. A
client cannot allow a secret: that is a person's to do. `tests/mcp_server/test_memories.py` proves it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ralph import paths
from ralph.app import memory
from ralph.app import search as searching
from ralph.app.json_shapes import VIA
from ralph.context.render import clean
from ralph.errors import NotFound, UsageError
from ralph.mcp.call import BY, Call, Told, done, one_line, remembered
from ralph.mcp.tool import Arguments
from ralph.model.ids import derived
from ralph.model.query import Query
from ralph.model.record import MemoryKind, Record
from ralph.store.library import Stored

LIMIT, LAST = 5, 20
"""How many a search and a list give unless more are asked for."""
_ASKED = 300
"""Characters of a memory that are shown to the person who is asked."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before something goes, the text that it is about, and a stamp of both."""

    words: str
    about: str
    stamp: str


def add(call: Call, given: Arguments) -> Told:
    """Keep a memory."""
    kind = MemoryKind(given.text("type") or MemoryKind.PATTERN)
    patterns = call.config.privacy.patterns
    added = memory.add(call.root, given.text("text"), kind, given.words("tags"), by=BY, via=call.via, patterns=patterns)
    record, where = added.stored.record, place(added.stored, call)
    sentence = (
        f"Added {record.kind.value} {record.id} ({where})"
        if added.is_new
        else f"Already there: {record.id} ({where}); nothing was added."
    )
    return done(sentence, {"id": record.id, "added": added.is_new, "file": where}, [private(added.private_parts)])


def search(call: Call, given: Arguments) -> Told:
    """Find memories."""
    limit = given.number("limit", LIMIT)
    kinds = memory.kinds_named(given.words("type"))
    found, _ = memory.search(call.root, Query(given.text("query"), kinds, given.words("tags"), limit=limit))
    room = max(searching.LINE, searching.LINES // max(len(found.hits), 1))
    hits = [_hit(hit.record, searching.line(hit.record, hit.score, budget=room)) for hit in found.hits]
    lines = "\n".join(f"{each['id']} {each['text']}" for each in hits)
    notes = [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in found.instead]
    notes.append(more(found.total - len(hits)))
    return remembered(lines, {"hits": hits, "total": found.total}, notes, "No memories found.")


def list_(call: Call, given: Arguments) -> Told:
    """The newest memories, oldest of them first, as the command lists them."""
    kinds = memory.kinds_named(given.words("type"))
    found = memory.list_(call.root, kinds=kinds, tags=given.words("tags"), last=sys.maxsize)
    last = found[-given.number("limit", LAST) :]
    hits = [_hit(stored.record, searching.line(stored.record, None)) for stored in last]
    lines = "\n".join(f"{each['id']} {each['text']}" for each in hits)
    notes = [f"{len(found) - len(hits)} older ones; a higher limit lists them"] if len(found) > len(hits) else []
    return remembered(lines, {"hits": hits, "total": len(found)}, notes, "No memories yet.")


def show(call: Call, given: Arguments) -> Told:
    """One memory, whole; else whatever record has that id, since a search finds more than memories."""
    name = given.text("id").strip()
    try:
        return whole(memory.show(call.root, name), call)
    except NotFound as missing:
        try:
            found = searching.show(call.root, [name], task=call.task)
        except NotFound:
            raise missing from None
    record, text = found.shown[0].hit.record, found.shown[0].text
    shape = {"id": record.id, "type": record.kind.value, "text": clean(text), "tags": list(record.tags)}
    return remembered(text, shape, found.notes)


def edit(call: Call, given: Arguments) -> Told:
    """Correct a memory."""
    name, text, tags = given.text("id").strip(), given.text_given("text"), given.words_given("tags")
    kind = MemoryKind(given.text("type")) if given.text("type") else None
    if text is None and kind is None and tags is None:
        raise UsageError("there is nothing to change", hint="give text, type or tags")
    edited = memory.edit(
        call.root, name, text=text, kind=kind, tags=tags, patterns=call.config.privacy.patterns, by=BY, via=call.via
    )
    where = place(edited.stored, call)
    sentence = f"Changed {name} ({where})" if edited.changed else f"Nothing changed in {name}"
    same = f"{edited.same_as} already says the same" if edited.same_as else ""
    shape = {"id": name, "changed": edited.changed, "file": where}
    return done(sentence, shape, [same, private(edited.private_parts)])


def question(call: Call, given: Arguments) -> Question:
    """What a person is asked before a memory is deleted."""
    found = memory.show(call.root, given.text("id").strip()).record
    words = f"Delete the {found.kind.value} {found.id}? {one_line(found.text, _ASKED)}"
    return Question(words, found.text, derived("ask", f"{found.id}\n{found.text}"))


def delete(call: Call, given: Arguments) -> Told:
    """Delete a memory, if a person was asked only what that person saw; gives it back, so that it can be restored."""
    gone = memory.delete(call.root, given.text("id").strip(), expect=call.agreed)
    record = gone.record
    shape = {"id": record.id, "deleted": True, **_members(record), "file": place(gone, call)}
    notes = [f"Deleted {record.id} ({place(gone, call)}); memory_add with this text, type and tags restores it."]
    if clean(record.text) != record.text:
        notes.append("Characters and tags that a host would obey are left out here; git may have it as it was.")
    return remembered(searching.full(record), shape, notes)


def declined(given: Arguments) -> Told:
    """That nothing was deleted, and why, also for programs: hosts that run unattended say no by themselves."""
    name = given.text("id").strip()
    why = "a person was to be asked, and nobody said yes; `ralph memory delete` does it by hand"
    return done(f"Nothing was deleted: {name} is there still.", {"id": name, "deleted": False}, [why])


# --- shapes --------------------------------------------------------------------------------------


def whole(stored: Stored, call: Call) -> Told:
    """A memory with all that is known of it."""
    record = stored.record
    shape = {"id": record.id, **_members(record), "file": place(stored, call)}
    return remembered(f"{searching.full(record)}\n\nfile: {place(stored, call)}", shape)


def _members(record: Record) -> Mapping[str, object]:
    more_of_it = {
        "title": one_line(record.title), "created": record.created_at, "updated": record.updated_at,
        "by": record.origin.by, VIA: str(record.extra.get(VIA) or ""),
    }  # fmt: skip
    return {
        "type": record.kind.value,
        "text": clean(record.text),
        "tags": list(record.tags),
        **{name: value for name, value in more_of_it.items() if value},
    }


def _hit(record: Record, line: str) -> dict[str, object]:
    """A line of layer 1 without the id that it begins with, which stands beside it."""
    return {"id": record.id, "type": record.kind.value, "text": one_line(line.removeprefix(record.id))}


def place(stored: Stored, call: Call) -> str:
    """`file:line`, relative to the project."""
    return f"{paths.shown(stored.path, call.root)}:{stored.line}"


def private(parts: int) -> str:
    """How many private parts were left out, if any."""
    return f"left out {parts} private part(s)" if parts else ""


def more(count: int) -> str:
    """How many hits are not shown, if any."""
    return f"{count} more; a higher limit shows them" if count > 0 else ""
