"""Answer questions of `pattern_process.py`, one per line. This runs in a process of its own."""

from __future__ import annotations

import json
import re
import sys


def main() -> None:
    """Search until there are no more questions."""
    for line in sys.stdin.buffer:
        question = json.loads(line)
        pattern = re.compile(question["pattern"])
        spans = [
            match.span()
            for start, end in question["parts"]
            for match in pattern.finditer(question["text"], start, end)
            if match[0]
        ]
        sys.stdout.write(json.dumps(spans) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
