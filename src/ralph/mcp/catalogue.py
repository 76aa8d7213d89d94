"""Every tool that the server offers, in as few words as a model needs to choose and call it.

A client may load this whole list into every conversation, so each word is paid for again and again: a test holds
the list to 2,500 tokens. A tool is named as its command is (`ralph memory add`: `memory_add`). What comes back has
a schema as well, which names what a program may rely on. Proof: `tests/mcp_server/test_catalogue.py`.
"""

from ralph.mcp.tool import Param, Schema, Shape, Tool

KINDS = ("pattern", "decision", "fix", "context")
_FAMILIES = ("memory", "observation", "journal")
_OUTCOMES = ("done", "failed", "retried", "blocked", "interrupted")
_STATES = ("pending", "in_progress", "blocked", "done", "failed")

_ID = Param("id", required=True)
_TAGS = Param("tags", Shape.LIST)
_SINCE = Param("since", about="date or 7d, 24h")
_UNTIL = Param("until")
_LIMIT = Param("limit", Shape.NUMBER, least=1)
_LAYER = Param("layer", Shape.NUMBER, least=1, most=3, about="1 lines, 2 what is around, 3 whole")
_QUERY = Param("query", required=True)


def _object(required: str, **members: str | Schema) -> Schema:
    """A schema of an object; a member is a type's name, or a schema."""
    properties = {name: each if isinstance(each, dict) else {"type": each} for name, each in members.items()}
    return {"type": "object", "properties": properties, "required": required.split()}


def _rows(*names: str) -> Schema:
    """A list of objects with these members."""
    return {"type": "array", "items": {"type": "object", "required": list(names)}}


_HITS = _object("hits total", hits=_rows("id", "text"), total="integer")

TOOLS: tuple[Tool, ...] = (
    Tool(
        "memory_add",
        "Keep what was learned, in a few sentences, for later sessions. No secrets.",
        (Param("text", required=True), Param("type", choices=KINDS, about="else pattern"), _TAGS),
        _object("id added", id="string", added="boolean", file="string"),
        "memories.add",
        writes=True,
    ),
    Tool(
        "memory_search",
        "Find memories alone, by words or meaning: a line each (score, date, text). memory_show gives one whole.",
        (_QUERY, Param("type", Shape.LIST, choices=KINDS), _TAGS, _LIMIT),
        _HITS,
        "memories.search",
    ),
    Tool(
        "memory_show",
        "One memory, or any record that search found, whole.",
        (_ID,),
        _object("id type text", id="string", type="string", text="string", tags="array", file="string"),
        "memories.show",
    ),
    Tool(
        "memory_list",
        "The newest memories, a line each.",
        (Param("limit", Shape.NUMBER, least=1, also="last"), Param("type", Shape.LIST, choices=KINDS), _TAGS),
        _HITS,
        "memories.list_",
    ),
    Tool(
        "memory_edit",
        "Correct a memory: what is given replaces its text, type or tags.",
        (_ID, Param("text"), Param("type", choices=KINDS), _TAGS),
        _object("id changed", id="string", changed="boolean", file="string"),
        "memories.edit",
        writes=True,
    ),
    Tool(
        "memory_delete",
        "Delete a memory; a person may be asked first. Gives its text back.",
        (_ID,),
        _object("id deleted", id="string", deleted="boolean", text="string"),
        "memories.delete",
        writes=True,
        asks=True,
    ),
    Tool(
        "search",
        "Find what is known and what happened: memories, knowledge, guardrails, observations of sessions, journal. "
        "Start at layer 1; then memory_show for one whole, timeline for what is around it.",
        (
            _QUERY,
            _LAYER,
            Param("family", Shape.LIST, choices=_FAMILIES),
            Param("type", Shape.LIST, about="such as fix, decision, error"),
            _TAGS,
            _SINCE,
            _UNTIL,
            _LIMIT,
        ),
        _HITS,
        "finding.search",
    ),
    Tool(
        "timeline",
        "What happened around a record (id), or in a stretch of time (since, until).",
        (Param("id"), _SINCE, _UNTIL, _LIMIT),
        _HITS,
        "finding.timeline",
    ),
    Tool(
        "context",
        "What an agent is handed with a prompt; without one, the brief at a session's start.",
        (Param("prompt"),),
        _object("text", text="string", records=_rows("id")),
        "finding.context",
    ),
    Tool(
        "knowledge_add",
        "Keep what needs a page of up to 500 words. The same title is updated.",
        (
            Param("title", required=True),
            Param("text", required=True),
            Param("tags", Shape.LIST, required=True),
            Param("feature"),
        ),
        _object("id change", id="string", change="string", file="string"),
        "knowing.add",
        writes=True,
    ),
    Tool(
        "knowledge_match",
        "Knowledge pages whose tags fit a task that is told in words: whole.",
        (Param("query", required=True, also="words"), Param("feature"), Param("files", Shape.LIST)),
        _object("text entries", text="string", entries=_rows("id", "title")),
        "knowing.match",
    ),
    Tool(
        "journal_search",
        "How earlier iterations of Ralph's loop ended.",
        (_QUERY, Param("run"), Param("task"), Param("outcome", choices=_OUTCOMES), _SINCE, _LIMIT),
        _HITS,
        "knowing.journal_",
    ),
    Tool(
        "task_list",
        "Tasks in the order to do them.",
        (
            Param("status", choices=_STATES),
            Param("feature"),
            Param("ready", Shape.FLAG, about="only what can begin"),
            _LIMIT,
        ),
        _object("tasks", tasks=_rows("id", "title", "status")),
        "working.tasks",
    ),
    Tool(
        "task_show",
        "One task, whole, with its stories.",
        (_ID,),
        _object("id title status", id="string", title="string", status="string", description="string"),
        "working.task",
    ),
    Tool(
        "session_list",
        "Recorded sessions, newest first.",
        (_LIMIT, _SINCE, Param("task")),
        _object("sessions total", sessions=_rows("id"), total="integer"),
        "working.session_list",
    ),
    Tool(
        "session_show",
        "A session's summary and what happened in it; without id, the newest.",
        (Param("id"), _LAYER, _LIMIT),
        _object("id summary hits", id="string", summary="string", hits=_rows("id", "text")),
        "working.session_show",
    ),
    Tool(
        "graph_neighbors",
        "What is linked to a record, file:path, symbol:path#name, tag:x, task:id or session:id.",
        (
            _ID,
            Param("hops", Shape.NUMBER, least=1, most=6),
            Param("type", Shape.LIST, about="such as file, task, decision"),
            Param("relation", Shape.LIST, about="such as fixes, mentions"),
            Param("as_of", about="date"),
            _LIMIT,
        ),
        _object("nodes total", nodes=_rows("id", "type"), total="integer"),
        "knowing.neighbors",
    ),
    Tool(
        "status",
        "What is remembered here, in numbers.",
        (),
        _object("project memories", project="string", memories="integer"),
        "working.status",
    ),
)
"""All of them, in the order in which clients list them."""

BY_NAME = {tool.name: tool for tool in TOOLS}
