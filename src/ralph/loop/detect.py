"""Which commands test, build, lint and type-check a project, from its files alone; nothing is started.

Each ecosystem is one function that yields what its files say; the first command for a kind counts, so the order
of `_WAYS` is the order of belief: what a language's own files say, then targets of make and just, which often do
more, then guesses from a folder of tests. Only the root is looked at. A command never fetches anything: tools are
taken from the project's own environment, package managers are told to stay offline, and a script or target that
installs, watches or rewrites files is passed over. Where that leaves nothing, the kind is absent and a person
names the command. `tests/loop/test_detect.py` holds the cases.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from ralph.loop.criteria import CriterionKind, Found
from ralph.loop.targets import Targets, unfit

TEST, BUILD, LINT, TYPES = (
    CriterionKind.TEST_PASS,
    CriterionKind.BUILD_SUCCESS,
    CriterionKind.LINT_CLEAN,
    CriterionKind.TYPE_CHECK,
)
Way = Iterator[tuple[CriterionKind, Found]]
_LARGEST = 1_000_000
_LOOKED_AT = 2_000


class Project:
    """A folder's files, read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = cache(self._text)
        self.table = cache(self._table)

    def has(self, *names: str) -> str:
        """The first of these that is there, or ""; a name may be a pattern."""
        for name in names:
            if "*" in name:
                found = next(iter(sorted(each.name for each in self.folder.glob(name))), "")
            else:
                found = name if (self.folder / name).exists() else ""
            if found:
                return found
        return ""

    def _text(self, name: str) -> str:
        """What a file says; "" when it is not there, too large or no file."""
        path = self.folder / name
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                return ""
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _table(self, name: str) -> Mapping[str, object]:
        """A TOML or JSON file; empty when it is not there or broken."""
        try:
            found = tomllib.loads(self.text(name)) if name.endswith(".toml") else json.loads(self.text(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def part(self, name: str, *keys: str) -> Mapping[str, object]:
        """A table within a file."""
        found: object = self.table(name)
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def said(self, name: str, pattern: str) -> str:
        """`file:line` where a file first says something (of a pattern with a group, that), or ""."""
        found = re.search(pattern, self.text(name), re.MULTILINE)
        if found is None:
            return ""
        return f"{name}:{self.text(name).count(chr(10), 0, found.start(found.lastindex or 0)) + 1}"

    def first_said(self, pattern: str, *names: str) -> str:
        """The first of several files that says something."""
        return next(filter(None, (self.said(name, pattern) for name in names)), "")

    def below(self, folder: str, pattern: str) -> str:
        """A file below a folder whose name matches, or ""; only so many entries are looked at."""
        entries = islice((self.folder / folder).rglob("*"), _LOOKED_AT) if self.has(folder) else ()
        matching = (each for each in entries if re.fullmatch(pattern, each.name))
        found = min(matching, default=None)
        return found.relative_to(self.folder).as_posix() if found is not None else ""


def commands(folder: Path) -> Mapping[CriterionKind, Found]:
    """The command for each kind that the project's files name."""
    project = Project(folder)
    found: dict[CriterionKind, Found] = {}
    for way in _WAYS:
        for kind, command in way(project):
            found.setdefault(kind, command)
    return MappingProxyType({kind: found[kind] for kind in (TEST, BUILD, LINT, TYPES) if kind in found})


def _when(why: str, words: str, kind: CriterionKind, of: str = "") -> Way:
    """A command, where there is a reason for it."""
    if why:
        yield kind, Found(tuple(words.split()), f"{why}: {of}" if of else why)


# --- Python --------------------------------------------------------------------------------------

_ENVIRONMENTS = (".venv", "venv")
_LOCKS = {
    "uv.lock": "uv run --offline",
    "poetry.lock": "poetry run",
    "pdm.lock": "pdm run",
    "Pipfile.lock": "pipenv run",
}
_REQUIREMENTS = ("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "requirements/*.txt", "Pipfile")


def _tool(project: Project, name: str) -> str:
    """How a Python tool is started: from the project's environment, through its package manager, or as a module."""
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


def _pytest(project: Project) -> Way:
    why = (
        project.said("pyproject.toml", r"^\[tool\.pytest[.\]]")
        or project.has("pytest.ini", ".pytest.ini", "pytest.toml")
        or project.first_said(r"^\[(?:tool:)?pytest\]", "setup.cfg", "tox.ini")
        or project.has("conftest.py", "tests/conftest.py", "test/conftest.py")
        or project.first_said(r"^[^#\n]*\bpytest\b", *_named(project, *_REQUIREMENTS))
    )
    yield from _when(why, _tool(project, "pytest"), TEST, "pytest")


def _named(project: Project, *patterns: str) -> tuple[str, ...]:
    return tuple(filter(None, (project.has(pattern) for pattern in patterns)))


def _python_tests(project: Project) -> Way:
    """Tests without a word about who runs them."""
    for folder in ("tests", "test", "."):
        test = project.below(folder, r"test_\w*\.py|\w+_test\.py") if folder != "." else project.has("test_*.py")
        if test and re.search(r"^\s*(?:import|from) unittest\b", project.text(test), re.MULTILINE):
            installed = _tool(project, "pytest").endswith("/bin/pytest")
            top = " -t ." if project.has(f"{folder}/__init__.py") else ""  # only a package can be reached from there
            words = _tool(project, "pytest") if installed else f"{_tool(project, 'unittest')} discover -s {folder}{top}"
            yield from _when(test, words, TEST, "a test of unittest")
        else:
            yield from _when(test, _tool(project, "pytest"), TEST, "a test")


def _python_checks(project: Project) -> Way:
    ruff = project.said("pyproject.toml", r"^\[tool\.ruff[.\]]") or project.has("ruff.toml", ".ruff.toml")
    yield from _when(ruff, _tool(project, "ruff") + " check .", LINT, "ruff")
    flake8 = project.has(".flake8") or project.first_said(r"^\[flake8\]", "setup.cfg", "tox.ini")
    yield from _when(flake8, _tool(project, "flake8"), LINT, "flake8")
    mypy = (
        project.said("pyproject.toml", r"^\[tool\.mypy\]")
        or project.has("mypy.ini", ".mypy.ini")
        or project.said("setup.cfg", r"^\[mypy\]")
    )
    named = project.part("pyproject.toml", "tool", "mypy").keys() & {"files", "packages", "modules"}
    named |= {"files"} if project.first_said(r"^(?:files|packages|modules)\s*=", "mypy.ini", ".mypy.ini") else set()
    yield from _when(mypy, _tool(project, "mypy") + ("" if named else " ."), TYPES, "mypy")
    for name in ("pyright", "basedpyright"):
        why = project.said("pyproject.toml", rf"^\[tool\.{name}\]")
        why = why or (project.has("pyrightconfig.json") if name == "pyright" else "")
        yield from _when(why, _tool(project, name), TYPES, name)


# --- JavaScript and TypeScript -------------------------------------------------------------------

_MANAGERS = {
    "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun", "package-lock.json": "npm",
}  # fmt: skip
_SCRIPTS = {
    TEST: "test test:ci test:unit unit",
    BUILD: "build compile",
    LINT: "lint lint:check lint:ci eslint",
    TYPES: "typecheck type-check check-types check:types types:check types tsc",
}
_NO_TEST = "no test specified"


def _scripts(project: Project) -> Way:
    scripts = project.part("package.json", "scripts")
    manager = str(project.table("package.json").get("packageManager", "")).partition("@")[0]
    if manager not in _MANAGERS.values():
        manager = next((name for lock, name in _MANAGERS.items() if project.has(lock)), "npm")
    for kind, names in _SCRIPTS.items():
        for name in names.split():
            around = [str(scripts.get(each, "")) for each in (name, f"pre{name}", f"post{name}")]
            if (
                around[0].strip()
                and _NO_TEST not in around[0]
                and not any(unfit(one, _needs(project)) for one in around)
            ):
                words = "npm test" if (manager, name) == ("npm", "test") else f"{manager} run {name}"
                why = project.said("package.json", rf'"scripts"\s*:[\s\S]*?("{re.escape(name)}")\s*:')
                yield from _when(why, words, kind, f'the script "{name}"')


def _needs(project: Project) -> Set[str]:
    return project.part("package.json", "devDependencies").keys() | project.part("package.json", "dependencies").keys()


def _node_tools(project: Project) -> Way:
    package = "package.json"
    needs = _needs(project)
    start = "yarn run " if project.has(".pnp.cjs") else "node_modules/.bin/"

    def there(name: str, program: str) -> bool:
        return name in needs or bool(project.has(f"node_modules/.bin/{program}"))

    for name, words in (("vitest", "vitest run"), ("jest", "jest")):
        why = project.said(package, rf'"{name}"\s*:') or project.has(f"{name}.config.*")
        yield from _when(why if there(name, name) else "", start + words, TEST, name)
    eslint = project.has("eslint.config.*", ".eslintrc", ".eslintrc.*") or project.said(package, r'"eslintConfig"\s*:')
    yield from _when(eslint if there("eslint", "eslint") else "", start + "eslint .", LINT, "eslint")
    biome = project.has("biome.json", "biome.jsonc")
    yield from _when(biome if there("@biomejs/biome", "biome") else "", start + "biome check .", LINT, "biome")
    tsconfig = project.has("tsconfig.json")
    mode = "tsc --build --noEmit" if project.said("tsconfig.json", r'"references"\s*:') else "tsc --noEmit"
    if tsconfig and (there("typescript", "tsc") or not (project.has(package) or project.has("deno.json*"))):
        yield from _when(tsconfig, (start if project.has(package) else "") + mode, TYPES, "TypeScript")


def _deno(project: Project) -> Way:
    name = project.has("deno.json", "deno.jsonc")
    if not name:
        return
    for kind, tasks in ((TEST, "test"), (BUILD, "build"), (LINT, "lint"), (TYPES, "check typecheck")):
        for task in tasks.split():
            command = project.part(name, "tasks").get(task)
            why = project.said(name, rf'"{task}"\s*:') if isinstance(command, str) and not unfit(command) else ""
            yield from _when(why, f"deno task {task}", kind, f'the task "{task}"')
    tests = project.below(".", r".*[._]test\.[jt]sx?|test\.[jt]sx?")
    yield from _when(tests, "deno test --cached-only", TEST, "a test of deno")
    yield from _when(name, "deno lint", LINT, "deno")
    yield from _when(name, "deno check --cached-only .", TYPES, "deno")


# --- compiled languages and others ---------------------------------------------------------------


def _rust(project: Project) -> Way:
    all_of_it = " --workspace" if project.said("Cargo.toml", r"^\[workspace") else ""
    why = project.has("Cargo.toml")
    for kind, verb in ((TEST, "test"), (BUILD, "build"), (TYPES, "check --all-targets")):
        yield from _when(why, f"cargo {verb} --offline{all_of_it}", kind, "cargo")
    yield from _when(why, f"cargo clippy --offline{all_of_it} --all-targets -- -D warnings", LINT, "clippy")


def _go(project: Project) -> Way:
    why = project.has("go.mod", "go.work")
    linter = project.has(".golangci.y*ml", ".golangci.toml", ".golangci.json")
    yield from _when(linter, "golangci-lint run", LINT, "golangci-lint")
    for kind, verb in ((TEST, "test"), (BUILD, "build -o /dev/null"), (LINT, "vet"), (TYPES, "vet")):
        yield from _when(why, f"env GOPROXY=off go {verb} ./...", kind, "go")


def _java(project: Project) -> Way:
    gradle = project.has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    for kind, verb in ((TEST, "test"), (BUILD, "assemble")):
        start = "./gradlew" if project.has("gradlew") else "gradle"
        yield from _when(gradle, f"{start} --offline {verb}", kind, "gradle")
    maven = project.has("pom.xml")
    for kind, verb in ((TEST, "test"), (BUILD, "package -DskipTests")):
        yield from _when(maven, f"{'./mvnw' if project.has('mvnw') else 'mvn'} --offline {verb}", kind, "maven")


def _dotnet(project: Project) -> Way:
    why = project.has("*.sln", "*.slnx", "*.csproj", "*.fsproj")
    yield from _when(why, "dotnet test --no-restore", TEST, "dotnet")
    yield from _when(why, "dotnet build --no-restore", BUILD, "dotnet")


def _elixir(project: Project) -> Way:
    yield from _when(project.has("mix.exs"), "mix test", TEST, "mix")
    yield from _when(project.has("mix.exs"), "mix compile", BUILD, "mix")
    yield from _when(project.has(".credo.exs"), "mix credo", LINT, "credo")


def _ruby(project: Project) -> Way:
    start = "bundle exec " if project.has("Gemfile") else ""
    rspec = project.has(".rspec", "spec/spec_helper.rb") or project.said("Gemfile", r"^[^#\n]*\brspec")
    yield from _when(rspec, f"{start}rspec", TEST, "rspec")
    yield from _when(project.has("bin/rails") if project.has("test") else "", "bin/rails test", TEST, "Rails")
    yield from _when(project.said("Rakefile", r"^[^#\n]*TestTask"), f"{start}rake test", TEST, "rake")
    yield from _when(project.has(".rubocop.yml"), f"{start}rubocop", LINT, "rubocop")


def _php(project: Project) -> Way:
    yield from _when(project.has("phpunit.xml", "phpunit.xml.dist"), "vendor/bin/phpunit", TEST, "phpunit")
    yield from _when(project.has("phpstan.neon", "phpstan.neon.dist"), "vendor/bin/phpstan analyse", TYPES, "phpstan")


def _cmake(project: Project) -> Way:
    """Only where it was configured: to configure may fetch."""
    cache_file = project.has("build/CMakeCache.txt", "cmake-build-*/CMakeCache.txt", "out/CMakeCache.txt")
    if not project.has("CMakeLists.txt") or not cache_file:
        return
    folder = cache_file.rpartition("/")[0]
    tests = project.said("CMakeLists.txt", r"(?i)^[^#\n]*\b(?:enable_testing|add_test|include\s*\(\s*ctest)\b")
    yield from _when(tests, f"ctest --test-dir {folder} --output-on-failure", TEST, "ctest")
    yield from _when(cache_file, f"cmake --build {folder}", BUILD, "cmake")


# --- make and just -------------------------------------------------------------------------------


def _targets(project: Project) -> Way:
    makefile = project.has("GNUmakefile", "makefile", "Makefile")
    justfile = project.has("justfile", "Justfile", ".justfile")
    for program, name in (("make", makefile), ("just", justfile)):
        targets = Targets(project.text(name) if name else "", just=program == "just")
        for kind, target in targets.fitting():
            where = f"{name}:{targets.line(target)}"
            yield from _when(where, f"{program} {target}", kind, f'the target "{target}"')


_WAYS = (
    _pytest, _python_checks, _scripts, _node_tools, _deno, _rust, _go, _java, _dotnet, _elixir, _ruby, _php, _cmake,
    _targets, _python_tests,
)  # fmt: skip
