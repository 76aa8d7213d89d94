"""Import, export, backup and the team.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "exports",
    "histories",
    "imports",
    "team",
    "team_search",
]
