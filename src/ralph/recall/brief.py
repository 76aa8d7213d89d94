"""Build the brief, which is the text that a session receives when it starts.

A brief looks like this, inside a fence and below a line that marks it as reference material:

    Guardrails:
    - [mem-...] Never edit generated files.
    Memories:
    - [mem-...] 2026-11-01 fix: ...
    Last sessions:
    - [s-...] 2026-11-02 session: Goal: ...
    Active now:
    - task T-3: ...

Guardrails come first and get half of the tokens, or more if memories leave room. Then come the
newest session summary, memories by usefulness, and older summaries. Only whole entries are
included, and a line counts those left out. Notices and the skill text are placed after the fence. A
limit of 0 tokens means unlimited. The number of characters is always limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ralph.core import budget as budgets
from ralph.core import render
from ralph.core.prompts import INJECTED
from ralph.core.record import Record, Scope
from ralph.core.render import one_line
from ralph.core.tokens import estimate
from ralph.recall.memory_order import (
    MOST_USEFUL,
    NO_USES,
    OUTSIDE_SCOPES,
    Uses,
    order_by_use,
    usefulness,
)
from ralph.storage.sessions import RecentSession

ALL_OF_IT = "`ralph memory list`, or `ralph search` with words of your task"
SKILL = f"{INJECTED} is kept by Ralph. How to use it and add to it:"
SO_FAR = "This session before its compaction:"
GUARDRAILS = "Guardrails:"
MEMORIES = "Memories:"
ENCLOSING_MEMORIES = "Memories of the enclosing project:"
PERSONAL_MEMORIES = "Personal memories:"
RECENT_SESSIONS = "Last sessions:"
ACTIVE = "Active now:"
SECTIONS = (
    SO_FAR,
    GUARDRAILS,
    MEMORIES,
    ENCLOSING_MEMORIES,
    PERSONAL_MEMORIES,
    RECENT_SESSIONS,
    ACTIVE,
)
"""The headings of a brief, in the order in which they are rendered."""
_NOTICE = "notice"  # the section for notices, which has no heading
_SECTIONS_OF_SCOPES = {
    Scope.ENCLOSING: ENCLOSING_MEMORIES,
    Scope.PERSONAL: PERSONAL_MEMORIES,
}
_NOT_LEARNED = (RECENT_SESSIONS, ACTIVE, SO_FAR)  # sections outside the budget for memories
_FRAME_CHARACTERS = render.length(render.INTRO) + len("\n```\n```\n")
_USUAL_HEADINGS = " ".join((GUARDRAILS, MEMORIES, RECENT_SESSIONS, ACTIVE))
_FRAME_TOKENS = estimate(
    f"{render.INTRO}\n```\n{_USUAL_HEADINGS}\n```\n{render.shown_note(999, 1000, ALL_OF_IT)}"
)
_MAX_ENTRIES = 400  # entries considered; no brief has room for more
_CANDIDATE_FACTOR = 3  # read this many times as many characters as fit
_MAX_LINES = 10  # limits both notices and lines about active work
_MAX_LINE_CHARACTERS = 300
_OUTSIDE_PARTS = 4  # each outside section gets one of this many parts of what guardrails leave
_LONG_SUMMARY_PARTS = 4  # a summary longer than one of this many parts of the brief is shortened


@dataclass(frozen=True, slots=True)
class BriefCaps:
    """The limits of a brief: tokens in total, for memories and for summaries, and characters."""

    tokens: int = 0
    memories: int = 2_000
    summaries: int = 1_000
    characters: int = render.MOST_CHARACTERS


@dataclass(frozen=True, slots=True)
class BriefPiece:
    """An entry or line in a brief, and its cost. A plain line has no id."""

    section: str
    text: str
    tokens: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class Brief:
    """The text of a brief and the records in it.

    `left_out` counts the entries that did not fit, `withheld` those that look like prompt
    injection.
    """

    text: str = ""
    records: tuple[BriefPiece, ...] = ()
    left_out: int = 0
    withheld: int = 0
    skill_tokens: int = 0  # tokens in the skill text, if the brief includes it
    noted: tuple[str, ...] = ()  # marks of lines that do not show a record


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The records that a section may show, and how many were withheld as prompt injection."""

    records: list[Record]
    withheld: int


@dataclass(frozen=True, slots=True)
class BriefContents:
    """Everything that a brief may include.

    `summaries` are ordered newest first, and `so_far` is the recap of a compacted session. `active`
    and `notices` are lines of text.
    """

    guardrails: Sequence[Record] = ()
    memories: Sequence[Record] = ()
    summaries: Sequence[RecentSession] = ()
    active: Sequence[str] = ()
    notices: Sequence[str] = ()
    so_far: str = ""
    skill: str = ""


def build_brief(
    contents: BriefContents,
    *,
    caps: BriefCaps,
    uses: Uses = NO_USES,
    stale: Collection[str] = (),
    strategy: str = "",
    may_inject: Callable[[Record], bool] = lambda _: True,
) -> Brief:
    """Build a brief within `caps`.

    `uses` and `stale` determine the order of records, and `strategy` how memories are trimmed.
    Records that fail the test `may_inject` are withheld.
    """

    def select(records: Sequence[Record]) -> _Candidates:
        return _select(records, uses, stale, may_inject, caps)

    memories = contents.memories
    rules = select(contents.guardrails)
    learned = select([record for record in memories if record.scope not in OUTSIDE_SCOPES])
    outside: dict[str, _Candidates] = {}
    for scope, section in _SECTIONS_OF_SCOPES.items():
        outside[section] = select([record for record in memories if record.scope is scope])
    others = [learned, *outside.values()]
    withheld = rules.withheld + sum(group.withheld for group in others)
    total = len(contents.guardrails) + len(memories) - withheld + len(contents.summaries)

    room = _remaining(caps.memories, _FRAME_TOKENS)
    cost_of_others = sum(_cost(group.records) for group in others)
    rule_tokens = budgets.guardrails_budget(room, _cost(rules.records), cost_of_others)
    rule_pieces = _pieces(GUARDRAILS, rules.records, rule_tokens)
    room = _remaining(room, _tokens(rule_pieces))
    outside_pieces: list[BriefPiece] = []
    for section, group in outside.items():
        outside_pieces += _pieces(section, group.records, _part(room, _OUTSIDE_PARTS))
    room = _remaining(room, _tokens(outside_pieces))
    if strategy in budgets.STRATEGIES:
        learned_pieces = _trim(learned.records, room, strategy, uses, stale)
    else:
        learned_pieces = _pieces(MEMORIES, learned.records, room)

    recaps = _recaps(contents.summaries, caps)
    pieces = [  # most important first
        *_so_far_pieces(contents.so_far),
        *_line_pieces(ACTIVE, contents.active),
        *rule_pieces,
        *recaps[:1],
        *outside_pieces,
        *learned_pieces,
        *recaps[1:],
    ]
    return _lay_out(pieces, contents, caps, total=total, withheld=withheld)


def _so_far_pieces(so_far: str) -> list[BriefPiece]:
    if not so_far:
        return []
    return [BriefPiece(SO_FAR, so_far, estimate(so_far) + 1)]


def _lay_out(
    pieces: Sequence[BriefPiece],
    contents: BriefContents,
    caps: BriefCaps,
    *,
    total: int,
    withheld: int,
) -> Brief:
    """Render the pieces that fit, the notices, and the skill if there is room for it."""
    skill_block = ""
    if contents.skill:
        skill_block = render.framed(SKILL, contents.skill.strip("\n"))
    notices = _line_pieces(_NOTICE, contents.notices)
    text, shown = _fill_page(pieces, notices, _reserve(caps, skill_block), total)
    skill_tokens = 0
    if skill_block and _is_within(text + skill_block, shown, caps):
        text += skill_block
        skill_tokens = estimate(skill_block)
    records = tuple(piece for piece in shown if piece.id)
    return Brief(text, records, total - len(records), withheld, skill_tokens)


def _select(
    records: Sequence[Record],
    uses: Uses,
    stale: Collection[str],
    may_inject: Callable[[Record], bool],
    caps: BriefCaps,
) -> _Candidates:
    """Return the most useful records that may be shown.

    Reading stops once there is several times as much text as fits.
    """
    candidates: list[Record] = []
    withheld = 0
    room = _CANDIDATE_FACTOR * caps.characters
    for index in order_by_use(records, uses, stale):
        record = records[index]
        if len(record.text) > render.MOST_CHARACTERS:
            continue
        if len(candidates) == _MAX_ENTRIES or room <= 0:
            break
        if may_inject(record):
            candidates.append(record)
            room -= len(record.text)
        else:
            withheld += 1
    return _Candidates(candidates, withheld)


def _remaining(budget: int, spent: int) -> int:
    """Subtract from a budget. The result is at least 1, because 0 means unlimited."""
    if not budget:
        return 0
    return max(1, budget - spent)


def _part(budget: int, parts: int) -> int:
    if not budget:
        return 0
    return max(1, budget // parts)


def _tokens(pieces: Iterable[BriefPiece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _cost(records: Sequence[Record]) -> int:
    """Return the number of tokens needed to show all of the records."""
    return _tokens(_pieces("", records, 0))


def _pieces(section: str, records: Sequence[Record], most: int) -> list[BriefPiece]:
    """Render as many of a section's records as fit into a budget."""
    texts = [_render_record(record) for record in records]
    costs = [estimate(text) + 1 for text in texts]
    kept = budgets.fill(records, costs, most, order=range(len(records)))
    return [BriefPiece(section, texts[index], costs[index], records[index].id) for index in kept]


def _line_pieces(section: str, lines: Sequence[str]) -> list[BriefPiece]:
    mark = "- "
    if section == _NOTICE:
        mark = ""
    pieces: list[BriefPiece] = []
    for line in lines[:_MAX_LINES]:
        text = one_line(line)[:_MAX_LINE_CHARACTERS]
        if text:
            pieces.append(BriefPiece(section, mark + text, estimate(mark + text)))
    return pieces


def _trim(
    records: Sequence[Record], most: int, strategy: str, uses: Uses, stale: Collection[str]
) -> list[BriefPiece]:
    """Apply a budget strategy, which chooses memories and their level of detail.

    The more a memory was used, the higher its score. Stale memories score lower and come last.
    """
    last_first = list(reversed(records))  # among equal dates, strategies take the last one first
    layers_of_records: list[list[str]] = []
    items: list[budgets.BudgetItem] = []
    for record in last_first:
        layers = [_render_record(record, layer) for layer in (1, 2, 3)]
        costs = budgets.ascending_costs([estimate(text) + 1 for text in layers])
        score = usefulness(uses.get(record.id, (0, 0))) / MOST_USEFUL
        if record.id in stale:
            score -= 1
        layers_of_records.append(layers)
        items.append(budgets.BudgetItem(costs, record.added_at, score, record.kind.value))
    pieces: list[BriefPiece] = []
    for item in budgets.STRATEGIES[strategy](items, most):
        text = layers_of_records[item.index][item.layer - 1]
        pieces.append(BriefPiece(MEMORIES, text, item.tokens, last_first[item.index].id))
    return sorted(pieces, key=lambda piece: piece.id in stale)


def _recaps(summaries: Sequence[RecentSession], caps: BriefCaps) -> list[BriefPiece]:
    """Render the summaries that fit.

    A long summary is shortened. If there is too little room for that, it gets a single line.
    """
    pieces: list[BriefPiece] = []
    room = caps.summaries
    for session in summaries[:_MAX_ENTRIES]:
        text = _render_summary(session, 3)
        if render.length(text) > caps.characters // _LONG_SUMMARY_PARTS:
            text = _render_summary(session, 2)
        cost = estimate(text) + 1
        if caps.summaries and cost > room:
            text = _render_summary(session, 1)
            cost = estimate(text) + 1
        if not caps.summaries or cost <= room:
            pieces.append(BriefPiece(RECENT_SESSIONS, text, cost, session.id))
            room -= cost
    return pieces


def _render_summary(session: RecentSession, layer: int) -> str:
    return render.entry(layer, session.id, "session", "", session.summary, session.at)


def _render_record(record: Record, layer: int = 3) -> str:
    return render.entry(
        layer,
        record.id,
        record.kind.value,
        record.title,
        record.text,
        record.created_at,
        record.tags,
        record.origin.files,
        record.origin.by or str(record.extra.get("by") or ""),
    )


def _reserve(caps: BriefCaps, skill_block: str) -> BriefCaps:
    """Reduce the limits by the size of the skill text.

    If the skill would take more than half of the room, nothing is reserved for it, and it is added
    only if it still fits at the end.
    """
    characters = render.length(skill_block)
    tokens = estimate(skill_block)
    if 2 * characters > caps.characters or 0 < caps.tokens < 2 * tokens:
        return caps
    rest = 0
    if caps.tokens:
        rest = caps.tokens - tokens
    return replace(caps, characters=caps.characters - characters, tokens=rest)


def _fill_page(
    pieces: Sequence[BriefPiece], notices: Sequence[BriefPiece], caps: BriefCaps, total: int
) -> tuple[str, list[BriefPiece]]:
    """Render the most important pieces that fit, and return the text and these pieces.

    The pieces are first chosen by their estimated cost. Then pieces are dropped from the end until
    the rendered text fits.
    """
    shown = _fitting_pieces(pieces, notices, caps, total)
    kept_notices = list(notices)
    while shown or kept_notices:
        text = _render_page(shown, kept_notices, total)
        if _is_within(text, shown, caps):
            return text, shown
        if shown:
            shown.pop()
        else:
            kept_notices.pop()
    return "", shown


def _fitting_pieces(
    pieces: Sequence[BriefPiece], notices: Sequence[BriefPiece], caps: BriefCaps, total: int
) -> list[BriefPiece]:
    characters = caps.characters - _FRAME_CHARACTERS
    characters -= render.length(_render_notes([], notices, total))
    tokens = caps.tokens - _FRAME_TOKENS - _tokens(notices)
    fitting: list[BriefPiece] = []
    sections: set[str] = set()
    for piece in pieces:
        heading = 0
        if piece.section not in sections:
            heading = len(piece.section) + 1
        size = render.length(piece.text) + 1 + heading
        cost = piece.tokens + heading
        if size <= characters and (not caps.tokens or cost <= tokens):
            fitting.append(piece)
            sections.add(piece.section)
            characters -= size
            tokens -= cost
    return fitting


def _render_page(shown: Sequence[BriefPiece], notices: Sequence[BriefPiece], total: int) -> str:
    lines: list[str] = []
    for section in SECTIONS:
        texts = [piece.text for piece in shown if piece.section == section]
        if texts:
            lines += [section, *texts]
    page = ""
    if lines:
        page = render.framed(render.INTRO, "\n".join(lines))
    return page + _render_notes(shown, notices, total)


def _render_notes(shown: Sequence[BriefPiece], notices: Sequence[BriefPiece], total: int) -> str:
    records = [piece for piece in shown if piece.id]
    count = render.shown_note(len(records), total, ALL_OF_IT)
    return render.notes([count, *(notice.text for notice in notices)])


def _is_within(text: str, shown: Sequence[BriefPiece], caps: BriefCaps) -> bool:
    if render.length(text) > caps.characters or 0 < caps.tokens < estimate(text):
        return False
    learned = [piece.text for piece in shown if piece.section not in _NOT_LEARNED]
    return not 0 < caps.memories < estimate("\n".join(learned))
