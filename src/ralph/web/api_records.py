"""What is remembered, over HTTP: the state of the project, lists with facets, one record, its history, tags, insights.

Each handler asks one verb and shapes what it gives; `explorer` is the one thing that outlives a request, since facets
are counted from what it keeps. `tests/web/test_records.py` asks over HTTP.
"""

import time
from collections.abc import Mapping, Sequence

from starlette.routing import Route

from ralph import __version__
from ralph.app import hook_state, insight
from ralph.app.pages import detail, history
from ralph.app.pages.catalogue import FACETS
from ralph.app.pages.detail import Detail, Layer
from ralph.app.pages.explore import Explorer, Row, Wanted
from ralph.capture.insights import COUNT, evidence
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Outcome
from ralph.web.answers import Asked, paged, route
from ralph.web.markdown import html

PREVIEW = 280
"""Characters of a record's text in a list."""
_TAGS = 40


def explorer(asked: Asked) -> Explorer:
    """The explorer of this server, made when it is first needed."""
    state = asked.request.app.state
    if not hasattr(state, "explorer"):
        state.explorer = Explorer(asked.root)
    found: Explorer = state.explorer
    return found


def state(asked: Asked) -> Mapping[str, object]:
    """What every page needs to know."""
    record_count, task_count = explorer(asked).sizes()
    context, memories = asked.config.context, asked.config.memories
    return {
        "project": asked.root.name,
        "root_name": asked.root.name,
        "version": __version__,
        "task_count": task_count,
        "record_count": record_count,
        "paused": hook_state.paused_since(asked.root) is not None,
        "config": {"budget": memories.budget, "window": context.window, "strategy": context.strategy.value},
        "kinds": [kind.value for kinds in (MemoryKind, ObservationKind, Outcome) for kind in kinds],
        "families": [family.value for family in Family],
    }


def records(asked: Asked) -> Mapping[str, object]:
    """A page of records with the counts of the facets."""
    began = time.perf_counter()
    wanted = Wanted(
        text=asked.word("q"),
        chosen={facet: asked.words(facet) for facet in FACETS if asked.words(facet)},
        task=asked.word("task"),
        sort=asked.word("sort"),
        limit=asked.limit,
        offset=asked.offset,
    )
    page = explorer(asked).page(wanted, embedding=asked.config.embedding)
    return {
        "items": [row_shape(row) for row in page.rows],
        "total": page.total,
        "facets": page.facets,
        "took_ms": round((time.perf_counter() - began) * 1000, 1),
        "notes": page.notes,
    }


def row_shape(row: Row, *, whole: bool = False) -> dict[str, object]:
    """A record in a list."""
    record = row.record
    return {
        "id": record.id,
        "family": record.family.value,
        "kind": record.kind.value,
        "label": record.label or record.kind.value,
        "title": record.title,
        "text": record.text if whole else " ".join(record.text[: PREVIEW * 4].split())[:PREVIEW],
        "tags": record.tags,
        "scope": record.scope.value,
        "source": row.source,
        "status": record.status.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "task": row.task,
        "session": record.origin.session,
        "tokens": row.tokens,
        "score": row.score,
        "why": row.why,
        "count": row.count,
        "stale": row.stale,
        "superseded_by": row.superseded_by,
        "expired": row.expired,
    }


def one(asked: Asked) -> Mapping[str, object]:
    """One record with all that is known of it."""
    return detail_shape(detail.show(asked.root, asked.path["id"]))


def detail_shape(found: Detail) -> dict[str, object]:
    """A record's page."""
    row, record = found.row, found.row.record
    return {
        "record": {
            **row_shape(row, whole=True),
            "html": html(record.text),
            "origin": _origin(record.origin),
            "links": [{"relation": relation, "target": to, "title": title} for relation, to, title in found.links],
            "extra": {key: _plain(value) for key, value in record.extra.items()},
            "valid_until": record.valid_until,
        },
        "layers": {"line": _layer(found.line), "moment": _layer(found.moment), "full": _layer(found.full)},
        "file": {"name": row.source, "line": row.line},
        "standing": {"superseded_by": found.successor and found.successor._asdict()},
        "citations": [
            {
                "what": str(each.citation.what),
                "kind": each.citation.kind.value,
                "state": each.verdict.value,
                "where": each.place,
                "detail": each.why,
            }
            for each in found.citations
        ],
        "injections": [
            {
                "session": each.injection.session,
                "at": each.injection.at,
                "event": each.injection.event,
                "tokens": each.injection.tokens,
                "used": each.used,
            }
            for each in found.injections
        ],
        "used": {"injected": found.injected, "used": found.used},
        "neighbours": [
            {
                "relation": each.relation.value,
                "direction": "out" if each.outward else "in",
                "node": {"id": each.node.id, "kind": each.node.type.value, "title": each.node.name},
            }
            for each in found.neighbours
        ],
        "actions": [each.value for each in found.actions],
    }


def _layer(layer: Layer) -> dict[str, object]:
    return {"text": layer.text, "tokens": layer.tokens}


def _origin(origin: Origin) -> dict[str, object]:
    said = {name: getattr(origin, name) for name in Origin.__dataclass_fields__}
    return {name: value for name, value in said.items() if value or value == 0}


def _plain(value: object) -> object:
    """Somebody's own member as JSON holds it: a value that it does not know as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    finite = isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf"))
    return value if value is None or isinstance(value, str) or finite else str(value)


def past(asked: Asked) -> Mapping[str, object]:
    """How a record's lines came to be, as git knows it."""
    found = history.history(asked.root, asked.path["id"])
    items = [
        {"commit": each.commit, "at": each.at, "author": each.author, "subject": each.subject, "diff": each.diff}
        for each in found.commits
    ]
    return {"items": items, "note": found.note}


def tags(asked: Asked) -> Mapping[str, object]:
    """Tags for completion."""
    return {"items": explorer(asked).tags(asked.word("q"), _TAGS)}


def insights(asked: Asked) -> Mapping[str, object]:
    """What tasks have taught, and how it was judged."""
    status, task = asked.word("status"), asked.word("task")
    wanted = insight.status_named(status) if status else None
    found = insight.list_(asked.root, task_id=task, status=wanted)
    found.sort(key=lambda each: (each.record.updated_at or each.record.created_at, each.record.id), reverse=True)
    return paged(found, asked, _insight)


def _insight(each: insight.Insight) -> dict[str, object]:
    record = each.record
    return {
        "id": record.id,
        "kind": record.kind.value,
        "label": record.label,
        "text": record.text,
        "title": record.title or detail.titled(record),
        "status": insight.status_word(record),
        "task": each.task,
        "seen": record.extra.get(COUNT, 1),
        "evidence": list(evidence(record)),
        "due": insight.is_due(record),
        "promoted": list(insight.promotions(record)),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "tags": record.tags,
    }


routes: list[Route] = [
    route("/api/state", state),
    route("/api/records", records),
    route("/api/records/{id:path}/history", past),
    route("/api/records/{id:path}", one),
    route("/api/tags", tags),
    route("/api/insights", insights),
]
