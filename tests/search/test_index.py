"""The index as commands use it: broken in every way, read-only, contested; the answers stay the same.

A damaged database must never be seen by anybody: each test asks before and after. `ANSWERS` are questions whose
hits, scores and order are compared, so that a repaired index which ranks differently is a failure, too.
"""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.conftest import ordinary_user
from tests.support.index_sources import LOG, ended, put, seen
from tests.support.runner import Block, executable, numbered, page
from tests.support.sampling import SOAK, every

from ralph.core import ids, paths
from ralph.core.record import Outcome, Query
from ralph.formats.log import encode_line
from ralph.recall import memories
from ralph.recall.search import search
from ralph.search import index
from ralph.storage import db, lookup
from ralph.storage.index_files import sole_writer
from ralph.storage.index_schema import SCHEMA_VERSION

QUESTIONS = ("alpha", "ran pytest schema", "", "authentcation", "数据库")


def project(root: Path) -> Path:
    """A project with enough in it that its index has some dozen pages."""
    blocks = [
        Block(f"alpha number {n} of the authentication", numbered(n), "one, two") for n in range(40)
    ]
    put(root, ".agent/memories.md", page(*blocks, Block("数据库连接池", numbered(99))))
    put(root, ".ralph/guardrails.md", page(Block("never alpha", numbered(41)), title="Guardrails"))
    session = encode_line("session", {"id": "s1", "project_path": str(root)})
    lines = "".join(seen(f"ran pytest number {n}, read src/db/schema.ts", n) for n in range(60))
    put(root, LOG, session + lines)
    put(
        root,
        "log/runs/r1.jsonl",
        "".join(ended(out, n, f"number {n}") for n, out in enumerate(Outcome)),
    )
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path)


def answers(root: Path) -> list[object]:
    """What the questions give: totals, ids, scores, reasons and places, in their order."""
    told: list[object] = []
    for text in QUESTIONS:
        found = search(root, Query(text, limit=None)).found
        told.append((found.total, [(hit.record, hit.score, hit.why) for hit in found.hits]))
        told.append(memories.search(root, Query(text)))
    return told


# --- broken databases -----------------------------------------------------------------------------


def _delete(path: Path, chance: random.Random) -> None:
    path.unlink()


def _truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def _pages(path: Path, chance: random.Random) -> None:
    payload = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(payload) // 4096) * 4096
        payload[at : at + 4096] = chance.randbytes(4096)
    path.write_bytes(payload)


def _flips(path: Path, chance: random.Random) -> None:
    payload = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 5, 200])):
        payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
    path.write_bytes(payload)


def _header(path: Path, chance: random.Random) -> None:
    payload = bytearray(path.read_bytes())
    payload[chance.randrange(100)] ^= 0xFF
    path.write_bytes(payload)


def _zeros(path: Path, chance: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _text(path: Path, chance: random.Random) -> None:
    path.write_text("This is no database.\n" * 500, encoding="utf-8")


def _empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def _beside(suffix: str) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, chance: random.Random) -> None:
        path.with_name(path.name + suffix).write_bytes(
            chance.randbytes(chance.choice([1, 32, 4096, 40_000]))
        )

    return damage


def _another_version(path: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + chance.choice([-1, 1, 7])}")


def _another_program(path: Path, chance: random.Random) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sources(path TEXT, key INTEGER, mtime_ns, size, inode)")
        connection.execute("CREATE TABLE records(a, b)")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


DAMAGES = (
    _delete, _truncate, _truncate, _pages, _pages, _pages, _flips, _flips, _flips, _header, _header, _zeros,
    _text, _empty, _beside("-wal"), _beside("-shm"), _beside("-seal"), _another_version, _another_program,
)  # fmt: skip


SOME_KINDS = (
    range(57) if SOAK else [DAMAGES.index(damage) for damage in dict.fromkeys(DAMAGES)][::3]
)


@pytest.mark.soak
@pytest.mark.parametrize("number", SOME_KINDS)
def test_a_database_broken_in_any_way_answers_as_before(
    root: Path, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = answers(root)
    chance = random.Random(number)
    DAMAGES[number % len(DAMAGES)](paths.index_file(root), chance)
    assert answers(root) == before
    assert index.verify(root) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.soak
@pytest.mark.parametrize("number", every(range(19), 5))
def test_damage_that_leaves_no_trace_in_size_and_time_is_no_error_and_never_stays(
    root: Path, number: int
) -> None:
    """A disk that rots changes no time: what SQLite notices is repaired, and an answer is always given."""
    answers(root)
    path = paths.index_file(root)
    stat = path.stat()
    (_pages, _flips)[number % 2](path, random.Random(number))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for text in QUESTIONS:
        search(root, Query(text))
    if index.verify(root):
        index.rebuild(root)
    assert index.verify(root) == []


@pytest.mark.parametrize("garbled", [True, False])
def test_a_write_ahead_log_that_is_lost_or_garbled_costs_nothing(root: Path, garbled: bool) -> None:
    before = answers(root)
    path = paths.index_file(root)
    with closing(db.connect(path, read_only=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sources").fetchone()
        with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
            log.write(seen("ran pytest number 61", 61))
        after = answers(root)
        assert after != before
        copies = {name: (path.parent / name).read_bytes() for name in ("ralph.db", "ralph.db-wal")}
    assert len(copies["ralph.db-wal"]) > 0
    db.remove(path)
    path.write_bytes(copies["ralph.db"])
    if garbled:
        wal = bytearray(copies["ralph.db-wal"])
        wal[len(wal) // 2] ^= 0xFF
        path.with_name("ralph.db-wal").write_bytes(wal)
    assert answers(root) == after


def test_a_folder_in_its_place_costs_nothing_but_time(root: Path) -> None:
    before = answers(root)
    db.remove(paths.index_file(root))
    paths.index_file(root).mkdir()
    assert answers(root) == before
    assert not index.status(root)["index_complete"]
    for words in (("index", "sync"), ("index", "sync", "--rebuild")):
        said = executable(root, *words)
        assert (said.returncode, b"bug" in said.stderr) == (1, False)


def test_the_answers_after_many_edits_are_those_of_an_index_made_anew(root: Path) -> None:
    blocks = [Block(f"alpha number {n}", numbered(n)) for n in range(30)]
    for number in range(8):
        put(root, ".agent/memories.md", page(*blocks[number:]))
        put(
            root,
            ".ralph/guardrails.md",
            page(*(Block(f"alpha number {n}", numbered(n + 50)) for n in range(number, 9))),
        )
        with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
            log.write(seen(f"alpha number {number}", 70 + number, "s2"))
        search(root, Query("alpha"))
    before = answers(root)
    db.remove(paths.index_file(root))
    assert answers(root) == before
    index.rebuild(root)
    assert answers(root) == before


# --- where nothing can be written -----------------------------------------------------------------


def test_a_read_only_project_is_searched_in_memory_and_nothing_is_written(
    freezable: tuple[Path, Callable[[], None]], tmp_path: Path
) -> None:
    folder, freeze = freezable
    project(folder)
    other = project(tmp_path / "other")
    freeze()
    assert [
        each for each in answers(folder) if isinstance(each, tuple) and isinstance(each[0], int)
    ] == [each for each in answers(other) if isinstance(each, tuple) and isinstance(each[0], int)]
    assert memories.search(folder, Query("alpha"))[1][0].path == folder / ".agent/memories.md"
    assert list((folder / ".ralph").glob("ralph.db*")) == []


def test_a_project_of_somebody_else_is_searched_in_memory(shared: Path) -> None:
    put(shared, ".agent/memories.md", page(Block("alpha")))
    (shared / ".agent").chmod(0o755)
    shared.chmod(0o755)
    with ordinary_user():
        assert search(shared, Query("alpha")).found.total == 1
    assert not (shared / ".ralph").exists()


def test_a_folder_without_anything_to_remember_is_left_as_it_is(tmp_path: Path) -> None:
    assert search(tmp_path, Query("alpha")).found.total == 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_reason_not_to_answer(root: Path) -> None:
    before = answers(root)
    db.remove(paths.index_file(root))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "from pathlib import Path; from ralph.recall.search import search; from ralph.core.record import Query;"
        "print(search(Path(sys.argv[1]), Query('alpha', limit=None)).found.total)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, check=False)
    first = before[0]
    assert isinstance(first, tuple)
    assert said.stdout.decode().strip() == str(first[0]), said.stderr.decode()


# --- several at once ------------------------------------------------------------------------------


@pytest.mark.soak
def test_two_commands_at_once_both_answer_all_there_is(root: Path) -> None:
    command = [sys.executable, "-m", "ralph", "search", "alpha", "--all", "--format", "json"]
    for _ in range(3):
        db.remove(paths.index_file(root))
        both = [
            subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(3)
        ]
        said = [child.communicate() for child in both]
        assert [err for _, err in said] == [b"", b"", b""]
        assert len({out for out, _ in said}) == 1
        assert said[0][0].count(b'"score"') == 41


def test_a_search_meanwhile_answers_from_what_was_there(root: Path) -> None:
    before = answers(root)
    put(root, ".agent/memories.md", page(Block("omega")))
    with sole_writer(paths.index_file(root)):
        assert answers(root) == before
    assert answers(root) != before


# --- verify, status, prune ------------------------------------------------------------------------

DIFFERS = "differs in the index"
EDITS = {
    "UPDATE records SET text = 'forged' WHERE key = (SELECT min(key) FROM records)": DIFFERS,
    "UPDATE records SET tags = '[]' WHERE key = (SELECT max(key) FROM records WHERE tags <> '[]')": DIFFERS,
    "UPDATE journal_rows SET outcome = 'done' WHERE outcome = 'failed'": DIFFERS,
    "DELETE FROM observations WHERE seq = 3": "",
    "UPDATE observations SET created_at = '2030-01-01' WHERE seq = 3": DIFFERS,
    "INSERT INTO search(rowid, title, tags, text, files) VALUES (3000, 'more', '', '', '')": "the record is not",
    "INSERT INTO sources(key, path, format, mtime_ns, size, inode, digest, offset, lines) "
    "VALUES (99, 'nowhere.md', 'knowledge', 0, 0, 0, '', 0, 0)": "",
}


@pytest.mark.soak
@pytest.mark.parametrize("sql", every(list(EDITS), 3))
def test_verify_finds_what_was_changed_by_hand_and_the_next_search_heals_it(
    root: Path, sql: str
) -> None:
    before = answers(root)
    assert index.verify(root) == []
    with closing(sqlite3.connect(paths.index_file(root))) as connection, connection:
        connection.execute(sql)
    problems = index.verify(root)
    assert EDITS[sql] in " ".join(problems)
    if "sources" not in sql:
        assert problems
        assert index.verify(root) == problems
    assert answers(root) == before
    assert index.verify(root) == []


def test_verify_knows_what_was_just_written_to_a_file(root: Path) -> None:
    answers(root)
    put(root, ".agent/memories.md", page(Block("omega")))
    with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
        log.write(seen("half a line", 99).rstrip("\n"))
    assert index.verify(root) == []


def test_verify_says_that_a_database_is_damaged(root: Path) -> None:
    answers(root)
    path = paths.index_file(root)
    payload = bytearray(path.read_bytes())
    payload[8192 : 8192 + 8192] = b"\xff" * 8192
    path.write_bytes(payload)
    index.verify(root)
    answers(root)
    assert index.verify(root) == []


def test_status_counts_rows_and_bytes_and_changes_nothing(root: Path) -> None:
    before = index.status(root)
    assert (before["index_complete"], before["indexed"], before["database_bytes"]) == (False, {}, 0)
    assert not paths.index_file(root).exists()
    index.sync(root)
    size = index.status(root)
    assert size["index_complete"]
    assert size["indexed"] == {
        "sources": 4, "records": 42, "observations": 60, "journal": 5, "sessions": 1, "loop_runs": 0, "tasks": 0,
    }  # fmt: skip
    assert size["database_bytes"] > 4096
    assert size["log_bytes"] == sum(
        path.stat().st_size for path in (paths.log_folder(root)).rglob("*.jsonl")
    )
    _text(paths.index_file(root), random.Random(0))
    assert not index.status(root)["index_complete"]


def test_prune_lists_old_logs_and_removes_them_only_when_meant_and_never_memories(
    root: Path,
) -> None:
    old = put(root, "log/sessions/old.jsonl", seen("ancient history", 1, "old"))
    long_ago = (ids.now() - timedelta(days=40)).timestamp()
    os.utime(old, (long_ago, long_ago))
    os.utime(root / ".agent/memories.md", (1, 1))
    found = index.prune(root, days=30)
    assert ([one.path for one in found], old.exists()) == ([old], True)
    assert search(root, Query("ancient")).found.total == 1
    index.prune(root, days=30, really=True)
    assert not old.exists()
    assert search(root, Query("ancient")).found.total == 0
    assert search(root, Query("authentication", limit=None)).found.total == 40


# --- git ------------------------------------------------------------------------------------------


def test_git_status_stays_clean_after_a_search(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        name = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        return subprocess.run(
            ["git", *name, *words], cwd=tmp_path, capture_output=True, check=True
        ).stdout.decode()

    git("init")
    put(tmp_path, ".agent/memories.md", page(Block("alpha")))
    git("add", ".")
    git("commit", "-m", "x")
    assert search(tmp_path, Query("alpha")).found.total == 1
    assert paths.index_file(tmp_path).exists()
    assert git("status", "--porcelain") == ""


def test_a_gitignore_of_ones_own_is_left_alone(root: Path) -> None:
    put(root, ".ralph/.gitignore", "mine\n")
    search(root, Query("alpha"))
    assert (root / ".ralph/.gitignore").read_text(encoding="utf-8") == "mine\n"


def test_one_state_of_the_index_answers_a_whole_question(root: Path) -> None:
    index.sync(root)
    with index.of(root).open_current() as connection:
        count = lookup.size(connection)
        put(root, ".agent/memories.md", page())
        index.sync(root)
        assert lookup.size(connection) == count
    with index.of(root).open_current() as connection:
        assert lookup.size(connection) == count - 41
