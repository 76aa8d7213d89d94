"""Tell whether sessions are recorded in a folder, for all reports that mention it.

A folder without Ralph's files is not always without Ralph: with `init.auto`, the next session sets
up a repository, and with `capture.everywhere`, sessions are recorded in any folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from ralph.core import paths
from ralph.core.settings import Config
from ralph.lean import discovery


class SetupState(StrEnum):
    """Whether Ralph is set up in a folder, or why it need not be."""

    SET_UP = "set up"
    AUTOMATIC = "automatic"  # the next session sets it up
    EVERYWHERE = "everywhere"  # sessions are recorded although it is not set up
    MISSING = "missing"  # a repository in which nothing is recorded
    UNUSED = "unused"  # not a repository, or one in which the user does not want Ralph

    @property
    def is_recorded(self) -> bool:
        """Whether the next session is recorded without `ralph init`."""
        return self not in (SetupState.MISSING, SetupState.UNUSED)


def setup_state(root: Path, env: Mapping[str, str], config: Config) -> SetupState:
    """Return the state of a folder. Raises Unreadable if it is a broken checkout."""
    if paths.is_set_up(root):
        return SetupState.SET_UP
    can_set_up = discovery.find_unset_up(root.as_posix(), env) is not None
    if can_set_up and config.init.auto:
        return SetupState.AUTOMATIC
    if config.capture.everywhere:
        return SetupState.EVERYWHERE
    if can_set_up:
        return SetupState.MISSING
    return SetupState.UNUSED
