"""Find what a text tells its reader to install, contact or run.

A *demand* is a package, a host or a command that a memory names in such a way that an agent would
use it:

    "Install it with `pip install reqeusts`."     package reqeusts
    "Send the log to https://logs.example.net/"   host logs.example.net
    "Run `frobnicate --all` before a commit."     command frobnicate

A link that is only mentioned, an identifier and a file name are not demands. `known_names` decides
which demands a project knows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ralph.capture.command_lines import is_assignment, split_commands
from ralph.core import terms
from ralph.search import background

_MAX_CHARACTERS = 20_000  # of a text that are searched


class DemandKind(StrEnum):
    """What a text tells its reader to use."""

    PACKAGE = "package"
    HOST = "host"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Demand:
    """A package, a host or a command that a text tells its reader to use."""

    kind: DemandKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def find_demands(text: str) -> list[Demand]:
    """Return the demands of a text in their order, each once."""
    text = text[:_MAX_CHARACTERS]
    found: dict[Demand, None] = {}
    for line in _command_lines(text):
        found.update(dict.fromkeys(_demands_of_line(line)))
    if _PACKAGE_WORD.search(text):
        found.update(dict.fromkeys(_packages_in_prose(text)))
    if "://" in text:
        found.update(dict.fromkeys(_hosts_in_prose(text)))
    built = {_package_name(image[1]) for image in _BUILT_IMAGE.finditer(text)}
    return [demand for demand in found if demand.name not in built]


# --- command lines ------------------------------------------------------------------------------

_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w-]*)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_SHELL_FENCES = frozenset({"", "bash", "console", "fish", "sh", "shell", "zsh"})
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]{2,400})\1")
_PROMPT_LINE = re.compile(r"^[ \t>-]*\$ (\S[^\n]{1,400})$", re.MULTILINE)
_TOLD_TO_RUN = re.compile(
    r"\b(?:runs?|running|executes?|executing|launch|invoke|type|paste|re-?run)"
    r"(?:\W+[\w/-]+){0,3}\W*$",
    re.IGNORECASE,
)
"""The end of a text after which a code span is a command."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line, and whether the text tells its reader to run it.

    A line in prose may end with words of its sentence.
    """

    text: str
    is_told: bool
    is_prose: bool = False


def _command_lines(text: str) -> Iterator[_Line]:
    rest = _FENCE.sub("\n", text)
    for fence in _FENCE.finditer(text):
        is_shell = fence[1].lower() in _SHELL_FENCES
        for line in fence[2].splitlines():
            yield _Line(line.strip().removeprefix("$ "), is_shell and bool(fence[1]))
    for span in _CODE_SPAN.finditer(rest):
        before = rest[max(0, span.start() - 80) : span.start()].rpartition("\n")[2]
        yield _Line(span[2].strip().removeprefix("$ "), bool(_TOLD_TO_RUN.search(before)))
    for line in _PROMPT_LINE.finditer(rest):
        yield _Line(line[1], True)
    for call in _CALL_IN_PROSE.finditer(_CODE_SPAN.sub(" ` ", rest)):
        yield _Line(_without_sentence(call[0]), is_told=False, is_prose=True)


def _demands_of_line(line: _Line) -> Iterator[Demand]:
    yield from _packages_in_source(line.text)
    for command in split_commands(line.text):
        words = _without_prefixes(command.words)
        if not words:
            continue
        program = words[0].rpartition("/")[2]
        packages = _installed_packages(program, words[1:])
        if line.is_prose:
            packages = _without_words(packages)
        for package in packages:
            yield from _package_demands(package)
        yield from _hosts_of_command(program, words[1:])
        if line.is_told and not packages:
            yield from _program_demand(words)


_PREFIXES = frozenset({"sudo", "doas", "env", "time", "nohup", "exec", "command", "then", "do"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")


def _without_prefixes(words: tuple[str, ...]) -> tuple[str, ...]:
    """Remove assignments, `sudo` and `python -m` from the beginning of a command."""
    while words:
        is_module = _PYTHON.fullmatch(words[0]) is not None and words[1:2] == ("-m",)
        if is_assignment(words[0]) or words[0] in _PREFIXES:
            words = words[1:]
        elif is_module:
            words = words[2:]
        else:
            return words
    return words


# --- packages -----------------------------------------------------------------------------------

_INSTALL_VERBS: Mapping[str, tuple[str, ...]] = {
    "pip": ("install", "download"),
    "pip3": ("install", "download"),
    "pipx": ("install", "run", "inject"),
    "uv": ("add", "pip install", "tool install", "tool run"),
    "uvx": ("",),
    "poetry": ("add",),
    "pdm": ("add",),
    "pipenv": ("install",),
    "rye": ("add", "install"),
    "hatch": ("add",),
    "conda": ("install",),
    "mamba": ("install",),
    "pixi": ("add",),
    "npm": ("install", "i", "add", "exec", "create", "init"),
    "npx": ("",),
    "pnpm": ("add", "install", "i", "dlx", "create"),
    "yarn": ("add", "dlx", "global add", "create"),
    "bun": ("add", "install", "i", "x", "create"),
    "bunx": ("",),
    "deno": ("add", "install"),
    "cargo": ("add", "install", "binstall"),
    "go": ("get", "install"),
    "gem": ("install",),
    "bundle": ("add",),
    "composer": ("require", "global require"),
    "dotnet": ("add package", "tool install"),
    "luarocks": ("install",),
    "docker": ("pull", "run"),
    "podman": ("pull", "run"),
    "nerdctl": ("pull", "run"),
    "brew": ("tap",),
    "code": ("--install-extension",),
    "gh": ("extension install",),
    "krew": ("install",),
}
"""The words after which these programs name a package. "" means that the first word names it."""
_RUNS_ONE_PACKAGE = frozenset({"npx", "bunx", "uvx", "docker", "podman", "nerdctl"})
_ONE_PACKAGE_VERBS = frozenset({"exec", "dlx", "x", "run", "tool run", "create", "init"})
_OPTIONS_WITH_VALUE = frozenset(
    {
        "-c",
        "-e",
        "-f",
        "-i",
        "-p",
        "-r",
        "-t",
        "-u",
        "-v",
        "-w",
        "--constraint",
        "--editable",
        "--entrypoint",
        "--env",
        "--env-file",
        "--extra-index-url",
        "--features",
        "--find-links",
        "--git",
        "--group",
        "--index-url",
        "--mount",
        "--name",
        "--network",
        "--path",
        "--platform",
        "--port",
        "--prefix",
        "--proxy",
        "--python",
        "--registry",
        "--requirement",
        "--source",
        "--target",
        "--user",
        "--version",
        "--volume",
        "--with",
        "--workdir",
    }
)
_CALL_IN_PROSE = re.compile(
    r"\b(?:(?:python3? -m )?pip3? (?:install|download)|pipx (?:install|run)|uv (?:pip install|add"
    r"|tool install)|poetry add|pdm add|conda install|npm (?:install|i|add)"
    r"|(?:npx|bunx|uvx)(?= \S*[-@/\d])"
    r"|pnpm (?:add|install|dlx)|yarn (?:add|dlx)|bun (?:add|x)|cargo (?:add|install)"
    r"|go (?:get|install)|gem install|bundle add|composer require|docker (?:pull|run)"
    r"|podman (?:pull|run)|curl|wget|git clone)\s+[^\n`]{2,200}"
)
"""A call that is written without backticks."""
_SENTENCE_WORD = re.compile(
    r"\s+(?:a|after|again|and|as|at|because|before|but|by|does|every|fails|first|for|from|if|in|is"
    r"|instead|into|it|needs|not|of|on|once|only|or|so|that|the|then|this|to|until|when|which"
    r"|will|with|works)\b|[,;:!?)]\s|[.,;:!?)]+$|\.\s|\s[-\u2013\u2014(]+\s|\s\("
)


def _without_sentence(call: str) -> str:
    """Cut a call in prose where the sentence continues."""
    start = len(call.split(maxsplit=1)[0])
    end = _SENTENCE_WORD.search(call, start)
    return call[: end.start()] if end else call


_PACKAGE = re.compile(r"@?[A-Za-z0-9][\w.+@/:-]*", re.ASCII)
_VERSION = re.compile(r"(?<=.)(?:\[|[=<>!~^;]|@(?=[\w^~*])).*$", re.DOTALL)
_IS_LOCAL = re.compile(r"[.~/$<{*]|file:|.*\.(?:whl|gz|zip|txt|toml|json|gem|tgz|lock)$")
_IS_STAND_IN = re.compile(r"[A-Z][A-Z_-]*|(?:your|my|some)[-_].*|x+|foo|bar|name|pkg|package|\.+")
_LATEST = re.compile(r"latest|next|\d[\w.]*")


def _installed_packages(program: str, words: tuple[str, ...]) -> list[str]:
    """Return the packages that a command installs, without versions."""
    for verb in _INSTALL_VERBS.get(program, ()):
        rest = _after_verb(words, verb) if verb else words
        if rest is None:
            continue
        names = [name for name in map(_package_name, _arguments(rest)) if name]
        if program in _RUNS_ONE_PACKAGE or verb in _ONE_PACKAGE_VERBS:
            return names[:1]
        return names
    return []


def _without_words(names: list[str]) -> list[str]:
    """Leave out the words of a sentence that follow a call: "npm install fails since May"."""
    kept = [name for name in names[1:] if not name.isalpha()]
    if names and not _is_ordinary_word(names[0]):
        kept.insert(0, names[0])
    return kept


def _is_ordinary_word(name: str) -> bool:
    if not name.isalpha():
        return False
    return all(background.frequency(term) > 0 for term in terms.word_terms(name.lower()))


def _after_verb(words: tuple[str, ...], verb: str) -> tuple[str, ...] | None:
    """Return the words after a verb, which options may precede, or None if it is missing."""
    wanted = tuple(verb.split())
    for start in range(len(words)):
        if words[start : start + len(wanted)] == wanted:
            return words[start + len(wanted) :]
        if not words[start].startswith("-"):
            return None
    return None


def _arguments(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that are neither options nor their values."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _OPTIONS_WITH_VALUE
        else:
            yield word


def _package_name(word: str) -> str:
    """Return a package's name without its version and extras, or "" for a local file."""
    word = word.strip("\"'`,;.")
    if "://" in word or word.startswith("git+"):
        return word
    if _IS_LOCAL.match(word):
        return ""
    name = _VERSION.sub("", word)
    head, _, tag = name.rpartition(":")
    if head and "/" not in tag:
        name = head
    if not _PACKAGE.fullmatch(name) or _IS_STAND_IN.fullmatch(name) or _LATEST.fullmatch(name):
        return ""
    return name


def _package_demands(package: str) -> Iterator[Demand]:
    if "://" not in package:
        yield Demand(DemandKind.PACKAGE, package)


_SOURCE_LINES = (
    re.compile(r"^([A-Za-z][\w-]*)\s*=\s*\{[^}]*\b(?:git|registry)\s*="),
    re.compile(r"^FROM\s+(?:--platform=\S+\s+)?(\S+)", re.IGNORECASE),
    re.compile(r"^(?:-\s+)?image:\s*[\"']?([\w./:@-]+)"),
    re.compile(r"^(?:-\s+)?uses:\s*[\"']?([\w.-]+/[\w./-]+)@"),
    re.compile(r"^gem\s+[\"']([\w-]+)[\"']"),
    re.compile(r"^(?:import|export)\b[^\"']{0,200}\bfrom\s+[\"']([^\"'.][^\"']{1,100})[\"']"),
    re.compile(r"\brequire\([\"']([^\"'.][^\"']{1,100})[\"']\)"),
    re.compile(r"^(?:from\s+([a-z]\w*)\s+import\b|import\s+([a-z]\w*)(?:$|[.,;]|\s+as\b))"),
)
"""Lines of source code that name a package."""
_BUILT_IMAGE = re.compile(
    r"\b(?:docker|podman|buildah|nerdctl)\s+(?:buildx\s+)?(?:build|bud)\b[^\n`;&|]{0,200}?"
    r"\s(?:-t|--tag)[ =]([\w./:-]+)"
)
"""An image that the text itself builds."""
_IMAGE_STAGES = frozenset({"base", "build", "builder", "deps", "runtime", "scratch", "test"})


def _packages_in_source(line: str) -> Iterator[Demand]:
    for pattern in _SOURCE_LINES:
        found = pattern.search(line)
        if not found:
            continue
        name = _package_name(next(group for group in found.groups() if group))
        is_standard = name in sys.stdlib_module_names or name.startswith("node:")
        if name and not is_standard and name not in _IMAGE_STAGES:
            yield Demand(DemandKind.PACKAGE, _npm_package(name))


def _npm_package(name: str) -> str:
    """Return the package of an import such as `@scope/name/part`."""
    if not name.startswith("@"):
        return name
    return "/".join(name.split("/")[:2])


_NOUN = r"(?:package|library|crate|gem|dependency|distribution|SDK|wheel|container image|image)"
_ADVICE = re.compile(
    r"\b(?:install|add|use|using|switch|switched|switches|replace|replaced|replaces|prefer|depend"
    r"|depends|pull|migrate|migrated|move|moved|pin|upgrade|require|requires|need|needs|comes"
    r"|called|renamed|successor|fork|now|new|must|should|available|published|provides)\b",
    re.IGNORECASE,
)
_PROSE_PACKAGES = (
    re.compile(rf"(?<![\w/.])`(?P<name>[^`\s]{{2,80}})`\s+(?:\w+\s+)?{_NOUN}\b", re.IGNORECASE),
    re.compile(
        rf"\b{_NOUN}s?\s+(?:is\s+|was\s+|named\s+|called\s+|to\s+)*`(?P<name>[^`\s]{{2,80}})`",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b{_NOUN}\s+(?:is\s+|named\s+|called\s+)*"
        r"(?P<name>@?[a-z0-9]+[-_/@][\w./@-]{1,80}|[a-z][a-z0-9]*\d)(?![\w(])"
    ),
    re.compile(
        r"(?<![\w/.-])(?P<name>@?[a-z0-9]+[-_/][\w./-]{1,80}|[a-z]+\d)\s+"
        r"(?:package|library|crate|gem|dependency|image)\b"
    ),
    re.compile(
        r"\b(?:install|installing|installed|depend(?:s|ing)? on|replaced by|renamed to|succeeded by"
        r"|published as|available as|switch(?:ed)? to|migrated? to|moved? to)\s+"
        r"(?:the\s+|our\s+)?`(?P<name>@?[a-z0-9][\w./@:-]{1,80})`",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:add|put|pin|list)\s+(?:the\s+)?`?(?P<name>@?[a-z0-9][\w./@-]{1,80})`?"
        r"(?:\s*[=<>~^]=?\s*[\w.]+)?`?\s+(?:to|in|into)\s+(?:the\s+|your\s+)?`?"
        r"(?:requirements|(?:dev)?dependencies|devDependencies|Gemfile|Cargo\.toml|go\.mod"
        r"|package\.json|pyproject|Pipfile|composer\.json)",
        re.IGNORECASE,
    ),
)
"""Sentences that recommend a package without a command."""
_NAME_ON_REGISTRY = re.compile(
    r"(?<![\w/.-])`?(?P<name>@?[a-z0-9][\w./-]{0,80})`?\s+(?:is\s+)?(?:on|from|in|via)\s+"
    r"(?:the\s+)?(?:npm|pip|pypi|crates\.io|rubygems|docker hub|packagist)\b",
    re.IGNORECASE,
)
"""A package and where it is published: `antropic-sdk on npm`."""
_PACKAGE_WORD = re.compile(
    r"npm|pip|pypi|crates|hub|install|package|library|crate|gem|depend|distribution|sdk|wheel|image|require|pipfile"
    r"|cargo\.toml|go\.mod|pyproject|composer|switch|migrate|move|replaced|renamed|succeeded"
    r"|published|available",
    re.IGNORECASE,
)
"""A word without which none of these sentences is complete."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n[-*#>]")
_IS_CODE = re.compile(r"[()=<>{}\[\]$]|\.(?:py|ts|tsx|js|jsx|rs|go|rb|md|ya?ml|json|toml|css|sql)$")


def _packages_in_prose(text: str) -> Iterator[Demand]:
    for sentence in _SENTENCE_END.split(_FENCE.sub("\n", text)):
        patterns: tuple[re.Pattern[str], ...] = (_NAME_ON_REGISTRY,)
        if _ADVICE.search(sentence):
            patterns += _PROSE_PACKAGES
        for pattern in patterns:
            for found in pattern.finditer(sentence):
                if _IS_CODE.search(found["name"]):
                    continue
                name = _package_name(found["name"])
                if name:
                    yield Demand(DemandKind.PACKAGE, name)


# --- hosts --------------------------------------------------------------------------------------

_URL = re.compile(
    r"\b(?:https?|wss?|ftp|git|ssh|grpc|s3|gs|redis|postgres(?:ql)?)://([^\s/`'\"<>)\]]+)"
)
_REPOSITORY = re.compile(
    r"(?:://|@)(?:www\.|raw\.|gist\.)?"
    r"((?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|githubusercontent\.com)"
    r"[/:][\w.-]+/[\w.-]+)"
)
"""A repository of a public server, where anybody can have one."""
_ADDRESS = re.compile(r"(?:[\w.-]+@)?((?:[a-z0-9-]+\.)+[a-z]{2,}|\d{1,3}(?:\.\d{1,3}){3})(?::\S*)?")
_CONTACTING_PROGRAMS = frozenset(
    {
        "curl",
        "dig",
        "ftp",
        "git",
        "http",
        "httpie",
        "https",
        "nc",
        "ncat",
        "nslookup",
        "ping",
        "rsync",
        "scp",
        "sftp",
        "ssh",
        "telnet",
        "wget",
        "wscat",
    }
)
_BARE_ADDRESS_PROGRAMS = _CONTACTING_PROGRAMS - {"git"}
_CONTACT = re.compile(
    r"\b(?:send|sends|post|posts|upload|uploads|push|publish|report|reports|download|downloads|fetch"
    r"|pull|mirror|mirrors|registry|endpoint|proxy|webhook|connect|connects|forward|submit|sync"
    r"|point|points|install|clone|contact|ping|call|query|beacon|curl|wget|index-url|from|export"
    r"|exports|replaced|collector|telemetry|tracing|gateway|stream|streams|mirrored|git|sparse)\b",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\b(?:see|docs?|documentation|documented|reference|source|read|details|explained|described"
    r"|according|issue|specification|spec|example|blog|article|per|cf)\b",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?:[a-z0-9_-]+\.)+[a-z0-9-]+|localhost", re.IGNORECASE)


def _hosts_of_command(program: str, words: tuple[str, ...]) -> Iterator[Demand]:
    for word in words:
        for repository in _REPOSITORY.finditer(word):
            yield Demand(DemandKind.PACKAGE, repository[1].removesuffix(".git"))
        for url in _URL.finditer(word):
            yield from _host_demand(url[1])
        if program in _BARE_ADDRESS_PROGRAMS and not word.startswith("-") and "://" not in word:
            address = _ADDRESS.match(word)
            if address and not re.search(r"\.(?:py|sh|json|txt|html?|gz|zip|log|md)$", address[1]):
                yield from _host_demand(address[1])
        if program == "git" and re.match(r"[\w.-]+@[\w.-]+:", word):
            yield from _host_demand(word.partition("@")[2].partition(":")[0])


def _hosts_in_prose(text: str) -> Iterator[Demand]:
    for sentence in _SENTENCE_END.split(text):
        words = _URL.sub(" ", sentence)
        if not _CONTACT.search(words) or _REFERENCE.search(words):
            continue
        for url in _URL.finditer(sentence):
            yield from _host_demand(url[1])


def _host_demand(address: str) -> Iterator[Demand]:
    host = address.rpartition("@")[2].partition(":")[0].rstrip(".,;").lower()
    if _HOST.fullmatch(host):
        yield Demand(DemandKind.HOST, host)


# --- programs -----------------------------------------------------------------------------------

_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*", re.ASCII)
_SCRIPT = re.compile(r"(?:\.{1,2}/|~/|/|[\w.-]+/)[\w./+-]*\w", re.ASCII)
_SCRIPT_RUNNERS = frozenset({"bash", "deno", "fish", "node", "perl", "php", "ruby", "sh", "zsh"})
_SCRIPT_SUFFIXES = (".bash", ".js", ".mjs", ".php", ".pl", ".ps1", ".py", ".rb", ".sh", ".ts")


def _program_demand(words: tuple[str, ...]) -> Iterator[Demand]:
    """Yield the program or script that a command runs."""
    program = words[0]
    if _SCRIPT.fullmatch(program):
        if "." not in program.rpartition("/")[2] or program.endswith(_SCRIPT_SUFFIXES):
            yield Demand(DemandKind.COMMAND, program)
        return
    is_runner = program in _SCRIPT_RUNNERS or _PYTHON.fullmatch(program) is not None
    if is_runner:
        script = next(_arguments(words[1:]), "")
        if script.endswith(_SCRIPT_SUFFIXES):
            yield Demand(DemandKind.COMMAND, script)
        return
    is_program = _PROGRAM.fullmatch(program) is not None and program.lower() == program
    is_identifier = len(words) == 1 and "_" in program
    if is_program and not is_identifier:
        yield Demand(DemandKind.COMMAND, program)
