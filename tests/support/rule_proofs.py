"""Prove that each rule for secrets is needed, by switching it off and naming a case that then changes.

A rule is a row of a table, and a judge is a function that decides about a value. `python -m
tests.support.rule_proofs` looks for a case for each of them, writes `tests/golden/privacy/needed.json`
and prints those without one: they are to be deleted, or a case is missing.
"""

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from types import CodeType, FrameType, FunctionType
from typing import TypeVar

from tests.support.privacy_corpus import CORPUS, cases, golden_cases, text_of
from tests.support.random_tokens import random_token

from ralph.lean import secret_rules
from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy import passwords, secret_names, secret_values
from ralph.privacy.privacy import redact

Row = TypeVar("Row")
NEEDED = CORPUS / "needed.json"
_CHOSEN_VALUE = "kettlehill"
_VALUES = {secret_values.FAIR: "q7rtw2mz9p", secret_values.STRONG: "q7rTw2mz9p"}
_EXEMPT = {
    "secret_prefilter.may_match_glob",  # private paths
    "private_keys.has_private_key",  # private files
    "secret_prefilter.prints_secret",  # events with a command, in tests/hooks/test_channels.py
    "secret_phrases.printed_secrets",  # the same
    "secret_phrases._is_any_value",  # the condition of rules without one
    "secrets._custom_spans",  # the user's patterns
    "secrets._has_text_after_secret says_yes",  # saves a search
}
"""What does not decide about secrets, with the subject that it belongs to."""
_MODULES = (
    "lean.secret_prefilter",
    "privacy.assignment_places",
    "privacy.assignment_values",
    "privacy.assignments",
    "privacy.foreign_labels",
    "privacy.passwords",
    "privacy.private_keys",
    "privacy.secret_context",
    "privacy.secret_names",
    "privacy.secret_phrases",
    "privacy.secret_tables",
    "privacy.secret_values",
    "privacy.secrets",
    "privacy.url_passwords",
    "privacy.vendor_tokens",
)


@dataclass(frozen=True)
class Switch:
    """A way to switch off one rule or judge.

    `code` is that of the judge. A case for a row has one of the `words`, or its id is one of them.
    """

    name: str
    apply: Callable[[], object]
    undo: Callable[[], object]
    code: CodeType | None = None
    words: tuple[str, ...] = ()


def texts() -> dict[str, str]:
    """The text of every case, by its id."""
    found = {case.id: case.text for case in golden_cases()}
    found |= {str(case["id"]): text_of(case) for case in cases("secrets.json")}
    found |= {str(case["id"]): str(case["text"]) for case in cases("lookalikes.json")}
    for kind, prefixes, body, before in secret_rules.token_rules():
        for prefix in prefixes:
            token = random_token((kind, [prefix], body, before), "", Random(prefix))
            found[f"token {kind} {prefix}"] = f"use {token} now"
    for endings, name in secret_names._NAMES_BY_ENDING:
        value = _VALUES[name.weakest_grade]
        if name.kind == "password":
            value = _CHOSEN_VALUE
        found |= {f"name {ending}": f"{ending.upper()}={value}" for ending in endings}
    return found


def outcome(text: str) -> tuple[str, bool]:
    """What the rules and the pre-filter make of a text, or the name of the error that they raise."""
    try:
        return redact(text).text, needs_rules(text)
    except (AttributeError, IndexError, TypeError, ValueError) as error:  # without a judge
        return type(error).__name__, False


@contextmanager
def switched_off(switch: Switch) -> Iterator[None]:
    _forget_values()
    switch.apply()
    try:
        yield
    finally:
        switch.undo()
        _forget_values()


def switches() -> list[Switch]:
    """Every rule and judge."""
    found = [*_prefixes(), *_endings(), *_phrases()]
    for name in _MODULES:
        module = importlib.import_module(f"ralph.{name}")
        for function in vars(module).values():
            function = inspect.unwrap(function) if callable(function) else function
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                found += _judge(f"{name.partition('.')[2]}.{function.__name__}", function)
    return [
        switch
        for switch in found
        if switch.name not in _EXEMPT and switch.name.partition(" ")[0] not in _EXEMPT
    ]


def _prefixes() -> Iterator[Switch]:
    rules = secret_rules.token_rules()
    for number, (kind, prefixes, body, before) in enumerate(list(rules)):
        for prefix in prefixes:
            others = [other for other in prefixes if other != prefix]
            without = (kind, others, body, before)
            yield _row(f"token {kind} {prefix}", rules, number, without, f"token {kind} {prefix}")


def _endings() -> Iterator[Switch]:
    names = secret_names._NAMES_BY_ENDING
    for number, (endings, name) in enumerate(list(names)):
        for ending in endings:
            others = tuple(other for other in endings if other != ending)
            yield _row(f"name {ending}", names, number, (others, name), f"name {ending}")


def _phrases() -> Iterator[Switch]:
    rules = secret_rules.phrase_rules()
    for number, (kind, condition, keywords, follows, regex) in enumerate(list(rules)):
        name = f"phrase {kind} {keywords[0]!r} {condition} {follows!r} {len(regex)}"
        yield _row(name, rules, number, (kind, condition, (), follows, regex), *keywords)


def _row(name: str, rows: list[Row], number: int, without: Row, *words: str) -> Switch:
    """Return the switch that replaces a row of a table with one that finds less."""
    return Switch(
        name,
        partial(rows.__setitem__, number, without),
        partial(rows.__setitem__, number, rows[number]),
        words=words,
    )


def _judge(name: str, function: FunctionType) -> Iterator[Switch]:
    """Yield the ways to replace what a judge says with a constant, by its result type."""
    constants = {
        "bool": (_says_yes, _says_no),
        "int": (_says_sure, _says_nowhere),
        "Iterator[Span]": (_finds_nothing,),
        "Iterator[secret_values.Span]": (_finds_nothing,),
        "list[Span]": (_finds_nothing,),
        "Span | None": (_says_none,),
        "SecretName | None": (_says_none,),
    }
    code = function.__code__
    if code.co_freevars:
        return
    for constant in constants.get(str(function.__annotations__.get("return")), ()):
        replacement = constant.__code__
        if inspect.isgeneratorfunction(function):  # only another generator can take its place
            replacement = _yields_nothing.__code__
        yield Switch(
            f"{name} {constant.__name__.removeprefix('_')}",
            partial(setattr, function, "__code__", replacement),
            partial(setattr, function, "__code__", code),
            code,
        )


def _says_yes(*_arguments: object, **_names: object) -> bool:
    return True


def _says_no(*_arguments: object, **_names: object) -> bool:
    return False


def _says_sure(*_arguments: object, **_names: object) -> int:
    return 3


def _says_nowhere(*_arguments: object, **_names: object) -> int:
    return -1


def _says_none(*_arguments: object, **_names: object) -> None:
    return None


def _finds_nothing(*_arguments: object, **_names: object) -> list[object]:
    return []


def _yields_nothing(*_arguments: object, **_names: object) -> Iterator[object]:
    yield from ()


def _forget_values() -> None:
    passwords._is_password.cache_clear()
    secret_values._grade.cache_clear()


def _called(text: str) -> set[CodeType]:
    """The code that a text runs."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    _forget_values()
    sys.setprofile(note)
    try:
        outcome(text)
    finally:
        sys.setprofile(None)
    return found


def _find_proofs() -> dict[str, str | None]:
    everything = texts()
    before = {name: outcome(text) for name, text in everything.items()}
    callers: dict[CodeType, list[str]] = {}
    for name, text in everything.items():
        for code in _called(text):
            callers.setdefault(code, []).append(name)
    proofs: dict[str, str | None] = {}
    for switch in switches():
        if switch.code:
            tried = callers.get(switch.code, [])
        else:
            tried = [name for name in everything if name in switch.words]
            tried += [name for name, text in everything.items() if _has_word(text, switch.words)]
        with switched_off(switch):
            proofs[switch.name] = _first_change(tried, everything, before)
    return proofs


def _has_word(text: str, words: Iterable[str]) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in words)


def _first_change(
    tried: list[str], everything: dict[str, str], before: dict[str, tuple[str, bool]]
) -> str | None:
    for name in tried:
        if outcome(everything[name]) != before[name]:
            return name
    return None


def main() -> None:
    proofs = _find_proofs()
    found = {name: case for name, case in proofs.items() if case is not None}
    NEEDED.write_text(
        json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline=""
    )
    for name, case in proofs.items():
        if case is None:
            print(name)  # noqa: T201 - a tool


if __name__ == "__main__":
    main()
