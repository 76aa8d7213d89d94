"""`make bench`: every benchmark, one after the other; exit 1 when a promise is broken."""

import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import parse, startup


def main() -> int:
    """Print the tables."""
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    lines: list[str] = []
    for bench in (startup, parse):
        print("\n".join(found := ["", *bench.run()]), flush=True)
        lines += found
    broken = [line for line in lines if line.endswith("BROKEN")]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
