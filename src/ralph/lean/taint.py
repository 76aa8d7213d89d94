"""Recognise tool calls that read something foreign, which *taints* their session.

Foreign is what neither the project nor its user wrote: web pages, answers of MCP servers, what a
command fetches from the network, dependencies, and files outside the repository. What an agent says
after reading such a text may repeat it, so it is not shown to later sessions unasked (ADR 0006).
Local builds, tests and files of the project do not taint.

`foreign_commands` judges shell commands. Hooks load both modules, so they import next to nothing.
"""

from __future__ import annotations

import os
import sys

from ralph.lean import TYPE_CHECKING, discovery

if TYPE_CHECKING:
    from collections.abc import Sequence

WEB = "web"
MCP = "mcp"
NETWORK = "network"
DEPENDENCY = "dependency"
OUTSIDE = "outside"

DESCRIPTIONS = {
    WEB: "the web",
    MCP: "the answer of an MCP server",
    NETWORK: "what a command fetched from the network",
    DEPENDENCY: "a file of a dependency",
    OUTSIDE: "a file outside the repository",
}
"""The kinds of taint, as a log line names them, each with what was read."""

WEB_TOOLS = frozenset(
    {
        "WebFetch",  # Claude Code, and others after `hooks/adapters.py`
        "WebSearch",
        "web_fetch",  # Gemini CLI, Qwen Code, Copilot CLI
        "web_search",  # Codex, Qwen Code, Cursor
        "google_web_search",  # Gemini CLI
        "webfetch",  # OpenCode
        "websearch",
        "codesearch",
        "fetch",  # Copilot CLI
        "fetch_web_content",  # Cline
        "browser_action",
        "search_web",  # Windsurf
        "read_url_content",
        "view_web_document_content_chunk",
        "read_web_page",  # Amp
    }
)
"""Tools that return web pages or the results of a web search."""

READING_TOOLS = frozenset(
    {
        "Read",
        "NotebookRead",
        "Grep",
        "read_file",
        "read_files",
        "read_many_files",
        "view",
        "view_image",
        "grep",
        "grep_files",
        "grep_search",
        "search_file_content",
    }
)
"""Tools that return the content of the files they name. Those that list names are not here."""

_MCP_PREFIXES = ("mcp__", "mcp_", "MCP:", "mcp:")
_MCP_TOOLS = frozenset(
    {
        "ReadMcpResourceTool",  # Claude Code
        "ListMcpResourcesTool",
        "read_mcp_resource",  # Codex
        "use_mcp_tool",  # Cline
        "access_mcp_resource",
    }
)
_OWN_PREFIXES = (
    "mcp__ralph__",
    "mcp__ralph/",
    "mcp__plugin_ralph_",
    "mcp_ralph_",
    "MCP:ralph",
)
_OWN_UNPREFIXED = ("ralph_", "ralph-", "ralph__")
_UNPREFIXED_HOSTS = ("opencode", "copilot", "cline")
"""Clients that name a server's tool without a common prefix, as in `github_get_issue`."""
_NAME_SEPARATORS = "_-./:"
_CLIENT_TOOLS = frozenset(
    {
        "apply_patch",  # OpenCode
        "plan_enter",
        "plan_exit",
        "report_intent",  # Copilot CLI
        "update_todo",
        "ask_user",
        "read_bash",
        "write_bash",
        "stop_bash",
        "list_bash",
        "show_file",
        "store_memory",
        "str_replace_editor",
        "attempt_completion",  # Cline
        "ask_followup_question",
        "ask_question",
        "plan_mode_respond",
        "act_mode_respond",
        "list_files",
        "search_files",
        "list_code_definition_names",
        "write_to_file",
        "replace_in_file",
        "execute_command",
        "new_task",
        "load_mcp_documentation",
        "focus_chain",
        "submit_and_exit",
        "use_skill",
        "spawn_agent",
    }
)
"""Own tools of these clients that have a separator in their names, unlike `task` or `patch`."""

DEPENDENCY_FOLDERS = frozenset(
    {
        "node_modules",
        "bower_components",
        "jspm_packages",
        ".pnpm-store",
        ".yarn",
        "site-packages",
        "dist-packages",
        "__pypackages__",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        "vendor",
        "third_party",
        ".bundle",
        ".cargo",
        ".m2",
        ".gradle",
        "Pods",
        "Carthage",
        "elm-stuff",
    }
)
"""Folders inside a repository whose files come from somewhere else."""
NETWORK_PROGRAMS = frozenset(
    {
        "curl",
        "wget",
        "wget2",
        "aria2c",
        "http",
        "https",
        "xh",
        "lynx",
        "links",
        "elinks",
        "w3m",
        "ftp",
        "sftp",
        "scp",
        "nc",
        "ncat",
        "netcat",
        "telnet",
        "websocat",
        "grpcurl",
        "yt-dlp",
        "dig",
        "nslookup",
        "whois",
        "invoke-webrequest",  # PowerShell, in lower case
        "iwr",
        "invoke-restmethod",
        "irm",
        "start-bitstransfer",
    }
)
"""Programs that read from another machine, unless all of their targets are local.

`ssh` is not among them: what it shows is on a machine of the user. In six written weeks of work,
two thirds of the sessions that it would have tainted only looked at their own servers.
"""
COMMAND_WORDS = NETWORK_PROGRAMS.union(
    {
        "gh",
        "glab",
        "git",
        "hg",
        "svn",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "pip",
        "pip3",
        "uv",
        "cargo",
        "gem",
        "go",
        "docker",
        "podman",
        "brew",
        "composer",
        "helm",
        "conda",
        "nix",
    }
)
"""Programs that may read the network. `foreign_commands` says which of their calls do."""
_CODE_MARKS = ("http://", "https://", "ftp://", "ws://", "wss://")  # in code for an interpreter
_PATH_MARKS = ("/", "~", "$HOME", "${HOME}")  # how a path begins that may lead out of a project
_BACKSLASH = "\\"
_WINDOWS_PATH_MARKS = (_BACKSLASH, "%", "$env:")
_PROGRAM_SUFFIXES = (".exe", ".cmd", ".bat")
_HOME_PREFIXES = ("~/", "$HOME/", "${HOME}/", "%USERPROFILE%/", "$env:USERPROFILE/")
_WORD_ENDS = {ord(char): " " for char in "\n\t;|&()<>'\"`={}"}
_NOT_TEXTS = ("/dev/null", "/dev/std", "/dev/fd/", "/dev/tty", "/proc/", "/sys/")
"""How the names of streams and of the kernel's own files begin."""


def taint_of_tool(host: str, tool: str) -> str:
    """Return the taint of every call of a tool, or "" if that depends on its parameters."""
    if tool in WEB_TOOLS:
        return WEB
    if _is_foreign_server(host, tool):
        return MCP
    return ""


def _is_foreign_server(host: str, tool: str) -> bool:
    """Return whether a tool belongs to an MCP server other than Ralph."""
    if tool in _MCP_TOOLS:
        return True
    if tool.startswith(_MCP_PREFIXES):
        return not tool.startswith(_OWN_PREFIXES)
    if host not in _UNPREFIXED_HOSTS or tool.startswith(_OWN_UNPREFIXED):
        return False
    has_separator = any(separator in tool for separator in _NAME_SEPARATORS)
    return has_separator and tool not in _CLIENT_TOOLS and tool not in READING_TOOLS


class Repository:
    """The project to which files belong, and the folder in which a tool was called.

    A path that contains the id of the session is a file in which the client keeps what tools have
    printed. These tools have been judged already, and so have those that wrote the files in
    `written`, such as a log of the tests in a temporary folder.

    On Windows, paths may be written with backslashes, with a drive (`C:\\Users`) or as in Git Bash
    (`/c/Users`), and in any case. They are compared in lower case and with slashes.
    """

    __slots__ = ("_is_windows", "_platform", "_root", "_session", "folder", "written")

    def __init__(
        self, root: str, folder: str, session: str = "", platform: str = sys.platform
    ) -> None:
        self._platform = platform
        self._is_windows = platform == "win32"
        self._root = root.rstrip("/\\") if self._is_windows else root.rstrip("/")
        self._session = session.lower() if self._is_windows else session
        self.folder = folder
        self.written: set[str] = set()

    def taint_of(self, path: str) -> str:
        """Return the taint of reading a file, or "" if the file belongs to the project."""
        path = self.resolve(path)
        if path in self.written or path.startswith(_NOT_TEXTS):
            return ""
        if self._session and self._session in path:
            return ""
        inside = self._path_inside(path)
        if inside is None:
            return OUTSIDE
        if not DEPENDENCY_FOLDERS.isdisjoint(inside.split("/")):
            return DEPENDENCY
        return ""

    def resolve(self, path: str) -> str:
        """Return the absolute form of a path, without following symbolic links."""
        if self._is_windows:
            path = path.replace(_BACKSLASH, "/")
        for prefix in _HOME_PREFIXES:
            if path.startswith(prefix):
                path = f"{os.environ.get(discovery.HOME_VARIABLE) or '~'}/{path[len(prefix) :]}"
        if self._is_windows:
            return _windows_path(self.folder, path)
        return os.path.normpath(os.path.join(self.folder, path))

    def program_of(self, word: str) -> str:
        """Return the name of the program that the first word of a command starts."""
        if not self._is_windows:
            return word.rpartition("/")[2]
        name = word.replace(_BACKSLASH, "/").rpartition("/")[2].lower()
        for suffix in _PROGRAM_SUFFIXES:
            name = name.removesuffix(suffix)
        return name

    def names_path(self, word: str) -> bool:
        """Return whether a word may be the path of a file outside the project."""
        if word.startswith(_PATH_MARKS):
            return True
        return self._is_windows and (word[1:2] == ":" or word.startswith(_WINDOWS_PATH_MARKS))

    def command_line(self, line: str) -> str:
        """Return a command line with slashes in its paths."""
        return discovery.slash_paths(line, self._platform)

    def _path_inside(self, path: str) -> str | None:
        """Return the part of a path within the repository, or None if it is outside."""
        inside = _path_below(self._comparable(self._root), path)
        if inside is not None:
            return inside
        real = self._comparable(os.path.realpath(path))
        for folder in discovery.repository_folders(self._root):
            for name in (path, real):
                inside = _path_below(self._comparable(folder), name)
                if inside is not None:
                    return inside
        return None

    def _comparable(self, path: str) -> str:
        if self._is_windows:
            return path.replace(_BACKSLASH, "/").lower()
        return path


def _windows_path(folder: str, path: str) -> str:
    import ntpath  # is `os.path` there

    if path.startswith("/") and path[1:2].isalpha() and path[2:3] in ("", "/"):
        path = f"{path[1]}:{path[2:] or '/'}"  # /c/Users, as in Git Bash
    return ntpath.normpath(ntpath.join(folder, path)).replace(_BACKSLASH, "/").lower()


def _path_below(folder: str, path: str) -> str | None:
    if path == folder or path.startswith(f"{folder}/"):
        return path[len(folder) :]
    return None


def may_be_foreign(command: str, repository: Repository) -> bool:
    """Return whether `foreign_commands` has to judge a command. Most commands need no judge."""
    if any(mark in command for mark in _CODE_MARKS) or ".." in command:
        return True
    if repository.taint_of("."):  # it is called somewhere else
        return True
    for word in repository.command_line(command).translate(_WORD_ENDS).split():
        if repository.program_of(word) in COMMAND_WORDS or repository.names_path(word):
            return True
        if not DEPENDENCY_FOLDERS.isdisjoint(word.split("/")):
            return True
    return False


def taint_of_paths(tool: str, paths: Sequence[str], repository: Repository) -> str:
    """Return the taint of a tool call that reads these files, or ""."""
    if tool not in READING_TOOLS:
        return ""
    for path in paths:
        found = repository.taint_of(path)
        if found:
            return found
    return ""
