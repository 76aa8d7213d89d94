"""Find out that a team's server was restored from a backup, and tell it so.

Most restores change the server's epoch. If its files were only copied back, the server cannot know
that it is an earlier one. A machine that knows of a later state tells it, together with the proof
that the server gave it, and the epoch changes. All machines then check what the server has.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.storage import team_db
from ralph.storage.db import Damaged
from ralph.storage.team_db import PREFIX, PulledMachine, PulledServer
from ralph.storage.team_server import ServerEpoch, TeamServer


class MachineState(NamedTuple):
    """What the server knows about a machine."""

    machine: str
    synced_at: int  # when it last completed a push
    is_synced: bool  # whether that was in the current epoch
    keeps: tuple[str, ...]  # formats whose files it may delete while their rows stay on the server
    proof: str  # of `synced_at`


def machine_states(server: TeamServer, project: str) -> dict[str, MachineState]:
    """Return what the server knows about each machine.

    The keys are the beginnings of the local names of its sources.
    """
    states = {}
    for member, machine, synced_at, is_synced, keeps, proof in server.call("machines_of", project):
        states[f"{PREFIX}{member}/{machine}"] = MachineState(
            machine, synced_at, is_synced, tuple(keeps), proof
        )
    return states


def notice_restore(root: Path, server: TeamServer, project: str) -> None:
    """Tell the server that it was restored, if this machine knows of a later state of it.

    A damaged `team.db` knows nothing; the next pull replaces it.
    """
    database = paths.team_database(root)
    with suppress(NotFound, Damaged), team_db.read_team(database) as connection:
        before = team_db.pulled_server(connection)
        machines = team_db.pulled_machines(connection)
        _notice(server, project, before, machines)


def _notice(
    server: TeamServer, project: str, before: PulledServer, machines: Mapping[str, PulledMachine]
) -> None:
    epoch = server.epoch(project)
    if epoch.is_replica or before.epoch != epoch.epoch:
        return
    if before.highest_key > epoch.last_key:
        server.call("notice_restore", project, before.highest_key, before.proof)
        return
    for name, state in machine_states(server, project).items():
        known = machines.get(name)
        if known is not None and known.synced_at > state.synced_at:
            server.call("notice_lost_push", project, state.machine, known.synced_at, known.proof)
            return


def describe_server(
    epoch: ServerEpoch, machines: Mapping[str, MachineState]
) -> tuple[PulledServer, dict[str, PulledMachine]]:
    """Return what `notice_restore` has to know about the server."""
    known = {}
    for name, state in machines.items():
        known[name] = PulledMachine(state.synced_at, state.proof)
    return PulledServer(epoch.epoch, epoch.highest_key, epoch.proof), known
