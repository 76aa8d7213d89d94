"""The rules between folders, as a table; breaking one fails the build.

Each rule is a function from a module's syntax tree to what breaks it, and one test holds it against
every module. Names are followed through imports first (`from os import makedirs as make` is still
`os.makedirs`), once for all rules, and the last tests feed each rule the ways around it that come to mind.
"""

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ralph"

PARTS = (
    "lean", "core", "formats", "storage", "privacy", "capture", "search", "memory", "recall",
    "learning", "tasks", "loop", "sharing", "install", "hooks", "mcp", "web", "cli",
)  # fmt: skip
"""The parts of the package. A module imports its own part and the parts before it, never later ones."""

MAY_IMPORT = {part: {*PARTS[: number + 1]} for number, part in enumerate(PARTS)}
for _server in ("hooks", "mcp", "web"):  # the adapters do not know each other
    MAY_IMPORT[_server] -= {"hooks", "mcp", "web"} - {_server}
MAY_IMPORT["__main__"] = {"cli", "hooks"}  # the status line does without the command line
MAY_IMPORT["__init__"] = {"lean", "core", "storage"}  # for type checkers alone
MAY_IMPORT["testing"] = {"core", "search", "loop"}  # the public fakes; no part imports them

EVERYBODY = {"__version__"}
STARTS_PROCESSES = {
    "cli",
    "loop",
    "core/process.py",
    "core/pipes.py",
    "core/side_process.py",
    "core/windows_processes.py",
    "core/paths.py",
}
CONFIG_LOADERS = {"cli", "hooks", "mcp", "web", "storage/config.py", "core/config.py"}
"""The adapters; and the handling of an event, which must look at the files before it loads them (`hook_state`)."""
BROAD_EXCEPT = {"cli", "hooks", "mcp", "web"}

WRITING_METHODS = {
    "write_text",
    "write_bytes",
    "mkdir",
    "unlink",
    "rename",
    "touch",
    "symlink_to",
    "hardlink_to",
    "chmod",
    "lchmod",
    "rmdir",
    "rmtree",
}
WRITING_FUNCTIONS = {
    *(
        f"{module}.{name}"
        for module in ("os", "posix")
        for name in [
            "open",
            "fdopen",
            "write",
            "pwrite",
            "writev",
            "mkdir",
            "makedirs",
            "mkfifo",
            "mknod",
            "unlink",
            "remove",
            "rmdir",
            "removedirs",
            "rename",
            "renames",
            "replace",
            "link",
            "symlink",
            "truncate",
            "ftruncate",
            "chmod",
            "utime",
        ]
    ),
    *(
        f"shutil.{name}"
        for name in [
            "copy",
            "copy2",
            "copyfile",
            "copyfileobj",
            "copymode",
            "copystat",
            "copytree",
            "move",
            "rmtree",
        ]
    ),
    *(
        f"tempfile.{name}"
        for name in [
            "mkstemp",
            "mkdtemp",
            "NamedTemporaryFile",
            "TemporaryFile",
            "SpooledTemporaryFile",
        ]
    ),
    *(
        "open",
        "io.open",
        "codecs.open",
        "shutil.make_archive",
        "shutil.unpack_archive",
        "fileinput.input",
    ),
}
WRITERS = {"storage/files.py", "lean/hook_files.py", "lean/open_files.py"}
"""Who writes files; `hook_files` does what `files` does for a hook, which may load next to nothing."""

HARMLESS: dict[str, set[str]] = {
    "lean/discovery.py": {
        "os.open",
        "os.write",
        "os.mkdir",
        "os.chmod",
        "os.link",
        "os.unlink",
    },  # reads; writes the machine's id
    "sharing/backups.py": {
        "os.fdopen",
        "tarfile.open",
    },  # of a backup, which `files.output` has opened
    "core/side_process.py": {"os.fdopen"},  # of a pipe
    "cli/demo.py": {"tempfile.mkdtemp"},  # of the sample, which its user may keep
    "cli/main.py": {"os.open"},  # of /dev/null, for a closed pipe
    "storage/db.py": {"os.open"},  # of a database that only its owner may read
    "storage/files.py": {"os.open"},  # of what is locked
    "hooks/handler.py": {"os.write"},  # to standard output
    "hooks/run.py": {"os.open"},  # reads
    "lean/quick_imports.py": {"os.open"},  # reads
}
"""Calls that could write and do not."""

OPENS_SQLITE = {"storage/db.py", "storage/hook_index.py"}
"""Who opens databases; `hook_index` does so for a hook, read-only."""

SQLITE_WORDS = {
    "Connection",
    "Cursor",
    "Row",
    "Error",
    "DatabaseError",
    "OperationalError",
    "complete_statement",
    "sqlite_version",
}
"""What of sqlite3 opens nothing: types, errors, and two questions about it. All else is for `storage/db.py`."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


Broken = Iterator[tuple[str, int]]
"""What breaks a rule, and its line."""


def imports(tree: ast.Module) -> Broken:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            package = node.module if node.level == 0 else f"{'.' * node.level}{node.module or ''}"
            yield from ((f"{package}.{alias.name}", node.lineno) for alias in node.names)


def meanings(tree: ast.Module) -> dict[str, str]:
    """What the names that a module imports stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            found.update(
                (alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names
            )
    return found


def full(node: ast.expr, names: dict[str, str]) -> str:
    """A dotted name as it would be without aliases."""
    first, dot, rest = (_dotted(node) or ast.unparse(node)).partition(".")
    return names.get(first, first) + dot + rest


def _dotted(node: ast.expr) -> str:
    """Names with points between them; nothing for what is more, since taking that apart takes its time."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def uses(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """Every name that is imported or mentioned, in full."""
    names = meanings(tree)
    mentioned = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return (*imports(tree), *((full(node, names), node.lineno) for node in mentioned))


def wrong_imports(tree: ast.Module, part: str) -> Broken:
    for name, line in imports(tree):
        words = name.split(".")
        if name.startswith(".") or (words[0] == "ralph" and not _may_import(words, part)):
            yield name, line


UPWARD = {("tasks", "loop.runs"), ("tasks", "loop")}
"""A worktree is not dropped or merged while a run works in it, and only the loop knows its runs."""


def _may_import(words: list[str], part: str) -> bool:
    if (part, ".".join(words[1:3])) in UPWARD:
        return True
    other = words[1] if len(words) > 1 else "__init__"
    return other in EVERYBODY or other in MAY_IMPORT[part]


def file_writes(tree: ast.Module) -> Broken:
    names = meanings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            call = full(node.func, names)
            if call in WRITING_FUNCTIONS or (
                isinstance(node.func, ast.Attribute) and _writes(node, node.func.attr)
            ):
                yield call, node.lineno


def _writes(call: ast.Call, method: str) -> bool:
    """Whether a method of what may be a Path changes something on the disk."""
    if method == "open":
        modes = [
            *call.args[:1],
            *(keyword.value for keyword in call.keywords if keyword.arg == "mode"),
        ]
        return any(
            isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes
        )
    if method == "replace":  # a text's and a document's take two, dataclasses' takes names
        return len(call.args) == 1 and not call.keywords
    return method in WRITING_METHODS


def sqlite_uses(tree: ast.Module) -> Broken:
    for name, line in uses(tree):
        words = name.split(".")
        if words[0] in ("sqlite3", "_sqlite3") and len(words) > 1 and words[1] not in SQLITE_WORDS:
            yield name, line


def processes(tree: ast.Module) -> Broken:
    starters = (
        "os.exec",
        "os.spawn",
        "os.posix_spawn",
        "os.fork",
        "os.startfile",
        "multiprocessing",
        "pty.",
    )
    for name, line in uses(tree):
        same = name.replace("posix.", "os.", 1) if name.startswith("posix.") else name
        if same.split(".")[0] in ("subprocess", "_posixsubprocess") or same.startswith(starters):
            yield name, line


def shells(tree: ast.Module) -> Broken:
    for name, line in uses(tree):
        if name in {
            "os.system",
            "posix.system",
            "os.popen",
            "subprocess.getoutput",
            "subprocess.getstatusoutput",
        }:
            yield name, line
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.keyword)
            and node.arg == "shell"
            and ast.unparse(node.value) != "False"
        ):
            yield "shell=", node.value.lineno


def config_loads(tree: ast.Module) -> Broken:
    for name, line in uses(tree):
        if name in {"ralph.core.config.load", "ralph.core.config.*"}:
            yield name, line


def broad_excepts(tree: ast.Module) -> Broken:
    """Handlers of everything; one of BaseException that cleans up and raises again is fine."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = _each(node.type)
            again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if "Exception" in caught or (not again and caught & {"", "BaseException"}):
                yield "except " + ", ".join(sorted(caught)), node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
            broad = [
                argument
                for argument in node.args
                if _each(argument) & {"Exception", "BaseException"}
            ]
            yield from ((f"suppress({ast.unparse(argument)})", node.lineno) for argument in broad)


def _each(caught: ast.expr | None) -> set[str]:
    """The classes a handler names; the empty word for a bare one."""
    if isinstance(caught, ast.Tuple | ast.List):
        return set().union(*(_each(part) for part in caught.elts))
    if isinstance(caught, ast.Starred):
        return _each(caught.value)
    return {ast.unparse(caught).removeprefix("builtins.") if caught is not None else ""}


def told(path: Path, broken: Broken) -> str:
    return "\n".join(f"{name_of(path)}:{line}: {what}" for what, line in broken)


def everywhere(rule: Callable[[Path], Broken]) -> str:
    """What breaks a rule in any of the modules."""
    return "\n".join(filter(None, (told(path, rule(path)) for path in modules())))


def test_a_module_imports_only_what_lies_below_it() -> None:
    assert {part_of(path) for path in modules()} <= set(MAY_IMPORT), "a part is not in the list"
    assert not everywhere(lambda path: wrong_imports(tree_of(path), part_of(path)))


def public_modules(part: str) -> set[str]:
    """The modules that `__all__` of a part lists; none for an adapter."""
    if not (SOURCE / part / "__init__.py").exists():
        return set()
    for node in tree_of(SOURCE / part / "__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def private_imports(tree: ast.Module, part: str) -> Broken:
    for name, line in imports(tree):
        words = name.split(".")
        if words[0] != "ralph" or len(words) < 3 or words[1] == part:
            continue
        public = public_modules(words[1])
        if public and words[2] not in public:
            yield name, line


def test_other_parts_use_only_the_public_modules_of_a_part() -> None:
    assert not everywhere(lambda path: private_imports(tree_of(path), part_of(path)))


def test_a_private_module_of_another_part_is_caught() -> None:
    assert list(private_imports(ast.parse("from ralph.recall import passages"), "cli"))
    assert not list(private_imports(ast.parse("from ralph.recall import passages"), "recall"))


def test_only_the_file_store_writes_files() -> None:
    def writes(path: Path) -> Broken:
        allowed = HARMLESS.get(name_of(path), set())
        if name_of(path) not in WRITERS:
            yield from (
                (call, line) for call, line in file_writes(tree_of(path)) if call not in allowed
            )

    assert not everywhere(writes)


def test_only_db_opens_sqlite() -> None:
    assert not everywhere(
        lambda path: iter(()) if name_of(path) in OPENS_SQLITE else sqlite_uses(tree_of(path))
    )


def test_processes_start_in_few_places() -> None:
    assert not everywhere(
        lambda path: (
            iter(())
            if {part_of(path), name_of(path)} & STARTS_PROCESSES
            else processes(tree_of(path))
        )
    )


def test_nothing_starts_through_a_shell() -> None:
    assert not everywhere(lambda path: shells(tree_of(path)))


def test_the_config_is_loaded_in_adapters_only() -> None:
    def loads(path: Path) -> Broken:
        if not {part_of(path), name_of(path)} & CONFIG_LOADERS:
            yield from config_loads(tree_of(path))

    assert not everywhere(loads), "pass values instead"


def test_broad_excepts_stand_in_adapters_only() -> None:
    assert not everywhere(
        lambda path: iter(()) if part_of(path) in BROAD_EXCEPT else broad_excepts(tree_of(path))
    )


def test_the_rules_for_secrets_know_neither_threads_nor_files() -> None:
    unwanted = {"anyio", "asyncio", "signal", "threading", "ralph.storage"}
    for path in modules():
        if part_of(path) == "privacy":
            names = [name for name, _ in imports(tree_of(path))]
            assert not [name for name in names if name.startswith(tuple(unwanted))], path


STATE_FOLDERS = ("log", "sessions", "runs", "cache", "injected", "subagents")
NAMES_STATE_FOLDERS = {"lean/discovery.py", "core/paths.py"}
FOREIGN_FOLDERS = {"sharing/histories.py"}
"""Reads the folders of other programs, which have names of their own."""


def folder_names(tree: ast.Module) -> Broken:
    """Folders of the state that are spelled out: `folder / "runs"`, `f"{state}/cache/x"`, `"log/runs"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if isinstance(node.right, ast.Constant) and node.right.value in STATE_FOLDERS:
                yield str(node.right.value), node.lineno
        elif isinstance(node, ast.JoinedStr):
            for part in node.values:
                text = part.value if isinstance(part, ast.Constant) else ""
                if str(text).startswith(tuple(f"/{name}" for name in STATE_FOLDERS)):
                    yield str(text), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            first, slash, rest = node.value.partition("/")
            if slash and first in ("log", "cache") and rest and " " not in rest:
                yield node.value, node.lineno


def test_the_folders_of_the_state_are_named_in_one_place() -> None:
    def spelled_out(path: Path) -> Broken:
        if name_of(path) not in NAMES_STATE_FOLDERS | FOREIGN_FOLDERS and part_of(path) != "web":
            yield from folder_names(tree_of(path))

    assert not everywhere(spelled_out), "use lean/discovery.py in hooks, core/paths.py elsewhere"


def test_every_module_opens_with_its_design_note() -> None:
    assert [name_of(path) for path in modules() if not ast.get_docstring(tree_of(path))] == []


def test_the_model_reads_no_file_and_only_ids_knows_the_clock() -> None:
    for path in modules():
        if part_of(path) == "model" and path.name != "ids.py":
            names = {name.split(".")[0] for name, _ in imports(tree_of(path))}
            values = (
                {"pathlib"} if path.name == "work.py" else set()
            )  # a folder's name, which only agents open
            assert (
                names <= {"collections", "dataclasses", "enum", "types", "typing", "ralph"} | values
            ), path


HOOK_MODULES = {
    *(f"hooks/{name}.py" for name in ("run", "handler", "answer")),
    *(f"storage/{name}.py" for name in ("hook_index", "index_schema", "lookup")),
    *(
        f"lean/{name}.py"
        for name in (
            "__init__",
            "discovery",
            "foreign_commands",
            "hook_files",
            "quick_imports",
            "secret_prefilter",
            "secret_rules",
            "taint",
        )
    ),
    *(f"storage/{name}.py" for name in ("record_filters", "supersession")),
    *(
        f"search/{name}.py"
        for name in ("background", "candidates", "long_queries", "question", "rank", "scoring")
    ),
    "capture/error_lines.py",
    "capture/uninformative_lines.py",
    *(f"recall/{name}.py" for name in ("action_recall", "citation_cache", "command_lines")),
    *(f"recall/{name}.py" for name in ("eligibility", "error_features", "file_mentions")),
    *(f"recall/{name}.py" for name in ("lessons", "one_line", "prompt_recall", "shown_records")),
    *(f"recall/{name}.py" for name in ("amendments", "passage_search", "passages", "pointers")),
    *(f"recall/{name}.py" for name in ("quotes", "recaps", "relevance")),
    *(
        f"core/{name}.py"
        for name in (
            "family",
            "patterns",
            "programs",
            "prompts",
            "remember",
            "render",
            "terms",
            "tokens",
        )
    ),
    *(
        f"privacy/{name}.py"
        for name in (
            "assignment_places",
            "redactor",
            "private_paths",
            "private_parts",
            "json_values",
            "hook_payloads",
            "assignment_values",
            "assignments",
            "foreign_labels",
            "harmless_values",
            "injection",
            "invisible_characters",
            "passwords",
            "privacy",
            "private_keys",
            "secrets",
            "url_passwords",
            "vendor_tokens",
            "word_splitters",
        )
    ),
    *(f"privacy/secret_{name}.py" for name in ("context", "names", "phrases", "tables", "values")),
}
"""What hooks load; `tests/hooks/test_modules.py` has the modules of each event."""
HEAVY = {"dataclasses", "typing", "pathlib", "inspect", "contextlib"}
"""Each of these costs more than recording an event."""


@pytest.mark.parametrize("name", sorted(HOOK_MODULES))
def test_what_hooks_load_imports_nothing_heavy(name: str) -> None:
    heavy = []
    for node in tree_of(
        SOURCE / name
    ).body:  # what is inside of a function or a TYPE_CHECKING block is not run
        if isinstance(node, ast.Import | ast.ImportFrom):
            heavy += [
                module
                for module, _ in imports(ast.Module([node], []))
                if module.split(".")[0] in HEAVY
            ]
    assert heavy == []


@pytest.mark.parametrize(
    "package", sorted({Path(name).parent.as_posix() for name in HOOK_MODULES} - {"."})
)
def test_the_packages_of_hook_modules_load_nothing(package: str) -> None:
    statements: list[ast.stmt] = [
        node
        for node in tree_of(SOURCE / package / "__init__.py").body
        if isinstance(node, ast.Import | ast.ImportFrom)  # what type checkers read is in an `if`
    ]
    assert not list(imports(ast.Module(statements, [])))


def test_the_fakes_are_for_tests_alone() -> None:
    assert not any("testing" in parts for parts in MAY_IMPORT.values())


CAUGHT: dict[Callable[[ast.Module], Broken], tuple[str, ...]] = {
    file_writes: (
        "path.open('w')",
        "path.open('a', encoding='utf-8')",
        "Path('x').open(mode='x')",
        "path.open('r+b')",
        "path.replace(other)",
        "import shutil\nshutil.copy2(a, b)",
        "import shutil\nshutil.copytree(a, b)",
        "from shutil import move as put\nput(a, b)",
        "import os\nos.makedirs(a)",
        "import os as system\nsystem.write(1, b'')",
        "from os import mkdir\nmkdir(a)",
        "import os\nos.unlink(a)",
        "import os\nos.fdopen(1, 'w')",
        "import tempfile\ntempfile.NamedTemporaryFile()",
        "open(a)",
        "import io\nio.open(a, 'w')",
        "import posix\nposix.open(a, 1)",
        "from posix import unlink as gone\ngone(a)",
    ),
    sqlite_uses: (
        "import sqlite3\nsqlite3.connect(a)",
        "import sqlite3 as s\ns.connect(a)",
        "from sqlite3 import connect",
        "import sqlite3\nmake = sqlite3.connect",
        "from sqlite3 import dbapi2\ndbapi2.connect(a)",
        "import sqlite3.dbapi2",
        "import _sqlite3\n_sqlite3.connect(a)",
    ),
    processes: (
        "import subprocess",
        "from subprocess import run",
        "import os\nos.execvp(a, b)",
        "import multiprocessing",
        "import posix\nposix.fork()",
        "from posix import execv",
    ),
    shells: (
        "from os import system",
        "import os\nos.popen(a)",
        "import subprocess\nsubprocess.run(a, shell=True)",
    ),
    config_loads: (
        "from ralph.core.config import load",
        "from ralph.core.config import load as read",
        "from ralph.core import config\nconfig.load(a)",
        "from ralph.core import config as c\nreader = c.load",
        "import ralph.core.config\nralph.core.config.load(a)",
        "from ralph.core.config import *",
    ),
    folder_names: (
        "log / 'sessions'",
        "paths.state_folder(root) / 'cache' / name",
        "f'{state}/cache/hook'",
        "f'{LOG}/runs'",
        "project.append('cache/subagents', name)",
    ),
    broad_excepts: (
        "try: a\nexcept: b",
        "try: a\nexcept Exception: b",
        "try: a\nexcept (Exception, OSError): b",
        "try: a\nexcept (OSError, (ValueError, BaseException)): b",
        "try: a\nexcept (*ERRORS, Exception) as error: raise b from error",
        "from contextlib import suppress\nwith suppress(Exception): a",
    ),
}

PASSED: dict[Callable[[ast.Module], Broken], tuple[str, ...]] = {
    file_writes: (
        "path.open(encoding='utf-8', newline='')",
        "path.open('rb')",
        "'a'.replace('b', 'c')",
        "from dataclasses import replace\nreplace(record, text='')",
        "import shutil\nshutil.get_terminal_size()",
        "import tempfile\ntempfile.TemporaryDirectory()",
    ),
    sqlite_uses: (
        "import sqlite3\ndef f(c: sqlite3.Connection) -> sqlite3.Row: ...",
        "from sqlite3 import Error",
    ),
    config_loads: (
        "from ralph.core.config import Config, template",
        "from ralph.core import config\nconfig.key_named(a)",
    ),
    folder_names: ("f'{discovery.RUNS}/{name}'", "{'sessions': 1, 'log': 2}", "'log / out'"),
    broad_excepts: (
        "try: a\nexcept (OSError, ValueError): b",
        "try: a\nexcept BaseException:\n    b\n    raise",
    ),
}


@pytest.mark.parametrize(
    ("rule", "code"), [(rule, code) for rule, codes in CAUGHT.items() for code in codes]
)
def test_a_rule_catches_the_ways_around_it(rule: Callable[[ast.Module], Broken], code: str) -> None:
    assert list(rule(ast.parse(code)))


@pytest.mark.parametrize(
    ("rule", "code"), [(rule, code) for rule, codes in PASSED.items() for code in codes]
)
def test_a_rule_lets_honest_code_pass(rule: Callable[[ast.Module], Broken], code: str) -> None:
    assert not list(rule(ast.parse(code)))


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("storage", "from ralph.search import rank"),
        ("storage", "from ralph import search"),
        ("storage", "import ralph.memory.memory"),
        ("core", "from ralph.formats import log"),
        ("memory", "from ralph.telepathy import read"),  # not in the list
        ("memory", "from ralph.testing import HashEmbedder"),
        ("cli", "from ralph import testing"),
        ("testing", "from ralph.memory import memory"),
        ("hooks", "from ralph.cli import main"),
        ("web", "from ralph.hooks import run"),
        ("memory", "from ralph.hooks.handler import Payload"),
        ("formats", "from . import lines"),
        ("core", "import ralph"),
    ],
)
def test_an_import_that_does_not_lead_downward_is_caught(part: str, code: str) -> None:
    assert list(wrong_imports(ast.parse(code), part))


POSSESSIVE_GROUP = re.compile(r"(?<![\\(])\)(?:[*+?]|\{\d*,?\d*\})\+")
POSSESSIVE_PART = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\+")


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before Python 3.11.5, such a pattern may match half of a repetition (CPython issue 106052).

    An atomic group, `(?>(?:...)*)`, does the same on every version.
    """

    def possessive_groups(path: Path) -> Broken:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if POSSESSIVE_GROUP.search(node.value):
                    yield node.value, node.lineno
            elif isinstance(node, ast.JoinedStr):
                for before, after in itertools.pairwise(node.values):
                    follows_part = isinstance(before, ast.FormattedValue)
                    text = after.value if isinstance(after, ast.Constant) else ""
                    if follows_part and POSSESSIVE_PART.match(str(text)):
                        yield str(text), node.lineno

    assert not everywhere(possessive_groups)
