"""Every error that Ralph raises on purpose.

    RalphError                     exit 1
    ├── UsageError                 exit 2: the call's words are wrong
    │   └── ConfigError            a config file or value is wrong (file:line)
    ├── NotFound                   no record, file or key of that name
    │   └── NothingYet             there is no newest one yet: for a listing no error at all
    ├── Conflict                   something is there that must not be overwritten, or changed under us
    ├── Refused                    a rule says no: a secret, an unsafe path, an empty text
    ├── Unreadable                 a file cannot be read or is not what it should be
    └── WriteFailed                the disk said no; the file is as it was

The message says what is wrong and where, and `hint` how to go on. The adapter that catches it prints it once.
"""


class RalphError(Exception):
    """Anything Ralph raises on purpose; the adapters put it into words and exit with `exit_code`."""

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
