"""Redact the lines of a patch, judged as the texts before and after the change.

The name of a secret and its value may be on two lines, and each line of a patch begins with a sign.
The rules therefore search each side of a hunk as one text without signs, and what they find is cut
into the parts that belong to single lines:

    `+- name: DB_PASSWORD`         `+- name: DB_PASSWORD`
    `+  value: Wint3r!Kettle`  ->  `+  value: [redacted: password]`
    ` command: serve`              ` command: serve`

The number of lines and their signs stay the same.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING
from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.secrets import find_secrets, merge_spans, replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.privacy.secret_values import Span

_SIGNS = ("+", "-", " ")


def redact_patch_text(text: str, patterns: Sequence[str] = ()) -> str:
    """Redact a text that contains a patch, such as the output of `git diff`."""
    return "\n".join(redact_hunk(text.split("\n"), patterns))


def redact_hunk(lines: Sequence[str], patterns: Sequence[str] = ()) -> list[str]:
    """Return the lines of one hunk without the secrets on either side of the change."""
    spans_by_line: list[list[Span]] = [[] for _ in lines]
    for sign_of_other_side in ("+", "-"):
        numbers = [
            number for number, line in enumerate(lines) if not line.startswith(sign_of_other_side)
        ]
        for number, span in _secrets_on_side(lines, numbers, patterns):
            spans_by_line[number].append(span)
    return [
        replace_spans(line, merge_spans(spans)) if spans else line
        for line, spans in zip(lines, spans_by_line, strict=True)
    ]


def _secrets_on_side(
    lines: Sequence[str], numbers: Sequence[int], patterns: Sequence[str]
) -> Iterator[tuple[int, Span]]:
    """Yield the part of each secret that is on a line, with the number of that line."""
    unsigned = [_without_sign(lines[number]) for number in numbers]
    side = "\n".join(unsigned)
    if not patterns and not needs_rules(side):
        return
    findings = find_secrets(side, patterns)
    line_start = 0
    first = 0  # the first secret that does not end before the line
    for number, text in zip(numbers, unsigned, strict=True):
        sign_length = len(lines[number]) - len(text)
        line_end = line_start + len(text)
        while first < len(findings) and findings[first].end <= line_start:
            first += 1
        for finding in findings[first:]:
            if finding.start >= line_end:
                break
            start = max(finding.start - line_start, 0) + sign_length
            end = min(finding.end - line_start, len(text)) + sign_length
            yield number, (start, end, finding.kind)
        line_start = line_end + len("\n")


def _without_sign(line: str) -> str:
    if line.startswith(_SIGNS):
        return line[1:]
    return line
