"""progress.txt: the laws, the golden files, real logs, and how blocks and patterns are added."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import golden
from tests.support.laws import (
    add_then_remove_restores,
    holds_all_of,
    keeps_every_byte,
    messy,
    restores,
)

from ralph.core.errors import NotFound, Refused
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.formats.progress import (
    as_progress_pattern,
    parse_progress,
    progress_template,
    searchable_entries,
    with_pointer,
    without_pointer,
)
from ralph.formats.progress_blocks import JOURNAL_KEY, as_block

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FILES = sorted([*CORPUS.glob("progress/*"), *CORPUS.glob("learnings/*")])

texts = messy(
    "## Codebase Patterns\n", "## 2026-01-02 - S-1\n", "## \n", "- **Learnings:**\n", "  - learned\n", "---\n",
    "Learnings: a\n", "### Learnings\n", "Thread: http://x\n", "Outcome: failed\n", "- zz\n", "passed\n", "```\n",
    "<!--\n", "-->\n",
)  # fmt: skip
word = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
body_line = st.one_of(
    st.just(""),
    word,
    word.map("- {}".format),
    word.map("  {}".format),
    st.sampled_from(
        ["Thread: http://y", "Outcome: done", "Status: failed", "it is not done", "all passed"]
    ),
)
bodies = st.lists(body_line, max_size=5).map("\n".join)
anything = st.text(st.characters(exclude_categories=[]), max_size=30)


def block(title: str, text: str = "", outcome: Outcome = Outcome.DONE, thread: str = "") -> Record:
    extra = {"thread": thread} if thread else {}
    return as_block(
        Record(id="j", kind=outcome, text=text, family=Family.JOURNAL, title=title, extra=extra)
    )


def pattern(text: str) -> Record:
    return as_progress_pattern(Record(id="mem-1-a", kind=MemoryKind.PATTERN, text=text))


@pytest.mark.parametrize("path", golden.cases("progress"), ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    assert golden.rows(parse_progress(golden.text_of(path))) == golden.expected(path)


real = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


@real
def test_a_real_log_is_kept_byte_for_byte(path: Path) -> None:
    text = golden.text_of(path)
    assert str(parse_progress(text)).encode("utf-8", "surrogateescape") == path.read_bytes()
    keeps_every_byte(parse_progress, text)


@real
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_real_log_is_as_it_was_after_add_and_remove(path: Path, newline: str) -> None:
    text = golden.text_of(path).replace("\n", newline)
    for version in (text, text.rstrip(), text + newline * 2, "\ufeff" + text):
        add_then_remove_restores(parse_progress, version, block("2026-03-04 - new", "all passed"))
        add_then_remove_restores(parse_progress, version, new_pattern(version))


def new_pattern(text: str) -> Record:
    """A pattern as it is read from this file, whose section may have a name of its own."""
    after = parse_progress(text).add(
        Record(id="p", kind=MemoryKind.PATTERN, text="not said before")
    )
    return next(entry.record for entry in after.entries if entry.record.text == "not said before")


@real
def test_each_entry_of_a_real_log_can_be_removed(path: Path) -> None:
    document = parse_progress(golden.text_of(path))
    for entry in document.entries:
        removed = document.remove(entry.record.id)
        assert len(removed.entries) < len(document.entries)
        holds_all_of(document.text, removed.text)


@given(st.one_of(texts, st.text(st.characters(exclude_categories=[]))))
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_progress, text)
    ids = [entry.record.id for entry in parse_progress(text).entries]
    assert len(set(ids)) == len(ids)


@given(word, bodies, st.sampled_from(Outcome), st.sampled_from(["", "https://x.example/T-1"]))
def test_a_written_block_reads_back_as_it_was(
    title: str, body: str, outcome: Outcome, thread: str
) -> None:
    record = block(f"2026-01-02 - {title}", body, outcome, thread)
    assert [entry.record for entry in parse_progress("").add(record).entries] == [record]
    assert record.created_at == "2026-01-02"


@given(word, st.lists(st.one_of(st.just(""), word, word.map("  - {}".format)), max_size=4), word)
def test_a_written_pattern_reads_back_as_it_was(first: str, body: list[str], last: str) -> None:
    record = pattern("\n".join([first, *body, last]))
    assert [entry.record for entry in parse_progress("").add(record).entries] == [record]
    assert (record.kind, record.status, record.scope) == (
        MemoryKind.PATTERN,
        Status.PROPOSED,
        Scope.TASK,
    )


@given(texts, word.map("yy {}".format))
def test_adding_and_removing_leaves_the_others_alone(text: str, words: str) -> None:
    add_then_remove_restores(parse_progress, text, block(words, words, Outcome.RETRIED))
    add_then_remove_restores(parse_progress, text, pattern(words))


@given(texts, anything, anything, st.sampled_from(Outcome))
def test_any_block_is_refused_or_appended_so_that_it_reads_back(
    text: str, title: str, words: str, outcome: Outcome
) -> None:
    before = parse_progress(text)
    record = Record(id="j", kind=outcome, text=words, family=Family.JOURNAL, title=title)
    try:
        after = before.add(record)
    except Refused:
        return
    assert after.text.startswith(text.rstrip(" \t\r\n"))
    count = len(before.entries)
    assert [entry.record for entry in after.entries[:count]] == [
        entry.record for entry in before.entries
    ]
    added = after.entries[count].record
    assert dataclasses.replace(added, id="") == dataclasses.replace(as_block(record), id="")
    holds_all_of(after.text, text)
    if text.strip("\ufeff \t\r\n"):
        assert after.remove(added.id).text == text


@given(texts, anything)
def test_any_pattern_is_refused_or_added_so_that_it_reads_back(text: str, words: str) -> None:
    before = parse_progress(text)
    try:
        after = before.add(Record(id="p", kind=MemoryKind.PATTERN, text=words))
    except Refused:
        return
    kept = [entry.record.text for entry in before.entries]
    new = [] if after is before else [words.replace("\r\n", "\n").strip(" \t\n")]
    assert sorted(entry.record.text for entry in after.entries) == sorted(kept + new)
    holds_all_of(after.text, text)
    if new and text.strip("\ufeff \t\r\n"):
        removed = after.remove(
            as_progress_pattern(Record(id="p", kind=MemoryKind.PATTERN, text=words)).id
        )
        restores(removed.text, text)


def test_a_block_is_appended_below_a_blank_line() -> None:
    record = block("2026-01-02 - S-2", "- built it\n- all passed", thread="http://t")
    added = "## 2026-01-02 - S-2\nThread: http://t\n- built it\n- all passed\n---\n"
    assert parse_progress("").add(record).text == added
    assert parse_progress("# Log\n").add(record).text == f"# Log\n\n{added}"
    after = parse_progress("## a\r\nb").add(record)
    assert after.text == "## a\r\nb\r\n\r\n" + added.replace("\n", "\r\n").removesuffix("\r\n")
    assert parse_progress("# Log\n").add(record).remove(record.id).text == "# Log\n"


def test_an_outcome_is_written_only_where_the_words_do_not_say_it() -> None:
    assert "Outcome:" not in parse_progress("").add(block("a", "all checks passed")).text
    assert (
        "Outcome: failed\n"
        in parse_progress("").add(block("a", "all checks passed", Outcome.FAILED)).text
    )
    assert (
        "Outcome: interrupted\n" in parse_progress("").add(block("a", "", Outcome.INTERRUPTED)).text
    )
    assert "Outcome:" not in parse_progress("").add(block("a", "stuck", Outcome.BLOCKED)).text


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("All tests passed.", Outcome.DONE),
        ("Story complete", Outcome.DONE),
        ("The build failed", Outcome.FAILED),
        ("0 failed", Outcome.BLOCKED),
        ("Not done", Outcome.BLOCKED),
        ("incomplete", Outcome.BLOCKED),
        ("3 failed at first, then all passed", Outcome.DONE),
        ("**Status**: failed\nlint passed", Outcome.FAILED),
        ("- Result: PASS\n- one test failed before", Outcome.DONE),
        ("", Outcome.BLOCKED),
    ],
)
def test_the_outcome_is_what_the_block_says(words: str, outcome: Outcome) -> None:
    assert parse_progress(f"## a\n{words}\n---\n").entries[0].record.kind is outcome


@pytest.mark.parametrize("title", ["[Date/Time] - [Story ID]", "2026-01-25 10:30 - US-003"])
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("- What was implemented\n- Files changed", Outcome.DONE),
        ("- Built the parser\n- 0 failed", Outcome.DONE),
        ("- Half of the parser, blocked by the lexer", Outcome.BLOCKED),
        ("- Built the parser\n- The tests are not done", Outcome.BLOCKED),
        ("- The build failed", Outcome.FAILED),
        ("**Task**: unknown", Outcome.BLOCKED),
    ],
)
def test_a_block_in_the_form_of_a_report_is_finished_unless_it_says_otherwise(
    title: str, body: str, outcome: Outcome
) -> None:
    learnings = "- **Learnings for future iterations:**\n  - Patterns discovered"
    text = f"## {title}\nThread: https://example.com/T-1\n{body}\n{learnings}\n---\n"
    if body.startswith("**"):
        text = f"## {title}\n{body}\n---\n"
    assert parse_progress(text).entries[0].record.kind is outcome


@pytest.mark.parametrize(
    ("title", "date"),
    [
        ("2026-01-02 - a", "2026-01-02"),
        ("[2026-01-02 16:15] - a", "2026-01-02T16:15"),
        ("Iteration 3 at 2026-01-02T16:15:01Z", "2026-01-02T16:15:01Z"),
        ("2026-02-31 then 2026-03-01", "2026-03-01"),
        ("Sat Feb 14", ""),
        ("12026-01-021", ""),
    ],
)
def test_the_date_is_the_first_iso_date_of_the_heading(title: str, date: str) -> None:
    assert parse_progress(f"## {title}\n").entries[0].record.created_at == date


def test_learnings_link_to_their_block_and_name_their_kind() -> None:
    text = "## a\n- **Learnings for future iterations:**\n  - Gotcha: x\n  - y\n- else\n---\n"
    first, *learned = (entry.record for entry in parse_progress(text).entries)
    assert [(record.kind, record.text) for record in learned] == [
        (MemoryKind.FIX, "Gotcha: x"),
        (MemoryKind.CONTEXT, "y"),
    ]
    assert all(record.links == (Link("learned_in", first.id),) for record in learned)
    assert all((record.status, record.scope) == (Status.PROPOSED, Scope.TASK) for record in learned)


def test_a_thread_is_found_wherever_its_line_stands() -> None:
    for words in (
        "Thread: http://t",
        "- **Thread**: http://t",
        "x\nthread: http://t <- earlier work",
    ):
        assert parse_progress(f"## a\n{words}\n").entries[0].record.extra == {"thread": "http://t"}


def test_patterns_get_a_section_at_the_top() -> None:
    record = pattern("use it")
    assert parse_progress("").add(record).text == "## Codebase Patterns\n- use it\n---\n"
    section = "## Codebase Patterns\n- use it\n---\n"
    assert (
        parse_progress("# Log\n# by hand\n\n## a\nb\n").add(record).text
        == f"# Log\n# by hand\n\n{section}\n## a\nb\n"
    )
    assert parse_progress("# Log\nStarted: x\n---\n\n## a\n").add(record).text == (
        f"# Log\nStarted: x\n---\n\n{section}\n## a\n"
    )
    assert (
        parse_progress("<!-- log -->\nA report\n").add(record).text
        == f"<!-- log -->\n\n{section}A report\n"
    )
    assert parse_progress("\ufeff## a\nb").add(record).text == f"\ufeff{section}\n## a\nb"


def test_a_section_stays_when_it_is_empty() -> None:
    text = "# Log\n\n## Codebase Patterns\n- x\n---\n"
    assert parse_progress(text).remove(pattern("x").id).text == text.replace("- x\n", "")


def test_patterns_go_to_the_end_of_their_section_once() -> None:
    text = "## Codebase Patterns\n- a\n\n---\n\n## b\nc\n"
    after = parse_progress(text).add(pattern("d"))
    assert after.text == text.replace("- a\n", "- a\n- d\n")
    assert after.add(pattern("`D`.")) is after


def test_patterns_and_learnings_are_removed_in_place() -> None:
    text = "## Codebase Patterns\n* p\n---\n\n## a\n- Learnings: one\n- Learnings:\n  - two\n  - three\n"
    document = parse_progress(text)
    by_text = {entry.record.text: entry.record for entry in document.entries}
    for learned in ("p", "one", "two"):
        removed = document.remove(by_text[learned].id)
        assert learned not in [entry.record.text for entry in removed.entries]
        assert len(removed.entries) == len(document.entries) - 1


def test_equal_blocks_get_numbered_ids() -> None:
    document = parse_progress("## a\nb\n---\n## a\nb\n---\n")
    first, second = (entry.record.id for entry in document.entries)
    assert second == f"{first}-2"
    assert document.remove(second).text == "## a\nb\n---\n"
    with pytest.raises(NotFound):
        document.remove("prog-none")


@pytest.mark.parametrize("text", ["## b", "a\n---\nb", "nul \x00"])
def test_a_block_that_would_be_two_is_refused(text: str) -> None:
    document = parse_progress("## a\nb\n")
    with pytest.raises(Refused):
        document.add(Record(id="j", kind=Outcome.DONE, text=text, family=Family.JOURNAL, title="t"))
    fenced = f"```\n{text}\n```"
    if "\x00" not in text:
        assert document.add(block("t", fenced)).entries[-1].record.text == fenced


def test_other_records_are_refused() -> None:
    for record in (
        Record(id="a", kind=MemoryKind.FIX, text="x"),
        Record(id="a", kind=ObservationKind.NOTE, text="x", family=Family.OBSERVATION),
        Record(id="a", kind=Outcome.DONE, text="x", family=Family.JOURNAL),
        Record(id="a", kind=MemoryKind.PATTERN, text=" "),
    ):
        with pytest.raises(Refused):
            parse_progress("").add(record)


@pytest.mark.soak
def test_large_logs_are_read() -> None:
    count = 3_000
    text = (
        "## Codebase Patterns\n"
        + "- p\n" * count
        + "---\n"
        + "## a\n- Learnings:\n  - x\n---\n" * count
    )
    assert len(parse_progress(text).entries) == 3 * count
    for odd in (
        "## " + "a" * 1_000_000,
        "## a\n" + "Learnings " * 100_000,
        "-" * 1_000_000,
        "## a\n- Learnings:\n" * 999,
    ):
        keeps_every_byte(parse_progress, odd)


# --- blocks of the loop ------------------------------------------------------------------------


ours = st.sampled_from(
    ["[//]: # (ralph: jrn-run-1-2)", "Thread: http://y", "Outcome: done", "- x", ""]
)


@given(
    texts,
    st.lists(ours, max_size=4).map("\n".join),
    st.sampled_from(["", "jrn-run-1a2b-3", "jrn-x) y", "other"]),
)
def test_the_entry_of_the_journal_comes_back_whatever_the_words_begin_with(
    text: str, body: str, name: str
) -> None:
    wanted = as_block(
        Record(
            "j",
            Outcome.FAILED,
            body,
            Family.JOURNAL,
            title="2026-01-02 - US-1",
            extra={JOURNAL_KEY: name},
        )
    )
    assert wanted.extra.get(JOURNAL_KEY, "") == (name if name == "jrn-run-1a2b-3" else "")
    add_then_remove_restores(parse_progress, text, wanted)


def test_a_search_is_not_told_what_the_journal_or_knowledge_or_a_pattern_has() -> None:
    said = "- **Learnings:**\n  - twice\n  - once"
    marked = Record(
        "j",
        Outcome.DONE,
        said,
        Family.JOURNAL,
        title="2026-01-02 - US-1",
        extra={JOURNAL_KEY: "jrn-run-1-2"},
    )
    document = (
        parse_progress(progress_template())
        .add(marked)
        .add(block("2026-01-03 - US-2", "mine, passed"))
    )
    document = document.add(pattern("twice")).add(pattern(with_pointer("known", "a-name")))
    assert [entry.record.text for entry in searchable_entries(document)] == [
        "twice",
        "once",
        "mine, passed",
    ]
    assert without_pointer(with_pointer("known", "a-name")) == "known"
    [learned] = [entry.record for entry in document.entries if entry.record.text == "once"]
    assert (learned.origin.run, learned.origin.iteration) == ("run-1", 2)


def test_a_new_file_has_a_place_for_patterns_and_nothing_to_complain_about() -> None:
    document = parse_progress(progress_template())
    assert document.problems == ()
    assert str(document.add(pattern("a"))).startswith("## Codebase Patterns\n- a\n")
