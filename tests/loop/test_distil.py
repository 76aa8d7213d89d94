"""`learning.loop`: when a run has ended, its own agent is asked what is worth keeping."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.distilling import LESSON, answer, proposed, record_session, state_bytes
from tests.support.looping import PASSES, Workshop, ends, project, says_done

from ralph.core import paths
from ralph.core.work import Ask, Reply, StopReason
from ralph.loop import parts, runs
from ralph.loop.agents.scripted import Play
from ralph.loop.state import exit_code
from ralph.testing import Step

REQUEST = "Answer with one JSON object"  # a sentence of the prompt


def answers(text: str, **members: object) -> Step:
    """A step that answers the request to learn."""
    return Step(read_only=True, when=REQUEST, say=text, **members)  # type: ignore[arg-type]  # by name


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project with a recorded session, in which loops learn."""
    shop = project(tmp_path / "shop")
    shop.config = replace(shop.config, learning=replace(shop.config.learning, loop=True))
    record_session(shop.root)
    return shop


def requests(shop: Workshop) -> list[Ask]:
    return [ask for ask in shop.agent.asks if REQUEST in ask.prompt]


def test_the_agent_is_asked_once_and_the_end_says_what_it_proposed(shop: Workshop) -> None:
    run = shop.start(answers(answer()), PASSES, says_done())
    assert (run.reason, exit_code(run)) == ("success", 0)
    assert run.words.splitlines()[-1] == "learning: 1 proposal for `ralph review`"
    assert proposed(shop.root) == [LESSON]
    assert shop.said[-2].startswith(f"{run.id} ended after 1 iteration: success: ")
    assert shop.said[-1] == "  1 item waits for review: `ralph review`"
    assert shop.said[-2].endswith("learning: 1 proposal for `ralph review`")
    stored = runs.find(shop.root, run.id)
    assert (stored.words, stored.status) == (run.words, run.status)
    assert shop.log(run).count("learning: 1 proposal") >= 2, "in the state and in the record"
    [request] = requests(shop)
    assert request.read_only
    assert 0 < request.timeout <= 300
    assert request.environment == {"RALPH_DISABLE": "1"}


def test_nobody_is_asked_unless_it_is_switched_on(shop: Workshop) -> None:
    shop.config = replace(shop.config, learning=replace(shop.config.learning, loop=False))
    run = shop.start(answers(answer()), PASSES, says_done())
    assert requests(shop) == []
    assert "learning" not in run.words


def test_a_run_that_failed_teaches_too(shop: Workshop) -> None:
    shop.set(max_iterations=1)
    run = shop.start(answers(answer()), Step(say="hm"))
    assert (run.reason, exit_code(run)) == ("max_iterations", 12)
    assert proposed(shop.root) == [LESSON]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        pytest.param(answers("I found nothing."), "not JSON", id="prose"),
        pytest.param(answers(""), "the answer is empty", id="nothing"),
        pytest.param(
            answers(answer(), stop=StopReason.CRASHED, error="out of memory"),
            "out of memory",
            id="a crash",
        ),
        pytest.param(
            answers(answer(), stop=StopReason.TIMEOUT, error="it took too long"),
            "it took too long",
            id="a timeout",
        ),
    ],
)
def test_a_failure_is_reported_and_the_run_ends_as_it_did(
    shop: Workshop, step: Step, problem: str
) -> None:
    run = shop.start(step, PASSES, says_done())
    assert (run.reason, exit_code(run)) == ("success", 0)
    last = run.words.splitlines()[-1]
    assert last.startswith("learning: nothing was proposed; ")
    assert problem in last
    assert state_bytes(shop.root) == {}


@pytest.mark.parametrize(
    "error", [OSError("the disk is full"), KeyboardInterrupt()], ids=["a full disk", "Ctrl-C"]
)
def test_an_exception_while_learning_does_not_fail_the_run(
    shop: Workshop, error: BaseException
) -> None:
    def play(ask: Ask) -> Reply:
        if REQUEST in ask.prompt:
            raise error
        if ask.read_only:
            return Reply("<verify-pass/>")
        return says_done()(ask)

    shop.config = replace(shop.config, execution=replace(shop.config.execution, verify=False))
    run = shop.start(play, play, enforces_read_only=False)
    assert (run.reason, exit_code(run)) == ("success", 0)
    assert "learning: nothing was proposed; " in run.words


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param([ends(StopReason.UNAVAILABLE, "offline")], "agent_unavailable", id="offline"),
        pytest.param([Step(say="hm", cost=9.0)], "cost", id="the limit of cost"),
    ],
)
def test_nobody_is_asked_when_the_agent_or_the_money_is_gone(
    shop: Workshop, steps: list[Play], reason: str
) -> None:
    shop.set(max_cost=5.0)
    run = shop.start(answers(answer()), *steps)
    assert run.reason == reason
    assert requests(shop) == []
    assert "learning" not in run.words


def test_nobody_is_asked_after_a_person_has_stopped_the_run(shop: Workshop) -> None:
    def stop(ask: Ask) -> Reply:
        [running] = runs.list_unfinished(shop.root)
        runs.request_stop(shop.root, running.id, now=False)
        return Reply("hm")

    run = shop.start(answers(answer()), stop)
    assert run.reason == "stopped"
    assert requests(shop) == []


def test_what_learning_costs_is_part_of_what_the_run_costs(shop: Workshop) -> None:
    run = shop.start(answers(answer(), cost=0.5), PASSES, says_done())
    assert run.cost == pytest.approx(0.5)
    assert runs.find(shop.root, run.id).cost == pytest.approx(0.5)


def test_nothing_recorded_is_not_mentioned(tmp_path: Path) -> None:
    shop = project(tmp_path / "quiet")
    shop.config = replace(shop.config, learning=replace(shop.config.learning, loop=True))
    run = shop.start(answers(answer()), PASSES, says_done())
    assert "learning" not in run.words
    assert requests(shop) == []


def test_a_run_leaves_no_heartbeat_behind_when_it_has_learned(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "HEARTBEAT_SECONDS", 0.0)  # a heartbeat whenever one may be due
    run = shop.start(answers(answer()), PASSES, says_done())
    assert not paths.heartbeat(shop.root, run.id).exists()


def test_a_resumed_run_learns_again_only_from_what_is_new(shop: Workshop) -> None:
    shop.set(max_iterations=1)
    shop.start(answers(answer()), Step(say="hm"))
    again = shop.resume(answers(answer()), PASSES, says_done(), says_done())
    assert again.reason == "success"
    assert requests(shop) == []
    assert "learning" not in again.words
