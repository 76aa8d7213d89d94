"""One file's change in an installation, as a plan holds it: made before anything is written, and shown as it is."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """One file's change: None before means that it is not there, None after that it goes."""

    path: Path
    before: str | None
    after: str | None
    what: str
    inside: Path | None = None
