"""Tests of what differs on Windows. `make windows` runs them; elsewhere they are not collected."""

import sys

if sys.platform != "win32":
    collect_ignore_glob = ["test_*.py"]
