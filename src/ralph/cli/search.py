"""`ralph search` and `ralph context`: find records, and show what agents receive."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.help_pages import FILTERS
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude, read_words, split_commas
from ralph.cli.output import bar, is_terminal, print_json, print_raw, say, visible, warn
from ralph.core.errors import UsageError
from ralph.core.record import Detail, Family, Query
from ralph.core.settings import Inject
from ralph.memory.caller import current_session
from ralph.memory.record_shapes import record_json
from ralph.recall import search
from ralph.recall.json_shapes import hit_json
from ralph.recall.search import SearchAnswer
from ralph.search.explanations import LESS_CERTAIN, WEAK, describe_replacements
from ralph.search.filters import parse_kinds, parse_period
from ralph.search.record_ids import short_ids

if TYPE_CHECKING:
    from ralph.memory.knowledge_match import Match

LIMIT = 5  # results in a search, unless the caller asks for more
AROUND = 20  # records shown by --around, unless the caller asks for more
_MAX_OMITTED = 10  # omitted records listed by --explain

_TASKS = "tasks"
_FAMILIES = {
    "memories": Family.MEMORY,
    "sessions": Family.OBSERVATION,
    "journal": Family.JOURNAL,
}
ONLY = (*_FAMILIES, _TASKS)
"""The values that `--only` accepts. Tasks are not records, so they are searched separately."""


# --- ralph search ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SearchOptions:
    """The options of `ralph search`, as passed by click."""

    only: tuple[str, ...]
    around: str
    short: bool
    full: bool
    layer: int | None
    types: tuple[str, ...]
    tags: tuple[str, ...] | None
    since: str
    until: str
    limit: int | None
    everything: bool
    project: str
    within: str
    team: bool
    explain: bool
    form: str

    @property
    def has_filters(self) -> bool:
        """Whether the search is limited by anything other than time."""
        return bool(self.only or self.types or self.tags or self.team)


@click.command(
    name="search",
    cls=Command,
    examples=['ralph search "jwt error" --since 7d', "ralph search --around mem-a3f8"],
    sections=FILTERS,
)
@click.argument("words", nargs=-1)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(ONLY),
    help="Search only this kind of record (may be repeated).",
)
@click.option(
    "--around",
    default="",
    metavar="ID",
    help="Show what happened before and after this record, oldest first.",
)
@click.option("--short", is_flag=True, help="Show one line per record (layer 1, the default).")
@click.option("--full", is_flag=True, help="Show complete records (layer 3).")
@click.option(
    "--layer",
    type=click.IntRange(1, 3),
    help="Level of detail: 1 (one line), 2 (with surrounding events) or 3 (complete records).",
)
@click.option(
    "-t",
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only these types, comma-separated.",
)
@options.tags("Only records with any of these tags, comma-separated.")
@options.since
@click.option(
    "--until", default="", metavar="WHEN", help="Only what happened until this date or age."
)
@options.limit(None, f"Maximum number of results [default: {LIMIT}, or {AROUND} with --around].")
@click.option("--all", "everything", is_flag=True, help="Show every match.")
@click.option(
    "--project", default="", metavar="PATH", help="Only sessions recorded in this folder."
)
@options.visibility
@click.option("--team", is_flag=True, help="Also search what the team's other machines share.")
@click.option("--explain", is_flag=True, help="Explain why each record was found.")
@options.formats("table", "json", "markdown")
@pass_call
def search_(call: Invocation, words: tuple[str, ...], **search_options: Any) -> None:
    """Search memories, sessions, the journal and tasks.

    This matches words, parts of identifiers and tags in any language, and finds records with a
    similar meaning. With --full, WORDS can be ids, to show those records in full. Without WORDS,
    --since and --until show what happened in that period. "-" reads the words from standard input.

    Inside a task (RALPH_TASK, or the task's worktree), records of other unfinished tasks are left
    out.
    """
    call.require_memory()
    chosen = _SearchOptions(**search_options)
    exclude({"--short": chosen.short, "--full": chosen.full, "--layer": chosen.layer})
    text = read_words(words)
    detail = _chosen_detail(chosen)
    if _TASKS in chosen.only:
        _search_tasks(call, text, chosen)
        return
    since, until = parse_period(chosen.since, chosen.until)
    is_time_span = not text and (since or until) and not chosen.has_filters
    if chosen.around or is_time_span:
        if text:
            raise UsageError(
                "--around takes an id and no words", hint=f"ralph search --around {chosen.around}"
            )
        timeline = search.timeline(
            call.root,
            chosen.around,
            since=since,
            until=until,
            limit=chosen.limit or AROUND,
            task=chosen.within,
        )
        print_answer(timeline, chosen.form)
        return
    is_limited = chosen.has_filters or since or until or chosen.everything or chosen.project
    if not words and not is_limited:
        raise UsageError(
            "no words to search for", hint='ralph search "words", or --since 7d for what happened'
        )
    query = _search_query(text, chosen, since=since, until=until, detail=detail)
    _search_records(call, query, chosen)


def _chosen_detail(chosen: _SearchOptions) -> Detail:
    if chosen.layer is not None:
        return Detail(chosen.layer)
    if chosen.full:
        return Detail(3)
    return Detail(1)


def _search_tasks(call: Invocation, text: str, chosen: _SearchOptions) -> None:
    from ralph.cli.task import print_tasks
    from ralph.tasks import task

    if len(chosen.only) > 1:
        raise UsageError(
            "--only tasks cannot be combined with others", hint="search the rest in a second call"
        )
    words = text.lower().split()
    matches = []
    for listed in task.list_(call.root)[0]:
        content = f"{listed.task.id} {listed.task.title} {listed.task.description}".lower()
        if all(word in content for word in words):
            matches.append(listed)
    form = chosen.form
    if form == "markdown":
        form = "table"
    print_tasks(matches[: chosen.limit], form, "No tasks found.")


def _search_query(
    text: str, chosen: _SearchOptions, *, since: str, until: str, detail: Detail
) -> Query:
    limit = chosen.limit or LIMIT
    return Query(
        text,
        parse_kinds(chosen.types),
        chosen.tags or (),
        since,
        until,
        families=tuple(_FAMILIES[name] for name in chosen.only),
        project=chosen.project,
        limit=None if chosen.everything else limit,
        layer=detail,
        task=chosen.within,
    )


def _search_records(call: Invocation, query: Query, chosen: _SearchOptions) -> None:
    names_amount = chosen.limit is not None or chosen.everything
    fit = not names_amount
    if chosen.team:
        from ralph.sharing import team_search

        answer = team_search.search(call.root, query, call.config.team, fit=fit)
        print_answer(answer, chosen.form, explain=chosen.explain)
        return
    with bar("reading the files") as progress:
        answer = search.search(
            call.root,
            query,
            progress,
            embedding=call.config.embedding,
            fit=fit,
            session=current_session(os.environ),
        )
    warn(*answer.warnings)
    say(*map(visible, answer.notes))
    print_answer(answer, chosen.form, explain=chosen.explain)


def print_answer(answer: SearchAnswer, form: str, *, explain: bool = False) -> None:
    """Print an answer. Notes go to stderr unless a person reads a table on a terminal."""
    if form == "json":
        hits = list(map(hit_json, answer.shown))
        print_json({"hits": hits, "total": answer.found.total, "tokens": answer.tokens})
        return
    _print_hits(answer, explain=explain)
    if not answer.shown:
        click.echo("Nothing found.", err=form != "table")
    notes_to_stderr = form != "table" or not is_terminal()
    for note in describe_replacements(answer.found.instead):
        click.echo(note, err=notes_to_stderr)
    omitted = answer.found.total - sum(shown.count for shown in answer.shown)
    if omitted > 0:
        click.echo(f"{omitted} more; use --all to see them", err=notes_to_stderr)


def _print_hits(answer: SearchAnswer, *, explain: bool) -> None:
    first_weak = 0  # the position after the last certain hit
    for number, shown in enumerate(answer.shown, 1):
        if not shown.hit.weak:
            first_weak = number
    for number, shown in enumerate(answer.shown):
        if number > 0 and "\n" in shown.text:
            click.echo("")
        if number == first_weak:
            click.echo(LESS_CERTAIN if first_weak else WEAK)
        print_raw(shown.text + "\n")
        if explain and shown.hit.why:
            click.echo(f"  {visible('; '.join(shown.hit.why))}")


# --- ralph context --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ContextOptions:
    """The options of `ralph context`, as passed by click."""

    session: str
    best: bool
    explain: bool
    knowledge: bool
    feature: str
    files: tuple[str, ...]
    within: str
    form: str


class _GivenRecord(NamedTuple):
    """A record that an agent receives, with the reason."""

    id: str
    why: str


class _Preview(NamedTuple):
    """The text that an agent receives, and the explanations printed with it."""

    text: str
    shape: Mapping[str, object]
    records: Sequence[_GivenRecord]
    nothing: str
    words: str = ""
    note: str = ""


@click.command(
    name="context",
    cls=Command,
    examples=['ralph context "modify auth.ts" --explain', "ralph context --best mem-a3f8"],
    sections={"Knowledge": ["--knowledge", "--feature", "--files"]},
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--session", default="", metavar="ID", help="Leave out what this session was already given."
)
@click.option(
    "--best",
    is_flag=True,
    help="Show all strong matches for words or ids, even those that hooks leave out.",
)
@click.option("--explain", is_flag=True, help="Explain why each record is included or left out.")
@click.option(
    "--knowledge",
    is_flag=True,
    help="Show the knowledge that a run adds to a task's prompt instead.",
)
@click.option("--feature", default="", metavar="NAME", help="With --knowledge: the task's feature.")
@click.option(
    "--files",
    multiple=True,
    metavar="A,B",
    help="With --knowledge: the files changed last.",
)
@options.visibility
@options.formats("markdown", "json")
@pass_call
def context_(call: Invocation, prompt: tuple[str, ...], **context_options: Any) -> None:
    """Show what an agent is given with a prompt.

    Without PROMPT, show what it is given when a session starts. The hooks use the same budgets;
    --best shows all strong matches, even those that a hook leaves out. "-" reads the prompt from
    standard input.

    Inside a task (RALPH_TASK, or the task's worktree), records of other unfinished tasks are left
    out.
    """
    from ralph.capture import recorder

    chosen = _ContextOptions(**context_options)
    if chosen.knowledge:
        _print_knowledge(call, " ".join(prompt), chosen)
        return
    if chosen.best and not prompt:
        raise UsageError("--best needs words or ids", hint='ralph context --best "words"')
    if recorder.paused_since(call.root) is not None and not chosen.best:
        warn("capture is off here, so hooks give nothing; `ralph capture on` resumes it")
    if prompt:
        preview = _preview_prompt(call, prompt, chosen)
    else:
        preview = _preview_session_start(call, chosen)
    if chosen.form == "json":
        print_json(preview.shape)
        return
    print_raw(preview.text)
    if not preview.text:
        say(preview.nothing)
    if chosen.explain:
        _explain_preview(call, preview, chosen)


def _preview_prompt(call: Invocation, prompt: tuple[str, ...], chosen: _ContextOptions) -> _Preview:
    from ralph.recall import prompt_context
    from ralph.recall.memory_budget import explain_absence

    inject = call.config.memories.inject
    if inject is not Inject.AUTO and not chosen.best:
        warn(f"memories.inject is {inject}: hooks give nothing with a prompt")
    words = read_words(prompt)
    if not words.strip():
        raise UsageError(
            "the prompt is empty", hint="name one, or leave it out to see a session's start"
        )
    if chosen.best:
        recalled = prompt_context.inject_matches(
            call.root,
            call.config,
            words,
            session=current_session(os.environ),
            task=chosen.within,
        )
    else:
        recalled = prompt_context.answer_prompt(
            call.root, call.config, words, session=chosen.session, task=chosen.within
        )
    records = []
    for reason in recalled.reasons:
        score = f"{reason['score']:.2f}" if reason["score"] else "by name"
        why = visible("; ".join(reason["why"]))
        records.append(_GivenRecord(reason["id"], f"{score}: {why} ({reason['tokens']} tokens)"))
    return _Preview(
        recalled.text,
        shape={"text": recalled.text, "layer": recalled.layer, "records": list(recalled.reasons)},
        records=records,
        nothing=explain_absence("Nothing relevant found.", recalled.left_out, call.config),
        words=words,
    )


def _preview_session_start(call: Invocation, chosen: _ContextOptions) -> _Preview:
    from ralph.core import launchers
    from ralph.recall import skill
    from ralph.recall.memory_budget import explain_absence
    from ralph.recall.session_start import brief_session, state_of

    brief = brief_session(
        call.root,
        call.config,
        chosen.session,
        state=state_of(chosen.session),
        task=chosen.within,
        instructions=skill.instructions_for_commands(
            launchers.agent_program(sys.executable, os.environ)
        ),
    )
    shapes = [{"id": record.id, "tokens": record.tokens} for record in brief.records]
    return _Preview(
        brief.text,
        shape={"text": brief.text, "records": shapes, "left_out": brief.left_out},
        records=[_GivenRecord(record.id, f"({record.tokens} tokens)") for record in brief.records],
        nothing=explain_absence("There is nothing to give yet.", brief.left_out, call.config),
        note=(
            f"left out for lack of room: {brief.left_out}; "
            f"withheld as prompt injection: {brief.withheld}"
        ),
    )


def _explain_preview(call: Invocation, preview: _Preview, chosen: _ContextOptions) -> None:
    """Print why each record is included and, without --best, why others are not."""
    from ralph.recall.preview import list_left_out

    included = [record.id for record in preview.records]
    omitted: Sequence[Mapping[str, str]] = ()
    if not chosen.best:
        omitted = list_left_out(
            call.root,
            call.config,
            preview.words or None,
            included,
            session=chosen.session,
            task=chosen.within,
        )[:_MAX_OMITTED]
    names = short_ids(call.root, [*included, *(record["id"] for record in omitted)])
    for given in preview.records:
        say(f"{visible(names.get(given.id, given.id))} {given.why}")
    say(preview.note)
    for record in omitted:
        name = names.get(record["id"], record["id"])
        say(f"not {visible(name)}: {visible(record['why'])}")


def _print_knowledge(call: Invocation, words: str, chosen: _ContextOptions) -> None:
    from ralph.memory import knowledge
    from ralph.memory.knowledge_match import render

    matches = knowledge.match(
        call.root, words, feature=chosen.feature, files=split_commas(chosen.files)
    )
    if chosen.form == "json":
        print_json(list(map(_knowledge_json, matches)))
        return
    print_raw(render([match.record for match in matches]))
    if not matches:
        say("No knowledge matches.")
    if chosen.explain:
        for match in matches:
            say(f"{visible(match.record.id)} {match.score:g}: {visible('; '.join(match.why))}")


def _knowledge_json(match: Match) -> dict[str, object]:
    rank = {"score": match.score, "hops": match.hops, "why": list(match.why)}
    return {**record_json(match.record), **rank}
