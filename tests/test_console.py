"""The commands of the pages work: their blocks are run, in order, in a fresh project.

A `console` block shows commands and what they print, and both are compared. Ids and dates differ
from run to run and folders from machine to machine, so dates are masked, the project's folder is
called as the pages call it, and each id of a page stands for one id of the run, which is also put
in its place in later commands. These commands run in this process.

A `sh` block is a script for bash, which must succeed. A comment above a block that cannot run says
why: `<!-- not run: needs a PostgreSQL server -->`.

What a page tells between two blocks (somebody edits a file) is done by `MEANWHILE`.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support import shop_week, transcripts
from tests.support.runner import terminal

from ralph.cli.main import run
from ralph.memory import caller, terminals
from ralph.search import local_embedder

ROOT = Path(__file__).parents[1]
SHOWN_HOME = "/home/ann"
SHOWN = f"{SHOWN_HOME}/shop"
ID = re.compile(
    r"(?<![0-9A-Za-z])(?:[a-z]+-\d{9,}-[0-9a-f]{4,6}|(?:mem|fix|obs|ins)-[0-9a-f]{4}|t-[0-9a-f]{6}|run-[0-9a-f]{8})"
    r"(?![0-9A-Za-z])"
)
SCRIPT_SECONDS = 240
SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")
LEFT_OUT = "..."  # a line that stands for others
DATE = re.compile(
    r"\b\d{4}-\d\d-\d\d\b(?:T[\d:.]+Z| \d\d:\d\d\b)?"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2}\b"
)
TOKENS = re.compile(r"\b[\d,]+ (?=tokens|received)")
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n\n?)?"
    r"(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^(?:\$ )?ralph ", re.MULTILINE)
MOST_BLOCKS_NOT_RUN = 14
FOUND_NOTHING = re.compile(r"^No \w+ found", re.MULTILINE)
PAGES_WITHOUT_BLOCKS_TO_RUN = (
    "CHANGELOG.md",
    "AGENTS.md",
    "CLAUDE.md",
    "docs/cli.md",  # generated from the help, whose examples have their own test
    "docs/json.md",
)


@dataclass(frozen=True)
class Step:
    """One command or script of a page, and the last markdown block above it."""

    line: int
    command: str
    output: list[str] | None
    """What the page says that a command prints; None for a script."""
    above: str


def blocks(page: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The blocks of a page, each with the line on which its text begins."""
    for block in BLOCK.finditer(page):
        yield page.count("\n", 0, block.start("text")) + 1, block


def steps(page: str) -> Iterator[Step]:
    above = ""
    for first, block in blocks(page):
        if block["language"] == "markdown":
            above = block["text"]
        if block["reason"]:
            continue
        if block["language"] == "sh":
            yield Step(first, block["text"], None, above)
        if block["language"] == "console":
            yield from _commands(first, block["text"], above)


def _commands(first: int, text: str, above: str) -> Iterator[Step]:
    command = ""
    line = 0
    output: list[str] = []
    for number, shown in enumerate([*text.splitlines(), "$ "], first):
        if not shown.startswith("$ "):
            output.append(shown)
            continue
        if command:
            yield Step(line, command, _without_blank_ends(output), above)
        command = shown[2:]
        line = number
        output = []


def _settled(lines: list[str]) -> list[str]:
    """Lines in an order that does not hang on ids: of two equals the one with the lower id comes first, and that is
    another one in each run."""
    return sorted(lines, key=lambda line: ID.sub("ID", line))


def _without_blank_ends(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n") if any(lines) else []


def _masked(line: str) -> str:
    """Remove what differs from run to run."""
    line = DATE.sub("DATE", line)
    line = TOKENS.sub("N ", line)
    line = SECONDS.sub("N s", line)
    # a page shows what a person sees, and here no terminal is connected
    return line.replace("by=human", "by=agent").rstrip()


@dataclass
class Shop:
    """A project in which a page is played, and the folder in it where the reader stands."""

    folder: Path
    stand: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, notes included; the page's ids are replaced by this run's."""
        words = shlex.split(self.here(command))
        if words[0] == "cd":
            self.stand = os.path.normpath(Path(self.stand, words[1]))
            return []
        assert words[0] == "ralph", f"{command}: only ralph and cd are run"
        printed = io.BytesIO()
        stream = io.TextIOWrapper(printed, encoding="utf-8", newline="", write_through=True)
        with (
            contextlib.chdir(self.folder / self.stand),
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
        ):
            run(words[1:])
        text = printed.getvalue().decode()
        text = text.replace(str(self.folder), SHOWN).replace(str(self.folder.parent), SHOWN_HOME)
        return _without_blank_ends(text.splitlines())

    def run_script(self, script: str) -> tuple[int, str]:
        """The exit code of a script in bash, and what it printed."""
        result = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self.here(script)],
            cwd=self.folder / self.stand,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SCRIPT_SECONDS,
            check=False,
        )
        return result.returncode, result.stdout

    def here(self, text: str) -> str:
        """A text of the page with the ids of this run."""
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def same(self, shown: str, printed: str) -> bool:
        """Whether a line says the same as the page's; each id there stands for one id here."""
        left = _masked(shown)
        right = _masked(printed)
        if left.endswith("…"):  # a terminal cuts a table
            right = right[: len(left) - 1].rstrip() + "…"
        if ID.sub("ID", left) != ID.sub("ID", right):
            return False
        pairs = list(zip(ID.findall(left), ID.findall(right), strict=True))
        return all(self.ids.setdefault(theirs, ours) == ours for theirs, ours in pairs)


def _is_shown(shop: Shop, shown: list[str], printed: list[str]) -> bool:
    """Whether a page shows what was printed, in order or with lines left out."""
    if LEFT_OUT not in shown:
        return len(printed) == len(shown) and all(
            map(shop.same, _settled(shown), _settled(printed))
        )
    position = 0
    is_left_out = False
    for line in shown:
        if line == LEFT_OUT:
            is_left_out = True
            continue
        while is_left_out and position < len(printed) and not shop.same(line, printed[position]):
            position += 1
        if position == len(printed) or not shop.same(line, printed[position]):
            return False
        position += 1
        is_left_out = False
    return is_left_out or position == len(printed)


def _the_project_is_made(shop: Shop, step: Step) -> None:
    shop.run("ralph init")


def _a_sign_is_there(shop: Shop, step: Step) -> None:
    with (shop.folder / ".ralph/guardrails.md").open("a", encoding="utf-8", newline="") as file:
        file.write("\n" + step.above)


def _somebody_copied_an_entry(shop: Shop, step: Step) -> None:
    entry = "### mem-1705751400-a3f8\n> {}\n<!-- tags: db | created: 2024-01-20 -->\n\n"
    text = (
        "# Memories\n\n## Patterns\n\n"
        + entry.format("One.")
        + entry.format("Two.")
        + "### mem-oops\n> Three.\n\n"
    )
    text += "## Decisions\n\n## Fixes\n\n## Context\n"
    (shop.folder / ".agent/memories.md").write_text(text, encoding="utf-8", newline="")
    for backup in shop.folder.rglob("*.bak*"):
        backup.unlink()


def _committed(folder: Path, *names: str) -> None:
    env = {**os.environ, "HOME": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    ann = ["git", "-C", str(folder), "-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    subprocess.run([*ann, "add", "--all", *names], check=True, env=env)
    subprocess.run([*ann, "commit", "--quiet", "-m", "Work"], check=True, env=env)


def _the_shop_remembers(shop: Shop, step: Step) -> None:
    shop.run("ralph init")
    (shop.folder / "src").mkdir()
    (shop.folder / "src/pay.js").write_text(
        "export const pay = () => charge();\n", encoding="utf-8", newline=""
    )
    _committed(shop.folder)
    for setting in (("user.name", "ann"), ("user.email", "ann@example.com")):
        subprocess.run(["git", "-C", shop.folder, "config", *setting], check=True)


def _an_agent_works_there(shop: Shop, step: Step) -> None:
    said = [
        "Vouchers are read.\n<journal>Gotcha: pay() must burn the voucher in the transaction of the charge, or a retry "
        "spends it twice.</journal>",
        "Done.\n<journal>Gotcha: a retry spends the voucher twice, unless pay() burns it in the transaction of the "
        "charge.</journal>\n"
        '<knowledge tags="vouchers,money" title="Vouchers come in euros">The voucher API answers in euros; multiply by '
        "100 at its edge, for amounts are integer cents.</knowledge>\n<task-done>{task}</task-done>",
    ]
    work = [{"say": one, "write": {"src/vouchers.js": f"// {n}\n"}} for n, one in enumerate(said)]
    agent = shop.folder.parent / "agent.json"
    steps = [*work, {"say": "<verify-pass/>", "read_only": True}]
    agent.write_text(json.dumps({"steps": steps}), encoding="utf-8", newline="")
    (task,) = (ours for theirs, ours in shop.ids.items() if theirs == "t-7c2fd8")
    shop.run(f"ralph loop start --task {task} --agent scripted --command {agent} -c none")
    _committed(shop.folder / ".worktrees" / task)


def _the_file_is_renamed(shop: Shop, step: Step) -> None:
    _committed(shop.folder)
    (shop.folder / "src/vouchers.js").rename(shop.folder / "src/coupons.js")
    _committed(shop.folder)


def _a_week_passes(shop: Shop, step: Step) -> None:
    shop.run("ralph init")
    page = ID.sub("ID", (ROOT / "docs/learning.md").read_text(encoding="utf-8"))
    recording, remembered, *_, last = shop_week.live(shop.folder)
    assert recording == "Ralph is recording; your next session will know"
    for message in (remembered, last):
        assert TOKENS.sub("N ", ID.sub("ID", message)) in TOKENS.sub("N ", page)


def _sessions_are_held(shop: Shop, step: Step) -> None:
    assert shop_week.live(shop.folder)


def _an_agent_can_be_asked(shop: Shop, step: Step) -> None:
    shop_week.write_agent(shop.folder / "distil")


_FIRST = 'ralph memory add "ECONNREFUSED on 5432: the database is down, run docker compose up -d db" -t fix'


def _the_setup_is_confirmed(shop: Shop, _: Step) -> None:
    """Scripts run without a terminal, where `ralph setup` is only a preview."""
    code, said = shop.run_script("ralph setup --yes")
    assert code == 0, said


MEANWHILE: dict[tuple[str, str], Callable[[Shop, Step], None]] = {
    ("README.md", f"{_FIRST} --tags docker,db"): _the_project_is_made,
    ("docs/quickstart.md", "ralph setup"): _the_setup_is_confirmed,
    ("docs/quickstart.md", "ralph session list"): _sessions_are_held,
    ("docs/howto/troubleshooting.md", "ralph doctor"): _somebody_copied_an_entry,
    (
        "docs/tasks.md",
        'ralph task add "Pay with vouchers" --priority 1 --worktree',
    ): _the_shop_remembers,
    ("docs/tasks.md", "ralph review --status all"): _an_agent_works_there,
    ("docs/tasks.md", "ralph doctor --citations"): _the_file_is_renamed,
    ("docs/learning.md", "ralph review"): _a_week_passes,
    ("docs/learning.md", "ralph learn --agent command --command ./distil"): _an_agent_can_be_asked,
}
"""What happens in the story of a page before a command."""


def _claude_code_is_there(shop: Shop) -> None:
    (shop.folder.parent / ".claude").mkdir()
    for setting in (("user.name", "ann"), ("user.email", "ann@example.com")):
        subprocess.run(["git", "-C", shop.folder, "config", *setting], check=True)


def _new_machine(shop: Shop) -> None:
    _claude_code_is_there(shop)
    _an_agent_for_the_loop(shop)


def _work_for_a_loop(shop: Shop) -> None:
    shop.run("ralph init")
    _an_agent_for_the_loop(shop)
    _committed(shop.folder)


def _an_agent_for_the_loop(shop: Shop) -> None:
    """A project whose test fails, and a scripted agent that makes it pass."""
    (shop.folder / "Makefile").write_text(
        "test:\n\t@test -f src/vouchers.js\n", encoding="utf-8", newline=""
    )
    agent = shop.folder.parent / "agent.json"
    steps = [
        {"say": "Done.\n<task-done>{task}</task-done>", "write": {"src/vouchers.js": "// 1\n"}},
        {"say": "<verify-pass/>", "read_only": True},
    ]
    agent.write_text(json.dumps({"steps": steps}), encoding="utf-8", newline="")
    os.environ["RALPH_RALPH_AGENT"] = "scripted"
    os.environ["RALPH_RALPH_AGENT_COMMAND"] = str(agent)


def _initialised(shop: Shop) -> None:
    shop.run("ralph init")


def _earlier_work(shop: Shop) -> None:
    _initialised(shop)
    transcripts.work(shop.folder).write(shop.folder.parent)
    shop.run('ralph memory add "Run make gen before make test" -t fix')


def _committing(shop: Shop) -> None:
    _initialised(shop)
    for setting in (("user.name", "ann"), ("user.email", "ann@example.com")):
        subprocess.run(["git", "-C", shop.folder, "config", *setting], check=True)


PREPARED: dict[str, Callable[[Shop], None]] = {
    "docs/context.md": _initialised,
    "docs/howto/import.md": _earlier_work,
    "docs/howto/privacy.md": _initialised,
    "docs/howto/team.md": _committing,
    "docs/howto/troubleshooting.md": _initialised,
    "docs/howto/start.md": _claude_code_is_there,
    "docs/quickstart.md": _new_machine,
    "docs/howto/loop.md": _work_for_a_loop,
}
"""What is there before a page begins."""


IN_A_TERMINAL = (
    "docs/howto/privacy.md",
    "docs/learning.md",
    "docs/quickstart.md",
    "docs/tasks.md",
)
IN_A_PIPE = (
    "README.md",
    "docs/config.md",
    "docs/context.md",
    "docs/howto/import.md",
    "docs/howto/loop.md",
    "docs/howto/start.md",
    "docs/howto/team.md",
    "docs/howto/troubleshooting.md",
)
PAGES = (*IN_A_TERMINAL, *IN_A_PIPE)


@pytest.mark.skipif(shutil.which("git") is None, reason="the pages' project is a git repository")
@pytest.mark.parametrize("name", IN_A_PIPE)
def test_the_console_blocks_of_a_page_show_what_the_program_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    play(name, tmp_path, monkeypatch)


@pytest.mark.skipif(shutil.which("git") is None, reason="the pages' project is a git repository")
@pytest.mark.parametrize("name", IN_A_TERMINAL)
def test_the_page_shows_what_a_person_gets_in_a_terminal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "_parent_variables", list)  # an agent may run the tests
    monkeypatch.setattr(terminals, "is_at_own_terminal", lambda _: True)  # it has no shell in it
    with terminal() as (outer, inner), os.fdopen(os.dup(inner), encoding="utf-8") as keyboard:
        os.write(outer, b"n\n")  # `ralph init` asks about the merge driver
        monkeypatch.setattr(sys, "stdin", keyboard)
        play(name, tmp_path, monkeypatch)


def play(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of a page in a new project, and compare what they print with the page."""
    local_embedder.shared_local_embedder.cache_clear()  # a test before may have loaded the model; a command starts without it
    shop = Shop(tmp_path / "shop")
    for variable in set(os.environ) - {"PATH", "LD_LIBRARY_PATH", "PYTHONWARNDEFAULTENCODING"}:
        monkeypatch.delenv(variable)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"HOME": str(tmp_path), "PATH": programs, "COLUMNS": "120", "NO_COLOR": "1"}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    subprocess.run(["git", "init", "--quiet", "-b", "main", shop.folder], check=True)
    if name in PREPARED:
        PREPARED[name](shop)
    story = list(steps((ROOT / name).read_text(encoding="utf-8")))
    assert story, f"{name} has no block to run"
    for step in story:
        if step.command == "cd shop":
            continue
        if (name, _first_line(step)) in MEANWHILE:
            MEANWHILE[name, _first_line(step)](shop, step)
        if step.output is None:
            code, said = shop.run_script(step.command)
            assert code == 0, f"{name}:{step.line}: exit code {code}\n{step.command}\n{said}"
            assert not FOUND_NOTHING.search(said), f"{name}:{step.line}: {step.command}\n{said}"
            continue
        printed = shop.run(step.command)
        assert _is_shown(shop, step.output, printed), (
            f"{name}:{step.line}: {step.command}\n"
            + "\n".join(["prints:", *printed, "not:", *step.output])
        )


def _first_line(step: Step) -> str:
    return step.command.partition("\n")[0]


def test_every_event_between_blocks_belongs_to_a_command_of_its_page() -> None:
    for name, command in MEANWHILE:
        assert command in {
            _first_line(step) for step in steps((ROOT / name).read_text(encoding="utf-8"))
        }


def pages_with_blocks() -> Iterator[tuple[str, str]]:
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        name = path.relative_to(ROOT).as_posix()
        if name not in PAGES_WITHOUT_BLOCKS_TO_RUN:
            yield name, path.read_text(encoding="utf-8")


def test_a_block_with_commands_is_run_or_says_why_not() -> None:
    for name, page in pages_with_blocks():
        for line, block in blocks(page):
            if block["reason"] or not COMMAND.search(block["text"]):
                continue
            place = f"{name}:{line}"
            assert block["language"] in {"sh", "console"}, f"{place}: call the block `sh`"
            assert name in PAGES, f"{place}: no test runs the blocks of this page"


def test_few_blocks_are_not_run() -> None:
    not_run = [
        f"{name}:{line}: {block['reason']}"
        for name, page in pages_with_blocks()
        for line, block in blocks(page)
        if block["reason"]
    ]
    assert len(not_run) <= MOST_BLOCKS_NOT_RUN, "\n".join(not_run)
