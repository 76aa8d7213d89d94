"""The JSON shape of a record, shared by the command line, MCP and the web pages."""

from __future__ import annotations

from ralph.core.record import SESSION, UNCONFIRMED, VIA, WHO, Record, Scope, Status

_NOT_IN_EXTRA = frozenset(("by", "own", "at", VIA, WHO, SESSION, UNCONFIRMED))
"""Members of `extra` that the JSON has at the top, or not at all."""


STATUS_WORDS: dict[str, str] = {Status.ACCEPTED: "active", Status.RETIRED: "archived"}


def status_word(record: Record) -> str:
    """Return the status of a memory in the words that users see."""
    return STATUS_WORDS.get(record.status, record.status.value)


def describe_author(record: Record) -> str:
    """Return one line about the author of a record and the way it was added."""
    names = [record.origin.by or record.extra.get("by"), record.extra.get(WHO)]
    for member in (VIA, SESSION):
        value = record.extra.get(member)
        if value:
            names.append(f"{member} {value}")
    return ", ".join(str(name) for name in names if name)


def session_of(record: Record) -> str:
    """Return the session in which a record was created, or ""."""
    return record.origin.session or str(record.extra.get(SESSION) or "")


def record_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory, observation or journal entry. `source` is `file:line`, if known.

    An unconfirmed record has the member `unconfirmed`, which gives the reason.
    """
    origin = record.origin
    always: dict[str, object] = {
        "id": record.id,
        "type": record.kind.value,
        "text": record.text,
        "title": record.title,
        "tags": list(record.tags),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "source": source,
        "by": origin.by or str(record.extra.get("by") or ""),
        "via": str(record.extra.get(VIA) or ""),
        "status": status_word(record),
    }
    has_own_label = record.label != record.kind.value
    is_from_elsewhere = record.scope in (Scope.ENCLOSING, Scope.PERSONAL)
    optional = {
        "label": record.label if has_own_label else "",
        "scope": record.scope.value if is_from_elsewhere else "",
        "valid_until": record.valid_until,
        "unconfirmed": record.extra.get(UNCONFIRMED),
        "who": record.extra.get(WHO),
        "session": session_of(record),
        "run": origin.run,
        "iteration": origin.iteration,
        "task": origin.task,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "extra": {name: value for name, value in record.extra.items() if name not in _NOT_IN_EXTRA},
    }
    return {**always, **{name: value for name, value in optional.items() if value}}


def memory_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory as printed by `ralph memory ... --format json`.

    Its members `content` and `created` are aliases for `text` and `created_at`.
    """
    return {**record_json(record, source), "content": record.text, "created": record.created_at}


def mark_weak(weak: bool) -> dict[str, object]:
    """Return the member that marks a hit as close rather than exact."""
    if weak:
        return {"weak": True}
    return {}
