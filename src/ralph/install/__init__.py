"""Clients and their hooks, the setup of a project, and its health.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "clients",
    "deinit",
    "doctor",
    "hook_state",
    "hosts",
    "merge_registration",
    "project",
]
