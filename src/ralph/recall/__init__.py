"""Find what a prompt, an action or a session start should be given, and look back at past work.

Other parts may import only the modules listed in `__all__`.
"""

__all__ = [
    "brief",
    "chat_log",
    "citation_check",
    "conversation",
    "graph",
    "graph_export",
    "graph_links",
    "graph_search",
    "injection_ledger",
    "journal",
    "journal_section",
    "json_shapes",
    "locate",
    "memories",
    "memory_order",
    "outdated",
    "preview",
    "prompt_context",
    "recall",
    "references",
    "search",
    "session_start",
    "session_summary",
    "sessions",
    "skill",
    "stale_citations",
    "successors",
    "summarize_command",
    "usage",
]
