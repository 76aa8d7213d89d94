"""The redaction rules, judged by a corpus that was written without seeing them."""

import pytest
from tests.support.privacy_corpus import cases

from ralph.privacy.privacy import find_secrets, redact

RECALL, FALSE_POSITIVES = 0.95, 0.01


def test_the_corpus_is_large_enough_to_judge() -> None:
    assert len(cases("secrets.json")) >= 60
    assert len(cases("lookalikes.json")) >= 200


def test_at_least_95_percent_of_true_secrets_are_gone() -> None:
    missed = []
    everything = cases("secrets.json")
    for case in everything:
        text, secret = "".join(case["parts"]), "".join(case["secret_parts"])
        assert secret in text
        if secret in redact(text).text:
            missed.append(str(case["id"]))
    assert len(missed) <= (1 - RECALL) * len(everything), missed


def test_at_most_one_percent_of_look_alikes_are_touched() -> None:
    touched = []
    everything = cases("lookalikes.json")
    for case in everything:
        text = str(case["text"])
        if find_secrets(text) or redact(text).text != text:
            touched.append(str(case["id"]))
    assert len(touched) <= FALSE_POSITIVES * len(everything), touched


@pytest.mark.parametrize("name", ["secrets.json", "lookalikes.json"])
def test_redacting_twice_changes_nothing_more(name: str) -> None:
    for case in cases(name):
        once = redact("".join(case["parts"]) if "parts" in case else str(case["text"])).text
        assert redact(once).text == once, case["id"]
