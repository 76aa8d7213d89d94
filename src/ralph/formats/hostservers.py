"""Our MCP server in somebody else's settings file: put in and taken out without moving another byte.

Claude Code and Gemini keep servers as JSON, `{"mcpServers": {Name: {"command": ..., "args": [...]}}}`, Claude Code's
own file also below a project's path: `hostpage.py` does the splicing. Codex keeps them as TOML tables, which the
standard library reads and does not write: ours is a block at the end of the file between two comments that say whose
it is. What the file says without the block must be what it says with it, less our server; else nothing is written.
Ours is what starts `ralph mcp serve`; an entry of that name that starts something else is somebody's own.
`tests/formats/test_hostservers.py` proves it over generated files.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

from ralph.errors import Conflict, Unreadable
from ralph.formats.document import newline_of
from ralph.formats.hostpage import OF_A_BLANK_FILE, Page, inserted, is_empty, made, room
from ralph.formats.jsonedit import Style, dumps, plain
from ralph.formats.jsontext import Node

NAME = "ralph"
"""What our server is called everywhere."""

_TABLE = "mcp_servers"
_START = "# ralph:start: `ralph uninstall codex` takes this out again"
_END = "# ralph:end"
_MADE_FILE = " (the file was made for it)"
_OPEN_LINE = " (the line above had no end)"
_BLOCK = re.compile(
    rf"(?:(?<=\n)\r?\n)?{re.escape(_START)}(?P<how>{re.escape(_MADE_FILE)}|{re.escape(_OPEN_LINE)})?\r?\n"
    rf".*?{re.escape(_END)}(?:\r?\n|$)",
    re.DOTALL,
)


def is_ours(entry: object) -> bool:
    """Whether what stands in a file starts our server."""
    if not isinstance(entry, Mapping):
        return False
    arguments = entry.get("args")
    words = [str(word) for word in [entry.get("command"), *(arguments if isinstance(arguments, list) else [])]]
    return any(
        re.split(r"[/\\]", first)[-1] == "ralph" and (second, third) == ("mcp", "serve")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


# --- JSON ----------------------------------------------------------------------------------------


def in_json(text: str | None, keys: Sequence[str], *, comments: bool = False) -> object | None:
    """The entry with our name below these keys, whoever wrote it."""
    if text is None or is_empty(text, comments=comments):
        return None
    found, _ = _way(Page(text, comments=comments), [*keys, NAME])
    return found[-1].value if len(found) == len(keys) + 2 else None


def with_json(text: str | None, keys: Sequence[str], entry: Mapping[str, object], *, comments: bool = False) -> str:
    """The text with our entry put in below these keys; None is a file that is not there."""
    path = [*keys, NAME]
    value = plain(entry)
    if text is None:
        style = Style()
        return f"{{\n{style.unit}{_nested(style, style.unit, path, value)}\n}}\n"
    if is_empty(text, comments=comments):
        style = Style()
        return f"{text}{{{OF_A_BLANK_FILE}{_nested(style, style.unit, path, value)}\n}}"
    page = Page(text, comments=comments)
    found, _ = _way(page, path)
    if len(found) == len(path) + 1:
        raise Conflict(f"there is a server called {NAME} already", hint="take it out first; nothing was written")
    depth = len(found)
    place, gap, pad = room(page, found[-1], depth)
    return inserted(text, place, gap + _nested(page.style, pad, path[depth - 1 :], value))


def without_json(text: str, keys: Sequence[str], *, comments: bool = False) -> str | None:
    """The text without our entry, and without what was made to hold it; None when the file was made for it alone."""
    if is_empty(text, comments=comments):
        return text
    page = Page(text, comments=comments)
    found, positions = _way(page, [*keys, NAME])
    if len(found) < len(keys) + 2 or not is_ours(found[-1].value):
        return text
    return page.without(positions)


def _way(page: Page, path: Sequence[str]) -> tuple[list[Node], list[int]]:
    """The nodes along a path of keys as far as there are any, the root first, and their positions in each other."""
    found, positions = [page.root], []
    for depth, key in enumerate(path):
        page.checked(found[-1], dict, f"`{'.'.join(path[:depth])}`" if depth else "the file")
        places = [place for place, member in enumerate(found[-1].members) if member.key == key]
        if not places:
            break
        positions.append(places[-1])
        found.append(found[-1].members[places[-1]].node)
    return found, positions


def _nested(style: Style, pad: str | None, path: Sequence[str], value: object) -> str:
    """A member, and the members around it that have to be made."""
    if len(path) == 1:
        return f"{dumps(path[0])}{style.colon}{style.render(value, pad or '', pad is not None)}"
    inside = None if pad is None else pad + style.unit
    return made(style, pad, dumps(path[0]), "{}", _nested(style, inside, path[1:], value))


# --- TOML ----------------------------------------------------------------------------------------


def in_toml(text: str | None) -> object | None:
    """The table with our name, whoever wrote it."""
    servers = _tables(text or "").get(_TABLE)
    return servers.get(NAME) if isinstance(servers, Mapping) else None


def with_toml(text: str | None, entry: Mapping[str, object]) -> str:
    """The text with our table at its end."""
    before = text or ""
    newline = newline_of(before)
    open_ = bool(before) and not before.endswith("\n")
    how = _MADE_FILE if text is None else _OPEN_LINE if open_ else ""
    rows = [f"{key} = {_toml(value)}" for key, value in entry.items()]
    lines = [_START + how, f"[{_TABLE}.{NAME}]", *rows, _END, ""]
    gap = newline if before else ""
    after = before + (newline if open_ else "") + gap + newline.join(lines)
    if _TABLE in _tables(before) and not _is_toml(after):
        hint = f"write it as tables, [{_TABLE}.name], or install with --no-mcp; nothing was written"
        raise Conflict(f"`{_TABLE}` stands there in a form that nothing can be added to", hint=hint)
    _check(after, before)
    return after


def without_toml(text: str) -> str | None:
    """The text without our block; None when the file was made for it alone."""
    found = _BLOCK.search(text)
    if found is None:
        return text
    left = text[: found.start()] + text[found.end() :]
    if found["how"] == _OPEN_LINE:
        head = text[: found.start()]
        left = head.removesuffix("\n").removesuffix("\r") + text[found.end() :]
    _check(text, left)
    return None if not left and found["how"] == _MADE_FILE else left


def _check(with_ours: str, without: str) -> None:
    """Both texts must say the same but for our server; what cannot be so is somebody's to mend."""
    more, less = _tables(with_ours), _tables(without)
    servers = more.get(_TABLE)
    if isinstance(servers, dict):
        servers.pop(NAME, None)
    for tables in (more, less):
        if tables.get(_TABLE) == {}:
            del tables[_TABLE]
    if more != less:
        hint = "lines below our block belong to it now: move them above `# ralph:start`; nothing was written"
        raise Conflict("taking our block out would change what other lines mean", hint=hint)


def _tables(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"this is no TOML: {error}", hint="mend the file by hand; nothing was written") from error


def _is_toml(text: str) -> bool:
    try:
        _tables(text)
    except Unreadable:
        return False
    return True


def _toml(value: object) -> str:
    """A value as TOML has it; its strings are JSON's, but for one sign."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
