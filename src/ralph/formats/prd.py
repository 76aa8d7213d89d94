"""The codec for prd.json, a list of user stories that other programs write.

    {
      "project": "Parser",
      "branchName": "parser",
      "userStories": [{"id": "US-1", "title": "Read numbers", "priority": 1, "passes": false}]
    }

Ralph changes nothing in such a file except `passes`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ralph.core import json_text
from ralph.core.documents import Problem, sort_problems
from ralph.core.json_text import JsonMember, JsonNode, JsonReader
from ralph.core.work import Story
from ralph.formats.json_members import check_identity

_PRD = {"project": "text", "branchName": "text", "description": "text", "userStories": "list"}
_STORY = {
    "id": "text",
    "title": "text",
    "description": "text",
    "acceptanceCriteria": "texts",
    "priority": "number",
    "passes": "flag",
    "notes": "text",
}


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
        if not check_identity(reader, story, noun="story", path=path):
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


def pass_stories(text: str, ids: Collection[str] | None = None) -> str:
    """Return a prd.json with these stories, or all of them, marked as passing.

    Nothing else is changed. A story without the member `passes` gets one.
    """
    root = json_text.read_json(text)
    if not isinstance(root, JsonNode):
        return text
    stories = _find_member(root, "userStories")
    if stories is None:
        return text
    for story in reversed(stories.node.items):  # so that the positions before it stay valid
        if story.members and (ids is None or _story_id(story) in ids):
            text = _pass_story(text, story)
    return text


def _pass_story(text: str, story: JsonNode) -> str:
    passes = _find_member(story, "passes")
    if passes is None:
        end = story.members[-1].node.end
        return f'{text[:end]}, "passes": true{text[end:]}'
    if passes.node.value is False:
        return f"{text[: passes.node.start]}true{text[passes.node.end :]}"
    return text


def _story_id(story: JsonNode) -> str:
    member = _find_member(story, "id")
    if member is None or not isinstance(member.node.value, str):
        return ""
    return member.node.value


def _find_member(node: JsonNode, key: str) -> JsonMember | None:
    for member in node.members:
        if member.key == key:
            return member
    return None
