"""The merge driver in real git: memory files merge without a conflict, and a driver that is gone harms nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.memory_pages import ids, page, record

from ralph.core.errors import Refused
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.memories import parse_memories
from ralph.install import doctor, hosts, launcher_scripts, merge_registration

FILE = ".agent/memories.md"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with one memory on main, and a branch `side` with another."""
    git(tmp_path, "init", "-q", "-b", "main", ".")
    git(tmp_path, "config", "user.name", "Ann")
    git(tmp_path, "config", "user.email", "ann@example.com")
    put(tmp_path, page(record(1)), "first")
    return tmp_path


def put(root: Path, text: str, message: str) -> None:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def diverge(root: Path, ours: str, theirs: str) -> None:
    git(root, "checkout", "-qb", "side")
    put(root, theirs, "theirs")
    git(root, "checkout", "-q", "main")
    put(root, ours, "ours")


@pytest.fixture
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"HOME": str(tmp_path_factory.mktemp("home"))}


def test_adds_on_two_branches_merge_without_a_conflict(shop: Path, env: dict[str, str]) -> None:
    done = merge_registration.register(shop, env)
    assert done.config
    assert merge_registration.register(shop, env).attributes == ()
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    git(shop, "merge", "-q", "side", "-m", "merged")
    assert (shop / FILE).read_text(encoding="utf-8") == page(record(1), record(2), record(3))
    assert git(shop, "status", "--porcelain") == ""


def test_a_rebase_and_a_cherry_pick_use_it_too(shop: Path, env: dict[str, str]) -> None:
    merge_registration.register(shop, env)
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    git(shop, "checkout", "-q", "side")
    git(shop, "rebase", "-q", "main")
    assert ids((shop / FILE).read_text(encoding="utf-8")) == [
        record(number).id for number in (1, 2, 3)
    ]


def test_prose_that_both_edited_is_a_conflict_with_markers(shop: Path, env: dict[str, str]) -> None:
    merge_registration.register(shop, env)
    put(shop, page(record(1), prose="Read this.\n\n"), "prose")
    diverge(
        shop,
        page(record(1), prose="Read that.\n\n"),
        page(record(1), record(3), prose="Read it all.\n\n"),
    )
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert text.count("<<<<<<<") == 1
    assert ids(text) == [record(number).id for number in (1, 3)]


def test_a_driver_that_is_gone_falls_back_to_the_merge_of_lines(
    shop: Path, env: dict[str, str]
) -> None:
    hosts.apply_plan(hosts.plan_launchers(env, launcher_scripts.running_program(sys.executable)))
    merge_registration.register(shop, env)
    launcher_scripts.interpreter_file(
        env
    ).unlink()  # the launcher exits with 1 now, as a conflict does
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert "<<<<<<<" in text
    assert {record(2).id, record(3).id} <= {*ids(text)}, "neither side is lost"


def test_a_program_that_reports_success_without_a_merge_loses_nothing(
    shop: Path, env: dict[str, str]
) -> None:
    idle = Path(env["HOME"], "idle")
    idle.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    idle.chmod(0o755)
    merge_registration.register(shop, env)
    git(shop, "config", "merge.ralph.driver", merge_registration.driver_command([str(idle)]))
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert {record(2).id, record(3).id} <= {*ids(text)}, "neither side is lost"


def test_the_user_s_config_gets_the_driver_once_and_loses_it_again(env: dict[str, str]) -> None:
    path = Path(env["HOME"], ".gitconfig")
    before = "[user]\n\tname = Ann\n[merge]\n\tconflictStyle = diff3\n"
    path.write_text(before, encoding="utf-8")
    for _ in range(2):
        hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=True))))
    assert path.read_text(encoding="utf-8").count('[merge "ralph"]') == 1
    assert "merge-driver" in git(
        Path(env["HOME"]), "config", "--file", str(path), "merge.ralph.driver"
    )
    hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=False))))
    assert path.read_text(encoding="utf-8") == before
    path.unlink()
    hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=True))))
    hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=False))))
    assert not path.exists()


def test_an_earlier_command_is_kept_by_doctor_replaced_by_registering_and_removed(
    shop: Path, env: dict[str, str]
) -> None:
    merge_registration.register(shop, env)
    current = git(shop, "config", "merge.ralph.driver")
    earlier = current.replace(" --clean-exit=100", "").replace("$code = 100", "$code = 0")
    assert earlier != current
    git(shop, "config", "merge.ralph.driver", earlier)
    assert merge_registration.is_missing(shop, env) is None
    assert merge_registration.register(shop, env).config
    assert git(shop, "config", "merge.ralph.driver") == current
    git(shop, "config", "merge.ralph.driver", earlier)
    hosts.apply_plan(
        hosts.InstallPlan(tuple(merge_registration.repository_edits(shop, attributes=True)))
    )
    assert "merge-driver" not in (shop / ".git/config").read_text(encoding="utf-8")


def test_doctor_registers_where_the_attributes_name_a_driver_that_no_config_has(
    shop: Path, env: dict[str, str]
) -> None:
    (shop / ".gitattributes").write_text("*.md merge=ralph\n", encoding="utf-8")
    assert [
        each.fixable
        for each in doctor.examine(shop, env=env)
        if each.problem.code == "merge-driver"
    ] == [True]
    assert shop / ".git/config" in {repair.path for repair in doctor.fix(shop, env)}
    assert not [
        each for each in doctor.examine(shop, env=env) if each.problem.code == "merge-driver"
    ]
    assert merge_registration.register_missing(shop, env) is None
    [edit] = merge_registration.repository_edits(shop, attributes=True)
    assert edit.path == shop / ".git/config", "a line of another form is not ours"


@pytest.mark.parametrize("driver", ["true", "/nonexistent/ralph merge-driver %O %A %B %P", None])
def test_doctor_replaces_a_driver_that_cannot_start(
    shop: Path, env: dict[str, str], driver: str | None
) -> None:
    merge_registration.register(shop, env)
    good = git(shop, "config", "merge.ralph.driver")
    program = good.rpartition(" %O ")[0].rpartition(" ")[2]
    git(
        shop, "config", "merge.ralph.driver", driver or good.replace(program, "'/moved away/ralph'")
    )
    assert [
        each.fixable
        for each in doctor.examine(shop, env=env)
        if each.problem.code == "merge-driver"
    ] == [True]
    doctor.fix(shop, env)
    assert git(shop, "config", "merge.ralph.driver") == good
    assert merge_registration.is_missing(shop, env) is None


def test_doctor_does_not_wait_for_a_fifo_in_place_of_the_attributes(
    shop: Path, env: dict[str, str]
) -> None:
    (shop / ".gitattributes").unlink(missing_ok=True)
    os.mkfifo(shop / ".gitattributes")
    words = [sys.executable, "-m", "ralph", "doctor"]
    variables = {**os.environ, **env}
    done = subprocess.run(
        words, cwd=shop, env=variables, capture_output=True, check=False, timeout=40
    )
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr


def test_doctor_names_a_union_and_registering_overrides_it(shop: Path, env: dict[str, str]) -> None:
    merge_registration.register(shop, env)
    (shop / "guardrails.md").write_text("# Guardrails\n", encoding="utf-8")
    assert "merge: ralph" in git(shop, "check-attr", "merge", "guardrails.md")
    with (shop / ".gitattributes").open("a", encoding="utf-8") as lines:
        lines.write("*.md merge=union\n")
    [found] = [
        each.problem.what
        for each in doctor.examine(shop, env=env)
        if each.problem.code == "merge-union"
    ]
    assert FILE in found
    assert ".ralph/knowledge/*.md" in found
    merge_registration.register(shop, env)
    assert not [
        each for each in doctor.examine(shop, env=env) if each.problem.code == "merge-union"
    ]


def test_a_user_s_driver_is_enough(shop: Path, env: dict[str, str]) -> None:
    hosts.apply_plan(hosts.plan_launchers(env, launcher_scripts.running_program(sys.executable)))
    hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=True))))
    (shop / ".gitattributes").write_text("*.md merge=ralph\n", encoding="utf-8")
    assert merge_registration.register_missing(shop, env) is None


@pytest.mark.parametrize("has_ralph", [True, False])
def test_a_fresh_clone_merges_by_entry_with_ralph_installed_and_by_lines_without(
    shop: Path, env: dict[str, str], has_ralph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge_registration.register(shop, env)
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    clone = Path(env["HOME"], "clone")
    git(shop, "clone", "-q", str(shop), str(clone))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(Path(env["HOME"], ".gitconfig")))
    if has_ralph:
        hosts.apply_plan(
            hosts.plan_launchers(env, launcher_scripts.running_program(sys.executable))
        )
        hosts.apply_plan(hosts.InstallPlan(tuple(merge_registration.user_edit(env, add=True))))
        git(clone, "merge", "-q", "origin/side", "-m", "merged")
        assert (clone / FILE).read_text(encoding="utf-8") == page(record(1), record(2), record(3))
    else:
        with pytest.raises(Exception, match="returned non-zero"):
            git(clone, "merge", "-q", "origin/side")
        assert {*ids((clone / FILE).read_text(encoding="utf-8"))} == {
            record(number).id for number in (1, 2, 3)
        }


def test_outside_of_git_nothing_is_registered(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(Refused, match="not in a git repository"):
        merge_registration.register(tmp_path, env)
    assert not (tmp_path / ".gitattributes").exists()


def damage(root: Path) -> list[str]:
    return [
        each.problem.code
        for each in doctor.examine(root)
        if each.problem.code in ("merge", "conflict")
    ]


@pytest.mark.parametrize("before", [2, 60])
def test_doctor_resolves_an_open_merge_by_entry(
    shop: Path, env: dict[str, str], before: int
) -> None:
    old = [record(number) for number in range(1, before + 1)]
    put(shop, page(*old), "old")
    first = record(before + 1)
    second = record(before + 2)
    diverge(shop, page(*old, first), page(*old, second))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    assert "merge" in damage(shop)
    [repair] = [each for each in doctor.fix(shop, env) if each.path == shop / FILE]
    assert repair.backup is not None
    assert "<<<<<<<" in repair.backup.read_text(encoding="utf-8")
    merged = (shop / FILE).read_text(encoding="utf-8")
    assert ids(merged) == [each.id for each in (*old, first, second)]
    assert damage(shop) == []
    git(shop, "commit", "-qm", "merged")
    assert doctor.fix(shop, env) == []


@pytest.mark.parametrize("later", [False, True])
def test_doctor_repairs_what_a_union_did_from_the_merge_s_parents(
    shop: Path, env: dict[str, str], later: bool
) -> None:
    (shop / ".gitattributes").write_text("*.md merge=union\n", encoding="utf-8")
    put(shop, page(*map(record, range(1, 9))), "more")
    ours = page(record(1), record(2, "edited by us"), *map(record, range(3, 8)))
    diverge(
        shop,
        ours,
        page(record(1), record(2, tags=("edited",)), *map(record, range(3, 9)), record(9)),
    )
    git(shop, "merge", "-q", "side", "-m", "union")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert record(8).id in ids(text), "deleted by us, and brought back"
    if later:
        put(shop, text.replace("fact 5", "fact five"), "later")
    assert damage(shop) == ["merge"]
    doctor.fix(shop, env)
    records = {
        entry.record.id: entry.record
        for entry in parse_memories((shop / FILE).read_text(encoding="utf-8")).entries
    }
    assert [*records] == [record(number).id for number in (*range(1, 8), 9)]
    assert (records[record(2).id].text, records[record(2).id].tags) == ("edited by us", ("edited",))
    assert records[record(5).id].text == ("fact five" if later else "fact 5")
    assert damage(shop) == []


def test_doctor_repairs_committed_markers_with_an_entry_that_came_later(
    shop: Path, env: dict[str, str]
) -> None:
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    git(shop, "commit", "-qam", "with markers")
    text = (shop / FILE).read_text(encoding="utf-8")
    put(shop, str(parse_memories(text).add(record(4))), "later")
    doctor.fix(shop, env)
    text = (shop / FILE).read_text(encoding="utf-8")
    assert (sorted(ids(text)), "<<<<" in text) == (
        [record(number).id for number in (1, 2, 3, 4)],
        False,
    )
    assert damage(shop) == []


def test_doctor_repairs_a_knowledge_file_after_a_union(shop: Path, env: dict[str, str]) -> None:
    path = shop / ".ralph/knowledge/cents.md"
    path.parent.mkdir(parents=True)
    (shop / ".gitattributes").write_text("*.md merge=union\n", encoding="utf-8")

    def write(hour: int, tags: str, text: str) -> None:
        about = f"title: Cents\ntags: [{tags}]\ncreated_at: 2026-11-16\nupdated_at: 2026-11-17T{hour}:00:00Z"
        path.write_text(f"---\n{about}\n---\n\n{text}\n", encoding="utf-8")
        git(shop, "add", "-A")
        git(shop, "commit", "-qm", text)

    write(10, "money", "Amounts are cents.")
    git(shop, "checkout", "-qb", "side")
    write(11, "money, api", "Amounts are whole cents.")
    git(shop, "checkout", "-q", "main")
    write(12, "money, db", "Amounts are integer cents.")
    git(shop, "merge", "-q", "side", "-m", "union")
    assert path.read_text(encoding="utf-8").count("updated_at") == 2
    doctor.fix(shop, env)
    [entry] = parse_knowledge(path.read_text(encoding="utf-8")).entries
    assert ({*entry.record.tags}, entry.record.updated_at[11:13]) == ({"money", "api", "db"}, "12")
    assert sorted(entry.record.text.split()) == sorted(
        ["Amounts", "are", "whole", "cents.", "Amounts", "are", "integer", "cents."]
    )
    assert path.read_text(encoding="utf-8").count("updated_at") == 1
    assert damage(shop) == []


def test_a_merge_that_a_person_resolved_is_left_alone(shop: Path, env: dict[str, str]) -> None:
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    put(shop, page(record(2)), "only the second one")
    assert damage(shop) == []
    assert doctor.fix(shop, env) == []
