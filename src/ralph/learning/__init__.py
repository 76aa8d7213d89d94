"""From what happened to what is known: insights, proposals, review and forgetting.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "forget",
    "history",
    "inbox",
    "insights",
    "review",
]
