"""A compression that is killed at a random moment leaves the log as it was or as it should be, never half of it."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.app.test_compress import OLD, busy, recorded

from ralph.app import compress
from ralph.formats.log import parse_log

SOAK = "RALPH_SOAK" in os.environ
CODE = f"""
import sys
from pathlib import Path
from ralph.app import compress
print("ready", flush=True)
compress.compress(Path(sys.argv[1]), {OLD!r}, really=True)
"""


@pytest.mark.soak
def test_a_kill_at_any_moment_leaves_the_old_log_or_the_new_one(tmp_path: Path) -> None:
    log = recorded(tmp_path, "aaaa", records=busy("aaaa", 3_000))
    old = log.read_bytes()
    began = time.monotonic()
    compress.compress(tmp_path, OLD, really=True)
    took, small = time.monotonic() - began, len(log.read_bytes())
    for _ in range(100 if SOAK else 4):
        log.write_bytes(old)
        with subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(random.uniform(0, took))
            child.send_signal(signal.SIGKILL)
        left = log.read_bytes()
        assert left == old or (len(left) == small and b"compressed_at" in left)
        assert parse_log(left.decode("utf-8")).problems == []
    compress.compress(tmp_path, OLD, really=True)
    assert len(log.read_bytes()) == small
    assert [each.name for each in log.parent.iterdir()] == [log.name]
