"""One at a time: whoever makes, merges or drops a worktree holds the project's repository until that is done.

Two merges at once would both look at a clean checkout, and each would then find the other's half of the work in it. The
second one waits, and says for whom; after a while it gives up with a sentence. The kernel holds the lock and lets it go
when its process ends in whatever way, so nobody waits for a dead one. Within one process it may be held again by what
is called inside. What is written into the file is only for the sentence. `tests/app/worktrees/test_tree_hold.py` proves
it with processes.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from ralph import paths
from ralph.errors import Conflict
from ralph.model import ids
from ralph.model.work import ignore_text
from ralph.store import files

PATIENCE = 120.0
"""Seconds to wait for somebody else; a merge may run hooks."""
_PAUSE = 0.05

_OURS: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def held(
    root: Path, what: str, *, tell: Callable[[str], None] = ignore_text, patience: float = PATIENCE
) -> Iterator[None]:
    """Hold a project's repository for `what`; Conflict when somebody else has it for too long."""
    state = paths.state_root(root)
    if state in _OURS.get():
        yield
        return
    words = json.dumps({"pid": os.getpid(), "what": what, "at": ids.timestamp()})
    with ExitStack() as stack:
        _wait(stack, state, words, tell, patience)
        before = _OURS.set(_OURS.get() | {state})
        try:
            yield
        finally:
            _OURS.reset(before)


def _wait(stack: ExitStack, state: Path, words: str, tell: Callable[[str], None], patience: float) -> None:
    path = paths.cache_folder(state) / "repository"
    until = time.monotonic() + patience
    told = False
    while True:
        try:
            stack.enter_context(files.held(path, words, root=state))
        except files.Held as taken:
            who = _who(taken.words)
            if time.monotonic() > until:
                hint = "nothing was changed; run it again when that one has ended"
                raise Conflict(f"another process is at this repository's worktrees{who}", hint=hint) from taken
            if not told and who:
                tell(f"waiting for another process{who}")
                told = True
            time.sleep(_PAUSE)  # a wait in the kernel could not be ended after a time, nor tell whom it is for
        else:
            return


def _who(words: str) -> str:
    try:
        said = json.loads(words)
        return f" ({said['what']}, process {said['pid']}, since {said['at']})"
    except (ValueError, KeyError, TypeError):  # it has not written its words yet
        return ""
