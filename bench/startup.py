"""How long `ralph memory list` takes to start and answer, compared with importing click alone."""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.timing import Bar, medians, report

from bench import big

COUNT = 100


def run() -> list[str]:
    """The table and the promise."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)

        def started(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, check=True)

        times = medians(
            {
                "python -I -c pass": lambda: started("-I", "-c", "pass"),
                "python -I -c 'import click'": lambda: started("-I", "-c", "import click"),
                f"ralph memory list ({COUNT} entries)": lambda: started("-I", "-m", "ralph", "memory", "list"),
            }
        )
    bars = [
        Bar(
            "ralph memory list / import click",
            f"ralph memory list ({COUNT} entries)",
            "python -I -c 'import click'",
            2.5,
        )
    ]
    return [f"start-up with {COUNT} entries", *report(times, bars)]


if __name__ == "__main__":
    print("\n".join(run()))
