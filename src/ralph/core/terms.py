"""Reduce records and queries to search terms.

The same rules apply to both. Words are lowercased, their accents folded, and English words stemmed.
Identifiers are indexed whole and in parts, and Chinese, Japanese and Korean (CJK) characters in
pairs. For example, `getUserName` yields `getusernam`, `get`, `user` and `name`. There is no
dictionary and no model. Indexes store the terms, so `index_schema.SCHEMA_VERSION` must be increased
whenever a rule changes.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# fmt: off
STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "did", "do", "does", "for",
    "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my",
    "no", "not", "of", "on", "or", "our", "so", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "us", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "you", "your",
})
"""Words that are dropped from queries."""

EVERYDAY_WORDS = frozenset({
    "about", "above", "according", "across", "actual", "actually", "add", "after", "again",
    "against", "ago", "all", "allow", "almost", "along", "already", "also", "although", "always",
    "am", "among", "another", "any", "anybody", "anyone", "anything", "anyway", "apart", "appear",
    "around", "ask", "away", "back", "bad", "based", "basically", "because", "become", "been",
    "before", "began", "begin", "behind", "being", "believe", "below", "best", "better", "between",
    "big", "both", "bring", "call", "came", "care", "case", "cause", "certain", "certainly",
    "change", "come", "common", "consider", "could", "couple", "current", "currently", "day",
    "deal", "decide", "decided", "describe", "detail", "different", "doing", "done", "down",
    "during", "each", "easy", "either", "else", "end", "enough", "especially", "etc", "even",
    "ever", "every", "everybody", "everyone", "everything", "exactly", "example", "except", "exist",
    "expect", "explain", "fact", "far", "feel", "few", "finally", "find", "fine", "first",
    "following", "found", "full", "further", "gave", "general", "get", "give", "given", "go",
    "goes", "going", "gone", "good", "got", "great", "guess", "had", "happen", "hard", "hardly",
    "having", "he", "hear", "hello", "help", "her", "here", "hers", "him", "his", "hold", "hope",
    "however", "idea", "important", "indeed", "inside", "instead", "involve", "issue", "itself",
    "just", "keep", "kind", "knew", "know", "known", "large", "last", "late", "lately", "later",
    "least", "leave", "left", "less", "let", "like", "likely", "little", "long", "look", "lot",
    "made", "main", "make", "many", "matter", "may", "maybe", "mean", "meant", "mention", "might",
    "mind", "mine", "more", "most", "mostly", "much", "must", "myself", "name", "near", "nearly",
    "necessary", "need", "neither", "never", "new", "next", "nice", "nobody", "none", "nor",
    "normal", "normally", "nothing", "notice", "now", "number", "often", "oh", "ok", "okay", "old",
    "once", "one", "only", "open", "other", "others", "otherwise", "ought", "ours", "out",
    "outside", "over", "own", "part", "particular", "past", "people", "perhaps", "person", "place",
    "please", "plenty", "point", "possible", "possibly", "pretty", "previous", "probably",
    "problem", "project", "put", "quick", "quickly", "quite", "rather", "reach", "real", "really",
    "reason", "recent", "recently", "recommend", "regarding", "related", "remember", "remind",
    "right", "said", "same", "saw", "say", "see", "seem", "seen", "several", "shall", "she",
    "short", "should", "show", "similar", "simple", "simply", "since", "small", "some", "somebody",
    "someone", "something", "sometimes", "somewhere", "soon", "sort", "special", "specific",
    "start", "still", "stop", "such", "suggest", "sure", "take", "taken", "talk", "tell", "than",
    "thank", "thanks", "thing", "think", "though", "thought", "three", "through", "thus", "time",
    "today", "together", "told", "tomorrow", "too", "took", "toward", "tried", "true", "try",
    "turn", "two", "under", "until", "up", "upon", "use", "used", "useful", "user", "using",
    "usual", "usually", "various", "very", "via", "want", "way", "week", "well", "went", "whatever",
    "whenever", "whether", "while", "whole", "whom", "whose", "within", "without", "word", "work",
    "world", "would", "wrong", "yeah", "year", "yes", "yesterday", "yet",
})
"""Common English words, which are less informative than their frequency in an index suggests.

The list is not tuned to any data set.
"""
# fmt: on

LONGEST_QUERY = 4000
"""The maximum length of a query, in characters. The rest is ignored."""
AROUND = "`'\"()[]{}<>*,;:!?.=-"
"""Characters that may surround a word."""

# Comments stand outside the regexes, because parsing them takes a quarter of the compilation.
_WORD = re.compile(
    r"[A-Za-z](?:\+\+|#)(?!\w)"  # C++ or C#
    r"|[^\W_]++(?>(?:[_\-./:'’@\\]++[^\W_]++)*)"  # letters and digits, joined
)
"""A word as written. An identifier, a path, a dotted name, a version and `C++` are each one word.

The quantifiers are possessive (`++`) or in an atomic group, which makes indexing a quarter faster.
"""
_PIECE = re.compile(r"[^\W_]+")
"""A part of a word between the characters that join an identifier or a path."""
_CAMEL_PART = re.compile(
    r"[A-Z]+(?=[A-Z][a-z])"  # HTTP in HTTPServer
    r"|[A-Z]?[a-z]+"  # camel and Case in camelCase
    r"|[A-Z]+"
    r"|\d+"  # 2 in v2beta
    r"|[^\W\da-zA-Z_]+"  # letters of other scripts
)

_JOINERS = "_-./:'’@\\"
_ASCII_JOINERS = _JOINERS.encode("ascii", "ignore")
_REMOVE_JOINERS = str.maketrans("", "", _JOINERS)
_OUTSIDE_WORDS = b'!"$%&()*,;<=>?[]^`{|}~'  # ASCII characters that are in no word
_BLANK_OUTSIDE_WORDS = bytes.maketrans(_OUTSIDE_WORDS, b" " * len(_OUTSIDE_WORDS))
_BLANK_JOINERS = bytes.maketrans(_ASCII_JOINERS, b" " * len(_ASCII_JOINERS))
_REMOVE_ACCENTS = dict.fromkeys(range(0x300, 0x370))  # combining marks
_CJK_RANGES = (
    ("\u3040", "\u30ff"),  # Hiragana and Katakana
    ("\u3400", "\u4dbf"),  # CJK ideographs, extension A
    ("\u4e00", "\u9fff"),  # CJK ideographs
    ("\uac00", "\ud7af"),  # Hangul syllables
    ("\uf900", "\ufaff"),  # CJK compatibility ideographs
)

_MAX_CACHED_WORDS = 49_152  # about 10 MB of identifiers
_MAX_CACHED_CHUNKS = 87_000  # about 15 MB; Python's table for the chunks is full then
_MAX_CACHED_WORD_CHARACTERS = 100
_CACHED_STEMS = 16_384  # about 3 MB; most parts of new identifiers are known words
_term_cache: dict[str, tuple[str, ...]] = {}
_piece_cache: dict[str, tuple[str, ...]] = {}
_chunk_cache: dict[str, tuple[str, ...]] = {}


# --- words --------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """Lowercase text, and fold accents, width variants and the Greek final sigma."""
    if text.isascii():
        return text.lower()
    return unaccented(text).lower().replace("ς", "σ")


def unaccented(text: str) -> str:
    """Remove accents and width variants from text, but keep its case."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", normalize("NFKD", text).translate(_REMOVE_ACCENTS))


def split_words(text: str) -> list[str]:
    """Split text into words as written. An identifier, a path and `C++` are each one word."""
    return _WORD.findall(text)


def is_cjk(word: str) -> bool:
    """Return whether a word contains Chinese, Japanese or Korean characters."""
    return not word.isascii() and any(map(_is_cjk_character, word))


def _is_cjk_character(char: str) -> bool:
    return any(first <= char <= last for first, last in _CJK_RANGES)


def one_typo(left: str, right: str) -> bool:
    """Return whether two words differ by at most one typo.

    A typo is one letter added, left out, changed, or swapped with its neighbour.
    """
    start = 0
    shorter_length = min(len(left), len(right))
    while start < shorter_length and left[start] == right[start]:
        start += 1
    left_rest = left[start:]
    right_rest = right[start:]
    if len(left_rest) > len(right_rest):
        return left_rest[1:] == right_rest
    if len(left_rest) < len(right_rest):
        return left_rest == right_rest[1:]
    is_changed = left_rest[1:] == right_rest[1:]
    is_swapped = left_rest[:2] == right_rest[:2][::-1] and left_rest[2:] == right_rest[2:]
    return is_changed or is_swapped


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CACHED_CORRECTIONS = 16  # words; a search asks twice for the stems of one, which take 0.6 ms


@lru_cache(maxsize=_CACHED_CORRECTIONS)
def corrected_stems(word: str) -> frozenset[str]:
    """Return the stems of all words that differ from a lowercase English word by one typo.

    Stems differ by more than their words if the typo is next to an ending: `valdation` has the stem
    `valdat`, and `validation` has `valid`. The first letter is taken to be right.
    """
    corrected = set()
    for position in range(1, len(word) + 1):
        start = word[:position]
        rest = word[position:]
        corrected.add(start + rest[1:])
        if len(rest) > 1:
            corrected.add(start + rest[1] + rest[0] + rest[2:])
        for letter in _LETTERS:
            corrected.add(start + letter + rest)
            corrected.add(start + letter + rest[1:])
    corrected.discard(word)
    return frozenset(map(stem, corrected))


# --- terms --------------------------------------------------------------------------------------


class QueryWord:
    """One word of a query as it was written, and its search terms."""

    __slots__ = ("terms", "text")

    def __init__(self, text: str, terms: tuple[str, ...]) -> None:
        self.text = text
        self.terms = terms


def index_terms(text: str) -> str:
    """Return the terms that the full-text index stores for `text`, separated by spaces."""
    chunks = _split_at(unaccented(text), _BLANK_OUTSIDE_WORDS)
    return "".join(map(_joined_terms.__getitem__, chunks)).rstrip()


def _split_at(text: str, blanks: bytes) -> list[str]:
    """Split text at whitespace and at the ASCII characters that a table turns into blanks.

    This is faster than a regex, and `bytes.translate` is several times faster than `str.translate`.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    return encoded.translate(blanks).decode("utf-8", "surrogatepass").split()


class _JoinedTerms(dict[str, str]):
    """The terms of recent chunks of text, each followed by a space. A chunk is one or a few words.

    Looking up a chunk that is here calls no Python function. A full cache becomes the older one,
    from which chunks return when they are used again, so that frequent ones are always found.
    """

    def __init__(self) -> None:
        self._older: dict[str, str] = {}

    def __missing__(self, chunk: str) -> str:
        joined = self._older.pop(chunk, None)
        if joined is None:
            joined = " ".join((*_chunk_terms(chunk), ""))
        if len(chunk) <= _MAX_CACHED_WORD_CHARACTERS:
            if len(self) >= _MAX_CACHED_CHUNKS:
                self._older = dict(self)
                self.clear()
            self[chunk] = joined
        return joined


_joined_terms = _JoinedTerms()


def _chunk_terms(chunk: str) -> Iterable[str]:
    """Return the terms for a chunk of unaccented text. Most are one word of ASCII characters."""
    word = chunk.strip(_JOINERS)
    pieces = _split_at(word, _BLANK_JOINERS)
    characters = "".join(pieces)
    if not word.isascii() or not characters.isalnum() or "'" in word:
        terms: list[str] = []
        for other_word in split_words(chunk):
            terms += _compute_terms(other_word)
        return terms
    if len(pieces) > 1:
        return dict.fromkeys(_joined_pieces(pieces, characters))
    if word.isdigit():
        return (word,)
    return dict.fromkeys(_piece_cache.get(word) or _compute_piece_terms(word))


def query_terms(text: str) -> list[QueryWord]:
    """Return the distinct words in a query, each with its terms.

    Stop words are dropped unless nothing else is left.
    """
    unique: dict[tuple[str, ...], QueryWord] = {}
    for written, bare in _query_words(text[:LONGEST_QUERY]):
        terms = _without_code_letters(word_terms(bare))
        if terms:
            unique.setdefault(terms, QueryWord(written, terms))
    content = [word for word in unique.values() if word.text.lower() not in STOP_WORDS]
    return content or list(unique.values())


def _query_words(text: str) -> list[tuple[str, str]]:
    """Return the words in a query, each both as written and without accents.

    A word that contains CJK characters is split into runs of those characters and other words.
    """
    valid = text.encode("utf-8", "replace").decode("utf-8")  # without lone surrogates
    bare_words = split_words(unaccented(valid))
    written_words = bare_words if valid.isascii() else split_words(valid)
    if len(written_words) != len(bare_words):
        written_words = bare_words
    words = []
    for written, bare in zip(written_words, bare_words, strict=True):
        if is_cjk(bare):
            words += [(part, part) for part in _split_cjk(bare)]
        else:
            words.append((written, bare))
    return words


def _without_code_letters(terms: tuple[str, ...]) -> tuple[str, ...]:
    """Drop the letters of an error code such as TS2304, which mean nothing on their own."""
    if len(terms) != 3:
        return terms
    whole, letters, number = terms
    is_code = letters + number == whole and number.isdigit() and len(number) > 2
    if is_code:
        return whole, number
    return terms


def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms for one word.

    A plain word yields its stem, an identifier yields the whole and its parts, and CJK characters
    yield pairs.
    """
    terms = _term_cache.get(word)
    if terms is None:
        terms = _compute_terms(word)
        if len(word) <= _MAX_CACHED_WORD_CHARACTERS:
            _store(_term_cache, word, terms)
    return terms


def _store(cache: dict[str, tuple[str, ...]], key: str, terms: tuple[str, ...]) -> None:
    """Store terms in a cache. A full cache is emptied first."""
    if len(cache) >= _MAX_CACHED_WORDS:
        cache.clear()
    cache[key] = terms


def _compute_terms(word: str) -> tuple[str, ...]:
    if _is_plain(word):
        return (stem(word),)
    if word.endswith("++"):
        return (fold(word[0]) + "plusplus",)
    if word.endswith("#"):
        return (fold(word[0]) + "sharp",)
    if word.isascii() and "'" not in word:
        return tuple(dict.fromkeys(_identifier_terms(word)))
    bare = unaccented(word)
    if is_cjk(bare):
        terms = _cjk_terms(bare)
    else:
        terms = _identifier_terms(_without_quotes(bare))
    return tuple(dict.fromkeys(terms))


def _is_plain(word: str) -> bool:
    """Return whether a word consists only of lowercase ASCII letters."""
    return word.isascii() and word.isalpha() and word.islower()


def _identifier_terms(word: str) -> list[str]:
    """Return the terms for an identifier as a whole, for its pieces, and for their parts."""
    pieces = _PIECE.findall(word)
    return _joined_pieces(pieces, "".join(pieces))


def _joined_pieces(pieces: Sequence[str], whole: str) -> list[str]:
    """Return the terms for the pieces of an identifier, and for all of them as one word."""
    terms: list[str] = []
    for piece in pieces:
        # Most identifiers and paths in a log are new, but most of their pieces are not.
        terms += _piece_cache.get(piece) or _piece_terms(piece)
    if len(pieces) > 1:
        terms.append(fold(whole))
    return terms


def _piece_terms(piece: str) -> tuple[str, ...]:
    """Return the terms for a piece of an identifier, and store them in the cache."""
    terms = _compute_piece_terms(piece)
    if len(piece) <= _MAX_CACHED_WORD_CHARACTERS:
        _store(_piece_cache, piece, terms)
    return terms


def _compute_piece_terms(piece: str) -> tuple[str, ...]:
    """Return the terms for a piece of an identifier and for its parts."""
    forms = [piece]
    if not _is_plain(piece):
        parts = _CAMEL_PART.findall(piece)
        if len(parts) > 1:
            forms += parts
    terms: list[str] = []
    for form in forms:
        folded = fold(form)
        if folded.isascii() and folded.isalpha():
            terms.append(stem(folded))
        elif folded:
            terms.append(folded)
    return tuple(terms)


def _without_quotes(text: str) -> str:
    """Remove apostrophes, so that `don't` is one word and `user's` becomes `user`."""
    if "'" not in text and "’" not in text:
        return text
    kept = []
    before = ""
    for part in text.replace("’", "'").split("'"):
        is_s = part[:1] in ("s", "S") and not part[1:2].isalnum()
        is_possessive = is_s and before.isalnum() and not is_cjk(before)
        kept.append(part[1:] if is_possessive else part)
        before = part[-1:]
    return "".join(kept)


def _cjk_terms(word: str) -> list[str]:
    """Return each pair of adjacent CJK characters in a word, and the terms for its other parts."""
    terms: list[str] = []
    for part in _split_cjk(word):
        if not is_cjk(part[0]):
            terms += word_terms(part)
        elif len(part) == 1:
            terms.append(part)
        else:
            terms += [first + second for first, second in pairwise(part)]
    return terms


def _split_cjk(word: str) -> list[str]:
    """Split a word into runs of CJK characters and the words between them."""
    parts: list[str] = []
    start = 0
    while start < len(word):
        in_cjk = is_cjk(word[start])
        end = start + 1
        while end < len(word) and is_cjk(word[end]) == in_cjk:
            end += 1
        if in_cjk:
            parts.append(word[start:end])
        else:
            parts += split_words(word[start:end])
        start = end
    return parts


# --- matching -----------------------------------------------------------------------------------


class TermMatcher:
    """Finds terms in text without computing the terms of all its words.

    It finds exactly the terms that the index stores for the text, plus single CJK characters, which
    the index stores only in pairs. For speed, the text is first squeezed: it is lowercased, and the
    characters that join words are removed. Every term, except perhaps for its last letter, is a
    substring of the squeezed text, so only chunks that may contain the term need to be examined.
    """

    __slots__ = ("_chunks", "_squeezed")

    def __init__(self, text: str) -> None:
        self._chunks = unaccented(text).split()
        folded = fold(" ".join(self._chunks)).replace("++", "plusplus").replace("#", "sharp")
        self._squeezed = _squeeze(_without_quotes(folded))

    def contains(self, term: str) -> bool:
        """Return whether the text contains a term."""
        if term[:-1] not in self._squeezed:
            return False
        for _ in self.chunks_with(term):
            return True
        return False

    def chunks_with(self, term: str) -> Iterator[int]:
        """Yield the indices of the whitespace-separated chunks that contain a term."""
        if is_cjk(term[0]):
            for number, chunk in enumerate(self._chunks):
                if term in chunk:
                    yield number
            return
        for start in _starts(term):
            position = self._squeezed.find(start)
            while position >= 0:
                number = self._squeezed.count(" ", 0, position)
                if _chunk_has(self._chunks[number].strip(AROUND), term, start):
                    yield number
                end = self._squeezed.find(" ", position)
                if end < 0:
                    break
                position = self._squeezed.find(start, end)


def _squeeze(text: str) -> str:
    """Remove the characters that join words."""
    if text.isascii():
        # Several times faster than str.translate.
        return text.encode("ascii").translate(None, _ASCII_JOINERS).decode("ascii")
    return text.translate(_REMOVE_JOINERS)


def _chunk_has(chunk: str, term: str, start: str) -> bool:
    """Return whether a chunk contains a term. A word with this term begins with `start`."""
    if _is_plain(chunk):
        # A single word. Most begin differently, and so need no stemming.
        return chunk.startswith(start) and term in word_terms(chunk)
    # Paths and identifiers tend to be repeated, so their terms are cached.
    if chunk not in _chunk_cache:
        terms: list[str] = []
        for word in split_words(chunk):
            terms += word_terms(word)
        _store(_chunk_cache, chunk, tuple(terms))
    return term in _chunk_cache[chunk]


def _starts(term: str) -> tuple[str, ...]:
    """Return the possible beginnings of a word with this term.

    The word begins like the term, except for a last letter that stemming may have changed.
    """
    if term[-1] == "i":
        return term, term[:-1] + "y"
    is_changed = len(term) > 3 and (term[-1] == "e" or term.endswith("bl"))
    if is_changed:
        return (term[:-1],)
    return (term,)


# --- Porter's stemming algorithm (1980) ---------------------------------------------------------
# It is implemented here rather than left to SQLite, so that the index vocabulary has exactly the
# terms that queries search for. Document frequencies and nearest terms are then simple lookups.

_MAX_STEMMED_CHARACTERS = 64
_MIN_STEMMED_CHARACTERS = 3
_VOWEL = "v"
_CONSONANT = "c"
_LETTER_KINDS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "vcccvcccvcccccvcccccvcccyccccccccccccccccccccccccccc",
)
"""Whether each letter is a vowel or consonant. For `y`, that depends on the letter before it."""

# Endings and their replacements. A longer ending comes before any ending that is part of it.
_STEP_2 = {
    "ational": "ate",
    "ization": "ize",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "tional": "tion",
    "biliti": "ble",
    "entli": "ent",
    "ousli": "ous",
    "ation": "ate",
    "alism": "al",
    "aliti": "al",
    "iviti": "ive",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "logi": "log",
    "alli": "al",
    "ator": "ate",
    "bli": "ble",
    "eli": "e",
}
_STEP_3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ness": "",
    "ful": "",
}
_STEP_4 = dict.fromkeys(
    (
        "ement",
        "ance",
        "ence",
        "able",
        "ible",
        "ment",
        "ant",
        "ent",
        "ion",
        "ism",
        "ate",
        "iti",
        "ous",
        "ive",
        "ize",
        "al",
        "er",
        "ic",
        "ou",
    ),
    "",
)


def _by_last_letters(endings: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Group endings by their last two letters, which saves most comparisons."""
    table: dict[str, list[tuple[str, str]]] = {}
    for ending, replacement in endings.items():
        table.setdefault(ending[-2:], []).append((ending, replacement))
    return table


# Each step, with the number of vowel-consonant sequences that must remain before the ending.
_SUFFIX_STEPS = (
    (_by_last_letters(_STEP_2), 1),
    (_by_last_letters(_STEP_3), 1),
    (_by_last_letters(_STEP_4), 2),
)


def stem(word: str) -> str:
    """Return the stem of a lowercase English word. Anything else is returned unchanged."""
    if not _MIN_STEMMED_CHARACTERS <= len(word) <= _MAX_STEMMED_CHARACTERS:
        return word  # and do not cache it, because a word can be as long as a text
    return _stem(word)


@lru_cache(maxsize=_CACHED_STEMS)
def _stem(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    word = _strip_plural(word)
    if word[-1] in "dg":
        word = _strip_ed_ing(word)
    if word[-1] == "y" and _VOWEL in _letter_kinds(word[:-1]):
        word = word[:-1] + "i"
    for suffixes, min_measure in _SUFFIX_STEPS:
        word = _replace_suffix(word, suffixes, min_measure)
    word = _strip_e(word)
    if word.endswith("ll") and _measure(word) > 1:
        return word[:-1]
    return word


def _strip_plural(word: str) -> str:
    """Remove a plural ending (step 1a)."""
    if word[-1] != "s":
        return word
    if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
        return word[:-2]
    if word.endswith("ss"):
        return word
    return word[:-1]


def _strip_ed_ing(word: str) -> str:
    """Remove the ending `ed` or `ing` (step 1b)."""
    if word.endswith("eed") and len(word) > 3:
        if _measure(word[:-3]) > 0:
            return word[:-1]
        return word
    if word.endswith("ed"):
        base = word[:-2]
    elif word.endswith("ing"):
        base = word[:-3]
    else:
        return word
    if _VOWEL not in _letter_kinds(base):
        return word
    return _repair_base(base)


def _repair_base(base: str) -> str:
    """Restore the end of a word after `ed` or `ing` has been removed."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    has_double_end = len(base) > 1 and base[-1] == base[-2]
    if has_double_end and base[-1] not in "aeioulsz":
        return base[:-1]
    if _measure(base) == 1 and _ends_short(base):
        return base + "e"
    return base


def _replace_suffix(
    word: str, suffixes: Mapping[str, Sequence[tuple[str, str]]], min_measure: int
) -> str:
    """Replace the longest matching suffix if enough of the word remains (steps 2 to 4)."""
    for ending, replacement in suffixes.get(word[-2:], ()):
        if not word.endswith(ending):
            continue
        base = word[: -len(ending)]
        may_end = ending != "ion" or base.endswith(("s", "t"))
        if may_end and _measure(base) >= min_measure:
            return base + replacement
        return word
    return word


def _strip_e(word: str) -> str:
    """Remove a final `e` (step 5a)."""
    if word[-1] != "e":
        return word
    base = word[:-1]
    measure = _measure(base)
    if measure > 1 or (measure == 1 and not _ends_short(base)):
        return base
    return word


def _letter_kinds(word: str) -> str:
    """Return v for each vowel and c for each consonant. After a consonant, y is a vowel."""
    kinds = word.translate(_LETTER_KINDS)
    position = kinds.find("y")
    while position >= 0:
        follows_consonant = kinds[position - 1 : position] == _CONSONANT
        kind = _VOWEL if follows_consonant else _CONSONANT
        kinds = kinds[:position] + kind + kinds[position + 1 :]
        position = kinds.find("y")
    return kinds


def _measure(word: str) -> int:
    """Return the number of times that a vowel is followed by a consonant."""
    return _letter_kinds(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return whether a word ends in consonant, vowel, consonant other than w, x or y."""
    return _letter_kinds(word)[-3:] == "cvc" and word[-1] not in "wxy"
