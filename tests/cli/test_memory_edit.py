"""`ralph memory edit`: one entry corrected, by options or in an editor, every other byte left alone."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.runner import Block, Project, page

ONE = Block(
    "Uses barrel exports",
    "mem-1705751400-a3f8",
    "build, api",
    more=" | supersedes: mem-1-a | ticket: 7",
)
TWO = Block("Chose Zod over Yup", "mem-1705751401-b4c5", created="2025-02-01", kind="decision")
MESSY = (
    "---\nSomebody's front matter\n---\n\n\n"
    + page(ONE, TWO)
    + "\n\n## Ideas  \n\n- loose bullet\n<!-- a comment\n-->"
)


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def edited(block: Block, text: str | None = None, tags: str | None = None) -> str:
    """The block as it stands in the file after a change of today."""
    before = str(block)
    if text is not None:
        before = before.replace(block.text, text)
    if tags is not None:
        before = before.replace(f"tags: {block.tags}", f"tags: {tags}")
    by = " by=agent" if text is not None else ""
    own = f" <!-- ralph: updated={today()} supersedes=mem-1-a{by} -->"
    return before.replace(" | supersedes: mem-1-a", "").replace(" -->", f" -->{own}")


def read(project: Project) -> str:
    """The file with days in place of the instants of edits."""
    return re.sub(r"(updated=\S{10})T\S+Z", r"\1", project.read())


@pytest.fixture
def project(ralph: Project) -> Project:
    """A file with two entries among somebody's own text."""
    ralph.put(".agent/memories.md", MESSY)
    return ralph


def editor(
    monkeypatch: pytest.MonkeyPatch, folder: Path, program: str, variable: str = "EDITOR"
) -> None:
    """Make a small Python program the user's editor; it gets the file's name as its argument."""
    script = folder / "editor.py"
    script.write_text(
        "import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n" + program, encoding="utf-8"
    )
    monkeypatch.setenv(variable, f"{sys.executable} {script}")


def test_a_new_text_replaces_the_old_and_keeps_the_rest_byte_for_byte(project: Project) -> None:
    said = project("memory", "edit", ONE.id, "--text", "Uses `barrel` exports")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"Changed {ONE.id} (.agent/memories.md:10)\n"
    assert read(project) == MESSY.replace(str(ONE), edited(ONE, "Uses `barrel` exports"))


def test_a_new_text_may_come_from_stdin(project: Project) -> None:
    assert project("memory", "edit", ONE.id, "--text", "-", stdin="One\n\nTwo $HOME\n").code == 0
    assert (
        project("memory", "show", ONE.id, "--format", "json").json["content"] == "One\n\nTwo $HOME"
    )


def test_a_new_text_may_begin_like_a_bullet(project: Project) -> None:
    assert project("memory", "edit", ONE.id, "--text", "- one\n- two").code == 0
    assert project("memory", "show", ONE.id, "--format", "json").json["content"] == "- one\n- two"


def test_new_tags_replace_the_old_ones_and_empty_ones_remove_them(project: Project) -> None:
    assert project("memory", "edit", ONE.id, "--tags", "ci,web").code == 0
    assert read(project) == MESSY.replace(str(ONE), edited(ONE, tags="ci, web"))
    assert project("memory", "edit", ONE.id, "--tags", "").code == 0
    assert project("memory", "show", ONE.id, "--format", "json").json["tags"] == []


def test_a_new_type_moves_the_entry_to_the_end_of_its_section(project: Project) -> None:
    assert project("memory", "edit", ONE.id, "--type", "Decision").code == 0
    moved = edited(ONE)
    assert read(project) == MESSY.replace(f"{ONE}\n", "").replace(str(TWO), f"{TWO}\n{moved}")
    shown = project("memory", "show", ONE.id, "--format", "json").json
    assert (shown["type"], shown["extra"], shown["updated_at"][:10]) == (
        "decision",
        {"ticket": "7"},
        today(),
    )


def test_what_is_already_so_changes_nothing(project: Project) -> None:
    before = project.marks()
    said = project(
        "memory", "edit", ONE.id, "--text", ONE.text, "--tags", ONE.tags, "--type", "pattern"
    )
    assert (said.code, said.out) == (0, f"Nothing changed in {ONE.id}\n")
    assert project.marks() == before


@pytest.mark.parametrize(
    ("words", "told"), [(["--text", " "], "empty"), (["--tags", "a|b"], "'a|b'")]
)
def test_what_cannot_be_kept_is_refused_and_nothing_changes(
    project: Project, words: list[str], told: str
) -> None:
    before = project.marks()
    said = project("memory", "edit", ONE.id, *words)
    assert said.code == 1
    assert told in said.err
    assert project.marks() == before


@pytest.mark.parametrize("variable", ["EDITOR", "VISUAL"])
def test_the_editor_gets_the_text_and_gives_the_new_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    program = "text = file.read_bytes().decode()\nfile.write_bytes(f'{text.upper()}\\n`more`\\n'.encode())"
    editor(monkeypatch, tmp_path, program, variable)
    assert project("memory", "edit", ONE.id).out.startswith(f"Changed {ONE.id}")
    assert (
        project("memory", "show", ONE.id, "--format", "json").json["content"]
        == "USES BARREL EXPORTS\n\n`more`"
    )


def test_an_editor_that_changes_nothing_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = project.marks()
    editor(monkeypatch, tmp_path, "")
    assert project("memory", "edit", ONE.id).out == f"Nothing changed in {ONE.id}\n"
    assert project.marks() == before


def test_a_text_emptied_in_the_editor_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor(
        monkeypatch,
        tmp_path,
        "import os\nfile.write_text('', encoding='utf-8')\nos.utime(file, (9, 9))",
    )
    before = project.marks()
    said = project("memory", "edit", ONE.id)
    assert said.code == 1
    assert "empty" in said.err
    assert project.marks() == before


def test_an_editor_that_fails_leaves_the_entry_as_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor(monkeypatch, tmp_path, "sys.exit(3)")
    before = project.marks()
    said = project("memory", "edit", ONE.id)
    assert (said.code, said.out) == (1, "")
    assert re.search("editor", said.err, re.IGNORECASE)
    assert project.marks() == before


def test_without_an_editor_or_a_terminal_it_is_said_what_to_do(project: Project) -> None:
    said = project("memory", "edit", ONE.id)
    assert said.code == 2
    assert "set EDITOR" in said.err
    assert "--text" in said.err


def test_the_editor_does_not_open_for_a_missing_memory(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor(monkeypatch, tmp_path, f"pathlib.Path({str(tmp_path / 'opened')!r}).touch()")
    assert project("memory", "edit", "mem-1-dead").code == 1
    assert not (tmp_path / "opened").exists()


def test_an_entry_that_changed_while_the_editor_was_open_is_kept_and_so_is_the_new_text(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = MESSY.replace(ONE.text, "Somebody else was here")
    memories = project.file(".agent/memories.md")
    program = f"pathlib.Path({str(memories)!r}).write_bytes({theirs!r}.encode())\nfile.write_bytes(b'My own words\\n')"
    editor(monkeypatch, tmp_path, program)
    said = project("memory", "edit", ONE.id)
    assert (said.code, said.out) == (1, "")
    assert "changed" in said.err
    assert "My own words" in said.err.partition("error: ")[2]
    assert project.read() == theirs


def test_an_entry_that_was_removed_while_the_editor_was_open_gives_back_the_new_text(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memories = project.file(".agent/memories.md")
    program = f"pathlib.Path({str(memories)!r}).write_bytes({page(TWO)!r}.encode())\nfile.write_bytes(b'My own words\\n')"
    editor(monkeypatch, tmp_path, program)
    said = project("memory", "edit", ONE.id)
    assert said.code == 1
    assert "My own words" in said.err
    assert project.read() == page(TWO)


def test_private_parts_that_an_edit_leaves_out_are_told(project: Project) -> None:
    said = project("memory", "edit", ONE.id, "--text", "Keep <private>HIDDEN</private> this")
    assert said.code == 0
    assert "left out 1 private section(s)" in said.err
    said = project("memory", "edit", ONE.id, "--tags", "<private>HIDDEN</private>")
    assert said.code == 1
    assert "no tag is left" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("edit", "mem-a3f8", "--archive", "--restore"), "--archive and --restore cannot be used"),
        (("edit", "mem-a3f8", "--archive", "--text", "x"), "--text does not apply to archiving"),
        (("show", "mem-a3f8", "--log", "--as-of", "7d"), "--log and --as-of cannot be used"),
        (("show", "mem-a3f8", "--log", "--format", "markdown"), "--format markdown cannot be used"),
    ],
)
def test_options_that_do_not_apply_together_are_refused(
    ralph: Project, words: tuple[str, ...], told: str
) -> None:
    said = ralph("memory", *words)
    assert (said.code, said.out, told in said.err) == (2, "", True), said.err
