"""PgBouncer in front of a PostgreSQL server of the tests."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.support.postgres import ThrowawayServer
from tests.support.tls import Certificate

_NOBODY = 65534
_SECONDS = 30.0
_SETTINGS = """\
[databases]
* = host={folder}

[pgbouncer]
unix_socket_dir = {folder}
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = 1
"""
_TLS_SETTINGS = """\
client_tls_sslmode = require
client_tls_cert_file = {certificate}
client_tls_key_file = {certificate}
"""


@contextmanager
def pooler(
    program: Path,
    server: ThrowawayServer,
    roles: Sequence[str],
    certificate: Certificate | None = None,
    more_settings: str = "",
) -> Iterator[int]:
    """Run PgBouncer in transaction mode, with one session for each role, and yield its port.

    Its settings are those of its manual, and none is there for Ralph's sake. PgBouncer refuses to
    run as root, who starts it as `nobody`.
    """
    folder = server.folder / f"pooler-{time.monotonic_ns()}"
    folder.mkdir()
    port = _free_port()
    users = folder / "users.txt"
    users.write_text("".join(f'"{role}" ""\n' for role in roles), encoding="utf-8")
    settings = _SETTINGS.format(folder=server.folder, port=port, users=users) + more_settings
    if certificate is not None:
        copy = folder / "server.pem"
        shutil.copy(certificate.path, copy)
        settings += _TLS_SETTINGS.format(certificate=copy)
    config = folder / "pgbouncer.ini"
    config.write_text(settings, encoding="utf-8")
    argv = [str(program), "--quiet", str(config)]
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, _NOBODY, _NOBODY)
        process = subprocess.Popen(argv, user=_NOBODY, group=_NOBODY, extra_groups=())
    else:
        process = subprocess.Popen(argv)
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), _SECONDS):
            return
        time.sleep(0.05)
    raise AssertionError("PgBouncer did not start")
