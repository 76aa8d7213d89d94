"""Import what agents and other memory tools have already stored about a project (`ralph import`).

There are two kinds of sources. `histories` finds transcripts of coding agents, which become the
logs of their sessions (`session_import`). `other_memories` reads the memories of other tools, rule
files and the git history, which become proposals for `ralph review`. A ledger ensures that only new
and changed transcripts are read again, and that nothing is proposed twice.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.core.record import Status
from ralph.core.text import normalise_text
from ralph.memory import held_memories, quarantine, reading
from ralph.memory.held_memories import HeldMemory
from ralph.privacy.privacy import redact
from ralph.sharing import histories
from ralph.sharing.histories import Transcript
from ralph.sharing.import_context import ImportContext
from ralph.sharing.import_helper import ImportHelpRules, import_helper, usual_rules
from ralph.sharing.import_ledger import ImportedItem, ImportLedger
from ralph.sharing.other_memories import READERS, Proposal, git_proposals
from ralph.sharing.session_import import PreparedTranscript, SessionRecorder
from ralph.storage import forgotten, gitignore
from ralph.storage.config import privacy_rules

_MAX_PROPOSAL_CHARACTERS = 2_000
_MIN_PROPOSAL_CHARACTERS = 12
_MAX_PROPOSAL_TAGS = 6
_KEY_DIGITS = 16  # hexadecimal digits of a proposal's digest in the ledger


Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Found:
    """The items of a source that belong to the project."""

    source: str
    kind: str  # sessions, memories or records
    count: int = 0
    new: int = 0
    bytes: int = 0
    added: int = 0  # number of records or proposals that were imported


def sources_named(
    names: Sequence[str], every: tuple[str, ...], *, extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the named sources, or `every` source if none is named.

    The `extra` sources are used only if they are named. Raises UsageError for an unknown name, with
    a list of the valid ones.
    """
    valid = (*every, *extra)
    for name in names:
        if name not in valid:
            raise UsageError(
                f"{name!r} is not an import source", hint=f"use one of {', '.join(valid)}"
            )
    return tuple(dict.fromkeys(names)) or every


# --- transcripts ---------------------------------------------------------------------------------


def import_histories(
    root: Path,
    names: Sequence[str],
    context: ImportContext,
    *,
    really: bool,
    progress: Progress | None = None,
    help_rules: ImportHelpRules | None = None,
) -> list[Found]:
    """Find the transcripts of the named clients.

    With `really`, new and changed transcripts are imported. `help_rules` say when a second process
    prepares some of them.
    """
    ledger = ImportLedger(root)
    found: dict[str, Found] = {}
    waiting: list[Transcript] = []
    for name in names:
        found[name] = Found(name, "sessions")
        for transcript in histories.find(context, name):
            found[name].count += 1
            found[name].bytes += transcript.size
            if not ledger.is_imported(_ledger_item(transcript)):
                found[name].new += 1
                waiting.append(transcript)
    if really and waiting:
        gitignore.ensure_gitignore(root)
        importer = _Importer(root, ledger, context.notes)
        with import_helper(help_rules or usual_rules(root), waiting) as helper:
            for number, transcript in enumerate(waiting, 1):
                prepared = helper.take(transcript) if helper is not None else None
                found[transcript.source].added += importer.add(transcript, prepared)
                if progress is not None:
                    progress(number, len(waiting))
    return [result for result in found.values() if result.count]


class _Importer:
    """Records transcripts, and notes in the ledger that it has."""

    def __init__(self, root: Path, ledger: ImportLedger, notes: list[str]) -> None:
        self._recorder = SessionRecorder(root)
        self._ledger = ledger
        self._notes = notes

    def add(self, transcript: Transcript, prepared: PreparedTranscript | None) -> int:
        """Import a transcript, and return the number of new observations.

        A transcript that another process has prepared only has to be written.
        """
        added: int | None = None
        try:
            if prepared is not None:
                added = self._recorder.write(prepared)
            if prepared is not None and added is not None:
                self._notes += prepared.notes
            else:
                added = self._recorder.record(transcript, self._notes)
        except (sqlite3.Error, OSError) as error:
            self._notes.append(f"{transcript.key}: cannot be read: {error}")
            return 0
        self._ledger.add([_ledger_item(transcript)])
        return added


def _ledger_item(transcript: Transcript) -> ImportedItem:
    return ImportedItem(transcript.source, transcript.key, transcript.version)


# --- memories of other tools ---------------------------------------------------------------------


GIT = "git"


def propose(
    root: Path, names: Iterable[str], context: ImportContext, *, really: bool, since: str = ""
) -> list[Found]:
    """Find the memories in the named stores that are new to the project.

    With `really`, they are proposed.
    """
    ledger = ImportLedger(root)
    collector = _ProposalCollector(root, ledger)
    found = []
    for name in names:
        result = Found(name, "memories")
        proposals = git_proposals(context, since) if name == GIT else READERS[name](context)
        for proposal in proposals:
            text = collector.clean(proposal)
            result.count += 1
            result.bytes += len(text)
            if collector.is_new(text):
                result.new += 1
                collector.add(text, proposal)
        found.append(result)
    if really and collector.held:
        held_memories.hold_all(root, collector.held)
        ledger.add(collector.items)
        for result in found:
            result.added = result.new
    return [result for result in found if result.count]


class _ProposalCollector:
    """Collects the proposals that are new to the project, each only once."""

    def __init__(self, root: Path, ledger: ImportLedger) -> None:
        self.held: list[HeldMemory] = []
        self.items: list[ImportedItem] = []
        self._ledger = ledger
        self._patterns = privacy_rules(root).patterns
        self._forgotten = forgotten.load()
        self._known = {normalise_text(held.text) for held in held_memories.list_held(root)}
        for stored in reading.list_entries(root, in_=(reading.ALL,)):
            if stored.record.status is not Status.RETIRED:
                self._known.add(normalise_text(stored.record.text))

    def clean(self, proposal: Proposal) -> str:
        """Return a proposal's text on one line, shortened and without secrets."""
        line = " ".join(proposal.text.split())[:_MAX_PROPOSAL_CHARACTERS]
        return redact(line, self._patterns).text.strip()

    def is_new(self, text: str) -> bool:
        """Return whether a text is long enough and was never stored, proposed or forgotten."""
        if len(text) < _MIN_PROPOSAL_CHARACTERS or normalise_text(text) in self._known:
            return False
        if self._ledger.is_imported(_proposal_item(text)):
            return False
        return not self._forgotten.has(text)

    def add(self, text: str, proposal: Proposal) -> None:
        """Collect a new proposal, leaving out tags that contain a secret."""
        self._known.add(normalise_text(text))
        tags = [
            tag for tag in dict.fromkeys(proposal.tags) if redact(tag, self._patterns).text == tag
        ]
        self.held.append(
            HeldMemory(
                id="",
                at="",
                text=text,
                kind=proposal.kind.value,
                tags=tuple(tags[:_MAX_PROPOSAL_TAGS]),
                by=quarantine.IMPORT,
                via=proposal.via,
            )
        )
        self.items.append(_proposal_item(text))


def _proposal_item(text: str) -> ImportedItem:
    """Return the item that stands for a proposal in the ledger. Its version never changes."""
    raw = normalise_text(text).encode("utf-8", "replace")
    return ImportedItem("proposal", hashlib.sha256(raw).hexdigest()[:_KEY_DIGITS], "1")
