"""What a host starts: `<python> -I -S <this file> <host> <Event>`, with the payload on stdin.

This file is compiled at every start, so it is short. The packages `ralph` and `ralph.hooks` are put in
place bare, with nothing but their folder: their own modules, and the search for them through the whole of
`sys.path`, would cost more than recording does. Where there is no `posix`, or anything at all goes wrong,
the host sees an exit code of 0 and no output. `tests/hooks/test_run.py` proves it with real processes.
"""

import sys


def main() -> None:
    """Hand the event over; whatever happens is nothing to the host."""
    hooks = __file__.replace("\\", "/").rpartition("/")[0]
    try:
        for name, folder in (("ralph", hooks.rpartition("/")[0]), ("ralph.hooks", hooks)):
            bare = type(sys)(name)
            bare.__path__ = [folder]
            sys.modules[name] = bare
        from ralph.hooks.fast import start  # noqa: PLC0415 - the packages must be there first

        start(sys.argv[1:], hooks)
    except BaseException:  # noqa: BLE001, S110 - a host would take any other exit code, or a message, as ours
        pass


if __name__ == "__main__":
    main()
    sys.exit(0)
