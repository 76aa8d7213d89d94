"""What holds for every command: examples that parse, errors in one style, valid JSON when there is nothing."""

import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from tests.cli.runner import Project

from ralph.cli.main import cli

SHOWN_BY_NAME = {"show", "log", "neighbors"}
LISTINGS = {
    "list",
    "show",
    "search",
    "status",
    "ready",
    "links",
    "match",
    "prime",
    "verify",
    "summary",
    "path",
    "agents",
    "journal",
}
NEEDS_WORDS = {("graph", "search")}


def commands(group: click.Group = cli, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
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


@pytest.mark.parametrize("words", [words for words, each in ALL if words[-1] in LISTINGS and not needs(each)])
def test_a_listing_of_nothing_is_valid_json(ralph: Project, words: tuple[str, ...]) -> None:
    said = ralph(*words, "--format", "json")
    assert said.code == 0, said.err
    json.loads(said.out)
    assert ralph(*words).code == 0


@pytest.mark.parametrize("words", sorted(NEEDS_WORDS))
def test_a_search_for_nothing_is_valid_json(ralph: Project, words: tuple[str, ...]) -> None:
    assert ralph(*words, "anything", "--format", "json").json == []


@pytest.mark.parametrize(
    "words",
    [
        words
        for words, each in ALL
        if words[-1] in SHOWN_BY_NAME and words not in {("config", "show"), ("scratchpad", "show")}
    ],
)
def test_a_name_that_nothing_has_is_an_error_on_stderr(ralph: Project, words: tuple[str, ...]) -> None:
    said = ralph(*words, "nobody-1705751400-ffff", "--format", "json")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")


def examples(command: click.Command) -> list[str]:
    """Return the calls of `ralph` that a command's help shows."""
    text = (command.help or "").partition("Examples:")[2]
    return [line.strip() for line in text.splitlines() if line.strip().startswith("ralph ")]


@pytest.mark.parametrize(("words", "command"), list(commands()), ids=[" ".join(words) for words, _ in commands()])
def test_examples_in_the_help_are_calls_that_parse(words: tuple[str, ...], command: click.Command) -> None:
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


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=" ".join)
def test_an_unknown_option_is_exit_2_in_one_style(ralph: Project, words: tuple[str, ...]) -> None:
    answer = ralph(*words, "--no-such-option-there-is")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 2
    assert not ralph.files()
