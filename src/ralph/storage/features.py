"""Read a project's features and find them by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError, UsageError
from ralph.core.spelling import did_you_mean
from ralph.core.work import Feature, Task
from ralph.formats.feature_files import parse_feature
from ralph.storage import files
from ralph.storage.board import UnreadableFile, parse_time


@dataclass(frozen=True, slots=True)
class FeatureView:
    """A feature and its folder.

    `tasks`, `done` (the number of finished tasks), `spec` and `plan` are empty unless requested.
    """

    feature: Feature
    folder: Path
    tasks: tuple[Task, ...] = ()
    done: int = 0
    spec: str = ""
    plan: str = ""
    private_parts: int = 0


def names(root: Path, *given: str) -> tuple[str, ...]:
    """Return the given names, plus the id and title of every feature they refer to.

    A name that refers to no feature is returned unchanged.
    """
    wanted = [name.strip() for name in given if name.strip()]
    if not wanted:
        return ()
    folded = {name.casefold() for name in wanted}
    found = list(wanted)
    features, _ = _read(root)
    for view in features:
        feature = view.feature
        if feature.id.casefold() in folded or feature.title.casefold() in folded:
            found += [feature.id, feature.title]
    return tuple(dict.fromkeys(found))


def title_of(root: Path, name: str) -> str:
    """Return the title of the feature with the id `name`, or `name` itself if there is none."""
    features, _ = _read(root)
    for view in features:
        if name and view.feature.id == name:
            return view.feature.title
    return name


def resolve_name(root: Path, name: str) -> str:
    """Return a feature's id or title in its exact spelling.

    A project without features may use any label, which is returned unchanged. Raises UsageError if
    the project has features but none with this id or title.
    """
    stripped = name.strip()
    if not stripped:
        return name
    features, _ = _read(root)
    if not features:
        return name
    spellings: dict[str, str] = {}
    for view in features:
        spellings[view.feature.id.casefold()] = view.feature.id
        spellings[view.feature.title.casefold()] = view.feature.title
    spelling = spellings.get(stripped.casefold())
    if spelling is None:
        raise UsageError(
            f"Feature not found: {stripped}{did_you_mean(stripped, spellings.values())}",
            hint="`ralph feature show` lists them",
        )
    return spelling


def _read(root: Path) -> tuple[list[FeatureView], tuple[UnreadableFile, ...]]:
    """Return the features, oldest first, and the files that could not be read."""
    views = dict[str, FeatureView]()
    unread = list[UnreadableFile]()
    for path in sorted(paths.features_folder(root).glob("*/feature.json")):
        try:
            feature, problems = parse_feature(files.read(path) or "")
        except RalphError as error:
            unread.append(UnreadableFile(path, error.message.removeprefix(f"{path}: ")))
            continue
        if feature is None:
            reason = "it contains no feature"
            if problems:
                reason = f"line {problems[0].line}: {problems[0].what}"
            unread.append(UnreadableFile(path, reason))
        elif feature.id in views:
            unread.append(UnreadableFile(path, f"a second feature has the id {feature.id}"))
        else:
            views[feature.id] = FeatureView(feature, path.parent)
    ordered = sorted(
        views.values(), key=lambda view: (parse_time(view.feature.created_at), view.feature.id)
    )
    return ordered, tuple(unread)
