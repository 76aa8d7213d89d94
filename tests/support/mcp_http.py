"""The MCP server at an address."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

SERVE = (sys.executable, "-m", "ralph", "mcp", "serve", "--http")

PING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}  # fmt: skip


@dataclass
class Address:
    """A server at its address, with its token."""

    process: "subprocess.Popen[str]"
    url: str
    token: str

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def post(self, path: str = "/mcp", method: str = "POST", **headers: str) -> tuple[int, str]:
        """The status and the words of an answer; headers may replace those of a good request."""
        good = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        sent = {**good, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        body = json.dumps(PING).encode()
        for name, value in {
            **sent,
            "Content-Length": str(len(body)),
            "Connection": "close",
        }.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def serving(
    root: Path, *words: str, token: str = "", command: tuple[str, ...] = SERVE, **env: str
) -> Iterator[Address]:
    """The program at an address; `token` is the one that it does not print."""
    with subprocess.Popen(
        [*command, *words],
        cwd=root,
        env=os.environ | env,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().strip()
            told = process.stderr.readline().removeprefix("Authorization: Bearer ").strip()
            assert told.startswith("(the token of ") if token else len(told) > 40, told
            yield Address(process, url, token or told)
        finally:
            process.kill()
