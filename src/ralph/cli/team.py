"""`ralph team`: share memory between a team's machines, through the team's PostgreSQL server."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ralph.cli import options
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.output import ago, bar, format_size, one_line, print_fields, print_json, say, warn
from ralph.core.record_lines import line_text
from ralph.formats.log import parse_log
from ralph.sharing import team, team_pull, team_push, team_status
from ralph.sharing.team_failures import Failure, recorded_failures
from ralph.sharing.team_kept import KeptRecord, forgotten_ids, kept_records
from ralph.sharing.team_push import PushResult
from ralph.sharing.team_status import TeamStatus
from ralph.storage.team_server import PushedRow

_MAX_KEPT_SHOWN = 3  # records in the text of `ralph team status`
_LOST_HINT = "`ralph team sync` on the machines that they come from sends them again"


@click.group(
    name="team",
    cls=Group,
    examples=[
        "ralph team join postgresql://ann@db.example.com/ralph",
        "ralph team sync --dry-run",
        "ralph team sync",
    ],
)
def cli() -> None:
    """Share memory across a team's machines.

    Memories, session summaries and the journal are shared through PostgreSQL. Nothing is shared
    until you join a server. `ralph search --team` searches what was pulled, even without a network.
    """


# --- for members ----------------------------------------------------------------------------------


@cli.command(
    "join", examples=["ralph team join postgresql://ann@db.example.com/ralph --project shop"]
)
@click.argument("url")
@click.option(
    "--project",
    default="",
    metavar="NAME",
    help="Name of the project on the server [default: the folder's name].",
)
@pass_call
def join(call: Invocation, url: str, project: str) -> None:
    """Share this project through a server.

    URL is a libpq URL without a password, or service=NAME. It is written to ralph.local.yml, and
    takes effect after `ralph trust`.
    """
    _refuse_empty_project(project)
    name = team.join(call.root, call.config.team, url, project)
    click.echo(f"Joined {one_line(name)}. `ralph trust` lets this project talk to the server.")
    say("`ralph team sync --dry-run` then shows every row that would be sent")


def _refuse_empty_project(project: str) -> None:
    """Refuse an empty `--project`, such as that of a script whose variable is not set."""
    if not project.strip():
        options.refuse("project", "is empty", hint="name a project, or leave it out")


@cli.command("sync", examples=["ralph team sync --dry-run", "ralph team sync --pull-only"])
@click.option("--push-only", is_flag=True, help="Only send what is new here.")
@click.option("--pull-only", is_flag=True, help="Only fetch what the other machines share.")
@options.dry_run
@options.formats("table", "json")
@pass_call
def sync(call: Invocation, push_only: bool, pull_only: bool, dry_run: bool, form: str) -> None:
    """Send what is new here, and fetch what the others share.

    `team.share` selects what is shared: memories, guardrails, knowledge, summaries and the journal.
    The rules for secrets and private paths are applied again, with the current settings; --dry-run
    prints every row that would be sent, also as JSON. Copies of records that the team has forgotten
    are deleted; if such a record is in one of your own files, it stays there, and the sync names
    the file.
    """
    options.exclude({"--push-only": push_only, "--pull-only": pull_only})
    options.exclude({"--pull-only": pull_only, "--dry-run": dry_run})
    known = forgotten_ids(call.root)
    if dry_run:
        _preview_push(call, form)
    else:
        options.require_for_json(form, "--dry-run")
        if not pull_only:
            _push(call)
        if not push_only:
            _pull(call)
    _print_kept(kept_records(call.root, except_ids=known))


def _push(call: Invocation) -> None:
    with bar("pushing") as progress, recorded_failures(call.root, "push"):
        result = team_push.push(call.root, call.config, progress=progress)
    click.echo(_describe_push(result, "sent"))


def _preview_push(call: Invocation, form: str) -> None:
    """Print the rows that a push would send."""
    with bar("pushing") as progress, recorded_failures(call.root, "push"):
        result = team_push.push(call.root, call.config, dry_run=True, progress=progress)
    rows = []
    for source, sent in result.sent.items():
        for row in sent:
            rows.append({"source": source, "id": row.id, "text": _text_of(row)})
    summary = _describe_push(result, "would be sent")
    if form == "json":
        print_json(rows)
        say(summary)
        return
    for shown in rows:
        text = shown["text"] or "(session)"
        click.echo(f"{one_line(shown['source'])} {one_line(shown['id'])} {one_line(text)}")
    click.echo(summary)


def _text_of(row: PushedRow) -> str:
    """Return a row's text for use on one line, or "" for a row that only describes a session."""
    entries = parse_log(row.body).entries
    if not entries:
        return ""
    return line_text(entries[0].record)


def _describe_push(result: PushResult, verb: str) -> str:
    text = f"{result.rows} row(s) of {len(result.sent)} source(s) {verb}"
    if result.removed:
        text += f", {len(result.removed)} source(s) removed"
    if result.forgotten:
        text += f", {result.forgotten} id(s) forgotten"
    return f"{text}."


def _pull(call: Invocation) -> None:
    with bar("pulling") as progress, recorded_failures(call.root, "pull"):
        result = team_pull.pull(call.root, call.config, progress)
    click.echo(
        f"{result.rows} row(s) of {result.sources} source(s) pulled, "
        f"{result.removed} source(s) gone."
    )
    if result.lost:
        warn(
            f"the server was restored from a backup and lost {result.lost} row(s) that are kept "
            f"here; {_LOST_HINT}"
        )
    if result.missing:
        warn(
            f"the server lacks {result.missing} row(s) that it lists; its administrator runs "
            "`ralph team admin URL --check`"
        )


@cli.command("status", examples=["ralph team status"])
@options.formats("table", "json")
@pass_call
def status(call: Invocation, form: str) -> int:
    """Show what is shared, what is pending, and recent errors.

    The exit code is 1 if the server does not answer.
    """
    state = team_status.status(call.root, call.config)
    if form == "json":
        print_json(state.as_json())
    elif not state.url:
        click.echo("Not shared with a team; `ralph team join URL` joins one.")
    else:
        _print_status(state)
    return 1 if state.problem else 0


def _print_status(state: TeamStatus) -> None:
    server = state.problem
    to_push = ""
    to_pull = ""
    if not state.problem:
        permission = "write" if state.may_write else "only read"
        size = format_size(state.server_bytes)
        server = (
            f"{state.server_rows} row(s); as {state.role}, who may {permission}; "
            f"all projects use {size}"
        )
        to_push = f"{state.to_push} source(s)"
        to_pull = f"{state.rows_to_pull} row(s)"
    pulled = "never"
    if state.pulled_at:
        pulled = (
            f"{state.pulled_rows} row(s) of {state.machines} other machine(s), "
            f"{format_size(state.pulled_bytes)}, {ago(state.pulled_at)}"
        )
    print_fields(
        {
            "server": state.url,
            "project": state.project,
            "shares": ", ".join(state.share),
            "on the server": server,
            "to push": to_push,
            "to pull": to_pull,
            "pulled": pulled,
            "lost": _describe_lost(state.lost_rows),
            "forgotten": _describe_kept(state.kept),
            "last error": _describe_failure(state.last_errors),
        }
    )


def _describe_lost(rows: int) -> str:
    """Say how many rows the server lost, and how it gets them back."""
    if not rows:
        return ""
    return f"{rows} row(s) that the server lost, kept here; {_LOST_HINT}"


def _describe_kept(kept: Sequence[KeptRecord]) -> str:
    """Name the forgotten records that are still in this machine's files, and the files."""
    places = [f"{record.id} in {record.file}" for record in kept[:_MAX_KEPT_SHOWN]]
    if len(kept) > len(places):
        places.append(f"and {len(kept) - len(places)} more")
    if not places:
        return ""
    return f"{', '.join(places)}; `ralph forget ID --yes` deletes it there"


def _describe_failure(failures: Sequence[Failure]) -> str:
    """Describe the latest error of a sync."""
    if not failures:
        return ""
    latest = failures[0]
    return f"{latest.action}, {latest.at}: {latest.message}"


@cli.command("forget", examples=["ralph team forget obs-9a4a"])
@options.record_id
@pass_call
def forget(call: Invocation, name: str) -> None:
    """Delete a record from the server and from pulled copies.

    The other machines delete their copies at their next sync, and the record cannot be sent again.
    Nobody's own files are changed: a machine that has the record in one of them keeps it there, but
    `ralph search --team` no longer finds it, and the next sync names the file. Backups of the
    server still contain the record.
    """
    forgotten = team.forget(call.root, call.config, name)
    click.echo(f"Forgot {one_line(name)}: {forgotten.rows} row(s) deleted on the server.")
    kept = [record for record in kept_records(call.root) if record.id == forgotten.id]
    _print_kept(kept)
    say(
        "machines that have it in their own files keep it there; "
        "their next sync names the file and how to delete it"
    )


def _print_kept(kept: Sequence[KeptRecord]) -> None:
    """Say which forgotten records are still in this machine's files."""
    for record in kept:
        say(
            f"the team has forgotten {one_line(record.id)}, which stays in your file "
            f"{one_line(record.file)}; `ralph forget {one_line(record.id)} --yes` deletes it there"
        )


@cli.command("leave", examples=["ralph team leave --delete-mine"])
@click.option(
    "--delete-mine", is_flag=True, help="First delete what this machine pushed to the server."
)
@pass_call
def leave(call: Invocation, delete_mine: bool) -> None:
    """Stop sharing this project.

    The server is removed from ralph.local.yml, and what was pulled is deleted. This also works if
    you have joined but not run `ralph trust`; only --delete-mine requires a trusted server.
    """
    removed = team.leave(call.root, call.config.team, delete_mine=delete_mine)
    if delete_mine:
        click.echo(f"Left the team; {removed} source(s) deleted on the server.")
    else:
        click.echo("Left the team.")


# --- for administrators ---------------------------------------------------------------------------


@cli.command(
    "admin",
    examples=[
        "ralph team admin service=ralph --project shop --member ann --member ben",
        "ralph team admin service=ralph --check",
    ],
)
@click.argument("url")
@click.option("--project", default="", metavar="NAME", help="Project to add members to.")
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="ROLE",
    help="Role that may read and write the project (may be repeated).",
)
@click.option(
    "--reader",
    "readers",
    multiple=True,
    metavar="ROLE",
    help="Role that may only read the project (may be repeated).",
)
@click.option("--check", is_flag=True, help="Only check the server's tables.")
@options.formats("table", "json")
def admin(
    url: str,
    project: str,
    members: tuple[str, ...],
    readers: tuple[str, ...],
    check: bool,
    form: str,
) -> int:
    """For administrators: create the tables and add members.

    Existing tables are updated to the current schema. --check looks for permissions on tables,
    changed functions, wrong counts, and machines that miss rows or have not synced since the server
    was restored from a backup; the exit code is 1 if it finds a problem. The problems are also
    available as JSON.
    """
    if check:
        options.allow_only("a check", "check", "form")
        return _check_server(url, form)
    options.require_for_json(form, "--check")
    _refuse_empty_project(project)
    lines = team.migrate(url, project, members, readers)
    for line in lines:
        click.echo(one_line(line))
    if not lines:
        click.echo("The schema is up to date.")
    return 0


def _check_server(url: str, form: str) -> int:
    version, problems = team.check(url)
    if form == "json":
        print_json([{"message": problem} for problem in problems])
        return 1 if problems else 0
    warn(*map(one_line, problems))
    if problems:
        click.echo(f"Schema {version}: {len(problems)} problem(s).")
        return 1
    click.echo(f"Schema {version}: no problems.")
    return 0
