"""The program `ralph web`, started and asked."""

import http.client
import os
import re
import subprocess
from pathlib import Path

from tests.support.runner import command


def start(root: Path, *words: str, env: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """Start the program in a project."""
    return subprocess.Popen(
        [*command(), "web", *words], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
    )  # fmt: skip


def address(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """The port and the path that the program prints."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\?token=[\w-]{40,})\r?\n", line)
    assert found is not None, line
    return int(found[1]), found[2]


def status(port: int, path: str) -> int:
    """The status of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            answer.read()
            return answer.status
    finally:
        connection.close()
