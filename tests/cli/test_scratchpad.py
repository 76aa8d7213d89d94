"""`ralph scratchpad`: the working memory of one iteration; secrets are masked, the newest notes survive a budget."""

import stat

import pytest
from tests.support.runner import Project

from ralph.core.tokens import estimate

FILE = ".ralph/scratchpad.md"
TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def test_set_replaces_append_adds_and_clear_empties(ralph: Project) -> None:
    assert ralph("scratchpad", "--replace", "Next: `login` $form").out == "Replaced\n"
    assert ralph.read(FILE) == "Next: `login` $form\n"
    assert ralph("scratchpad", "- login works, logout still fails").out == "Appended\n"
    assert ralph("scratchpad", "- hello\n- tests pass").code == 0
    assert (
        ralph.read(FILE)
        == "Next: `login` $form\n- login works, logout still fails\n- hello\n- tests pass\n"
    )
    assert ralph("scratchpad").out == ralph.read(FILE)
    assert ralph("scratchpad", "--clear").out == "Cleared\n"
    assert ralph.read(FILE) == ""
    assert ralph("scratchpad", "--clear").out == "The scratchpad was already empty\n"


def test_only_its_owner_may_read_it(ralph: Project) -> None:
    ralph("scratchpad", "a note")
    assert stat.S_IMODE(ralph.file(FILE).stat().st_mode) == 0o600


def test_append_begins_on_a_line_of_its_own(ralph: Project) -> None:
    ralph.put(FILE, "# Mine\r\n\r\nno newline at the end")
    ralph("scratchpad", "next")
    assert ralph.read(FILE) == "# Mine\r\n\r\nno newline at the end\nnext\n"


def test_text_comes_from_stdin_or_a_file(ralph: Project) -> None:
    ralph("scratchpad", "--replace", "-", stdin="from `stdin` $1\n")
    ralph.put("plan.md", "from a file\n")
    ralph("scratchpad", "--file", str(ralph.file("plan.md")))
    assert ralph.read(FILE) == "from `stdin` $1\nfrom a file\n"


def test_a_missing_scratchpad_is_empty_in_every_format(ralph: Project) -> None:
    said = ralph("scratchpad")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert ralph("scratchpad", "--format", "json").json == {"text": "", "left_out": []}
    assert ralph.files() == []


@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        (["--replace", ""], b"", 1),
        ([" \n "], b"", 1),
        (["<private>all of it</private>"], b"", 1),
        (["--replace", "a\0b"], b"", 1),
        (["--replace", "-"], b"\xff", 1),
        (["--replace"], b"", 2),
        (["--replace", "text", "--file", "x"], b"", 2),
    ],
)
def test_what_cannot_be_kept_leaves_the_old_text(
    ralph: Project, words: list[str], stdin: bytes, code: int
) -> None:
    ralph.put(FILE, "before\n")
    said = ralph("scratchpad", *words, stdin=stdin)
    assert said.code == code
    assert said.err
    assert ralph.read(FILE) == "before\n"


@pytest.mark.parametrize("option", [["--replace"], []])
def test_secrets_are_masked_and_private_parts_left_out(ralph: Project, option: list[str]) -> None:
    said = ralph("scratchpad", *option, f"use {TOKEN} <private>call Ann</private>\nthen go on")
    assert said.code == 0
    assert "1 secret(s) redacted" in said.out
    assert "1 private section(s) left out" in said.out
    assert "then go on" in ralph.read(FILE)
    assert "[redacted: " in ralph.read(FILE)
    assert TOKEN.encode() not in ralph.everything()
    assert b"Ann" not in ralph.everything()


def test_a_budget_shows_the_tail_and_names_the_headings_left_out(ralph: Project) -> None:
    text = "".join(
        f"## Step {n}\n\n" + "some words of progress here\n" * 8 + "\n" for n in range(20)
    )
    ralph.put(FILE, text)
    said = ralph("scratchpad", "--budget", "200")
    assert estimate(said.out) <= 200
    note, _, kept = said.out.partition("\n")
    assert note == "<!-- the beginning is left out -->"
    assert kept.startswith("## Step ")
    assert text.rstrip().endswith(kept.rstrip())
    assert "left out: Step 0; Step 1;" in said.err
    shape = ralph("scratchpad", "--budget", "200", "--format", "json").json
    assert shape["text"] == said.out
    assert shape["left_out"][0] == "Step 0"
    assert ralph("scratchpad", "--budget", "0").out == text
