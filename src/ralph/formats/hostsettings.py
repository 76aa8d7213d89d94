"""Our hooks in somebody else's settings file: put in and taken out without moving another byte.

Claude Code, Codex and Gemini keep hooks alike: `{"hooks": {Event: [{"hooks": [...]}, ...]}}`. Putting
one in only ever inserts, after a container's last child or right behind its opening bracket, so taking
it out can give the old bytes back. What is not there yet is made, and its layout remembers that: a
container we made has white space behind its opening bracket, one that was there and empty has our
entry right behind it. So nothing has to be recorded anywhere, and a file that a program or a person
laid out anew since can still be cleaned. Ours is whatever starts `ralph/hooks/run.py`.
Gemini allows comments; they are blanked out for reading only, which keeps every place.
`tests/formats/test_hostsettings.py` proves it over generated files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralph.errors import Unreadable
from ralph.formats.document import Problem
from ralph.formats.jsonedit import Style, dumps, plain, same, style_of
from ralph.formats.jsontext import Lines, Member, Node, is_blank, read

_OURS = re.compile(r"(?:^|[\s'\"/\\])ralph[/\\]hooks[/\\]run\.py(?=$|[\s'\"])")
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_BLANKS = " \t\r\n"
_OF_A_BLANK_FILE = "  "
"""What stands behind the bracket when the file was there but held nothing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of our hooks as it stands in a file: for which event, and the whole group around it."""

    event: str
    group: object


def is_ours(hook: object) -> bool:
    """Whether a hook's command or arguments start Ralph."""
    if not isinstance(hook, Mapping):
        return False
    arguments = hook.get("args")
    words = [hook.get("command"), *(arguments if isinstance(arguments, list) else [])]
    return any(isinstance(word, str) and _OURS.search(word) for word in words)


def entries(text: str | None, *, comments: bool = False) -> tuple[Entry, ...]:
    """Our hooks in a file, in its order."""
    if text is None or _is_empty(text, comments=comments):
        return ()
    page = _Page(text, comments=comments)
    return tuple(Entry(page.hooks().members[at[1]].key, group.value) for at, group, _ in page.found())


def is_current(text: str | None, groups: Mapping[str, object], *, comments: bool = False) -> bool:
    """Whether a file holds exactly these groups of ours, each once, wherever they stand."""
    there = entries(text, comments=comments)
    return len(there) == len(groups) and all(
        any(entry.event == event and same(entry.group, plain(group)) for entry in there)
        for event, group in groups.items()
    )


def with_hooks(text: str | None, groups: Mapping[str, object], *, comments: bool = False) -> str:
    """The text with one group for each event put in; None is a file that is not there."""
    for event, group in groups.items():
        text = _with_group(text, event, plain(group), comments=comments)
    return text or ""


def without_hooks(text: str, *, comments: bool = False) -> str | None:
    """The text with our hooks taken out; None when the file was made for them alone."""
    left: str | None = text
    while left is not None and not _is_empty(left, comments=comments):
        page = _Page(left, comments=comments)
        cut = next(page.found(), None)
        if cut is None:
            return left
        left = page.without(cut[0])
    return left


def _seen(text: str, *, comments: bool) -> str:
    """The text as JSON: comments as spaces where they are allowed, so that every place stays."""
    if not comments:
        return text
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _VISIBLE.sub(" ", found[0]), text)


def _is_empty(text: str, *, comments: bool) -> bool:
    return is_blank(_seen(text, comments=comments))


# --- reading -----------------------------------------------------------------------------------


class _Page:
    """A settings file with its places."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self.text = text
        self.seen = _seen(text, comments=comments)
        root = read(self.seen)
        if isinstance(root, Problem):
            raise Unreadable(f"line {root.line}: {root.what}", hint="mend the file by hand; nothing was written")
        self.root = self._checked(root, dict, "the file")
        self.style = style_of(self.seen, root)

    def hooks(self) -> Node:
        """The object that holds the hooks, or an empty one."""
        found = self.root.get("hooks")
        return Node(0, 0, {}) if found is None else self._checked(found, dict, "`hooks`")

    def event(self, name: str) -> Node | None:
        """The list of an event's groups."""
        found = self.hooks().get(name)
        return None if found is None else self._checked(found, list, f"`hooks.{name}`")

    def found(self) -> Iterator[tuple[tuple[int, ...], Node, Node]]:
        """Each hook of ours: its path of positions from the root, its group and itself.

        The path ends at the group when nobody else's hook stands in it, else at the hook.
        """
        hooks = self.hooks()
        at = next((n for n, member in reversed(list(enumerate(self.root.members))) if member.node is hooks), 0)
        for event, member in enumerate(hooks.members):
            for number, group in enumerate(member.node.items):
                inner = group.get("hooks")
                for place, hook in enumerate(inner.items if inner is not None else ()):
                    if inner is not None and is_ours(hook.value):
                        path = (at, event, number)
                        alone = all(is_ours(each.value) for each in inner.items)
                        yield (path if alone else (*path, _position(group, inner), place)), group, hook

    def _checked(self, node: Node, kind: type, name: str) -> Node:
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
        if before == _OF_A_BLANK_FILE:
            return outside
        if is_blank(outside):
            return None
        return self.text[: self.root.start] + "{}" + self.text[self.root.end :]


def _position(container: Node, node: Node) -> int:
    return next(n for n, member in enumerate(container.members) if member.node is node)


# --- putting in --------------------------------------------------------------------------------


def _with_group(text: str | None, event: str, group: object, *, comments: bool) -> str:
    if text is None:
        style = Style()
        return f"{{\n{style.unit}{_hooks(style, style.unit, event, group)}\n}}\n"
    if _is_empty(text, comments=comments):
        style = Style()
        return f"{text}{{{_OF_A_BLANK_FILE}{_hooks(style, style.unit, event, group)}\n}}"
    page = _Page(text, comments=comments)
    if page.root.get("hooks") is None:
        place, gap, pad = _room(page, page.root, 1)
        return _inserted(text, place, gap + _hooks(page.style, pad, event, group))
    groups = page.event(event)
    if groups is None:
        place, gap, pad = _room(page, page.hooks(), 2)
        return _inserted(text, place, gap + _event(page.style, pad, event, group))
    place, gap, pad = _room(page, groups, 3)
    return _inserted(text, place, gap + page.style.render(group, pad or "", pad is not None))


def _inserted(text: str, place: int, new: str) -> str:
    return text[:place] + new + text[place:]


def _room(page: _Page, container: Node, depth: int) -> tuple[int, str, str | None]:
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


def _hooks(style: Style, pad: str | None, event: str, group: object) -> str:
    inside = None if pad is None else pad + style.unit
    return _made(style, pad, '"hooks"', "{}", _event(style, inside, event, group))


def _event(style: Style, pad: str | None, event: str, group: object) -> str:
    inside = None if pad is None else pad + style.unit
    return _made(style, pad, dumps(event), "[]", style.render(group, inside or "", pad is not None))


def _made(style: Style, pad: str | None, key: str, brackets: str, inner: str) -> str:
    """A member that we make: white space behind its opening bracket says so later."""
    before = " " if pad is None else style.newline + pad + style.unit
    after = " " if pad is None else style.newline + pad
    return f"{key}{style.colon}{brackets[0]}{before}{inner}{after}{brackets[1]}"
