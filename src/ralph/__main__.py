"""The entry point of the `ralph` command."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130

_GARBAGE_COLLECTION_THRESHOLD = 100_000
"""Allocated objects before a collection: objects made at start-up live until the process ends."""


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(_GARBAGE_COLLECTION_THRESHOLD)
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        if sys.stderr is not None:  # the caller may have closed it
            sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    # At its exit, the interpreter searches every object for cycles, which takes a fifth of the time
    # of a short command. Frozen objects are left out; their memory is released with the process.
    gc.freeze()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    if arguments == ["status", "--line"]:  # clients run it at every turn, so it starts fast
        from ralph.hooks.statusline import main as print_line

        print_line()
        return 0
    from ralph.cli.main import run

    return run(arguments)


if __name__ == "__main__":
    main()
