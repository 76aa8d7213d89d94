"""The engine alone: every way in which an iteration and a run may end, with parts made of plain values."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ralph.core.record import CriterionKind, Outcome
from ralph.core.work import Ask, JournalEntry, Reply, RunStatus, StopReason, Task
from ralph.formats.sigils import read_sigils
from ralph.loop import engine
from ralph.loop.criteria import CheckResult, CriteriaVerdict, Criterion
from ralph.loop.engine import AgentWork, Judgement, Parts
from ralph.loop.state import EndReason, IterationResult, Limits, Run, exit_code

TASK = Task("t-aaaaaa", "make it work")
TESTS = Criterion(CriterionKind.TEST_PASS, "run the tests")
DONE = "<task-done>t-aaaaaa</task-done>"
DONE_TOO = Judgement(Outcome.DONE)  # the verifier agrees
LIMITS = Limits(max_iterations=10)


def verdict(passed: bool, why: str = "1 failed") -> CriteriaVerdict:
    return CriteriaVerdict(
        (
            CheckResult(
                TESTS, passed, "passed" if passed else "ended with 1", tail="" if passed else why
            ),
        )
    )


@dataclass
class World:
    """What happens, one value an iteration; and what was done about it."""

    says: list[str]
    checks: list[CriteriaVerdict] = field(default_factory=list)
    stops: list[StopReason] = field(default_factory=list)
    disks: list[str] = field(default_factory=list)
    verifies: list[Judgement] | None = None
    tasks: list[Task] = field(default_factory=lambda: [TASK])
    retries: int = 3
    failing: bool = True
    asked_to_stop: list[EndReason | None] = field(default_factory=list)
    feedback: list[str] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)
    saved: list[Run] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    attempts: int = 0
    order: list[str] = field(default_factory=list)

    def parts(self) -> Parts:
        replies, checks, disks = iter(self.says), iter(self.checks), iter(self.disks)
        stops: Iterator[StopReason] = iter(self.stops)
        verdicts = iter(self.verifies or ())

        def work(ask: Ask) -> AgentWork:
            text, stop = next(replies), next(stops, StopReason.END_TURN)
            self.order.append("work")
            return AgentWork(
                Reply(text, stop, cost=0.5, error="no" if stop is not StopReason.END_TURN else ""),
                read_sigils(text),
                2.0,
                ("a.py",),
                next(disks, f"disk-{len(self.journal)}"),
            )

        def settle(run: Run, task: Task, judgement: Judgement) -> Run:
            self.order.append("settle")
            if judgement.outcome is Outcome.DONE:
                return replace(run, done=(*run.done, task.id), task="")
            self.attempts += judgement.uses_retry
            return (
                run
                if self.attempts <= self.retries
                else replace(run, failed=(*run.failed, task.id), task="")
            )

        def assign(run: Run) -> Task | None:
            return next(
                (each for each in self.tasks if each.id not in {*run.done, *run.failed}), None
            )

        def said(run: Run) -> Run | None:
            return replace(run, feedback=self.feedback.pop(0)) if self.feedback else None

        def save(run: Run) -> Run:
            self.saved.append(run)
            return run

        def journal(entry: JournalEntry, _: str) -> None:
            self.order.append("journal")
            self.journal.append(entry)

        return Parts(
            assign=assign,
            has_work=lambda run: assign(run) is not None,
            begin=lambda run, task: replace(run, failing=self.failing),
            ask=lambda run, task: Ask(f"iteration {run.iterations + 1}", Path()),
            work=work,
            learn=lambda run, task, worked: self.order.append("learn"),
            check=lambda worked: next(checks, CriteriaVerdict()),
            verify=lambda run, task, worked: DONE_TOO if self.verifies is None else next(verdicts),
            journal=journal,
            settle=settle,
            explain=lambda _: "no task is ready",
            save=save,
            stop=lambda: self.asked_to_stop.pop(0) if self.asked_to_stop else None,
            feedback=said,
            pause=self.pauses.append,
            cooldown=1.0,
        )

    def run(self, limits: Limits = LIMITS, only: tuple[str, ...] = ("t-aaaaaa",)) -> Run:
        steps: list[IterationResult] = []
        return engine.run(
            Run("run-00000001", "make it work", only=only), self.parts(), limits, steps
        )

    @property
    def outcomes(self) -> list[str]:
        return [entry.outcome.value for entry in self.journal]


def test_three_iterations_then_success() -> None:
    world = World(
        ["working", "still", f"<journal>it was the cache</journal>{DONE}"],
        [verdict(False), verdict(False), verdict(True)],
    )
    run = world.run()
    assert (run.status, run.reason, run.iterations) == (RunStatus.SUCCESS, "success", 3)
    assert world.outcomes == ["blocked", "blocked", "done"]
    assert world.journal[-1].notes == "it was the cache"
    assert (run.cost, run.seconds) == (1.5, 6.0)
    assert exit_code(run) == 0
    assert world.order[:4] == ["work", "learn", "journal", "settle"]
    assert world.pauses == [1.0, 1.0], "there is no cooldown after the last one"


def test_criteria_that_failed_before_and_pass_now_are_success_without_a_word() -> None:
    assert World(["done I guess"], [verdict(True)]).run().reason == "success"


def test_criteria_that_passed_all_along_need_the_agents_word() -> None:
    world = World(["hm", DONE], [verdict(True), verdict(True)], failing=False)
    assert world.run().iterations == 2
    assert world.outcomes == ["blocked", "done"]


def test_done_is_believed_only_when_the_criteria_agree() -> None:
    world = World([DONE, DONE], [verdict(False), verdict(True)])
    assert world.run().reason == "success"
    assert world.outcomes == ["retried", "done"]
    assert "1 failed" in world.journal[0].notes
    retried = next(run for run in world.saved if run.iterations == 1)
    assert "1 failed" in retried.failure


def test_without_criteria_the_agents_word_counts() -> None:
    assert World([DONE]).run().reason == "success"
    assert World(["no word"] * 3).run(Limits(max_iterations=2)).reason == "max_iterations"


def test_a_verifier_that_does_not_agree_costs_a_retry() -> None:
    world = World(
        [DONE, DONE],
        [verdict(True)] * 2,
        verifies=[Judgement(Outcome.RETRIED, "a test was deleted"), DONE_TOO],
    )
    assert world.run().reason == "success"
    assert world.outcomes == ["retried", "done"]
    assert "a test was deleted" in world.journal[0].notes


def test_a_task_fails_after_the_first_attempt_and_all_retries() -> None:
    world = World([DONE] * 9, [verdict(False, f"{'x' * n} failed") for n in range(9)])
    run = world.run()
    assert (run.reason, run.iterations, run.failed) == ("task_failed", 4, ("t-aaaaaa",))
    assert exit_code(run) == 10


def test_task_failed_counts_over_passing_criteria_and_done_over_it() -> None:
    failed = '<task-failed id="t-aaaaaa">no database here</task-failed>'
    world = World([failed, f"{failed}{DONE}"], [verdict(True)] * 2)
    assert world.run().reason == "success"
    assert world.outcomes == ["failed", "done"]
    assert "no database here" in world.journal[0].notes


def test_a_failure_without_a_task_is_about_the_assigned_one() -> None:
    world = World(["<task-failed>needs a key</task-failed>", DONE], [verdict(True)] * 2)
    assert world.run().reason == "success"
    assert world.outcomes == ["failed", "done"]
    assert "needs a key" in world.journal[0].notes


def test_the_same_failed_attempt_again_and_again_fails_the_task_and_the_next_one_is_taken() -> None:
    failed, other = '<task-failed id="t-aaaaaa">no key</task-failed>', Task("t-bbbbbb", "and this")
    world = World(
        [failed] * 4 + ["<task-done>t-bbbbbb</task-done>"], disks=["same"] * 5, tasks=[TASK, other]
    )
    run = world.run(only=())
    assert (run.failed, run.done) == (("t-aaaaaa",), ("t-bbbbbb",))


def test_an_old_word_of_a_person_is_not_journaled_again() -> None:
    world = World(
        ["half", "half"], stops=[StopReason.CANCELLED] * 2, feedback=["use the other API"]
    )
    assert world.run().reason == "interrupted"
    assert [entry.notes for entry in world.journal] == ["Feedback: use the other API", ""]


def test_another_tasks_done_is_not_ours() -> None:
    world = World(["<task-done>t-bbbbbb</task-done>", DONE])
    assert world.run().reason == "success"
    assert world.outcomes == ["blocked", "done"]
    assert "t-bbbbbb" in world.journal[0].notes


PROSE = f"All tests pass, so I am done: {DONE}"


def test_a_claim_that_does_not_count_says_why_in_the_journal_and_the_next_prompt() -> None:
    world = World([PROSE, DONE])
    assert world.run().reason == "success"
    assert world.outcomes == ["blocked", "done"]
    assert "there are other words on its line" in world.journal[0].notes
    blocked = next(run for run in world.saved if run.iterations == 1)
    assert blocked.failure.startswith(f"{DONE} does not count")


def test_a_lost_knowledge_entry_is_journaled_even_if_the_task_is_done() -> None:
    world = World([f'<knowledge tags="a" title="T">\nWords.\n\n{DONE}'])
    assert world.run().reason == "success"
    assert "<knowledge> does not count" in world.journal[0].notes


def test_a_claim_about_another_task_is_not_explained() -> None:
    world = World(["I am done: <task-done>t-bbbbbb</task-done>", DONE])
    assert world.run().reason == "success"
    assert "does not count" not in world.journal[0].notes


def test_a_refusal_and_a_crash_are_failures_and_a_limit_is_not() -> None:
    stops = [StopReason.REFUSAL, StopReason.CRASHED, StopReason.MAX_TOKENS, StopReason.END_TURN]
    world = World(["<journal>as far as I came</journal>", "", "", DONE], stops=stops)
    assert world.run().reason == "success"
    assert world.outcomes == ["failed", "failed", "blocked", "done"]
    assert world.order.count("learn") == 4
    assert world.journal[0].notes.startswith("as far as I came")


def test_the_same_failure_on_the_same_disk_ends_the_run() -> None:
    world = World(["hm"] * 9, [verdict(False, "E assert 1 == 2 in 0.31s")] * 9, disks=["same"] * 9)
    run = world.run()
    assert (run.reason, run.iterations) == ("no_progress", 3)
    assert "assert" in run.words


def test_going_back_and_forth_ends_the_run() -> None:
    world = World(["hm"] * 12, [verdict(False, str(n)) for n in range(12)], disks=["a", "b"] * 6)
    assert world.run(Limits(max_iterations=12)).reason == "thrashing"


def test_time_and_cost_end_the_run() -> None:
    assert World(["hm"] * 9).run(Limits(10, seconds=3)).reason == "time"
    assert World(["hm"] * 9).run(Limits(10, cost=0.6)).reason == "cost"


@pytest.mark.parametrize(
    "limits",
    [Limits(max_iterations=1), Limits(10, seconds=2.0), Limits(10, cost=0.5)],
    ids=["iterations", "time", "cost"],
)
def test_a_run_that_finishes_its_work_with_its_last_means_succeeds(limits: Limits) -> None:
    run = World([DONE]).run(limits, only=())
    assert (run.status, run.reason, run.done) == (RunStatus.SUCCESS, "success", ("t-aaaaaa",))


def test_a_limit_ends_a_run_whose_work_is_not_finished() -> None:
    world = World([DONE], tasks=[TASK, Task("t-bbbbbb", "and this")])
    assert world.run(Limits(max_iterations=1), only=()).reason == "max_iterations"


def test_time_spent_on_checks_counts() -> None:
    slow = verdict(False)._replace(seconds=5.0)
    run = World(["hm"] * 9, [slow] * 9).run(Limits(10, seconds=7.0))
    assert (run.reason, run.iterations, run.seconds) == ("time", 1, 7.0)


def test_an_agent_that_cannot_be_reached_is_asked_again_and_then_given_up() -> None:
    world = World(["", "", DONE], stops=[StopReason.UNAVAILABLE] * 2)
    assert world.run().reason == "success"
    assert len(world.pauses) == 2
    world = World([""] * 5, stops=[StopReason.UNAVAILABLE] * 5)
    run = world.run()
    assert (run.reason, world.outcomes, exit_code(run)) == ("agent_unavailable", ["blocked"], 17)
    assert world.pauses == sorted(world.pauses)


def test_an_interruption_is_journaled_with_the_feedback_and_goes_on() -> None:
    world = World(["half", DONE], stops=[StopReason.CANCELLED], feedback=["use the other API"])
    assert world.run().reason == "success"
    assert world.outcomes == ["interrupted", "done"]
    assert "use the other API" in world.journal[0].notes
    assert next(run for run in world.saved if run.iterations == 1).feedback == "use the other API"
    assert world.saved[-1].feedback == ""


def test_an_interruption_without_a_word_ends_the_run() -> None:
    world = World(["half"], stops=[StopReason.CANCELLED])
    run = world.run()
    assert (run.status, run.reason, world.outcomes, exit_code(run)) == (
        RunStatus.STOPPED,
        "interrupted",
        ["interrupted"],
        130,
    )


def test_a_request_to_stop_is_heard_between_two_iterations() -> None:
    world = World(["hm", "hm"], asked_to_stop=[None, EndReason.STOPPED, EndReason.STOPPED])
    run = world.run()
    assert (run.reason, run.iterations, run.status) == ("stopped", 1, RunStatus.STOPPED)
    assert world.pauses == []


def test_a_promise_ends_the_run_after_the_checks() -> None:
    complete, failure = "<promise>COMPLETE</promise>", "<promise>FAILURE</promise>"
    assert World([complete], [verdict(True)]).run().reason == "success"
    assert World([complete], [verdict(False)]).run().reason == "gave_up"
    assert World([failure], [verdict(False)]).run().reason == "gave_up"
    assert exit_code(World([failure]).run()) == 11


def test_the_next_model_is_for_the_next_iteration_only() -> None:
    world = World(["<next-model>opus</next-model>", "hm", DONE])
    world.run()
    assert [run.next_model for run in world.saved if run.step == "agent"] == ["", "opus", ""]


def test_without_a_goal_the_ready_tasks_are_taken_in_order() -> None:
    other = Task("t-bbbbbb", "and this")
    world = World([DONE, "<task-done>t-bbbbbb</task-done>"], tasks=[TASK, other])
    run = world.run(only=())
    assert (run.reason, run.done) == ("success", ("t-aaaaaa", "t-bbbbbb"))
    assert World([], tasks=[]).run(only=()).reason == "nothing_ready"


def test_a_failed_task_does_not_stop_the_others() -> None:
    other = Task("t-bbbbbb", "and this")
    world = World(
        [DONE, "<task-done>t-bbbbbb</task-done>"],
        [verdict(False), verdict(True)],
        tasks=[TASK, other],
        retries=0,
    )
    run = world.run(only=())
    assert (run.failed, run.done, run.reason) == (("t-aaaaaa",), ("t-bbbbbb",), "task_failed")


def test_the_state_is_saved_after_every_step() -> None:
    world = World([DONE], [verdict(True)], verifies=[DONE_TOO])
    world.run()
    assert [run.step for run in world.saved] == ["beginning", "agent", "checking", "", ""]
    assert world.saved[-1].status is RunStatus.SUCCESS


@pytest.mark.parametrize("stop", StopReason)
def test_every_stop_reason_is_judged(stop: StopReason) -> None:
    reply = Reply("hm", stop, error="why")
    judgement = engine.judge(TASK, reply, read_sigils("hm"), verdict(False), failing=True)
    assert judgement.outcome is not Outcome.DONE
    assert bool(judgement.reason) is (stop is not StopReason.CANCELLED)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_says_whether_it_uses_a_retry(outcome: Outcome) -> None:
    assert Judgement(outcome).uses_retry is (outcome in (Outcome.RETRIED, Outcome.FAILED))
