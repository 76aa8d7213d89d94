"""Handle one event of a host: record it, answer it, or load the app for it.

Whatever happens, the exit code is 0 and nothing but a complete answer is printed. Most events end in `record` and
`answer`, which import little; only what needs the whole of Ralph (a session's start, a stop, a changed config) loads
`app/hook`. Modules that hooks load import neither dataclasses, typing, pathlib, enum, inspect nor contextlib, because
each of them costs more than recording an event; a test lists what every event loads.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ralph.hooks.record import Payload, Project

RECORDED = (
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SubagentStop",
    "SessionEnd",
    "AfterTool",
    "BeforeAgent",
)
ANSWERED = ("UserPromptSubmit", "PreToolUse", "PostToolUseFailure", "BeforeAgent", "BeforeTool")
HANDLED = ("SessionStart", "PreCompact", "Stop", "AfterAgent", "PreCompress")
"""Events that are recorded as they are, that are answered from the index, and that the app handles."""
_SECONDS = {
    **{"SessionStart": 12, "PreCompact": 16, "PreCompress": 16, "Stop": 16, "AfterAgent": 16},
    **{"SessionEnd": 1.2, "PreToolUse": 4, "BeforeTool": 4, "PostToolUseFailure": 4},
}
"""When an event that takes the slow path gives up, before its host ends it; other events after 8 seconds."""


def main(arguments: list[str]) -> None:
    """Handle one event and end the process."""
    answer = b""
    if len(arguments) == 2 or arguments[2:] == ["--plugin"]:
        host, event = arguments[:2]
        if not arguments[2:] or not _is_installed_twice(event):
            answer = run_event(host, event, _read_stdin(), os.environ, lambda: _set_deadline(event))
    try:
        while answer:
            answer = answer[os.write(1, answer) :]
    except OSError:
        pass
    os._exit(0)  # what an interpreter does before it ends takes longer than recording did


def run_event(
    host: str, event: str, raw: bytes, env: "Mapping[str, str]", set_deadline: "Callable[[], None]" = lambda: None
) -> bytes:
    """Record an event and return what to print about it; whatever fails is counted, and the session goes on.

    `set_deadline` is called before anything slow.
    """
    if env.get("RALPH_DISABLE") == "1":
        return b""
    state = ""
    try:
        from ralph.hooks.record import Payload, find_project

        payload = Payload(raw)
        project = find_project(payload, env)
        state = project.state if project.root else ""
        return handle(host, event, payload, project, env, set_deadline)
    except BaseException as error:  # noqa: BLE001 - a host would take any message or exit code as ours
        _count_failure(state, event, error)
        return b""


def handle(
    host: str,
    event: str,
    payload: "Payload",
    project: "Project",
    env: "Mapping[str, str]",
    set_deadline: "Callable[[], None]",
) -> bytes:
    """Record an event, load the app for it, answer it, as its name requires."""
    if event not in RECORDED + ANSWERED + HANDLED or not (project.root or project.may_be_everywhere(env)):
        return b""
    if project.root and os.path.exists(f"{project.state}/log/paused"):
        return b""
    if event in HANDLED or not project.root:
        set_deadline()
        _load_packages()
        from ralph.app.hook import handle_event

        printed = handle_event(project.folder, host, event, payload.raw, env=env, project=bool(project.root))
        return printed.encode("utf-8", "replace")
    if project.load_settings(env) is None:
        set_deadline()
        _load_packages()
        from ralph.app.hook import refresh_settings

        refresh_settings(project.root, event, env)
        if project.load_settings(env) is None:
            return b""
    from ralph.hooks.record import record_event

    if event in RECORDED and project.settings.capture:
        payload = record_event(host, event, payload, project, env, set_deadline)
    in_loop = event in ("UserPromptSubmit", "BeforeAgent") and env.get("RALPH_RUN")
    if event not in ANSWERED or in_loop or project.settings.inject != "auto":
        return b""  # Ralph's own loop has put into its prompt what memory has
    from ralph.hooks.answer import answer_event

    return answer_event(host, event, payload, project, env)


def _load_packages() -> None:
    """Make installed packages importable, as they are without `-S`."""
    if "site" not in sys.modules:
        import site

        site.main()


def _set_deadline(event: str) -> None:
    """End what takes longer than its host would wait for."""
    import signal  # it loads enum, which recording must not

    def give_up(_number: int, _frame: object) -> None:
        raise TimeoutError("took too long and was given up")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS.get(event, 8))


def _count_failure(state: str, event: str, error: BaseException) -> None:
    try:
        from ralph.store.hook_files import count_failure

        if state:
            count_failure(state, event, f"{type(error).__name__}: {error}")
    except BaseException:  # noqa: BLE001, S110 - there is no other place to report it
        pass


def _read_stdin() -> bytes:
    pieces = []
    while piece := os.read(0, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


# --- the plugin beside the settings -------------------------------------------------------------


def _is_installed_twice(event: str) -> bool:
    """Check whether the user's settings start our hook as well: then the plugin leaves the event to them.

    A hook counts if its interpreter can be executed and the file that it names can be read.
    """
    home, project = os.environ.get("HOME"), os.environ.get("CLAUDE_PROJECT_DIR")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or (f"{home}/.claude" if home else "")
    files = [f"{folder}/settings.json"] if folder else []
    if project:
        files += [f"{project}/.claude/settings.json", f"{project}/.claude/settings.local.json"]
    return any(_starts_ralph(file, event) for file in files)


def _starts_ralph(file: str, event: str) -> bool:
    from ralph.store.hook_files import read_file

    text = read_file(file, 1 << 22) or b""
    if b"ralph/hook" not in text:
        return False
    import json  # few have both

    try:
        groups = json.loads(text)["hooks"][event]
        hooks = [hook for group in groups for hook in group["hooks"]]
        return any(map(_can_start, hooks))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _can_start(hook: "Mapping[str, object]") -> bool:
    """Check that the interpreter and the file that a hook of ours names can be started."""
    words = hook.get("args")
    texts = [word for word in (words if isinstance(words, list) else []) if isinstance(word, str)]
    runner = next((word for word in texts if word.endswith("ralph/hooks/run.py")), "")
    command = hook.get("command")
    programs = [word for word in (command, *texts) if isinstance(word, str) and word.startswith("/") and word != runner]
    return (
        bool(runner and programs)
        and os.access(runner, os.R_OK)
        and all("\0" not in program and os.access(program, os.X_OK) for program in programs)
    )
