"""Secrets are found piece by piece where they are found in the whole, and a file is searched once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.runner import Block, numbered, page

from ralph import paths
from ralph.app import doctor
from ralph.app.pages import health
from ralph.app.pages.health import chunks
from ralph.capture import privacy

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n> "
    + "\n> ".join(["MIIEowIBAAKCAQEAx7Vq9" * 3] * 6)
    + "\n> -----END RSA PRIVATE KEY-----"
)
ODD = [
    f"The token is {TOKEN}.", "password = 'hunter2-and-more-9Xq'", KEY, "nothing to see", "a colour: [32mgreen[0m",
    "| name | password |\n> |---|---|\n> | db | Tr0ub4dor&3x |", "postgres://app:s3cr3tpw9@db/shop", "\\x41 escaped",
]  # fmt: skip


@given(st.lists(st.sampled_from(ODD), min_size=1, max_size=30), st.integers(500, 4_000))
def test_pieces_find_what_the_whole_finds(texts: list[str], size: int) -> None:
    whole = page(*(Block(text, numbered(place)) for place, text in enumerate(texts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "CHUNK_SIZE", size)
        seen = health._continue_scan(whole, health._ScanState((0, 0)), False, (), None)
    assert seen.whole
    assert sorted(seen.found) == sorted((each.line, each.kind) for each in privacy.find_secrets(whole))


@given(st.text("a\n #", max_size=4_000), st.integers(1, 50), st.booleans())
def test_pieces_are_the_text_and_each_is_bounded_by_its_lines(text: str, size: int, lines: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "CHUNK_SIZE", size)
        found = list(chunks(text, lines=lines))
    assert "".join(text[start:end] for start, end in found) == text
    longest = max(map(len, text.split("\n")))
    assert all(end - start <= 9 * size + longest + 2 for start, end in found[:-1])


def test_no_piece_of_a_large_memory_file_is_large() -> None:
    text = page(*(Block(f"Part number {place} waits for the queue, and says so at length. " * 3, numbered(place))
                  for place in range(2_000)))  # fmt: skip
    assert len(text) > 400_000
    assert max(end - start for start, end in chunks(text)) < 2 * health.CHUNK_SIZE


def test_what_follows_a_very_long_line_is_in_pieces_again() -> None:
    text = "x" * 200_000 + "\n" + "a line of a log\n" * 100_000
    first, *rest = chunks(text, lines=True)
    assert first == (0, 200_001)
    assert max(end - start for start, end in rest) < 2 * health.CHUNK_SIZE


def log(root: Path, name: str, lines: list[str]) -> Path:
    path = paths.log_folder(root) / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_a_log_larger_than_what_is_searched_at_a_time_is_searched_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MAX_SCANNED", 1_000)
    monkeypatch.setattr(health, "CHUNK_SIZE", 200)
    log(tmp_path, "a", ['{"v":1,"type":"x"}'] * 400 + [f'{{"v":1,"token":"{TOKEN}"}}'])
    turns = 0
    while health.find_secrets(tmp_path)[1]:
        turns += 1
        assert turns < 20
    assert turns > 3
    assert [(leak.line, leak.rule) for leak in health.find_secrets(tmp_path)[0]] == [(401, "github token")]


def test_of_a_log_that_grew_the_new_lines_are_looked_at_and_of_a_rewritten_one_all(tmp_path: Path) -> None:
    quiet = ['{"v":1,"type":"x"}'] * 50
    path = log(tmp_path, "a", [f'{{"v":1,"token":"{TOKEN}"}}', *quiet])
    assert [leak.line for leak in health.find_secrets(tmp_path)[0]] == [1]
    path = log(tmp_path, "a", [f'{{"v":1,"token":"{TOKEN}"}}', *quiet, f'{{"v":1,"token":"{TOKEN}"}}'])
    assert [leak.line for leak in health.find_secrets(tmp_path)[0]] == [1, 52]
    log(tmp_path, "a", [*quiet, '{"v":2,"other":1}', *quiet, f'{{"v":1,"token":"{TOKEN}"}}'])
    assert [leak.line for leak in health.find_secrets(tmp_path)[0]] == [102]
    path.unlink()
    assert health.find_secrets(tmp_path) == ([], 0)


def test_what_was_found_stands_while_there_is_no_time_for_what_came_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, quiet = f'{{"v":1,"token":"{TOKEN}"}}', ['{"v":1,"type":"x"}'] * 50
    log(tmp_path, "b", [secret, *quiet])
    assert len(health.find_secrets(tmp_path)[0]) == 1
    monkeypatch.setattr(health, "MAX_SCANNED", 100)
    log(tmp_path, "a", quiet)
    log(tmp_path, "b", [secret, *quiet, *quiet, secret])
    found, left = health.find_secrets(tmp_path)
    assert (len(found), left) == (1, 1)
    assert len(health.find_secrets(tmp_path)[0]) == 2


def test_the_files_are_those_of_doctor(tmp_path: Path) -> None:
    log(tmp_path, "a", [f'{{"v":1,"token":"{TOKEN}"}}'])
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent/memories.md").write_text(page(Block(f"It is {TOKEN}.")), encoding="utf-8", newline="")
    theirs = [each for each in doctor.examine(tmp_path, secrets=True) if each.problem.code == "secret"]
    assert [(leak.line, leak.file) for leak in health.find_secrets(tmp_path)[0]] == sorted(
        ((each.problem.line, each.path.relative_to(tmp_path).as_posix()) for each in theirs), key=lambda one: one[1]
    )
