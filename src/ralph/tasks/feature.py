"""Implement `ralph feature`. A feature is something that several tasks build together.

Each feature has a folder in `.ralph/features/` in the main checkout. `feature.json` belongs to
Ralph. `spec.md` and `plan.md` belong to people: Ralph creates them once, with headings to fill in,
and never writes to them again. Their text, without private sections, goes into the prompt for every
task of the feature.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict
from ralph.core.work import Feature
from ralph.formats.feature_files import is_unwritten, new_plan, new_spec, render_feature
from ralph.storage import board, files, task_files
from ralph.storage.board import Board, UnreadableFile
from ralph.storage.features import FeatureView, _read
from ralph.storage.gitignore import ensure_gitignore


def add(
    root: Path,
    title: str,
    description: str = "",
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> FeatureView:
    """Add a feature, with a spec.md and a plan.md for people to fill in."""
    from ralph.privacy import privacy

    clean_title = privacy.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    clean_description = privacy.clean_description(
        description, "description", allow_secret=allow_secret, patterns=patterns
    )
    features_folder = paths.features_folder(root)
    boundary = paths.main_checkout(root)
    files.make_folder(features_folder, root=boundary)
    ensure_gitignore(root)
    with files.lock(features_folder / "feature.json"):
        feature_id = _fresh_id(root, features_folder)
        now = board.precise_timestamp()
        feature = Feature(
            feature_id, clean_title.text, clean_description.text, created_at=now, updated_at=now
        )
        folder = features_folder / feature_id
        files.write(folder / "feature.json", render_feature(feature), root=boundary, expect="")
        for name, text in (("spec.md", new_spec(feature)), ("plan.md", new_plan(feature))):
            with contextlib.suppress(Conflict):  # somebody has already written it
                files.write(folder / name, text, root=boundary, expect="")
    private_parts = clean_title.private + clean_description.private
    return FeatureView(feature, folder, private_parts=private_parts)


def _fresh_id(root: Path, features_folder: Path) -> str:
    """Return a new id that is not used by any feature or folder."""
    features, _ = _read(root)
    taken = {view.feature.id for view in features}
    while True:
        feature_id = ids.short("f")
        if feature_id not in taken and not (features_folder / feature_id).exists():
            return feature_id


def list_(root: Path) -> tuple[list[FeatureView], tuple[UnreadableFile, ...]]:
    """Return all features with their tasks, oldest first, and the files that are unreadable."""
    everything = task_files.read_board(root)
    features, unread = _read(root)
    return [_with_tasks(view, everything) for view in features], unread


def _with_tasks(view: FeatureView, everything: Board) -> FeatureView:
    tasks = [task for task in everything.tasks if task.feature == view.feature.id]
    done = [task for task in tasks if task.id in everything.done]
    return replace(view, tasks=tuple(tasks), done=len(done))


def find(root: Path, feature_id: str) -> FeatureView:
    """Return the feature with this id.

    Raises NotFound if there is none.
    """
    features, _ = _read(root)
    for view in features:
        if view.feature.id == feature_id:
            return view
    known = [view.feature.id for view in features]
    raise ids.not_found("feature", feature_id, known=known, hint="`ralph feature show` lists them")


def show(root: Path, feature_id: str) -> FeatureView:
    """Return a feature with its tasks, its spec and its plan.

    The spec and the plan are "" as long as nobody has filled them in.
    """
    view = _with_tasks(find(root, feature_id), task_files.read_board(root))
    spec = _read_page(view.folder / "spec.md")
    plan = _read_page(view.folder / "plan.md")
    return replace(view, spec=spec, plan=plan)


def _read_page(path: Path) -> str:
    """Return a page's text without private sections, or "" if nobody has filled it in."""
    from ralph.privacy import privacy

    text, _ = privacy.strip_private(files.read(path) or "")
    if is_unwritten(text):
        return ""
    return text
