"""Send what this machine shares to the team's server (`ralph team sync`).

A source is a shared file or part of one, and a row is one of its records. The server lists the
sources that each machine has pushed, with a digest of each. A push compares these digests with the
files and sends what differs. If a log has only grown, only its new rows are sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.settings import Config, Shared
from ralph.search import index
from ralph.sharing.team_connection import connect_project, tombstones
from ralph.sharing.team_restores import notice_restore
from ralph.sharing.team_rows import CURATED, GitState, Part, SharedRows, git_state, machine_name
from ralph.storage import files
from ralph.storage.read_progress import digest_to
from ralph.storage.team_db import _forgotten_ids, _remember_forgotten
from ralph.storage.team_errors import Purpose, ServerError, SourceRefused
from ralph.storage.team_server import PushedRow, ServerSource, TeamServer

CURATED_FORMATS = frozenset(form.value for form in CURATED)
_APPENDED_FORMATS = (Shared.JOURNAL, Shared.OBSERVATIONS)  # their files only grow
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class PushResult:
    """The result of a push, or of a dry run."""

    sent: dict[str, list[PushedRow]] = field(default_factory=dict)  # rows by source
    removed: list[str] = field(default_factory=list)  # sources
    forgotten: int = 0  # number of tombstones
    unchanged: int = 0  # number of sources
    refused: list[SourceRefused] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows in all sources that were sent."""
        return sum(map(len, self.sent.values()))


def push(
    root: Path, config: Config, *, dry_run: bool = False, progress: Progress | None = None
) -> PushResult:
    """Send what changed since the last push, tombstones first.

    Each source is sent in its own transaction. If the server refuses a source, the others are still
    sent, and then ServerError is raised.
    """
    root = paths.main_checkout(root)
    shared = SharedRows(root, config.team.share, config.privacy)
    with connect_project(root, config.team, Purpose.PUSH) as (server, project):
        push_run = _Push(
            root=root,
            shared=shared,
            server=server,
            project=project,
            machine=machine_name(root),
            dry_run=dry_run,
        )
        if not dry_run:
            notice_restore(root, server, project)
        # Tombstones come first, so that no other machine pulls a forgotten record in between.
        push_run.send_tombstones()
        push_run.check_rows()
        push_run.send_sources(progress)
        push_run.confirm_sources()
        push_run.remove_sources()
        push_run.finish()
    result = push_run.result
    if result.refused:
        first = result.refused[0]
        raise ServerError(
            f"{len(result.refused)} source(s) not sent, "
            f"{result.rows} row(s) of others sent: {first.message}",
            hint=first.hint,
        )
    return result


class _Push:
    """One push to the server. With `dry_run`, nothing is sent."""

    def __init__(
        self,
        *,
        root: Path,
        shared: SharedRows,
        server: TeamServer,
        project: str,
        machine: str,
        dry_run: bool,
    ) -> None:
        self.result = PushResult()
        self._root = root
        self._shared = shared
        self._server = server
        self._project = project
        self._machine = machine
        self._dry_run = dry_run
        self._tombstones: set[str] = set()
        self._pushed: dict[str, ServerSource] = {}  # this machine's sources on the server, by path
        self._present: set[str] = set()  # paths of the parts that exist here
        self._unchanged: set[str] = set()  # those of which the server has the latest rows
        self._epoch = ""  # of the server when the push began

    def send_tombstones(self) -> None:
        """Send the ids that were forgotten here, and collect those that the team has forgotten."""
        on_server = tombstones(self._server, self._project)
        forgotten_here = _forgotten_ids(self._root)
        new = forgotten_here - on_server
        if new and not self._dry_run:
            self._server.call("forget", self._project, sorted(new))
        if not self._dry_run:
            _remember_forgotten(self._root, on_server)
        self.result.forgotten = len(new)
        self._tombstones = on_server | forgotten_here

    def check_rows(self) -> None:
        """Let the server check the rows of this machine if it was restored from a backup.

        A source of which it lacks rows is then sent again.
        """
        if not self._dry_run:
            self._epoch = self._server.call("check_rows", self._project, self._machine)[0][0]

    def send_sources(self, progress: Progress | None) -> None:
        """Send the rows of all sources that changed."""
        self._pushed = sources_of(self._machine, self._server.sources(self._project))
        with index.of(self._root).open_current() as connection:
            parts = list(self._shared.parts(connection))
            changed = [part for part in parts if is_changed(part, self._pushed, self._shared.rules)]
            self._present = {part.path for part in parts}
            self._unchanged = self._present - {part.path for part in changed}
            self.result.unchanged = len(parts) - len(changed)
            git = git_state(self._root)
            for number, part in enumerate(changed, 1):
                self._send_part(connection, part, git)
                if progress is not None:
                    progress(number, len(changed))

    def _send_part(self, connection: sqlite3.Connection, part: Part, git: GitState) -> None:
        """Send the new rows of a part that has only grown, or all rows of any other part."""
        before = self._pushed.get(part.path)
        if before is not None and not _is_prefix(self._root, part, before, self._shared.rules):
            before = None
        first_line = before.lines if before is not None else 0
        digest = before.digest if before is not None else None
        rows = []
        for row in self._shared.rows(connection, part, first_line):
            if row.id not in self._tombstones:
                rows.append(row)
        if not self._dry_run:
            description = self._shared.describe(part, git)
            try:
                self._server.push(self._project, self._machine, description, digest, rows)
            except SourceRefused as error:  # the server may accept the others
                self.result.refused.append(error)
                return
        self.result.sent[part.path] = rows

    def confirm_sources(self) -> None:
        """Tell a restored server which sources are still here, and the same as on the server.

        The other machines then know that its rows are the latest. A source that the server has
        refused is not confirmed: the server still has the rows of its backup.
        """
        paths = []
        digests = []
        for path in sorted(self._unchanged):
            source = self._pushed[path]
            if not source.is_confirmed:
                paths.append(path)
                digests.append(source.digest)
        if paths and not self._dry_run:
            values = (self._project, self._machine, paths, digests)
            self._server.call("confirm_sources", *values)

    def remove_sources(self) -> None:
        """Remove sources from the server that no longer exist here.

        Session logs that were deleted here by retention stay on the server, because retention only
        saves space on this machine.
        """
        kept_formats = self._kept_formats()
        for path, source in self._pushed.items():
            if path not in self._present and source.format not in kept_formats:
                self.result.removed.append(path)
        if self.result.removed and not self._dry_run:
            self._server.call("remove_sources", self._project, self._machine, self.result.removed)

    def _kept_formats(self) -> set[str]:
        """Return the formats of which rows stay on the server after their file was deleted here."""
        return {shared.value for shared in self._shared.share} - CURATED_FORMATS

    def finish(self) -> None:
        """Tell the server that it now has everything that this machine shares."""
        if not self._dry_run and not self.result.refused:
            kept_formats = sorted(self._kept_formats())
            values = (self._project, self._machine, self._epoch, kept_formats)
            self._server.call("finish_push", *values)


def sources_of(machine: str, sources: Iterable[ServerSource]) -> dict[str, ServerSource]:
    """Return the sources that a machine has pushed, by path."""
    return {source.path: source for source in sources if source.machine == machine}


def is_changed(part: Part, pushed: Mapping[str, ServerSource], rules: str) -> bool:
    """Return whether a part differs from what the server has."""
    before = pushed.get(part.path)
    if before is None:
        return True
    return before.digest != part.source.digest or before.rules != rules


def _is_prefix(root: Path, part: Part, before: ServerSource, rules: str) -> bool:
    """Return whether the server has the beginning of a log, cleaned with the same rules."""
    if part.format not in _APPENDED_FORMATS or before.rules != rules or not before.size:
        return False
    if before.size > part.source.size:
        return False
    try:
        with files.open_regular(paths.source_path(root, part.source.path)) as file:
            return digest_to(file, before.size) == before.digest
    except (RalphError, OSError):
        return False
