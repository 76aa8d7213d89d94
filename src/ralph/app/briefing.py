"""What an agent is handed: the brief at a session's start, and what a prompt would be answered with.

`at_start` joins what there is (guardrails, memories, the last sessions, the active run and tasks, and what
Ralph itself has to say) into one brief within the budgets. A session that did not come to its end (killed, or
interrupted after its last Stop) has no summary, or one that is not true any more: it is made now, of a few of them.
One that stands behind all that happened is true, whoever wrote it (a command, a compression).
Lines of a summary that came from a tool and give orders are left out. `for_prompt` is `ralph context`: the very
answer that the hook would give, with its reasons. Nothing is written here but the index. Within a task nothing is
told of others that are not finished, and of what is going on only the task itself. A session's start also verifies
what records cite, so that this and the answers to its prompts can tell what is gone (`check.refresh`).
`tests/app/test_briefing.py` and `tests/app/test_visibility.py` prove it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice
from pathlib import Path

from ralph import paths
from ralph.app import citation_cache, hook_state, index, logs, memory, usage
from ralph.capture import summary as summaries
from ralph.context import brief, budget, recall, render
from ralph.context.brief import Brief, BriefCaps, SessionRecap
from ralph.context.tokens import estimate
from ralph.errors import RalphError
from ralph.model import ids
from ralph.model.record import Family
from ralph.search import rank
from ralph.search.rank import RankedRow
from ralph.settings import Config, Inject, Trimming
from ralph.store import rows, sessions
from ralph.store.sources import sources

SKILL = "skill"
"""The name under which a session is noted to have been handed the skill."""

VERIFIED, VERIFYING = 200, 0.2
"""So many of the newest records are verified at a session's start when something changed, in so many seconds of git."""

_SUMMARIES, SUMMARY_TOKENS = 3, 1_000
"""So many sessions are told of at a start, and the tokens of all of them."""
_MOST_OBSERVATIONS = 2_000
_ASKED = "Goal: "
"""How the line of a summary begins that a person has said."""
_LOOKED_AT = 12
"""So many of the newest sessions are looked at for summaries: some did nothing."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a record would be told: its id, how well it fits (0: it was found by a file's name), where, its tokens."""

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


def at_start(root: Path, config: Config, session: str, *, resumed: bool = False, task: str = "") -> Brief:
    """The brief of a session that starts (in a task); one that goes on is handed only what it has not seen."""
    _catch_up(root, config)
    seen = usage.seen_records(root, session) if resumed else set()
    today = ids.now().date()
    handed = config.memories.inject is Inject.AUTO and config.memories.enabled
    choice = config.memories.filter
    if handed:
        _verify(root)
    rules = memory.current([stored.record for stored in memory.list_(root, in_=("guardrails",))]) if handed else []
    learned = memory.current([stored.record for stored in memory.list_(root)]) if handed else []
    learned = brief.filter_memories(learned, types=choice.types, tags=choice.tags, recent=choice.recent, today=today)
    recaps, active = _from_index(root, session, task) if config.memories.inject is Inject.AUTO else ((), ())
    window, part = config.context.window, config.context.shares.memory
    share = recall.within_window(window, 0, part)
    room = recall.within_window(window, config.memories.budget, part)
    with_skill = _with_skill(config) and SKILL not in seen
    active = [line for line in active if _mark(line) not in seen]
    said = [line for line in notices(root) if _mark(line) not in seen]
    stale = citation_cache.citation_notes(root, [*rules, *learned])
    made = brief.session_brief(
        citation_cache.add_citation_notes(root, [record for record in rules if record.id not in seen], stale),
        citation_cache.add_citation_notes(root, [record for record in learned if record.id not in seen], stale),
        [each for each in recaps if each.id not in seen],
        active,
        said,
        caps=BriefCaps(share, room, min(SUMMARY_TOKENS, share), render.MOST_CHARACTERS),
        uses=usage.usefulness(root),
        stale=stale,
        skill=brief.skill_text("memories") if with_skill else "",
        strategy=wanted_strategy(config),
    )
    return replace(made, noted=(*map(_mark, (*active, *said)), *([SKILL] if made.has_skill else [])))


def wanted_strategy(config: Config) -> budget.Strategy | None:
    """The strategy that the settings name; None when the situation decides."""
    said = config.context.strategy
    return None if said is Trimming.AUTO else budget.Strategy(said.value)


def _mark(line: str) -> str:
    """The name of a line that is no record, for the list of what a session has seen."""
    return ids.derived("line", line)


def _with_skill(config: Config) -> bool:
    """Whether an agent is told how to use memories: not where there are to be none."""
    memories = config.memories
    return memories.enabled and memories.skill_injection and memories.inject is not Inject.NONE


def _catch_up(root: Path, config: Config) -> None:
    """Bring the index up to date as far as a moment allows; the files alone will do where it cannot be written."""
    if paths.index_file(root).parent.exists() or any(True for _ in sources(root)):
        with suppress(RalphError, OSError, sqlite3.Error):
            index.catch_up(root, index.MOMENT, config.privacy)


def _verify(root: Path) -> None:
    """Look whether what records cite is still there, as far as a moment allows; nobody needs it to begin."""
    with suppress(RalphError, OSError):
        if citation_cache.is_due(root):
            from ralph.app import citations  # noqa: PLC0415 - mostly nothing has changed, and it takes its time to load

            citations.refresh_results(root, most=VERIFIED, patience=VERIFYING)


def notices(root: Path) -> list[str]:
    """What Ralph itself has to say about its work here."""
    said = []
    failed = hook_state.read_failures(root)
    if failed is not None:
        said.append(f"{failed.count} hook failures so far, the last at {failed.at}; `ralph doctor` tells more")
    return said


def for_prompt(root: Path, config: Config, prompt: str, *, session: str = "", task: str = "") -> Context:
    """What a prompt (within a task) is answered with when somebody asks for it; nothing, where that is switched off."""
    asked = recall.human_question(prompt)
    if not asked or config.memories.inject is Inject.NONE:
        return Context("", 0, ())
    today = ids.now().date()
    wanted = recall.RecallOptions(today.isoformat(), session, usage.seen_records(root, session) if session else ())
    choice = config.memories.filter
    wanted.enabled = config.memories.enabled
    wanted.types, wanted.tags = tuple(kind.value for kind in choice.types), choice.tags
    wanted.since = since(today, choice.recent)
    wanted.task = rows.safe(task)
    wanted.budget = recall.within_window(config.context.window, config.memories.budget, config.context.shares.memory)
    wanted.stale = citation_cache.load_citations(root)

    def question(connection: sqlite3.Connection) -> Context:
        told = recall.recall_for_prompt(connection, asked, wanted)
        costs = dict(told.records)
        reasons = (
            Reason(
                each.row.id,
                round(each.score, 4),
                (
                    *_named_files(each),
                    *rank.explain(each, told.words, wanted.today),
                    *filter(None, [recall.citation_note(each.row, wanted.stale)]),
                ),
                costs[each.row.id],
            )
            for each in told.judged
            if each.row.id in costs
        )
        return Context(told.text, told.layer, tuple(reasons))

    return index.ask(root, question)


def _named_files(each: RankedRow) -> list[str]:
    """The files of a prompt by which a record was found: such a record has no score, for no words were compared."""
    row = each.row
    held = f"{row.files} {row.title} {row.text}".lower()
    return [f"names the file {name}" for name in each.matched if name.lower() in held] if not each.score else []


def since(today: date, recent: int) -> str:
    """The first of the last so many days; "" for all of them (0)."""
    days = min(recent, today.toordinal() - 1)
    return (today - timedelta(days=days)).isoformat() if recent else ""


def _from_index(root: Path, session: str, task: str) -> tuple[Sequence[SessionRecap], Sequence[str]]:
    """The last sessions' summaries and what is going on, as far as the index knows; it is not waited for."""
    try:
        held = index.of(root)
        if not held.built():
            return (), ()
        connection = held.connect()
    except (RalphError, sqlite3.Error):
        return (), ()
    try:
        return _recaps(root, connection, session, task), sessions.active_work(connection, task)
    except (RalphError, sqlite3.Error):
        return (), ()
    finally:
        connection.close()


def _recaps(root: Path, connection: sqlite3.Connection, session: str, task: str) -> list[SessionRecap]:
    """What the last sessions were about, the newest first; one that was cut off is summed up now."""
    found: list[SessionRecap] = []
    recent = sessions.recent_sessions(connection, session, -1 if task else _LOOKED_AT)
    seen = (row for row in recent if rows.sees_session(connection, row[0], task))
    for name, stored, at in islice(seen, _LOOKED_AT):
        told = stored and (_came_to_its_end(connection, name) or logs.summary_is_last(logs.log_file(root, name)))
        text = stored if told else _summed_up(connection, name) or stored
        kept = [
            line for line in text.split("\n") if line.startswith(_ASKED) or not render.looks_like_instructions(line)
        ]
        if kept and text:
            found.append(SessionRecap(name, "\n".join(kept), at))
        if len(found) == _SUMMARIES:
            break
    return found


def _came_to_its_end(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the last thing that is known of a session is what the agent said at its end."""
    last = "session_id = ? ORDER BY seq DESC LIMIT 1"
    return all(summaries.is_message(each) for _, each in rows.stored(connection, Family.OBSERVATION, last, (name,)))


def _summed_up(connection: sqlite3.Connection, name: str) -> str:
    found = rows.of_session(connection, name, most=_MOST_OBSERVATIONS)
    return summaries.text(summaries.summary(found), summaries.TOKENS, estimate)
