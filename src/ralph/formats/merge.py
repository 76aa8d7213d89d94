"""Merge three versions of one of Ralph's files entry by entry.

As in git, the versions are called base, ours and theirs. Suppose that the base has the entries A
and B. We add C below A, and they add D below A and reword B, which becomes B':

    base         ours         theirs       result
    ## Fixes     ## Fixes     ## Fixes     ## Fixes
    A            A            A            A
    B            C            D            C
                 B            B'           D
                                           B'

Line by line, git would report a conflict between C and D. Ralph merges the files in these steps:

1. Runs of entries that no version changed are hidden, because they need no parsing
   (`merge_runs`).
2. Each version is parsed, and entries are matched by id (`merge_version`). Here A and B are common
   to all versions, and C and D are not.
3. For each entry, a block of text is chosen, such as B' for B (`merge_blocks`). If both sides
   reworded an entry, both wordings are kept.
4. The prose, which is the text between entries, is merged line by line, with a placeholder for each
   common entry: `## Fixes`, [A], [B] (`merge_document`).
5. The blocks are inserted. C and D have the same anchor, which is the common entry A above them, so
   they follow A. They are sorted by time, so that merging in either direction gives the same bytes.
6. The result is parsed, and the merge is refused if an entry is missing.

Anything unexpected is left to the line-by-line merge, and never decided in favour of one side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from ralph.core.errors import RalphError
from ralph.core.text import newline_of
from ralph.formats.memories import GUARDRAILS, MemoriesDocument
from ralph.formats.merge_document import merge_document
from ralph.formats.merge_insights import merge_insights
from ralph.formats.merge_lines import Merged, MergeLines
from ralph.formats.merge_runs import hide_common_runs, restore_runs
from ralph.formats.merge_version import Parse
from ralph.formats.patterns import parse_patterns
from ralph.formats.progress import parse_progress
from ralph.formats.regions import parse_region

__all__ = ["MergeLines", "Merged", "can_merge", "merge"]

_MEMORIES = (".agent/memories.md", ".ralph/agent/memories.md")
_GUARDRAILS = "guardrails.md"
_PATTERNS = ".ralph/global-patterns.md"
_KNOWLEDGE = ".ralph/knowledge/*.md"
_INSIGHTS = ".ralph/tasks/*/memory/insights.json"
_PARSERS: Mapping[str, Parse] = {
    "AGENTS.md": parse_region,
    "CLAUDE.md": parse_region,
    "progress.txt": parse_progress,
    ".ralph/progress.md": parse_progress,
}
_MERGEABLE = (*_MEMORIES, _GUARDRAILS, _PATTERNS, _KNOWLEDGE, _INSIGHTS, *_PARSERS)

_FOOTER = re.compile(r"^[_*]+Last updated: (\d{4}-\d{2}-\d{2}) by .*$", re.MULTILINE)


def can_merge(name: str) -> bool:
    """Return whether a file, given by its path in the repository, can be merged by entry."""
    path = PurePosixPath(name)
    return any(path.match(pattern) for pattern in _MERGEABLE)


def merge(name: str, base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge three versions of a file, given by its path in the repository.

    A file that is not in its usual form is merged line by line, and a note says so.
    """
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    notes: tuple[str, ...] = ()
    if can_merge(name):
        versions = [text.replace("\r\n", "\n") for text in (base, ours, theirs)]
        try:
            merged = _merge_by_entry(PurePosixPath(name), versions, merge_lines)
        except RalphError as error:
            notes = (f"merged by lines, not by entry: {error}",)
        else:
            newline = _merged_newline(base, ours, theirs)
            return merged._replace(text=merged.text.replace("\n", newline))
    text, conflicts = merge_lines(base, ours, theirs)
    return Merged(text, conflicts, notes)


def _merge_by_entry(
    path: PurePosixPath, versions: Sequence[str], merge_lines: MergeLines
) -> Merged:
    if path.match(_KNOWLEDGE):
        # Imported here because it loads YAML, which most merges do not need.
        from ralph.formats.merge_knowledge import merge_knowledge

        base, ours, theirs = versions
        return merge_knowledge(base, ours, theirs, merge_lines)
    if any(path.match(pattern) for pattern in _MEMORIES):
        return _merge_memories(MemoriesDocument, versions, merge_lines)
    if path.match(_GUARDRAILS):
        return _merge_memories(_parse_guardrails, versions, merge_lines)
    if path.match(_PATTERNS):
        return merge_document(parse_patterns, _with_newest_footer(versions), merge_lines)
    if path.match(_INSIGHTS):
        return merge_insights(versions)
    for pattern, parse in _PARSERS.items():
        if path.match(pattern):
            return merge_document(parse, versions, merge_lines)
    raise ValueError(f"{path} is not merged by entry")


def _parse_guardrails(text: str) -> MemoriesDocument:
    return MemoriesDocument(text, GUARDRAILS)


def _merge_memories(parse: Parse, versions: Sequence[str], merge_lines: MergeLines) -> Merged:
    hidden = hide_common_runs(versions)
    merged = merge_document(parse, hidden.texts, merge_lines)
    return merged._replace(text=restore_runs(merged.text, hidden.runs))


def _with_newest_footer(versions: Sequence[str]) -> Sequence[str]:
    """Give all versions the footer with the newest date.

    The footer is derived from the rest of the file, so it should never cause a conflict.
    """
    footers: list[re.Match[str]] = []
    for text in versions[1:]:
        match = _FOOTER.search(text)
        if match is not None:
            footers.append(match)
    if not footers:
        return versions
    newest = max(footers, key=lambda match: (match[1], match[0]))[0]
    return [_FOOTER.sub(lambda _: newest, text) for text in versions]


def _merged_newline(base: str, ours: str, theirs: str) -> str:
    """Return the line ending of the side that changed it. For two new files, CRLF wins."""
    our_newline = newline_of(ours)
    their_newline = newline_of(theirs)
    if not base:
        return "\r\n" if "\r\n" in (our_newline, their_newline) else "\n"
    if our_newline == newline_of(base):
        return their_newline
    return our_newline
