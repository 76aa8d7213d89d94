"""The codec for insights.json, which lists what was learned while working on one task.

    {
      "version": 1,
      "insights": [
        {
          "id": "ins-1a2b3c",
          "kind": "fix",
          "text": "Run `make gen` before the tests.",
          "tags": ["tests"],
          "files": ["Makefile"],
          "source": {"run": "r-1", "iteration": 2},
          "status": "proposed"
        }
      ]
    }

Each insight is a proposed memory. Only its text is required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ralph.core import json_text
from ralph.core.documents import Entry, TextDocument, find_entry, sort_problems
from ralph.core.errors import Conflict, Refused
from ralph.core.ids import derived
from ralph.core.json_text import JsonReader, Members, Path
from ralph.core.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.formats.json_members import MAX_SHOWN_VALUE, join_members, merge_members

INSIGHT_KEYS = (
    "id",
    "kind",
    "label",
    "title",
    "text",
    "tags",
    "files",
    "source",
    "status",
    "created_at",
    "updated_at",
    "valid_until",
    "links",
)
INSIGHTS_VERSION = 1

_INSIGHT = {
    **dict.fromkeys(INSIGHT_KEYS, "text"),
    "tags": "texts",
    "files": "texts",
    "source": "object",
    "links": "list",
}
_SOURCE = {
    **dict.fromkeys(("by", "session", "run", "task", "agent", "commit"), "text"),
    "iteration": "number",
}
_LINK = {"relation": "text", "target": "text"}
_OPTIONAL_INSIGHT_KEYS = frozenset({"title", "updated_at", "valid_until", "links"})


@dataclass(frozen=True, slots=True)
class InsightsDocument(TextDocument):
    """A parsed insights.json, with its insights in file order."""

    _reader: JsonReader = field(repr=False, compare=False)
    _positions: Mapping[str, int] = field(repr=False, compare=False)

    def add(self, *records: Record) -> InsightsDocument:
        """Return a copy of the document with insights added at the end.

        Raises Conflict if an id is taken, Refused if a record is not a task's memory, and
        Unreadable if the file is not JSON.
        """
        ids = set(self._positions)
        for record in records:
            if record.id in ids:
                raise Conflict(
                    f"there is already a proposal {record.id}",
                    hint="use another id, or replace that one",
                )
            ids.add(record.id)
        elements = self._elements()
        for record in records:
            elements.append(json_text.check_json(_insight_members(record)))
        return self._with_elements(elements)

    def replace(self, record_id: str, record: Record) -> InsightsDocument:
        """Return a copy of the document with one insight changed. Unknown members are kept.

        Raises NotFound, Conflict, Refused or Unreadable.
        """
        if record.id != record_id and record.id in self._positions:
            raise Conflict(
                f"there is already a proposal {record.id}",
                hint="choose another id, or replace that one",
            )
        return self.replace_all({record_id: record})

    def replace_all(self, records: Mapping[str, Record]) -> InsightsDocument:
        """Return a copy of the document with several insights changed, given by id.

        Raises NotFound, Conflict, Refused or Unreadable.
        """
        elements = self._elements()
        for record_id, record in records.items():
            entry = find_entry(self.entries, record_id)
            position = self._positions[record_id]
            after = _insight_members(record)
            merged = merge_members(
                elements[position], before=_insight_members(entry.record), after=after
            )
            # An id derived from the text, or a label taken from the kind, would change along with
            # it if it were not written out.
            for key in ("id", "kind", "label"):
                merged[key] = after[key]
            elements[position] = merged
        return self._with_elements(elements)

    def remove(self, record_id: str) -> InsightsDocument:
        """Return a copy of the document without one insight.

        Raises NotFound, Conflict or Unreadable.
        """
        find_entry(self.entries, record_id)
        elements = self._elements()
        del elements[self._positions[record_id]]
        return self._with_elements(elements)

    def _elements(self) -> list[Any]:
        elements = self._members().get("insights") or []
        if not isinstance(elements, list):
            raise self._reader.unreadable_error()
        return list(elements)

    def _members(self) -> Members:
        if json_text.is_blank(self.text):
            return {"version": INSIGHTS_VERSION}
        if not isinstance(self._reader.value, dict):
            raise self._reader.unreadable_error()
        return self._reader.value

    def _with_elements(self, elements: list[Any]) -> InsightsDocument:
        changed = {**self._members(), "insights": elements}
        if json_text.same_json(changed, self._reader.value):
            return self
        return parse_insights(json_text.dump_file(changed, nul=True))


def parse_insights(text: str) -> InsightsDocument:
    """Parse an insights.json. An empty file is not a problem."""
    reader = JsonReader(text)
    members: Members = {}
    if not json_text.is_blank(text):
        members = reader.root_members() or {}
    values, _ = reader.read_members(members, {"version": "number", "insights": "list"})
    entries: list[Entry] = []
    positions: dict[str, int] = {}
    elements = values.get("insights") or []
    nodes = reader.node(("insights",)).items if elements else ()
    for position, (element, node) in enumerate(zip(elements, nodes, strict=False)):
        record = _build_insight(reader, element, ("insights", position))
        if record is None:
            continue
        if record.id in positions:
            what = f"a second proposal has the id {record.id}"
            reader.report(("insights", position), what, "give each its own id", code="duplicate-id")
        positions[record.id] = position
        entries.append(Entry(record, node.start, node.end, reader.line_of(node)))
    return InsightsDocument(text, tuple(entries), sort_problems(reader.problems), reader, positions)


def _build_insight(reader: JsonReader, members: object, path: Path) -> Record | None:
    """Build an insight from an object. If it has no text, report a problem and return None."""
    if not isinstance(members, dict):
        reader.report_no_object(path, "a proposal should be an object")
        return None
    values, extra = reader.read_members(members, _INSIGHT, path)
    if "text" not in values:
        hint = 'add a "text", or delete the proposal'
        reader.report(
            path, "a proposal without a text is not read", hint, level="error", code="no-text"
        )
        return None
    word = values.pop("kind", values.get("label", ""))
    kind = kind_of(word)
    if kind is None:
        kind = MemoryKind.CONTEXT
        reader.report(
            path,
            f"{repr(word)[:MAX_SHOWN_VALUE]} is not a kind of memory, so it is read as context",
            f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label",
            code="unknown-kind",
        )
    status = values.pop("status", Status.PROPOSED)
    if status not in list(Status):
        shown = repr(status)[:MAX_SHOWN_VALUE]
        what = f"{shown} is not a status, so it counts as proposed"
        reader.report(path, what, f"write one of {', '.join(Status)}", code="unknown-status")
        status = Status.PROPOSED
    source, _ = reader.read_members(values.pop("source", {}), _SOURCE, (*path, "source"))
    links = _read_links(reader, values.pop("links", ()), (*path, "links"))
    origin = Origin(**source, files=values.pop("files", ()))
    values["id"] = values.get("id") or derived("ins", values["text"])
    values.setdefault("label", word)
    return Record(
        **values,
        kind=kind,
        status=Status(status),
        scope=Scope.TASK,
        origin=origin,
        links=links,
        extra=extra,
    )


def _read_links(reader: JsonReader, items: Sequence[object], path: Path) -> tuple[Link, ...]:
    links: list[Link] = []
    for number, item in enumerate(items):
        item_path = (*path, number)
        link, _ = reader.read_members(item if isinstance(item, dict) else {}, _LINK, item_path)
        if len(link) == len(_LINK):
            links.append(Link(**link))
        else:
            hint = 'write it as {"relation": ..., "target": ...}'
            reader.report(
                item_path, "a link needs a relation and a target", hint, code="wrong-type"
            )
    return tuple(links)


def _insight_members(record: Record) -> Members:
    """Convert a record to the members of an insight.

    Raises Refused if it is not a task's memory.
    """
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK:
        raise Refused(
            "insights.json contains only memories of one task",
            hint="give the record the scope `task`, or write it to another file",
        )
    origin = record.origin
    source: Members = {
        "session": origin.session,
        "run": origin.run,
        "iteration": origin.iteration,
    }
    for key in _SOURCE:
        if key not in source and getattr(origin, key):
            source[key] = getattr(origin, key)
    converted: Members = {
        "kind": record.kind.value,
        "status": record.status.value,
        "files": origin.files,
        "source": source,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
    }
    named: Members = {}
    for key in INSIGHT_KEYS:
        named[key] = converted[key] if key in converted else getattr(record, key)
    members: Members = {}
    for key, value in join_members(named, record.extra).items():
        if value or key not in _OPTIONAL_INSIGHT_KEYS:
            members[key] = value
    return members
