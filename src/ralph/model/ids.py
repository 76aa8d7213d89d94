"""Ids: minted for what Ralph writes, derived from the text for what others wrote.

This module alone reads the clock and randomness: all else is a function of its arguments.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ralph.errors import Conflict, NotFound

ID = re.compile(r"(?P<prefix>[^\W\d_][\w]*)-(?P<unix>\d+)-(?P<tail>[0-9A-Za-z]+)")
"""An id in files: a word, digits, and hex or other alphanumerics."""

_SHORTENED = re.compile(
    r"(?P<kind>[^\W\d_]\w*)-(?P<rest>(?:\d+-)?[0-9A-Za-z]*\d[0-9A-Za-z]*|(?:\d+-)?[0-9a-f]+)"
)
"""Ids that are random or a hash; a name such as `know-release-steps` is never shortened."""
SHORTEST_TAIL = 4
_CANDIDATES = 5
_MILLISECONDS = 13
_DATE = 10
_SLUG_BREAK = re.compile(r"[\W_]+")


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


def today() -> str:
    """The present date in UTC, as files hold it."""
    return now().date().isoformat()


def first_day(recent: int) -> str:
    """Return the first of the last so many days; "" for all (0)."""
    day = now().date()
    return (
        (day - timedelta(days=min(recent, day.toordinal() - 1))).isoformat() if recent > 0 else ""
    )


def timestamp(moment: datetime | None = None, precision: str = "seconds") -> str:
    """A moment in UTC, by default the present one, as RFC 3339 text."""
    return (moment or now()).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 time, UTC by default; None when it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def mint(prefix: str) -> str:
    """A new id `{prefix}-{unix}-{4 hex}`; checked for a collision under the lock."""
    return f"{prefix}-{int(now().timestamp())}-{os.urandom(2).hex()}"


def short(prefix: str, size: int = 3) -> str:
    """A new id `{prefix}-{hex}`, for tasks, features and runs; the writer checks it."""
    return f"{prefix}-{os.urandom(size).hex()}"


def mint_like(record_id: str) -> str:
    """A new id with the prefix and time of another one: its record keeps its date."""
    return f"{record_id.rpartition('-')[0]}-{os.urandom(2).hex()}"


def date_of(record_id: str) -> str:
    """The date in an id (seconds or milliseconds), or ""."""
    return _moment_of(record_id)[:_DATE]


def instant(record_id: str, created_at: str) -> str:
    """When a record was added: a date alone is completed by the id's time, if of that day."""
    moment = _moment_of(record_id) if len(created_at) == _DATE else ""
    return moment if moment[:_DATE] == created_at else created_at


def _moment_of(record_id: str) -> str:
    if (match := ID.fullmatch(record_id)) is None:
        return ""
    try:
        seconds = int(match["unix"]) / (1000 if len(match["unix"]) == _MILLISECONDS else 1)
        moment = datetime.fromtimestamp(seconds, UTC) if seconds >= 100_000_000 else None
    except (ValueError, OverflowError, OSError):
        return ""
    return timestamp(moment, "milliseconds") if moment is not None else ""


def slug(text: str, limit: int = 80) -> str:
    """Lowercase words of any script joined by hyphens, cut at a hyphen."""
    slug = _SLUG_BREAK.sub("-", text.lower()).strip("-")
    if len(slug) <= limit:
        return slug
    return slug[: limit + 1].rpartition("-")[0] or slug[:limit]


def derived(prefix: str, text: str) -> str:
    """An id that depends on nothing but the text."""
    import hashlib

    return f"{prefix}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def short_ids(all_ids: Iterable[str]) -> dict[str, str]:
    """Map ids to short forms: the kind and the shortest unique tail of at least four."""
    shortened = [
        (record_id, match)
        for record_id in set(all_ids)
        if (match := _SHORTENED.fullmatch(record_id))
    ]
    uses: Counter[tuple[str, str]] = Counter()
    for _, match in shortened:
        kind, rest = match.groups()
        uses.update((kind, rest[start:]) for start in range(len(rest) - SHORTEST_TAIL + 1))
    short: dict[str, str] = {}
    for record_id, match in shortened:
        kind, rest = match.groups()
        starts = range(len(rest) - SHORTEST_TAIL, -1, -1)
        tail = next(
            (
                rest[start:]
                for start in starts
                if uses[kind, rest[start:]] == 1 and rest[start] != "-"
            ),
            rest,
        )
        short[record_id] = f"{kind}-{tail}"
    return short


def match_ids(name: str, all_ids: Iterable[str]) -> list[str]:
    """Return the ids that a form means: an equal one, else all with that tail."""
    known_ids = set(all_ids)
    if name in known_ids:
        return [name]
    kind, _, tail = name.partition("-")
    if len(tail) < SHORTEST_TAIL:
        return []
    matches = filter(None, map(_SHORTENED.fullmatch, known_ids))
    return sorted(
        match[0] for match in matches if match["kind"] == kind and match["rest"].endswith(tail)
    )


def resolve(name: str, all_ids: Iterable[str], *, noun: str = "entry", hint: str = "") -> str:
    """Return the one id that a form means; NotFound, or Conflict with the candidates."""
    if not (matches := match_ids(name.strip(), all_ids)):
        raise NotFound(f"{noun.capitalize()} not found: {name}", hint=hint)
    if len(matches) > 1:
        more = "" if len(matches) <= _CANDIDATES else f" and {len(matches) - _CANDIDATES} more"
        candidates = ", ".join(matches[:_CANDIDATES])
        raise Conflict(
            f"{name} means {len(matches)} ids: {candidates}{more}", hint="give more of the id"
        )
    return matches[0]
