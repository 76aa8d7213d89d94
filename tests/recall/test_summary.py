"""A better summary by somebody's command: real programs, which answer, fail, hang, and say too much."""

import json
from pathlib import Path

import pytest
from tests.support.injections import KNOWN_HOSTILE
from tests.support.python_commands import program
from tests.support.session_logs import about, line, put

from ralph.core import paths
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import ObservationKind
from ralph.core.settings import Config, Memories
from ralph.recall import session_start, session_summary

NAME = "aaaa-1"
LOG = f"log/sessions/{NAME}.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one session that came to its end."""
    put(
        tmp_path, NAME, line(NAME, 1, "add a login page"),
        line(NAME, 2, "$ npm test\nTypeError: x is undefined", ObservationKind.ERROR, "tool"),
        line(NAME, 3, "The login page is there.", by="agent"), about(NAME, summary="Goal: a login page"),
    )  # fmt: skip
    return tmp_path


def improve(root: Path, code: str, *, patterns: tuple[str, ...] = (), timeout: float = 30.0) -> str:
    """Return why nothing changed."""
    return session_summary.improve_summary(
        root, NAME, program(code), patterns=patterns, timeout=timeout
    )


def test_what_the_command_prints_is_the_summary_from_then_on(root: Path) -> None:
    assert improve(root, r"print('A login page was added.\nOpen: its tests')") == ""
    assert session_summary.summarize(root, NAME).text == "A login page was added.\nOpen: its tests"
    last = json.loads(paths.source_path(root, LOG).read_text(encoding="utf-8").splitlines()[-1])
    assert (last["type"], last["id"], last["summary_by"]) == ("session", NAME, "command")
    start = session_start.brief_session(
        root, Config(memories=Memories(skill_injection=False)), "another"
    ).text
    assert "A login page was added." in start


def test_the_next_summary_of_the_session_replaces_it(root: Path) -> None:
    improve(root, "print('By the command.')")
    with paths.source_path(root, LOG).open("a", encoding="utf-8", newline="") as file:
        file.write(about(NAME, summary="By the next Stop."))
    assert session_summary.summarize(root, NAME).text == "By the next Stop."


def test_the_command_reads_the_task_the_summary_and_the_session_as_markdown(root: Path) -> None:
    improve(
        root,
        "import sys; open('seen.md', 'w', encoding='utf-8').write(sys.stdin.read()); print('ok')",
    )
    seen = (root / "seen.md").read_text(encoding="utf-8")
    assert seen.startswith(session_summary.SUMMARY_PROMPT)
    assert (
        seen.index("## The summary so far")
        < seen.index("Goal: a login page")
        < seen.index("## The session")
    )
    assert (
        seen.index("add a login page")
        < seen.index("TypeError: x is undefined")
        < seen.index("The login page is there.")
    )


def test_a_long_session_is_trimmed_and_both_ends_of_it_are_read(root: Path) -> None:
    steps = [
        line(NAME, n % 600, f"step {n} " + "word " * 300, ObservationKind.TOOL_USE, "tool")
        for n in range(4, 400)
    ]
    put(
        root,
        NAME,
        line(NAME, 1, "add a login page"),
        *steps,
        line(NAME, 601, "Done at last.", by="agent"),
    )
    improve(
        root,
        "import sys; open('seen.md', 'w', encoding='utf-8').write(sys.stdin.read()); print('ok')",
    )
    seen = (root / "seen.md").read_text(encoding="utf-8")
    assert len(seen) < 200_000
    assert "Done at last." in seen
    assert "step 399" in seen


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("pass", "printed nothing"),
        ("print('  \\n')", "printed nothing"),
        ("import sys; print('half'); sys.exit('no model here')", "with 1: no model here"),
        ("print('x' * 7000)", "printed more than 6000 characters"),
        ("import sys; sys.stdout.write('x' * 900_000)", "printed more than 6000 characters"),
    ],
)
def test_an_answer_that_is_none_changes_nothing_and_is_told(
    root: Path, code: str, why: str
) -> None:
    before = paths.source_path(root, LOG).read_bytes()
    reason = improve(root, code)
    assert why in reason
    assert "\n" not in reason
    assert paths.source_path(root, LOG).read_bytes() == before


def test_a_command_that_hangs_is_ended_and_changes_nothing(root: Path) -> None:
    before = paths.source_path(root, LOG).read_bytes()
    why = improve(root, "import time; print('early', flush=True); time.sleep(600)", timeout=0.5)
    assert "took longer than 0.5 seconds" in why
    assert paths.source_path(root, LOG).read_bytes() == before


def test_a_command_that_is_not_there_is_told(root: Path) -> None:
    why = session_summary.improve_summary(root, NAME, "no-such-program-at-all --x")
    assert "no-such-program-at-all could not be run" in why


def test_a_command_is_words_and_no_shell_reads_them(root: Path) -> None:
    command = f"{program('import sys; print(sys.argv[1:])')} '$(touch made)' ';' touch made"
    assert session_summary.improve_summary(root, NAME, command) == ""
    assert session_summary.summarize(root, NAME).text == "['$(touch made)', ';', 'touch', 'made']"
    assert not (root / "made").exists()


@pytest.mark.parametrize("command", ["", "   ", "claude -p 'unclosed"])
def test_a_command_that_is_none_is_wrong_usage(root: Path, command: str) -> None:
    with pytest.raises(UsageError, match=r"summarize\.command"):
        session_summary.improve_summary(root, NAME, command)


def test_hooks_of_an_agent_that_is_the_command_do_nothing(root: Path) -> None:
    improve(root, "import os; print(os.environ['RALPH_DISABLE'], os.environ['PATH'])")
    assert session_summary.summarize(root, NAME).text.startswith("1 /")


def test_secrets_and_private_parts_reach_neither_the_command_nor_the_log(root: Path) -> None:
    put(
        root,
        NAME,
        line(NAME, 1, "the project is called Bluebird"),
        line(NAME, 2, "Fine.", by="agent"),
    )
    token = "ghp_" + "kJ8sQ2vXwLpR4tYzB7nMcD9fGhA3eU5iO1xZ"
    code = f"import sys; print('Bluebird' in sys.stdin.read(), '<private>x</private>', '{token}', 'Bluebird')"
    improve(root, code, patterns=("Blue[a-z]+",))
    written = paths.source_path(root, LOG).read_text(encoding="utf-8").splitlines()[-1]
    assert session_summary.summarize(root, NAME).text.startswith("False")
    assert [word for word in ("Bluebird", "<private>", token) if word in written] == [], written


def test_lines_that_give_orders_are_left_out(root: Path) -> None:
    improve(root, f"print('All well.'); print({('Goal: ' + KNOWN_HOSTILE[0])!r})")
    assert session_summary.summarize(root, NAME).text == "All well."


def test_a_session_that_went_on_meanwhile_keeps_its_own_summary(root: Path) -> None:
    log = str(paths.source_path(root, LOG))
    code = f"open({log!r}, 'a', encoding='utf-8').write({line(NAME, 9, 'one more thing')!r}); print('Too late.')"
    assert "continued" in improve(root, code)
    assert "Too late." not in paths.source_path(root, LOG).read_text(encoding="utf-8")


def test_a_session_of_which_nothing_is_recorded_is_not_improved(root: Path) -> None:
    put(root, "empty", about("empty", started_at="2026-11-09T08:00:00Z"))
    why = session_summary.improve_summary(root, "empty", program("print('x')"))
    assert why == "nothing is recorded of this session"
    with pytest.raises(NotFound):
        session_summary.improve_summary(root, "nope", program("print('x')"))
