"""Old sessions made small: what is kept, what stays, and when nothing is done; `tests/soak` kills it."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.app.test_session import about, line, put

from ralph import paths
from ralph.app import compress, doctor, index, sessions
from ralph.app.compress import MAX_KEPT, choose_observations
from ralph.app.sessions import ImprovedSummary
from ralph.errors import Refused
from ralph.formats.log import encode_record
from ralph.model import ids
from ralph.model.record import Family, ObservationKind, Origin, Outcome, Record

OLD = "2026-10-01"
"""After everything that `happened` says."""
KINDS = {"p": (ObservationKind.NOTE, "human"), "a": (ObservationKind.NOTE, "agent"),
         "t": (ObservationKind.TOOL_USE, "tool"), "e": (ObservationKind.ERROR, "tool"),
         "s": (ObservationKind.SUCCESS, "tool")}  # fmt: skip


def happened(name: str, number: int, kind: str, text: str, title: str = "", tool: str = "") -> Record:
    """One observation of September."""
    what, by = KINDS[kind]
    extra = {"tool": tool} if tool else {}
    at = f"2026-09-{1 + number // 1440 % 28:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
    return Record(f"obs-{1_700_000_000 + number}-{number:04x}{name[:1]}", what, text, Family.OBSERVATION, title=title,
                  origin=Origin(by=by, session=name), created_at=at, extra=extra)  # fmt: skip


def busy(name: str, reads: int = 40) -> list[Record]:
    """A session in which something failed and was mended, among much that nobody will ask for."""
    end = max(100, reads + 10)
    return [
        happened(name, 0, "p", "add a login page", "prompt"),
        happened(name, 1, "e", "$ npm test\nTypeError: token is undefined", "Bash: npm test", "Bash"),
        *(happened(name, 2 + n, "t", f"src/file{n}.ts " * 9, f"Read src/file{n}.ts", "Read") for n in range(reads)),
        happened(name, end, "t", "+ token ??= load()", "Edit src/auth.ts", "Edit"),
        happened(name, end + 1, "s", "$ npm test\n12 passed", "Bash: npm test", "Bash"),
        happened(name, end + 2, "p", "we decided to use cookies instead of localStorage", "prompt"),
        happened(name, end + 3, "a", "The login page is there.", "answer"),
    ]


def recorded(root: Path, name: str, *more: str, records: list[Record] | None = None) -> Path:
    put(root, name, *map(encode_record, busy(name) if records is None else records), *more)
    return paths.log_folder(root) / "sessions" / f"{name}.jsonl"


def texts(root: Path, name: str) -> list[str]:
    return [each.hit.record.text for each in sessions.show(root, name)[1].shown]


def test_without_a_word_it_only_shows_what_it_would_do(tmp_path: Path) -> None:
    log = recorded(tmp_path, "aaaa")
    before = log.read_bytes()
    (found,) = compress.compress(tmp_path, OLD)[0]
    assert [found[name] for name in ("id", "observations", "kept", "file")] == ["aaaa", 46, 6, str(log)]
    assert found["bytes_after"] < found["bytes_before"] == len(before)
    assert log.read_bytes() == before


def test_what_went_wrong_what_helped_what_was_decided_and_how_it_ended_is_kept(tmp_path: Path) -> None:
    recorded(tmp_path, "aaaa").chmod(0o600)
    index.sync(tmp_path)
    done = compress.compress(tmp_path, OLD, really=True)
    assert [each["id"] for each in done[0]] == ["aaaa"]
    assert texts(tmp_path, "aaaa") == [
        "add a login page", "$ npm test\nTypeError: token is undefined", "+ token ??= load()", "$ npm test\n12 passed",
        "we decided to use cookies instead of localStorage", "The login page is there.",
    ]  # fmt: skip
    summed = sessions.summary(tmp_path, "aaaa")
    assert summed.stored
    assert summed.text.startswith("Goal: add a login page")
    assert "Failed, then passed" in summed.text
    assert index.verify(tmp_path) == []
    assert Path(done[0][0]["file"]).stat().st_mode & 0o777 == 0o600


def test_a_session_keeps_its_times_host_and_place(tmp_path: Path) -> None:
    began = about("aaaa", started_at="2026-08-31T23:59:00Z", host="claude", project_path="/p", mode="plan")
    recorded(tmp_path, "aaaa", began, about("aaaa", ended_at="2026-09-01T02:00:00Z", reason="exit"))
    before = sessions.find(tmp_path, "aaaa")
    compress.compress(tmp_path, OLD, really=True)
    after = sessions.find(tmp_path, "aaaa")
    for part in ("started_at", "ended_at", "host", "mode", "project", "prompt"):
        assert getattr(after, part) == getattr(before, part)
    assert (before.observations, after.observations) == (46, 6)


def test_the_stored_summary_is_kept_when_it_is_the_last_word(tmp_path: Path) -> None:
    recorded(tmp_path, "aaaa", about("aaaa", summary="Older."), about("aaaa", summary="Best.", summary_by="command"))
    recorded(tmp_path, "bbbb", records=busy("bbbb")[:5])
    with (paths.log_folder(tmp_path) / "sessions/bbbb.jsonl").open("a", encoding="utf-8", newline="") as file:
        file.write(about("bbbb", summary="Early.") + "".join(map(encode_record, busy("bbbb")[5:])))
    compress.compress(tmp_path, OLD, really=True)
    assert sessions.summary(tmp_path, "aaaa").text == "Best."
    assert '"summary_by":"command"' in (paths.log_folder(tmp_path) / "sessions/aaaa.jsonl").read_text(encoding="utf-8")
    assert "Goal: add a login page" in sessions.summary(tmp_path, "bbbb").text


def test_to_do_it_twice_is_to_do_it_once(tmp_path: Path) -> None:
    log = recorded(tmp_path, "aaaa")
    compress.compress(tmp_path, OLD, really=True)
    once = log.read_bytes()
    assert compress.compress(tmp_path, OLD, really=True)[0] == []
    assert compress.compress(tmp_path, OLD)[0] == []
    assert log.read_bytes() == once


def test_a_session_that_went_on_later_is_compressed_again_when_that_is_old(tmp_path: Path) -> None:
    log = recorded(tmp_path, "aaaa")
    compress.compress(tmp_path, OLD, really=True)
    more = [happened("aaaa", 2_000 + n, "t", "again " * 30, f"Read b{n}.ts", "Read") for n in range(30)]
    with log.open("a", encoding="utf-8", newline="") as file:
        file.write("".join(map(encode_record, more)))
    compress.compress(tmp_path, OLD, really=True)
    last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    assert last["compressed_from"] == 46 + 30
    assert len(texts(tmp_path, "aaaa")) == 6


def test_a_session_with_something_of_the_last_day_is_never_touched(tmp_path: Path) -> None:
    young = (ids.now() - timedelta(hours=23)).isoformat()
    log = recorded(tmp_path, "aaaa", about("aaaa", updated_at=young))
    before = log.read_bytes()
    assert compress.compress(tmp_path, "2099-01-01", really=True)[0] == []
    assert log.read_bytes() == before


def test_only_what_ended_before_the_time_goes(tmp_path: Path) -> None:
    recorded(tmp_path, "aaaa")
    assert compress.compress(tmp_path, "2026-09-01")[0] == []
    assert compress.compress(tmp_path, "2026-09-01T01:43:00Z")[0] == []
    assert len(compress.compress(tmp_path, "2026-09-02")[0]) == 1
    assert len(compress.compress(tmp_path, "2026-10")[0]) == 1


def test_a_session_without_a_time_and_one_that_is_small_stay_as_they_are(tmp_path: Path) -> None:
    recorded(tmp_path, "aaaa", records=[happened("aaaa", 0, "p", "hello", "prompt")])
    timeless = [Record(**{**each.__dict__, "created_at": ""}) for each in busy("bbbb")]
    recorded(tmp_path, "bbbb", records=timeless)
    assert compress.compress(tmp_path, OLD)[0] == []


def test_raw_events_become_observations_of_today_s_rules(tmp_path: Path) -> None:
    def raw(minute: int, event: str, **payload: object) -> str:
        said = json.dumps({"session_id": "raw-1", "cwd": "/p", "hook_event_name": event, **payload})
        at = f"2026-09-01T12:{minute:02}:00.000000Z"
        return f'{{"v": 1, "type": "event", "at": "{at}", "host": "claude", "event": "{event}", "payload": {said}}}\n'

    reads = [raw(n, "PostToolUse", tool_name="Read", tool_input={"file_path": f"/p/{n}.ts"}, tool_response="x" * 300)
             for n in range(1, 50)]  # fmt: skip
    put(tmp_path, "raw-1", raw(0, "UserPromptSubmit", prompt="call it Bluebird and ship it"), *reads)
    (tmp_path / "ralph.yml").write_text('privacy:\n  patterns: ["Blue[a-z]+"]\n', encoding="utf-8", newline="")
    compress.compress(tmp_path, OLD, really=True)
    text = (paths.log_folder(tmp_path) / "sessions/raw-1.jsonl").read_text(encoding="utf-8")
    assert "Bluebird" not in text
    assert '"type": "event"' not in text
    assert len(text.splitlines()) == 2
    assert sessions.find(tmp_path, "raw-1").project == "/p"


def test_everything_else_in_a_log_stays_to_the_letter(tmp_path: Path) -> None:
    journal = encode_record(Record("jrn-1", Outcome.DONE, "done", Family.JOURNAL, created_at="2026-09-01T00:00:00Z"))
    newer = '{"v": 9, "type": "observation", "id": "obs-9", "kind": "dream", "what": "?"}\n'
    torn, other = (
        '{"v": 1, "type": "observation", "id": "obs-h\n',
        encode_record(happened("bbbb", 5, "p", "hi", "prompt")),
    )
    log = recorded(tmp_path, "aaaa", journal, newer, torn, other, "no json at all")
    compress.compress(tmp_path, OLD, really=True)
    after = log.read_text(encoding="utf-8")
    for kept in (journal, newer, torn, other):
        assert kept in after
    assert after.endswith("no json at all")


def test_a_log_that_somebody_writes_to_meanwhile_is_left_alone(tmp_path: Path) -> None:
    late = encode_record(happened("aaaa", 900, "p", "wait", "prompt"))
    log = recorded(tmp_path, "aaaa", '{"v": 1, "type": "event", "at": "2026-09-01T00:00:00Z"}\n')

    def read(value: Mapping[str, object]) -> tuple[Sequence[Record], Mapping[str, object] | None]:
        with log.open("a", encoding="utf-8", newline="") as file:
            file.write(late)
        return (), None

    before = log.read_bytes()
    compressed, left = compress.replace_log(tmp_path, log, ids.parse_time(OLD) or ids.now(), read)
    assert compressed == []
    assert [each["why"] for each in left] == ["somebody wrote to its log meanwhile"]
    assert log.read_bytes() == before + late.encode()


def test_a_session_whose_summary_could_not_be_improved_stays_whole(tmp_path: Path) -> None:
    log, other = recorded(tmp_path, "aaaa"), recorded(tmp_path, "bbbb")
    before = log.read_bytes()

    def improve(name: str) -> ImprovedSummary:
        if name == "aaaa":
            return ImprovedSummary(name, "", "the command ended with 1")
        with other.open("a", encoding="utf-8", newline="") as file:
            file.write(about(name, summary="By the command.", summary_by="command"))
        return ImprovedSummary(name, "By the command.")

    done = compress.compress(tmp_path, OLD, really=True, improve=improve)
    assert [(each["id"], each["why"]) for each in done[1]] == [("aaaa", "the command ended with 1")]
    assert [each["id"] for each in done[0]] == ["bbbb"]
    assert log.read_bytes() == before
    assert sessions.summary(tmp_path, "bbbb").text == "By the command."


def test_it_makes_a_session_no_younger(tmp_path: Path) -> None:
    log = recorded(tmp_path, "aaaa")
    put(tmp_path, "late", line("late", 0, "a later one"))
    os.utime(paths.log_folder(tmp_path) / "sessions/late.jsonl", (1_790_000_000, 1_790_000_000))
    compress.compress(tmp_path, OLD, really=True)
    assert (doctor.last_session(tmp_path) or {})["id"] == "late"
    assert [one.path for one in index.prune(tmp_path, days=36_500)] == []
    assert index.last_time(log) < 1_790_000_000


def test_through_a_link_that_leads_outside_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    recorded(tmp_path / "elsewhere", "aaaa")
    (tmp_path / "project" / ".ralph").symlink_to(tmp_path / "elsewhere" / ".ralph")
    with pytest.raises(Refused, match="leads out of the project"):
        compress.compress(tmp_path / "project", OLD, really=True)


@given(st.lists(st.tuples(st.sampled_from("pates"), st.integers(0, 5), st.booleans()), max_size=200))
def test_what_is_worth_keeping_is_in_its_order_and_bounded(steps: list[tuple[str, int, bool]]) -> None:
    records = [
        happened("s", n, kind, f"text {word}{' decided' if told else ''}", f"Edit {word}" if told else f"Bash: {word}")
        for n, (kind, word, told) in enumerate(steps)
    ]
    kept = choose_observations(records)
    assert len(kept) <= MAX_KEPT
    assert [each.id for each in kept] == [each.id for each in records if each in kept]
    goals = [each for each in records if each.origin.by == "human"]
    assert not goals or goals[0] in kept or len(kept) == MAX_KEPT
    if len(kept) < MAX_KEPT:
        assert {(each.title, each.text) for each in records if each.kind is ObservationKind.ERROR} == {
            (each.title, each.text) for each in kept if each.kind is ObservationKind.ERROR
        }
