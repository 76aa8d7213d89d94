"""Every error that Ralph raises on purpose: the message says what is wrong and where, `hint` how to go on."""

from __future__ import annotations


class RalphError(Exception):
    """Anything Ralph raises on purpose; the adapters print it once and exit with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(RalphError):
    """The call's words are wrong."""

    exit_code = 2


class ConfigError(UsageError):
    """A config file or value is wrong; the message starts with `file:line:`."""


class NotFound(RalphError):
    """No record, file or key of that name."""


class NothingYet(NotFound):
    """There is no newest one of its kind yet."""


class Conflict(RalphError):
    """Something is there that must not be overwritten, or two things claim one name."""


class Refused(RalphError):
    """A rule says no: a secret, an unsafe path, an empty text."""


class Unreadable(RalphError):
    """A file cannot be read, or it is not what it should be."""


class WriteFailed(RalphError):
    """The disk said no; the file is as it was before."""


class DeadlineExceeded(BaseException):
    """A hook took too long. It is no Exception, so that nothing on the way takes it for an error of a file.

    `pattern` is the pattern of the user's that was being searched for, if there was one.
    """

    pattern = ""
