"""Every way in which a run ends or is interrupted, and how it is resumed: with its counters, its ids and its task."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.looping import GOAL, PASSES, Workshop, ends, project, says_done

from ralph.core import paths
from ralph.core.errors import Conflict, Refused, UsageError
from ralph.core.work import Ask, Reply, RunStatus, StopReason, TaskStatus
from ralph.loop import run_record, runs
from ralph.loop.request import LoopRequest
from ralph.loop.state import EndReason, Run, exit_code
from ralph.storage import task_files
from ralph.storage.board import status_of
from ralph.tasks import claims
from ralph.testing import Step

FAILS = LoopRequest(goal=GOAL, criteria=("custom:echo 'assert 1 == 2' >&2; test -f ok",))


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return project(tmp_path / "shop")


def writing(number: int) -> Step:
    """A step that changes something and says nothing."""
    return Step(say="hm", write={"work.txt": f"{number}\n"})


def test_the_limit_of_iterations_ends_a_run_and_is_counted_anew_when_resumed(
    shop: Workshop,
) -> None:
    shop.set(max_iterations=2)
    run = shop.start(*map(writing, range(5)))
    assert (run.reason, run.iterations, exit_code(run), run.status) == (
        "max_iterations",
        2,
        12,
        RunStatus.FAILED,
    )
    again = shop.resume(*map(writing, range(5)))
    assert (again.id, again.reason, again.iterations) == (run.id, "max_iterations", 4)
    assert "iteration 4 of at most 4" in shop.prompt(again, 4)
    assert [entry.iteration for entry in shop.journal(again)] == [1, 2, 3, 4]


def test_a_raised_limit_outlives_a_kill(shop: Workshop) -> None:
    shop.set(max_iterations=2)
    shop.start(*map(writing, range(5)))
    run = shop.resume(*map(writing, range(5)))
    killed = replace(
        run, status=RunStatus.RUNNING, reason="", words="", iterations=3, pid=0, born="gone"
    )
    runs.save(shop.root, run, killed)
    shop.resume(*map(writing, range(5)))
    assert shop.outcomes(run) == ["blocked"] * 4, "one more was allowed, as before"


def test_the_limit_of_time_covers_the_check_before_the_first_iteration(shop: Workshop) -> None:
    run = Run("run-00000001", GOAL, status=RunStatus.STOPPED, reason="stopped", seconds=59.9)
    runs.save(shop.root, None, run)
    request = LoopRequest(goal=GOAL, criteria=("custom:sleep 600",), max_minutes=1)
    ended = shop.resume(says_done(), request=request)
    assert (ended.reason, ended.iterations, shop.agent.asks) == ("time", 0, [])


def test_the_limit_of_time_ends_a_run(shop: Workshop) -> None:
    run = Run(
        "run-00000001",
        GOAL,
        status=RunStatus.STOPPED,
        reason="stopped",
        seconds=61.0,
        started_at="2026-01-01T00:00:00Z",
    )
    runs.save(shop.root, None, run)
    ended = shop.resume(
        writing(1), request=LoopRequest(goal=GOAL, criteria=("none",), max_minutes=1)
    )
    assert (ended.reason, exit_code(ended), shop.agent.asks) == ("time", 13, [])
    again = shop.resume(says_done(), PASSES)
    assert again.reason == "success", "a limit that ended it is counted anew"
    assert again.seconds > 61.0, "what it took in all is not forgotten"


def test_an_agent_gets_no_more_time_than_the_run_has_left(shop: Workshop) -> None:
    shop.set(max_minutes=10)
    shop.start(says_done(), PASSES)
    assert shop.agent.asks[0].timeout == pytest.approx(600)
    shop.set(max_minutes=0, iteration_minutes=0)
    shop.start(says_done(), PASSES, goal="another")
    assert shop.agent.asks[0].timeout == 0


def test_the_limit_of_cost_ends_a_run(shop: Workshop) -> None:
    shop.set(max_cost=0.5)
    run = shop.start(*(Step(say="hm", write={"work.txt": str(n)}, cost=0.3) for n in range(5)))
    assert (run.reason, run.iterations, exit_code(run)) == ("cost", 2, 14)
    assert run.cost == pytest.approx(0.6)
    again = shop.resume(*(Step(say="hm", write={"work.txt": f"x{n}"}, cost=0.3) for n in range(5)))
    assert (again.reason, again.iterations) == ("cost", 4)
    assert again.cost == pytest.approx(1.2)


def test_the_same_failure_with_no_change_on_disk_ends_a_run_and_is_named(shop: Workshop) -> None:
    run = shop.start(*[Step(say="hm")] * 9, request=FAILS)
    assert (run.reason, run.iterations, exit_code(run)) == ("no_progress", 3, 15)
    assert "assert # == #" in run.words or "assert" in run.words
    again = shop.resume(*[Step(say="hm")] * 9)
    assert (again.reason, again.iterations) == ("no_progress", 5)


def test_going_back_and_forth_ends_a_run(shop: Workshop) -> None:
    run = shop.start(*(writing(n % 2) for n in range(10)), request=FAILS)
    assert (run.reason, exit_code(run)) == ("thrashing", 16)


def test_a_request_to_stop_is_heard_after_the_iteration(shop: Workshop) -> None:
    def asked(ask: Ask) -> Reply:
        runs.request_stop(shop.root, ask.environment["RALPH_RUN"], now=False)
        assert not ask.stopped(), "the iteration is finished first"
        return Reply("hm")

    run = shop.start(asked, says_done(), PASSES)
    assert (run.reason, run.status, shop.outcomes(run), exit_code(run)) == (
        "stopped",
        RunStatus.STOPPED,
        ["blocked"],
        18,
    )
    assert shop.rests == []
    again = shop.resume(Step(), says_done(), PASSES)
    assert (again.id, again.reason, again.iterations) == (run.id, "success", 2)


def test_a_request_to_stop_now_ends_the_agent(shop: Workshop) -> None:
    def asked(ask: Ask) -> Reply:
        runs.request_stop(shop.root, ask.environment["RALPH_RUN"], now=True)
        assert ask.stopped()
        return Reply("", StopReason.CANCELLED)

    run = shop.start(asked, says_done())
    assert (run.reason, shop.outcomes(run)) == ("stopped", ["interrupted"])
    assert shop.answers == [], "nobody is asked for feedback"
    [left] = task_files.read_board(shop.root).tasks
    assert (left.claim, status_of(left), left.attempts) == (None, TaskStatus.PENDING, 0)


def test_ctrl_c_while_the_criteria_run_uses_up_no_retry(shop: Workshop) -> None:
    def interrupts(ask: Ask) -> Reply:
        shop.interrupted = True
        return says_done()(ask)

    run = shop.start(interrupts, request=FAILS)
    assert (run.reason, shop.outcomes(run), exit_code(run)) == ("interrupted", ["interrupted"], 130)
    assert task_files.read_board(shop.root).tasks[0].attempts == 0


def test_ctrl_c_while_the_work_is_verified_uses_up_no_retry(shop: Workshop) -> None:
    stopped = Step(read_only=True, stop=StopReason.CANCELLED)
    run = shop.start(says_done(), stopped)
    assert (run.reason, shop.outcomes(run)) == ("interrupted", ["interrupted"])
    assert task_files.read_board(shop.root).tasks[0].attempts == 0


def test_what_a_person_says_after_ctrl_c_is_journaled_and_reaches_the_next_prompt(
    shop: Workshop,
) -> None:
    def interrupts(ask: Ask) -> Reply:
        shop.interrupted = True
        return Reply("half of it", StopReason.CANCELLED)

    shop.answers = ["the API changed, see docs/api.md"]
    run = shop.start(interrupts, says_done(), PASSES)
    assert (run.reason, shop.outcomes(run)) == ("success", ["interrupted", "done"])
    assert shop.journal(run)[0].notes == "Feedback: the API changed, see docs/api.md"
    assert (
        "the API changed, see docs/api.md"
        in shop.prompt(run, 2).split("## Feedback")[1].split("## ")[0]
    )


def test_ctrl_c_between_two_iterations_asks_as_well(shop: Workshop) -> None:
    def rest(seconds: float) -> None:
        shop.interrupted = shop.interrupted or not shop.rests
        shop.rests.append(seconds)

    from ralph.loop import loop
    from ralph.testing import ScriptedAgent

    shop.answers = ["use decimals"]
    agent = ScriptedAgent([Step(say="hm"), says_done(), PASSES])
    request = LoopRequest(goal=GOAL, criteria=("none",))
    run = loop.start(shop.root, shop.config, request, shop.printer(), agent=agent, sleep=rest)
    assert run.reason == "success"
    assert "use decimals" in shop.prompt(run, 2)


def test_a_second_ctrl_c_leaves_at_once_with_a_journal_entry(shop: Workshop) -> None:
    def leaves(ask: Ask) -> Reply:
        raise KeyboardInterrupt

    run = shop.start(leaves)
    assert (run.reason, run.status, run.iterations) == ("interrupted", RunStatus.STOPPED, 1)
    [entry] = shop.journal(run)
    assert (entry.outcome.value, entry.notes) == (
        "interrupted",
        "Interrupted while it was waiting for the agent.",
    )
    assert task_files.read_board(shop.root).tasks[0].claim is None


def test_a_second_ctrl_c_right_after_the_journal_loses_nothing_that_was_done(
    shop: Workshop,
) -> None:
    class Impatient(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if line.startswith("iteration 1: done"):
                raise KeyboardInterrupt

    shop.said = Impatient()
    run = shop.start(says_done(), PASSES)
    assert (run.reason, run.done, shop.outcomes(run)) == ("interrupted", run.only, ["done"])
    assert status_of(task_files.read_board(shop.root).tasks[0]) is TaskStatus.DONE
    assert shop.resume().reason == "success"


def breaks(ask: Ask) -> Reply:
    """A step in which something fails that nobody had foreseen."""
    raise ZeroDivisionError("no carts to divide by")


def test_an_unexpected_exception_ends_the_run_and_is_raised(shop: Workshop) -> None:
    with pytest.raises(ZeroDivisionError):
        shop.start(writing(1), breaks)
    run = runs.find(shop.root, "")
    assert (run.status, run.reason, run.iterations) == (RunStatus.FAILED, "error", 2)
    assert run.words.startswith(
        "a fault in Ralph: ZeroDivisionError: no carts to divide by (test_loop_ends.py:"
    )
    assert shop.outcomes(run) == ["blocked", "interrupted"]
    assert f"Ended: failed, error: {run.words}" in run_record.write(shop.root, run).text
    assert all(each.claim is None for each in task_files.read_board(shop.root).tasks)
    again = shop.resume(writing(1), writing(2), says_done(), PASSES)
    assert (again.id, again.reason) == (run.id, "success")
    assert not [line for line in shop.said if "was killed" in line]


def test_a_fault_that_comes_again_while_it_is_journaled_ends_the_run_all_the_same(
    shop: Workshop,
) -> None:
    def spoils(ask: Ask) -> Reply:
        path = paths.run_folder(shop.root, ask.environment["RALPH_RUN"]) / "0001.md"
        path.unlink()
        path.mkdir()  # what the agent was asked is needed to journal what it said
        paths.run_output(shop.root, ask.environment["RALPH_RUN"]).write_text(
            "ralph: iteration 1: scripted\n", encoding="utf-8", newline=""
        )
        return breaks(ask)

    with pytest.raises(ZeroDivisionError):
        shop.start(spoils)
    run = runs.find(shop.root, "")
    assert (run.status, run.reason) == (RunStatus.FAILED, "error")
    assert "ZeroDivisionError" in run.words


def test_resume_adds_feedback_for_the_next_prompt(shop: Workshop) -> None:
    shop.set(max_iterations=1)
    shop.start(Step(say="hm"))
    run = shop.resume(Step(), says_done(), PASSES, feedback="look at tax.py")
    assert "look at tax.py" in shop.prompt(run, 2)


@pytest.mark.parametrize(
    "reason", [EndReason.STOPPED, EndReason.INTERRUPTED, EndReason.DIED, EndReason.ERROR]
)
def test_resume_after_a_break_keeps_task_counters_and_what_failed_before(
    shop: Workshop, reason: EndReason
) -> None:
    def asked(ask: Ask) -> Reply:
        runs.request_stop(shop.root, ask.environment["RALPH_RUN"], now=False)
        return says_done()(ask)

    run = shop.start(asked, request=FAILS)
    runs.save(shop.root, run, replace(run, reason=reason.value))
    again = shop.resume(Step(), says_done(write={"ok": ""}), PASSES)
    assert (again.id, again.only, again.iterations, again.reason) == (
        run.id,
        run.only,
        2,
        "success",
    )
    assert "retry 1 of 3" in shop.prompt(again, 2)
    assert len(task_files.read_board(shop.root).tasks) == 1


def test_resume_after_a_failed_task_tries_it_again_from_the_beginning(shop: Workshop) -> None:
    shop.retries(1)
    run = shop.start(*[says_done()] * 2, request=FAILS)
    assert run.reason == "task_failed"
    again = shop.resume(Step(), Step(), says_done(), says_done(write={"ok": ""}), PASSES)
    assert (again.reason, again.iterations, again.failed) == ("success", 4, ())
    assert "retry 1 of 1" in shop.prompt(again, 4)


def test_resume_after_the_agent_was_away_and_after_it_gave_up(shop: Workshop) -> None:
    away = lambda ask: Reply("", StopReason.UNAVAILABLE, error="rate limit")  # noqa: E731 - an agent in one line
    run = shop.start(away)
    for number in (2, 3, 4):
        run = shop.resume(*[Step()] * (number - 1), away)
        assert (run.reason, run.iterations) == ("agent_unavailable", number), (
            "being away is no lack of progress"
        )
    run = shop.resume(*[Step()] * 4, Step(say="<promise>FAILURE</promise>"))
    assert run.reason == "gave_up"
    assert shop.resume(*[Step()] * 5, says_done(), PASSES).reason == "success"


def test_a_run_that_ended_well_is_not_resumed(shop: Workshop) -> None:
    shop.start(says_done(), PASSES)
    with pytest.raises(Refused, match="has finished its work"):
        shop.resume()


def test_a_run_that_is_running_is_not_resumed_by_another(shop: Workshop) -> None:
    refused: list[str] = []

    def resumes(ask: Ask) -> Reply:
        with pytest.raises(Conflict) as told:
            Workshop(shop.root).resume(says_done(), run=ask.environment["RALPH_RUN"])
        refused.append(str(told.value))
        return says_done()(ask)

    run = shop.start(resumes, PASSES)
    assert run.reason == "success"
    assert "is running (process" in refused[0]


def test_resume_has_the_options_of_the_start_unless_changed(shop: Workshop) -> None:
    request = LoopRequest(
        goal=GOAL, criteria=("none",), max_iterations=1, verify=False, model="small"
    )
    shop.start(Step(say="hm"), request=request)
    run = shop.resume(Step(), says_done(), request=LoopRequest(model="large"))
    assert run.reason == "success", "the verifier is not asked"
    assert [ask.model for ask in shop.agent.asks] == ["small"], "a run's model stays"


def test_resume_asks_again_for_a_criterion_that_held_a_secret(shop: Workshop) -> None:
    token = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
    shop.set(max_iterations=1)
    run = shop.start(
        Step(say="hm"), request=LoopRequest(goal=GOAL, criteria=(f"custom:test x = {token}",))
    )
    assert token.encode() not in shop.on_disk()
    with pytest.raises(UsageError, match="--criteria"):
        shop.resume()
    assert (
        shop.resume(Step(), says_done(), PASSES, request=LoopRequest(criteria=("none",))).id
        == run.id
    )


def test_a_run_stops_when_its_task_was_taken_by_another(shop: Workshop) -> None:
    shop.set(max_iterations=1)
    run = shop.start(Step(say="hm"))
    name = run.only[0]
    assert (
        claims.acquire(shop.root, name, claims.make_claim("run-ffffffff"), named=True) is not None
    )
    with pytest.raises(Conflict, match="run-ffffffff works on"):
        shop.resume(says_done())


def test_the_last_line_names_the_reason(shop: Workshop) -> None:
    shop.retries(0)
    run = shop.start(ends(StopReason.REFUSAL, "not allowed to"))
    assert run.reason == "task_failed"
    assert "the agent refused: not allowed to" in shop.journal(run)[0].notes
    assert "failed after 1 attempt" in "\n".join(shop.said)
