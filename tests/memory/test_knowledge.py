"""Knowledge on disk: what replaces what, what is kept of it, and many writers at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core import paths
from ralph.core.errors import NotFound, Refused, UsageError, WriteFailed
from ralph.core.record import Link, Query, Record, Status
from ralph.core.tokens import estimate
from ralph.formats.log import parse_log
from ralph.formats.sigils import KnowledgeSigil, read_sigils
from ralph.learning import forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.memory import knowledge, memory, reading
from ralph.memory.memory import Change
from ralph.recall.search import search
from ralph.search import index
from ralph.storage.library import Library
from ralph.tasks import feature

FOLDER = ".ralph/knowledge"
LOG = "log/knowledge.jsonl"
TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def put(root: Path, name: str, text: str) -> Path:
    path = root / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read_file(root: Path, name: str) -> str:
    return paths.source_path(root, name).read_bytes().decode()


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FOLDER).iterdir())


def retired(root: Path) -> list[Record]:
    log = paths.source_path(root, LOG)
    return (
        [each.record for each in parse_log(log.read_text(encoding="utf-8")).entries]
        if log.exists()
        else []
    )


def everything(root: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


# --- writing -----------------------------------------------------------------------------------


def test_a_new_entry_gets_a_file_named_after_its_title(tmp_path: Path) -> None:
    done = knowledge.add(tmp_path, "Cargo  bench: needs nightly!", "  Use nightly.\n", ["Testing", "#cargo", "testing"],
                         feature="perf")  # fmt: skip
    assert (done.change, done.stored.path.stem, done.replaced) == (
        Change.NEW,
        "cargo-bench-needs-nightly",
        "",
    )
    created = done.stored.record.created_at
    assert read_file(tmp_path, f"{FOLDER}/cargo-bench-needs-nightly.md") == (
        '---\ntitle: "Cargo bench: needs nightly!"\ntags: [testing, cargo]\nfeature: "perf"\n'
        f'created_at: "{created}"\n---\n\n  Use nightly.\n'
    )
    assert created.endswith("Z")
    assert retired(tmp_path) == []


def test_the_same_title_in_any_case_gets_the_new_text_and_keeps_the_rest(tmp_path: Path) -> None:
    put(tmp_path, "mine.md", "---\n# by hand\ntitle: Retry policy   # short\ntags:\n  - http\nowner: Kim\n"
                             "created_at: 2026-01-02\nfeature: shop\n---\n\nOld [[Timeouts]].\n")  # fmt: skip
    done = knowledge.add(tmp_path, "RETRY  policy", "New.", ["retries", "HTTP"], feature="other")
    assert (done.change, done.stored.path.stem) == (Change.UPDATED, "mine")
    assert names(tmp_path) == ["mine.md"]
    updated = done.stored.record.updated_at
    assert read_file(tmp_path, f"{FOLDER}/mine.md") == (
        "---\n# by hand\ntitle: Retry policy   # short\ntags:\n  - http\n  - retries\nowner: Kim\n"
        f'created_at: 2026-01-02\nfeature: shop\nupdated_at: "{updated}"\n---\n\nNew.\n'
    )
    assert updated


def test_a_replaced_body_stays_as_a_retired_record_that_search_does_not_offer(
    tmp_path: Path,
) -> None:
    knowledge.add(tmp_path, "Retry policy", "Three tries of zebras.", ["http"])
    done = knowledge.add(tmp_path, "Retry policy", "Five tries.", ["http"])
    (old,) = retired(tmp_path)
    assert (old.id, old.text, old.title, old.status) == (
        done.replaced, "Three tries of zebras.", "Retry policy", Status.RETIRED,
    )  # fmt: skip
    assert Link("superseded_by", "know-retry-policy") in old.links
    assert paths.source_path(tmp_path, LOG).stat().st_mode & 0o777 == 0o600
    assert [hit.record.text for hit in search(tmp_path, Query("tries")).found.hits] == [
        "Five tries."
    ]
    assert search(tmp_path, Query("zebras")).found.hits == ()
    assert index.verify(tmp_path) == []


def test_a_body_whose_replacement_failed_is_not_kept_twice(tmp_path: Path) -> None:
    path = knowledge.add(tmp_path, "Retry policy", "Three tries.", ["http"]).stored.path
    path.chmod(0o444)
    with pytest.raises(WriteFailed):
        knowledge.add(tmp_path, "Retry policy", "Five tries.", ["http"])
    assert reading.get_entry(tmp_path, "retry-policy").record.text == "Three tries."
    path.chmod(0o644)
    knowledge.add(tmp_path, "Retry policy", "Five tries.", ["http"])
    assert [record.text for record in retired(tmp_path)] == ["Three tries."]


def test_forgetting_an_entry_forgets_what_it_replaced(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "Retry policy", "Three tries of zebras.", ["http"])
    knowledge.add(tmp_path, "Retry policy", "Five tries.", ["http"])
    forget.forget(tmp_path, forget.plan_forget(tmp_path, ForgetRequest(ids=("know-retry-policy",))))
    assert b"zebras" not in everything(tmp_path)
    assert b"Five tries" not in everything(tmp_path)


@pytest.mark.parametrize(
    ("title", "tags", "same"),
    [
        ("The SQLite WAL modes", ("sqlite", "wal"), True),
        ("The SQLite WAL modes", ("sqlite", "other"), False),
        ("SQLite WAL mode for concurrent access", ("sqlite", "wal"), False),
        ("WAL mode", ("sqlite", "wal"), False),
        ("Postgres mode", ("sqlite", "wal"), False),
    ],
)
def test_most_tags_in_common_and_the_same_words_in_the_title_is_the_same_entry(
    tmp_path: Path, title: str, tags: tuple[str, ...], same: bool
) -> None:
    knowledge.add(tmp_path, "SQLite WAL mode", "Old.", ["sqlite", "wal"])
    done = knowledge.add(tmp_path, title, "New.", tags)
    assert (done.change is Change.UPDATED) is same
    assert (done.stored.record.title == "SQLite WAL mode") is same
    assert len(names(tmp_path)) == (1 if same else 2)


def test_of_several_that_are_alike_the_title_decides_then_the_tags(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "---\ntitle: WAL mode in tests\ntags: [a]\n---\n\nA.\n")
    put(tmp_path, "b.md", "---\ntitle: WAL modes in tests\ntags: [a, b]\n---\n\nB.\n")
    put(tmp_path, "c.md", "---\ntitle: The WAL mode in a test\ntags: [x]\n---\n\nC.\n")
    tags = ["a", "b"]
    assert knowledge.add(tmp_path, "the WAL mode in a test", "1", tags).stored.path.stem == "c"
    assert knowledge.add(tmp_path, "WAL mode in the tests", "2", ["a", "b"]).stored.path.stem == "b"


def test_saying_the_same_again_changes_nothing(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "T", "Words.", ["a", "b"])
    before = everything(tmp_path)
    assert knowledge.add(tmp_path, "t", "Words.\n", ["b"]).change is Change.UNCHANGED
    assert everything(tmp_path) == before


def test_new_tags_alone_retire_nothing(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "T", "Words.", ["a"])
    done = knowledge.add(tmp_path, "T", "Words.", ["b"])
    assert (done.change, done.replaced, done.stored.record.tags) == (Change.UPDATED, "", ("a", "b"))
    assert retired(tmp_path) == []


def test_other_titles_and_files_that_are_no_entries_keep_their_names(tmp_path: Path) -> None:
    put(tmp_path, "a-b.md", "# My notes\n")
    assert knowledge.add(tmp_path, "A/B", "One.", ["x"]).stored.path.stem == "a-b-2"
    assert knowledge.add(tmp_path, "A, B!", "Two.", ["y"]).stored.path.stem == "a-b-3"
    assert read_file(tmp_path, f"{FOLDER}/a-b.md") == "# My notes\n"
    assert knowledge.add(tmp_path, "인증 토큰", "셋.", ["z"]).stored.path.stem == "인증-토큰"
    assert knowledge.add(tmp_path, "???", "Four.", ["z"]).stored.path.stem.startswith("entry-")


def test_a_long_body_is_cut_between_blocks(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n}: " + "word " * 98 for n in range(8))
    done = knowledge.add(tmp_path, "Long", text, ["a"])
    assert done.shortened
    assert done.stored.record.text.endswith("word\n\n[truncated]")
    assert "Paragraph 4" in done.stored.record.text
    assert "Paragraph 5" not in done.stored.record.text


@pytest.mark.parametrize(
    ("title", "text", "tags", "what"),
    [
        ("T", "Words.", (), "without a tag"),
        ("T", "Words.", ("  ", "#"), "without a tag"),
        ("", "Words.", (), "without a title and a tag"),
        ("T", " \n", ("a",), "empty"),
        ("T", f"use {TOKEN}", ("a",), "secret"),
        (f"use {TOKEN}", "Words.", ("a",), "secret"),
        ("T", "Words.", (TOKEN,), "secret"),
        ("T", "a\0b", ("a",), "NUL"),
        ("T", "<private>x</private>", ("a",), "empty"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_nothing(
    tmp_path: Path, title: str, text: str, tags: tuple[str, ...], what: str
) -> None:
    with pytest.raises(Refused, match=what):
        knowledge.add(tmp_path, title, text, tags)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_leads_outside_is_not_written_to(tmp_path: Path) -> None:
    root, other = tmp_path / "project", tmp_path / "other"
    other.mkdir()
    (root / ".ralph").mkdir(parents=True)
    (root / FOLDER).symlink_to(other)
    with pytest.raises(Refused, match="outside"):
        knowledge.add(root, "T", "Words.", ["a"])
    (root / FOLDER).unlink()
    (root / FOLDER).write_text("a file", encoding="utf-8")
    with pytest.raises(Refused, match="is a file"):
        knowledge.add(root, "T", "Words.", ["a"])
    assert list(other.iterdir()) == []


# --- learning ----------------------------------------------------------------------------------


def test_one_bad_entry_never_stops_the_others(tmp_path: Path) -> None:
    said = read_sigils(
        '<knowledge title="One" tags="a">First.</knowledge><knowledge title="None">No tags.</knowledge>'
        '<knowledge tags="x">No title.</knowledge><knowledge title="Empty" tags="x"> </knowledge>'
        '<knowledge title="Half" tags="x">a\ud83db</knowledge><knowledge title="one" tags="b">Second.</knowledge>'
    )
    done = knowledge.learn(tmp_path, said.knowledge, feature="shop", run="run-1")
    assert [(each.slug, each.change.value) for each in done] == [
        ("one", "new"), ("", "refused"), ("", "refused"), ("", "refused"), ("half", "new"), ("one", "updated"),
    ]  # fmt: skip
    assert all(each.why for each in done if each.change is Change.REFUSED)
    assert "tag" in done[1].why
    assert "title" in done[2].why
    record = reading.get_entry(tmp_path, "one").record
    assert (record.text, record.tags, dict(record.extra)) == (
        "Second.",
        ("a", "b"),
        {"feature": "shop", "run": "run-1"},
    )
    assert retired(tmp_path)[0].origin.run == "run-1"


def test_what_an_agent_says_is_redacted_before_the_disk(tmp_path: Path) -> None:
    sigil = KnowledgeSigil(
        f"Key {TOKEN}", ("ok", TOKEN), f"Use {TOKEN} <private>Ann</private> and PIN-777."
    )
    (done,) = knowledge.learn(tmp_path, [sigil], patterns=["PIN-[0-9]+"])
    assert done.change is Change.NEW
    assert "left out" in done.why
    for secret in (TOKEN, "Ann", "PIN-777"):
        assert secret.encode() not in everything(tmp_path)
        assert secret not in str(names(tmp_path))
    (bad,) = knowledge.learn(tmp_path, [sigil], patterns=["("])
    assert (bad.change, "regular expression" in bad.why) == (Change.REFUSED, True)


def test_a_disk_that_says_no_is_told_for_each(tmp_path: Path) -> None:
    (tmp_path / ".ralph").write_text("in the way", encoding="utf-8")
    sigils = [KnowledgeSigil("T", ("a",), "Words."), KnowledgeSigil("U", ("a",), "Words.")]
    assert [each.change for each in knowledge.learn(tmp_path, sigils)] == [Change.REFUSED] * 2


# --- reading -----------------------------------------------------------------------------------


def test_what_is_no_entry_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    assert knowledge.entries(tmp_path) == []
    put(tmp_path, "good.md", "---\ntitle: Good\ntags: [a]\n---\n\nYes.\n")
    put(tmp_path, "no-tags.md", "---\ntitle: Bad\n---\n\nNo.\n")
    put(tmp_path, "plain.md", "just text\n")
    put(tmp_path, "other.txt", "not looked at")
    (tmp_path / FOLDER / "folder.md").mkdir()
    assert [stored.record.title for stored in knowledge.entries(tmp_path)] == ["Good"]
    library = Library(tmp_path)
    problems = [(path.name, problem.code) for path, problem in library.problems(library.knowledge)]
    assert problems == [
        ("folder.md", "unreadable"),
        ("no-tags.md", "no-tags"),
        ("plain.md", "bad-front-matter"),
    ]


def test_an_entry_is_shown_by_id_file_or_title(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "Retry policy", "Words.", ["http"])
    for name in ("know-retry-policy", "retry-policy", "retry-policy.md", "RETRY policy"):
        assert reading.get_entry(tmp_path, name).record.title == "Retry policy"
    with pytest.raises(NotFound, match="Retry polcy"):
        reading.get_entry(tmp_path, "Retry polcy")


def test_delete_removes_the_file_and_gives_what_it_held(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "Retry policy", "Words.", ["http"])
    assert memory.delete(tmp_path, "retry-policy").record.text == "Words."
    assert names(tmp_path) == []
    with pytest.raises(NotFound):
        memory.delete(tmp_path, "retry-policy")


def test_a_list_is_narrowed_by_tags(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "One", "1.", ["a"], feature="shop")
    knowledge.add(tmp_path, "Two", "2.", ["b"])
    assert [each.record.title for each in reading.list_entries(tmp_path, in_=("knowledge",))] == [
        "One",
        "Two",
    ]
    assert [
        each.record.title
        for each in reading.list_entries(tmp_path, tags=["B", "c"], in_=("knowledge",))
    ] == ["Two"]


def test_a_feature_that_is_none_is_refused(tmp_path: Path) -> None:
    shop = feature.add(tmp_path, "Loyalty Points").feature.id
    for name in ("loyalty", "f-000000", "Loyality Points"):
        with pytest.raises(UsageError, match=f"Feature not found: {name}"):
            knowledge.add(tmp_path, "One", "1.", ["a"], feature=name)
    assert reading.list_entries(tmp_path, in_=("knowledge",)) == []
    for title, name in (("One", shop), ("Two", "loyalty points"), ("Three", "")):
        knowledge.add(tmp_path, title, f"{title}.", [title.lower()], feature=name)
    stored = reading.list_entries(tmp_path, in_=("knowledge",))
    assert len([each for each in stored if each.record.extra.get("feature")]) == 2


def test_links_name_where_they_lead(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "One", "See [[two]] and [[Three]]; not `[[Two]]`.", ["a"])
    knowledge.add(tmp_path, "Two", "Back to [[One|the first]].", ["b"])
    edges = knowledge.links(tmp_path)
    assert [(e.source.title, e.words, e.target and e.target.title) for e in edges] == [
        ("One", "two", "Two"), ("One", "Three", None), ("Two", "One|the first", "One"),
    ]  # fmt: skip
    assert len(knowledge.links(tmp_path, "two")) == 2


def test_the_section_is_about_the_task_the_feature_and_the_files(tmp_path: Path) -> None:
    assert knowledge.section(tmp_path, "anything") == ""
    knowledge.add(tmp_path, "Parser", "P. See [[Lexer]].", ["parser"])
    knowledge.add(tmp_path, "Lexer", "Lexer. " * 100, ["unrelated"])
    knowledge.add(tmp_path, "Shop", "S.", ["shop"])
    knowledge.add(tmp_path, "Paths", "F.", ["widgets"])
    words = "Speed up\nthe parser, please"
    text = knowledge.section(tmp_path, words, feature="shop", files=["src/widgets/a.py"])
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "## Project Knowledge", "### Parser", "### Shop", "### Paths", "### Lexer",
    ]  # fmt: skip
    assert knowledge.section(tmp_path, "shop").count("### ") == 1
    small = knowledge.section(
        tmp_path, words, feature="shop", files=["src/widgets/a.py"], budget=100
    )
    assert estimate(small) <= 100
    assert small.count("### ") == 3
    assert "_1 more did not fit" in small


# --- many writers ------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from ralph.memory import knowledge, memory
root, name, count, title = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
for number in range(count):
    done = knowledge.add(root, title.replace("#", f"{name} {number}"), f"Body {name}-{number}.", ["a", name])
    print(done.change.value, flush=True)
"""


def writer(root: Path, name: str, count: int, title: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(root), name, str(count), title],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.soak
def test_eight_processes_lose_no_body(tmp_path: Path) -> None:
    running = [writer(tmp_path, f"w{n}", 6, "The one title") for n in range(8)]
    said = [line for process in running for line in process.communicate()[0].split()]
    assert all(process.returncode == 0 for process in running)
    assert sorted(said) == ["new"] + ["updated"] * 47
    assert names(tmp_path) == ["the-one-title.md"]
    last = reading.get_entry(tmp_path, "the-one-title").record
    assert {*last.tags} == {"a", *(f"w{n}" for n in range(8))}
    bodies = [record.text for record in retired(tmp_path)]
    assert sorted([*bodies, last.text]) == sorted(
        f"Body w{n}-{m}." for n in range(8) for m in range(6)
    )


@pytest.mark.soak
def test_eight_processes_with_titles_of_one_name_give_each_a_file(tmp_path: Path) -> None:
    running = [writer(tmp_path, f"w{n}", 2, "?" * (n + 1) + " Name") for n in range(8)]
    for process in running:
        process.communicate()
        assert process.returncode == 0
    titles = {stored.record.title for stored in knowledge.entries(tmp_path)}
    assert titles == {"?" * (n + 1) + " Name" for n in range(8)}
    assert names(tmp_path) == sorted(["name.md", *(f"name-{n}.md" for n in range(2, 9))])


@pytest.mark.soak
def test_a_kill_leaves_the_old_body_or_the_new_one_and_loses_none(
    in_memory: Path, rounds: Callable[[int, int], int]
) -> None:
    for number in range(rounds(100, 3)):
        process = writer(in_memory, f"k{number}", 1000, "The one title")
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(1 + number % 7)]
        os.kill(process.pid, signal.SIGKILL)
        said += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        last = reading.get_entry(in_memory, "the-one-title").record
        kept = [record.text for record in retired(in_memory)]
        assert len(set(kept)) == len(kept)
        written = {f"Body k{number}-{each}." for each in range(len(said))}
        assert written <= {*kept, last.text}
