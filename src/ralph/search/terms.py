"""Words: how a query and a text are brought to one form.

One set of rules for both sides, so that what was written is found however it is asked for:
lowercase, accents folded, English stemming, identifiers whole and in parts, pairs of Chinese,
Japanese and Korean characters, and words that say nothing dropped from queries. No dictionary, no
model. A hook loads this module and has milliseconds, so there is no regular expression here but the
one that splits long texts for the index, made when it is first needed; `words` finds the same words
without it. `tests/search/test_terms.py` proves that, and the rules.
"""

from ralph.search.stem import stem as stemmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOP_WORDS = frozenset(
    (
        "a an and are as at be but by can did do does for from had has have how i if in into is it its me my no not "
        "of on or our so that the their them then there these they this to us was we were what when where which who "
        "why will with you your"
    ).split()
)

_JOINING = "_-./:'’@\\"
"""What stands within an identifier, a path, a dotted name or a version."""
_QUOTES = "'’"
_CJK = (("\u3040", "\u30ff"), ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7af"), ("\uf900", "\ufaff"))
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_SQUEEZED = dict.fromkeys(map(ord, _JOINING))
_LONGEST_QUERY = 4000
_REMEMBERED, _LONGEST_WORD = 65_536, 100
"""How many words are remembered with their terms, and how long they may be."""
_known: dict[str, tuple[str, ...]] = {}
_splitting: "list[Callable[[str], list[str]]]" = []


def fold(text: str) -> str:
    """Lowercase, with accents, width variants and the Greek sigma of a word's end folded."""
    return _lowered(unaccented(text))


def _lowered(text: str) -> str:
    low = text.lower()
    return low if low.isascii() else low.replace("ς", "σ")


def unaccented(text: str) -> str:
    """Without accents, and with one width for all letters; the case stays."""
    if text.isascii():
        return text
    from unicodedata import normalize  # noqa: PLC0415 - most texts need it not, and a hook would pay for it

    return normalize("NFC", normalize("NFKD", text).translate(_ACCENTS))


class Word:
    """One word of a query as it was written, and the search terms that stand for it."""

    __slots__ = ("terms", "text")

    def __init__(self, text: str, terms: tuple[str, ...]) -> None:
        self.text = text
        self.terms = terms


def words(text: str) -> list[str]:
    """The words of a text as they stand there; an identifier or a path is one, `C++` and `C#` are."""
    found = []
    at, end = 0, len(text)
    while at < end:
        if not text[at].isalnum():
            at += 1
            continue
        stop = _language(text, at) or _run(text, at)
        if text[stop - 1].isalnum():
            while (behind := _over(text, stop)) and text[behind : behind + 1].isalnum():
                stop = _run(text, behind)
        found.append(text[at:stop])
        at = stop
    return found


def _language(text: str, at: int) -> int:
    """Where a name such as `C++` or `C#` ends; 0 when none begins here."""
    if not (text[at].isascii() and text[at].isalpha()):
        return 0
    for sign in ("++", "#"):
        stop = at + 1 + len(sign)
        if text[at + 1 : stop] == sign and not _is_word(text[stop : stop + 1]):
            return stop
    return 0


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _run(text: str, at: int) -> int:
    """Where the letters and digits that begin here end."""
    end = len(text)
    while at < end and text[at].isalnum():
        at += 1
    return at


def _over(text: str, at: int, signs: str = _JOINING) -> int:
    """Behind the joining signs that stand here; 0 when there are none."""
    start, end = at, len(text)
    while at < end and text[at] in signs:
        at += 1
    return at if at > start else 0


def _split(text: str) -> list[str]:
    """The words of a text of any length, as `words` finds them."""
    if not _splitting:
        import re  # noqa: PLC0415 - a question needs it not, and a hook would pay for it

        _splitting.append(re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*").findall)
    return _splitting[0](text)


def index_terms(text: str) -> str:
    """What the full-text index holds of a text: its terms, separated by spaces."""
    found: list[str] = []
    for word in _split(unaccented(text)):
        found += _known.get(word) or word_terms(word)
    return " ".join(found)


def query_terms(text: str) -> list[Word]:
    """The distinct words of a query with their terms; words that say nothing go unless nothing else is left."""
    plain = text[:_LONGEST_QUERY].encode("utf-8", "replace").decode("utf-8")
    unique: dict[tuple[str, ...], Word] = {}
    for written, bare in _written(plain):
        terms = word_terms(bare)
        if terms:
            unique.setdefault(terms, Word(written, terms))
    telling = [word for word in unique.values() if word.text.lower() not in STOP_WORDS]
    return telling or list(unique.values())


def _written(text: str) -> "Iterator[tuple[str, str]]":
    """The words of a question as they were written and without accents; Chinese, Japanese and Korean apart."""
    found = words(unaccented(text))
    as_written = words(text)
    for written, bare in zip(as_written if len(as_written) == len(found) else found, found):  # noqa: B905 - as long
        if is_cjk(bare):
            yield from ((part, part) for part in _apart(bare))
        else:
            yield written, bare


def word_terms(word: str) -> tuple[str, ...]:
    """The terms of one word: stemmed; an identifier whole and in parts; Chinese, Japanese, Korean in pairs."""
    found = _known.get(word)
    if found is None:
        found = _terms(word)
        if len(word) <= _LONGEST_WORD:
            if len(_known) >= _REMEMBERED:
                _known.clear()
            _known[word] = found
    return found


def _terms(word: str) -> tuple[str, ...]:
    if word.isascii() and word.isalpha() and word.islower():
        return (stemmed(word),)
    if word[-2:] == "++" or word[-1:] == "#":
        return (fold(word[0]) + ("plusplus" if word[-1] == "+" else "sharp"),)
    bare = unaccented(word)
    if is_cjk(bare):
        return tuple(dict.fromkeys(_mixed(bare)))
    pieces = _pieces(_without_quotes(bare))
    found: dict[str, None] = {}
    for piece in pieces:
        found[stemmed(fold(piece))] = None
        humps = _humps(piece)
        if len(humps) > 1:
            found.update((stemmed(fold(hump)), None) for hump in humps)
    if len(pieces) > 1:
        found[fold("".join(pieces))] = None
    return tuple(term for term in found if term)


def is_cjk(word: str) -> bool:
    """Whether a word has Chinese, Japanese or Korean characters."""
    return not word.isascii() and any(map(_is_cjk, word))


def _is_cjk(char: str) -> bool:
    return any(first <= char <= last for first, last in _CJK)


def _without_quotes(text: str) -> str:
    """A word, or a text, without quotes: `don't` is one word, `user's` is about a user."""
    if not any(quote in text for quote in _QUOTES):
        return text
    kept, before = [], ""
    for part in text.replace("’", "'").split("'"):
        owned = part[:1] in ("s", "S") and not part[1:2].isalnum()
        kept.append(part[1:] if owned and before.isalnum() and not is_cjk(before) else part)
        before = part[-1:]
    return "".join(kept)


def _pieces(word: str) -> list[str]:
    """The runs of letters and digits in a word."""
    found, at = [], 0
    while at < len(word):
        stop = _run(word, at)
        if stop > at:
            found.append(word[at:stop])
        at = max(stop, at + 1)
    return found


def _humps(piece: str) -> list[str]:
    """The parts of `camelCase`, `HTTPServer`, `v2beta`."""
    found, at = [], 0
    while at < len(piece):
        kind = _kind(piece[at])
        stop = _same(piece, at, kind)
        small = stop < len(piece) and _kind(piece[stop]) == "a"
        if kind == "A" and small:
            stop = _same(piece, stop, "a") if stop == at + 1 else stop - 1
        found.append(piece[at:stop])
        at = stop
    return found


def _kind(char: str) -> str:
    if char.isascii() and char.isalpha():
        return "A" if char.isupper() else "a"
    return "1" if char.isdecimal() else "?"


def _same(piece: str, at: int, kind: str) -> int:
    while at < len(piece) and _kind(piece[at]) == kind:
        at += 1
    return at


def _mixed(word: str) -> "Iterator[str]":
    """The terms of a word that has Chinese, Japanese or Korean characters: pairs of those, words of the rest."""
    for part in _apart(word):
        if not _is_cjk(part[0]):
            yield from word_terms(part)
        elif len(part) == 1:
            yield part
        else:
            yield from (part[at : at + 2] for at in range(len(part) - 1))


def _apart(word: str) -> list[str]:
    """The runs of Chinese, Japanese and Korean characters in a word, and the words between them."""
    found, at = [], 0
    while at < len(word):
        stop = at + 1
        ours = _is_cjk(word[at])
        while stop < len(word) and _is_cjk(word[stop]) == ours:
            stop += 1
        found += [word[at:stop]] if ours else words(word[at:stop])
        at = stop
    return found


def one_typo(left: str, right: str) -> bool:
    """Whether one letter was added, left out, changed, or swapped with its neighbour."""
    start = 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    a, b = left[start:], right[start:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])
    return a[1:] == b if len(a) > len(b) else a == b[1:]


class Text:
    """A text in which terms are looked for without bringing all of its words to their terms.

    It holds exactly the terms that the index has of the text, and a single Chinese, Japanese or Korean character
    wherever it stands, which the index has in pairs.
    """

    __slots__ = ("_low", "_squeezed", "_text")

    def __init__(self, text: str) -> None:
        self._text = unaccented(text)
        self._low = _lowered(self._text)  # of the same length: no letter that is left here grows in lowercase
        self._squeezed: str | None = None

    def holds(self, term: str) -> bool:
        """Whether a term is one of this text's terms."""
        if not term.isascii() and _is_cjk(term[0]):
            return term in self._low
        starts = _starts(term)
        for start in starts:
            if self._has_word(term, start):
                return True
        return self._has_compound(term, starts)

    def _has_word(self, term: str, start: str) -> bool:
        """Whether a word that begins like this, or a part of an identifier, has the term."""
        text, low = self._text, self._low
        at = low.find(start)
        while at >= 0:
            stop = at + 1
            small = "a" <= start[0] <= "z" and text.startswith(start, at)
            if not (small and at and "a" <= text[at - 1] <= "z"):  # no part of a word begins between small letters
                begin, stop = self._around(at)
                if term in word_terms(text[begin:stop]):
                    return True
            at = low.find(start, stop)
        return False

    def _around(self, at: int) -> tuple[int, int]:
        """Where the word that has this character begins and ends; quotes are within words."""
        text, begin = self._text, at
        while begin and (text[begin - 1].isalnum() or text[begin - 1] in _QUOTES):
            begin -= 1
        while begin < at and text[begin] in _QUOTES:
            begin += 1
        if not _joined(text, begin) and (stop := _language(text, begin)):
            return begin, stop
        stop = _run(text, at)
        while (behind := _over(text, stop, _QUOTES)) and text[behind : behind + 1].isalnum():
            stop = _run(text, behind)
        return begin, stop

    def _has_compound(self, term: str, starts: tuple[str, ...]) -> bool:
        """Whether a word with joining signs has this term when they are left out; `C++` and `C#` too.

        Without those signs the text then has more such places than with them. That is soon counted; only then its
        words are looked at.
        """
        if self._squeezed is None:
            self._squeezed = _squeezed(self._low)
        squeezed = self._squeezed
        for part in (*starts, term):
            if part in squeezed and squeezed.count(part) > self._low.count(part):
                break
        else:
            return False
        for chunk in self._text.split():
            if chunk.isalnum():
                continue  # no sign joins anything here
            if part in _squeezed(_lowered(chunk)) and any(term in word_terms(word) for word in words(chunk)):
                return True
        return False


def _joined(text: str, at: int) -> bool:
    """Whether joining signs lead from a word before to what stands here."""
    before = at
    while before and text[before - 1] in _JOINING:
        before -= 1
    return before < at and text[before - 1 : before].isalnum()


def _squeezed(low: str) -> str:
    return _without_quotes(low).replace("++", "plusplus").replace("#", "sharp").translate(_SQUEEZED)


def _starts(term: str) -> tuple[str, ...]:
    """How a word may begin that has this term: a stem is the beginning of its word, but for its last letter."""
    if term[-1] == "i":
        return term, term[:-1] + "y"
    return (term[:-1] if len(term) > 3 else term,)
