"""What the user of this machine has accepted."""

from ralph.core import paths

_ALWAYS_ACCEPTED = set[str]()  # keys that tests share, because they share a project


def forget_acceptances() -> None:
    """Forget what a test has accepted, as on another machine."""
    path = paths.accepted_texts()
    if path is None or not path.exists():
        return
    path.write_text("".join(f"{key}\n" for key in sorted(_ALWAYS_ACCEPTED)), encoding="utf-8")


def keep_acceptances() -> None:
    """Keep what is accepted now for all later tests."""
    path = paths.accepted_texts()
    if path is not None and path.exists():
        _ALWAYS_ACCEPTED.update(path.read_text(encoding="utf-8").split())
