"""The token of a server at an address: where it comes from, and what is refused before anything listens."""

import os
import stat
import threading
from pathlib import Path

import pytest

from ralph.errors import RalphError, Refused, UsageError
from ralph.mcp.server import VARIABLE, choose_token

GOOD = "0123456789abcdef0123456789ABCDEF"


def kept(path: Path, text: str = f"{GOOD}\n", mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(mode)
    return path


def test_without_a_wish_each_start_has_a_token_of_its_own_that_has_to_be_told() -> None:
    first, second = choose_token({}, None), choose_token({}, None)
    assert first[0] != second[0]
    assert len(first[0]) >= 43
    assert first[1] == second[1] == ""


def test_a_variable_gives_one_and_a_file_goes_before_it(tmp_path: Path) -> None:
    env = {VARIABLE: f" {GOOD}xx "}
    assert choose_token(env, None) == (f"{GOOD}xx", "$RALPH_MCP_TOKEN")
    file = kept(tmp_path / "token")
    assert choose_token(env, file) == (GOOD, str(file))


def test_a_missing_file_is_made_for_its_owner_alone_and_stays(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = tmp_path / "new" / "folder" / "token"
        first = choose_token({}, file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert choose_token({}, file) == first
    assert file.read_text(encoding="utf-8") == f"{first[0]}\n"


def test_two_servers_that_make_it_at_once_have_the_same(tmp_path: Path) -> None:
    found: list[str] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        found.append(choose_token({}, tmp_path / "token")[0])

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o602, 0o610])
def test_a_file_that_others_can_reach_is_refused_and_left_as_it_is(tmp_path: Path, mode: int) -> None:
    file = kept(tmp_path / "token", mode=mode)
    with pytest.raises(Refused, match="others can read or write it") as caught:
        choose_token({}, file)
    assert "chmod 600" in caught.value.hint
    assert GOOD not in str(caught.value)
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_through_a_link_it_is_the_file_behind_it_that_counts(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(kept(tmp_path / "open", mode=0o644))
    with pytest.raises(Refused, match="others can read"):
        choose_token({}, link)
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match="symbolic link"):
        choose_token({}, link)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_somebody_elses_file_is_refused(tmp_path: Path) -> None:
    file = kept(tmp_path / "token")
    os.chown(file, 12345, 12345)
    with pytest.raises(Refused, match="belongs to somebody else"):
        choose_token({}, file)


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Refused, match="is no regular file"):
        choose_token({}, tmp_path / "pipe")
    with pytest.raises(RalphError, match=r"regular file|cannot be read"):
        choose_token({}, tmp_path)
    with pytest.raises(RalphError, match="cannot be read"):
        choose_token({}, kept(tmp_path / "token") / "below")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds no token"),
        (" \n", "holds no token"),
        ("short", "a token of 5 characters"),
        ("x" * 513, "a token of 513 characters"),
        ("x" * 5000, "a token of"),
        (f"{GOOD} {GOOD}", "no token"),
        (f"{GOOD}\n{GOOD}", "no token"),
        (f"{GOOD}é", "no token"),
        (f"{GOOD}\r\nX-Evil: 1", "no token"),
        (f"{GOOD}\0", "no token"),
    ],
)
def test_what_cannot_be_sent_or_could_be_guessed_is_refused_and_not_repeated(
    tmp_path: Path, text: str, what: str
) -> None:
    for env, file in (({VARIABLE: text}, None), ({}, kept(tmp_path / "token", text))):
        with pytest.raises(UsageError, match=what) as caught:
            choose_token(env, file)
        assert not text.strip() or text.strip() not in str(caught.value)
