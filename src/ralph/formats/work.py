"""task.json, prd.json and tasks.jsonl: what is to be done, in files that people also edit.

The values are `model/work.py`'s. A change is found by comparing two values member by member,
and only the members that differ are written (`jsonedit.py`): a loop that ticks one story off
leaves a person's indentation, key order and own keys alone. What has the wrong type is told and
counts as absent, so that a task with an odd priority is still a task. tasks.jsonl is for import
and export: one task a line. `tests/formats/test_work.py` holds the laws and the golden files beside it.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ralph.errors import Conflict, NotFound, Refused
from ralph.formats.json_text import (
    BOM,
    DROP,
    MAX_DEPTH,
    STRICT_DECODER,
    JsonFields,
    JsonNode,
    JsonStyle,
    LineNumbers,
    Raw,
    array_text,
    check_json,
    difference,
    dump_file,
    dump_line,
    is_blank,
    join_members,
    keep_odd,
    object_text,
    read_json,
    sort_problems,
    splice,
    style_of,
    unreadable_error,
)
from ralph.formats.text import Entry, Problem, find_entry
from ralph.model.ids import derived
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of
from ralph.model.work import Claim, Feature, Story, Task

TASK_KEYS = (
    "id", "title", "description", "status", "priority", "blocked_by", "parent", "feature", "attempts",
    "worktree", "branch", "claim", "created_at", "updated_at",
)  # fmt: skip
_TEXT_KEYS = (
    "id", "title", "description", "status", "parent", "feature", "worktree", "branch", "created_at", "updated_at",
)  # fmt: skip
STORY_KEYS = ("id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes")
PRD_KEYS = ("project", "branchName", "description", "userStories")


def _claim_members(claim: Claim | None) -> dict[str, object] | None:
    if claim is None:
        return None
    return {"run": claim.run, "host": claim.host, "pid": claim.pid, "expires_at": claim.expires_at}


def _task_members(task: Task) -> dict[str, object]:
    if not task.id:
        raise Refused("a task needs an id", hint="mint one, such as t-1a2b3c")
    named = {key: getattr(task, key) for key in TASK_KEYS} | {"claim": _claim_members(task.claim)}
    return join_members(named, task.extra, TASK_KEYS)


def _story_members(story: Story) -> dict[str, object]:
    if not story.id:
        raise Refused("a story needs an id", hint="give it one, such as US-001")
    named: dict[str, object] = {
        "id": story.id,
        "title": story.title,
        "description": story.description,
        "acceptanceCriteria": story.acceptance_criteria,
        "priority": story.priority,
        "passes": story.passes,
        "notes": story.notes,
    }
    return join_members(named, story.extra, STORY_KEYS)


def _id_and_title(fields: JsonFields, thing: str) -> tuple[str, str] | None:
    """Both names of a task or story; without an id it cannot be spoken of, and is not read."""
    name = fields.text("id")
    title = fields.text("title")
    if not name:
        what = f"a {thing} without an id is not read"
        fields.tell(fields.node.start, what, 'add an "id" with a text that no other one has', "error", "no-id")
        return None
    if title is None:
        hint = 'add a "title" that says in one line what to do'
        fields.tell(fields.node.start, f"{thing} {name} has no title", hint, code="no-title")
    return name, title or ""


def _claim(fields: JsonFields) -> Claim | None:
    held = fields.inner("claim")
    if held is None:
        return None
    run, pid = held.text("run"), held.number("pid")
    host, expires_at = held.text("host"), held.text("expires_at")
    if run is None or pid is None:
        what = "the claim does not say which run and process hold it, so it does not count"
        held.tell(held.node.start, what, 'set "claim" to null, or name "run" and "pid"', code="broken-claim")
        return None
    return Claim(run, host or "", pid, expires_at or "")


def _task(node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> Task | None:
    fields = JsonFields(node, line_of, problems)
    names = _id_and_title(fields, "task")
    if names is None:
        return None
    status = fields.text("status")
    return Task(
        *names,
        description=fields.text("description") or "",
        status="pending" if status is None else status,
        priority=fields.number("priority") or 0,
        blocked_by=fields.texts("blocked_by"),
        parent=fields.text("parent"),
        feature=fields.text("feature"),
        attempts=fields.number("attempts") or 0,
        worktree=fields.text("worktree"),
        branch=fields.text("branch"),
        claim=_claim(fields),
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        extra=fields.rest(TASK_KEYS),
    )


def _story(node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> Story | None:
    if not isinstance(node.value, dict):
        hint = 'write the story as {"id": ..., "title": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "a story should be an object", hint, "error", "wrong-type"))
        return None
    fields = JsonFields(node, line_of, problems)
    names = _id_and_title(fields, "story")
    if names is None:
        return None
    return Story(
        *names,
        description=fields.text("description") or "",
        acceptance_criteria=fields.texts("acceptanceCriteria"),
        priority=fields.number("priority") or 0,
        passes=fields.flag("passes") or False,
        notes=fields.text("notes") or "",
        extra=fields.rest(STORY_KEYS),
    )


def _root(text: str, problems: list[Problem]) -> JsonNode | None:
    """The object that a file holds; None, with a Problem, when it holds none."""
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "write it with `ralph task add`", "note", "empty-file"))
        return None
    root = read_json(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    if not isinstance(root.value, dict):
        line = LineNumbers(text)(root.start)
        hint = "wrap what it holds into { }, under the key that it belongs to"
        problems.append(Problem(line, "the file should hold one object", hint, "error", "not-an-object"))
        return None
    return root


# --- task.json ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """A task.json: its text, and the task in it when there is one."""

    text: str
    task: Task | None
    problems: tuple[Problem, ...] = ()
    _root: JsonNode | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def with_task(self, task: Task) -> "TaskDocument":
        """The document with another state of the task; only members that differ are written."""
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable_error(self.problems)
            return parse_task(text[: text.startswith(BOM)] + render_task(task))
        changes = difference(_task_members(self.task) if self.task else {}, _task_members(task))
        keep_odd(root, changes, ["blocked_by"])
        style = style_of(text, root)
        held, before = root.get("claim"), _claim_members(self.task.claim if self.task else None)
        if "claim" in changes and held is not None and before is not None and task.claim is not None:
            # A claim that is prolonged keeps what others wrote beside it.
            inner = difference(before, _claim_members(task.claim) or {})
            changes["claim"] = Raw(object_text(text, held, style, inner))
        return parse_task(splice(text, root, object_text(text, root, style, changes)))


def parse_task(text: str) -> TaskDocument:
    """Reads a task.json."""
    problems: list[Problem] = []
    root = _root(text, problems)
    task = _task(root, LineNumbers(text), problems) if root is not None else None
    return TaskDocument(text, task, sort_problems(problems), root)


def read_task(text: str) -> Task | None:
    """`parse_task(text).task`, many times as fast where nothing is odd: for who reads thousands of them."""
    if text.count("{") + text.count("[") < MAX_DEPTH:
        with suppress(ValueError):
            value = STRICT_DECODER.decode(text)
            if isinstance(value, dict) and _is_plain(value):
                return _plain_task(value)
    return parse_task(text).task


def _is_plain(value: dict[str, object]) -> bool:
    """Whether every member that the format names is of its type; a claim is left to the careful way."""
    blockers = value.get("blocked_by") or []
    return (
        bool(value.get("id"))
        and all(value.get(key) is None or type(value[key]) is str for key in _TEXT_KEYS)
        and all(value.get(key) is None or type(value[key]) is int for key in ("priority", "attempts"))
        and isinstance(blockers, list)
        and all(isinstance(each, str) for each in blockers)
        and value.get("claim") is None
    )


def _plain_task(value: dict[str, Any]) -> Task:
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
        created_at=value.get("created_at") or "",
        updated_at=value.get("updated_at") or "",
        extra={key: inner for key, inner in value.items() if key not in TASK_KEYS},
    )


def render_task(task: Task) -> str:
    """A new task.json."""
    return dump_file(_task_members(task))


# --- tasks.jsonl -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TasksDocument:
    """A tasks.jsonl: its text and the tasks of its lines, in file order."""

    text: str
    tasks: tuple[Task, ...]
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        return self.text


def _always(number: int) -> Callable[[int], int]:
    return lambda _place: number


def parse_tasks(text: str) -> TasksDocument:
    """Reads a tasks.jsonl; a line that is no task is told, and the others are read."""
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
        task = _task(node, _always(number), problems)
        if task is not None:
            tasks.append(task)
    return TasksDocument(text, tuple(tasks), tuple(problems))


def render_task_line(task: Task) -> str:
    """One line of a tasks.jsonl, with its line end."""
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
    extra: dict[str, object] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()
    _root: JsonNode | None = field(default=None, repr=False, compare=False)
    _places: tuple[JsonNode, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def _position(self, story_id: str) -> int:
        found = [place for place, story in enumerate(self.stories) if story.id == story_id]
        if not found:
            raise NotFound(f"no story {story_id}", hint="`ralph task show` lists the stories of a task")
        if len(found) > 1:
            hint = "give each of them its own id in prd.json"
            raise Conflict(f"{len(found)} stories have the id {story_id}", hint=hint)
        return found[0]

    def _free(self, story_id: str) -> None:
        if any(story.id == story_id for story in self.stories):
            raise Conflict(f"there is a story {story_id} already", hint="choose another id, or replace that one")

    def add(self, story: Story) -> "PrdDocument":
        """The document with one more story, at the end."""
        members = _story_members(story)
        root = self._root
        if root is None:
            if not is_blank(self.text):
                raise unreadable_error(self.problems)
            return parse_prd(self.text[: self.text.startswith(BOM)] + new_prd("", "", "").text).add(story)
        self._free(story.id)
        style = style_of(self.text, root)
        stories = root.get("userStories")
        if stories is None or stories.value is None:
            new = object_text(self.text, root, style, {"userStories": [members]})
            return parse_prd(splice(self.text, root, new))
        if not isinstance(stories.value, list):
            raise unreadable_error(self.problems)
        return parse_prd(splice(self.text, stories, array_text(self.text, stories, style, added=[members])))

    def replace(self, story_id: str, story: Story) -> "PrdDocument":
        """The document with another state of one story; only members that differ are written."""
        place = self._position(story_id)
        members = _story_members(story)
        if story.id != story_id:
            self._free(story.id)
        node, root = self._places[place], self._root
        changes = difference(_story_members(self.stories[place]), members)
        keep_odd(node, changes, ["acceptanceCriteria"])
        style = style_of(self.text, root or node)
        return parse_prd(splice(self.text, node, object_text(self.text, node, style, changes)))

    def remove(self, story_id: str) -> "PrdDocument":
        """The document without one story."""
        node = self._places[self._position(story_id)]
        stories = self._root.get("userStories") if self._root else None
        if stories is None:
            raise unreadable_error(self.problems)
        removed = [place for place, item in enumerate(stories.items) if item is node]
        new = array_text(self.text, stories, style_of(self.text, stories), removed=removed)
        return parse_prd(splice(self.text, stories, new))


def parse_prd(text: str) -> PrdDocument:
    """Reads a prd.json."""
    problems: list[Problem] = []
    root = _root(text, problems)
    if root is None:
        return PrdDocument(text, problems=tuple(problems))
    line_of = LineNumbers(text)
    fields = JsonFields(root, line_of, problems)
    stories: list[Story] = []
    places: list[JsonNode] = []
    seen: set[str] = set()
    for node in fields.items("userStories", "a list of stories") or ():
        story = _story(node, line_of, problems)
        if story is None:
            continue
        if story.id in seen:
            what = f"a second story has the id {story.id}"
            fields.tell(node.start, what, "give each of them its own id", code="duplicate-id")
        seen.add(story.id)
        stories.append(story)
        places.append(node)
    return PrdDocument(
        text,
        fields.text("project") or "",
        fields.text("branchName") or "",
        fields.text("description") or "",
        tuple(stories),
        fields.rest(PRD_KEYS),
        sort_problems(problems),
        root,
        tuple(places),
    )


def new_prd(project: str, branch: str, description: str) -> PrdDocument:
    """A new prd.json without stories."""
    members = {"project": project, "branchName": branch, "description": description, "userStories": []}
    return parse_prd(dump_file(members))


FEATURE_KEYS = ("id", "title", "description", "status", "created_at", "updated_at")

_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")


def _feature_members(feature: Feature) -> dict[str, object]:
    if not feature.id:
        raise Refused("a feature needs an id", hint="mint one, such as f-1a2b3c")
    return join_members({key: getattr(feature, key) for key in FEATURE_KEYS}, feature.extra, FEATURE_KEYS)


@dataclass(frozen=True, slots=True)
class FeatureDocument:
    """A feature.json: its text, and the feature in it when there is one."""

    text: str
    feature: Feature | None
    problems: tuple[Problem, ...] = ()
    _root: JsonNode | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def with_feature(self, feature: Feature) -> "FeatureDocument":
        """The document with another state of the feature; only members that differ are written."""
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable_error(self.problems)
            return parse_feature(text[: text.startswith(BOM)] + render_feature(feature))
        changes = difference(_feature_members(self.feature) if self.feature else {}, _feature_members(feature))
        style = style_of(text, root)
        return parse_feature(splice(text, root, object_text(text, root, style, changes)))


def parse_feature(text: str) -> FeatureDocument:
    """Reads a feature.json."""
    problems: list[Problem] = []
    root = _object(text, problems)
    feature = _feature(JsonFields(root, LineNumbers(text), problems)) if root is not None else None
    return FeatureDocument(text, feature, sort_problems(problems), root)


def _object(text: str, problems: list[Problem]) -> JsonNode | None:
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file"))
        return None
    root = read_json(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    if not isinstance(root.value, dict):
        hint = 'write the feature as {"id": ..., "title": ...}'
        line = LineNumbers(text)(root.start)
        problems.append(Problem(line, "the file should hold one object", hint, "error", "not-an-object"))
        return None
    return root


def _feature(fields: JsonFields) -> Feature | None:
    name, title, status = fields.text("id"), fields.text("title"), fields.text("status")
    if not name:
        hint = 'add an "id" with a text that no other one has'
        fields.tell(fields.node.start, "a feature without an id is not read", hint, "error", "no-id")
        return None
    if title is None:
        hint = 'add a "title" that says in one line what it is'
        fields.tell(fields.node.start, f"feature {name} has no title", hint, code="no-title")
    return Feature(
        name,
        title or "",
        fields.text("description") or "",
        "open" if status is None else status,
        fields.text("created_at") or "",
        fields.text("updated_at") or "",
        fields.rest(FEATURE_KEYS),
    )


def render_feature(feature: Feature) -> str:
    """A new feature.json."""
    return dump_file(_feature_members(feature))


def new_spec(feature: Feature) -> str:
    """The first form of a spec.md: what is wanted, and how one sees that it is there."""
    wanted = f"{feature.description}\n\n" if feature.description else ""
    return f"# Spec: {feature.title}\n\n## What it should do\n\n{wanted}## How to see that it does\n"


def new_plan(feature: Feature) -> str:
    """The first form of a plan.md."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def is_unwritten(text: str) -> bool:
    """Whether a text holds headings and blank lines only, as a new one does."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)


INSIGHTS_VERSION = 1

INSIGHT_KEYS = (
    "id", "kind", "label", "title", "text", "tags", "files", "source", "status",
    "created_at", "updated_at", "valid_until", "links", "list_was",
)  # fmt: skip
"""The members that are fields of a Record; `title` and three of the last stand only when they say something.

`list_was` is no field but a mark: the file had no list (`missing`), or `null`, before this insight came.
"""

_SOURCE = ("by", "session", "run", "iteration", "task", "agent", "commit")


# --- reading -----------------------------------------------------------------------------------


def _insight_kind(fields: JsonFields) -> tuple[MemoryKind, str]:
    """The kind, and the author's word for it."""
    word = fields.text("kind")
    label = fields.text("label")
    named = label if word is None and label is not None else word or ""
    kind = kind_of(named)
    if kind is None:
        what = f"{named!r:.60} is no kind of memory, so it is read as context"
        hint = f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label"
        fields.tell(fields.node.start, what, hint, code="unknown-kind")
        kind = MemoryKind.CONTEXT
    return kind, named if label is None else label


def _insight_status(fields: JsonFields) -> Status:
    word = fields.text("status")
    if word is None:
        return Status.PROPOSED
    try:
        return Status(word)
    except ValueError:
        what = f"{word!r:.60} is no status, so the insight counts as proposed"
        fields.tell(fields.node.start, what, f"write one of {', '.join(Status)}", code="unknown-status")
        return Status.PROPOSED


def _insight_origin(fields: JsonFields) -> Origin:
    source = fields.inner("source")
    if source is None:
        return Origin(files=fields.texts("files"))
    return Origin(
        by=source.text("by") or "",
        session=source.text("session") or "",
        run=source.text("run") or "",
        iteration=source.number("iteration"),
        task=source.text("task") or "",
        agent=source.text("agent") or "",
        files=fields.texts("files"),
        commit=source.text("commit") or "",
    )


def _insight_links(fields: JsonFields, line_of: Callable[[int], int], problems: list[Problem]) -> tuple[Link, ...]:
    links: list[Link] = []
    for node in fields.items("links", "a list of links") or ():
        inner = JsonFields(node, line_of, problems)
        relation, target = inner.text("relation"), inner.text("target")
        if relation is None or target is None:
            hint = 'write it as {"relation": ..., "target": ...}'
            fields.tell(node.start, "a link needs a relation and a target", hint, code="wrong-type")
        else:
            links.append(Link(relation, target))
    return tuple(links)


def _insight(node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> Record | None:
    if not isinstance(node.value, dict):
        hint = 'write the insight as {"id": ..., "kind": ..., "text": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "an insight should be an object", hint, "error", "wrong-type"))
        return None
    fields = JsonFields(node, line_of, problems)
    text = fields.text("text")
    if text is None:
        hint = 'add a "text", or delete the insight'
        fields.tell(node.start, "an insight without a text is not read", hint, "error", "no-text")
        return None
    kind, label = _insight_kind(fields)
    return Record(
        fields.text("id") or derived("ins", text),
        kind,
        text,
        label=label,
        title=fields.text("title") or "",
        tags=fields.texts("tags"),
        status=_insight_status(fields),
        scope=Scope.TASK,
        origin=_insight_origin(fields),
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        valid_until=fields.text("valid_until") or "",
        links=_insight_links(fields, line_of, problems),
        extra=fields.rest(INSIGHT_KEYS),
    )


def _check_version(fields: JsonFields) -> None:
    version = fields.number("version")
    node = fields.present("version")
    if version is not None and node is not None and version > INSIGHTS_VERSION:
        what = f"version {version} is newer than {INSIGHTS_VERSION}, the newest that this Ralph knows"
        hint = "update Ralph if insights seem to be missing"
        fields.tell(node.start, what, hint, "note", "newer-version")


def parse_insights(text: str) -> "InsightsDocument":
    """Reads an insights.json."""
    if is_blank(text):
        return InsightsDocument(text)
    root = read_json(text)
    if isinstance(root, Problem):
        return InsightsDocument(text, problems=(root,))
    line_of = LineNumbers(text)
    if not isinstance(root.value, dict):
        hint = 'write it as {"version": 1, "insights": [...]}'
        what = "the file should hold one object"
        return InsightsDocument(text, problems=(Problem(line_of(root.start), what, hint, "error", "not-an-object"),))
    problems: list[Problem] = []
    fields = JsonFields(root, line_of, problems)
    _check_version(fields)
    entries: list[Entry] = []
    seen: set[str] = set()
    for node in fields.items("insights", "a list of insights") or ():
        record = _insight(node, line_of, problems)
        if record is None:
            continue
        if record.id in seen:
            what = f"a second insight has the id {record.id}"
            hint = "give each an id of its own in the file"
            fields.tell(node.start, what, hint, code="duplicate-id")
        seen.add(record.id)
        entries.append(Entry(record, node.start, node.end, line_of(node.start)))
    return InsightsDocument(text, tuple(entries), sort_problems(problems), root)


# --- writing -----------------------------------------------------------------------------------


def _source(origin: Origin) -> dict[str, object]:
    """The origin without its files; the three members that the format shows always stand."""
    shown = {"session": origin.session, "run": origin.run, "iteration": origin.iteration}
    return shown | {key: getattr(origin, key) for key in _SOURCE if key not in shown and getattr(origin, key)}


def _insight_members(record: Record) -> dict[str, object]:
    """The members that say this record, in the order in which they are written."""
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK or not record.id:
        raise Refused(
            "insights.json holds memories of one task, each with an id",
            hint="give the record the scope `task` and an id, or write it to another file",
        )
    named: dict[str, object] = {
        "id": record.id,
        "kind": record.kind.value,
        "label": record.label,
        "title": record.title,
        "text": record.text,
        "tags": record.tags,
        "files": record.origin.files,
        "source": _source(record.origin),
        "status": record.status.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "valid_until": record.valid_until,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
    }
    named = {key: value for key, value in named.items() if value or key not in _OPTIONAL}
    return join_members(named, record.extra, INSIGHT_KEYS)


_OPTIONAL = frozenset({"title", "updated_at", "valid_until", "links"})


def render_insights(record: Record) -> str:
    """A new insights.json with this one insight."""
    return dump_file({"version": INSIGHTS_VERSION, "insights": [_insight_members(record)]})


@dataclass(frozen=True, slots=True)
class InsightsDocument:
    """An insights.json: its text and the insights in it, in file order."""

    text: str
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    _root: JsonNode | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def _node(self, record_id: str) -> tuple[Entry, JsonNode, JsonNode]:
        """An entry, the list that holds it, and its node there."""
        entry = find_entry(self.entries, record_id)
        array = self._root.get("insights") if self._root else None
        if array is None:  # not reached: an entry comes from that list
            raise unreadable_error(self.problems)
        return entry, array, next(node for node in array.items if node.start == entry.start)

    def _free(self, record_id: str) -> None:
        if any(entry.record.id == record_id for entry in self.entries):
            raise Conflict(f"there is an insight {record_id} already", hint="draw another id, or replace that one")

    def add(self, record: Record, *more: Record) -> "InsightsDocument":
        """The document with one more insight at the end, or with several, which are written at once."""
        for place, each in enumerate((record, *more)):
            self._free(each.id)
            if any(each.id == other.id for other in (record, *more)[:place]):
                raise Conflict(f"two of the insights have the id {each.id}", hint="draw another id for one of them")
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable_error(self.problems)
            return parse_insights(text[: text.startswith(BOM)] + render_insights(record))._with(more)
        style = style_of(text, root)
        array = root.get("insights")
        if array is None or array.value is None:
            mark = {"list_was": "missing" if array is None else "null"}
            made = {"insights": [check_json(_insight_members(record) | mark)]}
            put = _put(text, root, style, lambda style: object_text(text, root, style, made))
            return parse_insights(put)._with(more)
        if not isinstance(array.value, list):
            raise unreadable_error(self.problems)
        added = [check_json(_insight_members(each)) for each in (record, *more)]
        return parse_insights(_put(text, array, style, lambda style: array_text(text, array, style, added=added)))

    def _with(self, more: Sequence[Record]) -> "InsightsDocument":
        return self.add(*more) if more else self

    def replace(self, record_id: str, record: Record) -> "InsightsDocument":
        """The document with one insight changed; only members that differ are written."""
        if record.id != record_id:
            self._free(record.id)
        entry, _, node = self._node(record_id)
        return parse_insights(splice(self.text, node, self._changed(entry, node, record)))

    def replace_all(self, records: Sequence[Record]) -> "InsightsDocument":
        """The document with several insights changed at once, each in the place of the one with its id."""
        text = self.text
        found = [(*self._node(record.id), record) for record in records]
        for entry, _, node, record in sorted(found, key=lambda each: each[2].start, reverse=True):
            text = splice(text, node, self._changed(entry, node, record))
        return parse_insights(text) if found else self

    def _changed(self, entry: Entry, node: JsonNode, record: Record) -> str:
        """The text of an insight that is changed into this one."""
        members = _insight_members(record)
        changes = difference(_insight_members(entry.record), members)
        # What the text left to be guessed (an id from the words, a label from the kind) is written
        # down once the words change, so that it does not change with them.
        own = {key: found.value if (found := node.get(key)) else None for key in ("id", "kind")}
        if own["id"] != record.id:
            changes["id"] = check_json(record.id)
        if "kind" in changes or own["kind"] is None:
            changes |= {"kind": record.kind.value, "label": check_json(record.label)}
        keep_odd(node, changes, ["tags", "files"])
        style = style_of(self.text, self._root or node)
        source = node.get("source")
        if "source" in changes and source is not None and source.members:
            inner = difference(_source(entry.record.origin), _source(record.origin))
            changes["source"] = Raw(object_text(self.text, source, style, inner))
        return object_text(self.text, node, style, changes)

    def remove(self, record_id: str) -> "InsightsDocument":
        """The document without one insight, and without a list that was made for it."""
        _, array, node = self._node(record_id)
        text, root, mark = self.text, self._root or array, node.get("list_was")
        style = style_of(text, array)
        if len(array.items) > 1:
            removed = [place for place, item in enumerate(array.items) if item is node]
            return parse_insights(splice(text, array, array_text(text, array, style, removed=removed)))
        if mark is not None and mark.value == "null":
            return parse_insights(splice(text, array, "null"))
        if mark is None or mark.value != "missing":
            return parse_insights(splice(text, array, _emptied(text, array)))
        if len(root.members) == 1:
            return parse_insights(splice(text, root, _emptied(text, root)))
        gone = {"insights": DROP}
        return parse_insights(splice(text, root, object_text(text, root, style, gone)))


def _put(text: str, node: JsonNode, style: JsonStyle, write: Callable[[JsonStyle], str]) -> str:
    """The text with a container that is written anew; white space in an empty one stays, behind what comes."""
    inside = "" if node.children else text[node.start + 1 : node.end - 1]
    if not inside:
        return splice(text, node, write(style))
    return splice(text, node, write(replace(style, spread=False))[:-1] + inside + text[node.end - 1])


def _emptied(text: str, node: JsonNode) -> str:
    """A container whose only child goes; white space behind it stays when none is in front, as `_put` has it."""
    child = node.children[0]
    inside = text[child.end : node.end - 1] if child.start == node.start + 1 else ""
    return text[node.start] + inside + text[node.end - 1]
