"""Every case that once went wrong, and the rules and judges that need it."""

import json

from tests.support.cases import for_each
from tests.support.privacy_corpus import GoldenCase, golden_cases
from tests.support.rule_proofs import NEEDED, Switch, outcome, switched_off, switches, texts

from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.privacy import redact

PROOFS: dict[str, str] = json.loads(NEEDED.read_text(encoding="utf-8"))
TEXTS = texts()


@for_each("case", golden_cases())
def test_a_case_loses_its_secrets_and_nothing_else(case: GoldenCase) -> None:
    assert redact(case.text).text == case.redacted
    assert needs_rules(case.text) or not case.secrets


def test_every_rule_and_judge_names_a_case() -> None:
    assert {switch.name for switch in switches()} == set(PROOFS)


@for_each("switch", switches())
def test_without_a_rule_or_judge_the_case_that_it_names_goes_wrong(switch: Switch) -> None:
    text = TEXTS[PROOFS[switch.name]]
    before = outcome(text)
    with switched_off(switch):
        assert outcome(text) != before
