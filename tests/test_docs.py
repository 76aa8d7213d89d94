"""The documentation is true: generated pages match the program, every command has help with an example."""

import re
from pathlib import Path

import click
import pytest
from docs.generate import cli_page, clients_page, commands, config_page, json_page
from tests.e2e import install_clients as pin

from ralph.cli.main import HIDDEN, cli
from ralph.core.config import KEYS
from ralph.install.clients import CLIENTS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_command_page_is_what_the_program_says() -> None:
    assert read("docs/cli.md") == cli_page(), "run `make docs`"


def test_the_json_page_is_what_the_program_writes() -> None:
    assert read("docs/json.md") == json_page(), "run `make docs`"


def test_the_config_page_lists_every_key_as_the_program_has_it() -> None:
    page = read("docs/config.md")
    assert page == config_page(page), "run `make docs`"
    for key in KEYS:
        assert f"`{key.name}`" in page, key.name


def test_the_page_of_clients_has_the_programs_table_and_the_versions_that_are_run() -> None:
    page = read("docs/clients.md")
    assert page == clients_page(page), "run `make docs`"
    pins = (pin.CLAUDE, pin.CODEX, pin.GEMINI, pin.OPENCODE, pin.QWEN, pin.COPILOT, pin.CLINE)
    assert sorted(
        client.tested_version for client in CLIENTS.values() if client.tested_version
    ) == sorted(each.version for each in pins)


@pytest.mark.parametrize(
    ("name", "command"),
    list(commands(cli)),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_command_has_help_with_an_example_and_every_option_says_what_it_does(
    name: str, command: click.Command
) -> None:
    assert command.help, name
    examples = command.help.partition("Examples:")[2]
    assert f"{name} " in examples + " " or f"{name}\n" in examples + "\n", (
        f"{name}: its help has no example of itself"
    )
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def strangers(text: str) -> list[str]:
    """The commands that a text names at the start of a line or in backticks and that do not exist."""
    table = dict(commands(cli))
    for name in HIDDEN:
        hidden = cli.get_command(click.Context(cli), name)
        assert hidden is not None
        table[f"ralph {name}"] = hidden
    table["ralph help"] = click.Command("help")
    found = re.findall(r"(?:^[ \t]*(?:\$ )?|`)ralph((?:[ \t]+[^\s`]+)+)", text, flags=re.MULTILINE)
    return [unknown for words in found if (unknown := _unknown(words.split(), table))]


def _unknown(words: list[str], table: dict[str, click.Command]) -> str:
    """Return the command or option of a call that does not exist, or ""."""
    name = "ralph"
    for number, word in enumerate(words):
        if not isinstance(table[name], click.Group) or not re.fullmatch(r"[a-z][a-z|-]*", word):
            return _unknown_option(name, table[name], words[number:])
        names = [f"{name} {verb}" for verb in word.split("|")]
        if missing := [each for each in names if each not in table]:
            return missing[0]
        name = names[0]
    return ""


STOPS = ("...", "--", "#", "|", "&&", ";", ">", "<<'END'")
"""Words after which a call has no more options, or none that are known."""


def _unknown_option(name: str, command: click.Command, arguments: list[str]) -> str:
    """Return the first option that the command does not have."""
    known = {"--help", "--root", "--version"}
    for parameter in command.params:
        known.update(parameter.opts, parameter.secondary_opts)
    for word in arguments:
        if word in STOPS:
            return ""
        option = re.match(r"--[a-z][a-z-]*", word)
        if option and option[0] not in known:
            return f"{name} {option[0]}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_named_in_the_pages_exist(page: Path) -> None:
    assert not strangers(page.read_text(encoding="utf-8")), page.name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ralph memory remember me", ["ralph memory remember"]),
        ("  $ ralph dream", ["ralph dream"]),
        ("Try `ralph index burn` now.", ["ralph index burn"]),
        ("ralph index sync|forget", ["ralph index forget"]),
        ('ralph memory add "nothing like it" -t fix', []),
        (
            "`ralph memory show ID`, `ralph context --explain error` and `ralph --root x memory list`",
            [],
        ),
        ("ralph memory --help", []),
        ("Use `ralph memory list --newest 3`.", ["ralph memory list --newest"]),
        ("ralph memory list --last 3  # not --newest", []),
        ("what ralph remembers for you", []),
    ],
)
def test_a_command_is_known_by_noun_and_verb(text: str, found: list[str]) -> None:
    assert strangers(text) == found


PARTS = tuple(path.name for path in (ROOT / "src/ralph").iterdir() if path.is_dir())
PATH = re.compile(
    r"`(?P<path>(?:src/ralph|tests|docs|bench|plugin|tools|\.ci)/[\w./-]+"
    rf"|(?:{'|'.join(PARTS)})/[\w/]+(?:\.py|\.md|\.sql|/))`"
)
MODULE = re.compile(r"`(?P<path>\w+\.py)`")
NAME_IN_FILE = re.compile(r"`(?P<name>[A-Za-z_]\w*)`\s+(?:in|of)\s+`(?P<path>[\w/]+\.py)`")
SELECTED_TESTS = re.compile(r"pytest (?P<path>tests/[\w/]+\.py) -k (?P<word>\w+)")


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def find_file(name: str) -> Path | None:
    """A file of this repository: pages leave out `src/ralph`."""
    for folder in (ROOT, ROOT / "src/ralph"):
        if (folder / name).exists():
            return folder / name
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_named_in_the_pages_exist(page: Path) -> None:
    text = prose(page)
    for found in PATH.finditer(text):
        assert find_file(found["path"]), found["path"]
    for found in MODULE.finditer(text):
        assert any((ROOT / "src/ralph").rglob(found["path"])), found["path"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_are_in_the_files_where_the_pages_say_they_are(page: Path) -> None:
    for found in NAME_IN_FILE.finditer(prose(page)):
        file = find_file(found["path"])
        assert file is not None, found["path"]
        assert re.search(rf"\b{found['name']}\b", file.read_text(encoding="utf-8")), found[0]


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md"])
def test_the_example_of_running_one_test_selects_some(name: str) -> None:
    example = SELECTED_TESTS.search(read(name))
    assert example is not None
    assert re.search(rf"def test_\w*{example['word']}", read(example["path"])), example[0]


def test_every_decision_record_is_listed_in_the_index() -> None:
    index = read("docs/adr/README.md")
    for page in sorted((ROOT / "docs/adr").glob("0*.md")):
        assert page.name in index, page.name


def test_the_readme_names_the_two_commands_and_the_installers() -> None:
    readme = read("README.md")
    for words in (
        "make demo",
        "make test",
        "uv tool install '.[all]'",
        "pipx install '.[all]'",
        "uv tool install 'ralph-memory[all]'",
        "pipx install 'ralph-memory[all]'",
    ):
        assert words in readme


def test_the_readme_says_how_to_leave() -> None:
    section = read("README.md").partition("## Uninstall\n")[2].partition("\n## ")[0]
    for words in (
        "ralph deinit",
        "ralph uninstall --all",
        "uv tool uninstall ralph-memory",
        "pipx uninstall ralph-memory",
    ):
        assert words in section
