"""`/ralph start`, `/ralph status` and `/ralph stop` typed into the real Claude Code, short and from the plugin.

A loop that was started so is a process of its own: the session that started it ends, and the loop works on with
Claude Code as its agent until it is done or stopped. Then nothing is left of it but what is on the disk.
"""

import re
import sys

import pytest
from tests.e2e.clients import Claude, Run
from tests.e2e.loops import GOAL, PASS, Looping, begun, claim, on_path
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import PLUGIN, Ralph, bash, printed, went_well
from tests.e2e.scripted import Pause, say

from ralph.core import paths

pytestmark = pytest.mark.e2e

MAKEFILE = f"test:\n\t{sys.executable} -B -m unittest -q test_till\n"


def run_in(run: Run, request: int = 0) -> str:
    """The id of the run that the model was told of, in one of its requests."""
    went_well(run)
    text = run.requests[request].text
    found = re.search(r"\brun-[0-9a-f]{8}\b", text)
    assert found, text
    return found[0]


def test_a_loop_is_started_shown_and_stopped_by_slash_commands(
    claude: Claude, messages: MessagesServer
) -> None:
    on_path(claude, claude.program, "claude")
    looping = begun(claude)
    looping.till()
    claude.write("Makefile", MAKEFILE)
    looping.ralph.remember(f"To {GOAL}, count in whole cents.", "decision")
    pause = Pause(say("<journal>\nThe total is mended.\n</journal>"))
    looping.script(1, *looping.mends("one", "return sum(prices)"), pause)
    messages.script(say("STARTED"), say("SHOWN"), say("STOPPED"))

    started = claude.run(f"/ralph start {GOAL}; it's $HOME `id`")
    pause.wait()
    shown = claude.run("/ralph status")
    stopped = claude.run("/ralph stop")
    pause.release()
    name = run_in(started)
    known = looping.ended(name)

    assert run_in(shown) == run_in(stopped) == name
    assert printed(started, "UserPromptSubmit") == []
    assert "iteration 1, waiting for the agent" in shown.requests[0].text
    assert f"{name} will stop after iteration 1" in stopped.requests[0].text
    assert (known["status"], known["reason"], known["iterations"]) == ("stopped", "stopped", 1)
    assert (known["agent"], known["goal"]) == ("claude", f"{GOAL}; it's $HOME `id`")
    assert looping.outcomes(name) == [(1, "blocked")]
    assert not claude.leftovers()


def test_slash_commands_parse_options_and_answer_mistakes_in_words(
    claude: Claude, messages: MessagesServer
) -> None:
    on_path(claude, claude.program, "claude")
    looping = begun(claude)
    pause = Pause(say("Nothing yet."))
    looping.script(1, pause)
    messages.script(*[say("TOLD")] * 4)

    started = claude.run("/ralph start --max-iterations 1 -c custom:false --no-verify 'do it'")
    pause.wait()
    second = claude.run("/ralph start something else")
    wrong = claude.run("/ralph dance")
    empty = claude.run("/ralph start --max-iterations 2")
    pause.release()
    known = looping.ended(run_in(started))

    assert (known["goal"], known["reason"], known["iterations"]) == ("do it", "max_iterations", 1)
    assert f"{known['id']} is already running in" in second.requests[0].text
    assert "there is no command `/ralph dance`" in wrong.requests[0].text
    assert "/ralph start needs a goal" in empty.requests[0].text
    for run in (started, second, wrong, empty):
        went_well(run)
        assert "Shell command failed" not in run.text + run.errors
    assert not claude.leftovers()


@pytest.mark.soak
def test_the_plugins_command_starts_a_loop_that_works_to_its_end(
    claude: Claude, messages: MessagesServer
) -> None:
    assert (PLUGIN / "commands/ralph.md").is_file()
    valid = claude.plugin("validate", "--strict", PLUGIN)
    assert valid.returncode == 0, valid.stdout + valid.stderr
    on_path(claude, claude.program, "claude")
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude", "--plugin")
    ralph("config", "ralph.cooldown_ms", "0")
    looping = Looping(claude, ralph)
    looping.till()
    claude.write("Makefile", MAKEFILE)
    for name in ("__init__", "__main__"):
        claude.write(f"ralph/{name}.py", "raise SystemExit('a folder of this name is not us')\n")
    looping.script(1, *looping.mends("one", "return sum(prices)"), say("One of two."))
    looping.script(2, *looping.mends("two", "return paid - due"), claim())
    looping.verifies(PASS)
    messages.script(bash(f"ralph slash loop 'start {GOAL}'"), say("STARTED"))

    name = run_in(claude.run(f"/ralph:ralph start {GOAL}", plugin_dir=PLUGIN), request=1)
    known = looping.ended(name)

    assert (known["status"], known["reason"], known["iterations"]) == ("success", "success", 2), (
        ralph("loop", "show", "--log")
    )
    assert known["agent"] == "claude"
    assert "checks test_pass: make" in (
        paths.log_folder(claude.project) / f"runs/{name}.log"
    ).read_text(encoding="utf-8")
    assert looping.outcomes(name) == [(1, "blocked"), (2, "done")]
    assert "return paid - due" in (claude.project / "till.py").read_text(encoding="utf-8")
    assert messages.unscripted == []
    assert not claude.leftovers()
