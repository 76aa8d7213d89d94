"""What several tasks build together."""

from pathlib import Path

import pytest

from ralph.core.errors import NotFound, Refused
from ralph.tasks import feature, task

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_a_new_feature_has_a_spec_and_a_plan_to_fill_in(tmp_path: Path) -> None:
    added = feature.add(tmp_path, "Refunds", "Money <private>soon</private> back")
    assert added.feature.id.startswith("f-")
    assert len(added.feature.id) == len("f-1a2b3c")
    assert added.private_parts == 1
    assert sorted(each.name for each in added.folder.iterdir()) == [
        "feature.json",
        "plan.md",
        "spec.md",
    ]
    assert feature.find(tmp_path, added.feature.id).feature == added.feature
    assert "Money  back" in feature.show(tmp_path, added.feature.id).spec
    assert feature.show(tmp_path, added.feature.id).plan == ""
    assert (
        "features/" in (tmp_path / ".ralph" / ".gitignore").read_text(encoding="utf-8").splitlines()
    )


def test_headings_alone_say_nothing_and_private_parts_are_left_out_of_what_is_written(
    tmp_path: Path,
) -> None:
    added = feature.add(tmp_path, "Refunds")
    name = added.feature.id
    assert feature.show(tmp_path, name).spec == ""
    written = "# Spec\n\nAll of it <private>or half</private>.\n"
    (added.folder / "spec.md").write_text(written, encoding="utf-8")
    assert feature.show(tmp_path, name).spec == "# Spec\n\nAll of it .\n"
    (added.folder / "plan.md").unlink()
    assert feature.show(tmp_path, name).plan == ""
    assert (added.folder / "spec.md").read_text(encoding="utf-8") == written


def test_a_list_says_how_far_the_tasks_are(tmp_path: Path) -> None:
    first = feature.add(tmp_path, "Refunds").feature.id
    second = feature.add(tmp_path, "Returns").feature.id
    one, two = (task.add(tmp_path, title, feature_id=first).task.id for title in ("one", "two"))
    task.add(tmp_path, "three")
    task.done(tmp_path, one)
    assert [
        (each.feature.id, each.done, len(each.tasks)) for each in feature.list_(tmp_path)[0]
    ] == [
        (first, 1, 2),
        (second, 0, 0),
    ]
    shown = feature.show(tmp_path, first)
    assert [each.id for each in shown.tasks] == [one, two]


def test_folders_of_any_name_are_read_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    for folder, text in (
        ("feature-1", '{"id": "f-1", "title": "x"}'),
        ("twice", '{"id": "f-1", "title": "y"}'),
        ("torn", "{"),
        ("empty", ""),
    ):
        path = tmp_path / ".ralph" / "features" / folder / "feature.json"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    found, unread = feature.list_(tmp_path)
    assert [each.feature.title for each in found] == ["x"]
    assert sorted(each.path.parent.name for each in unread) == ["empty", "torn", "twice"]


def test_secrets_and_empty_titles_are_refused_and_unknown_ids_are_not_found(tmp_path: Path) -> None:
    for title, description in ((f"use {SECRET}", ""), ("x", f"use {SECRET}"), (" ", "")):
        with pytest.raises(Refused):
            feature.add(tmp_path, title, description)
    with pytest.raises(NotFound, match="f-none"):
        feature.show(tmp_path, "f-none")
