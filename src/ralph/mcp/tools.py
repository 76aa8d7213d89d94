"""All tools of the MCP server, in the order in which clients list them.

A tool has the name of its command. A test limits the list to 2,500 tokens, because a client may
load it into every conversation.
"""

from __future__ import annotations

from ralph.mcp import memory_tools, project_tools, search_tools, session_tools

TOOLS = {
    tool.name: tool
    for tool in (
        search_tools.search,
        memory_tools.memory_add,
        memory_tools.memory_search,
        memory_tools.memory_show,
        memory_tools.memory_edit,
        memory_tools.memory_delete,
        memory_tools.memory_learn,
        search_tools.context,
        session_tools.session_show,
        session_tools.journal_search,
        project_tools.task_show,
        project_tools.graph_show,
        project_tools.status,
    )
}

FORMER_TOOLS = {
    "memory_list": "memory_show without an id",
    "timeline": "search with around or since",
    "knowledge_add": "memory_add with in: knowledge",
    "knowledge_match": "context with knowledge: true",
    "task_list": "task_show without an id",
    "session_list": "session_show without an id",
    "graph_neighbors": "graph_show",
}
"""What replaces the tools that earlier versions had."""
