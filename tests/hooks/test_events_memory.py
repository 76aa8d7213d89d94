"""What sessions leave behind must not hide what was kept on purpose, nor tell what was made private."""

import json
from pathlib import Path

from ralph.core import paths
from ralph.core.record import MemoryKind
from ralph.core.settings import Config
from ralph.hooks.handler import run_event
from ralph.memory import memory, memory_files
from ralph.recall import prompt_context


def test_many_prompts_alike_do_not_crowd_a_memory_out(tmp_path: Path) -> None:
    memory_files.init(tmp_path)
    words = "JWT refresh in src/auth.ts: rotate the token on every use, else replay works"
    memory.add(tmp_path, words, kind=MemoryKind.FIX)
    env = {"HOME": str(tmp_path)}
    for number in range(12):
        said = {
            "session_id": f"0000-{number}",
            "cwd": str(tmp_path),
            "prompt": "fix the JWT refresh token bug",
        }
        run_event("claude", "UserPromptSubmit", json.dumps(said).encode(), env)
        said["last_assistant_message"] = "ok"
        run_event("claude", "Stop", json.dumps(said).encode(), env)
    assert (
        "rotate the token"
        in prompt_context.answer_prompt(tmp_path, Config(), "fix the JWT refresh token bug").text
    )


def test_what_an_edit_makes_private_is_not_kept_as_it_was_before(tmp_path: Path) -> None:
    memory_files.init(tmp_path)
    change = {
        "file_path": "a.md",
        "old_string": "Bob was fired",
        "new_string": "<private>Bob was fired</private>",
    }
    said = {"session_id": "0000-1", "cwd": str(tmp_path), "tool_name": "Edit", "tool_input": change}
    run_event("claude", "PostToolUse", json.dumps(said).encode(), {"HOME": str(tmp_path)})
    logs = list((paths.log_folder(tmp_path) / "sessions").iterdir())
    assert logs
    assert all("fired" not in log.read_text(encoding="utf-8") for log in logs)
