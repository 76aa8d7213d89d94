"""Every error that Ralph raises on purpose.

The message says what is wrong and where, and the hint says what to do next. A hint is plain text,
or a `Hint` where an adapter has to word it differently from the command line.

    RalphError
      UsageError
        ConfigError
      NotFound
        NothingYet
      Conflict
      Refused
      Unreadable
      WriteFailed
    DeadlineExceeded (a BaseException)
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING, record

if TYPE_CHECKING:
    from typing import Literal

    Advice = Literal[
        "allow-secret",  # store the text even though it looks like a secret
        "force",  # do it even though a rule or a file is in the way
        "shorten",
        "encode",  # pass the text as UTF-8
        "choose-knowledge",  # store the text as a knowledge page
        "name-design-page",
        "show-all-tasks",  # include what belongs to other tasks
        "read-record",
        "find-record",
        "find-task",
        "find-session",
        "find-run",
        "find-proposal",
        "find-edge",
    ]
    """What a hint advises."""

    Clauses = tuple["str | Hint", ...]
    """The clauses of a hint, in order. Text is the same in every interface."""


@record
class Hint:
    """Advice that each interface words in its own way. `text` is the command-line wording."""

    advice: Advice
    text: str

    def __str__(self) -> str:
        return self.text


class RalphError(Exception):
    """The base class of Ralph's errors. Adapters print it once and exit with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | Hint | Clauses = "") -> None:
        super().__init__(message)
        self.message = message
        self.clauses = _split_hint(hint)

    @property
    def hint(self) -> str:
        """The hint as the command line words it."""
        return "; ".join(map(str, self.clauses))

    def __str__(self) -> str:
        if self.hint:
            return f"{self.message}\n  {self.hint}"
        return self.message


def _split_hint(hint: str | Hint | Clauses) -> Clauses:
    if not hint:
        return ()
    if isinstance(hint, tuple):
        return hint
    return (hint,)


class UsageError(RalphError):
    """The arguments are wrong."""

    exit_code = 2


class ConfigError(UsageError):
    """A config file or value is wrong. The message starts with `file:line:`."""


class NotFound(RalphError):
    """There is no record, file or key with that name."""


class NothingYet(NotFound):
    """The latest item was requested, but none exists yet."""


class Conflict(RalphError):
    """Something exists that must not be overwritten, or two things claim one name."""


class Refused(RalphError):
    """A rule forbids the action, for example because of a secret, an unsafe path or empty text."""


class Unreadable(RalphError):
    """A file cannot be read, or its content is not what was expected."""


class WriteFailed(RalphError):
    """Writing failed. The file is unchanged."""


class DeadlineExceeded(BaseException):
    """A hook ran out of time.

    It does not inherit from Exception, so that code that handles broken files cannot catch it.
    `pattern` is the user-defined pattern that was being searched for, if any. `used_processor` says
    that the hook was slow itself, and not only the machine.
    """

    pattern = ""
    used_processor = False
