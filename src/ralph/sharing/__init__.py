"""Import, export and back up a project's records, and share them with a team.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "backups",
    "earlier_sessions",
    "export_import",
    "exports",
    "histories",
    "import_context",
    "imports",
    "other_memories",
    "team",
    "team_connection",
    "team_failures",
    "team_kept",
    "team_pull",
    "team_push",
    "team_search",
    "team_status",
]
