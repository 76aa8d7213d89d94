"""Find and repair problems in a project and in the user's coding agents (`ralph doctor`).

`examine` runs all checks and changes nothing. `file_checks` looks at the text of files,
`folder_checks` at folders, links and permissions, `merge_damage` at the results of git merges, and
`hook_state` at the hooks. `fix` repairs what is safe to repair, and backs up every file whose text
it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ralph.capture import recorder
from ralph.core import ids, paths
from ralph.core.config import ConfigProblem, Layer
from ralph.core.repository import Repository
from ralph.core.settings import Config
from ralph.formats.memories import Layout, parse_memories
from ralph.formats.merge import can_merge
from ralph.install import (
    hook_state,
    merge_registration,
    portability,
    rules_check,
    signs,
    stored_secrets,
)
from ralph.install.check_limits import MAX_GIT_SECONDS, MAX_SECONDS, TimeLimit, left_out
from ralph.install.file_checks import (
    check_files,
    find_forgotten,
    readable_collections,
)
from ralph.install.findings import Finding, Repair, new_finding, sort_key
from ralph.install.folder_checks import (
    check_folders,
    find_leftovers,
    find_second_stores,
    find_shared_files,
)
from ralph.install.merge_damage import find_damage
from ralph.install.merge_registration import ATTRIBUTES
from ralph.install.setup_state import SetupState, setup_state
from ralph.install.stored_secrets import Progress
from ralph.memory.memory_files import backup
from ralph.storage import files
from ralph.storage.library import Library

_PRIVATE_FOLDER_MODE = 0o700


# --- examine ------------------------------------------------------------------------------------


def examine(
    root: Path,
    *,
    secrets: bool = False,
    config: Config | None = None,
    env: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    seconds: float = MAX_SECONDS,
) -> list[Finding]:
    """Return all problems in a project, sorted by file and line.

    What could not be checked within `seconds` is left out, and a note says so. With `secrets`,
    everything that is stored is also searched for secrets, however long that takes. Without
    `config`, the defaults apply.
    """
    env = env or {}
    config = config or Config()
    custom = config.privacy.patterns
    limit = TimeLimit(seconds)
    findings = [
        *_check_setup(root, env, config),
        *check_folders(root),
        *find_leftovers(root),
        *find_shared_files(root),
        *portability.find_problems(root, env),
        *find_second_stores(root, limit),
        *check_files(root, limit),
        *signs.find_signs(root, custom),
        *find_forgotten(root, limit),
    ]
    findings += hook_state.find_problems(root, env)
    findings += _check_merging(root, env, min(seconds, MAX_GIT_SECONDS))
    if secrets:
        findings += stored_secrets.find_secrets(root, custom, progress)
    return sorted(findings, key=sort_key)


def _check_setup(root: Path, env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    """Report that hooks record nothing here. In a git repository, that is rarely intended."""
    state = setup_state(root, env, config)
    if state.is_recorded:
        return
    yield new_finding(
        root,
        "Ralph is not set up here: hooks record nothing",
        hint="run `ralph init`",
        level="warning" if state is SetupState.MISSING else "note",
        code="not-set-up",
    )


def examine_installation(root: Path, env: Mapping[str, str]) -> list[Finding]:
    """Return problems with the hooks and MCP entries in the user's coding agents."""
    return list(hook_state.installation_problems(root, env))


def config_findings(
    root: Path, problems: Iterable[ConfigProblem], level: str = "warning"
) -> list[Finding]:
    """Return problems in the config as findings.

    A problem with an environment variable is reported for the project's config file.
    """
    hint = "see `ralph config --origin` and docs/config.md"
    if level == "error":
        hint = "correct the file; until then, hooks use the last version of it that worked"
    findings = []
    for problem in problems:
        place = problem.place
        if place.layer is Layer.ENVIRONMENT:
            path = paths.config_file(root)
            what = problem.message
        else:
            path = root / place.where
            what = problem.what
        findings.append(
            new_finding(path, what, hint=hint, level=level, code="config", line=place.line or 1)
        )
    return findings


# --- repair -------------------------------------------------------------------------------------


def fix(
    root: Path,
    env: Mapping[str, str],
    *,
    project: bool = True,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> list[Repair]:
    """Make all safe repairs in the user's coding agents and, with `project`, in the project.

    Signs that contain a secret are left alone unless `allow_secret` is set.
    """
    repairs: list[Repair] = []
    if project:
        repairs += _fix_project(root, env)
        repairs += _convert_signs(root, allow_secret=allow_secret, patterns=patterns)
    repairs += hook_state.repair_installation(root, env)
    return repairs


def remove_secrets(
    root: Path, patterns: Sequence[str], progress: Progress | None = None
) -> list[Repair]:
    """Redact every secret in what is stored. `patterns` are the user's.

    Raises Busy if another process keeps writing to the index.
    """
    repairs = list(stored_secrets.remove_secrets(root, patterns, progress))
    if paths.log_folder(root).exists():
        rules_check.note_complete(root, patterns)
    return repairs


def _fix_project(root: Path, env: Mapping[str, str]) -> Iterator[Repair]:
    # Repair merges first, so that entries duplicated by a merge do not get ids of their own.
    yield from _fix_merges(root)
    yield from _fix_duplicate_ids(root)
    for finding in find_leftovers(root):
        with files.lock(finding.path):
            files.delete(finding.path)
        yield Repair(finding.path, "removed a leftover of a killed process")
    for finding in find_shared_files(root):
        mode = _PRIVATE_FOLDER_MODE if finding.path.is_dir() else files.PRIVATE
        files.restrict(finding.path, mode)
        yield Repair(finding.path, "made it accessible only to its owner")
    failures = recorder.reset_failures(root)
    if failures is not None:
        yield Repair(recorder.failures_file(root), f"reset the failure count ({failures})")
    config = merge_registration.register_missing(root, env)
    if config is not None:
        yield Repair(config, "registered the merge driver that .gitattributes names")


def _convert_signs(root: Path, *, allow_secret: bool, patterns: Sequence[str]) -> Iterator[Repair]:
    for migration in signs.migrate_signs(root, allow_secret=allow_secret, patterns=patterns):
        what = f"converted {migration.signs} Sign(s) to entries"
        if migration.private_parts:
            what += f", without {migration.private_parts} private section(s)"
        yield Repair(migration.path, what, migration.backup)


def _fix_merges(root: Path) -> Iterator[Repair]:
    for damage in find_damage(root, Repository(root, MAX_GIT_SECONDS)):
        copy = backup(damage.path, root)
        files.write(damage.path, damage.text, root=root)
        if damage.is_settled:
            name = damage.path.relative_to(root).as_posix()
            Repository(root).tell("add", "--", f":(literal){name}")
        yield Repair(damage.path, f"merged it by entry: it had {damage.what}", copy)


def _fix_duplicate_ids(root: Path) -> Iterator[Repair]:
    library = Library(root)
    for collection in readable_collections(library):

        def edit(text: str, layout: Layout = collection.layout) -> str:
            return str(parse_memories(text, layout).with_unique_ids(ids.mint_like))

        for path, _ in library.documents(collection):
            document = parse_memories(files.read(path) or "", collection.layout)
            if document.has_conflict:
                continue  # a person must decide which side's entries to keep
            if any(problem.code == "duplicate-id" for problem in document.problems):
                copy = backup(path, collection.root)
                files.update(path, edit, root=collection.root)
                yield Repair(path, "gave entries with a duplicate id a new one", copy)


# --- merges -------------------------------------------------------------------------------------


def _check_merging(root: Path, env: Mapping[str, str], git_seconds: float) -> Iterator[Finding]:
    """Find a merge driver that cannot start, `merge=union`, and files damaged by a merge."""
    config = merge_registration.is_missing(root, env)
    if config is not None:
        what = (
            "has no working merge driver, but .gitattributes names one: "
            "git merges memories line by line"
        )
        hint = "run `ralph doctor --fix` to register it"
        yield new_finding(config, what, hint=hint, level="warning", code="merge-driver")
    if not paths.location(root).common:
        return
    repository = Repository(root, git_seconds)
    unions = _find_unions(repository)
    if unions:
        what = (
            f"sets merge=union for {', '.join(unions)}: "
            "git duplicates entries and brings back deleted ones"
        )
        hint = "run `ralph merge-driver --register` to add Ralph's driver below it"
        yield new_finding(
            paths.git_attributes(root), what, hint=hint, level="warning", code="merge-union"
        )
    for damage in find_damage(root, repository):
        hint = "run `ralph doctor --fix` to merge the file by entry"
        yield new_finding(damage.path, f"has {damage.what}", hint=hint, level="error", code="merge")
    if repository.is_out_of_time:
        what = f"git did not answer within {git_seconds:g} seconds: merges were not checked"
        yield left_out(root / ".git", what, "run `git status` to see what is wrong")


def _find_unions(repository: Repository) -> list[str]:
    """Return the names of Ralph's files for which .gitattributes sets `merge=union`."""
    names = []
    for line in ATTRIBUTES:
        # `git check-attr` takes paths rather than patterns, so `x` stands for `*`.
        name = line.split()[0].lstrip("/").replace("*", "x")
        if can_merge(name):
            names.append(name)
    # For each path, git prints three fields: the path, the attribute's name and its value.
    fields = repository.names("check-attr", "-z", "merge", "--", *names)
    unions = []
    for name, value in zip(fields[::3], fields[2::3], strict=True):
        if value == "union":
            unions.append(name.replace("/x", "/*"))
    return unions
