"""insights.json: what a task has taught so far, proposed and not yet accepted.

`{"version": 1, "insights": [...]}` in `.ralph/tasks/<id>/memory/`. Each element is a Record of
scope `task`: `files` and `source` are its origin, `label` is the author's own word and `kind`
what it means (`model.kinds` decides), and every member that the record has no field for
(`evidence`, `count`, `promoted_to`, anything unknown) is in `extra`, as it stands. An element
that says less than it should is told, kept, and read as far as it goes; one without text is not
read. `replace` writes only the members that differ (`jsonedit.py`).
`tests/formats/test_insights.py` holds the laws and `tests/golden/insights/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ralph.errors import Conflict, Refused
from ralph.formats import jsonedit
from ralph.formats.document import Entry, Problem, find
from ralph.formats.jsontext import BOM, Fields, Lines, Node, in_order, is_blank, read, unreadable
from ralph.model.ids import derived
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of

VERSION = 1

KEYS = (
    "id", "kind", "label", "title", "text", "tags", "files", "source", "status",
    "created_at", "updated_at", "valid_until", "links", "list_was",
)  # fmt: skip
"""The members that are fields of a Record; `title` and three of the last stand only when they say something.

`list_was` is no field but a mark: the file had no list (`missing`), or `null`, before this insight came.
"""

_SOURCE = ("by", "session", "run", "iteration", "task", "agent", "commit")


# --- reading -----------------------------------------------------------------------------------


def _kind(fields: Fields) -> tuple[MemoryKind, str]:
    """The kind, and the author's word for it."""
    word = fields.text("kind")
    label = fields.text("label")
    named = label if word is None and label is not None else word or ""
    kind = kind_of(named)
    if kind is None:
        what = f"{named!r:.60} is no kind of memory, so it is read as context"
        hint = f"write one of {', '.join(MemoryKind)} as the kind; your own word can be the label"
        fields.tell(fields.node.start, what, hint, code="unknown-kind")
        kind = MemoryKind.CONTEXT
    return kind, named if label is None else label


def _status(fields: Fields) -> Status:
    word = fields.text("status")
    if word is None:
        return Status.PROPOSED
    try:
        return Status(word)
    except ValueError:
        what = f"{word!r:.60} is no status, so the insight counts as proposed"
        fields.tell(fields.node.start, what, f"write one of {', '.join(Status)}", code="unknown-status")
        return Status.PROPOSED


def _origin(fields: Fields) -> Origin:
    source = fields.inner("source")
    if source is None:
        return Origin(files=fields.texts("files"))
    return Origin(
        by=source.text("by") or "",
        session=source.text("session") or "",
        run=source.text("run") or "",
        iteration=source.number("iteration"),
        task=source.text("task") or "",
        agent=source.text("agent") or "",
        files=fields.texts("files"),
        commit=source.text("commit") or "",
    )


def _links(fields: Fields, line_of: Callable[[int], int], problems: list[Problem]) -> tuple[Link, ...]:
    links: list[Link] = []
    for node in fields.items("links", "a list of links") or ():
        inner = Fields(node, line_of, problems)
        relation, target = inner.text("relation"), inner.text("target")
        if relation is None or target is None:
            hint = 'write it as {"relation": ..., "target": ...}'
            fields.tell(node.start, "a link needs a relation and a target", hint, code="wrong-type")
        else:
            links.append(Link(relation, target))
    return tuple(links)


def _record(node: Node, line_of: Callable[[int], int], problems: list[Problem]) -> Record | None:
    if not isinstance(node.value, dict):
        hint = 'write the insight as {"id": ..., "kind": ..., "text": ...}; the value is kept but not used'
        problems.append(Problem(line_of(node.start), "an insight should be an object", hint, "error", "wrong-type"))
        return None
    fields = Fields(node, line_of, problems)
    text = fields.text("text")
    if text is None:
        hint = 'add a "text", or delete the insight'
        fields.tell(node.start, "an insight without a text is not read", hint, "error", "no-text")
        return None
    kind, label = _kind(fields)
    return Record(
        fields.text("id") or derived("ins", text),
        kind,
        text,
        label=label,
        title=fields.text("title") or "",
        tags=fields.texts("tags"),
        status=_status(fields),
        scope=Scope.TASK,
        origin=_origin(fields),
        created_at=fields.text("created_at") or "",
        updated_at=fields.text("updated_at") or "",
        valid_until=fields.text("valid_until") or "",
        links=_links(fields, line_of, problems),
        extra=fields.rest(KEYS),
    )


def _check_version(fields: Fields) -> None:
    version = fields.number("version")
    node = fields.present("version")
    if version is not None and node is not None and version > VERSION:
        what = f"version {version} is newer than {VERSION}, the newest that this Ralph knows"
        hint = "update Ralph if insights seem to be missing"
        fields.tell(node.start, what, hint, "note", "newer-version")


def parse(text: str) -> "InsightsDocument":
    """Reads an insights.json."""
    if is_blank(text):
        return InsightsDocument(text)
    root = read(text)
    if isinstance(root, Problem):
        return InsightsDocument(text, problems=(root,))
    line_of = Lines(text)
    if not isinstance(root.value, dict):
        hint = 'write it as {"version": 1, "insights": [...]}'
        what = "the file should hold one object"
        return InsightsDocument(text, problems=(Problem(line_of(root.start), what, hint, "error", "not-an-object"),))
    problems: list[Problem] = []
    fields = Fields(root, line_of, problems)
    _check_version(fields)
    entries: list[Entry] = []
    seen: set[str] = set()
    for node in fields.items("insights", "a list of insights") or ():
        record = _record(node, line_of, problems)
        if record is None:
            continue
        if record.id in seen:
            what = f"a second insight has the id {record.id}"
            hint = "give each an id of its own in the file"
            fields.tell(node.start, what, hint, code="duplicate-id")
        seen.add(record.id)
        entries.append(Entry(record, node.start, node.end, line_of(node.start)))
    return InsightsDocument(text, tuple(entries), in_order(problems), root)


# --- writing -----------------------------------------------------------------------------------


def _source(origin: Origin) -> dict[str, object]:
    """The origin without its files; the three members that the format shows always stand."""
    shown = {"session": origin.session, "run": origin.run, "iteration": origin.iteration}
    return shown | {key: getattr(origin, key) for key in _SOURCE if key not in shown and getattr(origin, key)}


def _members(record: Record) -> dict[str, object]:
    """The members that say this record, in the order in which they are written."""
    if record.family is not Family.MEMORY or record.scope is not Scope.TASK or not record.id:
        raise Refused(
            "insights.json holds memories of one task, each with an id",
            hint="give the record the scope `task` and an id, or write it to another file",
        )
    named: dict[str, object] = {
        "id": record.id,
        "kind": record.kind.value,
        "label": record.label,
        "title": record.title,
        "text": record.text,
        "tags": record.tags,
        "files": record.origin.files,
        "source": _source(record.origin),
        "status": record.status.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "valid_until": record.valid_until,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
    }
    named = {key: value for key, value in named.items() if value or key not in _OPTIONAL}
    return jsonedit.joined(named, record.extra, KEYS)


_OPTIONAL = frozenset({"title", "updated_at", "valid_until", "links"})


def render(record: Record) -> str:
    """A new insights.json with this one insight."""
    return jsonedit.whole({"version": VERSION, "insights": [_members(record)]})


@dataclass(frozen=True, slots=True)
class InsightsDocument:
    """An insights.json: its text and the insights in it, in file order."""

    text: str
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    _root: Node | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def _node(self, record_id: str) -> tuple[Entry, Node, Node]:
        """An entry, the list that holds it, and its node there."""
        entry = find(self.entries, record_id)
        array = self._root.get("insights") if self._root else None
        if array is None:  # not reached: an entry comes from that list
            raise unreadable(self.problems)
        return entry, array, next(node for node in array.items if node.start == entry.start)

    def _free(self, record_id: str) -> None:
        if any(entry.record.id == record_id for entry in self.entries):
            raise Conflict(f"there is an insight {record_id} already", hint="draw another id, or replace that one")

    def add(self, record: Record, *more: Record) -> "InsightsDocument":
        """The document with one more insight at the end, or with several, which are written at once."""
        for place, each in enumerate((record, *more)):
            self._free(each.id)
            if any(each.id == other.id for other in (record, *more)[:place]):
                raise Conflict(f"two of the insights have the id {each.id}", hint="draw another id for one of them")
        root, text = self._root, self.text
        if root is None:
            if not is_blank(text):
                raise unreadable(self.problems)
            return parse(text[: text.startswith(BOM)] + render(record))._with(more)
        style = jsonedit.style_of(text, root)
        array = root.get("insights")
        if array is None or array.value is None:
            mark = {"list_was": "missing" if array is None else "null"}
            made = {"insights": [jsonedit.plain(_members(record) | mark)]}
            put = _put(text, root, style, lambda style: jsonedit.object_text(text, root, style, made))
            return parse(put)._with(more)
        if not isinstance(array.value, list):
            raise unreadable(self.problems)
        added = [jsonedit.plain(_members(each)) for each in (record, *more)]
        return parse(_put(text, array, style, lambda style: jsonedit.array_text(text, array, style, added=added)))

    def _with(self, more: Sequence[Record]) -> "InsightsDocument":
        return self.add(*more) if more else self

    def replace(self, record_id: str, record: Record) -> "InsightsDocument":
        """The document with one insight changed; only members that differ are written."""
        if record.id != record_id:
            self._free(record.id)
        entry, _, node = self._node(record_id)
        return parse(jsonedit.splice(self.text, node, self._changed(entry, node, record)))

    def replace_all(self, records: Sequence[Record]) -> "InsightsDocument":
        """The document with several insights changed at once, each in the place of the one with its id."""
        text = self.text
        found = [(*self._node(record.id), record) for record in records]
        for entry, _, node, record in sorted(found, key=lambda each: each[2].start, reverse=True):
            text = jsonedit.splice(text, node, self._changed(entry, node, record))
        return parse(text) if found else self

    def _changed(self, entry: Entry, node: Node, record: Record) -> str:
        """The text of an insight that is changed into this one."""
        members = _members(record)
        changes = jsonedit.difference(_members(entry.record), members)
        # What the text left to be guessed (an id from the words, a label from the kind) is written
        # down once the words change, so that it does not change with them.
        own = {key: found.value if (found := node.get(key)) else None for key in ("id", "kind")}
        if own["id"] != record.id:
            changes["id"] = jsonedit.plain(record.id)
        if "kind" in changes or own["kind"] is None:
            changes |= {"kind": record.kind.value, "label": jsonedit.plain(record.label)}
        jsonedit.keep_odd(node, changes, ["tags", "files"])
        style = jsonedit.style_of(self.text, self._root or node)
        source = node.get("source")
        if "source" in changes and source is not None and source.members:
            inner = jsonedit.difference(_source(entry.record.origin), _source(record.origin))
            changes["source"] = jsonedit.Raw(jsonedit.object_text(self.text, source, style, inner))
        return jsonedit.object_text(self.text, node, style, changes)

    def remove(self, record_id: str) -> "InsightsDocument":
        """The document without one insight, and without a list that was made for it."""
        _, array, node = self._node(record_id)
        text, root, mark = self.text, self._root or array, node.get("list_was")
        style = jsonedit.style_of(text, array)
        if len(array.items) > 1:
            removed = [place for place, item in enumerate(array.items) if item is node]
            return parse(jsonedit.splice(text, array, jsonedit.array_text(text, array, style, removed=removed)))
        if mark is not None and mark.value == "null":
            return parse(jsonedit.splice(text, array, "null"))
        if mark is None or mark.value != "missing":
            return parse(jsonedit.splice(text, array, _emptied(text, array)))
        if len(root.members) == 1:
            return parse(jsonedit.splice(text, root, _emptied(text, root)))
        gone = {"insights": jsonedit.DROP}
        return parse(jsonedit.splice(text, root, jsonedit.object_text(text, root, style, gone)))


def _put(text: str, node: Node, style: jsonedit.Style, write: Callable[[jsonedit.Style], str]) -> str:
    """The text with a container that is written anew; white space in an empty one stays, behind what comes."""
    inside = "" if node.children else text[node.start + 1 : node.end - 1]
    if not inside:
        return jsonedit.splice(text, node, write(style))
    return jsonedit.splice(text, node, write(replace(style, spread=False))[:-1] + inside + text[node.end - 1])


def _emptied(text: str, node: Node) -> str:
    """A container whose only child goes; white space behind it stays when none is in front, as `_put` has it."""
    child = node.children[0]
    inside = text[child.end : node.end - 1] if child.start == node.start + 1 else ""
    return text[node.start] + inside + text[node.end - 1]
