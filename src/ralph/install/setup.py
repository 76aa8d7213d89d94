"""Plan and make everything that a new user needs: `ralph setup`, and `ralph install` as part of it.

`ralph setup` installs Ralph into the coding agents of a machine, sets up a project and imports the
earlier sessions of that project. The plan names every file that changes, so that one confirmation
is enough. What is already done is left out of the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Conflict, RalphError, Unreadable
from ralph.core.extras import add_command, has_extra, missing_extra
from ralph.install import hosts, installations, launcher_scripts, merge_registration, project
from ralph.install.clients import CLIENTS, Host, InstallScope, has_client
from ralph.install.hosts import InstallPlan
from ralph.install.install_target import InstallTarget
from ralph.install.installations import DriverPlace
from ralph.lean import discovery
from ralph.sharing.earlier_sessions import EarlierSessions, count_earlier_sessions


def plan_install(
    targets: Sequence[InstallTarget], *, driver: DriverPlace | None = None
) -> InstallPlan:
    """Plan an installation of this Ralph. In the user's scope, it includes the merge driver.

    Without `driver`, the merge driver is registered where it was registered before.
    """
    common = targets[0]
    place = None
    if common.scope is InstallScope.USER:
        place = driver or installations.read_installed(common.env).driver
    program = launcher_scripts.running_program(sys.executable)
    plan = hosts.plan_install(targets, program, driver=place)
    if common.mcp is False and not common.plugin:
        reason = missing_extra("mcp", "it").message
        advice = f"run {add_command('mcp')}, then ralph doctor --fix"
        note = f"the MCP server is left out: {reason}; {advice}"
        plan = replace(plan, notes=(*plan.notes, note))
    return plan


@dataclass(frozen=True, slots=True)
class UsableTargets:
    """The targets that can be installed into, and the problems of the others."""

    targets: tuple[InstallTarget, ...]
    problems: tuple[RalphError, ...]
    notes: tuple[str, ...]  # for the user; each names an agent and the file to correct


def find_usable(targets: Sequence[InstallTarget]) -> UsableTargets:
    """Sort out the agents whose settings cannot be edited safely."""
    program = launcher_scripts.running_program(sys.executable)
    usable = []
    problems: list[RalphError] = []
    notes = []
    for target in targets:
        try:
            hosts.plan_install([target], program)
        except (Unreadable, Conflict) as error:
            problems.append(error)
            notes.append(f"{target.client.title} is left out: {error.message}")
        else:
            usable.append(target)
    return UsableTargets(tuple(usable), tuple(problems), tuple(notes))


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """What `ralph setup` would change on this machine and in a project."""

    hosts: tuple[Host, ...]  # the coding agents that were found and can be edited
    install: InstallPlan
    root: Path | None  # the project, or None outside of one
    project_files: tuple[str, ...] = ()  # that would be created or changed
    sessions: EarlierSessions = field(default_factory=EarlierSessions)
    left_out: tuple[str, ...] = ()  # why coding agents that were found are not in `hosts`
    driver_config: Path | None = None  # of the repository, if the merge driver is registered there

    @property
    def is_empty(self) -> bool:
        """Whether everything is already set up."""
        return not (self.install.changes or self.project_files or self.sessions.count)

    @property
    def titles(self) -> list[str]:
        """The names of the coding agents, for people."""
        return [CLIENTS[host].title for host in self.hosts]


def plan_setup(
    root: Path | None,
    env: Mapping[str, str],
    *,
    driver: DriverPlace | None = None,
    with_sessions: bool = True,
) -> SetupPlan:
    """Plan the setup of all coding agents that are found, and of a project unless it is None.

    An agent whose settings cannot be edited is left out.
    """
    found = tuple(host for host in Host if has_client(host, env))
    install = InstallPlan(())
    folder = root or Path(env.get(discovery.HOME_VARIABLE) or "/")
    has_mcp = has_extra("mcp")
    usable = find_usable(
        [InstallTarget(host, InstallScope.USER, folder, env, mcp=has_mcp) for host in found]
    )
    found = tuple(target.host for target in usable.targets)
    if found:
        install = plan_install(usable.targets, driver=driver)
    if root is None:
        return SetupPlan(found, install, None, left_out=usable.notes)
    sessions = EarlierSessions()
    if with_sessions:
        sessions = count_earlier_sessions(root, env)
    project_files = project.plan_init(root)
    place = driver or merge_registration.chosen_place(env)
    config = merge_registration.config_to_change(root, env, place, is_installing=bool(found))
    if config is not None:
        project_files.append(paths.shown(config, root))
    return SetupPlan(
        found, install, root, tuple(project_files), sessions, usable.notes, driver_config=config
    )


def apply_setup(plan: SetupPlan, env: Mapping[str, str]) -> None:
    """Set up the project and install Ralph.

    A problem in the project or with the settings of an agent is raised before Ralph is installed.
    The sessions are left to the caller, which shows the progress of the import.
    """
    hosts.check_writable(plan.install)
    if plan.root is not None:
        project.init(plan.root)
    hosts.apply_plan(plan.install)
    if plan.driver_config is not None:
        merge_registration.add_driver(plan.driver_config, env)


def register_driver(root: Path, env: Mapping[str, str]) -> list[str]:
    """Register the merge driver in a repository that needs it there.

    Returns one line for each change.
    """
    place = merge_registration.chosen_place(env)
    config = merge_registration.config_to_change(root, env, place)
    if config is None:
        return []
    merge_registration.add_driver(config, env)
    name = paths.shown(config, root)
    if place is DriverPlace.REPOSITORY:
        return [f"registered the merge driver in {name}"]
    return [f"registered the merge driver that .gitattributes names in {name}"]
