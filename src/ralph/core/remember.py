"""Recognise a prompt with which a person asks Ralph to remember something.

The request is the first paragraph of the prompt, and it begins with a prefix such as `remember:`:

    remember: deploys go through `make ship`, never `git push heroku`

    Now fix the failing test.

Here the text to remember ends at the blank line. A prefix that ends with a colon or a comma is
unmistakable. After any other prefix, such as `remember that`, a question is not a request:
"Remember that script we wrote? Where is it?" Hooks load this module.
"""

from __future__ import annotations

from ralph.core.prompts import human_prompt
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REMEMBER_PREFIXES = (
    # English
    "remember:",
    "remember that",
    "remember this:",
    "please remember:",
    "please remember that",
    "please remember this:",
    "remember, please:",
    "remember please:",
    "always remember:",
    "always remember that",
    "keep in mind:",
    "keep in mind that",
    "please keep in mind:",
    "please keep in mind that",
    # German
    "merke:",
    "merken:",
    "bitte merken:",
    "merk dir:",
    "merke dir:",
    "merk dir bitte:",
    "merke dir bitte:",
    "bitte merk dir:",
    "bitte merke dir:",
    "merk dir mal:",
    "merk dir das:",
    "merkt euch:",
    "merken sie sich:",
    "merken sie sich bitte:",
    "bitte merken sie sich:",
    "merk dir, dass",
    "merke dir, dass",
    "merk dir dass",
    "merke dir dass",
    "merk dir bitte, dass",
    "merk dir bitte dass",
    "merke dir bitte, dass",
    "bitte merk dir, dass",
    "bitte merke dir, dass",
    "merken sie sich bitte, dass",
    "bitte merken sie sich, dass",
    "denk daran:",
    "denk dran:",
    "denk daran, dass",
    "denk dran, dass",
    "denke daran, dass",
    "denk bitte daran, dass",
    "bitte denk daran, dass",
    "erinnere dich daran, dass",
    "erinnere dich:",
    "vergiss nicht:",
    "vergiss nicht, dass",
    # Spanish
    "recuerda:",
    "recuerda que",
    "recuerda esto:",
    "recuerda por favor:",
    "recuerda por favor que",
    "recuerda, por favor, que",
    "recuerda, por favor:",
    "por favor recuerda:",
    "por favor, recuerda:",
    "por favor recuerda que",
    "por favor, recuerda que",
    "recuerde:",
    "recuerde que",
    "recordad:",
    "recordad que",
    "recordá:",
    "recordá que",
    "recuerden:",
    "recuerden que",
    "acuérdate:",
    "acuérdate de que",
    "acuérdate que",
    "acordate:",
    "acordate de que",
    "acordate que",
    "memoriza:",
    "memoriza que",
    "ten en cuenta:",
    "ten en cuenta que",
    "no olvides:",
    "no olvides que",
    # French
    "retiens:",
    "retiens que",
    "retiens qu'",
    "retiens bien:",
    "retiens bien que",
    "retiens ceci:",
    "retiens stp:",
    "retiens s'il te plaît:",
    "retiens s'il te plaît que",
    "retiens s'il te plaît qu'",
    "retiens stp que",
    "s'il te plaît, retiens:",
    "s'il te plaît retiens:",
    "s'il te plaît, retiens que",
    "s'il te plaît, retiens qu'",
    "stp retiens:",
    "stp retiens que",
    "retenez:",
    "retenez que",
    "retenez qu'",
    "veuillez retenir:",
    "veuillez retenir que",
    "veuillez retenir qu'",
    "à retenir:",
    "souviens-toi:",
    "souviens-toi que",
    "souviens-toi qu'",
    "souviens toi que",
    "souviens toi qu'",
    "souvenez-vous:",
    "souvenez-vous que",
    "rappelle-toi:",
    "rappelle-toi que",
    "rappelle-toi qu'",
    "rappelle toi que",
    "rappelle-toi bien que",
    "rappelez-vous:",
    "rappelez-vous que",
    "mémorise:",
    "mémorise que",
    "mémorisez:",
    "n'oublie pas:",
    "n'oublie pas que",
    "n'oublie pas qu'",
    # Korean
    "기억:",
    "기억해:",
    "기억해라:",
    "기억해줘:",
    "기억해 줘:",
    "기억해줘요:",
    "기억해 줘요:",
    "기억해주세요:",
    "기억해 주세요:",
    "기억하세요:",
    "기억하십시오:",
    "기억해둬:",
    "기억해 둬:",
    "기억해두세요:",
    "기억해 두세요:",
    "기억해 놔:",
    "기억해놔:",
    "기억해 놓아:",
    "꼭 기억해:",
    "꼭 기억해줘:",
    "꼭 기억해 줘:",
    "꼭 기억해주세요:",
    "이거 기억해:",
    "이거 기억해줘:",
    "이것 기억해:",
    "이것 기억해줘:",
    # Japanese
    "覚えて:",
    "覚えてね:",
    "覚えてください:",
    "覚えて下さい:",
    "覚えておいて:",
    "覚えておいてね:",
    "覚えておいてください:",
    "覚えておいて下さい:",
    "覚えといて:",
    "覚えといてね:",
    "必ず覚えて:",
    "必ず覚えておいて:",
    "これを覚えて:",
    "これを覚えておいて:",
    "これ覚えておいて:",
    "これ覚えといて:",
    "記憶して:",
    "記憶してください:",
    "記憶しておいて:",
    "記憶しておいてください:",
    "メモして:",
    "メモしておいて:",
    # Chinese
    "记住:",
    "记住,",
    "记住了:",
    "请记住:",
    "请记住,",
    "请你记住:",
    "请你记住,",
    "帮我记住:",
    "帮我记住,",
    "务必记住:",
    "务必记住,",
    "一定要记住:",
    "一定记住:",
    "要记住:",
    "牢记:",
    "请牢记:",
    "记一下:",
    "帮我记一下:",
    "请记一下:",
    "记下来:",
    "記住:",
    "記住,",
    "請記住:",
    "請記住,",
    "幫我記住:",
    "記一下:",
)
"""Ways to begin a request, in lowercase. A colon also stands for `：`, ` :` and `!:`."""
COMMAND = "mem-add"
_COMMANDS = (f"/{COMMAND}", f"/ralph:{COMMAND}", f"/prompts:{COMMAND}", f"${COMMAND}")
_FORGET = "forget that"
_WIDE_PUNCTUATION = str.maketrans("：，！’", ":,!'")
_UNMISTAKABLE_ENDS = (":", ",")
_WORD_ENDS = (*_UNMISTAKABLE_ENDS, "'")
_SENTENCE_ENDS = ".!?"  # before a space, unlike the dot in `v1.2`
_WIDE_SENTENCE_ENDS = "。！？"
_QUESTION_MARKS = "?？"
_EXCLAMATION_MARKS = "!！"
_QUOTE_MARKS = ("```", "~~~", ">")


def text_to_remember(prompt: str, prefixes: Sequence[str] = ()) -> str:
    """Return what a prompt asks to remember, or "" if it asks for nothing.

    `prefixes` replaces the default prefixes if it is not empty. Commands such as `/mem-add` always
    count.
    """
    prompt = human_prompt(prompt).replace("\r\n", "\n").replace("\r", "\n")
    first_line = prompt.partition("\n")[0]
    command = first_line.partition(" ")[0].partition("\t")[0]
    if command in _COMMANDS:
        return _first_paragraph(prompt[len(command) :])
    custom_prefixes = [prefix.strip().translate(_WIDE_PUNCTUATION) for prefix in prefixes]
    for prefix in custom_prefixes or REMEMBER_PREFIXES:
        length = _matching_length(first_line, prefix)
        if length:
            text = _first_paragraph(prompt[length:])
            if prefix.endswith(_UNMISTAKABLE_ENDS) or not _is_question(text):
                return text
    return ""


def asks_to_forget(prompt: str) -> bool:
    """Check whether the whole prompt is `forget that`."""
    words = human_prompt(prompt).rstrip(".!").lower().split()
    return words == _FORGET.split()


def _matching_length(line: str, prefix: str) -> int:
    """Return how many characters of a line match a prefix, or 0 if it does not match.

    Case, the width of punctuation and the number of spaces do not matter. A colon or comma may
    follow a space, as in French, or an exclamation mark. No space is needed after it, as in
    Chinese.
    """
    position = 0
    previous = ""
    for character in prefix:
        if character.isspace():
            after_spaces = _skip_spaces(line, position)
            if after_spaces == position and previous not in _UNMISTAKABLE_ENDS:
                return 0
            position = after_spaces
        else:
            if character in _UNMISTAKABLE_ENDS:
                position = _skip_spaces(line, position, also=_EXCLAMATION_MARKS)
            found = line[position : position + 1].translate(_WIDE_PUNCTUATION)
            if found.lower() != character.lower():
                return 0
            position += 1
        previous = character
    following = line[position : position + 1]
    if previous in _WORD_ENDS or following.isspace():
        return position
    return 0


def _skip_spaces(line: str, position: int, also: str = "") -> int:
    while position < len(line) and (line[position].isspace() or line[position] in also):
        position += 1
    return position


def _first_paragraph(text: str) -> str:
    """Return the lines up to the first blank line, and without fences and quotes."""
    lines = []
    for line in text.strip().split("\n"):
        line = line.strip()
        if not line or line.startswith(_QUOTE_MARKS):
            break
        lines.append(line)
    return "\n".join(lines)


def _is_question(text: str) -> bool:
    """Check whether the first sentence of a text ends with a question mark."""
    for position, character in enumerate(text):
        following = text[position + 1 : position + 2]
        is_end = character in _SENTENCE_ENDS and (not following or following.isspace())
        if is_end or character in _WIDE_SENTENCE_ENDS:
            return character in _QUESTION_MARKS
    return False
