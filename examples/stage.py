"""The stage of the demo: a sample project of a user with an empty home, and a scripted agent in sessions."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

SHOWN_AS = "/home/ann"
SETTINGS = '{\n  "model": "opus",\n  "includeCoAuthoredBy": false\n}\n'
"""What stood in Claude Code's settings before."""
SOURCE = """export function login(user: User): string {
  return sessions.open(user.id);
}
"""
SKILL = "[ralph] Reference from earlier work is kept by Ralph."
"""How the text begins that teaches an agent; it is long, and the same each time."""


class Demo:
    """A sample project of a user with an empty home; runs commands there and shows them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "shop"
        self.source = self.project / "src" / "auth.ts"
        self.source.parent.mkdir(parents=True)
        self.source.write_text(SOURCE, encoding="utf-8", newline="")
        self.settings = home / ".claude" / "settings.json"
        self.settings.parent.mkdir()
        self.settings.write_text(SETTINGS, encoding="utf-8", newline="")
        self.took: list[float] = []
        self.environment = {
            "PATH": os.environ.get("PATH", ""), "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "120",
        }  # fmt: skip

    def say(self, words: str) -> None:
        """A heading."""
        self.show(f"\n=== {words}\n")

    def show(self, text: str) -> None:
        """Print, with the temporary folder under its stage name."""
        sys.stdout.write(text.replace(str(self.home), SHOWN_AS))

    def insist(self, holds: bool, what: str) -> None:
        """End the demo when something is not as it should be."""
        if not holds:
            raise SystemExit(f"the demo failed: {what}")

    def run(self, words: list[str], given: str | None, *, merged: bool = False) -> subprocess.CompletedProcess[str]:
        """One program in the project, in the clean environment; `merged` keeps the order of all that it prints."""
        return subprocess.run(
            words, cwd=self.project, env=self.environment, input=given, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE, encoding="utf-8", check=False,
        )  # fmt: skip

    def enter(self, project: Path) -> None:
        """Go on in another project."""
        self.project = project

    def put(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.project / name).write_text(text, encoding="utf-8", newline="")

    def quietly(self, *words: str) -> None:
        """Run a program that is no part of the story."""
        self.insist(self.run(list(words), None).returncode == 0, " ".join(words))

    def ralph(
        self, line: str, *, given: str | None = None, expect: int = 0, shown: bool = True, merged: bool = False
    ) -> str:
        """Run `ralph LINE`, show both, and insist on the exit code."""
        done = self.run([sys.executable, "-m", "ralph", *shlex.split(line)], given or "", merged=merged)
        if not shown:
            self.insist(done.returncode == expect, f"ralph {line}: exit {done.returncode}, expected {expect}")
            return done.stdout
        self.show(f"$ ralph {line}" + (f"   <<< {given!r}" if given is not None else "") + "\n")
        self.show(done.stdout + (done.stderr or ""))
        self.insist(done.returncode == expect, f"exit {done.returncode}, expected {expect}")
        if expect:
            self.show(f"(exit {done.returncode}, as it should)\n")
        return done.stdout


class Agent:
    """A session of the scripted agent: it works on the project and tells the hooks, as Claude Code does."""

    def __init__(self, demo: Demo, session: str) -> None:
        self.demo = demo
        self.session = session
        self.calls = 0

    def hook(self, event: str, **members: object) -> str:
        """Start the hook that the settings name for an event, and show what it hands over."""
        payload = {
            "session_id": self.session, "transcript_path": f"{self.demo.home}/.claude/transcript.jsonl",
            "cwd": str(self.demo.project), "permission_mode": "default", "hook_event_name": event, **members,
        }  # fmt: skip
        settings = json.loads(self.demo.settings.read_text(encoding="utf-8"))
        [hook] = settings["hooks"][event][0]["hooks"]
        said = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        began = time.perf_counter()
        done = self.demo.run([hook["command"], *hook["args"]], said)
        self.demo.took.append(time.perf_counter() - began)
        self.demo.insist((done.returncode, done.stderr) == (0, ""), f"{event}: a hook must end well and say no more")
        if not done.stdout:
            return ""
        text = str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
        handed, skill, how = text.partition(SKILL)
        self.demo.show("".join(f"| {line}\n" for line in handed.splitlines()))
        if skill:
            self.demo.show(f"| {skill}.. ({len(how.splitlines())} lines: what `ralph skill` prints)\n")
        return text

    def start(self) -> str:
        """The session begins."""
        self.demo.show(f"> a session starts ({self.session})\n")
        return self.hook("SessionStart", source="startup", model="opus")

    def asked(self, prompt: str) -> str:
        """Somebody types a prompt."""
        self.demo.show(f"> prompt: {prompt}\n")
        return self.hook("UserPromptSubmit", prompt=prompt)

    def edit(self, old: str, new: str) -> str:
        """Change the source, with what the hooks say before and after it."""
        self.demo.show("> Edit src/auth.ts\n")
        before = self.demo.source.read_text(encoding="utf-8")
        given = {"file_path": str(self.demo.source), "old_string": old, "new_string": new, "replace_all": False}
        told = self.hook("PreToolUse", tool_name="Edit", tool_input=given)
        self.demo.source.write_text(before.replace(old, new), encoding="utf-8", newline="")
        answer = {"filePath": given["file_path"], "oldString": old, "newString": new, "originalFile": before}
        return told + self._after("PostToolUse", "Edit", given, tool_response=answer)

    def shell(self, command: str, output: str, *, code: int = 0) -> str:
        """Pretend to run a command; a failure is an event of its own."""
        self.demo.show(f"> Bash: {command}" + (f"   (exit code {code})" if code else "") + "\n")
        given = {"command": command, "description": "run it"}
        told = self.hook("PreToolUse", tool_name="Bash", tool_input=given)
        if code:
            return told + self._after("PostToolUseFailure", "Bash", given, error=f"Exit code {code}\n{output}")
        return told + self._after("PostToolUse", "Bash", given, tool_response={"stdout": output, "stderr": ""})

    def _after(self, event: str, tool: str, given: dict[str, object] | dict[str, str], **members: object) -> str:
        self.calls += 1
        return self.hook(event, tool_name=tool, tool_input=given, tool_use_id=f"toolu_{self.calls:04}", **members)

    def stop(self, message: str) -> None:
        """The agent is done and says so; then the session ends."""
        self.demo.show(f"> says: {message}\n> the session ends\n")
        self.hook("Stop", stop_hook_active=False, last_assistant_message=message)
        self.hook("SessionEnd", reason="prompt_input_exit")
