"""The program that a crash test starts: it accepts a proposal and kills itself on the way.

`accepting.py ROOT PROPOSAL line N` dies at the N-th line of `storage/files.py`, and
`accepting.py ROOT PROPOSAL call NAME` at the first call of a function of the part `learning`. It
exits with 0 if it was not stopped.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from ralph.learning import insights, review
from ralph.storage import files

_LEARNING = str(Path(insights.__file__).parent)


def die_at_line(number: int) -> None:
    """Kill this process at the n-th line of the code that writes files."""
    passed = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and next(passed) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]  # it returns itself, which has no finite type


def die_at_call(name: str) -> None:
    """Kill this process when a function with this name is called."""

    def trace(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_name == name and code.co_filename.startswith(_LEARNING):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.settrace(trace)


if __name__ == "__main__":
    root, proposal, way, place = sys.argv[1:]
    if way == "line":
        die_at_line(int(place))
    else:
        die_at_call(place)
    review.accept(Path(root), proposal)
