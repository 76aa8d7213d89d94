"""task.json, prd.json and tasks.jsonl: what is to be done, in files that people also edit.

The values are `model/work.py`'s. A change is found by comparing two values member by member,
and only the members that differ are written (`jsonedit.py`): a loop that ticks one story off
leaves a person's indentation, key order and own keys alone. What has the wrong type is told and
counts as absent, so that a task with an odd priority is still a task. tasks.jsonl is for import
and export: one task a line. `tests/formats/test_work.py` holds the laws and the golden files beside it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ralph.errors import Conflict, NotFound, Refused
from ralph.formats import jsonedit
from ralph.formats.document import Problem
from ralph.formats.jsontext import BOM, DECODER, MAX_DEPTH, Fields, Lines, Node, in_order, is_blank, read, unreadable
from ralph.model.work import Claim, Story, Task

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
    return jsonedit.joined(named, task.extra, TASK_KEYS)


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
    return jsonedit.joined(named, story.extra, STORY_KEYS)


def _id_and_title(fields: Fields, thing: str) -> tuple[str, str] | None:
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


def _claim(fields: Fields) -> Claim | None:
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


def _task(node: Node, line_of: Callable[[int], int], problems: list[Problem]) -> Task | None:
    fields = Fields(node, line_of, problems)
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


def _story(node: Node, line_of: Callable[[int], int], problems: list[Problem]) -> Story | None:
    if not isinstance(node.value, dict):
        hint = 'write the story as {"id": ..., "title": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "a story should be an object", hint, "error", "wrong-type"))
        return None
    fields = Fields(node, line_of, problems)
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


def _root(text: str, problems: list[Problem]) -> Node | None:
    """The object that a file holds; None, with a Problem, when it holds none."""
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "write it with `ralph task add`", "note", "empty-file"))
        return None
    root = read(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    if not isinstance(root.value, dict):
        line = Lines(text)(root.start)
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
    _root: Node | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def with_task(self, task: Task) -> "TaskDocument":
        """The document with another state of the task; only members that differ are written."""
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable(self.problems)
            return parse_task(text[: text.startswith(BOM)] + render_task(task))
        changes = jsonedit.difference(_task_members(self.task) if self.task else {}, _task_members(task))
        jsonedit.keep_odd(root, changes, ["blocked_by"])
        style = jsonedit.style_of(text, root)
        held, before = root.get("claim"), _claim_members(self.task.claim if self.task else None)
        if "claim" in changes and held is not None and before is not None and task.claim is not None:
            # A claim that is prolonged keeps what others wrote beside it.
            inner = jsonedit.difference(before, _claim_members(task.claim) or {})
            changes["claim"] = jsonedit.Raw(jsonedit.object_text(text, held, style, inner))
        return parse_task(jsonedit.splice(text, root, jsonedit.object_text(text, root, style, changes)))


def parse_task(text: str) -> TaskDocument:
    """Reads a task.json."""
    problems: list[Problem] = []
    root = _root(text, problems)
    task = _task(root, Lines(text), problems) if root is not None else None
    return TaskDocument(text, task, in_order(problems), root)


def read_task(text: str) -> Task | None:
    """`parse_task(text).task`, many times as fast where nothing is odd: for who reads thousands of them."""
    if text.count("{") + text.count("[") < MAX_DEPTH:
        with suppress(ValueError):
            value = DECODER.decode(text)
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
    return jsonedit.whole(_task_members(task))


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
        node = read(line)
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
    return jsonedit.one_line(_task_members(task))


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
    _root: Node | None = field(default=None, repr=False, compare=False)
    _places: tuple[Node, ...] = field(default=(), repr=False, compare=False)

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
                raise unreadable(self.problems)
            return parse_prd(self.text[: self.text.startswith(BOM)] + new_prd("", "", "").text).add(story)
        self._free(story.id)
        style = jsonedit.style_of(self.text, root)
        stories = root.get("userStories")
        if stories is None or stories.value is None:
            new = jsonedit.object_text(self.text, root, style, {"userStories": [members]})
            return parse_prd(jsonedit.splice(self.text, root, new))
        if not isinstance(stories.value, list):
            raise unreadable(self.problems)
        return parse_prd(
            jsonedit.splice(self.text, stories, jsonedit.array_text(self.text, stories, style, added=[members]))
        )

    def replace(self, story_id: str, story: Story) -> "PrdDocument":
        """The document with another state of one story; only members that differ are written."""
        place = self._position(story_id)
        members = _story_members(story)
        if story.id != story_id:
            self._free(story.id)
        node, root = self._places[place], self._root
        changes = jsonedit.difference(_story_members(self.stories[place]), members)
        jsonedit.keep_odd(node, changes, ["acceptanceCriteria"])
        style = jsonedit.style_of(self.text, root or node)
        return parse_prd(jsonedit.splice(self.text, node, jsonedit.object_text(self.text, node, style, changes)))

    def remove(self, story_id: str) -> "PrdDocument":
        """The document without one story."""
        node = self._places[self._position(story_id)]
        stories = self._root.get("userStories") if self._root else None
        if stories is None:
            raise unreadable(self.problems)
        removed = [place for place, item in enumerate(stories.items) if item is node]
        new = jsonedit.array_text(self.text, stories, jsonedit.style_of(self.text, stories), removed=removed)
        return parse_prd(jsonedit.splice(self.text, stories, new))


def parse_prd(text: str) -> PrdDocument:
    """Reads a prd.json."""
    problems: list[Problem] = []
    root = _root(text, problems)
    if root is None:
        return PrdDocument(text, problems=tuple(problems))
    line_of = Lines(text)
    fields = Fields(root, line_of, problems)
    stories: list[Story] = []
    places: list[Node] = []
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
        in_order(problems),
        root,
        tuple(places),
    )


def new_prd(project: str, branch: str, description: str) -> PrdDocument:
    """A new prd.json without stories."""
    members = {"project": project, "branchName": branch, "description": description, "userStories": []}
    return parse_prd(jsonedit.whole(members))
