"""Add and remove Ralph's hooks and MCP servers in the settings files of coding agents.

A hook of Claude Code, for example, is inserted as

    {
      "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "..."}]}]
      }
    }

where the element of the list is called a group. Other clients have no groups, and list the hooks
themselves. An edit only inserts text, and removing the entry restores the old bytes (`host_json`).
`host_toml` does the same for clients whose settings are written in TOML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ralph.core.errors import Conflict
from ralph.core.json_text import JsonNode, check_json, dump_json, same_json
from ralph.core.text import newline_of
from ralph.formats.host_json import (
    BLANK_FILE_MARK,
    DEFAULT_INDENT,
    HostFile,
    find_member,
    open_file,
)

SERVER_NAME = "ralph"
STATUS_LINE = ("statusLine",)

# A path that ends in `ralph/bin/ralph-hook` or `ralph/hooks/run.py`, perhaps in quotes. On Windows,
# the launcher has the suffix `.py`, and backslashes may be doubled.
_RALPH_HOOK = re.compile(
    r"(?:^|[\s'\"/\\])ralph[/\\]+"
    r"(?:bin[/\\]+ralph-hook(?:\.py)?|hooks[/\\]+run\.py)(?=$|[\s'\"])"
)
_ONLY_VERSION = '{\n  "version": 1\n}\n'


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
    page = open_file(text)
    if page is None:
        return ()
    return tuple(hook.entry for hook in _find_ralph_hooks(page))


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
        return _dump({"hooks": entries, "version": 1}, DEFAULT_INDENT) + "\n"
    for event, group in groups.items():
        text = _insert_value(text, ["hooks", event], check_json(group), in_list=True)
    return text or ""


def _is_ungrouped(group: object) -> bool:
    return isinstance(group, Mapping) and "hooks" not in group


def without_hooks(text: str) -> str | None:
    """Return the text without Ralph's hooks, or None if the file was created for them.

    Raises Unreadable if the file cannot be parsed.
    """
    page = open_file(text)
    if page is None:
        return text
    hook = next(_find_ralph_hooks(page), None)
    if hook is None:
        return text
    rest = page.without(hook.path)
    if rest is None:
        return None
    if rest == _ONLY_VERSION and page.root.members[0].key == "hooks":  # we wrote the version
        return None
    return without_hooks(rest)


class _FoundHook(NamedTuple):
    """A hook, and the path from the root, by position, to what must be removed for it."""

    path: tuple[int, ...]
    entry: HookEntry


def _find_ralph_hooks(page: HostFile) -> Iterator[_FoundHook]:
    found = page.find_nodes(["hooks"])
    if not found.is_complete:
        return
    hooks = page.check_type(found.nodes[-1], dict, "`hooks`")
    for event_position, event in enumerate(hooks.members):
        for group_position, group in enumerate(event.node.items):
            path = (found.positions[0], event_position, group_position)
            entry = HookEntry(event.key, group.value)
            for inner_path in _paths_in_group(group):
                yield _FoundHook((*path, *inner_path), entry)


def _paths_in_group(group: JsonNode) -> Iterator[tuple[int, ...]]:
    """Yield the path of what to remove for each of Ralph's hooks in a group.

    The path () stands for the group itself.
    """
    if is_ralph_hook(group.value):  # clients without groups
        yield ()
    hooks_position = find_member(group, "hooks")
    if hooks_position is None:
        return
    items = group.members[hooks_position].node.items
    is_ours_alone = all(is_ralph_hook(item.value) for item in items)
    for position, item in enumerate(items):
        if is_ours_alone:
            yield ()
        elif is_ralph_hook(item.value):
            yield (hooks_position, position)


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
    page = open_file(text, path)
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
    page = open_file(text, path)
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
    page = open_file(text, path)
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
    # `_dump` writes a line break after each opening bracket, which is how `HostFile.without`
    # recognises the containers that were created here.
    written = _dump(value, page.indent)
    point = page.insertion_point(container, len(found.nodes))
    written = written.replace("\n", newline_of(text) + point.indentation)
    return text[: point.position] + point.separator + key + written + text[point.position :]


def _nest(value: object, keys: Sequence[str]) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _new_file(text: str | None, path: Sequence[str], value: object) -> str:
    written = _dump(_nest(value, path), DEFAULT_INDENT)
    if text is None:
        return written + "\n"
    return f"{text}{{{BLANK_FILE_MARK}{written[1:].lstrip()}"
