"""`ralph context` and `ralph skill`: what an agent is given, and the text that teaches it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click

from ralph.app import context as injected_context
from ralph.app import hook_state
from ralph.app.json_shapes import record_json
from ralph.cli.context import Invocation, pass_call, say, warn
from ralph.cli.options import Command, format_option, read_words, split_commas, visibility_options
from ralph.cli.output import print_json, print_raw, visible
from ralph.context import brief as skills
from ralph.context.brief import Brief, KnowledgeTopic, TopicAnswer, answer_topic
from ralph.errors import NotFound
from ralph.settings import Inject

_LEFT_OUT = 10
"""Records left out that --explain names."""
TOPICS = tuple(topic.value for topic in KnowledgeTopic)
_TOPIC = click.Choice([*TOPICS, "all"], case_sensitive=False)
_WHERE = "Show instead where a learning of this kind belongs."


@click.command(name="context", cls=Command)
@click.argument("prompt", nargs=-1)
@click.option("--session", default="", metavar="ID", help="Leave out what this session was given already.")
@click.option("--explain", is_flag=True, help="Print why each record is given, and why others are not.")
@click.option("--where", "topic", type=_TOPIC, is_flag=False, flag_value="all", help=_WHERE)
@click.option("--knowledge", is_flag=True, help="Show instead the knowledge that the loop gives for a task.")
@click.option("--feature", default="", metavar="NAME", help="With --knowledge: the feature of the task.")
@click.option("--files", multiple=True, metavar="A,B", help="With --knowledge: files that were changed last.")
@visibility_options
@format_option("markdown", "json")
@pass_call
def context(
    call: Invocation, prompt: tuple[str, ...], topic: str | None, session: str, form: str, **options: Any
) -> None:
    """Show what an agent is given with a prompt; without one, what it is given when a session starts.

    It is what the hooks inject, within the same budgets. With memories.inject set to manual this is how to get it.
    With - alone the prompt is read from standard input. Inside a task (RALPH_TASK, or its worktree) records of other
    unfinished tasks are left out.

    \b
    Examples:
      ralph context "modify auth.ts"
      ralph context "why do the tests hang?" --explain
      ralph context
      ralph context - < prompt.txt
      ralph context --where error
      ralph context "make the parser tests faster" --knowledge --explain
    """
    explain, within = options["explain"], options["within"]
    if topic is not None:
        _print_where([answer_topic(name) for name in (TOPICS if topic == "all" else [topic])], form)
        return
    if options["knowledge"]:
        files = split_commas(options["files"])
        _print_knowledge(call, " ".join(prompt), options["feature"], files, explain, form)
        return
    if hook_state.paused_since(call.root) is not None:
        warn("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    if not prompt:
        brief = injected_context.brief_session(call.root, call.config, session, resumed=bool(session), task=within)
        _print_start(brief, explain, form)
        if explain and form != "json":
            _print_left_out(call, None, session, within)
        return
    if call.config.memories.inject is not Inject.AUTO:
        warn(f"memories.inject is {call.config.memories.inject}: hooks inject nothing with a prompt")
    text = read_words(prompt)
    recalled = injected_context.answer_prompt(call.root, call.config, text, session=session, task=within)
    if form == "json":
        records = [asdict(reason) for reason in recalled.reasons]
        print_json({"text": recalled.text, "layer": recalled.layer, "records": records})
        return
    print_raw(recalled.text)
    if not recalled.text:
        say("Nothing relates to that.")
    if explain:
        for reason in recalled.reasons:
            score = f"{reason.score:.2f}" if reason.score else "by name"
            say(f"{reason.id} {score}: {visible('; '.join(reason.why))} ({reason.tokens} tokens)")
        _print_left_out(call, text, session, within)


def _print_knowledge(
    call: Invocation, words: str, feature: str, files: Sequence[str], explain: bool, form: str
) -> None:
    """Print the knowledge whose tags match a task; a tag in its words or the feature counts 2, in a path 1."""
    from ralph.app import knowledge
    from ralph.context.knowledge import render

    matches = knowledge.match(call.root, words, feature=feature, files=files)
    if form == "json":
        ranks = [{"score": match.score, "hops": match.hops, "why": list(match.why)} for match in matches]
        print_json([{**record_json(match.record), **rank} for match, rank in zip(matches, ranks, strict=True)])
        return
    print_raw(render([match.record for match in matches]).text)
    if not matches:
        say("No knowledge matches.")
    for match in matches if explain else ():
        say(f"{visible(match.record.id)} {match.score:g}: {visible('; '.join(match.why))}")


def _print_left_out(call: Invocation, prompt: str | None, session: str, task: str) -> None:
    event = injected_context.PreviewEvent.START if prompt is None else injected_context.PreviewEvent.PROMPT
    with suppress(NotFound):  # a task of another project: hooks accept that, too
        view = injected_context.preview(call.root, call.config, event, prompt or "", session=session, task=task)
        for record in view.left_out[:_LEFT_OUT]:
            say(f"not {visible(record.id)}: {visible(record.why)} ({record.tokens} tokens)")


def _print_start(brief: Brief, explain: bool, form: str) -> None:
    if form == "json":
        records = [asdict(record) for record in brief.records]
        print_json({"text": brief.text, "records": records, "left_out": brief.left_out})
        return
    print_raw(brief.text)
    if not brief.text:
        say("There is nothing to give.")
    if explain:
        for record in brief.records:
            say(f"{visible(record.id)} ({record.tokens} tokens)")
        say(f"left out for lack of room: {brief.left_out}; withheld as prompt injection: {brief.withheld}")


def _print_where(answers: Sequence[TopicAnswer], form: str) -> None:
    if form == "json":
        print_json([{**asdict(answer), "topic": answer.topic.value} for answer in answers])
        return
    for number, answer in enumerate(answers):
        click.echo("\n" * bool(number) + click.style(f"{answer.topic.value}: {answer.question}", bold=True))
        click.echo(f"  place:    {answer.place}\n  command:  {answer.command}\n  why:      {answer.why}")


@click.command(name="skill", cls=Command)
@click.argument("name", default="memories", type=click.Choice(skills.SKILL_NAMES))
def skill(name: str) -> None:
    """Print the text that teaches an agent how to use its memory.

    \b
    Examples:
      ralph skill
      ralph skill memories
    """
    click.echo(skills.skill_text(name).rstrip("\n"))
