"""Print results: tables for people, JSON for programs, Markdown for agents, ids for scripts.

Results go to stdout, and warnings and notes to stderr, so that programs can read stdout as it is.
Colour is used only on a terminal, and never with NO_COLOR (click strips it from pipes). Control
characters in text are printed as escapes.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TypeVar

import click

from ralph.core import ids
from ralph.core.invisible import escape_invisible, show_invisible

T = TypeVar("T")

SHORT_SESSION_ID = 12
"""Characters of a session's id in tables, which commands accept in place of the whole id."""

_MIN_LAST_COLUMN = 24  # minimum width of the last column of a table, in terminal columns
_MAX_CELL_CHARACTERS = 10_000  # JSON has the whole text
_COLUMN_GAP = 2  # spaces between two columns of a table
_DEFAULT_TERMINAL_SIZE = (120, 24)  # columns and lines, if the terminal does not report its size
_PROGRESS_INTERVAL = 20  # steps between two updates of a progress line
_MAX_DAYS_AGO = 30  # earlier dates are printed as dates
_CLEAR_LINE = "\r\x1b[K"

_DELETE_AND_C1 = range(127, 160)
_C0_EXCEPT_TAB_AND_LINE_ENDS = (*range(9), 11, 12, *range(14, 32))
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _DELETE_AND_C1}
_TEXT_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*_C0_EXCEPT_TAB_AND_LINE_ENDS, *_DELETE_AND_C1)
}


# --- messages -------------------------------------------------------------------------------------


def warn(*messages: str) -> None:
    """Print warnings to stderr."""
    for message in messages:
        click.echo(click.style("warning: ", fg="yellow") + message, err=True)


def say(*messages: str) -> None:
    """Print notes to stderr. Empty notes are skipped."""
    for message in messages:
        if message:
            click.echo(message, err=True)


def print_private(parts: int) -> None:
    """Print the number of private sections that were left out, if any."""
    if parts:
        say(f"left out {parts} private section(s)")


def print_more(total: int, shown: int, *, offset: int | None = None) -> None:
    """Print to stderr the number of rows that a limit left out, if any.

    `offset` is the number of rows that were skipped by a command that has `--offset`.
    """
    rest = total - shown - (offset or 0)
    if rest <= 0:
        return
    if offset is None:
        say(f"{rest} more; use --limit {total} to see them")
    else:
        say(f"{rest} more; use --offset {offset + shown} to continue, or --limit {total}")


# --- results --------------------------------------------------------------------------------------


def print_json(value: object) -> None:
    """Print indented JSON."""
    import json  # most commands print tables

    text = json.dumps(value, ensure_ascii=False, indent=2).translate(_JSON_ESCAPES)
    click.echo(escape_invisible(text))


def print_item(form: str, shape: Mapping[str, object], text: str) -> None:
    """Print one item as JSON, as just its id, or as `text` for people."""
    if form == "json":
        print_json(shape)
    elif form == "quiet":
        click.echo(shape["id"])
    else:
        click.echo(text)


def print_rows(
    items: Sequence[T],
    form: str,
    *,
    to_json: Callable[[T], Mapping[str, object]],
    headings: Sequence[str],
    row: Callable[[T], Sequence[object]],
    empty: str,
) -> None:
    """Print a listing as a table, as JSON or as bare ids. `empty` replaces an empty table."""
    if form == "json":
        print_json([to_json(item) for item in items])
    elif form == "quiet":
        for item in items:
            click.echo(to_json(item)["id"])
    elif not items:
        click.echo(empty)
    else:
        print_table(headings, map(row, items))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their headings. A cell with a very long text is cut, also in a pipe."""
    lines = []
    for row in rows:
        lines.append([_cell(str(value)) for value in row])
    click.echo(table(headings, lines))


def _cell(text: str) -> str:
    if len(text) > _MAX_CELL_CHARACTERS:
        text = text[:_MAX_CELL_CHARACTERS] + "…"
    return one_line(text)


def print_fields(fields: Mapping[str, str]) -> None:
    """Print the fields that have a value, one per line."""
    for name, value in fields.items():
        if value:
            click.echo(f"  {name + ':':12} {one_line(value)}")


def print_raw(text: str) -> None:
    """Print text unchanged for an agent or a file. A terminal gets escaped control characters."""
    if is_terminal():
        text = visible(text)
    click.echo(text, nl=False, color=True)


# --- text -----------------------------------------------------------------------------------------


def visible(text: str) -> str:
    """Escape characters that could move the cursor or change colours, and show invisible ones."""
    if text.isascii() and text.isprintable():  # as nearly every cell of a table
        return text
    return show_invisible(text.translate(_TEXT_ESCAPES))


def one_line(text: str) -> str:
    """Return text on one line, with control characters escaped."""
    return " ".join(visible(text).split())


def width(text: str) -> int:
    """Count terminal columns. Wide characters (Korean, Chinese, Japanese, emoji) take two."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    if unicodedata.combining(character):
        return 0
    return 1


def cut(text: str, columns: int) -> str:
    """Cut text to a number of terminal columns, marking the cut with an ellipsis."""
    if width(text) <= columns:
        return text
    used = 0
    for end, character in enumerate(text):
        used += width(character)
        if used > columns - 1:
            return text[:end].rstrip() + "…"
    return text


def cut_cell(text: str, columns: int) -> str:
    """Cut a table cell to fit a terminal. In a pipe, the cell is kept whole."""
    if is_terminal():
        return cut(text, columns)
    return text


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned columns. Only on a terminal, the last column is cut to fit."""
    widths = []
    for column in zip(headings, *rows, strict=True):
        widths.append(max(map(width, column)))
    if is_terminal():
        widths[-1] = _room_for_last_column(widths[:-1])
    lines = [click.style(_table_line(headings, widths), bold=True)]
    for row in rows:
        lines.append(_table_line(row, widths))
    return "\n".join(lines)


def _room_for_last_column(widths_before: Sequence[int]) -> int:
    from shutil import get_terminal_size

    used = sum(widths_before) + _COLUMN_GAP * len(widths_before)
    return max(_MIN_LAST_COLUMN, get_terminal_size(_DEFAULT_TERMINAL_SIZE).columns - used)


def _table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = []
    for cell, cell_width in zip(row[:-1], widths[:-1], strict=True):
        cells.append(cell + " " * (cell_width - width(cell)))
    cells.append(cut(row[-1], widths[-1]))
    return (" " * _COLUMN_GAP).join(cells).rstrip()


def format_size(count: float) -> str:
    """Format a number of bytes, such as 3 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def ago(day: str) -> str:
    """Describe a recent date in words (today, yesterday, 5 days ago). Earlier dates are kept."""
    try:
        days = (ids.now().date() - date.fromisoformat(day[:10])).days
    except ValueError:
        return day or "-"
    if days == 0:
        return "today"
    if days == 1:
        return "yesterday"
    if 1 < days <= _MAX_DAYS_AGO:
        return f"{days} days ago"
    return day[:10]


@contextmanager
def bar(what: str, every: int = _PROGRESS_INTERVAL) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that prints progress on a terminal, or None if there is no terminal.

    The line is updated every `every` steps, and only if there are at least that many steps.
    """
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    clear = ""

    def progress(done: int, total: int) -> None:
        nonlocal clear
        if total >= every and (done % every == 0 or done == total):
            clear = _CLEAR_LINE
            click.echo(f"\r{what}: {done} of {total}", err=True, nl=False)

    try:
        yield progress
    finally:
        click.echo(clear, err=True, nl=False, color=True)
