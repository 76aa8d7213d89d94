"""Curated memory: add, edit, archive and merge entries.

Other parts may import only the modules listed in `__all__`.
"""

__all__ = [
    "author",
    "caller",
    "confirmation",
    "harmless_texts",
    "held_memories",
    "knowledge",
    "knowledge_match",
    "memory",
    "memory_files",
    "merge_driver",
    "priming",
    "quarantine",
    "reading",
    "record_shapes",
    "waiting_entries",
    "write_checks",
]
