"""The foundation: values, errors, ids, paths, settings and text.

Other parts import only the modules that `__all__` lists.
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
    "render",
    "repository",
    "settings",
    "similarity",
    "terms",
    "text",
    "tokens",
    "work",
]
