"""Codecs of the files about work: task.json, tasks.jsonl, prd.json, feature.json, insights.json.

A member of the wrong type is reported, kept, and counts as absent, so that a task with an odd
priority is still a task. Ralph's own files are written whole, with every unknown member in its
place and only the members that differ set anew. prd.json is a person's file: it is only read here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    sort_problems,
    unreadable_error,
)
from ralph.formats.text import BOM, Entry, Problem, find_entry
from ralph.model.ids import derived
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.model.work import Claim, Feature, Story, Task

Members = dict[str, Any]

TASK_KEYS = (
    "id", "title", "description", "status", "priority", "blocked_by", "parent", "feature", "attempts",
    "worktree", "branch", "claim", "created_at", "updated_at",
)  # fmt: skip
STORY_KEYS = ("id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes")
PRD_KEYS = ("project", "branchName", "description", "userStories")
FEATURE_KEYS = ("id", "title", "description", "status", "created_at", "updated_at")
INSIGHT_KEYS = (
    "id", "kind", "label", "title", "text", "tags", "files", "source", "status",
    "created_at", "updated_at", "valid_until", "links",
)  # fmt: skip
INSIGHTS_VERSION = 1

_TASK_TEXTS = (
    "id", "title", "description", "status", "parent", "feature", "worktree", "branch", "created_at", "updated_at",
)  # fmt: skip
_OPTIONAL_INSIGHT_KEYS = frozenset({"title", "updated_at", "valid_until", "links"})
_SOURCE_KEYS = ("by", "session", "run", "iteration", "task", "agent", "commit")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")


# --- what the files share ----------------------------------------------------------------------


def _read_object(text: str, problems: list[Problem]) -> JsonNode | None:
    """The object that a file holds; None, with a Problem, when it holds none."""
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file"))
        return None
    root = read_json(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    if not isinstance(root.value, dict):
        hint = "wrap its content into { }, under the key that it belongs to"
        line = LineNumbers(text)(root.start)
        problems.append(Problem(line, "the file should hold one object", hint, "error", "not-an-object"))
        return None
    return root


def _read_id_and_title(fields: JsonFields, noun: str) -> tuple[str, str] | None:
    """Both names of a task, story or feature; without an id it is not read."""
    name, title = fields.text("id"), fields.text("title")
    if not name:
        hint = 'add an "id" with a text that no other one has'
        fields.report(fields.node.start, f"a {noun} without an id is not read", hint, "error", "no-id")
        return None
    if title is None:
        hint = 'add a "title" of one line'
        fields.report(fields.node.start, f"{noun} {name} has no title", hint, code="no-title")
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
class TaskDocument:
    """A task.json: its text, and the task in it when there is one."""

    text: str
    task: Task | None
    problems: tuple[Problem, ...] = ()
    _members: Members | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def with_task(self, task: Task) -> "TaskDocument":
        """The document with another state of the task; the same state changes no byte."""
        if self._members is None:
            if not is_blank(self.text):
                raise unreadable_error(self.problems)
            return parse_task(render_task(task))
        before = _task_members(self.task) if self.task else {}
        merged = _merge_members(self._members, before, _task_members(task))
        return self if same_json(merged, self._members) else parse_task(dump_file(merged, nul=True))


@dataclass(frozen=True, slots=True)
class TasksDocument:
    """A tasks.jsonl: its text and the tasks of its lines, in file order."""

    text: str
    tasks: tuple[Task, ...]
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        return self.text


def parse_task(text: str) -> TaskDocument:
    """Parse a task.json."""
    problems: list[Problem] = []
    root = _read_object(text, problems)
    if root is None:
        return TaskDocument(text, None, tuple(problems))
    fields = JsonFields(root, LineNumbers(text), problems)
    task = _build_task(fields)
    return TaskDocument(text, task, sort_problems(problems), fields.values)


def parse_tasks(text: str) -> TasksDocument:
    """Parse a tasks.jsonl; a line that holds no task is reported, and the others are read."""
    tasks: list[Task] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        if is_blank(line):
            continue
        node = read_json(line)
        if isinstance(node, Problem) or not isinstance(node.value, dict):
            what = node.what if isinstance(node, Problem) else "the line should hold one object"
            hint = "mend or delete the line; the other lines are read"
            problems.append(Problem(number, what, hint, "error", "torn-line"))
            continue
        in_line: list[Problem] = []
        task = _build_task(JsonFields(node, LineNumbers(line), in_line))
        problems += [Problem(number, each.what, each.hint, each.level, each.code) for each in in_line]
        if task is not None:
            tasks.append(task)
    return TasksDocument(text, tuple(tasks), tuple(problems))


def read_task(text: str) -> Task | None:
    """Return `parse_task(text).task`, many times as fast for a file without problems: a board reads thousands."""
    if text.count("{") + text.count("[") < MAX_DEPTH:
        with suppress(ValueError):
            value = STRICT_DECODER.decode(text)
            if isinstance(value, dict) and _has_expected_types(value):
                return _task_from_members(value)
    return parse_task(text).task


def _has_expected_types(value: Members) -> bool:
    """Whether every member that the format names has its type; a claim takes the slow path."""
    blockers = value.get("blocked_by") or []
    return (
        bool(value.get("id"))
        and all(value.get(key) is None or type(value[key]) is str for key in _TASK_TEXTS)
        and all(value.get(key) is None or type(value[key]) is int for key in ("priority", "attempts"))
        and isinstance(blockers, list)
        and all(isinstance(blocker, str) for blocker in blockers)
        and value.get("claim") is None
    )


def _build_task(fields: JsonFields) -> Task | None:
    names = _read_id_and_title(fields, "task")
    if names is None:
        return None
    members: Members = dict(zip(("id", "title"), names, strict=True))
    members |= {key: fields.text(key) for key in _TASK_TEXTS[2:]}
    members |= {key: fields.number(key) for key in ("priority", "attempts")}
    members |= {"blocked_by": fields.texts("blocked_by")} | fields.unknown(TASK_KEYS)
    return _task_from_members(members, _build_claim(fields.inner("claim")))


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


def _build_claim(fields: JsonFields | None) -> Claim | None:
    if fields is None:
        return None
    run, pid = fields.text("run"), fields.number("pid")
    host, expires_at = fields.text("host"), fields.text("expires_at")
    if run is None or pid is None:
        what = "the claim names no run and process, so it does not count"
        fields.report(fields.node.start, what, 'set "claim" to null, or name "run" and "pid"', code="broken-claim")
        return None
    return Claim(run, host or "", pid, expires_at or "")


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
class PrdDocument:
    """A prd.json: what the project is, and its stories in file order."""

    text: str
    project: str = ""
    branch: str = ""
    description: str = ""
    stories: tuple[Story, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        return self.text


def parse_prd(text: str) -> PrdDocument:
    """Parse a prd.json."""
    problems: list[Problem] = []
    root = _read_object(text, problems)
    if root is None:
        return PrdDocument(text, problems=tuple(problems))
    line_of = LineNumbers(text)
    fields = JsonFields(root, line_of, problems)
    stories: dict[int, Story] = {}
    ids: set[str] = set()
    for node in fields.items("userStories", "a list of stories"):
        story = _build_story(node, line_of, problems)
        if story is None:
            continue
        if story.id in ids:
            what = f"a second story has the id {story.id}"
            fields.report(node.start, what, "give each of them its own id", code="duplicate-id")
        ids.add(story.id)
        stories[node.start] = story
    project, branch, description = (fields.text(key) or "" for key in PRD_KEYS[:3])
    return PrdDocument(
        text, project, branch, description, tuple(stories.values()), fields.unknown(PRD_KEYS), sort_problems(problems)
    )


def _build_story(node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> Story | None:
    if not isinstance(node.value, dict):
        hint = 'write the story as {"id": ..., "title": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "a story should be an object", hint, "error", "wrong-type"))
        return None
    fields = JsonFields(node, line_of, problems)
    names = _read_id_and_title(fields, "story")
    if names is None:
        return None
    return Story(
        *names,
        description=fields.text("description") or "",
        acceptance_criteria=fields.texts("acceptanceCriteria"),
        priority=fields.number("priority") or 0,
        passes=fields.flag("passes") or False,
        notes=fields.text("notes") or "",
        extra=fields.unknown(STORY_KEYS),
    )


# --- feature.json, spec.md, plan.md ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeatureDocument:
    """A feature.json: its text, and the feature in it when there is one."""

    text: str
    feature: Feature | None
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        return self.text


def parse_feature(text: str) -> FeatureDocument:
    """Parse a feature.json."""
    problems: list[Problem] = []
    root = _read_object(text, problems)
    if root is None:
        return FeatureDocument(text, None, tuple(problems))
    fields = JsonFields(root, LineNumbers(text), problems)
    names = _read_id_and_title(fields, "feature")
    if names is None:
        return FeatureDocument(text, None, sort_problems(problems))
    status = fields.text("status")
    feature = Feature(
        *names,
        description=fields.text("description") or "",
        status="open" if status is None else status,
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        extra=fields.unknown(FEATURE_KEYS),
    )
    return FeatureDocument(text, feature, sort_problems(problems))


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
class InsightsDocument:
    """An insights.json: its text and the insights in it, in file order."""

    text: str
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    _members: Members | None = field(default=None, repr=False, compare=False)
    _positions: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

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
        return self._replaced([(record_id, record)])

    def replace_all(self, records: Sequence[Record]) -> "InsightsDocument":
        """The document with several insights changed, each in the place of the one with its id."""
        return self._replaced([(record.id, record) for record in records])

    def remove(self, record_id: str) -> "InsightsDocument":
        """The document without one insight."""
        find_entry(self.entries, record_id)
        elements = self._list()
        del elements[self._positions[record_id]]
        return self._with_list(elements)

    def _replaced(self, changes: Iterable[tuple[str, Record]]) -> "InsightsDocument":
        elements = self._list()
        for record_id, record in changes:
            entry, position = find_entry(self.entries, record_id), self._positions[record_id]
            after = _insight_members(record)
            merged = _merge_members(elements[position], _insight_members(entry.record), after)
            # An id derived from the text and a label taken from the kind would change with them.
            elements[position] = merged | {key: after[key] for key in ("id", "kind", "label")}
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
    root = None if is_blank(text) else _read_object(text, problems)
    if root is None:
        return InsightsDocument(text, problems=tuple(problems))
    line_of = LineNumbers(text)
    fields = JsonFields(root, line_of, problems)
    version = fields.number("version")
    if version is not None and version > INSIGHTS_VERSION:
        what = f"version {version} is newer than {INSIGHTS_VERSION}, the newest that this Ralph knows"
        hint = "update Ralph if insights seem to be missing"
        fields.report(fields.start_of("version"), what, hint, "note", "newer-version")
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
    if not isinstance(node.value, dict):
        hint = 'write the insight as {"id": ..., "kind": ..., "text": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "an insight should be an object", hint, "error", "wrong-type"))
        return None
    fields = JsonFields(node, line_of, problems)
    text = fields.text("text")
    if text is None:
        hint = 'add a "text", or delete the insight'
        fields.report(node.start, "an insight without a text is not read", hint, "error", "no-text")
        return None
    kind, label = _read_kind(fields)
    return Record(
        fields.text("id") or derived("ins", text),
        kind,
        text,
        label=label,
        title=fields.text("title") or "",
        tags=fields.texts("tags"),
        status=_read_status(fields),
        scope=Scope.TASK,
        origin=_read_origin(fields),
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        valid_until=fields.text("valid_until") or "",
        links=_read_links(fields, line_of, problems),
        extra=fields.unknown(INSIGHT_KEYS),
    )


def _read_kind(fields: JsonFields) -> tuple[MemoryKind, str]:
    """The kind, and the author's word for it."""
    word, label = fields.text("kind"), fields.text("label")
    author_word = label if word is None and label is not None else word or ""
    kind = kind_of(author_word)
    if kind is None:
        what = f"{author_word!r:.60} is no kind of memory, so it is read as context"
        hint = f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label"
        fields.report(fields.node.start, what, hint, code="unknown-kind")
        kind = MemoryKind.CONTEXT
    return kind, author_word if label is None else label


def _read_status(fields: JsonFields) -> Status:
    word = fields.text("status")
    if word is None:
        return Status.PROPOSED
    try:
        return Status(word)
    except ValueError:
        what = f"{word!r:.60} is no status, so the insight counts as proposed"
        fields.report(fields.node.start, what, f"write one of {', '.join(Status)}", code="unknown-status")
        return Status.PROPOSED


def _read_origin(fields: JsonFields) -> Origin:
    files, source = fields.texts("files"), fields.inner("source")
    if source is None:
        return Origin(files=files)
    by, session, run, task, agent, commit = (
        source.text(key) or "" for key in ("by", "session", "run", "task", "agent", "commit")
    )
    return Origin(by, session, run, source.number("iteration"), task, agent, files, commit)


def _read_links(fields: JsonFields, line_of: Callable[[int], int], problems: list[Problem]) -> tuple[Link, ...]:
    links: list[Link] = []
    for node in fields.items("links", "a list of links"):
        inner = JsonFields(node, line_of, problems)
        relation, target = inner.text("relation"), inner.text("target")
        if relation is None or target is None:
            hint = 'write it as {"relation": ..., "target": ...}'
            fields.report(node.start, "a link needs a relation and a target", hint, code="wrong-type")
        else:
            links.append(Link(relation, target))
    return tuple(links)


def _insight_members(record: Record) -> Members:
    """The members of an insight, in the order in which they are written."""
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK:
        hint = "give the record the scope `task`, or write it to another file"
        raise Refused("insights.json holds memories of one task", hint=hint)
    origin = record.origin
    source = {"session": origin.session, "run": origin.run, "iteration": origin.iteration}
    source |= {key: getattr(origin, key) for key in _SOURCE_KEYS if key not in source and getattr(origin, key)}
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
