"""Loops that die: real processes, killed with SIGKILL at random moments and resumed until all is done.

Whatever the moment, a resumed run has its id and counters; every task is done once, by the journal; an iteration
whose end was printed stands in the journal as it was printed; no claim, no process and no torn line is left.
RALPH_SOAK=1 gives 200 loops.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ralph.core import paths, process
from ralph.core.work import RunStatus, TaskStatus
from ralph.formats.log import parse_log
from ralph.loop import run_prompts, run_record, runs
from ralph.storage import task_files
from ralph.storage.board import status_of
from ralph.tasks import task

Rounds = Callable[[int, int], int]
ENDED = re.compile(
    r"^ralph: iteration (\d+): (done|failed|retried|blocked|interrupted) \(", re.MULTILINE
)
KILLS = 3
"""How often one loop is killed at most."""
MACHINE = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME")}


@dataclass
class Moments:
    """Random moments within a loop; how long one takes is learned from those that were not killed."""

    chance: random.Random
    whole: float = 5.0

    def next(self) -> float:
        """Seconds after which to kill."""
        return self.chance.uniform(0.1, self.whole)

    def took(self, seconds: float) -> None:
        """A loop came to its end in so many seconds."""
        self.whole = min(self.whole, seconds)


@dataclass
class Loop:
    """One project with its loop, and what was printed."""

    root: Path
    moments: Moments
    said: list[str] = field(default_factory=list)

    def process(self, *words: str, kill: bool) -> int | None:
        """Run `ralph loop ...`, to its end or until it is killed at a random moment; its exit code, None if killed."""
        log = self.root.parent / f"{self.root.name}.{len(self.said)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "ralph", "loop", *words], cwd=self.root, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, env={**MACHINE, "HOME": str(self.root.parent), "NO_COLOR": "1"},
            )  # fmt: skip
            code: int | None
            began = os.times().elapsed
            try:
                code = process.wait(self.moments.next() if kill else 120)
                if words[0] == "start":
                    self.moments.took(os.times().elapsed - began)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
                assert kill, "it hangs"
        self.said.append(log.read_text(encoding="utf-8", errors="replace"))
        return code


def made(root: Path, goal: bool, moments: Moments) -> tuple[Loop, list[str]]:
    """A project with tasks, or with none for a goal; and the words that start its loop."""
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "ralph.yml").write_text(
        "ralph: {cooldown_ms: 0, max_iterations: 60}\n", encoding="utf-8"
    )
    steps: list[dict[str, object]] = [
        {"read_only": True, "say": "<verify-pass/>"},
        {
            "when": "iteration 1 of",
            "say": "<journal>looked around</journal>",
            "run": [["sleep", "0.1"]],
        },
    ]
    if goal:
        learned = '<knowledge tags="sums" title="How it is added up">in cents</knowledge>'
        steps.append(
            {
                "when": "Assigned Task",
                "say": f"{learned}\n<promise>COMPLETE</promise>",
                "write": {"ok": ""},
            }
        )
    for number in range(0 if goal else 3):
        name = task.add(root, f"part {number}").task.id
        step = {"when": f"The task's id is {name}.", "say": f"<task-done>{name}</task-done>"}
        steps.append({**step, "run": [["sleep", "0.05"]], "write": {f"{name}.txt": "done\n"}})
    (root / "steps.json").write_text(json.dumps(steps), encoding="utf-8")
    words = [
        "start",
        *(["add it up"] if goal else []),
        "--agent",
        "scripted",
        "--command",
        "steps.json",
    ]
    return Loop(root, moments), [*words, "-c", "none"]


def until_done(loop: Loop, start: list[str]) -> int:
    """Start, kill, resume, kill ... and at last let it end; how often it was killed."""
    kills = 0
    for number in range(KILLS + 3):
        kill = number < KILLS and (number == 0 or loop.moments.chance.random() < 0.6)
        begun, _ = runs.list_newest(loop.root)
        if begun and begun[0].status is RunStatus.SUCCESS:
            return kills
        code = loop.process(*(["resume"] if begun else start), kill=kill)
        kills += code is None
        assert code in (0, None), loop.said[-1]
    raise AssertionError("it does not come to an end")


def check(loop: Loop) -> None:
    """All is done, once, and nothing is left."""
    [run], _ = runs.list_newest(loop.root)
    entries = run_record.journal_entries(loop.root, run.id)
    tasks = task_files.read_board(loop.root).tasks
    assert run.status is RunStatus.SUCCESS
    assert [status_of(each) for each in tasks] == [TaskStatus.DONE] * len(tasks)
    assert [each.claim for each in tasks] == [None] * len(tasks)
    assert Counter(entry.task for entry in entries if entry.outcome.value == "done") == {
        each.id: 1 for each in tasks
    }
    assert [entry.iteration for entry in entries] == list(range(1, run.iterations + 1))
    outcomes = {str(entry.iteration): entry.outcome.value for entry in entries}
    for number, outcome in ENDED.findall("\n".join(loop.said)):
        assert outcomes[number] == outcome
    assert set(run_prompts.list_(loop.root, run.id)) <= set(range(1, run.iterations + 1))
    document = parse_log(paths.run_log(loop.root, run.id).read_text(encoding="utf-8"))
    ids = [entry.record.id for entry in document.entries]
    assert len(ids) == len(set(ids)) == len(entries) + 1, "each iteration once, and the run record"
    assert not document.problems
    assert process.find_by_variable("RALPH_RUN", run.id) == set()
    assert not list(loop.root.rglob("*.ralph-tmp"))


@pytest.mark.soak
def test_a_loop_that_is_killed_at_any_moment_is_resumed_until_all_is_done(
    in_memory: Path, rounds: Rounds
) -> None:
    moments = Moments(random.Random(os.environ.get("RALPH_SEED", "5")))
    calm, words = made(in_memory / "calm", False, moments)
    assert calm.process(*words, kill=False) == 0, calm.said[-1]
    check(calm)
    kills = 0
    for number in range(rounds(200, 2)):
        loop, words = made(in_memory / f"p{number}", number % 2 == 1, moments)
        kills += until_done(loop, words)
        check(loop)
        shutil.rmtree(loop.root)
    assert kills >= rounds(200, 2) // 3, "they were hardly ever killed in the middle"
