"""The JSON of each noun, once for the command line, MCP and the web.

Members that are always there come first; what only some records have (links, a run, further members of the file)
is left out when it is empty.
"""

from ralph.model.record import Record, Status

VIA = "via"
"""The member of `extra` that says which way an entry came, when it was not the command line."""

_STATUS = {Status.ACCEPTED: "active", Status.RETIRED: "archived"}


def status_word(record: Record) -> str:
    """Return the status of a memory as users read it."""
    return _STATUS.get(record.status, record.status.value)


def record_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory, observation or journal record; `source` is `file:line` where it is known."""
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
    optional = {
        "label": record.label if record.label != record.kind.value else "",
        "valid_until": record.valid_until,
        "session": origin.session,
        "run": origin.run,
        "iteration": origin.iteration,
        "task": origin.task,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "extra": {name: value for name, value in record.extra.items() if name not in ("by", VIA)},
    }
    return {**always, **{name: value for name, value in optional.items() if value}}


def memory_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory for `ralph memory ... --format json`, with the documented aliases `content` and `created`."""
    return {**record_json(record, source), "content": record.text, "created": record.created_at}
