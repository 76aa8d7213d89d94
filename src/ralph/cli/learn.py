"""`ralph learn`: distil memories from recorded sessions with the user's own agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude, read_text
from ralph.cli.output import one_line, print_json, print_raw, print_rows, say, warn
from ralph.core.errors import UsageError
from ralph.core.record import Record
from ralph.core.settings import MIN_LEARNING_BUDGET
from ralph.learning import inbox, learn
from ralph.learning.inbox import ReviewItem
from ralph.learning.learn import AskAgent, LearnReport, LearnRequest
from ralph.learning.learn_answer import answer_json, describe_dropped, proposal_json
from ralph.search.filters import parse_time

_NOTHING_NEW = "Nothing was recorded since the last time."


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
@click.option("--agent", default="", help="Agent to ask: claude, codex, acp or command.")
@click.option("--command", default="", help="Command line of the agent, for `command`.")
@click.option(
    "--budget",
    type=click.IntRange(min=MIN_LEARNING_BUDGET),
    metavar="TOKENS",
    help="Maximum number of tokens in one digest, at least 1000 [default: learning.budget].",
)
@options.dry_run
@click.option(
    "--apply",
    "answer",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help='Verify the answer that an agent gave to the prompt ("-" reads it from standard input).',
)
@click.option(
    "--until",
    default="",
    metavar="TIME",
    help="With --apply: end of the period that the prompt covers.",
)
@click.option("--tidy", is_flag=True, help="List memories to merge, replace or correct.")
@options.formats("table", "json")
@pass_call
def learn_(
    call: Invocation,
    since: str,
    agent: str,
    command: str,
    budget: int | None,
    dry_run: bool,
    answer: str | None,
    until: str,
    tidy: bool,
    form: str,
) -> int:
    """Extract memories from past sessions with your own agent.

    Your agent (Claude Code, Codex or any command) reads a digest of what happened since the last
    time and proposes memories, with literal quotes as evidence. Ralph drops what it cannot verify
    and keeps the rest as proposals for `ralph review`. Nothing becomes a memory without your
    approval.

    --dry-run prints the prompt without sending it, and --apply accepts an answer to it. --tidy
    needs no agent: it lists memories that say the same, contradict each other, or cite something
    that no longer exists.
    """
    exclude({"--dry-run": dry_run, "--apply": answer, "--tidy": tidy})
    if tidy:
        _print_tidy(call, form)
        return 0
    if until and answer is None:
        raise UsageError("--until belongs to --apply", hint="`ralph learn --help` shows examples")
    settings = call.config.learning
    if budget:
        settings = replace(settings, budget=budget)
    request = LearnRequest(settings, parse_time(since), call.patterns)
    if answer is not None:
        return _apply(call, request, answer, until, form)
    if dry_run:
        _print_prompt(call, request)
        return 0
    report = learn.learn(call.root, request, _make_ask(call, agent, command), say)
    return _print_report(report, form)


def _make_ask(call: Invocation, agent: str, command: str) -> AskAgent:
    """Return a function that asks the chosen agent. Raises UsageError if it is not installed."""
    from ralph.loop.agents.choice import loop_agent
    from ralph.loop.distil import make_ask

    settings = call.config.loop
    if agent:
        settings = replace(settings, agent=agent)
    if command:
        settings = replace(settings, agent_command=command)
    return make_ask(loop_agent(call.root, settings, say), call.root, settings.model)


def _print_prompt(call: Invocation, request: LearnRequest) -> None:
    """Print the prompt of the first call. Notes about it go to stderr."""
    digests = learn.plan_digests(call.root, request)
    if not digests:
        click.echo(_NOTHING_NEW)
        return
    first = learn.make_call(call.root, request, digests[0])
    print_raw(first.prompt)
    print_raw(f"\n# This is prompt 1 of {len(digests)}.")
    if len(digests) > 1 and not request.since:
        print_raw(" The next one is printed once an answer to this one was applied.")
    print_raw(f"\n# To apply the answer: {_apply_command(request, first.digest.until)}\n")
    say(f"{len(digests)} prompt(s); the first one has about {first.tokens:,} tokens")


def _apply_command(request: LearnRequest, until: str) -> str:
    words = ["ralph learn --apply -"]
    if until:
        words.append(f"--until {until}")
    if request.since:
        words.append(f"--since {request.since}")
    return " ".join(words)


def _apply(call: Invocation, request: LearnRequest, answer: str, until: str, form: str) -> int:
    if answer == "-":
        text = read_text(answer)
    else:
        text = read_text(None, Path(answer))
    verified = learn.apply_to_printed_prompt(call.root, text, request, until)
    if form == "json":
        print_json(answer_json(verified))
        return 0
    _print_proposals(verified.proposals, verified.dropped)
    return 0


def _print_report(report: LearnReport, form: str) -> int:
    if form == "json":
        print_json(_report_json(report))
    elif not report.calls:
        click.echo(_NOTHING_NEW)
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
    say(describe_dropped(dropped))


def _report_json(report: LearnReport) -> Mapping[str, object]:
    return {
        "proposals": [proposal_json(proposal) for proposal in report.proposals],
        "dropped": dict(report.dropped),
        "sessions": report.sessions,
        "calls": report.calls,
        "tokens_sent": report.tokens_sent,
        "tokens_received": report.tokens_received,
        "cost_usd": report.cost,
        "problems": report.problems,
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
