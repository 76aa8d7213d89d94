"""Which files hold records, in which order, and what each says."""

from pathlib import Path

import pytest
from tests.support.index_sources import LOG, put, seen
from tests.support.runner import Block, numbered, page

from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, sources

NAMES = {
    ".agent/memories.md": Format.MEMORIES,
    ".ralph/agent/memories.md": Format.MEMORIES,
    ".ralph/guardrails.md": Format.GUARDRAILS,
    "guardrails.md": Format.GUARDRAILS,
    ".ralph/knowledge/a.md": Format.KNOWLEDGE,
    ".ralph/knowledge/b.md": Format.KNOWLEDGE,
    ".ralph/global-patterns.md": Format.PATTERNS,
    "progress.txt": Format.PROGRESS,
    ".ralph/tasks/t-1/task.json": Format.TASK,
    ".ralph/tasks/t-1/progress.txt": Format.PROGRESS,
    ".ralph/tasks/t-1/memory/insights.json": Format.INSIGHTS,
    "log/knowledge.jsonl": Format.LOG,
    "log/runs/r.jsonl": Format.LOG,
    "log/sessions/s.jsonl": Format.LOG,
}


def test_every_kind_of_file_is_found_in_a_fixed_order(tmp_path: Path) -> None:
    for name in reversed(NAMES):
        put(tmp_path, name, "")
    for name in (".ralph/knowledge/a.txt", "log/other.jsonl", ".ralph/scratchpad.md", "README.md"):
        put(tmp_path, name, "not a source")
    assert {source.name: source.format for source in sources(tmp_path)} == NAMES
    assert [source.name for source in sources(tmp_path)] == list(NAMES)
    assert all(read_source(source).records == () for source in sources(tmp_path))


def test_a_project_without_anything_has_no_sources(tmp_path: Path) -> None:
    assert list(sources(tmp_path)) == []
    assert list(sources(tmp_path / "nowhere")) == []


def test_records_come_with_their_lines(tmp_path: Path) -> None:
    put(tmp_path, ".agent/memories.md", page(Block("one", numbered(1)), Block("two", numbered(2))))
    put(tmp_path, LOG, seen("first") + "\n" + seen("second") + seen("third").rstrip("\n"))
    memories, log = (read_source(source) for source in sources(tmp_path))
    assert [(placed.record.text, placed.line) for placed in memories.records] == [
        ("one", 5),
        ("two", 9),
    ]
    assert [(placed.record.text, placed.line) for placed in log.records] == [
        ("first", 1),
        ("second", 3),
    ]


@pytest.mark.parametrize("name", [name for name, form in NAMES.items() if form is not Format.LOG])
def test_garbage_in_any_file_is_no_error(tmp_path: Path, name: str) -> None:
    for garbage in (
        b"\xff\xfe\x00",
        b"{",
        b"---\n---\n",
        b"[" * 5000,
        b"### mem-1-a\n> ",
        b"\r\n\r",
    ):
        put(tmp_path, name, garbage)
        for source in sources(tmp_path):
            read_source(source)
