"""Codecs of the files about work: task.json, tasks.jsonl, prd.json, feature.json, insights.json.

A member of the wrong type is reported, kept, and counts as absent. Of a prd.json only `passes` is ever changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ralph.errors import Conflict, Refused
from ralph.formats import json_text
from ralph.formats.json_text import JsonNode, JsonReader, Members, Path
from ralph.formats.text import BOM, Entry, Problem, TextDocument, find_entry, sort_problems
from ralph.model.ids import derived
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.model.work import Claim, Feature, Story, Task

TASK_KEYS = tuple(each.name for each in fields(Task) if each.name != "extra")
FEATURE_KEYS = tuple(each.name for each in fields(Feature) if each.name != "extra")
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
_TASK = dict.fromkeys(TASK_KEYS, "text") | {"priority": "number", "attempts": "number"}
_TASK |= {"blocked_by": "texts", "claim": "object"}
_CLAIM = {"run": "text", "host": "text", "pid": "number", "expires_at": "text"}
_STORY = {"id": "text", "title": "text", "description": "text", "acceptanceCriteria": "texts"}
_STORY |= {"priority": "number", "passes": "flag", "notes": "text"}
_PRD = {"project": "text", "branchName": "text", "description": "text", "userStories": "list"}
_INSIGHT = dict.fromkeys(INSIGHT_KEYS, "text") | {
    "tags": "texts",
    "files": "texts",
    "source": "object",
}
_INSIGHT |= {"links": "list"}
_SOURCE = dict.fromkeys(("by", "session", "run", "task", "agent", "commit"), "text") | {
    "iteration": "number"
}
_LINK = {"relation": "text", "target": "text"}
_OPTIONAL_INSIGHT_KEYS = frozenset({"title", "updated_at", "valid_until", "links"})
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")


def _is_named(reader: JsonReader, values: Members, noun: str, path: Path) -> bool:
    if not values.get("id"):
        hint = 'add an "id" with a text that no other one has'
        reader.report(path, f"a {noun} without an id is not read", hint, "error", "no-id")
        return False
    if noun != "story" and (values["id"] in (".", "..") or set(values["id"]) & set("/\\\0")):
        what = (
            f"the id {values['id'][:80]!r} cannot be the name of a folder: the {noun} is not read"
        )
        reader.report(
            (*path, "id"),
            what,
            "use letters, digits, `-`, `_` and `.`, as in t-1a2b3c",
            "error",
            "bad-id",
        )
        return False
    if "title" not in values:
        values["title"] = ""
        reader.report(
            path,
            f"{noun} {values['id']} has no title",
            'add a "title" of one line',
            code="no-title",
        )
    return True


def _join_members(named: Members, extra: Mapping[str, object]) -> Members:
    if not named["id"]:
        raise Refused("an id is missing", hint="mint one, such as t-1a2b3c")
    for key in extra:
        if key in named:
            raise Refused(
                f"`extra` holds `{key}`, which the format itself names",
                hint="set the field of that name",
            )
    return {**named, **extra}


def _merge_members(stored: Members, before: Members, after: Members) -> Members:
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


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """A task.json, and the task in it when there is one."""

    text: str
    task: Task | None
    problems: tuple[Problem, ...]
    _reader: JsonReader = field(repr=False, compare=False)

    def with_task(self, task: Task) -> TaskDocument:
        """The document with another state; the same state changes no byte."""
        if json_text.is_blank(self.text):
            return parse_task(render_task(task))
        stored = self._reader.value
        if not isinstance(stored, dict):
            raise self._reader.unreadable_error()
        merged = _merge_members(
            stored, _task_members(self.task) if self.task else {}, _task_members(task)
        )
        return (
            self
            if json_text.same_json(merged, stored)
            else parse_task(json_text.dump_file(merged, nul=True))
        )


def parse_task(text: str) -> TaskDocument:
    """Parse a task.json."""
    reader = JsonReader(text)
    members = reader.root_members()
    task = _build_task(reader, members) if members is not None else None
    return TaskDocument(text, task, sort_problems(reader.problems), reader)


def parse_task_line(line: str) -> tuple[Task | None, tuple[Problem, ...]]:
    """Parse one line of a tasks.jsonl; a blank line has neither."""
    if json_text.is_blank(line):
        return None, ()
    reader = JsonReader(line)
    if (members := reader.root_members()) is None:
        hint = "mend or delete the line; the other lines are read"
        return None, (Problem(1, reader.problems[0].what, hint, "error", "torn-line"),)
    return _build_task(reader, members), tuple(reader.problems)


def _build_task(reader: JsonReader, members: Members) -> Task | None:
    values, extra = reader.read_members(members, _TASK)
    if not _is_named(reader, values, "task", ()):
        return None
    if "claim" in values:
        claim, _ = reader.read_members(values.pop("claim"), _CLAIM, ("claim",))
        if "run" in claim and "pid" in claim:
            values["claim"] = Claim(
                claim["run"], claim.get("host", ""), claim["pid"], claim.get("expires_at", "")
            )
        else:
            what = "the claim names no run and process, so it does not count"
            reader.report(
                ("claim",),
                what,
                'set "claim" to null, or name "run" and "pid"',
                code="broken-claim",
            )
    return Task(**values, extra=extra)


def _task_members(task: Task) -> Members:
    claim = task.claim and {key: getattr(task.claim, key) for key in _CLAIM}
    return _join_members(
        {key: getattr(task, key) for key in TASK_KEYS} | {"claim": claim}, task.extra
    )


def render_task(task: Task) -> str:
    """Render a new task.json."""
    return json_text.dump_file(_task_members(task))


def render_task_line(task: Task) -> str:
    """Render one line of a tasks.jsonl, with its line end."""
    return json_text.dump_line(_task_members(task))


class PrdDocument(NamedTuple):
    """A prd.json: its project, branch and stories in file order."""

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
        if not _is_named(reader, story, "story", path):
            continue
        if story["id"] in ids:
            what = f"a second story has the id {story['id']}"
            reader.report(path, what, "give each of them its own id", code="duplicate-id")
        ids.add(story["id"])
        stories.append(Story(acceptance_criteria=story.pop("acceptanceCriteria", ()), **story))
    project, branch, description = (
        values.get(key, "") for key in ("project", "branchName", "description")
    )
    return PrdDocument(
        text, project, branch, description, tuple(stories), sort_problems(reader.problems)
    )


def pass_stories(text: str) -> str:
    """Return a prd.json in which every story passes; all other bytes stay."""
    root = json_text.read_json(text)
    members = root.members if isinstance(root, JsonNode) else ()
    items = next((member.node.items for member in members if member.key == "userStories"), ())
    nodes = [member.node for story in items for member in story.members if member.key == "passes"]
    for node in reversed([node for node in nodes if node.value is False]):
        text = f"{text[: node.start]}true{text[node.end :]}"
    return text


def parse_feature(text: str) -> tuple[Feature | None, tuple[Problem, ...]]:
    """Parse a feature.json: the feature, if any, and the problems."""
    reader = JsonReader(text)
    feature = None
    if (members := reader.root_members()) is not None:
        values, extra = reader.read_members(members, dict.fromkeys(FEATURE_KEYS, "text"))
        feature = (
            Feature(**values, extra=extra) if _is_named(reader, values, "feature", ()) else None
        )
    return feature, sort_problems(reader.problems)


def render_feature(feature: Feature) -> str:
    """Render a new feature.json."""
    return json_text.dump_file(
        _join_members({key: getattr(feature, key) for key in FEATURE_KEYS}, feature.extra)
    )


def new_spec(feature: Feature) -> str:
    """Render the template of a spec.md."""
    description = f"{feature.description}\n\n" if feature.description else ""
    return f"# Spec: {feature.title}\n\n## What it should do\n\n{description}## How to see that it does\n"


def new_plan(feature: Feature) -> str:
    """Render the template of a plan.md."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def is_unwritten(text: str) -> bool:
    """Whether a text holds headings and blank lines only."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)


@dataclass(frozen=True, slots=True)
class InsightsDocument(TextDocument):
    """An insights.json: its text and the insights in it, in file order."""

    _reader: JsonReader = field(repr=False, compare=False)
    _positions: Mapping[str, int] = field(repr=False, compare=False)

    def add(self, *records: Record) -> InsightsDocument:
        """The document with more insights at the end."""
        ids = set(self._positions)
        for record in records:
            if record.id in ids:
                raise Conflict(
                    f"there is an insight {record.id} already",
                    hint="draw another id, or replace that one",
                )
            ids.add(record.id)
        return self._with_list(
            [*self._list(), *(json_text.check_json(_insight_members(record)) for record in records)]
        )

    def replace(self, record_id: str, record: Record) -> InsightsDocument:
        """The document with one insight changed; unknown members of it are kept."""
        if record.id != record_id and record.id in self._positions:
            raise Conflict(
                f"there is an insight {record.id} already",
                hint="choose another id, or replace that one",
            )
        return self.replace_all({record_id: record})

    def replace_all(self, records: Mapping[str, Record]) -> InsightsDocument:
        """The document with several insights changed."""
        elements = self._list()
        for record_id, record in records.items():
            entry = find_entry(self.entries, record_id)
            position = self._positions[record_id]
            after = _insight_members(record)
            merged = _merge_members(elements[position], _insight_members(entry.record), after)
            # An id derived from the text and a label taken from the kind would change with them.
            elements[position] = merged | {key: after[key] for key in ("id", "kind", "label")}
        return self._with_list(elements)

    def remove(self, record_id: str) -> InsightsDocument:
        """The document without one insight."""
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
        is_same = json_text.same_json(changed, self._reader.value)
        return self if is_same else parse_insights(json_text.dump_file(changed, nul=True))


def parse_insights(text: str) -> InsightsDocument:
    """Parse an insights.json; an empty file is no problem."""
    reader = JsonReader(text)
    members = None if json_text.is_blank(text) else reader.root_members()
    values, _ = reader.read_members(members or {}, {"version": "number", "insights": "list"})
    entries: list[Entry] = []
    positions: dict[str, int] = {}
    nodes = reader.node(("insights",)).items if values.get("insights") else ()
    for position, (element, node) in enumerate(
        zip(values.get("insights", ()), nodes, strict=False)
    ):
        if (record := _build_insight(reader, element, ("insights", position))) is None:
            continue
        if record.id in positions:
            what = f"a second insight has the id {record.id}"
            reader.report(("insights", position), what, "give each its own id", code="duplicate-id")
        positions[record.id] = position
        entries.append(Entry(record, node.start, node.end, reader.line_of(node)))
    return InsightsDocument(text, tuple(entries), sort_problems(reader.problems), reader, positions)


def _build_insight(reader: JsonReader, members: object, path: Path) -> Record | None:
    if not isinstance(members, dict):
        reader.report_no_object(path, "an insight should be an object")
        return None
    values, extra = reader.read_members(members, _INSIGHT, path)
    if "text" not in values:
        hint = 'add a "text", or delete the insight'
        reader.report(path, "an insight without a text is not read", hint, "error", "no-text")
        return None
    word = values.pop("kind", values.get("label", ""))
    if (kind := kind_of(word)) is None:
        what = f"{word!r:.60} is no kind of memory, so it is read as context"
        hint = f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label"
        reader.report(path, what, hint, code="unknown-kind")
    status = values.pop("status", Status.PROPOSED)
    if status not in list(Status):
        what = f"{status!r:.60} is no status, so the insight counts as proposed"
        reader.report(path, what, f"write one of {', '.join(Status)}", code="unknown-status")
        status = Status.PROPOSED
    source, _ = reader.read_members(values.pop("source", {}), _SOURCE, (*path, "source"))
    links: list[Link] = []
    for number, item in enumerate(values.pop("links", ())):
        here = (*path, "links", number)
        link, _ = reader.read_members(item if isinstance(item, dict) else {}, _LINK, here)
        if len(link) == len(_LINK):
            links.append(Link(**link))
        else:
            hint = 'write it as {"relation": ..., "target": ...}'
            reader.report(here, "a link needs a relation and a target", hint, code="wrong-type")
    values["id"] = values.get("id") or derived("ins", values["text"])
    origin = Origin(**source, files=values.pop("files", ()))
    named = {"label": word, **values, "kind": kind or MemoryKind.CONTEXT, "status": Status(status)}
    return Record(**named, scope=Scope.TASK, origin=origin, links=tuple(links), extra=extra)


def _insight_members(record: Record) -> Members:
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK:
        hint = "give the record the scope `task`, or write it to another file"
        raise Refused("insights.json holds memories of one task", hint=hint)
    origin = record.origin
    source = {"session": origin.session, "run": origin.run, "iteration": origin.iteration}
    source |= {
        key: getattr(origin, key) for key in _SOURCE if key not in source and getattr(origin, key)
    }
    links = [{"relation": link.relation, "target": link.target} for link in record.links]
    others: Members = {
        "kind": record.kind.value,
        "status": record.status.value,
        "files": origin.files,
    }
    others |= {"source": source, "links": links}
    named = {key: others[key] if key in others else getattr(record, key) for key in INSIGHT_KEYS}
    joined = _join_members(named, record.extra)
    return {
        key: value for key, value in joined.items() if value or key not in _OPTIONAL_INSIGHT_KEYS
    }
