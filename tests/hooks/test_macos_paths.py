"""Hooks recognise files and projects however macOS writes their paths.

A name may be decomposed (a letter and its accent are two characters), and `/var` is a link to
`/private/var`. No Mac is needed to send such paths.
"""

import json
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from tests.support.world import World, handled, payload, world

from ralph.core import paths
from ralph.core.record import MemoryKind
from ralph.memory import memory
from ralph.search import index

UMLAUTS = "`src/größe.py` must be saved in the encoding latin-1."
Form = Literal["NFC", "NFD"]
FORMS = pytest.mark.parametrize("form", ["NFC", "NFD"], ids=["composed", "decomposed"])


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path / "private")


@FORMS
def test_a_memory_about_a_file_is_given_before_the_file_is_edited(here: World, form: Form) -> None:
    memory.add(here.root, UMLAUTS, MemoryKind.FIX)
    index.sync(here.root)
    edited = normalize(form, f"{here.root}/src/größe.py")
    sent = payload("PreToolUse", tool_name="Edit", tool_input={"file_path": edited})
    answer = json.loads(handled(here.env, "PreToolUse", sent))
    assert UMLAUTS in answer["hookSpecificOutput"]["additionalContext"]


@FORMS
@pytest.mark.parametrize("glob_form", ["NFC", "NFD"], ids=["composed glob", "decomposed glob"])
def test_a_private_file_is_not_recorded(here: World, form: Form, glob_form: Form) -> None:
    globs = normalize(glob_form, "privacy:\n  paths: ['löhne/**']\n")
    (here.root / "ralph.yml").write_text(globs, encoding="utf-8")
    here.cached()
    for name in ("löhne/mai.csv", "preise/mai.csv"):
        read = normalize(form, f"{here.root}/{name}")
        sent = payload(tool_name="Read", tool_input={"file_path": read}, cwd=str(here.root))
        handled(here.env, "PostToolUse", sent)
    [line] = here.lines()
    assert "preise" in str(line["payload"])


def test_a_project_is_the_same_through_a_link(here: World, tmp_path: Path) -> None:
    (tmp_path / "var").symlink_to(tmp_path / "private")
    linked = tmp_path / "var" / here.root.relative_to(tmp_path / "private")
    for root in (here.root, linked):
        env = {name: value for name, value in here.env.items() if name != "CLAUDE_PROJECT_DIR"}
        handled(env, "PostToolUse", payload(cwd=str(root)))
    assert [line["event"] for line in here.lines()] == ["PostToolUse", "PostToolUse"]
    assert paths.state_folder(linked).samefile(paths.state_folder(here.root))
