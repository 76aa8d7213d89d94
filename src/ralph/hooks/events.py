"""Handle the events of hooks that need all of Ralph: a session's start, a stop, a compaction, a changed config.

The event goes to the session's log first, redacted, with one append. Then a session that starts gets its brief, and a
stop or a compaction stores a summary, made anew from the records without a model. What cannot be written is counted
and does not hold an answer back.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ralph.capture import summary as summaries
from ralph.capture.events import Event, Happening, event_of
from ralph.capture.pipeline import is_own_traffic, observe, of_loop, session_of
from ralph.core import config as settings
from ralph.core import ids, paths, render
from ralph.core.errors import RalphError, Unreadable, WriteFailed
from ralph.core.record import NO_EXTRA, Record
from ralph.core.settings import Config, Presence
from ralph.core.tokens import estimate
from ralph.formats.log import encode_line, encode_record
from ralph.install import hook_state
from ralph.privacy.privacy import redact_payload
from ralph.recall import usage
from ralph.recall.brief import RECENT_SESSIONS, Brief
from ralph.recall.usage import Injection
from ralph.search import filters, index
from ralph.storage import db, files, hook_files, queries, sessions
from ralph.storage.sources import Format, Source, contents

_RUN = re.compile(r"run-[0-9a-f]{1,64}")
_RECORD_LINE = re.compile(
    r"^- \[([^\]\s]{1,200})\] ", re.MULTILINE
)  # how a record begins in a prompt
_TAIL = (
    200_000  # characters at the end of a log that a stop summarises while the index is far behind
)


def handle_event(
    folder: str,
    host: str,
    event: str,
    payload: bytes,
    *,
    env: Mapping[str, str],
    project: bool = True,
) -> str:
    """Handle an event and return what to print; outside of a `project` only where capture is on everywhere."""
    root = Path(folder)
    if hook_state.paused_since(root) is not None:
        return ""
    loaded, answer = _load_config(root, event, env, cache=project)
    if loaded is None or not (project or loaded.capture.everywhere):
        return answer if project else ""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unreadable("the host's payload is no JSON object", hint="`ralph doctor` counts these")
    fields = redact_payload(value, loaded.privacy.patterns)
    happened = event_of(host, event, fields, ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    if happened is None or not happened.session:
        return ""
    session_file = usage.seen_file(root, happened.session).name
    calls = paths.state_folder(root) / hook_files.FORGETS / session_file
    if happened.message and hook_files.read_file(str(calls), 2, end=True) == hook_files.CALLED:
        happened = replace(
            happened, message=""
        )  # an answer after `ralph forget` may quote what went
    number = env.get("RALPH_ITERATION", "")
    task = filters.current_task(root, env)
    iteration = (
        int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None
    )
    loop = {"run": env.get("RALPH_RUN"), "iteration": iteration, "task": task or None}
    with _count_failures(root, event):
        record_event(root, happened, loaded, loop)
    if happened.happening is Happening.SESSION_START:
        if not env.get("RALPH_RUN"):
            return _start_session(root, happened, loaded, event, task=task, env=env)
        # The prompt of Ralph's own loop has what memory knows: a failing command must not bring it once more.
        if _RUN.fullmatch(env["RALPH_RUN"]) and iteration is not None:
            with _count_failures(root, event):
                prompt = (
                    files.read(paths.run_folder(root, env["RALPH_RUN"]) / f"{iteration:04}.md")
                    or ""
                )
                usage.mark_seen(root, happened.session, _RECORD_LINE.findall(prompt))
    elif happened.happening in (Happening.STOP, Happening.PRE_COMPACT):
        _summarize_session(root, happened, loaded)
        if happened.happening is Happening.STOP:
            files.delete(paths.cache_folder(root) / "subagents" / session_file)
    return ""


def refresh_settings(folder: str, event: str, env: Mapping[str, str]) -> None:
    """Write the settings cache anew; a config that cannot be read is counted as a failure."""
    _load_config(Path(folder), event, env, cache=True)


def update_index(folder: str, event: str) -> None:
    """Bring the index up to date, for a moment."""
    with _count_failures(Path(folder), event):
        index.of(Path(folder)).sync(within=index.MOMENT)


def _load_config(
    root: Path, event: str, env: Mapping[str, str], *, cache: bool
) -> tuple[Config | None, str]:
    """Return the config, else what to print: a session that starts gets the reason; write the settings cache."""
    state = hook_state.config_state(root, env)
    try:
        loaded = settings.load(root, env=env)
    except RalphError as error:
        if cache:
            hook_state.count_failure(root, event, f"{type(error).__name__}: {error}")
        why = str(error).partition("\n")[0]
        if render.looks_like_instructions(
            why.replace("'", "\n").replace('"', "\n")
        ):  # it quotes the file
            why = "a config file cannot be used (`ralph doctor` says why)"
        line = f"{why}; until that is mended nothing is recorded or recalled here"
        return None, _context_json(
            event, render.notes([line])
        ) if event == Happening.SESSION_START else ""
    if cache:
        with _count_failures(root, event):
            hook_state.write_settings(root, loaded, env=env, state=state)
    return loaded.config, ""


@contextmanager
def _count_failures(root: Path, event: str) -> Iterator[None]:
    """Count what cannot be written in here; the answer is given all the same: a full disk can be read."""
    try:
        yield
    except (RalphError, OSError, hook_files.Unsure) as error:
        hook_state.count_failure(root, event, f"{type(error).__name__}: {error}")


def record_event(
    root: Path, event: Event, config: Config, loop: Mapping[str, object] = NO_EXTRA
) -> None:
    """Append the observation of an event to the session's log, with one write; `loop` has its run and task."""
    privacy = config.privacy
    observed = observe(event, patterns=privacy.patterns, paths=privacy.paths)
    path = paths.session_log(root, event.session)
    lines = [] if observed is None else [encode_record(of_loop(observed, loop))]
    if (
        event.happening in (Happening.SESSION_START, Happening.SESSION_END, Happening.STOP)
        or not path.exists()
    ):
        session = session_of(event, patterns=privacy.patterns)
        lines += [] if session is None else [encode_line("session", session)]
    if lines:
        try:
            files.append(path, "".join(lines), root=paths.state_boundary(root))
        except WriteFailed:  # another process keeps the lock
            hook_files.spill(
                str(paths.state_folder(root)), path.name, "".join(lines).encode("utf-8", "replace")
            )


def _start_session(
    root: Path, event: Event, config: Config, name: str, *, task: str, env: Mapping[str, str]
) -> str:
    """Return the brief of a session that starts; a resumed or forked one gets only what is new."""
    from ralph.install import hosts, merge_registration
    from ralph.recall.context import SessionState, brief_session
    from ralph.recall.recall import COMPACTED

    if event.source not in ("resume", "fork"):
        with _count_failures(root, name):
            usage.forget_session(root, event.session)
            usage.mark_seen(
                root, event.session, [f"{COMPACTED}{event.at}"] if event.source == "compact" else []
            )
    with _count_failures(root, name):
        merge_registration.register_missing(root, env)
    states = {
        "resume": SessionState.RESUMED,
        "fork": SessionState.RESUMED,
        "compact": SessionState.COMPACTED,
    }
    state = states.get(event.source, SessionState.NEW)
    tools = hosts.has_server(event.host, root, env)
    program = "" if tools else hosts.agent_program(sys.executable, env)
    brief = brief_session(root, config, event.session, state=state, task=task, program=program)
    if not brief.text:
        return ""
    with _count_failures(root, name):
        items = [Injection(record.id, record.tokens) for record in brief.records]
        usage.record_injections(
            root, event.session, name, items, event.at, skill=brief.skill_tokens
        )
        usage.mark_seen(root, event.session, brief.noted)
    return _context_json(
        name, brief.text, _presence(root, brief) if config.presence is not Presence.OFF else ""
    )


def _presence(root: Path, brief: Brief) -> str:
    """Return the line about a brief that the user sees, with the age of the last pull; "" where it has no record."""
    sessions = sum(piece.section == RECENT_SESSIONS for piece in brief.records)
    counts = ((len(brief.records) - sessions, "memor", "y", "ies"), (sessions, "session", "", "s"))
    words = [
        f"{count} {word}{one if count == 1 else many}" for count, word, one, many in counts if count
    ]
    line = f"Ralph: {', '.join(words)}, {estimate(brief.text)} tokens"
    pulled = ""
    with suppress(OSError):  # no pull yet
        hours = int((time.time() - paths.team_pulled(root).stat().st_mtime) / 3600)
        age = f"{hours // 24} d" if hours >= 48 else f"{hours} h"
        pulled = f"; team pulled {age} ago" if hours else "; team pulled within the hour"
    return line + pulled if words else ""


def _context_json(name: str, text: str, message: str = "") -> str:
    shown = {"systemMessage": message} if message else {}
    return json.dumps(
        {**shown, "hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    )


def _summarize_session(root: Path, event: Event, config: Config) -> None:
    """Store a summary of the session so far, and which of the injected records it used."""
    records, stored = _session_records(root, event, config)
    summary = summaries.summary(records)
    if (text := summaries.text(summary, summaries.TOKENS, estimate)) and text != stored:
        session = {
            "id": event.session,
            "summary": text,
            "tags": list(summary.tags),
            "updated_at": event.at,
        }
        log = paths.session_log(root, event.session)
        files.append(log, encode_line("session", session), root=paths.state_boundary(root))
    usage.record_uses(root, event.session, usage.references(root, event.session, records), event.at)


def _session_records(root: Path, event: Event, config: Config) -> tuple[Sequence[Record], str]:
    """Return the records of a session and its stored summary; from its log's end when the index is not current."""
    current = index.of(root, config.privacy)
    with _count_failures(root, event.happening):
        if current.sync(within=index.MOMENT).complete:
            with db.explained(current.path), closing(current.connect()) as connection:
                summary = sessions.stored_summary(connection, event.session)
                return queries.session_records(connection, event.session), summary
    path = paths.session_log(root, event.session)
    text = files.read(path) or ""
    start = text.find("\n", len(text) - _TAIL) + 1 if len(text) > _TAIL else 0
    source = Source(path, path.name, Format.LOG)
    interpret = index.interpreter(root, config.privacy)
    parsed = contents(source, text[start : text.rfind("\n") + 1], interpret, is_own_traffic)
    return [placed.record for placed in parsed.records], ""
