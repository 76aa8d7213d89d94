"""Load data sets as Collections: records as Ralph would store them, and questions with the right ids.

A Collection is one store to query; a data set is one or more of them (a conversation of LoCoMo, a
question's haystack of LongMemEval). The loaders take parsed JSON in the shape its authors publish, and
raise `Unreadable` with what is missing. If answers are whole sessions, `whole_sessions` is set, and a
question's right ids are session ids. "Today" is the day of the question, or otherwise of a store's newest
record, so that recency counts as it would have then, and a run gives the same figures next year.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from bench import library_functions
from ralph.core.errors import Unreadable
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)

SESSION_CHARACTERS = 500
"""Maximum characters kept of a LongMemEval session."""
ISSUE_CHARACTERS = 2_000
"""Maximum characters kept of the body of an issue."""
FUNCTION_CHARACTERS = 2_500
"""Maximum characters kept of the source of a library function."""

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_LONGMEMEVAL_TIME = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?: *\(\w+\))?(?: +(\d\d):(\d\d))?")
_KINDS: Mapping[Family, Mapping[str, MemoryKind | ObservationKind | Outcome]] = {
    Family.MEMORY: {kind.value: kind for kind in MemoryKind},
    Family.OBSERVATION: {kind.value: kind for kind in ObservationKind},
    Family.JOURNAL: {kind.value: kind for kind in Outcome},
}
_STATES = {
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN),
}

NOTE = ObservationKind.NOTE
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids that answer it; none for a negative control.

    A record in `allowed` is neither right nor wrong: it is removed from the injected records before counting.
    """

    id: str
    text: str
    relevant: frozenset[str]
    category: str = ""
    allowed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Collection:
    """One store of records and the questions put to it."""

    records: tuple[Record, ...]
    questions: tuple[Question, ...]
    whole_sessions: bool = False
    asked_on: date | None = None

    @property
    def today(self) -> date:
        """The day of the questions: as stated, or otherwise that of the newest record."""
        if self.asked_on is not None:
            return self.asked_on
        days = [day for record in self.records if (day := _day(record.created_at)) is not None]
        return max(days, default=date(2025, 1, 1))


@dataclass(frozen=True, slots=True)
class DataSet:
    """Collections whose figures are counted together; `gated` if precision after the gate is measured."""

    name: str
    collections: tuple[Collection, ...]
    gated: bool = False
    per_category: bool = False


def plain(name: str, told: object) -> DataSet:
    """`{"docs": [{id, text, title?, ts?, created?}], "queries": [{id, text, rel}]}`."""
    whole = read_object(told, name)
    records = tuple(_document(doc, name) for doc in read_objects(whole, "docs", name))
    questions = tuple(
        Question(
            read_text(query, "id", name),
            read_text(query, "text", name),
            frozenset(_texts(query, "rel", name)),
        )
        for query in read_objects(whole, "queries", name)
    )
    return DataSet(name, (Collection(records, questions),))


def _document(doc: Json, name: str) -> Record:
    title = str(doc.get("title") or "")
    text = read_text(doc, "text", name)
    created = doc.get("created")
    stamp = doc.get("ts")
    if isinstance(stamp, int | float):
        created = datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Record(
        read_text(doc, "id", name),
        MemoryKind.CONTEXT,
        text.removeprefix(title).lstrip() or text if title else text,
        title=title,
        created_at=str(created or ""),
    )


def long_issues(name: str, told: object) -> DataSet:
    """Load several stores in the shape of `plain`. Their queries are bodies of issues.

    A body is cut to `ISSUE_CHARACTERS`, about what people paste into a prompt.
    """
    if not isinstance(told, list):
        raise _unreadable(name, "a list of stores was expected")
    collections = []
    for store in told:
        (collection,) = plain(name, store).collections
        questions = tuple(
            replace(question, text=question.text[:ISSUE_CHARACTERS])
            for question in collection.questions
        )
        collections.append(replace(collection, questions=questions))
    return DataSet(name, tuple(collections))


def library(queries: object) -> DataSet:
    """Load questions about functions of Python's standard library, as people type them.

    The documents are the functions that are installed, with their code and docstrings.
    """
    name = "library"
    if not isinstance(queries, list):
        raise _unreadable(name, "a list of queries was expected")
    records = tuple(
        Record(path, MemoryKind.CONTEXT, source[:FUNCTION_CHARACTERS])
        for path, source in library_functions.sources()
    )
    known = {record.id for record in records}
    questions = []
    for query in (read_object(each, name) for each in queries):
        right = frozenset(known & set(_texts(query, "relevant", name)))
        if right:  # some functions exist only in some versions of Python
            questions.append(
                Question(read_text(query, "id", name), read_text(query, "text", name), right)
            )
    return DataSet(name, (Collection(records, tuple(questions)),))


def locomo(told: object, *, sessions: bool = False) -> DataSet:
    """Load LoCoMo: a turn is an observation of its session; with `sessions`, whole sessions are the answers."""
    name = "locomo-sessions" if sessions else "locomo-turns"
    if not isinstance(told, list):
        raise _unreadable(name, "a list of conversations was expected")
    return DataSet(
        name, tuple(_conversation(read_object(each, name), name, sessions) for each in told)
    )


def _conversation(told: Json, name: str, sessions: bool) -> Collection:
    records = tuple(_turns(read_object(told.get("conversation"), name), name))
    known = {record.id for record in records}
    questions = []
    for number, qa in enumerate(read_objects(told, "qa", name), 1):
        turns = {
            f"D{int(a)}:{int(b)}"
            for each in _texts(qa, "evidence", name)
            for a, b in _EVIDENCE.findall(each)
        }
        right = turns & known
        if right:  # a few questions have no usable evidence, so their answers are unknown
            wanted = (
                frozenset(turn.partition(":")[0] for turn in right)
                if sessions
                else frozenset(right)
            )
            category = f"category {qa.get('category')}"
            questions.append(
                Question(str(number), read_text(qa, "question", name), wanted, category)
            )
    return Collection(records, tuple(questions), whole_sessions=sessions)


def _turns(conversation: Json, name: str) -> Iterator[Record]:
    numbered = [(int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key))]
    for number, key in sorted(numbered):
        created = _locomo_time(conversation.get(f"{key}_date_time"))
        for turn in read_objects(conversation, key, name):
            caption = f" [shows: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{read_text(turn, 'speaker', name)}: {read_text(turn, 'text', name)}{caption}"
            yield _observation(read_text(turn, "dia_id", name), text, f"D{number}", created)


def _locomo_time(said: object) -> str:
    try:
        return datetime.strptime(str(said), _LOCOMO_TIME).strftime("%Y-%m-%dT%H:%M:00Z")
    except ValueError:
        return ""


def _observation(name: str, text: str, session: str, created: str) -> Record:
    status, scope = _STATES[Family.OBSERVATION]
    return Record(
        name, ObservationKind.NOTE, text, Family.OBSERVATION,
        status=status, scope=scope, origin=Origin(session=session), created_at=created,
    )  # fmt: skip


def longmemeval(told: object) -> DataSet:
    """Load LongMemEval: each question has its own sessions and day; the beginning of each session is one record.

    The measure is whether the sessions with the evidence are found. A question whose id ends with `_abs` asks for
    something that was never said, and its sessions are only about similar things; it is skipped, as its authors do.
    """
    name = "longmemeval"
    if not isinstance(told, list):
        raise _unreadable(name, "a list of questions was expected")
    asked = [read_object(each, name) for each in told]
    return DataSet(name, tuple(_haystack(each, name) for each in asked if not _abstains(each)))


def _abstains(told: Json) -> bool:
    return any(str(told.get(key, "")).endswith("_abs") for key in ("question_id", "question_type"))


def _haystack(told: Json, name: str) -> Collection:
    names = _texts(told, "haystack_session_ids", name)
    turns = told.get("haystack_sessions")
    if not isinstance(turns, list) or len(turns) != len(names):
        raise _unreadable(
            name, "`haystack_sessions` and `haystack_session_ids` should be lists of one length"
        )
    days = told.get("haystack_dates")
    dates = days if isinstance(days, list) and len(days) == len(names) else [""] * len(names)
    records: dict[str, Record] = {}
    for session, said, day in zip(
        names, turns, dates, strict=True
    ):  # a session may occur twice: it counts once
        text = _session_text(said, name)
        records.setdefault(
            session, Record(session, MemoryKind.CONTEXT, text, created_at=_longmemeval_time(day))
        )
    right = frozenset(_texts(told, "answer_session_ids", name)) & records.keys()
    category = str(told.get("question_type") or "")
    question = Question(
        str(told.get("question_id", "")), read_text(told, "question", name), right, category
    )
    day = _day(_longmemeval_time(told.get("question_date")))
    return Collection(tuple(records.values()), (question,) if right else (), asked_on=day)


def _session_text(said: object, name: str) -> str:
    """Return the beginning of a session, without its speakers and the flag `has_answer`."""
    if not isinstance(said, list):
        raise _unreadable(name, "a session should be a list of turns")
    text = "\n".join(read_text(read_object(turn, name), "content", name) for turn in said)
    return text[:SESSION_CHARACTERS]


def _longmemeval_time(said: object) -> str:
    """Convert `2023/05/20 (Sat) 02:21` to the form used in files; the time of day may be missing."""
    match = _LONGMEMEVAL_TIME.match(str(said))
    if match is None:
        return ""
    day = "-".join(match.groups()[:3])
    return f"{day}T{match[4]}:{match[5]}:00Z" if match[4] else day


def own(name: str, records: object, queries: object) -> DataSet:
    """Load our own set: records of all families, and questions by category."""
    if not isinstance(records, list) or not isinstance(queries, list):
        raise _unreadable(name, "a list of records and a list of queries were expected")
    questions = tuple(
        Question(
            read_text(query, "id", name),
            read_text(query, "text", name),
            frozenset(_texts(query, "relevant", name)),
            str(query.get("category") or ""),
        )
        for query in (read_object(each, name) for each in queries)
    )
    made = tuple(_own_record(read_object(each, name), name) for each in records)
    return DataSet(name, (Collection(made, questions),), per_category=True)


def _own_record(told: Json, name: str) -> Record:
    try:
        family = Family(read_text(told, "family", name))
        kind = _KINDS[family][read_text(told, "kind", name)]
    except (ValueError, KeyError) as error:
        raise _unreadable(
            name, f"record {told.get('id')}: unknown family or kind {error}"
        ) from error
    status, scope = _STATES[family]
    if told.get("status") == Status.RETIRED.value:
        status = Status.RETIRED
    origin = Origin(
        by=str(told.get("by") or ""),
        session=str(told.get("session") or ""),
        files=_texts(told, "files", name),
    )
    return Record(
        read_text(told, "id", name), kind, read_text(told, "text", name), family,
        title=str(told.get("title") or ""), tags=_texts(told, "tags", name), status=status, scope=scope,
        origin=origin, created_at=str(told.get("created_at") or ""), links=_links(told, name),
    )  # fmt: skip


def _links(told: Json, name: str) -> tuple[Link, ...]:
    """Return the links of a record, which are written as pairs of a relation and an id."""
    links = told.get("links", [])
    if not isinstance(links, list):
        raise _unreadable(name, "`links` should be a list of pairs")
    return tuple(Link(*map(str, pair)) for pair in links)


def precision(beliefs: object, cases: object) -> DataSet:
    """Load PrecisionMemBench: beliefs as memories, and what may be injected for each case.

    The set has users, scopes and sections of a prompt; a store here contains one user's beliefs in the scopes
    of a case. The relevant beliefs and the pinned facts that must appear are right. Open questions that must
    appear belong to another section and are allowed. Replaced and resolved beliefs are retired. Cases about a
    budget, or without a question, test something else and are skipped.
    """
    name = "precision"
    if not isinstance(beliefs, list) or not isinstance(cases, list):
        raise _unreadable(name, "a list of beliefs and a list of cases were expected")
    known = [read_object(each, name) for each in beliefs]
    asked: dict[tuple[str, tuple[str, ...]], list[Question]] = {}
    usual = str(known[0].get("user_id", "")) if known else ""
    for case in (read_object(each, name) for each in cases):
        if "budget" in case or not str(case.get("query", "")).strip():
            continue
        store = str(case.get("userId", usual)), _texts(case, "scope", name)
        asked.setdefault(store, []).append(_case(case, name))
    collections = (
        Collection(tuple(_beliefs(known, user, scopes, name)), tuple(questions))
        for (user, scopes), questions in asked.items()
    )
    return DataSet(name, tuple(collections), gated=True)


def _beliefs(
    known: Sequence[Json], user: str, scopes: Iterable[str], name: str
) -> Iterator[Record]:
    for belief in known:
        if belief.get("user_id") != user or not set(_texts(belief, "scope", name)) & set(scopes):
            continue
        involved = _texts({"participants": [], **belief}, "participants", name)
        over = (
            belief.get("superseded_by")
            or belief.get("resolved_at")
            or belief.get("epistemic_status") == "superseded"
        )
        yield Record(
            read_text(belief, "_id", name), MemoryKind.CONTEXT, read_text(belief, "content", name),
            title=read_text(belief, "canonical_name", name), tags=_texts(belief, "aliases", name),
            status=Status.RETIRED if over else Status.ACCEPTED, created_at=str(belief.get("updated_at") or ""),
            links=tuple(Link("involves", other) for other in involved),
        )  # fmt: skip


def _case(case: Json, name: str) -> Question:
    expect = read_object(case.get("expect"), name)

    def listed(section: str, key: str) -> frozenset[str]:
        found = expect.get(section)
        return (
            frozenset(_texts(found, key, name))
            if isinstance(found, dict) and key in found
            else frozenset()
        )

    right = listed("relevantBeliefs", "shouldOnlyInclude") | listed("pinnedFacts", "mustInclude")
    allowed = listed("openQuestions", "mustInclude") - right
    return Question(
        read_text(case, "caseId", name),
        read_text(case, "query", name),
        right,
        str(case["category"]),
        allowed,
    )


def _day(created: str) -> date | None:
    try:
        return date.fromisoformat(created[:10])
    except ValueError:
        return None


def _unreadable(name: str, what: str) -> Unreadable:
    return Unreadable(f"{name}: {what}", hint="it should have the shape that its authors publish")


def read_object(value: object, name: str) -> Json:
    """Return a JSON object of a data set; raise Unreadable for anything else."""
    if not isinstance(value, dict):
        raise _unreadable(name, "an object was expected")
    return value


def read_objects(value: Json, key: str, name: str) -> list[Json]:
    """Return a member that is a list of objects; raise Unreadable for anything else."""
    found = value.get(key)
    if not isinstance(found, list):
        raise _unreadable(name, f"`{key}` should be a list")
    return [read_object(each, name) for each in found]


def read_text(value: Json, key: str, name: str) -> str:
    """Return a member that is a string; raise Unreadable for anything else."""
    found = value.get(key)
    if not isinstance(found, str):
        raise _unreadable(name, f"`{key}` should be text")
    return found


def _texts(value: Json, key: str, name: str) -> tuple[str, ...]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _unreadable(name, f"`{key}` should be a list of texts")
    return tuple(found)
