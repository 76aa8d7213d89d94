"""Build the brief, which is the text that a session receives when it starts.

A brief looks like this. The first part is fenced, below a line that marks it as reference material:

    Guardrails:
    - [mem-...] Never edit generated files.
    Memories:
    - [mem-...] 2026-11-01 fix: ...
    Work in progress:
    - [3f2a91c4] 2026-11-02: Add a login page. Open: npm test fails.
    Active now:
    - task T-3: ...

    [ralph] Ralph keeps ...  (one line of instructions)

Guardrails come first and get half of the tokens, or more if memories leave room. Then come memories
by usefulness. Work in progress takes little room and is never shown at the expense of guardrails.
Only whole entries are included, and a line counts the memories left out. Everything counts towards
the limit, except the recap of a session that was compacted. A limit of 0 tokens means unlimited.
The number of characters is always limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ralph.core import budget as budgets
from ralph.core import render
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
from ralph.recall.recent_work import SessionLine

ALL_OF_IT = "`ralph memory list`, or `ralph search` with words of your task"
SO_FAR = "Earlier in this session (before compaction):"
GUARDRAILS = "Guardrails:"
MEMORIES = "Memories:"
ENCLOSING_MEMORIES = "Memories of the enclosing project:"
PERSONAL_MEMORIES = "Personal memories:"
RECENT_SESSIONS = "Work in progress:"
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
_SECTIONS_OF_SCOPES = {
    Scope.ENCLOSING: ENCLOSING_MEMORIES,
    Scope.PERSONAL: PERSONAL_MEMORIES,
}
_FRAME_CHARACTERS = render.length(render.INTRO) + len("\n```\n```\n")
_USUAL_HEADINGS = " ".join((GUARDRAILS, MEMORIES, RECENT_SESSIONS, ACTIVE))
_FRAME_TOKENS = estimate(
    f"{render.INTRO}\n```\n{_USUAL_HEADINGS}\n```\n{render.shown_note(999, 1000, ALL_OF_IT)}"
)
_MAX_ENTRIES = 400  # entries considered; no brief has room for more
_CANDIDATE_FACTOR = 3  # read this many times as many characters as fit
_MAX_LINES = 10  # of active work
_MAX_LINE_CHARACTERS = 300
_OUTSIDE_PARTS = 4  # each outside section gets one of this many parts of what guardrails leave
_WORK_PARTS = 6  # work in progress that takes more than one of this many parts comes last
_INSTRUCTIONS_PARTS = 2  # instructions that take more than one of this many parts are left out


@dataclass(frozen=True, slots=True)
class BriefCaps:
    """The limits of a brief: tokens in total, tokens for work in progress, and characters.

    The recap of a compacted session counts only towards the characters.
    """

    tokens: int = 2_000
    work: int = 150
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

    `left_out` counts the memories that did not fit, `withheld` those that look like prompt
    injection.
    """

    text: str = ""
    records: tuple[BriefPiece, ...] = ()
    left_out: int = 0
    withheld: int = 0
    instruction_tokens: int = 0  # tokens of the instructions, if the brief includes them
    recap_tokens: int = 0  # tokens of the recap of a compacted session
    noted: tuple[str, ...] = ()  # marks of lines that do not show a record

    @property
    def tokens(self) -> int:
        """The tokens of the text without the recap, which is not memory from other sessions."""
        return estimate(self.text) - self.recap_tokens


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The records that a section may show, and how many were withheld as prompt injection."""

    records: list[Record]
    withheld: int


@dataclass(frozen=True, slots=True)
class BriefContents:
    """Everything that a brief may include.

    `sessions` are ordered newest first, `active` are lines of text, `so_far` is the recap of a
    compacted session, and `instructions` is one line about using Ralph.
    """

    guardrails: Sequence[Record] = ()
    memories: Sequence[Record] = ()
    sessions: Sequence[SessionLine] = ()
    active: Sequence[str] = ()
    so_far: str = ""
    instructions: str = ""


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
    total = len(contents.guardrails) + len(memories) - withheld

    instructions = _fitting_instructions(contents.instructions, caps)
    room = _remaining(caps.tokens, _FRAME_TOKENS + estimate(instructions))
    work_pieces = _work_pieces(contents, caps.work)
    is_work_small = not room or _tokens(work_pieces) <= _part(room, _WORK_PARTS)
    if is_work_small:
        room = _remaining(room, _tokens(work_pieces))
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

    pieces = [  # most important first
        *_so_far_pieces(contents.so_far),
        *rule_pieces,
        *(work_pieces if is_work_small else ()),
        *outside_pieces,
        *learned_pieces,
        *(() if is_work_small else work_pieces),
    ]
    text, shown = _fill_page(pieces, instructions, caps, total)
    records = tuple(piece for piece in shown if piece.id)
    return Brief(
        text,
        records,
        left_out=total - _count_memories(shown),
        withheld=withheld,
        instruction_tokens=estimate(instructions) if instructions in text else 0,
        recap_tokens=_recap_tokens(shown),
    )


def _so_far_pieces(so_far: str) -> list[BriefPiece]:
    if not so_far:
        return []
    return [BriefPiece(SO_FAR, so_far, estimate(so_far) + 1)]


def _fitting_instructions(instructions: str, caps: BriefCaps) -> str:
    """Render the instructions, or return "" if they would take too much of the room."""
    text = render.notes([instructions])
    if render.length(text) > caps.characters // _INSTRUCTIONS_PARTS:
        return ""
    if 0 < caps.tokens < _INSTRUCTIONS_PARTS * estimate(text):
        return ""
    return text


def _recap_tokens(shown: Iterable[BriefPiece]) -> int:
    return sum(estimate(piece.text) for piece in shown if piece.section == SO_FAR)


def _count_memories(shown: Iterable[BriefPiece]) -> int:
    return sum(1 for piece in shown if piece.id and piece.section != RECENT_SESSIONS)


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


def _work_pieces(contents: BriefContents, most: int) -> list[BriefPiece]:
    """Render the active work, and then the sessions, as far as they fit into a budget."""
    pieces: list[BriefPiece] = []
    for line in contents.active[:_MAX_LINES]:
        text = one_line(line)[:_MAX_LINE_CHARACTERS]
        if text:
            pieces.append(BriefPiece(ACTIVE, f"- {text}", estimate(f"- {text}") + 1))
    for session in contents.sessions[:_MAX_ENTRIES]:
        cost = estimate(session.text) + 1
        pieces.append(BriefPiece(RECENT_SESSIONS, session.text, cost, session.id))
    fitting = []
    room = most
    for piece in pieces:
        if not most or piece.tokens <= room:
            fitting.append(piece)
            room -= piece.tokens
    return fitting


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


def _fill_page(
    pieces: Sequence[BriefPiece], instructions: str, caps: BriefCaps, total: int
) -> tuple[str, list[BriefPiece]]:
    """Render the most important pieces that fit, and return the text and these pieces.

    The pieces are first chosen by their estimated cost. Then pieces are dropped from the end until
    the rendered text fits.
    """
    shown = _fitting_pieces(pieces, instructions, caps, total)
    while shown:
        text = _render_page(shown, total) + instructions
        if _is_within(text, shown, caps):
            return text, shown
        shown.pop()
    return instructions, shown


def _fitting_pieces(
    pieces: Sequence[BriefPiece], instructions: str, caps: BriefCaps, total: int
) -> list[BriefPiece]:
    characters = caps.characters - _FRAME_CHARACTERS
    characters -= render.length(_render_count([], total) + instructions)
    tokens = caps.tokens - _FRAME_TOKENS - estimate(instructions)
    fitting: list[BriefPiece] = []
    sections: set[str] = set()
    for piece in pieces:
        heading = 0
        if piece.section not in sections:
            heading = len(piece.section) + 1
        size = render.length(piece.text) + 1 + heading
        is_free = not caps.tokens or piece.section == SO_FAR
        if size <= characters and (is_free or piece.tokens <= tokens):
            fitting.append(piece)
            sections.add(piece.section)
            characters -= size
            if not is_free:
                tokens -= piece.tokens
    return fitting


def _render_page(shown: Sequence[BriefPiece], total: int) -> str:
    lines: list[str] = []
    for section in SECTIONS:
        texts = [piece.text for piece in shown if piece.section == section]
        if texts:
            lines += [section, *texts]
    return render.framed(render.INTRO, "\n".join(lines)) + _render_count(shown, total)


def _render_count(shown: Sequence[BriefPiece], total: int) -> str:
    """Render the line that counts the memories left out, or "" if none are."""
    return render.notes([render.shown_note(_count_memories(shown), total, ALL_OF_IT)])


def _is_within(text: str, shown: Sequence[BriefPiece], caps: BriefCaps) -> bool:
    if render.length(text) > caps.characters:
        return False
    return not 0 < caps.tokens < estimate(text) - _recap_tokens(shown)
