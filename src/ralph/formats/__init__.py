"""Codecs, each of which turns one file format into values and back.

Other packages import only the modules listed in `__all__`.
"""

__all__ = [
    "front_matter",
    "graphiti",
    "host_files",
    "journal",
    "knowledge",
    "knowledge_text",
    "log",
    "memories",
    "memories_metadata",
    "memories_writer",
    "merge",
    "patterns",
    "progress",
    "proposals",
    "regions",
    "sigils",
    "work",
]
