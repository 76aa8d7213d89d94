"""Whose words an entry holds, which way they came, and that nobody deletes what has changed meanwhile."""

from pathlib import Path

import pytest

from ralph.app import knowledge, memory
from ralph.errors import Conflict
from ralph.model.record import MemoryKind


def test_what_a_command_adds_says_nothing_of_a_way(tmp_path: Path) -> None:
    added = memory.add(tmp_path, "Use pnpm").stored.record
    assert (added.origin.by, list(added.extra)) == ("", ["at"])
    assert "via" not in (tmp_path / ".agent/memories.md").read_text(encoding="utf-8")


def test_the_way_is_kept_in_the_file_and_over_later_changes(tmp_path: Path) -> None:
    name = memory.add(tmp_path, "Use pnpm", by="agent", via="mcp (codex)").stored.record.id
    memory.edit(tmp_path, name, kind=MemoryKind.DECISION, tags=["build"])
    record = memory.show(tmp_path, name).record
    assert (record.origin.by, record.extra["via"], record.tags) == ("agent", "mcp (codex)", ("build",))


def test_new_words_are_the_writers_but_new_tags_are_not(tmp_path: Path) -> None:
    name = memory.add(tmp_path, "Use pnpm", by="human").stored.record.id
    memory.edit(tmp_path, name, tags=["build"], by="agent", via="mcp")
    assert memory.show(tmp_path, name).record.origin.by == "human"
    memory.edit(tmp_path, name, text="Use npm", by="agent", via="mcp")
    assert memory.show(tmp_path, name).record.origin.by == "agent"
    before = (tmp_path / ".agent/memories.md").read_bytes()
    assert not memory.edit(tmp_path, name, text="Use npm", by="human", via="elsewhere").changed
    assert (tmp_path / ".agent/memories.md").read_bytes() == before


def test_a_page_of_knowledge_says_whose_body_it_has(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "Release steps", "By hand.", ["release"], feature="ship")
    knowledge.add(tmp_path, "Release steps", "By make.", ["release"], by="agent", via="mcp")
    record = memory.list_(tmp_path, in_=("knowledge",))[0].record
    assert (record.extra["by"], record.extra["via"], record.extra["feature"]) == ("agent", "mcp", "ship")


def test_what_has_changed_since_it_was_shown_is_not_deleted(tmp_path: Path) -> None:
    name = memory.add(tmp_path, "Use pnpm").stored.record.id
    with pytest.raises(Conflict, match="changed in its file"):
        memory.delete(tmp_path, name, expect="Use npm")
    assert memory.show(tmp_path, name)
    gone = memory.delete(tmp_path, name, expect="Use pnpm")
    assert gone.record.text == "Use pnpm"
    assert memory.list_(tmp_path) == []
