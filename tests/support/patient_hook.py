"""Start one hook event as `run.py` does, with deadlines that do not depend on the load of the machine.

`<python> -I -S <this file> <folder of the package> <host> <Event>`: deadlines are counted in seconds of the processor
instead of those of the clock, and there are more of them; the redaction of a text keeps its own.
"""

import gc
import signal
import sys

gc.disable()
sys.path.insert(0, sys.argv[1])

from ralph.hooks import deadline, handler  # noqa: E402 - found at the folder above
from ralph.storage import hook_index  # noqa: E402

_TIMES = 4


def _be_patient() -> None:
    signal.SIGALRM, signal.ITIMER_REAL = signal.SIGPROF, signal.ITIMER_PROF  # type: ignore[misc]
    handler._RECORDING_SECONDS *= _TIMES
    handler._ANSWERING_SECONDS *= _TIMES
    handler._HANDLING_SECONDS *= _TIMES
    handler._STARTING_SECONDS *= _TIMES
    handler._SESSION_END_SECONDS *= _TIMES
    hook_index._ANSWER_SECONDS = 100.0  # of the clock: SQLite asks it
    deadline._LOADING_SECONDS = 100.0  # of the clock as well


if __name__ == "__main__":
    _be_patient()
    handler.main(sys.argv[2:])
