"""Codecs of the files about work: task.json, tasks.jsonl, prd.json, feature.json, insights.json.

A member of the wrong type is reported, kept, and counts as absent, so that a task with a wrong
priority is still a task. Ralph's own files are written whole, with every unknown member in its
place and only the members that differ set anew. prd.json is a person's file: it is only read here.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ralph.errors import Conflict, Refused
from ralph.formats.json_text import (
    MAX_DEPTH,
    STRICT_DECODER,
    JsonFields,
    JsonNode,
    LineNumbers,
    check_json,
    dump_file,
    dump_line,
    is_blank,
    read_json,
    same_json,
    unreadable_error,
)
from ralph.formats.text import BOM, Entry, Problem, TextDocument, find_entry, sort_problems
from ralph.model.ids import derived
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.model.work import Claim, Feature, Story, Task

Members = dict[str, Any]

_TASK_TEXTS = tuple("id title description status parent feature worktree branch created_at updated_at".split())
TASK_KEYS = tuple(
    "id title description status priority blocked_by parent feature attempts worktree branch claim created_at "
    "updated_at".split()
)
STORY_KEYS = ("id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes")
PRD_KEYS = ("project", "branchName", "description", "userStories")
FEATURE_KEYS = ("id", "title", "description", "status", "created_at", "updated_at")
INSIGHT_KEYS = tuple(
    "id kind label title text tags files source status created_at updated_at valid_until links".split()
)
_OPTIONAL_INSIGHT_KEYS = frozenset({"title", "updated_at", "valid_until", "links"})
_SOURCE_TEXTS = ("by", "session", "run", "task", "agent", "commit")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")
INSIGHTS_VERSION = 1


# --- what the files share ----------------------------------------------------------------------


def _read_fields(text: str, problems: list[Problem]) -> JsonFields | None:
    """The members of the object that a file holds; None, with a Problem, when it holds none."""
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file"))
        return None
    root = read_json(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    return _object_fields(root, LineNumbers(text), problems, "the file should hold one object", "not-an-object")


def _object_fields(
    node: JsonNode, line_of: Callable[[int], int], problems: list[Problem], what: str, code: str = "wrong-type"
) -> JsonFields | None:
    if isinstance(node.value, dict):
        return JsonFields(node, line_of, problems)
    hint = "write it as { } with its members; the value is kept but not used"
    problems.append(Problem(line_of(node.start), what, hint, "error", code))
    return None


def _read_id_and_title(fields: JsonFields, noun: str) -> tuple[str, str] | None:
    """Id and title of a task, story or feature; without an id it is not read."""
    name, title = fields.text("id"), fields.text("title")
    if not name:
        hint = 'add an "id" with a text that no other one has'
        fields.report(fields.node.start, f"a {noun} without an id is not read", hint, "error", "no-id")
        return None
    if title is None:
        fields.report(fields.node.start, f"{noun} {name} has no title", 'add a "title" of one line', code="no-title")
    return name, title or ""


def _join_members(named: Members, extra: Mapping[str, object]) -> Members:
    """Named members, then unknown ones; Refused without an id or when an unknown one has a name of the format."""
    if not named["id"]:
        raise Refused("an id is missing", hint="mint one, such as t-1a2b3c")
    for key in extra:
        if key in named:
            raise Refused(f"`extra` holds `{key}`, which the format itself names", hint="set the field of that name")
    return {**named, **extra}


def _merge_members(stored: Members, before: Members, after: Members) -> Members:
    """The stored members with every difference between `before` and `after` applied; the rest stays."""
    merged = {key: value for key, value in stored.items() if key in after or key not in before}
    for key, value in after.items():
        old, old_stored = before.get(key), stored.get(key)
        if key in before and same_json(old, value):
            continue
        if isinstance(value, dict) and isinstance(old, dict) and isinstance(old_stored, dict):
            merged[key] = _merge_members(old_stored, old, value)
        else:
            merged[key] = check_json(value)
    return merged


# --- task.json and tasks.jsonl -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskDocument(TextDocument):
    """A task.json: its text, and the task in it when there is one."""

    task: Task | None
    problems: tuple[Problem, ...] = ()
    _members: Members | None = field(default=None, repr=False, compare=False)

    def with_task(self, task: Task) -> "TaskDocument":
        """The document with another state of the task; the same state changes no byte."""
        if self._members is None:
            if not is_blank(self.text):
                raise unreadable_error(self.problems)
            return parse_task(render_task(task))
        before = _task_members(self.task) if self.task else {}
        merged = _merge_members(self._members, before, _task_members(task))
        return self if same_json(merged, self._members) else parse_task(dump_file(merged, nul=True))


def parse_task(text: str) -> TaskDocument:
    """Parse a task.json."""
    problems: list[Problem] = []
    fields = _read_fields(text, problems)
    if fields is None:
        return TaskDocument(text, None, tuple(problems))
    task = _build_task(fields)
    return TaskDocument(text, task, sort_problems(problems), fields.values)


def parse_task_line(line: str) -> tuple[Task | None, tuple[Problem, ...]]:
    """Parse one line of a tasks.jsonl: its task, and the problems in it; a blank line has neither."""
    if is_blank(line):
        return None, ()
    node = read_json(line)
    if isinstance(node, Problem) or not isinstance(node.value, dict):
        what = node.what if isinstance(node, Problem) else "the line should hold one object"
        hint = "mend or delete the line; the other lines are read"
        return None, (Problem(1, what, hint, "error", "torn-line"),)
    problems: list[Problem] = []
    return _build_task(JsonFields(node, LineNumbers(line), problems)), tuple(problems)


def read_task(text: str) -> Task | None:
    """Return `parse_task(text).task`, many times as fast for a file without problems: a board reads thousands."""
    if text.count("{") + text.count("[") < MAX_DEPTH:
        with suppress(ValueError):
            value = STRICT_DECODER.decode(text)
            if isinstance(value, dict) and value.get("id") and value.get("claim") is None:
                blockers = value.get("blocked_by") or []
                if (
                    all(value.get(key) is None or type(value[key]) is str for key in _TASK_TEXTS)
                    and all(value.get(key) is None or type(value[key]) is int for key in ("priority", "attempts"))
                    and isinstance(blockers, list)
                    and all(isinstance(blocker, str) for blocker in blockers)
                ):
                    return _task_from_members(value)
    return parse_task(text).task


def _build_task(fields: JsonFields) -> Task | None:
    names = _read_id_and_title(fields, "task")
    if names is None:
        return None
    members: Members = {"id": names[0], "title": names[1]} | {key: fields.text(key) for key in _TASK_TEXTS[2:]}
    members |= {key: fields.number(key) for key in ("priority", "attempts")}
    members |= {"blocked_by": fields.texts("blocked_by")} | fields.unknown(TASK_KEYS)
    claim, inner = None, fields.inner("claim")
    if inner is not None:
        run, pid = inner.text("run"), inner.number("pid")
        host, expires_at = inner.text("host"), inner.text("expires_at")
        if run is None or pid is None:
            what = "the claim names no run and process, so it does not count"
            inner.report(inner.node.start, what, 'set "claim" to null, or name "run" and "pid"', code="broken-claim")
        else:
            claim = Claim(run, host or "", pid, expires_at or "")
    return _task_from_members(members, claim)


def _task_from_members(value: Members, claim: Claim | None = None) -> Task:
    status = value.get("status")
    return Task(
        value["id"],
        value.get("title") or "",
        description=value.get("description") or "",
        status="pending" if status is None else status,
        priority=value.get("priority") or 0,
        blocked_by=tuple(value.get("blocked_by") or ()),
        parent=value.get("parent"),
        feature=value.get("feature"),
        attempts=value.get("attempts") or 0,
        worktree=value.get("worktree"),
        branch=value.get("branch"),
        claim=claim,
        created_at=value.get("created_at") or "",
        updated_at=value.get("updated_at") or "",
        extra={key: member for key, member in value.items() if key not in TASK_KEYS},
    )


def _task_members(task: Task) -> Members:
    claim = task.claim
    claimed = claim and {"run": claim.run, "host": claim.host, "pid": claim.pid, "expires_at": claim.expires_at}
    return _join_members({key: getattr(task, key) for key in TASK_KEYS} | {"claim": claimed}, task.extra)


def render_task(task: Task) -> str:
    """Render a new task.json."""
    return dump_file(_task_members(task))


def render_task_line(task: Task) -> str:
    """Render one line of a tasks.jsonl, with its line end."""
    return dump_line(_task_members(task))


# --- prd.json ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrdDocument(TextDocument):
    """A prd.json: its project, branch and stories in file order."""

    project: str = ""
    branch: str = ""
    description: str = ""
    stories: tuple[Story, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()


def parse_prd(text: str) -> PrdDocument:
    """Parse a prd.json."""
    problems: list[Problem] = []
    fields = _read_fields(text, problems)
    if fields is None:
        return PrdDocument(text, problems=tuple(problems))
    line_of = LineNumbers(text)
    stories: list[Story] = []
    ids: set[str] = set()
    for node in fields.items("userStories", "a list of stories"):
        members = _object_fields(node, line_of, problems, "a story should be an object")
        names = _read_id_and_title(members, "story") if members is not None else None
        if members is None or names is None:
            continue
        story = Story(
            *names,
            description=members.text("description") or "",
            acceptance_criteria=members.texts("acceptanceCriteria"),
            priority=members.number("priority") or 0,
            passes=members.flag("passes"),
            notes=members.text("notes") or "",
            extra=members.unknown(STORY_KEYS),
        )
        if story.id in ids:
            what = f"a second story has the id {story.id}"
            fields.report(node.start, what, "give each of them its own id", code="duplicate-id")
        ids.add(story.id)
        stories.append(story)
    project, branch, description = (fields.text(key) or "" for key in PRD_KEYS[:3])
    unknown = fields.unknown(PRD_KEYS)
    return PrdDocument(text, project, branch, description, tuple(stories), unknown, sort_problems(problems))


# --- feature.json, spec.md, plan.md ------------------------------------------------------------


def parse_feature(text: str) -> tuple[Feature | None, tuple[Problem, ...]]:
    """Parse a feature.json: the feature in it when there is one, and the problems."""
    problems: list[Problem] = []
    fields = _read_fields(text, problems)
    names = _read_id_and_title(fields, "feature") if fields is not None else None
    if fields is None or names is None:
        return None, sort_problems(problems)
    status = fields.text("status")
    feature = Feature(
        *names,
        description=fields.text("description") or "",
        status="open" if status is None else status,
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        extra=fields.unknown(FEATURE_KEYS),
    )
    return feature, sort_problems(problems)


def render_feature(feature: Feature) -> str:
    """Render a new feature.json."""
    return dump_file(_join_members({key: getattr(feature, key) for key in FEATURE_KEYS}, feature.extra))


def new_spec(feature: Feature) -> str:
    """Render the template of a spec.md."""
    description = f"{feature.description}\n\n" if feature.description else ""
    return f"# Spec: {feature.title}\n\n## What it should do\n\n{description}## How to see that it does\n"


def new_plan(feature: Feature) -> str:
    """Render the template of a plan.md."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def is_unwritten(text: str) -> bool:
    """Whether a text holds headings and blank lines only, as a template does."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)


# --- insights.json -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsightsDocument(TextDocument):
    """An insights.json: its text and the insights in it, in file order."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    _members: Members | None = field(default=None, repr=False, compare=False)
    _positions: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def add(self, *records: Record) -> "InsightsDocument":
        """The document with more insights at the end."""
        ids = {entry.record.id for entry in self.entries}
        for record in records:
            if record.id in ids:
                raise Conflict(f"there is an insight {record.id} already", hint="draw another id, or replace that one")
            ids.add(record.id)
        return self._with_list([*self._list(), *(check_json(_insight_members(record)) for record in records)])

    def replace(self, record_id: str, record: Record) -> "InsightsDocument":
        """The document with one insight changed; unknown members of it are kept."""
        if record.id != record_id and any(entry.record.id == record.id for entry in self.entries):
            raise Conflict(f"there is an insight {record.id} already", hint="choose another id, or replace that one")
        return self.replace_all({record_id: record})

    def replace_all(self, records: Mapping[str, Record]) -> "InsightsDocument":
        """The document with several insights changed, each in the place of the one with that id."""
        elements = self._list()
        for record_id, record in records.items():
            entry, position = find_entry(self.entries, record_id), self._positions[record_id]
            after = _insight_members(record)
            merged = _merge_members(elements[position], _insight_members(entry.record), after)
            # An id derived from the text and a label taken from the kind would change with them.
            elements[position] = merged | {key: after[key] for key in ("id", "kind", "label")}
        return self._with_list(elements)

    def remove(self, record_id: str) -> "InsightsDocument":
        """The document without one insight."""
        find_entry(self.entries, record_id)
        elements = self._list()
        del elements[self._positions[record_id]]
        return self._with_list(elements)

    def _list(self) -> list[Any]:
        """The elements of the file's list, read or not; Unreadable when the file has another form."""
        if self._members is None:
            if is_blank(self.text):
                return []
            raise unreadable_error(self.problems)
        elements = self._members.get("insights")
        if elements is not None and not isinstance(elements, list):
            raise unreadable_error(self.problems)
        return list(elements or ())

    def _with_list(self, elements: list[Any]) -> "InsightsDocument":
        members = {"version": INSIGHTS_VERSION} if self._members is None else self._members
        changed = {**members, "insights": elements}
        return self if same_json(changed, self._members) else parse_insights(dump_file(changed, nul=True))


def parse_insights(text: str) -> InsightsDocument:
    """Parse an insights.json; an empty file holds no insights and is no problem."""
    problems: list[Problem] = []
    fields = None if is_blank(text) else _read_fields(text, problems)
    if fields is None:
        return InsightsDocument(text, problems=tuple(problems))
    line_of = LineNumbers(text)
    version = fields.number("version")
    if version is not None and version > INSIGHTS_VERSION:
        what = f"version {version} is newer than {INSIGHTS_VERSION}, the newest that this Ralph knows"
        hint = "update Ralph if insights seem to be missing"
        fields.report(fields.nodes["version"].start, what, hint, "note", "newer-version")
    entries: list[Entry] = []
    positions: dict[str, int] = {}
    for position, node in enumerate(fields.items("insights", "a list of insights")):
        record = _build_insight(node, line_of, problems)
        if record is None:
            continue
        if record.id in positions:
            what = f"a second insight has the id {record.id}"
            fields.report(node.start, what, "give each its own id", code="duplicate-id")
        positions[record.id] = position
        entries.append(Entry(record, node.start, node.end, line_of(node.start)))
    return InsightsDocument(text, tuple(entries), sort_problems(problems), fields.values, positions)


def render_insights(record: Record) -> str:
    """Render a new insights.json with this one insight."""
    return dump_file({"version": INSIGHTS_VERSION, "insights": [_insight_members(record)]})


def _build_insight(node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> Record | None:
    fields = _object_fields(node, line_of, problems, "an insight should be an object")
    if fields is None:
        return None
    text = fields.text("text")
    if text is None:
        hint = 'add a "text", or delete the insight'
        fields.report(node.start, "an insight without a text is not read", hint, "error", "no-text")
        return None
    word, label = fields.text("kind"), fields.text("label")
    author_word = label if word is None and label is not None else word or ""
    kind = kind_of(author_word)
    if kind is None:
        what = f"{author_word!r:.60} is no kind of memory, so it is read as context"
        hint = f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label"
        fields.report(node.start, what, hint, code="unknown-kind")
    status = fields.text("status")
    if status is not None and status not in list(Status):
        what = f"{status!r:.60} is no status, so the insight counts as proposed"
        fields.report(node.start, what, f"write one of {', '.join(Status)}", code="unknown-status")
        status = None
    files, source = fields.texts("files"), fields.inner("source")
    origin = Origin(files=files)
    if source is not None:
        by, session, run, task, agent, commit = (source.text(key) or "" for key in _SOURCE_TEXTS)
        origin = Origin(by, session, run, source.number("iteration"), task, agent, files, commit)
    links: list[Link] = []
    for item in fields.items("links", "a list of links"):
        inner = JsonFields(item, line_of, problems)
        relation, target = inner.text("relation"), inner.text("target")
        if relation is None or target is None:
            hint = 'write it as {"relation": ..., "target": ...}'
            fields.report(item.start, "a link needs a relation and a target", hint, code="wrong-type")
        else:
            links.append(Link(relation, target))
    return Record(
        fields.text("id") or derived("ins", text),
        kind or MemoryKind.CONTEXT,
        text,
        label=author_word if label is None else label,
        title=fields.text("title") or "",
        tags=fields.texts("tags"),
        status=Status(status or Status.PROPOSED),
        scope=Scope.TASK,
        origin=origin,
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        valid_until=fields.text("valid_until") or "",
        links=tuple(links),
        extra=fields.unknown(INSIGHT_KEYS),
    )


def _insight_members(record: Record) -> Members:
    """The members of an insight, in the order in which they are written."""
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK:
        hint = "give the record the scope `task`, or write it to another file"
        raise Refused("insights.json holds memories of one task", hint=hint)
    origin = record.origin
    source = {"session": origin.session, "run": origin.run, "iteration": origin.iteration}
    source |= {key: getattr(origin, key) for key in _SOURCE_TEXTS if key not in source and getattr(origin, key)}
    named: Members = {
        "id": record.id,
        "kind": record.kind.value,
        "label": record.label,
        "title": record.title,
        "text": record.text,
        "tags": record.tags,
        "files": origin.files,
        "source": source,
        "status": record.status.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "valid_until": record.valid_until,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
    }
    joined = _join_members(named, record.extra)
    return {key: value for key, value in joined.items() if value or key not in _OPTIONAL_INSIGHT_KEYS}
