"""The sample itself: it is what it says, the same each time, and touches nothing else."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support import sample, sample_texts
from tests.support.sample_live import ENDED, Live

from ralph.core import ids
from ralph.formats.memories import parse_memories
from ralph.install import doctor
from ralph.lean import hook_files
from ralph.memory import reading
from ralph.recall import injection_ledger
from ralph.search import index

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def told(here: sample.Sample) -> dict[str, bytes]:
    """What people would see in git, and which sessions there are."""
    names = [".agent/memories.md", ".ralph/guardrails.md", ".ralph/global-patterns.md"]
    return {name: (here.root / name).read_bytes() for name in names}


@pytest.mark.soak
def test_the_same_time_gives_the_same_sample(tmp_path: Path) -> None:
    one, other = (sample.make(tmp_path / name, now=NOW) for name in ("one", "other"))
    assert told(one) == told(other)
    assert (one.memories, one.tasks, one.sessions, one.chats) == (
        other.memories,
        other.tasks,
        other.sessions,
        other.chats,
    )


def test_the_clock_and_the_environment_are_given_back() -> None:
    before = (dict(os.environ), ids.now, ids.timestamp()[:10], hook_files.timestamp)
    sample.shared()
    assert (dict(os.environ), ids.now, ids.timestamp()[:10], hook_files.timestamp) == before
    assert ids.mint("mem") != ids.mint("mem")


def test_it_has_something_of_everything() -> None:
    here = sample.shared()
    counts = index.status(here.root)["indexed"]
    assert all(
        counts[table]
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks")
    )
    book = injection_ledger.read_ledger(here.root)
    assert book.injections
    assert book.uses
    assert {each.event for each in book.injections} >= {"SessionStart", "UserPromptSubmit"}
    kinds = {stored.record.kind for stored in reading.list_entries(here.root)}
    assert len(kinds) == 4
    assert "<script>" in reading.get_entry(here.root, here.memories["hostile"]).record.text


def test_doctor_reports_only_the_secret() -> None:
    here = sample.shared()
    found = doctor.examine(here.root, secrets=True, env=here.env)
    assert [each.problem.code for each in found if each.needs_a_person] == ["secret"]


def test_more_records_stand_in_the_files_own_format() -> None:
    text = (sample.shared().root / ".agent" / "memories.md").read_text(encoding="utf-8")
    before, after = parse_memories(text), parse_memories(sample_texts.with_records(text, 1000, NOW))
    assert len(after.entries) == len(before.entries) + 1000
    assert len({entry.record.id for entry in after.entries}) == len(after.entries)
    assert {entry.record.text for entry in before.entries} < {
        entry.record.text for entry in after.entries
    }
    assert after.problems == before.problems


def test_a_run_can_be_played_step_by_step(tmp_path: Path) -> None:
    here = sample.copied(tmp_path / "shop")
    live = Live(here.root, "play").start()
    assert (live.run.iterations, live.run.step) == (0, "agent")
    live.advance("one")
    assert live.run.iterations == 1
    live.advance("two", done=True).stop()
    assert (live.state, live.run.status.value) == (ENDED, "success")


def test_it_can_be_made_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "shop"
    sample.copied(root)
    sample.main([str(root)])
    assert capsys.readouterr().out == f"ralph --root {root} web --no-open\n"
