"""What an agent would be handed, item by item, and what not, and why: the context preview.

The text is the very one that hooks and the loop make (`briefing`, `loop_prompt`); this module asks them, and looks at
what they could have taken. Why something was left out is told by the same tests that they apply (the gate of the
ranking, orders, filters, what a task may see), one after the other, the first that speaks against it. Nothing is
recorded as handed over or seen: nothing is written but caches. `tests/app/test_preview.py` proves it.
"""

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import briefing, hook_state, index, loop_prompt, memory, usage
from ralph.app.tasks import board
from ralph.context import brief, recall, render
from ralph.context.tokens import estimate
from ralph.errors import UsageError
from ralph.loop.state import Run
from ralph.model import ids
from ralph.model.record import Record
from ralph.model.work import Task
from ralph.search import rank
from ralph.search.rank import RankedRow
from ralph.settings import Config, Inject
from ralph.store import lookup, rows
from ralph.store.lookup import Row

if TYPE_CHECKING:
    from ralph.store.lookup import Filter

SHOWN = 100
"""So many are named that were left out."""
_CANDIDATES = 30
_ALL = rank.Recipe(injected=_CANDIDATES)
_TITLE = 160
_SPEAKERS = ("prompt", "answer")
"""What is said in a session is titled by who said it, which tells nothing in a list."""
_NAMED = re.compile(r"^- \[([^\]\s]{2,200})\] ", re.MULTILINE)
"""How a record begins that stands in a prompt (`context/render.py`); `- [x]` is a story that is done."""
_SECTIONS = (
    "Assigned Task", "Stories", "Specification", "Plan", "Retry Information", "Guardrails", "Run Journal",
    "Task Progress", "Project Knowledge", "Memories", "Scratchpad", "Global Patterns", "Memory",
)  # fmt: skip
_HEADING = re.compile(rf"^## ({'|'.join(_SECTIONS)})$", re.MULTILINE)
"""The headings of the loop's own sections; what is told in them may have others."""


class Event(StrEnum):
    """When something is handed over."""

    PROMPT = "UserPromptSubmit"
    START = "SessionStart"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class Item:
    """One record that would be handed over, in its place."""

    order: int
    id: str
    kind: str
    title: str
    text: str
    tokens: int
    why: tuple[str, ...]
    area: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One record that would not, and why."""

    id: str
    title: str
    tokens: int
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be handed over: within `budget` tokens, of which the window allows `cap`; `text` is exactly it."""

    budget: int
    cap: int
    items: tuple[Item, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    more: int = 0
    """How many were left out beyond those that are named."""

    @property
    def used(self) -> int:
        """The tokens of all items."""
        return sum(each.tokens for each in self.items)

    @property
    def tokens(self) -> int:
        """The tokens of the whole text."""
        return estimate(self.text)


@index.one_look()
def show(
    root: Path, config: Config, event: Event, prompt: str = "", *, task: str = "", session: str = ""
) -> Preview:  # fmt: skip
    """What an event would bring (within a task, to a session); nothing is recorded."""
    if task:
        board.find(root, task)
    if event is Event.START:
        found = _at_start(root, config, task, session)
    elif event is Event.LOOP:
        found = _in_loop(root, config, prompt, task)
    else:
        found = _for_prompt(root, config, prompt, task, session)
    notes = [*_switched_off(root, config, event), *found.notes]
    notes += [f"{found.more:,} more were left out"] if found.more else []
    return replace(found, notes=tuple(notes))


def _switched_off(root: Path, config: Config, event: Event) -> Iterable[str]:
    settings = config.memories
    if hook_state.paused_since(root) is not None and event is not Event.LOOP:
        yield "hooks are paused here and hand over nothing; `ralph capture on` lets them go on"
    if settings.inject is not Inject.AUTO:
        yield f"memories.inject is {settings.inject.value}: no hook hands over memories by itself"
    if not settings.enabled:
        yield "memories.enabled is false: memories and guardrails are not handed over"


def title_of(title: str, text: str) -> str:
    """A record's name on one line."""
    line = " ".join((text if title in _SPEAKERS and text.strip() else title or text).split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _cap(config: Config) -> int:
    """What memories may take of the window."""
    return recall.within_window(config.context.window, 0, config.context.shares.memory)


def _budget(config: Config) -> int:
    return recall.within_window(config.context.window, config.memories.budget, config.context.shares.memory)


# --- a prompt ----------------------------------------------------------------------------------------


def _for_prompt(root: Path, config: Config, prompt: str, task: str, session: str) -> Preview:
    told = briefing.for_prompt(root, config, prompt, session=session, task=task)
    asked = recall.human_question(prompt)
    seen = usage.seen_records(root, session) if session else set[str]()
    rules = _Rules(config, rows.safe(task), session, seen)

    def question(connection: sqlite3.Connection) -> tuple[dict[str, Row], list[LeftOut]]:
        keys = [key for each in told.reasons if (key := rows.key_of(connection, each.id)) is not None]
        held = lookup.judged(connection, keys)
        return {row.id: row for row in held.values()}, _not_told(connection, asked, {*held}, rules)

    held, left = index.ask(root, question) if asked else ({}, [])
    items = [
        Item(order, each.id, row.kind, title_of(row.title, row.text), row.text, each.tokens, each.why, _area(row))
        for order, each in enumerate(told.reasons, 1)
        if (row := held.get(each.id)) is not None
    ]
    notes = [] if asked or not prompt.strip() else ["this is no question of a person: hooks do not answer it"]
    if items and told.layer < 3:
        notes.append("there is no room for all of it: " + ("one line each" if told.layer == 1 else "beginnings only"))
    return Preview(_budget(config), _cap(config), tuple(items), tuple(left), told.text, tuple(notes))


def _area(row: Row) -> str:
    return ("memory", "observation", "journal")[row.key % len(lookup.TABLES)]


@dataclass(frozen=True, slots=True)
class _Rules:
    """By what records are left out of an answer."""

    config: Config
    task: str
    session: str
    seen: Collection[str]

    @property
    def filter(self) -> "Filter":
        """What the settings let through, whoever asks."""
        choice, today = self.config.memories.filter, ids.now().date()
        kinds = [kind.value for kind in choice.types]
        since = briefing.since(today, choice.recent)
        return (
            lookup.memories(
                kinds=kinds, tags=choice.tags, since=since, knowledge_only=not self.config.memories.enabled
            ),
            lookup.observations(not_of=self.session, not_called=recall.PATH_ONLY_TITLES),
            lookup.journal(),
        )


def _not_told(connection: sqlite3.Connection, asked: str, told: Collection[int], rules: _Rules) -> list[LeftOut]:
    """What else the words find, the best first, and what speaks against it."""
    today = ids.now().date().isoformat()
    ranked = rank.rank(connection, asked, today=today, keep=lookup.EVERYTHING, limit=_CANDIDATES)
    best = list(ranked.best)
    keys = [each.row.key for each in best]
    fitting = {each.row.key for each in _through_the_gate(best)}
    seen = lookup.passing(connection, keys, lookup.sight(rules.task)) if rules.task else {*keys}
    let = lookup.passing(connection, keys, rules.filter)
    sessions = [each.row.session for each in best if each.row.key in told and each.row.session]
    found: list[LeftOut] = []
    for each in best:
        if each.row.key in told:
            continue
        why = _against(each, rules, fitting, seen, let)
        found.append(_left(each.row, why or _crowded(each, sessions, len(told))))
    return found


def _through_the_gate(best: Sequence[RankedRow]) -> list[RankedRow]:
    """What is good enough to be handed over unasked, by family, however many that are."""
    found: list[RankedRow] = []
    for place in range(len(lookup.TABLES)):
        own = [each for each in best if each.row.key % len(lookup.TABLES) == place]
        if own and rank.is_answer(own[0]):
            found += rank.gate(own, _ALL)
    return found


def _against(
    each: RankedRow, rules: _Rules, fitting: Collection[int], seen: Collection[int], let: Collection[int]
) -> str:
    row = each.row
    if row.id in rules.seen:
        return "this session knows it already"
    if row.key not in seen:
        return "it is the own of another task that is not finished"
    if row.title == "prompt" and _area(row) == "observation":
        return "it is what somebody asked before, and no answer"
    if row.key not in let:
        return "the settings leave it out (memories.filter)" if _area(row) == "memory" else "it only names a place"
    if render.withheld(row.by, f"{row.title}\n{row.text}\n{row.tags}"):
        return "it gives orders, and no person wrote it"
    return "" if row.key in fitting else "it does not fit closely enough"


def _crowded(each: RankedRow, sessions: Sequence[str], told: int) -> str:
    if sessions.count(each.row.session) >= recall.PER_SESSION:
        return f"{recall.PER_SESSION} things of its session are told already"
    return f"the best {recall.MOST} are told" if told >= recall.MOST else "there is no room for it in the budget"


def _left(row: Row, why: str) -> LeftOut:
    shown = render.entry(3, row.id, row.kind, row.title, row.text, row.created_at, row.tags, row.files)
    return LeftOut(row.id, title_of(row.title, row.text), estimate(shown), why)


# --- a session's start -------------------------------------------------------------------------------


def _at_start(root: Path, config: Config, task: str, session: str) -> Preview:
    made = briefing.at_start(root, config, session, resumed=bool(session), task=task)
    rules, learned = _kept(root)
    known = {each.id: each for each in (*rules, *learned)}
    uses = usage.usefulness(root)
    first = {each.id for each in rules}
    items = []
    places = {each.id: made.text.find(f"[{each.id}]") for each in made.records}
    for order, each in enumerate(sorted(made.records, key=lambda shown: places[shown.id]), 1):
        record = known.get(each.id)
        area = "guardrails" if each.id in first else "memories" if record is not None else "sessions"
        text = record.text if record is not None else _block(made.text, places[each.id])
        title, kind = (record.title, record.kind.value) if record is not None else ("", "session")
        why = (*_PLACES[area], *_used(uses.get(each.id)))
        items.append(Item(order, each.id, kind, title_of(title, text), text, each.tokens, why, area))
    seen = usage.seen_records(root, session) if session else set[str]()
    told = {each.id for each in items}
    left, more = _not_in_brief(config, [*rules, *learned], told, _Against(seen=seen), uses)
    summaries = min(briefing.SUMMARY_TOKENS, _cap(config) or briefing.SUMMARY_TOKENS)
    notes = [f"{_budget(config):,} tokens for guardrails and memories, {summaries:,} for what sessions did"]
    notes += ["how to use memory is told once, with it (the skill)"] if made.has_skill else []
    return Preview(_budget(config) + summaries, _cap(config), tuple(items), left, made.text, tuple(notes), more)


_PLACES = {
    "guardrails": ("a guardrail: first in every brief",),
    "memories": ("a memory, by kind, use and age",),
    "sessions": ("what a session did lately",),
}


def _kept(root: Path) -> tuple[list[Record], list[Record]]:
    rules = memory.list_(root, in_=("guardrails",))
    return [each.record for each in rules], [each.record for each in memory.list_(root)]


def _used(use: tuple[int, int] | None) -> tuple[str, ...]:
    return (f"referred to in {use[1]} of {use[0]} session(s)",) if use is not None else ()


def _block(text: str, at: int) -> str:
    """What stands at a place of a brief, to the end of its entry."""
    if at < 0:
        return ""
    lines = text[text.rfind("\n", 0, at) + 1 :].split("\n")
    after = (place for place, line in enumerate(lines) if place and line.strip() and not line.startswith("  "))
    return "\n".join(lines[: next(after, len(lines))]).removeprefix("- ").rstrip()


@dataclass(frozen=True, slots=True)
class _Against:
    """What speaks against records beside the settings: that a session knows them, that they hold no longer."""

    seen: Collection[str] = ()
    past: Collection[str] = ()


def _not_in_brief(
    config: Config, records: Sequence[Record], told: Collection[str], against: _Against,
    uses: Mapping[str, tuple[int, int]],
) -> tuple[tuple[LeftOut, ...], int]:  # fmt: skip
    """What of these is not told, the most useful first, and how many are not named here."""
    choice, today = config.memories.filter, ids.now().date()
    let = brief.filter_memories(records, types=choice.types, tags=choice.tags, recent=choice.recent, today=today)
    names = {each.id for each in let} if config.memories.inject is Inject.AUTO and config.memories.enabled else set()
    others = [records[place] for place in brief.by_use(records, uses) if records[place].id not in told]
    named = [
        LeftOut(each.id, title_of(each.title, each.text), _cost(each), _why_not(each, against, names))
        for each in others[:SHOWN]
    ]
    return tuple(named), len(others) - len(named)


def _why_not(record: Record, against: _Against, let: Collection[str]) -> str:
    if record.id in against.seen:
        return "this session knows it already"
    if record.id in against.past:
        return "it is out of date, or another record supersedes it"
    if record.id not in let:
        return "the settings leave it out (memories.inject, memories.enabled, memories.filter)"
    if render.withheld(record.origin.by, f"{record.title}\n{record.text}\n{' '.join(record.tags)}"):
        return "it gives orders, and no person wrote it"
    return "there is no room for it in the budget"


def _cost(record: Record) -> int:
    kind = record.kind.value
    return estimate(render.entry(3, record.id, kind, record.title, record.text, record.created_at, record.tags))


# --- an iteration of the loop ------------------------------------------------------------------------


_OF = {
    "Guardrails": ("a guardrail",),
    "Memories": ("by relation to the task, then by kind and age",),
    "Run Journal": ("how earlier iterations ended, or others on something alike",),
}


def _in_loop(root: Path, config: Config, prompt: str, task: str) -> Preview:
    """The prompt of the next iteration on a task, or of the first one on a goal."""
    if not task and not prompt.strip():
        raise UsageError("there is nothing to work on", hint="name a task, or type a goal")
    title, _, rest = prompt.strip().partition("\n")
    work = board.find(root, task).task if task else Task("t-000000", title, rest)
    run = Run("run-00000000", work.title)
    text = loop_prompt.build(root, config, run, work, (), config.loop.max_iterations)
    rules, learned = _kept(root)
    known = {each.id: each for each in (*rules, *learned)}
    items: list[Item] = []
    for match in _NAMED.finditer(text):
        record = known.get(match[1])
        block = _block(text, match.start() + len("- "))
        area = _HEADING.findall(text, 0, match.start())[-1:] or [""]
        kind = record.kind.value if record is not None else area[0].lower()
        words = record.text if record is not None else block
        title = title_of(record.title if record is not None else "", words)
        items.append(Item(len(items) + 1, match[1], kind, title, words, estimate(block), _OF.get(area[0], ()), area[0]))
    holding = {each.id for shelf in (rules, learned) for each in memory.current(shelf)}
    against = _Against(past={*known} - holding)
    left, more = _not_in_brief(config, [*rules, *learned], {each.id for each in items}, against, {})
    budget = int(config.context.window * config.loop.context_budget)
    return Preview(budget, budget, tuple(items), left, text, tuple(_sections(text)), more)


def _sections(text: str) -> Iterable[str]:
    """What each section of a prompt costs."""
    parts = _HEADING.split(text)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        yield f"{heading}: {estimate(body):,} tokens"
