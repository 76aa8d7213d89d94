"""`ralph context` and `ralph skill`: what an agent is given, and the text that teaches it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import click

from ralph.app import context as injected_context
from ralph.app import hook_state
from ralph.app.json_shapes import record_json
from ralph.cli.context import Invocation, invocation, warn
from ralph.cli.options import Command, format_option, read_words, visibility_options
from ralph.cli.output import json_text, print_raw, visible
from ralph.context import brief as skills
from ralph.context.brief import Brief, KnowledgeTopic, TopicAnswer, answer_topic
from ralph.errors import NotFound
from ralph.settings import Inject

_LEFT_OUT = 10
"""Records left out that --explain names."""
TOPICS = tuple(topic.value for topic in KnowledgeTopic)


@click.command(name="context", cls=Command)
@click.argument("prompt", nargs=-1)
@click.option("--session", default="", metavar="ID", help="Leave out what this session was given already.")
@click.option("--explain", is_flag=True, help="Print why each record is given, and why others are not.")
@click.option(
    "--where", "topic", type=click.Choice([*TOPICS, "all"], case_sensitive=False), is_flag=False, flag_value="all",
    help="Show instead where a learning of this kind belongs.",
)  # fmt: skip
@click.option("--knowledge", is_flag=True, help="Show instead the knowledge that the loop gives for a task.")
@click.option("--feature", default="", metavar="NAME", help="With --knowledge: the feature of the task.")
@click.option("--files", multiple=True, metavar="A,B", help="With --knowledge: files that were changed last.")
@visibility_options
@format_option("markdown", "json")
@click.pass_context
def context(
    ctx: click.Context, prompt: tuple[str, ...], session: str, explain: bool, topic: str | None, knowledge: bool,
    feature: str, files: tuple[str, ...], task: str, all_tasks: bool, form: str,
) -> None:  # fmt: skip
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
    call = invocation(ctx)
    if topic is not None:
        _print_where(tuple(map(answer_topic, KnowledgeTopic)) if topic == "all" else (answer_topic(topic),), form)
        return
    if knowledge:
        names = [name.strip() for part in files for name in part.split(",") if name.strip()]
        _print_knowledge(call, " ".join(prompt), feature, names, explain, form)
        return
    if hook_state.paused_since(call.root) is not None:
        warn("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    task = call.asking(task, all_tasks)
    if not prompt:
        _print_start(
            injected_context.brief_session(call.root, call.config, session, resumed=bool(session), task=task),
            explain,
            form,
        )
        if explain and form != "json":
            _print_left_out(call, None, session, task)
        return
    if call.config.memories.inject is not Inject.AUTO:
        warn(f"memories.inject is {call.config.memories.inject}: hooks inject nothing with a prompt")
    words = read_words(prompt)
    found = injected_context.answer_prompt(call.root, call.config, words, session=session, task=task)
    if form == "json":
        reasons = [asdict(each) for each in found.reasons]
        click.echo(json_text({"text": found.text, "layer": found.layer, "records": reasons}))
        return
    print_raw(found.text)
    if not found.text:
        click.echo("Nothing relates to that.", err=True)
    for reason in found.reasons if explain else ():
        how = f"{reason.score:.2f}" if reason.score else "by name"
        click.echo(f"{reason.id} {how}: {visible('; '.join(reason.why))} ({reason.tokens} tokens)", err=True)
    if explain:
        _print_left_out(call, words, session, task)


def _print_knowledge(
    call: Invocation, words: str, feature: str, files: Sequence[str], explain: bool, form: str
) -> None:
    """Print the knowledge whose tags match a task; a tag in its words or the feature counts 2, in a path 1."""
    from ralph.app import knowledge
    from ralph.context.knowledge import render

    matches = knowledge.match(call.root, words, feature=feature, files=files)
    if form == "json":
        rows = [
            {**record_json(each.record), "score": each.score, "hops": each.hops, "why": list(each.why)}
            for each in matches
        ]
        click.echo(json_text(rows))
        return
    print_raw(render([each.record for each in matches]).text)
    if not matches:
        click.echo("No knowledge matches.", err=True)
    for each in matches if explain else ():
        click.echo(f"{visible(each.record.id)} {each.score:g}: {visible('; '.join(each.why))}", err=True)


def _print_left_out(call: Invocation, prompt: str | None, session: str, task: str) -> None:
    """Print the first few records that are left out, and why."""

    event = injected_context.PreviewEvent.START if prompt is None else injected_context.PreviewEvent.PROMPT
    with suppress(NotFound):  # a task of another project: hooks do not mind that either
        found = injected_context.preview(call.root, call.config, event, prompt or "", session=session, task=task)
        for each in found.left_out[:_LEFT_OUT]:
            click.echo(f"not {visible(each.id)}: {visible(each.why)} ({each.tokens} tokens)", err=True)


def _print_start(made: Brief, explain: bool, form: str) -> None:
    """Print the brief of a session's start."""
    if form == "json":
        shown = [asdict(each) for each in made.records]
        click.echo(json_text({"text": made.text, "records": shown, "left_out": made.left_out}))
        return
    print_raw(made.text)
    if not made.text:
        click.echo("There is nothing to give.", err=True)
    if not explain:
        return
    for each in made.records:
        click.echo(f"{visible(each.id)} ({each.tokens} tokens)", err=True)
    click.echo(f"left out for lack of room: {made.left_out}; withheld as prompt injection: {made.withheld}", err=True)


def _print_where(answers: Sequence[TopicAnswer], form: str) -> None:
    """Print where learnings belong."""
    if form == "json":
        click.echo(json_text([{**asdict(each), "topic": each.topic.value} for each in answers]))
        return
    for number, each in enumerate(answers):
        if number:
            click.echo("")
        click.echo(click.style(f"{each.topic.value}: {each.question}", bold=True))
        click.echo(f"  place:    {each.place}")
        click.echo(f"  command:  {each.command}")
        click.echo(f"  why:      {each.why}")


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
