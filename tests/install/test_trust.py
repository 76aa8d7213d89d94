"""What a project names counts only after its user has said so, for that folder and that very value."""

import json
import os
from pathlib import Path

import pytest

from ralph.core.config import Loaded, load, trust_file
from ralph.core.errors import Unreadable, UsageError
from ralph.storage import trust_records

YML = "summarize:\n  command: {}\nembedding:\n  url: https://example.com/v1\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone with a command and an address in its config."""
    root = tmp_path / "clone"
    root.mkdir()
    names(root, "curl evil.example")
    return root


def names(root: Path, command: str, file: str = "ralph.yml") -> None:
    (root / file).write_text(YML.format(json.dumps(command)), encoding="utf-8", newline="")


def env_of(root: Path) -> dict[str, str]:
    return {"HOME": str(root.parent / "home")}


def loaded(root: Path) -> Loaded:
    return load(root, env=env_of(root))


def trusting(root: Path) -> None:
    trust_records.record_trust(root, loaded(root).trusted_values, env_of(root))


def test_a_cloned_project_runs_and_sends_nothing(project: Path) -> None:
    found = loaded(project)
    assert (found.config.summarize.command, found.config.embedding.url) == ("", "")
    assert [
        (str(each.place), each.key, each.value, each.trusted) for each in found.trusted_values
    ] == [
        ("ralph.yml:2", "summarize.command", "curl evil.example", False),
        ("ralph.yml:4", "embedding.url", "https://example.com/v1", False),
    ]
    assert [each.what.partition(":")[0] for each in found.complaints] == [
        "summarize.command is ignored here",
        "embedding.url is ignored here",
    ]
    assert all("ralph trust" in each.hint for each in found.complaints)


def test_what_was_trusted_counts_without_a_word(project: Path) -> None:
    new = trust_records.record_trust(project, loaded(project).trusted_values, env_of(project))
    assert [each.key for each in new] == ["summarize.command", "embedding.url"]
    found = loaded(project)
    assert (found.config.summarize.command, found.config.embedding.url) == (
        "curl evil.example",
        "https://example.com/v1",
    )
    assert found.warnings == ()
    assert all(each.trusted for each in found.trusted_values)
    assert str(found.origins["summarize.command"]) == "ralph.yml:2"


def test_a_changed_value_needs_trust_anew_and_the_others_keep_it(project: Path) -> None:
    trusting(project)
    names(project, "curl worse.example")
    found = loaded(project)
    assert found.config.summarize.command == ""
    assert found.config.embedding.url == "https://example.com/v1"
    trusting(project)
    assert loaded(project).config.summarize.command == "curl worse.example"
    names(project, "curl evil.example")  # what was trusted once and replaced is a stranger again
    assert loaded(project).config.summarize.command == ""


def test_another_folder_with_the_same_file_is_a_stranger(project: Path) -> None:
    trusting(project)
    other = project.with_name("other")
    other.mkdir()
    names(other, "curl evil.example")
    assert loaded(other).config.summarize.command == ""


def test_the_real_path_counts_and_not_the_name_it_was_reached_by(project: Path) -> None:
    link = project.with_name("link")
    link.symlink_to(project)
    trusting(link)
    assert loaded(project).config.summarize.command == "curl evil.example"
    other = project.with_name("other")
    other.mkdir()
    names(other, "curl evil.example")
    link.unlink()
    link.symlink_to(other)
    assert loaded(link).config.summarize.command == ""


def test_two_files_that_name_different_values_are_trusted_each(project: Path) -> None:
    names(project, "mine", "ralph.local.yml")
    trusting(project)
    assert loaded(project).config.summarize.command == "mine"
    (project / "ralph.local.yml").unlink()
    assert loaded(project).config.summarize.command == "curl evil.example"


def test_the_users_own_config_and_the_environment_need_no_trust(project: Path) -> None:
    env = env_of(project)
    file = trust_file(env)
    assert file is not None
    file.parent.mkdir(parents=True)
    file.with_name("config.yml").write_text("summarize: {command: mine}\n", encoding="utf-8")
    assert load(project, env=env).config.summarize.command == "mine"
    assert (
        load(project, env={**env, "RALPH_SUMMARIZE_COMMAND": "now"}).config.summarize.command
        == "now"
    )


def test_where_ralph_records_is_never_a_projects_word(project: Path) -> None:
    (project / "ralph.yml").write_text("capture:\n  everywhere: true\n", encoding="utf-8")
    found = loaded(project)
    assert found.config.capture.everywhere is False
    assert found.trusted_values == []
    (warning,) = found.warnings
    assert warning.startswith("ralph.yml:2: capture.everywhere is ignored")
    assert (
        load(
            project, env={**env_of(project), "RALPH_CAPTURE_EVERYWHERE": "1"}
        ).config.capture.everywhere
        is True
    )


def test_the_trust_file_is_for_its_owner_alone_and_holds_no_value(project: Path) -> None:
    trusting(project)
    file = trust_file(env_of(project))
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    assert "evil" not in file.read_text(encoding="utf-8")
    assert {one.root for one in trust_records.trusted_values(env_of(project))} == {
        os.path.realpath(project)
    }


def test_xdg_config_home_is_where_it_is_kept(project: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(project.parent / "xdg")}
    trust_records.record_trust(project, load(project, env=env).trusted_values, env)
    assert (project.parent / "xdg" / "ralph" / "trust.json").is_file()
    assert load(project, env=env).config.summarize.command == "curl evil.example"
    assert loaded(project).config.summarize.command == ""


def test_revoked_trust_is_gone_for_this_project_alone(project: Path) -> None:
    other = project.with_name("other")
    other.mkdir()
    names(other, "make summary")
    trusting(project)
    trusting(other)
    assert trust_records.revoke_trust(project, env_of(project)) == 2
    assert trust_records.revoke_trust(project, env_of(project)) == 0
    assert loaded(project).config.summarize.command == ""
    assert loaded(other).config.summarize.command == "make summary"


@pytest.mark.parametrize(
    "text", ["nonsense", "{}", '{"trusted": 5}', '{"trusted": [{"root": "/"}]}', "[" * 9000]
)
def test_a_trust_file_that_is_not_ours_trusts_nothing_and_is_not_overwritten(
    project: Path, text: str
) -> None:
    file = trust_file(env_of(project))
    assert file is not None
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    found = loaded(project)
    assert found.config.summarize.command == ""
    with pytest.raises(Unreadable, match="not a trust file"):
        trust_records.record_trust(project, found.trusted_values, env_of(project))
    assert file.read_text(encoding="utf-8") == text
    assert trust_records.trusted_values(env_of(project)) == ()


def test_without_a_home_nothing_can_be_trusted(project: Path) -> None:
    assert trust_records.trusted_values({}) == ()
    assert trust_records.revoke_trust(project, {}) == 0
    with pytest.raises(UsageError, match="no folder"):
        trust_records.record_trust(project, load(project, env={}).trusted_values, {})
