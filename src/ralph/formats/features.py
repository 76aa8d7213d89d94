"""feature.json: what several tasks build together, in a file that people also edit.

The sibling of task.json, with the same laws: only members that differ are written, unknown ones keep
their place, what has the wrong type is told and counts as absent. The words about a feature stand
beside it in `spec.md` and `plan.md`, which are people's texts: they have no codec, only a first form
(`new_spec`, `new_plan`), and `says_nothing` knows when nobody has written anything below the headings.
`tests/formats/test_features.py` holds the laws.
"""

import re
from dataclasses import dataclass, field

from ralph.errors import Refused
from ralph.formats import jsonedit
from ralph.formats.document import Problem
from ralph.formats.jsontext import BOM, Fields, Lines, Node, in_order, is_blank, read, unreadable
from ralph.model.work import Feature

FEATURE_KEYS = ("id", "title", "description", "status", "created_at", "updated_at")

_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")


def _members(feature: Feature) -> dict[str, object]:
    if not feature.id:
        raise Refused("a feature needs an id", hint="mint one, such as f-1a2b3c")
    return jsonedit.joined({key: getattr(feature, key) for key in FEATURE_KEYS}, feature.extra, FEATURE_KEYS)


@dataclass(frozen=True, slots=True)
class FeatureDocument:
    """A feature.json: its text, and the feature in it when there is one."""

    text: str
    feature: Feature | None
    problems: tuple[Problem, ...] = ()
    _root: Node | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def with_feature(self, feature: Feature) -> "FeatureDocument":
        """The document with another state of the feature; only members that differ are written."""
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable(self.problems)
            return parse_feature(text[: text.startswith(BOM)] + render_feature(feature))
        changes = jsonedit.difference(_members(self.feature) if self.feature else {}, _members(feature))
        style = jsonedit.style_of(text, root)
        return parse_feature(jsonedit.splice(text, root, jsonedit.object_text(text, root, style, changes)))


def parse_feature(text: str) -> FeatureDocument:
    """Reads a feature.json."""
    problems: list[Problem] = []
    root = _object(text, problems)
    feature = _feature(Fields(root, Lines(text), problems)) if root is not None else None
    return FeatureDocument(text, feature, in_order(problems), root)


def _object(text: str, problems: list[Problem]) -> Node | None:
    if is_blank(text):
        problems.append(Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file"))
        return None
    root = read(text)
    if isinstance(root, Problem):
        problems.append(root)
        return None
    if not isinstance(root.value, dict):
        hint = 'write the feature as {"id": ..., "title": ...}'
        line = Lines(text)(root.start)
        problems.append(Problem(line, "the file should hold one object", hint, "error", "not-an-object"))
        return None
    return root


def _feature(fields: Fields) -> Feature | None:
    name, title, status = fields.text("id"), fields.text("title"), fields.text("status")
    if not name:
        hint = 'add an "id" with a text that no other one has'
        fields.tell(fields.node.start, "a feature without an id is not read", hint, "error", "no-id")
        return None
    if title is None:
        hint = 'add a "title" that says in one line what it is'
        fields.tell(fields.node.start, f"feature {name} has no title", hint, code="no-title")
    return Feature(
        name,
        title or "",
        fields.text("description") or "",
        "open" if status is None else status,
        fields.text("created_at") or "",
        fields.text("updated_at") or "",
        fields.rest(FEATURE_KEYS),
    )


def render_feature(feature: Feature) -> str:
    """A new feature.json."""
    return jsonedit.whole(_members(feature))


def new_spec(feature: Feature) -> str:
    """The first form of a spec.md: what is wanted, and how one sees that it is there."""
    wanted = f"{feature.description}\n\n" if feature.description else ""
    return f"# Spec: {feature.title}\n\n## What it should do\n\n{wanted}## How to see that it does\n"


def new_plan(feature: Feature) -> str:
    """The first form of a plan.md."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def says_nothing(text: str) -> bool:
    """Whether a text holds headings and blank lines only, as a new one does."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)
