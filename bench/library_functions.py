"""List the documented public functions of Python's standard library, with their source.

They are the documents of the data set `library`: real code with docstrings that is installed
everywhere, so that none of it has to be copied.
"""

import importlib
import inspect
from collections.abc import Iterator
from types import FunctionType

MODULES = (
    "argparse",
    "ast",
    "asyncio.tasks",
    "base64",
    "calendar",
    "codecs",
    "collections",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "difflib",
    "dis",
    "doctest",
    "email.header",
    "email.message",
    "email.utils",
    "enum",
    "filecmp",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "html.parser",
    "http.client",
    "http.cookies",
    "http.server",
    "imaplib",
    "inspect",
    "ipaddress",
    "json",
    "linecache",
    "locale",
    "logging",
    "logging.config",
    "logging.handlers",
    "mimetypes",
    "multiprocessing.pool",
    "pathlib",
    "pdb",
    "pkgutil",
    "platform",
    "plistlib",
    "pprint",
    "pstats",
    "queue",
    "random",
    "re",
    "secrets",
    "selectors",
    "shlex",
    "shutil",
    "smtplib",
    "socket",
    "ssl",
    "statistics",
    "string",
    "subprocess",
    "sysconfig",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "tokenize",
    "traceback",
    "tracemalloc",
    "types",
    "unittest.case",
    "unittest.mock",
    "urllib.parse",
    "urllib.request",
    "urllib.robotparser",
    "uuid",
    "warnings",
    "weakref",
    "webbrowser",
    "xml.dom.minidom",
    "xml.etree.ElementTree",
    "xmlrpc.client",
    "zipfile",
)

_MIN_SOURCE_CHARACTERS = 120  # shorter functions only call another one


def sources() -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the source of each documented public function and method."""
    for name in MODULES:
        module = importlib.import_module(name)
        for member_name, member in vars(module).items():
            if member_name.startswith("_") or getattr(member, "__module__", "") != name:
                continue
            yield from _sources_of(f"{name}.{member_name}", member)


def _sources_of(path: str, member: object) -> Iterator[tuple[str, str]]:
    """Yield the source of a function, or of the public methods of a class."""
    if isinstance(member, type):
        for method_name, method in vars(member).items():
            function = getattr(method, "__func__", method)  # of a class method
            if not method_name.startswith("_") and isinstance(function, FunctionType):
                yield from _sources_of(f"{path}.{method_name}", function)
    elif isinstance(member, FunctionType) and member.__doc__:
        source = _source(member)
        if len(source) >= _MIN_SOURCE_CHARACTERS:
            yield path, source


def _source(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # it was generated
        return ""
