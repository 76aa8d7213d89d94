"""Whether something that an agent wrote down is worth knowing tomorrow, and what sort of thing it is.

A sentence is kept when it says something lasting (a rule, a reason, a trap: words such as "must", "because",
"otherwise", in eight languages) about something particular (a name, a number, a path, or several words that are
not everybody's), or tells in two clauses what is done and what is the case about something very particular. Advice
that holds for every project has nothing particular; `chatter` knows what has nothing lasting, however particular it
is. Beside a sentence that is kept, the particulars around it are kept, too. What was meant for others (a learning, an
entry of knowledge) may do without the lasting word. It is a guess by design: what is kept is proposed, and a person
decides. `tests/capture/test_statements.py` holds the sentences on both sides.
"""

import re
from collections.abc import Iterator
from enum import IntEnum

from ralph.capture.chatter import (
    is_accident,
    is_of_loop,
    is_own,
    is_passing,
    is_plan,
    is_report,
    is_restated,
    is_test_first,
    is_work,
    only_describes,
)
from ralph.capture.everybodys import SIGNS as EVERYBODYS_SIGNS
from ralph.capture.everybodys import WORDS as EVERYBODYS
from ralph.capture.secret_values import words_of
from ralph.search.terms import EVERYDAY_WORDS as EVERYDAY
from ralph.search.terms import STOP_WORDS, is_cjk, split_words


class Meant(IntEnum):
    """For whom something was written: a note in passing, or a lesson for those who come later."""

    NOTED = 0
    LESSON = 1


_LASTING = re.compile(
    r"""(?ix)
    \b(?:must(?:n't)?|always|never|do\ not|don['’]?t|doesn['’]t|does\ not|cannot|can['’]?t|won['’]t|requires?
    |required
    |needs?\ \S+|has\ to|have\ to|had\ to|because|otherwise|or\ else|unless|instead\ of|rather\ than
    |turns?\ out|turned\ out|gotchas?|pitfalls?|beware|careful|make\ sure|ensure|note\ that|remember\ (?:to|that)
    |conventions?|decided|decision|chose|chosen|opted|agreed|prefer(?:s|red)?|avoid|silently|ignored|ignores
    |(?:fails?|breaks?|crashes|hangs?|works?|applies|starts?|allowed)\ (?:if|when|only|unless|without|with|on|under)
    |only\ (?:works?|if|when|after|on|in|with|one|the)|so\ that|in\ order\ to|workaround|caused\ by|root\ cause
    |due\ to|the\ trick|the\ reason|reason|depends?\ on|whenever|every\ time|each\ time|even\ (?:though|if)
    |before\ (?:running|the|you|any|each|every|starting|calling|it|they|tests?|\w+ing)|after\ (?:each|every|changing
    |editing|adding|any|pulling)|first|not\ \S+\ but|(?:we|this\ project|this\ repo\w*)\ (?:uses?|keeps?|names?|pins?)
    |should|beforehand|lives?\ in|is\ pinned|are\ pinned|belongs?\ (?:in|to)|go(?:es)?\ (?:in|into|under|through)
    |as\ \S+\ (?:is|are|has|does)|since|so\ (?:the|we|it|a|any|every|do|use|run|keep|never|always|tests?|set|call
    |pass|add))\b
    |\b(?:forbidden|banned|not\ allowed|no\ longer|any\ ?more|from\ now\ on|on\ (?:its|their)\ own|by\ itself
    |by\ default|nothing\ (?:but|else)|wrongly|without|stillschweigend|verboten|nicht\ mehr|von\ selbst)\b
    |,\ not\b|\(not\b|\b(?:only|until|every|each|learned\ that|found\ out|discovered|noticed\ that|reali[sz]ed
    |all\ (?:\w+\ ){1,3}(?:are|go
    |use|live|have|need))\b
    |\b(?:immer|niemals|nie|muss|müssen|darf|dürfen|weil|sonst|andernfalls|statt|anstatt|damit|erst|vorher|bevor
    |Achtung|Vorsicht|entschieden|Entscheidung|nur\ wenn|nur\ mit|braucht|benötigt|Konvention|sobald|außer|ohne|Grund
    |denn|deshalb|daher|zuerst|vermeiden|nicht\ \w+,?\ sondern)\b
    |반드시|항상|절대|때문|대신|해야|하지\ ?않으면|않으면|먼저|주의|결정|규칙|필요|만\ |경우|없으면|금지|하면\ 안
    |이유|안\ 된다|안\ 됨
    |전에|써야|있어야|써야|둬야|맞춰야|돌려야|실패한다|깨진다
    |必须|总是|始终|永远|不要|不能|因为|否则|需要|注意|决定|而不是|只有|务必|之前|先|禁止|避免|约定|原因|才能|一律
    |不得|会导致|由于|以免
    |必ず|常に|決して|しないと|ため|代わりに|前に|注意|必要|なければ
    |[가-힣]야\ ?(?:한다|함|합니다|해|됨|된다)|대신에?|면\ 안
    |不然|别再?|要(?=[带用先把写加])|以后|改为|统一|只能|只用|应该|不会|才会
    |\b(?:toujours|jamais|doit|doivent|parce\ que|sinon|au\ lieu|avant\ de|siempre|nunca|deben?|porque|antes\ de
    |en\ vez|hay\ que|si\ no|ya\ que|para\ que|solo|sólo|no\ se\ puede|se\ decidió|decidimos|cuidado)\b
    """
)
_RULE = re.compile(
    r"""(?ix)\b(?:must|always|never|requires?|needs?\ to|has\ to|have\ to|because|otherwise|instead\ of|unless
    |do\ not|don['’]t|so\ that|silently|only|before|until|except|without|but|intentionally|on\ purpose|to\ avoid
    |so\ it
    |(?<=,\ )so|safe\ to|deprecated|nobody|no\ one|from\ now\ on|not\ allowed|forbidden|immer|nie|muss|müssen|weil
    |sonst|statt)\b
    |반드시|항상|절대|때문|해야|않으면|必须|总是|因为|否则|不要"""
)
_CAUSE = re.compile(r"(?i)\b(?:because|but|until|before|weil)\b|때문|因为")
_CHOICE = re.compile(r"(?i)\b(?:instead of|rather than|anstatt|statt|au lieu de?|en vez de|invece di)\b|대신|而不是")
"""What was done and what was not: no reason for either."""
_FRAGMENT = re.compile(r"(?i)\W*(?:because|since|weil|da|porque|puesto que|因为)\b")
"""Half a sentence, which answers what somebody else said."""
_CLAUSE = re.compile(r"[;:,.–—]\s+|\s[-–—(]\s?|[，。；：]")
_LEANS = re.compile(
    r"(?i)(?:it|its|this|that|they|these|those|otherwise|so|because|hence|therefore|reason|without it|das|es|daher"
    r"|deshalb|sonst|grund)\b|그래서|이것|이유|따라서|因此|所以|这|否则|原因"
)
_ACRONYMS = words_of(
    "TODO OK PR PRS WIP LGTM I A FYI BTW IMO ASAP TDD DRY KISS SOLID YAGNI NOTE DONE UI ID AM PM QA US"
)
_EVERYBODYS = words_of(
    """TypeScript JavaScript GitHub GitLab PostgreSQL MySQL JSON YAML API APIs CI CD HTTP HTTPS HTML CSS SQL README IDE
    AI LLM UX DB OS URL CLI SDK NPM DevOps VSCode OOP e2e 1 2 3"""
) | {"npm install", "npm test", "npm ci", "git pull", "git push", "git commit", "pip install", "yarn install"}
"""Names that stand in every project: no more than a rare word."""
_PARTICULAR = re.compile(
    r"""(?x)`[^`\n]+` | "[^"\n]{2,60}" | (?<![\w-])--?[a-z][\w-]+ | [\w.-]{0,60}/[\w./-]{1,200}
    | \b\w{1,60}\.(?:[a-z]{1,5}\d?)\b(?!\.\w)
    | \b[A-Za-z]\w{0,60}_\w+ | \b[a-z]{1,60}[A-Z]\w* | \b[A-Z][a-z]{1,60}[A-Z]\w*
    | \b[A-Z][A-Z0-9]{1,60}(?:_[A-Z0-9]+)*\b
    | (?<![\w.])v?\d[\w.:%-]*
    """
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])|(?<=[。！？])|\n+")
_MARK = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+(?:\[[ x]\]\s*)?")
_NAMED = re.compile(r"[*_]{0,3}([^\W\d_][\w /-]{1,24}?)[*_]{0,3}\s?[:：][*_]{0,3}\s")

_LONGEST, _SENTENCE_LONGEST = 20_000, 1_000
"""Characters that are looked at: of a text, as the journal keeps them, and of one sentence."""
_ENOUGH = 1.3
"""How particular a sentence must be, for which one name or four rare words are enough."""
_ALONE = 2.0
"""How particular a note in passing must be."""
_WHOLE = 2.5
"""How particular a paragraph must be whose rule names nothing itself."""
_CLAUSES_LEAST, _CLAUSE_LEAST, _SIGNS = 8, 6, 5
"""Words of a reason in two clauses and in one, and signs of a clause without blanks."""
_FULL = 1.5
"""How particular a lesson must be that has no lasting word."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without the marks of lists."""
    for part in _SENTENCE.split(text[:_LONGEST]):
        bare = _MARK.sub("", part).strip()
        if bare:
            yield bare[:_SENTENCE_LONGEST]


def paragraphs(text: str) -> Iterator[str]:
    """The items and paragraphs of a text: what belongs together."""
    held: list[str] = []
    for line in text.split("\n"):
        if held and (not line.strip() or _MARK.match(line)):
            yield " ".join(held)
            held = []
        if line.strip():
            held.append(_MARK.sub("", line).strip())
    if held:
        yield " ".join(held)


def worth(text: str, meant: Meant) -> str:
    """The sentences of a text that are worth knowing, in their order; "" when there are none.

    Of a lesson that has one, all that is no report and no plan is kept: its author chose the words together.
    """
    found = list(sentences(text))
    kept = [is_lasting(each, meant) for each in found]
    if any(kept) and meant is Meant.LESSON:
        kept = [good or not _is_passing_by(each) for each, good in zip(found, kept, strict=True)]
    elif any(kept) or _is_lasting_in_all(found):
        _take_along(found, kept)
    for number in range(len(found) - 1, 0, -1):  # "It ..." is nothing without the sentence before it
        leans = kept[number] and _LEANS.match(found[number]) is not None
        if leans and is_report(found[number - 1]) and not _RULE.search(found[number]):
            kept[number] = False  # and goes on with a report
        kept[number - 1] = kept[number - 1] or (kept[number] and leans)
    return " ".join(each for each, good in zip(found, kept, strict=True) if good)


def _is_lasting_in_all(found: list[str]) -> bool:
    """Whether a rule stands in one sentence and what it is about in the others."""
    told = [each for each in found if not (_is_passing_by(each) or _is_restated(each) or is_own(each))]
    rule = any(_LASTING.search(_bare(each)) for each in told)
    return len(told) > 1 and rule and particular(" ".join(told)) >= _WHOLE


def _take_along(found: list[str], kept: list[bool]) -> None:
    """Beside a lasting sentence: what tells particulars of it, and what was then done about it."""
    for number, each in enumerate(found):
        if not kept[number] and (particular(each) >= _ENOUGH or _LASTING.search(_bare(each))):
            told = not (_is_passing_by(each) or _is_restated(each))
            kept[number] = told or (number > 0 and kept[number - 1] and is_report(each))


def is_lasting(sentence: str, meant: Meant = Meant.NOTED) -> bool:
    """Whether one sentence says something that will still hold, about something particular."""
    if is_plan(sentence) or is_test_first(sentence) or is_of_loop(sentence):
        return False
    lasting, rule = _LASTING.search(_bare(sentence)) is not None, _RULE.search(sentence) is not None
    how = particular(sentence)
    if ((is_passing(sentence) or is_accident(sentence)) and not _obliges(sentence)) or (
        not rule and (is_own(sentence) or _is_restated(sentence))
    ):
        return False
    if is_report(sentence):
        return rule and how >= _FULL
    if lasting:
        return how >= _ENOUGH
    if meant is Meant.LESSON:
        return how >= _FULL
    return how >= _WHOLE and is_reason(sentence)


def stands(text: str) -> bool:
    """Whether a note is a lesson by itself: lasting, about something particular, and not what its author will do."""
    return not (is_own(text) or _FRAGMENT.match(text)) and particular(worth(text, Meant.NOTED)) >= _ALONE


def is_reason(text: str) -> bool:
    """Whether a text says what was done and also what is the case: two clauses, or a word such as "because"."""
    if is_plan(text) or is_test_first(text) or is_own(text) or (is_work(text) and not _RULE.search(text)):
        return False
    many = sum(len(each) / 2 if is_cjk(each) else 1 for each in split_words(text))
    clauses = [part for part in _CLAUSE.split(text) if len(part.split()) > 1 or len(part) >= _SIGNS]
    if len(clauses) > 1:
        return many >= _CLAUSES_LEAST and not is_report(text)
    return many >= _CLAUSE_LEAST and _LASTING.search(_CHOICE.sub(" ", _bare(text))) is not None


def _is_restated(sentence: str) -> bool:
    return is_restated(sentence) or (only_describes(sentence) and _LASTING.search(sentence) is None)


def only_restates(text: str) -> bool:
    """Whether every sentence of a text says what stands in the code, and none has a rule."""
    found = list(sentences(text))
    return bool(found) and all(_is_restated(each) and not (_RULE.search(each) or _adds(each)) for each in found)


def _adds(sentence: str) -> bool:
    """Whether something lasting stands behind a semicolon."""
    return any(_LASTING.search(_bare(part)) for part in sentence.split(";")[1:])


def is_remark(text: str) -> bool:
    """Whether a text tells something particular, and no plan and no report of what was done."""
    told = not (is_plan(text) or is_report(text) or is_test_first(text) or is_own(text) or is_of_loop(text))
    told = told and (not is_passing(text) or _obliges(text))
    return told and not _is_restated(text) and particular(text) >= _ENOUGH


def _obliges(text: str) -> bool:
    """Whether a text has a rule, and not only a reason: passing trouble has reasons, too."""
    return _RULE.search(_CAUSE.sub(" ", text)) is not None


def _bare(sentence: str) -> str:
    """The sentence without quoted code: words in there are nobody's advice."""
    return re.sub(r"`[^`\n]*`", "x", sentence)


def _is_passing_by(sentence: str) -> bool:
    return is_plan(sentence) or is_report(sentence) or is_passing(sentence) or is_test_first(sentence)


def particular(text: str) -> float:
    """How much a text is about this project and no other: names, numbers and words that are not everybody's."""
    names = {bare for found in _PARTICULAR.findall(text) if (bare := found.strip("`\"'.")) not in _ACRONYMS}
    common = names & _EVERYBODYS
    rest = EVERYBODYS_SIGNS.sub(" ", _PARTICULAR.sub(" ", text))
    rare: set[str] = set()
    pairs: set[str] = set()
    for word in split_words(rest):
        low = word.lower()
        if is_cjk(word):
            pairs.update(low[at : at + 2] for at in range(len(low) - 1))
        elif len(low) > 2 and low not in EVERYDAY and low not in STOP_WORDS and low not in EVERYBODYS:
            rare.add(low)
    return len(names - common) + 0.34 * (len(rare) + len(common)) + 0.12 * len(pairs)


# --- what sort of thing ------------------------------------------------------------------------

_LABELS = tuple(
    (label, re.compile(shape))
    for label, shape in (
        (
            "decision",
            r"(?i)\b(?:decided|decision|chose|chosen|opted|went with|going with|we agreed|picked \S+ over|entschieden"
            r"|Entscheidung)\b|결정|선택|决定|选择|選択",
        ),
        (
            "gotcha",
            r"(?i)\b(?:gotchas?|pitfalls?|beware|careful|fails?|breaks?|broken|crash\w*|silently|otherwise|hangs?"
            r"|wrong|error\w*|does not|doesn['’]t|cannot|can['’]t|won['’]t|unless|turns? out|turned out|ignored|stale"
            r"|sonst|Achtung|Vorsicht|schlägt|bricht|Fehler|flaky|corrupt\w*|deadlock\w*)\b"
            r"|주의|실패|오류|않으면|없으면|깨|안 된|否则|注意|失败|报错|错误|会导致|不能",
        ),
        (
            "pattern",
            r"(?i)\b(?:always|never|conventions?|must|every|all|prefer\w*|we (?:use|name|keep)|use|uses"
            r"|goes? (?:in|into)|lives? in|belongs?|immer|nie|müssen|muss|Konvention)\b"
            r"|항상|규칙|반드시|해야|必须|总是|约定|一律|始终",
        ),
    )
)
KNOWN = {
    "gotcha": "gotcha", "pitfall": "gotcha", "trap": "gotcha", "warning": "gotcha", "caution": "gotcha",
    "beware": "gotcha", "achtung": "gotcha", "주의": "gotcha", "注意": "gotcha", "fix": "gotcha",
    "decision": "decision", "decided": "decision", "entscheidung": "decision", "결정": "decision",
    "决定": "decision", "adr": "decision",
    "convention": "pattern", "pattern": "pattern", "rule": "pattern", "규칙": "pattern", "约定": "pattern",
    "konvention": "pattern", "tip": "tip", "hint": "tip", "discovery": "discovery", "learning": "tip",
    "learned": "tip", "lesson": "tip", "til": "tip", "insight": "tip",
}  # fmt: skip
"""Words before a colon by which people say what follows."""


def named(text: str) -> str:
    """The label that a text gives itself at its start (`Gotcha: ...`), or ""."""
    found = _NAMED.match(text)
    return KNOWN.get(found[1].strip().lower(), "") if found is not None else ""


def label(text: str) -> str:
    """What sort of thing a text says: what it calls itself, else what its words are like."""
    return named(text) or next((name for name, shape in _LABELS if shape.search(text)), "tip")
