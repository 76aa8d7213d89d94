"""Ids: minted for what Ralph writes, derived from the text for what others wrote.

This module alone reads the clock and randomness, so that everything else is a function of its
arguments. The same text always has the same derived id.
"""

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from ralph.errors import Conflict, NotFound

ID = re.compile(r"(?P<prefix>[^\W\d_][\w]*)-(?P<unix>\d+)-(?P<tail>[0-9A-Za-z]+)")
"""An id as it stands in files: a word, digits, and hex or other alphanumerics (not everybody writes hex)."""

_SHORTENED = re.compile(r"(?P<kind>[^\W\d_]\w*)-(?P<rest>(?:\d+-)?[0-9A-Za-z]*\d[0-9A-Za-z]*|(?:\d+-)?[0-9a-f]+)")
"""Ids that are random or a hash; a name such as `know-release-steps` is never shortened."""
_SHORTEST_TAIL = 4
_CANDIDATES = 5
_MILLISECONDS = 13
_FIRST_TIME = 100_000_000
_SLUG_BREAK = re.compile(r"[\W_]+")


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


def today() -> str:
    """The present date in UTC, as files hold it."""
    return now().date().isoformat()


def timestamp() -> str:
    """The present moment as RFC 3339 text."""
    return now().isoformat(timespec="seconds").replace("+00:00", "Z")


def mint(prefix: str) -> str:
    """A new id `{prefix}-{unix}-{4 hex}`; the writer checks it for a collision under the lock."""
    return f"{prefix}-{int(now().timestamp())}-{os.urandom(2).hex()}"


def short(prefix: str, size: int = 3) -> str:
    """A new id `{prefix}-{hex}` of so many random bytes, for tasks, features and runs; the writer checks it."""
    return f"{prefix}-{os.urandom(size).hex()}"


def mint_like(record_id: str) -> str:
    """A new id with the prefix and the time of an existing one, so that what it stands for keeps its date."""
    return f"{record_id.rpartition('-')[0]}-{os.urandom(2).hex()}"


def date_of(record_id: str) -> str:
    """The date that an id's timestamp stands for, or "" when it has none that makes sense.

    Thirteen digits are milliseconds, as JavaScript counts them; a small number counts something else than time.
    """
    match = ID.fullmatch(record_id)
    if match is None:
        return ""
    try:
        seconds = int(match["unix"][:-3] if len(match["unix"]) == _MILLISECONDS else match["unix"])
        return datetime.fromtimestamp(seconds, UTC).date().isoformat() if seconds >= _FIRST_TIME else ""
    except (ValueError, OverflowError, OSError):
        return ""


def slug(text: str, limit: int = 80) -> str:
    """Lowercase words of any script joined by hyphens, cut at a hyphen; "" when nothing is left."""
    whole = _SLUG_BREAK.sub("-", text.lower()).strip("-")
    if len(whole) <= limit:
        return whole
    cut = whole[: limit + 1].rpartition("-")[0]
    return cut or whole[:limit]


def derived(prefix: str, words: str) -> str:
    """An id that depends on nothing but the words."""
    import hashlib  # noqa: PLC0415  (few commands derive ids, every command starts)

    return f"{prefix}-{hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def short_ids(known: Iterable[str]) -> dict[str, str]:
    """Map each id to its short form: the kind and the shortest tail, of four characters or more, that is unique."""
    shortened = [(record_id, match) for record_id in set(known) if (match := _SHORTENED.fullmatch(record_id))]
    rests: dict[str, list[str]] = {}
    for _, match in shortened:
        rests.setdefault(match["kind"], []).append(match["rest"])
    uses: dict[tuple[str, str], int] = {}
    for kind, all_rests in rests.items():
        for rest in all_rests:
            for start in range(len(rest) - _SHORTEST_TAIL + 1):
                uses[kind, rest[start:]] = uses.get((kind, rest[start:]), 0) + 1
    short: dict[str, str] = {}
    for record_id, match in shortened:
        kind, rest = match["kind"], match["rest"]
        starts = range(len(rest) - _SHORTEST_TAIL, -1, -1)
        tail = next((rest[start:] for start in starts if uses[kind, rest[start:]] == 1 and rest[start] != "-"), rest)
        short[record_id] = f"{kind}-{tail}"
    return short


def match_ids(name: str, known: Iterable[str]) -> list[str]:
    """Return the ids that a full or short form means: an equal one alone, else all of its kind with that tail."""
    known = set(known)
    if name in known:
        return [name]
    kind, _, tail = name.partition("-")
    if len(tail) < _SHORTEST_TAIL:
        return []
    return sorted(each for each in known if each.startswith(f"{kind}-") and _has_tail(each, tail))


def _has_tail(record_id: str, tail: str) -> bool:
    match = _SHORTENED.fullmatch(record_id)
    return match is not None and match["rest"].endswith(tail)


def resolve(name: str, known: Iterable[str], *, noun: str = "entry", hint: str = "") -> str:
    """Return the one id that a full or short form means; NotFound, or Conflict with the candidates."""
    matches = match_ids(name.strip(), known)
    if not matches:
        raise NotFound(f"{noun.capitalize()} not found: {name}", hint=hint)
    if len(matches) > 1:
        more = "" if len(matches) <= _CANDIDATES else f" and {len(matches) - _CANDIDATES} more"
        listed = ", ".join(matches[:_CANDIDATES])
        raise Conflict(f"{name} means {len(matches)} ids: {listed}{more}", hint="give more of the id")
    return matches[0]
