"""A task in full, as the JSON that its page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ralph.storage import files
from ralph.tasks import progress, task, task_history
from ralph.tasks.task import TaskView
from ralph.web import lists

Json = dict[str, Any]

_MAX_RUNS = 100  # for each task
_PROGRESS_MARKER = "[//]: # (ralph: "
_SESSION_FIELD = "Thread: "
_PROGRESS_FIELDS = ("Session: ", "Outcome: ")
_MARKDOWN_LINE_BREAK = "  "


def task_page(root: Path, task_id: str) -> Json:
    """Return a task with its stories, progress, log, sessions and runs.

    Raises NotFound for an unknown id.
    """
    view = task.show(root, task_id)
    work = view.listed.task
    progress_text = files.read(progress.task_folder(root, work.id) / "progress.txt")
    return {
        "task": {**lists.task_row(view.listed), "description": work.description},
        "stories": _stories(view),
        "progress": readable_progress(progress_text or ""),
        "log": [_log_entry(event) for event in task_history.list_events(root, work.id)],
        "sessions": lists.session_rows(root, limit=None, task_id=work.id)[0],
        "runs": lists.run_rows(root, limit=_MAX_RUNS, task_id=work.id)[0],
        "children": [
            {"id": child.id, "title": child.title, "status": child.status}
            for child in view.children
        ],
    }


def _stories(view: TaskView) -> list[Json]:
    stories = []
    for story in view.stories:
        members = asdict(story)
        members.pop("extra", None)
        stories.append(members)
    return stories


def _log_entry(event: Mapping[str, str]) -> Json:
    """Return a task event as JSON. `from` and `to` are the old and new state."""
    before, arrow, after = event["what"].partition(" -> ")
    if not arrow:
        before = ""
        after = event["what"]
    return {
        "at": event["at"],
        "from": before,
        "to": after,
        "by": event["by"],
        "note": event["note"],
    }


def readable_progress(text: str) -> str:
    """Return the text of a progress.txt without markers, each field on its own Markdown line."""
    lines = []
    for line in text.split("\n"):
        if line.startswith(_PROGRESS_MARKER):
            continue
        if line.startswith(_SESSION_FIELD):
            line = f"Session: {line.removeprefix(_SESSION_FIELD)}"
        if line.startswith(_PROGRESS_FIELDS):
            line += _MARKDOWN_LINE_BREAK
        lines.append(line)
    return "\n".join(lines)
