"""The benchmark of agents builds tasks, records chats, runs an agent, and lets pytest decide."""

import json
from pathlib import Path

import pytest

from bench import agents

DECISION = (
    "Settled: shipping_cost rounds the weight up to full kilograms and charges 3 euros for each."
)
CHAT = [
    {"role": "user", "text": "How should shipping_cost treat a parcel of 1.2 kilograms?"},
    {"role": "assistant", "text": "I could charge the exact weight, or round to the nearest."},
    {"role": "user", "text": "The carrier bills full kilograms, so round up. 3 euros for each."},
    {"role": "assistant", "text": DECISION},
]
DECOY = [
    {"role": "user", "text": "Please rename the template folder."},
    {"role": "assistant", "text": "The folder is called pages now, and all imports are updated."},
]
REPORT = "The invoice of a parcel of 1.2 kilograms has the wrong shipping_cost. Please correct it."
RIGHT = "import math\n\n\ndef shipping_cost(weight):\n    return 3 * math.ceil(weight)\n"
GUESS = "def shipping_cost(weight):\n    return 3 * round(weight + 0.3)\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one task. The obvious guess passes all tests but the hidden one."""
    data = tmp_path / "data"
    task = data / "shipping"
    repository = task / "repository"
    (repository / "tests").mkdir(parents=True)
    (repository / "shop.py").write_text("def shipping_cost(weight):\n    return 3\n", "utf-8")
    (repository / "tests" / "test_small.py").write_text(
        "from shop import shipping_cost\n\n\ndef test_one():\n    assert shipping_cost(1) == 3\n",
        "utf-8",
    )
    main = task / "tasks" / "main"
    main.mkdir(parents=True)
    (main / "regression_test.py").write_text(
        "from shop import shipping_cost\n\n\ndef test_it():\n    assert shipping_cost(1.2) == 6\n",
        "utf-8",
    )
    (main / "hidden_test.py").write_text(
        "from shop import shipping_cost\n\n\ndef test_all():\n    assert shipping_cost(2.1) == 9\n",
        "utf-8",
    )
    members = {
        "bug_report": REPORT,
        "conversations": CHAT,
        "fail_to_pass": ["tests/test_regression.py"],
        "pass_to_pass": ["tests/test_small.py"],
        "hidden_to_pass": ["tests/test_hidden.py"],
        "regression_test_file": "regression_test.py",
        "hidden_test_file": "hidden_test.py",
    }
    (main / "task.json").write_text(json.dumps(members), "utf-8")
    decoys = data / agents.DECOYS
    decoys.parent.mkdir()
    decoys.write_text(json.dumps([{"id": "d1", "turns": DECOY}]), "utf-8")
    return data


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """An agent that rounds up if it knows the decision, and guesses otherwise."""
    steps = [
        {"when": "full kilograms", "write": {"shop.py": RIGHT}, "say": "done"},
        {"write": {"shop.py": GUESS}, "say": "done"},
    ]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(steps), "utf-8")
    return path


def test_a_task_is_solved_only_with_the_decision_in_the_prompt(
    data: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agents.main([str(data), "--agent", "scripted", "--script", str(script)]) == 0
    printed = capsys.readouterr().out
    rows = [line.replace("|", " ").split() for line in printed.splitlines()]
    solved = {row[0]: row[2] for row in rows if row and row[0] in agents.ARMS}
    assert solved == {"nothing": "0", "fts5": "1", "hook": "1", "installed": "1"}
    assert "not solved with nothing: shipping" in printed


def test_changes_to_tests_do_not_count(data: Path, tmp_path: Path) -> None:
    (task,) = agents.read_tasks(data)
    worked = tmp_path / "worked"
    agents.build_repository(task, worked)
    for test in ("tests/test_regression.py", "tests/test_small.py"):
        (worked / test).write_text("def test_nothing():\n    pass\n", "utf-8")
    assert not agents.is_solved(task, worked)
    (worked / "shop.py").write_text(RIGHT, "utf-8")
    assert agents.is_solved(task, worked)


def test_an_amendment_is_recorded_after_what_it_amends(data: Path) -> None:
    (task,) = agents.read_tasks(data)
    later = [("user", "Later: 4 euros for each kilogram.")]
    amended = agents.AgentTask(
        task.name,
        task.folder,
        task.report,
        (*task.chats, later),
        task.tests,
        task.hidden,
        task.graded,
    )
    decoys = [[("user", f"Something else, number {number}.")] for number in range(20)]
    ordered = agents.order_chats(amended, decoys)
    assert len(ordered) == 22
    assert ordered.index(task.chats[0]) < ordered.index(later)
    assert ordered == agents.order_chats(amended, decoys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--tasks", "absent"], "no task named 'absent'", id="no such task"),
        pytest.param(["--arms", "hok"], "there is no arm 'hok'", id="no such arm"),
        pytest.param(["--agent", "robot"], "Agent not found: robot", id="no such agent"),
        pytest.param(["--agent", "scripted"], "needs a script", id="no script"),
    ],
)
def test_wrong_arguments_are_explained(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert agents.main([str(data), *arguments]) == 1
    assert message in capsys.readouterr().err
