"""From an adapter to the disk: at most six of our files are on the call stack when a verb writes or opens the index.

The stack is recorded by an audit hook at each call that opens a file for writing or connects to SQLite. It is counted
from the module of the command, tool or route; the dispatchers in front of it (`DISPATCHERS`) are the same for all.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.asking import Site
from tests.support.chat_programs import CLAUDE
from tests.support.runner import Project
from tests.support.talking import Talk, talk

from ralph.hooks import handler

SOURCE = str(Path(handler.__file__).parents[1])
MOST = 6
DISPATCHERS = (
    "cli/main.py",
    "cli/invocation.py",
    "cli/options.py",
    "web/requests.py",
    "web/access.py",
    "web/server.py",
    "mcp/server.py",
)
AGENT = [{"say": "Yes."}, {"say": "Yes.\n<verify-pass/>", "read_only": True}]


class Recorder:
    """Records the files of ours on the stack at each write and each connection, while it is on."""

    on = False

    def __init__(self) -> None:
        self.chains: list[tuple[str, list[str]]] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.on or event not in ("open", "sqlite3.connect"):
            return
        flags = arguments[2] if event == "open" else os.O_RDWR
        if not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
            return
        chain: list[str] = []
        frame = sys._getframe(1)
        while frame.f_back is not None:
            name = frame.f_code.co_filename
            module = name[len(SOURCE) + 1 :]
            if name.startswith(SOURCE) and module not in DISPATCHERS:
                chain.append(module)
            frame = frame.f_back
        self.chains.append((str(arguments[0]), list(dict.fromkeys(reversed(chain)))))


RECORDER = Recorder()
sys.addaudithook(RECORDER)


@pytest.fixture
def chain() -> Iterator[Callable[[str], list[str]]]:
    """Return the files on the stack at the first write of a path with these words in it."""

    def find(part: str) -> list[str]:
        RECORDER.on = False
        return next(files for path, files in RECORDER.chains if part in path and files)

    RECORDER.chains.clear()
    yield find
    RECORDER.on = False


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    project = Project(root)
    assert project("init").code == 0
    assert project("memory", "add", "Money is integer cents", "-t", "decision").code == 0
    project.put("agent.json", json.dumps(AGENT))
    return project


Chain = Callable[[str], list[str]]


def test_memory_add(shop: Project, chain: Chain) -> None:
    RECORDER.on = True
    shop("memory", "add", "Amounts are cents")
    assert len(chain("memories.md")) <= MOST


def test_search(shop: Project, chain: Chain) -> None:
    RECORDER.on = True
    shop("search", "cents")
    assert len(chain("ralph.db")) <= MOST


def test_task_done(shop: Project, chain: Chain) -> None:
    task = shop("task", "add", "Refund an order", "--format", "json").json["id"]
    RECORDER.on = True
    shop("task", "done", task)
    assert len(chain("task.json")) <= MOST


def test_loop_start(shop: Project, chain: Chain) -> None:
    RECORDER.on = True
    shop(
        "loop",
        "start",
        "look around",
        "--agent",
        "scripted",
        "--command",
        "agent.json",
        "--max-iterations",
        "1",
    )
    assert len(chain("/runs/")) <= MOST


def test_recording_hook(shop: Project, chain: Chain) -> None:
    payload = {
        "session_id": "s-1",
        "cwd": str(shop.root),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "hello",
    }
    RECORDER.on = True
    handler.run_event("claude", "UserPromptSubmit", json.dumps(payload).encode(), dict(os.environ))
    assert len(chain("s-1.jsonl")) <= MOST


def test_web_edit(shop: Project, chain: Chain) -> None:
    site = Site(shop.root)
    record_id = site.get("/api/records", limit=1)["items"][0]["id"]
    request = {"action": "edit", "id": record_id, "text": "Money is always integer cents"}
    plan = site.post("/api/changes/plan", **request)
    RECORDER.on = True
    site.post(
        "/api/changes/apply",
        **request,
        stamps={file["name"]: file["before"] for file in plan["files"]},
    )
    assert len(chain("memories.md")) <= MOST


def test_mcp_memory_add(shop: Project, chain: Chain) -> None:
    async def add(conversation: Talk) -> None:
        RECORDER.on = True
        await conversation.got("memory_add", text="Amounts are cents")

    talk(shop.root, add)
    assert len(chain("memories.md")) <= MOST


def test_session_resume(
    shop: Project, chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    text = CLAUDE.format(python=sys.executable, record=str(tmp_path / "record"))
    program.write_text(text, encoding="utf-8", newline="")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    task = shop("task", "add", "Refund an order", "--format", "json").json["id"]
    begun = shop("session", "chat", "--task", task, "--agent", "claude", "How?", "--format", "json")
    assert begun.code == 0, begun.err
    session = begun.json["id"]
    RECORDER.on = True
    shop("session", "chat", session, "And then?")
    assert len(chain("/sessions/")) <= MOST
