"""Detect prompt injection: whether a text gives instructions to the agent that reads it.

Words belong to classes. A rule finds classes close to each other and gives points to a feature: concealment, forged
approval, theft and so on. Neighbouring sentences with enough points are an injection: an honest note has one of these
features, rarely several. A harm counts in full only where the sentence asks for it. Hidden and encoded text is
unfolded first. Hooks load this: no regex.
"""

from ralph.context.injection_rules import (
    CLASSES,
    ENGLISH,
    FOREIGN,
    HARMS,
    MEMORY_FILES,
    PARTS,
    RULES,
    SECRET_FILES,
    SUBJECT,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")

_LIMIT = 3  # points of an injection
_NEARBY = 3  # sentences whose points are added
_REPORTED = 2  # points at most of a harm that a sentence only describes
_EXAMPLES = 5  # lines about prompt injection and after them, in which quotes are examples
_REACH = {"~": 2, "+": 1}

_BITS = {name: 1 << index for index, name in enumerate(CLASSES)}
_VERBS = sum(_BITS[name] for name in "act send void destroy weaken bend replicate fetch give".split())
_NEGATION = _BITS["not"] | _BITS["unlike"]
_WORDS: dict[str, int] = {}
_STEMS: dict[str, list[tuple[str, int]]] = {}  # by their first four letters
_PHRASES: dict[str, dict[str, list[tuple[list[str], int]]]] = {}  # the words, by the first and by the second one
for _name, _entries in CLASSES.items():
    _bit = _BITS[_name]
    for _entry in _entries.split():
        if "_" in _entry:
            _first, _second, *_others = _entry.split("_")
            if _second == "~" or _second[-1] == "*":
                _second, _others = "", [_second, *_others]
            _PHRASES.setdefault(_first, {}).setdefault(_second, []).append((_others, _bit))
        elif _entry[-1] == "*":
            _STEMS.setdefault(_entry[:4], []).append((_entry[:-1], _bit))
        else:
            _WORDS[_entry] = _WORDS.get(_entry, 0) | _bit
_FOREIGN = [
    (entry.replace("_", " "), sum(_BITS[name] for name in names.split()))
    for names, entries in FOREIGN.items()
    for entry in entries.split()
]
_LATIN: dict[str, list[tuple[str, int]]] = {}  # by their first three characters
for _part, _bit in _FOREIGN:
    if max(_part) < "\u0250":
        _LATIN.setdefault(_part[:3], []).append((_part, _bit))
_WRITTEN: dict[str, list[tuple[str, int]]] = {}  # by a character that they have, one of few if possible
for _name, _entries in PARTS.items():
    for _part in _entries.split(";"):
        _mark = next((char for char in '|<[$`"(=*-_:./' if char in _part), "")
        _WRITTEN.setdefault(_mark, []).append((_part, _WORDS[_name]))

_Step = tuple[int, int, bool]  # the classes, how far behind the step before, and whether a negation excludes it


def _parse_step(text: str) -> _Step:
    classes = 0
    for name in text.lstrip("!~+").split("|"):
        classes |= _BITS[name]
    return classes, _REACH.get(text[0], 6), text[0] == "!"


_Rule = tuple[str, int, list[int], list[list[_Step]]]  # feature, points, all its classes, sequences of steps


def _parse_rule(feature: str, rule: str) -> _Rule:
    points, text = rule.split(" ", 1)
    sequences = [[_parse_step(step) for step in part.split()] for part in text.split(" & ")]
    return feature, int(points), [step[0] for steps in sequences for step in steps], sequences


_PARSED = [_parse_rule(feature, rule) for feature, rules in RULES.items() for rule in rules.split("; ")]
_CACHE_SIZE = 20_000
_possible: dict[int, list[_Rule]] = {}  # the rules whose classes a sentence has, by its classes
_bits_of: dict[str, int] = {}  # the classes of a word by itself
_STARTS = frozenset("^ : ( and then please always just also to quietly simply automatically".split())
_EDGES = "(),.;:<>\"'`[]!?*{}"
_PUNCTUATION = {ord(char): " " for char in '"#$%&*+-./<=>?@[\\]^`{|}~“”…·—–「」（）。！？；•×'}
_PUNCTUATION.update({ord(char): " : " for char in ",:;!，：、→"})
_PUNCTUATION.update({ord(char): " ( " for char in "()"})
_PUNCTUATION[ord("'")] = ""
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_DIGITS = str.maketrans("013457@$", "oieastas")
_BLOB_LENGTH = 16
_TOP_DOMAINS = frozenset("com net org io example xyz info".split())


def is_injection(text: str) -> bool:
    """Whether a text speaks to the agent that reads it instead of informing it."""
    if not text.isascii():
        text, is_hidden = _unfold(text)
        if is_hidden:
            return True
    if "\x1b[8m" in text or _is_spaced_out(text):
        return True
    return any(_points(variant) >= _LIMIT for variant in _variants(text))


# --- hidden and encoded text -------------------------------------------------------------------


def _unfold(text: str) -> "tuple[str, bool]":
    """Return a text in plain letters, and whether characters were used to hide it."""
    import unicodedata  # few texts need it

    hidden = styled = 0
    kept: list[str] = []
    for char in text:
        code = ord(char)
        if code < 0x80:
            kept.append(char)
        elif code in (0xAD, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF):
            hidden += bool(kept) and kept[-1].isascii() and kept[-1].isalpha()
        elif 0x334 <= code <= 0x338 or 0xE0000 <= code <= 0xE01EF:  # struck out, tags and variation selectors
            hidden += 1
        elif 0x202A <= code <= 0x202E:  # the direction of writing
            hidden += 2
        else:
            styled += 0x1D400 <= code <= 0x1D7FF or 0x24B6 <= code <= 0x24E9 or 0x1F130 <= code <= 0x1F189
            styled += 0x1D00 <= code <= 0x1D2B or 0xFF21 <= code <= 0xFF5A or char in "ɪʀɴʙɢʜʟʏꜰꜱ"
            kept.append(char)
    text = unicodedata.normalize("NFKC", "".join(kept))
    mixed = sum(
        any("\u0370" <= char <= "\u052f" for char in word) and any("a" <= char <= "z" for char in word.lower())
        for word in text.split()
        if not word.isascii()
    )
    return text, hidden >= 2 or styled >= 6 or mixed >= 2


def _is_spaced_out(text: str) -> bool:
    """Whether there is a word whose letters are separated, `i g n o r e`."""
    run = 0
    for word in text.replace("-", " ").replace(".", " ").split():
        run = run + 1 if len(word) == 1 and word.isalpha() else 0
        if run >= 8:
            return True
    return False


def _variants(text: str) -> "list[str]":
    """Return the text in lower case, and what it hides: base64, hex, rot13, reversed, digits for letters."""
    if text.count("&#") > 3:
        text = _decode_entities(text)
    lines = text.replace("&lt;", "<").replace("’", "'").split("\n")
    joined = lines[:1]
    for line in lines[1:]:
        if line[:1].islower() and joined[-1][-1:].isalpha():  # a wrapped line
            joined[-1] += " " + line
        else:
            joined.append(line)
    lower = "\n".join(joined).lower()
    variants = [lower]
    if "rot13" in lower or ("rot" in lower and "decod" in lower):
        variants.append(lower.translate(_ROT13))
    if "revers" in lower or "backward" in lower or "right to left" in lower:
        variants.append(lower[::-1])
    words = lower.split()
    if sum(word.isalnum() and not word.isalpha() and not word.isdigit() and len(word) > 2 for word in words) > 2:
        variants.append(lower.translate(_DIGITS))
    if "\\x" in lower:
        variants.append(_decode(lower.replace("\\x", "").replace(" ", "")))
    if len(max(words, key=len, default="")) >= _BLOB_LENGTH:
        for char in "'\"()`":
            text = text.replace(char, " ")
        blobs = (_decode(word) for word in text.split() if len(word) >= _BLOB_LENGTH and word.isascii())
        variants += [f"decoded : {plain}" for plain in blobs if plain]
    return variants


def _decode_entities(text: str) -> str:
    """Replace numeric HTML entities, `&#105;` or `&#x69;`, by the ASCII characters that they name."""
    first, *pieces = text.split("&#")
    for piece in pieces:
        number, _, rest = piece.partition(";")
        try:
            code = int(number[1:], 16) if number[:1] in "xX" else int(number)
        except ValueError:
            code = 0
        first += chr(code) + rest if 31 < code < 127 else "&#" + piece
    return first


def _decode(word: str) -> str:
    """Return the text in hex or base64, "" if it is none."""
    import binascii

    try:
        try:
            data = bytes.fromhex(word)
        except ValueError:
            if not word.replace("+", "").replace("/", "").rstrip("=").isalnum():
                return ""
            data = binascii.a2b_base64(word + "=" * (-len(word) % 4))
        plain = data.decode("ascii")
    except ValueError:
        return ""
    return plain.lower() if " " in plain and plain.isprintable() else ""


# --- points ------------------------------------------------------------------------------------


def _points(text: str) -> int:
    """Return the most points that neighbouring sentences of a text in lower case have together."""
    if any(word in text for word in SUBJECT):
        text = _without_examples(text.split("\n"))
    if "'" in text:
        text = f" {text}".replace("'s ", " ").replace(" l'", " l ").replace(" d'", " d ").replace(" n'", " ne ")
    text = text.replace("--force-with-lease", "lease")
    for end in (". ", "! ", "? ", "。", "！", "？"):
        if end in text:
            text = text.replace(end, end + "\n")
    written = written_parts(text)
    secrets = [part for part in SECRET_FILES if part in text]
    sentences = [sentence for sentence in text.split("\n") if sentence and not sentence.isspace()]
    features = [_features(sentence, written, secrets) for sentence in sentences]
    most = 0
    for index, first in enumerate(features):
        total = dict(first)
        for other in features[index + 1 : index + _NEARBY]:
            for feature, points in other.items():
                total[feature] = max(points, total.get(feature, 0))
        most = max(most, _sum_points(total))
    return most


def _without_examples(lines: "list[str]") -> str:
    """Return a text without what is quoted in lines about prompt injection and soon after them."""
    remaining = 0
    for index, line in enumerate(lines):
        if any(word in line for word in SUBJECT):
            remaining = _EXAMPLES
        if remaining:
            remaining -= 1
            for quote in "\"`'":
                pieces = line.replace("n't", "nt").replace("'s ", " ").split(quote)
                if len(pieces) > 2:
                    line = " quoted ".join(pieces[::2])
            lines[index] = line
    return "\n".join(lines)


def _sum_points(features: "dict[str, int]") -> int:
    """Return the points of features together; several harmful ones add one point to the worst of them."""
    harms = [points for feature, points in features.items() if feature in HARMS]
    return sum(features.values()) - sum(harms) + max(harms, default=0) + (len(harms) > 1)


def _features(sentence: str, written: "list[tuple[str, int]]", secrets: "list[str]") -> "dict[str, int]":
    """Return the features of a sentence with their points."""
    words = _split_words(sentence, secrets)
    classes = _classes(words)
    for part, bits in written:
        if part in sentence:
            classes[min(sentence.count(" ", 0, sentence.find(part)) + 1, len(classes) - 1)] |= bits
    is_ordered = True
    if ENGLISH.isdisjoint(words) and (len(words) > 5 or not sentence.isascii()):
        foreign = foreign_classes(f" {' '.join(words[1:])} ", is_latin=max(sentence) < "\u0250")
        if len(foreign) > sentence.isascii():
            is_ordered = False
            classes += foreign
    union = 0
    for bits in classes:
        union |= bits
    is_negated = not is_ordered and bool(union & (_NEGATION | _BITS["never"]))
    features: dict[str, int] = {}
    for feature, points, _, sequences in possible_rules(union) if union else ():
        if points > features.get(feature, 0) and (
            all(_has_sequence(steps, 0, classes, 0, len(classes)) for steps in sequences)
            if is_ordered
            else not (is_negated and feature in HARMS)
        ):
            features[feature] = points
    if not features.pop("order", 0) and is_ordered:
        for feature in HARMS & features.keys():
            features[feature] = min(features[feature], _REPORTED)
    return {} if features.keys() == {"context"} else features


def possible_rules(union: int) -> "list[_Rule]":
    """Return the rules that find at least one of each of their classes among those of a sentence."""
    rules = _possible.get(union)
    if rules is None:
        rules = [rule for rule in _PARSED if all(union & bits for bits in rule[2])]
        _remember(_possible, union, rules)
    return rules


def written_parts(text: str) -> "list[tuple[str, int]]":
    """Return the PARTS that a text has, with their classes; most texts lack the characters of most of them."""
    return [entry for mark, entries in _WRITTEN.items() if mark in text for entry in entries if entry[0] in text]


def foreign_classes(spaced: str, *, is_latin: bool) -> "list[int]":
    """Return the classes of all FOREIGN parts of words that a sentence has."""
    if not is_latin:
        return [bits for part, bits in _FOREIGN if part in spaced]
    beginnings = _LATIN.keys() & {spaced[at : at + 3] for at in range(len(spaced) - 2)}
    return [bits for start in beginnings for part, bits in _LATIN[start] if part in spaced]


def _remember(cache: "dict[Key, Value]", key: "Key", value: "Value") -> None:
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
    cache[key] = value


def _split_words(sentence: str, secrets: "list[str]") -> "list[str]":
    """Return the words of a sentence, with tokens for addresses and for files with secrets; `^` is its beginning."""
    words = ["^"]
    for raw in sentence.split():
        if raw.isalpha():
            words.append(raw)
            continue
        core = raw.strip(_EDGES)
        if core[-2:] == "'s":
            raw = raw.replace("'s", "")
            core = core[:-2]
        user, _, host = core.rpartition("@")
        if "://" in raw or _is_host(core) or (user and "." in host and host.rpartition(".")[2][:3].isalpha()):
            words.append("path" if "localhost" in raw or "127.0.0.1" in raw else "§url")
        elif (core == "env" and "`" in raw) or (any(part in raw for part in secrets) and ".example" not in core):
            words.append("§secret")
        elif core.startswith("~/"):
            words.append("§home")
        elif core.endswith(MEMORY_FILES):
            words.append("§memory")
        elif "." in core or ("/" in core and (core.count("/") > 1 or "_" in core or core[0] == "/")):
            words.append("path")
        else:
            words.extend(raw.translate(_PUNCTUATION).split())
            continue
        if raw[-1] in ",:":
            words.append(":")
    return words


def _is_host(word: str) -> bool:
    """Whether a word without a scheme is an address, `files.company.com/upload`."""
    host, _, path = word.partition("/")
    name, _, top = host.rpartition(".")
    return top in _TOP_DOMAINS and bool(path or "." in name) and name.replace(".", "").replace("-", "").isalnum()


def _classes(words: "list[str]") -> "list[int]":
    """Return the classes of each word; a phrase counts for its first word."""
    result = []
    for index, word in enumerate(words):
        found = _bits_of.get(word)
        bits = _word_classes(word) if found is None else found
        phrases = _PHRASES.get(word)
        if phrases:
            for rest, bit in phrases.get("", ()):
                if not bits & bit and _has_phrase(words, index + 1, rest):
                    bits |= bit
            for rest, bit in phrases.get(words[index + 1] if index + 1 < len(words) else "", ()):
                if not bits & bit and (not rest or _has_phrase(words, index + 2, rest)):
                    bits |= bit
        if bits & _VERBS and index and words[index - 1] in _STARTS:
            bits |= _BITS["do"]
        if bits & _BITS["tome"]:
            bits &= ~_BITS["tell"]
        result.append(bits)
    return result


def _word_classes(word: str) -> int:
    bits = _WORDS.get(word, 0)
    for stem, bit in _STEMS.get(word[:4], ()):
        if word.startswith(stem):
            bits |= bit
    _remember(_bits_of, word, bits)
    return bits


def _has_phrase(words: "list[str]", at: int, rest: "list[str]") -> bool:
    """Whether the rest of a phrase begins at a word."""
    gap = 0
    for part in rest:
        if part == "~":
            gap = 3
            continue
        for index in range(at, min(at + gap + 1, len(words))):
            if words[index] == part or (part[-1] == "*" and words[index].startswith(part[:-1])):
                at, gap = index + 1, 0
                break
        else:
            return False
    return True


def _has_sequence(steps: "list[_Step]", index: int, classes: "list[int]", low: int, high: int) -> bool:
    """Whether the steps from an index on are found, the first one at a word from `low` on and before `high`."""
    wanted, _, is_plain = steps[index]
    for at in range(low, min(high, len(classes))):
        if not classes[at] & wanted:
            continue
        if is_plain and (
            any(bits & _BITS["protect"] for bits in classes[:at])
            or any(bits & _NEGATION for bits in classes[max(0, at - 4) : at])
            or any(bits & _BITS["banned"] for bits in classes[at : at + 6])
        ):
            continue
        if index + 1 == len(steps) or _has_sequence(steps, index + 1, classes, at + 1, at + 1 + steps[index + 1][1]):
            return True
    return False
