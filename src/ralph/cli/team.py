"""`ralph team`: share what was learned with the other machines of a team, through a PostgreSQL server of theirs."""

from __future__ import annotations

import click

from ralph.app import team
from ralph.app.team import PushResult
from ralph.cli import options as opt
from ralph.cli.options import Group, Invocation
from ralph.cli.output import ago, bar, one_line, print_fields, print_json, say, warn
from ralph.context.render import line_text
from ralph.formats.log import parse_log

_EXAMPLES = [
    "ralph team join postgresql://ann@db.example.com/ralph",
    "ralph team push --dry-run",
    "ralph team pull",
]


@click.group(name="team", cls=Group, examples=_EXAMPLES)
def cli() -> None:
    """Share memories, session summaries and the journal with the machines of a team, through PostgreSQL.

    Nothing is shared until you join a server. `ralph search --team` searches what was pulled, also without a network.
    """


@cli.command(
    "join", examples=["ralph team join postgresql://ann@db.example.com/ralph --project shop"]
)
@click.argument("url")
@click.option(
    "--project",
    default="",
    metavar="NAME",
    help="Its name on the server [default: the folder's name].",
)
def join(call: Invocation, url: str, project: str) -> None:
    """Share this project through a server; URL is libpq's, without a password, or service=NAME.

    It is written to ralph.local.yml, and counts after `ralph trust`.
    """
    name = team.join(call.root, call.config.team, url, project)
    click.echo(f"Joined {one_line(name)}. `ralph trust` lets this project talk to the server.")
    say("`ralph team push --dry-run` then shows every row that would be sent")


@cli.command("push", examples=["ralph team push --dry-run", "ralph team push"])
@opt.dry_run
def push(call: Invocation, dry_run: bool) -> None:
    """Send what is new here: memories, guardrails, knowledge, summaries, journal (`team.share`).

    The rules for secrets and private paths run again, with today's settings; --dry-run prints every row.
    """
    with bar("pushing") as progress:
        result = team.push(call.root, call.config, dry_run=dry_run, progress=progress)
    if dry_run:
        _print_rows(result)
    verb = "would be sent" if dry_run else "sent"
    gone = f", {len(result.removed)} source(s) removed" if result.removed else ""
    forgotten = f", {result.forgotten} id(s) forgotten" if result.forgotten else ""
    click.echo(f"{result.rows} row(s) of {len(result.sent)} source(s) {verb}{gone}{forgotten}.")


def _print_rows(result: PushResult) -> None:
    for path, rows in result.sent.items():
        for row in rows:
            records = [entry.record for entry in parse_log(row.body).entries]
            text = line_text(records[0]) if records else "(session)"
            click.echo(f"{one_line(path)} {one_line(row.id)} {one_line(text)}")


@cli.command("pull", examples=["ralph team pull"])
def pull(call: Invocation) -> None:
    """Fetch what the other machines share, and remove what was forgotten."""
    with bar("pulling") as progress:
        result = team.pull(call.root, call.config, progress)
    click.echo(
        f"{result.rows} row(s) of {result.sources} source(s) pulled, {result.removed} source(s) gone."
    )


@cli.command("status", examples=["ralph team status"])
@opt.formats("table", "json")
def status(call: Invocation, form: str) -> int:
    """Show what is shared with whom, and how old the last pull is; exit 1 when the server does not answer."""
    state = team.status(call.root, call.config)
    if form == "json":
        print_json(state)
    elif not state["url"]:
        click.echo("Not shared with a team; `ralph team join URL` joins one.")
    else:
        may = "write" if state["may_write"] else "only read"
        pulled = f"{state['pulled_rows']} row(s) of {state['machines']} other machine(s), {ago(state['pulled_at'])}"
        fields = {
            "server": state["url"],
            "project": state["project"],
            "shares": ", ".join(state["share"]),
            "on the server": state["problem"]
            or f"{state['server_rows']} row(s); as {state['role']}, who may {may}",
            "to push": "" if state["problem"] else f"{state['to_push']} source(s)",
            "pulled": pulled if state["pulled_at"] else "never",
        }
        print_fields({name: one_line(value) for name, value in fields.items() if value})
    return 1 if state["problem"] else 0


@cli.command("forget", examples=["ralph team forget obs-9a4a"])
@opt.record_id
def forget(call: Invocation, name: str) -> None:
    """Delete a record on the server, and on every machine at its next pull; it cannot be pushed again.

    Backups of the server still have it. A memory in a file of yours stays there: `ralph forget` removes that.
    """
    removed = team.forget(call.root, call.config, name)
    click.echo(f"Forgot {one_line(name)}: {removed} row(s) on the server.")


@cli.command("leave", examples=["ralph team leave --delete-mine"])
@click.option(
    "--delete-mine", is_flag=True, help="Delete what this machine pushed, on the server, first."
)
def leave(call: Invocation, delete_mine: bool) -> None:
    """Stop sharing: remove the server from ralph.local.yml, and what was pulled."""
    removed = team.leave(call.root, call.config.team, delete_mine=delete_mine)
    click.echo(
        f"Left the team; {removed} source(s) deleted on the server."
        if delete_mine
        else "Left the team."
    )


# --- for the administrator -------------------------------------------------------------------------


@cli.command(
    "migrate",
    examples=["ralph team migrate service=ralph --project shop --member ann --member ben"],
)
@click.argument("url")
@click.option(
    "--project", default="", metavar="NAME", help="The project that members are added to."
)
@click.option(
    "--member", "members", multiple=True, metavar="ROLE", help="A role that may read and write it."
)
@click.option(
    "--reader", "readers", multiple=True, metavar="ROLE", help="A role that may only read it."
)
def migrate(
    call: Invocation, url: str, project: str, members: tuple[str, ...], readers: tuple[str, ...]
) -> None:
    """For administrators: make or update the tables on a server, and add members to a project."""
    lines = team.migrate(url, project, members, readers)
    for line in lines or ["The schema is up to date."]:
        click.echo(one_line(line))


@cli.command("check", examples=["ralph team check service=ralph"])
@click.argument("url")
def check(call: Invocation, url: str) -> int:
    """For administrators: look for rights on tables, changed functions and wrong counts; exit 1 when there are any."""
    version, problems = team.check(url)
    warn(*map(one_line, problems))
    click.echo(
        f"Schema {version}: {len(problems)} problem(s)."
        if problems
        else f"Schema {version}: no problems."
    )
    return 1 if problems else 0


@cli.command("demo", examples=["ralph team demo"])
def demo(call: Invocation) -> None:
    """Show two simulated machines that share a memory through a throw-away PostgreSQL server."""
    from ralph.cli.team_demo import show

    show()
