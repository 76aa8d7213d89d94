"""`ralph learn`: distil memories from recorded sessions with the user's own agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude, read_text
from ralph.cli.output import one_line, print_json, print_raw, print_rows, say, warn
from ralph.core.record import Record
from ralph.learning import inbox, learn
from ralph.learning.inbox import ReviewItem
from ralph.learning.learn import AgentAnswer, AskAgent, LearnReport, LearnRequest
from ralph.search.filters import parse_time

if TYPE_CHECKING:
    from ralph.learning.learn_answer import VerifiedAnswer

_DRY_RUN_END = """\

# To apply the answer: ralph learn --apply - --until {until}
"""


@click.command(
    name="learn",
    cls=Command,
    examples=[
        "ralph learn --dry-run",
        "ralph learn --since 7d --dry-run",
        "ralph learn --tidy",
    ],
)
@options.since
@click.option("--agent", default="", help="Agent to ask, such as claude, codex or command.")
@click.option("--command", default="", help="Program for the agent `command`.")
@options.dry_run
@click.option(
    "--apply",
    "answer",
    metavar="FILE",
    help='Verify an answer that an agent gave to the prompt ("-" reads standard input).',
)
@click.option("--until", default="", metavar="TIME", help="With --apply: how far the prompt went.")
@click.option("--tidy", is_flag=True, help="List memories to merge, replace or correct.")
@options.formats("table", "json")
@pass_call
def learn_(
    call: Invocation,
    since: str,
    agent: str,
    command: str,
    dry_run: bool,
    answer: str | None,
    until: str,
    tidy: bool,
    form: str,
) -> int:
    """Distil memories from sessions with your own agent.

    Your agent (Claude Code, Codex or any command) gets a digest of what happened since the last
    time and returns memories with literal quotes. Ralph checks every quote, drops what it cannot
    verify, and keeps the rest as proposals for `ralph review`. Nothing becomes a memory without
    you.

    --dry-run prints the prompt and changes nothing. --apply takes an answer to it. --tidy needs no
    agent: it lists memories that say the same, contradict each other, or cite something that is
    gone.
    """
    exclude({"--dry-run": dry_run, "--apply": answer, "--tidy": tidy})
    if tidy:
        _print_tidy(call, form)
        return 0
    request = LearnRequest(call.config.learning, parse_time(since), call.patterns)
    if answer is not None:
        return _apply(call, request, answer, until, form)
    if dry_run:
        _print_prompt(call, request)
        return 0
    report = learn.learn(call.root, request, _make_ask(call, agent, command), say)
    return _print_report(report, form)


def _make_ask(call: Invocation, agent: str, command: str) -> AskAgent:
    """Return a function that asks the agent once, without permission to change anything."""
    from ralph.core.work import Ask, StopReason
    from ralph.loop.agents.choice import loop_agent

    settings = call.config.loop
    if agent:
        settings = replace(settings, agent=agent)
    if command:
        settings = replace(settings, agent_command=command)
    runner = loop_agent(call.root, settings, say)

    def ask(prompt: str) -> AgentAnswer:
        reply = runner.run(
            Ask(
                prompt,
                call.root,
                model=settings.model,
                read_only=runner.enforces_read_only,
                timeout=learn.TIMEOUT_SECONDS,
                environment={"RALPH_DISABLE": "1"},
            )
        )
        error = ""
        if reply.stop is not StopReason.END_TURN:
            error = reply.error or f"the agent stopped without an answer ({reply.stop})"
        return AgentAnswer(reply.text, reply.cost, error)

    return ask


def _print_prompt(call: Invocation, request: LearnRequest) -> None:
    """Print the prompt of the first call. Notes about it go to stderr."""
    calls = list(learn.plan_calls(call.root, request))
    if not calls:
        say("Nothing was recorded since the last time.")
        return
    first = calls[0]
    print_raw(first.prompt)
    print_raw(_DRY_RUN_END.format(until=first.digest.until))
    tokens = sum(planned.tokens for planned in calls)
    say(f"{len(calls)} call(s), about {tokens:,} tokens; this is the first prompt.")


def _apply(call: Invocation, request: LearnRequest, answer: str, until: str, form: str) -> int:
    if answer == "-":
        text = read_text(answer)
    else:
        text = read_text(None, Path(answer))
    verified = learn.apply_answer(call.root, text, patterns=request.patterns)
    if until:
        learn.note_progress(call.root, until)
    if form == "json":
        print_json(_answer_json(verified))
        return 0
    _print_proposals(verified.proposals, verified.dropped)
    return 0


def _print_report(report: LearnReport, form: str) -> int:
    if form == "json":
        print_json(_report_json(report))
    elif not report.calls:
        click.echo("Nothing was recorded since the last time.")
    else:
        _print_proposals(report.proposals, report.dropped)
        cost = f", ${report.cost:.2f}" if report.cost else ""
        say(
            f"{report.sessions} session(s), {report.calls} call(s), about "
            f"{report.tokens_sent:,} tokens sent and {report.tokens_received:,} received{cost}"
        )
    warn(*map(one_line, report.problems))
    return 1 if report.problems else 0


def _print_proposals(proposals: Sequence[Record], dropped: Mapping[str, int]) -> None:
    for proposal in proposals:
        click.echo(one_line(f"{proposal.id}  {proposal.kind.value}  {proposal.text}"))
    if proposals:
        click.echo(f"{len(proposals)} proposal(s). Decide with `ralph review`.")
    else:
        click.echo("Nothing new was proposed.")
    if dropped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        say(f"dropped: {reasons}")


def _answer_json(verified: VerifiedAnswer) -> Mapping[str, object]:
    return {
        "proposals": [_proposal_json(proposal) for proposal in verified.proposals],
        "dropped": dict(verified.dropped),
    }


def _report_json(report: LearnReport) -> Mapping[str, object]:
    return {
        "proposals": [_proposal_json(proposal) for proposal in report.proposals],
        "dropped": dict(report.dropped),
        "sessions": report.sessions,
        "calls": report.calls,
        "tokens_sent": report.tokens_sent,
        "tokens_received": report.tokens_received,
        "cost_usd": report.cost,
        "problems": report.problems,
    }


def _proposal_json(proposal: Record) -> Mapping[str, object]:
    return {
        "id": proposal.id,
        "type": proposal.kind.value,
        "text": proposal.text,
        "tags": list(proposal.tags),
        "operation": proposal.extra.get("operation"),
        "targets": proposal.extra.get("targets", []),
        "quotes": proposal.extra.get("quotes", []),
    }


def _print_tidy(call: Invocation, form: str) -> None:
    items = inbox.tidy_items(call.root)

    def row(item: ReviewItem) -> tuple[object, ...]:
        return item.id, item.kind, item.why, " or ".join(item.actions)

    print_rows(
        items,
        form,
        to_json=asdict,
        headings=("ID", "PROBLEM", "WHY", "NEXT"),
        row=row,
        empty="The memories are tidy.",
    )
