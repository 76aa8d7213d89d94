"""The tree of commands: how many there are, and what a former name or a guess answers."""

import re
from collections.abc import Iterator

import click
import pytest
from tests.support.runner import Project

from ralph.cli.former_names import MOVED, TRIED
from ralph.cli.main import HIDDEN, cli

MAX_COMMANDS = 65


def leaves(
    group: click.Group = cli, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that is not a group, hidden ones included."""
    ctx = click.Context(group)
    names = [*group.list_commands(ctx), *(HIDDEN if group is cli else ())]
    for name in names:
        found = group.get_command(ctx, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, (*above, name))
        else:
            yield (*above, name), found


def find(words: list[str]) -> click.Command:
    """Return the command that some words call."""
    command: click.Command = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found
    return command


def test_there_are_at_most_65_commands() -> None:
    names = [" ".join(words) for words, _ in leaves()]
    assert len(names) <= MAX_COMMANDS, names


@pytest.mark.parametrize("former", sorted(MOVED))
def test_a_former_name_answers_with_the_new_one(ralph: Project, former: str) -> None:
    said = ralph(*former.split(), "anything", "--whatever")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: `ralph {former}` is now `{MOVED[former]}`\n"
    assert not ralph.files()


@pytest.mark.parametrize("tried", sorted(TRIED))
def test_a_word_that_people_try_answers_with_the_command(ralph: Project, tried: str) -> None:
    said = ralph(*tried.split(), "anything")
    assert (said.code, said.out) == (2, "")
    assert f"use `{TRIED[tried]}`" in said.err


@pytest.mark.parametrize("call", sorted({*MOVED.values(), *TRIED.values()}))
def test_the_command_that_an_answer_names_has_these_options(call: str) -> None:
    program, *words = call.split()
    assert program == "ralph"
    command = find(words)
    assert not isinstance(command, click.Group) or command.invoke_without_command, call
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", call):
        assert option in options, call


@pytest.mark.parametrize(
    ("words", "same"),
    [
        pytest.param("help", "--help", id="help"),
        pytest.param("help memory add", "memory add --help", id="help for a command"),
        pytest.param("version", "--version", id="version"),
    ],
)
def test_help_and_version_work_without_dashes(ralph: Project, words: str, same: str) -> None:
    said = ralph(*words.split())
    assert said == ralph(*same.split())
    assert said.code == 0


@pytest.mark.parametrize(
    ("words", "command"),
    [("memory rm", "ralph memory delete"), ("memory ls", "ralph memory list")],
)
def test_a_synonym_names_the_command(ralph: Project, words: str, command: str) -> None:
    said = ralph(*words.split())
    assert (said.code, f"did you mean `{command}`?" in said.err) == (2, True)
