"""Apply a function to every string in a JSON value, and redact members by their names.

`map_texts` visits the strings in order, because a private section that opens in one string may hide
the ones after it. `redact_members` finds the secrets that no single string reveals:

    {"password": "Wint3r!Kettle"}                     ->  {"password": "[redacted: password]"}
    {"name": "DB_PASSWORD", "value": "Wint3r!9"}      ->  {..., "value": "[redacted: password]"}
"""

from __future__ import annotations

from functools import lru_cache

from ralph.lean import TYPE_CHECKING
from ralph.privacy.private_parts import MAX_TAGS, find_tags
from ralph.privacy.secret_names import secret_name
from ralph.privacy.secrets import find_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Json = dict[str, object]

# No honest payload exceeds these limits.
_MAX_DEPTH = 24
_MAX_WIDTH = 1_000  # members of one list or object
_MAX_MEMBERS = 8_000  # members of a whole value
_TAG_GAP = "\n" * 9  # more whitespace than a tag may contain


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Apply a function to each string in a JSON value, in order and including member names.

    Whatever is nested too deeply or follows too many members is dropped. The middle of a long list
    is left out too, except that its private tags are passed to the function.
    """
    return _TextMapper(change).map(value, 0)


class _TextMapper:
    """Applies a function to the strings in one value. `_room` is how many members may follow."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change
        self._room = _MAX_MEMBERS

    def map(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self._change(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= _MAX_DEPTH:
            return None
        if isinstance(value, dict):
            return dict(self._map_members(list(value.items()), depth, is_object=True))
        members = self._map_members(list(enumerate(value)), depth, is_object=False)
        return [inner for _, inner in members]

    def _map_members(
        self, members: list[tuple[object, object]], depth: int, *, is_object: bool
    ) -> list[tuple[str, object]]:
        half = len(members)
        if len(members) > _MAX_WIDTH:
            half = _MAX_WIDTH // 2
        gap = members[half:-half]
        result: list[tuple[str, object]] = []
        for number, (key, inner) in enumerate(members):
            if half <= number < len(members) - half:
                continue
            if gap and number == len(members) - half:
                result.append(self._skip(gap))
            self._room -= 1
            if self._room < 0:
                break
            name = self._change(str(key)) if is_object else ""
            result.append((name, self.map(inner, depth + 1)))
        return result

    def _skip(self, gap: list[tuple[object, object]]) -> tuple[str, str]:
        """Pass on the private tags in members that are left out, and return a note about them."""
        tags = find_tags(_TAG_GAP.join(all_texts(gap)), MAX_TAGS + 1)
        self._change("".join("</private>" if tag.closes else "<private>" for tag in tags))
        note = f"[... {len(gap):,} left out ...]"
        return note, note


def all_texts(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, in order and including member names."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            for name, member in reversed(inner.items()):
                waiting.append(member)
                waiting.append(name)
        elif isinstance(inner, list | tuple):
            waiting.extend(reversed(inner))


_names_secret = lru_cache(maxsize=1_000)(secret_name)


def redact_members(value: object, patterns: Sequence[str] = (), key: str = "") -> object:
    """Redact values that are recognisable as secrets only by a member's name.

    `key` is the innermost enclosing name that names a secret, or "".
    """
    if isinstance(value, dict):
        key = _secret_title(value) or key
        redacted = {}
        for name, inner in value.items():
            inner_key = name if _names_secret(name) else key
            redacted[name] = redact_members(inner, patterns, inner_key)
        return redacted
    if isinstance(value, list):
        return [redact_members(inner, patterns, key) for inner in value]
    if not key or value is None or isinstance(value, bool) or value == key:
        return value
    value_start = len(key) + 5  # after `"key": "`
    for finding in find_secrets(f'"{key}": "{value}"', patterns):
        if finding.end > value_start:
            return f"[redacted: {finding.kind}]"
    return value


def _secret_title(value: Json) -> str:
    """Return `password` for an object such as `{"name": "password", "value": "..."}`.

    Returns "" if the object does not name a secret this way.
    """
    title = value.get("name", value.get("key"))
    if isinstance(title, str) and "value" in value and _names_secret(title):
        return title
    return ""
