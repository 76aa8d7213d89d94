"""What an agent is handed: the brief at a session's start, and what a prompt would be answered with.

`at_start` joins what there is (guardrails, memories, the last sessions, the active run and tasks, and what
Ralph itself has to say) into one brief within the budgets. `for_prompt` is `ralph context`: the very answer that
the hook would give, with its reasons; it writes nothing.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ralph.app import guardrails, hook_settings, index, ledger, memory, pause
from ralph.context import brief, recall, shares, skill
from ralph.context.brief import Brief, Caps, Summary
from ralph.context.render import MOST_CHARACTERS
from ralph.errors import RalphError
from ralph.model import ids
from ralph.search import rank
from ralph.settings import Config, Inject

SKILL = "skill"
"""The name under which a session is noted to have been handed the skill."""

_SUMMARIES = 3
_SUMMARY_TOKENS = 1_000
_RECENT = """
SELECT id, summary, coalesce(updated_at, started_at, '') AS at FROM sessions
WHERE coalesce(summary, '') <> '' AND id <> ? ORDER BY at DESC, id DESC LIMIT ?
"""
_ACTIVE = """
SELECT 'loop: ' || goal || ' (iteration ' || iterations || ')' AS said FROM loop_runs WHERE status = 'running'
UNION ALL
SELECT 'task ' || id || ': ' || title FROM tasks WHERE status = 'in_progress' LIMIT 5
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a record would be told: its id, how well it fits, where, and at which layer."""

    id: str
    score: float
    why: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """What a prompt would be answered with, and why."""

    text: str
    layer: int
    reasons: tuple[Reason, ...]


def at_start(root: Path, config: Config, session: str, *, resumed: bool = False) -> Brief:
    """The brief of a session that starts; one that goes on is handed only what it has not seen."""
    seen = ledger.seen(root, session) if resumed else set()
    today = ids.now().date()
    handed = config.memories.inject is Inject.AUTO and config.memories.enabled
    choice = config.memories.filter
    rules = [stored.record for stored in guardrails.list_(root)] if handed else []
    learned = [stored.record for stored in memory.list_(root)] if handed else []
    learned = brief.accepted(learned, types=choice.types, tags=choice.tags, recent=choice.recent, today=today)
    recaps, active = _from_index(root, session) if config.memories.inject is Inject.AUTO else ((), ())
    room = shares.allowance(shares.Area.MEMORY, config.context.window, budget=config.memories.budget)
    with_skill = config.memories.skill_injection and config.memories.inject is not Inject.NONE
    return brief.session_brief(
        [record for record in rules if record.id not in seen],
        [record for record in learned if record.id not in seen],
        [each for each in recaps if each.id not in seen],
        active,
        notices(root),
        caps=Caps(memories=room.tokens, summaries=_SUMMARY_TOKENS, characters=MOST_CHARACTERS),
        uses=ledger.usefulness(root),
        skill=skill.text("memories") if with_skill and SKILL not in seen else "",
    )


def notices(root: Path) -> list[str]:
    """What Ralph itself has to say about its work here."""
    said = []
    failed = hook_settings.failures(root)
    if failed is not None:
        said.append(f"{failed.count} hook failures so far, the last at {failed.at}; `ralph doctor` tells more")
    if pause.since(root) is not None:
        said.append("recording is paused here; `ralph resume-capture` goes on with it")
    return said


def for_prompt(root: Path, config: Config, prompt: str, *, session: str = "") -> Context:
    """What a prompt would be answered with now."""
    today = ids.now().date()
    wanted = recall.Wanted(today.isoformat(), session, ledger.seen(root, session) if session else ())
    choice = config.memories.filter
    wanted.enabled = config.memories.enabled
    wanted.types, wanted.tags = tuple(kind.value for kind in choice.types), choice.tags
    wanted.since = (today - timedelta(days=choice.recent)).isoformat() if choice.recent else ""
    wanted.budget = recall.within_window(config.context.window, config.memories.budget)

    def question(connection: sqlite3.Connection) -> Context:
        told = recall.related(connection, prompt, wanted)
        costs = dict(told.records)
        reasons = (
            Reason(each.row.id, round(each.score, 4), tuple(rank.why(each, told.words, wanted.today)), costs[each.row.id])
            for each in told.judged
            if each.row.id in costs
        )
        return Context(told.text, told.layer, tuple(reasons))

    return index.ask(root, question)


def _from_index(root: Path, session: str) -> tuple[Sequence[Summary], Sequence[str]]:
    """The last sessions' summaries and what is going on, as far as the index knows; it is not waited for."""
    held = index.of(root)
    if not held.built():
        return (), ()
    try:
        connection = held.connect()
    except (RalphError, sqlite3.Error):
        return (), ()
    try:
        recaps = [Summary(row[0], row[1], row[2]) for row in connection.execute(_RECENT, (session, _SUMMARIES))]
        return recaps, [row[0] for row in connection.execute(_ACTIVE)]
    except sqlite3.Error:
        return (), ()
    finally:
        connection.close()
