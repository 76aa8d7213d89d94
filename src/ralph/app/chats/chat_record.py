"""Recording a turn of a chat: what hooks have recorded of it is left alone, what is missing is added.

With hooks installed a turn is in the session's log already when it ends, attributed and redacted; without them, or
when the agent was killed before it could answer, it is not. So the log is read first, and only what it has nothing of
since the turn began is written, through the same steps that a hook's event takes: secrets and hidden files stay out,
and the observations look alike, whoever made them. Tools are told only where no hook spoke at all. A text that is
longer than an observation is kept whole beside it, redacted (`chat_turns` says where and why). Proof:
`tests/app/chats/test_chat_record.py`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ralph.app import index
from ralph.app.chats import chat_log
from ralph.app.chats.chat_log import Chat
from ralph.app.logs import log_file, moment
from ralph.capture import summarize
from ralph.capture.event import Action, Event, Happening
from ralph.capture.pipeline import observe, of_loop, without_injected
from ralph.capture.privacy import redact
from ralph.capture.redactor import Redactor
from ralph.formats.log import encode_line, encode_record
from ralph.model import ids
from ralph.model.record import Record
from ralph.model.work import Reply, ToolCall
from ralph.settings import Privacy
from ralph.store.sources import Format, Source, told

_CUT = re.compile(r"\[\.\.\. [\d,]+ characters left out \.\.\.\]")
_LONGEST = 200_000
"""Characters of one text that are kept."""
_IS = {Happening.USER_PROMPT_SUBMIT: summarize.is_prompt, Happening.STOP: summarize.is_message}


def stamp() -> str:
    """The present moment, as hooks write it."""
    return ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def events(chat: Chat, words: str, reply: Reply, began: str) -> list[Event]:
    """A turn in the words of a host: what was asked, what was done, what was answered."""
    ended = stamp()
    asked = Event(Happening.USER_PROMPT_SUBMIT, chat.agent, chat.id, began, prompt=words)
    done = [_used(chat, call, ended) for call in reply.calls if call.files]
    return [asked, *done, Event(Happening.STOP, chat.agent, chat.id, ended, message=reply.text)]


def _used(chat: Chat, call: ToolCall, at: str) -> Event:
    return Event(
        Happening.POST_TOOL_USE,
        chat.agent,
        chat.id,
        at,
        tool=call.name,
        action=Action.CHANGE if call.writes else Action.READ,
        parameters={"files": list(call.files)},
        failed=not call.ok,
        files=call.files,
    )


def record(root: Path, privacy: Privacy, chat: Chat, began: str, turn: Sequence[Event]) -> None:
    """Append what the log has not of a turn, the texts that are too long for it, and how the chat stands."""
    held = _held(root, chat)
    start = moment(began)
    since = [each for each in held if start and (at := moment(each.created_at)) is not None and at >= start]
    missing: list[Record] = []
    whole: list[dict[str, str]] = []
    for event in turn:
        found = _same(since, event)
        if found is None and not (since and event.happening not in _IS):
            found = observe(event, patterns=privacy.patterns, paths=privacy.paths)
            missing += [of_loop(found, {"task": chat.task})] if found is not None else []
        if found is not None and _CUT.search(found.text):
            whole.append({"id": found.id, "text": _clean(event.prompt or event.message, privacy.patterns)})
    lines = [encode_record(each) for each in missing]
    if whole:
        lines.append(encode_line("session", {"id": chat.id, "messages": whole}))
    count = sum(summarize.is_prompt(each) or summarize.is_message(each) for each in (*held, *missing))
    first = next(filter(None, (each.created_at for each in held)), began)
    chat_log.note(root, chat, lines, at=stamp(), began=first, messages=count, patterns=privacy.patterns)


def _held(root: Path, chat: Chat) -> list[Record]:
    """What the log has of a chat, by whomever."""
    path = log_file(root, chat.id)
    said = told(Source(path, path.name, Format.LOG), index.by_todays_rules(root))
    return [placed.record for placed in said.records if placed.record.origin.session == chat.id]


def _same(since: Sequence[Record], event: Event) -> Record | None:
    """The observation that a hook has made of what was asked or answered; of several, the last."""
    is_it = _IS.get(event.happening)
    return next((each for each in reversed(since) if is_it(each)), None) if is_it is not None else None


def _clean(text: str, patterns: Sequence[str]) -> str:
    """A text as it may be kept, longer than an observation."""
    return redact(without_injected(Redactor(patterns, bear=True)(text, _LONGEST // 2)), patterns).text
