"""A session as a conversation: who said what and when, with the tools that were used in between folded together.

It is made of the session's observations, whoever recorded them, so hooks and chats have one history and nothing is
told twice. An observation holds two thousand characters at most; what a chat said beyond that stands whole in the
member `messages` of a `session` line, by the id of its observation, and takes its place here. That member counts as
derived: `ralph forget` and `ralph session compress` take it away with what it is about. Tools belong to the answer
that follows them; where none came, because the agent was stopped, they stand alone. Proof:
`tests/app/chats/test_chat_turns.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.app import session as sessions
from ralph.app.logs import log_file, moment
from ralph.app.session import Session
from ralph.capture import summarize
from ralph.capture.trim import first_line
from ralph.formats.log import parse_log
from ralph.model.record import ObservationKind, Record
from ralph.store import files

_MEMBER = '"messages"'
_TITLE = 100
_NAMED = 8
"""Tools that are named in one line; of more, a count."""


class Speaker(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Tool:
    """One use of a tool: what it did, when, and whether it failed."""

    title: str
    at: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What one of the two said, and what was done before it."""

    by: Speaker
    at: str
    text: str
    tools: tuple[Tool, ...] = ()

    @property
    def folded(self) -> str:
        """The tools in one line; "" when there were none."""
        counts = Counter(f"{each.title} (failed)" if each.failed else each.title for each in self.tools)
        named = [f"{title} x{count}" if count > 1 else title for title, count in counts.items()]
        more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
        number = len(self.tools)
        return f"{number} tool{'s' * (number > 1)}: {', '.join([*named[:_NAMED], *more])}" if number else ""


@dataclass(frozen=True, slots=True)
class History:
    """A session and its turns."""

    session: Session
    turns: tuple[Turn, ...] = field(default=())


def history(root: Path, session_id: str = "", *, within: str = "") -> History:
    """What was said in a session; without an id, in the newest one; as far as one may see it from `within` a task."""
    session, held = sessions.happened(root, session_id, within=within)
    return History(session, turns(held, whole_texts(root, session.id)))


def whole_texts(root: Path, session_id: str) -> Mapping[str, str]:
    """The texts that are longer than their observations, by the ids of these."""
    text = files.read(log_file(root, session_id)) or ""
    found: dict[str, str] = {}
    for line in parse_log("\n".join(each for each in text.split("\n") if _MEMBER in each)).lines:
        said = line.value.get("messages")
        for each in said if line.type == "session" and isinstance(said, list) else ():
            if isinstance(each, Mapping) and isinstance(each.get("id"), str) and isinstance(each.get("text"), str):
                found[each["id"]] = each["text"]
    return found


def turns(held: Sequence[Record], whole: Mapping[str, str] | None = None) -> tuple[Turn, ...]:
    """Observations as turns, in the order of their times."""
    return tuple(_turns(sorted(held, key=_when), whole or {}))


def _turns(held: Sequence[Record], whole: Mapping[str, str]) -> Iterator[Turn]:
    tools: list[Tool] = []
    for record in held:
        if summarize.is_message(record):
            yield Turn(Speaker.ASSISTANT, record.created_at, whole.get(record.id, record.text), tuple(tools))
        elif summarize.is_prompt(record):
            if tools:
                yield Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools))
            yield Turn(Speaker.USER, record.created_at, whole.get(record.id, record.text))
        else:
            tools.append(_tool(record))
            continue
        tools.clear()
    if tools:
        yield Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools))


def _tool(record: Record) -> Tool:
    title = record.title
    if record.extra.get("agent_id") and record.kind is ObservationKind.NOTE:
        title = f"subagent: {record.text}"
    return Tool(first_line(title or record.text, _TITLE), record.created_at, record.kind is ObservationKind.ERROR)


def _when(record: Record) -> tuple[bool, float]:
    """By when it was; what has no time stays before all others."""
    at = moment(record.created_at)
    return (at is not None, at.timestamp() if at is not None else 0.0)


# --- as it is printed ----------------------------------------------------------------------------


def plain(found: History) -> str:
    """A history for a terminal: who and when, then the words, indented."""
    return "\n".join(_plain(each) for each in found.turns)


def _plain(turn: Turn) -> str:
    lines = [f"{turn.by}  {_time(turn.at)}".rstrip()]
    lines += [f"  ({turn.folded})"] if turn.folded else []
    lines += [f"  {line}".rstrip() for line in turn.text.splitlines()]
    return "\n".join(lines) + "\n"


def markdown(found: History) -> str:
    """A history as a page of its own."""
    session = found.session
    facts = [
        ("session", session.id), ("task", session.task), ("mode", session.mode), ("host", session.host),
        ("started", _time(session.started_at)), ("messages", str(session.messages)),
    ]  # fmt: skip
    head = "\n".join(f"- {name}: {value}" for name, value in facts if value)
    parts = [f"# {' '.join(session.prompt.split()) or session.id}\n\n{head}\n", *map(_section, found.turns)]
    return "\n".join(parts)


def _section(turn: Turn) -> str:
    name = turn.by.value.capitalize()
    when = _time(turn.at)
    folded = f"> {turn.folded}\n\n" if turn.folded else ""
    text = f"{turn.text.strip()}\n" if turn.text.strip() else ""
    return f"## {name}{f' ({when})' if when else ''}\n\n{folded}{text}"


def _time(at: str) -> str:
    return " ".join(at[:16].replace("T", " ").split())
