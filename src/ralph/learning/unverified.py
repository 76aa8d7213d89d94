"""Mark proposals that name files or commands which do not exist.

A proposal of an agent may name a file that was removed since, or that never existed. It may still
be true, so it is not dropped. The person who reviews it is told what was not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core.record import Origin, Record
from ralph.learning import propose
from ralph.learning.candidates import Operation
from ralph.learning.learn_answer import UNVERIFIED
from ralph.recall import citation_check
from ralph.search.citations import STALE, CheckedCitation, CitationKind, CitationState

_MAX_SECONDS = 5.0  # for all proposals of an answer
_MUST_EXIST = (CitationKind.FILE, CitationKind.COMMAND)


def mark_unverified(root: Path, proposals: Sequence[Record]) -> list[Record]:
    """Return proposals with the names of what they cite and what does not exist here."""
    # The files of the evidence are not part of what a proposal says.
    texts = [replace(proposal, origin=Origin()) for proposal in proposals]
    marked = []
    checked = citation_check.check_records(root, texts, _MAX_SECONDS)
    for proposal, citations in zip(proposals, checked, strict=True):
        missing = list(_missing(proposal.text, citations))
        if missing and propose.operation(proposal) is not Operation.DELETE:
            proposal = replace(proposal, extra={**proposal.extra, UNVERIFIED: missing})
        marked.append(proposal)
    return marked


def _missing(text: str, citations: Sequence[CheckedCitation]) -> Iterator[str]:
    for checked in citations:
        citation = checked.citation
        is_unknown = checked.verdict is CitationState.UNVERIFIABLE and _must_exist(text, checked)
        if is_unknown or checked.verdict in STALE:
            yield str(citation)


def _must_exist(text: str, checked: CheckedCitation) -> bool:
    """Return whether a citation certainly names a file or a command.

    In a sentence, `Node.js` looks like a file.
    """
    citation = checked.citation
    is_path = "/" in citation.what or f"`{citation.what}" in text
    return citation.kind in _MUST_EXIST and is_path
