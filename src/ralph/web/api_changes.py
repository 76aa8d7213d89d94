"""Changes over HTTP: shown first, then made, and taken back.

What the body says becomes a `Wanted`, checked for its types alone: what may be done is for the verbs to say. The list
of changes lives as long as the server. `tests/web/test_changes.py` asks over HTTP.
"""

from collections.abc import Mapping, Sequence

from starlette.routing import Route

from ralph.app.pages import change
from ralph.app.pages.change import Changes, Planned
from ralph.app.pages.change_verbs import Wanted
from ralph.errors import UsageError
from ralph.web.answers import Asked, route

_AGAIN = "reload the page and try again"


def changes(asked: Asked) -> Changes:
    """The changes of this server, kept from when the first one is made."""
    state = asked.request.app.state
    if not hasattr(state, "changes"):
        state.changes = Changes(asked.root)
    found: Changes = state.changes
    return found


def plan(asked: Asked) -> Mapping[str, object]:
    """What an action would do."""
    made = change.plan(asked.root, _wanted(asked), asked.config.privacy.patterns)
    return {
        "files": [{**_file(each), "before": each.before} for each in made.files],
        "summary": made.summary,
        "warnings": made.warnings,
    }


def apply(asked: Asked) -> Mapping[str, object]:
    """Do it."""
    stamps = asked.body.get("stamps", {})
    if not isinstance(stamps, Mapping) or not all(isinstance(each, str) for each in (*stamps, *stamps.values())):
        raise UsageError("stamps must name each file that was shown", hint=_AGAIN)
    done, made = changes(asked).apply(_wanted(asked), stamps, asked.config.privacy.patterns)
    return {"done": done.summary, "id": done.record, "undo": made.undo, "warnings": done.warnings}


def made(asked: Asked) -> Mapping[str, object]:
    """What was changed, the newest first."""
    items = [
        {"undo": each.undo, "at": each.at, "summary": each.summary, "undone": each.undone, "possible": possible}
        for each, possible in changes(asked).list_()
    ]
    return {"items": items, "total": len(items)}


def undo(asked: Asked) -> Mapping[str, object]:
    """Take a change back."""
    done = changes(asked).undo(asked.text("undo"))
    return {"done": done.summary, "files": [_file(each) for each in done.files]}


def _file(planned: Planned) -> dict[str, object]:
    return {"name": planned.name, "diff": planned.diff}


def _wanted(asked: Asked) -> Wanted:
    body = asked.body
    return Wanted(
        action=asked.text("action"),
        id=asked.text("id"),
        noun=asked.text("family", "memory"),
        text=asked.text("text") if "text" in body else None,
        title=asked.text("title") if "title" in body else None,
        tags=_tags(body["tags"]) if "tags" in body else None,
        kind=asked.text("kind"),
        to=asked.text("to"),
        page=asked.text("page"),
        force=_flag(asked, "force"),
        allow_secret=_flag(asked, "allow_secret"),
    )


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise UsageError("tags must be a list of words", hint=_AGAIN)
    return tuple(value)


def _flag(asked: Asked, name: str) -> bool:
    value = asked.body.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false", hint=_AGAIN)
    return value


routes: list[Route] = [
    route("/api/changes/plan", plan, method="POST"),
    route("/api/changes/apply", apply, method="POST"),
    route("/api/changes/undo", undo, method="POST"),
    route("/api/changes", made),
]
