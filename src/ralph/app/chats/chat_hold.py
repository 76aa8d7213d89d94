"""One turn at a time: who speaks in a chat holds it until the answer is there.

Two at once would both tell the host to go on from the same point, and each would record half of what it heard. So
the second one is refused, and told who speaks. The kernel holds the lock, and lets it go when its process ends in
whatever way: nobody waits for a dead one. What is written into the file is only for the sentence that says who it is.
Proof: `tests/app/chats/test_chat_hold.py`.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ralph import paths
from ralph.app.logs import log_file
from ralph.errors import Conflict
from ralph.model import ids
from ralph.store import files


@contextmanager
def held(root: Path, session_id: str) -> Iterator[None]:
    """Hold a chat; Conflict with a sentence when another process speaks in it."""
    path = paths.cache_folder(root) / "chats" / log_file(root, session_id).stem
    words = json.dumps({"pid": os.getpid(), "at": ids.timestamp()})
    with ExitStack() as stack:
        try:
            stack.enter_context(files.held(path, words, root=paths.state_root(root)))
        except files.Held as taken:
            what = f"somebody else speaks in {session_id} right now{_who(taken.words)}"
            hint = f"wait for the answer there; `ralph session resume {session_id} --fork` begins another one beside it"
            raise Conflict(what, hint=hint) from taken
        yield


def _who(words: str) -> str:
    try:
        said = json.loads(words)
        return f" (process {said['pid']}, since {said['at']})"
    except (ValueError, KeyError, TypeError):  # it has not written its words yet
        return ""
