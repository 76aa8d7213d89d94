"""What holds for every command: whole summaries, errors in one style, valid JSON when there is nothing."""

import json
import re
from collections.abc import Iterator

import click
import pytest
from tests.support.runner import Project

from ralph.cli.main import GROUPS, cli

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
    if words == ("search",):
        words = ("search", "anything")
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
