"""Codecs, each of which turns one file format into values and back.

Other packages import only the modules listed in `__all__`.
"""

__all__ = [
    "graphiti",
    "host_files",
    "knowledge",
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
