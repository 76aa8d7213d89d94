"""Run the hook for one event: `<python> -I -S <this file> <host> <Event>`.

This file is short because Python compiles it anew for every event.
"""

from __future__ import annotations

import gc
import sys

try:
    gc.disable()  # recording and answering end before a collection would pay off
    _source = __file__.replace("\\", "/").rsplit("/", 3)[0]
    if sys.platform == "win32":
        import os

        _file = os.open(f"{_source}/ralph/lean/quick_imports.py", os.O_RDONLY | os.O_BINARY)
        _names: dict[str, type] = {}
        exec(os.read(_file, 1 << 14), _names)  # noqa: S102 - it is a part of Ralph
        os.close(_file)
        sys.meta_path.insert(0, _names["QuickFinder"](_source))
    sys.path.insert(0, _source)
    from ralph.hooks.handler import main

    main(sys.argv[1:])
except BaseException:  # noqa: BLE001, S110 - a host would act on any other exit code or message
    pass
