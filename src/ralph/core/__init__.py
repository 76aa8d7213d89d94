"""The foundation that everything else builds on: values, errors, ids, paths, settings and text.

Other packages import only the modules listed in `__all__`.
"""

__all__ = [
    "budget",
    "config",
    "config_files",
    "discovery",
    "errors",
    "extras",
    "family",
    "graph",
    "ids",
    "json_text",
    "launchers",
    "paths",
    "patterns",
    "process",
    "prompts",
    "record",
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
