"""Adversarial answers of an agent: nothing unverified is proposed, and what is dropped is counted.

The answers are in tests/golden/learn/answers.jsonl, each with what must be proposed and what is
dropped for which reason. They are about the sessions and memories in tests/support/learning.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from tests.support.learning import (
    ARCHIVED,
    DIGESTED,
    HEROKU,
    LINT,
    LINT_AGAIN,
    answers,
    make_project,
    text_of,
)

from ralph.core import paths
from ralph.core.errors import Unreadable
from ralph.core.record import Record, Status
from ralph.learning import inbox, insights, learn, learn_answer, propose, review
from ralph.learning.digest import shown_text
from ralph.learning.learn_answer import Dropped
from ralph.memory import reading
from ralph.privacy import injection, privacy

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "learn.json"
CASES = answers()
READABLE = [case for case in CASES if not case.get("unreadable")]

Case = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def by_id(case: Case) -> str:
    return str(case["id"])


def applied(root: Path, case: Case) -> learn_answer.VerifiedAnswer:
    return learn.apply_answer(root, text_of(case), DIGESTED)


def described(proposal: Record) -> Case:
    return {
        "operation": proposal.extra["operation"],
        "targets": list(propose.targets(proposal)),
        "text": proposal.text,
    }


def expected(case: Case) -> list[Case]:
    """What a case proposes. A text alone stands for a memory that is added."""
    proposals = []
    for wanted in case["proposed"]:
        if isinstance(wanted, str):
            wanted = {"operation": "add", "targets": [], "text": wanted}
        proposals.append(wanted)
    return proposals


def stored(root: Path) -> list[Record]:
    return [insight.record for insight in insights.list_(root)]


def test_there_are_at_least_a_hundred_answers_for_every_reason() -> None:
    reasons = {reason for case in CASES for reason in case["dropped"]}
    assert len(CASES) >= 100
    assert reasons == {*Dropped} - {Dropped.FORGOTTEN}


@pytest.mark.parametrize("case", READABLE, ids=by_id)
def test_an_answer_proposes_what_holds_and_counts_the_rest(root: Path, case: Case) -> None:
    verified = applied(root, case)
    assert [described(proposal) for proposal in verified.proposals] == expected(case)
    assert dict(verified.dropped) == case["dropped"]
    assert [described(record) for record in stored(root)] == expected(case)
    waiting = {item.id for item in inbox.items(root) if item.kind == inbox.PROPOSAL}
    assert waiting == {record.id for record in stored(root)}


@pytest.mark.parametrize("case", [case for case in CASES if case.get("unreadable")], ids=by_id)
def test_an_answer_that_cannot_be_read_changes_nothing(root: Path, case: Case) -> None:
    with pytest.raises(Unreadable):
        applied(root, case)
    assert not paths.proposals_file(root).exists()


@pytest.mark.parametrize("case", READABLE, ids=by_id)
def test_whatever_is_proposed_is_quoted_visible_and_harmless(root: Path, case: Case) -> None:
    for proposal in applied(root, case).proposals:
        quotes = proposal.extra["quotes"]
        assert isinstance(quotes, list)
        assert quotes
        for quote in quotes:
            assert quote["quote"] in shown_text(DIGESTED[quote["id"]])
        assert proposal.status is Status.PROPOSED
        assert len(proposal.tags) <= 6
        for text in (proposal.text, *proposal.tags):
            assert text.isprintable() or "\u200d" in text  # a joiner inside an emoji
            assert not privacy.find_secrets(text)
            assert not injection.looks_like_instructions(text)


@pytest.mark.parametrize("case", READABLE, ids=by_id)
def test_the_same_answer_proposes_nothing_twice(root: Path, case: Case) -> None:
    applied(root, case)
    before = paths.proposals_file(root).read_bytes() if expected(case) else b""
    again = applied(root, case)
    assert not again.proposals
    assert sum(again.dropped.values()) == sum(case["dropped"].values()) + len(expected(case))
    if before:
        assert paths.proposals_file(root).read_bytes() == before


def test_a_rejected_proposal_does_not_come_back(root: Path) -> None:
    case = next(case for case in CASES if case["id"] == "deletes and replaces the same memory")
    for proposal in applied(root, case).proposals:
        review.reject(root, proposal.id)
    assert not applied(root, case).proposals
    assert {record.status for record in stored(root)} == {insights.REJECTED}


def answer_with(**sections: object) -> str:
    return json.dumps(sections)


REDIS = "The billing worker needs REDIS_URL."
REDIS_IN_TESTS = (
    "The billing worker reads REDIS_URL at import time, so tests must set it in conftest.py before "
    "importing billing.worker."
)


@pytest.mark.parametrize("status", [Status.PROPOSED, insights.REJECTED])
def test_two_memories_about_one_subject_are_both_proposed(root: Path, status: Status) -> None:
    for text in (REDIS, REDIS_IN_TESTS):
        answer = answer_with(memories=[{"text": text, "evidence": [DEPLOY]}])
        (proposal,) = learn.apply_answer(root, answer, DIGESTED).proposals
        waiting = insights.list_(root, status=Status.PROPOSED)
        assert proposal.id in [insight.record.id for insight in waiting]
        if status is insights.REJECTED:
            review.reject(root, proposal.id)


DEPLOY = {"id": "obs-0b01", "quote": "Since Monday we deploy with make ship"}


@pytest.mark.parametrize(
    ("name", "current"),
    [
        ("supersedes a memory", {LINT, LINT_AGAIN}),
        ("merges two memories", {HEROKU}),
        ("merges in the words of one of them", {HEROKU, LINT}),
        ("deletes a memory", {LINT, LINT_AGAIN}),
    ],
)
def test_accepting_a_proposal_changes_the_memories_that_it_names(
    root: Path, name: str, current: set[str]
) -> None:
    case = next(case for case in CASES if case["id"] == name)
    (proposal,) = applied(root, case).proposals
    review.accept(root, proposal.id)
    entries = [entry.record for entry in reading.list_entries(root)]
    left = {record.id for record in reading.current_records(entries)}
    assert left & {HEROKU, LINT, LINT_AGAIN} == current
    assert not [item for item in inbox.items(root) if item.id == proposal.id]


def test_a_memory_that_came_from_a_proposal_can_be_deleted_and_replaced(root: Path) -> None:
    (added,) = applied(root, CASES[0]).proposals
    memory_id = review.accept(root, added.id).record.id
    text = added.text.replace("pnpm", "pnpm 9")
    verified = learn.apply_answer(
        root,
        answer_with(
            memories=[{"text": text, "evidence": [DEPLOY], "supersedes": [memory_id]}],
            deletions=[{"id": memory_id, "evidence": [DEPLOY]}],
        ),
        DIGESTED,
    )
    assert [proposal.extra["operation"] for proposal in verified.proposals] == [
        "supersede",
        "delete",
    ]
    waiting = insights.list_(root, status=Status.PROPOSED)
    assert [insight.record.id for insight in waiting] == [p.id for p in verified.proposals]


def test_an_archived_memory_may_be_learned_again(root: Path) -> None:
    text = "The API listens on port 8080 behind nginx."
    assert any(entry.record.id != ARCHIVED for entry in reading.list_entries(root))
    answer = answer_with(memories=[{"text": text, "evidence": [DEPLOY]}])
    (proposal,) = learn.apply_answer(root, answer, DIGESTED).proposals
    assert proposal.text == text


def test_a_quote_with_a_secret_of_the_users_own_is_dropped(root: Path) -> None:
    verified = learn.apply_answer(
        root,
        answer_with(memories=[{"text": "Deploys changed on Monday.", "evidence": [DEPLOY]}]),
        DIGESTED,
        patterns=("make ship",),
    )
    assert (verified.proposals, dict(verified.dropped)) == ((), {Dropped.SECRET: 1})


# --- the schema ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema() -> Any:
    loaded = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(loaded)
    return loaded


def test_every_answer_that_is_accepted_whole_follows_the_schema(schema: Any) -> None:
    validator = Draft202012Validator(schema)
    accepted = [case for case in READABLE if case["proposed"] and not case["dropped"]]
    assert len(accepted) > 30
    for case in accepted:
        answer = case["answer"]
        if isinstance(answer, str) or "memories" not in {*answer, "merges", "deletions"} & {
            *answer
        }:
            continue
        assert not list(validator.iter_errors(answer)), case["id"]


def test_an_answer_that_does_not_follow_the_schema_is_never_accepted_whole(schema: Any) -> None:
    validator = Draft202012Validator(schema)
    objects = [case for case in READABLE if isinstance(case["answer"], dict)]
    invalid = [case for case in objects if not validator.is_valid(case["answer"])]
    assert len(invalid) > 30
    assert [case["id"] for case in invalid if not case["dropped"]] == []


def test_the_schema_has_the_limits_of_the_code(schema: Any) -> None:
    sections = schema["properties"]
    assert {section["maxItems"] for section in sections.values()} == {learn_answer.MAX_ITEMS}
    definitions = schema["$defs"]
    assert definitions["text"]["maxLength"] == learn_answer.MAX_TEXT_CHARACTERS
    quote = definitions["evidence"]["items"]["properties"]["quote"]
    assert quote["maxLength"] == learn_answer.MAX_QUOTE_CHARACTERS
    assert f"at least {learn_answer.MIN_QUOTE_CHARACTERS} characters" in quote["description"]
