"""Distil memories with an agent: for `ralph learn`, and at the end of a run (`learning.loop`).

`learning/learn.py` writes the prompts and verifies the answers. This module asks the agent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ralph.core.errors import RalphError
from ralph.core.settings import Config
from ralph.core.work import Agent, Ask, StopReason, never_stop
from ralph.learning import learn
from ralph.learning.learn import AgentAnswer, AskAgent, LearnReport, LearnRequest
from ralph.learning.learn_answer import describe_dropped
from ralph.loop.printer import LoopPrinter, count_noun
from ralph.loop.state import EndReason, Run, end_reason

_REASONS_TO_SKIP = (
    EndReason.NOTHING_READY,
    EndReason.TIME,
    EndReason.COST,
    EndReason.AGENT_UNAVAILABLE,
    EndReason.STOPPED,
    EndReason.INTERRUPTED,
)
"""Ends after which nothing is learned: no work was done, or a limit or a person ended the run."""


def make_ask(
    agent: Agent,
    root: Path,
    model: str = "",
    *,
    seconds_left: Callable[[], float] | None = None,
    stopped: Callable[[], bool] = never_stop,
) -> AskAgent:
    """Return a function that asks an agent once, if possible without permission to change files.

    Each call may take `learn.TIMEOUT_SECONDS`, or what `seconds_left` returns.
    """

    def ask(prompt: str) -> AgentAnswer:
        timeout = learn.TIMEOUT_SECONDS
        if seconds_left is not None:
            timeout = seconds_left()
        if timeout <= 0:
            return AgentAnswer("", error="there was no time left to ask about the other sessions")
        reply = agent.run(
            Ask(
                prompt,
                root,
                model=model,
                read_only=agent.enforces_read_only,
                timeout=timeout,
                environment={"RALPH_DISABLE": "1"},
                stopped=stopped,
            )
        )
        error = ""
        if reply.stop is not StopReason.END_TURN:
            error = reply.error or f"the agent stopped without an answer ({reply.stop})"
        return AgentAnswer(reply.text, reply.cost, error)

    return ask


def learn_from_run(root: Path, config: Config, run: Run, agent: Agent, printer: LoopPrinter) -> Run:
    """Distil what was recorded with the agent of a run that has ended, if `learning.loop` is on.

    Returns the run with a line about it in `words` and with the cost added. All calls together may
    take `learn.TIMEOUT_SECONDS`. A failure is reported in that line and changes nothing else.
    """
    if not config.learning.loop or not run.iterations or end_reason(run) in _REASONS_TO_SKIP:
        return run
    deadline = time.monotonic() + learn.TIMEOUT_SECONDS
    ask = make_ask(
        agent,
        root,
        run.model,
        seconds_left=lambda: deadline - time.monotonic(),
        stopped=printer.interrupted,
    )
    request = LearnRequest(config.learning, patterns=config.privacy.patterns)
    try:
        report = learn.learn(
            root, request, ask, lambda line: printer.print_line(f"learning: {line}")
        )
    except (RalphError, OSError) as error:
        report = LearnReport(problems=[str(error).partition("\n")[0]])
    except KeyboardInterrupt:
        report = LearnReport(problems=["interrupted"])
    if not report.calls and not report.problems:
        return run  # nothing was recorded since the last time
    line = describe_report(report)
    return replace(run, words=f"{run.words}\n{line}".strip(), cost=run.cost + report.cost)


def describe_report(report: LearnReport) -> str:
    """Describe in one line what was learned at the end of a run."""
    parts = []
    if report.proposals:
        count = count_noun(len(report.proposals), "proposal")
        parts.append(f"{count} for `ralph review`")
    else:
        parts.append("nothing was proposed")
    parts.append(describe_dropped(report.dropped))
    parts += [" ".join(problem.split()) for problem in report.problems]
    return "learning: " + "; ".join(filter(None, parts))
