"""The foundation that everything else builds on: values, errors, ids, paths, settings and text.

Other packages import only the modules listed in `__all__`.
"""

__all__ = [
    "alarms",
    "budget",
    "bullets",
    "config",
    "config_files",
    "documents",
    "errors",
    "extras",
    "family",
    "git_history",
    "graph",
    "ids",
    "invisible",
    "json_text",
    "launchers",
    "match_windows",
    "paths",
    "patterns",
    "process",
    "programs",
    "prompts",
    "record",
    "record_lines",
    "remember",
    "render",
    "repository",
    "settings",
    "similarity",
    "terms",
    "text",
    "tokens",
    "work",
]
