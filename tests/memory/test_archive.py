"""An archived entry stays in its file and is hidden from searches, listings and agents."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.errors import NotFound, Refused
from ralph.core.record import Query, Status
from ralph.install import project
from ralph.memory import knowledge, memory, priming, reading
from ralph.memory.author import WriteContext
from ralph.recall import search as searching


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project.init(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["memories", "guardrails"])
def test_an_archived_entry_stays_in_its_file_and_is_hidden_until_it_is_unarchived(
    root: Path, name: str
) -> None:
    stored = memory.add(root, "Redis must run", tags=["redis"], in_=name).stored
    before = stored.path.read_text(encoding="utf-8")
    done = memory.archive(root, stored.record.id)
    assert (done.changed, done.stored.record.status) == (True, Status.RETIRED)
    assert " status=retired -->" in stored.path.read_text(encoding="utf-8")
    assert reading.list_entries(root, in_=[name]) == []
    assert priming.prime(root, in_=[name]).text == ""
    assert searching.search(root, Query("redis")).shown == ()
    assert reading.get_entry(root, stored.record.id).record.text == "Redis must run"
    assert not memory.archive(root, stored.record.id).changed
    back = memory.unarchive(root, stored.record.id)
    assert (back.changed, back.stored.record.status) == (True, Status.ACCEPTED)
    assert [each.record.id for each in reading.list_entries(root, in_=[name])] == [stored.record.id]
    after = stored.path.read_text(encoding="utf-8")
    assert after.replace(f" updated={back.stored.record.updated_at} -->", " -->") == before
    assert not memory.unarchive(root, stored.record.id).changed
    with pytest.raises(NotFound):
        memory.archive(root, "mem-1-none")


def test_somebody_s_own_status_stays_theirs(root: Path) -> None:
    stored = memory.add(root, "Redis must run").stored
    text = stored.path.read_text(encoding="utf-8").replace(" -->", " | status: draft -->")
    stored.path.write_text(text, encoding="utf-8")
    assert reading.get_entry(root, stored.record.id).record.extra["status"] == "draft"
    memory.archive(root, stored.record.id)
    assert "status: draft" in stored.path.read_text(encoding="utf-8")
    memory.unarchive(root, stored.record.id)
    assert reading.get_entry(root, stored.record.id).record.extra["status"] == "draft"


def test_an_archived_knowledge_entry_is_hidden_until_it_is_unarchived(root: Path) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis"]).stored
    memory.archive(root, "Redis")
    assert 'status: "retired"' in stored.path.read_text(encoding="utf-8")
    assert reading.list_entries(root, in_=("knowledge",)) == []
    assert knowledge.match(root, "redis") == []
    assert knowledge.section(root, "redis") == ""
    assert searching.search(root, Query("redis")).shown == ()
    assert reading.get_entry(root, "Redis").record.status is Status.RETIRED
    memory.unarchive(root, "Redis")
    assert "status" not in stored.path.read_text(encoding="utf-8")
    assert len(knowledge.match(root, "redis")) == 1


def test_archived_knowledge_that_is_added_again_is_in_use_again(root: Path) -> None:
    knowledge.add(root, "Redis", "It must run", ["redis"])
    memory.archive(root, "Redis")
    again = knowledge.add(root, "Redis", "It must run", ["redis"])
    assert again.change is memory.Change.UPDATED
    assert again.stored.record.status is Status.ACCEPTED


def test_an_entry_is_corrected_where_it_stands_and_its_old_body_is_kept(root: Path) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis", "ci"]).stored
    done = memory.edit(root, stored.record.id, title="Redis 7", text="It must be 7", tags=["redis"])
    assert done.stored.path == stored.path
    assert (done.stored.record.title, done.stored.record.tags) == ("Redis 7", ("redis",))
    assert done.replaced in reading.replaced_bodies_log(root).read_text(encoding="utf-8")
    assert (
        memory.edit(root, stored.record.id, text="It must be 7").change is memory.Change.UNCHANGED
    )


@pytest.mark.parametrize(
    "edit",
    [
        lambda root: memory.edit(root, "Redis", tags=[]),
        lambda root: memory.edit(root, "Redis", text="  "),
        lambda root: memory.edit(root, "Redis", text="ghp_q7Rk2mXc9Lw4Tz8VbN3eY6uHs1Jd5fPa0GiQ"),
        lambda root: memory.edit(root, "Redis", title="ghp_q7Rk2mXc9Lw4Tz8VbN3eY6uHs1Jd5fPa0GiQ"),
        lambda root: memory.edit(root, "Redis", title=" "),
        lambda root: memory.edit(
            root, "Redis", text="it is zz-1234", context=WriteContext(patterns=["zz-[0-9]{4}"])
        ),
    ],
)
def test_what_may_not_be_stored_is_refused(root: Path, edit: Callable[[Path], object]) -> None:
    stored = knowledge.add(root, "Redis", "It must run", ["redis"]).stored
    before = stored.path.read_bytes()
    with pytest.raises(Refused):
        edit(root)
    assert stored.path.read_bytes() == before
