"""Codecs, each of which turns one file format into values and back.

Other packages import only the modules listed in `__all__`.
"""

__all__ = [
    "feature_files",
    "front_matter",
    "graphiti",
    "host_files",
    "host_toml",
    "insight_files",
    "journal",
    "journal_sentences",
    "knowledge",
    "knowledge_text",
    "log",
    "memories",
    "memories_metadata",
    "memories_reader",
    "memories_writer",
    "merge",
    "patterns",
    "prd",
    "progress",
    "progress_blocks",
    "progress_learnings",
    "proposals",
    "regions",
    "sigils",
    "task_files",
]
