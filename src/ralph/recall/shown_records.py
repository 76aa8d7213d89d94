"""Render the records that are injected, in as much detail as the budget allows.

A record as it is shown is a separate `Shown` value, because rows from the ranking are never
modified. Tool output is removed from a record's text before it is shown, because it may contain
anything. Only the line that names an error is kept. For example, the observation

    $ pytest -q
    # Run the tests
    exit code 1
    FAILED test_login.py - KeyError: 'token'
    1 failed in 0.12s

is shown as

    $ pytest -q
    # Run the tests
    pytest printed: "FAILED test_login.py - KeyError: 'token'"

Whether it answers the prompt is decided by these lines alone. An item must inform: a failed command
without an error, and a command that only looks at things, are not shown. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.family import Family
from ralph.core.terms import EVERYDAY_WORDS, TermMatcher
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.privacy import injection
from ralph.search import rank, scoring
from ralph.search.question import coverage
from ralph.storage import index_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.recall.citation_cache import CitationCache
    from ralph.recall.eligibility import RecallOptions
    from ralph.recall.pointers import Pointer
    from ralph.search.question import WeightedWord
    from ralph.search.scoring import RankedRow
    from ralph.storage.lookup import RecordRow

SEARCH_HINT = "`ralph search` with words of your task"
FRAME_TOKENS = estimate(
    f"{render.framed(render.INTRO, '')}{render.notes([render.shown_note(1, 9, SEARCH_HINT)])}"
)

_OUTSIDE_SCOPES = ("enclosing", "personal")  # scopes of memories from outside the project
TIERS = ("project", *_OUTSIDE_SCOPES, Family.OBSERVATION, Family.JOURNAL)
"""The origins of records, in the order in which they are shown."""

# Output of tools and checks.
_MAX_ERROR_LINE_CHARACTERS = 160  # an error line is the only tool output that is injected
_SAME_ERROR_WORDS = 2  # an error line with this many words of the prompt is the same error
_EXIT_PREFIXES = ("exit code", "command failed with exit")
_COMMAND_PREFIX = "$ "  # of the first line of a command
_CHECK = "check"  # the author of what a criterion printed
_FAILED = "error"  # the kind of an observation of something that failed
_CHECK_PREFIXES = ("test_pass", "build_success", "lint_clean", "type_check", "custom", "marker")
"""Prefixes of the line above a criterion's output that reports it (see `CriterionKind`)."""


@record
class Shown:
    """A ranked record, and the part of its text that is shown.

    `is_same_error` says that it is about the error in the prompt.
    """

    ranked: RankedRow
    text: str
    is_same_error: bool = False

    @property
    def row(self) -> RecordRow:
        """The record itself, with its complete text."""
        return self.ranked.row


@record
class Recalled:
    """The text to inject, and where it comes from.

    `records` has the id and token count of each record in the text, and `layer` is their level of
    detail. `pointers` are the lines that only point to records. `shown` has the candidates that
    were rendered, and `words` the words of the prompt.
    """

    text: str = ""
    records: Sequence[tuple[str, int]] = ()
    layer: int = 0
    pointers: Sequence[Pointer] = ()
    shown: Sequence[Shown] = ()
    words: Sequence[WeightedWord] = ()


NOTHING = Recalled()


def tier_of(row: RecordRow) -> int:
    """Return the index in `TIERS` of a record's origin."""
    family = index_schema.family_of(row.key)
    if family is not Family.MEMORY:
        return TIERS.index(family)
    if row.scope in _OUTSIDE_SCOPES:
        return TIERS.index(row.scope)
    return TIERS.index("project")


# --- what is shown of a record -------------------------------------------------------------------


def show_whole(ranked: RankedRow) -> Shown:
    """Show a record with its complete text."""
    return Shown(ranked, ranked.row.text)


def show_answers(best: Iterable[RankedRow], words: Sequence[WeightedWord]) -> list[Shown]:
    """Return the records as they are shown, except those whose visible text is not an answer."""
    answers: list[Shown] = []
    for ranked in best:
        shown = _show_answer(ranked, words)
        if shown is not None:
            answers.append(shown)
    return answers


def _show_answer(ranked: RankedRow, words: Sequence[WeightedWord]) -> Shown | None:
    row = ranked.row
    if is_failed_run(row):
        text = _without_checks(row, words)
        return _show_judged(ranked, words, text, f"{row.title} {row.tags} {text}")
    if not _is_tool_use(row):
        return show_whole(ranked)
    text = informative_text(row)
    if not text:
        return None
    visible = f"{row.title} {row.tags} {row.files} {text}"
    if row.kind != _FAILED:
        return _show_judged(ranked, words, text, visible)
    # "why does it fail" is about it
    shown = _show_judged(ranked, words, text, f"{visible} failed")
    if shown is not None and _is_same_error(error_of(row), words):
        return Shown(shown.ranked, text, is_same_error=True)
    return shown


def _is_tool_use(row: RecordRow) -> bool:
    is_observation = index_schema.family_of(row.key) is Family.OBSERVATION
    return is_observation and row.by == "tool"


def _show_judged(
    ranked: RankedRow, words: Sequence[WeightedWord], text: str, visible: str
) -> Shown | None:
    """Show a record, or return None if what is visible of it does not answer the prompt."""
    matcher = TermMatcher(visible)
    matched: dict[str, float] = {}
    for word in words:
        degree = word.match(matcher)
        if degree:
            matched[word.word] = degree
    judged = copy_ranked(ranked)
    judged.matched = matched
    judged.coverage, judged.evidence = coverage(words, matched)
    judged.subject = False
    if rank.is_answer(judged):
        return Shown(judged, text)
    return None


def informative_text(row: RecordRow) -> str:
    """Return what is shown of a tool call, or "" if that would not inform anybody."""
    lines = row.authored_text.split("\n")
    request = "\n".join(line for line in lines if not line.startswith(_EXIT_PREFIXES))
    if row.kind == _FAILED:
        error = error_of(row)
        if not error:
            return ""
        from ralph.recall.command_lines import quote_output  # few prompts get errors

        command = command_of(request) if is_command(request) else row.title
        return f"{request}\n{quote_output(command, error)}"
    if is_command(request):
        from ralph.recall.command_lines import only_looks  # few prompts get commands

        if only_looks(command_of(request)):
            return ""
    return request


def error_of(row: RecordRow) -> str:
    """Return the line that names a failed call's error, or "" if there is none.

    An imported record may have been stored with a line that names nothing. Its output decides then.
    """
    from ralph.capture.uninformative_lines import names_nothing  # few prompts get errors

    error: str = row.error
    if names_nothing(error):
        from ralph.capture.error_lines import name_error  # few errors are named like this

        error = name_error(row.text[len(row.authored_text) :])
        if injection.looks_like_instructions(error):  # only the stored line has been checked
            return ""
    return error[:_MAX_ERROR_LINE_CHARACTERS]


def is_command(text: str) -> bool:
    """Return whether the text of a record is a command."""
    return text.startswith(_COMMAND_PREFIX)


def command_of(text: str) -> str:
    """Return the command in the text of a record, without its description and its output."""
    from ralph.recall.command_lines import is_quoted_output  # few prompts get commands

    lines: list[str] = []
    for line in text.removeprefix(_COMMAND_PREFIX).split("\n"):
        if line.startswith(("# ", *_EXIT_PREFIXES)) or is_quoted_output(line):
            break
        lines.append(line)
    return "\n".join(lines)


def is_bare_command(shown: Shown) -> bool:
    """Return whether a record shows a command, but nothing that came of it."""
    return is_command(shown.text) and shown.row.kind != _FAILED


def copy_ranked(ranked: RankedRow) -> RankedRow:
    """Return a copy of a ranked row that may be modified."""
    copy = scoring.RankedRow(ranked.row)
    for name in scoring.RankedRow.__slots__:
        setattr(copy, name, getattr(ranked, name))
    return copy


def _without_checks(row: RecordRow, words: Sequence[WeightedWord]) -> str:
    """Return the text of a failed run without the output of its checks.

    The last error is kept if it contains enough of the words, because the same error has come up
    again.
    """
    written, error = _split_checks(row.text)
    error = error[:_MAX_ERROR_LINE_CHARACTERS]
    if error and _is_same_error(error, words):
        from ralph.recall.command_lines import quote_output  # few prompts get errors

        return f"{written}\n{quote_output(_CHECK, error)}"
    return written


def _split_checks(text: str) -> tuple[str, str]:
    """Split a failed run's text into the written part and the last error from its checks."""
    lines = text.split("\n")
    written_lines = 0
    while written_lines < len(lines) and not lines[written_lines].startswith(_CHECK_PREFIXES):
        written_lines += 1
    written = "\n".join(lines[:written_lines]).rstrip()
    for line in reversed(lines[written_lines:]):
        if "error" in line.lower():
            return written, line.strip()
    return written, ""


def _is_same_error(error: str, words: Sequence[WeightedWord]) -> bool:
    matcher = TermMatcher(error)
    telling = [word for word in words if word.word.lower() not in EVERYDAY_WORDS]
    matching = [word for word in telling if word.match(matcher)]
    return len(matching) >= _SAME_ERROR_WORDS


def is_failed_run(row: RecordRow) -> bool:
    """Return whether a record is a journal entry about work that did not succeed."""
    return index_schema.family_of(row.key) is Family.JOURNAL and row.kind != "done"


# --- rendering -----------------------------------------------------------------------------------


@record
class RenderedEntry:
    """A rendered record, with its id, text and cost."""

    id: str
    text: str
    tokens: int


def render_records(shown: Sequence[Shown], options: RecallOptions) -> Recalled:
    """Render records in the most detailed layer in which all of them fit.

    If they do not fit on one line each, as many as possible are rendered.
    """
    recalled = NOTHING
    for layer in (3, 2, 1):
        recalled = render_layer(shown, layer, options, options.characters)
        if len(recalled.records) == len(shown):
            break
    return recalled


def render_layer(
    shown: Sequence[Shown], layer: int, options: RecallOptions, characters: int
) -> Recalled:
    """Render as many records as fit at one level of detail."""
    entries = render_entries(shown, layer, options)
    blocks = [entry.text for entry in entries]
    text, kept = render.within(blocks, len(shown), SEARCH_HINT, characters)
    records = [(entries[index].id, entries[index].tokens) for index in kept]
    return Recalled(text, records, layer)


def render_entries(
    shown: Sequence[Shown], layer: int, options: RecallOptions
) -> list[RenderedEntry]:
    """Render records in order until the budget is spent."""
    entries: list[RenderedEntry] = []
    spent = FRAME_TOKENS
    for candidate in shown:
        text = _render_entry(candidate, layer, options)
        tokens = estimate(text)
        spent += tokens + 1  # the newline
        if options.budget and spent > options.budget:
            break
        entries.append(RenderedEntry(candidate.row.id, text, tokens))
    return entries


def _render_entry(shown: Shown, layer: int, options: RecallOptions) -> str:
    row = shown.row
    kind = row.kind
    if index_schema.family_of(row.key) is Family.MEMORY and row.scope in _OUTSIDE_SCOPES:
        kind = f"{row.scope} {row.kind}"
    title = row.title
    if is_command(shown.text):
        title = ""  # it only repeats the command
    text = render.entry(
        layer, row.id, kind, title, shown.text, row.created_at, row.tags, row.files, row.by
    )
    note = " ".join(citation_note(row, options.citations).split())
    if not note:
        return text
    if layer == 1:
        return f"{text} ({note})"
    return f"{text}\n  ({note})"


# --- stale citations -----------------------------------------------------------------------------


def citation_note(row: RecordRow, cache: CitationCache | None) -> str:
    """Return the warning about a record's stale citations.

    Returns "" if there are none, and always for records from logs, which are not verified.
    """
    if cache is None or index_schema.family_of(row.key) is not Family.MEMORY:
        return ""
    return cache.note(row.id, f"{row.title}\n{row.text}", row.files)


def citation_factor(row: RecordRow, cache: CitationCache | None) -> float:
    """Return the factor by which stale citations lower a record's score. It is 1 for logs."""
    if cache is None or index_schema.family_of(row.key) is not Family.MEMORY:
        return 1.0
    return cache.score_factor(row.id, f"{row.title}\n{row.text}", row.files)
