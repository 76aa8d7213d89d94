"""The codecs for task.json, which has one task, and tasks.jsonl, which has one task per line.

{"id": "t-1a2b3c", "title": "Add the parser", "status": "open", "priority": 2}
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ralph.core import json_text
from ralph.core.documents import Problem, sort_problems
from ralph.core.json_text import JsonReader, Members
from ralph.core.work import Claim, Task
from ralph.formats.json_members import check_identity, join_members, merge_members

TASK_KEYS = tuple(field.name for field in fields(Task) if field.name != "extra")

_TASK = {
    **dict.fromkeys(TASK_KEYS, "text"),
    "priority": "number",
    "attempts": "number",
    "blocked_by": "texts",
    "claim": "object",
}
_CLAIM = {"run": "text", "host": "text", "pid": "number", "expires_at": "text"}


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
        merged = merge_members(stored, before=before, after=_task_members(task))
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
        return None, (Problem(1, reader.problems[0].what, hint, level="error", code="torn-line"),)
    return _build_task(reader, members), tuple(reader.problems)


def _build_task(reader: JsonReader, members: Members) -> Task | None:
    values, extra = reader.read_members(members, _TASK)
    if not check_identity(reader, values, noun="task"):
        return None
    values.setdefault("title", "")
    if "claim" in values:
        claim, _ = reader.read_members(values.pop("claim"), _CLAIM, ("claim",))
        if "run" in claim and "pid" in claim:
            values["claim"] = Claim(
                run=claim["run"],
                host=claim.get("host", ""),
                pid=claim["pid"],
                expires_at=claim.get("expires_at", ""),
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
    return join_members(members, task.extra)


def render_task(task: Task) -> str:
    """Render a new task.json. Raises Refused if JSON cannot represent the task."""
    return json_text.dump_file(_task_members(task))


def render_task_line(task: Task) -> str:
    """Render one line of a tasks.jsonl. Raises Refused if JSON cannot represent the task."""
    return json_text.dump_line(_task_members(task))
