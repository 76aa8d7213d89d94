"""Why something helped, in the words of whoever did it: in a note near it, or in the edit itself.

A failure and the files that were changed for it are half a lesson; the other half is the sentence that says why.
Agents write it into a note before or shortly after the pass, into a comment of the code that they add, or into the
summary of the edit. A note after the pass is about it only until the next failure, and when it shares words with
it. An edit explains itself when it has two clauses: what was done, and what is the case ("round up; the division
lost the tail"). "Add the split" has one, and so has every edit of work that was simply not finished.
`tests/capture/test_reasons.py` proves it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ralph.capture import junk
from ralph.capture.causes import explanation
from ralph.capture.statements import Meant, is_reason, is_remark, worth
from ralph.capture.trim import first_line
from ralph.model.record import ObservationKind, Record
from ralph.search.terms import query_terms

_DETAIL, _SAID = 110, 300
_LINES = 60  # lines of an edit that are looked at
_TELLING = 4  # characters that a line of settings must have to be quoted
_EDITS = 3  # edits that are quoted
_SHARED = 2  # words of the error and what was done that an explanation has
_PART = 4  # characters of a word that is part of another
_AFTER = 3  # records after the pass in which the agent may still explain it
_COMMENT = re.compile(r"(?:^|\s)(?:#|//+|--|/\*+|<!--|;;|\*)\s+(?P<words>\S.*?)\s*(?:\*/|-->)?$")
_CONSTANT = re.compile(r"(?<!\w)[A-Z][A-Z0-9]*_[A-Z0-9_]+(?!\w)")
_ANSWER = re.compile(
    r"(?i)\b(?:has been|was|were|have been) (?:successfully )?(?:updated|edited|written|created|modified|applied"
    r"|saved)\b|\bsuccess(?:fully)?\b|\bcat -n\b|\bmodified since\b|\breplace_all\b"
)
"""What a tool answers to an edit: nobody's reason."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said about a failure, whether that is a reason, and whether it tells why."""

    text: str = ""
    reason: bool = False
    why: bool = False


def said_near(records: Sequence[Record], at: int, passed: int, error: str) -> Said:
    """What the agent said about a failure: between it and the pass, or a little later and about the same."""
    notes = list(_notes(records, at, passed))
    if not notes:
        return Said()
    around = _terms(error)
    for record in records[at : passed + 1]:
        if record.kind is not ObservationKind.NOTE:
            around |= _terms(f"{record.title} {' '.join(record.origin.files)} {record.text}")
    best = Said()
    for number in notes:
        text, before = records[number].text, number < passed
        told = explanation(text) if before else ""
        lasting = told or worth(text, Meant.NOTED)
        shared = len(_terms(lasting or text) & around)
        close = bool(told) and _is_near_to(told, around)
        if shared < (1 if before else _SHARED) and not close:
            continue
        if lasting:
            return Said(first_line(lasting, _SAID), before, bool(told))
        if not best.text and is_remark(text):
            best = Said(first_line(text, _SAID), before and is_reason(text))
    return best


def _notes(records: Sequence[Record], at: int, passed: int) -> Iterator[int]:
    for number in range(at + 1, min(passed + 1 + _AFTER, len(records))):
        record = records[number]
        if number > passed and record.kind is ObservationKind.ERROR:
            return
        if record.kind is ObservationKind.NOTE and record.origin.by != "human":
            yield number


def _is_near_to(text: str, around: set[str]) -> bool:
    """Whether a word of a text is part of one nearby, or has one as a part: `EPIPE` and a broken pipe."""
    own = [term for term in _terms(text) if len(term) >= _PART]
    return any(one in other or (len(other) >= _PART and other in one) for one in own for other in around)


def _terms(text: str) -> set[str]:
    return {term for word in query_terms(text) for term in word.terms}


def said_in(edits: Sequence[Record]) -> str:
    """What edits say about why they were made, in their summary or in a comment that they add; "" when nothing."""
    return next((words for edit in edits if (words := _said_in(edit))), "")


def _said_in(edit: Record) -> str:
    lines = _lines(edit)
    changed = [line for line in lines if line.startswith(("+", "-"))]
    if changed:
        found = (_COMMENT.search(line[1:]) for line in changed if line.startswith("+"))
        words = " ".join(comment["words"] for comment in found if comment is not None)
    else:
        words = " ".join(lines)
    return first_line(words, _SAID) if is_reason(words) and not _ANSWER.search(words) else ""


def _lines(edit: Record) -> list[str]:
    lines = edit.text.splitlines()[:_LINES]
    return [line.strip() for line in lines if line.strip() and line.strip() not in edit.origin.files]


def details(edits: Sequence[Record]) -> Iterator[str]:
    """What was written into files of settings, a line each; a letter or two tell nobody anything."""
    for edit in edits[:_EDITS]:
        around = sets_a_constant(edit) or any(junk.is_around(file) for file in edit.origin.files)
        if around and not _said_in(edit):
            lines = _lines(edit)
            added = [line[1:] for line in lines if line.startswith("+")]
            added = added or [line for line in lines if not line.startswith("-")]
            telling = [line for line in added if len(line.strip()) >= _TELLING]
            if telling:
                yield first_line(telling[0].replace("`", "'"), _DETAIL)


def sets_a_constant(edit: Record) -> bool:
    """Whether an edit gave constants of the code another value, and did nothing else: a setting, wherever it stands."""
    lines = _lines(edit)
    taken, added = ([_CONSTANT.findall(line)[:1] for line in lines if line.startswith(sign)] for sign in "-+")
    return bool(taken) and taken == added and [] not in taken


# --- slips -------------------------------------------------------------------------------------

_WORDS = re.compile(r"[^\W\d_]{3,40}")
_POINTS = r"\b{name}\b[^\n]{{0,12}}?(?::|\bline )\s?\d+"
_FEW_WORDS = 2
_MOST_WORDS = 40  # words of an output that are compared
_NEAR = 0.8


def slips(edits: Sequence[Record], shown: str, *, syntax: bool, deep: bool) -> bool:
    """Whether edits only put right what was mistyped: a word of the output in another spelling, or a sign."""
    return bool(edits) and all(_is_slip(edit, shown, syntax=syntax, deep=deep) for edit in edits)


def _is_slip(edit: Record, shown: str, *, syntax: bool, deep: bool) -> bool:
    before, after = _changed(edit)
    if len(after.split()) - len(before.split()) > _FEW_WORDS:
        return False
    pointed = any(re.search(_POINTS.format(name=re.escape(_name(file))), shown) for file in edit.origin.files)
    known = set(_WORDS.findall(before.lower()))
    new = [word for word in _WORDS.findall(after.lower()) if word not in known]
    named = list(dict.fromkeys(_WORDS.findall(shown.lower())))[:_MOST_WORDS]
    spelt = any(_is_near(word, other) for word in new[: _FEW_WORDS + 1] for other in named)
    return spelt or (not deep and (pointed or (syntax and len(new) <= _FEW_WORDS)))


def _changed(edit: Record) -> tuple[str, str]:
    """What an edit took away and what it put there."""
    lines = _lines(edit)
    added = [line[1:] for line in lines if line.startswith("+")]
    taken = [line[1:] for line in lines if line.startswith("-")]
    return " ".join(taken), " ".join(added if added or taken else lines)


def _name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]


def _is_near(one: str, other: str) -> bool:
    """Whether two words are one word with a letter or two astray, and not one with an ending."""
    if one == other or one.startswith(other) or other.startswith(one) or abs(len(one) - len(other)) > 2:
        return False
    return sorted(one) == sorted(other) or (len(one) > 3 and SequenceMatcher(None, one, other).ratio() >= _NEAR)
