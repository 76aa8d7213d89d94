"""`make demo` tells a true story: it runs to its end and checks itself on the way."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_runs_to_its_end() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "=== Done" in done.stdout
