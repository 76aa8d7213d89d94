"""Our own modules, loaded without the machinery of imports, which is a third of what so many small ones cost.

What a hook needs is known beforehand, each list in the order in which the modules need each other. A module's compiled
file is read and run if it was made of the source as that is now, by this very Python; packages are put in place bare,
as the stub does it with the first two. Whatever is not plain (no compiled file, another layout, an optimized Python) is
left to the `import` that follows, which also writes the compiled file. It is done in a hook's own process only.
Nor is there garbage to look for in a process that is over in a moment. `tests/hooks/test_load.py` proves that
the modules are the same, and that a source which changed is never passed over.
"""

import gc
import sys

try:
    import marshal
    import posix
    from _frozen_importlib_external import MAGIC_NUMBER

    from ralph.hooks.place import read
except ImportError:  # Windows, or an interpreter of another make: imports do everything
    posix = None  # type: ignore[assignment]  # nothing below is used then

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

SCREEN = ("ralph.hooks.anchors", "ralph.hooks.named", "ralph.hooks.screen")
"""What a recording event needs."""
OWN = ("ralph.hooks.own",)
"""What the rules of the user are asked with."""
RULES = (
    "ralph.hooks.own", "ralph.capture.values", "ralph.capture.assignments", "ralph.capture.secrets", "ralph.errors",
    "ralph.capture.privacy", "ralph.capture.redactor", "ralph.capture.trim", "ralph.hooks.careful",
    "ralph.hooks.prepared",
)  # fmt: skip
"""What the rules of capture are."""
ANSWER = ("ralph.hooks.answer",)
"""What an event needs that is answered."""
ASKING = ("ralph.store.lookup", "ralph.store.reading")
"""What opens the index; before it, SQLite's C part has to be loaded."""
TELLING = (
    "ralph.search.terms", "ralph.context.lessons",
    "ralph.context.tokens", "ralph.model.marks", "ralph.context.render", "ralph.search.question",
    "ralph.search.rank", "ralph.context.recall", "ralph.context.stale",
)  # fmt: skip
"""What looks for an answer."""
_LARGEST = 65_536


def load(names: tuple[str, ...]) -> None:
    """Have these modules ready for the imports that follow, as far as that is plain."""
    if posix is None:
        return
    top = sys.modules["ralph"]
    if top.__spec__ is not None or sys.flags.optimize or sys.pycache_prefix is not None:
        return
    gc.disable()
    for name in names:
        if name not in sys.modules:
            _load(name, f"{top.__path__[0]}{name[5:].replace('.', '/')}.py")


def _load(name: str, source: str) -> None:
    folder, _, file = source.rpartition("/")
    parent, _, last = name.rpartition(".")
    try:
        now = posix.stat(source)
    except OSError:
        return
    held = read(f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc", _LARGEST) or b""
    stamp = (int(now.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (now.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    if held[:16] != MAGIC_NUMBER + bytes(4) + stamp or len(held) == _LARGEST:
        return
    if parent not in sys.modules:
        _put(parent).__path__ = [folder]
    module = _put(name)
    module.__file__ = source
    module.__package__ = parent
    try:
        exec(marshal.loads(memoryview(held)[16:]), module.__dict__)  # noqa: S102, S302 - what an import runs, too
    except BaseException:
        del sys.modules[name]
        raise
    setattr(sys.modules[parent], last, module)


def _put(name: str) -> "ModuleType":
    module = type(sys)(name)
    sys.modules[name] = module
    return module
