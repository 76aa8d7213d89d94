"""Find and give: what a prompt, an action or a session start gets, and looking back.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "brief",
    "chat_log",
    "context",
    "graph",
    "journal",
    "json_shapes",
    "locate",
    "memories",
    "outdated",
    "recall",
    "search",
    "sessions",
    "usage",
]
