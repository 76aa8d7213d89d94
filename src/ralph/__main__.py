"""The entry point of the command `ralph`."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(
        100_000
    )  # a start makes many objects that stay, so looking for garbage finds none
    try:
        if sys.argv[1:] == ["statusline"]:  # it starts at every turn of a client
            from ralph.hooks.statusline import main as print_line

            print_line()
            return
        from ralph.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        if sys.stderr is not None:  # closed by whoever called
            sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
