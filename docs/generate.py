"""Writes the generated pages: docs/cli.md, the keys of docs/config.md, the exit codes of docs/loop.md.

Run by `make docs`; `tests/test_docs.py` fails when a page and the program disagree.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ralph.cli.loop import codes
from ralph.cli.main import cli
from ralph.config import KEYS, TRUSTED, as_json
from ralph.formats.config_files import ConfigKey

DOCS = Path(__file__).parent
INTRO = """\
# The commands

Generated from the program by `make docs`; `ralph COMMAND --help` prints the same.

Exit codes: 0 done, 1 failed or not found, 2 wrong usage, 130 interrupted. Every listing has
`--format json`, valid also when it is empty. Notes and warnings go to standard error.
"""


def _default(key: ConfigKey) -> str:
    return json.dumps(as_json(key.default)).strip('"')


def _limit(key: ConfigKey) -> str:
    if not key.personal:
        return ""
    return "In a project's files only after `ralph trust`." if key.name in TRUSTED else "Not in a project's files."


def keys_table() -> str:
    """The table of every key, for docs/config.md."""
    rows = ["| key | value | default | variable | what it does |", "|---|---|---|---|---|"]
    for key in KEYS:
        default = f"`{_default(key)}`" if _default(key) and not key.ignored else "-"
        doc = f"{key.doc} {_limit(key)}".rstrip()
        rows.append(f"| `{key.name}` | {key.expected} | {default} | `{key.variable}` | {doc} |")
    return "\n".join(rows) + "\n"


def commands(command: click.Command, path: tuple[str, ...] = ("ralph",)) -> Iterator[tuple[str, click.Command]]:
    """Every command and group, parents first."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path[-1]) as ctx:
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                if child is not None and not child.hidden:
                    yield from commands(child, (*path, name))


def help_text(name: str, command: click.Command) -> str:
    """What `--help` prints, at a fixed width."""
    names = ["-h", "--help"]
    with click.Context(
        command, info_name=name, max_content_width=100, terminal_width=100, help_option_names=names
    ) as ctx:
        return command.get_help(ctx).rstrip()


def cli_page() -> str:
    """The whole page docs/cli.md."""
    parts = [INTRO]
    for name, command in commands(cli):
        parts.append(f"{'#' * min(len(name.split()) + 1, 4)} {name}\n\n```\n{help_text(name, command)}\n```\n")
    return "\n".join(parts)


def config_page(text: str) -> str:
    """docs/config.md with its table of keys written anew."""
    pattern = re.compile(r"(<!-- generated: keys -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: found[1] + keys_table().strip("\n") + found[2], text)


def loop_page(text: str) -> str:
    """docs/loop.md with its table of exit codes written anew."""
    pattern = re.compile(r"(<!-- generated: exit codes -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{codes()}{found[2]}", text)


PAGES = {"cli.md": lambda text: cli_page(), "config.md": config_page, "loop.md": loop_page}
"""Every page that is generated, or holds something that is."""


def main() -> None:
    """Write the pages that changed."""
    for name, page in PAGES.items():
        path = DOCS / name
        text = page(path.read_text(encoding="utf-8") if path.exists() else "")
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="")
            sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
