"""Find secrets by the title of their column or the name of their member.

Four shapes are read: tables drawn with lines, tables with separators, INSERT statements in SQL, and
objects with a name and a value:

    | user | password      |     user,password          insert into users (name, password)
    |------|---------------|     ada,Wint3r!Kettle      values ('ada', 'Wint3r!Kettle')
    | ada  | Wint3r!Kettle |
                                 {"name": "DB_PASSWORD", "value": "Wint3r!Kettle"}

The title or name decides which values count as secrets (see `secret_names`). A value in a table
that a program drew needs less evidence than one in prose.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record, secret_prefilter
from ralph.privacy import passwords, secret_values
from ralph.privacy.secret_names import API_KEY, SecretName, secret_name
from ralph.privacy.secret_values import has_both_cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ralph.privacy.secret_values import Span

_RULE = r"[|+]?[ ]?:?-{2,}:?[ ]?(?:[|+][ ]?:?-{2,}:?[ ]?)*[|+]?"
_ROW_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_CELL_PADDING = " \t\r*`\"'"
_USER_TITLES = ("user", "username", "login", "account")
_MAX_COUNTED_ROWS = 1_000
_MAX_TITLE_LENGTH = 40
_MAX_TITLE_BLANKS = 2
_MIN_CELL_LENGTH = 4
_MAX_CELL_LENGTH = 300


@record
class _Table:
    """The columns of a table that may contain secrets, and the table's form.

    `is_drawn` says that a program printed the table. `is_long` says that each row is a name and its
    value, as in the expanded output of `psql`.
    """

    columns: Mapping[int, SecretName]
    width: int
    is_drawn: bool
    is_long: bool = False


def drawn_table_secrets(text: str) -> Iterator[Span]:
    r"""Yield secrets in drawn tables.

    They are below a title that names a secret, or next to such a name in `psql`'s expanded output.
    """
    if "\\n" in text:
        text = text.replace("\\n", " \n")
    lines = text.split("\n")
    table = _Table({}, 0, is_drawn=False)
    previous_width = 0
    start = 0
    for number, line in enumerate(lines):
        cells = line.split("|")
        width = len(cells)
        if "--" in line and re.fullmatch(_RULE, line.strip()):
            table = _table_below_rule(lines, number)
        elif line.lstrip().startswith("-[ RECORD"):
            table = _Table({}, 2, is_drawn=True, is_long=True)
        elif width not in (table.width, previous_width):
            table = _table_without_rule(lines, number)
        elif width == table.width:
            yield from _row_secrets(cells, start, table)
        previous_width = width
        start += len(line) + len("\n")


def _table_below_rule(lines: Sequence[str], number: int) -> _Table:
    titles: list[str] = []
    if number > 0:
        titles = lines[number - 1].split("|")
    columns: Mapping[int, SecretName] = {}
    if len(titles) > 1 or _is_counted(lines, number + 1, 1):
        columns = _secret_columns(titles)
    names_user = any(title.strip(_CELL_PADDING).lower() in _USER_TITLES for title in titles)
    return _Table(columns, len(titles), is_drawn=names_user or "+" in lines[number])


def _table_without_rule(lines: Sequence[str], number: int) -> _Table:
    titles = lines[number].split("|")
    width = len(titles)
    columns: Mapping[int, SecretName] = {}
    if width > 1 and _is_counted(lines, number + 1, width):
        columns = _secret_columns(titles)
    return _Table(columns, width, is_drawn=True)


def _is_counted(lines: Sequence[str], first: int, width: int) -> bool:
    """Return whether the table ends with a line such as `(2 rows)`."""
    for line in lines[first : first + _MAX_COUNTED_ROWS]:
        if line.startswith("(") and re.fullmatch(_ROW_COUNT, line.strip()):
            return True
        if line.count("|") != width - 1 or not line.strip() or "--" in line:
            return False
    return False


def _row_secrets(cells: Sequence[str], start: int, table: _Table) -> Iterator[Span]:
    columns = table.columns
    if table.is_long:
        columns = _secret_columns(["", cells[0]])
    for number, cell in enumerate(cells):
        if number in columns:
            yield from _cell_secret(cell, start, columns[number], is_drawn=table.is_drawn)
        start += len(cell) + len("|")


def _secret_columns(titles: Sequence[str]) -> dict[int, SecretName]:
    """Return the columns whose title names a secret, by number."""
    columns = {}
    for number, cell in enumerate(titles):
        title = cell.strip(_CELL_PADDING)
        name = None
        if title.lower() == "key":
            name = API_KEY
        elif 0 < len(title) <= _MAX_TITLE_LENGTH and title.count(" ") <= _MAX_TITLE_BLANKS:
            name = secret_name(title)
        if name is not None:
            columns[number] = name
    return columns


def _cell_secret(cell: str, start: int, name: SecretName, *, is_drawn: bool) -> Iterator[Span]:
    value = cell.strip(_CELL_PADDING)
    if not _MIN_CELL_LENGTH <= len(value) <= _MAX_CELL_LENGTH or "[redacted" in value:
        return
    if _is_cell_secret(value, name, is_drawn=is_drawn):
        value_start = start + cell.index(value)
        yield value_start, value_start + len(value), name.kind


def _is_cell_secret(value: str, name: SecretName, *, is_drawn: bool) -> bool:
    if name.kind == "password":
        place = passwords.SURE if is_drawn else passwords.LITERAL
        return passwords.is_password(value, place)
    if _may_be_chosen(value, name) and passwords.is_password(value, passwords.LITERAL):
        return True
    if is_drawn or secret_values.is_long_run(value):
        return secret_values.grade(value) >= name.weakest_grade
    return secret_values.grade(value) == secret_values.STRONG


def _may_be_chosen(value: str, name: SecretName) -> bool:
    """Return whether a person may have made up a secret or token as one would a password."""
    if name.kind not in ("secret", "token") or not has_both_cases(value):
        return False
    min_digits = 2 if name.kind == "token" else 1
    return sum(map(str.isdigit, value)) >= min_digits


# --- tables with separators -----------------------------------------------------------------------

_MAX_TABLE_LENGTH = 64_000
_TITLE = r"\S+(?: \S+)*"


def separated_table_secrets(text: str, start: int, separator: str) -> Iterator[Span]:
    """Yield secrets in a table separated by commas, tabs or semicolons, or aligned with blanks."""
    lines = re.compile(r"[^\n]*\n?").finditer(text, start, start + _MAX_TABLE_LENGTH)
    head = next(lines)[0].rstrip("\r\n")
    column_starts: list[int] = []
    if separator == " ":
        column_starts = [title.start() for title in re.finditer(_TITLE, head)]
    titles = _split_row(head, separator, column_starts)
    columns = _secret_columns(titles)
    if not columns:
        return
    for line in lines:
        row = line[0].rstrip("\r\n")
        cells = _split_row(row, separator, column_starts)
        if len(cells) != len(titles):
            break
        if column_starts and row.isupper() and _secret_columns(cells):
            break  # the head of another table
        cell_start = line.start()
        for number, cell in enumerate(cells):
            if number in columns:
                name = columns[number]
                is_drawn = name.kind == "password"
                yield from _cell_secret(cell, cell_start, name, is_drawn=is_drawn)
            cell_start += len(cell)
            if separator != " ":
                cell_start += len(separator)


def _split_row(row: str, separator: str, column_starts: Sequence[int]) -> list[str]:
    if separator == " ":
        return _split_aligned_row(row, column_starts)
    cells: list[str] = []
    for piece in row.split(separator):
        is_quote_open = bool(cells) and cells[-1].startswith('"') and cells[-1].count('"') % 2 == 1
        if is_quote_open:
            cells[-1] += separator + piece
        else:
            cells.append(piece)
    return cells


def _split_aligned_row(row: str, column_starts: Sequence[int]) -> list[str]:
    column_ends = [*column_starts[1:], len(row)]
    cells = []
    for start, end in zip(column_starts, column_ends, strict=True):
        if row[start - 1 : start] in ("", " "):
            cells.append(row[start:end])
    return cells


# --- SQL and members of objects -------------------------------------------------------------------

_INSERT = r"(?i)insert into\s+[^\s(]{1,80}\s{0,9}\((?P<names>[^()]{1,400})\)\s{0,9}values\s{0,9}\("
_SQL_VALUE = (
    r"\s{0,40}(?:[nN]?'(?P<text>(?>(?:[^'\n]|''){0,300}))'|[^,()']{0,200}+(?:\([^()]{0,80}\))?)\s{0,9}"
    r"(?P<end>\)\s{0,9},\s{0,40}\(|[,)])"
)


def inserted_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield secrets in INSERT statements, in columns whose name names a secret."""
    if "insert into" not in lowered:
        return
    for statement in re.finditer(_INSERT, text):
        columns = _secret_columns(statement["names"].split(","))
        if not columns:
            continue
        number = 0
        value = re.compile(_SQL_VALUE).match(text, statement.end())
        while value:
            if value["text"] and number in columns:
                start = value.start("text")
                yield from _cell_secret(value["text"], start, columns[number], is_drawn=True)
            if value["end"] == ")":
                break
            if value["end"] == ",":
                number += 1
            else:
                number = 0  # the next row
            value = re.compile(_SQL_VALUE).match(text, value.end())


_MEMBER = (
    r"(?i)(?:value|default)[\"'\\]{0,3}\s{0,24}[:=]\s{0,4}\\?"
    r"(?:[\"'](?P<quoted>[^\"'\\\n]{4,400})|(?P<plain>[^\s\"',{}\[\]\\]{4,400}))"
)
_MEMBER_NAME = (
    r"(?i)\b(?:(?:parameter)?(?:name|key)|id|variable|title|label|field)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}"
    r"(?P<name>[\w./-]{2,64})"
    r"|[\"'](?P<parent>[\w.-]{2,64})[\"'\\]{1,3}\s{0,4}:?\s{0,4}\{|(?P<listed>keyname)"
)
_LISTED_KEY = SecretName("secret key", secret_values.STRONG)
_MEMBER_LENGTH_BEFORE = 240
"""How many characters before a value are searched for its name."""
_MEMBER_LENGTH_AFTER = 160
"""How many characters after a value are searched for its name."""


def member_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values of `value` members next to a `name` member that names a secret."""
    floor = 0
    for position in secret_prefilter.member_values(text, lowered):
        member = re.compile(_MEMBER).match(text, position)
        if member is None:
            continue
        before = text[max(floor, member.start() - _MEMBER_LENGTH_BEFORE) : member.start()]
        after = text[member.end() : member.end() + _MEMBER_LENGTH_AFTER]
        floor = member.end()
        name = _member_name(before.rpartition("}")[2], after.partition("}")[0].partition("- ")[0])
        if name is not None:
            group = "quoted" if member["quoted"] else "plain"
            yield from _cell_secret(member[group], member.start(group), name, is_drawn=True)


def _member_name(before: str, after: str) -> SecretName | None:
    """Return what the name nearest to a value stands for, or None.

    The name usually precedes the value.
    """
    names_before = list(re.finditer(_MEMBER_NAME, before))
    if names_before:
        match: re.Match[str] | None = names_before[-1]
    else:
        match = re.search(_MEMBER_NAME, after)
    if match is None:
        return None
    if match["listed"]:
        return _LISTED_KEY
    name = match["name"] or match["parent"]
    return secret_name(name.rpartition("/")[2])
