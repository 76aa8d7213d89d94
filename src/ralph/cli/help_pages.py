"""How a help page lists options: under headings, if there are many.

An option that several commands share has the same heading everywhere. A command names the headings
of its own options with `sections`; the rest are listed under "Options".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import click

MAX_PAGE_WIDTH = 100  # columns; longer lines are hard to read
MAX_UNGROUPED = 8  # options on a page without headings

Sections = Mapping[str, Sequence[str]]
"""Headings, and the names of the options under each."""

_SHARED_SECTIONS: Sections = {
    "Agent": ("--agent", "--command", "--model", "--permission"),
    "Limits": ("--max-iterations", "--max-minutes", "--max-cost"),
    "Output": (
        "--limit",
        "--offset",
        "--short",
        "--full",
        "--layer",
        "--explain",
        "--watch",
        "--format",
    ),
    "Global options": ("--root", "--version", "--help"),
}
FILTERS: Sections = {
    "Filters": (
        "--only",
        "--in",
        "--type",
        "--tags",
        "--last",
        "--recent",
        "--since",
        "--until",
        "--as-of",
        "--status",
        "--feature",
        "--project",
        "--task",
        "--all-tasks",
    )
}
"""For commands that list or search. Elsewhere, `--type` or `--tags` describe something new."""

_OTHERS = "Options"
_RANGE = r"(; )?([\d.]+<=?)?x([<>]=?[\d.]+)?(?=\])"
"""The bounds of a number as click writes them, such as `1<=x<=3`."""


def name_numbers(params: Iterable[click.Parameter]) -> None:
    """Call the value of an option N if it is a number, instead of INTEGER RANGE."""
    for param in params:
        is_number = isinstance(param.type, click.IntRange)
        if isinstance(param, click.Option) and is_number and param.metavar is None:
            param.metavar = "N"


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter, sections: Sections
) -> None:
    """Write the options of a command, under headings if there are many."""
    options = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, click.Option):
            options.append((param, (record[0], _without_range(record[1]))))
    by_heading: dict[str, list[tuple[str, str]]] = {_OTHERS: []}
    is_grouped = len(options) > MAX_UNGROUPED
    for heading in (*sections, *_SHARED_SECTIONS):
        by_heading[heading] = []
    for param, record in options:
        heading = _heading(param, sections) if is_grouped else _OTHERS
        by_heading[heading].append(record)
    for heading, records in by_heading.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def _heading(param: click.Parameter, sections: Sections) -> str:
    for heading, names in (*sections.items(), *_SHARED_SECTIONS.items()):
        if any(name in param.opts for name in names):
            return heading
    return _OTHERS


def _without_range(text: str) -> str:
    """Leave out a number's bounds. A call that exceeds them gets an error that names them."""
    return re.sub(_RANGE, "", text).replace("  []", "")
