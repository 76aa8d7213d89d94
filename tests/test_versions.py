"""A version number changes with what it stands for.

Databases and log lines on people's machines have the number of the schema or the rules that made
them, and are made again only if it differs. So each number is kept here with a digest of what it
stands for. If a test fails: raise the number if the change is more than wording, then copy the new
digest from the message.
"""

import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from types import ModuleType

import pytest

from ralph.core import terms
from ralph.lean import secret_prefilter, secret_rules
from ralph.privacy import (
    assignment_places,
    assignment_values,
    assignments,
    foreign_labels,
    harmless_values,
    injection,
    injection_guard,
    invisible_characters,
    passwords,
    private_keys,
    secret_context,
    secret_names,
    secret_phrases,
    secret_tables,
    secret_values,
    secrets,
    url_passwords,
    vendor_tokens,
    word_splitters,
)
from ralph.storage import graph, index_schema, team_server, vectors

SECRET_MODULES = (
    assignment_places,
    assignment_values,
    assignments,
    foreign_labels,
    harmless_values,
    invisible_characters,
    passwords,
    private_keys,
    secret_context,
    secret_names,
    secret_phrases,
    secret_prefilter,
    secret_rules,
    secret_tables,
    secret_values,
    secrets,
    url_passwords,
    vendor_tokens,
    word_splitters,
)
TOKENISED = (
    "getUserName snake_case HTTPServer2 v1.2.3 src/app/main.py it's e-mail O'Brien's",
    "Zurücksetzen naïve café ÉCOLE straße ﬁne Ⅳ",
    "データベースの接続 数据库连接 데이터베이스 연결을 สวัสดี",
    "running connections databases 2026-11-17 0x1F #42 a@b.example {{x}} 🔥",
)
"""Texts that show how words are split, folded and shortened."""


def digest(*parts: object) -> str:
    text = "\n".join(canonical(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def canonical(value: object) -> str:
    """Write a value in one way, whatever the order of a set or a mapping."""
    if isinstance(value, re.Pattern):
        return f"re({value.pattern!r}, {value.flags})"
    if isinstance(value, Mapping):
        items = [f"{canonical(key)}: {canonical(item)}" for key, item in value.items()]
        return f"{{{', '.join(sorted(items))}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(canonical, value)))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(canonical, value))}]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)


def constants(*modules: ModuleType) -> str:
    """Return the values of the constants in some modules. Renaming or moving one changes nothing."""
    data = (str, int, float, tuple, list, Mapping, set, frozenset, re.Pattern)
    values = {
        canonical(value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, data) and name.isupper() and name != "VERSION"
    }
    return "\n".join(sorted(values))


def statements(name: str) -> str:
    """An SQL file without its comments and line breaks."""
    text = resources.files("ralph.storage").joinpath(name).read_text(encoding="utf-8")
    lines = [line.partition("--")[0] for line in text.splitlines()]
    return " ".join(" ".join(lines).split())


def weights_digest() -> str:
    """Return the digest of the classifier's weights."""
    weights = resources.files("ralph.privacy").joinpath(injection_guard.WEIGHTS)
    return hashlib.sha256(weights.read_bytes()).hexdigest()


VERSIONS = {
    "index": (
        "index_schema.SCHEMA_VERSION", index_schema.SCHEMA_VERSION,
        (statements("schema.sql"), *map(terms.index_terms, TOKENISED), constants(injection_guard)),
    ),
    "injection": (
        "injection.GUARD_VERSION", injection.GUARD_VERSION,
        (weights_digest(), constants(injection_guard)),
    ),
    "graph": ("graph.VERSION", graph.VERSION, (statements("graph.sql"),)),
    "vectors": ("vectors.VERSION", vectors.VERSION, (statements("vectors.sql"),)),
    "team": (
        "team_server.VERSION (and add a numbered file)", team_server.VERSION,
        (statements("team/0001.sql"), statements("team/check.sql")),
    ),
    "secrets": (
        "secret_rules.VERSION", secret_rules.VERSION, (constants(*SECRET_MODULES),),
    ),
}  # fmt: skip
"""What has a version: the name and the value of its number, and what the number stands for."""

RECORDED = {
    "index": (27, "814ca4083e21f119"),
    "injection": (1, "f420c6e48d1da349"),
    "graph": (3, "f17f52c1bad25fcf"),
    "vectors": (1, "2aaaebc0cd42033d"),
    "team": (2, "b9211abcf584cea3"),
    "secrets": (9, "947c97b92733fcfa"),
}


@pytest.mark.parametrize("subject", VERSIONS)
def test_a_change_has_a_new_version(subject: str) -> None:
    constant, version, parts = VERSIONS[subject]
    recorded_version, recorded_digest = RECORDED[subject]
    if digest(*parts) == recorded_digest:
        assert version == recorded_version, f"record the new {constant} in RECORDED"
        return
    todo = f'set "{subject}": ({version}, "{digest(*parts)}") in RECORDED'
    if version == recorded_version:
        todo = f"raise {constant} unless only the form changed; then {todo}"
    pytest.fail(f"what {constant} stands for has changed: {todo}")
