"""Search terms: how a query and a text are brought to one form.

One set of rules for both sides: lowercase, accents folded, English stems, identifiers whole and in parts, pairs of
Chinese, Japanese and Korean characters; stop words are dropped from queries. No dictionary and no model. Hooks load
this module, so the one regex, which splits long texts for the index, is compiled when it is first needed.
"""

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
"""Words that are dropped from queries."""

EVERYDAY_WORDS = frozenset(
    (
        "about above according across actual actually add after again against ago all allow almost along already also "
        "although always am among another any anybody anyone anything anyway apart appear around ask away back bad "
        "based basically because become been before began begin behind being believe below best better between big "
        "both bring call came care case cause certain certainly change come common consider could couple current "
        "currently day deal decide decided describe detail different doing done down during each easy either else "
        "end enough especially etc even ever every everybody everyone everything exactly example except exist expect "
        "explain fact far feel few finally find fine first following found full further gave general get give given "
        "go goes going gone good got great guess had happen hard hardly having he hear hello help her here hers him "
        "his hold hope however idea important indeed inside instead involve issue itself just keep kind knew know "
        "known large last late lately later least leave left less let like likely little long look lot made main "
        "make many matter may maybe mean meant mention might mind mine more most mostly much must myself name near "
        "nearly necessary need neither never new next nice nobody none nor normal normally nothing notice now number "
        "often oh ok okay old once one only open other others otherwise ought ours out outside over own part "
        "particular past people perhaps person place please plenty point possible possibly pretty previous probably "
        "problem project put quick quickly quite rather reach real really reason recent recently recommend regarding "
        "related remember remind right said same saw say see seem seen several shall she short should show similar "
        "simple simply since small some somebody someone something sometimes somewhere soon sort special specific "
        "start still stop such suggest sure take taken talk tell than thank thanks thing think though thought "
        "three through thus time today together told tomorrow too took toward tried true try turn two under until up "
        "upon use used useful user using usual usually various very via want way week well went whatever whenever "
        "whether while whole whom whose within without word work world would wrong yeah year yes yesterday yet"
    ).split()
)
"""General English words, which say less than their count in an index: not fitted to any data set."""

_JOINERS = "_-./:'’@\\"
"""Characters within an identifier, a path, a dotted name or a version."""
_QUOTES = "'’"
_CJK = (("\u3040", "\u30ff"), ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7af"), ("\uf900", "\ufaff"))
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_SQUEEZED = dict.fromkeys(map(ord, _JOINERS))
_LONGEST_QUERY = 4000
_CACHE_SIZE, _LONGEST_WORD = 65_536, 100
"""How many words are cached with their terms, and how long they may be."""
_term_cache: dict[str, tuple[str, ...]] = {}
_splitters: "list[Callable[[str], list[str]]]" = []


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
    from unicodedata import normalize

    return normalize("NFC", normalize("NFKD", text).translate(_ACCENTS))


class QueryWord:
    """One word of a query as it was written, and its search terms."""

    __slots__ = ("terms", "text")

    def __init__(self, text: str, terms: tuple[str, ...]) -> None:
        self.text = text
        self.terms = terms


def split_words(text: str) -> list[str]:
    """Split a text into words as written; an identifier or a path is one word, and so is `C++`."""
    found = []
    at, end = 0, len(text)
    while at < end:
        if not text[at].isalnum():
            at += 1
            continue
        stop = _language_end(text, at) or _alnum_end(text, at)
        if text[stop - 1].isalnum():
            while (behind := _skip(text, stop)) and text[behind : behind + 1].isalnum():
                stop = _alnum_end(text, behind)
        found.append(text[at:stop])
        at = stop
    return found


def _language_end(text: str, at: int) -> int:
    """The end of a name such as `C++` or `C#`; 0 when none begins here."""
    if not (text[at].isascii() and text[at].isalpha()):
        return 0
    for suffix in ("++", "#"):
        stop = at + 1 + len(suffix)
        after = text[stop : stop + 1]
        if text[at + 1 : stop] == suffix and not (after.isalnum() or after == "_"):
            return stop
    return 0


def _alnum_end(text: str, at: int) -> int:
    """The end of the letters and digits that begin here."""
    end = len(text)
    while at < end and text[at].isalnum():
        at += 1
    return at


def _skip(text: str, at: int, characters: str = _JOINERS) -> int:
    """The position after a run of these characters; 0 when there are none."""
    start, end = at, len(text)
    while at < end and text[at] in characters:
        at += 1
    return at if at > start else 0


def _split_long(text: str) -> list[str]:
    """The same as `split_words`, faster on long texts."""
    if not _splitters:
        import re

        _splitters.append(re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*").findall)
    return _splitters[0](text)


def index_terms(text: str) -> str:
    """The terms of a text for the full-text index, separated by spaces."""
    found: list[str] = []
    for word in _split_long(unaccented(text)):
        found += _term_cache.get(word) or word_terms(word)
    return " ".join(found)


def query_terms(text: str) -> list[QueryWord]:
    """The distinct words of a query with their terms; stop words are dropped unless nothing else is left."""
    sound = text[:_LONGEST_QUERY].encode("utf-8", "replace").decode("utf-8")
    bare_words, written_words = split_words(unaccented(sound)), split_words(sound)
    if len(written_words) != len(bare_words):
        written_words = bare_words
    unique: dict[tuple[str, ...], QueryWord] = {}
    for at, bare in enumerate(bare_words):
        pairs = [(part, part) for part in _split_cjk(bare)] if is_cjk(bare) else [(written_words[at], bare)]
        for written, word in pairs:
            if terms := word_terms(word):
                unique.setdefault(terms, QueryWord(written, terms))
    content = [word for word in unique.values() if word.text.lower() not in STOP_WORDS]
    return content or list(unique.values())


def word_terms(word: str) -> tuple[str, ...]:
    """The terms of one word: its stem; an identifier whole and in parts; CJK characters in pairs."""
    found = _term_cache.get(word)
    if found is None:
        found = _compute_terms(word)
        if len(word) <= _LONGEST_WORD:
            if len(_term_cache) >= _CACHE_SIZE:
                _term_cache.clear()
            _term_cache[word] = found
    return found


def _compute_terms(word: str) -> tuple[str, ...]:
    if word.isascii() and word.isalpha() and word.islower():
        return (stem(word),)
    if word[-2:] == "++" or word[-1:] == "#":
        return (fold(word[0]) + ("plusplus" if word[-1] == "+" else "sharp"),)
    bare = unaccented(word)
    if is_cjk(bare):
        return tuple(dict.fromkeys(_cjk_terms(bare)))
    pieces = _pieces(_without_quotes(bare))
    found: dict[str, None] = {}
    for piece in pieces:
        found[stem(fold(piece))] = None
        parts = _camel_parts(piece)
        if len(parts) > 1:
            found.update((stem(fold(part)), None) for part in parts)
    if len(pieces) > 1:
        found[fold("".join(pieces))] = None
    return tuple(term for term in found if term)


def is_cjk(word: str) -> bool:
    """Whether a word has Chinese, Japanese or Korean characters."""
    return not word.isascii() and any(map(_is_cjk, word))


def _is_cjk(char: str) -> bool:
    return any(first <= char <= last for first, last in _CJK)


def _without_quotes(text: str) -> str:
    """Remove quotes: `don't` is one word, `user's` is about a user."""
    if not any(quote in text for quote in _QUOTES):
        return text
    parts, before = [], ""
    for part in text.replace("’", "'").split("'"):
        owned = part[:1] in ("s", "S") and not part[1:2].isalnum()
        parts.append(part[1:] if owned and before.isalnum() and not is_cjk(before) else part)
        before = part[-1:]
    return "".join(parts)


def _pieces(word: str) -> list[str]:
    """The runs of letters and digits in a word."""
    found, at = [], 0
    while at < len(word):
        stop = _alnum_end(word, at)
        if stop > at:
            found.append(word[at:stop])
        at = max(stop, at + 1)
    return found


def _camel_parts(piece: str) -> list[str]:
    """The parts of `camelCase`, `HTTPServer`, `v2beta`."""
    found, at = [], 0
    while at < len(piece):
        kind = _kind(piece[at])
        stop = _same_kind_end(piece, at, kind)
        small = stop < len(piece) and _kind(piece[stop]) == "a"
        if kind == "A" and small:
            stop = _same_kind_end(piece, stop, "a") if stop == at + 1 else stop - 1
        found.append(piece[at:stop])
        at = stop
    return found


def _kind(char: str) -> str:
    if char.isascii() and char.isalpha():
        return "A" if char.isupper() else "a"
    return "1" if char.isdecimal() else "?"


def _same_kind_end(piece: str, at: int, kind: str) -> int:
    while at < len(piece) and _kind(piece[at]) == kind:
        at += 1
    return at


def _cjk_terms(word: str) -> "Iterator[str]":
    """Yield the terms of a word with CJK characters: pairs of those, words of the rest."""
    for part in _split_cjk(word):
        if not _is_cjk(part[0]):
            yield from word_terms(part)
        elif len(part) == 1:
            yield part
        else:
            yield from (part[at : at + 2] for at in range(len(part) - 1))


def _split_cjk(word: str) -> list[str]:
    """The runs of CJK characters in a word, and the words between them."""
    found, at = [], 0
    while at < len(word):
        stop = at + 1
        cjk = _is_cjk(word[at])
        while stop < len(word) and _is_cjk(word[stop]) == cjk:
            stop += 1
        found += [word[at:stop]] if cjk else split_words(word[at:stop])
        at = stop
    return found


def one_typo(left: str, right: str) -> bool:
    """Whether the words differ by one letter added, left out, changed, or swapped with its neighbour."""
    start = 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    a, b = left[start:], right[start:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])
    return a[1:] == b if len(a) > len(b) else a == b[1:]


class TermMatcher:
    """Look for terms in a text without computing the terms of all its words.

    It contains exactly the terms that the index has of the text, and every single CJK character, which the index
    has in pairs.
    """

    __slots__ = ("_low", "_squeezed", "_text")

    def __init__(self, text: str) -> None:
        self._text = unaccented(text)
        self._low = _lowered(self._text)  # of the same length: no letter that is left here grows in lowercase
        self._squeezed: str | None = None

    def contains(self, term: str) -> bool:
        """Whether a term is one of this text's terms."""
        if not term.isascii() and _is_cjk(term[0]):
            return term in self._low
        starts = _starts(term)
        for start in starts:
            if self._has_word(term, start):
                return True
        return self._has_compound(term, starts)

    def _has_word(self, term: str, start: str) -> bool:
        """Whether a word, or a part of an identifier, that begins like this has the term."""
        text, low = self._text, self._low
        at = low.find(start)
        while at >= 0:
            stop = at + 1
            small = "a" <= start[0] <= "z" and text.startswith(start, at)
            if not (small and at and "a" <= text[at - 1] <= "z"):  # no part of a word begins between small letters
                begin, stop = self._word_at(at)
                if term in word_terms(text[begin:stop]):
                    return True
            at = low.find(start, stop)
        return False

    def _word_at(self, at: int) -> tuple[int, int]:
        """The start and end of the word around this position; quotes are within words."""
        text, begin = self._text, at
        while begin and (text[begin - 1].isalnum() or text[begin - 1] in _QUOTES):
            begin -= 1
        while begin < at and text[begin] in _QUOTES:
            begin += 1
        if not _joined(text, begin) and (stop := _language_end(text, begin)):
            return begin, stop
        stop = _alnum_end(text, at)
        while (behind := _skip(text, stop, _QUOTES)) and text[behind : behind + 1].isalnum():
            stop = _alnum_end(text, behind)
        return begin, stop

    def _has_compound(self, term: str, starts: tuple[str, ...]) -> bool:
        """Whether a word has this term when its joining characters are removed; `C++` and `C#` too.

        Counting occurrences with and without those characters is cheap; only a difference makes it look at words.
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
                continue  # nothing is joined here
            if part in _squeezed(_lowered(chunk)) and any(term in word_terms(word) for word in split_words(chunk)):
                return True
        return False


def _joined(text: str, at: int) -> bool:
    """Whether joining characters connect the word before with this position."""
    before = at
    while before and text[before - 1] in _JOINERS:
        before -= 1
    return before < at and text[before - 1 : before].isalnum()


def _squeezed(low: str) -> str:
    return _without_quotes(low).replace("++", "plusplus").replace("#", "sharp").translate(_SQUEEZED)


def _starts(term: str) -> tuple[str, ...]:
    """How a word with this term may begin: a stem is the beginning of its word, but for its last letter."""
    if term[-1] == "i":
        return term, term[:-1] + "y"
    return (term[:-1] if len(term) > 3 else term,)


# --- Porter's stemming algorithm (1980) ---------------------------------------------------------
# Done here and not by SQLite, so that the vocabulary of the index has exactly the terms that a query looks for:
# document frequencies and nearest terms are then simple lookups.


def _suffixes(pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple((ending, instead) for ending, _, instead in (pair.partition(":") for pair in pairs.split()))


# Endings and what replaces them, the longest first.
_STEP2 = _suffixes(
    "ational:ate ization:ize iveness:ive fulness:ful ousness:ous tional:tion biliti:ble entli:ent ousli:ous ation:ate "
    "alism:al aliti:al iviti:ive enci:ence anci:ance izer:ize logi:log alli:al ator:ate bli:ble eli:e"
)
_STEP3 = _suffixes("icate:ic ative: alize:al iciti:ic ical:ic ness: ful:")
_STEP4 = "ement ance ence able ible ment ant ent ion ism ate iti ous ive ize al er ic ou".split()
_LONGEST_STEMMED = 64
_stems: dict[str, str] = {}


def stem(word: str) -> str:
    """The stem of a lowercase word; anything but an English word stays as it is."""
    found = _stems.get(word)
    if found is None:
        if len(_stems) >= _CACHE_SIZE:
            _stems.clear()
        found = _stems[word] = _stem(word)
    return found


def _stem(word: str) -> str:
    if len(word) < 3 or len(word) > _LONGEST_STEMMED or not word.isascii() or not word.isalpha():
        return word
    if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _strip_ed_ing(word)
    if word.endswith("y") and any(_vowel_flags(word[:-1])):
        word = word[:-1] + "i"
    for pairs in (_STEP2, _STEP3):
        ending, instead = next((pair for pair in pairs if word.endswith(pair[0])), ("", ""))
        if ending and _measure(word[: -len(ending)]) > 0:
            word = word[: -len(ending)] + instead
    if ending := next((ending for ending in _STEP4 if word.endswith(ending)), ""):
        base = word[: -len(ending)]
        if _measure(base) > 1 and (ending != "ion" or base.endswith(("s", "t"))):
            word = base
    if word.endswith("e"):
        base = word[:-1]
        if _measure(base) > 1 or (_measure(base) == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _strip_ed_ing(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: -len(ending)]
        if word.endswith(ending):
            if not any(_vowel_flags(base)):
                return word
            if base.endswith(("at", "bl", "iz")):
                return base + "e"
            if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "aeioulsz":
                return base[:-1]
            return base + "e" if _measure(base) == 1 and _ends_short(base) else base
    return word


def _vowel_flags(word: str) -> list[bool]:
    """For each letter whether it is a vowel; y is one after a consonant."""
    flags: list[bool] = []
    for letter in word:
        flags.append(letter in "aeiou" or (letter == "y" and bool(flags) and not flags[-1]))
    return flags


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    flags = _vowel_flags(word)
    return sum(1 for at in range(1, len(flags)) if flags[at - 1] and not flags[at])


def _ends_short(word: str) -> bool:
    """Ends in consonant, vowel, consonant, the last not w, x or y."""
    return _vowel_flags(word)[-3:] == [False, True, False] and word[-1] not in "wxy"
