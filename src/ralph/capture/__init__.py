"""What happened: the events that clients send, and the observations made from them.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "commands",
    "events",
    "observations",
    "own_traffic",
    "pipeline",
    "recorder",
    "recoveries",
    "short_text",
    "summary",
    "transcripts",
]
