"""The front door: where the root is, how errors are put into words, and what a process and a pipe see."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runner import Block, Project, all_on_a_terminal, command, executable, numbered

import ralph as package
from ralph.cli.main import COMMANDS
from ralph.core.extras import EXTRAS
from ralph.storage.library import NAMES

ONE = Block("Uses barrel exports", "mem-1705751400-a3f8")
OTHER = Block("Of another project", "mem-1705751401-b4c5")


@pytest.fixture
def other(tmp_path: Path) -> Project:
    """A second project beside the first."""
    project = Project(tmp_path / "other")
    project.memories(OTHER)
    return project


# --- the root -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--root", "ROOT", "memory", "list"],
        ["memory", "--root", "ROOT", "list"],
        ["memory", "list", "--root", "ROOT"],
        ["--root", "nowhere", "memory", "list", "--root", "ROOT"],
        ["--root=ROOT", "memory", "list"],
    ],
)
def test_root_may_stand_before_or_after_the_command(
    ralph: Project, other: Project, words: list[str]
) -> None:
    ralph.memories(ONE)
    said = ralph(*(word.replace("ROOT", str(other.root)) for word in words), "--format", "json")
    assert said.ids == [OTHER.id]


@pytest.mark.parametrize("word", ["init", "doctor"])
def test_commands_without_a_verb_take_the_root_too(
    ralph: Project, other: Project, word: str
) -> None:
    other.file("ralph.yml").touch()
    assert ralph(word, "--root", str(other.root)).code == 0
    assert ralph.files() == []


def test_a_root_that_is_not_there_is_wrong_usage(ralph: Project) -> None:
    said = ralph("--root", "nowhere", "memory", "list")
    assert (said.code, said.out) == (2, "")
    assert "nowhere" in said.err


@pytest.mark.parametrize("marker", [".git/HEAD", ".ralph", ".agent/memories.md", "ralph.yml"])
def test_the_root_is_found_upward_from_a_sub_folder(tmp_path: Path, marker: str) -> None:
    project = Project(tmp_path / "upper")
    deep = project.file("src/deep/er")
    deep.mkdir(parents=True)
    project.file(marker).mkdir() if marker == ".ralph" else project.put(marker, "")
    assert project("memory", "add", "From below", cwd=deep).code == 0
    assert project("memory", "add", "--in", "guardrails", "From below", cwd=deep).code == 0
    assert project("scratchpad", "From below", cwd=deep).code == 0
    made = {str(path.relative_to(project.root)) for path in project.files()}
    assert {".agent/memories.md", ".ralph/guardrails.md", ".ralph/scratchpad.md"} <= made
    assert list(deep.iterdir()) == []
    assert (
        project("memory", "list", "--format", "json", cwd=deep).json[0]["content"] == "From below"
    )


@pytest.mark.parametrize("name", ["RALPH_ROOT", "CLAUDE_PROJECT_DIR"])
def test_the_environment_may_name_the_root(
    ralph: Project, other: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(other.root))
    assert ralph("memory", "list", "--format", "json").ids == [OTHER.id]


# --- errors ---------------------------------------------------------------------------------------


def test_an_unknown_command_is_wrong_usage_and_the_nearest_is_named(ralph: Project) -> None:
    said = ralph("memroy", "list")
    assert (said.code, said.out) == (2, "")
    assert said.err == "error: there is no command `ralph memroy`\n  did you mean `ralph memory`?\n"
    assert "`ralph --help`" in ralph("xyzzy").err


@pytest.mark.parametrize(
    "words",
    [
        ["memory", "lsit"],
        ["memory", "list", "--lats", "3"],
        ["memory", "show"],
        ["memory", "list", "--last", "x"],
    ],
)
def test_wrong_words_are_exit_2_with_an_error_and_advice(ralph: Project, words: list[str]) -> None:
    said = ralph(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert "ralph memory" in said.err.splitlines()[1]


def test_help_explains_every_memory_file(ralph: Project) -> None:
    said = ralph("help", "files")
    assert (said.code, said.err) == (0, "")
    for name in NAMES:
        assert f"\n  {name} " in said.out
    assert not ralph.files()


def test_help_and_version_are_exit_0(ralph: Project) -> None:
    assert ralph("--version").out == f"ralph {package.__version__}\n"
    for words in (["--help"], ["-h"], ["memory", "-h"], ["memory", "add", "--help"]):
        said = ralph(*words)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("Usage: ralph")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help_with_examples(ralph: Project, name: str) -> None:
    said = ralph(name, "--help")
    assert said.code == 0
    assert "Examples:" in said.out


def test_missing_extra_is_named_with_the_way_to_install_it(
    ralph: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_an_extra.py").write_text("import uvicorn\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "web", "needs_an_extra:cli")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = ralph("web")
    assert result.code == 2
    assert result.err.startswith("error: this needs the extra 'web', which is not installed\n")
    assert "[web]" in result.err


def test_other_missing_module_is_a_bug(
    ralph: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_a_ghost.py").write_text("import a_package_nobody_wrote\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "web", "needs_a_ghost:cli")
    assert "this is a bug" in ralph("web").err


def test_a_bug_is_called_a_bug_and_debug_shows_where(
    ralph: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks.py").write_text("raise ZeroDivisionError('oops')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "trust", "breaks:cli")
    said = ralph("trust")
    assert (said.code, said.out) == (1, "")
    assert "this is a bug in ralph" in said.err
    assert "ZeroDivisionError: oops" in said.err
    assert "Traceback" not in said.err
    monkeypatch.setenv("RALPH_DEBUG", "1")
    assert "breaks.py" in ralph("trust").err


def test_a_wrong_config_stops_what_needs_it_and_names_the_line(ralph: Project) -> None:
    ralph.put("ralph.yml", "memories:\n  budget: many\n")
    before = ralph.marks()
    said = ralph("memory", "add", "A text")
    assert said.code == 2
    assert "ralph.yml:2" in said.err
    assert ralph.marks() == before
    assert ralph("memory", "list").code == 0


def test_warnings_about_the_config_stay_out_of_the_output(ralph: Project) -> None:
    ralph.put("ralph.yml", "memroies: 1\n")
    said = ralph("memory", "add", "A text", "--format", "json")
    assert said.json["content"] == "A text"
    assert "warning: " in said.err
    assert "ralph.yml:1" in said.err


# --- the real command -----------------------------------------------------------------------------


def test_exit_codes_of_the_real_command(ralph: Project) -> None:
    ralph.memories(ONE)
    for words, code in [
        (["memory", "list"], 0),
        (["memory", "show", "mem-1-dead"], 1),
        (["nonsense"], 2),
    ]:
        assert executable(ralph.root, *words).returncode == code, words
    assert subprocess.run([sys.executable, "-m", "ralph", "--version"], check=False).returncode == 0


def test_the_real_command_reads_stdin_and_writes_bytes_of_utf8_in_any_locale(
    ralph: Project,
) -> None:
    text = "`make` needs $HOME; 인증 🔥"
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    added = executable(
        ralph.root, "memory", "add", "-", "--format", "json", stdin=text.encode(), env=plain
    )
    assert json.loads(added.stdout)["content"] == text
    listed = executable(ralph.root, "memory", "list", env=plain)
    assert text.encode() in listed.stdout
    shown = executable(ralph.root, "memory", "search", "인증", "--format", "quiet", env=plain)
    assert len(shown.stdout.split()) == 1


def test_backticks_and_dollars_survive_a_quoted_here_document(ralph: Project) -> None:
    script = "\"$@\" memory add - -t fix <<'END'\n`make lint` needs $HOME/.cache\nEND\n"
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command()], cwd=ralph.root, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert "`make lint` needs $HOME/.cache" in ralph.read()


def test_a_reader_that_leaves_early_is_no_error(ralph: Project) -> None:
    ralph.memories(*(Block("word " * 40, numbered(n)) for n in range(1000)))
    process = subprocess.Popen(
        [*command(), "memory", "list", "--format", "markdown"],
        cwd=ralph.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == b"## Pattern"
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (0, b"")


def test_an_interrupt_is_exit_130(ralph: Project) -> None:
    process = subprocess.Popen(
        [*command(), "memory", "add", "-"],
        cwd=ralph.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a job behind `&` ignores it
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(
        b"x" * 2_000_000
    )  # more than a pipe holds: once it is through, the command is reading
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.split() == [b"interrupted"]
    assert ralph.files() == []


def test_colour_only_on_a_terminal_and_never_with_no_color(ralph: Project) -> None:
    ralph.memories(ONE)
    calls = (["memory", "list"], ["memory", "show", "mem-1-dead"])
    for words in calls:
        piped = ralph(*words)
        assert "\x1b" not in piped.out + piped.err, words
    assert "\x1b" not in all_on_a_terminal(ralph.root, calls, env={"NO_COLOR": "1"})
    for words in calls:
        assert "\x1b[" in all_on_a_terminal(ralph.root, [words]), words


def test_a_closed_standard_output_is_no_error(ralph: Project) -> None:
    ralph("init")
    for verb in ('add "Once"', "prime", "list"):
        script = f'"$@" memory {verb} >&-'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *command()], cwd=ralph.root, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), verb
    assert ralph.read().count("> Once\n") == 1


def test_nothing_outside_the_project_is_written(ralph: Project, tmp_path: Path) -> None:
    assert executable(ralph.root, "memory", "add", "A text").returncode == 0
    written = [
        path.name
        for path in tmp_path.rglob("*")
        if path.is_file() and ralph.root not in path.parents
    ]
    assert written == ["machine-id"]


@pytest.mark.parametrize("text", ["--no-verify is banned", "-rf is dangerous", "- a bullet"])
def test_a_text_that_begins_with_a_dash_is_a_text(ralph: Project, text: str) -> None:
    said = ralph("memory", "add", text, "--format", "json", "--tags", "git")
    assert (said.json["content"], said.json["tags"]) == (text, ["git"])


@pytest.mark.parametrize("word", ["--no-verify", "--tags a"])
def test_one_word_that_begins_with_a_dash_is_an_option_and_the_error_says_how_to_make_it_a_text(
    ralph: Project, word: str
) -> None:
    said = ralph("memory", "add", word)
    assert said.code == 2
    assert "put -- before it" in said.err
    assert ralph("memory", "add", "--", word).code == 0


def test_every_package_of_an_extra_is_known_by_the_extra() -> None:
    assert {"starlette", "uvicorn", "markdown_it"} <= {
        package for package, extra in EXTRAS.items() if extra == "web"
    }


def loaded_modules(root: Path, *words: str) -> set[str]:
    code = "import sys; from ralph.cli.main import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=root,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return set(done.stderr.splitlines()[-1].split())


def count_modules(root: Path, *words: str) -> int:
    return sum(name.startswith("ralph.") for name in loaded_modules(root, *words))


@pytest.mark.parametrize("words", [("task", "list"), ("loop", "status")])
def test_listing_tasks_and_runs_loads_little_more_than_listing_memories(
    ralph: Project, words: tuple[str, ...]
) -> None:
    assert count_modules(ralph.root, *words) <= 1.5 * count_modules(ralph.root, "memory", "list")


def test_adding_a_memory_loads_neither_the_index_nor_tasks_nor_knowledge(ralph: Project) -> None:
    ralph("init")
    unneeded = {
        "sqlite3",
        "ralph.core.work",
        "ralph.memory.knowledge",
        "ralph.formats.knowledge",
        "ralph.formats.log",
    }
    assert loaded_modules(ralph.root, "memory", "add", "Uses barrel exports") & unneeded == set()


def test_a_search_does_not_load_the_installer(ralph: Project) -> None:
    ralph.memories(ONE)
    unneeded = {f"ralph.install.{name}" for name in ("hosts", "clients", "slash_commands")}
    assert loaded_modules(ralph.root, "search", "barrel") & unneeded == set()


UNNEEDED = {
    "listing memories": (
        ("memory", "list"),
        {
            "json",
            "sqlite3",
            "yaml",
            "click.shell_completion",
            "ralph.capture",
            "ralph.cli.slash",
            "ralph.core.config",
            "ralph.core.graph",
            "ralph.core.terms",
            "ralph.install",
            "ralph.learning",
            "ralph.loop",
            "ralph.memory.confirmation",
            "ralph.memory.memory",
            "ralph.recall",
            "ralph.search.filters",
            "ralph.storage.index",
        },
    ),
    "the status": (
        ("status",),
        {
            "shutil",
            "signal",
            "tomllib",
            "ralph.capture.pipeline",
            "ralph.core.work",
            "ralph.formats.log",
            "ralph.install.doctor",
            "ralph.install.file_checks",
            "ralph.install.hosts",
            "ralph.learning.inbox",
            "ralph.loop",
            "ralph.recall.citation_check",
            "ralph.recall.references",
            "ralph.search.meaning",
            "ralph.storage.index_update",
            "ralph.storage.index_writer",
            "ralph.tasks",
            "ralph.web",
        },
    ),
    "a search": (
        ("search", "barrel"),
        {
            "hashlib",
            "shutil",
            "signal",
            "tomllib",
            "yaml",
            "ralph.capture",
            "ralph.formats",
            "ralph.install",
            "ralph.learning",
            "ralph.loop",
            "ralph.storage.index_update",
            "ralph.storage.index_writer",
            "ralph.storage.source_contents",
            "ralph.web",
        },
    ),
}


@pytest.mark.parametrize(("words", "unneeded"), UNNEEDED.values(), ids=UNNEEDED.keys())
def test_a_frequent_command_starts_without_what_it_does_not_use(
    ralph: Project, words: tuple[str, ...], unneeded: set[str]
) -> None:
    ralph.memories(ONE)
    ralph("search", "barrel")  # builds the index, as any earlier use would
    ralph("memory", "list")  # judges the texts
    assert loaded_modules(ralph.root, *words) & unneeded == set()
