"""A settings file of somebody else's program, with its places: what is put in and taken out moves no other byte.

Putting something in only ever inserts, after a container's last child or right behind its opening bracket, so taking
it out can give the old bytes back. What is not there yet is made, and its layout remembers that: a container we made
has white space behind its opening bracket, one that was there and empty has our entry right behind it. So nothing
has to be recorded anywhere, and a file that a program or a person laid out anew since can still be cleaned.
Gemini allows comments; they are blanked out for reading only, which keeps every place.
`hostsettings.py` (hooks) and `hostservers.py` (MCP servers) are made of this; their tests prove it.
"""

import re
from collections.abc import Sequence

from ralph.errors import Unreadable
from ralph.formats.document import Problem
from ralph.formats.jsonedit import Style, style_of
from ralph.formats.jsontext import Lines, Member, Node, is_blank, read

_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_BLANKS = " \t\r\n"
OF_A_BLANK_FILE = "  "
"""What stands behind the bracket when the file was there but held nothing."""


def is_empty(text: str, *, comments: bool) -> bool:
    """Whether a file holds nothing but white space, and comments where they are allowed."""
    return is_blank(_seen(text, comments=comments))


def _seen(text: str, *, comments: bool) -> str:
    """The text as JSON: comments as spaces where they are allowed, so that every place stays."""
    if not comments:
        return text
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _VISIBLE.sub(" ", found[0]), text)


class Page:
    """A settings file with its places."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self.text = text
        self.seen = _seen(text, comments=comments)
        root = read(self.seen)
        if isinstance(root, Problem):
            raise Unreadable(f"line {root.line}: {root.what}", hint="mend the file by hand; nothing was written")
        self.root = self.checked(root, dict, "the file")
        self.style = style_of(self.seen, root)

    def checked(self, node: Node, kind: type, name: str) -> Node:
        """The node, if it is what it should be."""
        if not isinstance(node.value, kind):
            wanted = "an object" if kind is dict else "a list"
            line = Lines(self.text)(node.start)
            raise Unreadable(f"line {line}: {name} should be {wanted}", hint="mend it by hand; nothing was written")
        return node

    # --- taking out ----------------------------------------------------------------------------

    def without(self, path: Sequence[int]) -> str | None:
        """The text without the node at a path; what was made to hold it goes with it."""
        containers = [self.root]
        for position in path[:-1]:
            child = containers[-1].children[position]
            containers.append(child.node if isinstance(child, Member) else child)
        for container, position in reversed(list(zip(containers, path, strict=True))):
            if len(container.children) > 1:
                return self._without_one(container, position)
            child = container.children[position]
            before = self.text[container.start + 1 : child.start]
            if not before or before.strip(_BLANKS):  # it was there and empty, or somebody's comment is in it
                return self.text[: child.start] + self.text[child.end :]
        return self._without_root(before)

    def _without_one(self, container: Node, position: int) -> str:
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
        if before == OF_A_BLANK_FILE:
            return outside
        if is_blank(outside):
            return None
        return self.text[: self.root.start] + "{}" + self.text[self.root.end :]


# --- putting in --------------------------------------------------------------------------------


def inserted(text: str, place: int, new: str) -> str:
    """The text with something put in at a place."""
    return text[:place] + new + text[place:]


def room(page: Page, container: Node, depth: int) -> tuple[int, str, str | None]:
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


def made(style: Style, pad: str | None, key: str, brackets: str, inner: str) -> str:
    """A member that we make: white space behind its opening bracket says so later."""
    before = " " if pad is None else style.newline + pad + style.unit
    after = " " if pad is None else style.newline + pad
    return f"{key}{style.colon}{brackets[0]}{before}{inner}{after}{brackets[1]}"
