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
        if sys.argv[1:] == ["status", "--line"]:  # clients run it at every turn, so it starts fast
            from ralph.hooks.statusline import main as print_line

            print_line()
            return
        from ralph.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        if sys.stderr is not None:  # the caller may have closed it
            sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
