"""The entry point of the command `ralph`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from ralph.cli.main import run  # noqa: PLC0415  (hooks will leave before click loads)

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
