"""The codec for feature.json, and the content of a feature's new spec.md and plan.md."""

from __future__ import annotations

import re
from dataclasses import fields

from ralph.core import json_text
from ralph.core.documents import Problem, sort_problems
from ralph.core.json_text import JsonReader
from ralph.core.text import BOM
from ralph.core.work import Feature
from ralph.formats.json_members import check_identity, join_members

FEATURE_KEYS = tuple(field.name for field in fields(Feature) if field.name != "extra")

_FEATURE = dict.fromkeys(FEATURE_KEYS, "text")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t].*)?\r?")


def parse_feature(text: str) -> tuple[Feature | None, tuple[Problem, ...]]:
    """Parse a feature.json, and return the feature, if there is one, and the problems."""
    reader = JsonReader(text)
    feature = None
    members = reader.root_members()
    if members is not None:
        values, extra = reader.read_members(members, _FEATURE)
        if check_identity(reader, values, noun="feature"):
            values.setdefault("title", "")
            feature = Feature(**values, extra=extra)
    return feature, sort_problems(reader.problems)


def render_feature(feature: Feature) -> str:
    """Render a new feature.json. Raises Refused if JSON cannot represent the feature."""
    members = {key: getattr(feature, key) for key in FEATURE_KEYS}
    return json_text.dump_file(join_members(members, feature.extra))


def new_spec(feature: Feature) -> str:
    """Return the content of a new spec.md for a feature."""
    paragraphs = [f"# Spec: {feature.title}", "## What it should do"]
    if feature.description:
        paragraphs.append(feature.description)
    paragraphs.append("## How to see that it does\n")
    return "\n\n".join(paragraphs)


def new_plan(feature: Feature) -> str:
    """Return the content of a new plan.md for a feature."""
    return f"# Plan: {feature.title}\n\n## Steps\n\n## Decisions and risks\n"


def is_unwritten(text: str) -> bool:
    """Return whether `text` contains only headings and blank lines."""
    lines = text.removeprefix(BOM).split("\n")
    return all(not line.strip() or _HEADING.fullmatch(line) for line in lines)
