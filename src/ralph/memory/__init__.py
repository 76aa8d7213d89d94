"""Curated memory: add, edit, archive and merge its entries.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "author",
    "knowledge",
    "knowledge_match",
    "memory",
    "merge_driver",
    "quarantine",
    "record_shapes",
]
