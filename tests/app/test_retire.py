"""What is retired stays in its file and is offered to nobody."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ralph.app import guardrails, knowledge, knowledge_edit, memory, project
from ralph.app import search as searching
from ralph.errors import NotFound, Refused
from ralph.model.query import Query
from ralph.model.record import Status


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project.init(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verbs", [memory, guardrails])
def test_a_retired_entry_is_kept_and_not_offered_until_it_is_restored(root: Path, verbs: ModuleType) -> None:
    stored = verbs.add(root, "Redis must run", tags=["redis"]).stored
    before = stored.path.read_text(encoding="utf-8")
    done = verbs.retire(root, stored.record.id)
    assert (done.changed, done.stored.record.status) == (True, Status.RETIRED)
    assert "| status: retired -->" in stored.path.read_text(encoding="utf-8")
    assert verbs.list_(root) == []
    assert verbs.prime(root).text == ""
    assert searching.search(root, Query("redis")).shown == ()
    assert verbs.show(root, stored.record.id).record.text == "Redis must run"
    assert not verbs.retire(root, stored.record.id).changed
    back = verbs.restore(root, stored.record.id)
    assert (back.changed, back.stored.record.status) == (True, Status.ACCEPTED)
    assert [each.record.id for each in verbs.list_(root)] == [stored.record.id]
    after = stored.path.read_text(encoding="utf-8")
    assert after.replace(f" | updated: {back.stored.record.updated_at}", "") == before
    assert not verbs.restore(root, stored.record.id).changed
    with pytest.raises(NotFound):
        verbs.retire(root, "mem-1-none")


def test_somebody_s_own_status_stays_theirs(root: Path) -> None:
    stored = memory.add(root, "Redis must run").stored
    text = stored.path.read_text(encoding="utf-8").replace(" -->", " | status: draft -->")
    stored.path.write_text(text, encoding="utf-8")
    assert memory.show(root, stored.record.id).record.extra["status"] == "draft"
    memory.retire(root, stored.record.id)
    assert "status: draft" in stored.path.read_text(encoding="utf-8")
    memory.restore(root, stored.record.id)
    assert memory.show(root, stored.record.id).record.extra["status"] == "draft"


def test_a_retired_knowledge_entry_is_not_offered_until_it_is_restored(root: Path) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis"]).stored
    knowledge_edit.retire(root, "Redis")
    assert 'status: "retired"' in stored.path.read_text(encoding="utf-8")
    assert knowledge.list_(root).entries == ()
    assert knowledge.match(root, "redis") == []
    assert knowledge.section(root, words="redis") == ""
    assert searching.search(root, Query("redis")).shown == ()
    assert knowledge.show(root, "Redis").record.status is Status.RETIRED
    knowledge_edit.restore(root, "Redis")
    assert "status" not in stored.path.read_text(encoding="utf-8")
    assert len(knowledge.match(root, "redis")) == 1


def test_knowledge_that_is_said_again_is_offered_again(root: Path) -> None:
    knowledge.add(root, "Redis", "It must run", ["redis"])
    knowledge_edit.retire(root, "Redis")
    again = knowledge.add(root, "Redis", "It must run", ["redis"])
    assert again.change is knowledge.Change.UPDATED
    assert again.stored.record.status is Status.ACCEPTED


def test_an_entry_is_corrected_where_it_stands_and_its_old_body_is_kept(root: Path) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis", "ci"]).stored
    done = knowledge_edit.edit(root, stored.record.id, title="Redis 7", text="It must be 7", tags=["redis"])
    assert done.stored.path == stored.path
    assert (done.stored.record.title, done.stored.record.tags) == ("Redis 7", ("redis",))
    assert done.replaced in knowledge.replaced_bodies(root).read_text(encoding="utf-8")
    assert knowledge_edit.edit(root, stored.record.id, text="It must be 7").change is knowledge.Change.UNCHANGED


@pytest.mark.parametrize(
    "edit",
    [
        lambda root: knowledge_edit.edit(root, "Redis", tags=[]),
        lambda root: knowledge_edit.edit(root, "Redis", text="  "),
        lambda root: knowledge_edit.edit(root, "Redis", text="ghp_q7Rk2mXc9Lw4Tz8VbN3eY6uHs1Jd5fPa0GiQ"),
        lambda root: knowledge_edit.edit(root, "Redis", title="ghp_q7Rk2mXc9Lw4Tz8VbN3eY6uHs1Jd5fPa0GiQ"),
        lambda root: knowledge_edit.edit(root, "Redis", title=" "),
        lambda root: knowledge_edit.edit(root, "Redis", text="it is zz-1234", patterns=["zz-[0-9]{4}"]),
    ],
)
def test_what_may_not_be_stored_is_refused(root: Path, edit: Callable[[Path], object]) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis"]).stored
    before = stored.path.read_bytes()
    with pytest.raises(Refused):
        edit(root)
    assert stored.path.read_bytes() == before
