"""Install Ralph into coding agents and remove it again (`ralph install`, `ralph uninstall`).

A host is a coding agent that starts our hooks. Both commands make a plan first, so that a broken
file stops everything before the first write. Uninstalling restores the original bytes.

`host_edits` edits the files of a host, `launcher_scripts` has the scripts that hosts start, and
`installations` knows where Ralph is installed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.errors import UsageError, WriteFailed
from ralph.install import clients, merge_registration
from ralph.install.clients import HookForm, Host, InstallScope
from ralph.install.host_edits import FileEdit, HostEdits, Step, Verb
from ralph.install.install_target import InstallTarget
from ralph.install.installations import (
    NO_MCP_PREFIX,
    DriverPlace,
    InstalledList,
    installed_file,
    read_installed,
    render_installed,
)
from ralph.install.launcher_scripts import HookProgram
from ralph.storage import files

_WRITE_PERMISSIONS = 0o222


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """The changes that an installation or its removal makes."""

    edits: tuple[FileEdit, ...]
    folders: tuple[Path, ...] = ()  # will be empty and are removed
    shared_folders: tuple[Path, ...] = ()  # that other users must not be able to change
    notes: tuple[str, ...] = ()  # for the user

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The changed paths, each with a description of its change."""
        changes = _describe_edits(self.edits, preview=False)
        for folder in self.folders:
            changes.append((str(folder), "removed (empty)"))
        for folder in self.shared_folders:
            changes.append((str(folder), "made accessible only to its owner"))
        return changes

    @property
    def preview(self) -> list[tuple[str, str]]:
        """The paths that would change, each with a description of its change."""
        changes = _describe_edits(self.edits, preview=True)
        for folder in self.folders:
            changes.append((str(folder), "would remove (empty)"))
        for folder in self.shared_folders:
            changes.append((str(folder), "would make accessible only to its owner"))
        return changes


def _describe_edits(edits: Iterable[FileEdit], *, preview: bool) -> list[tuple[str, str]]:
    """Return the edited paths with descriptions. Our own files in one folder share a line."""
    groups: dict[tuple[Path, object], list[FileEdit]] = {}
    for edit in edits:
        key: tuple[Path, object] = (edit.path, None)
        if edit.is_ours and len(edit.steps) == 1:
            key = (edit.path.parent, edit.steps[0].verb)
        groups.setdefault(key, []).append(edit)
    described = []
    for group in groups.values():
        first = group[0]
        if len(group) == 1:
            described.append((str(first.path), first.preview if preview else first.done))
            continue
        verb = first.steps[0].verb
        parts = ", ".join(edit.steps[0].part for edit in group)
        what = f"would {verb.preview} {parts}" if preview else f"{parts} {verb.done}"
        described.append((f"{first.path.parent}/", what))
    return described


def plan_launchers(env: Mapping[str, str], ours: HookProgram) -> InstallPlan:
    """Plan the changes that make the launchers start this Ralph."""
    edits = HostEdits()
    edits.add_launchers(env, ours)
    shared_folders = tuple(edits.shared_folders)
    return InstallPlan(tuple(edits.by_path.values()), shared_folders=shared_folders)


def plan_install(
    targets: Sequence[InstallTarget], ours: HookProgram, *, driver: DriverPlace | None = None
) -> InstallPlan:
    """Plan the changes that make hosts start this Ralph.

    `driver` says where the merge driver is registered; None leaves it as it is. Raises UsageError
    for a scope or a plugin that a host does not support, and Unreadable or Conflict for a file that
    cannot be edited safely.
    """
    edits = HostEdits()
    env = targets[0].env
    platform = targets[0].platform
    installable = []
    for chosen in targets:
        target = replace(chosen, program=ours)
        _check_plugin(target)
        if target.client.form is HookForm.NONE and not target.mcp:
            # This raises UsageError for a scope that the host does not support.
            clients.settings_file(target.host, target.scope, target.root, target.env)
            edits.notes.append(
                f"{target.client.title} has no hooks: without the MCP server, nothing is installed"
            )
        else:
            installable.append(target)
    if installable:
        edits.add_launchers(env, ours, platform)
    has_new_launchers = bool(edits.by_path)
    advice: dict[str, None] = {}
    for target in installable:
        before = dict(edits.by_path)
        _add_target(edits, target)
        if has_new_launchers or edits.by_path != before:
            advice |= dict.fromkeys(_advice(target))
    changes = list(edits.by_path.values())
    if driver is not None and installable:
        is_wanted = driver is DriverPlace.USER
        changes += merge_registration.user_edit(env, add=is_wanted, program=ours)
    list_edit = _list_installations(installable, [edit.path for edit in changes], driver)
    if list_edit is not None:
        # The list is written first, so that nothing is ever installed without being listed.
        changes.insert(0, list_edit)
    return InstallPlan(
        tuple(changes),
        shared_folders=tuple(edits.shared_folders),
        notes=(*edits.notes, *advice),
    )


def _add_target(edits: HostEdits, target: InstallTarget) -> None:
    if target.plugin:
        return
    edits.change_own_files(target, add=True)
    edits.change_hooks(target, add=True)
    if target.mcp:
        edits.change_server(target, add=True)
    if target.status_line:
        edits.add_status_line(target)


def _list_installations(
    targets: Sequence[InstallTarget], changed: Iterable[Path], driver: DriverPlace | None
) -> FileEdit | None:
    """Return the edit that adds targets to the list, or None if the list would not change.

    Folders that the changed files need and that do not exist yet are added as well.
    """
    if not targets:
        return None
    env = targets[0].env
    list_file = installed_file(env)
    installed = read_installed(env)
    entries = installed.entries
    for target in targets:
        no_mcp = f"{NO_MCP_PREFIX}{target.list_entry}"
        if target.mcp:
            entries = [entry for entry in entries if entry != no_mcp]
        entries.append(target.list_entry)
        if target.mcp is None:
            entries.append(no_mcp)
    folders = installed.folders
    for file in (*changed, list_file):
        folders += [folder for folder in file.parents if not folder.exists()]
    before = files.read(list_file)
    after = render_installed(InstalledList(entries, folders, driver or installed.driver))
    if after == before:
        return None
    step = Step(Verb.ADD if before is None else Verb.UPDATE, "list of installations")
    return FileEdit(list_file, before, after, (step,), mode=files.PRIVATE, is_ours=True)


def _advice(target: InstallTarget) -> Iterator[str]:
    if target.plugin:
        yield "The plugin's hooks start this Ralph from the next session on."
        return
    if target.scope is not InstallScope.USER:
        yield (
            f"{target.settings} now contains paths of this machine: "
            "keep it out of git, or use --scope user."
        )
    if target.host is Host.CODEX:
        yield (
            "Codex runs new hooks only after you have reviewed them: "
            "open /hooks in Codex once and trust them."
        )
    yield "Running sessions keep the hooks that they started with."


def plan_uninstall(*targets: InstallTarget) -> InstallPlan:
    """Plan the changes that remove these installations. Entries of other programs are kept.

    Raises the same errors as `plan_install`.
    """
    edits = HostEdits()
    env = targets[0].env
    for target in targets:
        _check_plugin(target)
        if not target.plugin:
            _remove_target(edits, target)
    removed_entries = {target.list_entry for target in targets}
    installed = read_installed(env)
    list_file = installed_file(env)
    entries = []
    for entry in installed.entries:
        if entry.removeprefix(NO_MCP_PREFIX) not in removed_entries:
            entries.append(entry)
    if not entries:
        edits.remove_launchers(env, targets[0].platform)
    deleted = {edit.path for edit in edits.by_path.values() if edit.after is None}
    if not entries:
        deleted.add(list_file)
    empty = _empty_folders(installed.folders, deleted)
    list_text = None
    if entries:
        folders = [folder for folder in installed.folders if folder not in empty]
        list_text = render_installed(InstalledList(entries, folders, installed.driver))
    edits.put(list_file, list_text, Step(Verb.UPDATE, "list of installations"))
    return InstallPlan(tuple(edits.by_path.values()), tuple(empty), notes=tuple(edits.notes))


def _remove_target(edits: HostEdits, target: InstallTarget) -> None:
    if target.host is Host.CLAUDE:
        edits.remove_status_line(target)
    edits.change_hooks(target, add=False)
    edits.change_server(target, add=False)
    edits.change_own_files(target, add=False)


def _empty_folders(folders: Collection[Path], deleted_files: Iterable[Path]) -> list[Path]:
    """Return the folders that will be empty once the files are deleted, deepest first."""
    deleted = set(deleted_files)
    empty = []
    for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not folder.is_symlink() and set(folder.iterdir()) <= deleted:
            deleted.add(folder)
            empty.append(folder)
    return empty


def _check_plugin(target: InstallTarget) -> None:
    if target.plugin and target.host is not Host.CLAUDE:
        raise UsageError(f"there is no plugin for {target.host}", hint="leave --plugin out")


def apply_plan(plan: InstallPlan) -> None:
    """Apply a plan.

    Raises WriteFailed, before anything is written, if a file is read-only. Raises Conflict if a
    file has changed since the plan was made.
    """
    check_writable(plan)
    for folder in plan.shared_folders:
        files.restrict(folder, files.PRIVATE_FOLDER)
    for edit in plan.edits:
        if edit.after is None:
            files.delete(edit.path)
        else:
            files.write(
                edit.path, edit.after, root=edit.inside, expect=edit.before or "", mode=edit.mode
            )
    for folder in plan.folders:
        if folder.is_dir() and not any(folder.iterdir()):
            files.remove_folder(folder)


def check_writable(plan: InstallPlan) -> None:
    """Raise WriteFailed if a file that the plan changes is read-only."""
    for edit in plan.edits:
        real = files.target(edit.path, edit.inside)
        if real.exists() and not real.stat().st_mode & _WRITE_PERMISSIONS:
            raise WriteFailed(
                f"{edit.path} is read-only",
                hint="make it writable and run again; nothing was written",
            )
