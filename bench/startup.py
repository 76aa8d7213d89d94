"""Compare `ralph memory list` and many concurrent `ralph memory add` with importing click alone."""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.timing import Bar, medians, report

from bench import big

COUNT = 100
WRITERS = 32  # all write the same file: 16 from one session, 16 from others


def run() -> list[str]:
    """Return the table and the limit."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)

        def started(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, check=True)

        numbers = itertools.count()

        def started_together(*arguments: str) -> None:
            command = [sys.executable, "-I", *arguments]
            together = [
                subprocess.Popen(
                    [part.format(next(numbers)) for part in command],
                    cwd=root,
                    stdout=subprocess.DEVNULL,
                )
                for _ in range(WRITERS)
            ]
            assert not any(process.wait() for process in together)

        times = medians(
            {
                "python -I -c pass": lambda: started("-I", "-c", "pass"),
                "python -I -c 'import click'": lambda: started("-I", "-c", "import click"),
                f"ralph memory list ({COUNT} entries)": lambda: started(
                    "-I", "-m", "ralph", "memory", "list"
                ),
            }
        )
        many = medians(
            {
                f"{WRITERS} times import click": lambda: started_together("-c", "import click"),
                f"{WRITERS} times ralph memory add": lambda: started_together(
                    "-m", "ralph", "memory", "add", "fact {}"
                ),
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
    clicks, adds = many
    together = [Bar("ralph memory add / import click", adds, clicks, 3.5)]
    return [
        f"start-up with {COUNT} entries",
        *report(times, bars),
        "at once",
        *report(many, together),
    ]


if __name__ == "__main__":
    print("\n".join(run()))
