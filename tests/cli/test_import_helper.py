"""A second process prepares transcripts, and the logs are the same as without it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import test_import_clients as clients
from tests.support import helped_importing
from tests.support.helped_importing import absent, ending, helping, import_all
from tests.support.runner import Project
from tests.support.sampling import every
from tests.support.transcripts import Claude, home, work

from ralph.core import paths
from ralph.sharing import histories
from ralph.sharing.import_context import ImportContext
from ralph.sharing.import_helper import ImportHelpRules, import_helper
from ralph.sharing.session_import import SessionRecorder
from ralph.storage import files

__all__ = ["home"]

SESSIONS = 10


@pytest.fixture(autouse=True)
def _module_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the second process


def write_transcripts(root: Path, home: Path) -> None:
    """Write sessions of all clients, one of which has two transcripts and a broken line."""
    clients.codex(home, root)
    clients.gemini(home, root)
    clients.opencode(home, root)
    clients.copilot(home, root)
    clients.cursor(home, root)
    clients.cline(home, root)
    clients.aider(home, root)
    for number in range(SESSIONS):
        made = Claude(root, f"s-{number:02}")
        for turn in range(3 + 20 * (number % 3)):
            made.prompt(f"turn {turn}, ticket ABC-{turn}").use(
                "Bash", f"out {turn}", {"stdout": f"out {turn}"}, command=f"curl host-{turn}.dev"
            ).say("ok")
        made.write(home)
    path = work(root).write(home)
    path.write_text(f'{path.read_text(encoding="utf-8")}{{"type":"user" broken\n', encoding="utf-8")
    Claude(root).prompt("a subagent's prompt").say("another answer").write(home, "agent-1")


def logs(root: Path) -> dict[str, str]:
    folder = paths.log_folder(root) / "sessions"
    return {path.name: files.read(path) or "" for path in paths.log_files(folder)}


@pytest.mark.parametrize("rules", [helping, ending])
def test_the_logs_are_the_same_with_a_helper_also_if_that_ends_early(
    ralph: Project, home: Path, rules: Callable[[Path], ImportHelpRules]
) -> None:
    settings = "privacy:\n  patterns: ['ABC-[0-9]+']\n"
    ralph.root.joinpath("ralph.yml").write_text(settings, encoding="utf-8")
    write_transcripts(ralph.root, home)
    expected_found = import_all(ralph.root, absent(ralph.root))
    expected_logs = logs(ralph.root)
    expected_ledger = files.read(paths.import_ledger(ralph.root))
    assert "ABC-" not in "".join(expected_logs.values())
    shutil.rmtree(paths.log_folder(ralph.root))
    assert import_all(ralph.root, rules(ralph.root)) == expected_found
    assert logs(ralph.root) == expected_logs
    assert files.read(paths.import_ledger(ralph.root)) == expected_ledger
    assert expected_found[1] != []


def test_killed_with_a_helper_and_run_again_gives_the_same(ralph: Project, home: Path) -> None:
    write_transcripts(ralph.root, home)
    import_all(ralph.root, absent(ralph.root))
    expected = logs(ralph.root)
    words = [sys.executable, "-m", helped_importing.__name__, str(ralph.root)]
    folder = paths.log_folder(ralph.root) / "sessions"
    for count in every((2, 9, 5), 2):
        shutil.rmtree(paths.log_folder(ralph.root))
        with subprocess.Popen(words, cwd=Path(__file__).parents[2]) as running:
            while running.poll() is None and len(list(folder.glob("*"))) < count:
                pass  # a kill in the middle of the work
            running.send_signal(signal.SIGKILL)
        import_all(ralph.root, helping(ralph.root))
        assert logs(ralph.root) == expected


def test_what_continues_a_log_is_left_to_the_first_process(ralph: Project, home: Path) -> None:
    write_transcripts(ralph.root, home)
    recorder = SessionRecorder(ralph.root)
    transcripts = histories.find(ImportContext(ralph.root, os.environ), "claude")
    with import_helper(helping(ralph.root), transcripts) as helper:
        assert helper is not None
        prepared = [result for result in map(helper.take, transcripts) if result is not None]
    assert len(prepared) >= SESSIONS // 2
    assert recorder.write(prepared[0]) == prepared[0].logs[0].added
    assert recorder.write(prepared[0]) is None
    assert recorder.prepare(transcripts[0]) is None


@pytest.mark.parametrize(("min_bytes", "is_core_free"), [(1 << 30, True), (0, False)])
def test_nobody_helps_with_few_transcripts_or_without_a_free_core(
    ralph: Project, min_bytes: int, is_core_free: bool
) -> None:
    rules = helping(ralph.root)._replace(min_bytes=min_bytes, is_core_free=lambda: is_core_free)
    with import_helper(rules, []) as helper:
        assert helper is None
