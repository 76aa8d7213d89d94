"""The index and its files: what is read when, what is taken away again, and that it always equals one made anew.

`same_as_new` is the judge: every row and every word of the index, compared with an index made from the
same files in another folder. Logs are written by hand here, line by line, as hooks append them.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import ordinary_user
from tests.support.index_sources import LOG, dump, ended, index_of, put, seen
from tests.support.runner import Block, numbered, page
from tests.support.sampling import examples

from ralph.core import paths, terms
from ralph.core.record import Family, MemoryKind, Outcome
from ralph.formats.log import encode_line
from ralph.storage import db, lookup, queries, record_filters
from ralph.storage.index import Index
from ralph.storage.index_files import sole_writer
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import read_source
from ralph.storage.sources import sources


def held(root: Path) -> list[tuple[object, ...]]:
    """What the index holds."""
    with closing(index_of(root).connect()) as connection:
        return dump(connection)


def made_new(root: Path) -> list[tuple[object, ...]]:
    """What an index made anew from the same files holds."""
    found = list(sources(root))
    with closing(
        in_memory(map(read_source, found), terms.index_terms, [each.name for each in found])
    ) as connection:
        return dump(connection)


def same_as_new(root: Path) -> None:
    """The index is what an index made anew would be, and SQLite finds nothing wrong with it."""
    assert held(root) == made_new(root)
    with closing(db.connect(paths.index_file(root))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")


def matches(root: Path, word: str) -> int:
    """How many records hold a word."""
    with closing(index_of(root).connect()) as connection:
        term = terms.query_terms(word)[0].terms[0]
        return lookup.frequencies(connection, [term]).get(term, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with memories, knowledge, a task and a log."""
    put(
        tmp_path,
        ".agent/memories.md",
        page(Block("alpha", numbered(1), "one, two"), Block("beta", numbered(2))),
    )
    put(tmp_path, ".ralph/guardrails.md", page(Block("gamma", numbered(3)), title="Guardrails"))
    put(
        tmp_path,
        ".ralph/knowledge/deploy.md",
        "---\ntitle: Deploy\ntags: [ops]\n---\n\nBlue and green.\n",
    )
    put(tmp_path, ".ralph/tasks/t-1/task.json", '{"id": "t-1", "title": "Ship it"}')
    session = encode_line("session", {"id": "s1", "project_path": "/p", "mode": "agent"})
    run = encode_line("run", {"id": "r1", "goal": "green tests", "status": "running"})
    put(tmp_path, LOG, session + seen("ran pytest", 1) + seen("read schema", 2))
    put(
        tmp_path,
        "log/runs/r1.jsonl",
        run + "".join(ended(out, n, "notes") for n, out in enumerate(Outcome)),
    )
    return tmp_path


# --- the schema -----------------------------------------------------------------------------------

COLUMNS = {
    "records": "id kind title text tags status scope created_at",
    "sessions": "id project_path task_id session_id mode started_at ended_at summary tags messages created_at",
    "observations": "id session_id type content metadata created_at",
    "loop_runs": "id session_id goal iterations status reason context_snapshots started_at ended_at",
    "journal": "id run_id iteration task_id feature_id outcome model duration_secs cost_usd files_modified notes",
    "tasks": "id title description status priority blocked_by parent created_at updated_at",
}
STORED_IN = {"sessions": "session_rows", "journal": "journal_rows"}
"""The tables behind views."""


@pytest.mark.parametrize("table", COLUMNS)
def test_the_tables_have_their_columns_and_indexed_text_ids_beside_whole_number_keys(
    root: Path, table: str
) -> None:
    index_of(root).sync()
    with closing(sqlite3.connect(index_of(root).path)) as connection:
        connection.row_factory = sqlite3.Row
        columns = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert set(COLUMNS[table].split()) <= columns
        stored = STORED_IN.get(table, table)
        rows = connection.execute(f"PRAGMA table_info({stored})")
        assert [(row["type"]) for row in rows if row["pk"]] == ["INTEGER"]
        names = [row["name"] for row in connection.execute(f"PRAGMA index_list({stored})")]
        held_by = [
            connection.execute(f"PRAGMA index_info({name})").fetchone()["name"] for name in names
        ]
        assert ("record_id" if table == "journal" else "id") in held_by


def test_a_journal_has_all_five_outcomes_and_all_its_columns(root: Path) -> None:
    index_of(root).sync()
    with closing(index_of(root).connect()) as connection:
        found = [tuple(row) for row in connection.execute(
            "SELECT run_id, iteration, task_id, feature_id, outcome, model, duration_secs, cost_usd, files_modified "
            "FROM journal ORDER BY iteration")]  # fmt: skip
    assert [row[4] for row in found] == [outcome.value for outcome in Outcome]
    assert found[0][:4] + found[0][5:] == (
        "r1",
        0,
        "t-1",
        "f-1",
        "opus",
        1.5,
        0.25,
        '["src/db/schema.ts"]',
    )


def test_the_database_is_for_its_owner_only(root: Path) -> None:
    index_of(root).sync()
    with closing(index_of(root).connect()) as connection:
        connection.execute("SELECT * FROM sources").fetchall()
        made = sorted(paths.index_file(root).parent.glob("ralph.db*"))
        assert len(made) >= 3
        assert {path.stat().st_mode & 0o777 for path in made} == {0o600}


def test_later_lines_about_a_session_or_a_run_say_only_what_changed(root: Path) -> None:
    index_of(root).sync()
    with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
        log.write(encode_line("session", {"id": "s1", "summary": "all done", "mode": "nonsense"}))
        log.write(encode_line("run", {"id": "r1", "status": "success", "reason": "green"}))
        log.write(encode_line("run", {"id": "r2", "status": "no such status"}))
    index_of(root).sync()
    with closing(index_of(root).connect()) as connection:
        session = connection.execute(
            "SELECT project_path, mode, summary FROM session_rows"
        ).fetchall()
        runs = connection.execute(
            "SELECT id, goal, status, reason FROM loop_runs ORDER BY id"
        ).fetchall()
    assert [tuple(row) for row in session] == [("/p", "agent", "all done")]
    assert [tuple(row) for row in runs] == [
        ("r1", "green tests", "success", "green"),
        ("r2", "", "running", None),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"v":1,"type":"journal","id":"j9","kind":"done","text":"x","extra":{"model":{"a":1},"cost_usd":[2],"feature":[]}}',
        '{"v":1,"type":"journal","id":"j9","kind":"done","text":"x","origin":{"iteration":'
        + "9" * 40
        + "}}",
        '{"v":1,"type":"observation","id":"o\\ud800","kind":"note","text":"\\udfff","created_at":"\\ud800","tags":["\\ud800"]}',
        '{"v":1,"type":"session","id":"s\\ud800","mode":7,"project_path":["a"],"tags":{"a":1},"started_at":1e400}',
        '{"v":1,"type":"session","id":"s1","mode":"chat"}',
        '{"v":1,"type":"session","id":["s1"]}',
        '{"v":1,"type":"run","id":"r1","status":"exploded","iterations":' + "9" * 40 + "}",
        '{"v":1,"type":"run","id":"","goal":null}',
        '{"v":1,"type":"observation","id":"o1","kind":"note","text":"a\\u0000b","origin":{"session":"\\u0000"}}',
    ],
)
def test_no_line_of_a_log_stops_the_index(root: Path, line: str) -> None:
    put(root, LOG, line + "\n" + seen("after it", 5))
    assert index_of(root).sync().complete
    assert matches(root, "after") == 1
    same_as_new(root)


# --- insert, update, delete -----------------------------------------------------------------------


def test_an_edited_and_a_deleted_memory_are_no_longer_found_also_after_a_vacuum(root: Path) -> None:
    index = index_of(root)
    index.sync()
    assert (matches(root, "alpha"), matches(root, "delta")) == (1, 0)
    put(root, ".agent/memories.md", page(Block("delta", numbered(1), "one")))
    index.sync()
    assert [matches(root, word) for word in ("alpha", "beta", "two", "delta", "one")] == [
        0,
        0,
        0,
        1,
        1,
    ]
    same_as_new(root)
    with closing(db.connect(index.path)) as connection:
        connection.execute("VACUUM")
    index.sync(keep_touched=True)
    same_as_new(root)
    put(root, ".agent/memories.md", page())
    index.sync(keep_touched=True)
    assert matches(root, "delta") == 0
    same_as_new(root)


def test_two_records_with_one_id_are_both_there_and_either_may_go(root: Path) -> None:
    index = index_of(root)
    put(root, ".ralph/guardrails.md", page(Block("twin", numbered(1)), Block("twins", numbered(1))))
    index.sync()
    with closing(index.connect()) as connection:
        keys = queries.keys_of(connection, numbered(1))
        assert [record.text for record in queries.records(connection, keys).values()] == [
            "alpha",
            "twin",
            "twins",
        ]
    (root / ".agent/memories.md").unlink()
    index.sync()
    with closing(index.connect()) as connection:
        key = queries.key_of(connection, numbered(1))
        assert key is not None
        assert queries.records(connection, [key])[key].text == "twin"
    same_as_new(root)


STEPS = st.lists(st.tuples(st.sampled_from(["edit", "delete", "append", "rewrite", "cut", "touch"]), st.integers(0, 9)),
                 min_size=1, max_size=6)  # fmt: skip


@given(STEPS)
@settings(
    max_examples=examples(15, 10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_happens_to_the_files_the_index_equals_one_made_anew(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    root = tmp_path_factory.mktemp("project")
    index = index_of(root)
    for what, number in steps:
        notes, log = (
            root / f".ralph/knowledge/k{number % 3}.md",
            paths.log_folder(root) / f"sessions/s{number % 2}.jsonl",
        )
        if what == "edit":
            put(
                root,
                str(notes.relative_to(root)),
                f"---\ntitle: T{number}\ntags: [a]\n---\n\nwords number {number} naïve 数据库\n",
            )
        elif what == "delete":
            notes.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        elif what == "append":
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as stream:
                stream.write(seen(f"did {number} things", number, f"s{number % 2}"))
        elif what == "rewrite":
            put(root, str(log.relative_to(root)), seen("something else", number, f"s{number % 2}"))
        elif what == "cut" and log.exists():
            os.truncate(log, log.stat().st_size // 2)
        elif what == "touch" and notes.exists():
            os.utime(notes)
        index.sync()
        same_as_new(root)


# --- what is read ---------------------------------------------------------------------------------


def test_only_what_changed_is_read_and_of_a_log_only_the_new_lines(root: Path) -> None:
    index = index_of(root)
    count = len(list(sources(root)))
    assert (index.sync().read, index.sync().read) == (count, 0)
    with closing(index.connect()) as connection:
        before = {
            row["id"]: row["key"] for row in connection.execute("SELECT id, key FROM observations")
        }
    with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
        log.write(seen("third", 3))
    assert (index.sync().read, index.sync().read) == (1, 0)
    with closing(index.connect()) as connection:
        after = {
            row["id"]: (row["key"], row["line"])
            for row in connection.execute("SELECT * FROM observations")
        }
    assert {name: key for name, (key, _) in after.items() if name in before} == before
    assert sorted(line for _, line in after.values()) == [2, 3, 4]
    same_as_new(root)


def test_another_time_with_the_same_content_changes_no_row(root: Path) -> None:
    index = index_of(root)
    index.sync()
    before = [tuple(row) for row in _all_records(index)]
    os.utime(root / ".agent/memories.md", (1, 1))
    assert (index.sync().read, index.sync().read) == (1, 0)
    assert [tuple(row) for row in _all_records(index)] == before


def _all_records(index: Index) -> list[sqlite3.Row]:
    with closing(index.connect()) as connection:
        return connection.execute("SELECT * FROM records ORDER BY key").fetchall()


ONE = Block("one", numbered(1))
TWO = Block("two", numbered(2))
THREE = Block("three", numbered(3))


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        pytest.param(page(ONE, Block("else", numbered(2)), THREE), {1, 3}, id="edited"),
        pytest.param(page(ONE, Block("two", numbered(2), "tag"), THREE), {1, 3}, id="other tags"),
        pytest.param(page(Block("new", numbered(4)), ONE, TWO, THREE), {1, 2, 3}, id="added"),
        pytest.param(page(ONE, THREE), {1, 3}, id="removed"),
        pytest.param(page(THREE, ONE, TWO), {1, 2, 3}, id="in another order"),
        pytest.param(page(ONE, TWO, TWO, THREE), {1, 2, 3}, id="doubled"),
        pytest.param(page(ONE, TWO, THREE) + "\nSome words.\n", {1, 2, 3}, id="prose"),
        pytest.param(page(ONE, Block("two", numbered(2), kind="fix"), THREE), {1, 3}, id="moved"),
    ],
)
def test_only_the_entries_that_changed_get_new_rows(root: Path, after: str, kept: set[int]) -> None:
    put(root, ".agent/memories.md", page(ONE, TWO, THREE))
    index = index_of(root)
    index.sync()
    before = {row["key"]: row["fingerprint"] for row in _all_records(index)}
    put(root, ".agent/memories.md", after)
    index.sync()
    same_rows = {
        row["id"] for row in _all_records(index) if before.get(row["key"]) == row["fingerprint"]
    }
    assert same_rows & {numbered(number) for number in (1, 2, 3)} == set(map(numbered, kept))
    same_as_new(root)


PROGRESS = """# Progress

## Codebase Patterns
- Run `make gen` before the tests.
- The lexer skips tabs.

---

## 2026-01-31 - Add the parser
- Wrote the grammar.
- Learnings:
  - Gotcha: the cache is cold at night.

---

## 2026-01-31 - Add the printer
- Wrote the layout.

---
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("skips tabs", "keeps tabs", id="a pattern is edited"),
        pytest.param("- The lexer skips tabs.\n", "", id="a pattern is removed"),
        pytest.param("## Codebase", "Some words.\n\n## Codebase", id="everything moves"),
        pytest.param("cold at night", "warm at night", id="a learning is edited"),
        pytest.param("the grammar", "the whole grammar", id="the first block is edited"),
        pytest.param("Wrote the layout", "Wrote the margins", id="the last block is edited"),
        pytest.param("\n", "\r\n", id="other line ends"),
    ],
)
def test_a_changed_progress_file_leaves_no_old_rows_and_doubles_none(
    root: Path, old: str, new: str
) -> None:
    name = ".ralph/tasks/t-1/progress.txt"
    put(root, name, PROGRESS)
    index = index_of(root)
    index.sync()
    put(root, name, PROGRESS.replace(old, new))
    index.sync()
    same_as_new(root)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        pytest.param(
            ".agent/memories.md",
            page(Block("one", numbered(1)), Block("two", numbered(1)), Block("three", numbered(2))),
            page(
                Block("else", numbered(1)), Block("two", numbered(1)), Block("three", numbered(2))
            ),
            id="memories",
        ),
        pytest.param(
            ".ralph/tasks/t-1/progress.txt",
            PROGRESS,
            PROGRESS.replace("the grammar", "the whole grammar"),
            id="progress",
        ),
    ],
)
def test_records_of_the_same_day_stay_in_the_order_of_their_file(
    tmp_path: Path, name: str, before: str, after: str
) -> None:
    def orders(index: Index) -> list[list[str]]:
        with closing(index.connect()) as connection:
            keys = queries.page(connection, record_filters.EVERYTHING, None)
            records = queries.records(connection, keys)
            found = [keys]
            for key, record in records.items():
                found.append(queries.keys_of(connection, record.id))
                found.append(queries.adjacent_keys(connection, key, record, 1))
            values = lookup.sort_values(connection, keys)
            found.append(sorted(keys, key=values.__getitem__))
            newest = f"1 {queries.NEWEST_ITERATION_FIRST}"
            rows = queries.select_records(connection, Family.JOURNAL, newest, ())
            texts = [[records[key].text for key in each] for each in found]
            return [*sorted(texts), [record.text for _, record in rows]]

    put(tmp_path, name, before)
    index = index_of(tmp_path)
    index.sync()
    put(tmp_path, name, after)
    index.sync()
    changed = orders(index)
    index.rebuild()
    assert changed == orders(index)


def test_the_same_size_and_time_but_another_file_is_noticed(root: Path) -> None:
    index = index_of(root)
    index.sync()
    path = root / ".agent/memories.md"
    stat = path.stat()
    new = put(root, ".agent/new", path.read_bytes().replace(b"alpha", b"omega"))
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    new.replace(path)
    index.sync()
    assert (matches(root, "alpha"), matches(root, "omega")) == (0, 1)


def test_a_word_replaced_in_the_middle_of_a_log_that_also_grew_is_gone(root: Path) -> None:
    lines = [seen(f"line {number} " + "x" * 200, number) for number in range(40)]
    lines[20] = seen("password hunter2 " + "x" * 200, 20)
    put(root, LOG, "".join(lines))
    index = index_of(root)
    index.sync()
    assert matches(root, "hunter2") == 1
    lines[20] = lines[20].replace("hunter2", "*******")
    put(root, LOG, "".join([*lines, seen("more", 41)]))
    index.sync()
    assert matches(root, "hunter2") == 0
    same_as_new(root)


@pytest.mark.parametrize("keep", [0, 1, 40])
def test_a_log_that_was_cut_is_read_whole(root: Path, keep: int) -> None:
    index = index_of(root)
    index.sync()
    os.truncate(paths.source_path(root, LOG), keep)
    index.sync()
    assert matches(root, "pytest") == 0
    same_as_new(root)


def test_a_torn_last_line_waits_for_its_end(root: Path) -> None:
    index = index_of(root)
    index.sync()
    whole = seen("the unfinished", 9)
    with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
        log.write(whole[:-20])
    index.sync()
    assert matches(root, "unfinished") == 0
    with paths.source_path(root, LOG).open("a", encoding="utf-8") as log:
        log.write(whole[-20:])
    assert index.sync().read == 1
    assert matches(root, "unfinished") == 1
    same_as_new(root)


def test_a_deleted_file_disappears_and_a_renamed_one_stays(root: Path) -> None:
    index = index_of(root)
    index.sync()
    (root / ".ralph/knowledge/deploy.md").rename(root / ".ralph/knowledge/rollout.md")
    (root / ".ralph/guardrails.md").unlink()
    done = index.sync()
    assert (done.read, done.removed) == (1, 2)
    assert (matches(root, "gamma"), matches(root, "green")) == (0, 1)
    same_as_new(root)


def test_odd_files_are_read_or_left_out_but_never_stop_the_others(root: Path) -> None:
    folder = root / ".ralph/knowledge"
    put(folder, "bytes.md", b"---\ntitle: cafe\ntags: [a]\n---\n\nna\xefve \xff\xfe peculiar\n")
    put(folder, os.fsdecode(b"name\xff.md"), "---\ntitle: x\ntags: [a]\n---\n\nthe unnameable\n")
    put(folder, "empty.md", b"")
    put(folder, "nul.md", b"---\ntitle: x\ntags: [a]\n---\n\nbefore\x00after\n")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "pipe.md")
    put(root, "progress.txt", "## Notes\n\n- " + "large word " * 90_000 + "\n")
    index = index_of(root)
    assert index.sync().complete
    assert [matches(root, word) for word in ("peculiar", "unnameable", "before", "alpha")] == [
        1,
        1,
        1,
        1,
    ]
    assert index.sync().read == 0


def test_a_file_under_two_names_is_read_once(root: Path) -> None:
    (root / ".ralph/knowledge/again.md").symlink_to("deploy.md")
    (root / ".ralph/agent").mkdir()
    (root / ".ralph/agent/memories.md").symlink_to("../../.agent/memories.md")
    index_of(root).sync()
    assert (matches(root, "alpha"), matches(root, "green")) == (1, 1)


def test_a_file_that_may_not_be_read_is_left_out(shared: Path) -> None:
    put(shared, ".agent/memories.md", page(Block("alpha")))
    secret = put(
        shared, ".ralph/knowledge/secret.md", "---\ntitle: x\ntags: [a]\n---\n\nhidden words\n"
    )
    for folder in (shared / ".agent", shared / ".ralph", shared / ".ralph/knowledge"):
        folder.chmod(0o777)
    secret.chmod(0)
    with ordinary_user():
        index_of(shared).sync()
        assert (matches(shared, "alpha"), matches(shared, "hidden")) == (1, 0)


def test_with_no_time_left_a_part_is_done_and_the_next_call_does_the_rest(root: Path) -> None:
    index = index_of(root)
    count = len(list(sources(root)))
    done = index.sync(within=0)
    assert (done.read, done.complete) == (1, False)
    done = index.sync()
    assert (done.read, done.complete) == (count - 1, True)
    same_as_new(root)


def test_a_large_memory_file_is_added_replaced_and_removed_in_steps(root: Path) -> None:
    path = put(root, ".agent/memories.md", large_page(1_300, "first"))
    assert index_in_steps(root) > 2
    same_as_new(root)
    path.write_text(large_page(1_200, "second"), encoding="utf-8")
    assert index_in_steps(root) > 2
    same_as_new(root)
    index_in_steps(root)
    path.write_text(large_page(1_300, "third"), encoding="utf-8")
    index_of(root).sync(within=0)  # some old rows are gone
    path.write_text(large_page(10, "fourth"), encoding="utf-8")
    index_of(root).sync()
    same_as_new(root)


def test_only_the_beginning_of_a_very_long_text_is_indexed(root: Path) -> None:
    text = "frobnicator " + "word " * 30_000 + "quokka"
    put(root, ".agent/memories.md", page(Block(text), Block("Short", "mem-1705751401-b4c5")))
    index_of(root).sync()
    with closing(index_of(root).connect()) as connection:
        lengths = [len(row[0]) for row in connection.execute("SELECT text FROM records")]
    assert 100_000 <= max(lengths) < len(text)
    assert (matches(root, "frobnicator"), matches(root, "quokka")) == (1, 0)


def large_page(count: int, word: str) -> str:
    return page(*(Block(f"{word} entry {number}", numbered(number)) for number in range(count)))


def index_in_steps(root: Path) -> int:
    """Sync with no time at all until nothing is left, and return how many calls it took."""
    for number in range(1, 100):
        if index_of(root).sync(within=0).complete:
            return number
    raise AssertionError("the index is never complete")


def test_a_worktree_and_the_main_checkout_call_a_log_by_one_name(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    put(main, ".git/HEAD", "ref: refs/heads/main\n")
    put(main, ".git/worktrees/tree/commondir", "../..\n")
    put(main, ".git/worktrees/tree/HEAD", "ref: refs/heads/tree\n")
    put(tree, ".git", f"gitdir: {main}/.git/worktrees/tree\n")
    put(main, LOG, seen("ran pytest"))
    assert (
        [source.name for source in sources(tree)]
        == [source.name for source in sources(main)]
        == [LOG]
    )
    index_of(main).sync()
    beside = Index(tree, terms.index_terms, copy_main=lambda: True)
    assert beside.sync().read == 0, "what the main checkout has read is copied"
    assert beside.path == paths.cache_folder(main) / "worktrees" / "tree" / "ralph.db"


# --- several at once ------------------------------------------------------------------------------


def test_a_second_writer_gives_up_politely_and_readers_are_not_blocked(root: Path) -> None:
    index = index_of(root)
    index.sync()
    put(root, ".agent/memories.md", page(Block("omega")))
    with sole_writer(index.path), closing(db.connect(index.path)) as writer, db.atomic(writer):
        writer.execute("DELETE FROM records")
        done = index.sync()
        assert (done.busy, done.complete) == (True, False)
        assert matches(root, "alpha") == 1
        with closing(index.connect()) as connection:
            assert connection.execute("SELECT count(*) FROM records").fetchone()[0] == 4
    assert not index.sync().busy


SYNC = """
import sys
from pathlib import Path
from ralph.core import terms
from ralph.storage.index import Index
print("ready", flush=True)
sys.stdin.readline()
for number in range(1000):
    Index(Path(sys.argv[1]), terms.index_terms).rebuild()
"""


@pytest.mark.soak
def test_killed_at_any_moment_the_next_sync_makes_it_whole(
    root: Path, rounds: Callable[[int, int], int]
) -> None:
    for number in range(20):
        put(
            root,
            f".ralph/knowledge/k{number}.md",
            f"---\ntitle: K{number}\ntags: [a]\n---\n\nknowledge number {number}\n",
        )
    whole = made_new(root)
    chance = random.Random(7)
    for _ in range(rounds(300, 4)):
        with subprocess.Popen(
            [sys.executable, "-c", SYNC, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.readline()
            child.stdin.write(b"\n")
            child.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(chance.uniform(0.0, 0.25))
            child.kill()
        assert index_of(root).sync(patience=5).complete
        assert held(root) == whole


def test_a_rebuild_is_the_same_and_tells_how_far_it_is(root: Path) -> None:
    index = index_of(root)
    index.sync()
    before, steps = held(root), list[tuple[int, int]]()
    index.rebuild(lambda done, total: steps.append((done, total)))
    count = len(list(sources(root)))
    assert steps == [(number, count) for number in range(1, count + 1)]
    assert held(root) == before


def test_a_project_without_anything_has_an_empty_index(tmp_path: Path) -> None:
    done = index_of(tmp_path).sync()
    assert (done.read, done.complete, held(tmp_path)) == (0, True, [])
    shutil.rmtree(tmp_path / ".ralph")
    assert index_of(tmp_path).sync().complete


def test_every_memory_kind_is_a_row(root: Path) -> None:
    put(
        root,
        ".agent/memories.md",
        page(*(Block("x", numbered(n), kind=k) for n, k in enumerate(MemoryKind))),
    )
    index_of(root).sync()
    assert sorted({row["kind"] for row in _all_records(index_of(root))}) == sorted(MemoryKind)
