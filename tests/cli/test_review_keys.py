"""`ralph review` on a terminal: one key decides, another takes it back."""

from pathlib import Path

from tests.support.review_keys import reviewing
from tests.support.runner import Block, page

from ralph.core.record import Status, is_confirmed
from ralph.memory import reading

ONE, TWO = "mem-1705751400-a001", "mem-1705751401-a002"


def test_keys_decide_and_undo(tmp_path: Path) -> None:
    file = tmp_path / ".agent" / "memories.md"
    file.parent.mkdir()
    port, test = (
        "Redis runs on port",
        "When Redis is down the tests hang, so run `make services` before",
    )
    blocks = (
        Block(f"{port} 6379", ONE), Block(f"{port} 6380", TWO),
        Block(f"{test} them", "mem-3-a003"), Block(f"{test} them!", "mem-4-a004"),
    )  # fmt: skip
    file.write_text(page(*blocks), encoding="utf-8")
    before = file.read_bytes()
    with reviewing(tmp_path) as keys:
        keys.wait("1/2  contradiction")
        keys.press("x", "1/2")
        keys.press("s", "2/2  duplicate")
        assert reading.predecessors(reading.get_entry(tmp_path, TWO).record) == [ONE]
        keys.press("u", "1/2  contradiction")
        assert file.read_bytes() == before
        keys.press("n", "2/2  duplicate")
        keys.press("u", "2/2")
        keys.press("v")
        assert keys.end() == 0
    assert reading.get_entry(tmp_path, "mem-4-a004").record.status is Status.RETIRED
    assert reading.get_entry(tmp_path, TWO).record.text == f"{port} 6380"


def test_one_key_accepts_an_unconfirmed_memory_and_undo_marks_it_again(tmp_path: Path) -> None:
    file = tmp_path / ".agent" / "memories.md"
    file.parent.mkdir()
    blocks = [Block("Redis runs on port 6379", ONE, more=" | by: agent | unconfirmed: web")]
    blocks.append(Block("Use pnpm.", TWO, more=" | by: agent | unconfirmed: network"))
    file.write_text(page(*blocks), encoding="utf-8")
    with reviewing(tmp_path) as keys:
        keys.wait("it was added after reading the web")
        keys.press("a", "2/2")
        assert is_confirmed(reading.get_entry(tmp_path, ONE).record)
        keys.press("u", "1/2")
        assert not is_confirmed(reading.get_entry(tmp_path, ONE).record)
        keys.press("a", "2/2")
        keys.press("q")
        assert keys.end() == 0
    assert is_confirmed(reading.get_entry(tmp_path, ONE).record)
    assert not is_confirmed(reading.get_entry(tmp_path, TWO).record)
