"""Shells complete commands, options and values; what the shells themselves do is tested in tests/e2e."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.runner import Block, Project, page
from tests.support.session_logs import line as log_line

from ralph.cli.main import GROUPS, cli

TIMES = {"as_of", "before", "since", "since_", "until", "valid_from", "valid_until"}
FREE_TEXT = TIMES | {
    "base",
    "command",
    "members",
    "readers",
    "versions",
    "matching",
    "permission",
    "model",
    "content",
    "description",
    "feedback",
    "file",
    "files",
    "goal",
    "message",
    "new",
    "page",
    "project",
    "prompt",
    "query",
    "reason",
    "text",
    "title",
    "url",
    "why",
    "words",
}
"""Options and arguments for which nothing can be suggested."""


@pytest.fixture
def ask(ralph: Project, monkeypatch: pytest.MonkeyPatch) -> "Asker":
    """Ask for completions in a project in which Ralph has run."""
    assert ralph("status").code == 0
    return Asker(ralph, monkeypatch)


class Asker:
    """Asks as a shell does."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self.monkeypatch = monkeypatch

    def __call__(self, line: str, shell: str = "zsh") -> list[str]:
        """Return the completed words."""
        return [value for value, _ in self.described(line, shell)]

    def described(self, line: str, shell: str = "zsh") -> list[tuple[str, str]]:
        """Return the completed words with their descriptions."""
        with self.monkeypatch.context() as patch:
            patch.setenv("_RALPH_COMPLETE", f"{shell}_complete")
            patch.setenv("_RALPH_WORDS", line)
            said = self.project()
        assert said.err == ""
        rows = [row.split("\t") for row in said.out.splitlines() if row]
        return [(value, text) for kind, value, text in rows if kind == "plain"]


def test_commands_come_with_their_summaries(ask: Asker) -> None:
    assert ("doctor", GROUPS["Start"]["doctor"].summary) in ask.described("ralph d")
    assert "completion" in ask("ralph ")
    assert ask("ralph memory sh") == ["show"]


def test_options_and_choices_are_completed(ask: Asker) -> None:
    assert ask("ralph memory add --ti") == ["--title"]
    assert ask("ralph memory list --format m") == ["markdown"]
    assert "codex" in ask("ralph install ")


def test_memories_are_completed_by_their_short_ids(ask: Asker) -> None:
    ask.project.memories(
        Block("Uses barrel exports", "mem-1736942400-b1c2"),
        Block("Twice", "mem-1736942401-a1c2"),
        Block("Old", "mem-1736942402-c1c2", more=" | archived: 2026-01-01"),
    )
    assert ask.described("ralph memory show mem-b") == [("mem-b1c2", "Uses barrel exports")]
    assert sorted(ask("ralph memory show ")) == ["mem-a1c2", "mem-b1c2", "mem-c1c2"]
    assert ask("ralph memory delete mem-a") == ["mem-a1c2"]


def test_the_project_that_root_names_is_searched(ask: Asker) -> None:
    ask.project.memories(Block("Uses barrel exports"))
    root = ask.project.root
    elsewhere = Asker(Project(root.parent), ask.monkeypatch)
    assert elsewhere(f"ralph --root {root} memory show ") == ["mem-a3f8"]
    assert elsewhere(f"ralph memory show --root {root} mem") == ["mem-a3f8"]


def test_a_list_is_completed_after_its_last_comma(ask: Asker) -> None:
    ask.project.memories(
        Block("One", "mem-1-aaaa", tags="docker, dev"), Block("Two", "mem-2-bbbb", tags="dev")
    )
    assert ask.described("ralph memory list --tags ") == [
        ("dev", "2 memories"),
        ("docker", "1 memory"),
    ]
    assert ask("ralph memory list --tags dev,do") == ["dev,docker"]
    assert ask("ralph memory list --type fix,de") == ["fix,decision"]
    assert ask("ralph memory list --in memories,gu") == ["memories,guardrails"]


def test_nodes_of_the_graph_are_completed(ask: Asker) -> None:
    ask.project.memories(Block("One", tags="docker"))
    assert ask("ralph graph show ") == ["mem-a3f8", "tag:docker"]
    assert ask("ralph\ngraph\nshow\ntag\n:\ndo", "bash") == ["docker"]
    assert ask("ralph graph show mem-a3f8 --type go") == ["gotcha"]


def test_settings_are_completed_with_their_values(ask: Asker) -> None:
    assert ask("ralph config memories.bud") == ["memories.budget"]
    assert ask("ralph config memories.enabled ") == ["true", "false"]


@pytest.mark.parametrize("has_index", [True, False], ids=["indexed", "not indexed"])
def test_sessions_are_completed_as_tables_show_them(ask: Asker, has_index: bool) -> None:
    session = "3f2a8d1e-0000-4000-8000-000000000001"
    ask.project.put(f"log/sessions/{session}.jsonl", log_line(session, 1, "fix the login")).chmod(
        0o600
    )
    if has_index:
        assert ask.project("session", "list").code == 0
    found = ask.described("ralph session show 3f")
    assert [value for value, _ in found] == [session[:12]]
    assert found[0][1] == ("fix the login" if has_index else "")
    assert ask("ralph forget --session ") == [session[:12]]


def test_tasks_and_features_are_completed(ask: Asker) -> None:
    feature = ask.project("feature", "add", "Refunds", "--format", "json").json["id"]
    task = ask.project("task", "add", "Pay back", "--format", "json").json["id"]
    assert ask.described("ralph task show ") == [(task, "Pay back (pending)")]
    assert ask("ralph session list --task t") == [task]
    assert ask.described("ralph task add X --feature ") == [(feature, "Refunds")]


def test_runs_are_completed_with_their_goals(ask: Asker) -> None:
    run = {"v": 1, "type": "run", "id": "run-4f1c22d0", "goal": "Fix the tests"}
    ask.project.put("log/runs/run-4f1c22d0.jsonl", json.dumps(run) + "\n").chmod(0o600)
    assert ask.described("ralph loop status ") == [("run-4f1c22d0", "Fix the tests")]


def test_proposals_are_completed(ask: Asker) -> None:
    line = {"v": 1, "type": "proposal", "id": "ins-1736942400-a231", "text": "Use pnpm 9."}
    ask.project.put("log/proposals.jsonl", json.dumps(line) + "\n").chmod(0o600)
    assert ask.described("ralph review accept ") == [("ins-a231", "Use pnpm 9.")]


def test_values_that_a_shell_would_interpret_are_left_out(ask: Asker) -> None:
    ask.project.memories(
        Block("One", "mem-1-aaaa", tags="$(reboot), `id`, a b, ok, -rf, *, a;b"),
        Block("\x1b]0;title\x07 text", "mem-2-bbbb"),
    )
    assert ask("ralph memory list --tags ") == ["ok"]
    assert "\x1b" not in str(ask.described("ralph memory show mem-bbbb"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ralph\nmemory\nlist\n--format\n=\nma", ["markdown"]),
        ("ralph\nmemory\nlist\n--format\n=", ["table", "json", "markdown", "quiet"]),
    ],
    ids=["value", "empty value"],
)
def test_bash_separates_an_option_from_its_value(ask: Asker, line: str, words: list[str]) -> None:
    assert ask(line, "bash") == words


def test_fish_replaces_the_option_with_its_value(ask: Asker) -> None:
    assert ask("ralph memory list --format=ma", "fish") == ["--format=markdown"]


@pytest.mark.parametrize(
    "line",
    ["ralph nonsense ", "ralph memory show --nonsense ", "", "ralph 'open", "ralph config x "],
    ids=["command", "option", "empty", "quote", "setting"],
)
def test_a_line_that_makes_no_sense_is_answered_with_silence(ask: Asker, line: str) -> None:
    assert ask(line) == []


def test_a_broken_project_is_answered_with_silence(ask: Asker) -> None:
    ask.project.put(".agent/memories.md", "").write_bytes(b"\xff\xfe\x00")
    ask.project.put("ralph.yml", "a: [")
    assert ask("ralph memory show ") == []


def test_completing_writes_nothing(ask: Asker) -> None:
    ask.project.memories(Block("Uses barrel exports"))
    session = log_line("3f2a", 1, "fix the login")
    ask.project.put("log/sessions/3f2a.jsonl", session).chmod(0o600)
    assert ask.project("session", "list").code == 0
    ask.project("memory", "add", "A new one")
    before = ask.project.marks()
    for line in ("memory show ", "session show ", "task show ", "loop show ", "review accept "):
        ask(f"ralph {line}")
    assert ask.project.marks() == before


def test_completing_on_a_new_machine_writes_nothing(
    ralph: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ralph.root / ".agent").mkdir()
    (ralph.root / ".agent/memories.md").write_text(page(Block("Exports")), encoding="utf-8")
    home = ralph.root.parent / "nobody"
    assert Asker(ralph, monkeypatch)("ralph memory show ") == []
    assert not home.exists()


def leaves(command: click.Command = cli) -> Iterator[click.Command]:
    if not isinstance(command, click.Group):
        yield command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found)


@pytest.mark.parametrize("command", list(leaves()), ids=lambda command: str(command.name))
def test_every_text_is_completed_or_is_free(command: click.Command) -> None:
    for param in command.params:
        if param.type is click.STRING and not getattr(param, "hidden", False):
            assert param.name in FREE_TEXT, param.name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_the_program_that_printed_it(ralph: Project, shell: str) -> None:
    script = ralph("completion", shell)
    assert script.code == 0
    assert "ralph ralph-memory" in script.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_where_ralph_is_another_program_its_completion_is_left_alone(shell: str) -> None:
    program = Path(sys.executable).with_name("ralph-memory")
    printed = subprocess.run(
        [program, "completion", shell], capture_output=True, encoding="utf-8", check=True
    )
    assert "ralph-memory" in printed.stdout
    assert "ralph ralph-memory" not in printed.stdout
