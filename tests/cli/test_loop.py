"""`ralph loop` as its users meet it: words in, lines and exit codes out."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.runner import Project

from ralph.cli.main import INTERRUPTED
from ralph.core.work import RunStatus
from ralph.loop import runs
from ralph.loop.state import EndReason, Run

STEPS: list[dict[str, object]] = [
    {"say": "<journal>looked around</journal>"},
    {"say": "it is there now", "write": {"ok": "1\n"}},
    {"read_only": True, "say": "<verify-pass/>"},
]
START = (
    "loop",
    "start",
    "make it work",
    "--agent",
    "scripted",
    "--command",
    "steps.json",
    "-c",
    "custom:test -f ok",
)


@pytest.fixture
def shop(ralph: Project) -> Project:
    ralph.put("ralph.yml", "ralph:\n  cooldown_ms: 0\n")
    ralph.put("steps.json", json.dumps(STEPS))
    return ralph


def dead(shop: Project, **members: object) -> Run:
    """A run whose process is gone."""
    run = runs.assign_to_this_process(
        Run("run-0000dead", "make it work", agent="scripted", started_at="2026-01-01T00:00:00Z")
    )
    values = {"born": "gone", "step": "agent", "task": "t-000001", **members}
    return runs.save(shop.root, None, replace(run, **values))  # type: ignore[arg-type]  # by name, in a test


def test_a_loop_from_start_to_end(shop: Project) -> None:
    said = shop(*START)
    assert said.code == 0, said.err
    assert "it is there now" in said.out
    run_id = re.search(r"run-[0-9a-f]{8}", said.err)
    assert run_id is not None
    assert "  checks custom: test -f ok" in said.err
    assert "iteration 1: blocked" in said.err
    assert "iteration 2: done" in said.err
    assert ", 1 file)" in said.err
    assert "ended after 2 iterations: success" in said.err
    assert shop("loop", "show", "--log").out.count("iteration 2: done") == 1


def test_what_it_printed_is_in_the_log_and_what_it_was_told_can_be_shown(shop: Project) -> None:
    shop(*START)
    log = shop("loop", "show", "--log").out
    assert "it is there now" in log
    assert "ralph: iteration 1: scripted" in log
    assert "looked around" in shop("loop", "show", "--iteration", "2").out
    assert (
        shop("loop", "show", "-i", "2", "--format", "json").json["prompt"]
        == shop("loop", "show", "-i", "2").out
    )
    missing = shop("loop", "show", "-i", "7")
    assert (missing.code, "it has: 1, 2" in missing.err) == (1, True)


def test_status_list_and_show_tell_the_same_run(shop: Project) -> None:
    shop(*START)
    status, listed = (
        shop("loop", "status", "--format", "json").json,
        shop("loop", "show", "--format", "json").json,
    )
    shown = shop("loop", "show", status["id"], "--format", "json").json
    assert [status] == listed
    assert {name: shown[name] for name in status} == status
    assert (status["status"], status["reason"], status["iterations"], status["alive"]) == (
        "success",
        "success",
        2,
        False,
    )
    assert [entry["outcome"] for entry in shown["journal"]] == ["blocked", "done"]
    assert shown["context_snapshots"] == [1, 2]
    text = shop("loop", "status").out
    assert "success (success)  make it work" in text
    assert "2 iterations with scripted" in text
    assert shop("loop", "status", str(status["id"])[:7]).code == 0, "the beginning of an id will do"


def test_json_is_valid_where_there_is_nothing(shop: Project) -> None:
    assert shop("loop", "show", "--format", "json").json == []
    assert shop("loop", "status", "--format", "json").json is None
    assert shop("loop", "show").out == "No runs yet.\n"
    assert shop("loop", "status").out == "No runs yet.\n"
    assert shop("loop", "show", "run-00000000", "--format", "json").code == 1
    assert shop("loop", "stop").out == "No run is active.\n"
    for words in (("show", "-i", "1"), ("show", "--log"), ("resume",)):
        said = shop("loop", *words)
        assert (said.code, said.out) == (1, ""), words
        assert "no runs yet" in said.err


def test_asking_leaves_no_trace(shop: Project) -> None:
    before = shop.marks()
    for words in ("loop show", "loop status", "loop show --log", "slash loop config"):
        shop(*words.split())
    assert shop.marks() == before


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("start", "x", "--agent", "nobody"), 2, "Agent not found: nobody"),
        (
            ("start", "x", "--agent", "command", "--command", "no-such-thing"),
            2,
            "no-such-thing: there is no such program",
        ),
        (("start", "x", "--task", "t-000000"), 2, "cannot be used together"),
        (("start", "--task", "t-000000"), 1, "Task not found: t-000000"),
        (("start", "--feature", "f-000000"), 1, "f-000000"),
        (("status", "run-99999999"), 1, "Run not found"),
        (("stop", "run-99999999"), 1, "Run not found"),
        (("show", "--log", "run-99999999"), 1, "Run not found"),
        (("show", "--log", "--journal"), 2, "cannot be used together"),
        (("show", "--follow"), 2, "--follow does not apply to the list of runs"),
        (("show", "run-99999999", "--limit", "2"), 2, "--limit does not apply to a run"),
        (("show", "--log", "--format", "json"), 2, "--format does not apply to the output"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_no_run(
    shop: Project, words: tuple[str, ...], code: int, part: str
) -> None:
    said = shop("loop", *words)
    assert (said.code, part in said.err) == (code, True), said.err
    assert "Traceback" not in said.err
    assert shop("loop", "show", "--format", "json").json == []


def test_each_reason_has_its_exit_code_and_meaning() -> None:
    assert 2 not in {reason.code for reason in EndReason}


def test_a_run_that_gives_up_exits_with_its_code_and_can_be_resumed(shop: Project) -> None:
    said = shop(*START, "--max-iterations", "1")
    assert (said.code, "max_iterations: 1 iteration of at most 1" in said.err) == (12, True), (
        said.err
    )
    again = shop("loop", "resume", "--feedback", "it is nearly done")
    assert again.code == 0, again.err
    assert "it is nearly done" in shop("loop", "show", "-i", "2").out


@pytest.mark.parametrize("more", [(), ("--detach",)], ids=["foreground", "detached"])
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "no task is ready"),
        (("x", "-c", "custom:true"), "every criterion already holds"),
    ],
    ids=["nothing is ready", "the criteria hold"],
)
def test_a_start_with_nothing_to_do_says_so_and_leaves_no_file(
    shop: Project, words: tuple[str, ...], part: str, more: tuple[str, ...]
) -> None:
    said = shop("loop", "start", *words, "--agent", "scripted", "--command", "steps.json", *more)
    assert (said.code, part in said.out + said.err) == (0, True), said.err
    assert [path.name for path in shop.file("log/runs").rglob("*")] == []


def test_a_dead_run_is_told_marked_and_resumed(shop: Project) -> None:
    shop(*START, "--max-iterations", "1")
    run, *_ = runs.list_newest(shop.root)[0]
    runs.save(
        shop.root,
        run,
        replace(
            run,
            status=RunStatus.RUNNING,
            reason="",
            words="",
            ended_at="",
            born="x",
            step="agent",
            step_since="",
        ),
    )
    said = shop("loop", "status")
    assert f"{run.id} was killed in iteration 2; `ralph loop resume {run.id}`" in said.err
    assert "stopped (died)" in said.out
    assert "2. interrupted (unknown time)" in said.out
    assert "was killed" not in shop("loop", "status").err, "it is told once"
    steps = [STEPS[0], STEPS[0], *STEPS[1:]]
    shop.put("steps.json", json.dumps(steps))
    again = shop("loop", "resume", "--max-iterations", "9")
    assert (again.code, runs.read(shop.root, run.id).iterations) == (0, 3), again.err


def test_to_stop_a_dead_run_marks_it(shop: Project) -> None:
    dead(shop)
    said = shop("loop", "stop")
    assert (said.code, said.out) == (0, "No run is active.\n")
    assert "was killed" in said.err


def test_to_stop_one_of_several_it_has_to_be_named(shop: Project) -> None:
    for name in ("run-00000001", "run-00000002"):
        runs.save(
            shop.root,
            None,
            runs.assign_to_this_process(Run(name, "x", started_at="2026-01-01T00:00:00Z")),
        )
    said = shop("loop", "stop")
    assert (said.code, "2 runs are running" in said.err) == (1, True)
    named = shop("loop", "stop", "run-00000001", "--now")
    assert (named.code, named.out) == (0, "run-00000001 will stop now\n")
    assert runs.read_stop_request(shop.root, "run-00000001") == "now"
    assert runs.read_stop_request(shop.root, "run-00000002") == ""


UNTRUSTED = """\
ralph:
  cooldown_ms: 0
  success_criteria:
    - {type: marker}
    - {type: custom, command: test -f never.txt}
"""
SAYS_DONE = ("start", "say it", "--agent", "scripted", "--command", "steps.json", "--no-verify")


@pytest.fixture
def untrusting(ralph: Project) -> Project:
    """A project with a criterion that nobody trusts, and an agent that says the marker."""
    ralph.put("steps.json", '[{"say": "[RALPH_SUCCESS]\\n<task-done>{task}</task-done>"}]')
    ralph.put("ralph.yml", UNTRUSTED)
    return ralph


@pytest.mark.parametrize("more", [(), ("--detach",)], ids=["foreground", "detached"])
def test_a_criterion_that_is_not_trusted_stops_the_start_and_is_named(
    untrusting: Project, more: tuple[str, ...]
) -> None:
    said = untrusting("loop", *SAYS_DONE, *more)
    assert said.code == 1
    assert "custom: test -f never.txt (ralph.yml)" in said.err
    assert "`ralph trust`" in said.err
    assert untrusting("loop", "show", "--format", "json").json == []


def test_a_run_without_its_untrusted_criteria_ends_as_unchecked(untrusting: Project) -> None:
    said = untrusting("loop", *SAYS_DONE, "--skip-untrusted")
    assert said.code == EndReason.UNCHECKED.code
    assert "ok  marker" in said.err
    assert "unchecked: done: " in said.err
    status = untrusting("loop", "status", "--format", "json").json
    assert (status["status"], status["reason"]) == ("unchecked", "unchecked")
    assert status["skipped_criteria"] == ["custom: test -f never.txt (ralph.yml)"]
    shown = untrusting("loop", "status").out
    assert shown.count("not checked: custom: test -f never.txt") == 1
    usage = untrusting("status", "--usage", "--format", "json").json["loop"]
    assert (usage["runs"], usage["succeeded"], usage["unchecked"]) == (1, 0, 1)


def test_after_ralph_trust_the_criterion_decides(untrusting: Project) -> None:
    assert untrusting("trust", "--yes").code == 0
    said = untrusting("loop", *SAYS_DONE, "--max-iterations", "1")
    assert said.code == EndReason.MAX_ITERATIONS.code, said.err
    assert "no  custom: test -f never.txt" in said.err


def test_criteria_on_the_command_line_need_no_trust(untrusting: Project) -> None:
    assert untrusting("loop", *SAYS_DONE, "-c", "marker").code == 0


def test_an_agents_program_in_the_projects_file_is_not_run_before_it_is_trusted(
    shop: Project,
) -> None:
    shop.put("ralph.yml", "ralph:\n  agent: command\n  agent_command: touch run-it\n")
    said = shop("loop", "start", "x")
    assert said.code == 2
    assert not shop.file("run-it").exists()


def test_the_settings_of_the_loop_are_shown_and_changed(shop: Project) -> None:
    shown = shop("slash", "loop", "config").out
    assert "execution." in shown
    assert "memories." not in shown
    assert shop("slash", "loop", "config max_iterations").out == "10\n"
    assert "Set ralph.max_iterations = 20" in shop("slash", "loop", "config max_iterations 20").out
    assert shop("slash", "loop", "config", "ralph.max_iterations").out == "20\n"
    unknown = shop("slash", "loop", "config nothing")
    assert (unknown.code, "is not a setting of the loop" in unknown.out) == (0, True)


def test_slash_commands(shop: Project) -> None:
    assert shop("slash", "loop", "status").out == "No runs yet.\n"
    assert shop("slash", "loop", "").out == "No runs yet.\n"
    assert shop("slash", "loop").out == "No runs yet.\n"
    for words in ("start", "start ''", "start --max-iterations 2"):
        assert "needs a goal" in shop("slash", "loop", words).out
    assert "there is no command `/ralph dance`" in shop("slash", "loop", "dance").out
    assert shop("slash", "loop", "stop").out == "No run is active.\n"


@pytest.mark.parametrize(
    ("typed", "goal", "options"),
    [
        pytest.param("do it", "do it", {}, id="a goal"),
        pytest.param(
            "--max-iterations 2 -c test_pass:true 'do it'",
            "do it",
            {"max_iterations": 2, "criteria": ["test_pass:true"]},
            id="options before a goal in quotes",
        ),
        pytest.param("do it --max-cost=2.5", "do it", {"max_cost": 2.5}, id="an option after it"),
        pytest.param("don't break\n\nthe API", "don't break\n\nthe API", {}, id="several lines"),
    ],
)
def test_slash_start_parses_its_options(
    shop: Project, typed: str, goal: str, options: dict[str, object]
) -> None:
    shop.put("steps.json", '[{"say": "<promise>FAILURE</promise>"}]')
    agent = "--agent scripted --command steps.json --force"
    said = shop("slash", "loop", "-", stdin=f"start {agent} {typed}\n")
    assert said.code == 0, said.out
    run = runs.read(shop.root, said.out.strip())
    given = json.loads(run.options)
    assert run.goal == goal
    assert {name: given[name] for name in options} == options


def test_slash_stop_asks_which_of_several_runs_is_meant(shop: Project) -> None:
    for name in ("run-00000001", "run-00000002"):
        run = Run(name, f"goal of {name}", started_at="2026-01-01T00:00:00Z")
        runs.save(shop.root, None, runs.assign_to_this_process(run))
    said = shop("slash", "loop", "-", stdin="stop\n")
    assert said.code == 0
    assert "2 runs are running; name the one to stop" in said.out
    assert "`ralph loop stop run-00000002`: goal of run-00000002" in said.out
    assert shop("slash", "loop", "-", stdin="stop run-00000001 --now\n").code == 0
    assert runs.read_stop_request(shop.root, "run-00000001") == "now"
    assert runs.read_stop_request(shop.root, "run-00000002") == ""


def test_a_program_that_closes_its_ears_does_not_end_the_loop(shop: Project) -> None:
    steps = [{"say": "word " * 20_000}, *STEPS]
    shop.put("steps.json", json.dumps(steps))
    words = shlex.join([sys.executable, "-m", "ralph", *START])
    subprocess.run(
        ["/bin/sh", "-c", f"{words} 2>&1 | head -n 1"],
        cwd=shop.root,
        check=True,
        capture_output=True,
    )
    [run], _ = runs.list_newest(shop.root)
    assert (run.status, run.iterations) == (RunStatus.SUCCESS, 3)


def test_on_a_disk_that_cannot_be_written_it_says_so_without_a_traceback(shop: Project) -> None:
    shop.file(".ralph").write_text("not a folder", encoding="utf-8")
    said = shop(*START)
    assert (said.code, said.out) == (1, "")
    assert "error: " in said.err
    assert "bug" not in said.err


def test_help_has_examples_for_every_verb(shop: Project) -> None:
    for verb in ("start", "resume", "stop", "status", "show"):
        said = shop("loop", verb, "--help")
        assert "Examples:" in said.out, verb


def test_files_of_a_run_are_where_the_documentation_says(shop: Project) -> None:
    shop(*START)
    [run], _ = runs.list_newest(shop.root)
    folder = shop.file("log/runs")
    assert {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} == {
        Path(f"{run.id}.jsonl"), Path(f"{run.id}.log"), Path(f"{run.id}/0001.md"), Path(f"{run.id}/0002.md"),
    }  # fmt: skip


def test_status_cuts_a_long_note(shop: Project) -> None:
    shop.put("steps.json", json.dumps([{"say": f"<journal>{'word ' * 300}</journal>"}]))
    shop(*START, "--max-iterations", "1")
    assert max(map(len, shop("loop", "status").out.splitlines())) < 180


def test_status_lists_every_loop(ralph: Project) -> None:
    for name in ("run-00000001", "run-00000002"):
        runs.save(
            ralph.root,
            None,
            runs.assign_to_this_process(
                Run(name, f"goal of {name}", started_at="2026-01-01T00:00:00Z")
            ),
        )
    out = ralph("loop", "status").out
    assert "goal of run-00000001" in out
    assert "goal of run-00000002" in out


def test_the_exit_codes_in_the_help_are_those_of_the_reasons(ralph: Project) -> None:
    text = " ".join(ralph("loop", "start", "--help").out.split())
    listed = text.partition("run ended: ")[2].partition(" (docs/loop.md")[0]
    codes = {int(part.split()[0]) for part in listed.split(", ")}
    assert codes - {INTERRUPTED} <= {reason.code for reason in EndReason}
