"""A second process reads new logs, and the index is the same as without it."""

import os
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.support import helped_reading
from tests.support.index_sources import dump, put, seen

from ralph.core import terms
from ralph.storage.index import Index
from ralph.storage.log_helper import HelpRules, MakeReader, log_helper
from ralph.storage.sources import NO_FILE, Format, FoundSource, Source

LOGS = 12
LONGEST_LOG = 3_000  # lines


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the second process
    (tmp_path / ".ralph").mkdir()
    return tmp_path


def put_logs(root: Path) -> None:
    """Write logs of very different sizes. One is longer than a portion."""
    for number in range(LOGS):
        lines = LONGEST_LOG if number == 4 else 1 + 7 * (number % 5)
        text = "".join(
            seen(f"error {line} in src/app_{number}.py: {'details ' * 40}", line, f"s{number}")
            for line in range(lines)
        )
        put(root, f"log/sessions/s{number:02}.jsonl", text)


def helped_index(root: Path, make_reader: MakeReader = helped_reading.make_reader) -> Index:
    rules = HelpRules(make_reader, min_bytes=0, is_core_free=helped_reading.always)
    return Index(root, terms.index_terms, help_rules=lambda: rules)


def rows(index: Index) -> list[tuple[object, ...]]:
    with closing(index.connect()) as connection:
        return dump(connection)


@pytest.mark.parametrize(
    "make_reader", [helped_reading.make_reader, helped_reading.make_ending_reader]
)
def test_the_index_is_the_same_with_a_helper_also_if_that_ends_early(
    root: Path, make_reader: MakeReader
) -> None:
    put_logs(root)
    alone = Index(root, terms.index_terms)
    alone.rebuild()
    expected = rows(alone)
    helped = helped_index(root, make_reader)
    assert helped.rebuild().read == LOGS
    assert rows(helped) == expected


def test_new_logs_are_added_to_an_index_with_a_helper(root: Path) -> None:
    put(root, "log/sessions/old.jsonl", seen("an old error", 1, "old"))
    helped = helped_index(root)
    helped.sync()
    put(root, "log/sessions/old.jsonl", seen("an old error", 1, "old") + seen("and more", 2, "old"))
    put_logs(root)
    assert helped.sync().read == LOGS + 1
    found = rows(helped)
    helped.rebuild()
    assert found == rows(helped)


def test_a_log_that_is_rewritten_while_it_is_read_is_read_again(root: Path) -> None:
    put_logs(root)
    index = helped_index(root, helped_reading.make_changing_reader)
    index.sync()
    with closing(index.connect()) as connection:
        found = connection.execute("SELECT content FROM observations WHERE session_id = 's4'")
        words = Counter(text.split()[0] for (text,) in found)
    assert words == {"warning": LONGEST_LOG}


def test_a_log_that_cannot_be_read_is_left_to_the_first_process(root: Path) -> None:
    put(root, "log/sessions/here.jsonl", seen("an error"))
    found = [
        FoundSource(Source(root / name, name, Format.LOG), NO_FILE)
        for name in ("gone.jsonl", "gone too.jsonl")
    ]
    path = root / "log/sessions/here.jsonl"
    rules = HelpRules(helped_reading.make_reader, min_bytes=0, is_core_free=helped_reading.always)
    here = FoundSource(Source(path, "here.jsonl", Format.LOG), NO_FILE)
    with log_helper(rules, [*found, here], {}) as helper:
        assert helper is not None
        assert [helper.next_portion(source) for source, _ in found] == [None, None]
        portion = helper.next_portion(here.source)
        assert portion is None or portion.is_last


@pytest.mark.parametrize(("min_bytes", "is_core_free"), [(1 << 30, True), (0, False)])
def test_nobody_helps_with_few_logs_or_without_a_free_core(
    root: Path, min_bytes: int, is_core_free: bool
) -> None:
    put_logs(root)
    rules = HelpRules(helped_reading.make_reader, min_bytes, lambda: is_core_free)
    found = FoundSource(Source(root / "a", "a", Format.LOG), NO_FILE)
    with log_helper(rules, [found], {}) as helper:
        assert helper is None
