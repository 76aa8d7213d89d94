"""Detect which commands test, build, lint and type-check a project, from its files alone.

Each ecosystem yields what its files say, and the first command for a kind counts: a language's own files, then
targets of make and just, which often do more, then guesses from a folder of tests. Only the root is read. A command
never fetches anything: tools come from the project's environment, package managers stay offline, and a script or
target that installs, watches or rewrites files is skipped. Where that leaves nothing, a person names the command.
"""

import json
import re
import tomllib
from collections.abc import Container, Iterator, Mapping, Set
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from ralph.loop.criteria import CriterionKind, DetectedCommand

TEST, BUILD, LINT, TYPES = (
    CriterionKind.TEST_PASS,
    CriterionKind.BUILD_SUCCESS,
    CriterionKind.LINT_CLEAN,
    CriterionKind.TYPE_CHECK,
)
Detected = Iterator[tuple[CriterionKind, DetectedCommand]]
_LARGEST_FILE = 1_000_000
_MOST_ENTRIES = 2_000


class ProjectFiles:
    """The files of a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = cache(self._text)
        self.table = cache(self._table)

    def has(self, *names: str) -> str:
        """Return the first of these that exists, or ""; a name may be a pattern."""
        for name in names:
            if "*" in name:
                match = min((path.name for path in self.folder.glob(name)), default="")
            else:
                match = name if (self.folder / name).exists() else ""
            if match:
                return match
        return ""

    def _text(self, name: str) -> str:
        """Return the text of a file; "" when it is missing, too large or not a file."""
        path = self.folder / name
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
                return ""
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _table(self, name: str) -> Mapping[str, object]:
        """Return a TOML or JSON file; empty when it is missing or broken."""
        try:
            table = tomllib.loads(self.text(name)) if name.endswith(".toml") else json.loads(self.text(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return table if isinstance(table, dict) else {}

    def subtable(self, name: str, *keys: str) -> Mapping[str, object]:
        """Return a table within a file."""
        table: object = self.table(name)
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        return table if isinstance(table, dict) else {}

    def search(self, pattern: str, *names: str) -> str:
        """Return `file:line` of the first match of a regex (of its group, if it has one), or ""."""
        for name in names:
            match = re.search(pattern, self.text(name), re.MULTILINE)
            if match is not None:
                return f"{name}:{self.text(name).count(chr(10), 0, match.start(match.lastindex or 0)) + 1}"
        return ""

    def below(self, folder: str, pattern: str) -> str:
        """Return a file below a folder whose name matches a regex, or ""; reads a limited number of entries."""
        entries = islice((self.folder / folder).rglob("*"), _MOST_ENTRIES) if self.has(folder) else ()
        match = min((entry for entry in entries if re.fullmatch(pattern, entry.name)), default=None)
        return match.relative_to(self.folder).as_posix() if match is not None else ""


def detect_commands(folder: Path) -> Mapping[CriterionKind, DetectedCommand]:
    """Return the command for each kind that the project's files name."""
    project = ProjectFiles(folder)
    commands: dict[CriterionKind, DetectedCommand] = {}
    for detector in _DETECTORS:
        for kind, command in detector(project):
            commands.setdefault(kind, command)
    return MappingProxyType({kind: commands[kind] for kind in (TEST, BUILD, LINT, TYPES) if kind in commands})


def _when(reason: str, command: str, kind: CriterionKind, tool: str) -> Detected:
    if reason:
        yield kind, DetectedCommand(tuple(command.split()), f"{reason}: {tool}")


_ENVIRONMENTS = (".venv", "venv")
_LOCKS = {
    "uv.lock": "uv run --offline",
    "poetry.lock": "poetry run",
    "pdm.lock": "pdm run",
    "Pipfile.lock": "pipenv run",
}
_REQUIREMENTS = ("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "requirements/*.txt", "Pipfile")


def _tool(project: ProjectFiles, name: str) -> str:
    """Return how a Python tool is started: from the environment, by the package manager, or as a module."""
    for folder in _ENVIRONMENTS:
        if project.has(f"{folder}/bin/{name}"):
            return f"{folder}/bin/{name}"
    for folder in _ENVIRONMENTS:
        if project.has(f"{folder}/bin/python") and name != "pyright":
            return f"{folder}/bin/python -m {name}"
    runner = next((runner for lock, runner in _LOCKS.items() if project.has(lock)), "")
    if name == "unittest":
        return f"{runner} python -m unittest".strip() if runner else "python3 -m unittest"
    if runner:
        return f"{runner} {name}"
    return name if name in ("ruff", "pyright", "basedpyright") else f"python3 -m {name}"


def _python(project: ProjectFiles) -> Detected:
    why = (
        project.search(r"^\[tool\.pytest[.\]]", "pyproject.toml")
        or project.has("pytest.ini", ".pytest.ini", "pytest.toml")
        or project.search(r"^\[(?:tool:)?pytest\]", "setup.cfg", "tox.ini")
        or project.has("conftest.py", "tests/conftest.py", "test/conftest.py")
        or project.search(r"^[^#\n]*\bpytest\b", *filter(None, map(project.has, _REQUIREMENTS)))
    )
    yield from _when(why, _tool(project, "pytest"), TEST, "pytest")
    ruff = project.search(r"^\[tool\.ruff[.\]]", "pyproject.toml") or project.has("ruff.toml", ".ruff.toml")
    yield from _when(ruff, _tool(project, "ruff") + " check .", LINT, "ruff")
    flake8 = project.has(".flake8") or project.search(r"^\[flake8\]", "setup.cfg", "tox.ini")
    yield from _when(flake8, _tool(project, "flake8"), LINT, "flake8")
    mypy = (
        project.search(r"^\[tool\.mypy\]", "pyproject.toml")
        or project.has("mypy.ini", ".mypy.ini")
        or project.search(r"^\[mypy\]", "setup.cfg")
    )
    targets = project.subtable("pyproject.toml", "tool", "mypy").keys() & {"files", "packages", "modules"}
    targets |= {"files"} if project.search(r"^(?:files|packages|modules)\s*=", "mypy.ini", ".mypy.ini") else set()
    yield from _when(mypy, _tool(project, "mypy") + ("" if targets else " ."), TYPES, "mypy")
    for name in ("pyright", "basedpyright"):
        why = project.search(rf"^\[tool\.{name}\]", "pyproject.toml")
        why = why or (project.has("pyrightconfig.json") if name == "pyright" else "")
        yield from _when(why, _tool(project, name), TYPES, name)


def _python_tests(project: ProjectFiles) -> Detected:
    """Detect tests whose runner is named nowhere."""
    for folder in ("tests", "test", "."):
        test = project.below(folder, r"test_\w*\.py|\w+_test\.py") if folder != "." else project.has("test_*.py")
        if test and re.search(r"^\s*(?:import|from) unittest\b", project.text(test), re.MULTILINE):
            installed = _tool(project, "pytest").endswith("/bin/pytest")
            top = " -t ." if project.has(f"{folder}/__init__.py") else ""  # only a package can be imported from there
            unittest = f"{_tool(project, 'unittest')} discover -s {folder}{top}"
            yield from _when(test, _tool(project, "pytest") if installed else unittest, TEST, "a test of unittest")
        else:
            yield from _when(test, _tool(project, "pytest"), TEST, "a test")


_MANAGERS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_SCRIPTS = {
    TEST: "test test:ci test:unit unit",
    BUILD: "build compile",
    LINT: "lint lint:check lint:ci eslint",
    TYPES: "typecheck type-check check-types check:types types:check types tsc",
}
_NO_TEST = "no test specified"


def _scripts(project: ProjectFiles) -> Detected:
    scripts = project.subtable("package.json", "scripts")
    manager = str(project.table("package.json").get("packageManager", "")).partition("@")[0]
    if manager not in _MANAGERS.values():
        manager = next((name for lock, name in _MANAGERS.items() if project.has(lock)), "npm")
    for kind, names in _SCRIPTS.items():
        for name in names.split():
            lines = [str(scripts.get(script, "")) for script in (name, f"pre{name}", f"post{name}")]
            unsuitable = any(_is_unsuitable(line, _dependencies(project)) for line in lines)
            if lines[0].strip() and _NO_TEST not in lines[0] and not unsuitable:
                command = "npm test" if (manager, name) == ("npm", "test") else f"{manager} run {name}"
                why = project.search(rf'"scripts"\s*:[\s\S]*?("{re.escape(name)}")\s*:', "package.json")
                yield from _when(why, command, kind, f'the script "{name}"')


def _dependencies(project: ProjectFiles) -> Set[str]:
    return (
        project.subtable("package.json", "devDependencies").keys()
        | project.subtable("package.json", "dependencies").keys()
    )


def _node_tools(project: ProjectFiles) -> Detected:
    package = "package.json"
    dependencies = _dependencies(project)
    start = "yarn run " if project.has(".pnp.cjs") else "node_modules/.bin/"

    def installed(name: str, program: str) -> bool:
        return name in dependencies or bool(project.has(f"node_modules/.bin/{program}"))

    for name, command in (("vitest", "vitest run"), ("jest", "jest")):
        why = project.search(rf'"{name}"\s*:', package) or project.has(f"{name}.config.*")
        yield from _when(why if installed(name, name) else "", start + command, TEST, name)
    eslint = project.has("eslint.config.*", ".eslintrc", ".eslintrc.*") or project.search(
        r'"eslintConfig"\s*:', package
    )
    yield from _when(eslint if installed("eslint", "eslint") else "", start + "eslint .", LINT, "eslint")
    biome = project.has("biome.json", "biome.jsonc")
    yield from _when(biome if installed("@biomejs/biome", "biome") else "", start + "biome check .", LINT, "biome")
    tsconfig = project.has("tsconfig.json")
    mode = "tsc --build --noEmit" if project.search(r'"references"\s*:', "tsconfig.json") else "tsc --noEmit"
    if tsconfig and (installed("typescript", "tsc") or not (project.has(package) or project.has("deno.json*"))):
        yield from _when(tsconfig, (start if project.has(package) else "") + mode, TYPES, "TypeScript")


def _deno(project: ProjectFiles) -> Detected:
    name = project.has("deno.json", "deno.jsonc")
    if not name:
        return
    for kind, tasks in ((TEST, "test"), (BUILD, "build"), (LINT, "lint"), (TYPES, "check typecheck")):
        for task in tasks.split():
            command = project.subtable(name, "tasks").get(task)
            if isinstance(command, str) and not _is_unsuitable(command):
                why = project.search(rf'"{task}"\s*:', name)
                yield from _when(why, f"deno task {task}", kind, f'the task "{task}"')
    tests = project.below(".", r".*[._]test\.[jt]sx?|test\.[jt]sx?")
    yield from _when(tests, "deno test --cached-only", TEST, "a test of deno")
    yield from _when(name, "deno lint", LINT, "deno")
    yield from _when(name, "deno check --cached-only .", TYPES, "deno")


_BY_FILE = (
    ((".golangci.y*ml", ".golangci.toml", ".golangci.json"), LINT, "golangci-lint run", "golangci-lint"),
    (("go.mod", "go.work"), TEST, "env GOPROXY=off go test ./...", "go"),
    (("go.mod", "go.work"), BUILD, "env GOPROXY=off go build -o /dev/null ./...", "go"),
    (("go.mod", "go.work"), LINT, "env GOPROXY=off go vet ./...", "go"),
    (("go.mod", "go.work"), TYPES, "env GOPROXY=off go vet ./...", "go"),
    (("*.sln", "*.slnx", "*.csproj", "*.fsproj"), TEST, "dotnet test --no-restore", "dotnet"),
    (("*.sln", "*.slnx", "*.csproj", "*.fsproj"), BUILD, "dotnet build --no-restore", "dotnet"),
    (("mix.exs",), TEST, "mix test", "mix"),
    (("mix.exs",), BUILD, "mix compile", "mix"),
    ((".credo.exs",), LINT, "mix credo", "credo"),
    (("phpunit.xml", "phpunit.xml.dist"), TEST, "vendor/bin/phpunit", "phpunit"),
    (("phpstan.neon", "phpstan.neon.dist"), TYPES, "vendor/bin/phpstan analyse", "phpstan"),
)
"""Ecosystems in which a file alone decides."""


def _other_languages(project: ProjectFiles) -> Detected:
    cargo = project.has("Cargo.toml")
    workspace = " --workspace" if project.search(r"^\[workspace", "Cargo.toml") else ""
    for kind, verb in ((TEST, "test"), (BUILD, "build"), (TYPES, "check --all-targets")):
        yield from _when(cargo, f"cargo {verb} --offline{workspace}", kind, "cargo")
    yield from _when(cargo, f"cargo clippy --offline{workspace} --all-targets -- -D warnings", LINT, "clippy")
    for names, kind, command, tool in _BY_FILE:
        yield from _when(project.has(*names), command, kind, tool)
    gradle = project.has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    start = "./gradlew" if project.has("gradlew") else "gradle"
    yield from _when(gradle, f"{start} --offline test", TEST, "gradle")
    yield from _when(gradle, f"{start} --offline assemble", BUILD, "gradle")
    maven = project.has("pom.xml")
    start = "./mvnw" if project.has("mvnw") else "mvn"
    yield from _when(maven, f"{start} --offline test", TEST, "maven")
    yield from _when(maven, f"{start} --offline package -DskipTests", BUILD, "maven")
    start = "bundle exec " if project.has("Gemfile") else ""
    rspec = project.has(".rspec", "spec/spec_helper.rb") or project.search(r"^[^#\n]*\brspec", "Gemfile")
    yield from _when(rspec, f"{start}rspec", TEST, "rspec")
    yield from _when(project.has("bin/rails") if project.has("test") else "", "bin/rails test", TEST, "Rails")
    yield from _when(project.search(r"^[^#\n]*TestTask", "Rakefile"), f"{start}rake test", TEST, "rake")
    yield from _when(project.has(".rubocop.yml"), f"{start}rubocop", LINT, "rubocop")
    # only a configured CMake project: configuring may fetch
    cache_file = project.has("build/CMakeCache.txt", "cmake-build-*/CMakeCache.txt", "out/CMakeCache.txt")
    if project.has("CMakeLists.txt") and cache_file:
        folder = cache_file.rpartition("/")[0]
        tests = project.search(r"(?i)^[^#\n]*\b(?:enable_testing|add_test|include\s*\(\s*ctest)\b", "CMakeLists.txt")
        yield from _when(tests, f"ctest --test-dir {folder} --output-on-failure", TEST, "ctest")
        yield from _when(cache_file, f"cmake --build {folder}", BUILD, "cmake")


_UNSUITABLE = re.compile(
    r"(?<!no-)(?<!--)\binstall\b|\bnpm ci\b|\b(?:uv|pipenv|pdm) sync\b|\bpip download\b|\bcurl\b|\bwget\b"
    r"|\b(?:apt|apt-get|brew|apk|dnf)\s|\bgo get\b|\bgit (?:clone|pull|fetch|submodule)\b"
    r"|\bdocker(?:-compose| pull| build| compose)\b|\b(?:deps\.get|mod download|cargo add|npm i|pnpm i)\b"
    r"|\b(?:yarn|pnpm) add\b|\bnpm update\b|\byarn\s*(?:$|&&|;)|\bdlx\b|\bbunx\b|\buvx\b|\bpipx run\b"
    r"|--watch(?!\w|=false)|--watchAll(?!=false)|--fix\b|--write\b|--fix-only\b",
    re.MULTILINE,
)
_NPX = re.compile(r"\bnpx\s+((?:-\S+\s+)*)([^\s;&|]+)")
_TARGET_NAMES = {
    TEST: "test tests unit-test unittest",
    BUILD: "build compile",
    LINT: "lint",
    TYPES: "typecheck type-check types mypy",
}
_MAKE_RULE = re.compile(r"^([\w.$/][^\s:=#]*(?:[ \t]+[^\s:=#][^:=#\n]*?)?)[ \t]*::?(?![=:])([^\n]*)$")
_JUST_RULE = re.compile(r"^@?([A-Za-z_][\w-]*)((?:[ \t]+[^\s:=][^\s:]*)*)[ \t]*:(?!=)([^\n]*)$")
_DEEPEST = 8
_LONGEST_LINE = 2_000


def _is_unsuitable(command: str, dependencies: Container[str] = ()) -> bool:
    """Whether a command fetches, watches or rewrites files; npx fetches what is not a dependency."""
    fetched = (match[2] for match in _NPX.finditer(command) if "--no" not in match[1])
    return _UNSUITABLE.search(command) is not None or any(name not in dependencies for name in fetched)


class _TargetRules:
    """The rules of a Makefile or a justfile, by name: line, needs and recipe; variables are not expanded."""

    def __init__(self, text: str, *, just: bool = False) -> None:
        self.rules: dict[str, tuple[int, list[str], list[str]]] = {}
        names: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            line = line[:_LONGEST_LINE]
            match = (_JUST_RULE if just else _MAKE_RULE).match(line)
            if match is not None:
                names, rest = match[1].split(), match[match.lastindex or 0]
                if just and any("=" not in word and not word.startswith("*") for word in match[2].split()):
                    names = []  # a recipe with required parameters has no usable name
                prerequisites, _, inline = rest.partition(";")
                # a dependency with arguments is `(name arguments)` in just; `$(NAME)` is a variable of make
                needs = [
                    need if need.startswith("$") else need.strip("()")
                    for need in prerequisites.partition("#")[0].split()
                ]
                for name in names:
                    _, all_needs, recipe = self.rules.setdefault(name, (number, [], []))
                    all_needs += needs
                    recipe.append(inline)
            elif line[:1] in (" ", "\t"):
                for name in names:
                    self.rules[name][2].append(line)
            elif line.strip() and not line.startswith("#"):
                names = []

    def suitable(self) -> Iterator[tuple[CriterionKind, str]]:
        """Yield the targets that are commands for a kind; `check` is the tests if nothing else is, else the linter."""
        tested = any(name in self.rules for name in _TARGET_NAMES[TEST].split())
        for kind, names in (*_TARGET_NAMES.items(), (LINT if tested else TEST, "check")):
            for name in names.split():
                if name in self.rules and not any(map(_is_unsuitable, self._recipes(name, frozenset()))):
                    yield kind, name

    def _recipes(self, name: str, above: Set[str]) -> Iterator[str]:
        """Yield the commands of a target and of all that it needs."""
        if name not in self.rules or name in above or len(above) > _DEEPEST:
            return
        _, needs, recipe = self.rules[name]
        yield "\n".join(recipe).strip()
        for need in needs:
            yield from self._recipes(need, {*above, name})


def _make_and_just(project: ProjectFiles) -> Detected:
    makefile = project.has("GNUmakefile", "makefile", "Makefile")
    justfile = project.has("justfile", "Justfile", ".justfile")
    for program, name in (("make", makefile), ("just", justfile)):
        targets = _TargetRules(project.text(name) if name else "", just=program == "just")
        for kind, target in targets.suitable():
            line = targets.rules[target][0]
            yield from _when(f"{name}:{line}", f"{program} {target}", kind, f'the target "{target}"')


_DETECTORS = (_python, _scripts, _node_tools, _deno, _other_languages, _make_and_just, _python_tests)
