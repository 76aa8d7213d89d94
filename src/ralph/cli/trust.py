"""`ralph trust`: let a person approve the commands and addresses in a project's config."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import click

from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import ago
from ralph.core.config import (
    Trusted,
    as_json,
    load,
)
from ralph.core.errors import Refused, UsageError
from ralph.memory import caller
from ralph.storage import trust_records


@click.command(
    name="trust",
    cls=Command,
    examples=["ralph trust", "ralph trust --list", "ralph trust --revoke"],
)
@click.option(
    "--yes",
    is_flag=True,
    help="Approve everything that is shown, without asking. Needs a terminal or CI=true.",
)
@click.option("--list", "listing", is_flag=True, help="List what you trust, in all projects.")
@click.option("--revoke", is_flag=True, help="Revoke all trust for this project.")
@options.formats("table", "json")
@pass_call
def trust(call: Invocation, yes: bool, listing: bool, revoke: bool, form: str) -> int:
    """Approve the commands in a project's config.

    This shows the commands and addresses in the project's config and asks whether you trust them.
    Until you approve them, they are ignored: cloning a repository runs nothing and sends nothing. A
    changed value must be approved again. The same applies to logs from another machine that came
    with a copy of the project.
    """
    exclude({"--yes": yes, "--list": listing, "--revoke": revoke})
    if listing:
        _print_trusted(form)
        return 0
    options.require_for_json(form, "--list")
    if revoke:
        _revoke_trust(call)
        return 0
    return _approve(call, yes=yes)


def _print_trusted(form: str) -> None:
    def to_json(value: Trusted) -> Mapping[str, object]:
        return {
            "root": value.root,
            "key": value.key,
            "sha256": value.digest,
            "trusted_at": value.at,
        }

    output.print_rows(
        trust_records.trusted_values(os.environ),
        form,
        to_json=to_json,
        headings=("key", "trusted", "project"),
        row=lambda value: (value.key, ago(value.at), _escape_text(value.root)),
        empty="You do not trust anything that a project names.",
    )


def _revoke_trust(call: Invocation) -> None:
    count = trust_records.revoke_trust(call.root, os.environ)
    if count:
        click.echo(f"Revoked {count} value(s) in {call.root}")
    else:
        click.echo("Nothing in this project was trusted.")


def _approve(call: Invocation, *, yes: bool) -> int:
    """Show the values and logs that need trust, and record a person's approval."""
    from ralph.loop import mcp_servers

    values = (
        *load(call.root, env=os.environ).trusted_values,
        *mcp_servers.trust_candidates(call.root, os.environ),
    )
    new_values = [value for value in values if not value.trusted]
    logs = trust_records.foreign_logs(call.root)
    for machine, count in logs.items():
        click.echo(f"{count} log(s) of another machine ({_escape_text(machine)})")
    for value in values:
        note = "  (already trusted)" if value.trusted else ""
        click.echo(f"{value.place}: {value.key} = {_escape(as_json(value.value))}{note}")
    if not values:
        click.echo("This project's config names no commands and no addresses.")
    if not new_values and not logs:
        return 0
    if not _is_approved(call, yes=yes):
        click.echo("Nothing was trusted.")
        return 1
    trust_records.record_trust(call.root, values, os.environ)
    accepted_logs = trust_records.accept_logs(call.root)
    trusted = f"{len(new_values)} value(s)"
    if accepted_logs:
        trusted += f" and {accepted_logs} log(s)"
    click.echo(f"Trusted {trusted} in {call.root}")
    return 0


def _is_approved(call: Invocation, *, yes: bool) -> bool:
    """Return whether a person approves. Raises Refused for an agent."""
    if caller.is_called_by_agent(os.environ):
        raise Refused(
            "only a person can grant trust, and an agent made this call",
            hint="run `ralph trust` in a terminal",
        )
    if yes and caller.is_unattended(os.environ):
        return True
    if not can_ask():
        raise UsageError(
            "cannot ask for approval: standard input is not a terminal",
            hint="run `ralph trust` in a terminal; a CI job (CI=true) may use --yes",
        )
    if call.caller is caller.Caller.UNSURE:
        return call.decider.is_person
    return yes or click.confirm(f"Trust this in {call.root}?", default=False, err=True)


def _escape(value: object) -> str:
    """Return a value as JSON, with invisible characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(map(_escape_invisible, text))


def _escape_invisible(character: str) -> str:
    if character.isprintable():
        return character
    return ascii(character).strip("'")


def _escape_text(text: str) -> str:
    """Return text with quotes and invisible characters escaped."""
    return _escape(text).removeprefix('"').removesuffix('"')
