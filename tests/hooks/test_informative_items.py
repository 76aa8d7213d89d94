"""What a prompt gets from the record informs: never a command with nothing but its exit code."""

import json
from pathlib import Path

import pytest
from tests.support.world import World, payload, world

from ralph.core import paths
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.formats.log import encode_record
from ralph.hooks.handler import run_event
from ralph.search import index

GOLDEN = Path(__file__).parents[1] / "golden" / "errors"
COLLECTION_ERROR = (GOLDEN / "pytest-collection.txt").read_text(encoding="utf-8")
IMPORT_ERROR = "pytest printed: \"ImportError: cannot import name 'parse_arguments' from 'shop'"


class Project:
    """A project whose sessions are told event by event."""

    def __init__(self, made: World) -> None:
        self.made = made

    def say(self, session: str, event: str, **members: object) -> str:
        """Handle an event, and return what is injected."""
        sent = payload(event, session_id=session, cwd=str(self.made.root), **members)
        printed = run_event("claude", event, sent, self.made.env)
        if not printed:
            return ""
        return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"])

    def run(self, command: str, output: str = "", *, failed: bool = False, session: str) -> str:
        """Run a command, and return what is injected after it."""
        given = {"tool_name": "Bash", "tool_input": {"command": command}}
        if failed:
            return self.say(session, "PostToolUseFailure", **given, error=f"Exit code 1\n{output}")
        answer = {"stdout": output, "stderr": ""}
        return self.say(session, "PostToolUse", **given, tool_response=answer)

    def ask(self, prompt: str) -> str:
        """Return what a prompt of a new session gets."""
        index.sync(self.made.root)
        return self.say("s-later", "UserPromptSubmit", prompt=prompt)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(world(tmp_path))


def test_a_failed_command_comes_with_the_line_that_names_its_error(project: Project) -> None:
    project.run("pytest -q tests/test_cli.py", COLLECTION_ERROR, failed=True, session="s-1")
    given = project.ask("why does pytest tests/test_cli.py fail?")
    assert "$ pytest -q tests/test_cli.py" in given
    assert IMPORT_ERROR in given
    assert "exit code" not in given
    assert "Bash:" not in given


def test_an_imported_failure_with_a_poor_line_comes_with_what_its_output_says(
    project: Project,
) -> None:
    request = "$ pytest -q tests/test_cli.py\nexit code 2"
    stored = Record(
        "obs-1700000001-0001",
        ObservationKind.ERROR,
        f"{request}\n{COLLECTION_ERROR[:1500]}",
        Family.OBSERVATION,
        title="Bash: pytest -q tests/test_cli.py",
        origin=Origin(by="tool", session="s-old"),
        created_at="2026-01-01T10:00:00Z",
        extra={"error": "ERROR tests/test_cli.py", "own": len(request)},
    )
    log = paths.sessions_folder(project.made.root) / "s-old.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(encode_record(stored), encoding="utf-8")
    assert IMPORT_ERROR in project.ask("why does pytest tests/test_cli.py fail?")


def test_a_failed_command_that_names_no_error_is_left_out(project: Project) -> None:
    project.run("make gizmo", "make: *** [Makefile:8: gizmo] Error 1", failed=True, session="s-1")
    assert project.ask("why does make gizmo fail?") == ""


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline -5 -- gizmo.go | head",
        "grep -rn 'gizmo\\|widget' src",
        "kubectl get pods -l app=gizmo",
        "cd gizmo && ls -la && cat gizmo.go",
    ],
)
def test_a_command_that_only_looks_is_left_out(project: Project, command: str) -> None:
    project.run(command, "gizmo", session="s-1")
    assert project.ask("what about the gizmo in gizmo.go?") == ""


def test_a_command_is_one_item_in_all_its_spellings(project: Project) -> None:
    for number, command in enumerate(
        ["make gizmo", "cd app && make gizmo 2>&1 | tail -5", "CI=1 make gizmo; echo $?"]
    ):
        error = f"error: the flange refused {number} bolts"
        project.run(command, error, failed=True, session=f"s-{number}")
    given = project.ask("make gizmo fails: the flange refused the bolts")
    assert given.count("make gizmo") == 1


def test_asking_for_the_tests_brings_nothing(project: Project) -> None:
    project.run("pytest -q", COLLECTION_ERROR, failed=True, session="s-1")
    project.run("pytest -q", "4 passed", session="s-1")
    project.run("npm test", "4 passing", session="s-2")
    for prompt in ("run the tests", "run the tests please", "can you run the tests again?"):
        assert project.ask(prompt) == ""


def test_a_command_without_an_error_gives_way_to_what_was_said_about_it(project: Project) -> None:
    command = "tools/release.sh gizmo --unsigned"
    project.run(command, session="s-0")
    assert f"$ {command}" in project.ask("how was the gizmo release made, unsigned?")
    project.say("s-1", "UserPromptSubmit", prompt="make the gizmo release, unsigned")
    project.run(command, session="s-1")
    answer = "The gizmo release is unsigned; the signing key is on the stick of Fenna."
    project.say("s-1", "Stop", last_assistant_message=answer)
    index.sync(project.made.root)
    given = project.say(
        "s-9", "UserPromptSubmit", prompt="how was the gizmo release made, unsigned?"
    )
    assert answer in given
    assert "$ tools" not in given


# --- what solved the same error before ----------------------------------------------------------

COMMAND = "python -m pytest -q tests/test_cli.py"
OTHER_ERROR = "E   KeyError: 'currency'\nERROR tests/test_cli.py"


def solve(
    project: Project, *steps: str, session: str = "s-1", error: str = COLLECTION_ERROR
) -> None:
    """Let a session fail, take steps, and pass."""
    project.run(COMMAND, error, failed=True, session=session)
    for step in steps:
        project.run(step, session=session)
    project.run(COMMAND, "4 passed", session=session)
    index.sync(project.made.root)


def test_a_failure_that_was_solved_before_brings_what_made_the_command_pass(
    project: Project,
) -> None:
    solve(project, "pip install 'shop<2'")
    given = project.run(COMMAND, COLLECTION_ERROR, failed=True, session="s-2")
    assert IMPORT_ERROR in given
    assert "It passed after `pip install 'shop<2'`." in given
    assert project.run(COMMAND, COLLECTION_ERROR, failed=True, session="s-2") == ""  # once


def test_another_command_with_the_same_error_gets_it_as_well(project: Project) -> None:
    solve(project, "pip install 'shop<2'")
    given = project.run("make check", COLLECTION_ERROR, failed=True, session="s-2")
    assert "It passed after `pip install 'shop<2'`." in given


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        pytest.param(["pip install 'shop<2'"], OTHER_ERROR, id="another error"),
        pytest.param([], COLLECTION_ERROR, id="nothing was changed"),
        pytest.param(["git status", "ls -la"], COLLECTION_ERROR, id="only looked"),
        pytest.param([f"make step-{n}" for n in range(9)], COLLECTION_ERROR, id="too many changes"),
    ],
)
def test_a_failure_whose_solution_is_not_known_brings_nothing(
    project: Project, steps: list[str], error: str
) -> None:
    solve(project, *steps, error=error)
    assert project.run(COMMAND, COLLECTION_ERROR, failed=True, session="s-2") == ""


def test_the_newest_solution_comes_first(project: Project) -> None:
    for number, version in enumerate(["shop<2", "shop<3"]):
        solve(project, f"pip install '{version}'", session=f"s-{number}")
    given = project.run(COMMAND, COLLECTION_ERROR, failed=True, session="s-9")
    assert given.index("shop<3") < given.index("shop<2")


def test_a_prompt_about_an_error_gets_what_solved_it(project: Project) -> None:
    solve(project, "pip install 'shop<2'")
    given = project.ask("ImportError again: cannot import parse_arguments from shop")
    assert IMPORT_ERROR in given
    assert "It passed after `pip install 'shop<2'`." in given


# --- questions and answers ----------------------------------------------------------------------

QUESTION = "which pytest for cli tests?"
EXPLANATION = "CLI tests fail with pytest 9. Installing 'pytest<8.4' fixes the CLI tests."


def talk(project: Project, session: str, prompt: str, answer: str) -> None:
    project.say(session, "UserPromptSubmit", prompt=prompt)
    project.say(session, "Stop", last_assistant_message=answer)


def test_the_turn_that_explains_is_given_and_not_the_questions_without_an_answer(
    project: Project,
) -> None:
    talk(project, "s-0", "the cli tests fail at collection, why?", EXPLANATION)
    for number in (1, 2, 3):
        talk(project, f"s-{number}", QUESTION, "CLI tests fail.")
    talk(project, "s-4", "add a csv option to routes", "Added --format csv.")
    given = project.ask(QUESTION)
    assert EXPLANATION in given
    assert QUESTION not in given


def test_a_question_that_is_asked_and_answered_again_and_again_is_one_item(
    project: Project,
) -> None:
    for number in (1, 2, 3):
        talk(project, f"s-{number}", QUESTION, EXPLANATION)
    talk(project, "s-4", "add a csv option to routes", "Added --format csv.")
    assert project.ask(QUESTION).count(EXPLANATION) == 1
