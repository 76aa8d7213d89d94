"""The brief of a session, the journal section of a loop's prompt, the skill text, and where knowledge belongs.

Guardrails come first and take half of the tokens, or what memories leave, then the newest session summary, memories by
usefulness, and older summaries, within characters and tokens. Entries are complete; a line counts what is left out.
Notices and the skill are outside of the fence. 0 tokens are unlimited, characters never are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from types import MappingProxyType

from ralph.context import budget, render
from ralph.context.render import clean, one_line
from ralph.context.tokens import estimate
from ralph.formats.log import journal_id
from ralph.model import INJECTED, ids
from ralph.model.record import MemoryKind, Query, Record, Scope
from ralph.model.work import JournalEntry
from ralph.store.library import PROJECT
from ralph.store.sessions import RecentSession

Uses = Mapping[str, tuple[int, int]]
"""By record: in how many sessions it was injected, and in how many of them it was used."""

NO_USES: Uses = MappingProxyType({})
ALL_OF_IT = "`ralph memory list`, or `ralph search` with words of your task"
SKILL = f"{INJECTED} is kept by Ralph. How to use it and add to it:"

_TRIED = 5  # sessions in which a record was injected, before it may be called useless
_OFTEN = 0.2  # used in so many of the sessions, a record is called useful
_MANY = 400  # entries that are considered: more fit into no brief
# of notices, and of what is active
_MOST_LINES = 10
_LONGEST_LINE = 300

_RULES = "Guardrails:"
_LEARNED = "Memories:"
_ACTIVE = "Active now:"
_NOTICE = "notice"
RECENT_SESSIONS = "Last sessions:"
_SO_FAR = "This session before its compaction:"
_FURTHER = {
    Scope.ENCLOSING: "Memories of the project around this one:",
    Scope.PERSONAL: "Personal memories:",
}
SECTIONS = (_SO_FAR, _RULES, _LEARNED, *_FURTHER.values(), RECENT_SESSIONS, _ACTIVE)
_OUTSIDE = render.length(render.INTRO) + len("\n```\n```\n")
_USUAL = " ".join((_RULES, _LEARNED, RECENT_SESSIONS, _ACTIVE))
_FRAME = estimate(f"{render.INTRO}\n```\n{_USUAL}\n```\n{render.shown_note(999, 1000, ALL_OF_IT)}")
JOURNAL_BUDGET = 3_000
JOURNAL_HEADING = "## Run Journal"

_MOST_FILES = 20
_LEAST = 60  # tokens for an entry whose notes are cut


@dataclass(frozen=True, slots=True)
class BriefCaps:
    """The limits of a brief: tokens in all, of guardrails and memories, of summaries; characters."""

    tokens: int = 0
    memories: int = 2_000
    summaries: int = 1_000
    characters: int = render.MOST_CHARACTERS


@dataclass(frozen=True, slots=True)
class BriefPiece:
    """An entry or a line of a brief, and its cost; a line has no id."""

    section: str
    text: str
    tokens: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class Brief:
    """The text, its records, and how many are left out for want of room, or withheld as prompt injection."""

    text: str = ""
    records: tuple[BriefPiece, ...] = ()
    left_out: int = 0
    withheld: int = 0
    skill_tokens: int = 0  # of the skill text, where it is in it
    noted: tuple[str, ...] = ()  # marks of the lines in it that show no record


def filter_memories(
    memories: Sequence[Record],
    types: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
) -> list[Record]:
    """Return the memories of these types, with any of these tags, of the last `recent` days."""
    query = Query(kinds=tuple(types), tags=tuple(tags), since=ids.first_day(recent))
    return [record for record in memories if query.accepts(record)]


def by_use(
    records: Sequence[Record], uses: Uses = NO_USES, stale: Collection[str] = ()
) -> list[int]:
    """Return the indices of the records, the most useful first; behind them stale ones, and those of other projects."""
    order = budget.useful_order(records, lambda record: _usefulness(uses.get(record.id, (0, 0))))
    return sorted(order, key=lambda index: (*_distance(records[index]), records[index].id in stale))


def _distance(record: Record) -> tuple[int, int]:
    """Return how far a record is from the project, for sorting: its own, the nearest enclosing project's, personal."""
    place = [*_FURTHER].index(record.scope) + 1 if record.scope in _FURTHER else 0
    return place, -len(str(record.extra.get(PROJECT, ""))) if place else 0


def _usefulness(use: tuple[int, int]) -> int:
    injected, used = use
    if used:
        return 2 if used >= _OFTEN * injected else 1
    return 0 if injected >= _TRIED else 1


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
    """Return the brief within its caps, with `so_far`, what happened before a compaction; summaries: newest first."""
    rules, withheld_rules = _candidates(guardrails, uses, stale, may_inject, caps)
    own = [each for each in memories if each.scope not in _FURTHER]
    learned, withheld_memories = _candidates(own, uses, stale, may_inject, caps)
    further = {
        section: _candidates(
            [each for each in memories if each.scope is scope], uses, stale, may_inject, caps
        )
        for scope, section in _FURTHER.items()
    }
    withheld = withheld_rules + withheld_memories + sum(count for _, count in further.values())
    total = len(guardrails) + len(memories) - withheld + len(summaries)
    room = caps.memories and max(1, caps.memories - _FRAME)
    others = [*learned, *(record for candidates, _ in further.values() for record in candidates)]
    costs = [sum(piece.tokens for piece in _pieces("", records, 0)) for records in (rules, others)]
    guards = _pieces(_RULES, rules, budget.guardrails_budget(room, *costs))
    recaps = _recaps(summaries, caps)
    rest = room and max(1, room - sum(piece.tokens for piece in guards))
    outside = [
        piece
        for section, (candidates, _) in further.items()
        for piece in _pieces(section, candidates, rest and max(1, rest // 4))  # a quarter
    ]
    rest = rest and max(1, rest - sum(piece.tokens for piece in outside))
    by_strategy = strategy in budget.STRATEGIES
    chosen = (
        _trim(learned, rest, strategy, uses, stale)
        if by_strategy
        else _pieces(_LEARNED, learned, rest)
    )
    before = [BriefPiece(_SO_FAR, so_far, estimate(so_far) + 1)] if so_far else []
    pieces = [
        *before,
        *_lines(_ACTIVE, active),
        *guards,
        *recaps[:1],
        *outside,
        *chosen,
        *recaps[1:],
    ]
    added = render.framed(SKILL, skill.strip("\n")) if skill else ""
    size = render.length(added)
    cost = estimate(added)
    reserved = caps
    if 2 * size <= caps.characters and (
        not caps.tokens or 2 * cost <= caps.tokens
    ):  # else the skill has to fit in
        reserved = replace(
            caps, characters=caps.characters - size, tokens=caps.tokens and caps.tokens - cost
        )
    text, shown = _fill_page(pieces, _lines(_NOTICE, notices), reserved, total)
    has_skill = bool(added) and _is_within(text + added, shown, caps)
    records = tuple(piece for piece in shown if piece.id)
    used = cost if has_skill else 0
    return Brief(text + added if has_skill else text, records, total - len(records), withheld, used)


def _fill_page(
    pieces: Sequence[BriefPiece], notices: list[BriefPiece], caps: BriefCaps, total: int
) -> tuple[str, list[BriefPiece]]:
    """Return the text of the most important pieces that fit, by estimated costs, and which they are."""

    def render_notes() -> str:
        notice = render.shown_note(sum(bool(piece.id) for piece in shown), total, ALL_OF_IT)
        return render.notes([notice, *(piece.text for piece in notices)])

    def render_page() -> str:
        lines: list[str] = []
        for section in SECTIONS:
            texts = [piece.text for piece in shown if piece.section == section]
            if texts:
                lines += [section, *texts]
        return (render.framed(render.INTRO, "\n".join(lines)) if lines else "") + render_notes()

    shown: list[BriefPiece] = []
    room = caps.characters - _OUTSIDE - render.length(render_notes())
    tokens = caps.tokens - _FRAME - sum(piece.tokens for piece in notices)
    for piece in pieces:
        is_first = all(piece.section != other.section for other in shown)
        heading = len(piece.section) + 1 if is_first else 0
        size = render.length(piece.text) + 1 + heading
        cost = piece.tokens + heading
        if size <= room and (not caps.tokens or cost <= tokens):
            shown.append(piece)
            room = room - size
            tokens = tokens - cost
    while (shown or notices) and not _is_within(render_page(), shown, caps):
        (shown or notices).pop()
    return render_page() if shown or notices else "", shown


def _is_within(text: str, shown: Sequence[BriefPiece], caps: BriefCaps) -> bool:
    if render.length(text) > caps.characters or 0 < caps.tokens < estimate(text):
        return False
    learned = "\n".join(
        piece.text for piece in shown if piece.section not in (RECENT_SESSIONS, _ACTIVE, _SO_FAR)
    )
    return not 0 < caps.memories < estimate(learned)


def _candidates(
    records: Sequence[Record],
    uses: Uses,
    stale: Collection[str],
    may_inject: Callable[[Record], bool],
    caps: BriefCaps,
) -> tuple[list[Record], int]:
    """Return the first entries that may be shown, three times as much as fits, and how many may not."""
    candidates: list[Record] = []
    withheld = 0
    room = 3 * caps.characters
    for index in by_use(records, uses, stale):
        record = records[index]
        if len(record.text) > render.MOST_CHARACTERS:
            continue
        if len(candidates) == _MANY or room <= 0:
            break
        if may_inject(record):
            candidates.append(record)
            room -= len(record.text)
        else:
            withheld += 1
    return candidates, withheld


def _lines(section: str, lines: Sequence[str]) -> list[BriefPiece]:
    texts = [one_line(line)[:_LONGEST_LINE] for line in lines[:_MOST_LINES]]
    mark = "" if section == _NOTICE else "- "
    return [BriefPiece(section, mark + text, estimate(mark + text)) for text in texts if text]


def _pieces(section: str, records: Sequence[Record], most: int) -> list[BriefPiece]:
    texts = [_render_record(record) for record in records]
    costs = [estimate(text) + 1 for text in texts]
    kept = budget.fill(records, costs, most, order=range(len(records)))
    return [BriefPiece(section, texts[index], costs[index], records[index].id) for index in kept]


def _trim(
    records: Sequence[Record], most: int, strategy: str, uses: Uses, stale: Collection[str]
) -> list[BriefPiece]:
    """Return the memories that a strategy keeps, at the detail that it leaves; the score is how much they were used."""
    last_first = list(reversed(records))  # of one date, strategies take the last first
    texts = [[_render_record(record, layer) for layer in (1, 2, 3)] for record in last_first]
    items = [
        budget.BudgetItem(
            budget.ascending_costs([estimate(text) + 1 for text in layers]),
            record.added_at,
            _usefulness(uses.get(record.id, (0, 0))) / 2 - (record.id in stale),
            record.kind.value,
        )
        for record, layers in zip(last_first, texts, strict=True)
    ]
    pieces = [
        BriefPiece(
            _LEARNED, texts[item.index][item.layer - 1], item.tokens, last_first[item.index].id
        )
        for item in budget.STRATEGIES[strategy](items, most)
    ]
    return sorted(pieces, key=lambda piece: piece.id in stale)


def _recaps(summaries: Sequence[RecentSession], caps: BriefCaps) -> list[BriefPiece]:
    pieces: list[BriefPiece] = []
    room = caps.summaries
    for session in summaries[:_MANY]:
        text = render.entry(3, session.id, "session", "", session.summary, session.at)
        if render.length(text) > caps.characters // 4:
            text = render.entry(2, session.id, "session", "", session.summary, session.at)
        cost = estimate(text) + 1
        if caps.summaries and cost > room:
            text = render.entry(1, session.id, "session", "", session.summary, session.at)
            cost = estimate(text) + 1
        if not caps.summaries or cost <= room:
            pieces.append(BriefPiece(RECENT_SESSIONS, text, cost, session.id))
            room -= cost
    return pieces


def _render_record(record: Record, layer: int = 3) -> str:
    kind = record.kind.value
    files = record.origin.files
    by = record.origin.by or str(record.extra.get("by") or "")
    return render.entry(
        layer, record.id, kind, record.title, record.text, record.created_at, record.tags, files, by
    )


def render_journal(
    recent: Sequence[JournalEntry],
    others: Sequence[JournalEntry] = (),
    budget: int = JOURNAL_BUDGET,
) -> str:
    """Render the section Run Journal: this run's entries in order, then those of other runs; 0 is unlimited.

    The newest entry goes in first; where the room ends, notes are cut, and none takes more than half of the room.
    """
    entries = [
        *((entry, False) for entry in reversed(recent)),
        *((entry, True) for entry in others),
    ]

    def join(blocks: Sequence[str], omitted: int = 0) -> str:
        note = [f"_{omitted} more left out; `ralph loop journal` shows them._\n"] if omitted else []
        return "\n".join(
            [
                f"{JOURNAL_HEADING}\n",
                *reversed(blocks[: len(recent)]),
                *blocks[len(recent) :],
                *note,
            ]
        )

    text = join([journal_block(entry, of_run=other) for entry, other in entries]) if entries else ""
    if budget <= 0 or estimate(text) <= budget:
        return text
    share = budget // 2 if len(entries) > 1 else budget
    blocks: list[str] = []
    for entry, other in entries:
        room = min(
            share, budget - 2 - estimate(join(blocks, len(entries)))
        )  # 2: the blank line between
        block = journal_block(entry, of_run=other)
        if estimate(block) > room:  # cut the notes
            mark = f"… (all of it: ralph loop journal {journal_id(entry.run, entry.iteration)})"
            frame = estimate(journal_block(replace(entry, notes=mark), of_run=other))
            notes = render.cut(clean(entry.notes).strip().replace("\n", "\n  "), room - frame, "")
            block = journal_block(
                replace(entry, notes=notes.replace("\n  ", "\n") + mark), of_run=other
            )
            if not notes or room < _LEAST or estimate(block) > room:
                break
        blocks.append(block)
    return join(blocks, len(entries) - len(blocks)) if blocks else ""


def journal_block(entry: JournalEntry, *, of_run: bool = False) -> str:
    """Render one entry as markdown."""
    run = f" of {one_line(entry.run)}" if of_run else ""
    lines = [f"### Iteration {entry.iteration}{run} [{entry.outcome.value}]"]
    price = f" | **Cost**: ${entry.cost:.4f}" if round(entry.cost, 4) else ""
    more = len(entry.files) - _MOST_FILES
    names = [*map(one_line, entry.files[:_MOST_FILES]), *([f"and {more} more"] if more > 0 else [])]
    for name, value in (
        ("Task", one_line(entry.task or entry.title)),
        ("Model", one_line(entry.model)),
        ("Duration", f"{entry.duration:.1f}s{price}"),
        ("Files", ", ".join(names)),
        ("Notes", indent(render.short_tracebacks(clean(entry.notes)).strip(), "  ").strip()),
    ):
        if value:
            lines.append(f"- **{name}**: {value}")
    return "\n".join(lines) + "\n"


def skill_text(program: str = "ralph", *, has_tools: bool = False) -> str:
    """Return the text that teaches an agent to use Ralph: by the commands of a program, or by its MCP tools."""
    with Path(__file__).with_name("skill.md").open(encoding="utf-8", newline="") as file:
        lines = [line.removeprefix("mcp: " if has_tools else "cli: ") for line in file]
    text = "".join(line for line in lines if not line.startswith(("mcp: ", "cli: ")))
    return text if has_tools or program == "ralph" else f"{text}- `ralph` is `{program}` here\n"
