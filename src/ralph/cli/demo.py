"""`ralph demo`: show what Ralph does, from start to finish, on sample projects.

A line with `$` is a real command, followed by its output. A line with `>` is an action of a
scripted agent that stands in for Claude Code: it runs the hooks that `ralph install claude` wrote
into the settings, with the JSON that Claude Code would send. A line with `|` is injected text, and
a line that begins with `Ralph` is what the client shows its user. The demo needs no key and no
network. It writes only to a temporary folder, which it shows as /home/ann. On a terminal, it waits
for the reader after each page.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import NamedTuple

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, can_ask
from ralph.core import launchers, process
from ralph.core.errors import RalphError
from ralph.lean import discovery
from ralph.storage import files

_RALPH = [
    sys.executable,
    "-c",
    "import os; os.dup2(1, 2); from ralph.__main__ import main; raise SystemExit(main())",
]
"""Ralph in a separate process. Both streams are combined, so that lines keep their order."""

_ACCEPT = [
    sys.executable,
    "-c",
    "import sys; from pathlib import Path; from ralph.learning import review; "
    "print('Accepted', review.accept(Path.cwd(), sys.argv[1]).record.id)",
]
"""Accept a proposal as a person does by pressing a key. No person is there to ask."""

_SHOWN_HOME = r"C:\Users\ann" if sys.platform == "win32" else "/home/ann"
_WINDOWS_VARIABLES = (
    "COMPUTERNAME",
    "COMSPEC",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
)
"""Variables without which programs do not work on Windows."""
_MAX_SECONDS = 120  # that one command in the demo may take
_SCENES = 8

_SETTINGS = '{\n  "model": "opus",\n  "includeCoAuthoredBy": false\n}\n'
_AUTH = "export function login(user: User): string {\n  return sessions.open(user.id);\n}\n"
_SIGNED = 'return jwt.sign({ sub: user.id }, process.env.JWT_KEY, { expiresIn: "15m" });'
_KEYED = 'return jwt.sign({ sub: user.id }, keys.current(), { expiresIn: "15m" });'
_FAILED_TEST = (
    "FAIL tests/auth.test.ts\n"
    "  JsonWebTokenError: secretOrPrivateKey must have a value\n"
    "\n"
    "1 failed, 11 passed"
)
_NO_BROWSER = (
    "  Error: browserType.launch: Executable doesn't exist at .cache/ms-playwright/chromium\n"
    "\n"
    "  3 failed"
)
_TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
_PRIVATE_NUMBER = "555-0100"
_TEST = """import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1.10, 2.20]), 3.30)
"""
_FIXED_CART = "def total(prices):\n    return round(sum(prices), 2)\n"
_AGENT_ANSWER = """Fixed.
<journal>total() subtracted 1 and did not round.</journal>
<task-done>{task}</task-done>
<knowledge tags="cart,prices,rounding" title="Prices are floats and must be rounded">
Prices in cart.py are floats: 1.10 + 2.20 is 3.3000000000000003. Round every sum to two digits.
</knowledge>"""
_AGENT = [
    {"say": _AGENT_ANSWER, "write": {"cart.py": _FIXED_CART}},
    {
        "say": "The test checks what the task says, and nothing was weakened.\n<verify-pass/>",
        "read_only": True,
    },
]
"""The loop's scripted agent. It fixes the cart, and a second session verifies the fix."""


@click.command(
    name="demo", cls=Command, examples=["ralph demo", "ralph demo --keep", "ralph demo --team"]
)
@click.option("--yes", is_flag=True, help="Do not wait for Enter after each page.")
@click.option("--keep", is_flag=True, help="Keep the sample project, and print how to look at it.")
@click.option(
    "--team",
    is_flag=True,
    help="Watch two simulated machines share a memory, with a temporary PostgreSQL server.",
)
def cli(yes: bool, keep: bool, team: bool) -> None:
    """Watch Ralph work on sample projects.

    The demo shows a loop, two sessions, what is learned in between, search, and what stays private.
    It needs no API key and no network access. In a terminal, it waits for Enter after each page and
    ends by offering to show the sample project in a browser.
    """
    options.exclude({"--team": team, "--keep": keep})
    if team:
        from ralph.cli import team_demo

        team_demo.show()
        return
    can_wait = can_ask() and sys.stdout.isatty() and not yes
    home = Path(tempfile.mkdtemp(prefix="ralph-demo-")).resolve()
    is_kept = False
    try:
        stage = Stage(home, pages=_Pages(_page_size()) if can_wait else None)
        _play(stage)
        is_kept = keep
        if keep:
            click.echo(f"\nThe sample project is in {stage.project}. To see it in a browser:")
            click.echo(f"  {_web_command(stage)}")
        else:
            click.echo("\n`ralph demo --keep` keeps the sample project for you to look at.")
        if can_wait and click.confirm("Open it in a browser now?", default=True):
            _open_web(stage)
    finally:
        if not is_kept:
            files.remove_tree(home)


def _play(stage: Stage) -> None:
    _run_loop(stage)
    _first_session(stage)
    _keep_lessons(stage)
    _second_session(stage)
    _check_privacy(stage)
    _search_and_uninstall(stage)
    stage.title(
        "Done: worked until the test passed, recorded, learned and recalled, in plain files."
    )


# --- looking at the sample project ----------------------------------------------------------------


def _state_home(stage: Stage) -> str:
    """Return where the sample's user keeps state, without which its logs are another machine's."""
    return str(Path(discovery.user_folder("STATE", stage.env)).parent)


def _web_command(stage: Stage) -> str:
    if sys.platform == "win32":
        words = [sys.executable, "-m", "ralph", "web", "--root", str(stage.project)]
        line = " ".join(map(_quote_for_powershell, words))
        return f"$env:XDG_STATE_HOME={_quote_for_powershell(_state_home(stage))}; & {line}"
    program = launchers.agent_program(sys.executable, os.environ)
    state = shlex.quote(_state_home(stage))
    project = shlex.quote(str(stage.project))
    return f"XDG_STATE_HOME={state} {program} web --root {project}"


def _quote_for_powershell(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def _open_web(stage: Stage) -> None:
    from ralph.cli.servers import web

    os.environ["XDG_STATE_HOME"] = _state_home(stage)
    call = Invocation(explicit_root=stage.project)
    click.echo("Ctrl-C ends it.")
    web.main([], prog_name="ralph web", standalone_mode=False, obj=call)


# --- pages ----------------------------------------------------------------------------------------


_MAX_PAGE_LINES = 40
_MIN_PAGE_LINES = 10  # also on a very small terminal
_PROMPT_LINES = 2  # the line that asks for Enter, and the one that the reader left


def _page_size() -> os.terminal_size:
    size = shutil.get_terminal_size()
    lines = max(min(size.lines - _PROMPT_LINES, _MAX_PAGE_LINES), _MIN_PAGE_LINES)
    return os.terminal_size((size.columns, lines))


class _Pages:
    """Divides what is printed into pages, and waits for the reader after each one."""

    def __init__(self, size: os.terminal_size) -> None:
        self._size = size
        self._lines = 0  # on the current page
        self._is_reader_gone = False

    def add_line(self, line: str) -> None:
        """Count a line before it is printed. If it does not fit on the page, wait first."""
        columns = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)
        rows = max(1, -(-columns // self._size.columns))
        if self._lines + rows > self._size.lines:
            self.end_page()
        self._lines += rows

    def end_scene(self) -> None:
        """Begin a new page, unless little of the current one is used."""
        if self._lines * 2 > self._size.lines:
            self.end_page()

    def end_page(self) -> None:
        """Wait until the reader presses Enter. At the end of the input, stop waiting."""
        self._lines = 0
        if self._is_reader_gone:
            return
        click.echo("-- Enter to go on, Ctrl-C to stop --", nl=False)
        self._is_reader_gone = not sys.stdin.readline()


# --- the stage ------------------------------------------------------------------------------------


class ProgramResult(NamedTuple):
    """A program's exit code, and its output on both streams."""

    code: int | None
    output: str


class Stage:
    """A user with an empty home and a project. Programs run there, and their output is printed."""

    def __init__(
        self, home: Path, shown_home: str = _SHOWN_HOME, pages: _Pages | None = None
    ) -> None:
        self.home = home
        self._shown_home = shown_home
        self._pages = pages
        self._scenes = 0
        self.project = home / "shop"
        self.settings = home / ".claude" / "settings.json"
        self.write("src/auth.ts", _AUTH)
        files.write(self.settings, _SETTINGS)
        interpreter_folder = str(Path(sys.executable).parent)  # the sample's tests need a Python
        self.env = {
            "PATH": os.pathsep.join([interpreter_folder, os.environ.get("PATH", "")]),
            discovery.HOME_VARIABLE: str(home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        for name in _WINDOWS_VARIABLES:
            if name in os.environ:
                self.env[name] = os.environ[name]

    def title(self, text: str) -> None:
        """Print a title."""
        self.show(f"\n=== {text}\n")

    def scene(self, text: str) -> None:
        """Print the title of the next scene, with its number."""
        if self._pages is not None:
            self._pages.end_scene()
        self._scenes += 1
        self.title(f"{self._scenes}/{_SCENES} {text}")

    def show(self, text: str) -> None:
        """Print text, showing the temporary folder as a home folder."""
        shown = text.replace(str(self.home), self._shown_home)
        for line in shown.splitlines(keepends=True):
            if self._pages is not None:
                self._pages.add_line(line.rstrip("\n"))
            click.echo(line, nl=False)

    def check(self, holds: bool, problem: str) -> None:
        """Stop the demo if it does not do what it claims to show.

        Raises `RalphError` with the problem.
        """
        if not holds:
            raise RalphError(
                f"the demo failed: {problem}", hint="please report this: it should work everywhere"
            )

    def write(self, name: str, text: str) -> None:
        """Write a file in the project."""
        files.write(self.project / name, text)

    def run(self, argv: list[str], stdin: str = "") -> ProgramResult:
        """Run a program in the project, without printing its output."""
        result = process.run(
            argv, cwd=self.project, stdin=stdin, env=self.env, timeout=_MAX_SECONDS
        )
        return ProgramResult(result.code, result.out + result.err)

    def ralph(self, line: str, *, stdin: str = "", code: int = 0) -> str:
        """Run a `ralph` command, print it with its output, and check its exit code."""
        shown = f"$ ralph {line}"
        if stdin:
            shown += f"   <<< {stdin!r}"
        self.show(f"{shown}\n")
        result = self.run([*_RALPH, *shlex.split(line)], stdin)
        self.show(result.output)
        self.check(result.code == code, f"ralph {line}: exit code {result.code}, expected {code}")
        return result.output


class _Session:
    """A session of the scripted agent, which works on the project and runs the hooks."""

    def __init__(self, stage: Stage, session_id: str) -> None:
        self.stage = stage
        self.session_id = session_id
        self.brief = self._hook(
            f"a session starts ({session_id})", "SessionStart", source="startup", model="opus"
        )

    def prompt(self, text: str) -> str:
        """Send a prompt, and return the injected text."""
        return self._hook(f"prompt: {text}", "UserPromptSubmit", prompt=text)

    def edit(self, old: str, new: str) -> None:
        """Edit src/auth.ts."""
        path = self.stage.project / "src" / "auth.ts"
        before = path.read_text(encoding="utf-8")
        self.stage.write("src/auth.ts", before.replace(old, new))
        tool = {"file_path": str(path), "old_string": old, "new_string": new, "replace_all": False}
        response = {
            "filePath": str(path),
            "oldString": old,
            "newString": new,
            "originalFile": before,
        }
        self._use_tool("Edit src/auth.ts", "Edit", tool, "PostToolUse", tool_response=response)

    def shell(self, command: str, output: str, *, code: int = 0) -> str:
        """Run a command that prints `output`, and return the injected text."""
        line = f"Bash: {command}"
        tool = {"command": command, "description": "run it"}
        if code:
            line = f"{line}   (exit code {code})"
            error = f"Exit code {code}\n{output}"
            return self._use_tool(line, "Bash", tool, "PostToolUseFailure", error=error)
        response = {"stdout": output, "stderr": ""}
        return self._use_tool(line, "Bash", tool, "PostToolUse", tool_response=response)

    def end(self, message: str) -> None:
        """Print the agent's last message and end the session."""
        self._hook(
            f"says: {message}", "Stop", stop_hook_active=False, last_assistant_message=message
        )
        self._hook("the session ends", "SessionEnd", reason="prompt_input_exit")

    def _use_tool(self, line: str, name: str, tool: object, event: str, **result: object) -> str:
        """Run the hooks before and after a tool call, and return the text that they inject."""
        before = self._hook(line, "PreToolUse", tool_name=name, tool_input=tool)
        after = self._hook("", event, tool_name=name, tool_input=tool, **result)
        return before + after

    def _hook(self, line: str, event: str, **members: object) -> str:
        """Run the hook for an event as Claude Code does, and return the injected text."""
        if line:
            self.stage.show(f"> {line}\n")
        settings = json.loads(self.stage.settings.read_text(encoding="utf-8"))
        [hook] = settings["hooks"][event][0]["hooks"]
        payload = {
            "session_id": self.session_id,
            "cwd": str(self.stage.project),
            "hook_event_name": event,
            **members,
        }
        argv = [hook["command"], *hook.get("args", [])]
        result = self.stage.run(argv, json.dumps(payload))
        self.stage.check(result.code == 0, f"the hook of {event} failed")
        if not result.output:
            return ""
        answer = json.loads(result.output)
        if "systemMessage" in answer:
            self.stage.show(f"{answer['systemMessage']}\n")
        text = str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))
        self._show_injected(text)
        return text

    def _show_injected(self, text: str) -> None:
        for line in text.splitlines():
            self.stage.show(f"| {line}\n")


# --- the scenes -----------------------------------------------------------------------------------


def _run_loop(stage: Stage) -> None:
    stage.scene("A project with a failing test, and an agent that works until it passes")
    shop = stage.project
    stage.project = stage.home / "cart"
    stage.write("cart.py", "def total(prices):\n    return sum(prices) - 1\n")
    stage.write("tests/test_cart.py", _TEST)
    stage.write("agent.json", json.dumps(_AGENT))
    if shutil.which("git"):
        stage.check(stage.run(["git", "init", "-q"]).code == 0, "git init")
    stage.ralph("init")
    stage.ralph('loop start "make the cart\'s test pass" --agent scripted --command agent.json')
    stage.ralph("loop show --journal")
    stage.scene("What the loop learned is in the next prompt about the cart")
    context = stage.ralph('context "add with_vat() to cart.py"')
    stage.check(
        "Round every sum to two digits" in context, "the next prompt lacks what the loop learned"
    )
    stage.project = shop


def _first_session(stage: Stage) -> None:
    stage.scene(
        "Session 1: login with a token; two commands fail and are fixed; a tool prints a secret"
    )
    stage.ralph("init")
    stage.ralph("install claude")
    session = _Session(stage, "3f2a91c4-0000-4000-8000-000000000001")
    session.prompt(
        f"Let login in src/auth.ts return a JWT <private>for Mina, {_PRIVATE_NUMBER}</private>"
    )
    session.edit("return sessions.open(user.id);", _SIGNED)
    session.shell("npm test", _FAILED_TEST, code=1)
    session.edit(_SIGNED, _KEYED)
    session.shell("npm test", "PASS tests/auth.test.ts\n\n12 passed")
    session.shell("npm run e2e", _NO_BROWSER, code=1)
    session.shell("npx playwright install chromium", "chromium v1091 downloaded")
    session.shell("npm run e2e", "  3 passed (4.1s)")
    session.prompt(
        "remember: never read JWT_KEY from the environment in src/auth.ts: keys rotate, "
        "ask keys.current()"
    )
    session.shell("npm run preview", f"GITHUB_TOKEN={_TOKEN}\npreview is up")
    session.end(
        "login in src/auth.ts signs a JWT that lives 15 minutes; the key comes from keys.current()."
    )
    stage.scene("What was recorded, without a model")
    stage.ralph("session list")
    stage.ralph("session show --summary")


def _keep_lessons(stage: Stage) -> None:
    stage.scene("What Ralph proposes to keep, and what somebody adds")
    stage.ralph("review")
    [proposal] = stage.run([*_RALPH, "review", "--format", "quiet"]).output.split()
    stage.show("> Ann runs `ralph review` in a terminal and presses a (accept)\n")
    accepted = stage.run([*_ACCEPT, proposal])
    stage.show(accepted.output)
    stage.check(accepted.code == 0, "the proposal was not accepted")
    stage.ralph('memory add "결제 서비스의 인증은 services/auth 에 있다" -t context --tags auth')
    stage.ralph(
        'memory add "npm test fails: run npm run build first" --in guardrails -t fix '
        "--tags build,test"
    )
    stage.ralph('context "modify auth.ts" --explain')


def _second_session(stage: Stage) -> None:
    stage.scene("Session 2: the same file again; nobody explains anything twice")
    session = _Session(stage, "b7705d1e-0000-4000-8000-000000000002")
    for lesson in ("keys.current()", "npx playwright install chromium"):
        stage.check(lesson in session.brief, "the session does not start with what was learned")
    stage.check(
        "expiresIn" in session.prompt("modify auth.ts"),
        "the prompt was not answered with the earlier edit",
    )
    session.edit('expiresIn: "15m"', 'expiresIn: "5m"')
    stage.show("(meanwhile, in another terminal:)\n")
    stage.ralph(
        "memory add - -t fix --tags docker,dev",
        stdin="ECONNREFUSED on 5432: run `docker compose up -d db` first",
    )
    stage.ralph('search "5432"')
    fix = session.shell("npm run migrate", "Error: connect ECONNREFUSED 127.0.0.1:5432", code=1)
    stage.check("docker compose up -d db" in fix, "the known fix was not given at the failure")
    session.end("Tokens live 5 minutes now; the key still comes from keys.current().")


def _check_privacy(stage: Stage) -> None:
    stage.scene("The tool's secret and the prompt's private words are nowhere on the disk")
    written = [path for path in stage.home.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in written)
    stage.check(b"GITHUB_TOKEN" in content, "the event with the secret was not recorded at all")
    for private in (_TOKEN, _PRIVATE_NUMBER):
        stage.check(private.encode() not in content, "something private is on the disk")
    stage.show(f"(searched every byte of {len(written)} files: neither is there)\n")
    stage.ralph('search --layer 3 --limit 1 "npm run preview"')
    stage.ralph("memory add -", stdin=f"Deploy with GITHUB_TOKEN={_TOKEN}", code=1)


def _search_and_uninstall(stage: Stage) -> None:
    stage.scene("Search word forms, typos and Korean; then uninstall")
    stage.ralph('search --layer 2 --limit 1 "expiring tokens"')
    stage.ralph('search "인증"')
    stage.ralph('memory search "conection docker"')
    stage.ralph("status --usage")
    stage.ralph("uninstall claude")
    stage.check(
        stage.settings.read_text(encoding="utf-8") == _SETTINGS,
        "the settings are not what they were before",
    )
    stage.show("(the settings are what they were before, byte for byte; memories and logs stay)\n")
