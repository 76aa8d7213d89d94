"""Three logs of hundreds of situations, four fifths of them noise, each made by somebody who had not seen the rules.

What the rules made of each when they first met it: of the first log they kept 177 of 204 planted insights (87%), and
10 of the 85 that they promoted were junk (12%); of the second they kept 68.4%, and 9.2% was junk; of the third they
kept 128 of 132 (97.0%), and 15 of 91 were junk (16.5%). So none of the three met both bars (90% and 5%) blind. Rules
were mended after each, most with cases of their own in `situations.py` or `test_statements.py`.

What is asserted here is therefore no longer blind. The first two logs were read while rules were mended, and
thresholds were chosen on them. Of the third, five tasks of ten were read; of the other five nobody looked at a line,
but their counts were printed after each change, so they are a test of the rules and not a fair first sight. In the
half that was read 67 of 67 were then kept and 0 of 43 promoted were junk, in the other 64 of 65 and 3 of 43 (7%;
before it was 7 of 47), and of what is proposed there a quarter is still junk. The floors are near what is reached:
rules may get better and must not get worse.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.capture.noisy_log import GOLDEN, measured


@dataclass(frozen=True, slots=True)
class Frozen:
    """A log with the sums of its files, and the shares that must be reached in it."""

    name: str
    expected: str
    sessions: str
    junk_proposed: float

    @property
    def folder(self) -> Path:
        """Where it is."""
        return GOLDEN / self.name


LOGS = (
    Frozen(
        "noisy_log",
        "e47c8f73a224e27e06dd8a45c44a8a4c8f74fe0917ed448ec9819b5ba7def4db",
        "e5fffe2090b113840167c1e89528c874073eb75c784a020430e7ef8bab7a2395",
        0.03,
    ),
    Frozen(
        "noisy_log_two",
        "a2289dd5bf32d50a6ec844fe185f3f8cd609cea43d94e7c0977f8eb5a967c209",
        "53575b945f353072ecc397d0e23d97b20117c6c674214ab9875e641bf18ed472",
        0.06,
    ),
    Frozen(
        "noisy_log_three",
        "2bde53e3902a2742afca967a1d4c3db8276753d056d364f231b55ca69dfb165e",
        "442d2f4239eeba141e02ae3b6ff5a99202c367e0ab232f6ef59bf5944a5e0976",
        0.16,
    ),
)
each_log = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)


@each_log
def test_the_log_is_the_one_that_was_frozen(log: Frozen) -> None:
    sessions = b"".join(path.read_bytes() for path in sorted((log.folder / "sessions").glob("s-*.jsonl")))
    assert hashlib.sha256(sessions).hexdigest() == log.sessions
    assert hashlib.sha256((log.folder / "expected.json").read_bytes()).hexdigest() == log.expected


@each_log
def test_nine_of_ten_planted_insights_are_kept(log: Frozen) -> None:
    found = measured(log.folder)
    assert found.share_kept >= 0.97, sorted({each.id for each in found.planted} - found.kept)


@each_log
def test_hardly_anything_that_is_promoted_is_junk(log: Frozen) -> None:
    found = measured(log.folder)
    assert found.share_junk <= 0.04, [each.text for each in found.junk_promoted]
    assert found.share_noise <= 0.01


@each_log
def test_most_of_what_is_well_evidenced_is_promoted(log: Frozen) -> None:
    found = measured(log.folder)
    strong = {each.id for each in found.planted if each.strong}
    assert len(strong & found.kept_strong) / len(strong) >= 0.92, sorted(strong - found.kept_strong)


@each_log
def test_what_is_proposed_is_mostly_worth_looking_at(log: Frozen) -> None:
    found = measured(log.folder)
    share = len(found.junk_proposed) / len(found.proposed)
    assert share <= log.junk_proposed, [each.text for each in found.junk_proposed]
