"""Choose the earlier sessions that a new session should know about, and render each as one line.

A session is shown only if it belongs to work that is still in progress:

- it was held on the branch that is checked out now, unless that is a main branch;
- it edited a file that has changed since HEAD last moved, so the change is probably not committed
  (where nothing was ever committed, that holds for the only session so far);
- it left something open or was cut off, and no later session took that up.

A line names the goal, the outcome, and what is open:

    - [3f2a91c4] 2026-10-13 (cut off): Restart the worker on deploy. Open: ansible-playbook fails

Greetings and sessions that only ran slash commands say nothing and are skipped. Of several sessions
with the same goal, the newest is shown.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from ralph.capture import small_talk
from ralph.capture import summary as summaries
from ralph.capture.open_ends import SENTENCE_END
from ralph.capture.summary import GENERIC_NAMES
from ralph.core import ids, paths, render
from ralph.core.prompts import is_own_prompt
from ralph.core.record import Family, ObservationKind, is_confirmed
from ralph.core.terms import EVERYDAY_WORDS, STOP_WORDS, stem, unaccented
from ralph.core.tokens import estimate
from ralph.privacy import injection
from ralph.search import index
from ralph.storage import queries, sessions

_MAX_SESSIONS_READ = 12
_MAX_SHOWN = 3
_MAX_UNFINISHED_AGE = 6  # sessions; what was left open longer ago is probably dropped
_ALL_SESSIONS = -1
_MAX_OBSERVATIONS = 2_000  # in a session that is summarized now
_NEWEST_OF_SESSION = "session_id = ? ORDER BY seq DESC LIMIT 1"
_MAIN_BRANCHES = frozenset({"", "main", "master", "trunk", "develop", "development", "dev"})
_MIN_SHARED_WORDS = 2  # with fewer words in common, a later session is about something else
_MIN_WORD_LENGTH = 3
_WORD = re.compile(r"[^\W_]+")
_DETAIL = re.compile(r"[\d`/_]|\w\.\w")  # a number, or part of a path or a name
_CLAUSE_END = re.compile(r"(?<=[.!?:,)])\s+")
_PLAIN_OUTCOME_LENGTH = 60  # characters; a shorter outcome is telling only with digits or code
_CALL_PREFIXES = tuple(f"{kind.value}: " for kind in ObservationKind)  # no answer was recorded
_MAYBE_RUNNING = timedelta(minutes=30)
_FAILS = " fails"  # ends an open end that names a command
_MAX_SHORT_ID = 12  # characters; a longer id, such as a UUID, is shortened
_SHORT_ID = 8

# Limits for one line, in tokens.
_GOAL_TOKENS = 20
_RESULT_TOKENS = 38  # of the outcome and what is open
_OPEN_TOKENS = 32
_MIN_OUTCOME_TOKENS = 12


class SessionLine(NamedTuple):
    """A session as one line of a brief."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class _PastSession:
    """What a session was about, and how it ended."""

    id: str
    at: str
    branch: str
    goal: str
    outcome: str
    open_ends: tuple[str, ...]
    changed: tuple[str, ...]
    was_cut_off: bool

    @property
    def end(self) -> str:
        """How the session ended, or "" if its agent came to an end.

        A session that did something a moment ago may also run in another terminal.
        """
        if not self.was_cut_off:
            return ""
        last_activity = ids.parse_time(self.at)
        if last_activity and ids.now() - last_activity < _MAYBE_RUNNING:
            return "cut off or still running"
        return "cut off"

    @property
    def says_something(self) -> bool:
        """Whether the session had a goal and a result."""
        if not self.goal or self.goal.startswith("/") or small_talk.is_small_talk(self.goal):
            return False
        has_result = self.changed or self.open_ends or self.was_cut_off
        return bool(has_result) or _is_telling(self.outcome)

    @property
    def is_unfinished(self) -> bool:
        """Whether something was left to do."""
        return self.was_cut_off or bool(self.open_ends)

    def takes_up(self, earlier: _PastSession) -> bool:
        """Return whether this session went on with the work of an earlier one."""
        if not set(self.changed).isdisjoint(earlier.changed):
            return True
        goal_words = _subject_words(self.goal)
        if goal_words & _subject_words(*earlier.open_ends):
            return True
        words = goal_words | _subject_words(self.outcome, *self.open_ends)
        earlier_words = _subject_words(earlier.goal, *earlier.open_ends, *earlier.changed)
        return len(words & earlier_words) >= _MIN_SHARED_WORDS


def recent_work(
    root: Path, connection: sqlite3.Connection, session: str, task: str
) -> list[SessionLine]:
    """Return the sessions to show to a starting session, newest first.

    `session` is the starting session itself, and `task` limits what it may see.
    """
    past = list(_past_sessions(root, connection, session, task))
    return [SessionLine(one.id, _render(one, root)) for one in _choose(past, root)]


# --- reading ------------------------------------------------------------------------------------


def _past_sessions(
    root: Path, connection: sqlite3.Connection, session: str, task: str
) -> Iterator[_PastSession]:
    """Yield the last sessions that say something, newest first and without repetitions."""
    limit = _MAX_SESSIONS_READ
    if task:
        limit = _ALL_SESSIONS
    recent = sessions.recent_sessions(connection, session, limit)
    visible = (row for row in recent if queries.sees_session(connection, row.id, task))
    goals: set[str] = set()
    for row in islice(visible, _MAX_SESSIONS_READ):
        past = _read_session(root, connection, row)
        if past is not None and past.says_something and past.goal.casefold() not in goals:
            goals.add(past.goal.casefold())
            yield past


def _read_session(
    root: Path, connection: sqlite3.Connection, row: sessions.RecentSession
) -> _PastSession | None:
    """Return a session from its stored summary. One that was cut off is summarized now.

    So is one that has read something foreign, without what its agent said after that.
    """
    newest = list(
        queries.select_records(connection, Family.OBSERVATION, _NEWEST_OF_SESSION, (row.id,))
    )
    ends_with_answer = all(summaries.is_message(record) for _, record in newest)
    has_ended = ends_with_answer or index.ends_with_summary(root, row.id)
    if row.summary and has_ended and not queries.has_unconfirmed(connection, row.id):
        found = summaries.parse(row.summary)
    else:
        records = queries.session_records(connection, row.id, limit=_MAX_OBSERVATIONS)
        found = summaries.summary([record for record in records if is_confirmed(record)])
    if not newest and is_own_prompt(found.goal):
        return None  # it only called Ralph, and an earlier version wrote a summary
    open_ends = [point for point in found.open_ends if _may_show(point)]
    open_ends.sort(key=lambda point: point.endswith(_FAILS))  # what the agent said comes first
    return _PastSession(
        row.id,
        row.at,
        row.branch,
        found.goal,
        _outcome(found),
        tuple(open_ends),
        found.changed,
        was_cut_off=not has_ended and not row.ended_at,
    )


def _outcome(found: summaries.Summary) -> str:
    """Return the last answer that says something, because many sessions end with a farewell."""
    if not found.answers and found.state.startswith(_CALL_PREFIXES):
        if any(point.endswith(_FAILS) for point in found.open_ends):
            return ""  # what is open says the same
        return found.state.partition(": ")[2] if _may_show(found.state) else ""
    answers = [answer for answer in (found.state, *reversed(found.answers)) if answer]
    answers.sort(key=_is_telling, reverse=True)
    return next(filter(_may_show, answers), "")


def _is_telling(answer: str) -> bool:
    """Return whether an answer is long or names something, unlike a farewell."""
    return len(answer) >= _PLAIN_OUTCOME_LENGTH or _DETAIL.search(answer) is not None


def _may_show(text: str) -> bool:
    return not injection.looks_like_instructions(text)


def _subject_words(*texts: str) -> set[str]:
    """Return the stems of the words that name the subject of some texts."""
    found = set()
    for word in _WORD.findall(unaccented(" ".join(texts).lower())):
        is_common = word in STOP_WORDS or word in EVERYDAY_WORDS or word in GENERIC_NAMES
        if len(word) >= _MIN_WORD_LENGTH and not is_common:
            found.add(stem(word))
    return found


# --- choosing -----------------------------------------------------------------------------------


def _choose(past: Sequence[_PastSession], root: Path) -> list[_PastSession]:
    """Return the sessions that belong to work in progress, newest first."""
    branch = paths.current_branch(root)
    changed_since = _last_head_move(root)
    chosen = []
    for number, one in enumerate(past):
        is_on_branch = one.branch == branch and branch not in _MAIN_BRANCHES
        is_open = (
            one.is_unfinished
            and number < _MAX_UNFINISHED_AGE
            and not any(later.takes_up(one) for later in past[:number])
        )
        is_uncommitted = _has_changed_file(root, one.changed, changed_since)
        if changed_since is None and len(past) == 1:
            is_uncommitted = bool(one.changed)
        if is_on_branch or is_open or is_uncommitted:
            chosen.append(one)
    return chosen[:_MAX_SHOWN]


def _last_head_move(root: Path) -> int | None:
    """Return when git last committed, switched branches or reset, or None if that is unknown.

    The time is that of git's own log of HEAD, in nanoseconds.
    """
    log = paths.head_log(root)
    if log is None:
        return None
    try:
        return log.stat().st_mtime_ns
    except OSError:
        return None


def _has_changed_file(root: Path, changed: Sequence[str], since: int | None) -> bool:
    """Return whether one of the files has changed since HEAD last moved."""
    if since is None:
        return False
    for name in changed:
        if PurePath(name).is_absolute():
            continue  # outside the project
        try:
            if (root / name).stat().st_mtime_ns > since:
                return True
        except (OSError, ValueError):
            continue
    return False


# --- rendering ----------------------------------------------------------------------------------


def _render(past: _PastSession, root: Path) -> str:
    """Render a session as one line: its goal, its outcome, and what is open."""
    notes = []
    if past.end:
        notes.append(past.end)
    is_elsewhere = past.branch not in (*_MAIN_BRANCHES, paths.current_branch(root))
    if is_elsewhere and _may_show(past.branch):
        notes.append(f"branch {past.branch}")
    head = f"- [{_short_id(past.id)}] {past.at[:10]}"
    if notes:
        head += f" ({', '.join(notes)})"
    parts = [_end_sentence(render.cut(_without_greeting(past.goal), _GOAL_TOKENS, "…"))]
    points = "; ".join(point.rstrip(".") for point in past.open_ends)
    open_part = _shorten(f"Open: {points}", _OPEN_TOKENS) if points else ""
    outcome = _news_in(past.outcome, past.open_ends)
    outcome_tokens = _RESULT_TOKENS - estimate(open_part)
    if outcome and outcome_tokens >= _MIN_OUTCOME_TOKENS:
        label = "Last" if past.was_cut_off else "Outcome"
        parts.append(_shorten(f"{label}: {outcome}", outcome_tokens))
    if open_part:
        parts.append(open_part)
    return render.one_line(f"{head}: {' '.join(parts)}")


def _news_in(outcome: str, open_ends: Sequence[str]) -> str:
    """Return the sentences of an outcome that say more than the open ends, or "" for little."""
    if not open_ends:
        return outcome
    kept = []
    for sentence in SENTENCE_END.split(outcome):
        is_known = any(point in sentence or sentence in point for point in open_ends)
        if not is_known and not small_talk.is_small_talk(sentence):
            kept.append(sentence)
    news = " ".join(kept)
    return news if _is_telling(news) else ""


def _short_id(session: str) -> str:
    if len(session) <= _MAX_SHORT_ID:
        return session
    return session[:_SHORT_ID]


def _without_greeting(goal: str) -> str:
    """Remove clauses of small talk from the beginning of a goal."""
    clauses = _CLAUSE_END.split(goal)
    while len(clauses) > 1 and small_talk.is_small_talk(clauses[0]):
        del clauses[0]
    return " ".join(clauses)


def _shorten(text: str, tokens: int) -> str:
    """Shorten a text, preferring sentences with digits or code, and end it like a sentence."""
    line = " ".join(text.split())
    return _end_sentence(render.cut(render.shorten(line, tokens, estimate), tokens, "…"))


def _end_sentence(text: str) -> str:
    if text[-1:] in ".!?…":
        return text
    return f"{text}."
