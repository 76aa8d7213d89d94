"""Turn what happened into what is known: insights, proposals, review and forgetting.

Other parts may import only the modules listed in `__all__`.
"""

__all__ = [
    "evidence",
    "examined_sessions",
    "forget",
    "forget_plan",
    "history",
    "inbox",
    "insights",
    "labels",
    "learn",
    "learn_answer",
    "learn_progress",
    "learned",
    "promotion",
    "propose",
    "refine",
    "remember",
    "removal",
    "review",
    "session_proposals",
    "task_insights",
    "weekly",
]
