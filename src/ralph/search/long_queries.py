"""Find the question and the topic of a long query, such as an issue or a prompt with a pasted log.

The *topic* of a long text is what it repeats: `count_terms` counts its informative terms, and
`candidates.select_candidates` searches for the ones that are frequent in the text and rare in the
index. Whether a record answers the query is judged by the *question* in it.

To find the question, the text is split into paragraphs. A paragraph is *written* by a person or
*printed* by a tool. Only the first and the last written paragraph and the last printed error are
used, because the question is usually in one of them. For example, from

    After the upgrade the login page no longer loads.

    Traceback (most recent call last):
      File "app.py", line 3, in load
    ConnectionError: pool timeout in session store

    How do I fix the session store?

the two sentences are the written paragraphs, and the line with `ConnectionError` is the error.
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_END_CHARACTERS = 400  # kept from the end of a text that is too long for a query
_MAX_PARAGRAPH_CHARACTERS = 800  # a longer paragraph is split into lines
_LONG_PARAGRAPH_START = 400  # characters used of a line that is longer than that
_MIN_PRINTED_LINES = 3  # a tool may have printed a paragraph with at least this many lines
_MIN_PLAIN_SHARE = 0.7  # share of plain words above which a line is a sentence
_MAX_ERROR_LINES = 3
_MAX_ERROR_LINE_CHARACTERS = 160
_MIN_ERROR_WORDS = 3  # informative words that an error must have
_MAX_IDENTIFIERS = 8  # identifiers that are used if nobody wrote a question
_MIN_IDENTIFIER_LETTERS = 3
_EXIT_CODE = "exit code"  # in lines that give the number of an error, not its name


def split_paragraphs(text: str) -> tuple[list[list[terms.QueryWord]], list[terms.QueryWord]]:
    """Return the informative words of one or two written paragraphs, and of the last error.

    If nobody wrote a question, there is one paragraph with words from the printed lines. The list
    of error words may be empty.
    """
    text = _shorten(text)
    written, printed = _split_written(text)
    errors = _error_lines(printed)
    first = _first_question(written)
    if not first:
        return [_words_without_question(written, printed, errors) or terms.query_terms(text)], []
    paragraphs = [first]
    last = _first_question(reversed(written))
    if last[0].terms != first[0].terms:
        paragraphs.append(last)
    error_words: list[terms.QueryWord] = []
    if errors:
        error_words = _informative_words(errors[-1])
    if len(error_words) < _MIN_ERROR_WORDS:
        error_words = []
    return paragraphs, error_words


def count_terms(text: str, max_words: int) -> dict[str, int]:
    """Count how often the informative terms of a long text occur.

    Only the words that occur most often are counted, because reducing a word to terms takes time.
    Of words that occur equally often, the longer ones are likely to say more.
    """
    repetitions: dict[str, int] = {}
    for word in terms.split_words(terms.unaccented(_shorten(text))):
        repetitions[word] = repetitions.get(word, 0) + 1
    informative = []
    for word in repetitions:
        lowered = word.lower()
        if lowered not in terms.STOP_WORDS and lowered not in terms.EVERYDAY_WORDS:
            informative.append(word)
    informative.sort(key=lambda word: (-repetitions[word], -len(word)))
    counts: dict[str, int] = {}
    for word in informative[:max_words]:
        for term in terms.word_terms(word):
            counts[term] = counts.get(term, 0) + repetitions[word]
    return counts


def _shorten(text: str) -> str:
    """Remove the middle of a text that is too long for a query."""
    if len(text) <= terms.LONGEST_QUERY:
        return text
    start = text[: terms.LONGEST_QUERY - _END_CHARACTERS]
    # The first line of the end is probably incomplete.
    _, _, end = text[-_END_CHARACTERS:].partition("\n")
    return f"{start}\n\n{end}"


def _split_written(text: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs that a person wrote, and the lines that a tool printed."""
    written: list[str] = []
    printed: list[str] = []
    blocks = text.split("```")
    inside_fences = blocks[1::2]
    outside_fences = blocks[::2]
    for block in inside_fences:
        printed += block.split("\n")
    for block in outside_fences:
        for part in block.split("\n\n"):
            paragraph = part.strip("\n")
            lines = paragraph.split("\n")
            if len(lines) >= _MIN_PRINTED_LINES and not all(map(_is_sentence, lines)):
                printed += lines
            elif len(paragraph) <= _MAX_PARAGRAPH_CHARACTERS:
                written.append(paragraph)
            else:
                written += lines
    return written, printed


def _is_sentence(line: str) -> bool:
    """Return whether a line looks written by a person: not indented, and mostly plain words."""
    words = [word.strip(terms.AROUND) for word in line.split()]
    plain_words = sum(map(str.isalpha, words))
    is_indented = not line[:1].strip()
    return not is_indented and plain_words > _MIN_PLAIN_SHARE * len(words)


def _error_lines(printed: Iterable[str]) -> list[str]:
    """Return the last few distinct lines that mention an error, each cut to a maximum length."""
    lines = []
    for line in dict.fromkeys(printed):
        lowered = line.lower()
        if "error" in lowered and _EXIT_CODE not in lowered:
            lines.append(line[:_MAX_ERROR_LINE_CHARACTERS])
    return lines[-_MAX_ERROR_LINES:]


def _first_question(paragraphs: Iterable[str]) -> list[terms.QueryWord]:
    """Return the informative words in the first paragraph that has more than one term."""
    for paragraph in paragraphs:
        if len(paragraph) > _MAX_PARAGRAPH_CHARACTERS:
            paragraph = paragraph[:_LONG_PARAGRAPH_START]
        words = _informative_words(paragraph)
        if sum(len(word.terms) for word in words) > 1:
            return words
    return []


def _words_without_question(
    written: Sequence[str], printed: Sequence[str], errors: Sequence[str]
) -> list[terms.QueryWord]:
    """Return the informative words of a text that contains no question.

    They come from the few words that a person wrote, the first printed line, the first identifiers
    and the error lines.
    """
    words = dict.fromkeys(" ".join([*errors, *printed]).split())
    identifiers = [word for word in words if _is_identifier(word)]
    parts = [*written, *printed[:1], *identifiers[:_MAX_IDENTIFIERS], *errors]
    return _informative_words("\n".join(parts))


def _informative_words(text: str) -> list[terms.QueryWord]:
    words = []
    for word in terms.query_terms(text):
        if word.text.lower() not in terms.EVERYDAY_WORDS:
            words.append(word)
    return words


def _is_identifier(word: str) -> bool:
    """Return whether a word has several parts, as in `snake_case`, `a.b` or `camelCase`."""
    word = word.strip(terms.AROUND)
    if sum(map(str.isalpha, word)) < _MIN_IDENTIFIER_LETTERS:
        return False
    inner = word[1:-1]
    is_joined = "_" in inner or "." in inner or "/" in inner
    is_camel_case = any(map(str.isupper, inner)) and not word.isupper()
    return is_joined or is_camel_case
