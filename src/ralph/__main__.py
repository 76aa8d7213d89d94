"""The entry point of the command `ralph`.

An interrupt while the command line is still being loaded ends as it does later: one word and exit 130.
"""

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
