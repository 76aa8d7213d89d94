"""Build the wheel and the sdist of a release and check them: `make release`.

Everything is checked that can be checked without uploading: the version, the metadata, the
contents, that a second build from a clone gives the same bytes, and that the wheel works in a new
environment. The last line says how to upload; that is left to a person.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.metadata import Metadata
from trove_classifiers import classifiers as known_classifiers

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_FOLDER = "src/ralph/"
GENERATED_IN_SDIST = frozenset({"PKG-INFO"})
GENERATED_IN_WHEEL = frozenset({"METADATA", "RECORD", "WHEEL", "entry_points.txt"})
_HEADING = re.compile(r"^## (\S+) \((.+)\)$", re.MULTILINE)
_RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)[^)]+\)")
UNRELEASED = "unreleased"


class NotReleasable(Exception):
    """Says in one line why this cannot be released."""


class Artefacts(NamedTuple):
    """The two files of a release."""

    wheel: Path
    sdist: Path


# --- checks ---------------------------------------------------------------------------------------


def check_version(version: str, changelog: str) -> str:
    """Return the date of the version in the changelog, which must be its first heading."""
    heading = _HEADING.search(changelog)
    if heading is None:
        raise NotReleasable("CHANGELOG.md has no heading such as `## 0.1.0 (2026-01-31)`")
    if heading[1] != version:
        raise NotReleasable(f"CHANGELOG.md begins with {heading[1]}, but the version is {version}")
    return heading[2]


def check_metadata(content: bytes, version: str) -> None:
    """Check the metadata of an artefact as a registry does."""
    try:
        metadata = Metadata.from_email(content, validate=True)
    except ExceptionGroup as error:
        causes = "; ".join(map(str, error.exceptions))
        raise NotReleasable(f"invalid metadata: {causes}") from error
    if str(metadata.version) != version:
        raise NotReleasable(f"the metadata has version {metadata.version}, not {version}")
    for classifier in metadata.classifiers or ():
        if classifier not in known_classifiers:
            raise NotReleasable(f"unknown classifier: {classifier}")
    if not metadata.description or metadata.description_content_type != "text/markdown":
        raise NotReleasable("the README is missing from the metadata")


def check_names(kind: str, names: Collection[str], expected: Collection[str]) -> None:
    """Check that an artefact has the expected files and no others."""
    missing = sorted(set(expected) - set(names))
    if missing:
        raise NotReleasable(f"the {kind} lacks {', '.join(missing)}")
    unexpected = sorted(set(names) - set(expected))
    if unexpected:
        raise NotReleasable(f"the {kind} has unexpected files: {', '.join(unexpected)}")


def check_sdist(sdist: Path, tracked: Iterable[str], version: str) -> None:
    """Check that an sdist has exactly the files that git tracks, and valid metadata."""
    top = f"ralph_memory-{version}/"
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        foreign = [name for name in names if not name.startswith(top)]
        if foreign:
            raise NotReleasable(f"the sdist has files outside {top}: {', '.join(foreign)}")
        check_names(
            "sdist",
            {name.removeprefix(top) for name in names},
            {*tracked, *GENERATED_IN_SDIST},
        )
        metadata = archive.extractfile(f"{top}PKG-INFO")
        check_metadata(metadata.read() if metadata else b"", version)


def check_wheel(wheel: Path, tracked: Iterable[str], licences: Iterable[str], version: str) -> None:
    """Check that a wheel has exactly the package that git tracks, and valid metadata."""
    info = f"ralph_memory-{version}.dist-info/"
    package = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE_FOLDER)}
    generated = {f"{info}{name}" for name in GENERATED_IN_WHEEL}
    licence_files = {f"{info}licenses/{name}" for name in licences}
    with zipfile.ZipFile(wheel) as archive:
        check_names("wheel", archive.namelist(), package | generated | licence_files)
        check_metadata(archive.read(f"{info}METADATA"), version)


def check_same(first: Artefacts, second: Artefacts) -> None:
    """Check that two builds have the same bytes."""
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise NotReleasable(f"{one.name} differs between two builds of the same commit")


# --- building -------------------------------------------------------------------------------------


def run(*words: str | Path, cwd: Path, env: Mapping[str, str] = os.environ) -> str:
    """Run a command and return its output. Raises NotReleasable if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=dict(env),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        shown = " ".join(map(str, words))
        raise NotReleasable(f"`{shown}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked_files(root: Path) -> list[str]:
    """Return the files of a commit. Raises NotReleasable if the work tree differs from it."""
    changed = run("git", "status", "--porcelain", cwd=root)
    if changed:
        raise NotReleasable(f"commit or remove these first:\n{changed.rstrip()}")
    return run("git", "ls-files", "-z", cwd=root).split("\0")[:-1]


def build(root: Path, folder: Path) -> Artefacts:
    """Build the sdist, and the wheel from the sdist, with the time of the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    commit_time = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        folder,
        root,
        cwd=root,
        env={**os.environ, "SOURCE_DATE_EPOCH": commit_time},
    )
    [wheel] = folder.glob("*.whl")
    [sdist] = folder.glob("*.tar.gz")
    return Artefacts(wheel, sdist)


def try_wheel(wheel: Path, version: str, folder: Path) -> None:
    """Install a wheel into a new environment and run the demo there.

    The program is given nothing but a home and a PATH, so that no setting of ours can help it.
    """
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / "bin"
    home = folder / "home"
    home.mkdir()
    env = {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    python = str(programs / "python")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, wheel, cwd=folder)
    shown = run(programs / "ralph", "--version", cwd=folder, env=env).strip()
    if shown != f"ralph {version}":
        raise NotReleasable(f"the installed program calls itself {shown!r}")
    run(programs / "ralph", "demo", cwd=folder, env=env)


def licence_files(root: Path) -> list[str]:
    """Return the licence files that pyproject.toml names."""
    import tomllib

    with (root / "pyproject.toml").open("rb") as file:
        names: list[str] = tomllib.load(file)["project"]["license-files"]
    return names


def current_version(root: Path) -> str:
    """Return the version of the package."""
    text = (root / PACKAGE_FOLDER / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise NotReleasable("src/ralph/__init__.py has no __version__")
    return found[1]


def release(root: Path, dist: Path) -> Artefacts:
    """Build both artefacts into a folder and check them. Raises NotReleasable."""
    version = current_version(root)
    date = check_version(version, (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    tracked = tracked_files(root)
    artefacts = build(root, dist)
    check_sdist(artefacts.sdist, tracked, version)
    check_wheel(artefacts.wheel, tracked, licence_files(root), version)
    print(f"metadata and contents: {len(tracked)} files, as git tracks them")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("git", "clone", "--quiet", root, folder / "clone", cwd=folder)
        check_same(artefacts, build(folder / "clone", folder / "dist"))
        print("reproducible: a build from a clone has the same bytes")
        try_wheel(artefacts.wheel, version, folder)
        print("the wheel works in a new environment")
    for remark in remarks(root, date):
        print(f"before uploading: {remark}")
    return artefacts


def remarks(root: Path, date: str) -> list[str]:
    """Return what a person has to decide before the upload."""
    found = []
    if date == UNRELEASED:
        found.append(f"CHANGELOG.md still says ({UNRELEASED}); write the date there")
    links = _RELATIVE_LINK.findall((root / "README.md").read_text(encoding="utf-8"))
    if links:
        found.append(
            f"README.md has {len(links)} relative links, which lead nowhere on a registry's page"
        )
    return found


def main() -> int:
    """Run the checks and say how to upload."""
    try:
        artefacts = release(ROOT, ROOT / "dist")
    except NotReleasable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    names = " ".join(f"dist/{path.name}" for path in artefacts)
    print(f"Nothing was uploaded. To upload, run: uv publish {names}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
