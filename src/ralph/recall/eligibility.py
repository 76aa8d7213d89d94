"""Decide which records may be injected into a session.

`RecallOptions` combines the settings with the ids of records that the session has already seen. The
filters select records in the index accordingly. `may_inject` tests a single record, which must be
new to the session and must not look like prompt injection. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.family import Family
from ralph.lean import TYPE_CHECKING, hook_files, record
from ralph.privacy import injection
from ralph.storage import index_schema, record_filters, supersession

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.recall.citation_cache import CitationCache
    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import FamilyFilter, Filter

MEMORY_SHARE = 0.15  # of a context window, for memories, by default

# The file name of the citation cache, and the most that is read from it. They are defined here
# because hooks do not load `citation_cache` unless the file exists.
CITATIONS_FILE = "citations"
CITATIONS_BYTES = 4_000_000

_MAX_ACCEPTED_BYTES = 1_000_000  # to read of the file with the hashes of accepted texts

# Prefix of a line in the list of what a session has seen. Anything said before the time on that
# line is no longer in the session's context.
COMPACTED = "compacted "

# Prefix of a line in that list: a pointer to this session or memory was given. Unlike the record
# itself, a pointer does not keep the record from being injected later.
POINTED = "pointer "

# Prefix of a line in that list: what the session's agent reads in front of the names of Ralph's MCP
# tools. There is no such line if it does not have these tools.
TOOLS = "tools "

_LESSON_KINDS = ("fix", "decision")
_PATH_ONLY_TITLES = (
    "Read ",
    "Grep",
    "Glob",
    "LS",
    "NotebookRead",
    "WebFetch",
    "WebSearch",
    "ToolSearch",
    "TodoWrite",
    "read_",
    "search_file",
    "glob",
    "list_directory",
    "google_web",
    "web_fetch",
)
"""Title prefixes of observations that contain nothing but a path."""


NOTHING_LEARNED: Mapping[str, str] = {}


@record
class RecallOptions:
    """The settings that affect recall, and the records that the session has already seen.

    An empty filter (`types`, `tags`, `since`) selects everything. A budget of 0 means unlimited.
    """

    today: str
    session: str = ""
    seen: Collection[str] = ()  # record ids, and lines with the prefixes above
    # The ids of records that an accepted memory was learned from, each with the memory's id.
    learned: Mapping[str, str] = NOTHING_LEARNED
    enabled: bool = True  # if not, no memories are injected except knowledge
    types: Sequence[str] = ()
    tags: Sequence[str] = ()
    since: str = ""
    task: str = ""
    citations: CitationCache | None = None
    # The file with the hashes of texts that a person has accepted as they are.
    accepted_file: str = ""
    budget: int = 2_000  # tokens
    characters: int = render.MOST_CHARACTERS
    continues: bool = False  # whether the session has had a prompt since it was last compacted

    @property
    def compacted_at(self) -> str:
        """The time of the session's last compaction, or ""."""
        return last_compaction(self.seen)

    @property
    def tool_prefix(self) -> str | None:
        """What precedes the names of Ralph's MCP tools, or None if the session has no tools."""
        prefixes = [name[len(TOOLS) :] for name in self.seen if name.startswith(TOOLS)]
        return max(prefixes, default=None)


def last_compaction(seen: Iterable[str]) -> str:
    """Return the time of the last compaction in the list of what a session was given, or ""."""
    times = [name[len(COMPACTED) :] for name in seen if name.startswith(COMPACTED)]
    return max(times, default="")


def within_window(window: int, budget: int, share: float = MEMORY_SHARE) -> int:
    """Return the number of tokens for memories: their share of the window, up to the budget.

    A window or budget of 0 means no limit.
    """
    if window <= 0:
        return budget
    tokens = max(1, int(window * share))
    if not budget:
        return tokens
    return min(tokens, budget)


def prompt_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    """Return the filter for records that may answer a prompt."""
    return (
        _memory_filter(connection, options, options.types),
        record_filters.observations(
            except_session=options.session,
            after=options.compacted_at,
            not_called=_PATH_ONLY_TITLES,
            task=options.task,
        ),
        record_filters.journal(task=options.task),
    )


def unconfirmed_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    """Return the filter for memories that wait for a person, and may only be pointed to."""
    return (_memory_filter(connection, options, options.types, confirmed=False),)


def lesson_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    """Return the filter for fixes and decisions. It is empty if the settings exclude both."""
    kinds = [kind for kind in _LESSON_KINDS if not options.types or kind in options.types]
    if not kinds:
        return ()
    return (_memory_filter(connection, options, kinds),)


def failure_filter(options: RecallOptions) -> Filter:
    """Return the filter for calls that failed in other sessions, or before the compaction."""
    failed = record_filters.observations(
        except_session=options.session,
        after=options.compacted_at,
        task=options.task,
        only_failed=True,
    )
    return (failed,)


def _memory_filter(
    connection: sqlite3.Connection,
    options: RecallOptions,
    kinds: Sequence[str],
    *,
    confirmed: bool = True,
) -> FamilyFilter:
    return record_filters.memories(
        kinds=kinds,
        tags=options.tags,
        since=options.since,
        knowledge_only=not options.enabled,
        task=options.task,
        valid_at=options.today,
        excluded_ids=supersession.superseded(connection),
        confirmed=confirmed,
    )


def may_inject(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a record is new to the session, confirmed and not withheld."""
    return bool(row.is_confirmed) and may_point_to(row, options)


def may_point_to(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a session may be told that a record exists.

    The words of an unconfirmed record must not be shown.
    """
    return row.id not in options.seen and not is_withheld(row, options)


def parse_learned(text: str) -> dict[str, str]:
    """Return the pairs of ids in the file of `learning/learned.py`."""
    learned = {}
    for line in text.split("\n"):
        record_id, _, memory_id = line.partition(" ")
        if memory_id:
            learned[record_id] = memory_id
    return learned


def is_withheld(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a record looks like prompt injection and no person wrote or accepted it.

    The index says so only for some observations: there are many, and few are ever given to a
    session.
    """
    if index_schema.family_of(row.key) is Family.OBSERVATION:
        if row.judged_by == injection.GUARD_VERSION:
            return bool(row.is_order)
        return bool(row.is_order) or injection.looks_like_instructions(row.given_text())
    if not row.is_order:
        return False
    key = injection.text_key(row.title, row.text, row.tags).encode()
    content = hook_files.read_file(options.accepted_file, _MAX_ACCEPTED_BYTES) or b""
    return key not in content.split()
