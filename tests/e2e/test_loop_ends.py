"""Loops on the real Claude Code that somebody ends: Ctrl-C without a terminal, and SIGKILL in the middle.

The run keeps its id and its counters, what it was at is journaled, and no client is left running, nor what one had
put into the background.
"""

import json
import signal

import pytest
from tests.e2e.clients import Claude
from tests.e2e.loops import CHECK, GOAL, PASS, Looping, begun, claim, interrupt, on_path
from tests.e2e.ralphs import bash
from tests.e2e.scripted import Pause, say

pytestmark = pytest.mark.e2e

BEHIND = "setsid sleep 600 >/dev/null 2>&1 </dev/null & true"
FIRST = "The total is mended, the CHANGE is left."


@pytest.fixture
def looping(claude: Claude) -> Looping:
    """A project that remembers, and Claude Code with Ralph's hooks on the user's path."""
    on_path(claude, claude.program, "claude")
    return begun(claude, "--agent", "claude")


def test_an_interrupted_run_goes_on_where_it_was(looping: Looping) -> None:
    till = looping.till()
    pause = Pause(say("TOO LATE"))
    looping.script(
        1, *looping.mends("one", "return sum(prices)"), say(f"<journal>\n{FIRST}\n</journal>")
    )
    looping.script(2, *looping.mends("two", "return due - paid"), bash(BEHIND), pause)
    running = looping.start(GOAL, "-c", CHECK, "--permission", "bypass")
    pause.wait()

    interrupt(running)
    run = running.wait()

    assert run.code == 130, run.errors
    assert not looping.client.leftovers()
    [known] = looping.runs()
    assert (known["status"], known["reason"], known["iterations"]) == ("stopped", "interrupted", 2)
    assert looping.outcomes() == [(1, "blocked"), (2, "interrupted")]
    assert looping.journal()[1].files == ("till.py",)
    till.write_text(
        till.read_text(encoding="utf-8").replace("due - paid", "0  # part two"), encoding="utf-8"
    )
    looping.script(3, *looping.mends("two", "return paid - due"), claim())
    looping.verifies(PASS)

    resumed = looping.begin("resume", "--feedback", "Mind the SIGN of the change.").wait()

    assert resumed.code == 0, resumed.errors
    assert looping.server.unscripted == []
    [again] = looping.runs()
    assert (again["id"], again["task"], again["iterations"]) == (known["id"], known["task"], 3)
    assert (again["status"], again["reason"]) == ("success", "success")
    assert again["cost_usd"] > known["cost_usd"] > 0
    assert looping.outcomes() == [(1, "blocked"), (2, "interrupted"), (3, "done")]
    told = looping.asked(3).text
    assert FIRST in told
    assert "Mind the SIGN of the change." in told
    assert "TOO LATE" not in told
    assert "return paid - due" in till.read_text(encoding="utf-8")


def test_a_killed_run_is_found_and_finished(looping: Looping) -> None:
    looping.till()
    pause = Pause(say("TOO LATE"))
    looping.script(1, *looping.mends("one", "return sum(prices)"), pause)
    running = looping.start(GOAL, "-c", CHECK)
    pause.wait()
    interrupt(running, signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    assert looping.client.leftovers(grace=0), "the client does not know that its loop is gone"

    found = looping.ralph.call("loop", "status", "--format", "json")

    known = json.loads(found.stdout)
    assert (known["status"], known["reason"], known["alive"], known["iterations"]) == (
        "stopped",
        "died",
        False,
        1,
    )
    assert f"{known['id']} was killed in iteration 1" in found.stderr
    assert not looping.client.leftovers()
    assert looping.outcomes() == [(1, "interrupted")]
    task = json.loads(looping.ralph("task", "show", known["task"], "--format", "json"))
    assert not task.get("claim")
    looping.script(2, *looping.mends("two", "return paid - due"), claim())
    looping.verifies(PASS)

    resumed = looping.begin("resume", known["id"]).wait()

    assert resumed.code == 0, resumed.errors
    assert looping.server.unscripted == []
    [again] = looping.runs()
    assert (again["id"], again["task"], again["iterations"]) == (known["id"], known["task"], 2)
    assert (again["status"], again["reason"]) == ("success", "success")
    assert looping.outcomes() == [(1, "interrupted"), (2, "done")]
    assert "The loop's process was killed" in looping.asked(2).text
