"""The tools `task_list`, `task_show`, `session_list`, `session_show` and `status`.

Each is its command's verb. Lists hold what one chooses by; the one that was asked for is shown whole.
`tests/mcp_server/test_working.py` proves it.
"""

from ralph.app import session as sessions
from ralph.app import status as statuses
from ralph.app import task as tasks_
from ralph.app import task_file
from ralph.app.asking import when
from ralph.app.session import Session
from ralph.app.task import Listed
from ralph.context import render
from ralph.mcp.call import Call, Told, done, one_line, remembered
from ralph.mcp.finding import hit, text_of
from ralph.mcp.memories import more
from ralph.mcp.tool import Arguments
from ralph.model.query import Detail
from ralph.model.work import TaskStatus

SESSIONS, HAPPENED, TASKS = 20, 20, 30
"""How many sessions, observations of one, and tasks are given unless more are asked for."""
_PROMPT = 160


def tasks(call: Call, given: Arguments) -> Told:
    """Tasks in the order in which they should be done."""
    state = TaskStatus(given.text("status")) if given.text("status") else None
    found, unread = tasks_.list_(
        call.root, status=state, feature_id=given.text("feature"), only_ready=given.flag("ready")
    )
    shown = found[: given.number("limit", TASKS)]
    rows = [_task(each) for each in shown]
    lines = "\n".join(map(_task_line, shown))
    notes = [f"{each.path.name} in {each.path.parent.name} is not read: {each.what}" for each in unread]
    notes.append(more(len(found) - len(shown)))
    return remembered(lines, {"tasks": rows, "total": len(found)}, notes, "No tasks.")


def task(call: Call, given: Arguments) -> Told:
    """One task, whole."""
    shown = tasks_.show(call.root, given.text("id").strip())
    found = shown.listed.task
    stories = [{"id": each.id, "title": one_line(each.title), "passes": each.passes} for each in shown.stories]
    more_of_it = {
        "parent": found.parent, "feature": found.feature, "branch": found.branch, "worktree": found.worktree,
        "attempts": found.attempts, "parts": [each.id for each in shown.children], "stories": stories,
        "last_failure": render.clean(tasks_.retry_note(found)),
    }  # fmt: skip
    shape = {
        **_task(shown.listed),
        "description": render.clean(found.description),
        **{name: value for name, value in more_of_it.items() if value},
    }
    lines = [_task_line(shown.listed), *([found.description] if found.description else [])]
    lines += [f"{name}: {value}" for name, value in more_of_it.items() if value and isinstance(value, str | int)]
    lines += [f"[{'x' if each.passes else ' '}] {each.id} {one_line(each.title)}" for each in shown.stories]
    return remembered("\n".join(lines), shape)


def session_list(call: Call, given: Arguments) -> Told:
    """The recorded sessions, newest first."""
    name = given.text("task").strip()
    found, total = sessions.list_(
        call.root, limit=given.number("limit", SESSIONS), since=when(given.text("since")), task=name,
        within=call.task,
    )  # fmt: skip
    if name and not total:
        task_file.find(call.root, name)  # NotFound, where the task is not there either
    lines = "\n".join(_session_line(each) for each in found)
    shape = {"sessions": [_session(each) for each in found], "total": total}
    return remembered(lines, shape, [more(total - len(found))], "No sessions.")


def session_show(call: Call, given: Arguments) -> Told:
    """What happened in a session, in its order."""
    layer = Detail(given.number("layer", 1))
    found, answer = sessions.show(
        call.root, given.text("id").strip(), layer=layer, limit=given.number("limit", HAPPENED), within=call.task
    )
    texts = [text_of(each, layer) for each in answer.shown]
    hits = [hit(each, text) for each, text in zip(answer.shown, texts, strict=True)]
    left = answer.found.total - sum(each.count for each in answer.shown)
    summary = _harmless(found.summary)
    shape = {**_session(found), "summary": summary, "hits": hits, "total": answer.found.total}
    between = "\n\n" if layer is Detail.FULL else "\n"
    content = "\n\n".join(filter(None, (_session_line(found), summary, between.join(texts))))
    return remembered(content, shape, [f"{left} earlier; a higher limit shows them" if left > 0 else ""])


def status(call: Call, given: Arguments) -> Told:
    """The project in numbers."""
    found = statuses.show(call.root, call.env)
    counts = found.size.counts
    shape: dict[str, object] = {
        "project": str(found.root),
        "memories": found.memories,
        "guardrails": found.guardrails,
        "observations": counts.get("observations", 0),
        "sessions": counts.get("sessions", 0),
        "last_session": found.last.id if found.last is not None else "",
        "last_session_at": found.last.at if found.last is not None else "",
        "index_behind": found.size.behind,
        "hooks": [f"{each.host} ({each.scope})" for each in found.installed],
        "hook_failures": found.hooks.failures,
        "capture": "off" if found.outside is not None else "on" if found.paused is None else "paused",
    }
    shown = {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in shape.items()}
    return done("\n".join(f"{name.replace('_', ' ')}: {one_line(str(value))}" for name, value in shown.items()), shape)


# --- shapes --------------------------------------------------------------------------------------


def _task(listed: Listed) -> dict[str, object]:
    found = listed.task
    return {
        "id": found.id, "title": one_line(found.title), "status": found.status, "priority": found.priority,
        "ready": listed.is_ready, "waits_for": list(listed.waits_for),
    }  # fmt: skip


def _task_line(listed: Listed) -> str:
    found = listed.task
    rank = f" priority {found.priority}" if found.priority else ""
    waits = f" (waits for {', '.join(listed.waits_for)})" if listed.waits_for else " (ready)" * listed.is_ready
    return one_line(f"{found.id} {found.status}{rank}: {found.title}{waits}")


def _session(session: Session) -> dict[str, object]:
    return {
        "id": session.id, "started_at": session.started_at, "ended_at": session.ended_at, "host": session.host,
        "task": session.task, "observations": session.observations, "prompt": one_line(session.prompt, _PROMPT),
    }  # fmt: skip


def _session_line(session: Session) -> str:
    start = session.started_at[:16].replace("T", " ")
    about = ", ".join(filter(None, (start, session.host, session.task, f"{session.observations} observations")))
    return one_line(f"{session.id} ({about}) {one_line(session.prompt, _PROMPT)}")


def _harmless(summary: str) -> str:
    """A summary without lines that came from a tool and give orders; what a person asked for stays."""
    kept = [
        line for line in summary.split("\n") if line.startswith("Goal: ") or not render.looks_like_instructions(line)
    ]
    return render.clean("\n".join(kept))
