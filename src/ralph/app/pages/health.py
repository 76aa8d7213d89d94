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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import check, doctor, index, ledger, lists
from ralph.app.pages import dashboard, leaks
from ralph.app.pages.dashboard import Notice
from ralph.app.pages.leaks import Leak
from ralph.capture.alike import alike, weights
from ralph.errors import RalphError
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import Record, Status
from ralph.store import lookup, rows
from ralph.store.columns import given_id
from ralph.store.sources import Format

SHOWN = 50
"""So many of each are named; all of them are counted."""
FRESH = 500
"""What so many records cite is looked for anew, the newest."""
PATIENCE = 1.0
"""Seconds that git may take for it."""
PAIRS = 60_000
"""So many pairs of texts are compared."""
_RARE = 12
"""A word that more texts have than this brings no two of them together."""
_WORD = re.compile(r"\w{3,}")
_TITLE = 120
_KEPT = (Format.MEMORIES.value, Format.GUARDRAILS.value, Format.KNOWLEDGE.value)
_VALUES = (*_KEPT, Status.RETIRED.value)
_HELD = "FROM records r JOIN sources s ON s.key = r.source WHERE s.format IN (?, ?, ?) AND r.status <> ?"
_TEXTS = f"SELECT s.format, r.id, r.metadata, r.title, r.text {_HELD} ORDER BY s.path, r.line"
_STATE = "SELECT path, digest FROM sources WHERE format IN (?, ?, ?) ORDER BY path"


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


class Text(NamedTuple):
    """What is compared of a record: the format of its file, its id, and its words."""

    shelf: str
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Health:
    """What should be looked at; lists are cut, counts are not, and `note` says what was not looked at.

    `more` when a further look would go on where this one stopped.
    """

    stale: tuple[Stale, ...] = ()
    unused: tuple[Unused, ...] = ()
    duplicates: tuple[Double, ...] = ()
    secrets: tuple[Leak, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    note: str = ""
    more: bool = False


@index.one_look()
def show(root: Path, *, patterns: Sequence[str] = ()) -> Health:
    """Look at everything, as far as a person waits for it; nothing but caches is written."""
    notes: list[str] = []
    stale = _stale(root, notes)
    unused = _unused(root)
    twice = _doubles(root, notes)
    secrets, left = leaks.look(root, patterns)
    if left:
        notes.append(f"{left} log(s) were not searched for secrets to their ends yet")
    found: dict[str, Sequence[object]] = {
        "stale": stale, "unused": unused, "duplicates": twice, "secrets": secrets,
    }  # fmt: skip
    return Health(
        tuple(stale[:SHOWN]), tuple(unused[:SHOWN]), tuple(twice[:SHOWN]), tuple(secrets[:SHOWN]),
        {name: len(each) for name, each in found.items()}, "; ".join(notes), bool(left),
    )  # fmt: skip


def title_of(text: str) -> str:
    """A text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def odd(root: Path, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """What doctor finds, but for notes, within logs, and what the dashboard tells by itself; of much, the beginning."""
    told = set(dashboard.notices(root, env))
    notices: list[Notice] = []
    for each in doctor.examine(root, env=env, logs=False):
        where, problem = paths.shown(each.path, root), each.problem
        known = Notice(problem.level, f"{where}: {problem.what}", problem.hint) in told
        if each.needs_a_person and not known:
            notices.append(Notice(problem.level, f"{where}:{problem.line}: {problem.what}", problem.hint))
    if len(notices) > SHOWN:
        more = Notice("warning", f"{len(notices) - SHOWN:,} more things are odd", "`ralph doctor` names every one")
        return (*notices[:SHOWN], more)
    return tuple(notices)


def _named(root: Path, names: Iterable[str], formats: Sequence[str] = _KEPT) -> dict[str, Record]:
    """Those of some records that stand in files of these formats and are not retired, by their ids."""
    wanted = sorted(set(names))
    values = (*formats, *[formats[0]] * (len(_KEPT) - len(formats)), Status.RETIRED.value)

    def question(connection: sqlite3.Connection) -> dict[str, Record]:
        sql = f"SELECT r.key {_HELD} AND r.id IN (SELECT value FROM json_each(?))"  # noqa: S608  (our own names)
        keys = [int(row[0]) for row in connection.execute(sql, (*values, json.dumps(wanted)))]
        return {record.id: record for record in rows.records(connection, keys).values()}

    return index.ask(root, question) if wanted else {}


# --- what is cited -----------------------------------------------------------------------------


def _stale(root: Path, notes: list[str]) -> list[Stale]:
    """What cites something that is gone or moved; only records of which something was verified are read."""
    try:
        check.refresh(root, most=FRESH, patience=PATIENCE)
    except RalphError as error:
        notes.append(f"what records cite was not looked at: {error.message}")
    if _count(root) > FRESH:
        notes.append(
            f"citations of all but the newest {FRESH} records are from an earlier check (`ralph doctor --citations`)"
        )
    cited = _named(root, _verified(root))
    marks = check.marks(root, list(cited.values()))
    return [Stale(name, title_of(cited[name].title or cited[name].text), what) for name, what in marks.items()]


def _verified(root: Path) -> set[str]:
    """The records that cite something which was looked for, as the cache of `check` names them."""
    path = check.cache_file(root)
    try:
        lines = path.read_bytes().split(b"\n")[1:] if path.is_file() else []
    except OSError:
        return set()
    return {line.partition(b"\t")[0].decode("utf-8", "surrogateescape") for line in lines if line}


def _count(root: Path) -> int:
    sql = f"SELECT count(*) {_HELD}"
    return index.ask(root, lambda connection: int(connection.execute(sql, _VALUES).fetchone()[0]))


# --- what nobody uses --------------------------------------------------------------------------


def _unused(root: Path) -> list[Unused]:
    """What sessions were handed and never referred to, that of most sessions first."""
    book = lists.book(root)
    handed = {name: sessions for name, (sessions, used) in ledger.counted(book).items() if not used}
    tokens: dict[str, int] = {}
    for each in book.injections:
        tokens[each.record] = tokens.get(each.record, 0) + each.tokens
    found = [
        Unused(name, title_of(record.text), handed[name], tokens[name])
        for name, record in _named(root, handed, _KEPT[:2]).items()
    ]
    return sorted(found, key=lambda each: (-each.injected, -each.tokens, each.id))


# --- what is said twice ------------------------------------------------------------------------


def _doubles(root: Path, notes: list[str]) -> list[Double]:
    """Records of one shelf that say the same; looked for anew when one of their files has changed."""
    asked = (root, ids.today(), index.ask(root, _state))
    found = _DOUBLES.get(asked)
    if found is None:  # another thread may look at the same time: what it finds is the same
        found = doubles(index.ask(root, _texts))
        _DOUBLES.clear()
        _DOUBLES[asked] = found
    if found[1]:
        notes.append(f"near doubles were looked for among the {PAIRS:,} pairs of texts that share the rarest words")
    return found[0]


State = tuple[tuple[str, str], ...]
"""The files that are compared, each with the digest of what the index read of it."""
_DOUBLES: dict[tuple[Path, str, State], tuple[list[Double], bool]] = {}


def _state(connection: sqlite3.Connection) -> State:
    return tuple((str(path), str(digest)) for path, digest in connection.execute(_STATE, _KEPT))


def _texts(connection: sqlite3.Connection) -> list[Text]:
    """Every memory, guardrail and knowledge entry that holds."""
    replaced, today = lookup.superseded(connection), ids.today()
    found: list[Text] = []
    for shelf, name, metadata, title, text in connection.execute(_TEXTS, _VALUES):
        name = given_id(name, metadata)
        if name not in replaced and not _is_over(metadata, today):
            found.append(Text(shelf, name, title, text))
    return found


def _is_over(metadata: str, today: str) -> bool:
    """Whether a record's last day is over; hardly any names one."""
    if '"valid_until"' not in metadata:
        return False
    until = json.loads(metadata).get("valid_until", "")
    return isinstance(until, str) and "" < until < today


def doubles(texts: Iterable[Text]) -> tuple[list[Double], bool]:
    """What is said twice on one shelf, in the same words or in nearly the same, and whether not all were compared."""
    shelves: dict[str, list[Text]] = {}
    for each in texts:
        shelves.setdefault(each.shelf, []).append(each)
    found: list[Double] = []
    cut = False
    for held in shelves.values():
        exact: dict[str, list[int]] = {}
        for place, each in enumerate(held):
            exact.setdefault(normalise_text(f"{each.title}\n{each.text}"), []).append(place)
        found += (_double(held, places, exactly=True) for places in exact.values() if len(places) > 1)
        first = [places[0] for places in exact.values()]
        groups, some = near([held[place].text for place in first])
        found += (_double(held, [first[place] for place in places], exactly=False) for places in groups)
        cut = cut or some
    return found, cut


def _double(held: Sequence[Text], places: Sequence[int], *, exactly: bool) -> Double:
    first = held[places[0]]
    return Double(tuple(held[place].id for place in places), title_of(first.title or first.text), exactly)


def near(texts: Sequence[str]) -> tuple[list[tuple[int, ...]], bool]:
    """The places of texts that say nearly the same, in groups, and whether there were too many to compare.

    Compared are those that share a rare word, the rarest first.
    """
    sharing: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        for word in set(_WORD.findall(text.lower())):
            sharing.setdefault(word, []).append(place)
    rare = sorted((places for places in sharing.values() if 1 < len(places) <= _RARE), key=len)
    pairs: dict[tuple[int, int], None] = {}
    for places in rare:
        pairs.update(dict.fromkeys(combinations(places, 2)))
        if len(pairs) > PAIRS:
            break
    held = {place: weights(texts[place]) for place in dict.fromkeys(place for pair in pairs for place in pair)}
    return joined(pair for pair in pairs if alike(held[pair[0]], held[pair[1]])), len(pairs) > PAIRS


def joined(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Pairs that have a member in common as one group; groups and members in their order."""
    group: dict[int, set[int]] = {}
    for one, other in pairs:
        both = group.get(one, {one}) | group.get(other, {other})
        for each in both:
            group[each] = both
    return sorted({tuple(sorted(each)) for each in group.values()})
