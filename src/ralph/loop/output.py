"""What a command printed: cleaned of a terminal's signs, cut to its end, and made comparable.

Two runs of one failing command never print the same bytes: times, addresses, temporary folders, the order of
parallel tests. `alike` masks these in a line, `signature` names a failure by its masked lines, and `tail` counts
masked lines when it cuts, so that the same failure is cut at the same line however long its numbers are.
`tests/loop/test_output.py`.
"""

import hashlib
import re
from collections.abc import Sequence

TAIL = 2_000
"""Characters of an output that are kept; a little more where numbers are long."""
_READ = 40_000
_LONGEST_LINE = 500

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_=>]")
_DAYS = "Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
_MONTHS = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?|"
    "Nov(?:ember)?|Dec(?:ember)?"
)
_VARYING = (
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?:/private)?/(?:var/folders|tmp|var/tmp|dev/shm|run/user)/[^\s:'\"`)\]>,]*"), "<tmp>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
    (re.compile(rf"\b(?:{_DAYS})\b,? ?|\b(?:AM|PM|UTC|GMT)\b ?"), ""),
    (re.compile(rf"\b(?:{_MONTHS})(?=[ -]#)|(?<=#[ -])(?:{_MONTHS})\b"), "<month>"),
    (re.compile(r"# ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)\b"), "#"),
    (re.compile(r"#(?: ?#)+"), "#"),
    (re.compile(r"[-=_*.~]{3,}"), "---"),
)  # fmt: skip
_TELLING = re.compile(
    r"(?i:\bfail)|\b\w*(?:Error|Exception)\b|\berror\b|\bpanicked\b|\bassert|\bnot found\b|\bno such\b"
)


def plain(text: str) -> str:
    """A line or a text without colours and other signs that only a terminal understands."""
    return _COLOURS.sub("", text)


def alike(line: str) -> str:
    """A line without what differs from run to run."""
    line = plain(line)
    for pattern, instead in _VARYING:
        line = pattern.sub(instead, line)
    return line.strip()


def signature(text: str) -> str:
    """A short name of a failure: the same for the same one, whatever the numbers in it; "" when there is none."""
    found = [line for line in map(alike, text.splitlines()) if line]
    if not found:
        return ""
    digest = hashlib.sha256("\n".join(sorted(set(found))).encode("utf-8", "surrogatepass")).hexdigest()
    gist = min(filter(_TELLING.search, found), default=found[0])  # not the first: parallel tests have no order
    return f"{digest[:12]} {gist[:160]}"


def tail(out: str, err: str, limit: int = TAIL) -> str:
    """The end of an output without colours: whole lines, and of both streams at least half of the room."""
    ends = [_cleaned(out), _cleaned(err)]
    sizes = [sum(len(alike(line)) + 1 for line in end) for end in ends]
    kept: list[str] = []
    for end, other in zip(ends, reversed(sizes), strict=True):
        kept += _last(end, max(limit // 2, limit - other))
    return "\n".join(kept)


def _last(lines_: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines_):
        room -= len(alike(line)) + 1
        if room < 0:
            return ["...", *reversed(kept)]
        kept.append(line)
    return kept[::-1]


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _cleaned(text: str) -> list[str]:
    """The last lines as a terminal would show them; of a line that was written over, what stood there at last."""
    found = []
    whole = plain(text[-_READ:]).replace("\r\n", "\n").strip("\n").split("\n")
    for line in whole if len(text) <= _READ else whole[1:] or whole:
        line = _CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
        found.append(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ...")
    return found if any(found) else []
