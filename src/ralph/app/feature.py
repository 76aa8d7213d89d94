"""`ralph feature ...`: what several tasks build together, one folder each in `.ralph/features/` of the main checkout.

`feature.json` is Ralph's, `spec.md` and `plan.md` are people's: they are made once, with headings to fill in, and
never written again. Their text goes into the prompt of each task of the feature, private parts aside;
headings alone are left out.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app.tasks import board
from ralph.app.tasks.board import UnreadableFile, parse_time
from ralph.capture import privacy
from ralph.errors import Conflict, NotFound, RalphError, UsageError
from ralph.formats.work import is_unwritten, new_plan, new_spec, parse_feature, render_feature
from ralph.model import ids
from ralph.model.work import Feature, Task
from ralph.store import files
from ralph.store.files import hide_state


@dataclass(frozen=True, slots=True)
class FeatureLocation:
    """A feature and the file that holds it."""

    feature: Feature
    path: Path


@dataclass(frozen=True, slots=True)
class AddedFeature:
    """A new feature, its folder, and how many private parts were left out of its words."""

    feature: Feature
    folder: Path
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class FeatureProgress:
    """A feature, and how far its tasks are."""

    feature: Feature
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class FeatureView:
    """One feature with its tasks, its spec and its plan."""

    listed: FeatureProgress
    folder: Path
    tasks: tuple[Task, ...] = ()
    spec: str = ""
    plan: str = ""


def add(
    root: Path, title: str, description: str = "", *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> AddedFeature:
    """Add a feature, with a spec.md and a plan.md to fill in."""
    name = privacy.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    body = privacy.clean_description(description, "description", allow_secret=allow_secret, patterns=patterns)
    folder, state = paths.features_folder(root), paths.main_checkout(root)
    files.make_folder(folder, root=state)
    hide_state(root)
    with files.lock(folder / "feature.json"):
        taken = {each.feature.id for each in _read(root)[0]}
        while (minted := ids.short("f")) in taken or (folder / minted).exists():
            pass
        now = board.stamp()
        feature = Feature(minted, name.text, body.text, created_at=now, updated_at=now)
        files.write(folder / minted / "feature.json", render_feature(feature), root=state, expect="")
        for file, text in (("spec.md", new_spec(feature)), ("plan.md", new_plan(feature))):
            with contextlib.suppress(Conflict):  # somebody has written it already
                files.write(folder / minted / file, text, root=state, expect="")
    return AddedFeature(feature, folder / minted, name.private + body.private)


def list_(root: Path) -> tuple[list[FeatureProgress], tuple[UnreadableFile, ...]]:
    """Every feature, the oldest first, and the files that could not be read."""
    found, unread = _read(root)
    everything = board.read(root)
    done: dict[str, list[bool]] = {}
    for task in everything.tasks:
        done.setdefault(task.feature or "", []).append(task.id in everything.done)
    listed = [
        FeatureProgress(each.feature, sum(done.get(each.feature.id, ())), len(done.get(each.feature.id, ())))
        for each in found
    ]
    return listed, unread


def find(root: Path, feature_id: str) -> FeatureLocation:
    """The feature with this id; NotFound when there is none."""
    for each in _read(root)[0]:
        if each.feature.id == feature_id:
            return each
    raise NotFound(f"there is no feature {feature_id}", hint="`ralph feature list` names them")


def names(root: Path, *given: str) -> tuple[str, ...]:
    """What features are called, given by an id or a title: both of each, and what is no feature's as it is."""
    wanted = dict.fromkeys(name.strip() for name in given if name.strip())
    found = [(each.feature.id, each.feature.title) for each in _read(root)[0]] if wanted else []
    folded = {name.casefold() for name in wanted}
    both = (name for pair in found if {each.casefold() for each in pair} & folded for name in pair)
    return tuple(dict.fromkeys((*wanted, *both)))


def resolve_name(root: Path, name: str) -> str:
    """The id or title of a feature, as it is spelled; UsageError names those that there are when it is none.

    Where a project keeps no features, a name is a label of its own; what has the form of an id never is.
    """
    there = [each.feature for each in _read(root)[0]] if name.strip() else []
    folded = name.strip().casefold()
    spelled = {word.casefold(): word for each in there for word in (each.id, each.title)}
    if folded in spelled or (not there and not _ID.fullmatch(folded)):
        return spelled.get(folded, name)
    listed = ", ".join(f"{each.id} ({each.title})" for each in there[:_MAX_NAMES])
    more = f" and {len(there) - _MAX_NAMES} more" if len(there) > _MAX_NAMES else ""
    hint = (
        f"the features are {listed}{more}" if there else "this project has no features; `ralph feature add` makes one"
    )
    raise UsageError(f"there is no feature {name.strip()}", hint=hint)


_ID = re.compile(r"f-[0-9a-f]{6}")
_MAX_NAMES = 10


def show(root: Path, feature_id: str) -> FeatureView:
    """One feature with its tasks, its spec and its plan."""
    place = find(root, feature_id)
    everything = board.read(root)
    tasks = tuple(task for task in everything.tasks if task.feature == feature_id)
    count = sum(task.id in everything.done for task in tasks)
    folder = place.path.parent
    listed = FeatureProgress(place.feature, count, len(tasks))
    return FeatureView(listed, folder, tasks, _read_page(folder / "spec.md"), _read_page(folder / "plan.md"))


def spec(root: Path, feature_id: str) -> str:
    """Return what the feature should do, for a prompt; "" while nobody has written it."""
    return _read_page(find(root, feature_id).path.with_name("spec.md"))


def plan(root: Path, feature_id: str) -> str:
    """Return how the feature is built, for a prompt; "" while nobody has written it."""
    return _read_page(find(root, feature_id).path.with_name("plan.md"))


def _read_page(path: Path) -> str:
    text = files.read(path) or ""
    bare, _ = privacy.strip_private(text)
    return "" if is_unwritten(bare) else bare


def _read(root: Path) -> tuple[list[FeatureLocation], tuple[UnreadableFile, ...]]:
    """Every feature, the oldest first; of two with one id the first counts."""
    placed: dict[str, FeatureLocation] = {}
    unread: list[UnreadableFile] = []
    for path in sorted(paths.features_folder(root).glob("*/feature.json")):
        try:
            feature, problems = parse_feature(files.read(path) or "")
        except RalphError as error:
            unread.append(UnreadableFile(path, error.message.removeprefix(f"{path}: ")))
            continue
        if feature is None:
            first = problems[0] if problems else None
            unread.append(UnreadableFile(path, f"line {first.line}: {first.what}" if first else "it holds no feature"))
        elif feature.id in placed:
            unread.append(UnreadableFile(path, f"a second feature has the id {feature.id}"))
        else:
            placed[feature.id] = FeatureLocation(feature, path)
    ordered = sorted(placed.values(), key=lambda each: (parse_time(each.feature.created_at), each.feature.id))
    return ordered, tuple(unread)
