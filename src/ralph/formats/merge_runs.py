r"""Hide long runs of unchanged entries before a merge, and restore them afterwards.

In a large memory file, most entries are the same in all three versions. Parsing them three times
would take most of the time of a merge, so a run of such entries is cut out, and a numbered comment
takes its place. For example, if no version changed the entries A to E, which follow each other in
each version, then all three versions become

    ### A
    <!--\ue0010-->

    ### E

and run number 0 is the text from B to D. The first and last entries stay visible, because the merge
needs them to place new entries next to the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ralph.core.errors import Refused
from ralph.formats.memories_reader import CANONICAL_RUN

ENTRY_START = "\n### "

_RUN_MARK = "\ue001"  # a private-use character, which does not occur in files
_HIDDEN_RUN = re.compile(f"\n<!--{_RUN_MARK}(\\d+)-->\n")
_MIN_STEPS = 3  # from the first entry of a run to the last; a shorter run is not worth hiding
# `ours[NOT_FOUND] + 1` must not be the number of a chunk either, so -1 would be wrong.
_NOT_FOUND = -2


class HiddenRuns(NamedTuple):
    """The three versions with a comment in place of each run, and the runs by number."""

    texts: list[str]
    runs: list[str]


def hide_common_runs(versions: Sequence[str]) -> HiddenRuns:
    """Replace runs of entries that are the same in all versions by numbered comments."""
    # A chunk is the text of an entry without `### `. The first chunk is the text above all entries.
    chunk_lists = [text.split(ENTRY_START) for text in versions]
    has_mark = any(_RUN_MARK in text for text in versions)
    has_duplicates = any(len(set(chunks)) < len(chunks) for chunks in chunk_lists)
    if has_mark or has_duplicates:
        return HiddenRuns(list(versions), [])
    runs: list[str] = []
    hidden_chunks: list[set[int]] = [set(), set(), set()]
    for run in _common_runs(chunk_lists):
        first = run.starts[0]
        inside = chunk_lists[0][first + 1 : first + run.steps]
        text = ENTRY_START + ENTRY_START.join(inside)
        if run.steps < _MIN_STEPS or not CANONICAL_RUN.fullmatch(text.strip("\n")):
            continue
        for chunks, hidden, start in zip(chunk_lists, hidden_chunks, run.starts, strict=True):
            chunks[start] += f"\n<!--{_RUN_MARK}{len(runs)}-->\n"
            hidden.update(range(start + 1, start + run.steps))
        runs.append(text)
    texts: list[str] = []
    for chunks, hidden in zip(chunk_lists, hidden_chunks, strict=True):
        visible = [chunk for number, chunk in enumerate(chunks) if number not in hidden]
        texts.append(ENTRY_START.join(visible))
    return HiddenRuns(texts, runs)


def restore_runs(text: str, runs: Sequence[str]) -> str:
    """Put the hidden runs back into the merged text.

    Raises Refused unless the text refers to each run exactly once.
    """
    numbers = sorted(int(number) for number in _HIDDEN_RUN.findall(text))
    if numbers != list(range(len(runs))):
        raise Refused("entries that neither side changed are missing")
    return _HIDDEN_RUN.sub(lambda comment: runs[int(comment[1])], text)


class _ChunkRun(NamedTuple):
    """Chunks that follow each other in all three versions.

    `starts` holds the number of the first chunk in each version, and `steps` the distance from the
    first chunk to the last.
    """

    starts: tuple[int, int, int]
    steps: int


def _common_runs(chunk_lists: Sequence[Sequence[str]]) -> list[_ChunkRun]:
    base, ours, theirs = chunk_lists
    our_numbers = {chunk: number for number, chunk in enumerate(ours)}
    their_numbers = {chunk: number for number, chunk in enumerate(theirs)}
    in_ours = [our_numbers.get(chunk, _NOT_FOUND) for chunk in base]
    in_theirs = [their_numbers.get(chunk, _NOT_FOUND) for chunk in base]

    def is_followed(number: int) -> bool:
        """Return whether the next chunk in the base also follows this one in ours and theirs."""
        following = number + 1
        is_last_in_section = "\n#" in base[number]
        if following >= len(base) or is_last_in_section:
            return False
        follows_in_ours = in_ours[following] == in_ours[number] + 1
        follows_in_theirs = in_theirs[following] == in_theirs[number] + 1
        return follows_in_ours and follows_in_theirs

    runs: list[_ChunkRun] = []
    start = 1  # chunk 0 is not an entry
    while start < len(base):
        end = start
        while is_followed(end):
            end += 1
        runs.append(_ChunkRun((start, in_ours[start], in_theirs[start]), end - start))
        start = end + 1
    return runs
