"""The dashboard's numbers by day and by event, and what memory health reports."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.runner import Block, numbered, page

from ralph import paths
from ralph.app import doctor, hook_state, memory, outdated, usage
from ralph.app.pages import dashboard
from ralph.app.usage import Injection
from ralph.formats.log import encode_record
from ralph.model import ids
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record
from ralph.paths import session_log
from ralph.store import files


def day(ago: int) -> str:
    return (ids.now() - timedelta(days=ago)).date().isoformat()


def inject(root: Path, session: str, at: str, *items: Injection, event: str = "SessionStart") -> None:
    usage.record_injections(root, session, event, items, at)


def record_event(root: Path, session: str, at: str, kind: ObservationKind, title: str) -> None:
    record = Record(
        f"obs-{session}-{at}", kind, "words", Family.OBSERVATION, title=title,
        origin=Origin(by="human", session=session), created_at=at,
    )  # fmt: skip
    files.append(session_log(root, session), encode_record(record), root=paths.state_boundary(root))


class TestTokens:
    def test_days_begin_with_the_first_that_has_data(self, tmp_path: Path) -> None:
        inject(tmp_path, "s-1", f"{day(3)}T10:00:00Z", Injection("mem-1-a", 40), Injection("mem-2-b", 60))
        inject(tmp_path, "s-2", f"{day(1)}T10:00:00Z", Injection("mem-1-a", 40))
        usage.record_uses(tmp_path, "s-1", ["mem-2-b"], f"{day(3)}T11:00:00Z")
        result = dashboard.token_usage(tmp_path)
        assert result["days"] == [day(3), day(2), day(1), day(0)]
        assert result["injected"] == [100, 0, 40, 0]
        assert result["used"] == [60, 0, 0, 0]
        assert result["rate"] == [0.5, None, 0.0, None]

    def test_what_is_older_than_the_span_is_not_shown(self, tmp_path: Path) -> None:
        inject(tmp_path, "s-1", f"{day(40)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path)["days"] == []
        inject(tmp_path, "s-1", f"{day(6)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path, days=5)["days"] == []
        assert len(dashboard.token_usage(tmp_path)["days"]) == 7

    def test_a_record_injected_twice_into_a_session_counts_once_in_the_rate(self, tmp_path: Path) -> None:
        for time in ("10:00", "11:00"):
            inject(tmp_path, "s-1", f"{day(0)}T{time}:00Z", Injection("mem-1-a", 10))
        inject(tmp_path, "s-1", f"{day(0)}T12:00:00Z", Injection("mem-2-b", 5))
        usage.record_uses(tmp_path, "s-1", ["mem-1-a"], f"{day(0)}T13:00:00Z")
        result = dashboard.token_usage(tmp_path)
        assert (result["injected"], result["used"], result["rate"]) == ([25], [20], [0.5])

    def test_unreadable_times_and_an_empty_ledger_give_no_days(self, tmp_path: Path) -> None:
        assert dashboard.token_usage(tmp_path) == {"days": [], "injected": [], "used": [], "rate": []}
        inject(tmp_path, "s-1", "some day", Injection("mem-1-a", 10))
        assert dashboard.token_usage(tmp_path)["days"] == []


class TestHooks:
    def test_a_response_time_begins_with_the_recorded_event(self, tmp_path: Path) -> None:
        record_event(tmp_path, "s-1", f"{day(0)}T10:00:00.000000Z", ObservationKind.NOTE, "prompt")
        record_event(tmp_path, "s-1", f"{day(0)}T10:05:00.000000Z", ObservationKind.NOTE, "prompt")
        event = "UserPromptSubmit"
        inject(tmp_path, "s-1", f"{day(0)}T10:00:00.040000Z", Injection("mem-1-a"), Injection("mem-2-b"), event=event)
        inject(tmp_path, "s-1", f"{day(0)}T10:05:00.060000Z", Injection("mem-3-c"), event=event)
        result = dashboard.hook_times(tmp_path)
        assert [(each["event"], each["count"], each["p50_ms"], each["p95_ms"]) for each in result["events"]] == [
            (event, 2, 60.0, 60.0)
        ]
        assert (result["days"], result["p50"]) == ([day(0)], [60.0])

    def test_answers_without_an_event_have_no_time(self, tmp_path: Path) -> None:
        record_event(tmp_path, "s-1", f"{day(0)}T10:00:00.000000Z", ObservationKind.ERROR, "Bash: make")
        inject(tmp_path, "s-1", f"{day(0)}T11:00:00.000000Z", Injection("mem-1-a"), event="PostToolUseFailure")
        inject(tmp_path, "s-1", f"{day(0)}T09:00:00.000000Z", Injection("mem-2-b"), event="UserPromptSubmit")
        inject(tmp_path, "s-1", f"{day(0)}T10:00:00.010000Z", Injection("mem-3-c"), event="PreToolUse")
        result = dashboard.hook_times(tmp_path)
        assert [(each["event"], each["p50_ms"]) for each in result["events"]] == [("PostToolUseFailure", None)]
        assert result["days"] == []

    def test_failures_are_counted(self, tmp_path: Path) -> None:
        assert hook_state.count_failure(tmp_path, "Stop", "OSError: no space")
        result = dashboard.hook_times(tmp_path)
        assert result["failures"] == 1
        assert "no space" in result["note"]


# --- health ----------------------------------------------------------------------------------------

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
REDIS = "Tests hang when Redis is down: run `make services up` before `npm test`."


def put(root: Path, *texts: str) -> list[str]:
    return [memory.add(root, text, MemoryKind.FIX, force=True).stored.record.id for text in texts]


class TestDuplicates:
    def test_equal_and_similar_texts_are_groups(self, tmp_path: Path) -> None:
        names = put(
            tmp_path, REDIS, "When Redis is down the tests hang, so run `make services up` before `npm test`!",
            "Dates are stored in UTC.", "dates are stored in  UTC", "The printer needs paper.",
        )  # fmt: skip
        found = {(tuple(each["ids"]), each["exactly"]) for each in dashboard.memory_health(tmp_path)["duplicates"]}
        assert found == {(tuple(names[:2]), False), (tuple(names[2:4]), True)}

    def test_superseded_record_is_no_duplicate(self, tmp_path: Path) -> None:
        first, second = put(tmp_path, REDIS, REDIS + " Always.")
        assert dashboard.memory_health(tmp_path)["counts"]["duplicates"] == 1
        outdated.supersede(tmp_path, first, second)
        assert dashboard.memory_health(tmp_path)["counts"]["duplicates"] == 0

    def test_common_words_make_no_group(self, tmp_path: Path) -> None:
        path = tmp_path / ".agent" / "memories.md"
        path.parent.mkdir()
        texts = [f"The cache of part number{place} waits for the queue" for place in range(200)]
        path.write_text(page(*(Block(text, numbered(place)) for place, text in enumerate(texts))), encoding="utf-8")
        assert dashboard.memory_health(tmp_path)["duplicates"] == []

    def test_similar_texts_of_one_format_are_one_group(self, tmp_path: Path) -> None:
        names = put(tmp_path, REDIS, "The printer needs paper.", f"{REDIS} Now.", f"{REDIS} Please.")
        memory.add(tmp_path, REDIS, in_="guardrails")
        (group,) = dashboard.memory_health(tmp_path)["duplicates"]
        assert (group["ids"], group["exactly"]) == ([names[0], *names[2:]], False)

    def test_equal_and_similar_texts_are_separate_groups(self, tmp_path: Path) -> None:
        other = "When Redis is down the tests hang, so run `make services up` before `npm test`!"
        names = put(
            tmp_path, "Dates are stored in UTC.", "Dates are stored in UTC.", "The printer needs paper.", REDIS, other
        )
        found = {(tuple(each["ids"]), each["exactly"]) for each in dashboard.memory_health(tmp_path)["duplicates"]}
        assert found == {(tuple(names[:2]), True), (tuple(names[3:]), False)}

    def test_a_note_says_when_not_all_pairs_were_compared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(tmp_path, *(f"quokka number {place} waits, badger {place}" for place in range(8)))
        assert dashboard.memory_health(tmp_path)["note"] == ""
        monkeypatch.setattr(dashboard, "MAX_PAIRS", 5)
        put(tmp_path, "another one, so that it is looked at anew")
        assert "the 5 pairs of texts that share the rarest words" in dashboard.memory_health(tmp_path)["note"]


class TestSecrets:
    def test_removed_secret_is_no_longer_reported(self, tmp_path: Path) -> None:
        added = memory.add(tmp_path, f"The token is {TOKEN}.", MemoryKind.CONTEXT, allow_secret=True)
        assert dashboard.memory_health(tmp_path)["counts"]["secrets"] == 1
        memory.delete(tmp_path, added.stored.record.id)
        assert dashboard.memory_health(tmp_path)["counts"]["secrets"] == 0

    def test_own_pattern_finds_a_secret(self, tmp_path: Path) -> None:
        memory.add(tmp_path, "See ACME-123456 for it.", MemoryKind.CONTEXT)
        assert dashboard.memory_health(tmp_path)["counts"]["secrets"] == 0
        assert dashboard.memory_health(tmp_path, patterns=[r"ACME-\d{6}"])["counts"]["secrets"] == 1

    def test_logs_beyond_the_budget_are_scanned_later(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = paths.log_folder(tmp_path) / "sessions"
        folder.mkdir(parents=True)
        for name in "abc":
            (folder / f"{name}.jsonl").write_text(f'{{"v":1,"type":"x{name}"}}\n' * 20, encoding="utf-8", newline="")
        monkeypatch.setattr(dashboard, "MAX_SCANNED", 400)
        looks = [dashboard.memory_health(tmp_path) for _ in range(3)]
        assert [each["more"] for each in looks] == [True, True, False]
        assert "2 log(s) are not scanned" in looks[0]["note"]
        assert "1 log(s) are not scanned" in looks[1]["note"]
        assert looks[2]["note"] == ""


class TestStale:
    def test_only_citations_of_the_newest_records_are_checked(self, tmp_path: Path) -> None:
        blocks = [
            Block(f"number {place} is here", f"mem-17000{place:05}-a") for place in range(dashboard.MAX_CHECKED + 1)
        ]
        path = tmp_path / ".agent" / "memories.md"
        path.parent.mkdir()
        path.write_text(page(*blocks), encoding="utf-8", newline="")
        assert "the newest 500" in dashboard.memory_health(tmp_path)["note"]

    def test_lists_are_truncated_and_counts_are_complete(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path, "Dates are stored in UTC.", "Dates are stored in UTC.", REDIS, REDIS)
        monkeypatch.setattr(dashboard, "MAX_LISTED", 1)
        found = dashboard.memory_health(tmp_path)
        assert (len(found["duplicates"]), found["counts"]["duplicates"]) == (1, 2)


def test_doctor_notices_leave_notes_out(tmp_path: Path) -> None:
    path = tmp_path / ".agent" / "memories.md"
    path.parent.mkdir()
    double = page(Block("one", "mem-1705751401-a001"), Block("two", "mem-1705751401-a001"))
    path.write_text(double, encoding="utf-8", newline="")
    found = dashboard.doctor_notices(tmp_path, {})
    assert any("mem-1705751401-a001" in each["message"] for each in found)
    assert all(each["level"] in ("error", "warning") and each["hint"] for each in found)


def test_hook_problems_are_not_reported_twice(tmp_path: Path) -> None:
    failed = paths.log_folder(tmp_path) / "hook-failures"
    failed.parent.mkdir(parents=True)
    failed.write_text("3 2026-11-16T08:00:00Z OSError: no space\n", encoding="utf-8", newline="")
    failed.chmod(0o600)
    assert dashboard.dashboard(tmp_path, {})["doctor"]
    assert not any("hook" in each["message"] for each in dashboard.doctor_notices(tmp_path, {}))


def test_unused_records_are_those_of_the_usage_report(tmp_path: Path) -> None:
    names = put(tmp_path, REDIS, "Dates are stored in UTC.", "The printer needs paper.")
    for session in ("one", "two"):
        usage.record_injections(
            tmp_path, session, "SessionStart", [usage.Injection(name, 7) for name in names], "2026-11-16T08:00:00Z"
        )
    usage.record_uses(tmp_path, "one", names[1:2], "2026-11-16T08:10:00Z")
    theirs = [(each["id"], each["sessions"], each["tokens"]) for each in usage.usage_stats(tmp_path)["never_used"]]
    assert [
        (each["id"], each["injected"], each["tokens"]) for each in dashboard.memory_health(tmp_path)["unused"]
    ] == theirs
    assert {name for name, *_ in theirs} == {names[0], names[2]}


# --- scanning for secrets ---------------------------------------------------------------------------


def log(root: Path, name: str, lines: list[str]) -> Path:
    path = paths.log_folder(root) / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_changed_log_is_scanned_again(tmp_path: Path) -> None:
    secret, quiet = f'{{"v":1,"token":"{TOKEN}"}}', ['{"v":1,"type":"x"}'] * 50
    path = log(tmp_path, "a", [secret, *quiet])
    assert [leak["line"] for leak in dashboard.find_secrets(tmp_path)[0]] == [1]
    with path.open("a", encoding="utf-8") as more:
        more.write(f"{secret}\n")
    assert [leak["line"] for leak in dashboard.find_secrets(tmp_path)[0]] == [1, 52]
    log(tmp_path, "b", [*quiet, *quiet, *quiet, secret]).replace(path)
    assert [leak["line"] for leak in dashboard.find_secrets(tmp_path)[0]] == [151]
    path.unlink()
    assert dashboard.find_secrets(tmp_path) == ([], 0)


def test_secrets_stay_reported_while_new_lines_are_not_scanned_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, quiet = f'{{"v":1,"token":"{TOKEN}"}}', ['{"v":1,"type":"x"}'] * 50
    log(tmp_path, "b", [secret, *quiet])
    assert len(dashboard.find_secrets(tmp_path)[0]) == 1
    monkeypatch.setattr(dashboard, "MAX_SCANNED", 950)
    log(tmp_path, "a", quiet)
    log(tmp_path, "b", [secret, *quiet, *quiet, secret])
    secrets, unfinished = dashboard.find_secrets(tmp_path)
    assert (len(secrets), unfinished) == (1, 1)
    while dashboard.find_secrets(tmp_path)[1]:
        pass
    assert len(dashboard.find_secrets(tmp_path)[0]) == 2


def test_scanned_files_are_those_of_doctor(tmp_path: Path) -> None:
    log(tmp_path, "a", [f'{{"v":1,"token":"{TOKEN}"}}'])
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent/memories.md").write_text(page(Block(f"It is {TOKEN}.")), encoding="utf-8", newline="")
    theirs = [each for each in doctor.examine(tmp_path, secrets=True) if each.problem.code == "secret"]
    assert [(leak["line"], leak["file"]) for leak in dashboard.find_secrets(tmp_path)[0]] == sorted(
        ((each.problem.line, each.path.relative_to(tmp_path).as_posix()) for each in theirs), key=lambda one: one[1]
    )
