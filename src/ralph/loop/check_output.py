"""Compare and shorten the output of commands.

A failing command rarely prints the same bytes twice, because times, addresses and the order of
tests vary. `mask_line` replaces the parts that vary:

    /tmp/pytest-3/test_a.py:12: AssertionError at 0x7f3a in 1.52s  (one run)
    /tmp/pytest-9/test_a.py:12: AssertionError at 0x55d1 in 1.48s  (the next run)
    <tmp>:#: AssertionError at <hex> in #                          (both, masked)

Two failures are the same if their `failure_signature` is equal, and a report is shortened by the
length of its masked lines, so that the same failure is always cut at the same line.
"""

from __future__ import annotations

import hashlib
import re

from ralph.capture.error_lines import without_banner

OUTPUT_LENGTH = 3_000  # characters of output in a report, or slightly more if it has long numbers
_MAX_OUTPUT_READ = 40_000  # characters at the end of each stream
_MAX_LINE_LENGTH = 500  # characters
_SIGNATURE_DIGITS = 12
_MAX_GIST_LENGTH = 160  # characters

_ESCAPE_SEQUENCES = re.compile(
    r"""
      \x1b \[ [0-?]* [ -/]* [@-~]               # colours and cursor movements: ESC [ 31 m
    | \x1b \] [^\x07\x1b]* (?: \x07 | \x1b\\ )? # titles and links: ESC ] 0;title BEL
    | \x1b [@-Z\\-_=>]                         # the other sequences: ESC M
    """,
    re.VERBOSE,
)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# The parts of a line that vary, and the text that replaces them. The order matters, because later
# patterns match text that earlier ones insert.
_VARYING = (
    (re.compile(r"\s+"), " "),
    (  # /tmp/pytest-3/a.py, /private/var/folders/x/y
        re.compile(r"(?:/private)?/(?:var/folders|tmp|var/tmp|dev/shm|run/user)/[^\s:'\"`)\]>,]*"),
        "<tmp>",
    ),
    (  # a UUID
        re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE),
        "<id>",
    ),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),  # 0x7f3a
    (  # a commit or digest such as 1f0c9e2, which has both digits and letters
        re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b"),
        "<hex>",
    ),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),  # 12, 1.52, 10:42:07
    (  # a duration whose number is already masked: "# ms", "#s"
        re.compile(r"# ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)\b"),
        "#",
    ),
    (re.compile(r"#(?: ?#)+"), "#"),  # several numbers in a row
    (re.compile(r"[-=_*.~]{3,}"), "---"),  # separators and progress dots
)
_FAILURE_LINE = re.compile(
    r"(?i:\bfail)|\b\w*(?:Error|Exception)\b|\berror\b|\bpanicked\b|\bassert|\bnot found\b"
    r"|\bno such\b"
)


def mask_line(line: str) -> str:
    """Mask the parts of a line that vary from run to run."""
    line = _ESCAPE_SEQUENCES.sub("", line)
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def failure_signature(text: str) -> str:
    """Return a digest and a one-line gist of a failure, or "" if the text is blank.

    The digest ignores the order of lines. The gist is for people, as in
    "1f0c9e2ab345 FAILED test_cart.py::test_total - assert # == #".
    """
    masked_lines = []
    for line in text.splitlines():
        masked = mask_line(line)
        if masked:
            masked_lines.append(masked)
    if not masked_lines:
        return ""
    unordered = "\n".join(sorted(set(masked_lines)))
    digest = hashlib.sha256(unordered.encode("utf-8", "surrogatepass")).hexdigest()
    # Take the smallest line rather than the first, because parallel tests end in any order.
    gist = min(filter(_FAILURE_LINE.search, masked_lines), default=masked_lines[0])
    return f"{digest[:_SIGNATURE_DIGITS]} {gist[:_MAX_GIST_LENGTH]}"


def output_tail(out: str, err: str) -> str:
    """Return the end of standard output followed by the end of standard error.

    The length is measured on masked lines, so that two runs are cut at the same line.
    """
    return "\n".join([*_last_lines(out), *_last_lines(err)])


def _last_lines(text: str) -> list[str]:
    """Return the last lines of a stream, as many as fit into half a report."""
    room = OUTPUT_LENGTH // 2
    newest_first = []
    for line in reversed(_clean_lines(text)):
        room -= len(mask_line(line)) + 1
        if room < 0:
            newest_first.append("...")
            break
        newest_first.append(line)
    return newest_first[::-1]


def _clean_lines(text: str) -> list[str]:
    """Return the last lines of the text as a terminal would show them, but without colours."""
    end = _ESCAPE_SEQUENCES.sub("", text[-_MAX_OUTPUT_READ:])
    lines = end.replace("\r\n", "\n").strip("\n").split("\n")
    if len(text) > _MAX_OUTPUT_READ and len(lines) > 1:
        del lines[0]  # it is probably incomplete
    return list(without_banner([_clean_line(line) for line in lines]))


def _clean_line(line: str) -> str:
    overwritten = line.rstrip("\r").rpartition("\r")[2]  # the last state of a progress bar
    line = _CONTROL_CHARACTERS.sub("", overwritten).rstrip()
    if len(line) > _MAX_LINE_LENGTH:
        line = line[:_MAX_LINE_LENGTH] + " ..."
    return line
