"""`ralph doctor`: every oddity with its file and line, and a mending that keeps what was there."""

import contextlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runner import Block, Project, page

from ralph.capture import recorder
from ralph.core import paths
from ralph.install import doctor
from ralph.install.clients import Host, InstallScope
from ralph.install.hosts import apply_plan, plan_install
from ralph.install.install_target import InstallTarget
from ralph.install.launcher_scripts import running_program

ONE = Block("Uses barrel exports", "mem-1705751400-a3f8")
TWO = Block("Chose Zod over Yup", "mem-1705751401-b4c5", kind="decision")
TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.fixture(autouse=True)
def _set_up(ralph: Project) -> None:
    (ralph.root / "ralph.yml").touch()


def test_a_project_that_is_not_set_up_is_not_in_order(ralph: Project) -> None:
    ralph.file("ralph.yml").unlink()
    assert codes(ralph) == [(".", 1, "warning", "not-set-up")]
    assert "run `ralph init`" in ralph("doctor").out
    ralph("init")
    assert codes(ralph) == []


def codes(ralph: Project, *words: str) -> list[tuple[str, int, str, str]]:
    """Each finding as (file, line, level, code), from the JSON form."""
    shape = ralph("doctor", "--format", "json", *words).json
    return [
        (paths.shown(Path(one["file"]), ralph.root), one["line"], one["level"], one["code"])
        for one in shape["findings"]
    ]


@pytest.mark.parametrize("filled", [False, True])
def test_a_clean_project_is_in_order(ralph: Project, filled: bool) -> None:
    if filled:
        ralph.memories(ONE, TWO)
        ralph("memory", "add", "--in", "guardrails", "One")
        ralph("scratchpad", "One")
    before = ralph.marks()
    for words in ([], ["--secrets"], ["--fix"]):
        said = ralph("doctor", *words)
        assert (said.code, said.out, said.err) == (0, "Everything is in order.\n", "")
    assert ralph("doctor", "--format", "json").json == {"findings": [], "fixed": []}
    assert ralph.marks() == before


TEXT_ODDITIES = {
    "duplicate-id": (page(ONE, Block("Another", ONE.id, kind="fix")), 13, "error"),
    "no-text": (
        page().replace("## Fixes\n", f"## Fixes\n\n### {ONE.id}\n<!-- tags: -->\n"),
        9,
        "warning",
    ),
    "bad-date": (page(Block("x", created="last week")), 5, "warning"),
    "loose-bullets": (page(ONE).replace("## Fixes\n", "## Fixes\n\n- a loose one\n"), 11, "note"),
}


@pytest.mark.parametrize("code", TEXT_ODDITIES)
def test_each_oddity_of_the_text_is_told_with_its_line(ralph: Project, code: str) -> None:
    text, line, level = TEXT_ODDITIES[code]
    ralph.put(".agent/memories.md", text)
    assert (".agent/memories.md", line, level, code) in codes(ralph)
    said = ralph("doctor")
    assert f".agent/memories.md:{line}: {level}: " in said.out
    assert said.code == (0 if level == "note" else 1)
    assert ralph.read() == text


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (page(ONE).replace("### mem-1705751400-a3f8", "### mem-17x-a3f8"), 5, "id"),
        (
            page(ONE)
            .replace("> Uses", "<<<<<<< HEAD\n> Uses")
            .replace("exports\n", "exports\n=======\n> Is\n>>>>>>> b\n"),
            6,
            "conflict",
        ),
        (page(ONE) + "\n```\nnever closed\n", 15, "fence"),
        (page(ONE) + "\n<!-- never closed\n", 15, "comment"),
    ],
)
def test_what_is_broken_is_told_with_its_line_and_needs_a_person(
    ralph: Project, text: str, line: int, word: str
) -> None:
    ralph.put(".agent/memories.md", text)
    said = ralph("doctor")
    assert said.code == 1
    told = [row for row in said.out.splitlines() if row.startswith(f".agent/memories.md:{line}: ")]
    assert any(word in row for row in told), said.out


def test_bytes_that_are_not_utf8_are_told(ralph: Project) -> None:
    ralph.memories(ONE).write_bytes(page(ONE).encode().replace(b"barrel", b"\xff\xfe"))
    assert codes(ralph) == [(".agent/memories.md", 6, "error", "not-utf8")]


def test_other_files_are_read_too(ralph: Project) -> None:
    ralph.put(".ralph/knowledge/no-front-matter.md", "just text\n")
    ralph.put(".ralph/tasks/t-1/task.json", "{ broken")
    ralph.put(".ralph/tasks/t-1/prd.json", "[]")
    ralph.put(".ralph/tasks/t-1/memory/insights.json", "nothing")
    log = ralph.put("log/sessions/s.jsonl", '{"v": 1, "type": "note"}\n{"torn')
    log.chmod(0o600)
    files = {name for name, _, _, _ in codes(ralph)}
    assert files == {
        ".ralph/knowledge/no-front-matter.md",
        str(log.relative_to(ralph.root)),
        ".ralph/tasks/t-1/memory/insights.json",
        ".ralph/tasks/t-1/prd.json",
        ".ralph/tasks/t-1/task.json",
    }
    assert ralph("doctor").code == 1


def test_an_id_in_two_files_is_told(ralph: Project) -> None:
    ralph.memories(ONE)
    ralph.put(".ralph/agent/memories.md", page(ONE))
    assert codes(ralph) == [(".ralph/agent/memories.md", 5, "error", "id-in-two-files")]


def test_a_second_store_in_a_sub_folder_is_told(ralph: Project) -> None:
    ralph.memories(ONE)
    ralph.put("packages/web/.agent/memories.md", page(TWO))
    ralph.put("packages/web/.ralph/guardrails.md", page())
    ralph.put("packages/api/.ralph/agent/memories.md", page())
    ralph.put("node_modules/x/.agent/memories.md", page(TWO))
    assert codes(ralph) == [
        ("packages/api/.ralph/agent/memories.md", 1, "warning", "second-store"),
        ("packages/web/.agent/memories.md", 1, "warning", "second-store"),
        ("packages/web/.ralph/guardrails.md", 1, "warning", "second-store"),
    ]
    assert ralph("doctor").code == 1


def test_links_are_told_and_those_that_lead_nowhere_or_outside_are_errors(
    ralph: Project, tmp_path: Path
) -> None:
    memories = ralph.file(".agent/memories.md")
    memories.parent.mkdir()
    ralph.put("docs/memories.md", page(ONE))
    memories.symlink_to("../docs/memories.md")
    assert codes(ralph) == [(".agent/memories.md", 1, "note", "link")]
    assert ralph("doctor").code == 0
    memories.unlink()
    memories.symlink_to("gone.md")
    assert codes(ralph) == [(".agent/memories.md", 1, "error", "bad-link")]
    assert "does not exist" in ralph("doctor").out
    assert ralph("memory", "add", "x").code == 1
    memories.unlink()
    (tmp_path / "outside.md").write_text(page(ONE), encoding="utf-8")
    memories.symlink_to(tmp_path / "outside.md")
    assert codes(ralph) == [(".agent/memories.md", 1, "error", "bad-link")]
    said = ralph("doctor")
    assert said.code == 1
    assert "outside the project" in said.out


@pytest.mark.parametrize("sort", ["folder", "loop"])
def test_a_memory_file_that_is_no_file_is_told(ralph: Project, sort: str) -> None:
    if sort == "folder":
        ralph.file(".agent/memories.md").mkdir(parents=True)
    else:
        ralph.file(".agent").mkdir()
        ralph.file(".agent/memories.md").symlink_to("memories.md")
    ralph.put(".ralph/guardrails.md", TEXT_ODDITIES["no-text"][0])
    found = codes(ralph, "--secrets")
    assert (".agent/memories.md", 1, "error", "unreadable") in found
    assert (".ralph/guardrails.md", 9, "warning", "no-text") in found
    said = ralph("doctor", "--fix")
    assert said.code == 1
    assert ".agent/memories.md:1: error: cannot be read" in said.out


def test_links_and_folders_among_the_logs_do_not_stop_the_doctor(ralph: Project) -> None:
    ralph.file("log/folder.jsonl").mkdir(parents=True)
    ralph.file("log/gone.jsonl").symlink_to("nowhere")
    ralph.file(".ralph").mkdir()
    ralph.file(".ralph/ralph.db").symlink_to("nowhere")
    name = str(ralph.file("log/folder.jsonl").relative_to(ralph.root))
    expected = [(name, 1, "error", "unreadable")]
    assert codes(ralph, "--secrets", "--fix") == expected
    assert ralph.file("log/folder.jsonl").stat().st_mode & 0o100


def test_the_config_is_examined_with_its_lines(ralph: Project) -> None:
    ralph.put("ralph.yml", "memories:\n  bugdet: 3\n")
    assert codes(ralph) == [("ralph.yml", 2, "warning", "config")]
    assert "memories.budget" in ralph("doctor").out
    ralph.put("ralph.yml", "memories:\n  - x\n - y: [\n")
    assert [(name, level, code) for name, _, level, code in codes(ralph)] == [
        ("ralph.yml", "error", "config")
    ]
    ralph.put("ralph.yml", "memories:\n  budget: lots\n")
    assert codes(ralph) == [("ralph.yml", 2, "error", "config")]
    assert ralph("doctor").code == 1


def test_secrets_are_looked_for_only_when_asked_and_never_printed(ralph: Project) -> None:
    ralph.memories(Block(f"token\n\n{TOKEN}"))
    ralph.guardrails(Block(f"use {TOKEN}", "fix-1-a", kind="fix"))
    ralph.put(".ralph/scratchpad.md", f"x\n{TOKEN}\n")
    ralph.put(".ralph/knowledge/k.md", f"---\ntitle: K\ntags: [a]\n---\n\nuse {TOKEN}\n")
    log = ralph.put("log/runs/r.jsonl", "")
    log.chmod(0o600)
    assert ralph("doctor").code == 0
    said = ralph("doctor", "--secrets")
    assert said.code == 1
    assert TOKEN not in said.out
    assert [row for row in codes(ralph, "--secrets") if row[3] == "secret"] == [
        (".agent/memories.md", 8, "error", "secret"),
        (".ralph/guardrails.md", 10, "error", "secret"),
        (".ralph/knowledge/k.md", 6, "error", "secret"),
        (".ralph/scratchpad.md", 2, "error", "secret"),
    ]


def test_patterns_of_the_project_count_as_secrets(ralph: Project) -> None:
    ralph.memories(Block("ask cust-1234"))
    ralph.put("ralph.yml", "privacy:\n  patterns: ['cust-\\d+']\n")
    assert (".agent/memories.md", 6, "error", "secret") in codes(ralph, "--secrets")


# --- limits ---------------------------------------------------------------------------------------


def left_out(root: Path, seconds: float) -> list[tuple[str, str]]:
    """What doctor did not check, as file and reason."""
    found = doctor.examine(root, seconds=seconds)
    notes = [finding for finding in found if finding.problem.code == "left-out"]
    return [(paths.shown(note.path, root), note.problem.what) for note in notes]


def test_a_folder_tree_of_any_depth_is_searched_down_to_a_limit(ralph: Project) -> None:
    ralph.memories(ONE)
    with contextlib.chdir(ralph.root):
        for _ in range(3_000):  # deeper than Python recurses, and than a path may be long
            Path("d").mkdir()
            os.chdir("d")
    said = ralph("doctor")
    assert (said.code, said.err) == (0, "")
    assert "levels deep, which were skipped" in said.out
    subprocess.run(["rm", "-rf", "d"], cwd=ralph.root, check=True)  # pytest would recurse


def test_a_fifo_in_the_place_of_git_s_head_does_not_stop_the_doctor(ralph: Project) -> None:
    ralph.memories(ONE)
    head = ralph.root / ".git" / "HEAD"
    for name in ("objects", "refs"):
        (head.parent / name).mkdir()
    head.unlink()
    os.mkfifo(head)
    [(file, reason)] = left_out(ralph.root, seconds=0.5)
    assert file == ".git"
    assert "git did not answer" in reason


def test_what_there_was_no_time_for_is_counted(ralph: Project) -> None:
    for number in range(30):
        ralph.put(f".ralph/knowledge/k{number:02}.md", "---\ntitle: K\ntags: [a]\n---\n\ntext\n")
    named = dict(left_out(ralph.root, seconds=0))
    assert "and 29 more files were not checked" in named[".ralph/knowledge/k00.md"]
    assert "the others were skipped" in named["."]
    assert left_out(ralph.root, seconds=60) == []


def test_everything_is_checked_when_asked(ralph: Project) -> None:
    ralph.put(".ralph/knowledge/k.md", "just text\n")
    assert codes(ralph, "--all") == codes(ralph)


# --- --fix ----------------------------------------------------------------------------------------


def test_fix_gives_each_entry_its_own_id_and_keeps_a_backup(ralph: Project) -> None:
    text = (
        page(ONE, Block("Another", ONE.id, kind="fix"))
        + "\nprose with mem-1705751400-a3f8 in it\r\n"
    )
    ralph.put(".agent/memories.md", text)
    said = ralph("doctor", "--fix")
    assert said.code == 0
    assert "fixed .agent/memories.md: gave entries with a duplicate id" in said.out
    assert ".agent/memories.md.bak" in said.out
    assert ralph.read(".agent/memories.md.bak") == text
    ids = ralph("memory", "list", "--format", "json").ids
    assert ids[0] == ONE.id
    assert ids[1] != ONE.id
    assert ralph.read() == text.replace(f"### {ONE.id}\n> Another", f"### {ids[1]}\n> Another")
    before = ralph.marks()
    assert ralph("doctor", "--fix").out == "Everything is in order.\n"
    assert ralph.marks() == before


def test_fix_removes_leftovers_of_killed_writers(ralph: Project) -> None:
    ralph.memories(ONE)
    left = ralph.put(".agent/.memories.md.123-abcd.ralph-tmp", "half")
    lock = ralph.put(".ralph/.ralph-lock", "")
    assert codes(ralph) == [(".agent/.memories.md.123-abcd.ralph-tmp", 1, "warning", "leftover")]
    assert ralph("doctor").code == 1
    said = ralph("doctor", "--fix")
    assert said.code == 0
    assert said.out.count("removed a leftover") == 1
    assert not left.exists()
    assert lock.exists(), "somebody may hold it"


def test_secrets_in_backups_are_found(ralph: Project) -> None:
    ralph.memories(Block(f"The token is {TOKEN}", ONE.id))
    assert ralph("memory", "init", "--force").code == 0
    ralph.put(".ralph/guardrails.md.bak2", f"old {TOKEN}\n")
    assert codes(ralph, "--secrets") == [
        (".agent/memories.md.bak", 6, "error", "secret"),
        (".ralph/guardrails.md.bak2", 1, "error", "secret"),
    ]


def test_other_repositories_worktrees_and_folders_called_agent_are_no_second_stores(
    ralph: Project,
) -> None:
    ralph.put("src/agent/memories.md", page(TWO))
    ralph.put("vendor/other/.agent/memories.md", page(TWO))
    ralph.file("vendor/other/.git").mkdir()
    ralph.put("tree/.agent/memories.md", page(TWO))
    ralph.put("tree/.git", "gitdir: elsewhere\n")
    ralph.put(".claude/worktrees/one/.agent/memories.md", page(TWO))
    assert codes(ralph) == []


NOTE = '{"v": 1, "type": "note"}\n'


def test_a_log_that_the_index_has_read_is_read_again_where_it_is_new_or_had_a_problem(
    ralph: Project,
) -> None:
    sound, torn = (
        ralph.put(f"log/sessions/{name}.jsonl", text)
        for name, text in (("a", NOTE), ("b", "{to\n"))
    )
    for log in (sound, torn):
        log.chmod(0o600)
    name = {log: str(log.relative_to(ralph.root)) for log in (sound, torn)}
    ralph("search", "anything")  # makes the index
    assert codes(ralph) == [(name[torn], 1, "error", "torn-line")]
    with sound.open("a", encoding="utf-8") as file:
        file.write(NOTE + '{"half')
    assert codes(ralph) == [
        (name[sound], 3, "error", "torn-line"),
        (name[torn], 1, "error", "torn-line"),
    ]
    sound.write_text(
        "{" + NOTE[1:].replace(": 1", ":: ", 1), encoding="utf-8"
    )  # other text, as long as that which was read
    assert codes(ralph)[0] == (name[sound], 1, "error", "torn-line")


def test_citations_are_checked_alone(ralph: Project) -> None:
    told = ralph("doctor", "--fix", "--citations")
    assert (told.code, told.out) == (2, "")
    assert "--fix does not apply to citations" in told.err


def test_fix_makes_logs_and_index_private(ralph: Project) -> None:
    log = ralph.put("log/sessions/s.jsonl", "")
    index = paths.index_file(ralph.root)
    index.touch()
    log.chmod(0o640)
    index.chmod(0o644)
    assert codes(ralph) == [
        (str(path.relative_to(ralph.root)), 1, "warning", "permissions") for path in (log, index)
    ]
    assert "mode 640" in ralph("doctor").out
    assert ralph("doctor", "--fix").code == 0
    assert [stat.S_IMODE(path.stat().st_mode) for path in (log, index)] == [0o600, 0o600]


def test_fix_leaves_what_needs_a_person(ralph: Project) -> None:
    text, _, _ = TEXT_ODDITIES["no-text"]
    ralph.put(".agent/memories.md", text)
    before = ralph.marks()
    assert ralph("doctor", "--fix").code == 1
    assert ralph.marks() == before


def test_json_says_what_can_be_fixed(ralph: Project) -> None:
    ralph.put(
        ".agent/memories.md",
        page(ONE, Block("Another", ONE.id, kind="fix"), Block("x", TWO.id, created="never")),
    )
    said = ralph("doctor", "--format", "json")
    assert said.code == 1
    fixable = {one["code"]: one["fixable"] for one in said.json["findings"]}
    assert fixable == {"duplicate-id": True, "bad-date": False}
    assert all(one["what"] and one["hint"] for one in said.json["findings"])


def test_fix_leaves_a_file_with_an_open_merge_alone(ralph: Project) -> None:
    one, two = "### mem-1705751400-a3f8\n> one\n", "### mem-1705751400-a3f8\n> two\n"
    text = f"## Fixes\n\n<<<<<<< HEAD\n{one}=======\n{two}>>>>>>> x\n"
    path = ralph.root / ".agent" / "memories.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    assert ralph("doctor", "--fix").code == 1
    assert path.read_text(encoding="utf-8") == text
    assert [each.name for each in path.parent.iterdir()] == ["memories.md"]


def test_failures_of_hooks_are_one_line_and_fix_sets_the_count_back(ralph: Project) -> None:
    (ralph.root / "ralph.yml").touch()
    recorder.count_failure(ralph.root, "PostToolUse", "cannot append: No space left on device")
    said = ralph("doctor")
    assert said.code == 1
    (line,) = [each for each in said.out.splitlines() if "hook-failures" in each]
    assert "hooks failed 1 time(s), last at 2" in line
    assert "PostToolUse: cannot append: No space left on device; free some disk space" in line
    fixed = ralph("doctor", "--fix")
    assert fixed.code == 0
    assert "reset the failure count (hooks failed 1 time(s)" in fixed.out
    assert codes(ralph) == []


def test_a_pause_is_a_note_and_no_failure(ralph: Project) -> None:
    (ralph.root / "ralph.yml").touch()
    ralph("capture", "off")
    assert [each[2:] for each in codes(ralph)] == [("note", "paused")]
    assert ralph("doctor").code == 0


@pytest.mark.parametrize("more", [[], ["--plugin"]])
def test_an_installation_that_would_start_what_is_gone_is_reported_and_repaired(
    ralph: Project, more: list[str]
) -> None:
    home = Path(os.environ["HOME"])
    home.mkdir()
    assert ralph("install", "claude", *more).code == 0
    note = home / ".local" / "state" / "ralph" / "interpreter"
    installed = note.read_text(encoding="utf-8")
    note.write_text("/gone/python\n/gone/run.py\n", encoding="utf-8")
    what = "start /gone/python, which no longer exists; `ralph doctor --fix` repairs it"
    said = ralph("doctor")
    assert said.code == 1
    assert what in said.out
    assert what in ralph("status").out
    fixed = ralph("doctor", "--fix")
    assert (fixed.code, fixed.out.splitlines()[-1]) == (0, "Everything is in order.")
    assert note.read_text(encoding="utf-8") == installed
    assert "no longer exists" not in ralph("status").out


def host_files() -> dict[Path, bytes]:
    """The files of coding agents in the home; Ralph's own are in its state folder, git's config is of the command.

    Each installation's slash commands have a delimiter and a signature of their own.
    """
    home = Path(os.environ["HOME"])
    found = [path for path in home.rglob("*") if path.is_file() and ".local" not in path.parts]
    random = rb"ralph-end-[0-9a-f]+|signed [0-9a-f]+"
    return {
        path: re.sub(random, b"", path.read_bytes()) for path in found if path.name != ".gitconfig"
    }


@pytest.mark.parametrize("host", ["claude", "codex", "gemini"])
def test_a_missing_mcp_server_is_a_note_unless_nobody_wants_it(ralph: Project, host: str) -> None:
    Path(os.environ["HOME"]).mkdir()
    ralph("install", host, "--no-mcp")
    assert codes(ralph) == []
    ralph("install", host)
    before = host_files()
    ralph("uninstall", host)
    with_no_extra = InstallTarget(Host(host), InstallScope.USER, ralph.root, os.environ)
    apply_plan(plan_install([with_no_extra], running_program(sys.executable)))
    assert [each[2:] for each in codes(ralph)] == [("note", "host-entry")]
    assert (
        "its entries are not up to date (an update would add MCP server); `ralph doctor --fix` repairs it"
        in ralph("doctor").out
    )
    assert "MCP server added" in ralph("doctor", "--fix").out
    assert codes(ralph) == []
    assert host_files() == before


def test_what_hooks_write_into_a_log_is_nothing_odd(ralph: Project) -> None:
    raw = '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.123456Z", "host": "claude", "event": "Stop", '
    log = ralph.put("log/sessions/s1.jsonl", raw + '"payload": {"session_id":"s1"}}\n')
    log.chmod(0o600)
    ralph.put(".ralph/.gitignore", "*\n")
    assert codes(ralph) == []


# --- citations -----------------------------------------------------------------------------------


def test_without_citations_it_says_so(ralph: Project) -> None:
    assert ralph("doctor", "--citations").out == "No record cites anything.\n"
    assert ralph("doctor", "--citations", "--format", "json").json == []
    assert ralph("doctor", "--citations", "--ci").code == 0


def test_a_citation_of_a_deleted_file_fails_ci_only(ralph: Project) -> None:
    ralph.put("src/a.py", "x\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "work")):
        subprocess.run(["git", *words], cwd=ralph.root, check=True, capture_output=True)
    ralph.memories(Block("see src/a.py", created="2099-01-01"))
    assert ralph("doctor", "--citations", "--ci").code == 0
    (ralph.root / "src/a.py").unlink()
    said = ralph("doctor", "--citations", "--ci")
    assert said.code == 1
    assert ".agent/memories.md:5: mem-1705751400-a3f8: gone: file src/a.py" in said.out
    assert ralph("doctor", "--citations").code == 0


def test_json_has_each_citation(ralph: Project) -> None:
    ralph.put("src/a.py", "x\n")
    ralph.memories(Block("see src/a.py:1", created="2099-01-01"))
    (found,) = ralph("doctor", "--citations", "--format", "json").json
    assert (found["id"], found["verdict"], found["file"]) == (
        "mem-1705751400-a3f8",
        "fresh",
        ".agent/memories.md",
    )
    assert found["citations"] == [
        {
            "kind": "file",
            "what": "src/a.py",
            "lines": [1, 1],
            "verdict": "fresh",
            "place": "src/a.py",
            "why": "",
        }
    ]


def test_an_unknown_id_is_not_found(ralph: Project) -> None:
    said = ralph("doctor", "--citations", "mem-9")
    assert said.code == 1
    assert "mem-9" in said.err


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        ("took too long and was given up", "the machine was too busy"),
        ("cannot append: Permission denied", "make the file or folder writable"),
        ("something else", "fix the cause that it names"),
    ],
)
def test_the_advice_fits_the_failure_of_a_hook(ralph: Project, failure: str, advice: str) -> None:
    recorder.count_failure(ralph.root, "SessionEnd", failure)
    (line,) = [each for each in ralph("doctor").out.splitlines() if "hook-failures" in each]
    assert advice in line
