"""SQLite in one place: private files, one writer, whole transactions, and errors in our own words."""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ralph.core.errors import WriteFailed
from ralph.storage import db
from ralph.storage.index_files import sole_writer


def test_a_new_database_is_for_its_owner_only_and_keeps_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.db"
    with closing(db.connect(path)) as connection:
        connection.execute("CREATE TABLE t(a)")
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with closing(db.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE t(a NOT NULL)")
        with pytest.raises(sqlite3.IntegrityError), db.atomic(connection):
            connection.executemany("INSERT INTO t VALUES (?)", [(1,), (None,)])
        with db.atomic(connection):
            connection.execute("INSERT INTO t VALUES (2)")
        assert [row[0] for row in connection.execute("SELECT a FROM t")] == [2]


def test_one_writer_at_a_time_and_a_patient_one_waits(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sole_writer(path):
        with pytest.raises(db.Busy), sole_writer(path):
            pass
        with pytest.raises(db.Busy), sole_writer(path, patience=0.05):
            pass
    release, held = threading.Event(), threading.Event()

    def writer() -> None:
        with sole_writer(path):
            held.set()
            release.wait()

    thread = threading.Thread(target=writer)
    thread.start()
    held.wait()
    release.set()
    with sole_writer(path, patience=60):
        pass
    thread.join()


def test_an_error_of_ones_own_inside_is_not_taken_for_a_busy_database(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), sole_writer(tmp_path / "x.db"):
        raise BlockingIOError


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (sqlite3.OperationalError("database is locked"), db.Busy),
        (sqlite3.DatabaseError("database disk image is malformed"), db.Damaged),
        (sqlite3.DatabaseError("file is not a database"), db.Damaged),
        (sqlite3.OperationalError("no such table: records"), db.Damaged),
        (sqlite3.OperationalError("no such column: inode"), db.Damaged),
        (sqlite3.OperationalError("Could not decode to UTF-8 column"), db.Damaged),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), db.Damaged),
        (sqlite3.OperationalError("unable to open database file"), WriteFailed),
        (sqlite3.OperationalError("attempt to write a readonly database"), WriteFailed),
        (sqlite3.OperationalError("database or disk is full"), WriteFailed),
        (sqlite3.ProgrammingError("you did something wrong"), sqlite3.ProgrammingError),
    ],
)
def test_sqlites_complaints_in_our_words(
    tmp_path: Path, error: Exception, wanted: type[Exception]
) -> None:
    with pytest.raises(wanted), db.explained(tmp_path):
        raise error


def test_a_seal_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    assert db.seal(path) == ""
    path.write_bytes(b"a")
    first = db.seal(path)
    os.utime(path, (1, 1))
    assert first != db.seal(path) != ""


def test_removing_takes_the_log_files_too(tmp_path: Path) -> None:
    for name in ("x.db", "x.db-wal", "x.db-shm", "x.db-journal", "other"):
        (tmp_path / name).write_bytes(b"")
    db.remove(tmp_path / "x.db")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
