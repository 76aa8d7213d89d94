"""Choose the memories that an agent receives without asking: for a prompt, an action or a failure.

For a prompt, the ranking decides which records are relevant enough. If the prompt names a file, the
latest records about that file are added. Before an action or after a failed command, only a fix or
a decision about that very file or command is injected. Nothing is injected twice in a session. A
record with stale citations ranks lower and says so.

Rows from the ranking are never modified. How a record is shown is a separate `Shown` value. Hooks
load this module.
"""

from __future__ import annotations

import os

from ralph.core import render
from ralph.core.family import Family
from ralph.core.prompts import human_prompt, is_own_prompt
from ralph.core.terms import TermMatcher
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record, replace
from ralph.privacy import injection
from ralph.recall import passages
from ralph.search import rank, scoring
from ralph.search.question import coverage
from ralph.storage import hook_files, index_schema, lookup, record_filters, supersession

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ralph.search.question import WeightedWord
    from ralph.search.rank import Ranking
    from ralph.search.scoring import RankedRow
    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import FamilyFilter, Filter

ACTION_CHARACTERS = 600  # the most that is injected before or after an action
MEMORY_SHARE = 0.15  # of a context window, for memories, by default
HOW = "`ralph search` with words of your task"

MAX_RECORDS = 5  # injected with a prompt, not counting passages
_MAX_ACTION_RECORDS = 2
_MAX_RECORDS_PER_SESSION = 2  # from one earlier session
_RANKED_RECORDS = 20
_EXPLAINED_RECORDS = 30  # ranked records for which `explain_left_out` gives a reason
# Check this many times as many records as are injected for stale citations. A record further down
# cannot move up far enough.
_VERIFIED_FACTOR = 2
_UNLIMITED_TOKENS = 2_000  # the budget for passages if there is no limit
_FRAME_TOKENS = estimate(
    f"{render.framed(render.INTRO, '')}{render.notes([render.shown_note(1, 9, HOW)])}"
)

# If more than this share of the records belongs to other unfinished tasks, they would crowd out
# everything else on the same subject, so more candidates are considered.
_CROWDING_SHARE = 0.5
_CROWDED_RECIPE = scoring.Recipe(
    max_candidates=500,
    max_spreading=30,
    max_scored=15,
    max_term_matches=scoring.QUICK.max_term_matches,
    thorough=False,
)

# How many characters of the input are examined.
_MAX_COMMAND_CHARACTERS = 400
_MAX_ERROR_CHARACTERS = 600
_MAX_QUESTION_CHARACTERS = 2_000

# File names in a prompt.
_MAX_NAMED_FILES = 8
_MAX_EXTENSION_CHARACTERS = 5
_AROUND_FILE_NAMES = "`'\"()[]{}<>*,;:!?.@"

_PROMPT_TITLE = "prompt"  # the title of earlier prompts, which are not answers
_OUTSIDE_SCOPES = ("enclosing", "personal")  # scopes of memories from outside the project
_TIERS = ("project", *_OUTSIDE_SCOPES, Family.OBSERVATION, Family.JOURNAL)
"""Where records come from, in the order they are shown."""

# Output of tools and checks.
_MAX_ERROR_LINE_CHARACTERS = 160  # an error line is the only tool output that is injected
_SAME_ERROR_WORDS = 2  # an error line with this many words of the prompt is the same error
_EXIT_PREFIXES = ("exit code", "command failed with exit")
_CHECK_PREFIXES = ("test_pass", "build_success", "lint_clean", "type_check", "custom", "marker")
"""Prefixes of the line above a criterion's output that reports it (see `CriterionKind`)."""
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
"""Title prefixes of observations that only name a path."""

# Prefix of a line in the list of what a session has seen. Anything said before the time on that
# line is no longer in the session's context.
COMPACTED = "compacted "

CITATIONS_FILE = "citations"  # the file name of the cache of verified citations
CITATIONS_HEAD = b"ralph citations 2\n"  # its first line; a file without it is ignored
CITATIONS_BYTES = 4_000_000  # the most that is read from the cache
GONE_SHARE = 0.5  # applied to a record's score if something it cites is gone
MOVED_SHARE = 0.8  # applied to a record's score if something it cites has moved
_GONE = "gone"
_MOVED = "moved"
_MAX_CITATION_LINES = 40  # cache lines read for one record
_MAX_CITATION_CHARACTERS = 120
_CITATION_FIELDS = 4


class RecallOptions:
    """The settings that affect recall, and what the session has already seen."""

    enabled = True
    types: Sequence[str] = ()
    tags: Sequence[str] = ()
    since = ""
    task = ""
    stale: CitationCache | None = None
    # Files with hashes of texts that look like prompt injection but were accepted by a person.
    accepted_files: Sequence[str] = ()
    budget = 2_000
    characters = render.MOST_CHARACTERS

    def __init__(self, today: str, session: str = "", seen: Collection[str] = ()) -> None:
        self.today = today
        self.session = session
        self.seen = seen
        compactions = [name[len(COMPACTED) :] for name in seen if name.startswith(COMPACTED)]
        self.compacted = max(compactions, default="")


@record
class Shown:
    """A record as it is shown: its place in the ranking, and its text without tool output."""

    ranked: RankedRow
    text: str

    @property
    def row(self) -> RecordRow:
        """The record itself, with its complete text."""
        return self.ranked.row


@record
class Recalled:
    """The text to inject, and where it comes from.

    `records` holds the id and token count of each record in the text, and `layer` is their level of
    detail. `shown` holds the candidates that were rendered, and `words` the words of the prompt.
    """

    text: str = ""
    records: Sequence[tuple[str, int]] = ()
    layer: int = 0
    shown: Sequence[Shown] = ()
    words: Sequence[WeightedWord] = ()


class Reason:
    """Why a record that relates to a prompt is not injected."""

    OTHER_TASK = "other task"
    SEEN = "seen"
    SINGLE_TURN = "single turn"
    PATH_ONLY = "path only"
    FILTERED = "filtered"
    INJECTION = "injection"
    WEAK_MATCH = "weak match"
    NO_ROOM = "no room"


@record
class LeftOut:
    """A record that relates to a prompt but is not injected, and the first `Reason` for that."""

    row: RecordRow
    reason: str


NOTHING = Recalled()


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


def human_question(prompt: str) -> str:
    """Return what a person asks, without the host's additions.

    Returns "" for commands and text written by a machine.
    """
    prompt = human_prompt(prompt)
    is_command = prompt.startswith("/") and prompt[1:].replace("-", "").replace(":", "").isalnum()
    if is_command or is_own_prompt(prompt):  # Ralph's own commands fetch what they need
        return ""
    return prompt


# --- a prompt ------------------------------------------------------------------------------------


def recall_for_prompt(
    connection: sqlite3.Connection, prompt: str, options: RecallOptions
) -> Recalled:
    """Return the records related to a prompt, in as much detail as the budget allows."""
    keep = _prompt_filter(connection, options)
    ranked = _rank_prompt(connection, prompt, keep, options)
    quoted = _gather_passages(connection, ranked, keep, options)
    singles = _single_records(connection, prompt, ranked, keep, options, has_passages=bool(quoted))
    best = _show_answers(_relevant(singles), ranked.words)[:MAX_RECORDS]
    best_keys = {shown.row.key for shown in best}
    candidates = list(best)
    for shown in _on_named_files(connection, prompt[:_MAX_QUESTION_CHARACTERS], keep):
        if shown.row.key not in best_keys:
            candidates.append(shown)
    verified = _choose(candidates, options)[: _VERIFIED_FACTOR * MAX_RECORDS]
    chosen = _lower_stale(verified, options.stale)[:MAX_RECORDS]
    if not (chosen or quoted):
        return NOTHING
    turns: list[Shown] = []
    for passage in quoted:
        turns += map(unchanged, passage.ranked_turns())
    recalled = render_shown(chosen, options, quoted)
    return replace(recalled, shown=[*chosen, *turns], words=ranked.words)


def _rank_prompt(
    connection: sqlite3.Connection, prompt: str, keep: Filter, options: RecallOptions
) -> Ranking:
    """Rank the records for a prompt.

    More candidates are considered if records from other tasks would crowd out the rest.
    """
    recipe = scoring.QUICK
    fallback = None
    if record_filters.hidden_share(connection, options.task) > _CROWDING_SHARE:
        recipe = _CROWDED_RECIPE
    elif options.task:
        fallback = _CROWDED_RECIPE
    is_filtered = bool(options.types or options.tags or options.since)
    return rank.rank(
        connection,
        prompt,
        today=options.today,
        record_filter=keep,
        limit=_RANKED_RECORDS,
        filter_late=not is_filtered,
        recipe=recipe,
        crowded_recipe=fallback,
    )


def _gather_passages(
    connection: sqlite3.Connection, ranked: Ranking, keep: Filter, options: RecallOptions
) -> list[passages.Passage]:
    """Return the passages from earlier sessions that answer a prompt, if there is room for any."""
    room = passages.BUDGET_SHARE * (options.budget or _UNLIMITED_TOKENS)
    if room < passages.MIN_TOKENS:
        return []
    return passages.gather(
        connection, ranked.best, ranked.words, keep, lambda row: _may_quote(row, options)
    )


def _may_quote(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a turn may be part of a passage.

    It must be new to the session, and neither a command nor prompt injection.
    """
    if row.id in options.seen or not row.text.strip():
        return False
    is_command = row.title == _PROMPT_TITLE and human_question(row.text) != row.text.strip()
    return not is_command and not is_withheld(row, options)


def _single_records(
    connection: sqlite3.Connection,
    prompt: str,
    ranked: Ranking,
    keep: Filter,
    options: RecallOptions,
    *,
    has_passages: bool,
) -> list[RankedRow]:
    """Return the ranked records that may answer a prompt on their own.

    If there are passages, turns are left to them. Otherwise a turn may answer on its own, unless it
    is an earlier prompt.
    """
    if ranked.weak:
        singles = []
    elif has_passages:
        singles = [each for each in ranked.best if not passages.is_speech(each.row)]
    else:
        singles = [each for each in ranked.best if each.row.title != _PROMPT_TITLE]
    if ranked.best and all(passages.is_speech(each.row) for each in ranked.best):
        # Many similar turns crowd out the memories.
        memories = _rank_memories(connection, prompt, ranked.words, keep, options)
        singles = [*memories, *singles]
    return [each for each in singles if _is_sufficient(each, ranked.words)]


def _rank_memories(
    connection: sqlite3.Connection,
    prompt: str,
    words: Sequence[WeightedWord],
    keep: Filter,
    options: RecallOptions,
) -> Sequence[RankedRow]:
    ranked = rank.rank(
        connection,
        prompt,
        today=options.today,
        record_filter=keep[:1],  # the filter's part for memories
        limit=_RANKED_RECORDS,
        filter_late=True,
        recipe=scoring.QUICK,
        words=words,
    )
    if ranked.weak:
        return ()
    return ranked.best


def _is_sufficient(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether a record may be injected on its own.

    An observation must answer the prompt as fully as a passage would.
    """
    return _family(ranked.row) is not Family.OBSERVATION or passages.answers([ranked], words)


def _on_named_files(connection: sqlite3.Connection, prompt: str, keep: Filter) -> list[Shown]:
    """Return the records about files that a prompt names, newest first."""
    names = _named_files(prompt)
    if not names:
        return []
    from ralph.recall import lessons  # imported here because few prompts name files

    rows = lessons.on_files(connection, names, keep)
    touched = [name for name in names if any(lessons.names_file(row.files, name) for row in rows)]
    matched = dict.fromkeys(touched, 1.0)
    found: list[Shown] = []
    for row in rows:
        text = _without_output(row)
        visible = f"{row.files} {row.title} {text}"
        if any(lessons.names_file(visible, name) for name in touched):
            ranked = scoring.RankedRow(row)
            ranked.matched = matched
            found.append(Shown(ranked, text))
    found.sort(key=lambda shown: (shown.row.created_at, shown.row.key), reverse=True)
    return found


def _named_files(prompt: str) -> list[str]:
    words = (word.strip(_AROUND_FILE_NAMES) for word in prompt.split())
    names = filter(_looks_like_file, dict.fromkeys(words))
    return list(names)[:_MAX_NAMED_FILES]


def _looks_like_file(word: str) -> bool:
    if "." not in word[1:]:
        return False
    extension = word.rpartition(".")[2]
    return (
        extension.isalnum()
        and extension[0].isalpha()
        and len(extension) <= _MAX_EXTENSION_CHARACTERS
    )


# --- actions and failures ------------------------------------------------------------------------


def before_action(
    connection: sqlite3.Connection, files: Sequence[str], command: str, options: RecallOptions
) -> Recalled:
    """Return lessons about the files about to be touched, or the command about to run."""
    from ralph.recall import lessons  # not needed for prompts

    keep = _lesson_filter(connection, options)
    if files:
        rows = lessons.on_files(connection, files, keep)
    else:
        rows = lessons.on_command(connection, command[:_MAX_COMMAND_CHARACTERS], keep)
    return _render_lessons(rows, options)


def after_failure(
    connection: sqlite3.Connection,
    files: Sequence[str],
    command: str,
    error: str,
    options: RecallOptions,
) -> Recalled:
    """Return lessons about a failure.

    Lessons about the error come first, then those about the file or command.
    """
    from ralph.recall import lessons  # not needed for prompts

    keep = _lesson_filter(connection, options)
    rows: dict[int, RecordRow] = {}
    for found in (
        lessons.on_error(connection, error[:_MAX_ERROR_CHARACTERS], keep),
        lessons.on_files(connection, files, keep),
        lessons.on_command(connection, command[:_MAX_COMMAND_CHARACTERS], keep, least=2),
    ):
        for row in found:
            rows.pop(row.key, None)  # a lesson found twice moves to its later place
            rows[row.key] = row
    return _render_lessons(list(rows.values()), options)


def _render_lessons(rows: Sequence[RecordRow], options: RecallOptions) -> Recalled:
    """Render the best new lessons, in full if all of them fit, otherwise on one line each."""
    new = [row for row in rows if _may_inject(row, options)]
    new.sort(key=_tier)
    verified = new[: _VERIFIED_FACTOR * _MAX_ACTION_RECORDS]
    verified.sort(key=lambda row: -_citation_share(row, options.stale))
    shown = [unchanged(scoring.RankedRow(row)) for row in verified[:_MAX_ACTION_RECORDS]]
    characters = min(ACTION_CHARACTERS, options.characters)
    complete = _render(shown, 3, options, characters)
    if complete.records and len(complete.records) == len(shown):
        return complete
    lines = _render(shown, 1, options, characters)
    if lines.records:
        return lines
    return NOTHING


# --- which records may be injected ---------------------------------------------------------------


def _prompt_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    """Return the filter for records that may answer a prompt. Its first part is for memories."""
    return (
        _memory_filter(connection, options, options.types),
        record_filters.observations(
            not_of=options.session,
            after=options.compacted,
            not_called=_PATH_ONLY_TITLES,
            task=options.task,
        ),
        record_filters.journal(task=options.task),
    )


def _lesson_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    kinds = ["fix", "decision"]
    if options.types:
        kinds = [kind for kind in kinds if kind in options.types]
    if not kinds:
        return ()
    return (_memory_filter(connection, options, kinds),)


def _memory_filter(
    connection: sqlite3.Connection, options: RecallOptions, kinds: Sequence[str]
) -> FamilyFilter:
    return record_filters.memories(
        kinds=kinds,
        tags=options.tags,
        since=options.since,
        knowledge_only=not options.enabled,
        task=options.task,
        valid_at=options.today,
        but=supersession.superseded(connection),
    )


def _may_inject(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a record is new to the session and is not withheld."""
    return row.id not in options.seen and not is_withheld(row, options)


def is_withheld(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a record looks like prompt injection and no person wrote or accepted it."""
    if not row.is_order:
        return False
    if _family(row) is not Family.MEMORY:
        return True
    key = injection.text_key(row.title, row.text, row.tags).encode()
    for file in options.accepted_files:
        content = hook_files.read_file(file) or b""
        if key in content.split():
            return False
    return True


def _relevant(
    best: Sequence[RankedRow], recipe: scoring.Recipe = scoring.STANDARD
) -> list[RankedRow]:
    """Return the records that are relevant enough to be injected, tier by tier.

    A memory comes before a log record even if the log record matches more words.
    """
    passed: list[RankedRow] = []
    for tier in range(len(_TIERS)):
        rows = [ranked for ranked in best if _tier(ranked.row) == tier]
        if rows and rank.is_answer(rows[0]):
            passed += rank.select_injectable(rows, recipe)
    return passed


def explain_left_out(
    connection: sqlite3.Connection,
    prompt: str,
    options: RecallOptions,
    injected: Collection[str],
) -> list[LeftOut]:
    """Return the records that relate to a prompt but are not in `injected`, each with its reason.

    All records are ranked, including those that the filters in `recall_for_prompt` exclude. Hooks
    do not call this.
    """
    best = rank.rank(
        connection,
        prompt,
        today=options.today,
        record_filter=record_filters.EVERYTHING,
        limit=_EXPLAINED_RECORDS,
    ).best
    keys = [ranked.row.key for ranked in best]
    visible: Collection[int] = keys
    if options.task:
        visible = lookup.filter_keys(connection, keys, record_filters.visible_to(options.task))
    allowed = lookup.filter_keys(connection, keys, _prompt_filter(connection, options))
    relevant = _relevant(best, scoring.Recipe(max_injected=_EXPLAINED_RECORDS))
    relevant_keys = {ranked.row.key for ranked in relevant}
    left_out: list[LeftOut] = []
    for ranked in best:
        row = ranked.row
        if row.id in injected:
            continue
        if row.key not in visible:
            reason = Reason.OTHER_TASK
        else:
            reason = _exclusion(row, options, is_allowed=row.key in allowed)
        if not reason and row.key not in relevant_keys:
            reason = Reason.WEAK_MATCH
        left_out.append(LeftOut(row, reason or Reason.NO_ROOM))
    return left_out


def _exclusion(row: RecordRow, options: RecallOptions, *, is_allowed: bool) -> str:
    """Return why a record is never injected, however well it matches, or ""."""
    is_of_session = bool(row.session) and row.session == options.session
    if row.id in options.seen or (is_of_session and not is_allowed):
        return Reason.SEEN
    if row.title in render.SPEECH_TITLES:
        return Reason.SINGLE_TURN
    if not is_allowed:
        if _family(row) is Family.MEMORY:
            return Reason.FILTERED
        return Reason.PATH_ONLY
    if is_withheld(row, options):
        return Reason.INJECTION
    return ""


# --- what is shown of a record -------------------------------------------------------------------


def unchanged(ranked: RankedRow) -> Shown:
    """Show a record with its complete text."""
    return Shown(ranked, ranked.row.text)


def _show_answers(best: Iterable[RankedRow], words: Sequence[WeightedWord]) -> list[Shown]:
    """Return the records as they are shown, except those whose visible text is not an answer."""
    answers: list[Shown] = []
    for ranked in best:
        shown = _show(ranked, words)
        if shown is not None:
            answers.append(shown)
    return answers


def _show(ranked: RankedRow, words: Sequence[WeightedWord]) -> Shown | None:
    """Return a record without tool output, or None if the rest does not answer the question."""
    row = ranked.row
    if _is_failed_run(row):
        return _show_failed_run(ranked, words)
    if row.own == row.text:
        return unchanged(ranked)
    text = _without_output(row, words)
    visible = TermMatcher(f"{row.title} {row.tags} {row.files} {text}")
    if any(word.match(visible) for word in words):
        return Shown(ranked, text)
    return None


def _show_failed_run(ranked: RankedRow, words: Sequence[WeightedWord]) -> Shown | None:
    """Return a failed run, or None if what was written about it is not an answer.

    The output of its checks and the files that it touched do not count.
    """
    row = ranked.row
    text = _without_output(row, words)
    visible = TermMatcher(f"{row.title} {row.tags} {text}")
    matched: dict[str, float] = {}
    for word in words:
        share = word.match(visible)
        if share:
            matched[word.word] = share
    judged = _copy(ranked)
    judged.matched = matched
    judged.coverage, judged.evidence = coverage(words, matched)
    judged.subject = False
    if rank.is_answer(judged):
        return Shown(judged, text)
    return None


def _copy(ranked: RankedRow) -> RankedRow:
    """Return a copy of a ranked row, so that the ranking's own row is not modified."""
    copy = scoring.RankedRow(ranked.row, ranked.score)
    copy.matched = ranked.matched
    copy.coverage = ranked.coverage
    copy.evidence = ranked.evidence
    copy.subject = ranked.subject
    copy.similarity = ranked.similarity
    copy.outstanding = ranked.outstanding
    copy.linked_from = ranked.linked_from
    copy.amends = ranked.amends
    copy.weak = ranked.weak
    return copy


def _without_output(row: RecordRow, words: Sequence[WeightedWord] | None = None) -> str:
    """Return a record's text without what a tool printed.

    The line that names an error is kept if it has enough of the words, because the same error came
    up again. If `words` is None, the record was found by its file, and the line is always kept.
    """
    own: str = row.own
    error: str = row.error
    if _is_failed_run(row):
        own, error = _split_checks(row.text)
    if own == row.text or error.lower().startswith(_EXIT_PREFIXES):
        return own
    error = error[:_MAX_ERROR_LINE_CHARACTERS]
    if error and (words is None or _is_same_error(error, words)):
        return f"{own}\nerror: {error}"
    return own


def _split_checks(text: str) -> tuple[str, str]:
    """Split a failed run's text into what was written and the last error from its checks."""
    lines = text.split("\n")
    written = 0
    while written < len(lines) and not lines[written].startswith(_CHECK_PREFIXES):
        written += 1
    own = "\n".join(lines[:written]).rstrip()
    for line in reversed(lines[written:]):
        if "error" in line.lower():
            return own, line.strip()
    return own, ""


def _is_same_error(error: str, words: Sequence[WeightedWord]) -> bool:
    matcher = TermMatcher(error)
    matching = [word for word in words if word.match(matcher)]
    return len(matching) >= _SAME_ERROR_WORDS


def _is_failed_run(row: RecordRow) -> bool:
    """Return whether a record is a journal entry about work that did not succeed."""
    return _family(row) is Family.JOURNAL and row.kind != "done"


def _family(row: RecordRow) -> Family:
    return index_schema.family_of(row.key)


def _tier(row: RecordRow) -> int:
    """Return the rank of a record's origin: the project's memory, other memory, then the logs."""
    family = _family(row)
    if family is not Family.MEMORY:
        return _TIERS.index(family)
    if row.scope in _OUTSIDE_SCOPES:
        return _TIERS.index(row.scope)
    return _TIERS.index("project")


# --- choosing and rendering ----------------------------------------------------------------------


def _choose(candidates: Iterable[Shown], options: RecallOptions) -> list[Shown]:
    """Return the candidates that may be injected, without duplicates and with few per session."""
    chosen: list[Shown] = []
    records_of_session: dict[str, int] = {}
    contents: set[str] = set()
    for shown in candidates:
        row = shown.row
        if row.title == _PROMPT_TITLE or not _may_inject(row, options):
            continue
        content = _letters(f"{row.title}{shown.text}")
        if content in contents:
            continue
        contents.add(content)
        count = records_of_session.get(row.session, 0) + 1
        records_of_session[row.session] = count
        if not row.session or count <= _max_of_session(row):
            chosen.append(shown)
    return chosen


def _letters(text: str) -> str:
    """Return only the letters and digits in `text`, to find duplicates.

    A knowledge page, its insight and its pattern differ only in punctuation and a leading "gotcha".
    """
    return "".join(filter(str.isalnum, text.lower().removeprefix("gotcha")))


def _max_of_session(row: RecordRow) -> int:
    """Return how many records from a row's session may be injected.

    A run and its journal entry count as one.
    """
    if _family(row) is Family.JOURNAL:
        return 1
    return _MAX_RECORDS_PER_SESSION


def _lower_stale(candidates: list[Shown], cache: CitationCache | None) -> list[Shown]:
    """Return the candidates reordered, with lower scores where citations are stale.

    Candidates stay within their tier. Those found by a file name have no score and come last.
    """
    if cache is None:
        return candidates
    keyed: list[tuple[tuple[int, float, float], Shown]] = []
    for shown in candidates:
        share = _citation_share(shown.row, cache)
        tier = len(_TIERS)
        if shown.ranked.score:
            tier = _tier(shown.row)
        lowered = _copy(shown.ranked)
        lowered.score *= share
        keyed.append(((tier, -lowered.score, -share), Shown(lowered, shown.text)))
    keyed.sort(key=lambda pair: pair[0])
    return [shown for _, shown in keyed]


@record
class _Entry:
    """A rendered record, with its id, text and cost."""

    id: str
    text: str
    tokens: int


def render_shown(
    shown: Sequence[Shown], options: RecallOptions, quoted: Sequence[passages.Passage] = ()
) -> Recalled:
    """Render records in as much detail as fits, followed by passages from earlier sessions."""
    recalled = NOTHING
    for layer in (3, 2, 1):
        recalled = _render(shown, layer, options, options.characters)
        if len(recalled.records) == len(shown):
            break
    if not quoted:
        return recalled
    entries = _entries(shown, recalled.layer, options)[: len(recalled.records)]
    budget = options.budget or _UNLIMITED_TOKENS
    unspent = budget - _FRAME_TOKENS - sum(entry.tokens + 1 for entry in entries)
    room = int(min(passages.BUDGET_SHARE * budget, unspent))
    quotes = passages.quote_all(quoted, room, options.session)
    blocks = [entry.text for entry in entries]
    costs: list[Sequence[tuple[str, int]]] = [[(entry.id, entry.tokens)] for entry in entries]
    for quote in quotes:
        blocks.append(quote.text)
        costs.append(quote.turns)
    text, kept = render.within(blocks, len(blocks), HOW, options.characters)
    records: list[tuple[str, int]] = []
    for index in kept:
        records += costs[index]
    return Recalled(text, records, recalled.layer)


def _render(
    shown: Sequence[Shown], layer: int, options: RecallOptions, characters: int
) -> Recalled:
    entries = _entries(shown, layer, options)
    blocks = [entry.text for entry in entries]
    text, kept = render.within(blocks, len(shown), HOW, characters)
    records = [(entries[index].id, entries[index].tokens) for index in kept]
    return Recalled(text, records, layer)


def _entries(shown: Sequence[Shown], layer: int, options: RecallOptions) -> list[_Entry]:
    """Render records in order until the budget is spent."""
    entries: list[_Entry] = []
    spent = _FRAME_TOKENS
    for each in shown:
        text = _entry_text(each, layer, options)
        tokens = estimate(text)
        spent += tokens + 1
        if options.budget and spent > options.budget:
            break
        entries.append(_Entry(each.row.id, text, tokens))
    return entries


def _entry_text(shown: Shown, layer: int, options: RecallOptions) -> str:
    row = shown.row
    kind = row.kind
    if _family(row) is Family.MEMORY and row.scope in _OUTSIDE_SCOPES:
        kind = f"{row.scope} {row.kind}"
    text = render.entry(
        layer, row.id, kind, row.title, shown.text, row.created_at, row.tags, row.files, row.by
    )
    note = " ".join(citation_note(row, options.stale).split())
    if not note:
        return text
    if layer == 1:
        return f"{text} ({note})"
    return f"{text}\n  ({note})"


# --- verified citations --------------------------------------------------------------------------


def citation_note(row: RecordRow, cache: CitationCache | None) -> str:
    """Return the warning about a record's stale citations.

    Returns "" if there are none, and always for records from logs.
    """
    if cache is None or _family(row) is not Family.MEMORY:  # citations in logs are not verified
        return ""
    return cache.note(row.id, f"{row.title}\n{row.text}", row.files)


def _citation_share(row: RecordRow, cache: CitationCache | None) -> float:
    if cache is None or _family(row) is not Family.MEMORY:
        return 1.0
    return cache.share(row.id, f"{row.title}\n{row.text}", row.files)


def citation_line(record_id: str, kind: str, verdict: str, what: str, place: str) -> str:
    """Return a line for the cache, or "" for a citation that cannot be written on one line.

    The tab-separated fields are the record id, kind, verdict, what is cited, and its place.
    """
    parts = (record_id, kind, verdict, what, place)
    if not record_id or not all(map(str.isprintable, parts)):
        return ""
    return "\t".join(parts) + "\n"


def citation_page(lines: Iterable[str]) -> str:
    """Return the cache's text with each of these lines once, grouped by record."""
    return CITATIONS_HEAD.decode() + "".join(sorted({*lines}))


@record
class _Citation:
    """A line in the cache: what a record cites, whether it still exists, and where it is now."""

    kind: str
    verdict: str
    what: str
    place: str


class CitationCache:
    """The verified citations in a project's records, one per line.

    A line counts only while the record still contains that citation. Files are checked again, with
    one `stat` for each file that the few injected records cite.
    """

    __slots__ = ("_content", "_root")

    def __init__(self, root: str, content: bytes) -> None:
        self._root = root
        self._content = CITATIONS_HEAD
        if content.startswith(CITATIONS_HEAD):
            end = content.rfind(b"\n") + 1  # the last line may be torn
            self._content = content[:end]

    def note(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> str:
        """Describe a record's worst stale citation in a few words, or return ""."""
        worst = self._worst(record_id, text, files)
        if worst is None:
            return ""
        what = worst.what[:_MAX_CITATION_CHARACTERS]
        if worst.verdict == _GONE:
            return f"cited {worst.kind} is gone: {what}"
        return f"cited {worst.kind} {what} is now in {worst.place[:_MAX_CITATION_CHARACTERS]}"

    def share(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> float:
        """Return the factor by which stale citations lower a record's score."""
        worst = self._worst(record_id, text, files)
        if worst is None:
            return 1.0
        if worst.verdict == _GONE:
            return GONE_SHARE
        return MOVED_SHARE

    def _worst(self, record_id: str, text: str, files: str | Iterable[str]) -> _Citation | None:
        """Return a citation that is gone, or else the last one that has moved, or None."""
        listed = files
        if not isinstance(listed, str):
            listed = "\n".join(listed)
        worst = None
        for citation in self._citations(record_id):
            if not _still_cites(citation, text, listed):
                continue  # the record has been rewritten since
            verdict = self._current_verdict(citation)
            if verdict == _GONE:
                return replace(citation, verdict=_GONE)
            if verdict == _MOVED:
                worst = citation
        return worst

    def _current_verdict(self, citation: _Citation) -> str:
        """Return a citation's verdict, or "" if the cited file exists again.

        Files are checked again for this. Other citations keep their cached verdict.
        """
        if citation.kind != "file":
            return citation.verdict
        if citation.verdict in (_GONE, _MOVED) and self._exists(citation.what):
            return ""
        if citation.place and not self._exists(citation.place):
            return _GONE
        return citation.verdict

    def _citations(self, record_id: str) -> Iterator[_Citation]:
        start = b"\n%s\t" % record_id.encode("utf-8", "replace")
        position = self._content.find(start)
        for _ in range(_MAX_CITATION_LINES):
            end = self._content.find(b"\n", position + 1)
            if position < 0 or end < 0 or not self._content.startswith(start, position):
                return
            line = self._content[position + len(start) : end].decode("utf-8", "replace")
            fields = line.split("\t")
            if len(fields) == _CITATION_FIELDS:
                yield _Citation(*fields)
            position = end

    def _exists(self, path: str) -> bool:
        return os.path.exists(f"{self._root}/{path}")  # noqa: PTH110 - hooks load this


def _still_cites(citation: _Citation, text: str, files: str) -> bool:
    """Return whether a record still names what it cited when it was verified.

    For a commit, this is always assumed.
    """
    if citation.kind == "commit":
        return True
    name = citation.what
    if citation.kind != "file":
        name = name.replace(".", " ").rpartition(" ")[2]
    return name in text or citation.what in files
