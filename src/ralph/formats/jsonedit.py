"""Edits of a JSON text: one container is written anew out of its own old pieces.

`object_text` and `array_text` copy what did not change, byte for byte, and render what is new in
the indentation around it: a list whose elements stand on lines of their own gets its next one on
a line of its own, a list on one line stays on one line. They give the text of that container
only, so that edits nest (`Raw`) and each costs one pass. `plain` is the gate before: what JSON
cannot hold is Refused before anything is written.
`tests/formats/test_jsontext.py` edits random texts and compares with `json.loads`.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ralph.errors import Refused
from ralph.formats.document import newline_of
from ralph.formats.jsontext import MAX_DEPTH, Node

DEEPEST = MAX_DEPTH // 2
"""Containers within containers that are written; well below what is read, as values stand inside others."""

_DIGITS = 4000  # Python itself reads no number that is much longer
_ESCAPED = re.compile("[\ud800-\udfff\x85\u2028\u2029]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_INDENT = re.compile(r"[ \t]*")


def plain(value: object, *, nul: bool = False, depth: int = 0) -> object:
    """A value as JSON can hold it (tuples become lists), or Refused; `nul` allows NUL characters."""
    if depth > DEEPEST:
        raise Refused(f"a value is nested deeper than {DEEPEST} levels", hint="store it as text instead")
    if isinstance(value, str):
        if not nul and "\x00" in value:
            raise Refused("the text holds a NUL character", hint="take the NUL characters out and try again")
        if _PAIR.search(value):
            raise Refused(
                "the text holds two halves of a character that JSON would join into one",
                hint="decode the text as UTF-16 or UTF-8 before storing it",
            )
        return str(value)
    if value is None or (isinstance(value, int) and value.bit_length() < 3 * _DIGITS):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return _members(value, nul=nul, depth=depth + 1)
    if isinstance(value, list | tuple):
        return [plain(inner, nul=nul, depth=depth + 1) for inner in value]
    raise Refused(
        f"JSON has no form for this value of the type {type(value).__name__}",
        hint="use text, whole or finite numbers, true, false, null, lists and mappings with text keys",
    )


def _members(value: Mapping[str, object], *, nul: bool = False, depth: int = 1) -> dict[str, object]:
    for key in value:
        if not isinstance(key, str):
            raise Refused(f"the key {key!r:.60} is not text", hint="JSON objects have text keys only")
    return {str(plain(key, nul=nul)): plain(inner, nul=nul, depth=depth) for key, inner in value.items()}


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def dumps(
    value: object,
    *,
    indent: str | None = None,
    separators: tuple[str, str] = (", ", ": "),
    ordered: bool = False,
) -> str:
    """JSON text of a plain value: readable letters of every script, but always valid UTF-8.

    Halves of characters are escaped, and so are the rarer line ends, at which some readers split.
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators, sort_keys=ordered
    )
    return _ESCAPED.sub(_escape, text)


def whole(value: object) -> str:
    """A new file that holds this value."""
    return dumps(plain(value), indent="  ", separators=(",", ": ")) + "\n"


def one_line(value: object, *, nul: bool = False, ordered: bool = False) -> str:
    """This value as one line of a file, with the line end; `ordered` sorts the members of every object."""
    return dumps(plain(value, nul=nul), separators=(",", ":"), ordered=ordered) + "\n"


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON; unlike in Python, 1, 1.0 and true are three."""
    try:
        return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # no JSON at all: `plain` finds the words for it
        return False


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON text that is written as it is, in place of a value."""

    text: str


class Drop(Enum):
    """Says that a member shall go."""

    DROP = "drop"


DROP = Drop.DROP


def difference(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """The members to set or drop so that an object which says `old` says `new`.

    Only what changes has to be fit to be written: an odd value that stands there already may stay.
    """
    changes = {key: value for key, value in new.items() if key not in old or not same(old[key], value)}
    return _members(changes) | {key: DROP for key in old if key not in new}


def keep_odd(node: Node, changes: dict[str, object], keys: Iterable[str]) -> None:
    """Carries over from the old lists of texts what is no text: it was told, and is not ours to delete."""
    for key in keys:
        old, new = node.get(key), changes.get(key)
        if old is not None and isinstance(new, list):
            changes[key] = [*new, *(item.value for item in old.items if not isinstance(item.value, str))]


def joined(named: Mapping[str, object], extra: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    """Named members, then further ones; Refused when a further one takes a name of the format."""
    for key in extra:
        if key in known:
            hint = "set the field of that name instead"
            raise Refused(f"`extra` holds `{key}`, which the format itself names", hint=hint)
    return {**named, **extra}


@dataclass(frozen=True, slots=True)
class Style:
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
        if isinstance(value, Raw):
            return value.text
        if not spread:
            return dumps(value, separators=(self.comma, self.colon))
        text = dumps(value, indent=self.unit, separators=(",", self.colon))
        return text.replace("\n", self.newline + pad)


def style_of(text: str, root: Node) -> Style:
    """The layout of a text, taken from its outermost value."""
    colon = ": "
    inner = next((node for node in (root, *root.items) if node.members), None)
    if inner is not None:
        first = inner.members[0]
        colon = ":" if text[first.key_end : first.node.start] == ":" else ": "
    if not root.children:
        return Style(newline_of(text), colon=colon)
    first_child = root.children[0].start
    spread = "\n" in text[root.start : first_child]
    return Style(newline_of(text), (_pad_at(text, first_child) if spread else "") or "  ", spread, colon)


def _pad_at(text: str, place: int) -> str:
    """The indentation of the line on which a place stands."""
    match = _INDENT.match(text, text.rfind("\n", 0, place) + 1)
    return match[0] if match else ""


def _child_pad(text: str, node: Node, style: Style) -> str | None:
    """The indentation of this container's children, or None when they stand on its own line."""
    children = node.children
    if not children:
        return _pad_at(text, node.start) + style.unit if style.spread else None
    before = children[-2].end if len(children) > 1 else node.start
    return _pad_at(text, children[-1].start) if "\n" in text[before : children[-1].start] else None


def _spread(text: str, node: Node | None, otherwise: bool) -> bool:
    """Whether a container stands over several lines; what is empty or no container says nothing."""
    return "\n" in text[node.start : node.end] if node is not None and node.children else otherwise


def _rejoin(
    text: str,
    node: Node,
    pad: str | None,
    style: Style,
    bodies: Mapping[int, str | None],
    added: Sequence[str],
) -> str:
    """A container's text with some children written anew (None: left out) and others put at its end."""
    pieces: list[str] = []
    before = node.start + 1
    for place, child in enumerate(node.children):
        body = bodies.get(place, text[child.start : child.end])
        if body is not None:
            first = node.children[0]
            pieces.append(text[before : child.start] if pieces else text[node.start + 1 : first.start])
            pieces.append(body)
        before = child.end
    gap = " " if pad is None and style.comma == ", " else "" if pad is None else style.newline + pad
    for body in added:
        pieces.append("," + gap if pieces else "" if pad is None else gap)
        pieces.append(body)
    if node.children:
        tail = text[before : node.end - 1] if pieces else ""
    else:
        tail = style.newline + _pad_at(text, node.start) if pieces and pad is not None else ""
    return text[node.start] + "".join(pieces) + tail + text[node.end - 1]


def object_text(text: str, node: Node, style: Style, changes: Mapping[str, object]) -> str:
    """An object's text with members set (a plain value or Raw) or dropped (DROP); new ones go to its end."""
    pad = _child_pad(text, node, style)
    last = {member.key: place for place, member in enumerate(node.members)}
    bodies: dict[int, str | None] = {}
    for place, member in enumerate(node.members):
        if member.key not in changes:
            continue
        value = changes[member.key]
        if value is DROP:
            bodies[place] = None
        elif last[member.key] == place:
            spread = _spread(text, member.node, pad is not None)
            rendered = style.render(value, _pad_at(text, member.start), spread)
            bodies[place] = text[member.start : member.node.start] + rendered
    added = [
        dumps(key) + style.colon + style.render(value, pad or "", pad is not None)
        for key, value in changes.items()
        if key not in last and value is not DROP
    ]
    return _rejoin(text, node, pad, style, bodies, added)


def array_text(
    text: str, node: Node, style: Style, *, added: Sequence[object] = (), removed: Iterable[int] = ()
) -> str:
    """An array's text without the elements at some positions, and with others at its end."""
    pad = _child_pad(text, node, style)
    model = next((item for item in reversed(node.items) if item.children), None)
    spread = _spread(text, model, pad is not None)
    indent = _pad_at(text, node.start) if pad is None else pad
    rendered = [style.render(value, indent, spread) for value in added]
    return _rejoin(text, node, pad, style, dict.fromkeys(removed), rendered)


def splice(text: str, node: Node, new: str) -> str:
    """The text with one value's place taken by a new text."""
    return text[: node.start] + new + text[node.end :]
