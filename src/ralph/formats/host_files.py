"""Hooks and MCP servers in the settings files of coding agents.

An edit only inserts, and removing the entry restores the old bytes: a container that we create has white space behind
its opening bracket, one that was there and empty has our entry right behind it. Comments are blanked for reading only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ralph.errors import Conflict, Unreadable
from ralph.formats.json_text import (
    JsonMember,
    JsonNode,
    check_json,
    dump_json,
    is_blank,
    read_json,
    same_json,
)
from ralph.formats.text import BOM, Problem, newline_of

SERVER_NAME = "ralph"
_TABLE = "mcp_servers"
STATUS_LINE = ("statusLine",)
_RALPH_HOOK = re.compile(
    r"(?:^|[\s'\"/\\])ralph[/\\](?:bin[/\\]ralph-hook|hooks[/\\]run\.py)(?=$|[\s'\"])"
)
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\r\n]|\\.)*")|,(?=\s*[}\]])')
_LENIENT = (
    "mcp",
    "context_servers",
    "servers",
)  # first keys in files of clients that allow trailing commas
_BLANKS = " \t\r\n"
_VERSION_ALONE = '{\n  "version": 1\n}\n'
_BLANK_FILE_MARK = "  "  # behind the opening bracket when the file was there but empty


def _without_comments(text: str) -> str:
    """Comments, which Gemini allows, as spaces, so that every position stays."""
    return _COMMENT.sub(
        lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0]), text
    )


class _HostFile:
    def __init__(self, text: str, *, lenient: bool = False) -> None:
        self.text = text
        self.json = _without_comments(text)
        if lenient:
            self.json = _TRAILING_COMMA.sub(lambda match: match[1] or " ", self.json)
        root = read_json(self.json)
        if isinstance(root, Problem):
            raise Unreadable(
                f"line {root.line}: {root.what}", hint="mend the file by hand; nothing was written"
            )
        self.root = self.check_type(root, dict, "the file")
        indented = re.search(r"\n([ \t]+)[^ \t\r\n]", self.json)
        self.unit = indented[1] if indented is not None else "  "

    def check_type(self, node: JsonNode, kind: type, name: str) -> JsonNode:
        if not isinstance(node.value, kind):
            expected = "an object" if kind is dict else "a list"
            line = self.text.count("\n", 0, node.start) + 1
            raise Unreadable(
                f"line {line}: {name} should be {expected}",
                hint="mend it by hand; nothing was written",
            )
        return node

    def find_nodes(self, path: Sequence[str]) -> tuple[list[JsonNode], list[int]]:
        nodes = [self.root]
        positions = []
        for depth, key in enumerate(path):
            self.check_type(nodes[-1], dict, f"`{'.'.join(path[:depth])}`" if depth else "the file")
            matches = [
                position for position, member in enumerate(nodes[-1].members) if member.key == key
            ]
            if not matches:
                break
            positions.append(matches[-1])
            nodes.append(nodes[-1].members[matches[-1]].node)
        return nodes, positions

    def ralph_hooks(self) -> Iterator[tuple[tuple[int, ...], HookEntry]]:
        nodes, positions = self.find_nodes(["hooks"])
        hooks = self.check_type(nodes[-1], dict, "`hooks`").members if positions else ()
        for event, member in enumerate(hooks):
            for number, group in enumerate(member.node.items):
                at = next(
                    (
                        n
                        for n, inner in reversed(list(enumerate(group.members)))
                        if inner.key == "hooks"
                    ),
                    0,
                )
                items = (
                    group.members[at].node.items
                    if group.members and group.members[at].key == "hooks"
                    else ()
                )
                if is_ralph_hook(group.value):  # clients without groups
                    yield (positions[0], event, number), HookEntry(member.key, group.value)
                alone = all(is_ralph_hook(item.value) for item in items)
                for position, item in enumerate(items):
                    if is_ralph_hook(item.value):
                        path = (positions[0], event, number)
                        yield (
                            path if alone else (*path, at, position),
                            HookEntry(member.key, group.value),
                        )

    def without(self, path: Sequence[int]) -> str | None:
        """The text without a node; containers that were made to hold it go with it."""
        containers = [self.root]
        for position in path[:-1]:
            child = containers[-1].children[position]
            containers.append(child.node if isinstance(child, JsonMember) else child)
        for container, position in reversed(list(zip(containers, path, strict=True))):
            children = container.children
            child = container.children[position]
            if len(children) > 1:
                return self._without_one(children, position)
            before = self.text[container.start + 1 : child.start]
            if not before or before.strip(
                _BLANKS
            ):  # it was there and empty, or somebody's comment is in it
                return self.text[: child.start] + self.text[child.end :]
        head = self.text[: self.root.start]
        tail = self.text[self.root.end :]
        if before == _BLANK_FILE_MARK:
            return head + tail
        return None if is_blank(head + tail) else f"{head}{{}}{tail}"

    def _without_one(self, children: Sequence[JsonMember | JsonNode], position: int) -> str:
        """A comment between the child and its comma stays."""
        child = children[position]
        start = children[position - 1].end if position else child.start
        end = child.end if position else children[position + 1].start
        around = self.text[start : child.start] + self.text[child.end : end]
        if around.strip(_BLANKS) == ",":
            return self.text[:start] + self.text[end:]
        comma = self.json.index(",", start if position else child.end)
        first, second = sorted([(comma, comma + 1), (child.start, child.end)])
        return self.text[: first[0]] + self.text[first[1] : second[0]] + self.text[second[1] :]

    def insertion_point(self, container: JsonNode, depth: int) -> tuple[int, str, str]:
        pad = self.unit * depth
        if not container.children:
            return container.start + 1, "", pad
        last = container.children[-1]
        gap = self.text[len(self.text[: last.start].rstrip(_BLANKS)) : last.start]
        if "\n" not in gap:
            return last.end, f",{newline_of(self.text)}{pad}", pad
        return last.end, "," + gap, gap.rpartition("\n")[2]


def _open_file(text: str | None, keys: Sequence[str] = ()) -> _HostFile | None:
    if text is None or is_blank(_without_comments(text)):
        return None
    return _HostFile(text, lenient=bool(keys) and keys[0] in _LENIENT)


def _insert_value(
    text: str | None, path: Sequence[str], value: object, *, in_list: bool = False
) -> str:
    page = _open_file(text, path)
    nodes = page.find_nodes(path)[0] if page is not None else []
    key = ""
    if len(nodes) <= len(path):
        value = [value] if in_list else value
        for name in reversed(path[len(nodes) :]):
            value = {name: value}
        key = dump_json(path[len(nodes) - 1]) + ": "
    elif not in_list:
        raise Conflict(
            f"there is a member `{'.'.join(path)}` already",
            hint="take it out first; nothing was written",
        )
    elif page is not None:
        page.check_type(nodes[-1], list, f"`{'.'.join(path)}`")
    written = dump_json(
        value, indent=page.unit if page is not None else "  ", separators=(",", ": ")
    )
    if text is None:
        return written + "\n"
    if page is None:
        return f"{text}{{{_BLANK_FILE_MARK}{written[1:].lstrip()}"
    # Lines of their own put white space behind the brackets that we create, by which `without` recognises them.
    at, gap, pad = page.insertion_point(nodes[-1], len(nodes))
    return text[:at] + gap + key + written.replace("\n", newline_of(text) + pad) + text[at:]


class HookEntry(NamedTuple):
    """One of our hooks: its event, and the group around it."""

    event: str
    group: object


def _command_words(entry: object) -> list[object]:
    if not isinstance(entry, Mapping):
        return []
    arguments = entry.get("args")
    command = entry.get("command")
    words = command if isinstance(command, list) else [command]
    return [*words, *(arguments if isinstance(arguments, list) else [])]


def is_ralph_hook(hook: object) -> bool:
    """Whether a hook's command or arguments start Ralph."""
    return any(isinstance(word, str) and _RALPH_HOOK.search(word) for word in _command_words(hook))


def ralph_hooks(text: str | None) -> tuple[HookEntry, ...]:
    """Our hooks in a file, in its order."""
    page = _open_file(text)
    return tuple(entry for _, entry in page.ralph_hooks()) if page is not None else ()


def has_current_hooks(text: str | None, groups: Mapping[str, object]) -> bool:
    """Whether a file holds exactly these groups of ours, in any order."""
    entries = ralph_hooks(text)
    return len(entries) == len(groups) and all(
        any(entry.event == event and same_json(entry.group, check_json(group)) for entry in entries)
        for event, group in groups.items()
    )


def with_hooks(text: str | None, groups: Mapping[str, object]) -> str:
    """The text with one group for each event; a new file of entries without groups has the version of its form."""
    if text is None and any(
        isinstance(group, Mapping) and "hooks" not in group for group in groups.values()
    ):
        entries = {event: [check_json(entry)] for event, entry in groups.items()}
        return (
            dump_json({"hooks": entries, "version": 1}, indent="  ", separators=(",", ": ")) + "\n"
        )
    for event, group in groups.items():
        text = _insert_value(text, ["hooks", event], check_json(group), in_list=True)
    return text or ""


def without_hooks(text: str) -> str | None:
    """The text without our hooks; None when the file was made for them."""
    page = _open_file(text)
    path = next((path for path, _ in page.ralph_hooks()), None) if page is not None else None
    if page is None or path is None:
        return text
    rest = page.without(path)
    if rest == _VERSION_ALONE and page.root.members[0].key == "hooks":  # we put it there
        return None
    return None if rest is None else without_hooks(rest)


def is_ralph_server(entry: object) -> bool:
    """Whether an entry starts our server."""
    words = [str(word) for word in _command_words(entry)]
    return any(
        re.split(r"[/\\]", first)[-1] == "ralph" and (second, third) == ("mcp", "serve")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def json_entry(text: str | None, path: Sequence[str]) -> object | None:
    """The value below these keys, whoever wrote it."""
    page = _open_file(text, path)
    nodes = page.find_nodes(path)[0] if page is not None else []
    return nodes[-1].value if len(nodes) > len(path) else None


def with_json_entry(text: str | None, path: Sequence[str], entry: Mapping[str, object]) -> str:
    """The text with our entry below these keys."""
    return _insert_value(text, path, check_json(entry))


def without_json_entry(text: str, path: Sequence[str]) -> str | None:
    """The text without an entry of ours and the containers made for it; None when the file was made for it."""
    page = _open_file(text, path)
    nodes, positions = page.find_nodes(path) if page is not None else ([], [])
    return page.without(positions) if page is not None and len(nodes) > len(path) else text


def toml_server(text: str | None) -> object | None:
    """The table with our name, whoever wrote it."""
    servers = _parse_toml(text or "").get(_TABLE)
    return servers.get(SERVER_NAME) if isinstance(servers, Mapping) else None


def with_toml_server(text: str | None, entry: Mapping[str, object]) -> str:
    """The text with our table; comments and layout stay."""
    servers = _parse_toml(text or "").get(_TABLE, {})
    if not isinstance(servers, dict) or SERVER_NAME in servers:
        hint = "mend it by hand, or install with --no-mcp; nothing was written"
        raise Conflict(
            f"`{_TABLE}` is no table, or has a server called {SERVER_NAME} already", hint=hint
        )
    return _edit_toml(text or "", dict(entry))


def without_toml_server(text: str) -> str | None:
    """The text without our table; None when nothing is left."""
    servers = _parse_toml(text).get(_TABLE)
    if not isinstance(servers, dict) or not is_ralph_server(servers.get(SERVER_NAME)):
        return text
    after = _edit_toml(text, None)
    if after.endswith(("\n\n", "\n\r\n")):  # the blank line that set our table off
        after = after.removesuffix("\n").removesuffix("\r")
    return after if after.strip() else None


def _edit_toml(text: str, entry: dict[str, object] | None) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = _parse_toml(text)
    expected = {
        **before,
        _TABLE: {key: value for key, value in before.get(_TABLE, {}).items() if key != SERVER_NAME},
    }
    if entry is not None:
        expected[_TABLE][SERVER_NAME] = entry
    try:
        document: dict[str, Any] = tomlkit.parse(text.removeprefix(BOM))
        if entry is not None:
            servers = document.setdefault(_TABLE, tomlkit.table(is_super_table=True))
            servers[SERVER_NAME] = entry
        else:
            del document[_TABLE][SERVER_NAME]
            if not document[_TABLE]:
                del document[_TABLE]
        rendered = tomlkit.dumps(document)
        after = text[: text.startswith(BOM)] + re.sub(r"\r?\n", newline_of(text), rendered)
        values = _parse_toml(after)
    except (TOMLKitError, Unreadable):
        values = {}
        after = ""
    if {_TABLE: {}} | values != expected:
        hint = f"change `{_TABLE}` by hand; nothing was written"
        raise Conflict("the change would alter other values of this file", hint=hint)
    return after


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(
            f"this is no TOML: {error}", hint="mend the file by hand; nothing was written"
        ) from error
