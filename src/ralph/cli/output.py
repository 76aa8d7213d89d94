"""How results are printed: tables for people, JSON for programs, markdown for agents, ids for scripts.

Machine-readable output goes to stdout alone, warnings and notes to stderr. Colour only on a terminal and never with
NO_COLOR (click strips it from pipes). Control characters in texts are printed as escapes.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TypeVar

import click

from ralph.model import ids

T = TypeVar("T")
_LEAST = 24  # columns that the last one of a table has at least, on a narrow terminal
_FEW = 20  # steps after which most commands print their progress
_C1 = {code: f"\\u{code:04x}" for code in range(127, 160)}
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))
}


def warn(*messages: str) -> None:
    """Print warnings on stderr."""
    for message in messages:
        click.echo(click.style("warning: ", fg="yellow") + message, err=True)


def say(*messages: str) -> None:
    """Print notes on stderr; empty ones are left out."""
    for message in filter(None, messages):
        click.echo(message, err=True)


def print_private(parts: int) -> None:
    """Print how many private parts were left out, if any."""
    say(f"left out {parts} private part(s)" if parts else "")


def print_json(value: object) -> None:
    """Print JSON for a program, readable by a person."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2).translate(_C1))


def print_item(form: str, shape: Mapping[str, object], text: str) -> None:
    """Print one thing as JSON, as its id alone, or as the text for people."""
    if form == "json":
        print_json(shape)
    else:
        click.echo(shape["id"] if form == "quiet" else text)


def print_rows(
    items: Sequence[T],
    form: str,
    to_json: Callable[[T], Mapping[str, object]],
    headings: str,
    row: Callable[[T], Sequence[object]],
    nothing: str,
) -> None:
    """Print a listing as a table with `headings`, separated by commas, as JSON, or as ids alone."""
    if form == "json":
        print_json(list(map(to_json, items)))
    elif form == "quiet":
        for item in items:
            click.echo(to_json(item)["id"])
    elif not items:
        click.echo(nothing)
    else:
        print_table(headings, map(row, items))


def print_table(headings: str, rows: Iterable[Sequence[object]]) -> None:
    """Print rows below headings that are separated by commas."""
    click.echo(table(headings.split(","), [[one_line(str(cell)) for cell in row] for row in rows]))


def print_fields(fields: Mapping[str, str]) -> None:
    """Print the fields that have a value, one a line."""
    for name, value in fields.items():
        if value:
            click.echo(f"  {name + ':':12} {one_line(value)}")


def print_more(total: int, shown: int) -> None:
    """Print on stderr how many rows a limit left out, if any."""
    say(f"{total - shown} more; --limit {total} shows every one" if total > shown else "")


def print_raw(text: str) -> None:
    """Print text for an agent or a file as it is; a terminal gets control characters as escapes."""
    click.echo(visible(text) if is_terminal() else text, nl=False, color=True)


def visible(text: str) -> str:
    """Return text that cannot move the cursor or change colours."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(visible(text).split())


def width(text: str) -> int:
    """Count columns on a terminal: wide characters (Korean, Chinese, Japanese, emoji) take two."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1
        for char in text
    )


def cut(text: str, columns: int) -> str:
    """Cut to so many columns, with an ellipsis when something is left out."""
    if width(text) <= columns:
        return text
    used = 0
    for end, char in enumerate(text):
        used += width(char)
        if used > columns - 1:
            return text[:end].rstrip() + "…"
    return text


def cut_cell(text: str, columns: int) -> str:
    """Cut a cell of a table on a terminal; in a pipe it stays whole."""
    return cut(text, columns) if is_terminal() else text


def is_terminal() -> bool:
    """Whether a person reads standard output on a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns; on a terminal the last one is cut to its width, in a pipe nothing is."""
    from shutil import get_terminal_size

    columns = [max(width(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    room = columns[-1]
    if is_terminal():
        room = max(
            _LEAST, get_terminal_size((120, 24)).columns - sum(columns[:-1]) - 2 * len(columns[:-1])
        )
    lines = []
    for number, row in enumerate([headings, *rows]):
        cells = [cell + " " * (columns[i] - width(cell)) for i, cell in enumerate(row[:-1])]
        line = "  ".join([*cells, cut(row[-1], room)]).rstrip()
        lines.append(click.style(line, bold=True) if number == 0 else line)
    return "\n".join(lines)


def ago(day: str) -> str:
    """Return a date in words: today, yesterday, 5 days ago; older ones as they are."""
    try:
        days = (ids.now().date() - date.fromisoformat(day[:10])).days
    except ValueError:
        return day or "-"
    if days in (0, 1):
        return "yesterday" if days else "today"
    return f"{days} days ago" if 1 < days <= 30 else day[:10]


@contextmanager
def bar(what: str, every: int = _FEW) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that prints progress on a terminal, `every` so many steps; None elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    clear = ""

    def progress(done: int, total: int) -> None:
        nonlocal clear
        if total >= every and (done % every == 0 or done == total):
            clear = "\r\x1b[K"
            click.echo(f"\r{what}: {done} of {total}", err=True, nl=False)

    try:
        yield progress
    finally:
        click.echo(clear, err=True, nl=False, color=True)
