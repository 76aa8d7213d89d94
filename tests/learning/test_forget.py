"""Forgotten is gone: from files, logs, index and vectors, down to the bytes; and nothing else is touched.

`everything` are the bytes of all files that are left, databases and their write-ahead logs included. The
words to be forgotten are made up here, so that each of them can be looked for in any manner of writing.
"""

import json
from functools import partial
from pathlib import Path

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.runner import Block, page
from tests.support.secret_logs import S1, S2, SECRET, raw, seen
from tests.support.world import world

from ralph.capture.pipeline import interpret
from ralph.core import paths, terms
from ralph.core.errors import Conflict, NotFound, UsageError
from ralph.core.record import (
    Link,
    MemoryKind,
    Query,
    Record,
    Status,
)
from ralph.formats.log import encode_line, encode_record
from ralph.learning import forget, insights, review
from ralph.learning.forget_plan import ForgetPlan, ForgetRequest
from ralph.recall import sessions
from ralph.recall.search import search
from ralph.search import index
from ralph.storage import queries
from ralph.storage.index import Index
from ralph.storage.vectors import VectorCache

LEDGER = "log/injections.jsonl"


def put(root: Path, name: str, text: str) -> Path:
    path = paths.source_path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def read(root: Path, name: str) -> str:
    return paths.source_path(root, name).read_bytes().decode()


def everything(root: Path) -> bytes:
    return b"\n".join(
        path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    ).lower()


def injected(record: str, name: str = "s1", day: int = 10) -> str:
    value = {
        "at": f"2026-11-{day:02}T10:00:00Z",
        "session": name,
        "event": "SessionStart",
        "record": record,
    }
    return encode_line("injection", value)


def about(name: str, **said: object) -> str:
    return encode_line("session", {"id": name, **said})


def forgotten(root: Path, **wanted: object) -> ForgetPlan:
    """Plan, see that nothing was changed, and do it."""
    before = {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "ralph.db" not in path.name
    }
    made = forget.plan_forget(root, ForgetRequest(**wanted))  # type: ignore[arg-type]  # the four names of Wanted
    for path, content in before.items():
        assert path.read_bytes() == content
    forget.forget(root, made)
    assert index.verify(root) == []
    return made


def found(root: Path, words: str) -> list[str]:
    return [hit.record.id for hit in search(root, Query(words)).found.hits]


class TestEntries:
    def test_a_memory_goes_and_every_other_byte_of_its_file_stays(self, tmp_path: Path) -> None:
        keep = Block("keep me", id="mem-1705751401-0001")
        put(
            tmp_path,
            ".agent/memories.md",
            page(keep, Block(f"the word is {SECRET}", id="mem-1705751400-a3f8")),
        )
        assert found(tmp_path, SECRET) == ["mem-1705751400-a3f8"]
        assert SECRET.encode() in everything(tmp_path)
        made = forgotten(tmp_path, ids=("mem-1705751400-a3f8",))
        assert [(each.id, each.line, each.what) for each in made.records] == [
            ("mem-1705751400-a3f8", 9, "memories pattern")
        ]
        assert read(tmp_path, ".agent/memories.md") == page(keep)
        assert SECRET.encode() not in everything(tmp_path)
        assert b"zebrafish" not in everything(tmp_path)
        assert found(tmp_path, SECRET) == []

    def test_guardrails_knowledge_patterns_insights_and_progress_go_through_their_codecs(
        self, tmp_path: Path
    ) -> None:
        guard = Block(f"never {SECRET}", id="fix-1705751400-b1b1", kind="fix")
        put(tmp_path, ".ralph/guardrails.md", page(guard, title="Guardrails"))
        knowledge = put(
            tmp_path, ".ralph/knowledge/jwt.md", f"---\ntitle: JWT\ntags: [auth]\n---\n\n{SECRET}\n"
        )
        put(
            tmp_path,
            ".ralph/global-patterns.md",
            f"# P\n\n## Conventions\n\n- tabs\n- use {SECRET}\n",
        )
        told = {
            "insights": [
                {"id": "ins-1", "text": SECRET, "kind": "fix"},
                {"id": "ins-2", "text": "x", "kind": "fix"},
            ]
        }
        put(tmp_path, ".ralph/tasks/t1/memory/insights.json", json.dumps(told))
        put(tmp_path, ".ralph/progress.txt", f"## Codebase Patterns\n- {SECRET}\n- fine\n")
        made = forgotten(tmp_path, matching=SECRET.upper())
        assert len(made.records) == 5
        assert made.leftovers == ()
        assert made.whole_files == (knowledge,)
        assert not knowledge.exists()
        assert SECRET.encode() not in everything(tmp_path)
        assert "- tabs" in read(tmp_path, ".ralph/global-patterns.md")
        assert "ins-2" in read(tmp_path, ".ralph/tasks/t1/memory/insights.json")
        assert "- fine" in read(tmp_path, ".ralph/progress.txt")

    def test_a_file_of_memories_stays_when_nothing_is_left_in_it(self, tmp_path: Path) -> None:
        file = put(tmp_path, ".agent/memories.md", str(Block(SECRET, id="mem-1705751400-a3f8")))
        made = forgotten(tmp_path, ids=("mem-1705751400-a3f8",))
        assert made.whole_files == ()
        assert file.exists()

    def test_what_cannot_be_taken_out_is_told_with_its_line(self, tmp_path: Path) -> None:
        double = page(Block("one", id="mem-1-aa"), Block(f"two {SECRET}", id="mem-1-aa"))
        put(tmp_path, ".agent/memories.md", double)
        made = forget.plan_forget(tmp_path, ForgetRequest(ids=("mem-1-aa",)))
        assert made.records == ()
        assert [(each.line, each.id) for each in made.leftovers] == [
            (5, "mem-1-aa"),
            (9, "mem-1-aa"),
        ]
        assert "entries have the id" in made.leftovers[0].why

    def test_a_link_out_of_the_project_is_not_followed(self, tmp_path: Path) -> None:
        root, outside = tmp_path / "project", tmp_path / "theirs.md"
        outside.write_text(page(Block(SECRET, id="mem-1705751400-a3f8")), encoding="utf-8")
        (root / ".agent").mkdir(parents=True)
        (root / ".agent/memories.md").symlink_to(outside)
        made = forget.plan_forget(root, ForgetRequest(ids=("mem-1705751400-a3f8",)))
        assert (made.records, made.changes) == ((), ())
        assert "outside the project" in made.leftovers[0].why

    def test_a_backup_that_still_holds_it_is_told_and_kept(self, tmp_path: Path) -> None:
        text = page(Block(f"the word is {SECRET}", id="mem-1705751400-a3f8"))
        put(tmp_path, ".agent/memories.md", text)
        copy = put(tmp_path, ".agent/memories.md.bak", text)
        put(tmp_path, ".agent/memories.md.bak2", "# Memories\n")
        made = forgotten(tmp_path, ids=("mem-1705751400-a3f8",))
        assert [(each.path, "a backup" in each.why) for each in made.leftovers] == [(copy, True)]
        assert copy.read_text(encoding="utf-8") == text

    def test_prose_tasks_and_notes_with_the_text_are_told_by_line(self, tmp_path: Path) -> None:
        put(tmp_path, ".agent/memories.md", f"# Memories\n\nSomebody's prose with {SECRET}.\n")
        put(tmp_path, ".ralph/scratchpad.md", f"a\nb {SECRET}\n")
        put(tmp_path, ".ralph/tasks/t1/task.json", json.dumps({"id": "t1", "title": f"{SECRET}"}))
        made = forget.plan_forget(tmp_path, ForgetRequest(matching=SECRET))
        assert made.records == ()
        assert [(each.path.name, each.line) for each in made.leftovers] == [
            ("memories.md", 3), ("scratchpad.md", 2), ("task.json", 1),
        ]  # fmt: skip


class TestLogs:
    def test_one_observation_goes_with_its_ledger_lines_and_its_sessions_summary(
        self, tmp_path: Path
    ) -> None:
        start = about("s1", started_at="2026-11-10T10:00:00Z", host="claude")
        end = about("s1", ended_at="2026-11-10T11:00:00Z", summary=f"Goal: {SECRET}", tags=[SECRET])
        put(tmp_path, S1, start + seen(1, "first") + seen(2, SECRET) + seen(3, "third") + end)
        put(tmp_path, LEDGER, injected("obs-2") + injected("obs-3") + injected("obs-2", "s2"))
        made = forgotten(tmp_path, ids=("obs-2",))
        bare = about("s1", ended_at="2026-11-10T11:00:00Z")
        assert read(tmp_path, S1) == start + seen(1, "first") + seen(3, "third") + bare
        assert read(tmp_path, LEDGER) == injected("obs-3")
        assert SECRET.encode() not in everything(tmp_path)
        assert [each.what for each in made.records] == [
            "injection", "injection", "observation tool_use", "summary and tags of its session",
        ]  # fmt: skip
        assert sessions.find(tmp_path, "s1").started_at == "2026-11-10T10:00:00Z"

    def test_an_id_that_was_written_twice_goes_twice_and_its_torn_half_too(
        self, tmp_path: Path
    ) -> None:
        half = seen(2, SECRET)[:-20]
        put(tmp_path, S1, seen(2, SECRET) + half + "\n" + seen(3, "third") + seen(2, SECRET))
        put(tmp_path, S2, seen(2, SECRET, "s2") + seen(4, "fourth", "s2"))
        forgotten(tmp_path, ids=("obs-2",))
        assert read(tmp_path, S1) == seen(3, "third")
        assert read(tmp_path, S2) == seen(4, "fourth", "s2")

    def test_retired_bodies_of_a_memory_go_with_it(self, tmp_path: Path) -> None:
        put(tmp_path, ".ralph/knowledge/jwt.md", "---\ntitle: JWT\ntags: [auth]\n---\n\nnew body\n")
        old = Record(
            "ret-1",
            MemoryKind.CONTEXT,
            SECRET,
            status=Status.RETIRED,
            links=(Link("superseded_by", "know-jwt"),),
        )
        same = Record("know-jwt", MemoryKind.CONTEXT, f"older {SECRET}", status=Status.RETIRED)
        other = Record(
            "ret-2",
            MemoryKind.CONTEXT,
            "kept",
            status=Status.RETIRED,
            links=(Link("superseded_by", "know-x"),),
        )
        log = put(tmp_path, "log/runs/r1.jsonl", "".join(map(encode_record, (old, same, other))))
        forgotten(tmp_path, ids=("know-jwt",))
        assert log.read_text(encoding="utf-8") == encode_record(other)
        assert SECRET.encode() not in everything(tmp_path)

    def test_a_raw_event_goes_whole_by_the_id_of_what_it_means(self, tmp_path: Path) -> None:
        put(tmp_path, S1, raw("kept", at=29) + raw(SECRET) + seen(3, "third") + raw("kept", at=31))
        put(tmp_path, LEDGER, injected("obs-3"))
        Index(tmp_path, terms.index_terms, interpret).sync()
        means = next(
            record.id for record in index.ask(tmp_path, partial(queries.session_records, session_id="s1"))
            if record.text == SECRET
        )  # fmt: skip
        made = forgotten(tmp_path, ids=(means,))
        assert [(each.line, each.id, each.what) for each in made.records] == [
            (2, means, "raw note")
        ]
        assert read(tmp_path, S1) == raw("kept", at=29) + seen(3, "third") + raw("kept", at=31)
        assert SECRET.encode() not in everything(tmp_path)

    def test_a_whole_session_goes_with_everything_that_is_known_of_it(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            S1,
            about("s1", summary=SECRET) + seen(1, SECRET) + raw(SECRET) + '{"v": 1, "type": "obs',
        )
        put(tmp_path, S2, about("s2", summary="kept") + seen(4, "fourth", "s2"))
        put(tmp_path, LEDGER, injected("mem-1") + injected("mem-1", "s2"))
        put(tmp_path, "cache/injected/s1", "mem-1\n")
        put(tmp_path, ".agent/memories.md", page(Block("learned there", id="mem-1705751400-a3f8")))
        forgotten(tmp_path, session="s1")
        assert not paths.source_path(tmp_path, S1).exists()
        assert not (paths.cache_folder(tmp_path) / "injected/s1").exists()
        assert read(tmp_path, S2) == about("s2", summary="kept") + seen(4, "fourth", "s2")
        assert read(tmp_path, LEDGER) == injected("mem-1", "s2")
        assert "learned there" in read(tmp_path, ".agent/memories.md")
        assert SECRET.encode() not in everything(tmp_path)

    def test_a_session_in_the_log_of_another_one_goes_line_by_line(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            S2,
            about("s1", summary=SECRET) + seen(1, SECRET) + raw(SECRET) + seen(4, "fourth", "s2"),
        )
        forgotten(tmp_path, session="s1")
        assert read(tmp_path, S2) == seen(4, "fourth", "s2")

    def test_what_was_recorded_before_a_day_goes_and_what_was_learned_stays(
        self, tmp_path: Path
    ) -> None:
        put(
            tmp_path,
            S1,
            about("s1", started_at="2026-11-01T00:00:00Z")
            + seen(1, SECRET, day=1)
            + raw(SECRET, day=2),
        )
        put(
            tmp_path,
            S2,
            about("s2", summary=SECRET)
            + seen(2, SECRET, "s2", 9)
            + seen(3, "new", "s2", 10)
            + raw("n", "s2"),
        )
        put(tmp_path, LEDGER, injected("a", day=1) + injected("b", day=11))
        put(tmp_path, ".agent/memories.md", page(Block("old and kept", created="2020-01-01")))
        made = forgotten(tmp_path, before="2026-11-10")
        assert made.whole_files == (paths.source_path(tmp_path, S1),)
        assert not paths.source_path(tmp_path, S1).exists()
        assert read(tmp_path, S2) == about("s2") + seen(3, "new", "s2", 10) + raw("n", "s2")
        assert read(tmp_path, LEDGER) == injected("b", day=11)
        assert "old and kept" in read(tmp_path, ".agent/memories.md")
        assert SECRET.encode() not in everything(tmp_path)

    @pytest.mark.parametrize(
        "words",
        [
            f"plain {SECRET.upper()}",
            f'in "quotes" {SECRET}',
            f"line\n{SECRET}\tend",
            f"ende: ä{SECRET}",
        ],
    )
    def test_a_text_goes_however_it_is_written_in_a_line(self, tmp_path: Path, words: str) -> None:
        put(
            tmp_path,
            S1,
            seen(1, "kept") + seen(2, words) + raw(words) + seen(3, "x", parameters={"a": [words]}),
        )
        made = forgotten(tmp_path, matching=words.casefold())
        assert read(tmp_path, S1) == seen(1, "kept")
        assert len(made.records) == 3
        assert SECRET.encode() not in everything(tmp_path)

    def test_a_member_that_stands_twice_and_a_key_hide_nothing(self, tmp_path: Path) -> None:
        twice = (
            '{"v": 1, "type": "event", "payload": {"prompt": "'
            + SECRET
            + '", "prompt": "x", "session_id": "s1"}}\n'
        )
        key = json.dumps({"v": 1, "type": "note", "extra": {SECRET: 1}}) + "\n"
        put(tmp_path, S1, seen(1, "kept") + twice + key)
        forgotten(tmp_path, matching=SECRET)
        assert read(tmp_path, S1) == seen(1, "kept")

    @pytest.mark.parametrize(
        "word",
        ["tool_use", "observation", "claude", "UserPromptSubmit", "payload", "session_id", "obs-"],
    )
    def test_the_words_of_the_format_itself_match_nothing(self, tmp_path: Path, word: str) -> None:
        put(tmp_path, S1, seen(1, "kept") + raw("kept"))
        put(tmp_path, ".agent/memories.md", page(Block("kept", id="mem-1705751400-a3f8")))
        with pytest.raises(NotFound, match="Nothing found that matches"):
            forget.plan_forget(tmp_path, ForgetRequest(matching=word))

    def test_members_named_like_ours_deeper_in_a_line_are_content(self, tmp_path: Path) -> None:
        deep = raw("x").replace(
            '"prompt":"x"',
            f'"tool_input":{{"type":"{SECRET}"}},"tool_response":{{"host":"{SECRET}"}}',
        )
        put(
            tmp_path,
            S1,
            seen(1, "kept")
            + deep
            + seen(2, "x", kind=SECRET)
            + seen(3, "x", origin={"by": SECRET}),
        )
        forgotten(tmp_path, matching=SECRET)
        assert read(tmp_path, S1) == seen(1, "kept")

    def test_a_summary_that_quotes_the_text_goes_and_its_session_stays(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, S1, seen(1, "kept") + about("s1", host="claude", summary=f"did {SECRET}"))
        made = forgotten(tmp_path, matching=SECRET)
        assert read(tmp_path, S1) == seen(1, "kept") + about("s1", host="claude")
        assert [each.what for each in made.records] == ["summary and tags of its session"]

    def test_a_log_keeps_its_rights(self, tmp_path: Path) -> None:
        log = put(tmp_path, S1, seen(1, "kept") + seen(2, SECRET))
        log.chmod(0o600)
        forgotten(tmp_path, ids=("obs-2",))
        assert log.stat().st_mode & 0o777 == 0o600

    def test_lines_that_were_appended_after_the_plan_stay(self, tmp_path: Path) -> None:
        log = put(tmp_path, S1, seen(1, "kept") + seen(2, SECRET))
        made = forget.plan_forget(tmp_path, ForgetRequest(ids=("obs-2",)))
        with log.open("a", encoding="utf-8", newline="") as more:
            more.write(seen(3, "later"))
        forget.forget(tmp_path, made)
        assert read(tmp_path, S1) == seen(1, "kept") + seen(3, "later")


class TestDerived:
    def test_no_byte_is_left_in_the_index_nor_in_its_log_nor_in_its_words(
        self, tmp_path: Path
    ) -> None:
        many = "".join(seen(number, f"word{number} filler text") for number in range(10, 60))
        put(tmp_path, S1, seen(1, f"{SECRET} and xylophonist") + many)
        index.sync(tmp_path)
        put(
            tmp_path, S2, seen(2, f"{SECRET} again", "s2")
        )  # a second sync writes through the write-ahead log
        index.sync(tmp_path)
        assert b"xylophonist" in everything(tmp_path)
        forgotten(tmp_path, matching=SECRET)
        for word in (b"zebrafish", b"quokka", b"xylophonist"):
            assert word not in everything(tmp_path)
        assert found(tmp_path, "word42")[0] == "obs-42"

    def test_vectors_go_when_no_record_has_them_any_more(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            S1,
            seen(1, "said twice") + seen(2, "said twice") + seen(3, SECRET) + seen(4, "kept"),
        )
        held = index.ask(tmp_path, queries.digests)
        cache = paths.cache_folder(tmp_path) / "vectors.db"
        with VectorCache(cache) as vectors:
            vectors.put("model", {digest: b"marked" + digest.encode() for digest in held.values()})
            assert len(vectors.all("model")) == 3
        texts = index.ask(tmp_path, lambda connection: queries.records(connection, list(held)))
        secret = next(held[key] for key, record in texts.items() if record.text == SECRET)
        forgotten(tmp_path, ids=("obs-1", "obs-3"))
        with VectorCache(cache) as vectors:
            assert len(vectors.all("model")) == 2
            assert vectors.get("model", [secret]) == {}
        assert b"marked" + secret.encode() not in everything(tmp_path)


class TestWhatIsAsked:
    def test_lines_without_a_time_are_not_before_anything(self, tmp_path: Path) -> None:
        untimed = encode_line("note", {"text": "untimed"}) + encode_line(
            "note", {"at": "", "text": "empty"}
        )
        old = encode_line("note", {"at": 5, "created_at": "2026-11-01T00:00:00Z", "text": "old"})
        put(tmp_path, S1, untimed + old)
        forgotten(tmp_path, before="2026-11-10")
        assert read(tmp_path, S1) == untimed

    def test_nothing_that_matches_is_not_found(self, tmp_path: Path) -> None:
        put(tmp_path, S1, seen(1, "kept"))
        for wanted in (ForgetRequest(matching=SECRET), ForgetRequest(before="2020-01-01")):
            with pytest.raises(NotFound, match="Nothing found that matches"):
                forget.plan_forget(tmp_path, wanted)
        with pytest.raises(NotFound, match="Session not found: s9"):
            forget.plan_forget(tmp_path, ForgetRequest(session="s9"))

    def test_one_unknown_id_stops_all_of_them(self, tmp_path: Path) -> None:
        put(tmp_path, S1, seen(1, "kept"))
        with pytest.raises(NotFound, match="Record not found: obs-7, obs-8"):
            forget.plan_forget(tmp_path, ForgetRequest(ids=("obs-7", "obs-1", "obs-8")))

    def test_a_part_of_a_session_id_must_mean_one(self, tmp_path: Path) -> None:
        put(tmp_path, S1, seen(1, "kept"))
        put(tmp_path, S2, seen(2, "kept", "s2"))
        with pytest.raises(Conflict, match="2 sessions begin with s"):
            forget.plan_forget(tmp_path, ForgetRequest(session="s"))

    @pytest.mark.parametrize(
        "wanted",
        [
            ForgetRequest(),
            ForgetRequest(matching="  "),
            ForgetRequest(ids=("a",), before="2020"),
            ForgetRequest(session="a", matching="b"),
        ],
    )
    def test_nothing_and_two_ways_at_once_are_wrong_usage(
        self, tmp_path: Path, wanted: ForgetRequest
    ) -> None:
        with pytest.raises(UsageError):
            forget.plan_forget(tmp_path, wanted)
        assert list(tmp_path.iterdir()) == []


def test_a_forgotten_session_takes_its_proposals_with_it_but_no_memory(tmp_path: Path) -> None:
    here = world(tmp_path)
    for name in ("s1", "s2"):
        HookedSession(here, name).stop(
            f"Gotcha: `make {name}` needs PORT_{name.upper()}.\n\n"
            f"Decision: `{name}.py` keeps amounts in cents."
        )
    kept = []
    for insight in insights.list_(here.root):
        if insight.record.text.startswith("Decision"):
            kept.append(review.accept(here.root, insight.record.id).record.text)
    forget.forget(here.root, forget.plan_forget(here.root, ForgetRequest(session="s1")))
    waiting = insights.list_(here.root, status=Status.PROPOSED)
    assert [insight.record.text for insight in waiting] == ["Gotcha: `make s2` needs PORT_S2."]
    memories = read(here.root, ".agent/memories.md")
    assert len(kept) == 2
    assert all(text in memories for text in kept)
    assert b"port_s1" not in everything(here.root)


def test_a_proposal_is_forgotten_by_its_id(tmp_path: Path) -> None:
    here = world(tmp_path)
    HookedSession(here, "s1").stop(
        "Gotcha: `make s1` needs PORT_S1.\n\nDecision: amounts are kept in cents."
    )
    gotcha, decision = (insight.record for insight in insights.list_(here.root))
    forget.forget(here.root, forget.plan_forget(here.root, ForgetRequest(ids=(gotcha.id,))))
    assert [insight.record for insight in insights.list_(here.root)] == [decision]
    assert b"port_s1" not in everything(here.root)
