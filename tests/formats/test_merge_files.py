"""Merging the files besides memories: knowledge, patterns, progress.txt and insights.json."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.record import Family, MemoryKind, Outcome, Record, Scope, Status
from ralph.formats.insight_files import parse_insights
from ralph.formats.knowledge import parse_knowledge, render_knowledge
from ralph.formats.merge import Merged, can_merge, merge
from ralph.formats.patterns import parse_patterns, patterns_template
from ralph.formats.progress import parse_progress, progress_template
from ralph.memory.merge_driver import merge_lines

KNOWLEDGE, PATTERNS = ".ralph/knowledge/redis.md", ".ralph/global-patterns.md"
PROGRESS, INSIGHTS = ".ralph/tasks/t-1/progress.txt", ".ralph/tasks/t-1/memory/insights.json"
BODY = "Start it first.\n\nIt listens on 6379.\n\nStop it last."


def both(name: str, base: str, ours: str, theirs: str) -> Merged:
    """Merge in both directions, which must give the same bytes."""
    one, two = (
        merge(name, base, ours, theirs, merge_lines),
        merge(name, base, theirs, ours, merge_lines),
    )
    assert one == two
    return one


def knowledge(text: str = BODY, **fields: object) -> Record:
    made = Record(
        "", MemoryKind.CONTEXT, text, title="Redis", tags=("db",), created_at="2026-11-01T10:00:00Z"
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # by name, in a test


def test_fields_of_a_knowledge_file_are_merged_one_by_one_and_its_body_by_lines() -> None:
    base = knowledge()
    ours = knowledge(
        BODY.replace("6379", "6380"), tags=("db", "cache"), updated_at="2026-11-02T10:00:00Z"
    )
    theirs = knowledge(
        BODY.replace("last", "at the end"), tags=("ops",), updated_at="2026-11-03T10:00:00Z"
    )
    merged = both(KNOWLEDGE, *map(render_knowledge, (base, ours, theirs)))
    [entry] = parse_knowledge(merged.text).entries
    assert (merged.conflicts, {*entry.record.tags}) == (0, {"cache", "ops"}), (
        "`db` was removed by one side"
    )
    assert entry.record.text == "Start it first.\n\nIt listens on 6380.\n\nStop it at the end."
    assert entry.record.updated_at == "2026-11-03T10:00:00Z"


def test_a_body_that_both_sides_edited_has_markers_and_a_front_matter_that_reads() -> None:
    base = knowledge()
    ours = knowledge("One way.", tags=("db", "a"), updated_at="2026-11-02T10:00:00Z")
    theirs = knowledge("Another way.", tags=("db", "b"), updated_at="2026-11-03T10:00:00Z")
    merged = merge(
        KNOWLEDGE,
        render_knowledge(base),
        render_knowledge(ours),
        render_knowledge(theirs),
        merge_lines,
    )
    [entry] = parse_knowledge(merged.text).entries
    assert (merged.conflicts, {*entry.record.tags}) == (1, {"db", "a", "b"})
    assert merged.text.index("---\n\n<<<<<<< ours\nOne way.") < merged.text.index(
        "Another way.\n>>>>>>> theirs"
    )


def insight(number: int, **fields: object) -> Record:
    made = Record(
        f"ins-179480000{number}-000{number}", MemoryKind.FIX, f"fact {number}", label="gotcha"
    )
    return replace(made, status=Status.PROPOSED, scope=Scope.TASK, **fields)  # type: ignore[arg-type]  # by name


def insights(*records: Record) -> str:
    document = parse_insights("").add(records[0])
    return str(document.add(*records[1:]))


def test_insights_are_merged_by_id_and_member() -> None:
    base = insights(insight(1), insight(2), insight(3))
    ours = insights(insight(1, tags=("a",)), insight(3), insight(4))
    theirs = str(
        parse_insights(base).replace(insight(1).id, replace(insight(1), status=Status.ACCEPTED))
    )
    theirs = str(parse_insights(theirs).add(insight(5)))
    merged = both(INSIGHTS, base, ours, theirs)
    found = {entry.record.id: entry.record for entry in parse_insights(merged.text).entries}
    assert [*found] == [insight(number).id for number in (1, 3, 4, 5)]
    assert (found[insight(1).id].tags, found[insight(1).id].status) == (("a",), Status.ACCEPTED)
    assert json.loads(merged.text)["version"] == 1


@pytest.mark.parametrize("broken", ["{", '{"insights": [1]}', '{"insights": {"a": 1}}', "[]"])
def test_broken_insights_are_merged_by_lines(broken: str) -> None:
    merged = merge(INSIGHTS, "", insights(insight(1)), broken, merge_lines)
    assert merged.conflicts
    assert broken in merged.text


def block(number: int) -> Record:
    title = f"2026-11-{number:02} - Story {number}"
    text = f"- did {number}\n**Learnings for future iterations:**\n  - learned {number}"
    return Record("", Outcome.DONE, text, title=title, family=Family.JOURNAL)


def pattern(number: int) -> Record:
    return Record("", MemoryKind.PATTERN, f"pattern number {number}")


def progress(text: str, *records: Record) -> str:
    document = parse_progress(text)
    for each in records:
        document = document.add(each)
    return str(document)


numbers = st.lists(st.integers(1, 20), unique=True, max_size=4)


@settings(deadline=None)
@given(
    st.sampled_from(["", progress_template(), "# Log\n\nText.\n"]), *[numbers] * 5, st.booleans()
)
def test_blocks_and_patterns_of_progress_are_kept_in_order(
    start: str,
    before: list[int],
    ours: list[int],
    theirs: list[int],
    one: list[int],
    two: list[int],
    windows: bool,
) -> None:
    base = progress(start, *map(block, before))
    left = progress(
        base, *map(block, [each for each in ours if each not in before]), *map(pattern, one)
    )
    right = progress(
        base, *map(block, [each for each in theirs if each not in before]), *map(pattern, two)
    )
    if windows:
        base, left, right = (text.replace("\n", "\r\n") for text in (base, left, right))
    merged = both(PROGRESS, base, left, right)
    assert merged.conflicts == 0
    contents = [
        unique([entry.record.text for entry in parse_progress(text).entries])
        for text in (left, right, merged.text)
    ]
    assert contents[2] == contents[0] | contents[1]


def unique(texts: list[str]) -> set[str]:
    assert len(texts) == len({*texts})
    return {*texts}


def test_a_pattern_that_one_side_deleted_and_one_that_the_other_reworded() -> None:
    document = parse_patterns(patterns_template())
    for text in ("one fact", "two facts", "three facts"):
        document = document.add(Record("", MemoryKind.FIX, text))
    base = str(document)
    merged = both(
        PATTERNS,
        base,
        base.replace("- two facts\n", ""),
        base.replace("one fact", "one fact, corrected"),
    )
    assert merged.text == base.replace("- two facts\n", "").replace(
        "one fact", "one fact, corrected"
    )


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("docs/.ralph/knowledge/a.md", True),
        ("knowledge/a.md", False),
        ("AGENTS.md", True),
        ("src/insights.json", False),
    ],
)
def test_a_file_is_known_by_its_path(name: str, is_ours: bool) -> None:
    assert can_merge(name) is is_ours
