"""The documentation is true: generated pages match the program, every command has help with an example."""

import re
from pathlib import Path

import click
import pytest

from docs.generate import cli_page, commands, config_page
from ralph.cli.main import cli
from ralph.config import KEYS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_command_page_is_what_the_program_says() -> None:
    assert read("docs/cli.md") == cli_page(), "run `make docs`"


def test_the_config_page_lists_every_key_as_the_program_has_it() -> None:
    page = read("docs/config.md")
    assert page == config_page(page), "run `make docs`"
    for key in KEYS:
        assert f"`{key.name}`" in page, key.name


@pytest.mark.parametrize(("name", "command"), list(commands(cli)), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_has_help_with_an_example_and_every_option_says_what_it_does(
    name: str, command: click.Command
) -> None:
    assert command.help, name
    examples = command.help.partition("Examples:")[2]
    assert f"{name} " in examples + " " or f"{name}\n" in examples + "\n", f"{name}: its help has no example of itself"
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_named_in_the_pages_exist(page: Path) -> None:
    known = {name for name, _ in commands(cli)}
    firsts = {name.split()[1] for name in known if len(name.split()) > 1}
    fenced = re.findall(r"^\s*(?:\$ )?(ralph [a-z]+(?: [a-z]+)?)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for found in fenced:
        words = found.split()
        assert words[1] in firsts, f"{page.name}: {found}"


def test_every_decision_record_is_listed_in_the_index() -> None:
    index = read("docs/adr/README.md")
    for page in sorted((ROOT / "docs/adr").glob("0*.md")):
        assert page.name in index, page.name


def test_the_readme_names_the_two_commands_and_the_installers() -> None:
    readme = read("README.md")
    for words in ("make demo", "make test", "uv tool install", "pipx install"):
        assert words in readme
