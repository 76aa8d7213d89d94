"""A JSON settings file that belongs to another program, with the positions of its values.

Ralph edits such files by inserting and cutting out text, so that everything else stays as it is,
including comments. For parsing, comments are replaced by spaces of the same length.

Removing an entry should restore the file as it was. For that, Ralph has to recognise the containers
(objects and lists) that it created itself, such as `hooks` on the left. Whitespace follows their
opening brackets. If the container existed but was empty, as on the right, the entry follows the
bracket immediately.

    {                                       {
      "hooks": {                              "hooks": {"Stop": [
        "Stop": [                             ...
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ralph.core.documents import Problem
from ralph.core.errors import Unreadable
from ralph.core.json_text import JsonMember, JsonNode, is_blank, read_json
from ralph.core.text import newline_of

DEFAULT_INDENT = "  "
BLANK_FILE_MARK = "  "
"""Whitespace after the first bracket of a file that existed before, but was empty."""

# A string, which may contain slashes, or one of the two forms of comments.
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
# A string, which may contain commas, or a comma before a closing bracket.
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\r\n]|\\.)*")|,(?=\s*[}\]])')
_LENIENT_KEYS = ("mcp", "context_servers", "servers")
"""Top-level keys used by clients that allow trailing commas."""
_WHITESPACE = " \t\r\n"


class FoundPath(NamedTuple):
    """The nodes along a path from the root, as far as it exists, and their positions."""

    nodes: list[JsonNode]
    positions: list[int]
    is_complete: bool


class InsertionPoint(NamedTuple):
    """Where a child can be inserted, the separator before it, and its indentation."""

    position: int
    separator: str
    indentation: str


def open_file(text: str | None, keys: Sequence[str] = ()) -> HostFile | None:
    """Parse a file. Return None if it does not exist or is empty."""
    if text is None or is_blank(_blank_comments(text)):
        return None
    return HostFile(text, lenient=bool(keys) and keys[0] in _LENIENT_KEYS)


def _blank_comments(text: str) -> str:
    """Replace comments, which Gemini allows, by spaces, so that all positions stay the same."""

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        return re.sub(r"[^\r\n]", " ", match[0])

    return _COMMENT.sub(blank, text)


class HostFile:
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
        self.indent = indented[1] if indented is not None else DEFAULT_INDENT

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

    def find_nodes(self, path: Sequence[str]) -> FoundPath:
        """Return the nodes along a path of keys, as far as they exist."""
        nodes = [self.root]
        positions: list[int] = []
        for depth, key in enumerate(path):
            name = f"`{'.'.join(path[:depth])}`" if depth else "the file"
            container = self.check_type(nodes[-1], dict, name)
            position = find_member(container, key)
            if position is None:
                return FoundPath(nodes, positions, is_complete=False)
            positions.append(position)
            nodes.append(container.members[position].node)
        return FoundPath(nodes, positions, is_complete=True)

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
            if was_empty or has_comment:  # the container existed before the child was inserted
                return self.text[: child.start] + self.text[child.end :]
        head = self.text[: self.root.start]
        tail = self.text[self.root.end :]
        if self.text[self.root.start + 1 : self.root.children[0].start] == BLANK_FILE_MARK:
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

    def insertion_point(self, container: JsonNode, depth: int) -> InsertionPoint:
        """Return where to insert a new child at the end of a container."""
        indentation = self.indent * depth
        if not container.children:
            return InsertionPoint(container.start + 1, "", indentation)
        last = container.children[-1]
        gap_start = len(self.text[: last.start].rstrip(_WHITESPACE))
        gap = self.text[gap_start : last.start]
        if "\n" not in gap:
            separator = f",{newline_of(self.text)}{indentation}"
            return InsertionPoint(last.end, separator, indentation)
        return InsertionPoint(last.end, "," + gap, gap.rpartition("\n")[2])


def find_member(container: JsonNode, key: str) -> int | None:
    """Return the position of a member, or None. If a key is duplicated, the last one wins."""
    for position in reversed(range(len(container.members))):
        if container.members[position].key == key:
            return position
    return None
