"""How healthy the memory is: what cites things that are gone, what nobody uses, what is said twice, and secrets.

Each of these is somebody else's answer (`check`, the ledger, `capture/alike`, `leaks`), put together for a page that a
person waits for, with ten thousand records. So nothing is parsed that the index knows: only the columns that are
compared are read, whole records only of what is told; a fresh look at citations is taken for the newest records, near
doubles are looked for among texts that share a rare word, and of logs only so much is searched for secrets at a time.
What was found is kept until the files that it was found in change. What was not looked at is said. What `ralph doctor`
finds odd takes a parse of every file, and is asked for separately (`odd`). `tests/app/pages/test_health.py` proves it.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import citations, doctor, index, lists, outdated, usage
from ralph.app.pages import dashboard
from ralph.app.pages.dashboard import Notice
from ralph.capture import privacy
from ralph.capture.similarity import similarity, term_weights
from ralph.errors import RalphError
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import Record
from ralph.store import files, lookup, queries
from ralph.store.sources import Format

# NOTE: Where something looks like a secret in the project's files, looked for piece by piece for a page tha

CHUNK_SIZE = 16_000
"""Characters after which a piece ends as soon as it may."""
MAX_SCANNED = 2_000_000
"""Characters of logs that are newly searched at a time."""
_ENTRY = re.compile(r"\n\s*\n(?=#{1,3} )")
_PARAGRAPH = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\n")
_LINES = (".jsonl", ".json")
"""Files in which no text goes over the end of a line."""
_LONG = 4
"""So many pieces long a text without the end of an entry may be, before a paragraph's end, and then a line's, does."""
_TAIL = 200
_MAX_SCAN_CACHE = 20_000


class SecretLocation(NamedTuple):
    """Where something stands that looks like a secret; never what it is."""

    file: str
    line: int
    rule: str


@dataclass(frozen=True, slots=True)
class _ScanState:
    """How far a file was searched, in which state of it, and what was found so far."""

    stamp: tuple[int, int]
    done: int = 0
    line: int = 1
    tail: str = ""
    whole: bool = False
    found: tuple[tuple[int, str], ...] = ()


_SCAN_CACHE: dict[tuple[Path, tuple[str, ...]], _ScanState] = {}


def find_secrets(root: Path, patterns: Sequence[str] = ()) -> tuple[list[SecretLocation], int]:
    """What looks like a secret, in every file that people write and in as much of the logs as there is time for.

    The number is how many logs are not searched to their ends yet.
    """
    found: list[SecretLocation] = []
    logs, room, left = paths.log_folder(root), MAX_SCANNED, 0
    for path in doctor.files_to_scan(root):
        seen, spent = _scan_file(path, tuple(patterns), room if path.is_relative_to(logs) else None)
        room -= spent if path.is_relative_to(logs) else 0
        left += not seen.whole
        found += (SecretLocation(paths.shown(path, root), line, rule) for line, rule in seen.found)
    return found, left


def _scan_file(path: Path, patterns: tuple[str, ...], room: int | None) -> tuple[_ScanState, int]:
    """A file as far as it was searched by now, and how many characters were searched anew; None is room for all."""
    try:
        status = path.stat()
    except OSError:  # it went away meanwhile
        return _ScanState((0, 0), whole=True), 0
    stamp, held = (status.st_mtime_ns, status.st_size), _SCAN_CACHE.get((path, patterns))
    if held is not None and held.stamp == stamp and held.whole:
        return held, 0
    if room is not None and room <= 0:  # what was found so far stands, and more may be there
        return (_ScanState(stamp) if held is None else replace(held, whole=False)), 0
    text = ""
    with suppress(RalphError):  # what cannot be read is told elsewhere
        text = files.read(path) or ""
    begun = _resume_scan(text, held, stamp, path)
    seen = _continue_scan(text, begun, path.suffix in _LINES, patterns, room)
    if len(_SCAN_CACHE) >= _MAX_SCAN_CACHE:
        _SCAN_CACHE.clear()
    _SCAN_CACHE[path, patterns] = seen
    return seen, max(1, seen.done - begun.done)


def _resume_scan(text: str, held: _ScanState | None, stamp: tuple[int, int], path: Path) -> _ScanState:
    """Where to go on: where the last look ended, in the same file or in a log that only grew; else the beginning."""
    if held is None:
        return _ScanState(stamp)
    same = held.stamp == stamp or path.suffix == ".jsonl"
    if not same or not text[: held.done].endswith(held.tail) or len(text) < held.done:
        return _ScanState(stamp)
    return _ScanState(stamp, held.done, held.line, held.tail, found=held.found)


def _continue_scan(text: str, seen: _ScanState, lines: bool, patterns: tuple[str, ...], room: int | None) -> _ScanState:
    done, line, found = seen.done, seen.line, list(seen.found)
    for start, end in chunks(text, seen.done, lines=lines):
        if room is not None and start - seen.done >= room:
            break
        piece = text[start:end]
        found += ((line + each.line - 1, each.kind) for each in privacy.find_secrets(piece, patterns))
        done, line = end, line + piece.count("\n")
    tail = text[max(0, done - _TAIL) : done]
    return _ScanState(seen.stamp, done, line, tail, done >= len(text), tuple(found))


def _last_boundary(way: re.Pattern[str], text: str, start: int, size: int) -> re.Match[str] | None:
    return way.search(text, start + size * CHUNK_SIZE, min(len(text), start + 2 * _LONG * CHUNK_SIZE + CHUNK_SIZE))


def chunks(text: str, start: int = 0, *, lines: bool = False) -> Iterator[tuple[int, int]]:
    """Where the pieces of a text begin and end; with `lines` each of its lines stands for itself."""
    while start < len(text):
        ways = [(_LINE, 1)] if lines else [(_ENTRY, 1), (_PARAGRAPH, _LONG), (_LINE, 2 * _LONG)]
        end = next(
            (match.end() for way, size in ways if (match := _last_boundary(way, text, start, size)) is not None), 0
        )
        if not end:  # a line that is longer than all that: it is one piece, and what follows it is another
            end = text.find("\n", start + 2 * _LONG * CHUNK_SIZE) + 1 or len(text)
        yield start, end
        start = end


MAX_LISTED = 50
"""So many of each are named; all of them are counted."""
MAX_CHECKED = 500
"""What so many records cite is looked for anew, the newest."""
CHECK_SECONDS = 1.0
"""Seconds that git may take for it."""
MAX_PAIRS = 60_000
"""So many pairs of texts are compared."""
_RARE_TERMS = 12
"""A word that more texts have than this brings no two of them together."""
_WORD = re.compile(r"\w{3,}")
_TITLE = 120
_CURATED = (Format.MEMORIES.value, Format.GUARDRAILS.value, Format.KNOWLEDGE.value)


class StaleRecord(NamedTuple):
    """A record that cites something which is not as it was."""

    id: str
    title: str
    what: str


class UnusedRecord(NamedTuple):
    """A record that sessions were handed, and never referred to."""

    id: str
    title: str
    injected: int
    tokens: int


class Duplicate(NamedTuple):
    """Records that say the same; `exactly` when they do so in the same words."""

    ids: tuple[str, ...]
    title: str
    exactly: bool


class RecordText(NamedTuple):
    """What is compared of a record: the format of its file, its id, and its words."""

    shelf: str
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """What should be looked at; lists are cut, counts are not, and `note` says what was not looked at.

    `more` when a further look would go on where this one stopped.
    """

    stale: tuple[StaleRecord, ...] = ()
    unused: tuple[UnusedRecord, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    secrets: tuple[SecretLocation, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    note: str = ""
    more: bool = False


def memory_health(root: Path, *, patterns: Sequence[str] = ()) -> MemoryHealth:
    """Look at everything, as far as a person waits for it; nothing but caches is written."""
    notes: list[str] = []
    stale = _stale_records(root, notes)
    unused = _unused_records(root)
    twice = _cached_duplicates(root, notes)
    secrets, left = find_secrets(root, patterns)
    if left:
        notes.append(f"{left} log(s) were not searched for secrets to their ends yet")
    found: dict[str, Sequence[object]] = {
        "stale": stale,
        "unused": unused,
        "duplicates": twice,
        "secrets": secrets,
    }
    return MemoryHealth(
        tuple(stale[:MAX_LISTED]),
        tuple(unused[:MAX_LISTED]),
        tuple(twice[:MAX_LISTED]),
        tuple(secrets[:MAX_LISTED]),
        {name: len(each) for name, each in found.items()},
        "; ".join(notes),
        bool(left),
    )


def text_title(text: str) -> str:
    """A text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def doctor_notices(root: Path, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """What doctor finds, but for notes, within logs, and what the dashboard tells by itself; of much, the beginning."""
    told = set(dashboard.notices(root, env))
    notices: list[Notice] = []
    for each in doctor.examine(root, env=env, logs=False):
        where, problem = paths.shown(each.path, root), each.problem
        known = Notice(problem.level, f"{where}: {problem.what}", problem.hint) in told
        if each.needs_a_person and not known:
            notices.append(Notice(problem.level, f"{where}:{problem.line}: {problem.what}", problem.hint))
    if len(notices) > MAX_LISTED:
        more = Notice("warning", f"{len(notices) - MAX_LISTED:,} more things are odd", "`ralph doctor` names every one")
        return (*notices[:MAX_LISTED], more)
    return tuple(notices)


def _records_by_id(root: Path, names: Iterable[str], formats: Sequence[str] = _CURATED) -> dict[str, Record]:
    """Those of some records that stand in files of these formats and are not retired, by their ids."""
    wanted = sorted(set(names))

    def question(connection: sqlite3.Connection) -> dict[str, Record]:
        keys = queries.curated_keys(connection, formats, wanted)
        return {record.id: record for record in queries.records(connection, keys).values()}

    return index.ask(root, question) if wanted else {}


# --- what is cited -----------------------------------------------------------------------------


def _stale_records(root: Path, notes: list[str]) -> list[StaleRecord]:
    """What cites something that is gone or moved; only records of which something was verified are read."""
    try:
        citations.refresh_results(root, most=MAX_CHECKED, patience=CHECK_SECONDS)
    except RalphError as error:
        notes.append(f"what records cite was not looked at: {error.message}")
    if _record_count(root) > MAX_CHECKED:
        notes.append(
            f"citations of all but the newest {MAX_CHECKED} records are from an earlier check: "
            "`ralph doctor --citations` checks all"
        )
    cited = _records_by_id(root, _verified_ids(root))
    marks = outdated.citation_notes(root, list(cited.values()))
    return [StaleRecord(name, text_title(cited[name].title or cited[name].text), what) for name, what in marks.items()]


def _verified_ids(root: Path) -> set[str]:
    """The records that cite something which was looked for, as the cache of `check` names them."""
    path = outdated.cache_file(root)
    try:
        lines = path.read_bytes().split(b"\n")[1:] if path.is_file() else []
    except OSError:
        return set()
    return {line.partition(b"\t")[0].decode("utf-8", "surrogateescape") for line in lines if line}


def _record_count(root: Path) -> int:
    return index.ask(root, lambda connection: queries.count_curated(connection, _CURATED))


# --- what nobody uses --------------------------------------------------------------------------


def _unused_records(root: Path) -> list[UnusedRecord]:
    """What sessions were handed and never referred to, that of most sessions first."""
    book = lists.read_ledger(root)
    handed = {name: sessions for name, (sessions, used) in usage.count_uses(book).items() if not used}
    tokens: dict[str, int] = {}
    for each in book.injections:
        tokens[each.record] = tokens.get(each.record, 0) + each.tokens
    found = [
        UnusedRecord(name, text_title(record.text), handed[name], tokens[name])
        for name, record in _records_by_id(root, handed, _CURATED[:2]).items()
    ]
    return sorted(found, key=lambda each: (-each.injected, -each.tokens, each.id))


# --- what is said twice ------------------------------------------------------------------------


def _cached_duplicates(root: Path, notes: list[str]) -> list[Duplicate]:
    """Records of one shelf that say the same; looked for anew when one of their files has changed."""
    asked = (root, ids.today(), index.ask(root, _state))
    found = _DUPLICATES_CACHE.get(asked)
    if found is None:  # another thread may look at the same time: what it finds is the same
        found = find_duplicates(index.ask(root, _texts))
        _DUPLICATES_CACHE.clear()
        _DUPLICATES_CACHE[asked] = found
    if found[1]:
        notes.append(f"near doubles were looked for among the {MAX_PAIRS:,} pairs of texts that share the rarest words")
    return found[0]


State = tuple[tuple[str, str], ...]
"""The files that are compared, each with the digest of what the index read of it."""
_DUPLICATES_CACHE: dict[tuple[Path, str, State], tuple[list[Duplicate], bool]] = {}


def _state(connection: sqlite3.Connection) -> State:
    return queries.source_digests(connection, _CURATED)


def _texts(connection: sqlite3.Connection) -> list[RecordText]:
    """Every memory, guardrail and knowledge entry that holds."""
    replaced, today = lookup.superseded(connection), ids.today()
    found: list[RecordText] = []
    for shelf, name, metadata, title, text in queries.curated_texts(connection, _CURATED):
        if name not in replaced and not _is_expired(metadata, today):
            found.append(RecordText(shelf, name, title, text))
    return found


def _is_expired(metadata: str, today: str) -> bool:
    """Whether a record's last day is over; hardly any names one."""
    if '"valid_until"' not in metadata:
        return False
    until = json.loads(metadata).get("valid_until", "")
    return isinstance(until, str) and "" < until < today


def find_duplicates(texts: Iterable[RecordText]) -> tuple[list[Duplicate], bool]:
    """What is said twice on one shelf, in the same words or in nearly the same, and whether not all were compared."""
    shelves: dict[str, list[RecordText]] = {}
    for each in texts:
        shelves.setdefault(each.shelf, []).append(each)
    found: list[Duplicate] = []
    cut = False
    for held in shelves.values():
        exact: dict[str, list[int]] = {}
        for place, each in enumerate(held):
            exact.setdefault(normalise_text(f"{each.title}\n{each.text}"), []).append(place)
        found += (_duplicate(held, places, exactly=True) for places in exact.values() if len(places) > 1)
        first = [places[0] for places in exact.values()]
        groups, some = similar_groups([held[place].text for place in first])
        found += (_duplicate(held, [first[place] for place in places], exactly=False) for places in groups)
        cut = cut or some
    return found, cut


def _duplicate(held: Sequence[RecordText], places: Sequence[int], *, exactly: bool) -> Duplicate:
    first = held[places[0]]
    return Duplicate(tuple(held[place].id for place in places), text_title(first.title or first.text), exactly)


def similar_groups(texts: Sequence[str]) -> tuple[list[tuple[int, ...]], bool]:
    """The places of texts that say nearly the same, in groups, and whether there were too many to compare.

    Compared are those that share a rare word, the rarest first.
    """
    sharing: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        for word in set(_WORD.findall(text.lower())):
            sharing.setdefault(word, []).append(place)
    rare = sorted((places for places in sharing.values() if 1 < len(places) <= _RARE_TERMS), key=len)
    pairs: dict[tuple[int, int], None] = {}
    for places in rare:
        pairs.update(dict.fromkeys(combinations(places, 2)))
        if len(pairs) > MAX_PAIRS:
            break
    held = {place: term_weights(texts[place]) for place in dict.fromkeys(place for pair in pairs for place in pair)}
    return connected_groups(pair for pair in pairs if similarity(held[pair[0]], held[pair[1]])), len(pairs) > MAX_PAIRS


def connected_groups(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Pairs that have a member in common as one group; groups and members in their order."""
    group: dict[int, set[int]] = {}
    for one, other in pairs:
        both = group.get(one, {one}) | group.get(other, {other})
        for each in both:
            group[each] = both
    return sorted({tuple(sorted(each)) for each in group.values()})
