"""`ralph web` as a process: one address, one browser, and an end."""

import http.client
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.runner import Project, command


def start(root: Path, *words: str, env: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*command(), "web", *words], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
    )  # fmt: skip


def address(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\?token=[\w-]{40,})\n", line)
    assert found is not None, line
    return int(found[1]), found[2]


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            answer.read()
            return answer.status
    finally:
        connection.close()


@pytest.mark.parametrize("ending", [signal.SIGINT])
def test_it_prints_its_address_answers_and_ends_well(ralph: Project, ending: signal.Signals) -> None:
    process = start(ralph.root, "--no-open")
    try:
        port, path = address(process)
        assert status(port, path) == 200
        assert status(port, path) == 403
        assert status(port, "/api/state") == 401
        process.send_signal(ending)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, b"", b"ended\n")


def test_it_opens_the_browser_that_is_named(ralph: Project, tmp_path: Path) -> None:
    note = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}.new && mv {note}.new {note}\n', encoding="utf-8")
    browser.chmod(0o755)
    process = start(ralph.root, env={"BROWSER": str(browser)})
    try:
        port, path = address(process)
        assert status(port, path) == 200  # it answers once the browser was asked to open it
        assert note.read_text(encoding="utf-8") == f"http://127.0.0.1:{port}{path}"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_a_port_that_is_taken_is_told(ralph: Project) -> None:
    first = start(ralph.root, "--no-open")
    try:
        port, _ = address(first)
        said = ralph("web", "--no-open", "--port", str(port))
        assert said.code == 1
        assert f"port {port} cannot be used" in said.err
        assert "--port" in said.err
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)


def test_a_wrong_port_is_wrong_usage(ralph: Project) -> None:
    assert ralph("web", "--port", "70000").code == 2


def test_help_does_not_load_the_server(ralph: Project) -> None:
    code = "import sys; from ralph.cli.main import run; run(['--help']); sys.exit('uvicorn' in sys.modules)"
    import sys

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("noun", "add"), [("memory", "memory"), ("guardrails", "guardrails")])
def test_entries_are_retired_and_restored(ralph: Project, noun: str, add: str) -> None:
    name = ralph(add, "add", "Redis must run", "--format", "quiet").out.strip()
    assert ralph(noun, "retire", name).out.startswith(f"Retired {name} (")
    assert ralph(noun, "list", "--format", "quiet").out == ""
    assert "status:      retired" in ralph(noun, "show", name).out
    assert ralph(noun, "show", name, "--format", "json").json["status"] == "retired"
    assert ralph(noun, "retire", name).out == f"{name} is retired already\n"
    assert ralph(noun, "restore", name).out.startswith(f"Restored {name} (")
    assert ralph(noun, "list", "--format", "quiet").out == f"{name}\n"
    assert ralph(noun, "restore", name).out == f"{name} is not retired\n"
    assert ralph(noun, "retire", "mem-1-none").code == 1


def test_what_was_retired_can_be_said_anew(ralph: Project) -> None:
    first = ralph("memory", "add", "Redis must run", "--format", "quiet").out.strip()
    ralph("memory", "retire", first)
    second = ralph("memory", "add", "Redis must run", "--format", "quiet").out.strip()
    assert second != first
    assert ralph("memory", "list", "--format", "quiet").out == f"{second}\n"


def test_knowledge_is_edited_retired_and_restored(ralph: Project) -> None:
    ralph("knowledge", "add", "Redis", "It must run", "--tags", "redis,ci")
    assert ralph("knowledge", "edit", "redis").code == 2
    said = ralph(
        "knowledge", "edit", "redis", "--title", "Redis 7", "--text", "-", "--tags", "redis", stdin="It must be 7"
    )
    assert said.out == "Changed know-redis (.ralph/knowledge/redis.md:1)\n"
    shown = ralph("knowledge", "show", "redis", "--format", "json").json
    assert (shown["title"], shown["content"], shown["tags"]) == ("Redis 7", "It must be 7", ["redis"])
    assert ralph("knowledge", "edit", "redis", "--tags", "redis").out == "Nothing changed in redis\n"
    assert ralph("knowledge", "retire", "redis").out.startswith("Retired know-redis (")
    assert "No knowledge" in ralph("knowledge", "list").out + ralph("knowledge", "list").err
    assert ralph("knowledge", "retire", "redis").out == "redis is retired already\n"
    assert ralph("knowledge", "restore", "redis").out.startswith("Restored know-redis (")
    assert ralph("knowledge", "restore", "redis").out == "redis is not retired\n"
    assert ralph("knowledge", "retire", "nothing").code == 1
