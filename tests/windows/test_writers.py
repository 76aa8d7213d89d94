"""Writers on Windows: eight at a time, and killed ones."""

from pathlib import Path

import pytest
from tests.conftest import Start
from tests.support.human_pages import HUMAN, ODD
from tests.support.ledgers import LogLedger, MemoryLedger, kill_at_random
from tests.support.writer import line_of, text_of

from ralph.storage import files
from ralph.storage.library import Library

WRITERS = 8
KILLS = 25  # for each of two files


def begin(start: Start, *words: object) -> list[list[list[str]]]:
    """Start eight writers, let them begin together, and return what each of them said."""
    programs = [start(*words) for _ in range(WRITERS)]
    for program in programs:
        assert program.read_words() == ["ready"]
    for program in programs:
        program.send_line()
    return [program.read_rest() for program in programs]


def test_eight_writers_of_one_memory_file_lose_nothing(tmp_path: Path, start: Start) -> None:
    each = 8
    said = [words for lines in begin(start, "adds", tmp_path, each, 0) for words in lines]
    library = Library(tmp_path)
    found = {stored.record.id: stored.record.text for stored in library.read(library.memories)}
    assert len(said) == WRITERS * each
    assert found == {record_id: text_of(token) for _, _, record_id, token in said}


def test_eight_writers_of_one_log_lose_and_tear_no_line(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "log" / "session.jsonl"
    each = 25
    lines = path.read_text(encoding="utf-8") if path.exists() else ""
    for said in begin(start, "log", path, each, 5, 5000):
        own = [line_of(words[1]) for words in said if words[0] == "did"]
        assert len(own) == each
        lines = path.read_text(encoding="utf-8")
        kept = lines.splitlines(keepends=True)
        assert [line for line in kept if line in set(own)] == own
    assert lines.count("\n") == WRITERS * each


def test_what_is_done_under_the_lock_is_done_by_one_of_eight_at_a_time(
    tmp_path: Path, start: Start
) -> None:
    path = tmp_path / "number"
    path.write_bytes(b"0")
    each = 20
    assert begin(start, "count-up", path, each) == [[]] * WRITERS
    assert path.read_text(encoding="utf-8") == str(WRITERS * each)


@pytest.mark.parametrize("human", [HUMAN, ODD], ids=["plain", "odd"])
def test_a_killed_writer_loses_nothing_that_it_acknowledged_and_touches_nothing_else(
    tmp_path: Path, start: Start, human: str
) -> None:
    ledger = MemoryLedger(tmp_path, human)
    program = start("spawner", tmp_path, "memories")
    for _ in range(KILLS):
        kill_at_random(program, ledger)
        ledger.check()
        if files.leftovers(ledger.path.parent):
            ledger.check_sweep()


def test_a_killed_appender_loses_no_acknowledged_line(tmp_path: Path, start: Start) -> None:
    ledger = LogLedger(tmp_path / "log" / "session.jsonl")
    program = start("spawner", ledger.path, "log")
    for _ in range(KILLS):
        kill_at_random(program, ledger)
        ledger.check()
