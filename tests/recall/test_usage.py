"""Usage: the injection ledger, references, and the statistics over both."""

import stat
from pathlib import Path

import pytest

from ralph.core import ids, paths
from ralph.core.record import Family, MemoryKind, ObservationKind, Origin, Record
from ralph.formats.log import encode_line, encode_record
from ralph.recall import hook_usage, injection_ledger, references, usage
from ralph.recall.injection_ledger import Injection, Ledger

NOON = "2026-11-15T12:00:00Z"
LATER = "2026-11-15T12:00:00.500000Z"
REDIS = "Tests hang when Redis is down: run `make services up` first; the connection pool waits forever."
JWT = "Refresh tokens rotate in src/auth/session.ts through rotateRefreshToken, never twice."


def _memory(record_id: str, text: str, *files: str) -> Record:
    return Record(record_id, MemoryKind.FIX, text, origin=Origin(files=files))


def _note(text: str, at: str = LATER, by: str = "agent") -> Record:
    return Record(
        "obs-1", ObservationKind.NOTE, text, Family.OBSERVATION, origin=Origin(by=by), created_at=at
    )


def _call(command: str = "", *files: str, at: str = LATER, output: str = "") -> Record:
    extra = {"tool": "Bash", "command": command} if command else {"tool": "Edit"}
    origin = Origin(by="tool", files=files)
    return Record(
        "obs-2",
        ObservationKind.TOOL_USE,
        output,
        Family.OBSERVATION,
        origin=origin,
        created_at=at,
        extra=extra,
    )


def _referenced(root: Path, *observations: Record) -> list[str]:
    records = [_memory("mem-1-a", REDIS), _memory("mem-2-b", JWT)]
    injection_ledger.record_injections(
        root, "s-1", "SessionStart", [Injection("mem-1-a", 30), Injection("mem-2-b", 25, 1)], NOON
    )
    return references.find_referenced(root, "s-1", observations, records)


class TestKeeping:
    def test_injections_are_read_back(self, tmp_path: Path) -> None:
        injection_ledger.record_injections(
            tmp_path,
            "s-1",
            "SessionStart",
            [Injection("mem-1-a", 30), Injection("mem-2-b", 25, 1)],
            NOON,
        )
        read = injection_ledger.read_ledger(tmp_path)
        assert read.injections == (
            Injection("mem-1-a", 30, 3, NOON, "s-1", "SessionStart"),
            Injection("mem-2-b", 25, 1, NOON, "s-1", "SessionStart"),
        )
        line = injection_ledger.ledger_file(tmp_path).read_text(encoding="utf-8").split("\n")[0]
        assert line.startswith('{"v":1,"type":"injection",')

    def test_seen_records_are_forgotten_at_compaction(self, tmp_path: Path) -> None:
        assert injection_ledger.seen_records(tmp_path, "s-1") == set()
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON
        )
        injection_ledger.record_injections(
            tmp_path, "s-1", "UserPromptSubmit", [Injection("mem-2-b")], LATER
        )
        injection_ledger.record_injections(
            tmp_path, "s-2", "SessionStart", [Injection("mem-3-c")], NOON
        )
        assert injection_ledger.seen_records(tmp_path, "s-1") == {"mem-1-a", "mem-2-b"}
        injection_ledger.forget_session(tmp_path, "s-1")
        injection_ledger.forget_session(tmp_path, "s-1")
        assert injection_ledger.seen_records(tmp_path, "s-1") == set()
        assert injection_ledger.seen_records(tmp_path, "s-2") == {"mem-3-c"}
        assert len(injection_ledger.read_ledger(tmp_path).injections) == 3

    def test_no_injection_writes_nothing(self, tmp_path: Path) -> None:
        injection_ledger.record_injections(tmp_path, "s-1", "SessionStart", [], NOON)
        assert not (tmp_path / ".ralph").exists()
        assert injection_ledger.read_ledger(tmp_path) == Ledger()

    def test_only_the_owner_may_read_it(self, tmp_path: Path) -> None:
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON
        )
        for path in (
            injection_ledger.ledger_file(tmp_path),
            injection_ledger.seen_file(tmp_path, "s-1"),
        ):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "session", ["../../etc/passwd", "a/b", "", "x" * 200, "세션", ".", "a\nb"]
    )
    def test_an_odd_session_id_stays_inside_of_its_folder(
        self, tmp_path: Path, session: str
    ) -> None:
        path = injection_ledger.seen_file(tmp_path, session)
        assert path.parent == paths.cache_folder(tmp_path) / "injected"
        assert path.name not in ("", ".", "..")
        injection_ledger.record_injections(
            tmp_path, session, "SessionStart", [Injection("mem-1-a")], NOON
        )
        assert injection_ledger.seen_records(tmp_path, session) == {"mem-1-a"}

    def test_in_a_worktree_it_is_kept_in_the_main_checkout(self, tmp_path: Path) -> None:
        main, tree = tmp_path / "main", tmp_path / "tree"
        own = main / ".git" / "worktrees" / "tree"
        own.mkdir(parents=True)
        (own / "commondir").write_text("../..\n", encoding="utf-8")
        (own / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8")
        (main / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        tree.mkdir()
        (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
        injection_ledger.record_injections(
            tree, "s-1", "SessionStart", [Injection("mem-1-a")], NOON
        )
        assert (paths.log_folder(main) / "injections.jsonl").is_file()
        assert not (tree / ".ralph").exists()
        assert injection_ledger.seen_records(tree, "s-1") == {"mem-1-a"}


class TestReading:
    def test_torn_and_foreign_lines_are_passed_over_and_what_follows_is_read(
        self, tmp_path: Path
    ) -> None:
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 5)], NOON
        )
        path = injection_ledger.ledger_file(tmp_path)
        good = path.read_bytes()
        broken = b'[1]\n{"v":1,"type":"injection","record":7}\n{"v":9,"type":"x"}\n\xff\xfe\n{"v":1,"type":"injecti'
        path.write_bytes(good + broken + good)
        assert [each.record for each in injection_ledger.read_ledger(tmp_path).injections] == [
            "mem-1-a",
            "mem-1-a",
        ]
        injection_ledger.record_injections(tmp_path, "s-1", "Stop", [Injection("mem-2-b")], NOON)
        assert [each.record for each in injection_ledger.read_ledger(tmp_path).injections][
            -1
        ] == "mem-2-b"

    def test_numbers_that_make_no_sense_count_as_nothing(self, tmp_path: Path) -> None:
        path = injection_ledger.ledger_file(tmp_path)
        path.parent.mkdir(parents=True)
        path.write_text(
            '{"v":1,"type":"injection","record":"m","session":"s","tokens":-3,"layer":"x"}\n',
            encoding="utf-8",
        )
        assert injection_ledger.read_ledger(tmp_path).injections == (
            Injection("m", 0, 0, "", "s", ""),
        )

    def test_of_a_very_long_ledger_the_end_is_read(self, tmp_path: Path) -> None:
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON
        )
        path = injection_ledger.ledger_file(tmp_path)
        line = path.read_bytes()
        count = injection_ledger.LEDGER_BYTES // len(line) + 100
        path.write_bytes(line * count + line.replace(b"mem-1-a", b"mem-2-b"))
        read = injection_ledger.read_ledger(tmp_path).injections
        assert read[-1].record == "mem-2-b"
        assert count - 110 <= len(read) < count


class TestReferences:
    def test_its_id_is_a_reference_and_a_longer_id_is_none(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _note("As mem-2-b says.")) == ["mem-2-b"]
        assert _referenced(tmp_path, _note("As mem-2-bc and mem-1-a7 say.")) == []

    def test_two_words_that_only_it_has_are_a_reference_and_one_is_none(
        self, tmp_path: Path
    ) -> None:
        assert _referenced(tmp_path, _note("The connection was refused")) == []
        assert _referenced(tmp_path, _note("The connections wait forever")) == ["mem-1-a"]

    def test_a_name_of_code_that_only_it_has_is_a_reference(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _note("I call rotateRefreshToken() here.")) == ["mem-2-b"]

    def test_a_command_that_it_names_is_a_reference_when_it_is_run(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _call("cd app && make  services up")) == ["mem-1-a"]

    def test_its_file_used_afterwards_is_a_reference(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _call("", "src/auth/session.ts")) == ["mem-2-b"]
        assert _referenced(tmp_path, _call("", "src/other/session.ts")) == []

    def test_what_happened_before_or_at_the_injection_is_none(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _note("mem-1-a and rotateRefreshToken", at=NOON)) == []
        assert _referenced(tmp_path, _note("mem-1-a", at="2026-11-15T20:59:59+09:00")) == []
        assert _referenced(tmp_path, _note("mem-1-a", at="")) == []

    def test_words_that_the_user_had_said_before_prove_nothing(self, tmp_path: Path) -> None:
        prompt = _note(
            "Why does the connection wait forever in rotateRefreshToken?", at=NOON, by="human"
        )
        answer = _note("The connection waits forever in rotateRefreshToken.")
        assert _referenced(tmp_path, prompt, answer) == []

    def test_what_a_tool_printed_proves_nothing(self, tmp_path: Path) -> None:
        printed = f"### mem-1-a\n> {REDIS}\n### mem-2-b\n> {JWT}"
        assert _referenced(tmp_path, _call("cat .agent/memories.md", output=printed)) == []

    def test_words_that_several_injected_records_share_prove_nothing(self, tmp_path: Path) -> None:
        records = [_memory("mem-1-a", REDIS), _memory("mem-3-c", REDIS)]
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a"), Injection("mem-3-c")], NOON
        )
        assert (
            references.find_referenced(
                tmp_path, "s-1", [_note("The connection waits forever")], records
            )
            == []
        )

    def test_korean_words_are_recognised_with_their_particles(self, tmp_path: Path) -> None:
        records = [_memory("mem-1-a", "토큰갱신은 미들웨어에서 처리한다")]
        injection_ledger.record_injections(
            tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON
        )
        assert references.find_referenced(
            tmp_path, "s-1", [_note("토큰갱신을 미들웨어로 옮겼다")], records
        ) == ["mem-1-a"]

    def test_records_are_looked_up_in_the_files_when_they_are_not_given(
        self, tmp_path: Path
    ) -> None:
        page = f"# Memories\n\n## Fixes\n\n### mem-1705751400-a3f8\n> {REDIS}\n"
        (tmp_path / ".agent").mkdir()
        (tmp_path / ".agent" / "memories.md").write_text(page, encoding="utf-8")
        injection_ledger.record_injections(
            tmp_path,
            "s-1",
            "SessionStart",
            [Injection("mem-1705751400-a3f8"), Injection("gone")],
            NOON,
        )
        assert references.find_referenced(tmp_path, "s-1", [_call("make services up")]) == [
            "mem-1705751400-a3f8"
        ]

    def test_another_session_is_no_concern(self, tmp_path: Path) -> None:
        _referenced(tmp_path)
        assert references.find_referenced(tmp_path, "s-2", [_note("mem-1-a")]) == []


class TestUse:
    def test_a_record_is_used_once_a_session(self, tmp_path: Path) -> None:
        assert injection_ledger.record_uses(tmp_path, "s-1", ["mem-1-a", "mem-1-a"], LATER) == [
            "mem-1-a"
        ]
        assert injection_ledger.record_uses(tmp_path, "s-1", ["mem-1-a", "mem-2-b"], LATER) == [
            "mem-2-b"
        ]
        assert injection_ledger.record_uses(tmp_path, "s-2", ["mem-1-a"], LATER) == ["mem-1-a"]
        assert len(injection_ledger.read_ledger(tmp_path).uses) == 3

    def test_usefulness_counts_sessions(self, tmp_path: Path) -> None:
        for session, event in (
            ("s-1", "SessionStart"),
            ("s-1", "UserPromptSubmit"),
            ("s-2", "SessionStart"),
        ):
            injection_ledger.record_injections(
                tmp_path, session, event, [Injection("mem-1-a"), Injection("mem-2-b")], NOON
            )
        injection_ledger.record_uses(tmp_path, "s-2", ["mem-1-a"], LATER)
        injection_ledger.record_uses(tmp_path, "s-9", ["mem-1-a"], LATER)
        assert injection_ledger.count_uses(injection_ledger.read_ledger(tmp_path)) == {
            "mem-1-a": (2, 1),
            "mem-2-b": (2, 0),
        }


STATS_NOON = "2026-11-15T12:00:00Z"
RAW = '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.123456Z", "host": "claude", "event": "Stop", "payload": {}}\n'


def _memories(root: Path, *names: str) -> None:
    blocks = "\n".join(f"### {name}\n> Fact about {name}\n" for name in names)
    (root / ".agent").mkdir(exist_ok=True)
    (root / ".agent" / "memories.md").write_text(
        f"# Memories\n\n## Fixes\n\n{blocks}", encoding="utf-8"
    )


def _put(root: Path, name: str, text: str) -> None:
    path = paths.log_folder(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_an_empty_project_has_no_rates_and_is_no_error(tmp_path: Path) -> None:
    found = usage.usage_stats(tmp_path)
    assert found["reference_rate"] is None
    assert (
        found["hooks"]["recorded"],
        found["hooks"]["failures"],
        found["hooks"]["success_rate"],
    ) == (0, 0, None)
    assert not (tmp_path / ".ralph").exists()


def test_rate_counts_an_injection_once_a_session(tmp_path: Path) -> None:
    for session, event in (
        ("s-1", "SessionStart"),
        ("s-1", "UserPromptSubmit"),
        ("s-2", "SessionStart"),
    ):
        injection_ledger.record_injections(
            tmp_path,
            session,
            event,
            [Injection("mem-1-a", 10), Injection("mem-2-b", 20)],
            STATS_NOON,
        )
    injection_ledger.record_uses(tmp_path, "s-1", ["mem-1-a"], STATS_NOON)
    found = usage.usage_stats(tmp_path)
    names = ("times_given", "sessions", "tokens", "given", "referenced")
    assert [found[name] for name in names] == [6, 2, 90, 4, 1]
    assert found["reference_rate"] == 0.25


def test_memories_that_no_session_got_are_counted(tmp_path: Path) -> None:
    _memories(tmp_path, "mem-1-a", "mem-2-b")
    injection_ledger.record_injections(
        tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 10)], STATS_NOON
    )
    assert usage.usage_stats(tmp_path)["never_given"] == 1


def test_recorded_events_are_raw_lines_and_observations_and_nothing_else(tmp_path: Path) -> None:
    observation = encode_record(
        Record("obs-1", ObservationKind.NOTE, 'says "type":"event"', Family.OBSERVATION)
    )
    session = encode_line("session", {"id": "s-1"})
    _put(tmp_path, "sessions/s-1.jsonl", RAW + session + observation + "half a line\n" + RAW[:-1])
    _put(tmp_path, "sessions/s-2.jsonl", RAW)
    assert hook_usage.hook_usage(tmp_path)["recorded"] == 4
    assert hook_usage.hook_usage(tmp_path)["success_rate"] == 1.0


def test_a_line_longer_than_the_reader_takes_at_once_counts_once(tmp_path: Path) -> None:
    filler = " " * (1 << 20) + RAW.rstrip("\n")
    _put(tmp_path, "sessions/s-1.jsonl", RAW.replace("{}", f'"{filler}"') + RAW)
    assert hook_usage.hook_usage(tmp_path)["recorded"] == 2


def test_counted_failures_lower_the_rate_and_the_last_one_is_told(tmp_path: Path) -> None:
    line = f"{3:012d} 2026-11-15T12:00:00Z PostToolUse: disk full"
    _put(tmp_path, "hook-failures", line.ljust(4095) + "\n")
    _put(tmp_path, "sessions/s-1.jsonl", RAW)
    found = hook_usage.hook_usage(tmp_path)
    assert found == {
        "recorded": 1,
        "hosts": ["claude"],
        "failures": 3,
        "success_rate": 0.25,
        "last_failure_at": "2026-11-15T12:00:00Z",
        "last_failure": "PostToolUse: disk full",
    }


@pytest.mark.parametrize(
    "text", ["", "\0" * 4096, "nonsense\n", "999999999999999999 x y\n", "12\n"]
)
def test_a_damaged_count_of_failures_is_no_error(tmp_path: Path, text: str) -> None:
    _put(tmp_path, "hook-failures", text)
    assert hook_usage.hook_usage(tmp_path)["failures"] == 0


def _run(root: Path, name: str, status: str, iterations: int) -> None:
    began = encode_line(
        "run", {"id": name, "goal": "g", "status": "running", "started_at": STATS_NOON}
    )
    ended = encode_line("run", {"id": name, "status": status, "iterations": iterations})
    _put(root, f"runs/{name}.jsonl", began + ended)


def test_the_loops_rate_is_over_runs_that_ended_and_only_successes_count_their_iterations(
    tmp_path: Path,
) -> None:
    for number, (status, iterations) in enumerate(
        [("success", 2), ("success", 5), ("failed", 10), ("stopped", 1)]
    ):
        _run(tmp_path, f"run-{number}", status, iterations)
    _run(tmp_path, "run-now", "running", 3)
    found = usage.usage_stats(tmp_path)["loop"]
    assert [found[name] for name in ("runs", "succeeded", "failed", "stopped", "running")] == [
        5,
        2,
        1,
        1,
        1,
    ]
    assert (found["success_rate"], found["mean_iterations"]) == (0.5, 3.5)


def test_without_a_run_or_a_success_there_is_no_rate_and_no_mean(tmp_path: Path) -> None:
    assert _loop_numbers(tmp_path) == (0, None, None)
    _run(tmp_path, "run-now", "running", 3)
    assert _loop_numbers(tmp_path) == (1, None, None)
    _run(tmp_path, "run-old", "failed", 3)
    assert _loop_numbers(tmp_path) == (2, 0.0, None)


def _loop_numbers(root: Path) -> tuple[int, float | None, float | None]:
    found = usage.loop_usage(root)
    return found["runs"], found["success_rate"], found["mean_iterations"]


def test_the_skill_text_is_a_cost_and_no_memory(tmp_path: Path) -> None:
    injection_ledger.record_injections(
        tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 10)], STATS_NOON, skill=240
    )
    found = usage.usage_stats(tmp_path)
    assert (found["tokens"], found["skill_tokens"], found["given"]) == (250, 240, 1)


def test_the_week_has_what_was_injected_lately(tmp_path: Path) -> None:
    injection_ledger.record_injections(
        tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 10)], "2026-01-01T12:00:00Z"
    )
    now = ids.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    injection_ledger.record_injections(
        tmp_path, "s-2", "SessionStart", [Injection("mem-1-a", 10), Injection("mem-2-b", 5)], now
    )
    injection_ledger.record_injections(
        tmp_path, "s-3", "SessionStart", [Injection("mem-1-a", 10)], now
    )
    injection_ledger.record_uses(tmp_path, "s-2", ["mem-1-a"], now)
    week = usage.usage_stats(tmp_path)["week"]
    assert [
        week[name] for name in ("given", "sessions", "sessions_used", "referenced", "tokens")
    ] == [
        3,
        2,
        1,
        1,
        25,
    ]
