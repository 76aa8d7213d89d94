"""Files, locks, logs and the SQLite index: everything that reads or writes the disk.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "board",
    "changes",
    "config",
    "db",
    "features",
    "files",
    "foreign",
    "forgotten",
    "gitignore",
    "graph",
    "hook_files",
    "index",
    "library",
    "lookup",
    "paired_lookup",
    "pattern_limit",
    "queries",
    "server_lookup",
    "sessions",
    "sources",
    "team_db",
    "team_server",
    "totals",
    "trust_records",
    "vectors",
    "write_observers",
]
