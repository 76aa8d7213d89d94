"""All tools of the MCP server, in the order in which clients list them.

A tool has the name of its command. A test limits the list to 2,500 tokens, because a client may
load it into every conversation.
"""

from __future__ import annotations

from ralph.mcp import memory_tools, project_tools, search_tools, session_tools

TOOLS = {
    tool.name: tool
    for tool in (
        memory_tools.memory_add,
        memory_tools.memory_search,
        memory_tools.memory_show,
        memory_tools.memory_list,
        memory_tools.memory_edit,
        memory_tools.memory_delete,
        memory_tools.memory_learn,
        search_tools.search,
        search_tools.timeline,
        search_tools.context,
        memory_tools.knowledge_add,
        memory_tools.knowledge_match,
        session_tools.journal_search,
        project_tools.task_list,
        project_tools.task_show,
        session_tools.session_list,
        session_tools.session_show,
        project_tools.graph_neighbors,
        project_tools.status,
    )
}
