"""Commands that have another name now, and words that people try as commands.

Neither is a command of its own: `Group.resolve_command` looks a name up here if it is unknown, and
the error names the command to use.
"""

from __future__ import annotations

MOVED = {
    "loop agents": "ralph doctor --agents",
    "loop journal": "ralph loop show --journal",
    "loop list": "ralph loop show",
    "loop logs": "ralph loop show --log",
    "loop slash": "ralph slash loop",
}
"""Former commands, without `ralph`, and the call that replaces each."""

TRIED = {
    "add": "ralph memory add TEXT",
    "list": "ralph memory list",
    "show": "ralph memory show ID",
    "start": "ralph loop start GOAL",
    "stop": "ralph loop stop",
    "resume": "ralph loop resume",
}
"""Words that people try, without `ralph`, and the command that does it."""
