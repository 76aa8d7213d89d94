"""In a project where nothing is yet, every listing is valid JSON, and a name that nothing has is an error."""

import json
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
        elif found is not None:
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
