"""Real memory files of other people, when the folder with them is there: no byte is lost, nothing crashes."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import laws
from tests.support.golden import text_of

from ralph.core.errors import Conflict
from ralph.core.record import MemoryKind, Record
from ralph.formats.memories import GUARDRAILS, MEMORIES, MemoriesDocument, parse_memories
from ralph.formats.memories_writer import is_sign, render_memories

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
FILES = sorted([*CORPUS.glob("memories/*.md"), *CORPUS.glob("guardrails/*.md")])
NEW = Record(
    "mem-1705751400-ffff",
    MemoryKind.FIX,
    "new\n\nwords",
    label="fix",
    tags=("a",),
    created_at="2025-01-20",
)

pytestmark = [
    pytest.mark.skipif(not FILES, reason="the folder with real files is not here"),
    pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}"),
]


def read(path: Path) -> MemoriesDocument:
    return parse_memories(
        text_of(path), GUARDRAILS if path.parent.name == "guardrails" else MEMORIES
    )


def test_a_real_file_is_kept_byte_for_byte(path: Path) -> None:
    assert str(read(path)).encode("utf-8") == path.read_bytes()


@pytest.mark.parametrize("kind", MemoryKind)
def test_a_real_file_is_as_it_was_after_add_and_remove(path: Path, kind: MemoryKind) -> None:
    before = read(path)
    added = before.add(replace(NEW, kind=kind, label=kind.value))
    assert [entry.record for entry in added.entries if entry.record.id != NEW.id] == [
        entry.record for entry in before.entries
    ]
    laws.restores(str(added.remove(NEW.id)), path.read_bytes().decode("utf-8"))


def test_every_problem_of_a_real_file_says_what_and_where(path: Path) -> None:
    document = read(path)
    lines = document.text.count("\n") + 1
    assert all(
        problem.what and problem.hint and 1 <= problem.line <= lines
        for problem in document.problems
    )


def test_each_entry_of_a_real_file_can_be_edited_and_removed(path: Path) -> None:
    document = read(path)
    for entry in document.entries:
        try:
            removed = document.remove(entry.record.id)
        except Conflict:
            continue
        assert len(removed.entries) == len(document.entries) - 1
        if not is_sign(entry.record):
            edited = document.replace(entry.record.id, replace(entry.record, text="edited"))
            assert str(edited).startswith(document.text[: entry.start])
            assert str(edited).endswith(document.text[entry.end :])


def test_the_records_of_a_real_file_read_back_when_rendered(path: Path) -> None:
    document = read(path)
    found = [entry.record for entry in document.entries]
    again = [
        entry.record
        for entry in parse_memories(
            render_memories(found, document.layout.kinds), document.layout
        ).entries
    ]
    assert sorted((record.id, record.text, record.tags) for record in again) == sorted(
        (record.id, record.text, record.tags) for record in found
    )
