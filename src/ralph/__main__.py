"""The entry point of the command `ralph`."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from ralph.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        if sys.stderr is not None:  # closed by whoever called
            sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
