"""The dashboard's numbers: by day, by event, and the rows of its lists."""

from datetime import timedelta
from pathlib import Path

from ralph import paths
from ralph.app import hook_state, lists, usage
from ralph.app.pages import dashboard
from ralph.app.tasks import board, task
from ralph.app.usage import Injection
from ralph.formats.log import encode_record
from ralph.model import ids
from ralph.model.record import Family, ObservationKind, Origin, Record
from ralph.paths import session_log
from ralph.store import files


def day(ago: int) -> str:
    return (ids.now() - timedelta(days=ago)).date().isoformat()


def handed(root: Path, session: str, at: str, *items: Injection, event: str = "SessionStart") -> None:
    usage.record_injections(root, session, event, items, at)


def happened(root: Path, session: str, at: str, kind: ObservationKind, title: str) -> None:
    record = Record(
        f"obs-{session}-{at}", kind, "words", Family.OBSERVATION, title=title,
        origin=Origin(by="human", session=session), created_at=at,
    )  # fmt: skip
    files.append(session_log(root, session), encode_record(record), root=paths.state_boundary(root))


class TestTokens:
    def test_days_begin_with_the_first_that_has_data(self, tmp_path: Path) -> None:
        handed(tmp_path, "s-1", f"{day(3)}T10:00:00Z", Injection("mem-1-a", 40), Injection("mem-2-b", 60))
        handed(tmp_path, "s-2", f"{day(1)}T10:00:00Z", Injection("mem-1-a", 40))
        usage.record_uses(tmp_path, "s-1", ["mem-2-b"], f"{day(3)}T11:00:00Z")
        told = dashboard.token_usage(tmp_path)
        assert told["days"] == [day(3), day(2), day(1), day(0)]
        assert told["injected"] == [100, 0, 40, 0]
        assert told["used"] == [60, 0, 0, 0]
        assert told["rate"] == [0.5, None, 0.0, None]

    def test_what_is_older_than_the_span_is_not_shown(self, tmp_path: Path) -> None:
        handed(tmp_path, "s-1", f"{day(40)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path)["days"] == []
        handed(tmp_path, "s-1", f"{day(6)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path, days=5)["days"] == []
        assert len(dashboard.token_usage(tmp_path)["days"]) == 7

    def test_a_record_injected_twice_into_a_session_counts_once_in_the_rate(self, tmp_path: Path) -> None:
        for time in ("10:00", "11:00"):
            handed(tmp_path, "s-1", f"{day(0)}T{time}:00Z", Injection("mem-1-a", 10))
        handed(tmp_path, "s-1", f"{day(0)}T12:00:00Z", Injection("mem-2-b", 5))
        usage.record_uses(tmp_path, "s-1", ["mem-1-a"], f"{day(0)}T13:00:00Z")
        told = dashboard.token_usage(tmp_path)
        assert (told["injected"], told["used"], told["rate"]) == ([25], [20], [0.5])

    def test_unreadable_times_and_an_empty_ledger_give_no_days(self, tmp_path: Path) -> None:
        assert dashboard.token_usage(tmp_path) == {"days": [], "injected": [], "used": [], "rate": []}
        handed(tmp_path, "s-1", "some day", Injection("mem-1-a", 10))
        assert dashboard.token_usage(tmp_path)["days"] == []


class TestHooks:
    def test_a_response_time_begins_with_the_recorded_event(self, tmp_path: Path) -> None:
        happened(tmp_path, "s-1", f"{day(0)}T10:00:00.000000Z", ObservationKind.NOTE, "prompt")
        happened(tmp_path, "s-1", f"{day(0)}T10:05:00.000000Z", ObservationKind.NOTE, "prompt")
        event = "UserPromptSubmit"
        handed(tmp_path, "s-1", f"{day(0)}T10:00:00.040000Z", Injection("mem-1-a"), Injection("mem-2-b"), event=event)
        handed(tmp_path, "s-1", f"{day(0)}T10:05:00.060000Z", Injection("mem-3-c"), event=event)
        told = dashboard.hook_times(tmp_path)
        assert [(each["event"], each["count"], each["p50_ms"], each["p95_ms"]) for each in told["events"]] == [
            (event, 2, 60.0, 60.0)
        ]
        assert (told["days"], told["p50"]) == ([day(0)], [60.0])

    def test_answers_without_an_event_have_no_time(self, tmp_path: Path) -> None:
        happened(tmp_path, "s-1", f"{day(0)}T10:00:00.000000Z", ObservationKind.ERROR, "Bash: make")
        handed(tmp_path, "s-1", f"{day(0)}T11:00:00.000000Z", Injection("mem-1-a"), event="PostToolUseFailure")
        handed(tmp_path, "s-1", f"{day(0)}T09:00:00.000000Z", Injection("mem-2-b"), event="UserPromptSubmit")
        handed(tmp_path, "s-1", f"{day(0)}T10:00:00.010000Z", Injection("mem-3-c"), event="PreToolUse")
        told = dashboard.hook_times(tmp_path)
        assert [(each["event"], each["p50_ms"]) for each in told["events"]] == [("PostToolUseFailure", None)]
        assert told["days"] == []

    def test_failures_are_counted(self, tmp_path: Path) -> None:
        assert hook_state.count_failure(tmp_path, "Stop", "OSError: no space")
        told = dashboard.hook_times(tmp_path)
        assert told["failures"] == 1
        assert "no space" in told["note"]


class TestRows:
    def test_a_broken_task_file_is_noted(self, tmp_path: Path) -> None:
        task.add(tmp_path, "good")
        broken = tmp_path / ".ralph" / "tasks" / "t-broken" / "task.json"
        broken.parent.mkdir()
        broken.write_text("{", encoding="utf-8", newline="")
        found = lists.list_tasks(tmp_path)
        assert [row["title"] for row in found["items"]] == ["good"]
        assert found["notes"][0].startswith(".ralph/tasks/t-broken/task.json: ")

    def test_an_unknown_task_state_is_listed_unchanged(self, tmp_path: Path) -> None:
        path = board.task_file(tmp_path, task.add(tmp_path, "odd").task.id)
        path.write_text(path.read_text(encoding="utf-8").replace('"pending"', '"parked"'), encoding="utf-8", newline="")
        found = lists.list_tasks(tmp_path)
        assert found["items"][0]["status"] == "parked"
        assert found["by_state"]["parked"] == 1
