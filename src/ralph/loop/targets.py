"""The targets of a Makefile or a justfile that stand for a criterion, and which commands do not fit one.

A target counts by its name, unless it or something that it needs would fetch, watch or rewrite files: a check is
run after every iteration and must leave the project as it is. Variables are not followed: a recipe that hides an
installation behind one is believed. Part of `detect.py`; `tests/loop/test_detect.py`.
"""

import re
from collections.abc import Container, Iterator, Set
from dataclasses import dataclass

from ralph.loop.criteria import CriterionKind

_UNFIT = re.compile(
    r"(?<!no-)(?<!--)\binstall\b|\bnpm ci\b|\b(?:uv|pipenv|pdm) sync\b|\bpip download\b|\bcurl\b|\bwget\b"
    r"|\b(?:apt|apt-get|brew|apk|dnf)\s|\bgo get\b|\bgit (?:clone|pull|fetch|submodule)\b"
    r"|\bdocker(?:-compose| pull| build| compose)\b|\b(?:deps\.get|mod download|cargo add|npm i|pnpm i)\b"
    r"|\b(?:yarn|pnpm) add\b|\bnpm update\b|\byarn\s*(?:$|&&|;)|\bdlx\b|\bbunx\b|\buvx\b|\bpipx run\b"
    r"|--watch(?!\w|=false)|--watchAll(?!=false)|--fix\b|--write\b|--fix-only\b",
    re.MULTILINE,
)
_NPX = re.compile(r"\bnpx\s+((?:-\S+\s+)*)([^\s;&|]+)")
_NAMES = {
    CriterionKind.TEST_PASS: "test tests unit-test unittest",
    CriterionKind.BUILD_SUCCESS: "build compile",
    CriterionKind.LINT_CLEAN: "lint",
    CriterionKind.TYPE_CHECK: "typecheck type-check types mypy",
}
_RULE = re.compile(r"^([\w.$/][^\s:=#]*(?:[ \t]+[^\s:=#][^:=#\n]*?)?)[ \t]*::?(?![=:])([^\n]*)$")
_RECIPE = re.compile(r"^@?([A-Za-z_][\w-]*)((?:[ \t]+[^\s:=][^\s:]*)*)[ \t]*:(?!=)([^\n]*)$")
_DEEPEST = 8
_LONGEST = 2_000


def unfit(command: str, known: Container[str] = ()) -> bool:
    """Whether a command fetches, watches or rewrites files; what npx starts is fetched unless it is `known`."""
    fetched = (found[2] for found in _NPX.finditer(command) if "--no" not in found[1])
    return _UNFIT.search(command) is not None or any(name not in known for name in fetched)


@dataclass(frozen=True, slots=True)
class _Rule:
    line: int
    needs: tuple[str, ...]
    recipe: str


def _rule(line: str) -> tuple[tuple[str, ...], str] | None:
    """The names of a rule of make, and what stands behind the colon."""
    found = _RULE.match(line)
    return None if found is None else (tuple(found[1].split()), found[2])


def _recipe(line: str) -> tuple[tuple[str, ...], str] | None:
    """The same of just; a recipe that must be given words is nobody's command."""
    found = _RECIPE.match(line)
    if found is None:
        return None
    needed = any("=" not in word and not word.startswith("*") for word in found[2].split())
    return (() if needed else (found[1],)), found[3]


def _needed(words: str) -> tuple[str, ...]:
    """What a rule needs; just has `(name words)`, make has `$(NAME)`."""
    needs = words.partition("#")[0].split()
    return tuple(need.lstrip("(").rstrip(")") if not need.startswith("$") else need for need in needs)


class Targets:
    """The rules of a Makefile or a justfile, by name."""

    def __init__(self, text: str, *, just: bool = False) -> None:
        self._rules: dict[str, _Rule] = {}
        names: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            line = line[:_LONGEST]
            rule = _recipe(line) if just else _rule(line)
            if rule is not None:
                names, needs = rule
                before, _, inline = needs.partition(";")
                for name in names:
                    self._add(name, number, _needed(before), inline)
            elif line[:1] in (" ", "\t"):
                for name in names:
                    self._add(name, number, (), line)
            elif line.strip() and not line.startswith("#"):
                names = ()

    def _add(self, name: str, line: int, needs: tuple[str, ...], recipe: str) -> None:
        known = self._rules.get(name, _Rule(line, (), ""))
        self._rules[name] = _Rule(known.line, known.needs + needs, f"{known.recipe}\n{recipe}".strip())

    def line(self, name: str) -> int:
        """Where a target stands."""
        return self._rules[name].line

    def fitting(self) -> Iterator[tuple[CriterionKind, str]]:
        """The targets that are commands for a kind; `check` is the tests where nothing else is, else the linter."""
        for kind, names in _NAMES.items():
            for name in names.split():
                if self._fits(name):
                    yield kind, name
        if self._fits("check"):
            tested = any(name in self._rules for name in _NAMES[CriterionKind.TEST_PASS].split())
            yield (CriterionKind.LINT_CLEAN if tested else CriterionKind.TEST_PASS), "check"

    def _fits(self, name: str) -> bool:
        return name in self._rules and not any(unfit(recipe) for recipe in self._recipes(name, frozenset()))

    def _recipes(self, name: str, above: Set[str]) -> Iterator[str]:
        """The commands of a target and of all that it needs."""
        rule = self._rules.get(name)
        if rule is None or name in above or len(above) > _DEEPEST:
            return
        yield rule.recipe
        for need in rule.needs:
            yield from self._recipes(need, {*above, name})
