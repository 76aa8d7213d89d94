"""A bug is mended when the decision is in the agent's prompt, and only then; pytest judges."""

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


def test_a_bar_that_does_not_hold_is_broken() -> None:
    assert executable.report({"no memory": 0, "ralph": 3}, 3)[-1].endswith("3 of 3 ok")
    assert executable.report({"no memory": 0, "ralph": 2}, 3)[-1].endswith("BROKEN")
    assert executable.report({"no memory": 1, "ralph": 3}, 3)[-1].endswith("BROKEN")
