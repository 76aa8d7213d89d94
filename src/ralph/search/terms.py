"""Search terms: how a query and a text are brought to one form.

One set of rules for both sides: lowercase, accents folded, English stems, identifiers whole and in parts, pairs of
Chinese, Japanese and Korean characters. No dictionary and no model. Hooks load this module, so it has no regex.
"""

from __future__ import annotations

from itertools import islice

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STOP_WORDS = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "so",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
    }
)
"""Words that are dropped from queries."""

EVERYDAY_WORDS = frozenset(
    {
        "about",
        "above",
        "according",
        "across",
        "actual",
        "actually",
        "add",
        "after",
        "again",
        "against",
        "ago",
        "all",
        "allow",
        "almost",
        "along",
        "already",
        "also",
        "although",
        "always",
        "am",
        "among",
        "another",
        "any",
        "anybody",
        "anyone",
        "anything",
        "anyway",
        "apart",
        "appear",
        "around",
        "ask",
        "away",
        "back",
        "bad",
        "based",
        "basically",
        "because",
        "become",
        "been",
        "before",
        "began",
        "begin",
        "behind",
        "being",
        "believe",
        "below",
        "best",
        "better",
        "between",
        "big",
        "both",
        "bring",
        "call",
        "came",
        "care",
        "case",
        "cause",
        "certain",
        "certainly",
        "change",
        "come",
        "common",
        "consider",
        "could",
        "couple",
        "current",
        "currently",
        "day",
        "deal",
        "decide",
        "decided",
        "describe",
        "detail",
        "different",
        "doing",
        "done",
        "down",
        "during",
        "each",
        "easy",
        "either",
        "else",
        "end",
        "enough",
        "especially",
        "etc",
        "even",
        "ever",
        "every",
        "everybody",
        "everyone",
        "everything",
        "exactly",
        "example",
        "except",
        "exist",
        "expect",
        "explain",
        "fact",
        "far",
        "feel",
        "few",
        "finally",
        "find",
        "fine",
        "first",
        "following",
        "found",
        "full",
        "further",
        "gave",
        "general",
        "get",
        "give",
        "given",
        "go",
        "goes",
        "going",
        "gone",
        "good",
        "got",
        "great",
        "guess",
        "had",
        "happen",
        "hard",
        "hardly",
        "having",
        "he",
        "hear",
        "hello",
        "help",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "hold",
        "hope",
        "however",
        "idea",
        "important",
        "indeed",
        "inside",
        "instead",
        "involve",
        "issue",
        "itself",
        "just",
        "keep",
        "kind",
        "knew",
        "know",
        "known",
        "large",
        "last",
        "late",
        "lately",
        "later",
        "least",
        "leave",
        "left",
        "less",
        "let",
        "like",
        "likely",
        "little",
        "long",
        "look",
        "lot",
        "made",
        "main",
        "make",
        "many",
        "matter",
        "may",
        "maybe",
        "mean",
        "meant",
        "mention",
        "might",
        "mind",
        "mine",
        "more",
        "most",
        "mostly",
        "much",
        "must",
        "myself",
        "name",
        "near",
        "nearly",
        "necessary",
        "need",
        "neither",
        "never",
        "new",
        "next",
        "nice",
        "nobody",
        "none",
        "nor",
        "normal",
        "normally",
        "nothing",
        "notice",
        "now",
        "number",
        "often",
        "oh",
        "ok",
        "okay",
        "old",
        "once",
        "one",
        "only",
        "open",
        "other",
        "others",
        "otherwise",
        "ought",
        "ours",
        "out",
        "outside",
        "over",
        "own",
        "part",
        "particular",
        "past",
        "people",
        "perhaps",
        "person",
        "place",
        "please",
        "plenty",
        "point",
        "possible",
        "possibly",
        "pretty",
        "previous",
        "probably",
        "problem",
        "project",
        "put",
        "quick",
        "quickly",
        "quite",
        "rather",
        "reach",
        "real",
        "really",
        "reason",
        "recent",
        "recently",
        "recommend",
        "regarding",
        "related",
        "remember",
        "remind",
        "right",
        "said",
        "same",
        "saw",
        "say",
        "see",
        "seem",
        "seen",
        "several",
        "shall",
        "she",
        "short",
        "should",
        "show",
        "similar",
        "simple",
        "simply",
        "since",
        "small",
        "some",
        "somebody",
        "someone",
        "something",
        "sometimes",
        "somewhere",
        "soon",
        "sort",
        "special",
        "specific",
        "start",
        "still",
        "stop",
        "such",
        "suggest",
        "sure",
        "take",
        "taken",
        "talk",
        "tell",
        "than",
        "thank",
        "thanks",
        "thing",
        "think",
        "though",
        "thought",
        "three",
        "through",
        "thus",
        "time",
        "today",
        "together",
        "told",
        "tomorrow",
        "too",
        "took",
        "toward",
        "tried",
        "true",
        "try",
        "turn",
        "two",
        "under",
        "until",
        "up",
        "upon",
        "use",
        "used",
        "useful",
        "user",
        "using",
        "usual",
        "usually",
        "various",
        "very",
        "via",
        "want",
        "way",
        "week",
        "well",
        "went",
        "whatever",
        "whenever",
        "whether",
        "while",
        "whole",
        "whom",
        "whose",
        "within",
        "without",
        "word",
        "work",
        "world",
        "would",
        "wrong",
        "yeah",
        "year",
        "yes",
        "yesterday",
        "yet",
    }
)
"""General English words, which say less than their count in an index: not fitted to any data set."""

_JOINERS = "_-./:'’@\\"
"""Characters within an identifier, a path, a dotted name or a version."""
_CJK = (
    ("\u3040", "\u30ff"),
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uac00", "\ud7af"),
    ("\uf900", "\ufaff"),
)
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_SQUEEZED = dict.fromkeys(map(ord, _JOINERS))
_ASCII_JOINERS = b"_-./:'@\\"
AROUND = "`'\"()[]{}<>*,;:!?.=-"  # characters around a word in a text
LONGEST_QUERY = 4000
# how often a term is looked for in a text, and how many characters are close
_MOST_PLACES = 100
_CLOSE = 80
_CACHE_SIZE = 65_536
_LONGEST_WORD = 100
"""How many words are cached with their terms, and how long they may be."""
_term_cache: dict[str, tuple[str, ...]] = {}
_chunk_cache: dict[str, tuple[str, ...]] = {}


class _Separators(dict[int, int]):
    """A table for `str.translate` that turns all that is not part of a word into spaces; filled when needed."""

    def __missing__(self, code: int) -> int:
        char = chr(code)
        self[code] = code if char.isalnum() or char in _JOINERS or char in "+#" else ord(" ")
        return self[code]


class _Kinds(dict[int, str]):
    """A table for `str.translate`: A and a for ASCII letters, 1 for digits, ? for the rest; filled when needed."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        is_letter = char.isascii() and char.isalpha()
        self[code] = (
            ("A" if char.isupper() else "a") if is_letter else "1" if char.isdecimal() else "?"
        )
        return self[code]


_separators = _Separators()
_kinds = _Kinds()
_ALNUM = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_BETWEEN = bytes(range(128)).translate(None, _ALNUM + _ASCII_JOINERS + b"+#")
_WORD_BYTES = bytes.maketrans(_BETWEEN, b" " * len(_BETWEEN))
_PIECE_BYTES = bytes.maketrans(bytes(range(256)).translate(None, _ALNUM), b" " * 194)
_KIND_BYTES = b"?" * 48 + b"1" * 10 + b"?" * 7 + b"A" * 26 + b"?" * 6 + b"a" * 26 + b"?" * 133
"""The same for ASCII texts, as bytes: several times as fast."""


def fold(text: str) -> str:
    """Lowercase, with accents, width variants and the Greek sigma of a word's end folded."""
    return unaccented(text).lower().replace("ς", "σ")


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
    words: list[str] = []
    spaced = _translate(text, _WORD_BYTES) if text.isascii() else text.translate(_separators)
    for chunk in spaced.split():
        if "+" in chunk or "#" in chunk:
            words += _split_languages(chunk)
        elif word := chunk.strip(_JOINERS):
            words.append(word)
    return words


def _translate(text: str, table: bytes) -> str:
    return text.encode("ascii").translate(table).decode("ascii")


def _split_languages(chunk: str) -> list[str]:
    """Split at `+` and `#`, but for one letter before `++` or `#` at a word's start."""
    words: list[str] = []
    while chunk := chunk.lstrip(_JOINERS + "+#"):
        size = 3 if chunk[1:3] == "++" else 2
        after = chunk[size : size + 1]
        is_letter = chunk[0].isascii() and chunk[0].isalpha()
        if is_letter and chunk[1:size] in ("++", "#") and not (after.isalnum() or after == "_"):
            words.append(chunk[:size])
        else:
            size = len(chunk.replace("#", "+").partition("+")[0])
            words.append(chunk[:size].rstrip(_JOINERS))
        chunk = chunk[size:]
    return words


def index_terms(text: str) -> str:
    """Return the terms of a text for the full-text index, separated by spaces."""
    terms: list[str] = []
    for word in split_words(unaccented(text)):
        terms += _term_cache.get(word) or word_terms(word)
    return " ".join(terms)


def query_terms(text: str) -> list[QueryWord]:
    """Return the distinct words of a query with their terms; stop words are dropped unless nothing else is left."""
    sound = text[:LONGEST_QUERY].encode("utf-8", "replace").decode("utf-8")
    bare_words = split_words(unaccented(sound))
    written_words = bare_words if sound.isascii() else split_words(sound)
    if len(written_words) != len(bare_words):
        written_words = bare_words
    unique: dict[tuple[str, ...], QueryWord] = {}
    for at, bare in enumerate(bare_words):
        pairs = (
            [(part, part) for part in _split_cjk(bare)]
            if is_cjk(bare)
            else [(written_words[at], bare)]
        )
        for written, word in pairs:
            if terms := word_terms(word):
                if (
                    len(terms) == 3
                    and terms[1] + terms[2] == terms[0]
                    and terms[2].isdigit()
                    and len(terms[2]) > 2
                ):
                    terms = terms[
                        ::2
                    ]  # the letters of an error code, such as TS2304, say nothing alone
                unique.setdefault(terms, QueryWord(written, terms))
    content = [word for word in unique.values() if word.text.lower() not in STOP_WORDS]
    return content or list(unique.values())


def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of one word: its stem; an identifier whole and in parts; CJK characters in pairs."""
    terms = _term_cache.get(word)
    if terms is None:
        terms = _compute_terms(word)
        if len(word) <= _LONGEST_WORD:
            if len(_term_cache) >= _CACHE_SIZE:
                _term_cache.clear()
            _term_cache[word] = terms
    return terms


def _compute_terms(word: str) -> tuple[str, ...]:
    if word.isascii() and word.isalpha() and word.islower():
        return (stem(word),)
    if word[-2:] == "++" or word[-1:] == "#":
        return (fold(word[0]) + ("plusplus" if word[-1] == "+" else "sharp"),)
    bare = unaccented(word)
    if is_cjk(bare):
        return tuple(dict.fromkeys(_cjk_terms(bare)))
    bare = _without_quotes(bare)
    spaced = "".join(char if char.isalnum() else " " for char in bare) if not bare.isascii() else ""
    pieces = (spaced or _translate(bare, _PIECE_BYTES)).split()
    terms: list[str] = []
    for piece in pieces:
        parts = (
            [piece]
            if piece.isascii() and piece.isalpha() and piece.islower()
            else _camel_parts(piece)
        )
        for low in map(fold, [piece, *parts] if len(parts) > 1 else [piece]):
            terms += (
                word_terms(low) if low.isascii() and low.isalpha() else (low,)
            )  # those have stems, in the cache
    if len(pieces) > 1:
        terms.append(fold("".join(pieces)))
    return tuple(dict.fromkeys(filter(None, terms)))


def is_cjk(word: str) -> bool:
    """Whether a word has Chinese, Japanese or Korean characters."""
    return not word.isascii() and any(
        first <= char <= last for char in word for first, last in _CJK
    )


def _without_quotes(text: str) -> str:
    """Remove quotes: `don't` is one word, `user's` is about a user."""
    if "'" not in text and "’" not in text:
        return text
    parts = []
    before = ""
    for part in text.replace("’", "'").split("'"):
        owned = part[:1] in ("s", "S") and not part[1:2].isalnum()
        parts.append(part[1:] if owned and before.isalnum() and not is_cjk(before) else part)
        before = part[-1:]
    return "".join(parts)


def _camel_parts(piece: str) -> list[str]:
    """Split `camelCase`, `HTTPServer`, `v2beta` into parts."""
    kinds = _translate(piece, _KIND_BYTES) if piece.isascii() else piece.translate(_kinds)
    starts = [0]
    for at in range(1, len(piece)):
        before = kinds[at - 1]
        here = kinds[at]
        if (here != before and before + here != "Aa") or kinds[at - 1 : at + 2] == "AAa":
            starts.append(at)
    return [piece[start:end] for start, end in zip(starts, [*starts[1:], len(piece)], strict=True)]


def _cjk_terms(word: str) -> list[str]:
    terms: list[str] = []
    for part in _split_cjk(word):
        if not is_cjk(part[0]):
            terms += word_terms(part)
        else:
            terms += [part[at : at + 2] for at in range(max(len(part) - 1, 1))]
    return terms


def _split_cjk(word: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(word):
        stop = at + 1
        cjk = is_cjk(word[at])
        while stop < len(word) and is_cjk(word[stop]) == cjk:
            stop += 1
        parts += [word[at:stop]] if cjk else split_words(word[at:stop])
        at = stop
    return parts


def one_typo(left: str, right: str) -> bool:
    """Whether the words differ by one letter added, left out, changed, or swapped with its neighbour."""
    start = 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    a = left[start:]
    b = right[start:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])
    return a[1:] == b if len(a) > len(b) else a == b[1:]


class TermMatcher:
    """Looks for terms in a text without computing the terms of all its words.

    It contains exactly the terms that the index has of the text, and every single CJK character, which the index
    has in pairs. The text is squeezed (lowercase, without the characters that join words) so that every term, but
    for its last letter, is in it; only words in which one is are looked at.
    """

    __slots__ = ("_chunks", "_squeezed")

    def __init__(self, text: str) -> None:
        self._chunks = unaccented(text).split()
        low = fold(" ".join(self._chunks)).replace("++", "plusplus").replace("#", "sharp")
        low = _without_quotes(low)
        is_ascii = low.isascii()  # then several times as fast
        self._squeezed = (
            str(low.encode().translate(None, _ASCII_JOINERS), "ascii")
            if is_ascii
            else low.translate(_SQUEEZED)
        )

    def contains(self, term: str) -> bool:
        """Whether a term is one of this text's terms."""
        return term[:-1] in self._squeezed and next(self.places(term), None) is not None

    def places(self, term: str) -> Iterator[int]:
        """Yield the numbers of the chunks between blanks that have a term."""
        if is_cjk(term[0]):
            yield from (number for number, chunk in enumerate(self._chunks) if term in chunk)
            return
        for start in _starts(term):
            at = self._squeezed.find(start)
            while at >= 0:
                number = self._squeezed.count(" ", 0, at)
                chunk = self._chunks[number].strip(AROUND)
                if (
                    chunk.islower() and chunk.isalpha() and chunk.isascii()
                ):  # one word, so that most need no stem
                    if chunk.startswith(start) and term in word_terms(chunk):
                        yield number
                else:  # texts repeat their paths and identifiers
                    if chunk not in _chunk_cache:
                        if len(_chunk_cache) >= _CACHE_SIZE:
                            _chunk_cache.clear()
                        _chunk_cache[chunk] = tuple(
                            each for word in split_words(chunk) for each in word_terms(word)
                        )
                    if term in _chunk_cache[chunk]:
                        yield number
                end = self._squeezed.find(" ", at)
                at = self._squeezed.find(start, end) if end >= 0 else -1


def best_place(text: str, weights: Mapping[str, float]) -> int:
    """Return where a text has the most of some terms close together, by weight; 0 where it has none of them.

    Terms that are no words of the text are looked for letter for letter.
    """
    words = text.split(" ")
    if not text.isascii():  # an accent may be folded to a blank, but each word must stay one chunk
        words = ["".join(unaccented(word).split()) or "." for word in words]
    matcher = TermMatcher(" ".join(words))
    places = set[tuple[int, str]]()
    starts = [0]
    for word in text.split(" "):
        starts.append(starts[-1] + len(word) + 1)
    for term in weights:
        for number in islice(matcher.places(term), _MOST_PLACES):
            places.add(
                (
                    starts[number] + (max(words[number].find(term), 0) if is_cjk(term[0]) else 0),
                    term,
                )
            )
    if not places:
        places = {(at, term) for term in weights if (at := text.lower().find(term)) >= 0}
    best = 0
    most = 0.0
    ordered = sorted(places)
    for number, (at, _) in enumerate(ordered):
        near = {
            term for place, term in ordered[number : number + _MOST_PLACES] if place < at + _CLOSE
        }
        if (weight := sum(weights[term] for term in near)) > most + 1e-9:
            best = at
            most = weight
    return best


def _starts(term: str) -> tuple[str, ...]:
    """Return how a word with this term may begin: as the term does, but for a last letter that stemming changes."""
    if term[-1] == "i":
        return term, term[:-1] + "y"
    return (term[:-1] if len(term) > 3 and (term[-1] == "e" or term.endswith("bl")) else term,)


# --- Porter's stemming algorithm (1980) ---------------------------------------------------------
# Done here and not by SQLite, so that the vocabulary of the index has exactly the terms that a query looks for:
# document frequencies and nearest terms are then simple lookups.


def _suffixes(pairs: str) -> dict[str, list[tuple[str, str]]]:
    """Return endings and what replaces them, in their order, by their last two letters."""
    table: dict[str, list[tuple[str, str]]] = {}
    for ending, _, instead in (pair.partition(":") for pair in pairs.split()):
        table.setdefault(ending[-2:], []).append((ending, instead))
    return table


# The longest endings first.
_STEP2 = _suffixes(
    "ational:ate ization:ize iveness:ive fulness:ful ousness:ous tional:tion biliti:ble entli:ent ousli:ous ation:ate "
    "alism:al aliti:al iviti:ive enci:ence anci:ance izer:ize logi:log alli:al ator:ate bli:ble eli:e"
)
_STEP3 = _suffixes("icate:ic ative: alize:al iciti:ic ical:ic ness: ful:")
_STEP4 = _suffixes("ement ance ence able ible ment ant ent ion ism ate iti ous ive ize al er ic ou")
_LONGEST_STEMMED = 64
_VOWELS = b"c" * 97 + b"vcccvcccvcccccvcccccvcccyc" + b"c" * 133


def stem(word: str) -> str:
    """Return the stem of a lowercase word; anything but an English word stays as it is."""
    if len(word) < 3 or len(word) > _LONGEST_STEMMED or not word.isascii() or not word.isalpha():
        return word
    if word[-1] == "s":
        if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word[-1] in "dg":
        word = _strip_ed_ing(word)
    if word[-1] == "y" and "v" in _letter_kinds(word[:-1]):
        word = word[:-1] + "i"
    for table, least in ((_STEP2, 0), (_STEP3, 0), (_STEP4, 1)):
        for ending, instead in table.get(word[-2:], ()):
            if word.endswith(ending):
                base = word[: -len(ending)]
                if _measure(base) > least and (ending != "ion" or base.endswith(("s", "t"))):
                    word = base + instead
                break
    if word[-1] == "e":
        base = word[:-1]
        if _measure(base) > 1 or (_measure(base) == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word[-1] == "l" and word.endswith("ll") and _measure(word) > 1 else word


def _strip_ed_ing(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: -len(ending)]
        if word.endswith(ending):
            if "v" not in _letter_kinds(base):
                return word
            if base.endswith(("at", "bl", "iz")):
                return base + "e"
            if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "aeioulsz":
                return base[:-1]
            return base + "e" if _measure(base) == 1 and _ends_short(base) else base
    return word


def _letter_kinds(word: str) -> str:
    """Return v for each vowel and c for each consonant of a word; y is a vowel after a consonant."""
    kinds = _translate(word, _VOWELS)
    while (at := kinds.find("y")) >= 0:
        kinds = f"{kinds[:at]}{'v' if kinds[at - 1 : at] == 'c' else 'c'}{kinds[at + 1 :]}"
    return kinds


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _letter_kinds(word).count("vc")


def _ends_short(word: str) -> bool:
    """Ends in consonant, vowel, consonant, the last not w, x or y."""
    return _letter_kinds(word)[-3:] == "cvc" and word[-1] not in "wxy"
