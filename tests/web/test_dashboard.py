"""The dashboard's numbers by day, and what doctor reports there."""

from datetime import timedelta
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.paths import session_log
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.core.settings import Config
from ralph.formats.log import encode_record
from ralph.recall import injection_ledger
from ralph.recall.injection_ledger import Injection
from ralph.storage import files
from ralph.web import dashboard


def day(ago: int) -> str:
    return (ids.now() - timedelta(days=ago)).date().isoformat()


def inject(
    root: Path, session: str, at: str, *items: Injection, event: str = "SessionStart"
) -> None:
    injection_ledger.record_injections(root, session, event, items, at)


def record_event(root: Path, session: str, at: str, kind: ObservationKind, title: str) -> None:
    record = Record(
        f"obs-{session}-{at}", kind, "words", Family.OBSERVATION, title=title,
        origin=Origin(by="human", session=session), created_at=at,
    )  # fmt: skip
    files.append(session_log(root, session), encode_record(record), root=paths.state_boundary(root))


class TestTokens:
    def test_days_begin_with_the_first_that_has_data(self, tmp_path: Path) -> None:
        inject(
            tmp_path,
            "s-1",
            f"{day(3)}T10:00:00Z",
            Injection("mem-1-a", 40),
            Injection("mem-2-b", 60),
        )
        inject(tmp_path, "s-2", f"{day(1)}T10:00:00Z", Injection("mem-1-a", 40))
        injection_ledger.record_uses(tmp_path, "s-1", ["mem-2-b"], f"{day(3)}T11:00:00Z")
        result = dashboard.token_usage(tmp_path)
        assert result["days"] == [day(3), day(2), day(1), day(0)]
        assert result["given"] == [100, 0, 40, 0]
        assert result["used"] == [60, 0, 0, 0]
        assert result["rate"] == [0.5, None, 0.0, None]

    def test_what_is_older_than_the_span_is_not_shown(self, tmp_path: Path) -> None:
        inject(tmp_path, "s-1", f"{day(40)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path)["days"] == []
        inject(tmp_path, "s-1", f"{day(6)}T10:00:00Z", Injection("mem-1-a", 40))
        assert dashboard.token_usage(tmp_path, days=5)["days"] == []
        assert len(dashboard.token_usage(tmp_path)["days"]) == 7

    def test_a_record_injected_twice_into_a_session_counts_once_in_the_rate(
        self, tmp_path: Path
    ) -> None:
        for time in ("10:00", "11:00"):
            inject(tmp_path, "s-1", f"{day(0)}T{time}:00Z", Injection("mem-1-a", 10))
        inject(tmp_path, "s-1", f"{day(0)}T12:00:00Z", Injection("mem-2-b", 5))
        injection_ledger.record_uses(tmp_path, "s-1", ["mem-1-a"], f"{day(0)}T13:00:00Z")
        result = dashboard.token_usage(tmp_path)
        assert (result["given"], result["used"], result["rate"]) == ([25], [20], [0.5])

    def test_unreadable_times_and_an_empty_ledger_give_no_days(self, tmp_path: Path) -> None:
        assert dashboard.token_usage(tmp_path) == {
            "days": [],
            "given": [],
            "used": [],
            "rate": [],
        }
        inject(tmp_path, "s-1", "some day", Injection("mem-1-a", 10))
        assert dashboard.token_usage(tmp_path)["days"] == []


def test_hook_problems_are_reported(tmp_path: Path) -> None:
    failed = paths.log_folder(tmp_path) / "hook-failures"
    failed.parent.mkdir(parents=True)
    failed.write_text("3 2026-11-16T08:00:00Z OSError: no space\n", encoding="utf-8", newline="")
    (problem,) = dashboard.dashboard(tmp_path, {}, Config())["doctor"]
    assert (problem["level"], "no space" in problem["message"]) == ("warning", True)
