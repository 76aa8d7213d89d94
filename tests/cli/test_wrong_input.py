"""Wrong input: every answer names a cause and a next step, fails, and changes nothing.

What commands test about their own options is in their own modules. Here is what people get wrong
most often: ids, words for a choice, times, numbers, files and folders.
"""

from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.runner import Project

MEMORY = "mem-1705751400-a3f8"
TASK = "t-0c0ffe"
TEXT = f"# Memories\n\n## Patterns\n\n### {MEMORY}\n> Uses barrel exports\n"
TASK_FILE = f'{{"id": "{TASK}", "title": "Refund an order", "status": "pending"}}\n'

NOT_FOUND = {
    "memory show nope": "Memory not found: nope",
    "memory show mem-a3f9": f"Memory not found: mem-a3f9; did you mean {MEMORY}?",
    "memory delete mem-1705751400-a3f9": f"did you mean {MEMORY}?",
    "memory edit nope --text x": "Memory not found: nope",
    "memory delete mem-a399": "Memory not found: mem-a399",
    "memory show nope --log": "Memory not found: nope",
    "search x --task t-nope": "Task not found: t-nope",
    "context x --task t-nope": "Task not found: t-nope",
    "search --around nope": "Record not found: nope",
    "search --around mem-a3f9": f"Record not found: mem-a3f9; did you mean {MEMORY}?",
    "forget nope": "Record not found: nope",
    "forget --session nope": "Session not found: nope",
    "session show nope": "Session not found: nope",
    "review show nope": "Proposal not found: nope",
    "review accept nope": "Proposal not found: nope",
    "task show t-nope": "Task not found: t-nope",
    "task done t-0c0ff3": f"Task not found: t-0c0ff3; did you mean {TASK}?",
    "task add y --blocked-by t-000000": "Task not found: t-000000",
    "loop start --task t-nope": "Task not found: t-nope",
    "loop show run-nope": "Run not found: run-nope",
    "loop resume run-nope": "Run not found: run-nope",
    "feature show f-nope": "Feature not found: f-nope",
    "graph show nope": "Node not found: nope",
    "loop start goal --agent cladue": "Agent not found: cladue; did you mean claude?",
    "init nowhere": "Folder not found: nowhere",
    "init notes.md": "notes.md: is a file, not a folder",
    "--root notes.md status": "notes.md: is a file, not a folder",
    "import missing.json": "missing.json",
    "restore missing.tar.gz": "missing.tar.gz",
    "memory add --file missing.md": "missing.md",
}
WRONG_WORDS = {
    "search x --only memory": "'memory' is not a value of --only; did you mean memories?",
    "memory search x --in memory": "did you mean memories?",
    "memory add x -t gotcha": "did you mean fix?",
    "memory list --type decsion": "did you mean decision?",
    "search x --type errors": "did you mean error?",
    "memory list --format jsn": "'jsn' is not a value of --format; did you mean json?",
    "task list --status pendng": "did you mean pending?",
    f"task set {TASK} blockd": "did you mean blocked?",
    "install clade": "'clade' is not a valid value; did you mean claude?",
    "install claude --scope global": "did you mean user?",
    "completion zhs": "did you mean zsh?",
    "capture of": "did you mean off?",
    "loop start x --agent command --command true -c tests": (
        "'tests' is not a criterion; did you mean test_pass?"
    ),
    "loop start x --agent command --command true -c lint": "did you mean lint_clean?",
    "memory ad hello": "there is no command `ralph memory ad`",
    "config memories.budgt 5": "did you mean memories.budget?",
}
WRONG_VALUES = {
    "search x --since yesterdey": "'yesterdey' is not a date or time; did you mean yesterday?",
    "search x --until 2026-13-01": "'2026-13-01' is not a date or time",
    "forget --before soon": "'soon' is not a date or time",
    "memory list --limit 0": "0 is too small: at least 1",
    "search x --limit many": "'many' is not a whole number",
    "search x --layer 4": "4 is not between 1 and 3",
    "search": "no words to search for",
    "memory add": "no text was given",
    "memory add --file folder": "Is a directory",
    "search x --since 2026-11-10 --until 2026-11-01": "starts at 2026-11-10, after its end",
    "memory add --file latin.txt": "is not UTF-8 text",
    "memory add --file binary.bin": "looks like a binary file",
    "task add x --prd binary.bin": "looks like a binary file",
    "learn --apply binary.bin": "looks like a binary file",
    f"memory supersede {MEMORY} {MEMORY}": f"{MEMORY} cannot supersede itself",
    f"task set {TASK} blocked --by {TASK}": f"{TASK} would wait for itself",
    f"task drop {TASK}": f"{TASK} has no worktree",
    "doctor --check claude": "--check requires --agents",
    "memory add hello --file notes.md": "cannot be used together",
    "memory add hello --title T": "only knowledge has a title",
    "search words --around mem-a3f8": "--around takes an id and no words",
    "context --best": "--best needs words or ids",
    "forget": "say what to forget",
    "restore notes.md": "is not a complete backup",
    "import binary.bin": "contains no records",
    "config memories.budget many": "expected a whole number",
    "index sync --limit 5": "--limit requires --embed",
}
DAMAGE = {
    "conflict markers": (b"<<<<<<< HEAD\n=======\n>>>>>>> other\n", "has git conflict markers"),
    "not UTF-8": (b"caf\xe9\n", "is not UTF-8 text"),
    "NUL": (b"a\0b\n", "has a NUL character"),
}
BROKEN_YAML = "memories:\n   budget: 5\n  inject: auto\n"
CASES = NOT_FOUND | WRONG_WORDS | WRONG_VALUES


@pytest.fixture
def project(tmp_path: Path) -> Project:
    ralph = Project(tmp_path / "project")
    ralph.put(".git/HEAD", "ref: refs/heads/main\n")
    ralph.put(".agent/memories.md", TEXT)
    ralph.put(f".ralph/tasks/{TASK}/task.json", TASK_FILE)
    ralph.put("notes.md", "some notes\n")
    (ralph.root / "binary.bin").write_bytes(bytes(range(256)))
    (ralph.root / "latin.txt").write_bytes(b"caf\xe9\n")
    (ralph.root / "folder").mkdir()
    return ralph


def files_in(root: Path) -> dict[str, bytes]:
    """The files of a project, without the index and what hides it from git."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        is_derived = path.name.startswith((".gitignore", "ralph.db")) or name.startswith(".git/")
        if path.is_file() and not is_derived:
            found[name] = path.read_bytes()
    return found


@pytest.mark.parametrize(("words", "cause"), CASES.items(), ids=CASES)
def test_wrong_input_gets_a_cause_and_a_next_step(
    project: Project, monkeypatch: pytest.MonkeyPatch, words: str, cause: str
) -> None:
    monkeypatch.chdir(project.root)
    before = files_in(project.root)
    said = project(*words.split())
    message, *next_steps = said.err.splitlines()
    assert message.startswith("error: ")
    assert cause in message
    assert next_steps
    assert said.code in (1, 2)
    assert files_in(project.root) == before


@pytest.mark.parametrize("words", ["search x", "memory list", "memory search x", "task list"])
def test_outside_of_a_project_reading_says_so(tmp_path: Path, words: str) -> None:
    folder = tmp_path / "nowhere"
    folder.mkdir()
    said = Project(tmp_path / "project")(*words.split(), cwd=folder)
    assert said.code == 1
    assert "is neither a Ralph project nor a git work tree" in said.err
    assert "`ralph init`" in said.err


@pytest.mark.parametrize(("damage", "cause"), DAMAGE.values(), ids=DAMAGE)
def test_nothing_is_added_to_a_file_that_a_person_must_repair(
    project: Project, damage: bytes, cause: str
) -> None:
    memories = project.root / ".agent" / "memories.md"
    memories.write_bytes(TEXT.encode() + damage)
    said = project("memory", "add", "Ports start at 4000")
    message, next_step = said.err.splitlines()
    assert said.code == 1
    assert message.startswith("error: .agent/memories.md:7: ")
    assert cause in message
    assert "`ralph doctor`" in next_step
    assert memories.read_bytes() == TEXT.encode() + damage


def test_an_unrelated_memory_is_never_offered_for_deletion(project: Project) -> None:
    said = project("memory", "delete", "mem-1705751400-a399")
    assert "did you mean" in project("memory", "delete", "mem-1705751400-a3f9").err
    assert "did you mean" not in said.err
    assert said.code == 1


def test_deleting_twice_says_that_the_memory_is_deleted(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.put(".agent/memories.md", TEXT)
    git(project.root, "init", "-q")
    git(project.root, "add", ".agent")
    git(project.root, "commit", "-qm", "Add memories")
    assert project("memory", "delete", MEMORY).code == 0
    said = project("memory", "delete", MEMORY)
    assert said.code == 1
    assert f"{MEMORY} was deleted already" in said.err
    assert f"`ralph memory show {MEMORY} --log`" in said.err


@pytest.mark.parametrize("words", ["memory list", "task list", "session list", f"task show {TASK}"])
def test_reading_warns_of_a_config_that_cannot_be_used(project: Project, words: str) -> None:
    assert project(*words.split()).err == ""
    project.put("ralph.yml", BROKEN_YAML)
    said = project(*words.split())
    assert said.code == 0
    (warning,) = said.err.splitlines()
    assert warning.startswith("warning: ralph.yml:3: not valid YAML")


def test_without_git_the_missing_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "project")
    project.root.mkdir()
    git(project.root, "init", "-q")
    git(project.root, "commit", "-q", "--allow-empty", "-m", "first")
    assert project("task", "add", "Refunds", "--worktree").code == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    said = project("task", "add", "Invoices", "--worktree")
    assert said.code == 1
    assert said.err.splitlines() == [
        "error: git was not found",
        "  install git, or add its folder to PATH",
    ]
    noted = project("memory", "add", "Ports start at 4000", "--format", "quiet").out.strip()
    assert "Git was not found" in project("memory", "show", noted, "--log").err
    checked = project("doctor").out
    assert "git was not found" in checked
    assert "is gone" not in checked


def test_without_git_everything_but_history_and_merges_works(
    ralph: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for words in (
        ("init",),
        ("memory", "add", "Ports start at 4000"),
        ("search", "ports"),
        ("task", "add", "Refunds"),
        ("task", "list"),
        ("status",),
        ("install", "claude", "--no-mcp"),
        ("merge-driver", "--register"),
        ("doctor",),
        ("uninstall", "--all"),
    ):
        said = ralph(*words)
        assert said.code == 0, (words, said.err)
        assert "git was not found" not in said.err.lower(), words


def test_a_task_file_that_is_cut_off_is_named_with_a_next_step(project: Project) -> None:
    project.put(f".ralph/tasks/{TASK}/task.json", TASK_FILE[:20])
    said = project("task", "list")
    assert f"{TASK}/task.json: not read: " in said.err
    assert "restore it with git" in said.err
