"""The codecs for task.json, tasks.jsonl, prd.json, feature.json and insights.json.

A member of the wrong type is reported and kept, but counts as absent. In a prd.json, Ralph changes
nothing except `passes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ralph.core import json_text
from ralph.core.errors import Conflict, Refused
from ralph.core.ids import derived
from ralph.core.json_text import JsonMember, JsonNode, JsonReader, Members, Path
from ralph.core.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.core.text import BOM, Entry, Problem, TextDocument, find_entry, sort_problems
from ralph.core.work import Claim, Feature, Story, Task

TASK_KEYS = tuple(field.name for field in fields(Task) if field.name != "extra")
FEATURE_KEYS = tuple(field.name for field in fields(Feature) if field.name != "extra")
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

_TASK = {
    **dict.fromkeys(TASK_KEYS, "text"),
    "priority": "number",
    "attempts": "number",
    "blocked_by": "texts",
    "claim": "object",
}
_CLAIM = {"run": "text", "host": "text", "pid": "number", "expires_at": "text"}
_STORY = {
    "id": "text",
    "title": "text",
    "description": "text",
    "acceptanceCriteria": "texts",
    "priority": "number",
    "passes": "flag",
    "notes": "text",
}
_PRD = {"project": "text", "branchName": "text", "description": "text", "userStories": "list"}
_FEATURE = dict.fromkeys(FEATURE_KEYS, "text")
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
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")
_MAX_SHOWN_ID = 80  # characters of an id that a problem shows
_MAX_SHOWN_VALUE = 60  # characters of a value that a problem shows


def _check_name(reader: JsonReader, values: Members, noun: str, path: Path) -> bool:
    """Report an object that lacks an id or a title, and return whether it can be read."""
    record_id = values.get("id")
    if not record_id:
        reader.report(
            path,
            f"a {noun} without an id is not read",
            f'add an "id" that no other {noun} has',
            "error",
            "no-id",
        )
        return False
    if noun != "story" and not _is_folder_name(record_id):
        reader.report(
            (*path, "id"),
            f"the id {record_id[:_MAX_SHOWN_ID]!r} cannot be the name of a folder: "
            f"the {noun} is not read",
            "use letters, digits, `-`, `_` and `.`, as in t-1a2b3c",
            "error",
            "bad-id",
        )
        return False
    if "title" not in values:
        what = f"{noun} {record_id} has no title"
        reader.report(path, what, 'add a "title" of one line', code="no-title")
    return True


def _is_folder_name(name: str) -> bool:
    return name not in (".", "..") and not set(name) & set("/\\\0")


def _join_members(named: Members, extra: Mapping[str, object]) -> Members:
    """Combine the members that a format defines with extra ones.

    Raises Refused if they overlap, or if the id is missing.
    """
    if not named["id"]:
        raise Refused("an id is missing", hint="create one, such as t-1a2b3c")
    for key in extra:
        if key in named:
            raise Refused(
                f"`extra` contains `{key}`, which is a field of the format",
                hint="set the field of that name",
            )
    return {**named, **extra}


def _merge_members(stored: Members, before: Members, after: Members) -> Members:
    """Apply the difference between two states to the stored members.

    Unknown members, and members that did not change, stay exactly as they are stored.
    """
    merged = {key: value for key, value in stored.items() if key in after or key not in before}
    for key, value in after.items():
        old = before.get(key)
        old_stored = stored.get(key)
        if key in before and json_text.same_json(old, value):
            continue
        if isinstance(value, dict) and isinstance(old, dict) and isinstance(old_stored, dict):
            merged[key] = _merge_members(old_stored, old, value)
        else:
            merged[key] = json_text.check_json(value)
    return merged


# --- tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """A parsed task.json, and the task in it if there is one."""

    text: str
    task: Task | None
    problems: tuple[Problem, ...]
    _reader: JsonReader = field(repr=False, compare=False)

    def with_task(self, task: Task) -> TaskDocument:
        """Return a copy of the document with the task updated.

        If nothing changed, the text stays the same. Raises Unreadable if the file is not JSON, and
        Refused if JSON cannot represent the task.
        """
        if json_text.is_blank(self.text):
            return parse_task(render_task(task))
        stored = self._reader.value
        if not isinstance(stored, dict):
            raise self._reader.unreadable_error()
        before: Members = {}
        if self.task:
            before = _task_members(self.task)
        merged = _merge_members(stored, before, _task_members(task))
        if json_text.same_json(merged, stored):
            return self
        return parse_task(json_text.dump_file(merged, nul=True))


def parse_task(text: str) -> TaskDocument:
    """Parse a task.json."""
    reader = JsonReader(text)
    members = reader.root_members()
    task = None
    if members is not None:
        task = _build_task(reader, members)
    return TaskDocument(text, task, sort_problems(reader.problems), reader)


def parse_task_line(line: str) -> tuple[Task | None, tuple[Problem, ...]]:
    """Parse one line of a tasks.jsonl. A blank line has neither a task nor problems."""
    if json_text.is_blank(line):
        return None, ()
    reader = JsonReader(line)
    members = reader.root_members()
    if members is None:
        hint = "fix or delete the line; the other lines are read"
        return None, (Problem(1, reader.problems[0].what, hint, "error", "torn-line"),)
    return _build_task(reader, members), tuple(reader.problems)


def _build_task(reader: JsonReader, members: Members) -> Task | None:
    values, extra = reader.read_members(members, _TASK)
    if not _check_name(reader, values, "task", ()):
        return None
    values.setdefault("title", "")
    if "claim" in values:
        claim, _ = reader.read_members(values.pop("claim"), _CLAIM, ("claim",))
        if "run" in claim and "pid" in claim:
            values["claim"] = Claim(
                claim["run"], claim.get("host", ""), claim["pid"], claim.get("expires_at", "")
            )
        else:
            reader.report(
                ("claim",),
                "the claim does not name a run and a process, so it does not count",
                'set "claim" to null, or set "run" and "pid" in it',
                code="broken-claim",
            )
    return Task(**values, extra=extra)


def _task_members(task: Task) -> Members:
    members = {key: getattr(task, key) for key in TASK_KEYS}
    if task.claim:
        members["claim"] = {key: getattr(task.claim, key) for key in _CLAIM}
    return _join_members(members, task.extra)


def render_task(task: Task) -> str:
    """Render a new task.json. Raises Refused if JSON cannot represent the task."""
    return json_text.dump_file(_task_members(task))


def render_task_line(task: Task) -> str:
    """Render one line of a tasks.jsonl. Raises Refused if JSON cannot represent the task."""
    return json_text.dump_line(_task_members(task))


# --- prd.json ----------------------------------------------------------------------------------


class PrdDocument(NamedTuple):
    """A parsed prd.json, with its project, branch, and stories in file order."""

    text: str
    project: str
    branch: str
    description: str
    stories: tuple[Story, ...]
    problems: tuple[Problem, ...]


def parse_prd(text: str) -> PrdDocument:
    """Parse a prd.json."""
    reader = JsonReader(text)
    values, _ = reader.read_members(reader.root_members() or {}, _PRD)
    stories: list[Story] = []
    ids: set[str] = set()
    for number, members in enumerate(values.get("userStories", ())):
        path = ("userStories", number)
        if not isinstance(members, dict):
            reader.report_no_object(path, "a story should be an object")
            continue
        story, _ = reader.read_members(members, _STORY, path)
        if not _check_name(reader, story, "story", path):
            continue
        story.setdefault("title", "")
        if story["id"] in ids:
            what = f"a second story has the id {story['id']}"
            reader.report(path, what, "give each its own id", code="duplicate-id")
        ids.add(story["id"])
        stories.append(Story(acceptance_criteria=story.pop("acceptanceCriteria", ()), **story))
    return PrdDocument(
        text,
        project=values.get("project", ""),
        branch=values.get("branchName", ""),
        description=values.get("description", ""),
        stories=tuple(stories),
        problems=sort_problems(reader.problems),
    )


def pass_stories(text: str) -> str:
    """Return a prd.json with every story marked as passing. Nothing else is changed."""
    root = json_text.read_json(text)
    if not isinstance(root, JsonNode):
        return text
    stories = _find_member(root, "userStories")
    if stories is None:
        return text
    failing: list[JsonNode] = []
    for story in stories.node.items:
        for member in story.members:
            if member.key == "passes" and member.node.value is False:
                failing.append(member.node)
    for node in reversed(failing):  # from the end, so that the positions before it stay valid
        text = f"{text[: node.start]}true{text[node.end :]}"
    return text


def _find_member(node: JsonNode, key: str) -> JsonMember | None:
    for member in node.members:
        if member.key == key:
            return member
    return None


# --- features ----------------------------------------------------------------------------------


def parse_feature(text: str) -> tuple[Feature | None, tuple[Problem, ...]]:
    """Parse a feature.json, and return the feature, if there is one, and the problems."""
    reader = JsonReader(text)
    feature = None
    members = reader.root_members()
    if members is not None:
        values, extra = reader.read_members(members, _FEATURE)
        if _check_name(reader, values, "feature", ()):
            values.setdefault("title", "")
            feature = Feature(**values, extra=extra)
    return feature, sort_problems(reader.problems)


def render_feature(feature: Feature) -> str:
    """Render a new feature.json. Raises Refused if JSON cannot represent the feature."""
    members = {key: getattr(feature, key) for key in FEATURE_KEYS}
    return json_text.dump_file(_join_members(members, feature.extra))


def new_spec(feature: Feature) -> str:
    """Return the content of a new spec.md for a feature."""
    paragraphs = [f"# Spec: {feature.title}", "## What it should do"]
    if feature.description:
        paragraphs.append(feature.description)
    paragraphs.append("## How to see that it does\n")
    return "\n\n".join(paragraphs)


def new_plan(feature: Feature) -> str:
    """Return the content of a new plan.md for a feature."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def is_unwritten(text: str) -> bool:
    """Return whether `text` contains only headings and blank lines."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)


# --- insights.json -----------------------------------------------------------------------------


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
                    f"there is already an insight {record.id}",
                    hint="use another id, or replace that one",
                )
            ids.add(record.id)
        elements = self._list()
        for record in records:
            elements.append(json_text.check_json(_insight_members(record)))
        return self._with_list(elements)

    def replace(self, record_id: str, record: Record) -> InsightsDocument:
        """Return a copy of the document with one insight changed. Unknown members are kept.

        Raises NotFound, Conflict, Refused or Unreadable.
        """
        if record.id != record_id and record.id in self._positions:
            raise Conflict(
                f"there is already an insight {record.id}",
                hint="choose another id, or replace that one",
            )
        return self.replace_all({record_id: record})

    def replace_all(self, records: Mapping[str, Record]) -> InsightsDocument:
        """Return a copy of the document with several insights changed, given by id.

        Raises NotFound, Conflict, Refused or Unreadable.
        """
        elements = self._list()
        for record_id, record in records.items():
            entry = find_entry(self.entries, record_id)
            position = self._positions[record_id]
            after = _insight_members(record)
            merged = _merge_members(elements[position], _insight_members(entry.record), after)
            # An id derived from the text, or a label taken from the kind, would change along with
            # it if it were not written out.
            for key in ("id", "kind", "label"):
                merged[key] = after[key]
            elements[position] = merged
        return self._with_list(elements)

    def remove(self, record_id: str) -> InsightsDocument:
        """Return a copy of the document without one insight.

        Raises NotFound, Conflict or Unreadable.
        """
        find_entry(self.entries, record_id)
        elements = self._list()
        del elements[self._positions[record_id]]
        return self._with_list(elements)

    def _list(self) -> list[Any]:
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

    def _with_list(self, elements: list[Any]) -> InsightsDocument:
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
            what = f"a second insight has the id {record.id}"
            reader.report(("insights", position), what, "give each its own id", code="duplicate-id")
        positions[record.id] = position
        entries.append(Entry(record, node.start, node.end, reader.line_of(node)))
    return InsightsDocument(text, tuple(entries), sort_problems(reader.problems), reader, positions)


def _build_insight(reader: JsonReader, members: object, path: Path) -> Record | None:
    """Build an insight from an object. If it has no text, report a problem and return None."""
    if not isinstance(members, dict):
        reader.report_no_object(path, "an insight should be an object")
        return None
    values, extra = reader.read_members(members, _INSIGHT, path)
    if "text" not in values:
        hint = 'add a "text", or delete the insight'
        reader.report(path, "an insight without a text is not read", hint, "error", "no-text")
        return None
    word = values.pop("kind", values.get("label", ""))
    kind = kind_of(word)
    if kind is None:
        kind = MemoryKind.CONTEXT
        reader.report(
            path,
            f"{repr(word)[:_MAX_SHOWN_VALUE]} is not a kind of memory, so it is read as context",
            f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label",
            code="unknown-kind",
        )
    status = values.pop("status", Status.PROPOSED)
    if status not in list(Status):
        shown = repr(status)[:_MAX_SHOWN_VALUE]
        what = f"{shown} is not a status, so the insight counts as proposed"
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
    for key, value in _join_members(named, record.extra).items():
        if value or key not in _OPTIONAL_INSIGHT_KEYS:
            members[key] = value
    return members
