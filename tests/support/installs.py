"""Hooks installed into the settings of a client, and taken out again."""

from collections.abc import Mapping
from pathlib import Path

from ralph.install import hosts
from ralph.install.clients import CLIENTS, Host, InstallScope
from ralph.install.hosts import apply_plan, plan_install, plan_uninstall
from ralph.install.install_target import InstallTarget
from ralph.install.launcher_scripts import HookProgram

OURS = HookProgram(Path("/opt/ralph/bin/python"), Path("/opt/ralph/lib/ralph/hooks/run.py"))

MOVED = HookProgram(Path("/new place/bin/python"), Path("/new place/lib/ralph/hooks/run.py"))

PLACES = [
    (host, scope)
    for host in Host
    for scope in InstallScope
    if scope is InstallScope.USER
    or (scope is InstallScope.PROJECT and CLIENTS[host].project)
    or (scope is InstallScope.LOCAL and host is Host.CLAUDE)
]


def at(
    home: Path,
    host: Host = Host.CLAUDE,
    scope: InstallScope = InstallScope.USER,
    env: Mapping[str, str] | None = None,
) -> InstallTarget:
    """A place to install to, in the home of a test."""
    return InstallTarget(host, scope, home.parent / "project", {"HOME": str(home), **(env or {})})


def install(where: InstallTarget, ours: HookProgram = OURS) -> hosts.InstallPlan:
    """Plan an installation and carry it out."""
    plan = plan_install([where], ours)
    apply_plan(plan)
    return plan


def uninstall(where: InstallTarget) -> hosts.InstallPlan:
    """Plan a removal and carry it out."""
    plan = plan_uninstall(where)
    apply_plan(plan)
    return plan


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file's bytes, and every folder, below a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }
