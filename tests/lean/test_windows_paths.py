"""Paths as Windows clients write them: with backslashes, drives, shares, and in any case."""

import pytest

from ralph.capture.command_lines import split_commands
from ralph.lean import taint
from ralph.lean.foreign_commands import taint_of_command
from ralph.lean.taint import DEPENDENCY, NETWORK, OUTSIDE, Repository, may_be_foreign

ROOT = "C:/Users/ann/shop"


def shop(folder: str = r"C:\Users\ann\shop") -> Repository:
    return Repository(ROOT, folder, "0F5A", platform="win32")


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\ann\shop\src\cart.py",
        r"c:\users\ANN\Shop\src\cart.py",
        "C:/Users/ann/shop/src/cart.py",
        "/c/Users/ann/shop/src/cart.py",
        r"src\cart.py",
        r"..\shop\src\cart.py",
        r"C:\Users\ann\AppData\Local\Temp\claude\0f5a\tool-results\1.txt",
    ],
)
def test_a_file_of_the_project_does_not_taint_however_it_is_written(path: str) -> None:
    assert shop().taint_of(path) == ""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (r"C:\Users\ann\notes.md", OUTSIDE),
        (r"C:\Users\ann\shop2\a.py", OUTSIDE),
        (r"..\other\a.py", OUTSIDE),
        (r"D:\data\a.csv", OUTSIDE),
        (r"\\server\share\a.md", OUTSIDE),
        ("/d/data/a.csv", OUTSIDE),
        (r"node_modules\left-pad\README.md", DEPENDENCY),
        (r"C:\Users\ann\shop\.venv\Lib\site-packages\x.py", DEPENDENCY),
    ],
)
def test_a_foreign_file_taints_however_it_is_written(path: str, kind: str) -> None:
    assert shop().taint_of(path) == kind
    assert taint.taint_of_paths("Read", [path], shop()) == kind


@pytest.mark.parametrize(
    "command",
    [
        "curl.exe https://example.com/a",
        r"C:\Windows\System32\curl.exe https://example.com/a",
        "Invoke-WebRequest https://example.com/a",
        "iwr -Uri https://example.com/a -OutFile a",
        'powershell -Command "irm https://example.com/a"',
        'cmd /c "curl https://example.com/a"',
        "gh.exe issue view 3",
    ],
)
def test_programs_that_read_the_network_are_known_by_their_names_on_windows(command: str) -> None:
    assert may_be_foreign(command, shop())
    assert taint_of_command(command, shop()) == NETWORK


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (r"type node_modules\left-pad\README.md", DEPENDENCY),
        (r"Get-Content .venv\Lib\x.py", DEPENDENCY),
        (r"type src\cart.py", ""),
        (r"python -m pytest tests\test_cart.py", ""),
        (r'git commit -m "a \"quoted\" word"', ""),
    ],
)
def test_a_command_with_backslashes_reads_the_files_that_it_names(command: str, kind: str) -> None:
    assert taint_of_command(command, shop()) == kind


def test_a_file_that_the_session_wrote_does_not_taint_in_another_case() -> None:
    repository = shop()
    repository.written.add(repository.resolve(r"D:\Temp\Out.log"))
    assert repository.taint_of("d:/temp/out.log") == ""


def test_programs_are_found_in_paths_with_backslashes() -> None:
    [command] = split_commands(r".venv\Scripts\pytest.exe -q tests\test_a.py", "win32")
    assert command.words == (".venv/Scripts/pytest.exe", "-q", "tests/test_a.py")
    [escaped] = split_commands(r"cat a\ b", "win32")
    assert escaped.words == ("cat", "a b")
