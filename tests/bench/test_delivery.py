"""The delivery benchmark counts clauses of decisions in what the real prompt hook injects."""

import json
from pathlib import Path

import pytest

from bench import delivery
from ralph.core.errors import Unreadable

TALK = [
    {"role": "user", "text": "The exporter loses the leading zeros of part numbers in the ledger."},
    {"role": "assistant", "text": "The exporter could quote every field of the ledger. Shall I?"},
    {"role": "user", "text": "No: write leading zeros as a text formula."},
    {"role": "assistant", "text": "Done: the exporter writes leading zeros as a text formula."},
]
AMENDED = [
    {
        "role": "user",
        "text": "Amendment: the exporter of part numbers with leading zeros shall pad to nine digits.",
    },
    {
        "role": "assistant",
        "text": "Amended: the exporter pads part numbers to nine digits in the ledger.",
    },
]
OTHER = [
    {"role": "user", "text": "Which colour has the button?"},
    {"role": "assistant", "text": "The button is teal since the redesign of the landing page."},
]
PROMPT = "The exporter drops the leading zeros of part numbers in the ledger again"
DATA = {
    "tasks": [
        {
            "task_id": "zeros",
            "bug_report": PROMPT,
            "policy": "leading zeros as a text formula; pads to nine digits",
            "conversations": [TALK, AMENDED],
        }
    ],
    "decoys": [{"id": f"decoy-{number}", "turns": OTHER} for number in range(3)],
}


def test_arms_are_compared_by_what_they_deliver() -> None:
    chats, decisions = delivery.load(DATA)
    assert [*chats].index("zeros-0") < [*chats].index("zeros-1")
    (project,) = delivery.split_projects(chats, decisions)
    measured = delivery.measure(project, ["Draw a picture of a whale"])
    nothing, whole, ralph = (
        measured["no memory"],
        measured[delivery.BOUND],
        measured["ralph"],
    )
    assert (nothing.clauses, nothing.tokens, nothing.no_passage) == (0, 0, 1)
    assert (whole.reached, whole.clauses, whole.whole, whole.amended) == (1, 1, 1, 1)
    assert (ralph.reached, ralph.no_passage, ralph.nothing_with_paste) == (1, 1, 1)
    assert ralph.tokens > 0
    for name in ("ralph, compacted", "ralph, own chat compacted"):
        assert (measured[name].reached, measured[name].clauses, measured[name].nothing) == (
            1,
            ralph.clauses,
            None,
        )
    lines = "\n".join(delivery.report(project, measured))
    assert "amended decisions: newest rule" in lines
    assert PROMPT not in lines


def test_a_pointer_is_not_a_passage() -> None:
    frame = "[ralph] Reference from earlier work in this project.\n```\n{}\n```\n"
    assert delivery.has_passage(
        frame.format("- [obs-1-a] 2026-11-02, turns of an earlier session:")
    )
    assert not delivery.has_passage(frame.format("- Nov 2: CSV: pads to nine digits [obs-a]"))
    assert not delivery.has_passage("")


def test_only_sentences_of_the_right_chats_count() -> None:
    chats, (decision,) = delivery.load(DATA)
    source = delivery.SentenceSource(chats)
    chance = delivery.judge(
        "Leading zeros as a text formula, pads to nine digits, it says.", decision, chats, source
    )
    assert (chance.reached, chance.clauses, chance.newest) == (False, (False, False), False)
    old = delivery.judge(f"- [obs-1] user: {TALK[2]['text']}", decision, chats, source)
    assert (old.reached, old.first, old.clauses, old.newest) == (True, True, (True, False), False)
    new = delivery.judge(f"{OTHER[1]['text']}\n{AMENDED[1]['text']}", decision, chats, source)
    assert (new.reached, new.first, new.clauses, new.newest) == (True, False, (False, True), True)


def test_a_missing_or_broken_data_set_is_reported(tmp_path: Path) -> None:
    assert delivery.run(tmp_path) == [f"delivery: no data set at {tmp_path / delivery.FILE}"]
    (tmp_path / "decisions").mkdir()
    (tmp_path / delivery.FILE).write_text(json.dumps({"tasks": [{"task_id": 1}]}), encoding="utf-8")
    with pytest.raises(Unreadable, match="decisions: `task_id` should be text"):
        delivery.run(tmp_path)


def test_the_control_has_a_hundred_different_prompts() -> None:
    prompts = delivery.UNRELATED.read_text(encoding="utf-8").splitlines()
    assert len({*prompts}) == len(prompts) == 100


def test_the_korean_set_has_every_clause_in_its_chats() -> None:
    chats, decisions = delivery.load(
        json.loads((delivery.KOREAN / delivery.FILE).read_text(encoding="utf-8"))
    )
    source = delivery.SentenceSource(chats)
    assert len(decisions) == 6
    for decision in decisions:
        assert 10 <= len(chats[decision.chats[0]]) <= 15
        whole = "\n".join(text for name in decision.chats for _, text in chats[name])
        assert all(delivery.judge(whole, decision, chats, source).clauses)
    assert len((delivery.KOREAN / delivery.CONTROL).read_text(encoding="utf-8").splitlines()) == 20


@pytest.mark.parametrize("folder", [delivery.AMENDED, delivery.AMENDED_CHECK], ids=["dev", "check"])
def test_the_own_amended_decisions_are_complete_in_their_chats(folder: Path) -> None:
    chats, decisions = delivery.load(
        json.loads((folder / delivery.FILE).read_text(encoding="utf-8"))
    )
    source = delivery.SentenceSource(chats)
    plain, amended = delivery.split_projects(chats, decisions)
    assert (len(plain.decisions), len(amended.decisions)) == (2, 7)
    assert set(plain.chats) & set(amended.chats) == {
        name for name in chats if name.startswith("other-")
    }
    for decision in decisions:
        whole = "\n".join(text for name in decision.chats for _, text in chats[name])
        delivered = delivery.judge(whole, decision, chats, source)
        assert all(delivered.clauses)
        assert delivered.newest is not False


def test_the_prompt_hook_delivers_the_newest_rule_of_the_own_amended_decisions() -> None:
    loaded = delivery.load(
        json.loads((delivery.AMENDED / delivery.FILE).read_text(encoding="utf-8"))
    )
    _, amended = delivery.split_projects(*loaded)
    source = delivery.SentenceSource(amended.chats)
    with delivery.recorded(amended.chats) as hooks:
        delivered = [
            delivery.judge(hooks[delivery.RALPH](each.prompt, ()), each, amended.chats, source)
            for each in amended.decisions
        ]
    measured = delivery.figures(delivered)
    assert measured.amended is not None
    assert measured.amended >= delivery.MIN_NEWEST
    assert measured.clauses >= delivery.MIN_SHARE_OF_BOUND
    assert measured.tokens <= delivery.MAX_TOKENS


def test_the_prompt_hook_delivers_the_same_after_a_compaction() -> None:
    loaded = delivery.load(
        json.loads((delivery.KOREAN / delivery.FILE).read_text(encoding="utf-8"))
    )
    plain, _ = delivery.split_projects(*loaded)
    source = delivery.SentenceSource(plain.chats)

    def clauses(arm: delivery.Arm) -> list[tuple[bool, ...]]:
        return [
            delivery.judge(arm(each.prompt, each.chats), each, plain.chats, source).clauses
            for each in plain.decisions
        ]

    with delivery.recorded(plain.chats) as hooks:
        assert clauses(hooks[delivery.RALPH]) == clauses(hooks[delivery.COMPACTED])
