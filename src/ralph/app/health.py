"""How healthy the memory is: what cites things that are gone, what nobody uses, what is said twice, and secrets.

Each of these is somebody else's answer (`check`, `stats`, `capture/alike`, `doctor`), put together for a page that a
person waits for: with ten thousand records within a second or two. So what was found in a file or in the index is
kept until that changes, a fresh look at citations is taken for the newest records, near doubles are looked
for among texts that share a rare word, and of logs only so many bytes are searched at a time. What was not looked
at is said, with the command that does. `tests/app/test_health.py` proves it.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import check, doctor, entries, index, stats
from ralph.app.dashboard import Notice
from ralph.capture.alike import alike, weights
from ralph.errors import RalphError
from ralph.formats.lines import said
from ralph.model.record import Family, Record, Status
from ralph.store import rows
from ralph.store.sources import Format

SHOWN = 50
"""So many of each are named; all of them are counted."""
FRESH = 500
"""What so many records cite is looked for anew, the newest."""
PATIENCE = 1.0
"""Seconds that git may take for it."""
SEARCHED = 3_000_000
"""Bytes that are newly searched for secrets at a time."""
_RARE = 12
"""A word that more texts have than this brings no two of them together."""
_WORD = re.compile(r"\w{3,}")
_PAIRS = 60_000
_TITLE = 120
_KEPT = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE)
_TEXTS = """
SELECT r.key, s.format FROM records r JOIN sources s ON s.key = r.source
WHERE s.format IN (?, ?, ?) AND r.status <> ? ORDER BY s.path, r.line
"""


class Stale(NamedTuple):
    """A record that cites something which is not as it was."""

    id: str
    title: str
    what: str


class Unused(NamedTuple):
    """A record that sessions were handed, and never referred to."""

    id: str
    title: str
    injected: int
    tokens: int


class Double(NamedTuple):
    """Records that say the same; `exactly` when they do so in the same words."""

    ids: tuple[str, ...]
    title: str
    exactly: bool


class Secret(NamedTuple):
    """Where something stands that looks like a secret; never what it is."""

    file: str
    line: int
    rule: str


@dataclass(frozen=True, slots=True)
class Health:
    """What should be looked at; lists are cut, counts are not, and `note` says what was not looked at."""

    stale: tuple[Stale, ...] = ()
    unused: tuple[Unused, ...] = ()
    duplicates: tuple[Double, ...] = ()
    secrets: tuple[Secret, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    note: str = ""
    notices: tuple[Notice, ...] = ()


@index.one_look()
def show(root: Path, *, patterns: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Health:
    """Look at everything, as far as a person waits for it; nothing but caches is written."""
    texts, state = _texts(root)
    notes: list[str] = []
    stale = _stale(root, [record for _, record in texts], notes)
    unused = [Unused(each.id, title_of(each.text), each.sessions, each.tokens) for each in stats.never_used(root)]
    twice = _doubles(root, state, texts)
    secrets = _secrets(root, tuple(patterns), notes)
    found: dict[str, Sequence[object]] = {
        "stale": stale, "unused": unused, "duplicates": twice, "secrets": secrets,
    }  # fmt: skip
    return Health(
        tuple(stale[:SHOWN]), tuple(unused[:SHOWN]), tuple(twice[:SHOWN]), tuple(secrets[:SHOWN]),
        {name: len(each) for name, each in found.items()}, "; ".join(notes), tuple(_odd(root, env or {})),
    )  # fmt: skip


def title_of(text: str) -> str:
    """A text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _odd(root: Path, env: Mapping[str, str]) -> Iterator[Notice]:
    """What doctor finds, but for notes and within logs; of too much, the beginning."""
    found = [each for each in doctor.examine(root, env=env, logs=False) if each.needs_a_person]
    for each in found[:SHOWN]:
        where = f"{paths.shown(each.path, root)}:{each.problem.line}"
        yield Notice(each.problem.level, f"{where}: {each.problem.what}", each.problem.hint)
    if len(found) > SHOWN:
        yield Notice("warning", f"{len(found) - SHOWN:,} more things are odd", "`ralph doctor` names every one")


State = tuple[tuple[str, int, int], ...]
"""Which files the index has read, as they were."""


def _texts(root: Path) -> tuple[list[tuple[str, Record]], State]:
    """Every memory, guardrail and knowledge entry with the format of its file, and the state of the index."""

    def question(connection: sqlite3.Connection) -> tuple[list[tuple[str, Record]], State]:
        told = connection.execute("SELECT path, mtime_ns, size FROM sources ORDER BY path")
        state = tuple((str(row[0]), int(row[1]), int(row[2])) for row in told)
        values = (*(each.value for each in _KEPT), Status.RETIRED.value)
        shelves = {int(row[0]): str(row[1]) for row in connection.execute(_TEXTS, values)}
        held = rows.records(connection, list(shelves))
        return [(shelf, held[key]) for key, shelf in shelves.items() if key in held], state

    return index.ask(root, question)


# --- what is cited -----------------------------------------------------------------------------


def _stale(root: Path, records: Sequence[Record], notes: list[str]) -> list[Stale]:
    try:
        check.refresh(root, most=FRESH, patience=PATIENCE)
    except RalphError as error:
        notes.append(f"what records cite was not looked at: {error.message}")
    if len(records) > FRESH:
        notes.append(f"what all but the newest {FRESH} records cite is as `ralph check` last found it")
    marks = check.marks(root, [each for each in records if each.family is Family.MEMORY])
    named = {each.id: each for each in records}
    return [Stale(name, title_of(named[name].title or named[name].text), what) for name, what in marks.items()]


# --- what is said twice ------------------------------------------------------------------------


def _doubles(root: Path, state: State, texts: Sequence[tuple[str, Record]]) -> list[Double]:
    """Records of one shelf that say the same; looked for anew when a file has changed."""
    found = _DOUBLES.get((root, state))
    if found is None:  # another thread may look at the same time: what it finds is the same
        found = doubles(texts)
        _DOUBLES.clear()
        _DOUBLES[root, state] = found
    return found


_DOUBLES: dict[tuple[Path, State], list[Double]] = {}


def doubles(texts: Sequence[tuple[str, Record]]) -> list[Double]:
    """What holds and is said twice on one shelf, in the same words or in nearly the same."""
    shelves: dict[str, list[Record]] = {}
    for shelf, record in texts:
        shelves.setdefault(shelf, []).append(record)
    found: list[Double] = []
    for records in map(entries.current, shelves.values()):
        exact: dict[str, list[int]] = {}
        for place, record in enumerate(records):
            exact.setdefault(said(f"{record.title}\n{record.text}"), []).append(place)
        same = [places for places in exact.values() if len(places) > 1]
        found += (_double(records, places, exactly=True) for places in same)
        first = [places[0] for places in exact.values()]
        found += (_double(records, places, exactly=False) for places in near([records[place].text for place in first]))
    return found


def _double(records: Sequence[Record], places: Sequence[int], *, exactly: bool) -> Double:
    ids = tuple(records[place].id for place in places)
    return Double(ids, title_of(records[places[0]].title or records[places[0]].text), exactly)


def near(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """The places of texts that say nearly the same, in groups; compared are those that share a rare word."""
    sharing: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        for word in set(_WORD.findall(text.lower())):
            sharing.setdefault(word, []).append(place)
    rare = sorted((places for places in sharing.values() if 1 < len(places) <= _RARE), key=len)
    pairs: dict[tuple[int, int], None] = {}
    for places in rare:
        pairs.update(dict.fromkeys(combinations(places, 2)))
        if len(pairs) > _PAIRS:
            break
    held = {place: weights(texts[place]) for place in dict.fromkeys(place for pair in pairs for place in pair)}
    return joined(pair for pair in pairs if alike(held[pair[0]], held[pair[1]]))


def joined(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Pairs that have a member in common as one group; groups and members in their order."""
    group: dict[int, set[int]] = {}
    for one, other in pairs:
        both = group.get(one, {one}) | group.get(other, {other})
        for each in both:
            group[each] = both
    return sorted({tuple(sorted(each)) for each in group.values()})


# --- secrets -----------------------------------------------------------------------------------


def _secrets(root: Path, patterns: tuple[str, ...], notes: list[str]) -> list[Secret]:
    """What looks like a secret: in every file that people write, and in as many logs as there is time for."""
    found: list[Secret] = []
    logs = paths.log_folder(root)
    spent = unseen = 0
    for path in doctor.secret_places(root):
        try:
            status = path.stat()
        except OSError:  # it went away meanwhile
            continue
        key = (path, status.st_mtime_ns, status.st_size, patterns)
        held = _SEEN.get(key)
        if held is None:
            if path.is_relative_to(logs) and spent + status.st_size > SEARCHED:
                unseen += 1
                continue
            spent += status.st_size
            held = tuple(_secret(root, each) for each in doctor.secrets_in(path, patterns))
            _remember(key, held)
        found += held
    if unseen:
        notes.append(f"{unseen} log(s) were not searched for secrets yet; `ralph doctor --secrets` searches all")
    return found


_Key = tuple[Path, int, int, tuple[str, ...]]
_SEEN: dict[_Key, tuple[Secret, ...]] = {}
"""What was found in files as they were."""
_MOST_SEEN = 20_000


def _remember(key: _Key, found: tuple[Secret, ...]) -> None:
    if len(_SEEN) >= _MOST_SEEN:
        _SEEN.clear()
    _SEEN[key] = found


def _secret(root: Path, finding: doctor.Finding) -> Secret:
    rule = finding.problem.what.partition("(")[2].rstrip(")") or finding.problem.what
    return Secret(paths.shown(finding.path, root), finding.problem.line, rule)
