"""Match the files that the setting `privacy.paths` makes private.

Events that mention such a file are not recorded. Tools mention files in many forms, so a file name
is looked for in parameters and in output alike: `src/key.pem:12:`, `a/src/key.pem` in a patch, or
`file:///home/ada/key.pem`.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, discovery
from ralph.privacy.json_values import all_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Json = dict[str, object]

_FILE_NAME = r"[^\s\"'`()<>=,;|&\[\]{}]{1,1000}"
_LINE_NUMBER = r"(?s):\d+(?:[:-]\d+)?(?::.*)?$|[:.]+$"
_MAX_LISTING = 400_000  # characters of a text to search for file names
_NO_MATCH = r"(?!)"


class PrivatePaths:
    """The globs in `privacy.paths`.

    A glob that has no slash or begins with `**/` matches anywhere. Any other glob matches from the
    session's folder or from the root of the file system. Everything inside a matching folder is
    private. Case is ignored, and so is whether accents are characters of their own: hiding too much
    is a nuisance, hiding too little is a leak.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        from fnmatch import translate  # few projects have globs
        from os.path import expanduser

        anywhere: list[str] = []
        rooted: list[str] = []
        for raw_glob in globs:
            glob = discovery.composed(_with_slashes(expanduser(raw_glob.strip())))
            glob = glob.lower().removeprefix("./")
            glob = glob.rstrip("/").removesuffix("/**")
            if not glob:
                continue
            regex = translate(glob.removeprefix("**/")).removesuffix(r"\Z").removesuffix(r"\z")
            if glob.startswith("**/") or "/" not in glob:
                anywhere.append(regex)
            else:
                rooted.append(regex)
        self._anywhere = re.compile(_NO_MATCH)
        self._rooted = re.compile(_NO_MATCH)
        if anywhere:
            self._anywhere = re.compile(rf"(?:^|/)(?:{'|'.join(anywhere)})(?=/|\Z)")
        if rooted:
            self._rooted = re.compile(rf"(?:{'|'.join(rooted)})(?=/|\Z)")

    def match(self, name: str, folder: str) -> bool:
        """Check whether a file is private or inside a private folder."""
        from os.path import expanduser, join, normpath  # few projects have globs

        folder = discovery.composed(_with_slashes(folder))
        name = discovery.composed(_with_slashes(name))
        full = _with_slashes(normpath(join(folder, expanduser(name)))).lower()
        inner = full
        if folder:
            inner = full.removeprefix(folder.rstrip("/") + "/")
        return bool(
            self._anywhere.search(full.strip("/"))
            or self._rooted.match(full)
            or self._rooted.match(inner)
        )

    def named_in(self, texts: Iterable[str], names: Iterable[str], folder: str) -> bool:
        """Check whether a private file is among the names or is mentioned in the texts.

        The output of `git diff`, for example, mentions files.
        """
        folder = folder.lower()
        for name in {*names, *_file_names(texts)}:
            if name and "\0" not in name and self.match(name.lower(), folder):
                return True
        return False


def _with_slashes(path: str) -> str:
    """Return a path with slashes, on every system: a team shares its globs."""
    return path.replace("\\", "/")


def _file_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield everything that may be a file name.

    This includes names in forms such as `name:12:`, and `a/name` in a patch.
    """
    for text in texts:
        distinct = set(re.findall(_FILE_NAME, text[:_MAX_LISTING]))  # output repeats its names
        for match in distinct:
            name = re.sub(_LINE_NUMBER, "", match).removeprefix("file://")
            yield name
            if name.startswith(("a/", "b/", "@/")):
                yield name[2:]
            elif name.startswith("@"):
                yield name[1:]
            if ":" in name:
                yield from filter(None, name.split(":"))


def mentions_private_path(payload: Json, globs: Sequence[str]) -> bool:
    """Check whether a tool's payload names a private file."""
    answer = payload.get("tool_response")
    folder = payload.get("cwd")
    if isinstance(answer, dict) and "originalFile" in answer:
        answer = answer.get("filePath")  # the rest is the file's content
    texts = all_texts([payload.get("tool_input"), answer, payload.get("error")])
    if not isinstance(folder, str):
        folder = ""
    return PrivatePaths(globs).named_in(texts, (), folder)
