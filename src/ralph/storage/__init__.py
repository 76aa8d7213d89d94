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
    "index_schema",
    "library",
    "lookup",
    "paired_lookup",
    "pattern_limit",
    "queries",
    "query_filters",
    "record_filters",
    "record_rows",
    "server_lookup",
    "sessions",
    "sources",
    "supersession",
    "team_db",
    "team_server",
    "totals",
    "trust_records",
    "vectors",
    "write_observers",
]
