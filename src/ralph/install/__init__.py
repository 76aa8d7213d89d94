"""Installation of hooks into coding agents, project setup, and health checks.

Other parts import only the modules listed in `__all__`.
"""

__all__ = [
    "automatic_setup",
    "check_limits",
    "client_entries",
    "clients",
    "connections",
    "deinit",
    "doctor",
    "file_checks",
    "findings",
    "hook_state",
    "host_edits",
    "hosts",
    "install_target",
    "installations",
    "launcher_scripts",
    "merge_registration",
    "old_state",
    "project",
    "rules_check",
    "rules_update",
    "setup",
    "setup_state",
    "signs",
    "status",
    "stored_secrets",
]
