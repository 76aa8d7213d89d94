"""Handle the hook events that need all of Ralph.

These are the start of a session, a stop, a compaction, and any event after a config file has
changed. The event is first redacted and appended to the session's log in one write. Then a starting
session gets its brief (the memory shown to it at the start), and a stop or a compaction stores a
summary of the session, which is rebuilt from its records without a model. A failed write is counted
and does not suppress the answer.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ralph.capture import foreign_reading, recorder
from ralph.capture import summary as summaries
from ralph.capture.events import TOOL_EVENTS, Event, EventKind
from ralph.capture.host_payloads import event_of
from ralph.capture.pipeline import observe_in_full, session_of, with_loop_origin, with_taint
from ralph.core import config as settings
from ralph.core import ids, paths, render
from ralph.core.config import Loaded
from ralph.core.errors import DeadlineExceeded, RalphError, Unreadable, WriteFailed
from ralph.core.patterns import PrivacyPatterns
from ralph.core.record import NO_EXTRA, Record
from ralph.core.settings import Config, Presence, Privacy
from ralph.core.tokens import estimate
from ralph.formats.log import encode_line, encode_record
from ralph.hooks.answer import SILENT_HOSTS, add_message
from ralph.hooks.deadline import NO_DEADLINE, Deadline
from ralph.lean import discovery, hook_files
from ralph.privacy.hook_payloads import redact_payload
from ralph.recall import injection_ledger, references
from ralph.recall.brief import RECENT_SESSIONS, Brief
from ralph.recall.injection_ledger import Injection
from ralph.recall.session_log import newest_records
from ralph.search import index
from ralph.storage import db, files, queries, sessions
from ralph.storage.index import Index
from ralph.storage.pattern_limit import PatternLimit

_RUN = re.compile(r"run-[0-9a-f]{1,64}")
_RECORD_LINE = re.compile(r"^- \[([^\]\s]{1,200})\] ", re.MULTILINE)
"""How a record's line begins in a prompt; the group is the record's id."""
_MAX_ITERATION_DIGITS = 9
_SESSION_BOUNDARIES = (EventKind.SESSION_START, EventKind.SESSION_END, EventKind.STOP)


class _SessionRecords(NamedTuple):
    """A session's records and its stored summary."""

    records: Sequence[Record]
    summary: str


# --- events -------------------------------------------------------------------------------------


def handle_event(
    folder: str,
    host: str,
    event: str,
    payload: bytes,
    *,
    env: Mapping[str, str],
    deadline: Deadline = NO_DEADLINE,
    project: bool = True,
    is_recorded: bool = False,
) -> str:
    """Handle an event and return what to print.

    `is_recorded` says that the event is in the log already, and that `payload` has been redacted.
    `project` says whether `folder` is a project. If it is not, the event is handled only if
    `capture.everywhere` is on. Raises Unreadable if the payload is not a JSON object.
    """
    root = Path(folder)
    if recorder.paused_since(root) is not None:
        return ""
    state = recorder.config_state(root, env)
    loaded = _load_config(root, env)
    config = loaded.config
    if not project and not config.capture.everywhere:
        return ""
    with _count_failures(root, event):
        recorder.keep_last_good(root, loaded)
        if project:
            recorder.write_settings(root, loaded, env=env, state=state)
    happened = _read_event(root, host, event, payload, config)
    if happened is None:
        return ""
    iteration = _iteration(env)
    task = paths.current_task(root, env)
    loop = {"run": env.get("RALPH_RUN"), "iteration": iteration, "task": task or None}
    with _count_failures(root, event):
        if is_recorded:
            _record_branch(root, happened, config)
        else:
            record_event(root, happened, config, loop)
    if happened.kind is EventKind.SESSION_START:
        if not env.get("RALPH_RUN"):
            try:
                answer = _start_session(
                    root, happened, config, event, task=task, env=env, deadline=deadline
                )
            except Unreadable as error:
                answer = _report_unreadable(root, host, event, error, config)
            return _add_settings_problem(root, host, event, answer, loaded)
        if iteration is not None:
            with _count_failures(root, event):
                _mark_prompt_seen(root, happened.session, env["RALPH_RUN"], iteration)
    elif happened.kind in (EventKind.STOP, EventKind.PRE_COMPACT):
        _summarize_session(root, happened, config)
        if happened.kind is EventKind.STOP:
            with _count_failures(root, event):
                _propose_memories(root, happened.session, config)
            name = injection_ledger.seen_file(root, happened.session).name
            files.delete(paths.subagents_folder(root) / name)
            _check_recorded(root, event, config)
            with _count_failures(root, event):
                index.of(root, config.privacy).judge(index.JUDGING)
    return ""


def set_up_automatically(folder: str, env: Mapping[str, str]) -> str:
    """Set up a repository as a project if `init.auto` is on, and return why that failed, or "".

    Nothing in its work tree changes.
    """
    from ralph.install import automatic_setup

    if not _load_user_config(env).init.auto:
        return ""
    try:
        automatic_setup.set_up(Path(folder))
    except RalphError as error:
        return error.message
    except OSError as error:
        return str(error)
    return ""


def report_not_set_up(host: str, event: str, env: Mapping[str, str], problem: str) -> str:
    """Return the answer that tells a user that Ralph does nothing in this repository.

    It is empty if the user wants no such lines. `problem` is why `init.auto` failed, or "".
    """
    if _load_user_config(env).presence is Presence.OFF:
        return ""
    reason = f" (init.auto failed: {problem})" if problem else ""
    if host not in SILENT_HOSTS:
        return _context_json(event, "", discovery.NOT_SET_UP + reason)
    note = "Ralph is not set up here. Tell the user in one line that `ralph init` does that."
    return _context_json(event, render.notes([note + reason]))


def _load_user_config(env: Mapping[str, str]) -> Config:
    """Load the config without any project's files, which have no say outside projects."""
    return settings.load(None, env=env, last_good=lambda _: None).config


def _check_recorded(root: Path, event: str, config: Config) -> None:
    """Check a little of what was recorded under older secret rules."""
    from ralph.install import rules_check

    with _leave_out(root, event):
        if not rules_check.is_complete(root, config.privacy.patterns):
            from ralph.install import rules_update  # once for each version of the rules

            rules_update.run_step(root, config.privacy.patterns)


def _read_event(root: Path, host: str, name: str, payload: bytes, config: Config) -> Event | None:
    """Redact a payload and return its event.

    Returns None if Ralph has no use for the event or it has no session. Raises Unreadable if the
    payload is not a JSON object.
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unreadable(
            "the host's payload is not a JSON object", hint="`ralph doctor` counts these"
        )
    fields = redact_payload(value, config.privacy.patterns)
    event = event_of(host, name, fields, ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    if event is None or not event.session:
        return None
    if event.message and _was_forget_called(root, event.session):
        return event._replace(message="")  # the answer may quote what was forgotten
    return event


def _was_forget_called(root: Path, session: str) -> bool:
    """Check whether `ralph forget` was called in the session's current turn."""
    marks = (
        paths.state_folder(root)
        / hook_files.FORGETS
        / injection_ledger.seen_file(root, session).name
    )
    last_mark = hook_files.read_file(str(marks), len(hook_files.CALLED), end=True)
    return last_mark == hook_files.CALLED


def _iteration(env: Mapping[str, str]) -> int | None:
    """Return the number of the loop iteration that started the session, if one did."""
    number = env.get("RALPH_ITERATION", "")
    is_number = number.isascii() and number.isdecimal()
    if is_number and len(number) <= _MAX_ITERATION_DIGITS:
        return int(number)
    return None


def _mark_prompt_seen(root: Path, session: str, run: str, iteration: int) -> None:
    """Mark the records in the loop's own prompt as seen, so that they are not injected again."""
    if not _RUN.fullmatch(run):
        return
    prompt = files.read(paths.run_folder(root, run) / f"{iteration:04}.md") or ""
    injection_ledger.mark_seen(root, session, _RECORD_LINE.findall(prompt))


def remember_prompt(
    folder: str, host: str, event: str, text: str, *, session: str, patterns: Sequence[str]
) -> str:
    """Remember a text that a person typed, or archive the last one if the text is empty.

    Returns the answer to print, or "" if there was nothing to archive.
    """
    from ralph.learning import remember

    root = Path(folder)
    if text:
        message = remember.remember(root, text, host=host, session=session, patterns=patterns)
    else:
        message = remember.forget_last(root, session)
    if not message:
        return ""
    note = f"{message}. The user asked Ralph for this; there is nothing left to store."
    if host in SILENT_HOSTS:
        note += " Tell the user in one line."
    return _context_json(event, render.notes([note]), message)


def refresh_settings(folder: str, event: str, env: Mapping[str, str]) -> None:
    """Rewrite the settings cache."""
    root = Path(folder)
    state = recorder.config_state(
        root, env
    )  # before the files are read, so that no change is missed
    loaded = _load_config(root, env)
    with _count_failures(root, event):
        recorder.write_settings(root, loaded, env=env, state=state)
        recorder.keep_last_good(root, loaded)


def update_index(
    folder: str, event: str, patterns: Sequence[str], private_paths: Sequence[str]
) -> None:
    """Update the index as far as possible within `index.MOMENT`."""
    root = Path(folder)
    with _count_failures(root, event):
        _index_with(root, patterns, private_paths).sync(within=index.MOMENT)


def index_memories(
    folder: str, event: str, patterns: Sequence[str], private_paths: Sequence[str]
) -> None:
    """Add the memories that the index lacks. The logs are left for the next session start."""
    root = Path(folder)
    with _count_failures(root, event):
        _index_with(root, patterns, private_paths).sync(within=index.MOMENT, logs=False)


def _index_with(root: Path, patterns: Sequence[str], private_paths: Sequence[str]) -> Index:
    limited_patterns = PrivacyPatterns(tuple(patterns), PatternLimit(root))
    return index.of(root, Privacy(limited_patterns, tuple(private_paths)))


def _load_config(root: Path, env: Mapping[str, str]) -> Loaded:
    """Load the config. The last good text of a file replaces one that cannot be used."""

    def last_good(path: Path) -> str | None:
        return recorder.last_good_text(root, path)

    return settings.load(root, env=env, limit=PatternLimit, last_good=last_good)


def _add_settings_problem(root: Path, host: str, event: str, answer: str, loaded: Loaded) -> str:
    """Add the line about settings that cannot be used, once for each change of their files."""
    problem = recorder.take_settings_problem(root, loaded)
    if not problem:
        return answer
    return add_message(host, event, answer.encode("utf-8", "replace"), problem).decode()


@contextmanager
def _count_failures(root: Path, event: str) -> Iterator[None]:
    """Count a failed write instead of raising it, because reading still works on a full disk."""
    try:
        yield
    except (RalphError, OSError, hook_files.Unsure) as error:
        recorder.count_failure(root, event, f"{type(error).__name__}: {error}")


@contextmanager
def _leave_out(root: Path, event: str) -> Iterator[None]:
    """Count whatever goes wrong in a step that the answer does not need, and continue after it.

    If only the machine was slow, nothing is counted: a later hook makes up for it.
    """
    try:
        yield
    except DeadlineExceeded as error:
        if error.used_processor:
            recorder.count_failure(root, event, f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - the answer is complete
        recorder.count_failure(root, event, f"{type(error).__name__}: {error}")


def record_event(
    root: Path, event: Event, config: Config, loop: Mapping[str, object] = NO_EXTRA
) -> None:
    """Append an event's observation to the session's log in one write.

    `loop` holds the run, the iteration and the task. Raises RalphError or OSError.
    """
    privacy = config.privacy
    path = paths.session_log(root, event.session)
    lines = []
    observed, message = observe_in_full(event, patterns=privacy.patterns, paths=privacy.paths)
    taint = _find_taint(root, event)
    if taint and event.kind in TOOL_EVENTS:
        lines.append(encode_line("event", {"at": event.at, "event": "Taint", "taint": taint}))
    if observed is not None:
        observed = with_taint(observed, taint)
        lines.append(encode_record(with_loop_origin(observed, loop)))
    if message:
        lines.append(encode_line("session", {"id": event.session, **message}))
    if event.kind in _SESSION_BOUNDARIES or not path.exists():
        lines += _session_line(root, event, config)
    if lines:
        _append_text(root, path, "".join(lines))


def _record_branch(root: Path, event: Event, config: Config) -> None:
    """Append what the recorded payload does not say about the session: its branch."""
    if event.kind in _SESSION_BOUNDARIES:
        text = "".join(_session_line(root, event, config))
        _append_text(root, paths.session_log(root, event.session), text)


def _session_line(root: Path, event: Event, config: Config) -> list[str]:
    """Return the line about an event's session, if it has one."""
    branch = paths.current_branch(root)
    session = session_of(event, patterns=config.privacy.patterns, branch=branch)
    if session is None:
        return []
    return [encode_line("session", session)]


def _append_text(root: Path, path: Path, text: str) -> None:
    try:
        files.append(path, text, root=paths.state_boundary(root))
    except WriteFailed:  # another process holds the lock
        state = str(paths.state_folder(root))
        hook_files.spill(state, path.name, text.encode("utf-8", "replace"))


def _find_taint(root: Path, event: Event) -> str:
    """Return what foreign text an event is about: a tool call itself, or an agent's message."""
    if event.kind in TOOL_EVENTS:
        return foreign_reading.taint_of_event(root, event)
    if event.message:
        return foreign_reading.taint_of_session(root, event.session)
    return ""


# --- the start of a session ---------------------------------------------------------------------

# Seconds of the clock for steps that an answer does not need. On a quiet machine both end earlier.
_CACHE_SECONDS = 1.5
_AFTER_SECONDS = 2.5  # for everything after the brief
_LEARNING_SECONDS = 1.5
_EARLIER_SECONDS = 0.5
_JUDGING_SECONDS = 0.5
_RECORDING = "Ralph is recording; your next session will know"
_SECONDS_PER_HOUR = 3_600
_MIN_HOURS_IN_DAYS = 48  # ages from here on are shown in days


def _start_session(
    root: Path,
    event: Event,
    config: Config,
    name: str,
    *,
    task: str,
    env: Mapping[str, str],
    deadline: Deadline,
) -> str:
    """Return the answer with a starting session's brief, or "" if there is nothing to show.

    A resumed or forked session gets only what is new to it. On a busy machine, the brief is made
    from the index as it is, and the index is updated after it in the time that is left.
    """
    from ralph.install import installations, merge_registration
    from ralph.recall.eligibility import COMPACTED, TOOLS
    from ralph.recall.session_start import SessionState, brief_from_index, update_caches

    states = {
        "resume": SessionState.RESUMED,
        "fork": SessionState.RESUMED,
        "compact": SessionState.COMPACTED,
    }
    state = states.get(event.source, SessionState.NEW)
    if state is not SessionState.RESUMED:
        marks = [f"{COMPACTED}{event.at}"] if state is SessionState.COMPACTED else []
        with _count_failures(root, name):
            injection_ledger.forget_session(root, event.session)
            injection_ledger.mark_seen(root, event.session, marks)
    tool_prefix = installations.tool_prefix(event.host, root, env)
    if tool_prefix is not None:
        with _count_failures(root, name):  # prompt hooks cannot read the client's settings
            injection_ledger.mark_seen(root, event.session, [f"{TOOLS}{tool_prefix}"])
    is_busy = deadline.is_behind
    if not is_busy:
        with deadline.optional_step(_CACHE_SECONDS):
            update_caches(root, config)
    brief = brief_from_index(
        root,
        config,
        event.session,
        state=state,
        task=task,
        instructions=_instructions(tool_prefix, installations.tool_loader(event.host), env),
    )
    message = ""
    with _leave_out(root, name):
        deadline.shorten(_AFTER_SECONDS)
        if brief.text:
            with _count_failures(root, name):
                _note_brief(root, event, name, brief)
        if is_busy:
            with deadline.optional_step(_CACHE_SECONDS):
                update_caches(root, config)
        with _count_failures(root, name):
            merge_registration.register_missing(root, env)
        if state is SessionState.NEW:
            with deadline.optional_step(_LEARNING_SECONDS), _count_failures(root, name):
                _propose_missed(root, event.session, config)
            with deadline.optional_step(_JUDGING_SECONDS), _count_failures(root, name):
                index.of(root, config.privacy).judge(index.JUDGING)
        if config.presence is not Presence.OFF and event.host not in SILENT_HOSTS:
            message = _presence(root, brief, config)
            if state is SessionState.NEW and _is_first_session(root, event.session):
                message = _join_sentences(message, _RECORDING)
                with deadline.optional_step(_EARLIER_SECONDS):
                    message = _join_sentences(message, _earlier_sessions(root, env))
    if not brief.text and not message:
        return ""
    return _context_json(name, brief.text, message)


def _report_unreadable(root: Path, host: str, event: str, error: Unreadable, config: Config) -> str:
    """Return the answer that tells a user why a session starts without any memory."""
    recorder.count_failure(root, event, f"{type(error).__name__}: {error}")
    if config.presence is Presence.OFF:
        return ""
    what = error.message.replace(f"{root}/", "")
    message = f"this session starts without memory: {what} (`ralph doctor` shows more)"
    return add_message(host, event, b"", message).decode()


def _is_first_session(root: Path, session: str) -> bool:
    """Check whether this session's log is the only one, which also means that it is recorded."""
    logs = []
    with suppress(OSError):
        for name in os.listdir(paths.sessions_folder(root)):
            if name.endswith(paths.LOG_SUFFIXES):
                logs.append(name)
    return logs == [paths.session_log(root, session).name]


def _join_sentences(*sentences: str) -> str:
    return ". ".join(filter(None, sentences))


def _earlier_sessions(root: Path, env: Mapping[str, str]) -> str:
    from ralph.sharing.earlier_sessions import count_earlier_sessions  # once in a project

    return str(count_earlier_sessions(root, env))


def _note_brief(root: Path, event: Event, name: str, brief: Brief) -> None:
    """Note what a brief contains in the ledger and in the session's own list."""
    items = [Injection(record.id, record.tokens) for record in brief.records]
    injection_ledger.record_injections(
        root, event.session, name, items, event.at, skill=brief.instruction_tokens
    )
    injection_ledger.mark_seen(root, event.session, brief.noted)


def _instructions(tool_prefix: str | None, tool_loader: str, env: Mapping[str, str]) -> str:
    """Return one line that tells an agent how to use Ralph, by its tools or by its commands."""
    from ralph.core import launchers
    from ralph.recall import skill

    if tool_prefix is not None:
        return skill.instructions_for_tools(tool_prefix, tool_loader)
    return skill.instructions_for_commands(launchers.agent_program(sys.executable, env))


def _presence(root: Path, brief: Brief, config: Config) -> str:
    """Return the line for the user: what was injected, learned and held, and what went wrong."""
    from ralph.install import rules_check
    from ralph.learning import weekly

    parts = []
    if brief.records:
        parts.append(f"{_count_records(brief)}, {brief.tokens} tokens{_pull_age(root)}")
    if brief.recap_tokens:
        parts.append(f"a recap of this session, {brief.recap_tokens} tokens")
    if brief.text:
        parts.append(str(weekly.weekly_report(root)))
        parts.append(weekly.learn_reminder(root))
    parts.append(_waiting_report(root, config))
    parts.append(recorder.take_failure_report(root))
    parts.append(rules_check.take_report(root))
    text = "; ".join(part for part in parts if part)
    return f"Ralph: {text}" if text else ""


def _waiting_report(root: Path, config: Config) -> str:
    """Return how many entries wait for a person to accept them, or "" if there are none."""
    from ralph.memory import waiting_entries

    count = 0
    with suppress(RalphError, OSError, sqlite3.Error):
        current = index.of(root, config.privacy)
        if current.is_built():
            with closing(current.connect()) as connection:
                count = waiting_entries.count_waiting(root, connection)
    if not count:
        return ""
    if count == 1:
        return "1 entry waits for your review (`ralph review`)"
    return f"{count} entries wait for your review (`ralph review`)"


def _count_records(brief: Brief) -> str:
    session_count = sum(1 for piece in brief.records if piece.section == RECENT_SESSIONS)
    memory_count = len(brief.records) - session_count
    parts = []
    if memory_count:
        noun = "memory" if memory_count == 1 else "memories"
        parts.append(f"{memory_count} {noun}")
    if session_count:
        noun = "session" if session_count == 1 else "sessions"
        parts.append(f"{session_count} {noun}")
    return ", ".join(parts)


def _pull_age(root: Path) -> str:
    """Return how long ago the team's records were pulled, or "" before the first pull."""
    try:
        pulled_at = paths.team_pulled(root).stat().st_mtime
    except OSError:
        return ""
    hours = int((time.time() - pulled_at) / _SECONDS_PER_HOUR)
    if not hours:
        return "; team pulled within the hour"
    if hours < _MIN_HOURS_IN_DAYS:
        return f"; team pulled {hours} h ago"
    return f"; team pulled {hours // 24} d ago"


def _context_json(name: str, text: str, message: str = "") -> str:
    answer: dict[str, object] = {}
    if message:
        answer["systemMessage"] = message
    if text:
        answer["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": text}
    return json.dumps(answer)


# --- proposals ----------------------------------------------------------------------------------


def _propose_memories(root: Path, session: str, config: Config) -> None:
    """Propose memories from a session that has stopped."""
    from ralph.learning import session_proposals

    with _current_index(root, config) as connection:
        if connection is not None:
            session_proposals.extract_session(
                root, connection, session, patterns=config.privacy.patterns
            )


def _propose_missed(root: Path, starting: str, config: Config) -> None:
    """Propose memories from sessions that were killed before they could stop."""
    from ralph.learning import examined_sessions

    with _current_index(root, config) as connection:
        if connection is None or not examined_sessions.missed(root, connection, starting):
            return
        from ralph.learning import session_proposals  # most sessions are examined when they stop

        session_proposals.extract_missed(
            root, connection, running=starting, patterns=config.privacy.patterns
        )


@contextmanager
def _current_index(root: Path, config: Config) -> Iterator[sqlite3.Connection | None]:
    """Open the index, or yield None if it cannot be brought up to date in time."""
    current = index.of(root, config.privacy)
    if not current.sync(within=index.MOMENT).complete:
        yield None
        return
    with db.explained(current.path), closing(current.connect()) as connection:
        yield connection


# --- summaries ----------------------------------------------------------------------------------


def _summarize_session(root: Path, event: Event, config: Config) -> None:
    """Store a summary of the session so far, and note which injected records it used."""
    stored = _session_records(root, event, config)
    summary = summaries.summary(stored.records)
    text = summaries.text(summary, summaries.TOKENS, estimate)
    if text and text != stored.summary:
        session = {
            "id": event.session,
            "summary": text,
            "tags": list(summary.tags),
            "updated_at": event.at,
        }
        log = paths.session_log(root, event.session)
        files.append(log, encode_line("session", session), root=paths.state_boundary(root))
    used = references.find_referenced(root, event.session, stored.records)
    injection_ledger.record_uses(root, event.session, used, event.at)


def _session_records(root: Path, event: Event, config: Config) -> _SessionRecords:
    """Return a session's records and its stored summary.

    If the index is out of date, the records come from the end of the log, without a summary.
    """
    with _count_failures(root, event.kind), _current_index(root, config) as connection:
        if connection is not None:
            summary = sessions.stored_summary(connection, event.session)
            records = queries.session_records(connection, event.session)
            return _SessionRecords(records, summary)
    return _SessionRecords(newest_records(root, event.session, config.privacy), "")
