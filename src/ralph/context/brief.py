"""The brief that a session starts with: what must not go wrong again, what was learned, where the work stands.

A pure function of what there is. Guardrails come first and take at most half of the tokens (`budget.share`),
then the newest session summary, then memories by usefulness (`budget.useful_order`, moved by what the ledger says
about use), then older summaries, as far as characters and tokens go. Entries are whole; a line says how many of
how many there are and how to get the rest. What a stranger said and gives orders is left out.
A strategy of `shares` may decide instead which memories stay, and at which detail, when the config says so.
Notices are Ralph's own word and stand outside of the fence; so does the skill, in a block of its own.

0 tokens are unlimited; the characters never are. `tests/context/test_brief.py` proves the bounds by property.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from types import MappingProxyType

from ralph.context import budget, render
from ralph.context.tokens import estimate
from ralph.model.marks import INJECTED
from ralph.model.query import Query
from ralph.model.record import MemoryKind, Record

Uses = Mapping[str, tuple[int, int]]
"""By record: in how many sessions it was handed over, and in how many of them it was used."""

NO_USES: Uses = MappingProxyType({})
ALL_OF_IT = "`ralph memory list`, or `ralph search` with words of your task"
SKILL = f"{INJECTED} is kept by Ralph. How to use it and add to it:"

_TRIED = 5  # sessions in which a record was handed over, before it may be called useless
_OFTEN = 0.2  # used in so many of the sessions, a record is called useful
_MANY = 400  # entries that are looked at: more do not fit into the characters of any host
_SUMMARY_PART = 4  # a summary longer than a quarter of the characters is cut
_MOST_LINES, _LONGEST_LINE = 10, 300  # of notices, and of what is active

_RULES, _LEARNED, _SESSIONS, _ACTIVE, _NOTICE = "Guardrails:", "Memories:", "Last sessions:", "Active now:", "notice"
_SECTIONS = (_RULES, _LEARNED, _SESSIONS, _ACTIVE)
_OUTSIDE = render.length(render.INTRO) + len("\n```\n```\n")
_FRAME = estimate(f"{render.INTRO}\n```\n{' '.join(_SECTIONS)}\n```\n{render.told(999, 1000, ALL_OF_IT)}")
_NO_END = 10**9


@dataclass(frozen=True, slots=True)
class Caps:
    """What a brief may hold: tokens in all, tokens of guardrails and memories, tokens of summaries, characters."""

    tokens: int = 0
    memories: int = 2_000
    summaries: int = 1_000
    characters: int = render.MOST_CHARACTERS


@dataclass(frozen=True, slots=True)
class Summary:
    """What one earlier session did."""

    id: str
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A record that was handed over, and what it costs."""

    id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Brief:
    """The text, the records in it, and how many are not: for want of room, and because they give orders."""

    text: str = ""
    records: tuple[Shown, ...] = ()
    left_out: int = 0
    withheld: int = 0
    has_skill: bool = False
    noted: tuple[str, ...] = ()
    """What else a session has seen with it, under the names that its list has."""


def accepted(
    memories: Sequence[Record],
    *,
    types: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    today: date,
) -> list[Record]:
    """The memories that the config's filter lets through: of these types, with any of these tags, of the last days."""
    since = (today - timedelta(days=min(recent, today.toordinal() - 1))).isoformat() if recent > 0 else ""
    query = Query(kinds=tuple(types), tags=tuple(tags), since=since)
    return [record for record in memories if query.accepts(record)]


def by_use(records: Sequence[Record], uses: Uses = NO_USES, stale: Collection[str] = ()) -> list[int]:
    """The indices of the records, the most useful first: as `budget.useful_order` has them, but within a kind
    those that were used come first, and those that were handed over again and again for nothing last. What cites
    something that is gone (`stale`) comes behind all else."""
    order = _by_use(records, uses)
    return sorted(order, key=lambda index: records[index].id in stale) if stale else order


def _by_use(records: Sequence[Record], uses: Uses) -> list[int]:
    order = budget.useful_order(records)
    if not uses:
        return order
    ranked: dict[str, list[int]] = {}
    for index in order:
        ranked.setdefault(records[index].kind, []).append(index)
    for indices in ranked.values():
        indices.sort(key=lambda index: -_worth(uses.get(records[index].id, (0, 0))))
    turns = {kind: iter(indices) for kind, indices in ranked.items()}
    return [next(turns[records[index].kind]) for index in order]


def _worth(use: tuple[int, int]) -> int:
    injected, used = use
    if used:
        return 2 if used >= _OFTEN * injected else 1
    return 0 if injected >= _TRIED else 1


def session_brief(
    guardrails: Sequence[Record],
    memories: Sequence[Record],
    summaries: Sequence[Summary],
    active: Sequence[str],
    notices: Sequence[str],
    *,
    caps: Caps,
    uses: Uses = NO_USES,
    stale: Collection[str] = (),
    skill: str = "",
    strategy: budget.Strategy | None = None,
) -> Brief:
    """The brief, within its caps; the empty one when there is nothing to say. Summaries come newest first."""
    rules, held = _candidates(guardrails, uses, stale)
    learned, more_held = _candidates(memories, uses, stale)
    held += more_held
    total = len(guardrails) + len(memories) - held + len(summaries)
    room = caps.memories and max(1, caps.memories - _FRAME)
    wanted = _lines(_ACTIVE, active)
    guards = _pieces(_RULES, rules, budget.split_budget(room, _NO_END)[0])
    wanted += guards
    recaps = _recaps(summaries, caps)
    wanted += recaps[:1]
    left = room and max(1, room - sum(piece.tokens for piece in guards))
    wanted += _pieces(_LEARNED, learned, left) if strategy is None else _trimmed(learned, left, strategy, uses, stale)
    wanted += recaps[1:]
    added = render.framed(SKILL, skill.strip("\n")) if skill else ""
    page = _Page(_beside(caps, added), _lines(_NOTICE, notices), total)
    for piece in wanted:
        page.take(piece)
    text = page.settled()
    page.caps = caps
    has_skill = bool(added) and page.fits(text + added)
    shown = tuple(Shown(piece.id, piece.tokens) for piece in page.pieces if piece.id)
    return Brief(text + added if has_skill else text, shown, total - len(shown), held, has_skill)


def _beside(caps: Caps, added: str) -> Caps:
    """What is left beside the skill, which comes once a session; where it would take most, it has to fit in."""
    size, cost = render.length(added), estimate(added)
    if 2 * size > caps.characters or (caps.tokens and 2 * cost > caps.tokens):
        return caps
    return replace(caps, characters=caps.characters - size, tokens=caps.tokens and caps.tokens - cost)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Something that may stand in the brief: its section, its text and cost, and the record it shows."""

    section: str
    text: str
    tokens: int
    id: str = ""


class _Page:
    """The brief as it fills, the most important first; `settled` makes sure of the caps by what is really there."""

    def __init__(self, caps: Caps, notices: Sequence[_Piece], total: int) -> None:
        self.caps = caps
        self.notices = list(notices)
        self.total = total
        self.pieces: list[_Piece] = []
        self._room = caps.characters - _OUTSIDE - render.length(self._notes(0))
        self._tokens = caps.tokens - _FRAME - sum(piece.tokens for piece in notices)

    def take(self, piece: _Piece) -> None:
        """Put a piece on the page if it fits, and its section's heading with it."""
        is_first = all(piece.section != other.section for other in self.pieces)
        heading = len(piece.section) + 1 if is_first else 0
        size = render.length(piece.text) + 1 + heading
        if size <= self._room and (not self.caps.tokens or piece.tokens + heading <= self._tokens):
            self.pieces.append(piece)
            self._room -= size
            self._tokens -= piece.tokens + heading

    def settled(self) -> str:
        """The text; where fences or seams cost more than was thought, the least important pieces go."""
        while not self.fits(text := self._text()):
            if not (self.pieces or self.notices):
                return ""
            (self.pieces or self.notices).pop()
        return text

    def fits(self, text: str) -> bool:
        """Whether a text is within the caps."""
        within = not self.caps.tokens or estimate(text) <= self.caps.tokens
        learned = [piece.text for piece in self.pieces if piece.section in (_RULES, _LEARNED)]
        spent = estimate("\n".join(learned)) if self.caps.memories else 0
        return within and render.length(text) <= self.caps.characters and spent <= self.caps.memories

    def _text(self) -> str:
        lines: list[str] = []
        for section in _SECTIONS:
            texts = [piece.text for piece in self.pieces if piece.section == section]
            lines += [section, *texts] if texts else []
        frame = render.framed(render.INTRO, "\n".join(lines)) if lines else ""
        return frame + self._notes(sum(bool(piece.id) for piece in self.pieces))

    def _notes(self, shown: int) -> str:
        told = [render.told(shown, self.total, ALL_OF_IT)]
        return render.notes([*told, *(piece.text for piece in self.notices)])


def _candidates(records: Sequence[Record], uses: Uses, stale: Collection[str]) -> tuple[list[Record], int]:
    """The records to choose from, the most useful first, and how many on the way to them are withheld.

    No more than could stand in any brief, and none that is too long for one: the rest of a large store is not read.
    """
    found: list[Record] = []
    held = 0
    for index in by_use(records, uses, stale):
        record = records[index]
        if len(record.text) > render.MOST_CHARACTERS:
            continue
        if render.withheld(record.origin.by, f"{record.title}\n{record.text}\n{' '.join(record.tags)}"):
            held += 1
            continue
        found.append(record)
        if len(found) == _MANY:
            break
    return found, held


def _lines(section: str, lines: Sequence[str]) -> list[_Piece]:
    """Lines that show no record."""
    texts = [" ".join(render.clean(line).split())[:_LONGEST_LINE] for line in lines[:_MOST_LINES]]
    mark = "" if section == _NOTICE else "- "
    return [_Piece(section, mark + text, estimate(mark + text)) for text in texts if text]


def _pieces(section: str, records: Sequence[Record], most: int) -> list[_Piece]:
    """The records that the tokens allow, in their order."""
    texts = [_rendered(record) for record in records]
    costs = [estimate(text) + 1 for text in texts]
    kept = budget.fill(records, costs, most, order=range(len(records))).kept
    return [_Piece(section, texts[index], costs[index], records[index].id) for index in kept]


def _trimmed(
    records: Sequence[Record], most: int, strategy: budget.Strategy, uses: Uses, stale: Collection[str]
) -> list[_Piece]:
    """The memories that a strategy keeps, each at the detail that it leaves; how much they were used is their score."""
    last_first = list(reversed(records))  # of one date, strategies take the last first
    texts = [[_rendered(record, layer) for layer in (1, 2, 3)] for record in last_first]
    items = [
        budget.BudgetItem(
            budget.ascending_costs([estimate(text) + 1 for text in each]),
            record.created_at,
            _worth(uses.get(record.id, (0, 0))) / 2 - (record.id in stale),
            record.kind.value,
        )
        for record, each in zip(last_first, texts, strict=True)
    ]
    kept = budget.STRATEGIES[strategy](items, most).kept
    pieces = [
        _Piece(_LEARNED, texts[each.index][each.layer - 1], each.tokens, last_first[each.index].id) for each in kept
    ]
    return sorted(pieces, key=lambda piece: piece.id in stale)


def _recaps(summaries: Sequence[Summary], caps: Caps) -> list[_Piece]:
    """The summaries that their tokens allow; no single one may take more than its part of the characters."""
    kept: list[_Piece] = []
    room = caps.summaries
    for summary in summaries[:_MANY]:
        text = render.entry(3, summary.id, "session", "", summary.text, summary.date)
        if render.length(text) > caps.characters // _SUMMARY_PART:
            text = render.entry(2, summary.id, "session", "", summary.text, summary.date)
        cost = estimate(text) + 1
        if not caps.summaries or cost <= room:
            kept.append(_Piece(_SESSIONS, text, cost, summary.id))
            room -= cost
    return kept


def _rendered(record: Record, layer: int = 3) -> str:
    kind, files = record.kind.value, record.origin.files
    return render.entry(layer, record.id, kind, record.title, record.text, record.created_at, record.tags, files)
