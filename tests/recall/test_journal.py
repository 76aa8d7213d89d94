"""The journal: written once, also by writers that die; and what of it the next iteration is told."""

import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Program
from tests.support.journal_writer import RUN, entry_of, state_file

from ralph.core import paths
from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import Family, Origin, Outcome, Record
from ralph.core.work import JournalEntry
from ralph.formats.journal import journal_record
from ralph.formats.journal_sentences import SAID_NOTHING
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.recall import journal
from ralph.recall.journal import JournalFilter
from ralph.recall.journal_section import render_journal
from ralph.search import index
from ralph.storage import files
from ralph.storage.index_files import sole_writer


def _section(root: Path, run: str, words: str, *, task: str = "") -> str:
    return render_journal(*journal.for_prompt(root, run, words, task=task))


PROJECT = Path(__file__).parents[2]
TOKEN = "ghp_" + "x7Kq9ZtR2mWv5LpY8sDf3GhJ6nBc1QaE4uTo"
WHOLE = JournalEntry(
    "run-1a2b3c4d",
    3,
    Outcome.RETRIED,
    "t-abc123",
    "Parse headers",
    "f-00ff00",
    "claude",
    "opus",
    198.3,
    1.1155,
    ("src/parser.rs", "tests/parser.rs"),
    "Fails on an empty header.\n다음: 파서를 고친다.",
    "2026-11-10T10:00:00Z",
    "s-1",
    {"criteria": [{"kind": "test_pass", "passed": False}]},
)


def entry(run: str, iteration: int, notes: str = "", **more: object) -> JournalEntry:
    at = f"2026-11-10T10:{iteration:02}:00Z"
    made = JournalEntry(run, iteration, Outcome.DONE, notes=notes, created_at=at)
    return replace(made, **more)  # type: ignore[arg-type]  # whatever a test says of an entry


def written(root: Path, *entries: JournalEntry) -> None:
    for each in entries:
        assert journal.append(root, each)


def noted(found: tuple[JournalEntry, ...]) -> list[tuple[str, int]]:
    return [(each.run, each.iteration) for each in found]


def headings(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("###")]


def test_every_field_is_read_back_from_the_log_and_from_the_index(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    assert journal.recent(tmp_path, WHOLE.run) == (WHOLE,)
    assert journal.list_(tmp_path) == ((WHOLE,), 1)
    assert journal.find(tmp_path, "jrn-run-1a2b3c4d-3") == WHOLE
    assert stat.S_IMODE(journal.run_file(tmp_path, WHOLE.run).stat().st_mode) == 0o600


def test_an_entry_without_notes_is_stored(tmp_path: Path) -> None:
    written(tmp_path, entry("run-a", 1))
    assert journal.recent(tmp_path, "run-a")[0].notes == ""
    assert journal.list_(tmp_path)[0][0].notes == ""


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_stored(tmp_path: Path, outcome: Outcome) -> None:
    written(tmp_path, entry("run-a", 1, outcome=outcome))
    assert journal.list_(tmp_path, JournalFilter(outcome=outcome))[1] == 1
    assert [journal.list_(tmp_path, JournalFilter(outcome=other))[1] for other in Outcome].count(
        1
    ) == 1


def test_an_entry_gets_the_time_when_it_has_none(tmp_path: Path) -> None:
    written(tmp_path, JournalEntry("run-a", 1, Outcome.DONE))
    assert journal.recent(tmp_path, "run-a")[0].created_at.endswith("Z")


def test_writing_an_entry_again_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path, *(entry("run-a", number, f"note {number}") for number in range(1, 4)))
    before = journal.run_file(tmp_path, "run-a").read_bytes()
    for number in (3, 1, 2):
        assert not journal.append(tmp_path, entry("run-a", number, "other words"))
    assert journal.run_file(tmp_path, "run-a").read_bytes() == before


def test_an_entry_is_recognised_also_far_up_in_a_long_log(tmp_path: Path) -> None:
    path = journal.run_file(tmp_path, "run-a")
    written(tmp_path, entry("run-a", 1, "first"), entry("run-a", 2, "second"))
    for _ in range(8):
        files.append(path, encode_line("run", {"id": "run-a", "context_snapshots": "x" * 100_000}))
    assert not journal.append(tmp_path, entry("run-a", 2, "second"))
    assert not journal.append(tmp_path, entry("run-a", 1, "first"))
    assert [each.notes for each in journal.recent(tmp_path, "run-a")] == ["first", "second"]


def test_half_an_entry_is_none_and_a_whole_one_without_its_line_end_gets_it(tmp_path: Path) -> None:
    path = journal.run_file(tmp_path, "run-a")
    line = encode_record(journal_record(entry("run-a", 1, "noted")))
    path.parent.mkdir(parents=True)
    path.write_text(line[:-20], encoding="utf-8")
    assert journal.append(tmp_path, entry("run-a", 1, "noted"))
    path.write_text(line[:-1], encoding="utf-8")
    assert not journal.append(tmp_path, entry("run-a", 1, "noted"))
    assert path.read_text(encoding="utf-8") == line


def test_an_entry_that_was_written_by_two_processes_counts_once(tmp_path: Path) -> None:
    written(tmp_path, entry("run-a", 1, "parser noted"))
    files.append(
        journal.run_file(tmp_path, "run-a"),
        encode_record(journal_record(entry("run-a", 1, "parser again"))),
    )
    assert [each.notes for each in journal.recent(tmp_path, "run-a")] == ["parser noted"]
    assert journal.list_(tmp_path)[1] == 1
    assert len(journal.matches(tmp_path, "run-b", "parser")) == 1


def test_nothing_secret_or_private_reaches_the_disk(tmp_path: Path) -> None:
    secret = entry(
        "run-a",
        1,
        f"used {TOKEN} <private>our plan</private>and it works",
        title=f"with {TOKEN}",
        extra={"failure": f"token {TOKEN}", "api_key": "q8Zr2LmX5vTn9KpW3yBd"},
    )
    written(tmp_path, secret, entry("run-a", 2, "codename Falcon", files=("falcon.md",)))
    journal.append(tmp_path, entry("run-a", 3, "codename Falcon"), patterns=["Falcon"])
    log = journal.run_file(tmp_path, "run-a").read_text(encoding="utf-8")
    assert TOKEN not in log
    assert "our plan" not in log
    assert "q8Zr2LmX5vTn9KpW3yBd" not in log
    assert log.count("Falcon") == 1
    assert "and it works" in log


def test_control_characters_and_long_notes_are_no_error(tmp_path: Path) -> None:
    written(tmp_path, entry("run-a", 1, "half \ud83d a character\0", files=("caf\udce9",)))
    written(
        tmp_path,
        entry(
            "run-a", 2, "word " * 100_000, files=tuple(f"{number}.py" for number in range(9_999))
        ),
    )
    first, second = journal.recent(tmp_path, "run-a")
    assert first.notes == "half \ufffd a character"
    assert len(second.notes) <= journal.MAX_NOTES_CHARACTERS
    assert (len(second.files), second.extra) == (journal.MAX_FILES, {})
    assert journal.list_(tmp_path)[1] == 2


@pytest.mark.parametrize("run", ["", "..", "../../etc/passwd", "a/b", ".hidden", "x" * 81, "a\nb"])
def test_a_run_that_is_no_name_is_refused_and_nothing_is_written(tmp_path: Path, run: str) -> None:
    with pytest.raises(Refused, match="cannot be the id of a run"):
        journal.append(tmp_path, entry(run, 1))
    assert list(tmp_path.iterdir()) == []


def test_the_newest_five_of_the_run_come_in_their_order(tmp_path: Path) -> None:
    written(tmp_path, *(entry("run-a", number, f"note {number}") for number in range(1, 13)))
    assert noted(journal.recent(tmp_path, "run-a")) == [
        ("run-a", number) for number in range(8, 13)
    ]
    assert journal.recent(tmp_path, "run-b") == ()


def test_up_to_five_matches_come_from_other_runs_never_from_this_one(tmp_path: Path) -> None:
    for run in ("run-a", "run-b", "run-c"):
        written(
            tmp_path,
            *(
                entry(run, number, f"The parser drops headers, case {number} of {run}.")
                for number in range(1, 5)
            ),
        )
    found = journal.matches(tmp_path, "run-a", "Fix the parser: headers")
    assert len(found) == 5
    assert {each.run for each in found} == {"run-b", "run-c"}
    section = _section(tmp_path, "run-a", "Fix the parser: headers")
    assert "### Iteration 4 [done]\n" in section
    assert section.count(" of run-a [") == 0
    assert section.count(" of run-b [") + section.count(" of run-c [") == 5


def test_what_has_no_notes_or_sums_up_a_run_is_no_match(tmp_path: Path) -> None:
    written(
        tmp_path,
        entry("run-b", 1, "", title="Fix the parser", files=("src/parser.py",)),
        entry("run-b", 2, "  \n"),
    )
    origin = Origin(run="run-b")
    summed = Record("run-b", Outcome.DONE, "parser fixed", Family.JOURNAL, "run", origin=origin)
    files.append(journal.run_file(tmp_path, "run-b"), encode_record(summed))
    files.append(
        journal.run_file(tmp_path, "run-b"),
        encode_record(replace(summed, id="x", origin=origin._replace(iteration=3))),
    )
    assert journal.matches(tmp_path, "run-a", "fix the parser") == ()
    assert journal.list_(tmp_path)[1] == 2
    assert [match.entry.iteration for match in journal.search(tmp_path, "parser")[0]] == [1]


def test_many_entries_without_notes_do_not_crowd_out_one_that_has_some(tmp_path: Path) -> None:
    written(tmp_path, *(entry("run-b", number, title="parser") for number in range(1, 31)))
    written(
        tmp_path,
        entry("run-b", 31, "What to know of the parser: it keeps comments, blanks and line ends."),
    )
    assert noted(journal.matches(tmp_path, "run-a", "parser")) == [("run-b", 31)]


def test_how_old_an_entry_is_counts_from_the_newest_one_and_not_from_the_clock(
    tmp_path: Path,
) -> None:
    written(
        tmp_path,
        entry("run-b", 1, "parser headers are dropped by the old reader", created_at="2000-01-01"),
    )
    written(
        tmp_path,
        entry(
            "run-c", 1, "parser headers are dropped by the old reader too", created_at="2000-06-01"
        ),
    )
    assert noted(journal.matches(tmp_path, "run-a", "parser headers")) == [
        ("run-c", 1),
        ("run-b", 1),
    ]


def test_entries_with_the_same_notes_match_once(tmp_path: Path) -> None:
    written(tmp_path, *(entry("run-b", number, "The parser is fixed.") for number in range(1, 9)))
    assert len(journal.matches(tmp_path, "run-a", "parser")) == 1


@pytest.mark.parametrize(
    ("title", "notes"),
    [
        ("Fix: parser's edge-case (issue #12)", "The parser had an edge case with empty input."),
        ('Handle "ECONNREFUSED" in src/db/client.ts!', "econnrefused means that docker is not up."),
        ("C++ headers AND/OR (NEAR) NOT found?", "headers for C++ are in vendor/include"),
        ("failing tests; don't retry", "The test fails when it is retried."),
        ("로그인 오류를 고친다", "로그인은 세션이 없으면 오류가 난다."),
        ("parseHttpHeader: trim", "http header parsing trims twice"),
        ("Authentcation is broken", "authentication needs the clock to be right"),
        ("Write the changelog for the parser", "The parser keeps comments."),
    ],
)
def test_real_titles_with_punctuation_forms_and_korean_find_their_match(
    tmp_path: Path, title: str, notes: str
) -> None:
    written(tmp_path, entry("run-b", 1, notes), entry("run-b", 2, "Moved the buttons to the left."))
    assert noted(journal.matches(tmp_path, "run-a", title))[:1] == [("run-b", 1)]


@pytest.mark.parametrize(
    "title",
    [
        "Make the websocket gateway robust",
        "Improve the websocket reconnect and the orders API pagination. The cursor must be opaque.",
        "Improve websocket handling",
    ],
)
def test_one_word_in_common_is_a_match_however_long_the_task_is(tmp_path: Path, title: str) -> None:
    notes = [
        "The websocket reconnect uses exponential backoff.",
        "The gateway closes an idle websocket after 30 seconds.",
        "Compression is off for every websocket.",
        "A websocket needs the session cookie.",
        "The websocket test needs a free port.",
        "Ping frames keep the websocket open.",
    ]
    written(tmp_path, *(entry("run-b", number, text) for number, text in enumerate(notes, 1)))
    written(tmp_path, entry("run-c", 1, "Moved the buttons to the left."))
    assert {each.run for each in journal.matches(tmp_path, "run-a", title)} == {"run-b"}
    assert len(journal.matches(tmp_path, "run-a", title)) == 5


@pytest.mark.parametrize(
    ("notes", "is_match"),
    [
        (SAID_NOTHING, False),
        (f"Moved the buttons.\n\n{SAID_NOTHING}", False),
        (f"The agent list is sorted.\n\n{SAID_NOTHING}", True),
    ],
    ids=["nothing else", "the word is only in it", "the word is also in the notes"],
)
def test_the_loops_own_sentence_is_no_match(tmp_path: Path, notes: str, is_match: bool) -> None:
    written(tmp_path, entry("run-b", 1, notes, title="left"), entry("run-b", 2, "Blue borders."))
    found = journal.matches(tmp_path, "run-a", "Show the agents in a table")
    assert [each.iteration for each in found] == [1] * is_match


def test_an_everyday_word_alone_is_no_match(tmp_path: Path) -> None:
    written(
        tmp_path,
        entry("run-b", 1, "The case is closed."),
        entry("run-b", 2, "Buttons are on the left."),
    )
    assert journal.matches(tmp_path, "run-a", "Write about billing in any case") == ()


@pytest.mark.parametrize("words", ["", "   ", '"*():^', "x" * 100_000, "zzzz qqqq"])
def test_words_that_find_nothing_are_no_error(tmp_path: Path, words: str) -> None:
    written(tmp_path, entry("run-a", 1, "mine"), entry("run-b", 1, "The parser is fixed."))
    assert headings(_section(tmp_path, "run-a", words)) == ["### Iteration 1 [done]"]


@pytest.mark.parametrize(
    "words", ["the and of", "AND OR NOT NEAR", "a" * 9_000 + " parser", "🔥 don't 'parser"]
)
def test_any_search_text_is_no_error(tmp_path: Path, words: str) -> None:
    written(tmp_path, entry("run-a", 1, "mine"), entry("run-b", 1, "The parser is fixed."))
    assert headings(_section(tmp_path, "run-a", words))[0] == "### Iteration 1 [done]"


def test_an_empty_journal_has_no_section_and_leaves_no_trace(tmp_path: Path) -> None:
    assert _section(tmp_path, "run-a", "fix the parser") == ""
    assert journal.list_(tmp_path) == ((), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_new_entry_is_read_while_another_process_has_the_index(tmp_path: Path) -> None:
    written(tmp_path, entry("run-a", 1, "first"))
    _section(tmp_path, "run-a", "anything")
    with sole_writer(paths.index_file(tmp_path)):
        written(tmp_path, entry("run-a", 2, "second"))
        assert "- **Notes**: second" in _section(tmp_path, "run-a", "anything")


def test_the_same_files_give_the_same_section_whatever_the_index_went_through(
    tmp_path: Path,
) -> None:
    for run in ("run-a", "run-b", "run-c", "run-d"):
        for number in range(1, 7):
            written(
                tmp_path,
                entry(
                    run, number, f"Parser note {number} of {run}", created_at=f"2026-0{number}-01"
                ),
            )
            _section(tmp_path, "run-a", "parser note")
    before = _section(tmp_path, "run-a", "parser note")
    index.rebuild(tmp_path)
    assert _section(tmp_path, "run-a", "parser note") == before
    assert " of run-" in before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs that began at the same time."""
    written(
        tmp_path,
        entry("run-aa11", 1, "parser begun", task="t-1"),
        entry("run-aa11", 2, "parser done", task="t-2", outcome=Outcome.FAILED),
        entry("run-aa22", 1, "docs", task="t-1"),
        entry("run-aa22", 10, "docs of the parser, again"),
    )
    return tmp_path


def test_the_list_is_newest_first_and_narrowed_down_by_run_task_outcome_and_time(
    root: Path,
) -> None:
    everything, total = journal.list_(root)
    assert noted(everything) == [
        ("run-aa22", 10),
        ("run-aa11", 2),
        ("run-aa22", 1),
        ("run-aa11", 1),
    ]
    assert total == 4
    found, total = journal.list_(root, limit=1)
    assert (noted(found), total) == ([("run-aa22", 10)], 4)
    assert noted(journal.list_(root, JournalFilter(run="run-aa11"))[0]) == [
        ("run-aa11", 2),
        ("run-aa11", 1),
    ]
    assert journal.list_(root, JournalFilter(run="run-aa"))[1] == 4
    assert noted(journal.list_(root, JournalFilter(task="t-1"))[0]) == [
        ("run-aa22", 1),
        ("run-aa11", 1),
    ]
    assert noted(journal.list_(root, JournalFilter(outcome=Outcome.FAILED))[0]) == [("run-aa11", 2)]
    assert noted(journal.list_(root, JournalFilter(since="2026-11-10T10:05"))[0]) == [
        ("run-aa22", 10)
    ]
    assert journal.list_(root, JournalFilter(run="%"))[1] == 0


@pytest.mark.parametrize("order", [("run-aa", "run-bb"), ("run-bb", "run-aa")])
def test_of_two_runs_of_one_second_the_later_one_is_listed_first(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    for number, run in enumerate(order):
        written(tmp_path, entry(run, 1, "parser begun"))
        os.utime(paths.run_log(tmp_path, run), ns=(number, number))
    earlier, later = order
    assert noted(journal.list_(tmp_path)[0]) == [(later, 1), (earlier, 1)]


def test_a_run_is_shown_in_its_order_by_a_part_of_its_id(root: Path) -> None:
    assert noted(journal.show(root, "run-aa1")) == [("run-aa11", 1), ("run-aa11", 2)]
    with pytest.raises(Conflict, match="2 runs begin with run-aa: run-aa22, run-aa11"):
        journal.show(root, "run-aa")
    with pytest.raises(NotFound, match="Run not found in the journal: run-zz"):
        journal.show(root, "run-zz")
    written(root, entry("run-aa1", 1))
    assert noted(journal.show(root, "run-aa1")) == [("run-aa1", 1)]


def test_one_entry_is_found_by_run_and_iteration_or_by_its_id(root: Path) -> None:
    assert journal.find(root, "run-aa2", 10).notes == "docs of the parser, again"
    assert journal.find(root, "jrn-run-aa22-10").notes == "docs of the parser, again"
    with pytest.raises(NotFound, match="iteration 3 of run-aa11"):
        journal.find(root, "run-aa11", 3)
    with pytest.raises(NotFound, match="Journal entry not found: jrn-nonsense"):
        journal.find(root, "jrn-nonsense")
    with pytest.raises(NotFound, match="Run not found in the journal: run-zz"):
        journal.find(root, "jrn-run-zz-1")


def test_a_search_gives_the_best_first_and_can_be_narrowed_down(root: Path) -> None:
    found, total = journal.search(root, "docs parser")
    assert (found[0].entry.iteration, total) == (10, 4)
    assert found[0].why[:2] == ("text: docs", "text: parser")
    assert [
        match.entry.run
        for match in journal.search(root, "parser", JournalFilter(run="run-aa11"))[0]
    ] == ["run-aa11"] * 2
    assert journal.search(root, "parser", JournalFilter(outcome=Outcome.BLOCKED)) == ((), 0)
    assert len(journal.search(root, "parser", limit=1)[0]) == 1


class Keeper(Program):
    """A running `journal_writer`."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.journal_writer", str(root)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self.child = 0


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    program = Keeper(tmp_path)
    yield program
    program.close()


@pytest.mark.soak
def test_a_killed_loop_loses_no_entry_and_writes_none_twice(
    tmp_path: Path, keeper: Keeper, rounds: Callable[[int, int], int]
) -> None:
    done: list[int] = []
    for _ in range(rounds(300, 3)):
        keeper.start_child()
        for _ in range(random.randint(2, 6)):
            words = keeper.read_words()
            done += [int(words[1])] if words[0] == "did" else []
        time.sleep(random.uniform(0, 0.02))  # at any moment of what it does now
        done += [int(words[1]) for words in keeper.kill_child() if words[0] == "did"]
    saved = int(state_file(tmp_path).read_text(encoding="utf-8"))
    document = parse_log(journal.run_file(tmp_path, RUN).read_text(encoding="utf-8"))
    found = [entry.record.origin.iteration for entry in document.entries]
    assert found in (list(range(1, saved + 1)), list(range(1, saved + 2)))
    assert set(done) <= set(found)
    assert {problem.code for problem in document.problems} <= {"torn-line"}
    assert journal.append(tmp_path, entry_of(saved + 1)) is (len(found) == saved)
    assert journal.recent(tmp_path, RUN) == tuple(
        map(entry_of, range(max(1, saved - 3), saved + 2))
    )
    assert index.verify(tmp_path) == []


def test_an_entry_is_related_by_its_session_or_a_member(tmp_path: Path) -> None:
    knowledge = {"knowledge": [{"name": "tests", "change": "added"}]}
    for made in (
        entry(RUN, 1, "same session", session='s-"1"'),
        entry(RUN, 2, "same member", extra=knowledge),
        entry(RUN, 3, "neither", session="s-2"),
        entry(RUN, 4, "the iteration", session='s-"1"', extra=knowledge),
        entry(RUN, 5, "nothing to share"),
        entry("run-00000000", 1, "another run", session='s-"1"', extra=knowledge),
    ):
        journal.append(tmp_path, made)

    def related(iteration: int) -> list[int]:
        which = JournalFilter(run=RUN)
        found = journal.list_related(tmp_path, which, iteration, "knowledge")
        return [each.iteration for each in found]

    assert related(4) == [4, 2, 1]
    assert related(3) == [3]
    assert related(5) == [5]
