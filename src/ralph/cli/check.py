"""`ralph check`: whether the files, symbols, commands and commits that records cite are still there."""

import click

from ralph.app import check as verbs
from ralph.app.check import Report
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, one_line
from ralph.search.citations import STALE, CheckedCitation, CitationState

_COLOURS = {CitationState.GONE: "red", CitationState.MOVED: "yellow", CitationState.CHANGED: "cyan"}


@click.command(name="check", cls=Command)
@click.argument("ids", nargs=-1)
@click.option("--ci", is_flag=True, help="Exit 1 when something that is cited is gone or has moved.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, ids: tuple[str, ...], ci: bool, form: str) -> int:
    """Look for what memories, guardrails, knowledge and patterns cite, in the working tree and in git, offline.

    A citation is fresh, moved to another place, changed since the record was written, gone, or unverifiable. Records
    that cite what is gone or moved are stale: they rank lower and are marked when they are handed to an agent, and
    --ci exits 1 for them, also when a move is not committed yet. What changed, or cannot be verified, is not stale.

    \b
    Examples:
      ralph check
      ralph check mem-1705751400-a3f8
      ralph check --ci --format json
    """
    found = verbs.check(invocation(ctx).root, ids)
    stale = [each for each in found if each.is_stale]
    if form == "json":
        click.echo(json_text([_shape(each) for each in found]))
    else:
        for report in found:
            _print(report, whole=bool(ids))
        click.echo(_summary(found))
    return 1 if ci and stale else 0


def _summary(found: tuple[Report, ...]) -> str:
    if not found:
        return "No record cites anything."
    counts = {verdict: sum(each.verdict is verdict for each in found) for verdict in CitationState}
    words = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    return f"{len(found)} record(s) cite something: {words}"


def _print(report: Report, *, whole: bool) -> None:
    told = [each for each in report.looked if whole or each.verdict in (*STALE, CitationState.CHANGED)]
    for each in told:
        word = click.style(each.verdict.value, fg=_COLOURS.get(each.verdict))
        where = f"{report.place}:{report.line}: {report.record.id}"
        why = f" ({each.why})" if each.why else ""
        click.echo(f"{one_line(where)}: {word}: {each.citation.kind.value} {one_line(f'{each.citation}{why}')}")


def _shape(report: Report) -> dict[str, object]:
    return {
        "id": report.record.id,
        "verdict": report.verdict.value,
        "file": report.place,
        "line": report.line,
        "citations": [_cited(each) for each in report.looked],
    }


def _cited(looked: CheckedCitation) -> dict[str, object]:
    citation = looked.citation
    return {
        "kind": citation.kind.value,
        "what": citation.what,
        "lines": [citation.first, citation.last] if citation.first else [],
        "verdict": looked.verdict.value,
        "place": looked.place,
        "why": looked.why,
    }
