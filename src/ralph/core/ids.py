"""Create, shorten and resolve ids.

What Ralph writes gets a freshly minted id such as `mem-1760000000-3f2a`; what others wrote gets an
id derived from its text. This is the only module that uses the clock or random numbers. Everything
else depends only on its arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from ralph.core.errors import Conflict, Hint, NotFound
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.core.errors import Clauses

ID = re.compile(r"(?P<prefix>[^\W\d_][\w]*)-(?P<unix>\d+)-(?P<tail>[0-9A-Za-z]+)")
"""An id in a file: a word, a Unix time, and hex digits or other alphanumerics."""

_SHORTENABLE = re.compile(
    r"(?P<kind>[^\W\d_]\w*)-(?P<rest>(?:\d+-)?[0-9A-Za-z]*\d[0-9A-Za-z]*|(?:\d+-)?[0-9a-f]+)"
)
"""An id that ends in random digits or a hash. One like `know-release-steps` is never shortened."""
_RANDOM_TAIL = r"-[0-9a-f]{4,}$"
SHORTEST_TAIL = 4  # characters
_MAX_CANDIDATES = 5  # matching ids that an error lists
_MILLISECOND_DIGITS = 13  # digits of a Unix time in milliseconds
_EARLIEST_SECONDS = 100_000_000  # 1973; a smaller number in an id is not a time
_DATE_CHARACTERS = 10  # of YYYY-MM-DD
_CACHED_TIMES = 16  # the time of an event is parsed several times
_SLUG_BREAK = r"[\W_]+"


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def today() -> str:
    """Return the current date in UTC, formatted as in files."""
    return now().date().isoformat()


def first_day(recent: int) -> str:
    """Return the first of the last `recent` days, or "" if `recent` is 0 (no limit)."""
    if recent <= 0:
        return ""
    day = now().date()
    days_back = min(recent, day.toordinal() - 1)
    return (day - timedelta(days=days_back)).isoformat()


def timestamp(moment: datetime | None = None, precision: str = "seconds") -> str:
    """Format a UTC time, by default the current one, as RFC 3339."""
    return (moment or now()).isoformat(timespec=precision).replace("+00:00", "Z")


@lru_cache(_CACHED_TIMES)
def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 time, or return None if it is invalid.

    A time without a time zone is in UTC.
    """
    try:
        moment = datetime.fromisoformat(text)
        if not moment.tzinfo:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def mint(prefix: str) -> str:
    """Return a new id `{prefix}-{unix}-{4 hex}`. The writer checks it for collisions."""
    return f"{prefix}-{int(now().timestamp())}-{os.urandom(2).hex()}"


def short(prefix: str, size: int = 3) -> str:
    """Return a new id `{prefix}-{hex}` for a task, feature or run. The writer checks it."""
    return f"{prefix}-{os.urandom(size).hex()}"


def mint_like(record_id: str) -> str:
    """Return a new id with another id's prefix and time, so that the record keeps its date."""
    return f"{record_id.rpartition('-')[0]}-{os.urandom(2).hex()}"


def date_of(record_id: str) -> str:
    """Return the date encoded in an id, or "" if there is none.

    The Unix time in the id may be in seconds or milliseconds.
    """
    moment = _moment_of(record_id)
    return moment.date().isoformat() if moment else ""


def instant(record_id: str, created_at: str) -> str:
    """Return when a record was added.

    If `created_at` is a date without a time, the time comes from the id, provided that it is on the
    same day.
    """
    if len(created_at) != _DATE_CHARACTERS:
        return created_at
    moment = _moment_of(record_id)
    if moment is None or moment.date().isoformat() != created_at:
        return created_at
    return timestamp(moment, "milliseconds")


def _moment_of(record_id: str) -> datetime | None:
    match = ID.fullmatch(record_id)
    if match is None:
        return None
    digits = match["unix"]
    try:
        seconds = float(int(digits))
        if len(digits) == _MILLISECOND_DIGITS:
            seconds /= 1000
        if seconds < _EARLIEST_SECONDS:
            return None
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def slug(text: str, limit: int = 80) -> str:
    """Return the words of `text` in lowercase, joined by hyphens.

    Words may be in any script. A slug longer than `limit` is cut at a hyphen if it has one.
    """
    words = re.sub(_SLUG_BREAK, "-", text.lower()).strip("-")
    if len(words) <= limit:
        return words
    return words[: limit + 1].rpartition("-")[0] or words[:limit]


def derived(prefix: str, text: str) -> str:
    """Return an id that depends only on the text."""
    import hashlib

    return f"{prefix}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def short_ids(wanted_ids: Iterable[str], all_ids: Iterable[str] | None = None) -> dict[str, str]:
    """Map each wanted id to its short form, which is its kind and the shortest unique tail.

    A tail has at least four characters. It is unique among all ids, or among the wanted ones if no
    others are given.
    """
    wanted = set(wanted_ids)
    if all_ids is None:
        all_ids = wanted
    endings = {record_id[-SHORTEST_TAIL:] for record_id in wanted}
    # Only ids with the same last four characters can share a tail.
    similar: dict[str, set[str]] = {}
    for record_id in all_ids:
        ending = record_id[-SHORTEST_TAIL:]
        if ending in endings:
            similar.setdefault(ending, set()).add(record_id)
    shortened: dict[str, str] = {}
    for record_id in wanted:
        match = _SHORTENABLE.fullmatch(record_id)
        if match is None:
            continue
        kind, rest = match.groups()
        rivals = similar.get(record_id[-SHORTEST_TAIL:], set()) - {record_id}
        tail = _shortest_unique_tail(rest, _rests_of_kind(kind, rivals))
        shortened[record_id] = f"{kind}-{tail}"
    return shortened


def _rests_of_kind(kind: str, record_ids: Iterable[str]) -> list[str]:
    """Return the part after the kind of all ids that have this kind and can be shortened."""
    matches = map(_SHORTENABLE.fullmatch, record_ids)
    return [match["rest"] for match in matches if match is not None and match["kind"] == kind]


def _shortest_unique_tail(rest: str, rivals: Sequence[str]) -> str:
    for start in range(len(rest) - SHORTEST_TAIL, -1, -1):
        tail = rest[start:]
        if not tail.startswith("-") and not any(rival.endswith(tail) for rival in rivals):
            return tail
    return rest


def match_ids(name: str, all_ids: Iterable[str]) -> list[str]:
    """Return the ids that a full or short id matches."""
    candidates = set(all_ids)
    if name in candidates:
        return [name]
    kind, _, tail = name.partition("-")
    if len(tail) < SHORTEST_TAIL:
        return []
    found = []
    for record_id in candidates:
        if not record_id.endswith(tail):
            continue
        match = _SHORTENABLE.fullmatch(record_id)
        if match is not None and match["kind"] == kind and match["rest"].endswith(tail):
            found.append(record_id)
    return sorted(found)


def not_found(
    noun: str, name: str, *, hint: str | Hint | Clauses = "", known: Iterable[str] = ()
) -> NotFound:
    """Return the error for an id that nothing has. It names the most similar id in `known`."""
    from ralph.core.spelling import closest, differs_by_one_character

    name = name.strip()
    full_ids: dict[str, str] = {}
    for full_id in known:
        kind = full_id.partition("-")[0]
        tail = full_id.rpartition("-")[2]
        for spelling in (full_id, f"{kind}-{tail}", full_id[: len(name)]):
            full_ids[spelling] = full_id
    message = f"{noun[:1].upper()}{noun[1:]} not found: {name}"
    if re.search(_RANDOM_TAIL, name):
        # Random tails are often similar by chance, and the caller may delete what it is offered.
        typos = (spelling for spelling in full_ids if differs_by_one_character(name, spelling))
        similar = next(typos, "")
    else:
        similar = closest(name, full_ids)
    if similar:
        message += f"; did you mean {full_ids[similar]}?"
    return NotFound(message, hint=hint)


def resolve(
    name: str, all_ids: Collection[str], *, noun: str = "entry", hint: str | Hint = ""
) -> str:
    """Expand a full or short id to the one id that it matches.

    Raises NotFound if there is no match, and Conflict, which lists the candidates, if there are
    several.
    """
    matches = match_ids(name.strip(), all_ids)
    if not matches:
        raise not_found(noun, name, hint=hint, known=all_ids)
    if len(matches) > 1:
        candidates = ", ".join(matches[:_MAX_CANDIDATES])
        if len(matches) > _MAX_CANDIDATES:
            candidates += f" and {len(matches) - _MAX_CANDIDATES} more"
        raise Conflict(
            f"{name} is ambiguous, it matches {len(matches)} ids: {candidates}",
            hint="give more of the id",
        )
    return matches[0]
