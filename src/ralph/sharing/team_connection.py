"""The connection of a project to its team's server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import UsageError
from ralph.core.extras import needs_extra
from ralph.core.settings import Team
from ralph.storage import team_server
from ralph.storage.team_errors import Purpose
from ralph.storage.team_server import TeamServer


def project_name(root: Path, team: Team) -> str:
    """Return the project's name on the server."""
    return team.project or paths.main_checkout(root).name


@contextmanager
def connect_project(
    root: Path, team: Team, purpose: Purpose | None = None
) -> Iterator[tuple[TeamServer, str]]:
    """Connect to the team's server, and yield it together with the project's name there.

    The purpose words the hints of errors. Raises UsageError if the project has not joined a team.
    """
    if not team.url:
        raise UsageError(
            "this project shares nothing with a team",
            hint="join one with `ralph team join URL`; "
            "a URL in ralph.yml takes effect after `ralph trust`",
        )
    with needs_extra("team", "`ralph team`"), team_server.connect(team.url, purpose) as server:
        yield server, project_name(root, team)


def tombstones(server: TeamServer, project: str) -> set[str]:
    """Return the ids of the records that the whole team has forgotten."""
    return {row[0] for row in server.call("tombstones_of", project)}
