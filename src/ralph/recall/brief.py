"""Render a session's brief, the journal section of a loop's prompt, and the skill text.

A brief is what a session is told when it starts. Guardrails come first and get half of the tokens,
or more if memories leave room. Then come the newest session summary, memories by usefulness, and
older summaries, within limits on characters and tokens. Only whole entries are included, and a line
counts those left out. Notices and the skill are placed outside the fence. The skill is a short text
that teaches an agent to use Ralph. A limit of 0 tokens means unlimited; characters are always
limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from types import MappingProxyType

from ralph.core import budget as budgets
from ralph.core import ids, render
from ralph.core.prompts import INJECTED
from ralph.core.record import MemoryKind, Query, Record, Scope
from ralph.core.render import clean, one_line
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry
from ralph.formats.log import journal_id
from ralph.storage.library import PROJECT
from ralph.storage.sessions import RecentSession

Uses = Mapping[str, tuple[int, int]]
"""Maps a record id to the number of sessions it was injected into and of those that used it."""

NO_USES: Uses = MappingProxyType({})
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
_OUTSIDE_SCOPES = (Scope.ENCLOSING, Scope.PERSONAL)  # scopes of memories from outside the project
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

_MIN_TRIED_SESSIONS = 5  # a record is useless only after this many sessions without use
_USEFUL_SHARE = 0.2  # a useful record was used in at least this share of its sessions
_USELESS = 0
_UNPROVEN = 1
_USEFUL = 2

_MAX_ENTRIES = 400  # entries considered; no brief has room for more
_CANDIDATE_FACTOR = 3  # read this many times as many characters as fit
_MAX_LINES = 10  # limits both notices and lines about active work
_MAX_LINE_CHARACTERS = 300
_OUTSIDE_PARTS = 4  # each outside section gets one of this many parts of what guardrails leave
_LONG_SUMMARY_PARTS = 4  # a summary longer than one of this many parts of the brief is shortened

JOURNAL_BUDGET = 3_000  # tokens
JOURNAL_HEADING = "## Run Journal"
_MAX_JOURNAL_FILES = 20
_MIN_CUT_TOKENS = 60  # with less room than this, an entry is left out, not cut
_BLANK_LINE_TOKENS = 2  # the blank line between two entries


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
    """The records that a section may show, and the number that was withheld."""

    records: list[Record]
    withheld: int


# --- the order of records ------------------------------------------------------------------------


def filter_memories(
    memories: Sequence[Record],
    types: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
) -> list[Record]:
    """Return the memories of these types, with any of these tags, from the last `recent` days."""
    query = Query(kinds=tuple(types), tags=tuple(tags), since=ids.first_day(recent))
    return [record for record in memories if query.accepts(record)]


def by_use(
    records: Sequence[Record], uses: Uses = NO_USES, stale: Collection[str] = ()
) -> list[int]:
    """Return the indices of the records, most useful first.

    Stale records follow current ones, and records from other projects follow the project's own.
    """
    order = budgets.useful_order(records, lambda record: _usefulness(uses.get(record.id, (0, 0))))
    return sorted(order, key=lambda index: (*_distance(records[index]), records[index].id in stale))


def _distance(record: Record) -> tuple[int, int]:
    """Return how far a record is from the project, as a sort key.

    The project's own records come first, then those from the nearest enclosing project, then
    personal ones.
    """
    if record.scope not in _OUTSIDE_SCOPES:
        return 0, 0
    project = str(record.extra.get(PROJECT, ""))
    return 1 + _OUTSIDE_SCOPES.index(record.scope), -len(project)


def _usefulness(use: tuple[int, int]) -> int:
    injected, used = use
    if not used:
        if injected >= _MIN_TRIED_SESSIONS:
            return _USELESS
        return _UNPROVEN
    if used >= _USEFUL_SHARE * injected:
        return _USEFUL
    return _UNPROVEN


# --- the brief -----------------------------------------------------------------------------------


def session_brief(
    guardrails: Sequence[Record],
    memories: Sequence[Record],
    summaries: Sequence[RecentSession],
    active: Sequence[str],
    notices: Sequence[str],
    *,
    caps: BriefCaps,
    uses: Uses = NO_USES,
    stale: Collection[str] = (),
    skill: str = "",
    strategy: str = "",
    so_far: str = "",
    may_inject: Callable[[Record], bool] = lambda _: True,
) -> Brief:
    """Build a brief within `caps`.

    `so_far` describes what happened before a compaction. `summaries` are ordered newest first.
    """

    def select(records: Sequence[Record]) -> _Candidates:
        return _select(records, uses, stale, may_inject, caps)

    rules = select(guardrails)
    learned = select([record for record in memories if record.scope not in _OUTSIDE_SCOPES])
    outside: dict[str, _Candidates] = {}
    for scope, section in _SECTIONS_OF_SCOPES.items():
        outside[section] = select([record for record in memories if record.scope is scope])
    groups = [rules, learned, *outside.values()]
    withheld = sum(group.withheld for group in groups)
    total = len(guardrails) + len(memories) - withheld + len(summaries)

    room = _remaining(caps.memories, _FRAME_TOKENS)
    cost_of_others = sum(_cost(group.records) for group in groups[1:])
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

    so_far_pieces = []
    if so_far:
        so_far_pieces.append(BriefPiece(SO_FAR, so_far, estimate(so_far) + 1))
    recaps = _recaps(summaries, caps)
    pieces = [
        *so_far_pieces,
        *_line_pieces(ACTIVE, active),
        *rule_pieces,
        *recaps[:1],
        *outside_pieces,
        *learned_pieces,
        *recaps[1:],
    ]
    skill_block = ""
    if skill:
        skill_block = render.framed(SKILL, skill.strip("\n"))
    text, shown = _fill_page(
        pieces, _line_pieces(_NOTICE, notices), _reserve(caps, skill_block), total
    )
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

    Their text is several times as long as what fits, to leave a choice.
    """
    candidates: list[Record] = []
    withheld = 0
    room = _CANDIDATE_FACTOR * caps.characters
    for index in by_use(records, uses, stale):
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
    """Return what is left of a budget.

    The result is at least 1, because 0 means unlimited. An unlimited budget stays unlimited.
    """
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
    """Return the memories that a strategy keeps, at the level of detail it chooses.

    A memory's score is how much it was used. Stale memories score lower and come last.
    """
    last_first = list(reversed(records))  # among equal dates, strategies take the last one first
    layers_of_records: list[list[str]] = []
    items: list[budgets.BudgetItem] = []
    for record in last_first:
        layers = [_render_record(record, layer) for layer in (1, 2, 3)]
        costs = budgets.ascending_costs([estimate(text) + 1 for text in layers])
        score = _usefulness(uses.get(record.id, (0, 0))) / _USEFUL
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


# --- filling the page ----------------------------------------------------------------------------


def _reserve(caps: BriefCaps, skill_block: str) -> BriefCaps:
    """Return the limits that remain after room is set aside for the skill text.

    No room is set aside if the skill would take more than half. It is then added only if it fits.
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
    """Return the text with the most important pieces that fit, and those pieces.

    The pieces are chosen by estimated cost. The last ones are then dropped until the exact text
    fits.
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


# --- the journal of a loop -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry in the journal section. With `of_run`, its heading names the run it belongs to."""

    entry: JournalEntry
    of_run: bool

    def render(self) -> str:
        return journal_block(self.entry, of_run=self.of_run)

    def render_cut(self, room: int) -> str:
        """Render the entry with as much of its notes as there is room for.

        Returns "" if there is too little room.
        """
        entry = self.entry
        mark = f"… (full entry: ralph loop journal {journal_id(entry.run, entry.iteration)})"
        frame = estimate(journal_block(replace(entry, notes=mark), of_run=self.of_run))
        indented = clean(entry.notes).strip().replace("\n", "\n  ")
        notes = render.cut(indented, room - frame, "").replace("\n  ", "\n")
        block = journal_block(replace(entry, notes=notes + mark), of_run=self.of_run)
        if not notes or room < _MIN_CUT_TOKENS or estimate(block) > room:
            return ""
        return block


def render_journal(
    recent: Sequence[JournalEntry],
    others: Sequence[JournalEntry] = (),
    budget: int = JOURNAL_BUDGET,
) -> str:
    """Render the Run Journal section: this run's entries in order, then those of other runs.

    The newest entry is placed first. When room runs out, notes are cut. No entry takes more than
    half of the room unless it is the only one. A budget of 0 means unlimited.
    """
    entries = [_Listed(entry, of_run=False) for entry in reversed(recent)]
    entries += [_Listed(entry, of_run=True) for entry in others]
    if not entries:
        return ""
    text = _join_journal([entry.render() for entry in entries], len(recent))
    if budget <= 0 or estimate(text) <= budget:
        return text
    most = budget
    if len(entries) > 1:
        most = budget // 2
    blocks: list[str] = []
    for entry in entries:
        used = estimate(_join_journal(blocks, len(recent), omitted=len(entries)))
        room = min(most, budget - _BLANK_LINE_TOKENS - used)
        block = entry.render()
        if estimate(block) > room:
            block = entry.render_cut(room)
        if not block:
            break
        blocks.append(block)
    if not blocks:
        return ""
    return _join_journal(blocks, len(recent), omitted=len(entries) - len(blocks))


def _join_journal(blocks: Sequence[str], own_count: int, omitted: int = 0) -> str:
    """Join the blocks into a section.

    The first `own_count` blocks are this run's entries, newest first.
    """
    lines = [f"{JOURNAL_HEADING}\n", *reversed(blocks[:own_count]), *blocks[own_count:]]
    if omitted:
        lines.append(f"_{omitted} more left out; `ralph loop journal` shows them._\n")
    return "\n".join(lines)


def journal_block(entry: JournalEntry, *, of_run: bool = False) -> str:
    """Render one entry as Markdown. With `of_run`, its heading names the run."""
    heading = f"### Iteration {entry.iteration}"
    if of_run:
        heading += f" of {one_line(entry.run)}"
    duration = f"{entry.duration:.1f}s"
    if round(entry.cost, 4):
        duration += f" | **Cost**: ${entry.cost:.4f}"
    files = [one_line(name) for name in entry.files[:_MAX_JOURNAL_FILES]]
    if len(entry.files) > _MAX_JOURNAL_FILES:
        files.append(f"and {len(entry.files) - _MAX_JOURNAL_FILES} more")
    notes = render.short_tracebacks(clean(entry.notes)).strip()
    fields = (
        ("Task", one_line(entry.task or entry.title)),
        ("Model", one_line(entry.model)),
        ("Duration", duration),
        ("Files", ", ".join(files)),
        ("Notes", indent(notes, "  ").strip()),
    )
    lines = [f"{heading} [{entry.outcome.value}]"]
    for name, value in fields:
        if value:
            lines.append(f"- **{name}**: {value}")
    return "\n".join(lines) + "\n"


# --- the skill -----------------------------------------------------------------------------------


def skill_text(program: str = "ralph", *, has_tools: bool = False) -> str:
    """Return the text that teaches an agent to use Ralph.

    It describes Ralph's MCP tools if `has_tools` is set, and its commands otherwise. `program` is
    how the agent starts Ralph.
    """
    wanted = "cli: "
    unwanted = "mcp: "
    if has_tools:
        wanted = "mcp: "
        unwanted = "cli: "
    lines: list[str] = []
    with Path(__file__).with_name("skill.md").open(encoding="utf-8", newline="") as file:
        for line in file:
            if not line.startswith(unwanted):
                lines.append(line.removeprefix(wanted))
    text = "".join(lines)
    if has_tools or program == "ralph":
        return text
    return f"{text}- `ralph` is `{program}` here\n"
