"""Hooks and MCP servers in the settings files of Claude Code, Codex and Gemini.

Putting something in only inserts, and taking it out restores the old bytes. A container that we
create has white space behind its opening bracket, one that was there and empty has our entry right
behind it: so nothing needs to be recorded elsewhere. Comments are blanked for reading only.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from ralph.errors import Conflict, Unreadable
from ralph.formats.json_text import (
    JsonMember,
    JsonNode,
    LineNumbers,
    check_json,
    dump_json,
    is_blank,
    read_json,
    same_json,
)
from ralph.formats.text import BOM, Problem, newline_of

_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_INDENT = re.compile(r"[ \t]*")
_VISIBLE = re.compile(r"[^\r\n]")
_BLANKS = " \t\r\n"
BLANK_FILE_MARK = "  "
"""What stands behind the bracket when the file was there but held nothing."""


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How a text is laid out: line end, one step of indentation, and what follows a key or a comma."""

    newline: str = "\n"
    unit: str = "  "
    spread: bool = True
    colon: str = ": "

    @property
    def comma(self) -> str:
        """What stands between two values on one line."""
        return "," if self.colon == ":" else ", "

    def render(self, value: object, pad: str, spread: bool) -> str:
        """A value as it stands after `pad`, over several lines or on one."""
        if not spread:
            return dump_json(value, separators=(self.comma, self.colon))
        text = dump_json(value, indent=self.unit, separators=(",", self.colon))
        return text.replace("\n", self.newline + pad)


def style_of(text: str, root: JsonNode) -> JsonStyle:
    """The layout of a text, taken from its outermost value."""
    colon = ": "
    inner = next((node for node in (root, *root.items) if node.members), None)
    if inner is not None:
        first = inner.members[0]
        colon = ":" if text[first.key_end : first.node.start] == ":" else ": "
    if not root.children:
        return JsonStyle(newline_of(text), colon=colon)
    first_child = root.children[0].start
    spread = "\n" in text[root.start : first_child]
    return JsonStyle(newline_of(text), (_pad_at(text, first_child) if spread else "") or "  ", spread, colon)


def _pad_at(text: str, place: int) -> str:
    """The indentation of the line on which a place stands."""
    match = _INDENT.match(text, text.rfind("\n", 0, place) + 1)
    return match[0] if match else ""


def is_empty_file(text: str, *, comments: bool) -> bool:
    """Whether a file holds nothing but white space, and comments where they are allowed."""
    return is_blank(_without_comments(text, comments=comments))


def _without_comments(text: str, *, comments: bool) -> str:
    """The text as JSON: comments as spaces where they are allowed, so that every place stays."""
    if not comments:
        return text
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _VISIBLE.sub(" ", found[0]), text)


class HostFile:
    """A settings file with its places."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self.text = text
        self.seen = _without_comments(text, comments=comments)
        root = read_json(self.seen)
        if isinstance(root, Problem):
            raise Unreadable(f"line {root.line}: {root.what}", hint="mend the file by hand; nothing was written")
        self.root = self.checked(root, dict, "the file")
        self.style = style_of(self.seen, root)

    def checked(self, node: JsonNode, kind: type, name: str) -> JsonNode:
        """The node, if it is what it should be."""
        if not isinstance(node.value, kind):
            wanted = "an object" if kind is dict else "a list"
            line = LineNumbers(self.text)(node.start)
            raise Unreadable(f"line {line}: {name} should be {wanted}", hint="mend it by hand; nothing was written")
        return node

    # --- taking out ----------------------------------------------------------------------------

    def without(self, path: Sequence[int]) -> str | None:
        """The text without the node at a path; what was made to hold it goes with it."""
        containers = [self.root]
        for position in path[:-1]:
            child = containers[-1].children[position]
            containers.append(child.node if isinstance(child, JsonMember) else child)
        for container, position in reversed(list(zip(containers, path, strict=True))):
            if len(container.children) > 1:
                return self._without_one(container, position)
            child = container.children[position]
            before = self.text[container.start + 1 : child.start]
            if not before or before.strip(_BLANKS):  # it was there and empty, or somebody's comment is in it
                return self.text[: child.start] + self.text[child.end :]
        return self._without_root(before)

    def _without_one(self, container: JsonNode, position: int) -> str:
        """A child goes with the comma that it brought; a comment that stands between stays."""
        children, child = container.children, container.children[position]
        start, end = (
            (children[position - 1].end, child.end) if position else (child.start, children[position + 1].start)
        )
        around = self.text[start : child.start] + self.text[child.end : end]
        if around.strip(_BLANKS) == ",":
            return self.text[:start] + self.text[end:]
        comma = self.seen.index(",", start if position else child.end)
        first, second = sorted([(comma, comma + 1), (child.start, child.end)])
        return self.text[: first[0]] + self.text[first[1] : second[0]] + self.text[second[1] :]

    def _without_root(self, before: str) -> str | None:
        outside = self.text[: self.root.start] + self.text[self.root.end :]
        if before == BLANK_FILE_MARK:
            return outside
        if is_blank(outside):
            return None
        return self.text[: self.root.start] + "{}" + self.text[self.root.end :]


# --- putting in --------------------------------------------------------------------------------


def _insert_value(
    text: str | None, path: Sequence[str], value: object, *, comments: bool, in_list: bool = False
) -> str:
    """The text with a value at a path of keys, or appended to the list there; missing containers are created.

    None is a missing file.
    """
    if text is None or is_empty_file(text, comments=comments):
        style = JsonStyle()
        member = _nest_value(style, style.unit, path, value, in_list=in_list)
        return f"{{\n{style.unit}{member}\n}}\n" if text is None else f"{text}{{{BLANK_FILE_MARK}{member}\n}}"
    page = HostFile(text, comments=comments)
    nodes, _ = _nodes_along(page, path)
    depth = len(nodes)
    if depth <= len(path):
        position, gap, pad = insertion_point(page, nodes[-1], depth)
        new = _nest_value(page.style, pad, path[depth - 1 :], value, in_list=in_list)
    elif in_list:
        container = page.checked(nodes[-1], list, f"`{'.'.join(path)}`")
        position, gap, pad = insertion_point(page, container, depth)
        new = page.style.render(value, pad or "", pad is not None)
    else:
        raise Conflict(f"there is a member `{'.'.join(path)}` already", hint="take it out first; nothing was written")
    return text[:position] + gap + new + text[position:]


def _nodes_along(page: HostFile, path: Sequence[str]) -> tuple[list[JsonNode], list[int]]:
    """The nodes along a path of keys as far as there are any, the root first, and their positions in each other."""
    nodes, positions = [page.root], []
    for depth, key in enumerate(path):
        page.checked(nodes[-1], dict, f"`{'.'.join(path[:depth])}`" if depth else "the file")
        matches = [position for position, member in enumerate(nodes[-1].members) if member.key == key]
        if not matches:
            break
        positions.append(matches[-1])
        nodes.append(nodes[-1].members[matches[-1]].node)
    return nodes, positions


def _nest_value(style: JsonStyle, pad: str | None, path: Sequence[str], value: object, *, in_list: bool) -> str:
    """A member with the members and the list around it that have to be created."""
    inside = None if pad is None else pad + style.unit
    key = dump_json(path[0])
    if len(path) > 1:
        return new_member(style, pad, key, "{}", _nest_value(style, inside, path[1:], value, in_list=in_list))
    if in_list:
        return new_member(style, pad, key, "[]", style.render(value, inside or "", pad is not None))
    return f"{key}{style.colon}{style.render(value, pad or '', pad is not None)}"


def insertion_point(page: HostFile, container: JsonNode, depth: int) -> tuple[int, str, str | None]:
    """Where a new child goes, what stands before it, and its indentation (None: all on one line)."""
    style = page.style
    pad = style.unit * depth if style.spread else None
    if not container.children:
        return container.start + 1, "", pad
    last = container.children[-1]
    start = last.start
    while page.text[start - 1] in _BLANKS:
        start -= 1
    gap = page.text[start : last.start]
    if "\n" in gap:
        pad = gap.rpartition("\n")[2].lstrip("\r")
    elif gap or pad is None:
        pad, gap = None, gap or style.comma[1:]
    else:
        gap = style.newline + pad
    return last.end, "," + gap, pad


def new_member(style: JsonStyle, pad: str | None, key: str, brackets: str, inner: str) -> str:
    """A member that we make: white space behind its opening bracket says so later."""
    before = " " if pad is None else style.newline + pad + style.unit
    after = " " if pad is None else style.newline + pad
    return f"{key}{style.colon}{brackets[0]}{before}{inner}{after}{brackets[1]}"


_RALPH_HOOK = re.compile(r"(?:^|[\s'\"/\\])ralph[/\\]hooks[/\\]run\.py(?=$|[\s'\"])")


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One of our hooks as it stands in a file: for which event, and the whole group around it."""

    event: str
    group: object


def is_ralph_hook(hook: object) -> bool:
    """Whether a hook's command or arguments start Ralph."""
    if not isinstance(hook, Mapping):
        return False
    arguments = hook.get("args")
    words = [hook.get("command"), *(arguments if isinstance(arguments, list) else [])]
    return any(isinstance(word, str) and _RALPH_HOOK.search(word) for word in words)


def ralph_hooks(text: str | None, *, comments: bool = False) -> tuple[HookEntry, ...]:
    """Our hooks in a file, in its order."""
    if text is None or is_empty_file(text, comments=comments):
        return ()
    page = _HookFile(text, comments=comments)
    return tuple(HookEntry(page.hooks().members[at[1]].key, group.value) for at, group, _ in page.ralph_hooks())


def has_current_hooks(text: str | None, groups: Mapping[str, object], *, comments: bool = False) -> bool:
    """Whether a file holds exactly these groups of ours, each once, wherever they stand."""
    there = ralph_hooks(text, comments=comments)
    return len(there) == len(groups) and all(
        any(entry.event == event and same_json(entry.group, check_json(group)) for entry in there)
        for event, group in groups.items()
    )


def with_hooks(text: str | None, groups: Mapping[str, object], *, comments: bool = False) -> str:
    """The text with one group for each event put in; None is a file that is not there."""
    for event, group in groups.items():
        text = _insert_value(text, ["hooks", event], check_json(group), comments=comments, in_list=True)
    return text or ""


def without_hooks(text: str, *, comments: bool = False) -> str | None:
    """The text with our hooks taken out; None when the file was made for them alone."""
    left: str | None = text
    while left is not None and not is_empty_file(left, comments=comments):
        page = _HookFile(left, comments=comments)
        cut = next(page.ralph_hooks(), None)
        if cut is None:
            return left
        left = page.without(cut[0])
    return left


# --- reading -----------------------------------------------------------------------------------


class _HookFile(HostFile):
    """A settings file with its hooks."""

    def hooks(self) -> JsonNode:
        """The object that holds the hooks, or an empty one."""
        found = self.root.get("hooks")
        return JsonNode(0, 0, {}) if found is None else self.checked(found, dict, "`hooks`")

    def ralph_hooks(self) -> Iterator[tuple[tuple[int, ...], JsonNode, JsonNode]]:
        """Each hook of ours: its path of positions from the root, its group and itself.

        The path ends at the group when nobody else's hook stands in it, else at the hook.
        """
        hooks = self.hooks()
        at = next((n for n, member in reversed(list(enumerate(self.root.members))) if member.node is hooks), 0)
        for event, member in enumerate(hooks.members):
            for number, group in enumerate(member.node.items):
                inner = group.get("hooks")
                for place, hook in enumerate(inner.items if inner is not None else ()):
                    if inner is not None and is_ralph_hook(hook.value):
                        path = (at, event, number)
                        alone = all(is_ralph_hook(each.value) for each in inner.items)
                        yield (path if alone else (*path, _position(group, inner), place)), group, hook


def _position(container: JsonNode, node: JsonNode) -> int:
    return next(n for n, member in enumerate(container.members) if member.node is node)


SERVER_NAME = "ralph"
"""What our server is called everywhere."""

_TABLE = "mcp_servers"


def is_ralph_server(entry: object) -> bool:
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


def json_server(text: str | None, keys: Sequence[str], *, comments: bool = False) -> object | None:
    """The entry with our name below these keys, whoever wrote it."""
    if text is None or is_empty_file(text, comments=comments):
        return None
    nodes, _ = _nodes_along(HostFile(text, comments=comments), [*keys, SERVER_NAME])
    return nodes[-1].value if len(nodes) == len(keys) + 2 else None


def with_json_server(
    text: str | None, keys: Sequence[str], entry: Mapping[str, object], *, comments: bool = False
) -> str:
    """The text with our entry put in below these keys; None is a file that is not there."""
    return _insert_value(text, [*keys, SERVER_NAME], check_json(entry), comments=comments)


def without_json_server(text: str, keys: Sequence[str], *, comments: bool = False) -> str | None:
    """The text without our entry, and without what was made to hold it; None when the file was made for it alone."""
    if is_empty_file(text, comments=comments):
        return text
    page = HostFile(text, comments=comments)
    nodes, positions = _nodes_along(page, [*keys, SERVER_NAME])
    if len(nodes) < len(keys) + 2 or not is_ralph_server(nodes[-1].value):
        return text
    return page.without(positions)


# --- TOML ----------------------------------------------------------------------------------------


def toml_server(text: str | None) -> object | None:
    """The table with our name, whoever wrote it."""
    servers = _parse_toml(text or "").get(_TABLE)
    return servers.get(SERVER_NAME) if isinstance(servers, Mapping) else None


def with_toml_server(text: str | None, entry: Mapping[str, object]) -> str:
    """The text with our table added; comments and layout stay. None is a missing file."""
    before = text or ""
    expected = _parse_toml(before)
    servers = expected.setdefault(_TABLE, {})
    if not isinstance(servers, dict) or SERVER_NAME in servers:
        hint = "mend it by hand, or install with --no-mcp; nothing was written"
        raise Conflict(f"`{_TABLE}` is no table, or has a server called {SERVER_NAME} already", hint=hint)
    servers[SERVER_NAME] = dict(entry)

    def add(document: MutableMapping[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  (20 ms that only `ralph install codex` pays)

        if _TABLE not in document:
            document[_TABLE] = tomlkit.table(is_super_table=True)
        document[_TABLE][SERVER_NAME] = dict(entry)

    return _edit_toml(before, add, expected)


def without_toml_server(text: str) -> str | None:
    """The text without our table; None when nothing else is left of the file."""
    expected = _parse_toml(text)
    servers = expected.get(_TABLE)
    if not isinstance(servers, dict) or not is_ralph_server(servers.get(SERVER_NAME)):
        return text
    del servers[SERVER_NAME]

    def remove(document: MutableMapping[str, Any]) -> None:
        del document[_TABLE][SERVER_NAME]
        if not document[_TABLE]:
            del document[_TABLE]

    after = _edit_toml(text, remove, expected)
    if after.endswith(("\n\n", "\n\r\n")):  # the blank line that set our table off
        after = after.removesuffix("\n").removesuffix("\r")
    return after if after.strip() else None


def _edit_toml(text: str, edit: Callable[[MutableMapping[str, Any]], None], expected: dict[str, Any]) -> str:
    """The text after an edit by tomlkit; Conflict when the result does not hold exactly the expected values."""
    import tomlkit  # noqa: PLC0415  (see above)
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    newline = newline_of(text)
    try:
        document = tomlkit.parse(text.removeprefix(BOM))
        edit(document)
        after = text[: text.startswith(BOM)] + re.sub(r"\r?\n", newline, tomlkit.dumps(document))
        values = _parse_toml(after)
    except (TOMLKitError, Unreadable):
        values, after = {}, ""
    if {**values, _TABLE: values.get(_TABLE, {})} != {**expected, _TABLE: expected.get(_TABLE, {})}:
        hint = f"change `{_TABLE}` by hand; nothing was written"
        raise Conflict("the change would alter other values of this file", hint=hint)
    return after


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"this is no TOML: {error}", hint="mend the file by hand; nothing was written") from error
