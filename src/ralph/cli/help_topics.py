"""Pages of `ralph help` that belong to no command."""

from __future__ import annotations

FILES = """\
A memory is stored in one of these files. Most people need only the first
two. Use --in to choose a file; commands that read memories also accept a
comma-separated list of files, or all.

  memories    What was learned in this project (.agent/memories.md, the default)
  personal    What applies to all your projects (memories.md in your config folder)
  guardrails  Mistakes to avoid, which agents are given first (.ralph/guardrails.md)
  patterns    Conventions that every task should know (.ralph/global-patterns.md)
  knowledge   Longer entries, one file each, with a title (.ralph/knowledge/)

Where to store something:

  How this project works                       --in memories
  Something that applies to all your projects  --in personal
  An error or a trap to avoid                  --in guardrails
  A convention of this code                    --in guardrails -t pattern
  A convention that every task should know     --in patterns
  A design decision and its reason             --in guardrails -t decision
  A permanent design decision                  ralph review accept ID --to design
  More than a few sentences                    --in knowledge --title "..." --tags a,b
  A rule for every agent in this project       ralph review accept ID --to agents
  The state of the current work                ralph scratchpad
"""

TOPICS = {"files": FILES}
"""The texts, by the word after `ralph help`."""
