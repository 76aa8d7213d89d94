"""The expressions of the rules as `app/hook_rules` has compiled them, made patterns one by one when they are asked for.

Compiling is more than half of what it takes to run the rules on an event. What is in the file is believed if
it is the file that the settings cache names, made by this very Python; otherwise, and for each expression that
it does not have, `capture/values` compiles as usual. `tests/hooks/test_prepared.py` proves it.
"""

import _sre  # type: ignore[import-not-found]  # nobody has described it
import posix
import sys

from ralph.capture import values
from ralph.hooks.fast import scanned
from ralph.hooks.own import made
from ralph.hooks.place import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_LARGEST = 1 << 20


class _Prepared(dict[str, "re.Pattern[str]"]):
    """Patterns by their source; `places` says where the codes are of those that nobody has asked for yet."""

    def __init__(self, places: "dict[str, tuple[int, int, int, int, dict[str, int]]]", codes: bytes) -> None:
        self.places = places
        self.codes = codes

    def __missing__(self, source: str) -> "re.Pattern[str]":
        start, end, flags, groups, names = self.places[source]
        found = self[source] = made(source, self.codes[start:end].decode("ascii"), flags, groups, names)
        return found


def prepare(path: str, stamp: str) -> None:
    """Let the rules use the compiled expressions of this file, if it is the one that the stamp tells."""
    if not stamp or isinstance(values._EXPRESSIONS, _Prepared):
        return
    try:
        now = posix.stat(path)
    except OSError:
        return
    if stamp != f"{now.st_ino} {now.st_mtime_ns} {now.st_size}":
        return
    first, _, codes = (read(path, _LARGEST) or b"").partition(b"\n")
    said = scanned(first.decode("utf-8", "replace")) or {}
    made_for, places = said.get("for"), said.get("expressions")
    if isinstance(made_for, list) and made_for[:2] == [_sre.MAGIC, sys.hexversion] and isinstance(places, dict):
        known, values._EXPRESSIONS = values._EXPRESSIONS, _Prepared(places, codes)
        values._EXPRESSIONS.update(known)
