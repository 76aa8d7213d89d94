"""What a loop prints and what of it is kept: everything, without what may not be written down."""

import re
from pathlib import Path

import pytest

from ralph.cli.loop import find_unprinted
from ralph.cli.loop_terminal import LoopTerminal
from ralph.core import paths

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
"""Made up; it only has the shape of a token."""
RUN = "run-00000001"


@pytest.fixture
def terminal(tmp_path: Path) -> LoopTerminal:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return LoopTerminal(tmp_path, RUN, (r"FALCON-\d+",))


def log(terminal: LoopTerminal) -> str:
    return paths.run_output(terminal.root, RUN).read_text(encoding="utf-8")


def test_a_word_that_comes_in_pieces_is_kept_back_until_its_line_ends(
    terminal: LoopTerminal,
) -> None:
    for piece in ("the key is ", TOKEN[:12], TOKEN[12:], " and FALC", "ON-99"):
        terminal.show(piece)
    terminal.show(" so far\n")
    assert TOKEN not in log(terminal)
    assert "FALCON-99" not in log(terminal)
    assert log(terminal).startswith("the key is [redacted: ")


def test_a_private_part_over_many_lines_is_never_written(terminal: LoopTerminal) -> None:
    for line in ("before\n", "<Private>\n", "friday\n", "</private>\n", "after\n"):
        terminal.show(line)
    assert "friday" not in log(terminal)
    assert log(terminal).splitlines()[0] == "before"
    assert log(terminal).splitlines()[-1] == "after"


@pytest.mark.parametrize(
    "opened", ["<private>", "<private reason='x'>", "-----BEGIN RSA PRIVATE KEY-----"]
)
def test_a_private_part_that_is_too_long_to_keep_back_stays_private(
    terminal: LoopTerminal, opened: str
) -> None:
    closed = "</private>" if opened.startswith("<") else "-----END RSA PRIVATE KEY-----"
    terminal.show(f"before\n{opened}\n")
    for number in range(5):
        terminal.show(f"Zm9vYmFyYmF6cXV1eGNvcmdlZ3JhdWx0{number}" * 2000 + "\n")
    terminal.show(f"{closed}\nafter\n")
    terminal.print_line("done")
    assert "Zm9vYmFy" not in log(terminal)
    assert "before" in log(terminal)
    assert log(terminal).endswith("after\nralph: done\n")


def test_what_was_kept_back_is_written_before_the_loops_own_line(terminal: LoopTerminal) -> None:
    terminal.show("no line end")
    terminal.print_line("iteration 1: done")
    assert log(terminal) == "no line end\nralph: iteration 1: done\n"


def test_words_go_to_stdout_and_the_loops_lines_to_stderr(
    terminal: LoopTerminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.show("hello\n")
    terminal.print_line("iteration 1: done")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("hello\n", "ralph: iteration 1: done\n")


def test_a_quiet_terminal_only_writes_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    terminal = LoopTerminal(tmp_path, RUN, (), quiet=True)
    terminal.show("hello\n")
    terminal.print_line("iteration 1: done")
    assert capsys.readouterr() == ("", "")
    assert log(terminal) == "hello\nralph: iteration 1: done\n"
    assert terminal.ask_feedback() == ""


def test_characters_that_would_move_a_terminals_cursor_are_not_printed(
    terminal: LoopTerminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.show("a\x1b[2Jb\n")
    assert "\x1b[2J" not in capsys.readouterr().out


def test_a_long_log_keeps_its_beginning_its_end_and_its_size(terminal: LoopTerminal) -> None:
    terminal.quiet = True
    terminal.show("the first line\n")
    sent = 0
    for number in range(200):
        text = f"{number} " + "x" * 99_990 + "\n"
        sent += len(text)
        terminal.show(text)
    terminal.show("the last line\n")
    text = log(terminal)
    assert len(text) < 8_100_000 < sent
    assert text.startswith("the first line\n0 xx")
    assert text.endswith("the last line\n")
    [left_out] = re.findall(r"^\[\.\.\. (\d+) bytes left out \.\.\.\]$", text, re.MULTILINE)
    note = f"[... {left_out} bytes left out ...]\n"
    everything = sent + len("the first line\nthe last line\n")
    assert len(text) - len(note) + int(left_out) == everything


def test_what_was_added_to_a_log_is_found_after_it_was_cut() -> None:
    printed = "".join(f"line {number}\n" for number in range(5_000))
    cut = f"line 0\n[... 999 bytes left out ...]\n{printed[-2_000:]}new\n"
    assert find_unprinted(printed + "new\n", printed) == "new\n"
    assert find_unprinted(cut, printed) == "new\n"
    assert find_unprinted("line 0\n[... 9 bytes left out ...]\nnew\n", printed) == "\nnew\n"
