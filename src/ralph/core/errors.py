"""Every error that Ralph raises on purpose.

The message says what is wrong and where; `hint` says what to do next.

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


class RalphError(Exception):
    """The base class. Adapters print the error once and exit with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if self.hint:
            return f"{self.message}\n  {self.hint}"
        return self.message


class UsageError(RalphError):
    """The arguments are wrong."""

    exit_code = 2


class ConfigError(UsageError):
    """A config file or value is wrong. The message starts with `file:line:`."""


class NotFound(RalphError):
    """There is no record, file or key with that name."""


class NothingYet(NotFound):
    """The latest one was asked for, and none exists yet."""


class Conflict(RalphError):
    """Something exists that must not be overwritten, or two things claim one name."""


class Refused(RalphError):
    """A rule forbids it: a secret, an unsafe path, an empty text."""


class Unreadable(RalphError):
    """A file cannot be read or has the wrong content."""


class WriteFailed(RalphError):
    """Writing failed. The file is unchanged."""


class DeadlineExceeded(BaseException):
    """A hook ran out of time.

    It does not inherit from Exception, so that code which handles a broken file does not catch it.
    `pattern` is the user's pattern that was being searched for, if any.
    """

    pattern = ""
