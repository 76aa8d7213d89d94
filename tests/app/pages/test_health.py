"""What should be looked at: doubles, secrets, what is gone; and what was not looked at is said."""

from pathlib import Path

import pytest
from tests.cli.runner import Block, numbered, page

from ralph import paths
from ralph.app import doctor, graph, memory, usage
from ralph.app.pages import dashboard as health
from ralph.model.record import MemoryKind

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
REDIS = "Tests hang when Redis is down: run `make services up` before `npm test`."


def put(root: Path, *texts: str) -> list[str]:
    return [memory.add(root, text, MemoryKind.FIX, force=True).stored.record.id for text in texts]


class TestDoubles:
    def test_the_same_words_and_nearly_the_same_are_found(self, tmp_path: Path) -> None:
        names = put(
            tmp_path, REDIS, "When Redis is down the tests hang, so run `make services up` before `npm test`!",
            "Dates are stored in UTC.", "dates are stored in  UTC", "The printer needs paper.",
        )  # fmt: skip
        found = {(tuple(each["ids"]), each["exactly"]) for each in health.memory_health(tmp_path)["duplicates"]}
        assert found == {(tuple(names[:2]), False), (tuple(names[2:4]), True)}

    def test_what_supersedes_another_is_no_double(self, tmp_path: Path) -> None:
        first, second = put(tmp_path, REDIS, REDIS + " Always.")
        assert health.memory_health(tmp_path)["counts"]["duplicates"] == 1
        graph.link(tmp_path, second, "supersedes", first)
        assert health.memory_health(tmp_path)["counts"]["duplicates"] == 0

    def test_common_words_alone_bring_nothing_together(self, tmp_path: Path) -> None:
        path = tmp_path / ".agent" / "memories.md"
        path.parent.mkdir()
        texts = [f"The cache of part number{place} waits for the queue" for place in range(200)]
        path.write_text(page(*(Block(text, numbered(place)) for place, text in enumerate(texts))), encoding="utf-8")
        assert health.memory_health(tmp_path)["duplicates"] == []

    def test_similar_texts_of_one_format_are_one_group(self, tmp_path: Path) -> None:
        names = put(tmp_path, REDIS, "The printer needs paper.", f"{REDIS} Now.", f"{REDIS} Please.")
        memory.add(tmp_path, REDIS, in_="guardrails")
        (group,) = health.memory_health(tmp_path)["duplicates"]
        assert (group["ids"], group["exactly"]) == ([names[0], *names[2:]], False)

    def test_equal_and_similar_texts_are_separate_groups(self, tmp_path: Path) -> None:
        other = "When Redis is down the tests hang, so run `make services up` before `npm test`!"
        names = put(
            tmp_path, "Dates are stored in UTC.", "Dates are stored in UTC.", "The printer needs paper.", REDIS, other
        )
        found = {(tuple(each["ids"]), each["exactly"]) for each in health.memory_health(tmp_path)["duplicates"]}
        assert found == {(tuple(names[:2]), True), (tuple(names[3:]), False)}

    def test_a_note_says_when_not_all_pairs_were_compared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(tmp_path, *(f"quokka number {place} waits, badger {place}" for place in range(8)))
        assert health.memory_health(tmp_path)["note"] == ""
        monkeypatch.setattr(health, "MAX_PAIRS", 5)
        put(tmp_path, "another one, so that it is looked at anew")
        assert "the 5 pairs of texts that share the rarest words" in health.memory_health(tmp_path)["note"]


class TestSecrets:
    def test_a_secret_that_was_taken_out_is_no_longer_told(self, tmp_path: Path) -> None:
        added = memory.add(tmp_path, f"The token is {TOKEN}.", MemoryKind.CONTEXT, allow_secret=True)
        assert health.memory_health(tmp_path)["counts"]["secrets"] == 1
        memory.delete(tmp_path, added.stored.record.id)
        assert health.memory_health(tmp_path)["counts"]["secrets"] == 0

    def test_a_users_own_pattern_counts(self, tmp_path: Path) -> None:
        memory.add(tmp_path, "See ACME-123456 for it.", MemoryKind.CONTEXT)
        assert health.memory_health(tmp_path)["counts"]["secrets"] == 0
        assert health.memory_health(tmp_path, patterns=[r"ACME-\d{6}"])["counts"]["secrets"] == 1

    def test_logs_beyond_the_budget_are_scanned_later(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = paths.log_folder(tmp_path) / "sessions"
        folder.mkdir(parents=True)
        for name in "abc":
            (folder / f"{name}.jsonl").write_text(f'{{"v":1,"type":"x{name}"}}\n' * 20, encoding="utf-8", newline="")
        monkeypatch.setattr(health, "MAX_SCANNED", 400)
        looks = [health.memory_health(tmp_path) for _ in range(3)]
        assert [each["more"] for each in looks] == [True, True, False]
        assert "2 log(s) are not completely scanned" in looks[0]["note"]
        assert "1 log(s) are not completely scanned" in looks[1]["note"]
        assert looks[2]["note"] == ""


class TestStale:
    def test_only_citations_of_the_newest_records_are_checked(self, tmp_path: Path) -> None:
        blocks = [Block(f"number {place} is here", f"mem-17000{place:05}-a") for place in range(health.MAX_CHECKED + 1)]
        path = tmp_path / ".agent" / "memories.md"
        path.parent.mkdir()
        path.write_text(page(*blocks), encoding="utf-8", newline="")
        assert "the newest 500" in health.memory_health(tmp_path)["note"]

    def test_lists_are_cut_and_counts_are_not(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path, "Dates are stored in UTC.", "Dates are stored in UTC.", REDIS, REDIS)
        monkeypatch.setattr(health, "MAX_LISTED", 1)
        found = health.memory_health(tmp_path)
        assert (len(found["duplicates"]), found["counts"]["duplicates"]) == (1, 2)


def test_doctor_notices_leave_notes_out(tmp_path: Path) -> None:
    path = tmp_path / ".agent" / "memories.md"
    path.parent.mkdir()
    double = page(Block("one", "mem-1705751401-a001"), Block("two", "mem-1705751401-a001"))
    path.write_text(double, encoding="utf-8", newline="")
    found = health.doctor_notices(tmp_path, {})
    assert any("mem-1705751401-a001" in each["message"] for each in found)
    assert all(each["level"] in ("error", "warning") and each["hint"] for each in found)


def test_hook_problems_are_not_reported_twice(tmp_path: Path) -> None:
    failed = paths.log_folder(tmp_path) / "hook-failures"
    failed.parent.mkdir(parents=True)
    failed.write_text("3 2026-11-16T08:00:00Z OSError: no space\n", encoding="utf-8", newline="")
    assert health.dashboard(tmp_path, {})["doctor"]
    assert not any("hook" in each["message"] for each in health.doctor_notices(tmp_path, {}))


def test_unused_records_are_those_of_the_usage_report(tmp_path: Path) -> None:
    names = put(tmp_path, REDIS, "Dates are stored in UTC.", "The printer needs paper.")
    for session in ("one", "two"):
        usage.record_injections(
            tmp_path, session, "SessionStart", [usage.Injection(name, 7) for name in names], "2026-11-16T08:00:00Z"
        )
    usage.record_uses(tmp_path, "one", names[1:2], "2026-11-16T08:10:00Z")
    theirs = [(each.id, each.sessions, each.tokens) for each in usage.usage_stats(tmp_path).never_used]
    assert [
        (each["id"], each["injected"], each["tokens"]) for each in health.memory_health(tmp_path)["unused"]
    ] == theirs
    assert {name for name, *_ in theirs} == {names[0], names[2]}


# --- scanning for secrets ---------------------------------------------------------------------------


def log(root: Path, name: str, lines: list[str]) -> Path:
    path = paths.log_folder(root) / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_a_large_log_is_scanned_in_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_SCANNED", 1_000)
    log(tmp_path, "a", ['{"v":1,"type":"x"}'] * 400 + [f'{{"v":1,"token":"{TOKEN}"}}'])
    turns = 0
    while health.find_secrets(tmp_path)[1]:
        turns += 1
        assert turns < 20
    assert turns > 3
    assert [leak["line"] for leak in health.find_secrets(tmp_path)[0]] == [401]


def test_new_lines_of_a_log_are_scanned_and_a_rewritten_log_completely(tmp_path: Path) -> None:
    secret, quiet = f'{{"v":1,"token":"{TOKEN}"}}', ['{"v":1,"type":"x"}'] * 50
    path = log(tmp_path, "a", [secret, *quiet])
    assert [leak["line"] for leak in health.find_secrets(tmp_path)[0]] == [1]
    with path.open("a", encoding="utf-8") as more:
        more.write(f"{secret}\n")
    assert [leak["line"] for leak in health.find_secrets(tmp_path)[0]] == [1, 52]
    log(tmp_path, "b", [*quiet, *quiet, *quiet, secret]).replace(path)
    assert [leak["line"] for leak in health.find_secrets(tmp_path)[0]] == [151]
    path.unlink()
    assert health.find_secrets(tmp_path) == ([], 0)


def test_secrets_stay_reported_while_new_lines_are_not_scanned_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, quiet = f'{{"v":1,"token":"{TOKEN}"}}', ['{"v":1,"type":"x"}'] * 50
    log(tmp_path, "b", [secret, *quiet])
    assert len(health.find_secrets(tmp_path)[0]) == 1
    monkeypatch.setattr(health, "MAX_SCANNED", 950)
    log(tmp_path, "a", quiet)
    log(tmp_path, "b", [secret, *quiet, *quiet, secret])
    secrets, unfinished = health.find_secrets(tmp_path)
    assert (len(secrets), unfinished) == (1, 1)
    while health.find_secrets(tmp_path)[1]:
        pass
    assert len(health.find_secrets(tmp_path)[0]) == 2


def test_the_files_are_those_of_doctor(tmp_path: Path) -> None:
    log(tmp_path, "a", [f'{{"v":1,"token":"{TOKEN}"}}'])
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent/memories.md").write_text(page(Block(f"It is {TOKEN}.")), encoding="utf-8", newline="")
    theirs = [each for each in doctor.examine(tmp_path, secrets=True) if each.problem.code == "secret"]
    assert [(leak["line"], leak["file"]) for leak in health.find_secrets(tmp_path)[0]] == sorted(
        ((each.problem.line, each.path.relative_to(tmp_path).as_posix()) for each in theirs), key=lambda one: one[1]
    )
