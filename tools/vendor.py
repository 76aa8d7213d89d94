"""Fetch the front end's libraries from npm, and adapt them.

`python tools/vendor.py` asks npm for each package at the version in PACKAGES, extracts the files that
it names, and applies CHANGES: browsers do not resolve bare import names, and the content security
policy of the pages allows no style elements. The result is `src/ralph/web/static/vendor/` with
`versions.json` (name, version, licence, npm's integrity, our sha256) and `LICENSES.txt`. A version
whose archive differs from the recorded one is refused. `--check` needs no network: it compares the
files with `versions.json`.

A change that finds nothing to change is an error, so that a person reviews a new version of a
package. `tests/test_vendor.py` runs the check, and each change on small texts.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "src" / "ralph" / "web" / "static" / "vendor"
RECORD, LICENSES = "versions.json", "LICENSES.txt"

NEIGHBOURS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
"""Which file stands for which bare import name."""


class Refused(Exception):
    """What was fetched or found is not what was expected."""


def relative_imports(text: str) -> str:
    """Bare import names become the files beside."""
    changed, count = re.subn(
        r'from\s*"([@a-z][^"]*)"',
        lambda found: f'from"{NEIGHBOURS[found[1]]}"',
        text,
    )
    return _changed(changed, count, "bare import names")


def no_source_map(text: str) -> str:
    """The source map is not shipped, so nothing points to it."""
    changed, count = re.subn(r"\n?//# sourceMappingURL=\S+\s*$", "\n", text)
    return _changed(changed, count, "a source map")


def no_style_element(text: str) -> str:
    """Style elements added by the script are cut out; the rules it needs are in style/explorer.css."""
    changed, count = re.subn(
        r'!function\((\w),(\w)\)\{void 0===\2&&\(\2=\{\}\);var (?:(?!\}\}\(").)*createElement\("style"\).*?\}\}'
        r'\("(?:[^"\\]|\\.)*"\);',
        "",
        text,
    )
    return _changed(changed, count, "style elements")


def global_as_default(name: str) -> Callable[[str], str]:
    """A change that lets a script which makes one global name be imported as a module."""

    def change(text: str) -> str:
        made = name.removeprefix("globalThis")  # a bundle may reach globalThis under a short name
        return _changed(f"{text.rstrip()}\nexport default {name};\n", text.count(made), name)

    change.__doc__ = f"One line at the end exports {name}."
    return change


def _changed(text: str, count: int, what: str) -> str:
    if not count:
        raise Refused(
            f"There is no trace of {what} in the text: look at the new version, then change this script."
        )
    return text


@dataclass(frozen=True, slots=True)
class Take:
    """One file of a package: where it is there, what it is called here, what is changed in it."""

    source: str
    target: str
    changes: tuple[Callable[[str], str], ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """One package of npm; `inside` names the package whose bundle holds it, when no file of it is taken."""

    name: str
    version: str
    licence: str
    takes: tuple[Take, ...] = ()
    inside: str = ""

    @property
    def spec(self) -> str:
        """The words for npm."""
        return f"{self.name}@{self.version}"


FORCE_CHANGES = (no_style_element, global_as_default("globalThis.ForceGraph"))

PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "MIT",
        (
            Take("dist/preact.mjs", "preact.js", (no_source_map,)),
            Take("hooks/dist/hooks.mjs", "hooks.js", (no_source_map, relative_imports)),
        ),
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        (Take("dist/signals-core.mjs", "signals-core.js", (no_source_map,)),),
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "MIT",
        (Take("dist/signals.mjs", "signals.js", (no_source_map, relative_imports)),),
    ),
    Package("htm", "3.1.1", "Apache-2.0", (Take("dist/htm.mjs", "htm.js"),)),
    Package(
        "force-graph",
        "1.52.0",
        "MIT",
        (Take("dist/force-graph.min.js", "force-graph.js", FORCE_CHANGES),),
    ),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        (
            Take("dist/uPlot.iife.min.js", "uplot.js", (global_as_default("uPlot"),)),
            Take("dist/uPlot.min.css", "uplot.css"),
        ),
    ),
    *(
        Package(name, version, licence, inside="force-graph")
        for name, version, licence in (
            ("@tweenjs/tween.js", "25.0.0", "MIT"),
            ("accessor-fn", "1.5.3", "MIT"),
            ("bezier-js", "6.1.4", "MIT"),
            ("canvas-color-tracker", "1.3.2", "MIT"),
            ("d3-array", "3.2.5", "ISC"),
            ("d3-binarytree", "1.0.2", "MIT"),
            ("d3-color", "3.1.1", "ISC"),
            ("d3-dispatch", "3.0.2", "ISC"),
            ("d3-drag", "3.0.1", "ISC"),
            ("d3-ease", "3.0.2", "BSD-3-Clause"),
            ("d3-force-3d", "3.0.6", "MIT"),
            ("d3-format", "3.1.3", "ISC"),
            ("d3-interpolate", "3.0.2", "ISC"),
            ("d3-octree", "1.1.0", "MIT"),
            ("d3-quadtree", "3.0.2", "ISC"),
            ("d3-scale", "4.0.3", "ISC"),
            ("d3-scale-chromatic", "3.1.1", "ISC"),
            ("d3-selection", "3.0.1", "ISC"),
            ("d3-time", "3.1.1", "ISC"),
            ("d3-time-format", "4.1.1", "ISC"),
            ("d3-timer", "3.0.2", "ISC"),
            ("d3-transition", "3.0.2", "ISC"),
            ("d3-zoom", "3.0.1", "ISC"),
            ("float-tooltip", "1.7.5", "MIT"),
            ("index-array-by", "1.4.2", "MIT"),
            ("internmap", "2.0.3", "ISC"),
            ("kapsule", "1.16.3", "MIT"),
            ("lodash-es", "4.18.1", "MIT"),
            ("preact", "10.29.8", "MIT"),
            ("tinycolor2", "1.6.0", "MIT"),
        )
    ),
)
"""What force-graph's bundle holds is told by its dependencies; which version its author built with is not recorded
there, so those are the newest in range, taken for their licence texts alone."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A package's archive, read."""

    package: Package
    integrity: str
    licence_text: str
    files: tuple[tuple[Take, str], ...]


def fetch(package: Package, folder: Path) -> Fetched:
    """The package from npm, with its integrity worked out from the bytes that came."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", package.spec]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, encoding="utf-8")
    archive = folder / done.stdout.split()[-1]
    digest = hashlib.sha512(archive.read_bytes()).digest()
    with tarfile.open(archive) as opened:
        texts = {
            member.name.partition("/")[2]: member
            for member in opened.getmembers()
            if member.isfile()
        }

        def read(name: str) -> str:
            stream = opened.extractfile(texts[name])
            return stream.read().decode("utf-8") if stream else ""

        told = str(json.loads(read("package.json")).get("license", ""))
        if told != package.licence:
            raise Refused(f"{package.spec} is under {told!r}, not {package.licence!r}.")
        licence = next(
            (read(name) for name in sorted(texts) if re.fullmatch(r"(?i)licen[cs]e(\.\w+)?", name)),
            "",
        )
        files = tuple((take, read(take.source)) for take in package.takes)
    return Fetched(package, f"sha512-{base64.b64encode(digest).decode('ascii')}", licence, files)


def changed(take: Take, text: str) -> str:
    """The file as it is shipped."""
    for change in take.changes:
        text = change(text)
    return text


def entry(fetched: Fetched) -> dict[str, object]:
    """The package's lines in versions.json."""
    package = fetched.package
    files = [
        {
            "file": take.target,
            "from": take.source,
            "changes": [str(change.__doc__) for change in take.changes],
            "sha256": hashlib.sha256(changed(take, text).encode("utf-8")).hexdigest(),
        }
        for take, text in fetched.files
    ]
    return {
        "name": package.name,
        "version": package.version,
        "licence": package.licence,
        "integrity": fetched.integrity,
        **({"inside": package.inside} if package.inside else {"files": files}),
    }


def licences(all_fetched: list[Fetched]) -> str:
    """All licence texts, each under the packages' names; the same text is written once."""
    texts: dict[str, list[str]] = {}
    for fetched in all_fetched:
        words = fetched.package.spec + (
            f" (inside {fetched.package.inside})" if fetched.package.inside else ""
        )
        text = (
            fetched.licence_text.strip()
            or f"(The archive holds no text; its package.json says: {fetched.package.licence}.)"
        )
        texts.setdefault("\n".join(line.rstrip() for line in text.splitlines()), []).append(words)
    return "\n".join(
        f"{'=' * 80}\n{chr(10).join(names)}\n{'=' * 80}\n\n{text}\n"
        for text, names in texts.items()
    )


def vendor(folder: Path = VENDOR) -> None:
    """Fetches everything anew and writes the folder."""
    before = {(row["name"], row["version"]): row["integrity"] for row in recorded(folder)}
    with tempfile.TemporaryDirectory() as scratch:
        everything = [fetch(package, Path(scratch)) for package in PACKAGES]
    for fetched in everything:
        known = before.get((fetched.package.name, fetched.package.version), fetched.integrity)
        if known != fetched.integrity:
            raise Refused(
                f"{fetched.package.spec} is no longer the archive that was recorded: {known}."
            )
    files = {
        take.target: changed(take, text) for fetched in everything for take, text in fetched.files
    }
    rows = [entry(fetched) for fetched in everything]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _write(folder / name, text)
    _write(folder / LICENSES, licences(everything))
    _write(
        folder / RECORD,
        json.dumps({"made_by": "tools/vendor.py", "packages": rows}, indent=2) + "\n",
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")


def recorded(folder: Path = VENDOR) -> list[dict[str, str]]:
    """The packages of versions.json, or none yet."""
    path = folder / RECORD
    return list(json.loads(path.read_text(encoding="utf-8"))["packages"]) if path.exists() else []


def problems(folder: Path = VENDOR) -> Iterator[str]:
    """What in the folder is not as recorded, each a sentence."""
    if not (folder / RECORD).exists():
        yield f"{RECORD} is missing: run this script without --check."
        return
    rows = json.loads((folder / RECORD).read_text(encoding="utf-8"))["packages"]
    wanted = {(package.name, package.version, package.licence) for package in PACKAGES}
    there = {(row["name"], row["version"], row["licence"]) for row in rows}
    yield from (
        f"{name}@{version} is not both in PACKAGES and in {RECORD}."
        for name, version, _ in wanted ^ there
    )
    files = {one["file"]: one["sha256"] for row in rows for one in row.get("files", ())}
    targets = {take.target for package in PACKAGES for take in package.takes}
    yield from (
        f"{name} is not both in PACKAGES and in {RECORD}." for name in sorted(targets ^ set(files))
    )
    present = {path.name for path in folder.iterdir()}
    yield from (
        f"{name} is there, and nobody knows where from."
        for name in sorted(present - {*files, RECORD, LICENSES})
    )
    for name, digest in sorted(files.items()):
        if name not in present:
            yield f"{name} is missing."
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            yield f"{name} is not the file that was recorded."
    told = (folder / LICENSES).read_text(encoding="utf-8") if LICENSES in present else ""
    yield from (
        f"{package.spec} has no text in {LICENSES}."
        for package in PACKAGES
        if package.spec not in told
    )


def main(arguments: list[str] | None = None) -> int:
    """Fetches and writes, or with --check compares; 0 when all is well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare what is there; needs no network"
    )
    if parser.parse_args(arguments).check:
        found = list(problems())
        sys.stdout.writelines(
            f"{line}\n" for line in found or ["All vendored files are as recorded."]
        )
        return 1 if found else 0
    try:
        vendor()
    except Refused as refused:
        sys.stderr.write(f"{refused}\n")
        return 1
    sys.stdout.write(f"Wrote {VENDOR.relative_to(ROOT)}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
