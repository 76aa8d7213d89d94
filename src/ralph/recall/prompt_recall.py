"""Choose the records that an agent receives with a prompt, without asking for them.

`recall_for_prompt` takes these steps:

1. Rank all records that may be injected, and judge how certainly each session and memory relates to
   the prompt (`relevance`).
2. Quote turns of earlier sessions that certainly relate to it (`passages`).
3. Add the best records of what certainly relates to it, and the latest records about files that the
   prompt names.
4. Remove duplicates and records that the session has seen, and move records with stale citations
   down.
5. Point to what likely relates to it (`pointers`), if the prompt is the first one of a session. A
   later one is mostly about what was just said.
6. Render the result within the budget (`shown_records`).

Often nothing is relevant enough, and the result is `NOTHING`. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.family import Family
from ralph.core.prompts import human_prompt, is_own_prompt
from ralph.lean import TYPE_CHECKING, replace
from ralph.recall import passage_search, passages, relevance
from ralph.recall.eligibility import may_inject, prompt_filter, unconfirmed_filter
from ralph.recall.shown_records import (
    FRAME_TOKENS,
    NOTHING,
    SEARCH_HINT,
    TIERS,
    Recalled,
    Shown,
    citation_factor,
    command_of,
    copy_ranked,
    informative_text,
    is_bare_command,
    is_command,
    render_entries,
    render_records,
    show_answers,
    show_whole,
    tier_of,
)
from ralph.search import rank, scoring
from ralph.storage import index_schema, lookup, record_filters

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.recall.citation_cache import CitationCache
    from ralph.recall.eligibility import RecallOptions
    from ralph.recall.passages import Passage, TurnSource
    from ralph.recall.pointers import Pointer, PointerSource
    from ralph.recall.relevance import Judged, Unit
    from ralph.search.question import WeightedWord
    from ralph.search.rank import Ranking, Repeated
    from ralph.search.scoring import RankedRow
    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

MAX_RECORDS = 5  # injected with a prompt, not counting passages
_MAX_RECORDS_PER_SESSION = 2  # from one earlier session
_MAX_RANKED_RECORDS = 12
_MAX_MATCHING_TURNS = 12  # read from a session that is quoted
# Of the evidence for the best session, the share that another one must have to amend it, unless the
# two have very much in common.
_MIN_SHARE_OF_AMENDED = 0.35
# Of the words of a prompt that a record has, the share that its memory must have to replace it.
_MIN_COVERED_SHARE = 0.25
# Records that are checked for stale citations. One further down cannot move up far enough.
_MAX_VERIFIED_RECORDS = 2 * MAX_RECORDS
# Letters and digits of a memory that a turn repeats. A shorter one is in many turns by chance.
_MIN_ECHO_CHARACTERS = 12
_UNLIMITED_TOKENS = 2_000  # the budget for passages if there is no limit
_MAX_QUESTION_CHARACTERS = 2_000  # searched for file names

# If more than this share of the records belongs to other unfinished tasks, they would crowd out
# everything else on the same subject, so more candidates are considered.
_CROWDING_SHARE = 0.5
_CROWDED_RECIPE = scoring.Recipe(
    max_candidates=500,
    max_spreading=30,
    max_scored=15,
    max_term_matches=scoring.HOOK.max_term_matches,
    thorough=False,
)

# File names in a prompt.
_MAX_NAMED_FILES = 8
_MAX_EXTENSION_CHARACTERS = 5
_AROUND_FILE_NAMES = "`'\"()[]{}<>*,;:!?.@"

# The titles of turns. An earlier prompt is not an answer.
_PROMPT_TITLE = "prompt"
_ANSWER_TITLE = "answer"


def human_question(prompt: str) -> str:
    """Return the part of a prompt that a person wrote, without the host's additions.

    Returns "" for commands and text written by a machine.
    """
    prompt = human_prompt(prompt)
    is_command = prompt.startswith("/") and prompt[1:].replace("-", "").replace(":", "").isalnum()
    if is_command or is_own_prompt(prompt):  # Ralph's own commands fetch what they need
        return ""
    return prompt


def recall_for_prompt(
    connection: sqlite3.Connection, prompt: str, options: RecallOptions
) -> Recalled:
    """Return the records related to a prompt, in as much detail as the budget allows."""
    allowed = prompt_filter(connection, options)
    ranking, repeated = _rank_prompt(connection, prompt, allowed, options)
    judged = relevance.judge_units(
        connection,
        ranking.words,
        allowed,
        ignored=repeated.keys,
        is_crowded=bool(options.task),
    )
    quoted = _gather_passages(connection, ranking, judged, allowed, options)
    singles = [*_rank_records(connection, prompt, ranking, allowed, options)]
    if not quoted:
        singles += _single_turns(ranking)
    related = [ranked for ranked in singles if _is_given_whole(ranked, judged, ranking.words)]
    candidates = []
    for shown in show_answers(relevant_records(related), ranking.words):
        if shown.is_same_error or _is_sufficient(shown.ranked, ranking.words):
            candidates.append(shown)  # what is visible suffices
    candidates = candidates[:MAX_RECORDS]
    shown_keys = {shown.row.key for shown in candidates}
    for shown in _on_named_files(connection, prompt[:_MAX_QUESTION_CHARACTERS], allowed):
        if shown.row.key not in shown_keys:
            candidates.append(shown)
    if quoted:
        candidates = _besides_passages(candidates, quoted)
    if options.learned:
        evidence = _Evidence(connection, ranking.words, allowed, options)
        candidates, quoted = evidence.replace(candidates, quoted)
    verified = _select_new(candidates, options)[:_MAX_VERIFIED_RECORDS]
    chosen = _lower_stale(verified, options.citations)[:MAX_RECORDS]
    if any(shown.is_same_error for shown in chosen):
        from ralph.recall.solutions import add_solutions  # few prompts are about an error

        chosen = add_solutions(connection, chosen)
    pointed: list[Pointer] = []
    if judged and len(chosen) < MAX_RECORDS and not options.continues:
        from ralph.recall import pointers  # most prompts have nothing to point to

        source = pointers.PointerSource(connection, ranking.words, allowed, options)
        pointed += _point_besides(source, judged, chosen, quoted)
    pointed += _point_to_unconfirmed(connection, ranking.words, options)
    if not (chosen or quoted or pointed):
        return NOTHING
    recalled = _render_all(chosen, quoted, pointed, options)
    turns: list[Shown] = []
    for passage in quoted:
        turns += map(show_whole, passage.ranked_turns())
    return replace(recalled, shown=[*chosen, *turns], words=ranking.words)


def _rank_records(
    connection: sqlite3.Connection,
    prompt: str,
    ranking: Ranking,
    allowed: Filter,
    options: RecallOptions,
) -> Sequence[RankedRow]:
    """Return the ranked records without turns, which are quoted in passages."""
    singles = [ranked for ranked in ranking.best if not passages.is_speech(ranked.row)]
    if ranking.best and not singles:
        # Many similar turns crowd out the memories, so these are ranked on their own.
        return _rank_memories(connection, prompt, ranking.words, allowed, options)
    if ranking.weak:
        return ()
    return singles


def _single_turns(ranking: Ranking) -> list[RankedRow]:
    """Return the ranked turns of agents, which may answer a prompt on their own."""
    if ranking.weak:
        return []
    return [
        ranked
        for ranked in ranking.best
        if passages.is_speech(ranked.row) and ranked.row.title != _PROMPT_TITLE
    ]


def _besides_passages(candidates: Sequence[Shown], quoted: Sequence[Passage]) -> list[Shown]:
    """Leave out turns that a passage quotes, and commands, because it says what came of them."""
    quoted_keys: set[int] = set()
    for passage in quoted:
        quoted_keys.update(passage.rows)
    return [
        shown
        for shown in candidates
        if shown.row.key not in quoted_keys and not is_bare_command(shown)
    ]


def _point_besides(
    source: PointerSource,
    judged: Sequence[Judged],
    chosen: Sequence[Shown],
    quoted: Sequence[Passage],
) -> list[Pointer]:
    """Return pointers to what is neither given whole nor quoted.

    A memory says more than the sessions around it, so beside one, only memories are pointed to.
    """
    given = {shown.row.id for shown in chosen}
    given.update(shown.row.session for shown in chosen if shown.row.session)
    given.update(passage.session for passage in quoted)
    if any(index_schema.is_memory(shown.row.key) for shown in chosen):
        judged = [each for each in judged if not each.unit.session]
    return source.point_to(judged, given)


def _point_to_unconfirmed(
    connection: sqlite3.Connection, words: Sequence[WeightedWord], options: RecallOptions
) -> list[Pointer]:
    """Return a pointer to the best memory that waits for a person, if one relates to a prompt.

    Such memories are judged apart from all others, so that they cannot displace any.
    """
    if options.continues or not lookup.has_unconfirmed_memory(connection):
        return []
    from ralph.recall import pointers  # few projects have such memories

    allowed = unconfirmed_filter(connection, options)
    judged = relevance.judge_units(connection, words, allowed)
    source = pointers.PointerSource(connection, words, allowed, options)
    return source.point_to_unconfirmed(judged)


def _is_given_whole(
    ranked: RankedRow, judged: Sequence[Judged], words: Sequence[WeightedWord]
) -> bool:
    """Return whether a record may be given whole, and not only pointed to.

    Unlike a session, a memory is short, so it need not stand out from the others. For the use of a
    tool, the words that are shown of it decide (`show_answers`), but ordinary words alone, as in
    "run the tests", bring only errors.
    """
    row = ranked.row
    if index_schema.is_observation(row.key) and row.by == "tool":
        matched = [word for word in words if word.word in ranked.matched]
        return bool(row.error) or not all(map(relevance.is_ordinary, matched))
    is_turn = passages.is_speech(row)
    for each in judged:
        if row.key in each.unit.keys:
            if each.level is relevance.Level.CERTAIN:
                return True
            return not is_turn and relevance.is_given_whole(each.unit)
    return False


# --- ranking -------------------------------------------------------------------------------------


def _rank_prompt(
    connection: sqlite3.Connection, prompt: str, allowed: Filter, options: RecallOptions
) -> tuple[Ranking, Repeated]:
    """Rank the records for a prompt, and return the earlier prompts that only repeat it as well.

    More candidates are considered if records from other tasks would crowd out the rest.
    """
    recipe = scoring.HOOK
    fallback = None
    if record_filters.hidden_share(connection, options.task) > _CROWDING_SHARE:
        recipe = _CROWDED_RECIPE
    elif options.task:
        fallback = _CROWDED_RECIPE
    is_filtered = bool(options.types or options.tags or options.since)

    def ranked(repeated: Repeated) -> Ranking:
        return rank.rank(
            connection,
            prompt,
            today=options.today,
            record_filter=allowed,
            limit=_MAX_RANKED_RECORDS,
            filter_late=not is_filtered,
            recipe=recipe,
            crowded_recipe=fallback,
            repeated=repeated,
        )

    ranking = ranked(rank.NOT_REPEATED)
    repeated = _find_repetitions(connection, ranking, prompt)
    if repeated.keys:
        ranking = ranked(repeated)
    return ranking, repeated


def _find_repetitions(connection: sqlite3.Connection, ranking: Ranking, prompt: str) -> Repeated:
    """Find the earlier prompts with the same text, for example from before a compaction.

    A prompt matches itself better than any answer. It also makes its own words look more frequent.
    """
    words = prompt.split()
    keys: list[int] = []
    without_answer: list[int] = []
    for ranked in ranking.best:
        row = ranked.row
        if row.title == _PROMPT_TITLE and row.text.split() == words:
            keys.append(row.key)
            if not lookup.keys_with_titles(connection, row.session, [_ANSWER_TITLE], 1):
                without_answer.append(row.key)
    return rank.Repeated(keys, without_answer)


def _rank_memories(
    connection: sqlite3.Connection,
    prompt: str,
    words: Sequence[WeightedWord],
    allowed: Filter,
    options: RecallOptions,
) -> Sequence[RankedRow]:
    memories_only = [part for part in allowed if part[0] is Family.MEMORY]
    ranked = rank.rank(
        connection,
        prompt,
        today=options.today,
        record_filter=memories_only,
        limit=_MAX_RANKED_RECORDS,
        filter_late=True,
        recipe=scoring.HOOK,
        words=words,
    )
    if ranked.weak:
        return ()
    return ranked.best


def _is_sufficient(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether a record may be injected on its own.

    An observation must answer the prompt as fully as a passage would.
    """
    if index_schema.family_of(ranked.row.key) is not Family.OBSERVATION:
        return True
    return passage_search.answers([ranked], words)


def relevant_records(
    best: Sequence[RankedRow], recipe: scoring.Recipe = scoring.SEARCH
) -> list[RankedRow]:
    """Return the records that are relevant enough to be injected, tier by tier.

    A memory comes before a log record even if the log record matches more words.
    """
    relevant: list[RankedRow] = []
    for tier in range(len(TIERS)):
        rows = [ranked for ranked in best if tier_of(ranked.row) == tier]
        if rows and rank.is_answer(rows[0]):
            relevant += rank.select_injectable(rows, recipe)
    return relevant


# --- passages and files --------------------------------------------------------------------------


def _gather_passages(
    connection: sqlite3.Connection,
    ranking: Ranking,
    judged: Sequence[Judged],
    allowed: Filter,
    options: RecallOptions,
) -> list[Passage]:
    """Return the passages from sessions that certainly relate to a prompt, if there is room."""
    certain = [each.unit for each in judged if each.level is relevance.Level.CERTAIN]
    if options.continues:
        certain = [
            unit for unit in certain if unit.coverage >= relevance.MIN_COVERAGE_WITHIN_SESSION
        ]
    room = passages.BUDGET_SHARE * (options.budget or _UNLIMITED_TOKENS)
    if room < passages.MIN_TOKENS or not certain:
        return []
    memories = _texts_of_memories(ranking)

    def may_quote(row: RecordRow) -> bool:
        return _may_quote(row, options) and not _is_echo(row, memories)

    source = passages.TurnSource(connection, allowed, may_quote)
    sessions = [_matching_turns(source, unit, ranking) for unit in certain if unit.session]
    min_evidence = _MIN_SHARE_OF_AMENDED * certain[0].evidence
    likely = {each.unit.session for each in judged if each.unit.evidence >= min_evidence}
    return passage_search.gather(source, sessions, likely)


def _texts_of_memories(ranking: Ranking) -> list[str]:
    """Return the letters and digits of the ranked memories."""
    texts = []
    for ranked in ranking.best:
        if index_schema.is_memory(ranked.row.key):
            texts.append(_letters_and_digits(ranked.row.text))
    return [text for text in texts if len(text) >= _MIN_ECHO_CHARACTERS]


def _is_echo(row: RecordRow, memories: Sequence[str]) -> bool:
    """Return whether a person said here what is now a memory, as in "remember: ..."."""
    if row.by != "human" or not memories:
        return False
    said = _letters_and_digits(row.text)
    return any(text in said for text in memories)


def _matching_turns(source: TurnSource, unit: Unit, ranking: Ranking) -> list[RankedRow]:
    """Return the turns of a session that match a prompt and may be quoted, best first.

    The ranking has read only the best records of all sessions. The others come after them.
    """
    ranked_turns = [ranked for ranked in ranking.best if ranked.row.session == unit.session]
    known = {ranked.row.key for ranked in ranked_turns}
    lowest_score = min((ranked.score for ranked in ranking.best), default=0.0)
    rows = lookup.fetch_rows(source.connection, unit.keys[:_MAX_MATCHING_TURNS])
    for key in unit.keys[:_MAX_MATCHING_TURNS]:
        if key in rows and key not in known:
            ranked = scoring.RankedRow(rows[key], lowest_score)
            ranked.matched = scoring.match_words(rows[key], ranking.words)
            ranked_turns.append(ranked)
    return [
        ranked
        for ranked in ranked_turns
        if ranked.matched and passages.is_speech(ranked.row) and source.may_quote(ranked.row)
    ]


class _Evidence:
    """Puts the memories that were learned from records and passages in their place."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        words: Sequence[WeightedWord],
        allowed: Filter,
        options: RecallOptions,
    ) -> None:
        self._connection = connection
        self._words = [word.word.lower() for word in words]
        self._allowed = allowed
        self._learned = options.learned
        self._memories: Mapping[str, RecordRow] = {}

    def replace(
        self, candidates: Sequence[Shown], quoted: Sequence[Passage]
    ) -> tuple[list[Shown], list[Passage]]:
        """Return the records and passages that stay, with the memories first.

        A record stays if its memory may not be injected, for example because it was archived, or if
        the memory is about something else that the record also mentions.
        """
        rows = [shown.row for shown in candidates]
        for passage in quoted:
            rows += passage.rows.values()
        memory_ids = [self._learned[row.id] for row in rows if row.id in self._learned]
        self._memories = lookup.memories_with_ids(
            self._connection, list(dict.fromkeys(memory_ids)), self._allowed
        )
        replacing = {self._learned[row.id]: None for row in rows if self._is_replaced(row)}
        shown_ids = {shown.row.id for shown in candidates}
        new = [
            show_whole(scoring.RankedRow(self._memories[name]))
            for name in replacing
            if name not in shown_ids
        ]
        records = [shown for shown in candidates if not self._is_replaced(shown.row)]
        left = [
            passage for passage in quoted if not any(map(self._is_replaced, passage.rows.values()))
        ]
        return [*new, *records], left

    def _is_replaced(self, row: RecordRow) -> bool:
        memory = self._memories.get(self._learned.get(row.id, ""))
        if memory is None:
            return False
        found = self._words_in(row)
        shared = found & self._words_in(memory)
        return bool(shared) and len(shared) >= _MIN_COVERED_SHARE * len(found)

    def _words_in(self, row: RecordRow) -> set[str]:
        text = f"{row.title} {row.text}".lower()
        return {word for word in self._words if word in text}


def _may_quote(row: RecordRow, options: RecallOptions) -> bool:
    """Return whether a turn may be part of a passage.

    It must be eligible, and it must not be a command.
    """
    if not row.text.strip() or not may_inject(row, options):
        return False
    is_command = row.title == _PROMPT_TITLE and human_question(row.text) != row.text.strip()
    return not is_command


def _on_named_files(connection: sqlite3.Connection, prompt: str, allowed: Filter) -> list[Shown]:
    """Return the records about files that a prompt names, newest first."""
    names = _named_files(prompt)
    if not names:
        return []
    from ralph.recall import lessons  # imported here because few prompts name files
    from ralph.recall.file_mentions import mentions_file

    rows = lessons.on_files(connection, names, allowed)
    touched = [name for name in names if any(mentions_file(row.files, name) for row in rows)]
    matched = dict.fromkeys(touched, 1.0)
    found: list[Shown] = []
    for row in rows:
        text = row.text
        if row.by == "tool":
            text = informative_text(row)
        visible = f"{row.files} {row.title} {text}"
        if text and any(mentions_file(visible, name) for name in touched):
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


# --- choosing ------------------------------------------------------------------------------------


def _select_new(candidates: Iterable[Shown], options: RecallOptions) -> list[Shown]:
    """Return the candidates that may be injected, without duplicates and with few per session."""
    selected: list[Shown] = []
    count_by_session: dict[str, int] = {}
    contents: set[str] = set()
    for shown in candidates:
        row = shown.row
        if row.title == _PROMPT_TITLE or not may_inject(row, options):
            continue
        content = _letters_and_digits(_content_of(shown))
        if content in contents:
            continue
        contents.add(content)
        count = count_by_session.get(row.session, 0) + 1
        count_by_session[row.session] = count
        if not row.session or count <= _max_of_session(row):
            selected.append(shown)
    return selected


def _content_of(shown: Shown) -> str:
    """Return what makes a record a duplicate of another one: for a command, its name."""
    if is_command(shown.text):
        from ralph.recall.command_lines import command_key  # few prompts get commands

        return command_key(command_of(shown.text))
    return f"{shown.row.title}{shown.text}"


def _letters_and_digits(text: str) -> str:
    """Reduce `text` to its letters and digits, to find duplicates.

    A knowledge page, its insight and its pattern differ only in punctuation and a leading "gotcha".
    """
    return "".join(filter(str.isalnum, text.lower().removeprefix("gotcha")))


def _max_of_session(row: RecordRow) -> int:
    """Return how many records from a row's session may be injected.

    A run and its journal entry count as one.
    """
    if index_schema.family_of(row.key) is Family.JOURNAL:
        return 1
    return _MAX_RECORDS_PER_SESSION


def _lower_stale(candidates: list[Shown], cache: CitationCache | None) -> list[Shown]:
    """Lower the scores of candidates with stale citations, and sort them again.

    Candidates stay within their tier. Those found by a file name have no score and come last.
    """
    if cache is None:
        return candidates
    keyed: list[tuple[tuple[int, float, float], Shown]] = []
    for shown in candidates:
        factor = citation_factor(shown.row, cache)
        tier = len(TIERS)
        if shown.ranked.score:
            tier = tier_of(shown.row)
        lowered = copy_ranked(shown.ranked)
        lowered.score *= factor
        keyed.append(((tier, -lowered.score, -factor), replace(shown, ranked=lowered)))
    keyed.sort(key=lambda pair: pair[0])
    return [shown for _, shown in keyed]


# --- rendering -----------------------------------------------------------------------------------


def _render_all(
    shown: Sequence[Shown],
    quoted: Sequence[Passage],
    pointed: Sequence[Pointer],
    options: RecallOptions,
) -> Recalled:
    """Render records in as much detail as fits, then passages, and pointers at the end."""
    recalled = render_records(shown, options)
    if not quoted and not pointed:
        return recalled
    entries = render_entries(shown, recalled.layer, options)[: len(recalled.records)]
    budget = options.budget or _UNLIMITED_TOKENS
    unspent = budget - FRAME_TOKENS - sum(entry.tokens + 1 for entry in entries)
    unspent -= sum(pointer.tokens for pointer in pointed)
    blocks: list[str] = []
    costs: list[Sequence[tuple[str, int]]] = []  # the records in each block
    for entry in entries:
        blocks.append(entry.text)
        costs.append([(entry.id, entry.tokens)])
    if quoted:
        from ralph.recall import quotes  # few prompts have a passage

        room = int(min(passages.BUDGET_SHARE * budget, unspent))
        for quote in quotes.quote_all(quoted, room, options.session):
            blocks.append(quote.text)
            costs.append(quote.turns)
    if pointed and unspent >= 0:
        from ralph.recall import pointers

        lines = [pointer.line for pointer in pointed]
        blocks.append("\n".join([pointers.heading(options), *lines]))
        costs.append(())
    text, kept = render.within(blocks, len(blocks), SEARCH_HINT, options.characters)
    records: list[tuple[str, int]] = []
    for index in kept:
        records += costs[index]
    is_pointed = bool(pointed) and bool(kept) and costs[kept[-1]] == ()
    return Recalled(text, records, recalled.layer, pointed if is_pointed else ())
