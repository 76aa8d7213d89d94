"""What an error's hint says to somebody who has a page before them, and not a command line.

A verb writes its hint once, for the terminal: which option stores it anyway, which command shows the ids. On a page the
same is a box to tick, a field, a list to look into. So a hint is taken clause by clause, and a clause that names an
option or a command for which there is a page says what the person can do there. A command for which there is none stays
as it is, in its backticks: the pages show it as something to copy. What may be insisted on is told apart
(`insisting`), so that no page has to read it out of a sentence. `tests/web/test_wording.py` proves it.
"""

import re

_OPTIONS = (("--allow-secret", "allow_secret"), ("--force", "force"))
"""What a person may insist on: the command's option, and the member of a request that means the same."""

_CLAUSES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"--allow-secret", "or say here that it may be kept"),
        (r"--force", "or say here that you want it anyway, or say it in other words"),
        (r"--text", "say it in a sentence or two, in the field for other words"),
        (r"--to design|--file", "choose a design page and name it in its field"),
        (r"--all-tasks", "look for it in Memory, which shows everything"),
        (r"`ralph search --layer", "read it on its page"),
        (r"`ralph (search|memory list|guardrails list|knowledge list|memory show)\b", "look for it in Memory"),
        (r"`ralph task (list|show)\b", "look for it in Tasks"),
        (r"`ralph session (list|show)\b", "look for it in Sessions"),
        (r"`ralph loop (list|show|status)\b", "look for it in Runs"),
        (r"`ralph insight (list|show)\b", "look for it in Insights"),
        (r"`ralph loop journal\b", "look for it in Runs"),
        (r"`ralph graph show\b", "look for it in the graph"),
    )
)
_AGAIN = re.compile(r"\brun (?:the command |it )?again\b")


def message(said: str) -> str:
    """An error's sentence in the words of a page; one that begins with an option is about something else there."""
    return _clause(said) if said.startswith("--") else said


def hint(said: str) -> str:
    """A command's hint in the words of a page."""
    clauses = [_clause(each) for each in said.split("; ")]
    told = "; ".join(dict.fromkeys(filter(None, clauses)))
    return _AGAIN.sub("try again", told.removeprefix("or "))


def insisting(said: str) -> str:
    """The member of a request that does it all the same, if the hint names such an option; else nothing."""
    return next((member for option, member in _OPTIONS if option in said), "")


def _clause(said: str) -> str:
    return next((words for pattern, words in _CLAUSES if pattern.search(said)), said)
