"""Commands that have another name now, and words that people try as commands.

Neither is a command of its own: `Group.resolve_command` looks a name up here if it is unknown, and
the error names the command to use.
"""

from __future__ import annotations

MOVED = {
    "feature list": "ralph feature show",
    "graph neighbors": "ralph graph show ID --hops N",
    "graph path": "ralph graph show ID --to ID",
    "graph search": "ralph graph show --query WORDS",
    "index prune": "ralph forget --old-logs",
    "index rebuild": "ralph index sync --rebuild",
    "index verify": "ralph doctor --index",
    "loop agents": "ralph doctor --agents",
    "loop journal": "ralph loop show --journal",
    "loop list": "ralph loop show",
    "loop logs": "ralph loop show --log",
    "loop slash": "ralph slash loop",
    "memory archive": "ralph memory edit ID --archive",
    "memory log": "ralph memory show ID --log",
    "memory migrate": "ralph doctor --fix",
    "memory unarchive": "ralph memory edit ID --restore",
    "mcp status": "ralph doctor --mcp",
    "team check": "ralph team admin URL --check",
    "team demo": "ralph demo --team",
    "team migrate": "ralph team admin URL",
    "team pull": "ralph team sync --pull-only",
    "team push": "ralph team sync --push-only",
    "review promote": "ralph review accept ID --to FILE",
    "review refine": "ralph review show ID --improve",
    "skill": "ralph install --skill",
    "statusline": "ralph status --line",
    "session export": "ralph session show ID --conversation",
    "session new": "ralph session chat --task ID MESSAGE",
    "session resume": "ralph session chat ID MESSAGE",
    "session summary": "ralph session show ID --summary",
    "task block": "ralph task set ID blocked",
    "task export": "ralph export tasks",
    "task fail": "ralph task set ID failed",
    "task import": "ralph import --tasks FILE",
    "task reset": "ralph task set ID pending",
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
