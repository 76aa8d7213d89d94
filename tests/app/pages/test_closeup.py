"""One task and one session from near, on a real project and on one that has little."""

from pathlib import Path

import pytest
from tests.app.chatting import answers, place
from tests.web import sample

from ralph.app.chat_log import Mode
from ralph.app.pages import detail
from ralph.app.tasks import task
from ralph.errors import NotFound


class TestTask:
    def test_one_that_was_only_added_has_nothing_around_it(self, tmp_path: Path) -> None:
        name = task.add(tmp_path, "alone", "It has *words*.").task.id
        seen = detail.task_page(tmp_path, name)
        assert (seen.row.title, seen.description) == ("alone", "It has *words*.")
        assert (seen.stories, seen.sessions, seen.runs, seen.children, seen.progress) == ((), (), (), (), "")
        assert [(step.before, step.after) for step in seen.steps] == [("", "added")]

    def test_states_and_iterations_are_told_in_order(self) -> None:
        here = sample.shared()
        seen = detail.task_page(here.root, here.tasks["rounding"])
        told = [(step.before, step.after) for step in seen.steps]
        assert told[0] == ("", "added")
        assert ("", "iteration 1: blocked") in told
        assert told[-1] == ("in_progress", "done")
        assert {step.by for step in seen.steps} == {"", here.runs[0]}

    def test_progress_is_shown_without_marks_and_with_its_fields_apart(self) -> None:
        told = "## 2026 - t-1\nThread: ralph://session/a\n[//]: # (ralph: jrn-run-1-1)\nOutcome: done\n- [//] stays\n"
        shown = "## 2026 - t-1\nThread: ralph://session/a  \nOutcome: done  \n- [//] stays\n"
        assert detail.readable_progress(told) == shown

    def test_a_chat_belongs_to_its_task(self, tmp_path: Path) -> None:
        here = place(tmp_path / "shop")
        said = here.new("How?", *answers("So."), mode=Mode.PLAN)
        seen = detail.task_page(here.root, here.task)
        assert [(row.id, row.mode, row.messages) for row in seen.sessions] == [(said.chat.id, "plan", 2)]


class TestSession:
    def test_a_chat_is_told_turn_by_turn(self, tmp_path: Path) -> None:
        here = place(tmp_path / "shop")
        said = here.new("How?", *answers("So."))
        seen = detail.session_page(here.root, said.chat.id)
        assert [(turn.by.value, turn.text) for turn in seen.turns] == [("user", "How?"), ("assistant", "So.")]
        assert (seen.total, len(seen.happened)) == (2, 2)
        assert seen.handed == ()

    def test_the_beginning_of_an_id_is_enough(self) -> None:
        here = sample.shared()
        name = here.sessions[0]
        assert detail.session_page(here.root, name).row.id == name
        with pytest.raises(NotFound):
            detail.session_page(here.root, "")

    def test_pages_of_what_happened_do_not_overlap(self) -> None:
        here = sample.shared()
        whole, total = detail.session_timeline(here.root, here.sessions[3])
        parts = [
            detail.session_timeline(here.root, here.sessions[3], offset=at, limit=7)[0] for at in range(0, total, 7)
        ]
        assert [row.record.id for part in parts for row in part] == [row.record.id for row in whole]
        assert all(row.source.startswith("log/sessions/") and row.tokens for row in whole)

    def test_what_was_handed_over_is_named_also_when_it_is_a_session(self) -> None:
        here = sample.shared()
        seen = detail.session_page(here.root, here.sessions[-1])
        titles = {each.id: each.title for each in seen.handed}
        assert titles[here.sessions[3]].startswith("Goal: ")
        assert titles[here.memories["main"]].startswith("Never push to main")
