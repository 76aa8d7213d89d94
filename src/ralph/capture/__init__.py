"""What happened: the events that clients send, and the observations made from them.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "client_transcripts",
    "command_lines",
    "commands",
    "error_lines",
    "events",
    "foreign_reading",
    "host_payloads",
    "observations",
    "open_ends",
    "own_traffic",
    "pipeline",
    "recorder",
    "recoveries",
    "short_text",
    "small_talk",
    "summary",
    "text_transcripts",
    "transcripts",
    "uninformative_lines",
]
