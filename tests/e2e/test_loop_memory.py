"""What a loop on the real Claude Code knows, and what it leaves: knowledge and observations.

The hooks work during a loop as they always do, but the loop's prompt has what memory knows: at the start and at
the prompt they are silent, at a failing command they speak when they know something that the prompt did not say.
"""

import json

import pytest
from tests.e2e.clients import Claude
from tests.e2e.loops import Looping, begun, claim, on_path
from tests.e2e.ralphs import bash
from tests.e2e.scripted import say

pytestmark = pytest.mark.e2e

COUNT = "count the till in whole cents"
PLAIN = ("-c", "none", "--no-verify")
MEMORY = "The till counts in whole cents, never in fractions."
FACT = "The drawer opens only after PULSE 42 was sent to the printer."
PORT = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."
# Longer than the others of a crowded store, so that a prompt without room for those has none for it.
FIX = (
    PORT
    + " It takes a moment; `pg_isready` says when."
    + " The reason is that the importer does not wait." * 5
)
FAILING = bash("echo 'connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1")


@pytest.fixture
def looping(claude: Claude) -> Looping:
    """A project that remembers, and Claude Code with Ralph's hooks on the user's path."""
    on_path(claude, claude.program, "claude")
    return begun(claude, "--agent", "claude")


def test_what_one_run_learned_is_in_the_prompt_of_the_next(looping: Looping) -> None:
    learned = (
        f'<knowledge tags="printer,drawer" title="How the drawer opens">\n{FACT}\n</knowledge>'
    )
    looping.server.script(claim(learned), when="mend the printer")
    looping.server.script(claim(), when="let the drawer open")

    first = looping.run("mend the printer", *PLAIN)
    second = looping.run("let the drawer open", *PLAIN)

    assert (first.code, second.code) == (0, 0), first.errors + second.errors
    assert looping.server.unscripted == []
    [asked], [again] = first.requests, second.requests
    assert FACT not in asked.text
    assert again.text.count(FACT) == 1
    assert "## Project Knowledge" in again.text
    [file] = (looping.project / ".ralph/knowledge").glob("*.md")
    assert FACT in file.read_text(encoding="utf-8")
    newer, older = looping.runs()
    assert looping.snapshot(newer["id"], 1).strip() in again.text
    assert older["id"] in file.read_text(encoding="utf-8")


def test_the_hooks_record_what_happens_in_an_iteration_and_inject_nothing_twice(
    looping: Looping,
) -> None:
    looping.ralph.remember(MEMORY, "decision")
    looping.ralph.remember(FIX, "fix")
    looping.ralph.remember_many(60, "fix")
    looping.script(1, bash("echo one-and-twenty"), say("<journal>\nNot yet.\n</journal>"))
    looping.script(2, FAILING, FAILING, claim())

    run = looping.run(COUNT, *PLAIN, "--permission", "bypass")

    assert run.code == 0, run.errors
    assert looping.server.unscripted == []
    [known] = looping.runs()
    assert [request.text.count(MEMORY) for request in run.requests] == [1] * 5
    assert [request.text.count(FIX) for request in run.requests] == [0, 0, 0, 1, 1]
    first, second = looping.journal()
    assert sorted(looping.logged()) == sorted([first.session, second.session])
    for entry in (first, second):
        lines = looping.logged()[entry.session]
        told = [
            line.get("origin", line) for line in lines if line["type"] in ("event", "observation")
        ]
        assert {(each["run"], each["iteration"], each["task"]) for each in told} == {
            (known["id"], entry.iteration, known["task"])
        }
    # What is found later: what was done, with its run; of the loop's own prompt only the goal.
    prompt, used = looping.ralph.observations(first.session)  # its answer was a journal alone
    assert (prompt.title, prompt.text) == ("prompt", COUNT)
    best = json.loads(looping.ralph("search", "one-and-twenty", "--format", "json"))["hits"][0]
    assert (best["id"], best["session"]) == (used.id, first.session)
    assert (best["run"], best["iteration"], best["task"]) == (known["id"], 1, known["task"])
    assert [each["summary"].splitlines()[0] for each in looping.ralph.sessions()] == [
        f"Goal: {COUNT}"
    ] * 2
    assert [event for event, _ in looping.ralph.injections(first.session)] == []
    assert [event for event, _ in looping.ralph.injections(second.session)] == [
        "PostToolUseFailure"
    ]


@pytest.mark.soak
def test_a_fix_that_the_prompt_has_is_not_injected_again_at_the_failing_command(
    looping: Looping,
) -> None:
    looping.ralph.remember(FIX, "fix")
    looping.script(1, FAILING, claim())

    run = looping.run("find out why port 5432 is refused", *PLAIN, "--permission", "bypass")

    assert run.code == 0, run.errors
    assert [request.text.count(FIX) for request in run.requests] == [1, 1]
