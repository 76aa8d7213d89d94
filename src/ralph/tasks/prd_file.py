"""The PRD of a task: a prd.json that lists the user stories which the task consists of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.work import Story
from ralph.formats.prd import PrdDocument, parse_prd, pass_stories
from ralph.privacy import privacy
from ralph.storage import files
from ralph.tasks.progress import task_folder


def parse_given_prd(text: str, *, allow_secret: bool, patterns: Sequence[str]) -> PrdDocument:
    """Parse a PRD supplied by the user, and clean it for storage.

    Raises Refused if the PRD is empty, contains a secret, or cannot be parsed.
    """
    if not text.strip():
        raise Refused(
            "the PRD is empty", hint="name a prd.json with userStories; nothing was changed"
        )
    clean = privacy.clean_description(text, "PRD", allow_secret=allow_secret, patterns=patterns)
    document = parse_prd(clean.text + "\n")
    for problem in document.problems:
        if problem.level == "error":
            raise Refused(
                f"the PRD cannot be used: line {problem.line}: {problem.what}", hint=problem.hint
            )
    return document


def list_stories(root: Path, task_id: str) -> list[Story]:
    """Return the stories in a task's PRD, starting with the next one to work on.

    Stories that already pass come last.
    """
    text = files.read(task_folder(root, task_id) / "prd.json")
    if text is None:
        return []

    def sort_key(story: Story) -> tuple[bool, bool, int]:
        has_no_priority = story.priority <= 0
        return story.passes, has_no_priority, story.priority

    return sorted(parse_prd(text).stories, key=sort_key)


def open_stories(root: Path, task_id: str) -> list[str]:
    """Return the ids of the stories that do not pass yet, starting with the next one."""
    return [story.id for story in list_stories(root, task_id) if not story.passes]


def tick_stories(root: Path, task_id: str, ids: Collection[str]) -> list[str]:
    """Mark these stories in a task's PRD as passing, and return those that were open."""
    open_ids = open_stories(root, task_id)
    ticked = [story_id for story_id in ids if story_id in open_ids]
    if ticked:
        path = task_folder(root, task_id) / "prd.json"
        files.update(path, partial(pass_stories, ids=ticked), root=paths.main_checkout(root))
    return ticked


def render_stories(root: Path, task_id: str) -> str:
    """Return the stories for a prompt, or "" if there are none.

    Open stories are shown with their acceptance criteria.
    """
    lines = []
    for story in list_stories(root, task_id):
        if story.passes:
            lines.append(f"- [x] {story.id}: {story.title}")
            continue
        lines.append(f"- [ ] {story.id}: {story.title}")
        lines += [f"  {line}" for line in story.description.splitlines() if line.strip()]
        lines += [f"  - {criterion}" for criterion in story.acceptance_criteria]
    if not lines:
        return ""
    instruction = (
        "Work on the first open story. Once its criteria hold, say so in your last message, "
        "alone on a line:\n<story-done>STORY</story-done>\n"
        "The task is not done while a story is open.\n"
        f"(The stories are in {task_folder(root, task_id) / 'prd.json'}.)"
    )
    return "\n".join([instruction, "", *lines])
