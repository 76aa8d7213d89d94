"""Start one hook event as `run.py` does, with deadlines that do not depend on the load of the machine.

`<python> -I -S <this file> <folder of the package> <host> <Event>`: deadlines of the clock are far away, and more of
the processor may be used; the redaction of a text keeps its own limit.
"""

import gc
import sys

gc.disable()
sys.path.insert(0, sys.argv[1])

from ralph.hooks import deadline, handler  # noqa: E402 - found at the folder above
from ralph.storage import hook_index  # noqa: E402

_TIMES = 20
_PROCESSOR_TIMES = 4


def _be_patient() -> None:
    handler._DEADLINE_SECONDS *= _TIMES
    handler._HANDLING_SECONDS *= _TIMES
    handler._STARTING_SECONDS *= _TIMES
    handler._SESSION_END_SECONDS *= _TIMES
    handler._INDEXING_SECONDS *= _TIMES
    handler._PROCESSOR_SECONDS *= _PROCESSOR_TIMES
    hook_index._ANSWER_SECONDS *= _PROCESSOR_TIMES
    deadline._LOADING_SECONDS = 100.0


if __name__ == "__main__":
    _be_patient()
    handler.main(sys.argv[2:])
