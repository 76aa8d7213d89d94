"""Our hooks in somebody else's settings file: put in and taken out without moving another byte.

Claude Code, Codex and Gemini keep hooks alike: `{"hooks": {Event: [{"hooks": [...]}, ...]}}`. How
something is put in, and how a file knows what was made for it, is `hostpage.py`'s. Ours is whatever
starts `ralph/hooks/run.py`.
`tests/formats/test_hostsettings.py` proves it over generated files.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ralph.formats.hostpage import OF_A_BLANK_FILE, Page, inserted, is_empty, made, room
from ralph.formats.jsonedit import Style, dumps, plain, same
from ralph.formats.jsontext import Node

_OURS = re.compile(r"(?:^|[\s'\"/\\])ralph[/\\]hooks[/\\]run\.py(?=$|[\s'\"])")


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
    if text is None or is_empty(text, comments=comments):
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
    while left is not None and not is_empty(left, comments=comments):
        page = _Page(left, comments=comments)
        cut = next(page.found(), None)
        if cut is None:
            return left
        left = page.without(cut[0])
    return left


# --- reading -----------------------------------------------------------------------------------


class _Page(Page):
    """A settings file with its hooks."""

    def hooks(self) -> Node:
        """The object that holds the hooks, or an empty one."""
        found = self.root.get("hooks")
        return Node(0, 0, {}) if found is None else self.checked(found, dict, "`hooks`")

    def event(self, name: str) -> Node | None:
        """The list of an event's groups."""
        found = self.hooks().get(name)
        return None if found is None else self.checked(found, list, f"`hooks.{name}`")

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


def _position(container: Node, node: Node) -> int:
    return next(n for n, member in enumerate(container.members) if member.node is node)


# --- putting in --------------------------------------------------------------------------------


def _with_group(text: str | None, event: str, group: object, *, comments: bool) -> str:
    if text is None:
        style = Style()
        return f"{{\n{style.unit}{_hooks(style, style.unit, event, group)}\n}}\n"
    if is_empty(text, comments=comments):
        style = Style()
        return f"{text}{{{OF_A_BLANK_FILE}{_hooks(style, style.unit, event, group)}\n}}"
    page = _Page(text, comments=comments)
    if page.root.get("hooks") is None:
        place, gap, pad = room(page, page.root, 1)
        return inserted(text, place, gap + _hooks(page.style, pad, event, group))
    groups = page.event(event)
    if groups is None:
        place, gap, pad = room(page, page.hooks(), 2)
        return inserted(text, place, gap + _event(page.style, pad, event, group))
    place, gap, pad = room(page, groups, 3)
    return inserted(text, place, gap + page.style.render(group, pad or "", pad is not None))


def _hooks(style: Style, pad: str | None, event: str, group: object) -> str:
    inside = None if pad is None else pad + style.unit
    return made(style, pad, '"hooks"', "{}", _event(style, inside, event, group))


def _event(style: Style, pad: str | None, event: str, group: object) -> str:
    inside = None if pad is None else pad + style.unit
    return made(style, pad, dumps(event), "[]", style.render(group, inside or "", pad is not None))
