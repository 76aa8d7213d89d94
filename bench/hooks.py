"""What each hook event costs, in turns with a bare interpreter and `true`; and another tool's hook, if given.

`python bench/hooks.py [rounds [records]] [-- command of another hook ...]`. Another tool has to be installed first,
into a folder of its own; its command gets the payload of a PostToolUse on stdin like ours.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import ralph.hooks
from ralph.app import bench_hooks


def started(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> float:
    """The seconds that a command took, started as a host starts it."""
    begun = time.perf_counter()
    subprocess.run(
        command, input=stdin, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - begun


def run(rounds: int = 101, records: int = 10_000, other: Sequence[str] = ()) -> list[str]:
    """The table."""
    stub = Path(ralph.hooks.__file__).with_name("run.py")
    with tempfile.TemporaryDirectory() as folder:
        found = bench_hooks.measure(
            Path(folder),
            started,
            interpreter=sys.executable,
            stub=stub,
            rounds=rounds,
            records=records,
            others={"other hook": other} if other else None,
        )
    return bench_hooks.report(found)


if __name__ == "__main__":
    words = sys.argv[1:]
    mine, others = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    print("\n".join(run(int(mine[0]) if mine else 101, int(mine[1]) if mine[1:] else 10_000, others)))
