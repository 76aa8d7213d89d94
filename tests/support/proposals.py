"""Sessions without a task, and the memories that they propose."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.support.insights import observe
from tests.support.situations import Step, session

from ralph.core.record import Record
from ralph.learning import session_proposals


def propose_from(root: Path, steps: Sequence[Step], session_id: str = "host-1") -> Record:
    """Record a session with these steps, and return the memory that it proposes."""
    records = []
    for record in session(*steps, name=session_id):
        origin = record.origin._replace(session=session_id, task="")
        records.append(replace(record, origin=origin))
    observe(root, records, session_id)
    [proposal] = session_proposals.extract(root, records).added
    return proposal
