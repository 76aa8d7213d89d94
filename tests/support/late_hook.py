"""Start one hook event as `run.py` does, and let its time be up when a certain function is called.

`<python> -I -S <this file> <folder of the package> <module>:<function> <host> <Event>`: the first call of the function
raises what the timer of the hook raises. No other time limit is used. With `RALPH_TEST_BUSY`, the hook believes that
the machine is busy, and without it that the machine is not, whatever its load is.
"""

import gc
import os
import sys
from types import FrameType

gc.disable()
sys.path.insert(0, sys.argv[1])

from ralph.core.errors import DeadlineExceeded  # noqa: E402 - found at the folder above
from ralph.hooks import deadline, handler  # noqa: E402
from ralph.storage import hook_index  # noqa: E402


def _set_no_deadline(seconds: float, processor_seconds: float | None = None) -> None:
    """Ignore the time limits of the hook."""


def _end_time_in(step: str) -> None:
    module, _, function = step.partition(":")
    file = f"{module.replace('.', '/')}.py"

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == function and code.co_filename.endswith(file):
            sys.setprofile(None)
            raise DeadlineExceeded("took too long and was given up")

    sys.setprofile(watch)


if __name__ == "__main__":
    handler._set_deadline = _set_no_deadline
    hook_index._ANSWER_SECONDS = 100.0
    is_busy = bool(os.environ.get("RALPH_TEST_BUSY"))
    deadline._LOADING_SECONDS = -1.0 if is_busy else 1_000.0
    _end_time_in(sys.argv[2])
    handler.main(sys.argv[3:])
