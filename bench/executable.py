"""Measure whether an injected decision fixes a bug: a scripted agent, real hooks and real pytest, three tasks.

`python bench/executable.py` runs it alone. Chats are recorded through hooks, and a bug report
is the prompt. If the agent finds the decision in its context, it writes the fix from it, values included; otherwise it
writes the obvious guess. The task's test checks for the decision, and pytest decides.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Better, Figure, show

from bench import delivery

SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class FixTask:
    """A bug report, the deciding chats, in order, and a module with its test.

    `decision` finds the decision in a text; `fix` is written with its groups, `guess` if it is not found.
    """

    name: str
    report: str
    chats: tuple[tuple[str, ...], ...]
    decision: str
    fix: str
    guess: str
    test: str


TASKS = (
    FixTask(
        "parts",
        "The ledger export loses the leading zeros of part numbers: 00042 arrives at the importer as 42. Mend it.",
        (
            (
                "The ledger export drops the leading zeros of part numbers; the importer is a spreadsheet.",
                "I could put an apostrophe before every part number in part_cell. That is the usual trick. Shall I?",
                "We tried the apostrophe last year: the importer keeps it as a character.",
                "Then quoting the field would be the next idea, but a spreadsheet strips the zeros all the same.",
                'Right. The importer only keeps the zeros of a text formula such as ="00042".',
                "Should every part number become a formula, or only those that begin with a zero?",
                "Only those that begin with a zero; the others are summed in column D.",
                'Settled: part_cell writes part numbers with leading zeros as the formula ="00042"; others stay as is.',
            ),
        ),
        r'leading zeros as the formula (?P<before>="?)\d+(?P<after>"?);',
        "def part_cell(number):\n    return {before!r} + number + {after!r} if number.startswith('0') else number\n",
        'def part_cell(number):\n    return "\'" + number\n',
        "from parts import part_cell\n\n\n"
        "def test_zeros():\n    assert part_cell('00042') == '=\"00042\"'\n    assert part_cell('42') == '42'\n",
    ),
    FixTask(
        "waits",
        "When the courier's interface is down, labels are lost: the label job gives up at once. Let waits() of waits "
        "return the seconds between its tries.",
        (
            (
                "The label job gives up when the courier's interface is down. How often should it try?",
                "Three tries are common, with a second between them. Shall waits() return that?",
                "A second is too short, they limit us. Wait longer, and double it.",
                "How about 10 seconds for the first wait, doubled each time, and 3 tries of the label job?",
                "Yes, take that for now.",
                "Settled: the label job makes 3 tries, the first wait is 10 seconds, and each wait is doubled.",
            ),
            (
                "We have to change the tries of the label job: the courier's interface was down for ten minutes again.",
                "It makes 3 tries and starts with 10 seconds. More tries, longer waits, or both?",
                "Both: they ask for at least half a minute between tries.",
                "Then 30 seconds for the first wait. With 5 tries the label job waits about 15 minutes in all.",
                "Good, 5 tries.",
                "Changed: the label job makes 5 tries, the first wait is 30 seconds, and each wait is doubled.",
            ),
        ),
        r"makes (?P<tries>\d+) tries, the first wait is (?P<first>\d+) seconds, and each wait is doubled",
        "def waits():\n    return [{first} * 2**number for number in range({tries})]\n",
        "def waits():\n    return [1, 1, 1]\n",
        "from waits import waits\n\n\ndef test_waits():\n    assert waits() == [30, 60, 120, 240, 480]\n",
    ),
    FixTask(
        "fees",
        "Marketplace fees are wrong: a seller with a sale of 8.00 paid no fee, and one was charged a fee for a refund. "
        "Fix fee(cents) in fees.py.",
        (
            (
                "Let us settle the marketplace fee of sellers; fee(cents) in fees.py returns 0 today.",
                "Most marketplaces take 5 % of a sale. Shall I start with that?",
                "No, sales promised the sellers 2.5 %.",
                "On small sales that is less than what the card costs us. Is there a smallest fee?",
                "Yes, but not the 30 cents of the card. The smallest fee is 50 cents.",
                "And a refund, where cents is negative?",
                "No fee for refunds, and never a fee back either.",
                "Half cents: round them up, or to the even cent?",
                "Always down, the seller gets the half cent.",
                "Settled: the seller fee is 2.5 % of a sale, rounded down, at least 50 cents; refunds cost nothing.",
            ),
        ),
        r"fee is (?P<percent>[\d.]+) % of a sale, rounded down, at least (?P<least>\d+) cents; refunds cost nothing",
        "def fee(cents):\n    return max({least}, int(cents * {percent} / 100)) if cents > 0 else 0\n",
        "def fee(cents):\n    return round(cents * 0.05)\n",
        "from fees import fee\n\n\n"
        "def test_fee():\n    assert [fee(c) for c in (800, 10_000, 10_030, -500)] == [50, 250, 250, 0]\n",
    ),
)
OTHERS = (
    (
        "The label printer cuts off the last line of long addresses.",
        "The label has room for 5 lines of 35 characters. I could join the street and the floor.",
        "Join them, but never cut the postcode.",
        "Done: the street and the floor share a line, and the postcode is never cut.",
    ),
    (
        "The importer of the stock list is slow with 40,000 parts.",
        "It commits after each part. One commit for 1,000 parts takes 9 seconds in place of 6 minutes.",
        "Do that, and print the count at the end.",
        "Done: the importer commits every 1,000 parts and prints the count.",
    ),
    (
        "Sellers want to see their sales of the last month as a chart.",
        "The page has no chart yet. A bar for each day is simple.",
        "A bar for each week is enough.",
        "Done: the sales page shows a bar for each week.",
    ),
    (
        "Which colour has the button on the landing page?",
        "Teal since the redesign; the token is button.primary.",
        "Make it green on the checkout page only.",
        "Done: the checkout page has a token of its own, button.pay.",
    ),
)


def record_all(tasks: Sequence[FixTask]) -> dict[str, delivery.Chat]:
    """Return the chats of all tasks and the others by name; a chat that amends another comes after it."""
    turns = {
        f"{task.name}-{number}": chat
        for number in range(2)
        for task in tasks
        for chat in task.chats[number : number + 1]
    }
    turns |= {f"other-{number}": chat for number, chat in enumerate(OTHERS)}
    return {
        name: [("assistant" if at % 2 else "user", text) for at, text in enumerate(chat)]
        for name, chat in turns.items()
    }


def write_fix(task: FixTask, prompt: str) -> str:
    """Return the module as the agent writes it: from the first decision in its prompt, or as a guess."""
    match = re.search(task.decision, prompt)
    return task.fix.format(**match.groupdict()) if match else task.guess


def passes(task: FixTask, module: str) -> bool:
    """Whether the task's test passes with a module; pytest runs in a separate process."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
        Path(folder, f"{task.name}.py").write_text(module, encoding="utf-8")
        Path(folder, f"test_{task.name}.py").write_text(task.test, encoding="utf-8")
        argv = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            folder,
        ]
        ended = subprocess.run(argv, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
    return ended.returncode == 0


def measure(tasks: Sequence[FixTask] = TASKS) -> dict[str, int]:
    """Return the number of tasks whose test passes, for each arm."""
    chats = record_all(tasks)
    names = {task: [name for name in chats if name.startswith(f"{task.name}-")] for task in tasks}
    passed = {}

    def count(arm: delivery.Arm) -> int:
        given = {task: f"{task.report}\n\n{arm(task.report, names[task])}" for task in tasks}
        return sum(passes(task, write_fix(task, prompt)) for task, prompt in given.items())

    for name, arm in delivery.other_arms(chats):
        if "right" not in name:
            passed[name] = count(arm)
    with delivery.recorded(chats) as hooks:
        passed |= {name: count(arm) for name, arm in hooks.items()}
    return passed


def figures(passed: Mapping[str, int] | None = None, tasks: int = len(TASKS)) -> list[Figure]:
    """Return the share of the bugs that are fixed with the decision, and without any memory."""
    if passed is None:
        passed = measure()
    with_ralph = passed[delivery.RALPH] / tasks
    without = passed["no memory"] / tasks
    return [
        Figure(f"{tasks} bugs fixed with Ralph", with_ralph, "%", target=1, better=Better.HIGHER),
        Figure(f"{tasks} bugs fixed without memory", without, "%", target=0),
    ]


if __name__ == "__main__":
    sys.exit(show("Decisions that fix a bug", figures()))
