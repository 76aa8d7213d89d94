"""`make demo`: Ralph's main job, end to end, on a sample project in a temporary folder.

A line that begins with `$` is a real command, run as a user would run it; what follows is what it printed.
A line that begins with `>` is what a scripted agent does. It stands in for Claude Code: for each event it
starts what `ralph install claude` wrote into the settings, with the JSON that Claude Code sends, in a clean
environment. A line that begins with `|` is what a hook handed over. No key, no network, and nothing outside
of the temporary folder is touched; that folder is shown as /home/ann.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SHOWN_AS = "/home/ann"
FAKE_TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
"""Made up; it only has the shape of a token."""
SETTINGS = '{\n  "model": "opus",\n  "includeCoAuthoredBy": false\n}\n'
"""What stood in Claude Code's settings before."""
SOURCE = """export function login(user: User): string {
  return sessions.open(user.id);
}
"""
SIGNED = 'return jwt.sign({ sub: user.id }, process.env.JWT_KEY, { expiresIn: "15m" });'
KEYED = 'return jwt.sign({ sub: user.id }, keys.current(), { expiresIn: "15m" });'
FIX = "ECONNREFUSED on 5432: run `docker compose up -d db` first"
SKILL = "[ralph] Reference from earlier work is kept by Ralph."
"""How the text begins that teaches an agent; it is long, and the same each time."""
BROKEN = "FAIL tests/auth.test.ts\n  JsonWebTokenError: secretOrPrivateKey must have a value\n\n1 failed, 11 passed"


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

    def run(self, words: list[str], given: str | None) -> subprocess.CompletedProcess[str]:
        """One program in the project, in the clean environment."""
        return subprocess.run(
            words, cwd=self.project, env=self.environment, input=given, capture_output=True, encoding="utf-8",
            check=False,
        )  # fmt: skip

    def ralph(self, line: str, *, given: str | None = None, expect: int = 0) -> str:
        """Run `ralph LINE`, show both, and insist on the exit code."""
        done = self.run([sys.executable, "-m", "ralph", *shlex.split(line)], given or "")
        self.show(f"$ ralph {line}" + (f"   <<< {given!r}" if given is not None else "") + "\n")
        self.show(done.stdout + done.stderr)
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
            self.demo.show(f"| {skill}.. ({len(how.splitlines())} lines: what `ralph skill show` prints)\n")
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


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory(prefix="ralph-demo-") as folder:
        demo = Demo(Path(folder).resolve())
        install(demo)
        work_on_auth(demo)
        look_back(demo)
        learn(demo)
        modify_auth(demo)
        keep_private(demo)
        find(demo)
        edit_by_hand(demo)
        take_out(demo)
        demo.say("Done: recorded, remembered and handed over, in plain files.")


def install(demo: Demo) -> None:
    """A project that remembers, and an agent with hooks."""
    demo.say("A project that remembers, and an agent with Ralph's hooks")
    demo.ralph("init")
    demo.ralph("install claude")


def work_on_auth(demo: Demo) -> None:
    """The first session: a change, a failing test, its fix."""
    demo.say("Session 1: login with a token; a test fails and is mended; a tool prints a secret")
    agent = Agent(demo, "3f2a91c4-0000-4000-8000-000000000001")
    agent.start()
    agent.asked("Let login in src/auth.ts return a JWT <private>for Mina, 555-0100</private>")
    agent.edit("return sessions.open(user.id);", SIGNED)
    agent.shell("npm test", BROKEN, code=1)
    agent.edit(SIGNED, KEYED)
    agent.shell("npm test", "PASS tests/auth.test.ts\n\n12 passed")
    agent.shell("npm run preview", f"GITHUB_TOKEN={FAKE_TOKEN}\npreview is up")
    agent.stop("login in src/auth.ts signs a JWT that lives 15 minutes; the key comes from keys.current().")


def look_back(demo: Demo) -> None:
    """What is left of it."""
    demo.say("What was recorded, and what it comes to; no model was asked")
    demo.ralph("session list")
    demo.ralph("session show --layer 2 --limit 4")
    demo.ralph("session summary")


def learn(demo: Demo) -> None:
    """What somebody decides to keep."""
    demo.say("What somebody decides to keep: memories, in a file that git keeps")
    demo.ralph(
        'memory add "Never read JWT_KEY from the environment in src/auth.ts: keys rotate, ask keys.current()" '
        "-t decision --tags auth,jwt"
    )
    demo.ralph('memory add "결제 서비스의 인증은 services/auth 에 있다" -t context --tags auth')
    demo.ralph('guardrails add "npm test fails: run npm run build first" --tags build,test')
    demo.ralph('context "modify auth.ts" --explain')


def modify_auth(demo: Demo) -> None:
    """The second session: what it is handed, and when."""
    demo.say("Session 2: the same file again; nobody explains anything twice")
    agent = Agent(demo, "b7705d1e-0000-4000-8000-000000000002")
    brief = agent.start()
    demo.insist("npm run build" in brief and "keys.current()" in brief, "the brief lacks what was learned")
    told = agent.asked("modify auth.ts")
    demo.insist("expiresIn" in told, "the prompt was not answered with what was done to auth.ts")
    agent.edit('expiresIn: "15m"', 'expiresIn: "5m"')
    demo.show("(meanwhile, in another terminal:)\n")
    demo.ralph("memory add - -t fix --tags docker,dev", given=FIX)
    demo.ralph('memory search "5432"')
    known = agent.shell("npm run migrate", "Error: connect ECONNREFUSED 127.0.0.1:5432", code=1)
    demo.insist("docker compose up -d db" in known, "the known fix was not told at the failure")
    agent.shell("docker compose up -d db", "Container shop-db-1  Started")
    agent.stop("Tokens live 5 minutes now; the key still comes from keys.current().")
    demo.show(f"({len(demo.took)} calls of hooks so far; the median took {median(demo.took) * 1000:.0f} ms)\n")
    demo.ralph("stats")


def keep_private(demo: Demo) -> None:
    """Secrets and private parts are nowhere on the disk."""
    demo.say("The secret of the tool and the private words of the prompt are nowhere")
    everything = [path for path in demo.home.rglob("*") if path.is_file()]
    held = b"".join(path.read_bytes() for path in everything)
    demo.insist(b"GITHUB_TOKEN" in held, "the event with the secret was not recorded at all")
    demo.insist(FAKE_TOKEN.encode() not in held and b"555-0100" not in held, "something private is on disk")
    demo.show(f"(looked through every byte of {len(everything)} files: neither is there)\n")
    demo.ralph('search --layer 3 --limit 1 "npm run preview"')
    demo.ralph("memory add -", given=f"Deploy with GITHUB_TOKEN={FAKE_TOKEN}", expect=1)


def find(demo: Demo) -> None:
    """Search forgives, and knows several languages."""
    demo.say("Search: what happened and what was learned; word forms, typos, Korean")
    demo.ralph('search --layer 2 --limit 1 "expiring tokens"')
    demo.ralph('search "인증"')
    demo.ralph('memory search "conection docker"')
    demo.ralph('search "kubernetes" --format json')


def edit_by_hand(demo: Demo) -> None:
    """The file belongs to people."""
    demo.say("A person edits the file by hand; Ralph keeps every byte of it")
    path = demo.project / ".agent" / "memories.md"
    text = path.read_text(encoding="utf-8")
    mine = "<!-- reviewed by Mina -->\n\n### mem-1705751400-a3f8\n> Main API is in /services/core\n"
    path.write_text(text.replace("## Context\n", f"## Context\n\n{mine}"), encoding="utf-8", newline="")
    demo.show("(added by hand: a comment and the memory mem-1705751400-a3f8, without metadata)\n")
    demo.ralph("memory edit mem-1705751400-a3f8 --tags api,layout")
    demo.insist("<!-- reviewed by Mina -->" in path.read_text(encoding="utf-8"), "a person's comment is gone")
    demo.ralph("memory prime --budget 160")


def take_out(demo: Demo) -> None:
    """Everything is in order, and goes without a trace."""
    demo.say("Everything in order? And out again")
    demo.ralph("status")
    demo.ralph("doctor --secrets")
    demo.ralph("uninstall claude")
    demo.insist(demo.settings.read_text(encoding="utf-8") == SETTINGS, "the settings are not as they were")
    demo.show("(the settings are what they were, byte for byte; memories and logs stay)\n")


if __name__ == "__main__":
    main()
