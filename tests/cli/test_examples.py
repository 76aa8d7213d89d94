"""Every example of every help page runs, in a project that has what it names."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs.generate import commands
from tests.support import example_project
from tests.support.people import Window
from tests.support.runner import Project, command, executable

from ralph.cli.main import cli

NOT_RUN = {
    "ralph demo": "tests/test_demo.py runs it, and it takes long",
    "ralph index sync --embed": "needs a model",
    "ralph team": "needs a PostgreSQL server, as tests/team has",
}
"""Beginnings of examples that are only parsed, and why."""

UNTIL_INTERRUPTED = ("ralph web", "ralph mcp serve --http")
"""Beginnings of examples that run until Ctrl-C."""

OWN_PROCESS = ("ralph mcp serve",)
"""Beginnings of examples that read the standard input of a process."""

BY_A_PERSON = ("ralph review accept ins-", "ralph review reject ins-")
"""Beginnings of examples that only a person at a terminal may run."""

PREPARATIONS = {
    "ralph task merge": "ralph task start t-1a2b3c --worktree",
    "ralph task drop": "ralph task start t-1a2b3c --worktree",
    "ralph restore": "ralph backup memory.tar.gz",
    "ralph session chat 3f2a": 'ralph session chat --task t-1a2b3c "How?"',
}
"""Beginnings of examples, and what must happen before them."""

FINDS = re.compile(r"ralph (memory )?(search|context) |ralph graph show --query")
"""Examples that must find something."""


def examples() -> Iterator[str]:
    """Yield the calls of `ralph` that the help pages show."""
    for _, found in commands(cli):
        for line in (found.help or "").partition("Examples:")[2].splitlines():
            if line.strip().startswith("ralph "):
                yield line.strip()


def words_of(example: str) -> list[str]:
    """Split an example, without its redirection, into the words after the program."""
    return shlex.split(re.split(r" [<>|] |   ", example)[0])[1:]


EXAMPLES = list(dict.fromkeys(examples()))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return example_project.build(tmp_path_factory.mktemp("examples") / "project")


@pytest.fixture
def project(sample: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the project, with the programs that the examples need."""
    for name, value in example_project.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", example_project.install_programs(tmp_path / "programs"))
    (tmp_path / "nobody" / ".codex").mkdir(parents=True)
    (tmp_path / "other-project").mkdir()
    return example_project.copy(sample, tmp_path / "copy")


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_parses(example: str) -> None:
    arguments = words_of(example)
    group: click.Command = cli
    while isinstance(group, click.Group) and arguments:
        below = group.get_command(click.Context(group), arguments[0])
        if below is None:
            break
        group = below
        arguments.pop(0)
    with group.make_context("ralph", arguments):
        pass


@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if not each.startswith((*NOT_RUN, *UNTIL_INTERRUPTED))]
)
def test_an_example_runs(project: Project, example: str) -> None:
    for beginning, preparation in PREPARATIONS.items():
        if example.startswith(beginning):
            prepared = project(*words_of(preparation))
            assert prepared.code == 0, prepared.err
    if example == "ralph memory init":
        project.file(".agent/memories.md").unlink()
    if example.startswith("ralph loop stop run-1a2b3c4d"):
        example_project.keep_running(project)
    if example.startswith(OWN_PROCESS):
        assert executable(project.root, *words_of(example)).returncode == 0
        return
    if example.startswith(BY_A_PERSON):
        with Window(project.root) as person:
            printed = person.run(example.removeprefix("ralph "))
        assert "error" not in printed
        return
    answer = project(*words_of(example), stdin="jwt errors")
    assert answer.code == 0, f"{example}: {answer.out}{answer.err}"
    if "--detach" in example:
        assert project("loop", "status", "--watch").code == 0  # until the run has ended
    if FINDS.match(example):
        assert not re.match(r"No\w* |\Z", answer.out), f"{example} finds nothing: {answer.out}"


@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if each.startswith(UNTIL_INTERRUPTED)]
)
def test_an_example_runs_until_it_is_interrupted(project: Project, example: str) -> None:
    words = ["0" if word.isdecimal() else word for word in words_of(example)]  # a free port
    link = "--link" in words
    first = [word for word in words if word != "--link"]
    with subprocess.Popen(
        [*command(), *first],
        cwd=project.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            if link:
                assert executable(project.root, *words).returncode == 0
            process.send_signal(signal.SIGINT)
            process.stdout.read()
        except BaseException:
            process.kill()  # otherwise the end of the block would wait for it
            raise
    assert process.returncode in (0, 130)


def test_only_examples_that_exist_are_exceptions() -> None:
    for beginning in (*NOT_RUN, *UNTIL_INTERRUPTED, *OWN_PROCESS, *BY_A_PERSON, *PREPARATIONS):
        assert any(example.startswith(beginning) for example in EXAMPLES), beginning
