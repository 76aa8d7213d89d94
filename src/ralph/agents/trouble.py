"""Why an agent did not do its work: something that another try later may mend, or its own fault.

Clients say it in words that change from version to version, so an HTTP status decides where one is told, and
a short list of plain words where none is. Whatever is not recognised counts as a crash: the loop then goes on
with the next attempt instead of waiting for a better time. Proof: `tests/agents/test_trouble.py`, with the real
clients' own messages.
"""

import re

from ralph.agents.process import Finished
from ralph.model.work import StopReason

TAIL = 2000
"""Characters of a program's complaint that are worth keeping."""

_LATER = {401, 402, 403, 404, 407, 408, 425, 429}
_STATUS = re.compile(r"(?:status:?|API Error:?|HTTP|rejected)\s*\(?(\d{3})\b")
_TOO_LONG = re.compile(r"prompt is too long|context (?:window|length)|too many tokens|request too large", re.I)
_UNAVAILABLE = re.compile(
    r"not logged in|log ?in required|please (?:run /login|log ?in)|authenticat|unauthori[sz]ed|api key"
    r"|credit balance|quota|usage limit|rate.?limit|overloaded|high demand|retry limit|temporarily"
    r"|connection (?:refused|reset|error|failed|closed)|ECONN|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|network|fetch failed"
    r"|stream disconnected|error sending request|timed out|dns|model.{0,60}(?:not found|not exist|not supported)",
    re.I,
)


def judged(words: str, status: int = 0) -> StopReason:
    """What a client's complaint means; `status` is the model API's, when it is told."""
    found = _STATUS.search(words)
    number = status or (int(found[1]) if found else 0)
    if _TOO_LONG.search(words):
        return StopReason.MAX_TOKENS
    if number in _LATER or number >= 500:
        return StopReason.UNAVAILABLE
    if number == 0 and _UNAVAILABLE.search(words):
        return StopReason.UNAVAILABLE
    return StopReason.CRASHED


def forced(done: Finished) -> tuple[StopReason, str] | None:
    """How a program ended that did not come to its own end, and why in words; None when it did."""
    if done.missing:
        return StopReason.UNAVAILABLE, done.err
    if done.stopped:
        return StopReason.CANCELLED, "it was stopped"
    if done.timed_out:
        return StopReason.TIMEOUT, "it took too long and was ended"
    return None


def crash(name: str, done: Finished) -> str:
    """How a program died, with the end of its complaint."""
    code = done.code if done.code is not None else "?"
    how = f"was ended by signal {-code}" if isinstance(code, int) and code < 0 else f"exited with {code}"
    said = done.err.strip()[-TAIL:]
    return f"{name} {how}: {said}" if said else f"{name} {how}"
