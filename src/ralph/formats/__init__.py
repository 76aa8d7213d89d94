"""Codecs: each module turns the text of one file format into values and back.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "graphiti",
    "host_files",
    "knowledge",
    "log",
    "memories",
    "merge",
    "pages",
    "progress",
    "sigils",
    "work",
]
