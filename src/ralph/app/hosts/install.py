"""`ralph install` and `ralph uninstall`: our hooks, commands and MCP server in a host's own files.

Both make a plan first, a list of edits with the text before and after, so that `--dry-run` and the real run cannot
differ, and a broken file stops everything before the first write. Hooks are spliced (`formats/host_files.py`), so
uninstalling restores the old bytes. In the user's state folder `interpreter` tells the plugin's launcher what to
start, and `installed` lists installations and the folders that were created for them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.app.hosts.hosts import (
    SLASH_COMMANDS,
    HookProgram,
    Host,
    InstallScope,
    has_comments,
    home_folder,
    hook_settings,
    host_folder,
    is_signed,
    ralph_command,
    server_setting,
    servers_file,
    settings_file,
    sign_command,
    slash_command,
)
from ralph.errors import Conflict, NotFound, Unreadable, UsageError, WriteFailed
from ralph.formats.host_files import (
    SERVER_NAME,
    has_current_hooks,
    is_ralph_server,
    json_server,
    ralph_hooks,
    toml_server,
    with_hooks,
    with_json_server,
    with_toml_server,
    without_hooks,
    without_json_server,
    without_toml_server,
)
from ralph.formats.json_text import check_json, same_json
from ralph.store import files

_PLUGIN = "plugin"
_FOLDER_PREFIX = "folder "


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's change: `before` is None when it does not exist, `after` when it is deleted."""

    path: Path
    before: str | None
    after: str | None
    what: str
    inside: Path | None = None


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """A host and scope in a project and environment; with `plugin` the plugin has the hooks.

    `mcp` adds our MCP server as well, `always` loads its tools at once.
    """

    host: Host
    scope: InstallScope
    root: Path
    env: Mapping[str, str]
    plugin: bool = False
    mcp: bool = False
    always: bool = False

    @property
    def settings(self) -> Path:
        """The host's settings file."""
        return settings_file(self.host, self.scope, self.root, self.env)

    @property
    def servers(self) -> tuple[Path, tuple[str, ...]]:
        """The file of the host's MCP servers, and the keys in it."""
        return servers_file(self.host, self.scope, self.root, self.env)

    @property
    def inside(self) -> Path | None:
        """The folder that no link may lead out of: the project, for its own files."""
        return None if self.scope is InstallScope.USER else self.root

    @property
    def list_entry(self) -> str:
        """The line of this installation in the list of installations."""
        return _PLUGIN if self.plugin else f"{self.host} {self.scope} {self.settings}"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Changes of files, folders that are empty after them, and notes for the user."""

    edits: tuple[FileEdit, ...]
    folders: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Each change as a path and what happens to it."""
        return [(str(edit.path), edit.what) for edit in self.edits] + [
            (str(folder), "removed, as it is empty") for folder in self.folders
        ]


def hook_program(executable: str) -> HookProgram:
    """Return this Ralph: the interpreter of its virtual environment, no link followed, and its run.py."""
    if not executable or not Path(executable).is_file():
        raise NotFound(f"the running Python cannot be found: {executable!r}", hint="start `ralph` by its full path")
    return HookProgram(Path(executable).absolute(), Path(__file__).parents[2] / "hooks" / "run.py")


def state_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's state."""
    configured = Path(env.get("XDG_STATE_HOME") or "")
    return (configured if configured.is_absolute() else home_folder(env) / ".local" / "state") / "ralph"


def interpreter_file(env: Mapping[str, str]) -> Path:
    """Return the file that tells the plugin's launcher what to start: the interpreter, then run.py."""
    return state_folder(env) / "interpreter"


def installed_file(env: Mapping[str, str]) -> Path:
    """Return the file that lists what is installed where."""
    return state_folder(env) / "installed"


def plan_install(target: InstallTarget, ours: HookProgram) -> InstallPlan:
    """Return what has to change so that the host starts this Ralph."""
    _check(target)
    path, text = interpreter_file(target.env), f"{ours.interpreter}\n{ours.runner}\n"
    edits = [FileEdit(path, files.read(path), text, "tells the plugin where Ralph is")]
    notes: list[str] = []
    if not target.plugin:
        if target.host is Host.CLAUDE:
            more, notes = _command_edits(target, ours)
            edits += more
        edits.append(_add_hooks(target, ours))
        if target.mcp:
            edits, server_notes = _add_server(target, edits, ours)
            notes += server_notes
    edits = [edit for edit in edits if edit.before != edit.after]
    list_edit = _list_edit(target, edits)
    if list_edit is not None:
        edits.insert(0, list_edit)
    return InstallPlan(tuple(edits), notes=(*notes, *_advice(target)) if edits else tuple(notes))


def plan_uninstall(target: InstallTarget) -> InstallPlan:
    """Return what has to change so that nothing of the installation is left; what others wrote stays."""
    _check(target)
    edits: list[FileEdit] = []
    notes: list[str] = []
    if not target.plugin:
        removals = _remove_server(target, [_remove_hooks(target)])
        edits += [edit for edit in removals if edit.before != edit.after]
        if target.host is Host.CLAUDE:
            more, notes = _command_edits(target, None)
            edits += more
    entries, our_folders = _read_installed(target.env)
    entries = [entry for entry in entries if entry != target.list_entry]
    interpreter, list_file = interpreter_file(target.env), installed_file(target.env)
    if not entries and (text := files.read(interpreter)) is not None:
        edits.append(FileEdit(interpreter, text, None, "removed"))
    gone = {edit.path for edit in edits if edit.after is None} | (set() if entries else {list_file})
    folders: list[Path] = []  # those of ours that are empty afterwards
    for folder in sorted(map(Path, our_folders), key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not folder.is_symlink() and set(folder.iterdir()) <= gone:
            gone.add(folder)
            folders.append(folder)
    rest = [name for name in our_folders if Path(name) not in folders]
    before, after = files.read(list_file), _render_installed(entries, rest) if entries else None
    if before != after:
        edits.append(FileEdit(list_file, before, after, "removed" if after is None else "updated"))
    return InstallPlan(tuple(edits), tuple(folders), tuple(notes))


def _check(target: InstallTarget) -> None:
    if target.plugin and target.host is not Host.CLAUDE:
        raise UsageError(f"there is no plugin for {target.host}", hint="leave --plugin out")


def apply_plan(plan: InstallPlan) -> None:
    """Apply a plan; Conflict for a file that was changed since the plan was made."""
    for edit in plan.edits:  # a read-only file stops everything before the first write
        real = files.target(edit.path, edit.inside)
        if real.exists() and not real.stat().st_mode & 0o222:
            raise WriteFailed(f"{edit.path}: is read-only", hint="make it writable and run again; nothing was written")
    for edit in plan.edits:
        if edit.after is None:
            files.delete(edit.path)
        else:
            files.write(edit.path, edit.after, root=edit.inside, expect=edit.before or "")
    for folder in plan.folders:
        if folder.is_dir() and not any(folder.iterdir()):
            files.remove_folder(folder)


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Add the file to the message of an error."""
    try:
        yield
    except (Conflict, Unreadable) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error


def _add_hooks(target: InstallTarget, ours: HookProgram) -> FileEdit:
    path, comments, settings = target.settings, has_comments(target.host), hook_settings(target.host, ours)
    before = base = files.read(path)
    what = f"{len(settings)} hooks added"
    with _name_file(path):
        if has_current_hooks(before, settings, comments=comments):
            return FileEdit(path, before, before, "")
        if before is not None and ralph_hooks(before, comments=comments):
            base = without_hooks(before, comments=comments)
            what = f"{len(settings)} hooks put in place of older ones"
        return FileEdit(path, before, with_hooks(base, settings, comments=comments), what, target.inside)


def _remove_hooks(target: InstallTarget) -> FileEdit:
    path, comments = target.settings, has_comments(target.host)
    before = files.read(path)
    if before is None:
        return FileEdit(path, None, None, "")
    with _name_file(path):
        number = len(ralph_hooks(before, comments=comments))
        after = without_hooks(before, comments=comments)
    if after is None and path.is_symlink():
        after = "{}\n"  # the link is the user's
    return FileEdit(path, before, after, f"{number} hooks removed" if after is not None else "removed", target.inside)


def _command_edits(target: InstallTarget, ours: HookProgram | None) -> tuple[list[FileEdit], list[str]]:
    """Add our slash commands, or remove them without a program; a foreign file stays, which a note says."""
    edits, notes = [], []
    folder = host_folder(target.host, target.scope, target.root, target.env) / "commands"
    for name in SLASH_COMMANDS:
        path = folder / f"{name}.md"
        before = files.read(path)
        if before is not None and not is_signed(before):
            notes.append(f"{path} is not ours or was changed; it stays as it is")
        elif ours is not None:
            after = sign_command(slash_command(name, ralph_command(ours.interpreter)))
            what = f"/{name} " + ("added" if before is None else "updated")
            edits.append(FileEdit(path, before, after, what, target.inside))
        elif before is not None:
            edits.append(FileEdit(path, before, None, f"/{name} removed"))
    return edits, notes


def _list_edit(target: InstallTarget, edits: Iterable[FileEdit]) -> FileEdit | None:
    """Add this installation and the folders that the edits create to the list; None if they are in it."""
    path, (entries, folders) = installed_file(target.env), _read_installed(target.env)
    before = files.read(path)
    written = [*(edit.path for edit in edits), path]
    created = [str(folder) for file in written for folder in file.parents if not folder.exists()]
    after = _render_installed(dict.fromkeys([*entries, target.list_entry]), dict.fromkeys([*folders, *created]))
    return None if after == before else FileEdit(path, before, after, "lists what is installed where")


def _read_installed(env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the installations, and the folders that were created for them."""
    lines = [line for line in (files.read(installed_file(env)) or "").splitlines() if line]
    folders = [line.removeprefix(_FOLDER_PREFIX) for line in lines if line.startswith(_FOLDER_PREFIX)]
    return [line for line in lines if not line.startswith(_FOLDER_PREFIX)], folders


def _render_installed(entries: Iterable[str], folders: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (*entries, *(_FOLDER_PREFIX + folder for folder in folders)))


def _advice(target: InstallTarget) -> Iterator[str]:
    if target.plugin:
        yield "The plugin's hooks start this Ralph from the next session on."
        return
    if target.scope is not InstallScope.USER:
        yield f"{target.settings} now holds paths of this machine: keep it out of git, or use --scope user."
    if target.host is Host.CODEX:
        yield "Codex runs new hooks only after you have looked at them: open /hooks in Codex once and trust them."
    yield "Sessions that are running keep the hooks that they started with."


def _add_server(
    target: InstallTarget, edits: Sequence[FileEdit], ours: HookProgram
) -> tuple[list[FileEdit], list[str]]:
    """Add our MCP server to the edits; a foreign server of that name stays, which a note says."""
    path, keys = target.servers
    setting = server_setting(target.host, ours, always=target.always)
    server = _read_server(target, _text_after(path, edits))
    if server is not None and not is_ralph_server(server):
        return list(edits), [f"{path} has a server called `{SERVER_NAME}` that is not ours; it stays as it is"]
    if server is not None and same_json(server, check_json(setting)):
        return list(edits), []

    def change(text: str | None) -> str:
        base = text if server is None or text is None else _without_server(target, text)
        if target.host is Host.CODEX:
            return with_toml_server(base, setting)
        return with_json_server(base, keys, setting, comments=has_comments(target.host))

    what = "the MCP server added" if server is None else "the MCP server put in anew"
    return _change_servers(target, edits, change, what), []


def _remove_server(target: InstallTarget, edits: Sequence[FileEdit]) -> list[FileEdit]:
    path, _ = target.servers
    text = _text_after(path, edits)
    if text is None or not is_ralph_server(_read_server(target, text)):
        return list(edits)

    def change(text: str | None) -> str | None:
        after = None if text is None else _without_server(target, text)
        if after is None and path.is_symlink():
            return "" if target.host is Host.CODEX else "{}\n"  # the link is the user's
        return after

    return _change_servers(target, edits, change, "the MCP server removed")


def _text_after(path: Path, edits: Sequence[FileEdit]) -> str | None:
    return next((edit.after for edit in edits if edit.path == path), files.read(path))


def _change_servers(
    target: InstallTarget, edits: Sequence[FileEdit], change: Callable[[str | None], str | None], what: str
) -> list[FileEdit]:
    path, _ = target.servers
    with _name_file(path):
        after = change(_text_after(path, edits))
    same_file = [edit for edit in edits if edit.path == path]
    if not same_file:
        inside = target.inside if target.root in path.parents else None
        return [*edits, FileEdit(path, files.read(path), after, what if after is not None else "removed", inside)]
    both = f"{same_file[0].what}, {what}" if same_file[0].what else what
    joined = replace(same_file[0], after=after, what=both if after is not None else "removed")
    return [joined if edit.path == path else edit for edit in edits]


def _read_server(target: InstallTarget, text: str | None) -> object | None:
    path, keys = target.servers
    with _name_file(path):
        if target.host is Host.CODEX:
            return toml_server(text)
        return json_server(text, keys, comments=has_comments(target.host))


def _without_server(target: InstallTarget, text: str) -> str | None:
    if target.host is Host.CODEX:
        return without_toml_server(text)
    return without_json_server(text, target.servers[1], comments=has_comments(target.host))
