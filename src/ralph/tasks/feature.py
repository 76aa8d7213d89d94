"""`ralph feature ...`: what several tasks build together, one folder each in `.ralph/features/` of the main checkout.

`feature.json` is Ralph's, `spec.md` and `plan.md` are people's: they are made once, with headings to fill in, and
never written again. Their text goes into the prompt of each task of the feature, private parts aside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, RalphError, UsageError
from ralph.core.work import Feature, Task
from ralph.formats.work import is_unwritten, new_plan, new_spec, parse_feature, render_feature
from ralph.storage import board, files
from ralph.storage.board import Board, UnreadableFile, parse_time
from ralph.storage.files import hide_state


@dataclass(frozen=True, slots=True)
class FeatureView:
    """A feature and its folder; its tasks, how many are done, and its pages are empty where nobody asked for them."""

    feature: Feature
    folder: Path
    tasks: tuple[Task, ...] = ()
    done: int = 0
    spec: str = ""
    plan: str = ""
    private_parts: int = 0


def add(
    root: Path,
    title: str,
    description: str = "",
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> FeatureView:
    """Add a feature, with a spec.md and a plan.md to fill in."""
    from ralph.privacy import privacy

    name = privacy.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    body = privacy.clean_description(
        description, "description", allow_secret=allow_secret, patterns=patterns
    )
    folder = paths.features_folder(root)
    state = paths.main_checkout(root)
    files.make_folder(folder, root=state)
    hide_state(root)
    with files.lock(folder / "feature.json"):
        taken = {each.feature.id for each in _read(root)[0]}
        while (minted := ids.short("f")) in taken or (folder / minted).exists():
            pass
        now = board.stamp()
        feature = Feature(minted, name.text, body.text, created_at=now, updated_at=now)
        files.write(
            folder / minted / "feature.json", render_feature(feature), root=state, expect=""
        )
        for file, text in (("spec.md", new_spec(feature)), ("plan.md", new_plan(feature))):
            with contextlib.suppress(Conflict):  # somebody has written it already
                files.write(folder / minted / file, text, root=state, expect="")
    return FeatureView(feature, folder / minted, private_parts=name.private + body.private)


def list_(root: Path) -> tuple[list[FeatureView], tuple[UnreadableFile, ...]]:
    """Return every feature with its tasks, the oldest first, and the files that could not be read."""
    everything = board.read(root)
    features, unread = _read(root)
    return [_with_tasks(each, everything) for each in features], unread


def _with_tasks(view: FeatureView, everything: Board) -> FeatureView:
    tasks = tuple(task for task in everything.tasks if task.feature == view.feature.id)
    return replace(view, tasks=tasks, done=sum(task.id in everything.done for task in tasks))


def find(root: Path, feature_id: str) -> FeatureView:
    """Return the feature with this id; NotFound when there is none."""
    for each in _read(root)[0]:
        if each.feature.id == feature_id:
            return each
    raise NotFound(f"there is no feature {feature_id}", hint="`ralph feature list` names them")


def names(root: Path, *given: str) -> tuple[str, ...]:
    """Return ids and titles of features, given by either; what is no feature's name stays as it is."""
    wanted = dict.fromkeys(name.strip() for name in given if name.strip())
    pairs = [(each.feature.id, each.feature.title) for each in _read(root)[0]] if wanted else []
    folded = {name.casefold() for name in wanted}
    both = (name for pair in pairs if {each.casefold() for each in pair} & folded for name in pair)
    return tuple(dict.fromkeys((*wanted, *both)))


def title_of(root: Path, name: str) -> str:
    """Return the title of the feature with this id; a name that is no feature's id stays as it is."""
    return next(
        (each.feature.title for each in _read(root)[0] if name and each.feature.id == name), name
    )


def resolve_name(root: Path, name: str) -> str:
    """Return the id or title of a feature, as it is spelled; a label of its own where a project keeps no features."""
    features = [each.feature for each in _read(root)[0]] if name.strip() else []
    folded = name.strip().casefold()
    spelled = {word.casefold(): word for each in features for word in (each.id, each.title)}
    if features and folded not in spelled:
        raise UsageError(
            f"there is no feature {name.strip()}", hint="`ralph feature list` names them"
        )
    return spelled.get(folded, name)


def show(root: Path, feature_id: str) -> FeatureView:
    """Return one feature with its tasks, its spec and its plan; these are "" while nobody has written them."""
    from ralph.privacy import privacy

    view = _with_tasks(find(root, feature_id), board.read(root))
    texts = [
        privacy.strip_private(files.read(view.folder / name) or "")[0]
        for name in ("spec.md", "plan.md")
    ]
    spec, plan = ("" if is_unwritten(text) else text for text in texts)
    return replace(view, spec=spec, plan=plan)


def _read(root: Path) -> tuple[list[FeatureView], tuple[UnreadableFile, ...]]:
    views = dict[str, FeatureView]()
    unread = list[UnreadableFile]()
    for path in sorted(paths.features_folder(root).glob("*/feature.json")):
        try:
            feature, problems = parse_feature(files.read(path) or "")
        except RalphError as error:
            unread.append(UnreadableFile(path, error.message.removeprefix(f"{path}: ")))
            continue
        if feature is None:
            why = (
                f"line {problems[0].line}: {problems[0].what}"
                if problems
                else "it holds no feature"
            )
            unread.append(UnreadableFile(path, why))
        elif feature.id in views:
            unread.append(UnreadableFile(path, f"a second feature has the id {feature.id}"))
        else:
            views[feature.id] = FeatureView(feature, path.parent)
    ordered = sorted(
        views.values(), key=lambda each: (parse_time(each.feature.created_at), each.feature.id)
    )
    return ordered, tuple(unread)
