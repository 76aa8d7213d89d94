"""One record with all that is known of it."""

from pathlib import Path

import pytest
from tests.web import sample

from ralph.app import index, memory, project
from ralph.app.pages import detail
from ralph.app.pages.detail import Action
from ralph.errors import NotFound
from ralph.store.sources import Format


@pytest.fixture(scope="module")
def shop() -> Path:
    return sample.shared().root


def test_a_record_is_shown_with_its_place_and_its_layers(shop: Path) -> None:
    found = detail.record_page(shop, "know-how-checkout-works")
    assert (found.form, found.row.source) == (Format.KNOWLEDGE, ".ralph/knowledge/how-checkout-works.md")
    assert found.line.tokens <= 20
    assert found.row.record.text in found.full.text
    assert found.row.record.id in found.moment.text
    assert {relation for relation, _, _ in found.links} == {"links_to"}


def test_every_record_can_be_shown_and_says_what_can_be_done(shop: Path) -> None:
    from ralph.app.pages.explore import Explorer, ListRequest

    for row in Explorer(shop).page(ListRequest(limit=500)).rows:
        found = detail.record_page(shop, row.record.id)
        assert found.row.record.id == row.record.id
        assert Action.PROMOTE in found.actions
        edits = Action.EDIT in found.actions
        assert edits == (found.form in (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE))


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no record"):
        detail.record_page(tmp_path, "mem-1-none")


def test_it_works_where_no_index_can_be_written(tmp_path: Path) -> None:
    project.init(tmp_path)
    one = memory.add(tmp_path, "Redis must run").stored.record.id
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    (tmp_path / ".ralph").rename(elsewhere)
    (tmp_path / ".ralph").symlink_to(elsewhere)
    assert index.outside(tmp_path) is not None
    found = detail.record_page(tmp_path, one)
    assert (found.form, found.row.record.text) == (Format.MEMORIES, "Redis must run")
