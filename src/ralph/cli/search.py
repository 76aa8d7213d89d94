"""`ralph search`, `ralph context` and `ralph skill`: find what Ralph knows, and show what an agent is given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from ralph.app import hosts
from ralph.app import search as verbs
from ralph.app.filters import kinds, short_ids, when
from ralph.app.json_shapes import hit_json, record_json
from ralph.app.search import SearchAnswer
from ralph.cli import options as opt
from ralph.cli.options import Command, Invocation, exclude, read_words, split_commas
from ralph.cli.output import bar, is_terminal, print_json, print_raw, say, visible, warn
from ralph.context import brief as skills
from ralph.errors import UsageError
from ralph.model.record import Detail, Family, Query
from ralph.search.rank import LESS_CERTAIN, WEAK, describe_replacements
from ralph.settings import Inject

# records shown by a search, and by --around, unless more are requested
LIMIT = 5
AROUND = 20
ONLY = {
    "memories": Family.MEMORY,
    "sessions": Family.OBSERVATION,
    "journal": Family.JOURNAL,
    "tasks": None,
}
"""What a search can be limited to; tasks are not records and are searched by their own verb."""
_MAX_LEFT_OUT = 10  # records left out that --explain names
_LAYER = re.compile(r"\A--layer[\s=]+(\S+)(?:\s|\Z)|\s--layer[\s=]+(\S+)\Z")
"""The option at either end of what standard input has."""


@click.command(
    name="search",
    cls=Command,
    examples=['ralph search "jwt error" --since 7d', "ralph search --around mem-a3f8"],
)
@click.argument("words", nargs=-1)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(ONLY)),
    help="Search only these (may be repeated).",
)
@click.option(
    "--around",
    default="",
    metavar="ID",
    help="Show what happened around this record, oldest first.",
)
@click.option("--short", is_flag=True, help="One line for each record; the default (layer 1).")
@click.option("--full", is_flag=True, help="Whole records (layer 3).")
@click.option(
    "--layer",
    type=click.IntRange(1, 3),
    help="1 one line each, 2 what happened around, 3 whole records.",
)
@click.option(
    "-t",
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only these types, comma-separated.",
)
@opt.tags("Only records with any of these tags.")
@opt.since
@click.option("--until", default="", metavar="WHEN", help="Up to this time.")
@opt.limit(None, f"At most so many [default: {LIMIT}, --around: {AROUND}].")
@click.option("--all", "everything", is_flag=True, help="Every match.")
@click.option("--project", default="", metavar="PATH", help="Only sessions of this folder.")
@opt.visibility
@click.option("--team", is_flag=True, help="Also what other machines of the team share.")
@click.option("--explain", is_flag=True, help="Print why each record was found.")
@opt.formats("table", "json", "markdown")
def search(
    call: Invocation,
    words: tuple[str, ...],
    only: Sequence[str],
    around: str,
    form: str,
    **options: Any,
) -> None:
    """Find anything Ralph knows by words, parts of identifiers or tags, in any language, and by meaning.

    With --full and ids instead of words, those records are shown whole; "-" alone reads the words from standard
    input. Without words, --since and --until show what happened in that time. Inside a task (RALPH_TASK, or its
    worktree) the search covers the project's records, those of the task, and what finished tasks recorded.
    """
    limit = options["limit"]
    types = options["types"]
    tags = options["tags"] or ()
    layer = options["layer"]
    exclude({"--short": options["short"], "--full": options["full"], "--layer": layer})
    text = read_words(words)
    if (
        words == ("-",) and (match := _LAYER.search(text)) is not None
    ):  # as a slash command passes it
        text = _LAYER.sub("", text, 1).strip()
        layer = match[1] or match[2]
        if layer not in ("1", "2", "3"):
            raise UsageError(
                f"--layer is 1, 2 or 3, not {layer!r}",
                hint="1 one line each, 2 what is around, 3 whole",
            )
    detail = Detail(int(layer or (3 if options["full"] else 1)))
    if "tasks" in only:
        _search_tasks(call, text, only, limit, form)
        return
    since = when(options["since"])
    until = when(options["until"])
    is_span = (
        not text
        and (since or until)
        and not only
        and not types
        and not tags
        and not options["team"]
    )
    if around or is_span:
        if text:
            raise UsageError(
                "--around takes an id and no words", hint=f"ralph search --around {around}"
            )
        span = {"since": since, "until": until, "limit": limit or AROUND, "task": options["within"]}
        print_answer(verbs.timeline(call.root, around, **span), form)
        return
    families = tuple(family for name in only if (family := ONLY[name]) is not None)
    query = Query(text, kinds(types), tags, since, until, families)
    fit = not (form == "json" or limit or options["everything"])
    limit = None if options["everything"] else limit or LIMIT
    query = replace(
        query, project=options["project"], limit=limit, layer=detail, task=options["within"]
    )
    if options["team"]:
        from ralph.app import team_search

        print_answer(
            team_search.search(call.root, query, call.config.team, fit=fit),
            form,
            explain=options["explain"],
        )
        return
    with bar("reading the files") as progress:
        answer = verbs.search(call.root, query, progress, embedding=call.config.embedding, fit=fit)
    warn(*answer.warnings)
    say(*map(visible, answer.notes))
    print_answer(answer, form, explain=options["explain"])


def _search_tasks(
    call: Invocation, text: str, only: Sequence[str], limit: int | None, form: str
) -> None:
    from ralph.app.tasks import task as tasks
    from ralph.cli.task import print_tasks

    if len(only) > 1:
        raise UsageError("--only tasks stands alone", hint="search the rest in a second call")
    matches = []
    for listed in tasks.list_(call.root)[0]:
        content = f"{listed.task.id} {listed.task.title} {listed.task.description}".lower()
        if all(word in content for word in text.lower().split()):
            matches.append(listed)
    print_tasks(matches[:limit], form if form != "markdown" else "table", "No tasks found.")


def print_answer(answer: SearchAnswer, form: str, *, explain: bool = False) -> None:
    """Print an answer; notes go to stderr unless a person reads it."""
    if form == "json":
        hits = list(map(hit_json, answer.shown))
        print_json({"hits": hits, "total": answer.found.total, "tokens": answer.tokens})
        return
    certain = max(
        (number for number, shown in enumerate(answer.shown, 1) if not shown.hit.weak), default=0
    )
    for number, shown in enumerate(answer.shown):
        if number and "\n" in shown.text:
            click.echo("")
        if number == certain:
            click.echo(LESS_CERTAIN if certain else WEAK)
        print_raw(shown.text + "\n")
        if explain and shown.hit.why:
            click.echo(f"  {visible('; '.join(shown.hit.why))}")
    if not answer.shown:
        click.echo("Nothing found.", err=form != "table")
    aside = form != "table" or not is_terminal()
    for note in describe_replacements(answer.found.instead):
        click.echo(note, err=aside)
    more = answer.found.total - sum(shown.count for shown in answer.shown)
    if more > 0:
        click.echo(f"{more} more; --all shows every one", err=aside)


@click.command(
    name="context",
    cls=Command,
    examples=['ralph context "modify auth.ts" --explain', "ralph context --best mem-a3f8"],
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--session", default="", metavar="ID", help="Leave out what this session was given already."
)
@click.option(
    "--best",
    is_flag=True,
    help="The best matches for words or ids, also those that hooks leave out.",
)
@click.option(
    "--explain", is_flag=True, help="Print why each record is given, and why others are not."
)
@click.option(
    "--knowledge", is_flag=True, help="Show instead the knowledge that the loop gives for a task."
)
@click.option(
    "--feature", default="", metavar="NAME", help="With --knowledge: the feature of the task."
)
@click.option(
    "--files", multiple=True, metavar="A,B", help="With --knowledge: files that were changed last."
)
@opt.visibility
@opt.formats("markdown", "json")
def context(
    call: Invocation, prompt: tuple[str, ...], session: str, form: str, **options: Any
) -> None:
    """Show what an agent is given with a prompt; without one, what it is given when a session starts.

    It is what the hooks inject, within the same budgets; --best gives the best matches even where a hook injects
    nothing. With - alone the prompt is read from standard input. Inside a task (RALPH_TASK, or its worktree) records
    of other unfinished tasks are left out.
    """
    from ralph.app import context as injected_context
    from ralph.app import hook_state
    from ralph.app.context import brief_session, state_of

    explain = options["explain"] and form != "json"
    within = options["within"]
    if options["knowledge"]:
        _print_knowledge(call, " ".join(prompt), options, form)
        return
    if options["best"] and not prompt:
        raise UsageError("--best needs words or ids", hint='ralph context --best "words"')
    if hook_state.paused_since(call.root) is not None and not options["best"]:
        warn("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    reasons: list[tuple[str, str]] = []
    if prompt:
        best = options["best"]
        if call.config.memories.inject is not Inject.AUTO and not best:
            warn(
                f"memories.inject is {call.config.memories.inject}: hooks inject nothing with a prompt"
            )
        words = read_words(prompt)
        nothing = "Nothing relates to that."
        note = ""
        if best:
            recalled = injected_context.inject_matches(call.root, call.config, words, task=within)
        else:
            recalled = injected_context.answer_prompt(
                call.root, call.config, words, session=session, task=within
            )
        text = recalled.text
        nearest = (
            WEAK
            if recalled.reasons and all("weak" in reason for reason in recalled.reasons)
            else ""
        )
        for reason in recalled.reasons:
            score = f"{reason['score']:.2f}" if reason["score"] else "by name"
            why = visible("; ".join(reason["why"]))
            reasons.append((reason["id"], f"{score}: {why} ({reason['tokens']} tokens)"))
        shape = {"text": text, "layer": recalled.layer, "records": list(recalled.reasons)}
    else:
        words = ""
        nothing = "There is nothing to give."
        nearest = ""
        state = state_of(session)
        root = call.root
        program = hosts.agent_program(sys.executable, os.environ)
        brief = brief_session(root, call.config, session, state=state, task=within, program=program)
        text = brief.text
        reasons = [(record.id, f"({record.tokens} tokens)") for record in brief.records]
        note = f"left out for lack of room: {brief.left_out}; withheld as prompt injection: {brief.withheld}"
        records = [{"id": record.id, "tokens": record.tokens} for record in brief.records]
        shape = {"text": text, "records": records, "left_out": brief.left_out}
    if form == "json":
        print_json(shape)
        return
    print_raw(f"{nearest}\n{text}" if nearest else text)
    say("" if text else nothing)
    if explain:
        shown = [name for name, _ in reasons]
        about = {"session": session, "task": within}
        others = injected_context.left_out(call.root, call.config, words or None, shown, **about)[
            :_MAX_LEFT_OUT
        ]
        others = [] if options["best"] else others
        short = short_ids(call.root, [*shown, *(each["id"] for each in others)])
        say(*(f"{visible(short.get(name, name))} {why}" for name, why in reasons), note)
        say(
            *(
                f"not {visible(short.get(each['id'], each['id']))}: {visible(each['why'])}"
                for each in others
            )
        )


def _print_knowledge(call: Invocation, words: str, options: dict[str, Any], form: str) -> None:
    from ralph.app import knowledge
    from ralph.context.knowledge import render

    matches = knowledge.match(
        call.root, words, feature=options["feature"], files=split_commas(options["files"])
    )
    if form == "json":
        ranks = [
            {"score": match.score, "hops": match.hops, "why": list(match.why)} for match in matches
        ]
        print_json(
            [
                {**record_json(match.record), **rank}
                for match, rank in zip(matches, ranks, strict=True)
            ]
        )
        return
    print_raw(render([match.record for match in matches]))
    say("" if matches else "No knowledge matches.")
    for match in matches if options["explain"] else ():
        say(f"{visible(match.record.id)} {match.score:g}: {visible('; '.join(match.why))}")


@click.command(name="skill", cls=Command, examples=["ralph skill memories"])
@click.argument("name", default="memories", type=click.Choice(["memories"]))
def skill(call: Invocation, name: str) -> None:
    """Print the text that teaches an agent how to use its memory."""
    click.echo(skills.skill_text().rstrip("\n"))
