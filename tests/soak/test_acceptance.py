"""Accepting a proposal and dying on the way: the second attempt completes the first."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core import paths
from ralph.core.record import MemoryKind, Origin, Record, Scope, Status
from ralph.learning import insights, learned, review
from ralph.learning.candidates import Operation
from ralph.learning.insights import NO_TASK
from ralph.learning.propose import COUNT, EVIDENCE, OPERATION, PLACES, TARGETS
from ralph.memory import memory, memory_files, reading

PROGRAM = Path(__file__).parents[1] / "support" / "accepting.py"
PROPOSAL = "ins-1760000000-abcdef"
TEXT = "Run `make proto` before the tests, otherwise importing user_pb2 fails."
REPLACED = {
    Operation.ADD: (),
    Operation.SUPERSEDE: ("The protobuf code is committed.",),
    Operation.MERGE: ("The protobuf code is generated.", "Nobody needs `make proto`."),
}
"""The memories that each operation replaces."""
Rounds = Callable[[int, int], int]


def propose(root: Path, operation: Operation = Operation.ADD, *targets: str) -> None:
    """Store one proposal, as sessions or `ralph learn` do."""
    extra: dict[str, object] = {EVIDENCE: ["obs-1", "obs-2"], PLACES: ["s1"], COUNT: 1}
    if targets:
        extra |= {OPERATION: operation.value, TARGETS: list(targets)}
    record = Record(
        PROPOSAL,
        MemoryKind.FIX,
        TEXT,
        label="gotcha",
        status=Status.PROPOSED,
        scope=Scope.TASK,
        origin=Origin("agent", "s1"),
        created_at="2026-10-01T10:00:00Z",
        extra=extra,
    )
    insights.save_proposals(root, NO_TASK, paths.proposals_file(root), [record])


def accept_and_die(root: Path, way: str, place: str) -> bool:
    """Accept the proposal in a process that kills itself; returns whether it died."""
    command = [sys.executable, str(PROGRAM), str(root), PROPOSAL, way, place]
    code = subprocess.run(command, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


def current(root: Path) -> list[Record]:
    """The memories that are neither archived nor superseded."""
    records = [stored.record for stored in reading.list_entries(root)]
    active = [record for record in records if record.status is not Status.RETIRED]
    return reading.current_records(active)


def check_accepted(root: Path) -> None:
    """The proposal became exactly one memory, and is marked with it."""
    [record] = current(root)
    assert record.text == TEXT
    [proposal] = insights.list_(root)
    assert proposal.record.status is Status.ACCEPTED
    assert proposal.record.extra[insights.MEMORY] == record.id
    assert learned.evidence_of(root, record.id) == ["obs-1", "obs-2"]


@pytest.mark.parametrize("call", ["_add_memory", "_mark_accepted", "note_evidence", "change"])
def test_a_kill_between_the_steps_leaves_one_memory_after_the_next_attempt(
    in_memory: Path, call: str
) -> None:
    memory_files.init(in_memory)
    propose(in_memory)
    assert accept_and_die(in_memory, "call", call)
    assert len(current(in_memory)) == (call != "_add_memory")
    assert [found.record.status for found in insights.list_(in_memory)] == [Status.PROPOSED]
    review.accept(in_memory, PROPOSAL)
    check_accepted(in_memory)


@pytest.mark.soak
@pytest.mark.parametrize("operation", REPLACED)
def test_a_kill_at_any_line_leaves_one_memory_after_the_next_attempt(
    in_memory: Path, rounds: Rounds, operation: Operation
) -> None:
    killed = 0
    for line in range(5, 10_000, rounds(7, 97)):
        root = in_memory / str(line)
        root.mkdir()
        memory_files.init(root)
        targets = [memory.add(root, text).stored.record.id for text in REPLACED[operation]]
        propose(root, operation, *targets)
        if not accept_and_die(root, "line", str(line)):
            check_accepted(root)
            break
        killed += 1
        review.accept(root, PROPOSAL)
        check_accepted(root)
    assert killed > 1


def test_a_second_acceptance_adds_no_second_memory(in_memory: Path) -> None:
    memory_files.init(in_memory)
    propose(in_memory)
    first = review.accept(in_memory, PROPOSAL, text="Protobuf first: `make proto`.")
    again = review.accept(in_memory, PROPOSAL)
    assert again.record.id == first.record.id
    assert [record.text for record in current(in_memory)] == ["Protobuf first: `make proto`."]
    review.accept(in_memory, PROPOSAL, text=TEXT)
    check_accepted(in_memory)


def test_accepting_again_after_the_memory_was_archived_adds_it_again(in_memory: Path) -> None:
    memory_files.init(in_memory)
    propose(in_memory)
    first = review.accept(in_memory, PROPOSAL)
    memory.archive(in_memory, first.record.id)
    review.reject(in_memory, PROPOSAL)
    review.accept(in_memory, PROPOSAL)
    check_accepted(in_memory)
