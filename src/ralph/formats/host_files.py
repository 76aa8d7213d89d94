"""Add and remove Ralph's hooks and MCP servers in the settings files of coding agents.

An edit only inserts text, and removing the entry restores the old bytes. For that, Ralph has to
recognise the containers (objects and lists) that it created: they have whitespace after the opening
bracket. In a container that already existed but was empty, the entry follows the bracket
immediately. Comments are blanked out for parsing, but stay in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ralph.core.documents import Problem
from ralph.core.errors import Conflict, Unreadable
from ralph.core.json_text import (
    JsonMember,
    JsonNode,
    check_json,
    dump_json,
    is_blank,
    read_json,
    same_json,
)
from ralph.core.text import BOM, newline_of

SERVER_NAME = "ralph"
STATUS_LINE = ("statusLine",)
_TOML_TABLE = "mcp_servers"
_RALPH_HOOK = re.compile(
    r"(?:^|[\s'\"/\\])ralph[/\\](?:bin[/\\]ralph-hook|hooks[/\\]run\.py)(?=$|[\s'\"])"
)
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\r\n]|\\.)*")|,(?=\s*[}\]])')
_LENIENT_KEYS = ("mcp", "context_servers", "servers")
"""Top-level keys used by clients that allow trailing commas."""
_WHITESPACE = " \t\r\n"
_DEFAULT_INDENT = "  "
_ONLY_VERSION = '{\n  "version": 1\n}\n'
# Whitespace after the opening bracket means that the file existed, but was empty.
_BLANK_FILE_MARK = "  "


class HookEntry(NamedTuple):
    """One of Ralph's hooks, given by its event and the group that contains it."""

    event: str
    group: object


# --- hooks -------------------------------------------------------------------------------------


def is_ralph_hook(hook: object) -> bool:
    """Return whether a hook's command or arguments start Ralph."""
    return any(isinstance(word, str) and _RALPH_HOOK.search(word) for word in _command_words(hook))


def _command_words(entry: object) -> list[object]:
    if not isinstance(entry, Mapping):
        return []
    words: list[object] = []
    command = entry.get("command")
    if isinstance(command, list):
        words += command
    else:
        words.append(command)
    arguments = entry.get("args")
    if isinstance(arguments, list):
        words += arguments
    return words


def ralph_hooks(text: str | None) -> tuple[HookEntry, ...]:
    """Return Ralph's hooks in a file, in file order.

    Raises Unreadable if the file cannot be parsed.
    """
    page = _open_file(text)
    if page is None:
        return ()
    return tuple(hook.entry for hook in page.find_ralph_hooks())


def has_current_hooks(text: str | None, groups: Mapping[str, object]) -> bool:
    """Return whether Ralph's hooks in a file are exactly these groups, in any order.

    Raises Unreadable if the file cannot be parsed.
    """
    entries = ralph_hooks(text)
    if len(entries) != len(groups):
        return False
    return all(_has_hook(entries, event, group) for event, group in groups.items())


def _has_hook(entries: Sequence[HookEntry], event: str, group: object) -> bool:
    expected = check_json(group)
    return any(entry.event == event and same_json(entry.group, expected) for entry in entries)


def with_hooks(text: str | None, groups: Mapping[str, object]) -> str:
    """Return the text with one group added for each event.

    A new file whose entries are not grouped also gets the version that its client expects. Raises
    Unreadable if the file cannot be parsed.
    """
    if text is None and any(_is_ungrouped(group) for group in groups.values()):
        entries = {event: [check_json(entry)] for event, entry in groups.items()}
        return _dump({"hooks": entries, "version": 1}, _DEFAULT_INDENT) + "\n"
    for event, group in groups.items():
        text = _insert_value(text, ["hooks", event], check_json(group), in_list=True)
    return text or ""


def _is_ungrouped(group: object) -> bool:
    return isinstance(group, Mapping) and "hooks" not in group


def without_hooks(text: str) -> str | None:
    """Return the text without Ralph's hooks, or None if the file was created for them.

    Raises Unreadable if the file cannot be parsed.
    """
    page = _open_file(text)
    if page is None:
        return text
    hook = next(page.find_ralph_hooks(), None)
    if hook is None:
        return text
    rest = page.without(hook.path)
    if rest is None:
        return None
    if rest == _ONLY_VERSION and page.root.members[0].key == "hooks":  # we wrote the version
        return None
    return without_hooks(rest)


# --- JSON entries ------------------------------------------------------------------------------


def is_ralph_server(entry: object) -> bool:
    """Return whether an entry starts Ralph's MCP server."""
    words = [str(word) for word in _command_words(entry)]
    for first, second, third in zip(words, words[1:], words[2:], strict=False):
        program = re.split(r"[/\\]", first)[-1]
        if (program, second, third) == ("ralph", "mcp", "serve"):
            return True
    return False


def json_entry(text: str | None, path: Sequence[str]) -> object | None:
    """Return the value at a path of keys, no matter who wrote it, or None if there is none.

    Raises Unreadable if the file cannot be parsed.
    """
    page = _open_file(text, path)
    if page is None:
        return None
    found = page.find_nodes(path)
    return found.nodes[-1].value if found.is_complete else None


def with_json_entry(text: str | None, path: Sequence[str], entry: Mapping[str, object]) -> str:
    """Return the text with an entry added at a path of keys.

    Raises Unreadable if the file cannot be parsed, and Conflict if there is already a value.
    """
    return _insert_value(text, path, check_json(entry))


def without_json_entry(text: str, path: Sequence[str]) -> str | None:
    """Return the text without the entry at a path of keys and the containers created for it.

    Returns None if the whole file was created for the entry. Raises Unreadable if the file cannot
    be parsed.
    """
    page = _open_file(text, path)
    if page is None:
        return text
    found = page.find_nodes(path)
    if not found.is_complete:
        return text
    return page.without(found.positions)


def _dump(value: object, indent: str) -> str:
    return dump_json(value, indent=indent, separators=(",", ": "))


def _insert_value(
    text: str | None, path: Sequence[str], value: object, *, in_list: bool = False
) -> str:
    """Insert a value at a path of keys, or append it to the list there."""
    page = _open_file(text, path)
    if page is None or text is None:
        return _new_file(text, path, [value] if in_list else value)
    found = page.find_nodes(path)
    container = found.nodes[-1]
    key = ""
    if not found.is_complete:
        if in_list:
            value = [value]
        missing = path[len(found.positions) :]
        value = _nest(value, missing[1:])
        key = dump_json(missing[0]) + ": "
    elif in_list:
        page.check_type(container, list, f"`{'.'.join(path)}`")
    else:
        raise Conflict(
            f"there is already a member `{'.'.join(path)}`",
            hint="remove it first; nothing was written",
        )
    # The brackets that we create are on lines of their own, so whitespace follows them. That is how
    # `without` recognises them.
    written = _dump(value, page.indent)
    place = page.insertion_place(container, len(found.nodes))
    written = written.replace("\n", newline_of(text) + place.indentation)
    return text[: place.position] + place.separator + key + written + text[place.position :]


def _nest(value: object, keys: Sequence[str]) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _new_file(text: str | None, path: Sequence[str], value: object) -> str:
    written = _dump(_nest(value, path), _DEFAULT_INDENT)
    if text is None:
        return written + "\n"
    return f"{text}{{{_BLANK_FILE_MARK}{written[1:].lstrip()}"


# --- a file with positions ---------------------------------------------------------------------


class _FoundPath(NamedTuple):
    """The nodes along a path from the root, as far as it exists, and their positions."""

    nodes: list[JsonNode]
    positions: list[int]
    is_complete: bool


class _FoundHook(NamedTuple):
    """A hook, and the path from the root, by position, to what must be removed for it."""

    path: tuple[int, ...]
    entry: HookEntry


class _InsertionPlace(NamedTuple):
    """Where a child can be inserted, the separator before it, and its indentation."""

    position: int
    separator: str
    indentation: str


def _open_file(text: str | None, keys: Sequence[str] = ()) -> _HostFile | None:
    """Parse a file. Return None if it does not exist or is empty."""
    if text is None or is_blank(_blank_comments(text)):
        return None
    return _HostFile(text, lenient=bool(keys) and keys[0] in _LENIENT_KEYS)


def _blank_comments(text: str) -> str:
    """Replace comments, which Gemini allows, by spaces, so that all positions stay the same."""

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        return re.sub(r"[^\r\n]", " ", match[0])

    return _COMMENT.sub(blank, text)


class _HostFile:
    """A settings file with the positions of its values.

    Raises Unreadable if it is not JSON.
    """

    def __init__(self, text: str, *, lenient: bool = False) -> None:
        self.text = text
        self.json = _blank_comments(text)
        if lenient:
            self.json = _TRAILING_COMMA.sub(lambda match: match[1] or " ", self.json)
        root = read_json(self.json)
        if isinstance(root, Problem):
            raise Unreadable(
                f"line {root.line}: {root.what}", hint="fix the file by hand; nothing was written"
            )
        self.root = self.check_type(root, dict, "the file")
        indented = re.search(r"\n([ \t]+)[^ \t\r\n]", self.json)
        self.indent = indented[1] if indented is not None else _DEFAULT_INDENT

    def check_type(self, node: JsonNode, kind: type, name: str) -> JsonNode:
        """Return a node after checking its type. Raises Unreadable if it has another type."""
        if not isinstance(node.value, kind):
            expected = "an object" if kind is dict else "a list"
            line = self.text.count("\n", 0, node.start) + 1
            raise Unreadable(
                f"line {line}: {name} should be {expected}",
                hint="fix it by hand; nothing was written",
            )
        return node

    def find_nodes(self, path: Sequence[str]) -> _FoundPath:
        """Return the nodes along a path of keys, as far as they exist."""
        nodes = [self.root]
        positions: list[int] = []
        for depth, key in enumerate(path):
            name = f"`{'.'.join(path[:depth])}`" if depth else "the file"
            container = self.check_type(nodes[-1], dict, name)
            position = _find_member(container, key)
            if position is None:
                return _FoundPath(nodes, positions, is_complete=False)
            positions.append(position)
            nodes.append(container.members[position].node)
        return _FoundPath(nodes, positions, is_complete=True)

    def find_ralph_hooks(self) -> Iterator[_FoundHook]:
        """Yield Ralph's hooks in file order."""
        found = self.find_nodes(["hooks"])
        if not found.is_complete:
            return
        hooks = self.check_type(found.nodes[-1], dict, "`hooks`")
        for event_position, event in enumerate(hooks.members):
            for group_position, group in enumerate(event.node.items):
                path = (found.positions[0], event_position, group_position)
                entry = HookEntry(event.key, group.value)
                for inner_path in _paths_in_group(group):
                    yield _FoundHook((*path, *inner_path), entry)

    def without(self, path: Sequence[int]) -> str | None:
        """Return the text without a node and the containers that were created for it.

        Returns None if the whole file was created for it.
        """
        containers = [self.root]
        for position in path[:-1]:
            child = containers[-1].children[position]
            containers.append(child.node if isinstance(child, JsonMember) else child)
        for container, position in reversed(list(zip(containers, path, strict=True))):
            child = container.children[position]
            if len(container.children) > 1:
                return self._without_child(container.children, position)
            before = self.text[container.start + 1 : child.start]
            was_empty = not before
            has_comment = bool(before.strip(_WHITESPACE))
            if was_empty or has_comment:  # the container was not created for the child
                return self.text[: child.start] + self.text[child.end :]
        head = self.text[: self.root.start]
        tail = self.text[self.root.end :]
        if self.text[self.root.start + 1 : self.root.children[0].start] == _BLANK_FILE_MARK:
            return head + tail
        if is_blank(head + tail):
            return None
        return f"{head}{{}}{tail}"

    def _without_child(self, children: Sequence[JsonMember | JsonNode], position: int) -> str:
        """Return the text without one of several children and its comma.

        A comment between the child and its comma is kept.
        """
        child = children[position]
        if position:
            start = children[position - 1].end
            end = child.end
            comma = self.json.index(",", start)
        else:
            start = child.start
            end = children[position + 1].start
            comma = self.json.index(",", child.end)
        around = self.text[start : child.start] + self.text[child.end : end]
        if around.strip(_WHITESPACE) == ",":
            return self.text[:start] + self.text[end:]
        if comma < child.start:
            between = self.text[comma + 1 : child.start]
            return self.text[:comma] + between + self.text[child.end :]
        between = self.text[child.end : comma]
        return self.text[: child.start] + between + self.text[comma + 1 :]

    def insertion_place(self, container: JsonNode, depth: int) -> _InsertionPlace:
        """Return where to insert a new child at the end of a container."""
        indentation = self.indent * depth
        if not container.children:
            return _InsertionPlace(container.start + 1, "", indentation)
        last = container.children[-1]
        gap_start = len(self.text[: last.start].rstrip(_WHITESPACE))
        gap = self.text[gap_start : last.start]
        if "\n" not in gap:
            separator = f",{newline_of(self.text)}{indentation}"
            return _InsertionPlace(last.end, separator, indentation)
        return _InsertionPlace(last.end, "," + gap, gap.rpartition("\n")[2])


def _find_member(container: JsonNode, key: str) -> int | None:
    """Return the position of a member, or None. If a key is duplicated, the last one wins."""
    for position in reversed(range(len(container.members))):
        if container.members[position].key == key:
            return position
    return None


def _paths_in_group(group: JsonNode) -> Iterator[tuple[int, ...]]:
    """Yield the path of what to remove for each of Ralph's hooks in a group.

    The path () stands for the group itself.
    """
    if is_ralph_hook(group.value):  # clients without groups
        yield ()
    hooks_position = _find_member(group, "hooks")
    if hooks_position is None:
        return
    items = group.members[hooks_position].node.items
    is_ours_alone = all(is_ralph_hook(item.value) for item in items)
    for position, item in enumerate(items):
        if is_ours_alone:
            yield ()
        elif is_ralph_hook(item.value):
            yield (hooks_position, position)


# --- TOML --------------------------------------------------------------------------------------


def toml_server(text: str | None) -> object | None:
    """Return the server table with Ralph's name, no matter who wrote it, or None.

    Raises Unreadable if the file cannot be parsed.
    """
    servers = _parse_toml(text or "").get(_TOML_TABLE)
    return servers.get(SERVER_NAME) if isinstance(servers, Mapping) else None


def with_toml_server(text: str | None, entry: Mapping[str, object]) -> str:
    """Return the text with Ralph's server table added. Comments and layout are kept.

    Raises Unreadable if the file cannot be parsed, and Conflict if there is already a server with
    that name.
    """
    servers = _parse_toml(text or "").get(_TOML_TABLE, {})
    if not isinstance(servers, dict) or SERVER_NAME in servers:
        raise Conflict(
            f"`{_TOML_TABLE}` is not a table, or already has a server called {SERVER_NAME}",
            hint="fix it by hand, or install with --no-mcp; nothing was written",
        )
    return _edit_toml(text or "", dict(entry))


def without_toml_server(text: str) -> str | None:
    """Return the text without Ralph's server table, or None if nothing is left.

    Raises Unreadable if the file cannot be parsed, and Conflict if other values would change.
    """
    servers = _parse_toml(text).get(_TOML_TABLE)
    if not isinstance(servers, dict) or not is_ralph_server(servers.get(SERVER_NAME)):
        return text
    after = _edit_toml(text, None)
    if after.endswith(("\n\n", "\n\r\n")):  # the blank line above the table
        after = after.removesuffix("\n").removesuffix("\r")
    return after if after.strip() else None


def _edit_toml(text: str, entry: dict[str, object] | None) -> str:
    """Return the text with its server table replaced, or removed if `entry` is None."""
    from tomlkit.exceptions import TOMLKitError

    before = _parse_toml(text)
    servers = dict(before.get(_TOML_TABLE, {}))
    servers.pop(SERVER_NAME, None)
    if entry is not None:
        servers[SERVER_NAME] = entry
    expected = {**before, _TOML_TABLE: servers}
    after = ""
    values: dict[str, Any] = {}
    try:
        after = _render_toml(text, entry)
        values = _parse_toml(after)
    except (TOMLKitError, Unreadable):
        values = {}
    if {_TOML_TABLE: {}, **values} != expected:
        raise Conflict(
            "the change would alter other values of this file",
            hint=f"change `{_TOML_TABLE}` by hand; nothing was written",
        )
    return after


def _render_toml(text: str, entry: dict[str, object] | None) -> str:
    import tomlkit

    document: dict[str, Any] = tomlkit.parse(text.removeprefix(BOM))
    if entry is not None:
        servers = document.setdefault(_TOML_TABLE, tomlkit.table(is_super_table=True))
        servers[SERVER_NAME] = entry
    else:
        del document[_TOML_TABLE][SERVER_NAME]
        if not document[_TOML_TABLE]:
            del document[_TOML_TABLE]
    rendered = re.sub(r"\r?\n", newline_of(text), tomlkit.dumps(document))
    return BOM + rendered if text.startswith(BOM) else rendered


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(
            f"not valid TOML: {error}", hint="fix the file by hand; nothing was written"
        ) from error
