"""Clean records before they leave this machine.

Secrets and private sections are redacted, and paths of this machine are replaced. In a project in
/home/ann/shop,

    Edited /home/ann/shop/src/cart.py, see /home/ann/notes.md and /tmp/x1

becomes

    Edited src/cart.py, see ~/notes.md and (temporary file)

Records that must not leave the machine, such as personal memories, are rejected.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from ralph.capture.observations import AGENT_CHARACTERS
from ralph.core import paths
from ralph.core.record import Family, Record, Scope, Status
from ralph.core.render import SPEECH_TITLES
from ralph.core.settings import Privacy
from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.json_values import all_texts, map_texts, redact_members
from ralph.privacy.private_paths import PrivatePaths
from ralph.privacy.redactor import Redactor

_ANY_SLASHES = r"[\\/]+"  # a path of Windows may be written with both, or escaped as in JSON
_PATH_START = r"(?<![\w.~-])"  # not in the middle of a relative path
_HOME_FOLDERS = _PATH_START + (
    r"(?:/home/[^/\s\"'<>]+"  # Linux
    r"|/Users/[^/\s\"'<>]+"  # macOS
    r"|/root(?=/|\b)"
    r"|(?i:[a-z]:[\\/]+|/[a-z]/)Users[\\/]+[^\\/\s\"'<>]+)"  # Windows, and in Git Bash
)
_TEMPORARY_NAME = r"/[^\s\"'<>:;,)\]}]*"
_TEMPORARY_FILES = (
    _PATH_START
    + r"(?:/tmp|/var/tmp|/var/folders|/private/tmp|/private/var|/dev/shm)"
    + _TEMPORARY_NAME
)
_LOCAL_PATH_PARTS = (
    "/home/",
    "/Users/",
    "/root",
    "\\Users\\",
    "/tmp/",  # noqa: S108 - the name of a folder, not of a file
    "/var/",
    "/private/",
    "/dev/shm/",  # noqa: S108 - the name of a folder, not of a file
)
"""Text that contains none of these, and no name of this machine's folders, needs no replacement."""
_NOT_RELATIVE = re.compile(r"[/~(\\]|[A-Za-z]:[\\/]")
"""How the cleaned name of a file outside the project starts."""


def _folders_pattern(folders: Collection[str]) -> str:
    """Return a pattern that matches these folders. Their slashes may be escaped as in JSON.

    A top-level folder such as `/app` does not match within a path such as `src/app`.
    """
    if not folders:
        return "(?!)"  # matches nothing
    alternatives = []
    for folder in sorted(folders, key=len, reverse=True):
        if PureWindowsPath(folder).drive:
            alternatives.append(_windows_folder_pattern(folder))
            continue
        pattern = re.escape(folder).replace("/", r"\\*/")
        if folder.count("/") < 2:
            pattern = _PATH_START + pattern
        alternatives.append(pattern)
    return rf"(?:{'|'.join(alternatives)})"


def _windows_folder_pattern(folder: str) -> str:
    """Return a pattern that matches a folder of Windows, however its path is written."""
    names = folder.replace("\\", "/").rstrip("/").split("/")
    return rf"(?i:{_ANY_SLASHES.join(map(re.escape, names))})"


class LocalPaths:
    """The folders of this machine, and a pattern that finds their paths in a text."""

    def __init__(self, folders: Collection[str], homes: Collection[str], temporary: str) -> None:
        names = [re.split(r"[/\\]", folder)[-1] for folder in (*folders, *homes, temporary)]
        self._parts = tuple(part.lower() for part in (*_LOCAL_PATH_PARTS, *names))
        project_pattern = _folders_pattern(folders)
        home_pattern = _folders_pattern(homes)
        is_windows = any(PureWindowsPath(folder).drive for folder in folders)
        slash = _ANY_SLASHES if is_windows else r"\\*/"
        # `here` is a folder of the project. It may be followed by a slash (`inner`) or by more
        # letters, as in the name of a folder next to it (`sibling`).
        self._pattern = re.compile(
            rf"(?P<here>{project_pattern}(?:(?P<inner>{slash})|(?P<sibling>(?=[\w-])))?)"
            rf"|(?P<home>{home_pattern}|{_HOME_FOLDERS})"
            rf"|(?P<temporary>{re.escape(temporary)}{_TEMPORARY_NAME}|{_TEMPORARY_FILES})"
        )

    def localise(self, text: str) -> str:
        """Return the text with all paths on this machine replaced."""
        lowered = text.lower()
        if not any(part in lowered for part in self._parts):
            return text
        return self._pattern.sub(_localised_path, text)


class RowCleaner:
    """Cleans records before they leave the machine, and rejects those that must not leave it."""

    def __init__(self, root: Path, privacy: Privacy) -> None:
        self.patterns = privacy.patterns
        self._private = PrivatePaths(privacy.paths) if privacy.paths else None
        self._root = os.path.realpath(root)
        folders = {
            str(root),
            self._root,
            str(paths.main_checkout(root)),
            str(paths.state_folder(root)),
        }
        home = str(Path.home())
        homes = {home, os.path.realpath(home)} - {"/", "~"}
        self._paths = LocalPaths(folders, homes, tempfile.gettempdir())

    def __call__(self, record: Record, is_redacted: bool = False) -> Record | None:
        """Return the record without secrets, private sections and local paths.

        Returns None if the record must not leave the machine. `is_redacted` means that it has
        already been redacted under the current rules.
        """
        if not _may_be_shared(record) or self._mentions_private_path(record):
            return None
        extra_texts = list(all_texts(dict(record.extra))) if record.extra else []
        needs_redaction = not is_redacted and self._may_contain_secret(record, extra_texts)
        redact = Redactor(self.patterns, tolerant=True)

        def clean(text: str) -> str:
            if needs_redaction:
                text = redact(text)
            return self.localise(text)

        # A private section may start in one text and end in a later one, so the order matters.
        origin = record.origin
        relative_files = []
        for name in origin.files:
            clean_name = clean(name)
            if clean_name and not _NOT_RELATIVE.match(clean_name):
                relative_files.append(clean_name)
        origin = origin._replace(
            files=tuple(relative_files),
            task=clean(origin.task),
            agent=clean(origin.agent),
        )
        text = clean(record.text)
        title = clean(record.title)
        label = clean(record.label)
        extra = record.extra
        has_paths = any("/" in value or "\\" in value for value in extra_texts)
        if extra and (needs_redaction or has_paths):
            value = redact_members(map_texts(dict(extra), clean), self.patterns)
            extra = value if isinstance(value, dict) else {}
        if text != record.text:
            # This member is an offset into the text, which has just changed.
            extra = {name: value for name, value in extra.items() if name != AGENT_CHARACTERS}
        tags = tuple(map(clean, record.tags))
        return replace(
            record, title=title, text=text, tags=tags, label=label, origin=origin, extra=extra
        )

    def _mentions_private_path(self, record: Record) -> bool:
        if self._private is None:
            return False
        texts = (record.title, record.text, *record.tags, *record.origin.files)
        return self._private.named_in(texts, record.origin.files, self._root)

    def _may_contain_secret(self, record: Record, extra_texts: Sequence[str]) -> bool:
        """Return whether a record must be redacted. A quick check rules out most records."""
        if self.patterns:
            return True
        origin = record.origin
        texts = (record.title, record.text, *record.tags, *origin.files, *extra_texts)
        return needs_rules("\n".join((*texts, record.label, origin.task, origin.agent)))

    def localise(self, text: str) -> str:
        """Return the text with all paths on this machine replaced."""
        return self._paths.localise(text)


def _may_be_shared(record: Record) -> bool:
    """Return whether a record is valid, belongs to the project, and is not dialogue."""
    if record.status in (Status.RETIRED, Status.PROPOSED):
        return False
    if record.scope in (Scope.PERSONAL, Scope.ENCLOSING):
        return False
    return record.family is not Family.OBSERVATION or record.title not in SPEECH_TITLES


def _localised_path(match: re.Match[str]) -> str:
    """Return the replacement for a local path."""
    if match["sibling"] is not None:  # `shop2` next to `shop`
        return "../" + re.split(r"[/\\]", match["here"])[-1]
    if match["inner"]:
        return ""
    if match["here"]:
        return "."
    if match["home"]:
        return "~"
    return "(temporary file)"
