"""Raw lines of a log: what they mean is given from above, and a log read in portions says what it says at once."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.index_sources import LOG, dump, put, seen
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.errors import DeadlineExceeded
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.formats.log import encode_line
from ralph.storage import lookup, queries
from ralph.storage.index import Index
from ralph.storage.index_update import in_memory
from ralph.storage.index_writer import IndexWriter
from ralph.storage.log_portions import ReadState
from ralph.storage.source_contents import parse_contents, read_source
from ralph.storage.sources import sources


def interpret(value: Mapping[str, object]) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """A toy: as many records as the payload has words, and what it says of its session."""
    payload, at = value.get("payload"), str(value.get("at"))
    if not isinstance(payload, dict):
        return (), None
    session = str(payload.get("session_id"))
    records = [
        Record(f"obs-{at}-{number}", ObservationKind.NOTE, word, Family.OBSERVATION,
               origin=Origin(by="tool", session=session), created_at=at)
        for number, word in enumerate(str(payload.get("prompt", "")).split())
    ]  # fmt: skip
    said = {
        "id": session,
        "session_id": session,
        "started_at": at,
        "updated_at": at,
        "host": value.get("host"),
    }
    if value.get("event") == "SessionEnd":
        said |= {"ended_at": at, "reason": payload.get("reason")}
    return records, said


def event(
    minute: int, prompt: str = "", session: str = "s1", happening: str = "UserPromptSubmit"
) -> str:
    """A raw line as a hook appends it."""
    payload = json.dumps({"session_id": session, "prompt": prompt, "reason": "logout"})
    at = f"2026-11-15T12:{minute:02}:00.123456Z"
    return f'{{"v": 1, "type": "event", "at": "{at}", "host": "claude", "event": "{happening}", "payload": {payload}}}\n'


def index_of(root: Path) -> Index:
    return Index(root, terms.index_terms, interpret)


def held(root: Path) -> list[tuple[object, ...]]:
    with closing(index_of(root).connect()) as connection:
        return dump(connection)


def made_new(root: Path) -> list[tuple[object, ...]]:
    found = list(sources(root))
    read = (read_source(source, interpret) for source in found)
    with closing(in_memory(read, terms.index_terms, [each.name for each in found])) as connection:
        return dump(connection)


def session(root: Path, name: str = "s1") -> sqlite3.Row:
    with closing(index_of(root).connect()) as connection:
        (row,) = connection.execute("SELECT * FROM session_rows WHERE id = ?", (name,)).fetchall()
    assert isinstance(row, sqlite3.Row)
    return row


def test_a_raw_line_becomes_observations_on_its_own_line_in_the_order_of_the_log(
    tmp_path: Path,
) -> None:
    put(tmp_path, LOG, event(1, "alpha beta") + seen("between") + event(2, "gamma"))
    index_of(tmp_path).sync()
    with closing(index_of(tmp_path).connect()) as connection:
        found = connection.execute(
            "SELECT content, line, seq FROM observations ORDER BY seq"
        ).fetchall()
        assert lookup.frequencies(connection, ["gamma"]) == {"gamma": 1}
    assert [tuple(row) for row in found] == [
        ("alpha", 1, 1),
        ("beta", 1, 2),
        ("between", 2, 3),
        ("gamma", 3, 4),
    ]


def test_without_somebody_who_knows_what_they_mean_raw_lines_say_nothing(tmp_path: Path) -> None:
    put(tmp_path, LOG, event(1, "alpha") + seen("between"))
    Index(tmp_path, terms.index_terms).sync()
    with closing(index_of(tmp_path).connect()) as connection:
        assert [
            row["content"] for row in connection.execute("SELECT content FROM observations")
        ] == ["between"]
        assert queries.count_rows(connection)["sessions"] == 0
    (source,) = sources(tmp_path)
    assert [line_type for line_type, _ in read_source(source).lines] == ["event"]


def test_a_session_starts_with_its_first_event_and_changed_with_its_last_in_whatever_order(
    tmp_path: Path,
) -> None:
    put(tmp_path, LOG, event(5) + event(3) + event(4))
    index_of(tmp_path).sync()
    row = session(tmp_path)
    assert (row["started_at"], row["updated_at"]) == (
        "2026-11-15T12:03:00.123456Z",
        "2026-11-15T12:05:00.123456Z",
    )
    assert (row["ended_at"], row["host"], row["session_id"]) == (None, "claude", "s1")


def test_a_session_ended_when_it_was_said_and_ordinary_lines_are_merged_with_raw_ones(
    tmp_path: Path,
) -> None:
    said = {
        "id": "s1",
        "summary": "all done",
        "project_path": "/p",
        "started_at": "2026-11-15T11:00:00Z",
    }
    put(
        tmp_path,
        LOG,
        event(1) + encode_line("session", said) + event(9, happening="SessionEnd") + event(2),
    )
    index_of(tmp_path).sync()
    row = session(tmp_path)
    assert (row["started_at"], row["summary"], row["project_path"]) == (
        "2026-11-15T11:00:00Z",
        "all done",
        "/p",
    )
    assert (row["ended_at"], row["reason"], row["updated_at"]) == (
        "2026-11-15T12:09:00.123456Z", "logout", "2026-11-15T12:09:00.123456Z")  # fmt: skip


def test_thousands_of_events_of_one_session_are_merged_into_it_once(tmp_path: Path) -> None:
    put(tmp_path, LOG, "".join(event(number % 60) for number in range(3000)))
    (source,) = sources(tmp_path)
    statements: list[str] = []
    with closing(in_memory([], terms.index_terms)) as connection:
        writer = IndexWriter(connection, terms.index_terms)
        key = writer.add_source(source.name, source.format, ReadState())
        connection.set_trace_callback(statements.append)
        writer.add_contents(key, read_source(source, interpret))
    # the new row, its values, what changed, what follows, and two for the list of sessions
    assert sum("session_rows" in each for each in statements) == 6


LINES = st.lists(
    st.one_of(
        st.builds(
            event,
            st.integers(0, 59),
            st.sampled_from(["", "alpha", "alpha beta"]),
            st.sampled_from("ab"),
        ),
        st.builds(
            event, st.integers(0, 59), st.just(""), st.sampled_from("ab"), st.just("SessionEnd")
        ),
        st.builds(seen, st.just("plain words"), st.integers(1, 9), st.sampled_from("ab")),
        st.just(
            encode_line(
                "session", {"id": "a", "mode": "plan", "updated_at": "2026-11-15T12:30:00Z"}
            )
        ),
        st.sampled_from(
            ['{"v": 1, "type": "event"}\n', '{"v": 1, "type": "event", "payload": {"sess\n', "\n"]
        ),
    ),
    max_size=12,
)


@given(LINES, st.lists(st.integers(0, 12), max_size=3))
@settings(
    max_examples=examples(40, 10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_read_in_portions_or_at_once_a_log_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int]
) -> None:
    root = tmp_path_factory.mktemp("project")
    for cut in sorted(cuts):
        put(root, LOG, "".join(lines[:cut]))
        index_of(root).sync()
    put(root, LOG, "".join(lines))
    index_of(root).sync()
    portions = held(root)
    index_of(root).rebuild()
    assert portions == held(root) == made_new(root)


LARGE = [event(number % 60, f"word{number} " + "filler" * 300) for number in range(2_400)]
"""More than 4 MB, so that the full-text indexes gather rows."""


USUAL_MERGING = {"automerge": 4, "crisismerge": 16}
"""FTS5's defaults: segments of one size that trigger a gradual merge, and an immediate one."""


def settings_of_the_words(root: Path) -> dict[str, int]:
    with closing(index_of(root).connect()) as connection:
        rows = connection.execute("SELECT k, v FROM search_config").fetchall()
    return {row["k"]: row["v"] for row in rows}


def test_a_large_sync_gives_the_same_rows_and_merges_words_as_usual_afterwards(
    tmp_path: Path,
) -> None:
    put(tmp_path, LOG, "".join(LARGE))
    put(tmp_path, "log/sessions/s2.jsonl", event(1, "alpha beta", session="s2"))
    index_of(tmp_path).sync()
    assert held(tmp_path) == made_new(tmp_path)
    assert settings_of_the_words(tmp_path).items() >= USUAL_MERGING.items()


def test_the_sync_after_a_large_one_that_ran_out_of_time_finishes_it(tmp_path: Path) -> None:
    def end(done: int, total: int) -> None:
        if done == 1 and total == 2:
            raise DeadlineExceeded("too late")

    put(tmp_path, LOG, "".join(LARGE))
    put(tmp_path, "log/sessions/s2.jsonl", event(1, "alpha beta", session="s2"))
    with pytest.raises(DeadlineExceeded):
        index_of(tmp_path).sync(progress=end)
    assert settings_of_the_words(tmp_path).items() >= USUAL_MERGING.items()
    index_of(tmp_path).sync()
    assert held(tmp_path) == made_new(tmp_path)


def test_a_log_that_is_rewritten_in_place_while_its_rows_are_prepared_is_read_again(
    tmp_path: Path,
) -> None:
    log = put(tmp_path, LOG, seen("an error", 1) + seen("another error", 2))

    def rewrite(text: str) -> str:
        log.write_text(seen("a correction", 3), encoding="utf-8")
        return terms.index_terms(text)

    Index(tmp_path, rewrite).sync()
    index = Index(tmp_path, terms.index_terms)
    index.sync()
    with closing(index.connect()) as connection:
        found = [text for (text,) in connection.execute("SELECT content FROM observations")]
    assert found == ["a correction"]


def test_a_part_of_a_log_is_read_as_a_log(tmp_path: Path) -> None:
    put(tmp_path, LOG, event(1, "alpha"))
    (source,) = sources(tmp_path)
    read = parse_contents(source, event(1, "alpha") + event(2, "beta"), interpret)
    assert [(placed.record.text, placed.line) for placed in read.records] == [
        ("alpha", 1),
        ("beta", 2),
    ]
