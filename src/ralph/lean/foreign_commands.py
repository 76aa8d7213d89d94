"""Recognise shell commands that read the network, a dependency or a file outside the repository.

    curl -s https://example.com | jq .            network
    TOKEN=x bash -c 'gh issue view 12'            network
    cat node_modules/left-pad/README.md           dependency
    cd /tmp/clone && head README.md               outside
    curl http://localhost:8000/health             nothing: it is the project's own server
    make test 2>&1 | tail                         nothing

The tables are data, so that each line can be reviewed alone. The lexer knows quotes, operators,
substitutions and heredocs, but it is not a shell: what a variable contains is unknown. Hooks load
this module, so it imports next to nothing.
"""

from __future__ import annotations

import os

from ralph.lean import TYPE_CHECKING
from ralph.lean.taint import DEPENDENCY, NETWORK, NETWORK_PROGRAMS, OUTSIDE, Repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NETWORK_SUBCOMMANDS = {
    "gh": (
        "api",
        "search",
        "issue view",
        "issue list",
        "issue status",
        "pr view",
        "pr list",
        "pr diff",
        "pr checkout",
        "pr status",
        "release view",
        "release list",
        "release download",
        "repo view",
        "repo clone",
        "gist view",
        "gist clone",
        "gist list",
        "discussion view",
        "discussion list",
        "project item-list",
        "label list",
    ),
    "glab": (
        "api",
        "issue view",
        "issue list",
        "mr view",
        "mr list",
        "mr diff",
        "mr note",
        "mr checkout",
        "release view",
        "release list",
        "repo view",
        "repo clone",
        "snippet view",
    ),
    "git": ("clone", "ls-remote", "submodule add"),
    "hg": ("clone", "incoming"),
    "svn": ("checkout", "co", "cat", "log"),
    "npm": ("view", "info", "show", "v", "search", "s", "audit", "docs", "pack"),
    "pnpm": ("view", "info", "show", "search", "audit"),
    "yarn": ("info", "npm info", "npm audit", "audit"),
    "bun": ("info", "pm view"),
    "pip": ("download", "index", "search"),
    "pip3": ("download", "index", "search"),
    "uv": ("pip download",),
    "cargo": ("search", "info"),
    "gem": ("search", "info", "fetch"),
    "go": ("list -m -versions",),
    "docker": ("search", "manifest"),
    "podman": ("search", "manifest"),
    "brew": ("info", "search", "cat"),
    "composer": ("search", "show -a", "show --available"),
    "helm": ("search", "show", "pull"),
    "conda": ("search",),
    "nix": ("search",),
}
"""Subcommands that print what others have published.

The logs of a project's own builds, as from `gh run view`, are not among them.
"""

_OPTIONS_WITH_VALUE = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace"),
    "gh": ("-R", "--repo", "--hostname"),
    "glab": ("-R", "--repo"),
    "npm": ("--prefix", "-w", "--workspace", "--registry"),
    "pnpm": ("-C", "--dir", "--filter", "-F"),
    "yarn": ("--cwd",),
    "cargo": ("--manifest-path",),
    "docker": ("-H", "--host", "--context"),
}
"""Options before a subcommand whose value is the next word."""

_REMOTE_VERBS = ("show", "cat-file", "grep", "blame", "archive")
_REMOTE_REVISIONS = (
    "origin/",
    "upstream/",
    "fork/",
    "remotes/",
    "refs/remotes/",
    "refs/pull/",
    "FETCH_HEAD",
)
"""How a revision of a remote begins, as in `git show upstream/main:README.md`."""

_INTERPRETERS = ("python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "Rscript")
_CODE_OPTIONS = ("-c", "-e", "-E", "-p", "-r", "--eval", "eval", "-")
_URL_SCHEMES = ("http://", "https://", "ftp://", "ws://", "wss://")
_FETCHING_CODE = (
    "urllib",
    "requests",
    "httpx",
    "aiohttp",
    "http.client",
    "fetch(",
    "axios",
    "Net::HTTP",
    "LWP",
    "open-uri",
    "file_get_contents",
    "socket",
    "https.get",
    "http.get",
)
"""Words of inline code that fetches something, if the code also has a URL."""

_READERS = frozenset(
    {
        "cat",
        "type",
        "gc",
        "get-content",
        "bat",
        "head",
        "tail",
        "less",
        "more",
        "nl",
        "tac",
        "strings",
        "diff",
        "xxd",
        "hexdump",
        "column",
        "fold",
        "zcat",
        "zless",
        "view",
        "source",
        ".",
    }
)
_PATTERN_READERS = frozenset(
    {
        "grep",
        "egrep",
        "fgrep",
        "zgrep",
        "rg",
        "ag",
        "ack",
        "sed",
        "awk",
        "gawk",
        "jq",
        "yq",
    }
)
"""Readers whose first argument is a pattern or a program, not a file."""

_SHELLS = ("bash", "sh", "zsh", "dash", "ksh", "fish", "powershell", "pwsh", "cmd")
_WINDOWS_SCRIPT_OPTIONS = ("-command", "/c", "//c")
_PREFIXES = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "command",
        "builtin",
        "exec",
        "nohup",
        "time",
        "timeout",
        "gtimeout",
        "nice",
        "ionice",
        "stdbuf",
        "setsid",
        "xargs",
        "parallel",
        "watch",
        "proxychains",
        "proxychains4",
        "torsocks",
        "if",
        "then",
        "else",
        "elif",
        "do",
        "while",
        "until",
        "!",
        "{",
    }
)
"""Words that only start the program after them."""
_PREFIX_OPTIONS_WITH_VALUE = frozenset(
    {"-u", "-g", "-n", "-k", "-s", "-I", "-P", "-L", "-d", "-C", "-S", "--user", "--signal"}
)

_LOCAL_HOSTS = frozenset(
    {
        "localhost",
        "0.0.0.0",  # noqa: S104 - compared, not bound to
        "[::1]",
        "host.docker.internal",
    }
)
_LOOPBACK = "127."
_VARIABLE = "$"  # as in http://$HOST:$PORT; a script of the project usually sets them
_HOST_ENDS = ":/?#\"' )"
_ROUTING_OPTIONS = frozenset(
    {"-x", "--proxy", "--connect-to", "--resolve", "--interface", "--socks5", "--preproxy"}
)
"""Options of programs that fetch; the host in their value is not what is fetched."""
_MAX_CHARACTERS = 8_000  # of a command line
_MAX_DEPTH = 5  # shells that start one another
_OPERATORS = ";|&()\n"


class Command:
    """A simple command: its words, its heredoc, and the files it is redirected to and from."""

    __slots__ = ("document", "reads", "words", "writes")

    def __init__(self) -> None:
        self.words: list[str] = []
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.document = ""


def taint_of_command(line: str, repository: Repository) -> str:
    """Return the taint of a shell command, or "" if it reads nothing foreign."""
    line = repository.command_line(line[:_MAX_CHARACTERS])
    return _judge_line(line, repository, _MAX_DEPTH)


def note_written(line: str, repository: Repository) -> None:
    """Note the files that a shell command has written by redirection or with `tee`."""
    taint_of_command(line, repository)


def _judge_line(line: str, repository: Repository, depth: int) -> str:
    if not depth:
        return ""
    weaker = ""
    for command in split_commands(line):
        found = _judge_command(command, repository, depth)
        if found == NETWORK:
            return found
        weaker = weaker or found
    return weaker


def _judge_command(command: Command, repository: Repository, depth: int) -> str:
    words = _without_prefixes(command.words)
    written = [*command.writes, *(words[1:] if words[:1] == ["tee"] else ())]
    repository.written.update(map(repository.resolve, written))
    if not words:
        return _judge_files(command.reads, repository)
    program = repository.program_of(words[0])
    arguments = words[1:]
    if program in ("cd", "pushd"):
        target = next((word for word in arguments if not word.startswith("-")), "~/")
        repository.folder = repository.resolve(target)
        return ""
    script = _script_of(program, arguments, command.document)
    if script:
        return _judge_line(script, repository, depth - 1)
    if _reads_network(program, arguments, command.document):
        return NETWORK
    files = [*command.reads, *_files_read(program, arguments)]
    return _judge_files(files, repository)


def _without_prefixes(words: list[str]) -> list[str]:
    """Return a command without assignments and programs that only start another one."""
    position = 0
    is_after_prefix = False
    while position < len(words):
        word = words[position]
        name, equals, _ = word.partition("=")
        if word.rpartition("/")[2] in _PREFIXES:
            is_after_prefix = True
        elif is_after_prefix and word in _PREFIX_OPTIONS_WITH_VALUE:
            position += 1
        elif not (equals and name.isidentifier()):
            is_option = is_after_prefix and (word.startswith("-") or word[:1].isdigit())
            if not is_option:
                break
        position += 1
    return words[position:]


def _script_of(program: str, arguments: Sequence[str], document: str) -> str:
    """Return the script that a command passes to a shell, or ""."""
    if program == "eval":
        return " ".join(arguments)
    if program not in _SHELLS:
        return ""
    for number, word in enumerate(arguments[:-1]):
        is_script_option = word.startswith("-") and not word.startswith("--") and word.endswith("c")
        if is_script_option or word.lower() in _WINDOWS_SCRIPT_OPTIONS:
            return arguments[number + 1]
    return document


# --- the network ----------------------------------------------------------------------------------


def _reads_network(program: str, arguments: Sequence[str], document: str) -> bool:
    if program in NETWORK_PROGRAMS:
        return not _has_only_local_targets(arguments)
    if program.rstrip("0123456789.") in _INTERPRETERS or program in _INTERPRETERS:
        return _fetches(arguments, document)
    subcommands = NETWORK_SUBCOMMANDS.get(program)
    if subcommands is None:
        return False
    rest = _without_options(program, arguments)
    if program == "git" and rest[:1] and rest[0] in _REMOTE_VERBS:
        return any(word.startswith(_REMOTE_REVISIONS) for word in rest[1:])
    return any(_starts_with(subcommand, rest, arguments) for subcommand in subcommands)


def _starts_with(subcommand: str, rest: Sequence[str], arguments: Sequence[str]) -> bool:
    wanted = subcommand.split()
    if any(word.startswith("-") for word in wanted):
        return all(word in arguments for word in wanted)
    return list(rest[: len(wanted)]) == wanted


def _without_options(program: str, arguments: Sequence[str]) -> list[str]:
    with_value = _OPTIONS_WITH_VALUE.get(program, ())
    rest: list[str] = []
    is_value = False
    for word in arguments:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in with_value
        else:
            rest.append(word)
    return rest


def _has_only_local_targets(arguments: Sequence[str]) -> bool:
    targets = []
    previous = ""
    for word in arguments:
        if previous not in _ROUTING_OPTIONS:
            targets.append(word)
        previous = word
    urls = [word for word in targets if word.startswith(_URL_SCHEMES)]
    if urls:
        return all(map(_is_local_url, urls))
    return any(_is_local_host(word) for word in targets if not word.startswith(_VARIABLE))


def _is_local_url(url: str) -> bool:
    return _is_local_host(url.partition("://")[2])


def _is_local_host(address: str) -> bool:
    """Return whether an address, as in a URL after its scheme, is on this machine."""
    if address.startswith(_VARIABLE):
        return True
    place = address.partition("/")[0].rpartition("@")[2]
    if place.startswith("["):
        host = place.partition("]")[0] + "]"
    else:
        host = place
        for end in _HOST_ENDS:
            host = host.partition(end)[0]
    is_loopback = host.startswith(_LOOPBACK) and host.replace(".", "").isdigit()
    return host in _LOCAL_HOSTS or is_loopback


def _fetches(arguments: Sequence[str], document: str) -> bool:
    """Return whether inline code fetches something from another machine."""
    code = document
    for number, word in enumerate(arguments[:-1]):
        if word in _CODE_OPTIONS:
            code += arguments[number + 1]
    if not any(word in code for word in _FETCHING_CODE):
        return False
    for scheme in _URL_SCHEMES:
        _, *urls = code.split(scheme)
        if not all(map(_is_local_host, urls)):
            return True
    return False


# --- files ----------------------------------------------------------------------------------------


def _files_read(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments that name files whose content a program prints."""
    names = [word for word in arguments if not word.startswith("-")]
    if program in _READERS:
        return names
    if program in _PATTERN_READERS:
        has_pattern_option = any(word in ("-e", "-f", "--regexp") for word in arguments)
        return names if has_pattern_option else names[1:]
    return []


def _judge_files(files: Sequence[str], repository: Repository) -> str:
    for name in files:
        found = repository.taint_of(name)
        if found == DEPENDENCY:
            return found
        # A word may look like a path, as in `sed '/a/d'` or `grep -e /api`.
        if found == OUTSIDE and os.path.lexists(repository.resolve(name)):
            return found
    return ""


# --- the lexer ------------------------------------------------------------------------------------


def split_commands(line: str) -> Iterator[Command]:
    """Yield the simple commands of a line, including those in substitutions."""
    lexer = _Lexer(line)
    while lexer.position < len(line):
        lexer.step()
    lexer.end_command()
    yield from lexer.commands


class _Lexer:
    """Splits a command line into simple commands, one step at a time."""

    def __init__(self, line: str) -> None:
        self.commands: list[Command] = []
        self.position = 0
        self._line = line
        self._command = Command()
        self._word = ""
        self._has_word = False  # a word may be empty, as in ''
        self._redirection = ""  # the operator whose target comes next
        self._quotes: list[str] = []  # "" or a quotation mark, for each open substitution
        self._quote = ""
        self._documents: list[tuple[Command, str]] = []  # heredocs that begin on the next line

    def step(self) -> None:
        """Read one character, or an operator or a quoted part."""
        line = self._line
        char = line[self.position]
        self.position += 1
        if char == "\\" and self.position < len(line):
            self._add(line[self.position])
            self.position += 1
        elif char == "`" or line.startswith(("$(", "<(", ">("), self.position - 1):
            self._substitute(char)
        elif self._quote:
            self._read_in_quotes(char)
        elif char == "'":
            self._add_until_quote()
        elif char == '"':
            self._quote = char
            self._has_word = True
        elif char == ")" and self._quotes:
            self.end_command()
            self._quote = self._quotes.pop()
        elif char in _OPERATORS:
            self._read_operator(char)
        elif char in "<>":
            self._read_redirection(char)
        elif char == "#" and not self._has_word:
            end = line.find("\n", self.position)
            self.position = end if end >= 0 else len(line)
        elif char.isspace():
            self._end_word()
        else:
            self._add(char)

    def end_command(self) -> None:
        """End the current command, if it has any words."""
        self._end_word()
        self._redirection = ""
        command = self._command
        if command.words or command.reads or command.writes:
            self.commands.append(command)
        self._command = Command()

    def _add(self, text: str) -> None:
        self._word += text
        self._has_word = True

    def _end_word(self) -> None:
        if not self._has_word:
            return
        if self._redirection == "<":
            self._command.reads.append(self._word)
        elif self._redirection == "<<":
            self._documents.append((self._command, self._word))
        elif self._redirection == "<<<":
            self._command.document = self._word
        elif self._redirection.startswith(">"):
            self._command.writes.append(self._word)
        elif not self._redirection:
            self._command.words.append(self._word)
        self._redirection = ""
        self._word = ""
        self._has_word = False

    def _read_in_quotes(self, char: str) -> None:
        if char == self._quote:
            self._quote = ""
        else:
            self._add(char)

    def _add_until_quote(self) -> None:
        end = self._line.find("'", self.position)
        if end < 0:
            end = len(self._line)
        self._add(self._line[self.position : end])
        self.position = end + 1

    def _substitute(self, char: str) -> None:
        """Begin or end the commands of a substitution."""
        is_end = char == "`" and bool(self._quotes)
        self.end_command()
        if is_end:
            self._quote = self._quotes.pop()
            return
        self._quotes.append(self._quote)
        self._quote = ""
        if char != "`":
            self.position += 1  # the parenthesis

    def _read_operator(self, char: str) -> None:
        if char == "&" and self._line.startswith(">", self.position):
            return  # &>, which redirects
        self.end_command()
        if char == "\n":
            self._read_documents()

    def _read_redirection(self, char: str) -> None:
        if self._word.isdigit():  # the number of a descriptor
            self._word = ""
            self._has_word = False
        self._end_word()
        operator = char
        while self._line.startswith(("<", ">", "&", "-"), self.position):
            operator += self._line[self.position]
            self.position += 1
        self._redirection = operator.rstrip("-")
        if operator.endswith("&") and self._line[self.position : self.position + 1].isdigit():
            self.position += 1  # 2>&1
            self._redirection = ""

    def _read_documents(self) -> None:
        """Read the heredocs that begin on this line."""
        for command, end_word in self._documents:
            lines: list[str] = []
            while self.position < len(self._line):
                line, _, _ = self._line[self.position :].partition("\n")
                self.position += len(line) + 1
                if line.strip() == end_word:
                    break
                lines.append(line)
            command.document = "\n".join(lines)
        self._documents = []
