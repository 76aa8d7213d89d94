"""A bug is mended when the decision is in the agent's prompt, and only then; pytest judges."""

import pytest

from bench import delivery, executable

WAITS = next(task for task in executable.TASKS if task.name == "waits")


def test_the_agent_fixes_an_amended_task_by_what_hooks_inject() -> None:
    chats = executable.record_all(executable.TASKS)
    with delivery.recorded(chats) as hooks:
        injected = hooks[delivery.RALPH](WAITS.report, ())
    assert executable.passes(WAITS, executable.write_fix(WAITS, f"{WAITS.report}\n{injected}"))
    assert not executable.passes(WAITS, executable.write_fix(WAITS, WAITS.report))
    older = WAITS.chats[0][-1]
    assert not executable.passes(WAITS, executable.write_fix(WAITS, older))


@pytest.mark.parametrize(
    ("without_memory", "with_ralph", "is_met"),
    [
        pytest.param(0, 3, True, id="only with Ralph"),
        pytest.param(0, 2, False, id="not all of them"),
        pytest.param(1, 3, False, id="one without memory"),
    ],
)
def test_all_bugs_must_be_fixed_with_ralph_and_none_without_memory(
    without_memory: int, with_ralph: int, is_met: bool
) -> None:
    passed = {"no memory": without_memory, "ralph": with_ralph}
    assert all(figure.is_met for figure in executable.figures(passed, 3)) is is_met
