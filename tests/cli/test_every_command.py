"""What holds for every command: examples that parse, errors in one style, valid JSON when there is nothing."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.runner import Block, Project
from tests.support.session_logs import line as log_line

from ralph.cli.main import GROUPS, cli
from ralph.core import ids

MAX_SUMMARY = 60
"""Characters of a summary: it fits on one line of a group's page."""

MAX_OPTIONS_UNDER_HEADING = 8

SHOWN_BY_NAME = {"show", "log"}
LISTINGS = {
    "list",
    "show",
    "search",
    "status",
    "ready",
    "links",
    "match",
    "prime",
    "summary",
}
NOT_RUN = {
    ("web",),
    ("demo",),
    ("trust",),
    ("mcp", "serve"),
    ("loop", "start"),
    ("loop", "resume"),
    ("session", "new"),
    ("session", "resume"),
    ("task", "merge"),
    ("task", "drop"),
    ("review", "refine"),
    ("merge-driver",),
    *(("team", name) for name in ("join", "sync", "forget", "leave", "admin")),
}
"""Commands whose examples need an agent, a network, a terminal or git."""
NOT_RUN_OPTIONS = {"--watch", "--improve", "--check", "--embed", "--worktree", "--mcp"}
NOTHING_TO_FIND = (
    "run-1a2b3c4d",
    "ins-a231",
    "obs-12ab",
    "hunter2",
    "--log",
    "ralph restore",
    "--remove",
    "--before 90d",
    "review --ci",
)
"""Parts of examples whose record, run or edge the sample has not: they end with 1 and an error."""


def commands(
    group: click.Group = cli, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*above, name))
        elif found is not None and not found.hidden:
            yield (*above, name), found


def speaks_json(command: click.Command) -> bool:
    formats = [each.type for each in command.params if "--format" in each.opts]
    return any(isinstance(each, click.Choice) and "json" in each.choices for each in formats)


def needs(command: click.Command) -> bool:
    return any(each.required for each in command.params)


ALL = [(words, each) for words, each in commands() if speaks_json(each)]


@pytest.mark.parametrize(
    "words", [words for words, each in ALL if words[-1] in LISTINGS and not needs(each)]
)
def test_a_listing_of_nothing_is_valid_json(ralph: Project, words: tuple[str, ...]) -> None:
    said = ralph(*words, "--format", "json")
    assert said.code == 0, said.err
    json.loads(said.out)
    assert ralph(*words).code == 0


@pytest.mark.parametrize(
    "words",
    [words for words, each in ALL if words[-1] in SHOWN_BY_NAME],
)
def test_a_name_that_nothing_has_is_an_error_on_stderr(
    ralph: Project, words: tuple[str, ...]
) -> None:
    said = ralph(*words, "nobody-1705751400-ffff", "--format", "json")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")


def examples(command: click.Command) -> list[str]:
    """Return the calls of `ralph` that a command's help shows."""
    text = (command.help or "").partition("Examples:")[2]
    return [line.strip() for line in text.splitlines() if line.strip().startswith("ralph ")]


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=[" ".join(words) for words, _ in commands()]
)
def test_examples_in_the_help_are_calls_that_parse(
    words: tuple[str, ...], command: click.Command
) -> None:
    assert examples(command), words
    for line in examples(command):
        arguments = shlex.split(re.split(r" [<>|] |   ", line)[0])[1:]
        group: click.Command = cli
        while isinstance(group, click.Group):
            below = group.get_command(click.Context(group), arguments.pop(0))
            assert below is not None, line
            group = below
        with group.make_context("ralph", arguments, resilient_parsing=False):
            pass


def runnable_examples() -> Iterator[str]:
    """Return the examples of every command and group, the first page included."""
    ctx = click.Context(cli)
    groups = [
        cli,
        *(
            each
            for name in cli.list_commands(ctx)
            if isinstance(each := cli.get_command(ctx, name), click.Group)
        ),
    ]
    for line in (
        line
        for command in (*groups, *(each for _, each in commands()))
        for line in examples(command)
    ):
        words = line.split()[1:]
        names = (tuple(words[:1]), tuple(words[:2]))
        if not (NOT_RUN & {*names} or ("memory", "init") in names or NOT_RUN_OPTIONS & {*words}):
            yield line


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with what the examples of the help name."""
    root = tmp_path_factory.mktemp("examples") / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (root.parent / "other-project").mkdir()
    project = Project(root)
    text = "ECONNREFUSED: run docker compose up first, see src/db/schema.ts, src/a.ts and src/b.ts"
    project.memories(
        Block(text, tags="db, docker"),
        Block(
            "jwt errors: ask keys.current() in src/auth.ts",
            "mem-1736942400-b1c2",
            "",
            ids.today(),
            "fix",
        ),
        Block("npm test fails: run npm run build first", "mem-1736942400-b1c3", kind="fix"),
        Block("The session storage is src/db/schema.ts", "mem-1736942400-b1c4", kind="decision"),
    )
    for name in ("src/db/schema.ts", "src/a.ts", "src/b.ts", "plan.md", "steps.md"):
        project.put(name, "database problem\n")
    project.put(
        "prd.json",
        json.dumps({"project": "shop", "userStories": [{"id": "US-1", "title": "Button"}]}),
    )
    tasks = [
        {"id": name, "title": "Refund", "status": "pending"} for name in ("t-1a2b3c", "t-4d5e6f")
    ]
    project.put("tasks.jsonl", "".join(f"{json.dumps(task)}\n" for task in tasks))
    project.put(
        ".ralph/features/f-0c0ffe/feature.json", json.dumps({"id": "f-0c0ffe", "title": "Refunds"})
    )
    for call in (
        ("import", "--tasks", "tasks.jsonl", "--yes"),
        (
            "memory",
            "add",
            "Tag it.",
            "--in",
            "knowledge",
            "--title",
            "Release steps",
            "--tags",
            "release",
        ),
        (
            "memory",
            "add",
            "Twice.",
            "--in",
            "knowledge",
            "--title",
            "Retry policy",
            "--tags",
            "http",
        ),
        (
            "memory",
            "add",
            "Ten seconds.",
            "--in",
            "knowledge",
            "--title",
            "Timeouts",
            "--tags",
            "http",
        ),
    ):
        answer = project(*call)
        assert answer.code == 0, answer.err
    return project


@pytest.mark.parametrize("example", sorted(set(runnable_examples())))
def test_examples_in_the_help_run(
    sample: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    (tmp_path / "nobody" / ".codex").mkdir(parents=True)
    (tmp_path / "other-project").mkdir()
    copy = Project(tmp_path / "copy")
    shutil.copytree(sample.root, copy.root)
    copy.put("log/sessions/3f2a.jsonl", log_line("3f2a", 1, "fix the login")).chmod(0o600)
    answer = copy(*shlex.split(re.split(r" [<>|] |   ", example)[0])[1:], stdin="jwt errors")
    failing = any(part in example for part in NOTHING_TO_FIND)
    assert answer.code == (1 if failing else 0), f"{example}: {answer.err}"
    assert "this is a bug" not in answer.err
    if re.match(r"ralph (\w+ )?(search|context) ", example):
        assert not re.match(r"No\w* |\Z", answer.out), f"{example} finds nothing: {answer.out}"


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=" ".join)
def test_an_unknown_option_is_exit_2_in_one_style(ralph: Project, words: tuple[str, ...]) -> None:
    answer = ralph(*words, "--no-such-option-there-is")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 2
    assert not ralph.files()


def summary(command: click.Command) -> str:
    """Return the first line of a command's help."""
    return (command.help or "").partition("\n")[0]


@pytest.mark.parametrize(("words", "command"), list(commands()), ids=lambda value: str(value)[:30])
def test_a_summary_is_one_short_sentence(words: tuple[str, ...], command: click.Command) -> None:
    assert summary(command).endswith("."), words
    assert len(summary(command)) <= MAX_SUMMARY, words


def test_the_first_page_has_the_summaries_of_the_commands() -> None:
    ctx = click.Context(cli)
    for table in GROUPS.values():
        for name, entry in table.items():
            command = cli.get_command(ctx, name)
            assert command is not None
            assert summary(command) == f"{entry.summary}."
            assert len(entry.summary) <= MAX_SUMMARY


def listed_commands(page: str) -> dict[str, str]:
    """Return the commands of a help page and the rest of their lines."""
    found = re.findall(r"^  ([a-z][a-z-]*)  +(\S.*)$", page, flags=re.MULTILINE)
    return dict(found)


def group_names() -> list[str]:
    ctx = click.Context(cli)
    names = cli.list_commands(ctx)
    return [name for name in names if isinstance(cli.get_command(ctx, name), click.Group)]


@pytest.fixture(params=["80", "200"])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of this width."""
    monkeypatch.setenv("COLUMNS", request.param)


@pytest.mark.usefixtures("columns")
@pytest.mark.parametrize("name", group_names())
def test_the_page_of_a_group_shows_whole_summaries(ralph: Project, name: str) -> None:
    group = cli.get_command(click.Context(cli), name)
    assert isinstance(group, click.Group)
    listed = listed_commands(ralph(name, "--help").out.partition("\nCommands:")[2])
    ctx = click.Context(group)
    for command_name in group.list_commands(ctx):
        command = group.get_command(ctx, command_name)
        assert command is not None
        assert listed[command_name] == summary(command)


@pytest.mark.usefixtures("columns")
def test_the_first_page_and_help_more_show_whole_summaries(ralph: Project) -> None:
    listed = listed_commands(ralph("--help").out) | listed_commands(ralph("help", "more").out)
    for table in GROUPS.values():
        for name, entry in table.items():
            assert listed[name] == entry.summary


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=[" ".join(words) for words, _ in commands()]
)
def test_many_options_are_listed_under_headings(
    ralph: Project, words: tuple[str, ...], command: click.Command
) -> None:
    page = ralph(*words, "--help").out
    sections = re.findall(r"^(\S.*):\n((?:  .*\n)+)", page, flags=re.MULTILINE)
    for heading, lines in sections:
        options = re.findall(r"^  -", lines, flags=re.MULTILINE)
        assert len(options) <= MAX_OPTIONS_UNDER_HEADING, heading
