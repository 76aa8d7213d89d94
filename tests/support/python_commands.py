"""Commands that run some Python."""

import shlex
import sys


def program(code: str) -> str:
    """A command that runs some Python."""
    return f"{shlex.quote(sys.executable)} -I -c {shlex.quote(code)}"
