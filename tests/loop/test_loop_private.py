"""What must never be on the disk after a loop: secrets and private sections, whoever said them and wherever."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.looping import PASSES, Workshop, project, says_done

from ralph.core.settings import Privacy
from ralph.core.work import Ask, Reply, StopReason
from ralph.loop.request import LoopRequest
from ralph.testing import Step

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
"""Made up; it only has the shape of a token."""
PRIVATE = "<private>the launch is on friday</private>"
UNTOLD = (TOKEN.encode(), b"launch is on friday", b"FALCON-123456")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = project(tmp_path / "shop")
    made.config = replace(made.config, privacy=Privacy((r"FALCON-\d{6}",), ()))
    return made


def leaked(shop: Workshop) -> list[bytes]:
    kept = shop.on_disk()
    return [each for each in UNTOLD if each in kept]


def everything(word: str) -> str:
    """A text with all that is not to be told."""
    return f"{word} with {TOKEN} and {PRIVATE} and FALCON-123456"


def test_a_goal(shop: Workshop) -> None:
    run = shop.start(Step(say="hm"), says_done(), PASSES, goal=everything("deploy"))
    assert run.goal.startswith("deploy with [redacted: ")
    assert leaked(shop) == []


def test_what_an_agent_says_in_all_its_sigils(shop: Workshop) -> None:
    words = everything("look")
    run = shop.start(
        Step(say=f"{words}\n<journal>{words}</journal>\n<next-model>{TOKEN}</next-model>"),
        Step(
            say=f'<knowledge tags="cart" title="Keys {TOKEN}">{words}</knowledge>\n{words}',
            error=words,
        ),
        lambda ask: Reply(
            f'<task-failed id="{ask.environment["RALPH_TASK"]}">{words}</task-failed>',
            model=TOKEN,
            session=TOKEN,
        ),
        lambda ask: Reply(words, StopReason.CRASHED, error=words),
        Step(say=f"{words}\n<promise>FAILURE</promise>"),
    )
    assert (run.reason, run.iterations) == ("gave_up", 5)
    assert leaked(shop) == []


def test_what_a_verifier_and_an_absent_agent_say(shop: Workshop) -> None:
    words = everything("no")
    shop.start(
        says_done(),
        lambda ask: Reply("", StopReason.UNAVAILABLE, error=words),
        Step(read_only=True, say=f"<verify-fail>{words}</verify-fail>"),
    )
    assert leaked(shop) == []


def test_what_criteria_print(shop: Workshop) -> None:
    shop.put("said.txt", everything("FAILED"))
    run = shop.start(
        says_done(),
        says_done(),
        request=LoopRequest(
            goal="x y z", criteria=("custom:cat said.txt >&2; false",), max_iterations=2
        ),
    )
    assert run.iterations == 2
    assert leaked(shop) == []


def test_feedback(shop: Workshop) -> None:
    def interrupts(ask: Ask) -> Reply:
        shop.interrupted = True
        return Reply("", StopReason.CANCELLED)

    shop.answers = [everything("mind")]
    shop.set(max_iterations=2)
    shop.start(interrupts, Step(say="hm"))
    shop.resume(Step(), Step(), says_done(), PASSES, feedback=everything("and"))
    assert leaked(shop) == []


def test_the_names_of_files_that_were_changed(shop: Workshop) -> None:
    shop.start(says_done(write={f"{TOKEN}.txt": ""}), PASSES)
    assert leaked(shop) == []


def test_an_error_that_ends_the_run(shop: Workshop) -> None:
    from ralph.core.errors import Unreadable

    def breaks(ask: Ask) -> Reply:
        raise Unreadable(everything("cannot read"))

    with pytest.raises(Unreadable):
        shop.start(breaks)
    assert leaked(shop) == []
    assert b"cannot read" in shop.on_disk()
