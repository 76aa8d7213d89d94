"""Find what a prompt, an action or a session start should be given, and look back at past work.

Other parts may import only the modules listed in `__all__`.
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
