"""The ledger of what was handed over: what it keeps, what counts as used, and what survives a crash."""

import stat
from pathlib import Path

import pytest

from ralph import paths
from ralph.app import ledger
from ralph.app.ledger import Injection, Ledger
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record

NOON = "2026-11-15T12:00:00Z"
LATER = "2026-11-15T12:00:00.500000Z"
REDIS = "Tests hang when Redis is down: run `make services up` first; the connection pool waits forever."
JWT = "Refresh tokens rotate in src/auth/session.ts through rotateRefreshToken, never twice."


def _memory(record_id: str, text: str, *files: str) -> Record:
    return Record(record_id, MemoryKind.FIX, text, origin=Origin(files=files))


def _note(text: str, at: str = LATER, by: str = "agent") -> Record:
    return Record("obs-1", ObservationKind.NOTE, text, Family.OBSERVATION, origin=Origin(by=by), created_at=at)


def _call(command: str = "", *files: str, at: str = LATER, output: str = "") -> Record:
    extra = {"tool": "Bash", "command": command} if command else {"tool": "Edit"}
    origin = Origin(by="tool", files=files)
    return Record(
        "obs-2", ObservationKind.TOOL_USE, output, Family.OBSERVATION, origin=origin, created_at=at, extra=extra
    )


def _referenced(root: Path, *observations: Record) -> list[str]:
    records = [_memory("mem-1-a", REDIS), _memory("mem-2-b", JWT)]
    ledger.record(root, "s-1", "SessionStart", [Injection("mem-1-a", 30), Injection("mem-2-b", 25, 1)], NOON)
    return ledger.references(root, "s-1", observations, records)


class TestKeeping:
    def test_what_was_handed_over_is_read_back(self, tmp_path: Path) -> None:
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 30), Injection("mem-2-b", 25, 1)], NOON)
        read = ledger.read(tmp_path)
        assert read.injections == (
            Injection("mem-1-a", 30, 3, NOON, "s-1", "SessionStart"),
            Injection("mem-2-b", 25, 1, NOON, "s-1", "SessionStart"),
        )
        line = ledger.ledger_file(tmp_path).read_text(encoding="utf-8").split("\n")[0]
        assert line.startswith('{"v":1,"type":"injection",')

    def test_a_session_has_seen_what_it_was_handed_until_it_is_compacted(self, tmp_path: Path) -> None:
        assert ledger.seen(tmp_path, "s-1") == set()
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON)
        ledger.record(tmp_path, "s-1", "UserPromptSubmit", [Injection("mem-2-b")], LATER)
        ledger.record(tmp_path, "s-2", "SessionStart", [Injection("mem-3-c")], NOON)
        assert ledger.seen(tmp_path, "s-1") == {"mem-1-a", "mem-2-b"}
        ledger.forget_session(tmp_path, "s-1")
        ledger.forget_session(tmp_path, "s-1")
        assert ledger.seen(tmp_path, "s-1") == set()
        assert ledger.seen(tmp_path, "s-2") == {"mem-3-c"}
        assert len(ledger.read(tmp_path).injections) == 3

    def test_nothing_handed_over_writes_nothing(self, tmp_path: Path) -> None:
        ledger.record(tmp_path, "s-1", "SessionStart", [], NOON)
        assert not (tmp_path / ".ralph").exists()
        assert ledger.read(tmp_path) == Ledger()

    def test_only_the_owner_may_read_it(self, tmp_path: Path) -> None:
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON)
        for path in (ledger.ledger_file(tmp_path), ledger.seen_file(tmp_path, "s-1")):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    @pytest.mark.parametrize("session", ["../../etc/passwd", "a/b", "", "x" * 200, "세션", ".", "a\nb"])
    def test_an_odd_session_id_stays_inside_of_its_folder(self, tmp_path: Path, session: str) -> None:
        path = ledger.seen_file(tmp_path, session)
        assert path.parent == paths.cache_folder(tmp_path) / "injected"
        assert path.name not in ("", ".", "..")
        ledger.record(tmp_path, session, "SessionStart", [Injection("mem-1-a")], NOON)
        assert ledger.seen(tmp_path, session) == {"mem-1-a"}

    def test_in_a_worktree_it_is_kept_in_the_main_checkout(self, tmp_path: Path) -> None:
        main, tree = tmp_path / "main", tmp_path / "tree"
        own = main / ".git" / "worktrees" / "tree"
        own.mkdir(parents=True)
        (own / "commondir").write_text("../..\n", encoding="utf-8")
        (own / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8")
        tree.mkdir()
        (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
        ledger.record(tree, "s-1", "SessionStart", [Injection("mem-1-a")], NOON)
        assert (paths.log_folder(main) / "injections.jsonl").is_file()
        assert not (tree / ".ralph").exists()
        assert ledger.seen(tree, "s-1") == {"mem-1-a"}


class TestReading:
    def test_torn_and_foreign_lines_are_passed_over_and_what_follows_is_read(self, tmp_path: Path) -> None:
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a", 5)], NOON)
        path = ledger.ledger_file(tmp_path)
        good = path.read_bytes()
        odd = b'[1]\n{"v":1,"type":"injection","record":7}\n{"v":9,"type":"x"}\n\xff\xfe\n{"v":1,"type":"injecti'
        path.write_bytes(good + odd + good)
        assert [each.record for each in ledger.read(tmp_path).injections] == ["mem-1-a", "mem-1-a"]
        ledger.record(tmp_path, "s-1", "Stop", [Injection("mem-2-b")], NOON)
        assert [each.record for each in ledger.read(tmp_path).injections][-1] == "mem-2-b"

    def test_numbers_that_make_no_sense_count_as_nothing(self, tmp_path: Path) -> None:
        path = ledger.ledger_file(tmp_path)
        path.parent.mkdir(parents=True)
        path.write_text(
            '{"v":1,"type":"injection","record":"m","session":"s","tokens":-3,"layer":"x"}\n', encoding="utf-8"
        )
        assert ledger.read(tmp_path).injections == (Injection("m", 0, 0, "", "s", ""),)

    def test_of_a_very_long_ledger_the_end_is_read(self, tmp_path: Path) -> None:
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON)
        path = ledger.ledger_file(tmp_path)
        line = path.read_bytes()
        count = ledger.LONGEST // len(line) + 100
        path.write_bytes(line * count + line.replace(b"mem-1-a", b"mem-2-b"))
        read = ledger.read(tmp_path).injections
        assert read[-1].record == "mem-2-b"
        assert count - 110 <= len(read) < count


class TestReferences:
    def test_its_id_is_a_reference_and_a_longer_id_is_none(self, tmp_path: Path) -> None:
        assert _referenced(tmp_path, _note("As mem-2-b says.")) == ["mem-2-b"]
        assert _referenced(tmp_path, _note("As mem-2-bc and mem-1-a7 say.")) == []

    def test_two_words_that_only_it_has_are_a_reference_and_one_is_none(self, tmp_path: Path) -> None:
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
        prompt = _note("Why does the connection wait forever in rotateRefreshToken?", at=NOON, by="human")
        answer = _note("The connection waits forever in rotateRefreshToken.")
        assert _referenced(tmp_path, prompt, answer) == []

    def test_what_a_tool_printed_proves_nothing(self, tmp_path: Path) -> None:
        printed = f"### mem-1-a\n> {REDIS}\n### mem-2-b\n> {JWT}"
        assert _referenced(tmp_path, _call("cat .agent/memories.md", output=printed)) == []

    def test_words_that_several_injected_records_share_prove_nothing(self, tmp_path: Path) -> None:
        records = [_memory("mem-1-a", REDIS), _memory("mem-3-c", REDIS)]
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a"), Injection("mem-3-c")], NOON)
        assert ledger.references(tmp_path, "s-1", [_note("The connection waits forever")], records) == []

    def test_korean_words_are_recognised_with_their_particles(self, tmp_path: Path) -> None:
        records = [_memory("mem-1-a", "토큰갱신은 미들웨어에서 처리한다")]
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1-a")], NOON)
        assert ledger.references(tmp_path, "s-1", [_note("토큰갱신을 미들웨어로 옮겼다")], records) == ["mem-1-a"]

    def test_records_are_looked_up_in_the_files_when_they_are_not_given(self, tmp_path: Path) -> None:
        page = f"# Memories\n\n## Fixes\n\n### mem-1705751400-a3f8\n> {REDIS}\n"
        (tmp_path / ".agent").mkdir()
        (tmp_path / ".agent" / "memories.md").write_text(page, encoding="utf-8")
        ledger.record(tmp_path, "s-1", "SessionStart", [Injection("mem-1705751400-a3f8"), Injection("gone")], NOON)
        assert ledger.references(tmp_path, "s-1", [_call("make services up")]) == ["mem-1705751400-a3f8"]

    def test_another_session_is_no_concern(self, tmp_path: Path) -> None:
        _referenced(tmp_path)
        assert ledger.references(tmp_path, "s-2", [_note("mem-1-a")]) == []


class TestUse:
    def test_a_record_is_used_once_a_session(self, tmp_path: Path) -> None:
        assert ledger.used(tmp_path, "s-1", ["mem-1-a", "mem-1-a"], LATER) == ["mem-1-a"]
        assert ledger.used(tmp_path, "s-1", ["mem-1-a", "mem-2-b"], LATER) == ["mem-2-b"]
        assert ledger.used(tmp_path, "s-2", ["mem-1-a"], LATER) == ["mem-1-a"]
        assert len(ledger.read(tmp_path).uses) == 3

    def test_usefulness_counts_sessions(self, tmp_path: Path) -> None:
        for session, event in (("s-1", "SessionStart"), ("s-1", "UserPromptSubmit"), ("s-2", "SessionStart")):
            ledger.record(tmp_path, session, event, [Injection("mem-1-a"), Injection("mem-2-b")], NOON)
        ledger.used(tmp_path, "s-2", ["mem-1-a"], LATER)
        ledger.used(tmp_path, "s-9", ["mem-1-a"], LATER)
        assert ledger.usefulness(tmp_path) == {"mem-1-a": (2, 1), "mem-2-b": (2, 0)}
