"""Decide which packages, hosts and commands a project knows.

A project knows a name if one of its files for tools contains it: manifests, lockfiles, CI files,
container files, Makefiles, scripts, and the git config with its remotes. It also knows the names of
its own files and folders, and everybody knows the names in `standard_names.txt`.

The files are searched for the wanted names only, so nothing is parsed and any format will do. How
many files are read, and how much of them, is limited. What lies beyond the limits is not known.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.lean import discovery
from ralph.search.demands import Demand, DemandKind, find_demands
from ralph.storage import files

_MAX_ENTRIES = 20_000  # files and folders looked at
_MAX_DEPTH = 6  # folders below the top of the checkout
_MAX_FILES = 400  # files read
_MAX_FILE_BYTES = 8_000_000
_MAX_BYTES = 48_000_000  # of all files together
_MAX_SECONDS = 2.0
_SKIPPED_FOLDERS = frozenset(
    {
        ".agent",
        ".git",
        ".mypy_cache",
        ".next",
        ".nox",
        ".ralph",
        ".ruff_cache",
        ".tox",
        ".venv",
        ".worktrees",
        "__pycache__",
        "bower_components",
        "dist",
        "node_modules",
        "site-packages",
        "target",
        "vendor",
        "venv",
    }
)
_TOOL_FILES = re.compile(
    r"""
      package(?:-lock)?\.json | npm-shrinkwrap\.json | yarn\.lock | pnpm-(?:lock|workspace)\.yaml
    | bun\.lockb? | deno\.(?:jsonc?|lock) | turbo\.json | nx\.json | lerna\.json
    | pyproject\.toml | setup\.(?:py|cfg) | .*requirements.*\.(?:txt|in) | constraints.*\.txt
    | Pipfile(?:\.lock)? | poetry\.lock | uv\.lock | pdm\.lock | pixi\.(?:toml|lock)
    | environment.*\.ya?ml | tox\.ini | noxfile\.py | conda-lock\.yml
    | Cargo\.(?:toml|lock) | rust-toolchain(?:\.toml)? | go\.(?:mod|sum|work)
    | Gemfile(?:\.lock)? | .*\.gemspec | Rakefile | composer\.(?:json|lock)
    | (?:build|settings)\.gradle(?:\.kts)? | pom\.xml | .*\.csproj | mix\.(?:exs|lock)
    | Package\.(?:swift|resolved) | Podfile(?:\.lock)? | pubspec\.(?:yaml|lock)
    | .*\.cabal | stack\.yaml | flake\.(?:nix|lock) | .*\.nix
    | (?:.*[.-])?(?:Dockerfile|Containerfile)(?:[.-].*)? | (?:docker-)?compose.*\.ya?ml | .*\.tf
    | Makefile | makefile | GNUmakefile | .*\.mk | [Jj]ustfile | Taskfile\.ya?ml | CMakeLists\.txt
    | Procfile.* | Vagrantfile | Jenkinsfile.* | Brewfile | Earthfile | mise\.toml | \.mise\.toml
    | \.tool-versions | \.npmrc | \.yarnrc(?:\.yml)? | \.?pip\.conf | \.gitmodules
    | \.pre-commit-config\.yaml | lefthook\.yml | \.gitlab-ci\.yml | \.travis\.yml | \.drone\.yml
    | azure-pipelines\.yml | bitbucket-pipelines\.yml | cloudbuild\.yaml | appveyor\.yml
    | fly.*\.toml | vercel\.json | netlify\.toml | wrangler\.(?:toml|jsonc?) | render\.yaml
    | serverless\.ya?ml | Chart\.(?:yaml|lock) | values.*\.yaml | helmfile\.yaml | skaffold\.yaml
    | devcontainer\.json | manage\.py | .*\.(?:sh|bash|zsh|fish|ps1)
    """,
    re.VERBOSE,
)
"""Files that say which packages, hosts and commands a project uses."""
_TOOL_FOLDERS = re.compile(
    r"(?:^|/)(?:\.github|\.circleci|\.buildkite|bin|scripts?|tools|ci|hack)/"
)
"""Folders whose every text file does."""
_TEXT_SUFFIXES = frozenset(
    {"", ".cfg", ".go", ".ini", ".js", ".json", ".mjs", ".pl", ".py", ".rb", ".toml", ".ts"}
    | {".yaml", ".yml"}
)
_SEPARATORS = str.maketrans("_.", "--")
_NAME_CHARACTER = r"[a-z0-9_-]"
_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "gov", "net", "org"})
_DOCKER_REGISTRIES = ("docker.io/library/", "docker.io/", "library/")
_RESERVED_HOSTS = re.compile(
    r"(?:.*\.)?(?:example\.(?:com|org|net)|test|invalid|local|localhost|internal|svc)"
    r"|127\..*|10\..*|192\.168\..*|172\.(?:1[6-9]|2\d|3[01])\..*|0\.0\.0\.0|host\.docker\.internal"
)
"""Hosts that are reserved for examples or can only be reached from nearby."""


def unknown_demands(root: Path, text: str) -> list[Demand]:
    """Return what a text tells its reader to use and its project does not know."""
    demands = [demand for demand in find_demands(text) if not _is_standard(demand)]
    if not demands:
        return []
    known = _known_names(root)
    return [demand for demand in demands if not known.has(demand)]


# --- standard names -----------------------------------------------------------------------------


@cache
def _standard_names() -> dict[str, frozenset[str]]:
    """Return the sections of `standard_names.txt`."""
    sections: dict[str, frozenset[str]] = {}
    text = Path(__file__).with_name("standard_names.txt").read_text(encoding="utf-8")
    for section in text.split("\n[")[1:]:
        name, _, names = section.partition("]")
        sections[name] = frozenset(names.split())
    return sections


def _is_standard(demand: Demand) -> bool:
    names = _standard_names()
    name = demand.name
    if demand.kind is DemandKind.HOST:
        return name in names["hosts"] or _RESERVED_HOSTS.fullmatch(name) is not None
    if demand.kind is DemandKind.COMMAND:
        return name in names["programs"]
    for registry in _DOCKER_REGISTRIES:
        name = name.removeprefix(registry)
    if name in names["programs"] or name in names["images"]:
        return True
    return any(part in names["packages"] for part in _prefixes(name))


def _prefixes(name: str) -> Iterator[str]:
    """Yield a name, then the name without its last part, and so on: `golang.org/x/perf/cmd`."""
    while name:
        yield name
        name = name.rpartition("/")[0]


# --- what a project knows -----------------------------------------------------------------------


class _Walked(NamedTuple):
    """The files of a checkout: all relative paths, and those that are searched."""

    names: tuple[str, ...]
    tool_files: tuple[str, ...]


@dataclass(frozen=True)
class KnownNames:
    """The names in the files of one checkout."""

    top: Path
    names: tuple[str, ...]
    tool_files: tuple[str, ...]
    git_config: Path | None

    def has(self, demand: Demand) -> bool:
        """Return whether the project knows a package, a host or a command."""
        if demand.kind is DemandKind.COMMAND and "/" in demand.name:
            return self._has_file(demand.name)
        if demand.kind is DemandKind.HOST:
            return self._has_host(demand.name)
        name = demand.name.lower()
        return self._has_name(name) or self._has_parent(name) or self._has_image(name)

    def _has_host(self, host: str) -> bool:
        """Return whether a host is known, or another one of the same domain."""
        if _contains(self._text, host):
            return True
        domain = _domain_of(host)
        return domain not in _standard_names()["shared"] and _contains(self._text, domain)

    def _has_image(self, name: str) -> bool:
        """Return whether an image has the name of the project, in a registry that it knows."""
        registry, _, path = name.partition("/")
        if "." not in registry or not path:
            return False
        if self._has_name(path):  # `ghcr.io/owner/project`, and owner/project is a remote
            return "/" in path or self._has_host(registry)
        is_shared = _domain_of(registry) in _standard_names()["shared"]
        is_own = self._has_host(registry) and self._has_name(path.rpartition("/")[2])
        return is_own and not is_shared

    def _has_name(self, name: str) -> bool:
        dashed = name.translate(_SEPARATORS)
        return _contains(self._text, name) or _contains(self._dashed_text, dashed)

    def _has_parent(self, name: str) -> bool:
        """Return whether a module above a Go package is known, or the name of a folder is."""
        parts = name.split("/")
        for length in range(len(parts) - 1, 2, -1):
            if self._has_name("/".join(parts[:length])):
                return True
        return False

    def _has_file(self, path: str) -> bool:
        wanted = path.removeprefix("./").lower()
        if wanted.startswith(("~", "/", "../")):
            return False
        return any(name == wanted or name.endswith(f"/{wanted}") for name in self.names)

    @cached_property
    def _text(self) -> str:
        parts = ["\n".join(self.names)]
        size = 0
        for path in self._searched_files():
            try:
                with files.open_regular(path) as file:
                    content = file.read(_MAX_FILE_BYTES)
            except (OSError, ValueError):
                continue
            size += len(content)
            if size > _MAX_BYTES:
                break
            parts.append(content.decode("utf-8", "replace").lower())
        return "\n".join(parts)

    @cached_property
    def _dashed_text(self) -> str:
        return self._text.translate(_SEPARATORS)

    def _searched_files(self) -> Iterator[Path]:
        if self.git_config is not None:
            yield self.git_config
        for name in self.tool_files:
            yield self.top / name


def _domain_of(host: str) -> str:
    """Return the domain that somebody has registered, such as `shop.dev` of `git.shop.dev`."""
    labels = host.split(".")
    is_second_level = len(labels) > 2 and labels[-2] in _SECOND_LEVELS and len(labels[-1]) == 2
    return ".".join(labels[-3:] if is_second_level else labels[-2:])


def _contains(text: str, name: str) -> bool:
    """Return whether a text contains a name that is not part of a longer one."""
    if name not in text:
        return False
    pattern = rf"(?<!{_NAME_CHARACTER}){re.escape(name)}(?!{_NAME_CHARACTER})"
    return re.search(pattern, text) is not None


def _known_names(root: Path) -> KnownNames:
    """Return the names of the checkout that contains a project.

    They are read again only if one of the files has changed.
    """
    top = discovery.find_top(root.as_posix()) or root.as_posix()
    git_config = None
    common = paths.location(root).common
    if common:
        git_config = Path(common, "config")
    walked = _walk(top)
    states = tuple(_state(Path(top, name)) for name in walked.tool_files)
    return _cached_names(Path(top), walked.names, walked.tool_files, git_config, states)


@cache
def _cached_names(
    top: Path,
    names: tuple[str, ...],
    tool_files: tuple[str, ...],
    git_config: Path | None,
    _states: Sequence[tuple[int, int]],
) -> KnownNames:
    return KnownNames(top, names, tool_files, git_config)


def _state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _walk(top: str) -> _Walked:
    """List the files of a checkout, the nearest first, within the limits."""
    deadline = time.monotonic() + _MAX_SECONDS
    names: list[str] = []
    tool_files: list[str] = []
    folders = [""]
    for depth in range(_MAX_DEPTH + 1):
        below: list[str] = []
        for folder in folders:
            if len(names) > _MAX_ENTRIES or time.monotonic() > deadline:
                break
            for name, is_folder in _list_folder(top, folder):
                names.append(name.lower())
                if is_folder and depth < _MAX_DEPTH:
                    below.append(name)
                elif not is_folder and _is_tool_file(name):
                    tool_files.append(name)
        folders = below
    return _Walked(tuple(names), tuple(tool_files[:_MAX_FILES]))


def _list_folder(top: str, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the relative path of each entry, and whether it is a folder to look into."""
    try:
        entries = sorted(os.scandir(f"{top}/{folder}"), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and entry.name in _SKIPPED_FOLDERS:
            continue
        yield f"{folder}/{entry.name}" if folder else entry.name, is_folder


def _is_tool_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    if _TOOL_FILES.fullmatch(name):
        return True
    return bool(_TOOL_FOLDERS.search(path)) and Path(name).suffix in _TEXT_SUFFIXES
