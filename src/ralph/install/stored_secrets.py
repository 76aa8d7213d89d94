"""Find secrets in what is already stored, and redact them (`ralph doctor --secrets`).

Rules improve, and what was stored under older ones may contain a secret that they did not know. All
stored text is searched again: memory files, logs, the outputs of runs, and the rows of the index.
Removing a secret replaces it with its marker, `[redacted: github token]`, and leaves every other
byte of a memory file as it is. There is no backup, because it would keep the secret.

A log is searched line by line, and each line as the hook that wrote it would have: the payload of
an event as one value, and every other line by its strings and by the names of their members.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import RalphError, Refused
from ralph.formats.log import parse_log
from ralph.install.file_checks import files_to_scan, read_problem
from ralph.install.findings import Finding, Repair, new_finding
from ralph.lean.secret_prefilter import needs_rules, prints_secret
from ralph.learning.forget import forget_vectors
from ralph.privacy import secrets
from ralph.privacy.hook_payloads import redact_payload
from ralph.privacy.json_values import redact_members
from ralph.search import index
from ralph.storage import files, queries, team_db
from ralph.storage.index import PATIENCE
from ralph.storage.index_files import discard
from ralph.storage.source_contents import EVENT, parse_source
from ralph.storage.sources import Format, Source

Progress = Callable[[int, int], None]
"""Called with the number of files searched so far, and the number of files to search."""

_MARKER = re.compile(secrets.MARKER)
_KIND_IN_MARKER = slice(len("[redacted: "), -len("]"))
_MAX_NAMED_SECRETS = 5  # in the description of one repair
_JSON_SUFFIX = ".json"
_FORMATS_BY_NAME = {
    "memories.md": Format.MEMORIES,
    "guardrails.md": Format.GUARDRAILS,
}
_SURROGATE = re.compile("[\ud800-\udfff]")
# A host may write NaN or Infinity to a log. They are read as null, as everywhere else.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


class StoredSecret(NamedTuple):
    """The line and the kind of a secret."""

    line: int
    kind: str


class Redacted(NamedTuple):
    """A text with a marker in place of each secret, and the secrets that were in it."""

    text: str
    secrets: tuple[StoredSecret, ...] = ()


# --- one text -----------------------------------------------------------------------------------


def redact_stored(path: Path, text: str, patterns: Sequence[str]) -> Redacted:
    """Redact the text of a stored file. `patterns` are the user's.

    Raises Refused if the file could not be read as before with the markers in it.
    """
    if path.name.endswith(paths.LOG_SUFFIXES):
        return redact_log(text, patterns)
    redacted = _redact_text(text, patterns)
    if redacted.secrets:
        _require_readable(path, text, redacted.text)
    return redacted


def redact_log(text: str, patterns: Sequence[str]) -> Redacted:
    """Redact the lines of a log. The number of lines stays the same."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        redacted = redact_log_line(line, patterns)
        if redacted.secrets:
            lines[number] = redacted.text
            found += [StoredSecret(number + 1, secret.kind) for secret in redacted.secrets]
    return Redacted("\n".join(lines), tuple(found))


def redact_log_line(line: str, patterns: Sequence[str]) -> Redacted:
    """Redact one line of a log, which may begin with a torn one."""
    if not patterns and not needs_rules(line) and not _has_printed_secret(line):
        return Redacted(line)
    document = parse_log(line)
    starts = [entry.start for entry in document.entries]
    starts += [other.start for other in document.lines]
    start = starts[0] if starts else len(line)
    torn = _redact_text(line[:start], patterns)
    members = _redact_object(line[start:], patterns)
    found = [*torn.secrets, *members.secrets]
    return Redacted(torn.text + members.text, tuple(found))


def _has_printed_secret(line: str) -> bool:
    """Check whether the line of an event has a command that may have printed a secret."""
    call = line.partition('"command"')[2].partition('"tool_response"')[0]
    return any(map(prints_secret, call.split('"')))


def _redact_text(text: str, patterns: Sequence[str]) -> Redacted:
    found = secrets.find_secrets(text, patterns)
    if not found:
        return Redacted(text)
    kinds = tuple(StoredSecret(secret.line, secret.kind) for secret in found)
    return Redacted(secrets.replace_secrets(text, found), kinds)


def _redact_object(text: str, patterns: Sequence[str]) -> Redacted:
    """Redact a JSON object. Without a secret, it is returned as it is."""
    if not text:
        return Redacted(text)
    members: dict[str, object] = _DECODER.decode(text)
    redacted: dict[str, object] = {}
    for name, member in members.items():
        if name == "payload" and members.get("type") == EVENT and isinstance(member, dict):
            redacted[name] = redact_payload(member, patterns)
        else:
            redacted[name] = _redact_strings(member, patterns)
    result = redact_members(redacted, patterns)
    kinds = _new_kinds(members, result)
    if not kinds:
        return Redacted(text)
    return Redacted(_encode(result), tuple(StoredSecret(1, kind) for kind in kinds))


def _encode(value: object) -> str:
    """Return JSON on one line, with escapes for what UTF-8 cannot encode."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if _SURROGATE.search(text):
        return json.dumps(value, separators=(",", ":"))
    return text


def _redact_strings(value: object, patterns: Sequence[str]) -> object:
    if isinstance(value, str):
        return _redact_text(value, patterns).text
    if isinstance(value, list):
        return [_redact_strings(inner, patterns) for inner in value]
    if isinstance(value, dict):
        redacted = {}
        for name, inner in value.items():
            redacted[_redact_text(name, patterns).text] = _redact_strings(inner, patterns)
        return redacted
    return value


def _new_kinds(before: object, after: object) -> list[str]:
    """Return the kinds of the markers that a redacted value has and its original has not.

    Both are compared member by member, because redacting a payload may also drop members.
    """
    kinds: list[str] = []
    if isinstance(before, dict) and isinstance(after, dict):
        for name, inner in after.items():
            if name in before:
                kinds += _new_kinds(before[name], inner)
            else:
                kinds += _marked_kinds(name)
        return kinds
    if isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=False):
            kinds += _new_kinds(old, new)
        return kinds
    if before == after or not isinstance(after, str):
        return kinds
    new = Counter(_marked_kinds(after)) - Counter(_marked_kinds(str(before)))
    return list(new.elements())


def _marked_kinds(text: str) -> list[str]:
    return [marker[_KIND_IN_MARKER] for marker in _MARKER.findall(text)]


def _require_readable(path: Path, before: str, after: str) -> None:
    """Raise Refused if a file with markers could not be read as before."""
    if path.suffix == _JSON_SUFFIX:
        is_same = _is_json(after) or not _is_json(before)
    else:
        is_same = _entry_ids(path, before) == _entry_ids(path, after)
    if not is_same:
        raise Refused(
            f"{path}: could not be read with the secret replaced",
            hint="remove the secret by hand",
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _entry_ids(path: Path, text: str) -> list[str]:
    """Return the ids of the entries in a memory file. A pattern's id depends on its text."""
    form = _FORMATS_BY_NAME.get(path.name)
    if form is None and path.parent.name == "knowledge" and path.suffix == ".md":
        form = Format.KNOWLEDGE
    if form is None:
        return []
    entries = parse_source(Source(path, path.name, form), text).entries
    return [entry.record.id for entry in entries]


# --- a project ----------------------------------------------------------------------------------


def find_secrets(
    root: Path, patterns: Sequence[str], progress: Progress | None = None
) -> Iterator[Finding]:
    """Find secrets in everything that is stored, without printing or changing any."""
    stored = stored_files(root)
    sources = set[Path]()
    for number, path in enumerate(stored, 1):
        for secret in _secrets_in(path, patterns):
            sources.add(path)
            yield _finding(path, secret)
        if progress is not None:
            progress(number, len(stored))
    for path, secret in _indexed_secrets(root, patterns):
        if path not in sources:
            yield _finding(path, secret)


def _finding(path: Path, secret: StoredSecret) -> Finding:
    return new_finding(
        path,
        f"looks like a secret ({secret.kind})",
        hint=(
            "revoke the secret; run `ralph doctor --secrets --fix` to redact it here, "
            "and remove it from git's history"
        ),
        level="error",
        code="secret",
        line=secret.line,
    )


def _secrets_in(path: Path, patterns: Sequence[str]) -> tuple[StoredSecret, ...]:
    if read_problem(path) is not None:
        return ()
    text = files.read(path) or ""
    if path.name.endswith(paths.LOG_SUFFIXES):
        return redact_log(text, patterns).secrets
    return _redact_text(text, patterns).secrets


def stored_files(root: Path) -> list[Path]:
    """Return every file that may contain a secret: what people write first, backups last."""
    stored = dict.fromkeys(files_to_scan(root))
    for folder in (paths.log_folder(root), paths.subagents_folder(root)):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not _is_being_written(root, path):
                stored.setdefault(path)
    return list(stored)


def _is_being_written(root: Path, path: Path) -> bool:
    """Return whether a file is the output of a run that may hold it open."""
    return path.suffix == ".log" and paths.heartbeat(root, path.stem).exists()


def remove_secrets(
    root: Path, patterns: Sequence[str], progress: Progress | None = None
) -> Iterator[Repair]:
    """Redact the secrets in everything that is stored, and rebuild the index if there were any.

    The index is deleted before the first file changes. If this process is killed, the rest is found
    by the next call, and no index contains what a file no longer does.
    """
    stored = stored_files(root)
    affected = []
    for number, path in enumerate(stored, 1):
        if _secrets_in(path, patterns):
            affected.append(path)
        if progress is not None:
            progress(number, len(stored))
    has_rows = any(True for _ in _indexed_secrets(root, patterns))
    if not affected and not has_rows:
        return
    digests_before = set(index.ask(root, queries.digests).values())
    index.discard_all(root)
    for path in affected:
        with suppress(RalphError):  # what could not be redacted is reported as before
            removed = redact_file(root, path, patterns)
            if removed:
                yield Repair(path, describe_removed(removed))
    _discard_pulled(root, patterns)
    index.sync(root, progress)
    digests_after = set(index.ask(root, queries.digests).values())
    forget_vectors(root, digests_before - digests_after)
    yield Repair(paths.index_file(root), "rebuilt it without the secrets")


def redact_file(root: Path, path: Path, patterns: Sequence[str]) -> tuple[StoredSecret, ...]:
    """Redact one file under its lock, and return the secrets that were in it.

    Raises Refused if the file could not be read as before with the markers in it.
    """

    def edit(text: str) -> Redacted:
        return redact_stored(path, text, patterns)

    return files.update(path, edit, root=paths.write_boundary(path, root)).secrets


def describe_removed(removed: Sequence[StoredSecret]) -> str:
    """Describe what was redacted, as in `redacted 2 secrets: password (line 3), jwt (line 8)`."""
    noun = "secret" if len(removed) == 1 else "secrets"
    named = [f"{secret.kind} (line {secret.line})" for secret in removed[:_MAX_NAMED_SECRETS]]
    text = f"redacted {len(removed)} {noun}: {', '.join(named)}"
    if len(removed) > _MAX_NAMED_SECRETS:
        text += f" and {len(removed) - _MAX_NAMED_SECRETS} more"
    return text


# --- databases ----------------------------------------------------------------------------------


def _indexed_secrets(root: Path, patterns: Sequence[str]) -> Iterator[tuple[Path, StoredSecret]]:
    """Yield the secrets in the rows of the index, with the file that each row came from."""
    for row in index.stored_texts(root):
        for secret in _secrets_in_text(row.text, patterns):
            path = paths.source_path(root, row.source)
            yield path, StoredSecret(row.line, secret.kind)
    if _has_pulled_secrets(root, patterns):
        yield paths.team_database(root), StoredSecret(1, "pulled from the team")


def _secrets_in_text(text: str, patterns: Sequence[str]) -> Sequence[secrets.FoundSecret]:
    if not patterns and not needs_rules(text):
        return ()
    return secrets.find_secrets(text, patterns)


def _has_pulled_secrets(root: Path, patterns: Sequence[str]) -> bool:
    with suppress(RalphError), team_db.read_team(paths.team_database(root)) as pulled:
        for _, title, text in team_db.texts(pulled):
            if _secrets_in_text(title, patterns) or _secrets_in_text(text, patterns):
                return True
    return False


def _discard_pulled(root: Path, patterns: Sequence[str]) -> None:
    """Delete what was pulled from the team, so that the next pull cleans it again."""
    if _has_pulled_secrets(root, patterns):
        discard(paths.team_database(root), PATIENCE)
        files.delete(paths.team_pulled(root))
