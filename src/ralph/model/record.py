"""Record: the one shape that index, search, budget and renderers see.

A Record is a value: it knows nothing of files. Where it stands (path, line, bytes) is known
by the Document that holds it and by the Library that read it, so that the same memory in two
places is equal to itself. Times are ISO 8601 strings as the files have them (`2025-01-20`, or
RFC 3339 with a time); the empty string is "unknown", never "today".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.model.kinds import MemoryKind, ObservationKind, Outcome


class Family(StrEnum):
    """The three families of records."""

    MEMORY = "memory"
    OBSERVATION = "observation"
    JOURNAL = "journal"


class Status(StrEnum):
    """How far a record has climbed; retired ones are kept but no longer offered."""

    RAW = "raw"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    RETIRED = "retired"


class Scope(StrEnum):
    """How far a record applies, from the narrowest to the widest."""

    ITERATION = "iteration"
    SESSION = "session"
    RUN = "run"
    TASK = "task"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from, and who said it: `human`, `agent`, `tool` or `import` (empty: unknown)."""

    by: str = ""
    session: str = ""
    run: str = ""
    iteration: int | None = None
    task: str = ""
    agent: str = ""
    files: tuple[str, ...] = ()
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One relation to another record: `supersedes`, `superseded_by`, `links_to`, `promoted_to` ..."""

    relation: str
    target: str


class NoExtra(Mapping[str, object]):
    """The empty mapping that records without further members share."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


NOWHERE = Origin()
NO_EXTRA = NoExtra()


@dataclass(frozen=True)
class Record:
    """One thing that Ralph remembers."""

    id: str
    kind: MemoryKind | ObservationKind | Outcome
    text: str
    family: Family = Family.MEMORY
    label: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    status: Status = Status.ACCEPTED
    scope: Scope = Scope.PROJECT
    origin: Origin = NOWHERE
    created_at: str = ""
    updated_at: str = ""
    valid_until: str = ""
    links: tuple[Link, ...] = ()
    extra: Mapping[str, object] = field(default=NO_EXTRA, hash=False)

    @classmethod
    def quick(
        cls, record_id: str, kind: MemoryKind, text: str, label: str, tags: tuple[str, ...], created_at: str
    ) -> "Record":
        """A memory from known-good values, for parsers that make tens of thousands; the rest are defaults.

        It goes around the frozen class's attribute-by-attribute set-up, which took a third of the time to
        parse a large file.
        """
        record = cls.__new__(cls)
        values = record.__dict__
        values["id"] = record_id
        values["kind"] = kind
        values["text"] = text
        values["label"] = label
        values["tags"] = tags
        values["created_at"] = created_at
        return record
