"""What happened: the events that clients send, and the observations made from them.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "commands",
    "events",
    "pipeline",
    "recorder",
    "recoveries",
    "summary",
    "transcripts",
]
