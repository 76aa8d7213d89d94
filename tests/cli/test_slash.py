"""`ralph slash`: what a person types after a slash command is parsed, and nothing ever fails."""

import re

import pytest
from tests.support.runner import Block, Project, numbered, shortened

from ralph.cli.loop import start
from ralph.cli.search import search_
from ralph.cli.slash import split_options

LONG_AGO = "2025-01-01"


@pytest.fixture
def project(ralph: Project) -> Project:
    ralph.memories(
        Block("JWT tokens expire after 15 minutes", numbered(1), "auth", LONG_AGO, "decision"),
        Block("Retry the JWT refresh once", numbered(2), "auth", LONG_AGO, "fix"),
    )
    return ralph


ONE = shortened(numbered(1))


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        pytest.param("jwt", ["jwt"], id="words"),
        pytest.param("--since 1h jwt", ["--since", "1h", "jwt"], id="an option before the words"),
        pytest.param("jwt --since=9w", ["--since", "9w", "jwt"], id="an option after them"),
        pytest.param(f"--layer 3 {ONE}", ["--layer", "3", ONE], id="a layer and an id"),
        pytest.param("jwt -t fix refresh", ["-t", "fix", "jwt refresh"], id="an option between"),
        pytest.param("--tags 'auth,http' jwt", ["--tags", "auth,http", "jwt"], id="in quotes"),
        pytest.param("--full jwt", ["--full", "jwt"], id="a flag"),
        pytest.param("it's the jwt", ["it's the jwt"], id="an apostrophe"),
        pytest.param("jwt\n--no-verify", ["--", "jwt\n--no-verify"], id="an unknown option"),
    ],
)
def test_mem_search_finds_what_the_same_search_finds(
    project: Project, typed: str, called: list[str]
) -> None:
    said = project("slash", "search", "-", stdin=f"{typed}\n")
    expected = project("search", *called)
    assert said == expected


@pytest.mark.parametrize(
    ("command", "typed", "answer"),
    [
        pytest.param("search", "--layer 4 jwt", "--layer", id="a wrong value"),
        pytest.param("search", "jwt --since", "--since", id="a missing value"),
        pytest.param("search", "--around mem-ffff", "Record not found", id="an unknown id"),
        pytest.param("context --best", "", "--best needs words or ids", id="no words"),
        pytest.param("loop", "dance", "there is no command", id="an unknown verb"),
        pytest.param("loop", "start --wrong 3 go", "no option --wrong", id="an unknown option"),
        pytest.param("search", "--help", "Usage: ralph search", id="help"),
        pytest.param("search", "\udcff", "is not UTF-8 text", id="bytes that are not text"),
    ],
)
def test_a_mistake_is_answered_in_words_and_is_not_a_failure(
    project: Project, command: str, typed: str, answer: str
) -> None:
    stdin = typed.encode("utf-8", "surrogateescape")
    said = project("slash", *command.split(), "-", stdin=stdin)
    assert (said.code, said.err) == (0, "")
    assert answer in said.out


def test_the_negative_form_of_a_flag_is_an_option() -> None:
    assert split_options("--no-verify do it", start) == (["--no-verify"], "do it")


def test_apostrophes_do_not_hide_an_option_between_them() -> None:
    typed = split_options("it's slow --since 1h, isn't it", search_)
    assert typed == (["--since", "1h,"], "it's slow  isn't it")


def test_mem_inject_takes_options_and_words(project: Project) -> None:
    said = project("slash", "context", "--best", "-", stdin="refresh --format json\n")
    assert said.code == 0
    assert said.json["records"][0]["id"] == numbered(2)


def test_a_command_without_words_runs_as_it_is(project: Project) -> None:
    assert project("slash", "status").out == project("status").out


def test_the_text_around_the_options_stays_as_it_was_typed() -> None:
    typed = split_options('why "a b"\n\n--since 1h  does --force fail', search_)
    assert typed.options == ["--since", "1h"]
    assert re.split(r"\s+", typed.text) == ["why", '"a', 'b"', "does", "--force", "fail"]
    assert "\n\n" in typed.text
