"""Keep the latest errors of a team's syncs, for `ralph team status`.

A sync often runs where nobody reads its output, such as in cron or at the end of a loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import RalphError, UsageError
from ralph.storage import files

_MAX_FAILURES = 5


class Failure(NamedTuple):
    """An error of a push or a pull."""

    at: str  # a timestamp
    action: str
    message: str


@contextmanager
def recorded_failures(root: Path, action: str) -> Iterator[None]:
    """Record an error that is raised in the block, and let it pass.

    `action` is "push" or "pull". A wrong use of the command is not recorded.
    """
    try:
        yield
    except UsageError:
        raise
    except RalphError as error:
        _append(root, Failure(ids.timestamp(), action, error.message))
        raise


def _append(root: Path, failure: Failure) -> None:
    path = paths.team_failures(paths.main_checkout(root))
    line = json.dumps(failure._asdict(), ensure_ascii=False)
    files.make_folder(path.parent, 0o700)
    files.update(
        path,
        lambda text: "\n".join([*text.splitlines(), line][-_MAX_FAILURES:]) + "\n",
        mode=files.PRIVATE,
    )


def last_failures(root: Path) -> list[Failure]:
    """Return the latest errors, newest first."""
    text = files.read(paths.team_failures(paths.main_checkout(root))) or ""
    failures = []
    for line in reversed(text.splitlines()):
        with suppress(ValueError, TypeError):  # a damaged line
            failures.append(Failure(**json.loads(line)))
    return failures
