"""Start a run in a separate process that outlives this one.

The process is another `ralph loop start`, with two hidden options: `--as` has the id of the run,
and `--request` has its options as JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.cli.invocation import Invocation
from ralph.cli.output import say
from ralph.core import paths, process
from ralph.core.errors import NotFound, Refused
from ralph.loop import runs
from ralph.loop.state import BEGINNING
from ralph.storage import files

if TYPE_CHECKING:
    import subprocess

    from ralph.loop.request import LoopRequest

_POLL_SECONDS = 0.1  # between two checks whether the run has started
_MAX_START_SECONDS = 30.0  # that a run may take to start

_RUN_VARIABLES = ("RALPH_RUN", "RALPH_ITERATION", "RALPH_TASK")
"""Variables set for an agent inside a loop. A run that the agent starts must not inherit them."""


def start_detached(call: Invocation, request: LoopRequest, untrusted: Sequence[str]) -> None:
    """Start a run in a separate process, wait until it has started, and print its id.

    `untrusted` describes the configured criteria that the user has not trusted.
    If there is nothing to do, its message is printed instead. Raises `Refused` with the output of
    the process if it fails before the run has started.
    """
    from ralph.loop.plan import prepare, title_and_description
    from ralph.loop.request import apply_request
    from ralph.memory.quarantine import accept_titles

    root = call.root
    plan = prepare(root, apply_request(call.config, request), request, untrusted=untrusted)
    title, _ = title_and_description(plan.goal)
    accept_titles(call.author.by, plan.goal, title)
    run_id = runs.new_id(root)
    child = _start_process(root, run_id, request)
    deadline = time.monotonic() + _MAX_START_SECONDS
    while child.poll() is None and time.monotonic() < deadline and not _has_begun(root, run_id):
        time.sleep(_POLL_SECONDS)
    code = child.poll()
    if code is not None and not paths.run_log(root, run_id).exists():
        message = (files.read(paths.run_output(root, run_id)) or "").strip()
        files.delete(paths.run_output(root, run_id))
        if code == 0:
            click.echo(message)
            return
        raise Refused(
            f"the run did not start (exit {code}): {message}", hint="fix this and start again"
        )
    child.returncode = 0  # it outlives this process; otherwise Python warns that nobody waited
    click.echo(run_id)
    say(
        f"  ralph loop status {run_id}   shows it",
        f"  ralph loop show --log -f {run_id}   follows it",
        f"  ralph loop stop {run_id}   stops it after its iteration",
    )


def _has_begun(root: Path, run_id: str) -> bool:
    """Return whether a run has passed the check before its first iteration."""
    try:
        run = runs.read(root, run_id)
    except NotFound:
        return False
    return run.step != BEGINNING or bool(run.task)


def _start_process(root: Path, run_id: str, request: LoopRequest) -> subprocess.Popen[bytes]:
    python = process.this_python("-m", "ralph")
    words = ["loop", "start", "--root", str(root), "--as", run_id]
    given = ["--request", json.dumps(asdict(request))]
    environment = {name: value for name, value in os.environ.items() if name not in _RUN_VARIABLES}
    output = files.output(paths.run_output(root, run_id), root=paths.state_boundary(root))
    try:
        return process.start_detached(
            [*python, *words, *given], cwd=root, env=environment, output=output
        )
    finally:
        os.close(output)
