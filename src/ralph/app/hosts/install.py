"""`ralph install` and `ralph uninstall`: our hooks and commands in a coding agent's own files.

Both make a plan first, a list of edits with the text before and after, so that `--dry-run` and the real run
cannot differ, and a broken file stops everything before the first write. The hooks are spliced
(`formats/host_files.py`), so uninstalling gives the old bytes back. Two small files in the user's state
folder help: `interpreter` (the interpreter and run.py, one a line) tells the plugin's launcher what to start,
`installed` lists what was installed where and which folders were made, so that they go again.
`tests/app/hosts/test_install.py` proves that install and uninstall leave no trace.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ralph.app.hosts import install_commands as commands
from ralph.app.hosts import install_servers as servers
from ralph.app.hosts.install_edit import Edit
from ralph.app.hosts.install_hosts import Host, Program, Scope, folder_of, groups, has_comments, home, settings_file
from ralph.errors import NotFound, Unreadable, UsageError, WriteFailed
from ralph.formats.host_files import has_current_hooks, ralph_hooks, with_hooks, without_hooks
from ralph.store import files

_PLUGIN = "plugin"
_FOLDER = "folder "


@dataclass(frozen=True, slots=True)
class Where:
    """For which host and scope, in which project and environment; `plugin` means that the plugin brings the hooks.

    `mcp` is whether the host gets our MCP server as well, `always` whether it loads its tools at once.
    """

    host: Host
    scope: Scope
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
    def servers(self) -> servers.At:
        """Where the host's MCP servers are listed."""
        return servers.At(self.host, self.scope, self.root, self.env)

    @property
    def inside(self) -> Path | None:
        """The folder that no link may lead out of: the project, for what is the project's."""
        return None if self.scope is Scope.USER else self.root

    @property
    def place(self) -> str:
        """The line that stands for this installation in the list of what is installed."""
        return _PLUGIN if self.plugin else f"{self.host} {self.scope} {self.settings}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done: files, then folders that are empty after that, and what the user should know."""

    edits: tuple[Edit, ...]
    folders: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def told(self) -> list[tuple[str, str]]:
        """Each change as a path and what happens to it."""
        return [(str(edit.path), edit.what) for edit in self.edits] + [
            (str(folder), "removed, as it is empty") for folder in self.folders
        ]


@dataclass(frozen=True, slots=True)
class _Installed:
    """The list in the user's state folder: installations, and folders that were made for them."""

    places: tuple[str, ...] = ()
    folders: tuple[str, ...] = field(default=())

    @classmethod
    def parse(cls, text: str) -> "_Installed":
        lines = [line for line in text.splitlines() if line]
        return cls(
            tuple(line for line in lines if not line.startswith(_FOLDER)),
            tuple(line.removeprefix(_FOLDER) for line in lines if line.startswith(_FOLDER)),
        )

    def render(self) -> str:
        return "".join(f"{line}\n" for line in (*self.places, *(_FOLDER + folder for folder in self.folders)))


def program(executable: str) -> Program:
    """This Ralph: the interpreter that runs it (in its virtual environment, no link followed), and its run.py."""
    if not executable or not Path(executable).is_file():
        raise NotFound(f"the running Python cannot be found: {executable!r}", hint="start `ralph` by its full path")
    return Program(Path(executable).absolute(), Path(__file__).parents[2] / "hooks" / "run.py")


def state_folder(env: Mapping[str, str]) -> Path:
    """Where the user's state of Ralph is kept."""
    named = Path(env.get("XDG_STATE_HOME") or "")
    return (named if named.is_absolute() else home(env) / ".local" / "state") / "ralph"


def interpreter_file(env: Mapping[str, str]) -> Path:
    """Tells the plugin's launcher what to start: the interpreter, then run.py."""
    return state_folder(env) / "interpreter"


def installed_file(env: Mapping[str, str]) -> Path:
    """The list of what is installed where."""
    return state_folder(env) / "installed"


# --- plans -------------------------------------------------------------------------------------


def plan_install(where: Where, ours: Program) -> Plan:
    """What has to change so that the host starts this Ralph; no edits when everything is as it should be."""
    _check(where)
    edits = [_noted(where, ours)]
    notes: list[str] = []
    if not where.plugin:
        if where.host is Host.CLAUDE:
            more, notes = _with_commands(where, ours)
            edits += more
        edits.append(_with_hooks(where, ours))
        if where.mcp:
            edits, told = servers.put_in(where.servers, edits, ours, always=where.always)
            notes += told
    edits = [edit for edit in edits if edit.before != edit.after]
    listed = _listed(where, edits)
    if listed is not None:
        edits.insert(0, listed)
    return Plan(tuple(edits), notes=(*notes, *_advice(where)) if edits else tuple(notes))


def plan_uninstall(where: Where) -> Plan:
    """What has to change so that nothing of the installation is left; what others wrote stays."""
    _check(where)
    edits: list[Edit] = []
    notes: list[str] = []
    if not where.plugin:
        taken = servers.taken_out(where.servers, [_without_hooks(where)])
        edits += [edit for edit in taken if edit.before != edit.after]
        if where.host is Host.CLAUDE:
            more, notes = _without_commands(where)
            edits += more
    known = _known(where.env)
    places = tuple(place for place in known.places if place != where.place)
    recorded, listed = interpreter_file(where.env), installed_file(where.env)
    if not places and (text := files.read(recorded)) is not None:
        edits.append(Edit(recorded, text, None, "removed"))
    gone = {edit.path for edit in edits if edit.after is None} | (set() if places else {listed})
    folders = tuple(_emptied(known.folders, gone))
    left = _Installed(places, tuple(name for name in known.folders if Path(name) not in folders))
    before, after = files.read(listed), left.render() if places else None
    if before != after:
        edits.append(Edit(listed, before, after, "removed" if after is None else "updated"))
    return Plan(tuple(edits), folders, tuple(notes))


def _check(where: Where) -> None:
    if where.plugin and where.host is not Host.CLAUDE:
        raise UsageError(f"there is no plugin for {where.host}", hint="leave --plugin out")


def carry_out(plan: Plan) -> None:
    """Do what a plan says; a file that somebody changed since the plan was made is left alone (Conflict)."""
    for edit in plan.edits:  # what cannot be written stops everything before the first write
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


# --- edits -------------------------------------------------------------------------------------


def _with_hooks(where: Where, ours: Program) -> Edit:
    path, comments, wanted = where.settings, has_comments(where.host), groups(where.host, ours)
    before = files.read(path)
    with_place = f"{len(wanted)} hooks added"
    try:
        if has_current_hooks(before, wanted, comments=comments):
            return Edit(path, before, before, "")
        bare = before
        if before is not None and ralph_hooks(before, comments=comments):
            bare = without_hooks(before, comments=comments)
            with_place = f"{len(wanted)} hooks put in place of older ones"
        after = with_hooks(bare, wanted, comments=comments)
    except Unreadable as error:
        raise Unreadable(f"{path}: {error.message}", hint=error.hint) from error
    return Edit(path, before, after, with_place, where.inside)


def _without_hooks(where: Where) -> Edit:
    path, comments = where.settings, has_comments(where.host)
    before = files.read(path)
    if before is None:
        return Edit(path, None, None, "")
    try:
        number = len(ralph_hooks(before, comments=comments))
        after = without_hooks(before, comments=comments)
    except Unreadable as error:
        raise Unreadable(f"{path}: {error.message}", hint=error.hint) from error
    if after is None and path.is_symlink():
        after = "{}\n"  # the link is somebody's own
    return Edit(path, before, after, f"{number} hooks removed" if after is not None else "removed", where.inside)


def _command_files(where: Where) -> Iterator[tuple[str, Path, str | None]]:
    folder = folder_of(where.host, where.scope, where.root, where.env) / "commands"
    for name in commands.NAMES:
        path = folder / f"{name}.md"
        yield name, path, files.read(path)


def _with_commands(where: Where, ours: Program) -> tuple[list[Edit], list[str]]:
    edits, notes = [], []
    for name, path, before in _command_files(where):
        if before is None or commands.is_signed(before):
            after = commands.signed(commands.text(name, commands.call(ours.interpreter)))
            edits.append(
                Edit(path, before, after, f"/{name} " + ("added" if before is None else "updated"), where.inside)
            )
        else:
            notes.append(f"{path} is not ours or was changed; it stays as it is")
    return edits, notes


def _without_commands(where: Where) -> tuple[list[Edit], list[str]]:
    edits, notes = [], []
    for name, path, before in _command_files(where):
        if before is not None and commands.is_signed(before):
            edits.append(Edit(path, before, None, f"/{name} removed"))
        elif before is not None:
            notes.append(f"{path} is not ours or was changed; it stays as it is")
    return edits, notes


def _noted(where: Where, ours: Program) -> Edit:
    path = interpreter_file(where.env)
    return Edit(path, files.read(path), f"{ours.interpreter}\n{ours.runner}\n", "tells the plugin where Ralph is")


def _listed(where: Where, edits: Iterable[Edit]) -> Edit | None:
    """The list with this installation and the folders that the edits will make; None when it says so already."""
    path, known = installed_file(where.env), _known(where.env)
    before = files.read(path)
    made = [folder for edit in [*edits, Edit(path, before, "", "")] for folder in _missing(edit)]
    after = _Installed(
        tuple(dict.fromkeys([*known.places, where.place])),
        tuple(dict.fromkeys([*known.folders, *map(str, made)])),
    ).render()
    return None if after == before else Edit(path, before, after, "lists what is installed where")


def _missing(edit: Edit) -> list[Path]:
    """The folders that have to be made for a file, the deepest first."""
    return [folder for folder in edit.path.parents if not folder.exists()]


def _known(env: Mapping[str, str]) -> _Installed:
    return _Installed.parse(files.read(installed_file(env)) or "")


def _emptied(folders: Iterable[str], gone: set[Path]) -> Iterator[Path]:
    """Of the folders that were made, those that hold nothing any more once some files are gone."""
    for folder in sorted(map(Path, folders), key=lambda each: -len(each.parts)):
        if folder.is_dir() and not folder.is_symlink() and set(folder.iterdir()) <= gone:
            gone = gone | {folder}
            yield folder


def _advice(where: Where) -> Iterator[str]:
    if where.plugin:
        yield "The plugin's hooks start this Ralph from the next session on."
        return
    if where.scope is not Scope.USER:
        yield f"{where.settings} now holds paths of this machine: keep it out of git, or use --scope user."
    if where.host is Host.CODEX:
        yield "Codex runs new hooks only after you have looked at them: open /hooks in Codex once and trust them."
    yield "Sessions that are running keep the hooks that they started with."
